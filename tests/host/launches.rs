//! Buffers, their ranges, launches and their checks, on every available device.

use crate::common::{On, PTX, SCALE, one_thread};
use moye::{
    Buffer, Device, DeviceChoice, Error, Global, GlobalMut, Grid, Kernel, LaunchBounds, Ptx,
    STATIC_SHARED_BYTES,
};
use rstest::rstest;
use std::time::{Duration, Instant};

/// A kernel that does nothing, with these launch bounds and this much shared memory.
fn nothing(threads: Option<u32>, shared_bytes: usize) -> Kernel<()> {
    Kernel::new(
        "nothing",
        "moye-tests",
        LaunchBounds { threads, exact: false, min_blocks: None },
        shared_bytes,
        |()| {},
    )
}

#[rstest]
fn buffers_keep_what_was_uploaded(#[values(On::Sim, On::Gpu)] on: On) {
    let Some(device) = on.device() else { return };
    let numbers: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    let mut buffer = device.upload(&numbers).unwrap();
    assert_eq!(buffer.download().unwrap(), numbers, "{device:?}");
    let reversed: Vec<f32> = numbers.iter().rev().copied().collect();
    buffer.upload_from(&reversed).unwrap();
    let mut back = vec![0.0; 1000];
    buffer.download_into(&mut back).unwrap();
    assert_eq!(back, reversed, "{device:?}");
    buffer.fill_bytes(0x40).unwrap();
    assert_eq!(buffer.download().unwrap()[999].to_bits(), 0x4040_4040, "{device:?}");
    assert_eq!(device.alloc_zeroed::<u64>(77).unwrap().download().unwrap(), [0; 77], "{device:?}");
    assert_eq!(buffer.address() % 256, 0, "{device:?}: device memory is aligned to 256 bytes");
}

#[test]
fn unwritten_memory_is_poisoned_on_the_simulator() {
    let buffer = Device::sim().alloc_uninit::<f32>(10).unwrap();
    assert!(buffer.download().unwrap().iter().all(|x| x.is_nan()), "a result that depends on it must show");
}

#[rstest]
fn buffers_may_be_empty(#[values(On::Sim, On::Gpu)] on: On) {
    let Some(device) = on.device() else { return };
    let mut buffer = device.upload::<f32>(&[]).unwrap();
    assert!(buffer.is_empty());
    buffer.fill_bytes(1).unwrap();
    buffer.upload_from(&[]).unwrap();
    assert!(buffer.slice(0..0).unwrap().download().unwrap().is_empty());
    assert!(buffer.download().unwrap().is_empty());
}

#[rstest]
fn a_view_of_a_buffers_memory_reads_and_writes_it_and_does_not_free_it(#[values(On::Sim, On::Gpu)] on: On) {
    let Some(device) = on.device() else { return };
    let numbers = device.upload(&[0u32, 1, 2, 3, 4, 5, 6, 7]).unwrap();
    // SAFETY: the buffer outlives the views, and is only read between their uses.
    unsafe {
        let mut view = Buffer::<u32>::from_raw_parts(numbers.address() + 8, 4, &device).unwrap();
        assert_eq!(
            (view.len(), view.address(), view.download().unwrap()),
            (4, numbers.address() + 8, vec![2, 3, 4, 5])
        );
        view.slice_mut(1..3).unwrap().upload_from(&[30, 40]).unwrap();
        let mut bytes = Buffer::<u8>::from_raw_parts(numbers.address() + 31, 1, &device).unwrap();
        bytes.fill_bytes(1).unwrap();
    }
    assert_eq!(numbers.download().unwrap(), [0, 1, 2, 30, 40, 5, 6, 7 + (1 << 24)], "{device:?}");
}

