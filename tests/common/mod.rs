//! What the tests share: the devices to run on, and a small kernel.

// Every test crate uses a part of it.
#![allow(dead_code)]

pub mod assembler;
pub mod bytes;
pub mod matrix;
pub mod product;
pub mod ptx;

use moye::{Device, Global, GlobalMut, Grid, Kernel, LaunchBounds, Ptx};
use std::io::Write;
use std::sync::Once;

/// The device of a case: tests that run on each have a case for it, which its name tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// The simulator.
    Sim,
    /// The GPU, where there is one; see [`devices`].
    Gpu,
}

impl On {
    /// The device; `None` where the case is to be skipped, whose reason was printed.
    pub fn device(self) -> Option<Device> {
        match self {
            _ if !self.is_asked_for() => {
                assert!(
                    self == Self::Sim || !is_required(),
                    "MOYE_REQUIRE_GPU=1, but MOYE_DEVICE leaves the GPU out"
                );
                static SAID: [Once; 2] = [Once::new(), Once::new()];
                let left_out = format!("MOYE_DEVICE: tests on {self:?} are left out");
                say_once(&SAID[self as usize], &left_out);
                None
            }
            Self::Sim => Some(Device::sim()),
            Self::Gpu => open_gpu(),
        }
    }

    /// Whether `MOYE_DEVICE` leaves it in: `sim` is the simulator alone, `gpu` the GPU alone, for
    /// tools under which the other would take long.
    fn is_asked_for(self) -> bool {
        match std::env::var("MOYE_DEVICE").as_deref() {
            Ok("sim") => self == Self::Sim,
            Ok("gpu") => self == Self::Gpu,
            _ => true,
        }
    }
}

/// The simulator, and the GPU where there is one; or the one that `MOYE_DEVICE` names.
///
/// With `MOYE_REQUIRE_GPU=1` a missing GPU is a failure; otherwise the reason is printed once.
pub fn devices() -> Vec<Device> {
    [On::Sim, On::Gpu].into_iter().filter_map(On::device).collect()
}

/// Whether a missing GPU is a failure.
fn is_required() -> bool {
    std::env::var_os("MOYE_REQUIRE_GPU").is_some_and(|v| v == "1")
}

/// Whether `MOYE_WATCHED=1` says that a tool looks at each access of a kernel, as
/// `compute-sanitizer` does, which takes a hundred times as long: a test may have fewer of many
/// random shapes then, or fewer turns of the same loop.
pub fn is_watched() -> bool {
    std::env::var_os("MOYE_WATCHED").is_some_and(|v| v == "1")
}

/// The GPU, where there is one and `MOYE_DEVICE` does not leave it out; see [`devices`].
pub fn gpu() -> Option<Device> {
    On::Gpu.device()
}

fn open_gpu() -> Option<Device> {
    match Device::gpu(0) {
        Ok(device) => Some(device),
        Err(reason) => {
            assert!(!is_required(), "MOYE_REQUIRE_GPU=1, but: {reason}");
            static SAID: Once = Once::new();
            say_once(&SAID, &format!("tests on a GPU are skipped: {reason}"));
            // The output of each test is shown if the harness is run with that option.
            println!("skipped on a GPU: {reason}");
            None
        }
    }
}

/// Tells why tests are skipped, once in a process. Unlike `eprintln!`, whose words a test that
/// passes keeps to itself, this is always seen.
pub fn say_once(said: &Once, reason: &str) {
    said.call_once(|| say(reason));
}

/// Tells something that is always seen.
pub fn say(what: &str) {
    // If standard error is closed, the tests still run.
    let _ = writeln!(std::io::stderr(), "{what}");
}

/// `y[i] = factor * x[i]` for all `i < n`, by one thread.
pub static SCALE: Kernel<(Global<f32>, GlobalMut<f32>, f32, u32)> = Kernel::new(
    "scale",
    "moye-tests",
    LaunchBounds { threads: Some(64), exact: false, min_blocks: None },
    0,
    |(x, y, factor, n)| {
        for i in 0..u64::from(n) {
            // SAFETY: the launch vouches for `n` elements; addresses of the simulator are those of
            // the host.
            unsafe {
                let value = *((x.address() + 4 * i) as *const f32);
                *((y.address() + 4 * i) as *mut f32) = factor * value;
            }
        }
    },
);

/// The grid that [`SCALE`] expects.
pub fn one_thread() -> Grid {
    Grid::new(1, 1)
}

/// [`SCALE`] for a GPU.
pub static PTX: Ptx = Ptx::new("tests", &[("sm_80", include_str!("scale.ptx"))]);
