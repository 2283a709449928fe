//! Macros for builder methods that differ only in names and types.

/// Writes the methods of a builder that set a field: `name: Type;`, or `name: Type as Some;` for a
/// field that is an option.
macro_rules! setters {
    ($($(#[doc = $about:literal])+ $field:ident: $ty:ty $(as $some:path)?;)+) => { $(
        $(#[doc = $about])+
        #[must_use]
        pub fn $field(self, $field: $ty) -> Self {
            Self { $field: $($some)?($field), ..self }
        }
    )+ };
}
pub(crate) use setters;

/// Writes `run` and `run_on` of a builder, from the documentation of `run`, its results, and the
/// [`TypedCall`](moye_runtime::operation::TypedCall) on a stream. Only `run_on` has the results
/// after a semicolon, which are documented before them; `run` passes `None`.
macro_rules! runs {
    (@none $more:ident) => { None };
    (
        $(#[doc = $about:literal])+
        fn $run:ident, $run_on:ident $(<$generic:ident: $bound:ident>)? (
            $self:ident, $stream:ident, $($result:ident: $ty:ty),+
            $(; $(#[doc = $of_more:literal])+ $($more:ident: $of:ty),+)?
        ) $call:block
    ) => {
        $(#[doc = $about])+
        ///
        /// # Errors
        /// [`moye_runtime::Error::ShapeMismatch`] if shapes or element types do not match,
        /// [`moye_runtime::Error::Unsupported`] if no kernel takes the element type, the length of
        /// the rows or an option, and the errors of [`moye_runtime::Device::launch`].
        pub fn $run $(<$generic: $bound>)? (&$self, device: &moye_runtime::Device, $($result: $ty),+) -> moye_runtime::Result<()> {
            // SAFETY: the default stream runs its work in order.
            unsafe { $self.$run_on(&device.default_stream(), $($result),+ $($(, $crate::builder::runs!(@none $more))+)?) }
        }

        #[doc = concat!("[`", stringify!($run), "`](Self::", stringify!($run), ") on a stream.")]
        $($(#[doc = $of_more])+)?
        ///
        /// # Errors
        #[doc = concat!("Same as [`", stringify!($run), "`](Self::", stringify!($run), ").")]
        ///
        /// # Safety
        /// Until the work is complete, no other stream writes the elements of the inputs, or
        /// reads or writes those of the results.
        pub unsafe fn $run_on $(<$generic: $bound>)? (
            &$self,
            $stream: &moye_runtime::Stream,
            $($result: $ty),+
            $($(, $more: $of)+)?
        ) -> moye_runtime::Result<()> {
            let call: moye_runtime::operation::TypedCall<'_> = $call;
            // SAFETY: the arrays are on the stream's device until the work is complete.
            unsafe { call.run() }
        }
    };
}
pub(crate) use runs;