#[cfg(feature = "matmul")]
#[rstest]
fn products_and_copies_take_views_of_memory_and_borrowed_streams(#[values(On::Sim, On::Gpu)] on: On) {
    use moye::{Matmul, Matrix, MatrixMut};
    let Some(device) = on.device() else { return };
    let a = device.upload(&[1f32, 2.0, 3.0, 4.0]).unwrap();
    let c = device.upload(&[0f32; 8]).unwrap();
    let own = device.new_stream().unwrap();
    // SAFETY: the buffers and the stream outlive everything derived from them, and the work has
    // completed before they are read.
    unsafe {
        let stream = moye::Stream::from_raw_handle(&device, own.raw_handle().unwrap()).unwrap();
        let view = |len| Buffer::<f32>::from_raw_parts(a.address(), len, &device).unwrap();
        let (a, b) = (view(4), view(4));
        let mut product = Buffer::<f32>::from_raw_parts(c.address() + 16, 4, &device).unwrap();
        let (a, b) = (Matrix::row_major(&a, 2, 2).unwrap(), Matrix::row_major(&b, 2, 2).unwrap());
        let mut to = MatrixMut::row_major(&mut product, 2, 2).unwrap();
        Matmul::new(a.clone(), b).run_on(&stream, &mut to).unwrap();
        stream.synchronize().unwrap();
        let mut turned = Buffer::<f32>::from_raw_parts(c.address(), 4, &device).unwrap();
        moye::copy_on(&stream, &a.t(), &mut MatrixMut::row_major(&mut turned, 2, 2).unwrap()).unwrap();
        stream.synchronize().unwrap();
    }
    assert_eq!(c.download().unwrap(), [1.0, 3.0, 2.0, 4.0, 7.0, 10.0, 15.0, 22.0], "{device:?}");
    own.synchronize().unwrap();
}

#[test]
fn the_simulator_refuses_memory_that_it_has_not_and_handles_of_the_driver() {
    let (device, other) = (Device::sim(), Device::sim());
    let numbers = other.upload(&[1f32; 4]).unwrap();
    // SAFETY: all calls are refused.
    unsafe {
        for (address, len) in [(numbers.address(), 4), (0x1000, 1)] {
            let error = Buffer::<f32>::from_raw_parts(address, len, &device).unwrap_err().to_string();
            assert!(error.contains("are not within one allocation of the simulated device"), "{error}");
        }
        let error = Buffer::<f32>::from_raw_parts(numbers.address() + 4, 4, &other).unwrap_err().to_string();
        assert!(error.starts_with("16 bytes at address 0x"), "{error}");
        let error = Buffer::<f64>::from_raw_parts(numbers.address() + 4, 1, &other).unwrap_err().to_string();
        assert!(error.contains("is not a multiple of 8 bytes, as elements of f64 require"), "{error}");
        let handle = std::ptr::without_provenance_mut(1);
        let error = moye::Stream::from_raw_handle(&device, handle).unwrap_err().to_string();
        assert!(error.contains("the simulator has no streams of the driver; give a null stream"), "{error}");
        assert!(moye::Stream::from_raw_handle(&device, std::ptr::null_mut()).is_ok());
        assert!(moye::Event::from_raw_handle(&device, handle).is_err());
    }
}

#[rstest]
fn a_stream_waits_for_an_event_of_its_device_alone(#[values(On::Sim, On::Gpu)] on: On) {
    let Some(device) = on.device() else { return };
    let mut event = device.default_stream().record().unwrap();
    let stream = device.new_stream().unwrap();
    stream.wait(&event).unwrap();
    event.record_again(&stream).unwrap();
    event.synchronize().unwrap();
    let other = Device::sim();
    if device.is_gpu() {
        assert!(matches!(other.default_stream().wait(&event), Err(Error::EventsOfTwoDevices)));
    }
}

#[rstest]
fn ranges_reach_their_own_elements_only(#[values(On::Sim, On::Gpu)] on: On) {
    let Some(device) = on.device() else { return };
    let mut buffer = device.upload(&[0u32, 1, 2, 3, 4, 5, 6, 7]).unwrap();
    assert_eq!(buffer.slice(2..=4).unwrap().download().unwrap(), [2, 3, 4]);
    assert_eq!(buffer.slice(2..).unwrap().slice(1..3).unwrap().download().unwrap(), [3, 4]);
    assert_eq!(buffer.slice(3..).unwrap().address(), buffer.address() + 12);
    buffer.slice_mut(6..).unwrap().upload_from(&[60, 70]).unwrap();
    let (mut low, mut high) = buffer.as_slice_mut().split_at(3).unwrap();
    low.slice_mut(..1).unwrap().fill_bytes(0xFF).unwrap();
    high.slice_mut(0..2).unwrap().upload_from(&[30, 40]).unwrap();
    assert_eq!((low.len(), high.len()), (3, 5));
    assert_eq!(buffer.download().unwrap(), [u32::MAX, 1, 2, 30, 40, 5, 60, 70], "{device:?}");
}

