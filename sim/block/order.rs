//! The order of threads and blocks, if it is random.

/// Random numbers from a seed: 64-bit xorshift.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draw(u64);

impl Draw {
    /// The generator for a part of a launch.
    pub(crate) fn new(seed: u64, part: u64) -> Self {
        // Adjacent seeds and parts should be unrelated (the finaliser of SplitMix64).
        let mut bits = seed.wrapping_add((part + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        Self((bits ^ bits >> 31).max(1))
    }

    /// A number below `bound`, which must not be 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

/// The order of a launch's clusters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Permutation {
    step: u64,
    start: u64,
    count: u64,
}

impl Permutation {
    /// The order of `count` clusters: by a seed, or sequential.
    pub(crate) fn new(seed: Option<u64>, count: u64) -> Self {
        let Some(seed) = seed else { return Self { step: 1, start: 0, count } };
        let mut draw = Draw::new(seed, u64::MAX - 1);
        let start = draw.below(count);
        let mut step = 1 + draw.below(count);
        while divisor(step, count) != 1 {
            step = step % count + 1;
        }
        Self { step, start, count }
    }

    /// The cluster at position `at` of the order.
    pub(crate) fn of(self, at: u64) -> u64 {
        ((u128::from(at) * u128::from(self.step) + u128::from(self.start)) % u128::from(self.count)) as u64
    }
}

/// The greatest common divisor.
fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cluster_comes_once_in_every_order() {
        for count in [1, 2, 6, 30, 97] {
            let orders = (0..20).map(Some).chain([None]).map(|seed| {
                let order = Permutation::new(seed, count);
                let all: Vec<u64> = (0..count).map(|at| order.of(at)).collect();
                let mut sorted = all.clone();
                sorted.sort_unstable();
                assert_eq!(sorted, (0..count).collect::<Vec<_>>(), "{seed:?} of {count}");
                all
            });
            let orders: Vec<_> = orders.collect();
            assert_eq!(orders[20], (0..count).collect::<Vec<_>>());
            assert!(count < 6 || orders.iter().any(|order| order != &orders[0]), "{count}");
        }
    }

    #[test]
    fn a_seed_decides_its_numbers() {
        let numbers = |seed, part| {
            let mut draw = Draw::new(seed, part);
            [0; 8].map(|_: u64| draw.below(1000))
        };
        assert_eq!(numbers(7, 3), numbers(7, 3));
        assert_ne!(numbers(7, 3), numbers(7, 4));
        assert_ne!(numbers(7, 3), numbers(8, 3));
    }
}
