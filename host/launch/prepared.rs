//! Launches in the driver's form: work that was launched before is replayed without being checked
//! and prepared again.

use crate::Result;
use crate::device::gpu::Gpu;
use crate::driver;
use crate::driver::launch::Extents;
use crate::driver::sys::{self, CUfunction, CUstream};
use moye_device::kernel::{ParamType, Params};
use std::cell::RefCell;
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// A launch of a function on a GPU.
pub(crate) struct Prepared {
    kernel: &'static str,
    function: CUfunction,
    extents: Extents,
    /// The values of the parameters, each aligned to 64 bytes.
    _lines: Box<[Line]>,
    /// The address of each parameter in the lines.
    addresses: Box<[*mut c_void]>,
}

/// Parameters are aligned to 64 bytes at most, as tensor maps are.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[allow(dead_code, reason = "it is written and read by its address")] [MaybeUninit<u8>; 64]);

/// The launches recorded on this thread; `None` outside a recording.
type Noted = Option<Vec<Prepared>>;

thread_local! {
    static NOTED: RefCell<Noted> = const { RefCell::new(None) };
}

/// The size of a parameter in bytes.
fn size_of_param(param: &ParamType) -> usize {
    match param {
        ParamType::Scalar(scalar) => scalar.size,
        ParamType::Global { .. } => size_of::<u64>(),
        ParamType::Constant { size, .. } | ParamType::Struct { size, .. } => *size,
    }
}

impl Prepared {
    /// A launch with these parameters.
    pub(crate) fn new<P: Params>(
        kernel: &'static str,
        function: CUfunction,
        extents: Extents,
        parameters: &P,
    ) -> Self {
        parameters.with_addresses(|from| {
            let sizes = P::TYPES.iter().map(size_of_param);
            let parameters = sizes.zip(from).map(|(size, from)| (from.cast::<u8>().cast_const(), size));
            // SAFETY: each parameter begins at its address and has this size.
            unsafe { Self::of_parameters(kernel, function, extents, parameters) }
        })
    }

    /// A launch with the bytes of each parameter.
    pub(crate) fn of_bytes(
        kernel: &'static str,
        function: CUfunction,
        extents: Extents,
        parameters: &[&[u8]],
    ) -> Self {
        let parameters = parameters.iter().map(|bytes| (bytes.as_ptr(), bytes.len()));
        // SAFETY: each slice has these bytes.
        unsafe { Self::of_parameters(kernel, function, extents, parameters) }
    }

    /// A launch with parameters at these addresses, with their sizes.
    ///
    /// # Safety
    /// A value of this size is at each address.
    unsafe fn of_parameters(
        kernel: &'static str,
        function: CUfunction,
        extents: Extents,
        parameters: impl Iterator<Item = (*const u8, usize)> + Clone,
    ) -> Self {
        let lines_of = |size: usize| size.div_ceil(size_of::<Line>()).max(1);
        let count = parameters.clone().map(|(_, size)| lines_of(size)).sum();
        let mut lines = vec![Line([MaybeUninit::uninit(); 64]); count].into_boxed_slice();
        let first = lines.as_mut_ptr();
        let mut next = 0;
        let places = parameters.map(|(from, size)| {
            // SAFETY: the parameter begins at `from` and has this size; the lines from `next` on
            // have room for it.
            let to = unsafe {
                let to = first.add(next).cast::<u8>();
                std::ptr::copy_nonoverlapping(from, to, size);
                to
            };
            next += lines_of(size);
            to.cast()
        });
        let addresses = places.collect();
        Self { kernel, function, extents, _lines: lines, addresses }
    }

    /// Launches it on a stream of `gpu`, whose context is current.
    ///
    /// # Safety
    /// The function and the stream belong to the GPU's context; the kernel's contract holds.
    pub(crate) unsafe fn launch(&self, gpu: &Gpu, stream: CUstream) -> Result<()> {
        // SAFETY: the function and the stream belong to the current context; the addresses are
        // those of the parameters, in order; the caller keeps the kernel's contract.
        unsafe { launch(gpu, self.kernel, self.function, &self.extents, stream, &self.addresses) }
    }
}

/// Launches a function. The context of `gpu` is current.
///
/// # Safety
/// The function and the stream belong to that context; the addresses are those of the function's
/// parameters, in order; the kernel's contract holds.
pub(super) unsafe fn launch(
    gpu: &Gpu,
    kernel: &'static str,
    function: CUfunction,
    extents: &Extents,
    stream: CUstream,
    addresses: &[*mut c_void],
) -> Result<()> {
    gpu.launched(kernel);
    if extents.cluster != [1; 3] || extents.dependent {
        // SAFETY: function and stream belong to the current context; the addresses are those of the
        // function's parameters.
        return unsafe { driver::launch::launch(function, extents, stream, addresses) }
            .map_err(|code| gpu.error_of_code("cuLaunchKernelEx", code));
    }
    let ([x, y, z], [threads_x, threads_y, threads_z]) = (extents.grid, extents.block);
    // SAFETY: function and stream belong to the current context; the driver has copied the
    // parameters when the call returns.
    driver::check(unsafe {
        sys::cuLaunchKernel(
            function,
            x,
            y,
            z,
            threads_x,
            threads_y,
            threads_z,
            extents.shared_bytes,
            stream,
            addresses.as_ptr().cast_mut(),
            std::ptr::null_mut(),
        )
    })
    .map_err(|code| gpu.error_of_code("cuLaunchKernel", code))
}

/// Records a launch if this thread is recording.
pub(super) fn note(prepared: impl FnOnce() -> Prepared) {
    NOTED.with_borrow_mut(|noted| {
        if let Some(noted) = noted {
            noted.push(prepared());
        }
    });
}

/// Calls `work` and returns its result with the GPU launches that it made.
pub(crate) fn noting<R>(work: impl FnOnce() -> R) -> (R, Vec<Prepared>) {
    /// Ends the recording, also if `work` panics.
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            NOTED.set(None);
        }
    }
    NOTED.set(Some(Vec::new()));
    let end = End;
    let result = work();
    let launches = NOTED.take().unwrap_or_default();
    drop(end);
    (result, launches)
}

#[cfg(test)]
mod tests {
    use super::*;
    use moye_device::memory::{Global, TensorMap};

    #[test]
    fn a_prepared_launch_has_the_values_of_its_parameters_at_aligned_addresses() {
        let map: [u64; 16] = std::array::from_fn(|i| i as u64);
        let parameters = (7u32, Global::<f32>::from_address(0x1234), TensorMap::from_words(map));
        let extents = || Extents {
            grid: [1; 3],
            block: [32, 1, 1],
            cluster: [1; 3],
            dependent: false,
            shared_bytes: 0,
        };
        let make = || Prepared::new("kernel", std::ptr::null_mut(), extents(), &parameters);
        let (prepared, noted) = noting(|| {
            note(make);
            make()
        });
        assert_eq!(noted.len(), 1);
        note(|| unreachable!("the thread notes no launches any more"));
        let [number, global, words] = prepared.addresses[..] else { panic!("three parameters") };
        // SAFETY: the parameters have these types.
        unsafe {
            assert_eq!(*number.cast::<u32>(), 7);
            assert_eq!(*global.cast::<u64>(), 0x1234);
            assert_eq!(*words.cast::<[u64; 16]>(), map);
        }
        assert!(words.addr().is_multiple_of(64), "a tensor map is aligned to 64 bytes");
    }
}
