//! A kernel as the host sees it.

use super::{KernelParam, ParamType};
use core::ffi::c_void;

/// A kernel: its name in the PTX, what it takes, how it may be launched, and its body for the simulator.
///
/// `#[kernel]` makes one under the name of the function; the host launches it. `P` is the tuple of the parameter
/// types, so a launch with other types does not compile.
// `P` is bound where it is used and not here: `#[kernel]` reports a wrong parameter type at the type itself, and once.
#[derive(Debug)]
pub struct Kernel<P> {
    name: &'static str,
    package: &'static str,
    bounds: LaunchBounds,
    shared_bytes: usize,
    entry: unsafe fn(P),
}

impl<P> Clone for Kernel<P> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<P> Copy for Kernel<P> {}

/// The launch bounds that a kernel was compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchBounds {
    /// The most threads a block may have (`.maxntid`); `None`: no bound was declared, the device's limit holds.
    pub threads: Option<u32>,
    /// Blocks that must fit on one multiprocessor (`.minnctapersm`).
    pub min_blocks: Option<u32>,
}

impl<P> Kernel<P> {
    /// Written by `#[kernel]`; not for use by hand.
    #[doc(hidden)]
    pub const fn new(
        name: &'static str,
        package: &'static str,
        bounds: LaunchBounds,
        shared_bytes: usize,
        entry: unsafe fn(P),
    ) -> Self {
        Self { name, package, bounds, shared_bytes, entry }
    }
}

impl<P: Params> Kernel<P> {
    /// The entry point's name in the PTX.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The cargo package that declares the kernel.
    pub const fn package(&self) -> &'static str {
        self.package
    }

    /// The declared launch bounds.
    pub const fn bounds(&self) -> LaunchBounds {
        self.bounds
    }

    /// Shared memory that the kernel declares, in bytes per block.
    pub const fn shared_bytes(&self) -> usize {
        self.shared_bytes
    }

    /// The parameter types, in order.
    pub const fn params(&self) -> &'static [ParamType] {
        P::TYPES
    }

    /// Runs the body as one thread of a grid.
    ///
    /// # Safety
    /// Call it only inside a simulated thread, and keep the kernel's own contract for `params`.
    pub unsafe fn call(&self, params: P) {
        // SAFETY: passed on to the caller.
        unsafe { (self.entry)(params) }
    }
}

/// A kernel's parameter list: a tuple of up to 16 [`KernelParam`]s.
pub trait Params: Copy + Send + Sync + 'static {
    /// The types, in order.
    const TYPES: &'static [ParamType];

    /// Calls `f` with the address of each parameter, in order, as the driver's launch call takes them.
    fn with_addresses<R>(&self, f: impl FnOnce(&[*mut c_void]) -> R) -> R;
}

macro_rules! params {
    ($($p:ident)*) => {
        #[allow(non_snake_case)]
        impl<$($p: KernelParam),*> Params for ($($p,)*) {
            const TYPES: &'static [ParamType] = &[$($p::TYPE),*];

            fn with_addresses<R>(&self, f: impl FnOnce(&[*mut c_void]) -> R) -> R {
                let ($($p,)*) = self;
                f(&[$(core::ptr::from_ref($p).cast_mut().cast()),*])
            }
        }
    };
}
params!();
params!(A);
params!(A B);
params!(A B C);
params!(A B C D);
params!(A B C D E);
params!(A B C D E F);
params!(A B C D E F G);
params!(A B C D E F G H);
params!(A B C D E F G H I);
params!(A B C D E F G H I J);
params!(A B C D E F G H I J K);
params!(A B C D E F G H I J K L);
params!(A B C D E F G H I J K L M);
params!(A B C D E F G H I J K L M N);
params!(A B C D E F G H I J K L M N O);
params!(A B C D E F G H I J K L M N O Q);
