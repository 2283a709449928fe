//! The simulator names the fault of each kernel in every order, and reports no kernel that has
//! none.

use moye_device::memory::GlobalMut;
use moye_kernels_races::{BLOCKS, KERNELS, THREADS, WORDS};
use moye_sim::{Fault, FaultKind, GlobalMemory, Launch, LaunchError};

fn run(at: usize, right: bool, order: Option<u64>) -> Option<Fault> {
    let kernel = KERNELS[at];
    let memory = GlobalMemory::new();
    let data = memory.upload(&vec![0_u32; WORDS], "data").unwrap();
    let parameters = (GlobalMut::from_address(data.address()), right);
    let launch =
        Launch::new(kernel.name(), BLOCKS, THREADS, &memory).races(true).shared_bytes(kernel.shared_bytes());
    let launch = if let Some(seed) = order { launch.order(seed) } else { launch };
    // SAFETY: the kernels expect this buffer and this grid; a faulty kernel faults.
    match launch.run(&|| unsafe { kernel.call(parameters) }) {
        Ok(_) => None,
        Err(LaunchError::Fault(fault)) => Some(*fault),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn each_fault_is_named_in_eleven_orders_and_no_right_kernel_is() {
    for (at, kernel) in KERNELS.iter().enumerate() {
        for order in [None].into_iter().chain((1..=10).map(Some)) {
            if let Some(fault) = run(at, true, order) {
                panic!("{} is right, in order {order:?}: {fault}", kernel.name());
            }
            let Some(fault) = run(at, false, order) else {
                panic!("{} has no fault in order {order:?}", kernel.name());
            };
            assert_eq!(fault.kernel, kernel.name());
            let expected = match kernel.name() {
                "tile_never_filled" => matches!(fault.kind, FaultKind::SharedUnwritten { .. }),
                "barrier_of_half_a_block" => matches!(fault.kind, FaultKind::BarrierIncomplete { .. }),
                "row_behind_the_end" => matches!(fault.kind, FaultKind::GlobalOutOfBounds { .. }),
                "one_group_too_few" => matches!(fault.kind, FaultKind::SharedInFlight { .. }),
                _ => matches!(fault.kind, FaultKind::Race(_)),
            };
            assert!(expected, "{} in order {order:?}: {fault}", kernel.name());
            assert!(fault.location.is_some_and(|at| at.file().ends_with("kernels-races/lib.rs")), "{fault}");
        }
    }
}
