//! Graphs and workspaces, tested by the calls that the stand-in for the driver records.

use crate::{attend_in_splits, calls, note};
use half::f16;
use moye::{Buffer, Device, Element, Matmul, Matrix, MatrixMut, Result, Stream, transpose_on};

fn count(calls: &[String], name: &str) -> usize {
    calls.iter().filter(|call| call.split(' ').next() == Some(name)).count()
}

fn launches(calls: &[String]) -> usize {
    count(calls, "cuLaunchKernel") + count(calls, "cuLaunchKernelEx")
}

/// GPU 0, which computes nothing, and two buffers of it.
struct Gpu<T: Element> {
    device: Device,
    x: Buffer<T>,
    y: Buffer<T>,
}

impl<T: Element> Gpu<T> {
    fn new() -> Self {
        let device = Device::gpu(0).unwrap();
        let [x, y] = [8192, 4096].map(|elements| device.alloc_uninit(elements).unwrap());
        Self { device, x, y }
    }
}

impl Gpu<f32> {
    /// A product in two slices of K, whose partial results need a workspace.
    fn multiply(&mut self, stream: &Stream) -> Result<()> {
        let mut c = MatrixMut::row_major(&mut self.y, 64, 64)?;
        // SAFETY: the stand-in computes nothing.
        unsafe { product(&self.x).run_on(stream, &mut c) }
    }

    fn transpose(&mut self, stream: &Stream) -> Result<()> {
        let mut transposed = MatrixMut::row_major(&mut self.y, 64, 64)?;
        // SAFETY: the stand-in computes nothing.
        unsafe { transpose_on(stream, &Matrix::row_major(self.x.slice(..4096)?, 64, 64)?, &mut transposed) }
    }
}

impl Gpu<f16> {
    fn attend(&mut self, stream: &Stream) -> Result<()> {
        // SAFETY: the stand-in computes nothing.
        unsafe { attend_in_splits(stream, &self.x, &mut self.y) }
    }
}

fn product(x: &Buffer<f32>) -> Matmul<'_, f32> {
    let matrix = || Matrix::row_major(x.slice(..4096).unwrap(), 64, 64).unwrap();
    Matmul::new(matrix(), matrix()).split_k(2)
}

/// Work on buffers and a stream.
type Work<T> = fn(&mut Gpu<T>, &Stream) -> Result<()>;

/// Does the work five times on one stream.
fn again_and_again<T: Element>(work: Work<T>) {
    let mut gpu = Gpu::new();
    let stream = gpu.device.new_stream().unwrap();
    (0..5).for_each(|_| work(&mut gpu, &stream).unwrap());
}

/// There are at least `least` launches, one workspace for all of them, and no wait.
fn check_one_workspace(calls: &[String], least: usize) {
    assert!(launches(calls) >= least, "{calls:?}");
    assert_eq!(count(calls, "cuMemAllocAsync"), 1, "{calls:?}");
    assert_eq!(count(calls, "cuStreamSynchronize"), 0, "{calls:?}");
    // The workspace is freed when the stream is dropped.
    assert_eq!(count(calls, "cuMemFreeAsync"), 1, "{calls:?}");
    let last_launch = calls.iter().rposition(|call| call.starts_with("cuLaunchKernel"));
    let free = calls.iter().position(|call| call.starts_with("cuMemFreeAsync"));
    assert!(last_launch < free, "{calls:?}");
}

#[test]
fn a_product_allocates_nothing_after_the_first_and_waits_for_nothing() {
    let Some(calls) = calls("", || again_and_again(Gpu::multiply)) else { return };
    check_one_workspace(&calls, 10);
}

#[test]
fn a_transpose_allocates_nothing_and_waits_for_nothing() {
    let Some(calls) = calls("", || again_and_again(Gpu::transpose)) else { return };
    assert_eq!(launches(&calls), 5, "{calls:?}");
    assert_eq!(count(&calls, "cuMemAllocAsync"), 0, "{calls:?}");
    assert_eq!(count(&calls, "cuStreamSynchronize"), 0, "{calls:?}");
}

#[test]
fn attention_in_splits_allocates_nothing_after_the_first_and_waits_for_nothing() {
    let Some(calls) = calls("", || again_and_again(Gpu::attend)) else { return };
    // The splits, and the combine kernel.
    check_one_workspace(&calls, 10);
}

fn captures<T: Element>(work: Work<T>) {
    let mut gpu = Gpu::new();
    let device = gpu.device.clone();
    let _graph = device.capture(|stream| work(&mut gpu, stream)).unwrap();
}

