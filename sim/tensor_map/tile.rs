//! The box that one tensor copy moves: its rows in global memory, and its pieces in shared memory.

use super::{MAX_TENSOR_RANK, TensorElement, TensorFill, TensorMap, TensorSwizzle};
use crate::memory::words;

/// One box of a tensor, by its start in elements; any part of it may be out of bounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tile {
    pub(crate) map: TensorMap,
    pub(crate) start: [i32; MAX_TENSOR_RANK],
    /// For a copy that writes a row up to a whole 16 bytes: the end of the memory that it may write
    /// so. 0 for other copies.
    pub(crate) tails: u64,
}

/// A row of a box: the part of it that is in the tensor, and what is written after it.
struct Row {
    /// The address of that part in global memory.
    address: u64,
    /// Bytes of the row before that part, and of the part.
    before: usize,
    bytes: usize,
}

impl Tile {
    /// The bytes of the box, which its copy counts at an mbarrier.
    fn bytes(&self) -> usize {
        self.map.box_bytes() as usize
    }

    fn row_bytes(&self) -> usize {
        (u64::from(self.map.box_extents[0]) * self.map.element.bytes()) as usize
    }

    /// The placement of the box in shared memory. On an H200, loads place the rows of a swizzled
    /// box one span apart, however short they are, and leave the rest of the span unchanged
    /// (observed with spans of 32, 64 and 128 bytes). Stores are assumed to read the bytes that
    /// loads write.
    pub(crate) fn placement(&self) -> Placement {
        let row = self.row_bytes();
        let pitch = self.map.swizzle.span().map_or(row, |span| span as usize);
        Placement { bytes: self.bytes(), row, pitch, swizzle: self.map.swizzle }
    }

    /// The rows of the box, dimension 1 fastest; `None` for an out-of-bounds row.
    fn rows(&self) -> impl Iterator<Item = Option<Row>> + '_ {
        let counts: [u32; MAX_TENSOR_RANK] = std::array::from_fn(|d| self.map.box_count(d));
        let rows: u32 = counts[1..].iter().product();
        (0..rows).map(move |row| {
            let mut rest = row;
            let mut address = self.map.address;
            for (d, count) in counts.iter().enumerate().skip(1) {
                let step = i64::from(rest % count) * i64::from(self.map.element_strides[d]);
                rest /= count;
                let at = i64::from(self.start[d]) + step;
                if at < 0 || at as u64 >= self.map.extents[d] {
                    return None;
                }
                address += at as u64 * self.map.strides[d - 1];
            }
            let element = self.map.element.bytes() as i64;
            let (start, extent) = (i64::from(self.start[0]), self.map.extents[0] as i64);
            let first = start.max(0);
            let end = (start + i64::from(self.map.box_extents[0])).min(extent);
            (first < end).then(|| {
                let address = address + (first * element) as u64;
                let end = address + ((end - first) * element) as u64;
                // A box's row ends at a whole 16 bytes if the tensor's does not end before.
                let end = end.next_multiple_of(16).min(self.tails).max(end);
                let before = ((first - start) * element) as usize;
                Row { address, before, bytes: (end - address) as usize }
            })
        })
    }

    /// The box's bytes as a load returns them, row by row, with the fill outside of the tensor.
    ///
    /// # Safety
    /// The tensor is in allocated memory.
    pub(crate) unsafe fn read(&self) -> Vec<u8> {
        let row_bytes = self.row_bytes();
        let mut bytes = Vec::with_capacity(self.bytes());
        let fill = fill(self.map.element, self.map.fill);
        bytes.extend(fill.iter().copied().cycle().take(self.bytes()));
        for (place, row) in bytes.chunks_exact_mut(row_bytes).zip(self.rows()) {
            if let Some(Row { address, before, bytes }) = row {
                // SAFETY: the part of the row inside the tensor.
                unsafe { words::copy_out(address, &mut place[before..before + bytes]) };
            }
        }
        round(self.map.element, &mut bytes);
        bytes
    }

    /// The box as a store writes it, to memory that ends at `end`. An H200 stores a row that ends
    /// within 16 bytes up to the next multiple of 16 (observed). The bytes after the row are the
    /// box's here.
    pub(crate) fn with_tails(self, end: u64) -> Self {
        Self { tails: end, ..self }
    }

    /// Calls `range(address, bytes)` for the parts of rows that are read or written.
    pub(crate) fn for_each_range(&self, mut range: impl FnMut(u64, usize)) {
        self.rows().flatten().for_each(|row| range(row.address, row.bytes));
    }

    /// Calls `part(address, bytes)` for each part of the box that is written; `bytes` are the box's
    /// bytes of this part.
    pub(crate) fn for_each_part(&self, bytes: &[u8], mut part: impl FnMut(u64, &[u8])) {
        for (place, row) in bytes.chunks_exact(self.row_bytes()).zip(self.rows()) {
            if let Some(Row { address, before, bytes }) = row {
                part(address, &place[before..before + bytes]);
            }
        }
    }
}

