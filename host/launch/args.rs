//! Launch arguments for kernel parameters, checked by the compiler.

use crate::Result;
use crate::device::Device;
use crate::memory::{Buffer, BufferSlice, BufferSliceMut};
use moye_device::kernel::{KernelParam, Params};
use moye_device::memory::{Element, Global, GlobalMut};

/// A value that a launch accepts for a kernel parameter `P`.
#[diagnostic::on_unimplemented(
    message = "the kernel's parameter is `{P}`; `{Self}` cannot be passed for it",
    label = "a wrong argument for `{P}`",
    note = "for Global<T> pass a &Buffer<T> or a BufferSlice<T>; for GlobalMut<T> pass a &mut Buffer<T> or a BufferSliceMut<T>; for a number or a struct, a value of exactly that type"
)]
pub trait KernelArg<P: KernelParam> {
    /// The device of the memory that the value refers to, if any.
    #[doc(hidden)]
    fn device(&self) -> Option<&Device>;

    /// The parameter's value.
    #[doc(hidden)]
    fn pass(self) -> P;
}

/// A tuple of arguments for a kernel whose parameters are the tuple `P`.
#[diagnostic::on_unimplemented(
    message = "the kernel's parameters are `{P}`; `{Self}` cannot be passed for them",
    label = "not a tuple with one argument for each parameter",
    note = "pass a tuple with one argument for each parameter; a single one is written `(a,)`"
)]
pub trait KernelArgs<P: Params> {
    /// The parameters; `check` is called with the position and the device of every buffer.
    #[doc(hidden)]
    fn pass(self, check: &mut dyn FnMut(usize, &Device) -> Result<()>) -> Result<P>;
}

/// A parameter may be passed as it is: a number of exactly its type, a struct, or an address, which
/// the caller guarantees to be valid. This serves kernels for which a buffer's borrow is too
/// strict, such as an in-place kernel that takes the same buffer twice.
impl<P: KernelParam> KernelArg<P> for P {
    fn device(&self) -> Option<&Device> {
        None
    }
    fn pass(self) -> P {
        self
    }
}

macro_rules! memory {
    ($parameter:ident: $($argument:ty),*) => { $(
        impl<T: Element> KernelArg<$parameter<T>> for $argument {
            fn device(&self) -> Option<&Device> {
                Some((**self).device())
            }
            fn pass(self) -> $parameter<T> {
                $parameter::from_address(self.address())
            }
        }
    )* };
}
memory!(Global: &Buffer<T>, &BufferSlice<'_, T>, &BufferSliceMut<'_, T>);
memory!(GlobalMut: &mut Buffer<T>, &mut BufferSliceMut<'_, T>);

impl<T: Element> KernelArg<Global<T>> for BufferSlice<'_, T> {
    fn device(&self) -> Option<&Device> {
        Some(BufferSlice::device(self))
    }
    fn pass(self) -> Global<T> {
        Global::from_address(self.address())
    }
}

impl<T: Element> KernelArg<GlobalMut<T>> for BufferSliceMut<'_, T> {
    fn device(&self) -> Option<&Device> {
        Some(BufferSliceMut::device(self))
    }
    fn pass(self) -> GlobalMut<T> {
        GlobalMut::from_address(self.address())
    }
}

macro_rules! arguments {
    ($($a:ident $p:ident $index:tt),*) => {
        impl<$($p: KernelParam, $a: KernelArg<$p>),*> KernelArgs<($($p,)*)> for ($($a,)*) {
            #[allow(unused_variables, clippy::unused_unit)]
            fn pass(self, check: &mut dyn FnMut(usize, &Device) -> Result<()>) -> Result<($($p,)*)> {
                $(
                    if let Some(device) = self.$index.device() {
                        check($index, device)?;
                    }
                )*
                Ok(($(self.$index.pass(),)*))
            }
        }
    };
}
arguments!();
arguments!(A0 P0 0);
arguments!(A0 P0 0, A1 P1 1);
arguments!(A0 P0 0, A1 P1 1, A2 P2 2);
arguments!(A0 P0 0, A1 P1 1, A2 P2 2, A3 P3 3);
arguments!(A0 P0 0, A1 P1 1, A2 P2 2, A3 P3 3, A4 P4 4);
arguments!(A0 P0 0, A1 P1 1, A2 P2 2, A3 P3 3, A4 P4 4, A5 P5 5);
arguments!(A0 P0 0, A1 P1 1, A2 P2 2, A3 P3 3, A4 P4 4, A5 P5 5, A6 P6 6);
arguments!(A0 P0 0, A1 P1 1, A2 P2 2, A3 P3 3, A4 P4 4, A5 P5 5, A6 P6 6, A7 P7 7);
arguments!(A0 P0 0, A1 P1 1, A2 P2 2, A3 P3 3, A4 P4 4, A5 P5 5, A6 P6 6, A7 P7 7, A8 P8 8);
arguments!(A0 P0 0, A1 P1 1, A2 P2 2, A3 P3 3, A4 P4 4, A5 P5 5, A6 P6 6, A7 P7 7, A8 P8 8, A9 P9 9);
arguments!(
    A0 P0 0, A1 P1 1, A2 P2 2, A3 P3 3, A4 P4 4, A5 P5 5, A6 P6 6, A7 P7 7, A8 P8 8, A9 P9 9, A10 P10 10
);
arguments!(
    A0 P0 0, A1 P1 1, A2 P2 2, A3 P3 3, A4 P4 4, A5 P5 5, A6 P6 6, A7 P7 7, A8 P8 8, A9 P9 9, A10 P10 10, A11 P11 11
);
arguments!(
    A0 P0 0, A1 P1 1, A2 P2 2, A3 P3 3, A4 P4 4, A5 P5 5, A6 P6 6, A7 P7 7, A8 P8 8, A9 P9 9, A10 P10 10, A11 P11 11, A12 P12 12
);
arguments!(
    A0 P0 0, A1 P1 1, A2 P2 2, A3 P3 3, A4 P4 4, A5 P5 5, A6 P6 6, A7 P7 7, A8 P8 8, A9 P9 9, A10 P10 10, A11 P11 11, A12 P12 12, A13 P13 13
);
arguments!(
    A0 P0 0, A1 P1 1, A2 P2 2, A3 P3 3, A4 P4 4, A5 P5 5, A6 P6 6, A7 P7 7, A8 P8 8, A9 P9 9, A10 P10 10, A11 P11 11, A12 P12 12, A13 P13 13, A14 P14 14
);
arguments!(
    A0 P0 0, A1 P1 1, A2 P2 2, A3 P3 3, A4 P4 4, A5 P5 5, A6 P6 6, A7 P7 7, A8 P8 8, A9 P9 9, A10 P10 10, A11 P11 11, A12 P12 12, A13 P13 13, A14 P14 14, A15 P15 15
);
