//! Copies and transposes of elements of 1, 2, 4, 8 and 16 bytes, by lines of words and by tiles, on
//! every available device: each element is copied bit for bit, and nothing outside the destination
//! is written.

#[path = "../../fixtures/common/mod.rs"]
mod common;
mod repack;

use common::devices;
use moye::operation::harness;
use moye::{Device, Element, Matrix, MatrixMut, copy, transpose};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rstest::rstest;

/// A matrix in its buffer.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Whether the stride between rows is the smaller one.
    rows_first: bool,
    /// The stride within a line: 1 if it is contiguous.
    step: usize,
    /// The stride between lines.
    leading: usize,
    start: usize,
}

/// The extents of a matrix.
type Extents = (usize, usize);

/// The source and the destination of a copy.
struct Places {
    from: Place,
    to: Place,
}

impl Place {
    /// Without a gap, with a gap that keeps lines at multiples of 16 elements, or with one that
    /// does not; at the buffer's start, or an element after it; some with no contiguous mode.
    fn random(random: &mut StdRng, (rows, cols): Extents) -> Self {
        let rows_first = random.random_bool(0.5);
        let step = 1 + usize::from(random.random_bool(0.2));
        let line = step * if rows_first { rows } else { cols };
        let leading = match random.random_range(0..3) {
            0 => line,
            1 => (line + 1).next_multiple_of(16),
            _ => line + random.random_range(1..4),
        };
        Self { rows_first, step, leading, start: usize::from(random.random_bool(0.2)) }
    }

    fn strides(self) -> (usize, usize) {
        if self.rows_first { (self.step, self.leading) } else { (self.leading, self.step) }
    }

    fn len(self, rows: usize, cols: usize) -> usize {
        self.start + self.leading * if self.rows_first { cols } else { rows } + 3
    }

    fn at(self, row: usize, col: usize) -> usize {
        let (along_rows, along_cols) = self.strides();
        self.start + row * along_rows + col * along_cols
    }
}

fn moves<T: Element + PartialEq + std::fmt::Debug>(
    device: &Device,
    transposed: bool,
    shape @ (rows, cols): Extents,
    random: &mut StdRng,
    number: impl Fn(u128) -> T,
) {
    let from = Place::random(random, shape);
    let to = Place::random(random, if transposed { (cols, rows) } else { shape });
    moves_between(device, transposed, shape, Places { from, to }, random, number);
}

fn moves_between<T: Element + PartialEq + std::fmt::Debug>(
    device: &Device,
    transposed: bool,
    (rows, cols): Extents,
    Places { from, to }: Places,
    random: &mut StdRng,
    number: impl Fn(u128) -> T,
) {
    let (to_rows, to_cols) = if transposed { (cols, rows) } else { (rows, cols) };
    let before: Vec<T> = (0..from.len(rows, cols)).map(|_| number(random.random())).collect();
    let mut expected: Vec<T> = (0..to.len(to_rows, to_cols)).map(|_| number(random.random())).collect();
    let src = device.upload(&before).unwrap();
    let mut dst = device.upload(&expected).unwrap();
    let source = Matrix::new(src.slice(from.start..).unwrap(), rows, cols, from.strides()).unwrap();
    let mut target =
        MatrixMut::new(dst.slice_mut(to.start..).unwrap(), to_rows, to_cols, to.strides()).unwrap();
    if transposed {
        transpose(device, &source, &mut target).unwrap();
    } else {
        copy(device, &source, &mut target).unwrap();
    }
    for row in 0..rows {
        for col in 0..cols {
            let place = if transposed { to.at(col, row) } else { to.at(row, col) };
            expected[place] = before[from.at(row, col)];
        }
    }
    let after = dst.download().unwrap();
    let wrong = after.iter().zip(&expected).position(|(a, b)| a != b);
    assert_eq!(
        wrong.map(|at| (at, after[at], expected[at])),
        None,
        "{} of {rows} x {cols} from {from:?} to {to:?} on {device:?}",
        T::NAME
    );
}