/// The placement in shared memory of the bytes that a copy moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    /// The moved bytes, row by row, without the gaps between rows.
    pub(crate) bytes: usize,
    /// The bytes of a row, and the distance between row starts: both before the swizzle.
    row: usize,
    pitch: usize,
    swizzle: TensorSwizzle,
}

impl Placement {
    /// Contiguous.
    pub(crate) const fn dense(bytes: usize) -> Self {
        Self { bytes, row: bytes, pitch: bytes, swizzle: TensorSwizzle::None }
    }

    /// The pieces of 16 bytes, the first at the shared address `address`, a multiple of 16: for
    /// each, its offset in the moved bytes, and its address.
    pub(crate) fn pieces(self, address: u32) -> impl Iterator<Item = (usize, u32)> {
        let Self { bytes, row, pitch, swizzle } = self;
        (0..bytes).step_by(16).map(move |at| {
            let place = at / row * pitch + at % row;
            (at, swizzle.apply(address + place as u32))
        })
    }
}

/// The bytes of an out-of-bounds element.
fn fill(element: TensorElement, fill: TensorFill) -> Vec<u8> {
    let bytes = element.bytes() as usize;
    match fill {
        TensorFill::Zero => vec![0; bytes],
        // All bits but the sign.
        TensorFill::Nan => (0..bytes).map(|at| if at + 1 == bytes { 0x7F } else { 0xFF }).collect(),
    }
}