#[test]
fn a_range_outside_its_buffer_is_an_error_with_the_values() {
    let mut buffer = Device::sim().alloc_zeroed::<f32>(8).unwrap();
    let message = |result: Result<(), Error>| result.unwrap_err().to_string();
    let expected = "elements 3..9 are out of bounds of a buffer of 8 elements";
    assert_eq!(message(buffer.slice(3..9).map(drop)), expected);
    assert_eq!(message(buffer.slice_mut(3..9).map(drop)), expected);
    #[expect(clippy::reversed_empty_ranges, reason = "that is what is refused")]
    let reversed = buffer.slice(5..4).map(drop);
    assert!(matches!(reversed, Err(Error::OutOfRange { start: 5, end: 4, len: 8 })));
    assert!(buffer.slice(..=usize::MAX).is_err(), "the end overflows");
    assert!(buffer.as_slice().slice(9..).is_err());
    assert!(buffer.as_slice_mut().split_at(9).is_err());
    assert_eq!(
        message(buffer.upload_from(&[0.0; 7])),
        "the host has 7 elements and the device 8; a copy needs equal lengths"
    );
    assert!(matches!(
        buffer.slice(2..4).unwrap().download_into(&mut [0.0; 3]),
        Err(Error::LengthMismatch { host: 3, device: 2 })
    ));
}

#[rstest]
fn a_buffer_larger_than_memory_is_an_error_with_the_values(#[values(On::Sim, On::Gpu)] on: On) {
    let Some(device) = on.device() else { return };
    for len in [usize::MAX, usize::MAX / 8, isize::MAX as usize / 8 + 1] {
        let error = device.alloc_uninit::<f64>(len).unwrap_err();
        assert!(matches!(error, Error::BufferTooLarge { elements, size: 8 } if elements == len), "{error}");
    }
    let error = device.alloc_uninit::<u8>(1 << 60).unwrap_err().to_string();
    assert!(error.contains(&(1u64 << 60).to_string()), "{device:?}: {error}");
}

#[rstest]
fn a_kernel_runs_with_the_arguments_that_it_was_given(#[values(On::Sim, On::Gpu)] on: On) {
    let Some(device) = on.device() else { return };
    let module = device.load(&PTX).unwrap();
    let x = device.upload(&[1.0f32, 2.0, 3.0, 4.0]).unwrap();
    let mut y = device.alloc_zeroed::<f32>(4).unwrap();
    // SAFETY: four elements each.
    unsafe { module.launch(&SCALE, one_thread(), (&x, &mut y, 2.0, 4)) }.unwrap();
    assert_eq!(y.download().unwrap(), [2.0, 4.0, 6.0, 8.0], "{device:?}");
    let mut upper = y.slice_mut(2..).unwrap();
    // SAFETY: two elements each.
    unsafe { module.launch(&SCALE, one_thread(), (x.slice(1..3).unwrap(), &mut upper, 10.0, 2)) }.unwrap();
    device.synchronize().unwrap();
    assert_eq!(y.download().unwrap(), [2.0, 4.0, 20.0, 30.0], "{device:?}: ranges start where they say");
}

#[rstest]
fn every_type_of_parameter_arrives_as_it_was_passed(#[values(On::Sim, On::Gpu)] on: On) {
    let ptx = Ptx::new("moye-kernels-copy", moye_kernels_copy::PTX_SM_80);
    let (g, k) = (half::f16::from_f32(-1.5), half::bf16::from_f32(3.0e38));
    let (d, m) = (-2.0f64.powi(-1000), f32::MIN_POSITIVE);
    let narrow = (0xA5u8, i8::MIN, 0xFEDCu16, i16::MIN + 1, 0xFEDC_BA98u32, i32::MIN + 2);
    let wide = (0xFEDC_BA98_7654_3210u64, i64::MIN + 3, usize::MAX - 4, isize::MIN + 5);
    let expected = [
        narrow.0.into(),
        wide.0,
        narrow.1 as u64,
        d.to_bits(),
        narrow.2.into(),
        wide.1 as u64,
        g.to_bits().into(),
        wide.2 as u64,
        narrow.3 as u64,
        wide.3 as u64,
        k.to_bits().into(),
        narrow.4.into(),
        m.to_bits().into(),
        narrow.5 as u64,
    ];
    let Some(device) = on.device() else { return };
    let module = device.load(&ptx).unwrap();
    let mut output = device.alloc_zeroed::<u64>(expected.len()).unwrap();
    let arguments = (
        narrow.0,
        wide.0,
        narrow.1,
        d,
        narrow.2,
        wide.1,
        g,
        wide.2,
        narrow.3,
        wide.3,
        k,
        &mut output,
        narrow.4,
        m,
        narrow.5,
    );
    // SAFETY: the buffer has an element for each number.
    unsafe { module.launch(&moye_kernels_copy::every_parameter, one_thread(), arguments) }.unwrap();
    assert_eq!(output.download().unwrap(), expected, "{device:?}");
}