#[rstest]
fn every_element_arrives_and_no_other_is_written(
    #[values(false, true)] transposed: bool,
    #[values(1, 2, 4, 8, 16)] bytes: usize,
) {
    let mut random = StdRng::seed_from_u64(rand::random());
    for device in devices() {
        let mut shapes = vec![
            (1, 1),
            (0, 4),
            (1, 300),
            (300, 1),
            (64, 64),
            (65, 63),
            (16, 4096),
            (4096, 16),
            (257, 9),
            (132, 96),
        ];
        for _ in 0..12 {
            shapes.push((random.random_range(1..200), random.random_range(1..200)));
        }
        for shape in shapes {
            match bytes {
                1 => moves(&device, transposed, shape, &mut random, |x| x as u8),
                2 => moves(&device, transposed, shape, &mut random, |x| x as u16),
                4 => moves(&device, transposed, shape, &mut random, |x| x as u32),
                8 => moves(&device, transposed, shape, &mut random, |x| x as u64),
                _ => moves(&device, transposed, shape, &mut random, |x| x),
            }
        }
    }
}

/// Extents and gaps in whole words, so that bytes and pairs are copied by words; whole tiles, and
/// edges of all sizes.
#[rstest]
fn small_elements_are_transposed_by_words(
    #[values(1, 2)] bytes: usize,
    #[values((4, 4), (128, 128), (64, 256), (132, 260), (60, 124), (8, 516), (516, 8), (256, 384))] shape: (
        usize,
        usize,
    ),
    #[values(0, 4, 20)] gap: usize,
) {
    let mut random = StdRng::seed_from_u64(rand::random());
    for device in devices() {
        for rows_first in [false, true] {
            let (rows, cols) = shape;
            let of = |line: usize| Place { rows_first, step: 1, leading: line + gap, start: gap };
            let (from, to) = if rows_first { (of(rows), of(cols)) } else { (of(cols), of(rows)) };
            let places = Places { from, to };
            match bytes {
                1 => moves_between(&device, true, shape, places, &mut random, |x| x as u8),
                _ => moves_between(&device, true, shape, places, &mut random, |x| x as u16),
            }
        }
    }
}

/// Lines of at least 2,048 16-byte words, each with separate blocks, and shorter ones, eight for
/// each block; with a gap between them, and without one, which makes them one line.
#[rstest]
fn long_lines_and_short_ones_are_copied_by_words(
    #[values((8192, 3), (8188, 9), (8196, 2), (9000, 5), (16384, 1), (16384, 2), (4, 11))] shape: (
        usize,
        usize,
    ),
    #[values(0, 4)] gap: usize,
) {
    let mut random = StdRng::seed_from_u64(rand::random());
    let place = Place { rows_first: true, step: 1, leading: shape.0 + gap, start: 0 };
    for device in devices() {
        moves_between(&device, false, shape, Places { from: place, to: place }, &mut random, |x| x as u32);
    }
}

#[test]
fn declared_copies_are_exact_in_each_type_and_memory_layout() {
    harness::check(&moye::COPY);
}

#[test]
fn declared_transposes_are_exact_in_each_type_and_memory_layout() {
    harness::check(&moye::TRANSPOSE);
}

#[test]
fn arrays_that_cannot_be_moved_are_refused_with_the_way_out() {
    use moye::operation::{Array, ArrayType, Call, Declaration, Dtype, Options};
    let device = Device::sim();
    let buffer = device.alloc_zeroed::<f32>(64).unwrap();
    let refused = |declaration: &Declaration, shapes: [&[usize]; 2], strides: Option<&[i64]>| {
        let of = |shape: &[usize], address| {
            Array::row_major(&ArrayType { dtype: Dtype::F32, shape: shape.to_vec() }, address)
        };
        let (x, mut out) = (of(shapes[0], buffer.address()), of(shapes[1], buffer.address()));
        if let Some(strides) = strides {
            out.strides = strides.to_vec();
        }
        let (operands, options) = ([Some(x), Some(out)], Options::of(declaration));
        let call = Call { operands: &operands, options: &options };
        // SAFETY: the arrays are in the buffer, or the call is refused.
        let ran = declaration
            .check(&call)
            .and_then(|()| unsafe { (declaration.run)(&device.default_stream(), &call) });
        ran.unwrap_err().to_string()
    };
    let (copy, transpose) = (&moye::COPY, &moye::TRANSPOSE);
    for (said, part) in [
        (refused(transpose, [&[4], &[4]], None), "x has shape [4], and must have two or three modes"),
        (
            refused(copy, [&[1, 1, 2, 2]; 2], None),
            "x has shape [1, 1, 2, 2], and must have three modes at most",
        ),
        (refused(transpose, [&[2, 3], &[2, 3]], None), "out has shape [2, 3], and must have [3, 2]"),
        (refused(transpose, [&[4, 4]; 2], None), "out is x"),
        (refused(copy, [&[4, 4]; 2], Some(&[0, 1])), "the result has stride 0 along axis 0"),
    ] {
        assert!(said.contains(part), "{said}");
    }
}
