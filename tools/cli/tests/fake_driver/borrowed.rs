//! Contexts, streams, events and memory of another library: they are used as they are, and never
//! destroyed. The stand-in records each call with its handles.

use crate::calls;
use crate::common::{PTX, SCALE, one_thread};
use moye::{Buffer, Device, Matmul, Matrix, MatrixMut, Stream, transpose_on};
use std::ffi::c_void;
use std::ptr::without_provenance_mut;

/// The stand-in's primary context, another library's context, and a stream and an event in each.
const PRIMARY: *mut c_void = without_provenance_mut(1);
const CONTEXT: *mut c_void = without_provenance_mut(9);
const STREAM: *mut c_void = without_provenance_mut(0x900);
const STREAM_OF_PRIMARY: *mut c_void = without_provenance_mut(0x100);
const EVENT: *mut c_void = without_provenance_mut(0x901);
/// Memory of GPU 0, of GPU 1, and of the host.
const MEMORY: u64 = 1 << 42;
const MEMORY_OF_GPU_1: u64 = 1 << 50;
const MEMORY_OF_HOST: u64 = 1 << 12;

fn own(device: &Device) -> Stream {
    // SAFETY: the stand-in's streams live as long as the process.
    unsafe { Stream::from_raw_handle(device, STREAM).unwrap() }
}

fn uses_all_handles() {
    // SAFETY: the stand-in's handles live as long as the process, and it computes nothing.
    unsafe {
        let device = Device::from_raw_context(CONTEXT).unwrap();
        assert_eq!(device.raw_context(), CONTEXT);
        let stream = own(&device);
        assert_eq!(stream.raw_handle().unwrap(), STREAM);
        let x = Buffer::<f32>::from_raw_parts(MEMORY, 4096, &device).unwrap();
        let mut y = Buffer::<f32>::from_raw_parts(MEMORY + (1 << 20), 4096, &device).unwrap();
        let mut event = moye::Event::from_raw_handle(&device, EVENT).unwrap();
        assert_eq!(event.raw_handle(), EVENT);
        event.record_again(&stream).unwrap();
        device.new_stream().unwrap().wait(&event).unwrap();
        device.load(&PTX).unwrap().launch_on(&stream, &SCALE, one_thread(), (&x, &mut y, 2.0, 4)).unwrap();
        event.synchronize().unwrap();
        stream.synchronize().unwrap();
    }
}

fn multiplies_on_borrowed_handles() {
    // SAFETY: the stand-in's handles live as long as the process, and it computes nothing.
    unsafe {
        let device = Device::from_raw_context(CONTEXT).unwrap();
        let stream = own(&device);
        let x = Buffer::<f32>::from_raw_parts(MEMORY, 4096, &device).unwrap();
        let mut y = Buffer::<f32>::from_raw_parts(MEMORY + (1 << 20), 4096, &device).unwrap();
        let matrix = || Matrix::row_major(&x, 64, 64).unwrap();
        let mut c = MatrixMut::row_major(&mut y, 64, 64).unwrap();
        Matmul::new(matrix(), matrix()).split_k(2).run_on(&stream, &mut c).unwrap();
    }
}

#[test]
fn a_product_takes_its_workspace_on_a_borrowed_stream() {
    let Some(calls) = calls("", multiplies_on_borrowed_handles) else { return };
    check_stream(&calls, 2);
    check_workspace(&calls);
}

/// There are at least `least` launches, all on the borrowed stream, and no handle is destroyed.
fn check_stream(calls: &[String], least: usize) {
    let launches: Vec<_> = calls.iter().filter(|call| call.starts_with("cuLaunchKernel")).collect();
    assert!(launches.len() >= least && launches.iter().all(|call| call.ends_with(" 0x900")), "{calls:?}");
    assert!(
        !calls.iter().any(|call| call.contains("Destroy") || call.starts_with("cuMemFree ")),
        "{calls:?}"
    );
}

/// A workspace is allocated on the borrowed stream.
fn check_workspace(calls: &[String]) {
    let workspace = format!("cuMemAllocAsync {:#x}", STREAM.addr());
    assert!(calls.contains(&workspace), "{calls:?}");
}

fn transposes_on_borrowed_handles() {
    // SAFETY: the stand-in's handles live as long as the process, and it computes nothing.
    unsafe {
        let device = Device::from_raw_context(CONTEXT).unwrap();
        let x = Buffer::<f32>::from_raw_parts(MEMORY, 4096, &device).unwrap();
        let mut y = Buffer::<f32>::from_raw_parts(MEMORY + (1 << 20), 4096, &device).unwrap();
        let mut transposed = MatrixMut::row_major(&mut y, 64, 64).unwrap();
        transpose_on(&own(&device), &Matrix::row_major(&x, 64, 64).unwrap(), &mut transposed).unwrap();
    }
}

#[test]
fn a_transpose_is_launched_on_a_borrowed_stream_and_allocates_nothing() {
    let Some(calls) = calls("", transposes_on_borrowed_handles) else { return };
    check_stream(&calls, 1);
    assert!(!calls.iter().any(|call| call.starts_with("cuMemAllocAsync")), "{calls:?}");
}

