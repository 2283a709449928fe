//! Kernels by the names of their entry points, for a program that has their PTX but not their Rust.

use super::{Grid, Prepared};
use crate::device::Backend;
use crate::driver::launch::Extents;
use crate::module::Module;
use crate::ptx::{EntryParams, Ptx, PtxParam};
use crate::stream::Stream;
use crate::{Error, Result};
use moye_device::kernel::LaunchBounds;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// The operation in this file's errors.
const LAUNCH: &str = "launch_entry";

impl Ptx {
    /// The parameters of the entry point of this name, as the PTX declares them; `None` if it is
    /// absent.
    pub fn params(&self, entry: &str) -> Option<Vec<PtxParam>> {
        self.entry(entry).map(|params| params.list().to_vec())
    }

    /// The names of all entry points, sorted.
    pub fn entries(&self) -> Vec<String> {
        let names = self.images().iter().flat_map(|(_, text)| EntryParams::of_all(text));
        names.map(|(name, _)| name).collect::<BTreeSet<_>>().into_iter().collect()
    }
}

impl Module {
    /// Launches the kernel of an entry point of this module's PTX on a stream, with the bytes of
    /// each parameter and `shared_bytes` of dynamic shared memory. For a kernel whose Rust is in
    /// the program, use [`Module::launch`], whose arguments the compiler checks.
    ///
    /// # Errors
    /// The device is the simulator, which runs no PTX; the PTX lacks the entry point; the number or
    /// the sizes of the parameters differ; the device does not allow the grid; errors of loading,
    /// and of the driver.
    ///
    /// # Safety
    /// Same contract as [`Device::launch`](crate::Device::launch): the kernel's contract holds for
    /// these parameters.
    pub unsafe fn launch_entry(
        &self,
        stream: &Stream,
        entry: &str,
        grid: Grid,
        shared_bytes: usize,
        parameters: &[&[u8]],
    ) -> Result<()> {
        let wrong = |detail: String| Error::Unsupported { operation: LAUNCH, detail };
        let module = self.ptx().name();
        let params = self.ptx().params(entry).ok_or_else(|| {
            let names = self.ptx().entries().join(", ");
            wrong(format!("`{module}` has no entry point `{entry}`; it has {names}"))
        })?;
        let declared = || params.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        if params.len() != parameters.len() {
            let given = parameters.len();
            return Err(wrong(format!("`{entry}` takes ({}), and {given} arguments are given", declared())));
        }
        let sizes = params.iter().map(PtxParam::size).zip(parameters);
        if let Some((at, (size, given))) = sizes.enumerate().find(|(_, (size, given))| *size != given.len()) {
            let given = given.len();
            return Err(wrong(format!(
                "`{entry}` takes ({}), so argument {at} has {size} bytes, and {given} are given",
                declared()
            )));
        }
        let Backend::Gpu(gpu) = &self.device().0 else {
            return Err(wrong(format!(
                "`{entry}` is PTX, which a GPU runs; the simulator runs kernels whose Rust is in the program"
            )));
        };
        let name = kept(entry);
        grid.check(name, LaunchBounds { threads: None, exact: false, min_blocks: None })?;
        if stream.device() != self.device() {
            let device = self.device().label();
            return Err(Error::StreamOfOtherDevice { stream: stream.device().label(), device });
        }
        let no_such = || Error::NoSuchKernel { kernel: name, package: module, module };
        let loaded = self.loaded().ok_or_else(no_such)?;
        let function = loaded.function(gpu, name, module, shared_bytes)?;
        let (threads, limit) = (grid.threads.count() as u64, u64::from(function.attributes.max_threads));
        if threads > limit {
            return Err(Error::TooManyThreads {
                kernel: name,
                threads,
                limit,
                reason: "its registers allow",
            });
        }
        let (b, t, c) = (grid.blocks, grid.threads, grid.cluster);
        let extents = Extents {
            grid: [b.x, b.y, b.z],
            block: [t.x, t.y, t.z],
            cluster: [c.x, c.y, c.z],
            dependent: grid.dependent && function.waits,
            // `Loaded::function` has refused sizes above the limit of a block.
            shared_bytes: shared_bytes as u32,
        };
        gpu.bind()?;
        let prepared = Prepared::of_bytes(name, function.function.0, extents, parameters);
        // SAFETY: the function and the stream belong to the GPU, and the caller keeps the kernel's
        // contract.
        unsafe { prepared.launch(gpu, stream.raw(gpu)) }
    }
}

/// The name as a static string; each name is leaked once.
fn kept(name: &str) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return known;
    }
    let kept: &'static str = name.to_owned().leak();
    names.insert(kept);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;

    const PTX: Ptx = Ptx::new(
        "saxpy",
        &[(
            "sm_80",
            ".version 7.0\n.target sm_80\n.visible .entry saxpy(\n.param .u64 .ptr .align 4 x, .param .f32 a, .param .u32 n\n)\n{}",
        )],
    );

    #[test]
    fn a_launch_by_name_says_what_the_entry_point_takes_and_that_the_simulator_runs_no_ptx() {
        let device = Device::sim();
        let (module, stream) = (device.load(&PTX).unwrap(), device.default_stream());
        let launch = |entry: &str, parameters: &[&[u8]]| {
            // SAFETY: nothing is launched: the simulator runs no PTX.
            let launched = unsafe { module.launch_entry(&stream, entry, Grid::new(1, 1), 0, parameters) };
            launched.unwrap_err().to_string()
        };
        let right: &[&[u8]] = &[&[0; 8], &[0; 4], &[0; 4]];
        assert!(launch("axpy", right).contains("no entry point `axpy`; it has saxpy"));
        assert!(launch("saxpy", &right[1..]).contains("takes (.u64, .f32, .u32), and 2 arguments"));
        assert!(launch("saxpy", &[&[0; 8], &[0; 8], &[0; 4]]).contains("argument 1 has 4 bytes, and 8"));
        assert!(launch("saxpy", right).contains("which a GPU runs"));
        assert_eq!(PTX.params("saxpy").unwrap().iter().map(|p| p.kind).collect::<String>(), "ufu");
    }
}
