//! The instructions of sm_90a, one by one, on the simulator and on a GPU that has them: barriers,
//! clusters, bulk copies, tensor copies, `wgmma`.

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
mod ptx;
mod tiled;
mod wgmma;

use common::devices_of_sm_90a as devices;
use moye::Ptx;

static PTX: Ptx = Ptx::new("moye-kernels-hopper", moye_kernels_hopper::PTX);
static WGMMA_PTX: Ptx = Ptx::new("moye-kernels-wgmma", moye_kernels_wgmma::PTX);
