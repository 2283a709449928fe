//! Test helpers.
#![allow(dead_code, reason = "each test file uses some of them")]

use moye_sim::{Allocation, Fault, GlobalMemory, Launch};

/// 32-bit words in global memory.
pub struct Words(Allocation);

impl Words {
    /// `count` words of `value`.
    pub fn new(memory: &GlobalMemory, count: usize, value: u32) -> Self {
        let words = Self(memory.alloc(4 * count, "words").unwrap());
        for at in 0..count {
            words.0.write(4 * at, &value.to_ne_bytes()).unwrap();
        }
        words
    }

    pub fn address(&self) -> u64 {
        self.0.address()
    }

    pub fn write(&self, at: usize, value: u32) {
        self.0.write(4 * at, &value.to_ne_bytes()).unwrap();
    }

    pub fn read(&self) -> Vec<u32> {
        let mut bytes = vec![0; self.0.len()];
        self.0.read(0, &mut bytes).unwrap();
        bytes.chunks_exact(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap())).collect()
    }
}

/// The fault of a launch.
pub fn fault(launch: Launch<'_>, kernel: &(dyn Fn() + Sync)) -> Fault {
    match launch.run(kernel) {
        Ok(report) => panic!("the kernel must fault, but ran: {report:?}"),
        Err(error) => error.fault().unwrap_or_else(|| panic!("not a fault of the kernel: {error}")).clone(),
    }
}