/// There is one capture, with exactly this number of launches, and none of its memory is allocated
/// in stream order, which would create a node of the graph.
fn check_capture(calls: &[String], expected: usize) {
    let position = |name: &str| calls.iter().position(|call| call.split(' ').next() == Some(name));
    let (begin, end) = (position("cuStreamBeginCapture").unwrap(), position("cuStreamEndCapture").unwrap());
    assert_eq!(launches(&calls[begin..end]), expected, "{calls:?}");
    assert_eq!(launches(calls), expected, "{calls:?}");
    assert_eq!(count(calls, "cuMemAllocAsync"), 0, "{calls:?}");
    assert_eq!(count(calls, "cuStreamSynchronize"), 0, "{calls:?}");
    assert_eq!(count(calls, "cuGraphDestroy"), 1, "{calls:?}");
}

#[test]
fn a_transpose_is_captured() {
    let Some(calls) = calls("", || captures(Gpu::transpose)) else { return };
    check_capture(&calls, 1);
    assert_eq!(count(&calls, "cuMemFree"), 2, "two buffers: {calls:?}");
}

#[test]
fn attention_in_splits_is_captured_with_a_workspace_of_the_graph() {
    let Some(calls) = calls("", || captures(Gpu::attend)) else { return };
    // The splits, and the combine kernel.
    check_capture(&calls, 2);
    assert_eq!(count(&calls, "cuMemFree"), 3, "two buffers and a workspace: {calls:?}");
}

fn captures_launches_and_updates() {
    let mut gpu = Gpu::new();
    let device = gpu.device.clone();
    let mut capture = || device.capture(|stream| gpu.multiply(stream)).unwrap();
    let mut graph = capture().instantiate().unwrap();
    // SAFETY: the stand-in computes nothing.
    unsafe { graph.launch(&device.default_stream()).unwrap() };
    let updated = graph.update(&capture());
    if std::env::var("FAKE_DRIVER").unwrap() == "update" {
        let error = updated.unwrap_err().to_string();
        let expected = "it has other launches, or in another order; instantiate the new graph";
        assert!(error.contains(expected), "{error}");
    } else {
        updated.unwrap();
    }
}

#[test]
fn a_graph_is_captured_on_a_stream_of_its_own_and_what_was_made_is_destroyed() {
    for fault in ["", "update"] {
        let Some(calls) = calls(fault, captures_launches_and_updates) else { return };
        // The stand-in's stream handle is 2, its graph 7, its executable graph 8; relaxed mode is
        // 2.
        assert!(calls.contains(&"cuStreamBeginCapture 0x2 0x2".to_owned()), "{calls:?}");
        assert_eq!(count(&calls, "cuStreamEndCapture"), 2, "{calls:?}");
        for once in [
            "cuGraphInstantiateWithFlags 0x7",
            "cuGraphLaunch 0x8 0x2",
            "cuGraphExecUpdate 0x8 0x7",
            "cuGraphExecDestroy 0x8",
        ] {
            assert_eq!(calls.iter().filter(|call| *call == once).count(), 1, "{once}: {calls:?}");
        }
        assert_eq!(count(&calls, "cuGraphDestroy"), 2, "{calls:?}");
        // Each graph has a workspace, which is not one of its nodes.
        assert_eq!(count(&calls, "cuMemAllocAsync"), 0, "{calls:?}");
        assert_eq!(count(&calls, "cuStreamDestroy"), 2, "the streams of both captures: {calls:?}");
        assert_eq!(count(&calls, "cuMemFree"), 4, "two buffers and two workspaces: {calls:?}");
    }
}

/// Calls `work` before, during and after another library's capture of the stream, with records in
/// between.
fn while_another_library_captures(mut work: impl FnMut()) {
    let capture = std::env::var_os("FAKE_DRIVER_CAPTURES").unwrap();
    work();
    say("captures");
    std::fs::write(&capture, "").unwrap();
    work();
    work();
    std::fs::remove_file(&capture).unwrap();
    say("has captured");
    work();
    say("ends");
}

/// Appends a line to the calls that the stand-in records.
fn say(line: &str) {
    note("FAKE_DRIVER_CALLS", line);
}

/// A product with stream-K tiles, which its blocks count.
fn multiplies_in_shared_tiles() {
    let device = Device::gpu(0).unwrap();
    // SAFETY: the stand-in touches no memory.
    let buffer = |number: u64| unsafe {
        Buffer::<f16>::from_raw_parts((1 << 42) + (number << 32), 1 << 28, &device).unwrap()
    };
    let (a, b, mut c) = (buffer(0), buffer(1), buffer(2));
    let n = 8192;
    let (a, b) = (Matrix::row_major(&a, n, n).unwrap(), Matrix::col_major(&b, n, n).unwrap());
    let mut c = MatrixMut::row_major(&mut c, n, n).unwrap();
    let product = Matmul::new(a, b);
    assert!(product.explain(&device, &mut c).unwrap().shared_tiles > 0);
    let stream = device.new_stream().unwrap();
    // SAFETY: the stand-in computes nothing.
    while_another_library_captures(|| unsafe { product.run_on(&stream, &mut c).unwrap() });
}