#[rstest]
fn a_struct_of_another_crate_is_passed_field_by_field(#[values(On::Sim, On::Gpu)] on: On) {
    use moye_kernels_copy::{Padded, Scaled, Single, structs};
    // The module's PTX, whose parameters the simulator compares too, belongs to the kernel's crate.
    let ptx = Ptx::new("moye-kernels-copy", moye_kernels_copy::PTX_SM_80);
    let Some(device) = on.device() else { return };
    let module = device.load(&ptx).unwrap();
    let x = device.upload(&[1_000_000_007u32]).unwrap();
    let mut output = device.alloc_zeroed::<f64>(9).unwrap();
    let padded = |narrow, float, half| Padded { narrow, float, half: half::f16::from_f32(half) };
    let first =
        Scaled { x: Global::from_address(x.address()), factor: -3i64, padded: padded(255, 0.5, -8.0) };
    let arguments = (first, Single(2.25), &mut output, padded(7, -1.5, 0.125));
    // SAFETY: the buffers have one element and nine.
    unsafe { module.launch(&structs, one_thread(), arguments) }.unwrap();
    let expected = [1_000_000_007.0, -3.0, 255.0, 0.5, -8.0, 2.25, 7.0, -1.5, 0.125];
    assert_eq!(output.download().unwrap(), expected, "{device:?}");
}

#[rstest]
fn parameters_may_have_the_names_of_the_attributes_own_locals_and_of_the_kernel(
    #[values(On::Sim, On::Gpu)] on: On,
) {
    let ptx = Ptx::new("moye-kernels-copy", moye_kernels_copy::PTX_SM_80);
    let Some(device) = on.device() else { return };
    let module = device.load(&ptx).unwrap();
    let mut output = device.alloc_zeroed::<u64>(1).unwrap();
    // Powers of two: each parameter contributes a separate bit to the sum.
    let arguments = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, &mut output);
    // SAFETY: the buffer has an element.
    unsafe { module.launch(&moye_kernels_copy::named_as_locals, one_thread(), arguments) }.unwrap();
    assert_eq!(output.download().unwrap(), [1023], "{device:?}");
}

#[rstest]
fn a_device_is_used_from_many_threads_and_streams(#[values(On::Sim, On::Gpu)] on: On) {
    let Some(device) = on.device() else { return };
    let module = device.load(&PTX).unwrap();
    std::thread::scope(|scope| {
        for t in 0..4u8 {
            let module = &module;
            scope.spawn(move || {
                let device = module.device();
                let stream = device.new_stream().unwrap();
                let x = device.upload(&[f32::from(t); 100]).unwrap();
                let mut y = device.alloc_uninit::<f32>(100).unwrap();
                // SAFETY: 100 elements each.
                unsafe { module.launch_on(&stream, &SCALE, one_thread(), (&x, &mut y, 3.0, 100)) }.unwrap();
                stream.synchronize().unwrap();
                assert_eq!(y.download().unwrap(), [3.0 * f32::from(t); 100], "{device:?}");
            });
        }
    });
}

#[rstest]
fn times_are_measured(#[values(On::Sim, On::Gpu)] on: On) {
    let Some(device) = on.device() else { return };
    let module = device.load(&PTX).unwrap();
    let x = device.upload(&[1.0f32; 1 << 14]).unwrap();
    let mut y = device.alloc_uninit::<f32>(1 << 14).unwrap();
    let wall = Instant::now();
    let time = device
        .time(|stream| {
            // SAFETY: both buffers have this number of elements.
            unsafe { module.launch_on(stream, &SCALE, one_thread(), (&x, &mut y, 1.0, 1 << 14)) }
        })
        .unwrap();
    let wall = wall.elapsed();
    // The device's clock and the host's differ slightly.
    let most = wall + Duration::from_millis(1);
    assert!(Duration::ZERO < time && time <= most, "{device:?}: {time:?}, of {wall:?} by the clock");
}

