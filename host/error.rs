//! The errors of the host side, with the values and the way out.

use crate::arch::Arch;
use crate::driver::{self, DriverCode};
use std::fmt;
use thiserror::Error as ThisError;

/// A result with this crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a call of this crate. Its `Debug` form is its message, which is what
/// `fn main() -> moye::Result<()>` prints.
#[derive(ThisError)]
#[non_exhaustive]
pub enum Error {
    /// The driver's library cannot be opened.
    #[error(
        "no NVIDIA driver: cannot open {file} ({reason}); install the driver for your GPU, or run on the simulator \
         (MOYE_DEVICE=sim, or --device sim of the program moye)"
    )]
    NoDriver {
        /// The library's file name.
        file: &'static str,
        /// The loader's message.
        reason: String,
    },
    /// There is a driver, but no GPU that it can use.
    #[error(
        "the NVIDIA driver reports no GPU; check that `nvidia-smi` lists one and that CUDA_VISIBLE_DEVICES does not hide \
         it, or run on the simulator (MOYE_DEVICE=sim, or --device sim of the program moye)"
    )]
    NoGpu,
    /// No GPU has this index.
    #[error("there is no GPU {index}: {}", match count { 1 => "the only one here is GPU 0".to_owned(), n => format!("the {n} here are GPU 0 to {}", n - 1) })]
    GpuIndex {
        /// The requested index.
        index: u32,
        /// The number of GPUs, at least 1.
        count: u32,
    },
    /// The GPU is older than the kernels' oldest architecture.
    #[error(
        "GPU {index} ({name}, {arch}) is too old: the kernels need sm_80 (Ampere) or newer; choose another GPU \
         (MOYE_DEVICE=gpu:N, or --device gpu:N of the program moye) or the simulator (MOYE_DEVICE=sim, or --device sim)"
    )]
    GpuTooOld {
        /// The GPU's index.
        index: u32,
        /// Its name.
        name: String,
        /// Its architecture.
        arch: Arch,
    },
    /// A profile was requested on a GPU.
    #[error(
        "{device} cannot take a profile: run the kernel on `Device::sim()`, or under NVIDIA's `ncu` on the GPU"
    )]
    NoProfile {
        /// The device.
        device: String,
    },
    /// The driver lacks a function.
    #[error("the NVIDIA driver is too old: it has no `{function}`; update the driver")]
    DriverTooOld {
        /// The missing function.
        function: &'static str,
    },
    /// The driver does not understand the PTX.
    #[error(
        "the NVIDIA driver (CUDA {}.{}) is too old for the kernels of `{module}`, which are PTX {ptx}; update the driver \
         to one of CUDA {needs} or newer", driver.0, driver.1
    )]
    PtxVersion {
        /// The module.
        module: &'static str,
        /// The version of its PTX.
        ptx: String,
        /// The first CUDA version whose driver accepts it.
        needs: String,
        /// The CUDA version of this driver.
        driver: (u32, u32),
    },
    /// None of a module's PTX images runs on this GPU.
    #[error(
        "the kernels of `{module}` are compiled for {compiled}, none of which runs on {arch}; add \
         `.arch(\"{arch}\")` or an older one to its PtxBuilder"
    )]
    NoPtxForArch {
        /// The module.
        module: &'static str,
        /// The architectures of its images.
        compiled: String,
        /// The GPU's architecture.
        arch: Arch,
    },
    /// The driver's compiler refused the PTX.
    #[error("the driver refused the PTX of `{module}` for {image} with {code}{}", if log.is_empty() { String::new() } else { format!(": {log}") })]
    PtxRefused {
        /// The module.
        module: &'static str,
        /// The image.
        image: &'static str,
        /// The driver's code.
        code: DriverCode,
        /// The log of the driver's compiler.
        log: String,
    },
    /// A tuning file cannot be read or written, or is not a tuning file.
    #[error("{} {detail}", path.display())]
    TuningFile {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong with it, and the way out.
        detail: String,
    },
    /// `alpha` or `beta` is a value that the product's type cannot represent.
    #[error("{name} is {value:?}, and products of {element} take {takes}; {way_out}")]
    Factor {
        /// `alpha` or `beta`.
        name: &'static str,
        /// The given value.
        value: f64,
        /// The operands' elements.
        element: &'static str,
        /// The values that their products accept.
        takes: &'static str,
        /// The way out.
        way_out: &'static str,
    },
    /// The device has no memory left for a buffer.
    #[error(
        "{device} has no memory for {asked} bytes: {free} of {total} bytes are free; drop buffers or use smaller ones"
    )]
    OutOfMemory {
        /// The device's name.
        device: String,
        /// The requested bytes.
        asked: usize,
        /// The free bytes.
        free: usize,
        /// The device's memory in bytes.
        total: usize,
    },
    /// A buffer would be larger than the address space.
    #[error("a buffer of {elements} elements of {size} bytes is larger than the address space")]
    BufferTooLarge {
        /// The requested elements.
        elements: usize,
        /// The size of an element.
        size: usize,
    },
    /// A range is not within its buffer.
    #[error("elements {start}..{end} are out of bounds of a buffer of {len} elements")]
    OutOfRange {
        /// The first element.
        start: usize,
        /// One past the last.
        end: usize,
        /// The buffer's length.
        len: usize,
    },
    /// The lengths of a copy between host and device differ.
    #[error("the host has {host} elements and the device {device}; a copy needs equal lengths")]
    LengthMismatch {
        /// Elements on the host.
        host: usize,
        /// Elements on the device.
        device: usize,
    },
    /// A buffer was passed to a device that does not own it.
    #[error(
        "argument {argument} is a buffer of {buffer_device}, but `{kernel}` is launched on {device}; allocate the buffer \
         on that device (a clone of a `Device` is the same device, `Device::sim()` makes a new one)"
    )]
    WrongDevice {
        /// The kernel, or the function of this crate.
        kernel: &'static str,
        /// The argument's position, counted from 0.
        argument: usize,
        /// The buffer's device.
        buffer_device: String,
        /// The launch's device.
        device: String,
    },
    /// A stream belongs to another device than the module or graph launched on it.
    #[error("the stream belongs to {stream}, but the launch is for {device}; use a stream of that device")]
    StreamOfOtherDevice {
        /// The stream's device.
        stream: String,
        /// The device of the module or graph.
        device: String,
    },
    /// A synchronous call was made during the capture of a graph.
    #[error(
        "{call} cannot be captured in a graph, because it is synchronous; call it before the capture, or after the launch of the \
         graph"
    )]
    Captured {
        /// The call.
        call: &'static str,
    },
    /// The caller's allocator did not return a workspace.
    #[error(
        "an operation needs a workspace of {bytes} bytes, which the stream's allocator does not return: {reason}"
    )]
    Workspace {
        /// The bytes.
        bytes: usize,
        /// The reason.
        reason: String,
    },
    /// A stream or an event was used in a way that a capture does not allow.
    #[error("the capture of a graph is refused: {reason}\n{way_out}")]
    Capture {
        /// What is wrong.
        reason: &'static str,
        /// The way out.
        way_out: &'static str,
    },
    /// A graph cannot update another one.
    #[error("the graph cannot be updated: {reason}; instantiate the new graph instead")]
    GraphUpdate {
        /// The difference.
        reason: &'static str,
    },
    /// A graph belongs to another device.
    #[error("the graph belongs to {graph}, but the executable graph to {device}; capture it on that device")]
    GraphOfOtherDevice {
        /// The graph's device.
        graph: String,
        /// The device of the graph that it should update.
        device: String,
    },
    /// An extent of a grid or block is 0 or above the limit.
    #[error("`{kernel}` cannot be launched with {extent} = {value}: it must be from 1 to {limit}{}", if *value == 0 { "; skip the launch if there is no work" } else { "" })]
    LaunchExtent {
        /// The kernel.
        kernel: &'static str,
        /// The extent: `blocks.x`, `threads.z`, ...
        extent: &'static str,
        /// The given value.
        value: u32,
        /// The limit.
        limit: u32,
    },
    /// A tensor map violates a limit.
    #[error("invalid tensor map: {0}")]
    TensorMap(#[source] moye_sim::TensorMapError),
    /// TMA cannot copy between this tensor and this tile.
    #[error("no tensor map for this tile: {0}")]
    TensorOfTile(#[source] moye_device::atom::tma::TmaMapError),
    /// A tensor extends past the end of its buffer.
    #[error("the tensor map spans {elements} elements, but the buffer has {len}")]
    TensorBeyondBuffer {
        /// One more than the largest index of the tensor's layout.
        elements: i64,
        /// The buffer's elements.
        len: usize,
    },
    /// The clusters do not divide the grid, or no device supports them.
    #[error(
        "`{kernel}` cannot be launched in clusters of {cluster} blocks: the grid has {blocks} along {axis}, which must be a \
         multiple of the cluster's extent, and a cluster has 1 to 8 blocks in all"
    )]
    Cluster {
        /// The kernel.
        kernel: &'static str,
        /// The axis that does not match.
        axis: &'static str,
        /// The grid's blocks along it.
        blocks: u32,
        /// The cluster's extents.
        cluster: String,
    },
    /// A block has more threads than the kernel or the device allows.
    #[error("`{kernel}` cannot be launched with {threads} threads in a block: {reason} {limit}")]
    TooManyThreads {
        /// The kernel.
        kernel: &'static str,
        /// Threads of a block.
        threads: u64,
        /// The limit.
        limit: u64,
        /// The origin of the limit.
        reason: &'static str,
    },
    /// The number of threads of a block is not the one that the kernel declares.
    #[error(
        "`{kernel}` cannot be launched with {threads} threads in a block: it declares `threads = {expected}`, which is \
         exact\nlaunch it with {expected}, or declare `max_threads = {expected}` if it works with fewer"
    )]
    WrongThreads {
        /// The kernel.
        kernel: &'static str,
        /// Threads of a block.
        threads: u64,
        /// Threads that the kernel declares.
        expected: u32,
    },
    /// A kernel declares more shared memory than a block can have.
    #[error(
        "`{kernel}` needs {asked} bytes of shared memory in a block, {device} has at most {limit}; use smaller tiles or fewer stages"
    )]
    SharedMemory {
        /// The kernel.
        kernel: &'static str,
        /// The bytes that it declares.
        asked: usize,
        /// The bytes that a block can have.
        limit: usize,
        /// The device's name.
        device: String,
    },
    /// A module has no such kernel.
    #[error(
        "module `{module}` has no kernel `{kernel}` (of package `{package}`); load the PTX of that package, built from \
         the same source as this program"
    )]
    NoSuchKernel {
        /// The kernel.
        kernel: &'static str,
        /// The package that declares it.
        package: &'static str,
        /// The module that was searched.
        module: &'static str,
    },
    /// A module has another kernel of this name.
    #[error(
        "kernel `{kernel}` (of package `{package}`) takes ({params}), but the kernel of that name in module `{module}` takes \
         ({entry}); load the PTX of that package, built from the same source as this program, and give kernels of one \
         module different names"
    )]
    OtherParameters {
        /// The kernel.
        kernel: &'static str,
        /// The package that declares it.
        package: &'static str,
        /// The kernel's parameters: `Global<f32>, u32`.
        params: String,
        /// The module that was searched.
        module: &'static str,
        /// The parameters in the module's PTX: `.u64, .u32`.
        entry: String,
    },
    /// A kernel of another package was launched without its module.
    #[error(
        "kernel `{kernel}` belongs to package `{package}`, not to moye: load its PTX with `Device::load` and launch it \
         from the module"
    )]
    NeedsModule {
        /// The kernel.
        kernel: &'static str,
        /// The package that declares it.
        package: &'static str,
    },
    /// A kernel failed on the GPU.
    #[error(
        "a kernel failed on {device}: {code}; the last one launched was `{kernel}`. No GPU call succeeds in this process \
         any more. Run it under `compute-sanitizer`, or on the simulator (MOYE_DEVICE=sim, or --device sim of \
         the program moye), which names the thread and the address"
    )]
    KernelFault {
        /// The device's name.
        device: String,
        /// The driver's code.
        code: DriverCode,
        /// The kernel that was launched last.
        kernel: &'static str,
    },
    /// A kernel failed on the simulator, or cannot run there.
    #[error(transparent)]
    Simulator(#[from] moye_sim::LaunchError),
    /// The simulator's memory refused an operation.
    #[error(transparent)]
    SimulatedMemory(#[from] moye_sim::memory::MemoryError),
    /// Any other error of the driver.
    #[error("the driver's `{call}` failed with {code}")]
    Driver {
        /// The driver's function.
        call: &'static str,
        /// The driver's code.
        code: DriverCode,
    },
    /// A handle of another library cannot be used.
    #[error("this {what} cannot be used: {detail}")]
    ForeignHandle {
        /// Its kind: a context, a stream, an event.
        what: &'static str,
        /// What is wrong with it, and the way out.
        detail: &'static str,
    },
    /// Memory of another library does not belong to the device.
    #[error(
        "address {address:#x} is not memory of {device}, but {}; give an address that was allocated on that device",
        found.map_or_else(|| "host memory, or memory that the driver does not know".to_owned(), |found| format!("of GPU {found}"))
    )]
    ForeignMemory {
        /// The address.
        address: u64,
        /// The device that it was passed for.
        device: String,
        /// The GPU to which it belongs, if it is device memory.
        found: Option<u32>,
    },
    /// An address from another library is misaligned.
    #[error(
        "address {address:#x} is not a multiple of {bytes} bytes, as elements of {element} require; copy the elements to a buffer first"
    )]
    ForeignAlignment {
        /// The address.
        address: u64,
        /// The element type.
        element: &'static str,
        /// The bytes of an element.
        bytes: usize,
    },
    /// Two events cannot be compared.
    #[error(
        "the two events belong to different devices, so their times cannot be compared; record both on streams of one device"
    )]
    EventsOfTwoDevices,
    /// A device's name cannot be parsed.
    #[error("`{text}` is not a device: expected `auto`, `gpu`, `gpu:N` (N from 0) or `sim`")]
    DeviceName {
        /// The given text.
        text: String,
    },
    /// The environment variable `MOYE_DEVICE` does not name a device.
    #[error("MOYE_DEVICE: {0}")]
    DeviceVariable(Box<Error>),
    /// A matrix extends past the end of its buffer.
    #[error(
        "a {rows}x{cols} matrix with strides ({row_stride}, {col_stride}) needs {needed} elements, but the buffer has {len}"
    )]
    MatrixBounds {
        /// Rows.
        rows: usize,
        /// Columns.
        cols: usize,
        /// The row stride in elements.
        row_stride: usize,
        /// The column stride in elements.
        col_stride: usize,
        /// The elements that it spans.
        needed: u128,
        /// The buffer's elements.
        len: usize,
    },
    /// Two elements of an output matrix share memory.
    #[error(
        "a {rows}x{cols} matrix with strides ({row_stride}, {col_stride}) has the same element at several coordinates, so it \
         cannot be written"
    )]
    MatrixOverlap {
        /// Rows.
        rows: usize,
        /// Columns.
        cols: usize,
        /// The row stride in elements.
        row_stride: usize,
        /// The column stride in elements.
        col_stride: usize,
    },
    /// The shapes of matrices do not match.
    #[error("{operation}: {detail}")]
    ShapeMismatch {
        /// `matmul`, `transpose`, ...
        operation: &'static str,
        /// The shapes and the requirement.
        detail: String,
    },
    /// An operand has elements of another type than an operation takes.
    #[error("{operation}: {detail}")]
    ElementType {
        /// `matmul`, ...
        operation: &'static str,
        /// The element type, the accepted ones, and the way out.
        detail: String,
    },
    /// An operation does not support a request.
    #[error("{operation}: {detail}")]
    Unsupported {
        /// `matmul`, ...
        operation: &'static str,
        /// The request, and the way out.
        detail: String,
    },
    /// An extent or a stride exceeds a kernel's limit.
    #[error("{operation}: {what} = {value} exceeds the kernel's limit of {limit}; split the matrix")]
    MatrixTooLarge {
        /// `matmul`, `transpose`, ...
        operation: &'static str,
        /// `M`, `N`, ...
        what: &'static str,
        /// Its value.
        value: usize,
        /// The limit.
        limit: u64,
    },
}

impl Error {
    /// The error for a failed raw call of the driver.
    pub(crate) fn of_code(call: &'static str, code: DriverCode) -> Self {
        if let Some(error) = crate::captures::of_code(call, code) {
            return error;
        }
        match (code, driver::missing_function()) {
            (DriverCode::NO_DEVICE, _) => Self::NoGpu,
            (DriverCode::SYMBOL_NOT_FOUND, Some(function)) => Self::DriverTooOld { function },
            _ => Self::Driver { call, code },
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_main_that_returns_an_error_prints_its_message() {
        let error = Error::GpuIndex { index: 3, count: 2 };
        assert_eq!(format!("{error:?}"), error.to_string());
        assert!(format!("{error:?}").starts_with("there is no GPU 3"));
    }
}