/// The conversion that the type applies to loaded elements.
fn round(element: TensorElement, bytes: &mut [u8]) {
    let (to_tf32, flush) = match element {
        TensorElement::F32Ftz => (false, true),
        TensorElement::Tf32 => (true, false),
        TensorElement::Tf32Ftz => (true, true),
        _ => return,
    };
    for word in bytes.chunks_exact_mut(4) {
        let mut bits = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        if flush && f32::from_bits(bits).is_subnormal() {
            bits &= 1 << 31;
        }
        if to_tf32 && !f32::from_bits(bits).is_nan() {
            // To the nearest value with 10 fraction bits, ties away from 0: `cvt.rna`.
            bits = (bits + (1 << 12)) & !0x1FFF;
        }
        word.copy_from_slice(&bits.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same box, element by element.
    #[test]
    fn a_box_is_what_each_of_its_elements_is() {
        let tensor: Vec<u32> = (0..8 * 5 * 3).collect();
        let address = tensor.as_ptr().expose_provenance() as u64;
        // The address of a Vec may be any multiple of 4: the map is not checked here.
        let mut map = TensorMap::new(TensorElement::U32, address, &[8, 5, 3], &[32, 160], &[4, 3, 2]);
        for element_stride in [1, 2] {
            map.element_strides[1] = element_stride;
            for start in [[0, 0, 0], [2, 1, 1], [-3, -1, -1], [6, 4, 2], [8, 0, 0], [-4, 0, 0]] {
                let tile = Tile { map, start: [start[0], start[1], start[2], 0, 0], tails: 0 };
                // SAFETY: the tensor is `tensor`.
                let bytes = unsafe { tile.read() };
                let mut at = 0;
                for z in 0..2 {
                    for y in 0..map.box_count(1) as i32 {
                        for x in 0..4 {
                            let (x, y, z) =
                                (start[0] + x, start[1] + y * element_stride as i32, start[2] + z);
                            let inside = (0..8).contains(&x) && (0..5).contains(&y) && (0..3).contains(&z);
                            let expected = if inside { tensor[(x + 8 * y + 40 * z) as usize] } else { 0 };
                            let got = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
                            assert_eq!(got, expected, "{start:?}: ({x}, {y}, {z})");
                            at += 4;
                        }
                    }
                }
                assert_eq!(at, bytes.len());
            }
        }
    }

    const SPANS: [(TensorSwizzle, u32); 3] =
        [(TensorSwizzle::B32, 32), (TensorSwizzle::B64, 64), (TensorSwizzle::B128, 128)];

    /// The arrangement of a box of 16 rows of this many bytes.
    fn placement(swizzle: TensorSwizzle, row: u32) -> Placement {
        let map = TensorMap::new(TensorElement::U8, 0, &[256, 16], &[256], &[row, 16]).with_swizzle(swizzle);
        assert_eq!(map.check(), Ok(()), "{swizzle:?}, rows of {row} bytes");
        Tile { map, start: [0; MAX_TENSOR_RANK], tails: 0 }.placement()
    }

    #[test]
    fn a_swizzle_exchanges_pieces_within_its_span() {
        for (swizzle, span) in SPANS {
            let placement = placement(swizzle, span);
            assert_eq!(placement.bytes as u32, 16 * span, "rows of {span} bytes");
            let mut seen = vec![false; span as usize];
            for (at, address) in placement.pieces(1024) {
                assert_eq!(at as u32 / span, (address - 1024) / span, "within its span");
                assert!(!std::mem::replace(&mut seen[(address - 1024) as usize / 16], true));
            }
            assert!(seen.iter().all(|&seen| seen));
        }
        // Bits 4 to 6, 0b101, with bits 7 to 9, 0b110.
        assert_eq!(
            TensorSwizzle::B128.apply(0x400 + (0b110 << 7) + (0b101 << 4)),
            0x400 + (0b110 << 7) + (0b011 << 4)
        );
    }

    #[test]
    fn pieces_of_a_short_row_are_in_the_span_of_their_row() {
        for (swizzle, span) in SPANS {
            for row in (16..=span).step_by(16) {
                let placement = placement(swizzle, row);
                assert_eq!(placement.bytes as u32, 16 * row, "{swizzle:?}: what is moved is the box alone");
                let got: Vec<_> = placement.pieces(1024).collect();
                let mut expected = Vec::new();
                for y in 0..16 {
                    // The index of the 128-byte line determines the permutation of pieces.
                    let exchange = y * span / 128 % (span / 16);
                    for piece in 0..row / 16 {
                        let address = 1024 + y * span + 16 * (piece ^ exchange);
                        expected.push(((y * row + 16 * piece) as usize, address));
                    }
                }
                assert_eq!(got, expected, "{swizzle:?}, rows of {row} bytes");
            }
        }
        // The fourth row of 64 bytes after the first is in the upper half of its 128.
        let pieces: Vec<_> = placement(TensorSwizzle::B128, 64).pieces(1024).skip(16).take(4).collect();
        let upper = 1024 + 4 * 128 + 64;
        assert_eq!(pieces, [(256, upper), (272, upper + 16), (288, upper + 32), (304, upper + 48)]);
    }

    #[test]
    fn rows_without_a_swizzle_and_mere_bytes_follow_each_other() {
        for placement in [placement(TensorSwizzle::None, 48), Placement::dense(16 * 48)] {
            let expected: Vec<_> = (0..16 * 48).step_by(16).map(|at| (at, 1024 + at as u32)).collect();
            assert_eq!(placement.pieces(1024).collect::<Vec<_>>(), expected, "{placement:?}");
        }
    }

    #[test]
    fn tf32_is_rounded_on_its_way() {
        let exact = 1.0 + 2_f32.powi(-10);
        let mut bytes = exact.to_le_bytes();
        round(TensorElement::Tf32, &mut bytes);
        assert_eq!(f32::from_le_bytes(bytes), exact);
        let mut bytes = (1.0 + 2_f32.powi(-11)).to_le_bytes();
        round(TensorElement::Tf32, &mut bytes);
        assert_eq!(f32::from_le_bytes(bytes), 1.0 + 2_f32.powi(-10), "a tie goes away from 0");
    }
}