#[test]
fn events_of_two_devices_have_no_time_between_them() {
    let Some(other) = On::Gpu.device() else { return };
    let start = Device::sim().default_stream().record().unwrap();
    let end = other.default_stream().record().unwrap();
    assert!(matches!(end.elapsed_since(&start), Err(Error::EventsOfTwoDevices)));
}

#[rstest]
fn extents_that_no_device_takes_are_refused_with_the_values(#[values(On::Sim, On::Gpu)] on: On) {
    let Some(device) = on.device() else { return };
    let module = device.load(&PTX).unwrap();
    let refused = |grid: Grid, extent: &str| {
        // SAFETY: the kernel does nothing.
        let error = unsafe { module.launch(&nothing(None, 0), grid, ()) }.unwrap_err();
        assert!(error.to_string().contains(extent), "{grid:?}: {error}");
    };
    refused(Grid::new(0, 32), "blocks.x = 0: it must be from 1 to 2147483647; skip the launch");
    refused(Grid::new((1, 65536), 32), "blocks.y = 65536: it must be from 1 to 65535");
    refused(Grid::new((1, 1, 65536), 32), "blocks.z = 65536");
    refused(Grid::new(1 << 31, 32), "blocks.x = 2147483648");
    refused(Grid::new(1, 0), "threads.x = 0");
    refused(Grid::new(1, 1025), "threads.x = 1025");
    refused(Grid::new(1, (1, 1, 65)), "threads.z = 65: it must be from 1 to 64");
    refused(Grid::new(1, (32, 33)), "1056 threads in a block: every device allows 1024");
}

#[rstest]
fn threads_over_the_launch_bounds_are_refused_with_both_numbers(#[values(On::Sim, On::Gpu)] on: On) {
    let Some(device) = on.device() else { return };
    let module = device.load(&PTX).unwrap();
    let x = device.upload(&[1.0f32]).unwrap();
    let mut y = device.alloc_uninit::<f32>(1).unwrap();
    // SAFETY: the launch is refused.
    let error = unsafe { module.launch(&SCALE, Grid::new(1, (13, 5)), (&x, &mut y, 1.0, 1)) }.unwrap_err();
    let expected =
        "`scale` cannot be launched with 65 threads in a block: the kernel's launch bounds allow 64";
    assert_eq!(error.to_string(), expected);
}

#[rstest]
fn threads_other_than_those_of_the_kernel_are_refused(#[values(On::Sim, On::Gpu)] on: On) {
    let Some(device) = on.device() else { return };
    let module = device.load(&PTX).unwrap();
    let bounds = LaunchBounds { threads: Some(128), exact: true, min_blocks: None };
    let kernel = Kernel::<()>::new("nothing", "moye-tests", bounds, 0, |()| {});
    for threads in [96, 64, 129] {
        // SAFETY: the launch is refused.
        let error = unsafe { module.launch(&kernel, Grid::new(1, threads), ()) }.unwrap_err();
        assert!(matches!(error, Error::WrongThreads { expected: 128, .. }), "{error}");
        assert!(error.to_string().contains(&format!("with {threads} threads in a block")), "{error}");
    }
}

#[rstest]
fn shared_memory_over_the_limit_is_refused_with_both_numbers(#[values(On::Sim, On::Gpu)] on: On) {
    let Some(device) = on.device() else { return };
    let module = device.load(&PTX).unwrap();
    let limit = device.properties().shared_bytes_per_block;
    assert!(
        limit >= 99 * 1024,
        "{device:?}: every architecture from sm_80 on has 99 KB or more, not {limit}"
    );
    // SAFETY: the kernel does nothing.
    let error = unsafe { module.launch(&nothing(None, limit + 1), Grid::new(1, 1), ()) }.unwrap_err();
    assert!(
        matches!(error, Error::SharedMemory { asked, limit: l, .. } if (asked, l) == (limit + 1, limit)),
        "{error}"
    );
}

