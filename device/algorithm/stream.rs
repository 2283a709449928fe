//! Rows that are read once and not kept: a thread's part of a row, in 16-byte vectors.

use crate::arch::Convert;
use crate::memory::{Element, Global};

/// Elements of strided rows that a thread loads before it uses them.
const STRIDED: usize = 8;

/// A thread's part of the elements `from..to` of a row: every `parts`th vector of 16 bytes from
/// `part` on, or every `parts`th element if the row is not contiguous. Parts 0 to `parts - 1` make
/// up the whole row, which may start at any element and have any length.
///
/// ```
/// # use moye_device::algorithm::{RowPart, warp_reduce};
/// # use moye_device::prelude::*;
/// /// The sum of `n` elements.
/// ///
/// /// # Safety
/// /// `x` holds `n` elements, and `y` one.
/// #[kernel(threads = 32)]
/// pub unsafe fn sum(x: Global<bf16>, n: u32, y: GlobalMut<f32>) {
///     let (part, mut sum) = (RowPart { from: 0, to: n, part: lane_id(), parts: 32 }, 0.0);
///     part.for_each(x, 1, |values, _| sum = values.iter().fold(sum, |sum, x| sum + x));
///     y.write(0, warp_reduce(sum, f32::add));
/// }
/// # let memory = moye_sim::GlobalMemory::new();
/// # let x = memory.upload(&[bf16::ONE; 1003], "x").unwrap();
/// # let y = memory.upload(&[0f32], "y").unwrap();
/// # let arguments = (Global::from_address(x.address() + 2), 1001, GlobalMut::from_address(y.address()));
/// // SAFETY: `x` holds 1,002 elements from the second on, and `y` one.
/// # unsafe { sum.simulate(&memory, 1, 32, arguments) }.unwrap();
/// assert_eq!(y.download::<f32>(), [1001.0]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RowPart {
    /// The first element.
    pub from: u32,
    /// The end of the elements.
    pub to: u32,
    /// The thread's index among the threads of the row.
    pub part: u32,
    /// The threads that share the row.
    pub parts: u32,
}

/// The elements of a vector of 16 bytes, the first ones of the result.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn elements_of<T: Element + Convert<f32>>(word: &[u32; 4]) -> [f32; 16] {
    // SAFETY: the word consists of elements, for which any bits are valid.
    let elements: &[T] =
        unsafe { core::slice::from_raw_parts(word.as_ptr().cast(), const { 16 / T::BYTES }) };
    let mut values = [0.0; 16];
    for (value, element) in values.iter_mut().zip(elements) {
        *value = element.convert();
    }
    values
}

