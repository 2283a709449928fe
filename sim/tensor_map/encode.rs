//! A tensor map as 128 bytes.

use super::{MAX_TENSOR_RANK, TensorElement, TensorFill, TensorMap, TensorPromotion, TensorSwizzle};

/// The bytes of an encoded tensor map, whose address must be a multiple of 64.
pub const TENSOR_MAP_BYTES: usize = 128;

/// The address bit that marks a map in a kernel parameter instead of global memory. The caller that
/// sets it guarantees that the 128 bytes at the other bits' address stay readable while the kernel
/// runs.
pub const PARAMETER_SPACE: u64 = 1 << 63;

/// The first bytes of the simulator's maps, so that other bytes are not mistaken for a map.
const MARK: u64 = 0x6D6F_7965_746D_6170;

impl TensorMap {
    /// The simulator's form of the map: 16 words of 64 bits.
    pub fn encode(&self) -> [u64; TENSOR_MAP_BYTES / 8] {
        let packed = |values: [u32; MAX_TENSOR_RANK]| {
            // Five values of up to 256, in 12 bits each.
            values.iter().rev().fold(0, |word, &value| word << 12 | u64::from(value & 0xFFF))
        };
        let kinds = self.element as u64
            | (self.swizzle as u64) << 8
            | (self.fill as u64) << 16
            | (self.promotion as u64) << 24
            | (self.rank as u64) << 32;
        let mut words = [0; TENSOR_MAP_BYTES / 8];
        words[..5].copy_from_slice(&[
            MARK,
            kinds,
            self.address,
            packed(self.box_extents),
            packed(self.element_strides),
        ]);
        words[5..10].copy_from_slice(&self.extents);
        words[10..14].copy_from_slice(&self.strides);
        words
    }

    /// The map that [`encode`](Self::encode) turned into these words; `None` if they are no map.
    pub fn decode(words: [u64; TENSOR_MAP_BYTES / 8]) -> Option<Self> {
        let [mark, kinds, address, box_extents, element_strides, rest @ ..] = words;
        if mark != MARK {
            return None;
        }
        let unpacked =
            |word: u64| std::array::from_fn::<_, MAX_TENSOR_RANK, _>(|i| (word >> (12 * i)) as u32 & 0xFFF);
        let kind = |at: u32| (kinds >> at & 0xFF) as usize;
        Some(Self {
            element: *TensorElement::ALL.get(kind(0))?,
            rank: kind(32),
            address,
            extents: rest[..5].try_into().ok()?,
            strides: rest[5..9].try_into().ok()?,
            box_extents: unpacked(box_extents),
            element_strides: unpacked(element_strides),
            swizzle: *[TensorSwizzle::None, TensorSwizzle::B32, TensorSwizzle::B64, TensorSwizzle::B128]
                .get(kind(8))?,
            fill: *[TensorFill::Zero, TensorFill::Nan].get(kind(16))?,
            promotion: *[
                TensorPromotion::None,
                TensorPromotion::B64,
                TensorPromotion::B128,
                TensorPromotion::B256,
            ]
            .get(kind(24))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_comes_back_from_its_words() {
        for element in TensorElement::ALL {
            let mut map = TensorMap::new(
                element,
                0x7fff_0000_1230,
                &[1 << 32, 2, 3, 4, 5],
                &[16, 1 << 39, 48, 64],
                &[256, 1, 255, 7, 64],
            )
            .with_swizzle(TensorSwizzle::B64)
            .with_fill(TensorFill::Nan);
            map.element_strides = [1, 8, 2, 3, 4];
            map.promotion = TensorPromotion::B256;
            assert_eq!(TensorMap::decode(map.encode()), Some(map));
        }
        assert_eq!(TensorMap::decode([0; 16]), None);
        assert_eq!(TensorMap::decode([u64::MAX; 16]), None);
    }
}
