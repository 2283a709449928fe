//! Tiled copies and tiled products from end to end, tensors of any rank and of packed elements, and
//! single multiply-adds: on the simulator and, if there is one, a GPU; and their instructions in
//! PTX.
#![allow(clippy::type_complexity, reason = "a kernel's type is its parameter list")]

#[path = "../../fixtures/common/mod.rs"]
mod common;
mod copies;
mod fma;
mod packed;
mod products;
mod ranks;
mod results;
mod warps;
mod widest;

use moye::{Device, Module, Ptx};
use moye_build::ptx::{Function, Module as PtxModule};
use std::sync::LazyLock;

static SM_80: Ptx = Ptx::new("moye-kernels-tiled", moye_kernels_tiled::PTX_SM_80);
static SM_90: Ptx = Ptx::new("moye-kernels-tiled (sm_90)", moye_kernels_tiled::PTX_SM_90);

/// Every byte of a destination before the copy.
const POISON: u8 = 0xA5;

/// The module, if the device is new enough.
fn load(device: &Device, ptx: &Ptx) -> Option<Module> {
    let fits = !device.is_gpu() || ptx.image_for(device.arch()).is_some();
    fits.then(|| device.load(ptx).unwrap())
}

/// A kernel of the PTX for sm_80, which must not use local memory.
fn entry(name: &str) -> &'static Function {
    static MODULE: LazyLock<PtxModule> =
        LazyLock::new(|| PtxModule::parse(moye_kernels_tiled::PTX_SM_80[0].1).unwrap());
    in_registers(&MODULE, name)
}

fn in_registers<'a>(module: &'a PtxModule, name: &str) -> &'a Function {
    let entry = module.kernel(name).unwrap_or_else(|| panic!("there is no kernel {name}"));
    assert!(!entry.uses_local(), "{name} uses local memory: {:?}", entry.instructions);
    entry
}