#[rstest]
fn a_kernel_may_have_all_the_shared_memory_that_there_is(#[values(On::Sim, On::Gpu)] on: On) {
    let Some(device) = on.device() else { return };
    let module = device.load(&PTX).unwrap();
    let limit = device.properties().shared_bytes_per_block;
    // More than a kernel has without opting in, and then all.
    for bytes in [STATIC_SHARED_BYTES + 1, limit] {
        assert!(bytes > 48 * 1024, "{device:?}: {bytes}");
        let bounds = LaunchBounds { threads: Some(64), exact: false, min_blocks: None };
        // SAFETY: this kernel passes on the launch's contract.
        let kernel =
            Kernel::new(SCALE.name(), SCALE.package(), bounds, bytes, |all| unsafe { SCALE.call(all) });
        let x = device.upload(&[1.0f32, 2.0]).unwrap();
        let mut y = device.alloc_zeroed::<f32>(2).unwrap();
        // SAFETY: two elements each.
        unsafe { module.launch(&kernel, one_thread(), (&x, &mut y, 3.0, 2)) }.unwrap();
        assert_eq!(y.download().unwrap(), [3.0, 6.0], "{device:?} with {bytes} bytes of shared memory");
    }
}

#[rstest]
fn a_buffer_of_another_device_is_refused_with_its_position(#[values(On::Sim, On::Gpu)] on: On) {
    let Some(device) = on.device() else { return };
    let module = device.load(&PTX).unwrap();
    let other = Device::sim();
    let x = device.upload(&[1.0f32]).unwrap();
    let mut y = other.alloc_uninit::<f32>(1).unwrap();
    // SAFETY: the launch is refused.
    let error = unsafe { module.launch(&SCALE, one_thread(), (&x, &mut y, 1.0, 1)) }.unwrap_err();
    assert!(matches!(error, Error::WrongDevice { argument: 1, kernel: "scale", .. }), "{error}");
    // SAFETY: the launch is refused.
    let error = unsafe { module.launch_on(&other.default_stream(), &nothing(None, 0), one_thread(), ()) };
    assert!(error.is_err(), "a stream of another device is refused");
}

#[rstest]
fn a_kernel_that_a_module_lacks_is_named(#[values(On::Sim, On::Gpu)] on: On) {
    let Some(device) = on.device() else { return };
    let module = device.load(&PTX).unwrap();
    // SAFETY: the launch is refused.
    let error = unsafe { module.launch(&nothing(None, 0), one_thread(), ()) }.unwrap_err().to_string();
    assert!(
        error.contains("module `tests` has no kernel `nothing` (of package `moye-tests`)"),
        "{device:?}: {error}"
    );
}

#[rstest]
fn a_kernel_with_other_parameters_than_its_entry_is_refused_with_both_lists(
    #[values(On::Sim, On::Gpu)] on: On,
) {
    let one = Kernel::<(u64,)>::new(
        "scale",
        "others",
        LaunchBounds { threads: None, exact: false, min_blocks: None },
        0,
        |_| panic!("it is refused before it runs"),
    );
    let swapped = Kernel::<(Global<f32>, GlobalMut<f32>, u32, f32)>::new(
        "scale",
        "moye-tests",
        LaunchBounds { threads: None, exact: false, min_blocks: None },
        0,
        |_| panic!("it is refused before it runs"),
    );
    let shipped = Kernel::<(f32,)>::new(
        "copy",
        "moye-movement",
        LaunchBounds { threads: None, exact: false, min_blocks: None },
        0,
        |_| panic!("it is refused before it runs"),
    );
    let Some(device) = on.device() else { return };
    let module = device.load(&PTX).unwrap();
    // The right kernel is not confused with the others, in either order.
    let x = device.upload(&[1.0f32]).unwrap();
    let mut y = device.alloc_zeroed::<f32>(1).unwrap();
    // SAFETY: the launch is refused.
    let error = unsafe { module.launch(&one, one_thread(), (7,)) }.unwrap_err();
    assert_eq!(
        error.to_string(),
        "kernel `scale` (of package `others`) takes (u64), but the kernel of that name in module `tests` takes (.u64, \
         .u64, .f32, .u32); load the PTX of that package, built from the same source as this program, and give kernels \
         of one module different names",
        "{device:?}"
    );
    // SAFETY: one element each.
    unsafe { module.launch(&SCALE, one_thread(), (&x, &mut y, 2.0, 1)) }.unwrap();
    // SAFETY: the launch is refused.
    let error = unsafe { module.launch(&swapped, one_thread(), (&x, &mut y, 1, 2.0)) }.unwrap_err();
    assert!(matches!(error, Error::OtherParameters { kernel: "scale", .. }), "{device:?}: {error}");
    // SAFETY: the launch is refused.
    let error = unsafe { device.launch(&shipped, one_thread(), (2.0,)) }.unwrap_err();
    assert!(matches!(error, Error::OtherParameters { module: "moye_movement", .. }), "{device:?}: {error}");
    assert_eq!(y.download().unwrap(), [2.0], "{device:?}");
}

