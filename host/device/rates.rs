//! The rates for planning operations.

use crate::arch::Arch;

/// The rates of a device for planning operations, from the driver's attributes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// The architecture.
    pub arch: Arch,
    /// The number of SMs.
    pub multiprocessors: u32,
    /// The highest SM clock, in MHz.
    pub clock: f64,
    /// Memory bandwidth in bytes per microsecond: twice the memory clock times the bus width.
    pub memory: f64,
    /// The size of the L2 cache in bytes.
    pub l2_bytes: u64,
    /// Shared memory of an SM in bytes.
    pub shared_bytes: u32,
}

impl Rates {
    /// An H100 80GB HBM3, on which the kernels' costs were measured.
    pub const H100: Self = Self {
        arch: Arch::new(9, 0),
        multiprocessors: 132,
        clock: 1980.0,
        memory: 2.0 * 2619.0 * 5120.0 / 8.0,
        l2_bytes: 50 << 20,
        shared_bytes: 228 << 10,
    };

    /// From attributes: SM and memory clocks in kHz, the width of the memory bus in bits, the bytes
    /// of L2, and the bytes of an SM's shared memory. An attribute of 0 is replaced by an H100's
    /// value.
    pub fn of(
        arch: Arch,
        multiprocessors: u32,
        [clock, memory_clock, bus_bits, l2_bytes, shared_bytes]: [u32; 5],
    ) -> Self {
        let or = |value: f64, otherwise: f64| if value > 0.0 { value } else { otherwise };
        let memory = 2.0 * f64::from(memory_clock) * f64::from(bus_bits) / 8e3;
        Self {
            arch,
            multiprocessors,
            clock: or(f64::from(clock) / 1e3, Self::H100.clock),
            memory: or(memory, Self::H100.memory),
            l2_bytes: if l2_bytes > 0 { l2_bytes.into() } else { Self::H100.l2_bytes },
            shared_bytes: if shared_bytes > 0 { shared_bytes } else { Self::H100.shared_bytes },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_follow_from_attributes_and_unknown_ones_are_those_of_an_h100() {
        let h100 = Rates::of(Arch::new(9, 0), 132, [1_980_000, 2_619_000, 5120, 50 << 20, 228 << 10]);
        assert_eq!(h100, Rates::H100);
        assert_eq!(Rates::of(Arch::new(9, 0), 132, [0; 5]), Rates::H100);
        // An A100 80GB by its data sheet: 1,935 GB/s.
        let a100 = Rates::of(Arch::new(8, 0), 108, [1_410_000, 1_512_000, 5120, 40 << 20, 164 << 10]);
        assert!((a100.memory / 1.935e6 - 1.0).abs() < 1e-3, "{a100:?}");
    }
}
