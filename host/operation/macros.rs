//! Macros for the folder of an operation: its declaration, its calls by element type, and its typed
//! builder.

/// Declares operations by the items of their folder: `call::results` and `call::compute`, which has
/// the kernels' target [`On`](crate::operation::On); `oracle::reference` and `oracle::TOLERANCE`.
///
/// The other fields are those of a [`Declaration`](crate::operation::Declaration). A value in
/// parentheses after a static's name tells the operations of a folder apart. It is the first
/// argument of `reference`; `results` and `compute` have the operation's name before it.
///
/// `moye new --python` writes a crate with such a folder, a builder, a test and a bench.
#[macro_export]
macro_rules! declare {
    ($(
        $(#[doc = $about:literal])+
        pub static $static:ident $(($of:expr))? = {
            name: $name:expr,
            $($field:ident: $value:expr,)*
            $(..$like:expr)?
        };
    )+) => { $(
        $(#[doc = $about])+
        pub static $static: $crate::operation::Declaration = $crate::operation::Declaration {
            name: $name,
            $($field: $value,)*
            results: |inputs, options| call::results($($name, $of,)? inputs, options),
            // SAFETY: the contract of `Declaration::run`.
            run: |stream, call| unsafe {
                call::compute($($name, $of,)? &$crate::operation::On::stream(stream), call)
            },
            // SAFETY: nothing is launched.
            explain: |stream, call| $crate::operation::On::name(stream, |on| unsafe {
                call::compute($($name, $of,)? on, call)
            }).map(Into::into),
            reference: |inputs, options| oracle::reference($($of,)? inputs, options),
            tolerance: oracle::TOLERANCE,
            $(..$like)?
        };
    )+ };
}

/// Calls `$call` with `$t` as the Rust type of floats `$dtype`, in a function with a
/// [`Result`](crate::Result); elements of other types have no kernels.
#[macro_export]
macro_rules! of_floats {
    ($operation:expr, $dtype:expr, $t:ident => $call:expr) => {{
        macro_rules! of {
            ($of:ty) => {{
                type $t = $of;
                $call
            }};
        }
        match $dtype {
            $crate::operation::Dtype::F32 => of!(f32),
            $crate::operation::Dtype::F16 => of!($crate::half::f16),
            $crate::operation::Dtype::Bf16 => of!($crate::half::bf16),
            other => {
                let detail = format!("there are no kernels for elements of {other}");
                return Err($crate::Error::Unsupported { operation: $operation, detail });
            }
        }
    }};
}

/// Writes the methods of a builder that set a field: `name: Type;`, or `name: Type as Some;` for a
/// field that is an option. See [`declare!`](crate::declare).
#[macro_export]
macro_rules! setters {
    ($($(#[doc = $about:literal])+ $field:ident: $ty:ty $(as $some:path)?;)+) => { $(
        $(#[doc = $about])+
        #[must_use]
        pub fn $field(self, $field: $ty) -> Self {
            Self { $field: $($some)?($field), ..self }
        }
    )+ };
}

/// Writes `run`, `run_on` and `explain` of a builder, from the documentation of `run`, its results,
/// and the [`TypedCall`](crate::operation::TypedCall) on a stream. Only `run_on` has the results
/// after a semicolon, which are documented before them; the others pass `None`. See
/// [`declare!`](crate::declare).
#[macro_export]
macro_rules! runs {
    (@none $more:ident) => { None };
    (
        $(#[doc = $about:literal])+
        fn $run:ident, $run_on:ident, $explain:ident $(<$generic:ident: $bound:ident>)? (
            $self:ident, $stream:ident, $($result:ident: $ty:ty),+
            $(; $(#[doc = $of_more:literal])+ $($more:ident: $of:ty),+)?
        ) $call:block
    ) => {
        $(#[doc = $about])+
        ///
        /// # Errors
        /// `Error::ShapeMismatch` if shapes or element types do not match, `Error::Unsupported` if
        /// no kernel of the device takes the element type, an extent or an option, and the errors
        /// of `Device::launch`.
        pub fn $run $(<$generic: $bound>)? (&$self, device: &$crate::Device, $($result: $ty),+) -> $crate::Result<()> {
            // SAFETY: the default stream runs its work in order.
            unsafe { $self.$run_on(&device.default_stream(), $($result),+ $($(, $crate::runs!(@none $more))+)?) }
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
            $stream: &$crate::Stream,
            $($result: $ty),+
            $($(, $more: $of)+)?
        ) -> $crate::Result<()> {
            let call: $crate::operation::TypedCall<'_> = $call;
            // SAFETY: the arrays are on the stream's device until the work is complete.
            unsafe { call.run() }
        }

        #[doc = concat!("The name of the kernel of [`", stringify!($run), "`](Self::", stringify!($run), "),")]
        /// and what else its plan says. Nothing is computed.
        ///
        /// # Errors
        #[doc = concat!("Same as [`", stringify!($run), "`](Self::", stringify!($run), ").")]
        pub fn $explain $(<$generic: $bound>)? (
            &$self,
            device: &$crate::Device,
            $($result: $ty),+
        ) -> $crate::Result<::std::borrow::Cow<'static, str>> {
            let $stream = &device.default_stream();
            $($(let $more: $of = None;)+)?
            let call: $crate::operation::TypedCall<'_> = $call;
            call.explain()
        }
    };
}
