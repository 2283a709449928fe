//! Operands of `mma.sync`: the positions of their elements, and the meaning of their bits.

/// An input operand: A, B or C.
#[derive(Clone, Copy, Debug)]
pub struct MmaOperand {
    /// The bits of one element. A lane's elements are consecutive in its registers, the first in
    /// the lowest bits.
    pub bits: usize,
    /// The number of elements that a lane holds.
    pub values: usize,
    /// Maps a thread and the index of one of its values to the element's position in the tile,
    /// counted column by column.
    pub place: fn(usize, usize) -> usize,
    /// The value of an element's bits, exactly.
    pub decode: fn(u64) -> f64,
}

/// The output operand, D.
#[derive(Clone, Copy, Debug)]
pub struct MmaResult {
    /// Same as in [`MmaOperand`].
    pub bits: usize,
    /// Same as in [`MmaOperand`].
    pub values: usize,
    /// Same as in [`MmaOperand`].
    pub place: fn(usize, usize) -> usize,
    /// The bits of the nearest representable value, ties to even.
    pub encode: fn(f64) -> u64,
}

/// Element `index` of a lane's registers.
pub fn extract(registers: &[u32], bits: usize, index: usize) -> u64 {
    let at = index * bits;
    if bits == 64 {
        return u64::from(registers[at / 32]) | u64::from(registers[at / 32 + 1]) << 32;
    }
    u64::from(registers[at / 32] >> (at % 32) & (u32::MAX >> (32 - bits)))
}

/// Replaces element `index` of a lane's registers, which must be zero there.
fn insert(registers: &mut [u32], bits: usize, index: usize, element: u64) {
    let at = index * bits;
    if bits == 64 {
        registers[at / 32] = element as u32;
        registers[at / 32 + 1] = (element >> 32) as u32;
    } else {
        registers[at / 32] |= (element as u32) << (at % 32);
    }
}

/// Replaces element `index` of a lane's registers, like [`insert`], by the bits of a sum, for which
/// `encode` returns the nearest value. A NaN becomes the NaN that a GPU's floating-point
/// instructions return: all bits but the sign.
pub fn insert_sum(registers: &mut [u32], bits: usize, index: usize, encode: fn(f64) -> u64, sum: f64) {
    let nan = u64::MAX >> (64 - bits) >> 1;
    insert(registers, bits, index, if sum.is_nan() { nan } else { encode(sum) });
}

/// The position of the element of each thread and value.
pub fn places(threads: usize, values: usize, place: fn(usize, usize) -> usize) -> Vec<usize> {
    (0..threads).flat_map(|thread| (0..values).map(move |value| place(thread, value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_every_width_come_back() {
        for bits in [1, 4, 8, 16, 32, 64] {
            let elements: Vec<u64> = (0..128 / bits as u64)
                .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) & (u64::MAX >> (64 - bits)))
                .collect();
            let mut registers = [0; 4];
            for (index, &element) in elements.iter().enumerate() {
                insert(&mut registers, bits, index, element);
            }
            let back: Vec<_> = (0..elements.len()).map(|index| extract(&registers, bits, index)).collect();
            assert_eq!(back, elements, "{bits} bits");
        }
    }
}
