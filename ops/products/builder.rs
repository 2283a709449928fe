//! Macros for builder methods that differ only in names and types, and options.

use moye_runtime::operation::{OptionOf, Value};

/// An option: its name, what it changes, and its default.
pub const fn option(name: &'static str, about: &'static str, default: Value) -> OptionOf {
    OptionOf::new(name, about, default)
}

/// Writes `run` and `run_on` of a builder, from the documentation of `run`, its results, and the
/// [`TypedCall`](moye_runtime::operation::TypedCall) on a stream.
macro_rules! runs {
    (
        $(#[doc = $about:literal])+
        fn $run:ident, $run_on:ident $(<$generic:ident: $bound:ident>)? (
            $self:ident, $stream:ident, $($result:ident: $ty:ty),+
        ) $call:block
    ) => {
        $(#[doc = $about])+
        ///
        /// # Errors
        /// [`moye_runtime::Error::ShapeMismatch`] if shapes or element types do not match,
        /// [`moye_runtime::Error::Unsupported`] if no kernel of the device takes the element type,
        /// an extent or an option, and the errors of [`moye_runtime::Device::launch`].
        pub fn $run $(<$generic: $bound>)? (&$self, device: &moye_runtime::Device, $($result: $ty),+) -> moye_runtime::Result<()> {
            // SAFETY: the default stream runs its work in order.
            unsafe { $self.$run_on(&device.default_stream(), $($result),+) }
        }

        #[doc = concat!("[`", stringify!($run), "`](Self::", stringify!($run), ") on a stream.")]
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
        ) -> moye_runtime::Result<()> {
            let call: moye_runtime::operation::TypedCall<'_> = $call;
            // SAFETY: the arrays are on the stream's device until the work is complete.
            unsafe { call.run() }
        }
    };
}
pub(crate) use runs;
