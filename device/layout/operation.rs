//! The two forms of every operation.

/// Declares an operation: the form that panics, and the form that returns a `Result`, whose error
/// names the operation and the operands. Both are `const fn`. The inner function takes integers by
/// value and everything else by reference. `=` is followed by a function that returns the result,
/// `=>` by one that writes a layout to its first argument.
macro_rules! operation {
    ($(
        $(#[$doc:meta])*
        $name:ident / $try_name:ident($($arg:ident: $ty:ident),+) -> $out:ident $how:tt $inner:path;
    )+) => {$(
        $(#[$doc])*
        ///
        /// # Panics
        #[doc = concat!(
            "If [`",
            stringify!($try_name),
            "`] returns an error, with its message; in a `const` this is a compile error.",
        )]
        #[track_caller]
        pub const fn $name($($arg: $ty),+) -> $out {
            match $try_name($($arg),+) {
                Ok(result) => result,
                Err(error) => panic!("{}", error.text()),
            }
        }

        #[doc = concat!("[`", stringify!($name), "()`] as a `Result`.")]
        ///
        /// # Errors
        /// If there is no result; the error names the operands, what does not fit, and the rule.
        #[inline]
        pub const fn $try_name($($arg: $ty),+) -> Result<$out, $crate::layout::LayoutError> {
            $crate::layout::operation::refused!(
                $name($($arg: $ty),+), ($($crate::layout::operation::operand!(pass $arg: $ty)),+)
            );
            $crate::layout::operation::call!(
                $how $inner, ($($crate::layout::operation::operand!(pass $arg: $ty)),+),
                fault => refused($(&$arg),+, fault)
            )
        }
    )+};
}

/// Calls the inner function of an [`operation`], and builds an error from its fault.
macro_rules! call {
    (= $inner:path, ($($arg:expr),+), $fault:ident => $error:expr) => {
        match $inner($($arg),+) {
            Ok(result) => Ok(result),
            Err($fault) => Err($error),
        }
    };
    // Writes the layout where the caller needs it, without a copy.
    (=> $inner:path, ($($arg:expr),+), $fault:ident => $error:expr) => {{
        let mut result = Ok($crate::layout::Layout::start());
        if let Ok(layout) = &mut result
            && let Err($fault) = match $inner(layout, $($arg),+) {
                Ok(()) => layout.check(),
                Err(fault) => Err(fault),
            }
        {
            result = Err($error);
        }
        result
    }};
}

/// [`operation`] for methods, inside the `impl` of the type of `self`.
macro_rules! method {
    ($(
        $(#[$doc:meta])*
        $name:ident / $try_name:ident($this:ident: $own:ident $(, $arg:ident: $ty:ident)*) -> $out:ty = $inner:path;
    )+) => {$(
        $(#[$doc])*
        ///
        /// # Panics
        #[doc = concat!(
            "If [`",
            stringify!($try_name),
            "`](Self::",
            stringify!($try_name),
            ") returns an error.",
        )]
        #[track_caller]
        pub const fn $name($this $(, $arg: $ty)*) -> $out {
            match $this.$try_name($($arg),*) {
                Ok(result) => result,
                Err(error) => panic!("{}", error.text()),
            }
        }

        #[doc = concat!("[`", stringify!($name), "`](Self::", stringify!($name), ") as a `Result`.")]
        ///
        /// # Errors
        /// If there is no result; the error names the operands and what does not fit.
        pub const fn $try_name($this $(, $arg: $ty)*) -> Result<$out, $crate::layout::LayoutError> {
            $crate::layout::operation::refused!(
                $name(own: $own $(, $arg: $ty)*),
                ($crate::layout::operation::operand!(own own: $own) $(, $crate::layout::operation::operand!(pass $arg: $ty))*)
            );
            match $inner(&$this $(, $crate::layout::operation::operand!(pass $arg: $ty))*) {
                Ok(result) => Ok(result),
                Err(fault) => Err(refused(&$this $(, &$arg)*, fault)),
            }
        }
    )+};
}

/// The function `refused` of an operation, which builds an error from its operands and a fault.
/// Only failed operations call it.
macro_rules! refused {
    ($name:ident($($arg:ident: $ty:ident),+), $passed:tt) => {
        #[cold]
        #[inline(never)]
        const fn refused(
            $($arg: &$ty),+, fault: $crate::layout::fault::Fault
        ) -> $crate::layout::LayoutError {
            $(let $arg = *$arg;)+
            let mut text = $crate::layout::text::Text::of_operands();
            text.str(concat!(stringify!($name), "("));
            $crate::layout::operation::operand!(list text; $($arg: $ty),+);
            text.str(")");
            let place = $crate::layout::refusal::place!($name; $($ty)+; $passed);
            $crate::layout::error::LayoutError::at_place(text, fault, &place)
        }
    };
}

/// Passes and prints an operand of each type.
macro_rules! operand {
    (own $own:ident: ComposedLayout) => { &$own.layout };
    (own $own:ident: $ty:ident) => { &$own };
    (pass $arg:ident: i64) => { $arg };
    (pass $arg:ident: usize) => { $arg };
    (pass $arg:ident: $ty:ident) => { &$arg };
    (list $text:ident; $arg:ident: $ty:ident) => {
        $crate::layout::operation::operand!(write $text; $arg: $ty);
    };
    (list $text:ident; $arg:ident: $ty:ident, $($rest:ident: $more:ident),+) => {
        $crate::layout::operation::operand!(write $text; $arg: $ty);
        $text.str(", ");
        $crate::layout::operation::operand!(list $text; $($rest: $more),+);
    };
    (write $text:ident; $arg:ident: i64) => { $text.int($arg) };
    (write $text:ident; $arg:ident: usize) => { $text.size($arg) };
    (write $text:ident; $arg:ident: IntTuple) => { $text.tuple(&$arg) };
    (write $text:ident; $arg:ident: Layout) => { $text.layout(&$arg) };
    (write $text:ident; $arg:ident: Tiler) => { $text.tiler(&$arg) };
    (write $text:ident; $arg:ident: Swizzle) => { $arg.write(&mut $text) };
    (write $text:ident; $arg:ident: ComposedLayout) => { $arg.write(&mut $text) };
}

pub(crate) use {call, method, operand, operation, refused};
