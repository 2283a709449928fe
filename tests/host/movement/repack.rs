//! Rows of rearranged matrices end with whole words on request: zeros follow their elements, and
//! nothing else changes.

use crate::common::On;
use crate::common::matrix::rng;
use moye::kernels::movement::repack::{Lines, Transposed};
use moye::{Buffer, Device, Element, Global, GlobalMut, Grid, Kernel, kernels};
use rand::RngExt;
use rstest::rstest;

/// The value of unwritten memory.
const POISON: u8 = 0xA5;

/// Checks the bytes of `rows` lines, `line` bytes apart: each has the bytes of `of`, zeros up to
/// `written`, and poison.
fn expect(
    got: &[u8],
    rows: usize,
    line: usize,
    bytes: usize,
    written: usize,
    of: impl Fn(usize, usize) -> u8,
) {
    for (row, got) in got.chunks(line).take(rows).enumerate() {
        for (at, &byte) in got.iter().enumerate() {
            let (expected, what) = match at {
                _ if at < bytes => (of(row, at), "an element's"),
                _ if at < written => (0, "after the elements"),
                _ => (POISON, "between lines"),
            };
            assert_eq!(byte, expected, "byte {at} of line {row}, {what}: {bytes} bytes, {written} written");
        }
    }
}

/// Lines of random bytes, and room for them elsewhere, both with gaps between their lines and
/// batches.
struct Realigned {
    before: Vec<u8>,
    shift: usize,
    between: [usize; 4],
    src: Buffer<u8>,
    dst: Buffer<u8>,
    lines: Lines,
}

impl Realigned {
    /// `[lines, bytes, batches]`, the first of which starts `shift` bytes after a multiple of 16.
    fn new(
        device: &Device,
        [rows, bytes, batches]: [usize; 3],
        written: usize,
        shift: usize,
        rng: &mut impl rand::Rng,
    ) -> Self {
        let (from, to) = (bytes + 3, (bytes + 64).next_multiple_of(16));
        let between = [from, to, rows * from + 5, rows * to + 32];
        let before: Vec<u8> = (0..shift + batches * between[2] + 16).map(|_| rng.random()).collect();
        let src = device.upload(&before).unwrap();
        let dst = device.upload(&vec![POISON; batches * between[3]]).unwrap();
        let lines = Lines {
            src: Global::from_address(src.address() + shift as u64),
            dst: GlobalMut::from_address(dst.address()),
            src_line: from as i64,
            dst_line: to as i64,
            src_batch: between[2] as i64,
            dst_batch: between[3] as i64,
            lines: rows as u32,
            bytes: bytes as u32,
            written: written as u32,
            batches: batches as u32,
        };
        Self { before, shift, between, src, dst, lines }
    }

    /// Checks that each byte is at its destination, with zeros after each line as far as written,
    /// and poison in between.
    fn expect(&self) {
        assert_eq!(self.src.download().unwrap(), self.before, "what was read is as it was");
        let Lines { lines: rows, bytes, written, .. } = self.lines;
        let [from, to, from_batch, to_batch] = self.between;
        for (batch, got) in self.dst.download().unwrap().chunks(to_batch).enumerate() {
            expect(got, rows as usize, to, bytes as usize, written as usize, |row, at| {
                self.before[self.shift + batch * from_batch + row * from + at]
            });
            assert!(
                got[rows as usize * to..].iter().all(|&byte| byte == POISON),
                "between batches {batch} and the next"
            );
        }
    }
}

/// Launches the kernel for one or two sets of lines.
fn realign(device: &Device, first: &Realigned, second: Option<&Realigned>) {
    let other = second.map_or(Lines::NONE, |second| second.lines);
    let blocks = (first.lines.blocks() + other.blocks()) as u32;
    let grid = Grid::new((blocks, first.lines.batches.max(other.batches)), 256);
    // SAFETY: all lines are in their separate buffers, and written lines start at multiples of 16.
    unsafe { device.launch(&kernels::repack_lines, grid, (first.lines, other)) }.unwrap();
}

#[rstest]
fn lines_are_realigned_with_zeros_up_to_what_is_written(
    #[values(On::Sim, On::Gpu)] on: On,
    #[values(1, 2, 15, 16, 17, 31, 32, 33, 2047, 2048, 2049, 2062, 2063, 2064, 4103)] bytes: usize,
    #[values(0, 1, 14)] shift: usize,
) {
    let Some(device) = on.device() else { return };
    let mut rng = rng(&[bytes, shift]);
    for written in [bytes, bytes.next_multiple_of(16)] {
        let lines = Realigned::new(&device, [5, bytes, 1], written, shift, &mut rng);
        realign(&device, &lines, None);
        lines.expect();
    }
}

#[rstest]
fn lines_of_two_matrices_are_realigned_by_one_launch(
    #[values(On::Sim, On::Gpu)] on: On,
    #[values([1, 1, 1], [7, 40, 2], [8, 2064, 1], [9, 2063, 3], [33, 4103, 1])] first: [usize; 3],
    #[values([1, 1, 1], [5, 31, 4], [17, 2049, 1], [3, 6200, 2])] second: [usize; 3],
) {
    let Some(device) = on.device() else { return };
    let mut rng = rng(&[first, second].concat());
    let words = |of: [usize; 3]| of[1].next_multiple_of(16);
    let first = Realigned::new(&device, first, words(first), 6, &mut rng);
    let second = Realigned::new(&device, second, words(second), 3, &mut rng);
    realign(&device, &first, Some(&second));
    first.expect();
    second.expect();
}

type Pack<T> = Kernel<(Global<T>, GlobalMut<T>, u32, u32, u32, i64, i64, i64, i64, i64, i64)>;

