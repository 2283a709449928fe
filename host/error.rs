//! What can go wrong on the host's side, each with the values and the way out.

use crate::device::Arch;
use crate::driver::{self, DriverCode};
use std::fmt;
use thiserror::Error as ThisError;

/// A result with this crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call of this crate failed. Its `Debug` form is its message, which is what
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
        /// The loader's words.
        reason: String,
    },
    /// There is a driver, but no GPU that it may use.
    #[error(
        "the NVIDIA driver reports no GPU; see whether `nvidia-smi` lists one and CUDA_VISIBLE_DEVICES does not hide \
         it, or run on the simulator (MOYE_DEVICE=sim, or --device sim of the program moye)"
    )]
    NoGpu,
    /// No GPU has this index.
    #[error("there is no GPU {index}: {}", match count { 1 => "the only one here is GPU 0".to_owned(), n => format!("the {n} here are GPU 0 to {}", n - 1) })]
    GpuIndex {
        /// What was asked for.
        index: u32,
        /// How many GPUs there are, at least 1.
        count: u32,
    },
    /// The GPU is older than what the kernels are compiled for.
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
    /// A profile was asked of a GPU.
    #[error(
        "{device} takes no profile: run the kernel on `Device::sim()` for one, or under NVIDIA's `ncu` on the GPU"
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
        /// The first CUDA version whose driver takes it.
        needs: String,
        /// The CUDA version of this driver.
        driver: (u32, u32),
    },
    /// None of a module's PTX texts runs on this GPU.
    #[error(
        "the kernels of `{module}` are compiled for {compiled}, none of which runs on {arch}; add \
         `.arch(\"{arch}\")` or an older one to its PtxBuilder"
    )]
    NoPtxForArch {
        /// The module.
        module: &'static str,
        /// What it was compiled for.
        compiled: String,
        /// The GPU's architecture.
        arch: Arch,
    },
    /// The driver's compiler refused the PTX.
    #[error("the driver refused the PTX of `{module}` for {image} with {code}{}", if log.is_empty() { String::new() } else { format!(": {log}") })]
    PtxRefused {
        /// The module.
        module: &'static str,
        /// Which of its texts.
        image: &'static str,
        /// The driver's code.
        code: DriverCode,
        /// The compiler's log.
        log: String,
    },
    /// A file of `moye tune` that cannot be read or written, or is none.
    #[error("{} {detail}", path.display())]
    TuningFile {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong with it, and what to do.
        detail: String,
    },
    /// A factor of a product that its type cannot represent.
    #[error("{name} is {value:?}, and products of {element} take {takes}; {way_out}")]
    Factor {
        /// `alpha` or `beta`.
        name: &'static str,
        /// What it was to be.
        value: f64,
        /// The operands' elements.
        element: &'static str,
        /// What their products take.
        takes: &'static str,
        /// What to do.
        way_out: &'static str,
    },
    /// The device has no memory left for a buffer.
    #[error(
        "{device} has no memory for {asked} bytes: {free} of {total} bytes are free; drop buffers or use smaller ones"
    )]
    OutOfMemory {
        /// The device's name.
        device: String,
        /// What the buffer would take.
        asked: usize,
        /// What is free.
        free: usize,
        /// What the device has.
        total: usize,
    },
    /// A buffer would be larger than the address space.
    #[error("a buffer of {elements} elements of {size} bytes is larger than the address space")]
    BufferTooLarge {
        /// The elements asked for.
        elements: usize,
        /// The size of one.
        size: usize,
    },
    /// A sub-range does not lie within its buffer.
    #[error("elements {start}..{end} do not lie within a buffer of {len} elements")]
    OutOfRange {
        /// The first element.
        start: usize,
        /// One past the last.
        end: usize,
        /// The buffer's length.
        len: usize,
    },
    /// A copy between host and device where the two sides differ in length.
    #[error("the host has {host} elements and the device {device}; a copy needs as many on both sides")]
    LengthMismatch {
        /// Elements on the host.
        host: usize,
        /// Elements on the device.
        device: usize,
    },
    /// A buffer was given to another device than its own.
    #[error(
        "argument {argument} is a buffer of {buffer_device}, but `{kernel}` is launched on {device}; allocate the buffer \
         on that device (a clone of a `Device` is the same device, `Device::sim()` makes a new one)"
    )]
    WrongDevice {
        /// The kernel, or the function of this crate.
        kernel: &'static str,
        /// Which argument, counted from 0.
        argument: usize,
        /// Where the buffer lives.
        buffer_device: String,
        /// Where the launch goes.
        device: String,
    },
    /// A stream of another device than what is launched on it.
    #[error("the stream is of {stream}, and what is launched of {device}; use a stream of that device")]
    StreamOfOtherDevice {
        /// The stream's device.
        stream: String,
        /// The device of the module or graph.
        device: String,
    },
    /// A call that takes effect at once, made while a graph is captured.
    #[error(
        "{call} cannot be captured in a graph: it takes effect at once; make the call before the capture, or after the launch of the \
         graph"
    )]
    Captured {
        /// What was called.
        call: &'static str,
    },
    /// A graph that cannot take the place of another.
    #[error("the graph cannot be updated: {reason}; instantiate the new graph instead")]
    GraphUpdate {
        /// What differs.
        reason: &'static str,
    },
    /// A graph of another device.
    #[error("the graph is of {graph}, and what it is to update of {device}; capture it on that device")]
    GraphOfOtherDevice {
        /// The graph's device.
        graph: String,
        /// The device of what is updated.
        device: String,
    },
    /// A grid's or block's extent is 0 or over what devices take.
    #[error("`{kernel}` cannot be launched with {extent} = {value}: it must be from 1 to {limit}{}", if *value == 0 { "; skip the launch where there is nothing to do" } else { "" })]
    LaunchExtent {
        /// The kernel.
        kernel: &'static str,
        /// Which extent: `blocks.x`, `threads.z`, ...
        extent: &'static str,
        /// What was given.
        value: u32,
        /// The most that is possible.
        limit: u32,
    },
    /// A limit of tensor maps that is not kept.
    #[error("there can be no such tensor map: {0}")]
    TensorMap(#[source] moye_sim::TensorMapError),
    /// A tensor that a tile cannot be moved to and from.
    #[error("there can be no tensor map for the tile: {0}")]
    TensorOfTile(#[source] moye_device::atom::tma::TmaMapError),
    /// A tensor that reaches beyond its buffer.
    #[error("a tensor map of {elements} elements, and the buffer has {len}")]
    TensorBeyondBuffer {
        /// One more than the largest index of the tensor's layout.
        elements: i64,
        /// The buffer's elements.
        len: usize,
    },
    /// Clusters that the grid cannot be divided into, or that no device has.
    #[error(
        "`{kernel}` cannot be launched in clusters of {cluster} blocks: the grid has {blocks} along {axis}, which must be a \
         multiple of the cluster's extent, and a cluster has 1 to 8 blocks in all"
    )]
    Cluster {
        /// The kernel.
        kernel: &'static str,
        /// The axis that does not fit.
        axis: &'static str,
        /// The grid's blocks along it.
        blocks: u32,
        /// The cluster's extents.
        cluster: String,
    },
    /// More threads in a block than the kernel or the device allows.
    #[error("`{kernel}` cannot be launched with {threads} threads in a block: {reason} {limit}")]
    TooManyThreads {
        /// The kernel.
        kernel: &'static str,
        /// Threads of a block.
        threads: u64,
        /// The most that is possible.
        limit: u64,
        /// Whose limit it is.
        reason: &'static str,
    },
    /// A block with fewer or more threads than the kernel was written for.
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
    /// More shared memory than a block can have.
    #[error(
        "`{kernel}` needs {asked} bytes of shared memory in a block, {device} has at most {limit}; use smaller tiles or fewer stages"
    )]
    SharedMemory {
        /// The kernel.
        kernel: &'static str,
        /// What it declares.
        asked: usize,
        /// What a block can have.
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
    /// A module has another kernel under the name of the one to launch.
    #[error(
        "kernel `{kernel}` (of package `{package}`) takes ({params}), but what module `{module}` has under that name takes \
         ({entry}); load the PTX of that package, built from the same source as this program, and give kernels of one \
         module different names"
    )]
    OtherParameters {
        /// The kernel.
        kernel: &'static str,
        /// The package that declares it.
        package: &'static str,
        /// What the kernel takes: `Global<f32>, u32`.
        params: String,
        /// The module that was searched.
        module: &'static str,
        /// What the module's PTX says: `.u64, .u32`.
        entry: String,
    },
    /// A kernel of another package was launched without its module.
    #[error(
        "kernel `{kernel}` is of package `{package}`, not one of moye's own: load its PTX with `Device::load` and launch it \
         from the module"
    )]
    NeedsModule {
        /// The kernel.
        kernel: &'static str,
        /// The package that declares it.
        package: &'static str,
    },
    /// A kernel went wrong on the GPU.
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
    /// A kernel went wrong on the simulator, or cannot run there.
    #[error(transparent)]
    Simulator(#[from] moye_sim::LaunchError),
    /// The simulator's memory refused.
    #[error(transparent)]
    SimulatedMemory(#[from] moye_sim::memory::MemoryError),
    /// Any other error of the driver.
    #[error("the driver's `{call}` failed with {code}")]
    Driver {
        /// What was called.
        call: &'static str,
        /// The driver's code.
        code: DriverCode,
    },
    /// A handle of another library that cannot be used.
    #[error("this {what} cannot be used: {detail}")]
    ForeignHandle {
        /// What it is: a context, a stream, an event.
        what: &'static str,
        /// What is wrong with it, and what to do.
        detail: &'static str,
    },
    /// Memory of another library that is not the device's.
    #[error(
        "address {address:#x} is not memory of {device}, but {}; give an address that was allocated on that device",
        found.map_or_else(|| "memory that the driver does not know or of the host".to_owned(), |found| format!("of GPU {found}"))
    )]
    ForeignMemory {
        /// The address.
        address: u64,
        /// The device that it was given as memory of.
        device: String,
        /// The GPU that it is memory of, where it is device memory.
        found: Option<u32>,
    },
    /// Memory of another library that begins where no element may.
    #[error(
        "address {address:#x} is no multiple of {bytes} bytes, as elements of {element} need; copy the elements to a buffer first"
    )]
    ForeignAlignment {
        /// The address.
        address: u64,
        /// The element type.
        element: &'static str,
        /// The bytes of an element.
        bytes: usize,
    },
    /// Two events that cannot be compared.
    #[error(
        "the two events are of different devices, so no time lies between them; record both on streams of one device"
    )]
    EventsOfTwoDevices,
    /// A device's name that is none.
    #[error("`{text}` is no device: it must be `auto`, `gpu`, `gpu:N` (N from 0) or `sim`")]
    DeviceName {
        /// What was given.
        text: String,
    },
    /// The environment variable `MOYE_DEVICE` does not name a device.
    #[error("MOYE_DEVICE: {0}")]
    DeviceVariable(Box<Error>),
    /// A matrix reaches past its buffer.
    #[error(
        "a {rows}x{cols} matrix with strides ({row_stride}, {col_stride}) needs {needed} elements, the buffer has {len}"
    )]
    MatrixBounds {
        /// Rows.
        rows: usize,
        /// Columns.
        cols: usize,
        /// Elements between rows.
        row_stride: usize,
        /// Elements between columns.
        col_stride: usize,
        /// The elements that it reaches over.
        needed: u128,
        /// The elements that there are.
        len: usize,
    },
    /// A matrix that is written has one element at two places.
    #[error(
        "a {rows}x{cols} matrix with strides ({row_stride}, {col_stride}) has the same element at several places, so it \
         cannot be written"
    )]
    MatrixOverlap {
        /// Rows.
        rows: usize,
        /// Columns.
        cols: usize,
        /// Elements between rows.
        row_stride: usize,
        /// Elements between columns.
        col_stride: usize,
    },
    /// Matrices whose shapes do not fit an operation.
    #[error("{operation}: {detail}")]
    ShapeMismatch {
        /// `matmul`, `transpose`, ...
        operation: &'static str,
        /// The shapes and what was expected.
        detail: String,
    },
    /// Something that an operation does not do.
    #[error("{operation}: {detail}")]
    Unsupported {
        /// `matmul`, ...
        operation: &'static str,
        /// What was asked for, and the way out.
        detail: String,
    },
    /// An extent or a stride that a kernel cannot take.
    #[error("{operation}: {what} = {value} is over the kernel's limit of {limit}; split the matrix")]
    MatrixTooLarge {
        /// `matmul`, `transpose`, ...
        operation: &'static str,
        /// `M`, `N`, ...
        what: &'static str,
        /// Its value.
        value: usize,
        /// The most that is possible.
        limit: u64,
    },
}

impl Error {
    /// The error for a call of `cust` that failed.
    pub(crate) fn driver(call: &'static str, error: cust::error::CudaError) -> Self {
        Self::of_code(call, driver::of(error))
    }

    /// The error for a raw call of the driver that failed.
    pub(crate) fn of_code(call: &'static str, code: DriverCode) -> Self {
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
