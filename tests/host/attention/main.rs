//! Attention in the library: the call and its errors on the simulator, and many random shapes of
//! every option on a GPU.

#[path = "../../fixtures/common/mod.rs"]
mod common;
mod attention {
    //! The kernels that the shared files test.
    pub use moye::kernels::attention::*;
}
use common::bytes;
mod builder;
#[allow(dead_code, reason = "the tests of the kernels use all of it")]
#[path = "../../../ops/attention/tests/attention/case.rs"]
mod case;
#[path = "../../../ops/attention/tests/attention/check.rs"]
mod check;
mod e4m3;
#[allow(dead_code, reason = "the tests of the kernels use all of it")]
#[path = "../../../ops/attention/tests/attention/e4m3/case.rs"]
mod e4m3_case;
mod edges;
mod hopper;
mod machine;
#[path = "../../../ops/attention/tests/attention/operands.rs"]
mod operands;
mod options;
#[allow(dead_code, reason = "each test uses some of it")]
#[path = "../../../ops/attention/host/oracle.rs"]
mod oracle;
#[path = "../../fixtures/common/random.rs"]
mod random;
#[path = "../../../ops/attention/tests/attention/reference.rs"]
mod reference;
mod strides;

use case::Case;
use check::check;
use half::{bf16, f16};
use machine::OnDevice;
use reference::Errors;

#[test]
fn hundreds_of_random_options_are_within_the_rounding_of_the_element_type_on_a_gpu() {
    let Some(device) = common::gpu() else { return };
    let machine = OnDevice(device);
    // 42 seeds use each kernel once.
    let count = if common::is_watched() { 42 } else { 400 };
    let mut all = Errors::default();
    for seed in 1008..1008 + count {
        let case = Case::of_seed(seed);
        all.merge(&if seed % 2 == 0 {
            check::<bf16, _>(&machine, &case, seed)
        } else {
            check::<f16, _>(&machine, &case, seed)
        });
    }
    println!("{all}");
}