fn pack<T: Element + Into<u64> + TryFrom<u64, Error: std::fmt::Debug>>(
    device: &Device,
    kernel: &Pack<T>,
    (rows, k): (usize, usize),
) {
    let leading = (k + 40).next_multiple_of(16);
    let mut rng = rng(&[rows, k, T::BYTES]);
    let before: Vec<u8> = (0..rows * k).map(|_| rng.random()).collect();
    let element = |byte: u8| T::try_from(u64::from(byte)).unwrap();
    let src = device.upload(&before.iter().map(|&byte| element(byte)).collect::<Vec<_>>()).unwrap();
    for along_k in [false, true] {
        for written in [k, k.next_multiple_of(16 / T::BYTES)] {
            let dst = device.upload(&vec![element(POISON); rows * leading]).unwrap();
            let strides = if along_k { (k as i64, 1) } else { (1, rows as i64) };
            let grid = Grid::new((rows.div_ceil(64) * written.div_ceil(64)) as u32, 256);
            let (s, d) = (Global::from_address(src.address()), GlobalMut::from_address(dst.address()));
            let extents = [rows, k, written].map(|extent| extent as u32);
            let [r, k32, w] = extents;
            let arguments = (s, d, r, k32, w, strides.0, strides.1, 0, leading as i64, 1, 0);
            // SAFETY: the matrices are in their two buffers.
            unsafe { device.launch(kernel, grid, arguments) }.unwrap();
            let got: Vec<u8> = dst.download().unwrap().into_iter().map(|value| value.into() as u8).collect();
            expect(&got, rows, leading, k, written, |row, at| {
                before[if along_k { row * k + at } else { at * rows + row }]
            });
        }
    }
}

#[rstest]
fn rows_are_packed_with_zeros_up_to_what_is_written(
    #[values(On::Sim, On::Gpu)] on: On,
    #[values((1, 1), (3, 7), (64, 63), (65, 64), (70, 65), (9, 130))] extents: (usize, usize),
) {
    let Some(device) = on.device() else { return };
    pack::<u8>(&device, &kernels::repack_u8, extents);
    pack::<u16>(&device, &kernels::repack_u16, extents);
    pack::<u32>(&device, &kernels::repack_u32, extents);
    pack::<u64>(&device, &kernels::repack_u64, extents);
}

/// Batches of `rows x k` elements with K contiguous, and room for their transposes, both with gaps
/// between lines and batches.
struct Turned {
    extents: [usize; 3],
    before: Vec<u32>,
    src: Buffer<u32>,
    dst: Buffer<u32>,
    lines: [usize; 2],
    between: [usize; 2],
    turn: Transposed,
}

impl Turned {
    fn new(device: &Device, [rows, k, batches]: [usize; 3], rng: &mut impl rand::Rng) -> Self {
        let written = rows.next_multiple_of(4);
        let lines = [(k + 5).next_multiple_of(4), written + 8];
        let between = [rows * lines[0] + 4, k * lines[1] + 12];
        let before: Vec<u32> = (0..batches * between[0]).map(|_| rng.random()).collect();
        let src = device.upload(&before).unwrap();
        let dst = device.upload(&vec![u32::from_ne_bytes([POISON; 4]); batches * between[1]]).unwrap();
        let turn = Transposed {
            src: Global::from_address(src.address()),
            dst: GlobalMut::from_address(dst.address()),
            src_row: lines[0] as i64,
            dst_k: lines[1] as i64,
            src_batch: between[0] as i64,
            dst_batch: between[1] as i64,
            rows: rows as u32,
            k: k as u32,
            written: written as u32,
            batches: batches as u32,
        };
        Self { extents: [rows, k, batches], before, src, dst, lines, between, turn }
    }

    /// Checks that each element is at its destination, with zeros after the last row up to a word,
    /// and poison in between.
    fn expect(&self) {
        let ([rows, k, _], [src_row, dst_k]) = (self.extents, self.lines);
        assert_eq!(self.src.download().unwrap(), self.before, "what was read is as it was");
        for (i, got) in self.dst.download().unwrap().into_iter().enumerate() {
            let (batch, at) = (i / self.between[1], i % self.between[1]);
            let (column, row) = (at / dst_k, at % dst_k);
            let wanted = if column < k && row < rows {
                self.before[batch * self.between[0] + row * src_row + column]
            } else if column < k && row < rows.next_multiple_of(4) {
                0
            } else {
                u32::from_ne_bytes([POISON; 4])
            };
            assert_eq!(got, wanted, "batch {batch}, column {column}, row {row} of {:?}", self.extents);
        }
    }
}

#[rstest]
fn two_matrices_are_transposed_by_one_launch(
    #[values(On::Sim, On::Gpu)] on: On,
    #[values([1, 1, 1], [3, 7, 2], [64, 64, 1], [65, 63, 3], [130, 70, 1], [4, 200, 2])] first: [usize; 3],
    #[values([0, 0, 0], [1, 1, 1], [67, 130, 1], [5, 3, 4])] second: [usize; 3],
) {
    let Some(device) = on.device() else { return };
    let mut rng = rng(&[first, second].concat());
    let first = Turned::new(&device, first, &mut rng);
    let second = (second[0] > 0).then(|| Turned::new(&device, second, &mut rng));
    let other = second.as_ref().map_or(Transposed::NONE, |second| second.turn);
    let tiles = (first.turn.tiles() + other.tiles()) as u32;
    let grid = Grid::new((tiles, first.turn.batches.max(other.batches)), 256);
    // SAFETY: each is in a separate buffer, whose lines and batches start at multiples of 16 bytes.
    unsafe { device.launch(&kernels::repack_transposed_u32, grid, (first.turn, other)) }.unwrap();
    first.expect();
    if let Some(second) = second {
        second.expect();
    }
}
