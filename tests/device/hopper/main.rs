//! What sm_90a brings, instruction by instruction, in the simulator and on a GPU that has it:
//! barriers, clusters, bulk copies, tensor copies, `wgmma`.

#[path = "../../fixtures/common/mod.rs"]
mod common;
#[allow(dead_code, reason = "the tests of mma.sync use the rest")]
#[path = "../mma_atoms/numbers.rs"]
mod numbers;

mod barriers;
mod bulk;
mod cluster;
mod majors;
mod matrix;
mod pipeline;
mod wgmma;

use moye::{Arch, Device, Ptx};
use std::sync::Once;

static PTX: Ptx = Ptx::new("moye-kernels-hopper", moye_kernels_hopper::PTX);
static WGMMA_PTX: Ptx = Ptx::new("moye-kernels-wgmma", moye_kernels_wgmma::PTX);

/// The simulator, and the GPU where it is of the one architecture that has these instructions.
fn devices() -> Vec<Device> {
    static SAID: Once = Once::new();
    let has = |device: &Device| {
        let has = !device.is_gpu() || device.arch() == Arch::new(9, 0);
        if !has {
            let reason =
                format!("{} is {}; sm_90a alone has these instructions", device.name(), device.arch());
            common::say_once(&SAID, &format!("tests on a GPU are skipped: {reason}"));
        }
        has
    };
    common::devices().into_iter().filter(has).collect()
}
