//! Machines that run a kernel.

use crate::attention::Arguments;
use moye_device::kernel::{Kernel, Params};
use moye_device::memory::Element;
use moye_sim::profile::Profiler;
use moye_sim::{Allocation, GlobalMemory, Launch};
use std::collections::BTreeSet;
use std::sync::Mutex;

pub trait Buffer {
    fn address(&self) -> u64;
    fn download(&self) -> Vec<u8>;
}

pub trait Machine {
    type Buffer: Buffer;
    /// The number of runs of a case: each must have the same bits.
    const RUNS: u32;
    fn upload(&self, bytes: &[u8]) -> Self::Buffer;
    fn attend<T: Element>(&self, kernel: &Kernel<(Arguments<T>,)>, blocks: u32, arguments: Arguments<T>);
    fn combine<T: Element>(
        &self,
        kernel: &Kernel<(Arguments<T>, u32)>,
        blocks: u32,
        arguments: Arguments<T>,
        dv: u32,
    );
}

/// The simulator.
pub struct Simulator(pub GlobalMemory);

impl Buffer for Allocation {
    fn address(&self) -> u64 {
        Allocation::address(self)
    }
    fn download(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len()];
        self.read(0, &mut bytes).unwrap();
        bytes
    }
}

impl Machine for Simulator {
    type Buffer = Allocation;
    const RUNS: u32 = 1;

    fn upload(&self, bytes: &[u8]) -> Allocation {
        let buffer = self.0.alloc(bytes.len(), "operand").unwrap();
        buffer.write(0, bytes).unwrap();
        buffer
    }

    fn attend<T: Element>(&self, kernel: &Kernel<(Arguments<T>,)>, blocks: u32, arguments: Arguments<T>) {
        self.launch(kernel, blocks, (arguments,));
    }

    fn combine<T: Element>(
        &self,
        kernel: &Kernel<(Arguments<T>, u32)>,
        blocks: u32,
        arguments: Arguments<T>,
        dv: u32,
    ) {
        self.launch(kernel, blocks, (arguments, dv));
    }
}

impl Simulator {
    fn launch<P: Params>(&self, kernel: &Kernel<P>, blocks: u32, params: P) {
        let threads = kernel.bounds().threads.unwrap();
        let profiler = Profiler::new();
        let mut launch =
            Launch::new(kernel.name(), blocks, threads, &self.0).shared_bytes(kernel.shared_bytes());
        let profiled = has_profile(kernel.name());
        if profiled {
            launch = launch.profiler(&profiler);
        }
        // SAFETY: the operands of the case.
        launch.run(&|| unsafe { kernel.call(params) }).unwrap_or_else(|fault| panic!("{fault}"));
        if profiled {
            crate::lines::are_of_kernels(&profiler.take());
        }
    }
}

/// A profile takes several times as long: only the first launch of each bf16 kernel has one.
/// Kernels of f16 consist of the same lines.
fn has_profile(kernel: &'static str) -> bool {
    static SEEN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    kernel.contains("_bf16") && SEEN.lock().unwrap().insert(kernel)
}