#[test]
fn a_kernel_of_another_package_needs_its_module_on_a_gpu() {
    let Some(device) = crate::common::gpu() else { return };
    // SAFETY: the launch is refused.
    let error = unsafe { device.launch(&nothing(None, 0), one_thread(), ()) }.unwrap_err();
    assert!(matches!(error, Error::NeedsModule { kernel: "nothing", package: "moye-tests" }), "{error}");
}

#[test]
fn ptx_that_a_gpu_cannot_run_is_refused_with_the_reason() {
    let Some(device) = crate::common::gpu() else { return };
    let load = |ptx: Ptx| device.load(&ptx).map(drop).unwrap_err();
    let error = load(Ptx::new("future", &[("sm_999", "")]));
    assert!(matches!(error, Error::NoPtxForArch { .. }), "{error}");
    let error = load(Ptx::new("newer", &[("sm_80", ".version 99.0\n.target sm_80\n.address_size 64\n")]));
    assert!(matches!(error, Error::PtxVersion { .. } | Error::PtxRefused { .. }), "{error}");
    let error =
        load(Ptx::new("broken", &[("sm_80", ".version 7.0\n.target sm_80\n.address_size 64\nnonsense;\n")]));
    assert!(
        matches!(&error, Error::PtxRefused { log, .. } if log.contains("line 4")),
        "the compiler's log: {error}"
    );
}

#[test]
fn the_best_device_is_gpu_0_where_it_can_be_used_and_the_simulator_otherwise() {
    let best = Device::choose(DeviceChoice::Auto).unwrap();
    match Device::gpu(0) {
        Ok(gpu) => {
            assert!(best.is_gpu() && best.why_simulated().is_none(), "{best:?}");
            assert_eq!(best.name(), gpu.name());
        }
        Err(reason) => {
            assert!(!best.is_gpu(), "{best:?}");
            let told = best.why_simulated().unwrap_or_else(|| panic!("it says why"));
            assert_eq!(told.to_string(), reason.to_string());
        }
    }
}

#[test]
fn a_missing_gpu_is_reported_and_a_failure_where_one_is_required() {
    if Device::gpu(0).is_ok() {
        return;
    }
    // A test of this program, in a separate process.
    let test = |required: &str, device: &str| {
        let mut test = std::process::Command::new(std::env::current_exe().unwrap());
        test.args(["--exact", "launches::buffers_may_be_empty::on_2_On__Gpu"]);
        test.env("MOYE_REQUIRE_GPU", required).env("MOYE_DEVICE", device);
        let output = test.output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    };
    let (passed, said) = test("0", "auto");
    assert!(said.contains("running 1 test"), "{said}");
    assert!(passed && said.contains("tests on a GPU are skipped: "), "{said}");
    let (passed, said) = test("1", "auto");
    assert!(!passed && said.contains("MOYE_REQUIRE_GPU=1, but: "), "{said}");
    let (passed, said) = test("1", "sim");
    assert!(!passed && said.contains("MOYE_REQUIRE_GPU=1, but MOYE_DEVICE leaves the GPU out"), "{said}");
}

#[test]
fn a_gpu_that_is_not_there_is_an_error_with_the_way_out() {
    let error = match Device::gpu_count() {
        Ok(count) => Device::gpu(count).unwrap_err(),
        Err(_) => Device::gpu(0).unwrap_err(),
    };
    let text = error.to_string();
    match error {
        Error::NoDriver { .. } => {
            assert!(
                text.contains("libcuda.so.1") && text.contains("MOYE_DEVICE=sim, or --device sim"),
                "{text}"
            )
        }
        Error::NoGpu => assert!(text.contains("nvidia-smi"), "{text}"),
        Error::GpuIndex { index, count } => assert_eq!(index, count, "{text}"),
        other => panic!("{other}"),
    }
}