impl RowPart {
    /// Calls `f` with the values of each vector, or of each element, and the row index of the
    /// first, in ascending order except for the elements before and after the vectors.
    ///
    /// # Safety
    /// `x` points to element 0 of the row, elements are `stride` apart, and those from `from` to
    /// `to` are readable.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn for_each<T: Element + Convert<f32>>(
        self,
        x: Global<T>,
        stride: i64,
        f: impl FnMut(&[f32], u32),
    ) {
        // SAFETY: the elements of the part are readable.
        unsafe { self.for_each_of::<T, 4>(x, stride, f) }
    }

    /// [`for_each`](Self::for_each) with `GROUP` vectors of the thread in use and as many in flight
    /// at a time, instead of four each.
    ///
    /// # Safety
    /// Same contract as [`for_each`](Self::for_each).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn for_each_of<T: Element + Convert<f32>, const GROUP: usize>(
        self,
        x: Global<T>,
        stride: i64,
        mut f: impl FnMut(&[f32], u32),
    ) {
        if stride != 1 {
            let read = |at: u32| {
                // Clamped to the last element. SAFETY: the element belongs to the row.
                unsafe { x.read(i64::from(at.min(self.to - 1)) * stride) }
            };
            return self.strided(read, |value, at| f(&[value.convert()], at));
        }
        let Self { from, to, part, parts } = self;
        let vector = const { 16 / T::BYTES as u32 };
        let x = x.offset(i64::from(from));
        let head = ((x.address().wrapping_neg() % 16) as u32 / T::BYTES as u32).min(to - from);
        let (vectors, tail) = ((to - from - head) / vector, (to - from - head) % vector);
        let body = x.offset(i64::from(head));
        let mut at = part;
        while at < head {
            // SAFETY: an element before the vectors.
            f(&[unsafe { x.read(at) }.convert()], from + at);
            at += parts;
        }
        let load = |next: u32| {
            let mut words = [[0u32; 4]; GROUP];
            for (word, i) in words.iter_mut().zip(0..) {
                let at = next + i * parts;
                let address = body.offset(i64::from(at * vector)).cast::<[u32; 4]>();
                // SAFETY: the vector belongs to the row if it exists, and is aligned.
                *word = unsafe { crate::memory::GlobalPointer::read_if(address, at < vectors) };
            }
            words
        };
        let (mut next, mut words) = (part, load(part));
        while next < vectors {
            let after = next + GROUP as u32 * parts;
            // The next group is in flight while this one is used. Short rows have none.
            let following = if after < vectors { load(after) } else { [[0u32; 4]; GROUP] };
            for (word, i) in words.iter().zip(0..) {
                let at = next + i * parts;
                if at < vectors {
                    let values = elements_of::<T>(word);
                    f(&values[..const { 16 / T::BYTES }], from + head + at * vector);
                }
            }
            (next, words) = (after, following);
        }
        let mut at = part;
        while at < tail {
            let of_row = head + vectors * vector + at;
            // SAFETY: an element after the vectors.
            f(&[unsafe { x.read(of_row) }.convert()], from + of_row);
            at += parts;
        }
    }

    /// Values of a row that [`for_each_across`](Self::for_each_across) loads before they are used.
    pub const ACROSS: usize = 4;

    /// Calls `f` for the neighbouring rows of a thread, whose elements are contiguous across rows:
    /// a vector of 16 bytes has one of each. `f` receives the row's index among them, at most
    /// [`ACROSS`](Self::ACROSS) consecutive values of the row, and the index of the first, in
    /// ascending order. The parts, one or several rows each, take these groups of values in turn.
    ///
    /// ```
    /// # use moye_device::algorithm::RowPart;
    /// # use moye_device::prelude::*;
    /// /// The sums of the columns of `m` rows of 256: a lane has eight neighbouring columns.
    /// ///
    /// /// # Safety
    /// /// `x` holds the rows, from a multiple of 16 bytes on, and `y` 256 elements.
    /// #[kernel(threads = 32)]
    /// pub unsafe fn column_sums(x: Global<bf16>, m: u32, y: GlobalMut<f32>) {
    ///     let (first, mut sums) = (8 * lane_id(), [0.0; 8]);
    ///     let column = RowPart { from: 0, to: m, part: 0, parts: 1 };
    ///     column.for_each_across(x.offset(i64::from(first)), 256, |i, values, _| {
    ///         sums[i] = values.iter().fold(sums[i], |sum, x| sum + x);
    ///     });
    ///     for i in 0..8 {
    ///         y.write(first + i, sums[i as usize]);
    ///     }
    /// }
    /// # let memory = moye_sim::GlobalMemory::new();
    /// # let x: Vec<_> = (0..7 * 256).map(|i| bf16::from_f32((i % 256) as f32)).collect();
    /// # let (x, y) = (memory.upload(&x, "x").unwrap(), memory.upload(&[f32::NAN; 256], "y").unwrap());
    /// # let arguments = (Global::from_address(x.address()), 7, GlobalMut::from_address(y.address()));
    /// // Column `i` of seven rows holds `i`.
    /// // SAFETY: `x` holds 7 rows of 256 elements, and `y` 256 elements.
    /// unsafe { column_sums.simulate(&memory, 1, 32, arguments) }.unwrap();
    /// assert!(y.download::<f32>().iter().enumerate().all(|(i, &sum)| sum == 7.0 * i as f32));
    /// ```
    ///
    /// # Safety
    /// `x` points to element 0 of the first row, at a multiple of 16 bytes, as are elements
    /// `stride` apart; the vectors from `from` to `to` are readable.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn for_each_across<T: Element + Convert<f32>>(
        self,
        x: Global<T>,
        stride: i64,
        mut f: impl FnMut(usize, &[f32], u32),
    ) {
        let Self { from, to, part, parts } = self;
        let mut next = from + part * Self::ACROSS as u32;
        while next < to {
            let mut words = [[0u32; 4]; Self::ACROSS];
            for (word, at) in words.iter_mut().zip(next..) {
                let address = x.offset(i64::from(at) * stride).cast::<[u32; 4]>();
                // SAFETY: the vector belongs to the rows if it exists, and is aligned.
                *word = unsafe { crate::memory::GlobalPointer::read_if(address, at < to) };
            }
            // [value][row]
            let mut values = [[0.0; 16]; Self::ACROSS];
            for (values, word) in values.iter_mut().zip(&words) {
                *values = elements_of::<T>(word);
            }
            let is_whole = next + Self::ACROSS as u32 <= to;
            #[allow(clippy::needless_range_loop, reason = "the second index of `values`")]
            for row in 0..const { 16 / T::BYTES } {
                let mut of_row = [0.0; Self::ACROSS];
                for i in 0..Self::ACROSS {
                    of_row[i] = values[i][row];
                }
                if is_whole {
                    f(row, &of_row, next);
                    continue;
                }
                for (i, at) in (0..Self::ACROSS).zip(next..) {
                    if at < to {
                        f(row, &[of_row[i]], at);
                    }
                }
            }
            next += parts * Self::ACROSS as u32;
        }
    }

    /// Calls `f` with the result of `read` for each of the thread's elements, and with its index,
    /// in ascending order. Elements are read before they are used, so `read` may get an index past
    /// the end.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn strided<S: Copy>(self, read: impl Fn(u32) -> S, mut f: impl FnMut(S, u32)) {
        let mut next = self.from + self.part;
        while next < self.to {
            let at = [0, 1, 2, 3, 4, 5, 6, 7].map(|i| next + i * self.parts);
            let values = at.map(&read);
            for i in 0..STRIDED {
                if at[i] < self.to {
                    f(values[i], at[i]);
                }
            }
            next += STRIDED as u32 * self.parts;
        }
    }
}