fn attends_on_borrowed_handles() {
    // SAFETY: the stand-in's handles live as long as the process, and it computes nothing.
    unsafe {
        let device = Device::from_raw_context(CONTEXT).unwrap();
        let x = Buffer::<half::f16>::from_raw_parts(MEMORY, 8192, &device).unwrap();
        let mut y = Buffer::<half::f16>::from_raw_parts(MEMORY + (1 << 20), 4096, &device).unwrap();
        crate::attend_in_splits(&own(&device), &x, &mut y).unwrap();
    }
}

#[test]
fn attention_in_splits_takes_its_workspace_on_a_borrowed_stream() {
    let Some(calls) = calls("", attends_on_borrowed_handles) else { return };
    // The splits, and the combine kernel.
    check_stream(&calls, 2);
    check_workspace(&calls);
}

#[test]
fn borrowed_handles_are_used_and_never_destroyed() {
    let Some(calls) = calls("", uses_all_handles) else { return };
    let launches = calls.iter().filter(|call| call.starts_with("cuLaunchKernel")).count();
    assert_eq!(launches, 1, "{calls:?}");
    for used in [
        format!("cuLaunchKernel {:#x}", STREAM.addr()),
        format!("cuEventRecord {:#x} {:#x}", EVENT.addr(), STREAM.addr()),
        format!("cuStreamWaitEvent 0x2 {:#x}", EVENT.addr()),
        format!("cuEventSynchronize {:#x}", EVENT.addr()),
        format!("cuStreamSynchronize {:#x}", STREAM.addr()),
        "cuStreamDestroy 0x2".to_owned(),
    ] {
        assert!(calls.contains(&used), "`{used}` is missing: {calls:?}");
    }
    assert!(
        calls.iter().all(|call| !call.starts_with("cuLaunchKernel ") || call.ends_with("0x900")),
        "every launch goes to the borrowed stream: {calls:?}"
    );
    let destroyed: Vec<_> = calls
        .iter()
        .filter(|call| call.contains("Destroy") || call.contains("Release") || call.starts_with("cuMemFree "))
        .filter(|call| *call != "cuStreamDestroy 0x2")
        .collect();
    assert!(destroyed.is_empty(), "only the stream that was created here is destroyed: {destroyed:?}");
}

fn compares_devices() {
    // SAFETY: the stand-in's contexts live as long as the process.
    let [primary, other, again] =
        [PRIMARY, CONTEXT, CONTEXT].map(|context| unsafe { Device::from_raw_context(context).unwrap() });
    assert_eq!(primary, Device::gpu(0).unwrap(), "the primary context is the GPU's device");
    assert_eq!(other, again, "a context is one device");
    assert_ne!(primary, other, "memory of one context is not the other's");
    let x = primary.alloc_uninit::<f32>(4).unwrap();
    let mut y = other.alloc_uninit::<f32>(4).unwrap();
    // SAFETY: the call is refused.
    let error = unsafe { other.load(&PTX).unwrap().launch(&SCALE, one_thread(), (&x, &mut y, 2.0, 4)) };
    assert!(error.unwrap_err().to_string().contains("argument 0 is a buffer of"));
    assert!(primary.default_stream().wait(&other.default_stream().record().unwrap()).is_err());
}

#[test]
fn a_context_is_a_device_and_the_primary_one_is_the_gpus() {
    calls("", compares_devices);
}

fn gives_what_cannot_be_used() {
    let device = Device::gpu(0).unwrap();
    let null = std::ptr::null_mut();
    // SAFETY: all calls are refused.
    let refused = unsafe {
        [
            (Device::from_raw_context(null).err(), "this context cannot be used: it is null; give a context"),
            (
                Stream::from_raw_handle(&device, STREAM).err(),
                "this stream cannot be used: it is of another context",
            ),
            (moye::Event::from_raw_handle(&device, null).err(), "this event cannot be used: it is null"),
            (
                Buffer::<f32>::from_raw_parts(MEMORY + 2, 4, &device).err(),
                "address 0x40000000002 is not a multiple of 4 bytes, as elements of f32 require",
            ),
            (
                Buffer::<f32>::from_raw_parts(MEMORY_OF_GPU_1, 4, &device).err(),
                "address 0x4000000000000 is not memory of GPU 0 (Fake GPU), but of GPU 1; give an address",
            ),
            (
                Buffer::<f32>::from_raw_parts(MEMORY_OF_HOST, 4, &device).err(),
                "is not memory of GPU 0 (Fake GPU), but host memory, or memory that the driver does not know",
            ),
            (
                Buffer::<f32>::from_raw_parts(MEMORY, usize::MAX, &device).err(),
                "larger than the address space",
            ),
        ]
    };
    for (error, expected) in refused {
        let said = error.expect(expected).to_string();
        assert!(said.contains(expected), "{said}");
    }
    // SAFETY: as in `own`, in the primary context; zero elements need no memory.
    unsafe {
        let stream = Stream::from_raw_handle(&device, STREAM_OF_PRIMARY).unwrap();
        stream.synchronize().unwrap();
        assert!(Buffer::<f32>::from_raw_parts(0, 0, &device).unwrap().is_empty());
    }
}

#[test]
fn handles_that_cannot_be_used_are_refused_with_the_reason() {
    calls("", gives_what_cannot_be_used);
}