/// The other library's graph has the workspaces as memory nodes; the memory that the stream keeps
/// belongs to the calls outside the capture.
fn check_memory_nodes(fault: &str, counters: usize, work: impl FnOnce()) {
    let Some(calls) = calls(fault, work) else { return };
    let at = |line: &str| calls.iter().position(|call| call == line).unwrap();
    let (begin, end) = (at("captures"), at("has captured"));
    let count = |range: std::ops::Range<usize>, name| count(&calls[range], name);
    assert_eq!(count(0..begin, "cuMemAllocAsync"), 1 + counters, "kept by the stream: {calls:?}");
    // In each of the two calls; freed as soon as the launches that use it have been captured.
    for name in ["cuMemAllocAsync", "cuMemFreeAsync"] {
        assert_eq!(count(begin..end, name), 2 * (1 + counters), "{name}: {calls:?}");
    }
    assert_eq!(count(begin..end, "cuMemsetD32Async"), 2 * counters, "{calls:?}");
    let launched = launches(&calls[..begin]);
    assert_eq!(launches(&calls[begin..end]), 2 * launched, "{calls:?}");
    assert_eq!(launches(&calls[end..at("ends")]), launched, "{calls:?}");
    assert_eq!(count(end..at("ends"), "cuMemAllocAsync"), 0, "what the stream has kept: {calls:?}");
    assert_eq!(count(end..at("ends"), "cuMemFreeAsync"), 0, "{calls:?}");
}

/// [`while_another_library_captures`], of work on one stream.
fn captured_by_another_library<T: Element>(work: Work<T>) {
    let mut gpu = Gpu::new();
    let stream = gpu.device.new_stream().unwrap();
    while_another_library_captures(|| work(&mut gpu, &stream).unwrap());
}

#[test]
fn a_product_in_the_capture_of_another_library_has_its_workspace_in_that_graph() {
    check_memory_nodes("", 0, || captured_by_another_library(Gpu::multiply));
}

#[test]
fn a_product_of_shared_tiles_in_the_capture_of_another_library_has_its_counters_in_that_graph() {
    check_memory_nodes("h100", 1, multiplies_in_shared_tiles);
}

#[test]
fn attention_in_the_capture_of_another_library_has_its_workspace_in_that_graph() {
    check_memory_nodes("", 0, || captured_by_another_library(Gpu::attend));
}

fn multiplies_in_given_workspaces() {
    let Gpu { device, x, mut y } = Gpu::new();
    let mut c = MatrixMut::row_major(&mut y, 64, 64).unwrap();
    let allocate = |bytes| {
        say(&format!("allocates {bytes}"));
        Ok(1 << 43)
    };
    // SAFETY: the stand-in computes nothing.
    let stream = unsafe { device.new_stream().unwrap().with_workspaces(allocate) };
    let product = product(&x);
    let bytes = product.explain(&device, &mut c).unwrap().workspace_bytes;
    say(&format!("explains {bytes}"));
    while_another_library_captures(|| {
        // SAFETY: the stand-in computes nothing.
        unsafe { product.run_on(&stream, &mut c).unwrap() };
    });
    // SAFETY: the stand-in computes nothing.
    let error = unsafe {
        let stream = stream.with_workspaces(|_| Ok((1 << 43) + 16));
        product.run_on(&stream, &mut c).unwrap_err().to_string()
    };
    assert!(error.contains("its address 0x80000000010 is not a multiple of 256"), "{error}");
}

#[test]
fn a_caller_gives_the_workspace_once_a_call_and_nothing_else_is_allocated() {
    let Some(calls) = calls("", multiplies_in_given_workspaces) else { return };
    let bytes = calls.iter().find_map(|call| call.strip_prefix("explains ")).unwrap();
    let allocated: Vec<_> = calls.iter().filter(|call| call.starts_with("allocates")).collect();
    assert_eq!(allocated, vec![&format!("allocates {bytes}"); 4], "{calls:?}");
    assert_eq!(count(&calls, "cuMemAllocAsync"), 0, "{calls:?}");
    assert_eq!(launches(&calls) % 4, 0, "{calls:?}");
}
