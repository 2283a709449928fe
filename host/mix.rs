//! A fast hash of small keys from inside the program: shapes, addresses, pointers.

use std::hash::Hasher;

/// Folds a 128-bit product for each word. It does not resist keys that are chosen to collide.
#[derive(Default)]
pub(crate) struct Mix(u64);

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.write_u64(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        // The golden ratio's fraction, rounded to an odd number.
        let product = u128::from(self.0 ^ word) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product as u64).rotate_left(23) ^ (product >> 64) as u64;
    }

    #[inline]
    fn write_u8(&mut self, word: u8) {
        self.write_u64(word.into());
    }

    #[inline]
    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    #[inline]
    fn write_i64(&mut self, word: i64) {
        self.write_u64(word as u64);
    }

    #[inline]
    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    #[inline]
    fn write_isize(&mut self, word: isize) {
        self.write_u64(word as u64);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

/// The slot of a key in a table of `N` slots, a power of two.
#[inline]
pub(crate) fn place<const N: usize>(words: impl IntoIterator<Item = u64>) -> usize {
    const { assert!(N.is_power_of_two()) };
    let mut mix = Mix::default();
    for word in words {
        mix.write_u64(word);
    }
    mix.finish() as usize & (N - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_that_differ_little_have_places_far_apart() {
        for step in [1u64, 64, 4096, 1 << 33] {
            let places: HashSet<_> = (0..256).map(|i| place::<1024>([i * step, 7])).collect();
            assert!(places.len() > 200, "multiples of {step}: {} places", places.len());
        }
        assert_ne!(place::<1024>([1, 2]), place::<1024>([2, 1]));
    }
}
