//! A cache of the kernels that this thread launched before, by the addresses of their names and
//! parameter types: without a lock, and without a comparison of names and parameters.

use crate::device::loaded::{GpuFunction, Loaded};
use crate::mix::place;
use moye_device::kernel::{Kernel, Params};
use std::cell::Cell;

/// The number of slots. Two kernels with the same slot replace each other.
const PLACES: usize = 128;

/// The key of a launched kernel. Names and parameter types are statics of the program, so others
/// cannot have the same address.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    loaded: *const Loaded,
    name: *const str,
    params: *const [moye_device::kernel::ParamType],
    shared_bytes: usize,
}

thread_local! {
    static RECALLED: [Cell<Option<(Key, &'static GpuFunction)>>; PLACES] =
        const { [const { Cell::new(None) }; PLACES] };
}

impl Key {
    fn of<P: Params>(loaded: &'static Loaded, kernel: &Kernel<P>) -> Self {
        Self {
            loaded: std::ptr::from_ref(loaded),
            name: std::ptr::from_ref(kernel.name()),
            params: std::ptr::from_ref(kernel.params()),
            shared_bytes: kernel.shared_bytes(),
        }
    }

    fn place(&self) -> usize {
        place::<PLACES>([self.loaded.addr() as u64, self.name.addr() as u64, self.params.addr() as u64])
    }
}

/// The cached function of the kernel, or the one that `find` returns now.
pub(super) fn function<P: Params, E>(
    loaded: &'static Loaded,
    kernel: &Kernel<P>,
    find: impl FnOnce() -> Result<&'static GpuFunction, E>,
) -> Result<&'static GpuFunction, E> {
    let key = Key::of(loaded, kernel);
    RECALLED.with(|recalled| {
        let cell = &recalled[key.place()];
        match cell.get() {
            Some((known, function)) if known == key => Ok(function),
            _ => {
                let function = find()?;
                cell.set(Some((key, function)));
                Ok(function)
            }
        }
    })
}
