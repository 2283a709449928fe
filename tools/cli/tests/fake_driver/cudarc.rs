//! Streams and slices of `cudarc`, tested by the calls that the stand-in for the driver records.

use crate::calls;
use cudarc::driver::CudaContext;
use moye::interop::cudarc::{CudarcStream, device, to_cudarc};
use moye::{Device, Matmul, Matrix, MatrixMut};

fn multiplies_slices() {
    let context = CudaContext::new(0).unwrap();
    let cuda = context.new_stream().unwrap();
    let (a, b) = (cuda.alloc_zeros::<f32>(4096).unwrap(), cuda.alloc_zeros::<f32>(4096).unwrap());
    let mut c = cuda.alloc_zeros::<f32>(4096).unwrap();
    let stream = CudarcStream::new(&cuda).unwrap();
    assert_eq!(*stream.device(), Device::gpu(0).unwrap(), "a primary context is the GPU's device");
    assert_eq!(*stream.device(), device(&context).unwrap());
    for _ in 0..3 {
        // SAFETY: the stand-in computes nothing.
        unsafe {
            let (a, b, mut c) =
                (stream.read(&a).unwrap(), stream.read(&b).unwrap(), stream.write(&mut c).unwrap());
            assert_eq!((a.len(), c.len()), (4096, 4096));
            let (a, b) = (Matrix::row_major(&a, 64, 64).unwrap(), Matrix::row_major(&b, 64, 64).unwrap());
            let mut c = MatrixMut::row_major(&mut c, 64, 64).unwrap();
            Matmul::new(a, b).split_k(2).run_on(&stream, &mut c).unwrap();
        }
    }
    // A lent buffer is freed once, by its owner.
    let mut own = stream.device().alloc_uninit::<f32>(16).unwrap();
    // SAFETY: the stand-in computes nothing.
    let lent = unsafe { stream.lend(&mut own).unwrap() };
    assert_eq!(lent.len(), 16);
    drop(lent);
    // SAFETY: the stand-in computes nothing; the stream outlives the result.
    let back = unsafe { to_cudarc(&stream, &context).unwrap() };
    assert_eq!(back.cu_stream(), cuda.cu_stream());
    let sim = Device::sim();
    // SAFETY: the call is refused.
    let refused = unsafe { to_cudarc(&sim.default_stream(), &context) };
    assert!(refused.unwrap_err().to_string().contains("not the one of the stream's device"));
    let mut other = sim.alloc_uninit::<f32>(16).unwrap();
    // SAFETY: the call is refused.
    let refused = unsafe { stream.lend(&mut other) };
    assert!(refused.unwrap_err().to_string().contains("is a buffer of simulator"));
}

#[test]
fn a_product_of_slices_goes_to_their_stream_and_frees_nothing_of_cudarcs() {
    let Some(calls) = calls("", multiplies_slices) else { return };
    let launches: Vec<_> = calls.iter().filter(|call| call.starts_with("cuLaunchKernel")).collect();
    assert!(launches.len() >= 6 && launches.iter().all(|call| call.ends_with(" 0x101")), "{calls:?}");
    let count = |name: &str| calls.iter().filter(|call| call.split(' ').next() == Some(name)).count();
    // Three slices, and one workspace for all products.
    assert_eq!((count("cuMemAllocAsync"), count("cuMemFreeAsync")), (4, 4), "{calls:?}");
    assert_eq!(count("cuMemFree"), 1, "the buffer that was lent: {calls:?}");
    assert_eq!(calls.iter().filter(|call| *call == "cuStreamDestroy 0x101").count(), 1, "{calls:?}");
    assert_eq!(count("cuDevicePrimaryCtxRelease"), 0, "a device stays open: {calls:?}");
}
