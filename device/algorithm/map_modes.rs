//! The modes of an elementwise kernel: extents and strides that all operands share, as few as
//! possible, and the division of an index by them.

use crate::kernel::{KernelParam, ParamType};
#[cfg(not(target_arch = "nvptx64"))]
use alloc::vec::Vec;

/// Threads of a block of [`map`](super::map()).
pub const MAP_THREADS: u32 = 128;
/// The most modes of a launch; an array with more takes a launch for each index of the outer modes.
pub(super) const MODES: usize = 4;
/// Vectors of a thread.
pub(super) const VECTORS: u32 = 4;
/// Elements of a thread if the operands do not allow vectors.
pub(super) const ELEMENTS: u32 = 8;

/// Division by a number that is known only at run time, and uniform across threads: a
/// multiplication and a shift.
///
/// ```
/// use moye_device::algorithm::FastDivmod;
/// assert_eq!(FastDivmod::new(7).divide(100), (14, 2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, KernelParam)]
#[repr(C)]
pub struct FastDivmod {
    divisor: u32,
    factor: u32,
    shift: u32,
}

impl FastDivmod {
    /// For divisors from 1 to 2^31.
    ///
    /// # Panics
    /// If the divisor is another value.
    #[must_use]
    pub const fn new(divisor: u32) -> Self {
        assert!(divisor >= 1 && divisor <= 1 << 31, "FastDivmod divides by 1 to 2^31");
        // The factor is 2^31 * 2^shift / divisor, rounded up: below 2^31 the error stays below 1.
        let shift = divisor.next_power_of_two().trailing_zeros();
        Self { divisor, factor: (1u64 << (31 + shift)).div_ceil(divisor as u64) as u32, shift }
    }

    /// Quotient and remainder of a number below 2^31.
    #[inline(always)]
    #[must_use]
    pub const fn divide(self, n: u32) -> (u32, u32) {
        let quotient = ((2 * n as u64 * self.factor as u64) >> 32) as u32 >> self.shift;
        (quotient, n.wrapping_sub(quotient.wrapping_mul(self.divisor)))
    }
}

/// The modes of a launch of [`map`](super::map()) with `N` inputs: a kernel parameter, computed by
/// [`MapModes::launches`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct MapModes<const N: usize> {
    /// Strides of the inputs by mode, the innermost first, in elements; 0 broadcasts.
    pub(super) inputs: [[i64; N]; MODES],
    /// Strides of the result.
    pub(super) out: [i64; MODES],
    /// Elements of mode 0.
    pub(super) columns: u64,
    /// Vectors of mode 0, and the extents of the modes between it and the outermost.
    pub(super) divisors: [FastDivmod; MODES - 1],
    /// Vectors of all modes.
    pub(super) count: u32,
    /// The number of modes.
    pub(super) rank: u32,
    /// Elements of a vector; 1 if the operands do not allow vectors.
    pub(super) vector: u32,
    pub(super) reserved: u32,
}

// SAFETY: `repr(C)`, aligned to 8 bytes, with fields that have the same meaning on host and device.
unsafe impl<const N: usize> KernelParam for MapModes<N> {
    const TYPE: ParamType = ParamType::Struct { name: "MapModes", size: size_of::<Self>() };
}

/// A vector of the operands of a launch: the offset of its first element in each operand, in
/// elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapPlace<const N: usize> {
    /// In each input.
    pub inputs: [i64; N],
    /// In the result.
    pub out: i64,
    /// The number of the vector's elements in bounds: fewer at the end of mode 0, 0 past the last
    /// vector.
    pub elements: u32,
}

impl<const N: usize> MapModes<N> {
    /// The place of vector `index` of the launch, for kernels that do more than
    /// [`map`](super::map()).
    #[inline(always)]
    #[must_use]
    pub fn place(&self, index: u32) -> MapPlace<N> {
        self.place_of(index, self.vector)
    }

    /// [`place`](Self::place) for vectors of a constant number of elements, `vector`.
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "modes number several arrays")]
    pub(super) fn place_of(&self, index: u32, vector: u32) -> MapPlace<N> {
        let mut rest = index;
        let mut coordinates = [0; MODES];
        for mode in 0..MODES - 1 {
            // The outermost mode takes the rest.
            if mode as u32 + 1 < self.rank {
                (rest, coordinates[mode]) = self.divisors[mode].divide(rest);
            } else {
                (coordinates[mode], rest) = (rest, 0);
            }
        }
        coordinates[MODES - 1] = rest;
        let first = coordinates[0] as u64 * vector as u64;
        let mut place = MapPlace { inputs: [0; N], out: first as i64 * self.out[0], elements: 0 };
        for k in 0..N {
            place.inputs[k] = first as i64 * self.inputs[0][k];
        }
        for mode in 1..MODES {
            if (mode as u32) < self.rank {
                let coordinate = i64::from(coordinates[mode]);
                place.out += coordinate * self.out[mode];
                for k in 0..N {
                    place.inputs[k] += coordinate * self.inputs[mode][k];
                }
            }
        }
        if index < self.count {
            let left = self.columns - first;
            place.elements = if left < vector as u64 { left as u32 } else { vector };
        }
        place
    }
}

/// An operand of [`MapModes::launches`].
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub struct MapOperand<'a> {
    /// The address of the first element; 0 for an input that is left out and reads as zeros.
    pub address: u64,
    /// Bytes of an element.
    pub bytes: usize,
    /// The distance between two elements along each mode, in elements; 0 broadcasts.
    pub strides: &'a [i64],
}

/// A launch of a kernel with [`map`](super::map()).
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MapLaunch<const N: usize> {
    /// The address of each input.
    pub inputs: [u64; N],
    /// The address of the result.
    pub out: u64,
    /// The modes, a parameter of the kernel.
    pub modes: MapModes<N>,
}

#[cfg(not(target_arch = "nvptx64"))]
impl<const N: usize> MapModes<N> {
    /// The launches that compute all elements of a shape: one, unless there are more than 2^31
    /// vectors or more modes than a launch has. Empty if there are no elements.
    ///
    /// Modes are sorted by the strides of `out`, and adjacent modes are merged if each operand has
    /// one stride for both. Vectors of 16 bytes of the widest element are used if every operand is
    /// contiguous along the innermost mode and aligned, or has stride 0 along it.
    ///
    /// ```
    /// use moye_device::algorithm::{MapModes, MapOperand};
    ///
    /// // A bias of 256 elements is added to 3 x 8 rows, which are contiguous: two modes.
    /// let x = MapOperand { address: 0x1000, bytes: 2, strides: &[8 * 256, 256, 1] };
    /// let bias = MapOperand { address: 0x2000, bytes: 2, strides: &[0, 0, 1] };
    /// let launches = MapModes::launches(&[3, 8, 256], [x, bias], x);
    /// assert_eq!((launches.len(), launches[0].modes.rank(), launches[0].modes.vector()), (1, 2, 8));
    /// assert_eq!(launches[0].modes.blocks(), 2);
    /// ```
    ///
    /// # Panics
    /// If an operand's strides and `shape` differ in length.
    #[must_use]
    pub fn launches(shape: &[usize], inputs: [MapOperand<'_>; N], out: MapOperand<'_>) -> Vec<MapLaunch<N>> {
        let widest = inputs.iter().map(|x| x.bytes).fold(out.bytes, usize::max);
        Self::launches_of(shape, inputs, out, 16 / widest.min(16))
    }

    /// [`launches`](Self::launches) without vectors, for kernels that use [`place`](Self::place).
    ///
    /// # Panics
    /// Same as [`launches`](Self::launches).
    #[must_use]
    pub fn launches_by_element(
        shape: &[usize],
        inputs: [MapOperand<'_>; N],
        out: MapOperand<'_>,
    ) -> Vec<MapLaunch<N>> {
        Self::launches_of(shape, inputs, out, 1)
    }

    fn launches_of(
        shape: &[usize],
        inputs: [MapOperand<'_>; N],
        out: MapOperand<'_>,
        vector: usize,
    ) -> Vec<MapLaunch<N>> {
        if shape.contains(&0) {
            return Vec::new();
        }
        let strides =
            |mode: usize| Strides { inputs: inputs.map(|x| x.strides[mode]), out: out.strides[mode] };
        let mut modes: Vec<(usize, Strides<N>)> = (0..shape.len())
            .filter(|&mode| shape[mode] != 1)
            .map(|mode| (shape[mode], strides(mode)))
            .collect();
        // The innermost first.
        modes.reverse();
        modes.sort_by_key(|(_, strides)| strides.out.unsigned_abs());
        let mut joined: Vec<(usize, Strides<N>)> = Vec::new();
        for (extent, strides) in modes {
            match joined.last_mut() {
                Some((inner, with)) if with.times(*inner as i64) == strides => *inner *= extent,
                _ => joined.push((extent, strides)),
            }
        }
        if joined.is_empty() {
            joined.push((1, Strides { inputs: [0; N], out: 1 }));
        }
        let aligned = |address: u64, bytes: usize, strides: &dyn Fn(&Strides<N>) -> i64| {
            let size = (vector * bytes) as u64;
            address.is_multiple_of(size)
                && strides(&joined[0].1) == 1
                && joined[1..]
                    .iter()
                    .all(|(_, of)| (strides(of) * bytes as i64).unsigned_abs().is_multiple_of(size))
        };
        let columns = joined[0].0;
        let fits = aligned(out.address, out.bytes, &|of| of.out)
            && (0..N).all(|k| {
                joined[0].1.inputs[k] == 0 || aligned(inputs[k].address, inputs[k].bytes, &|of| of.inputs[k])
            })
            // Most vectors of a short row would be cut.
            && (columns.is_multiple_of(vector) || columns >= 4 * vector);
        let vector = if fits { vector } else { 1 };
        let bytes = Strides { inputs: inputs.map(|x| x.bytes as i64), out: out.bytes as i64 };
        let first = MapLaunch { inputs: inputs.map(|x| x.address), out: out.address, modes: Self::EMPTY };
        let mut launches = Vec::new();
        split(&mut launches, &mut joined, vector, first, bytes);
        launches
    }

    const EMPTY: Self = Self {
        inputs: [[0; N]; MODES],
        out: [0; MODES],
        columns: 0,
        divisors: [FastDivmod::new(1); MODES - 1],
        count: 0,
        rank: 1,
        vector: 1,
        reserved: 0,
    };

    /// Vectors of the launch.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Blocks of a launch of [`map`](super::map()).
    #[must_use]
    pub fn blocks(&self) -> u32 {
        self.count.div_ceil(MAP_THREADS * if self.vector > 1 { VECTORS } else { ELEMENTS })
    }

    /// The number of modes.
    #[must_use]
    pub const fn rank(&self) -> u32 {
        self.rank
    }

    /// Elements of a vector; 1 if the operands do not allow vectors.
    #[must_use]
    pub const fn vector(&self) -> u32 {
        self.vector
    }
}

/// A value for each operand.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, PartialEq, Eq)]
struct Strides<const N: usize> {
    inputs: [i64; N],
    out: i64,
}

#[cfg(not(target_arch = "nvptx64"))]
impl<const N: usize> Strides<N> {
    fn times(self, by: i64) -> Self {
        Self { inputs: self.inputs.map(|stride| stride * by), out: self.out * by }
    }

    /// The addresses `by` indices further along a mode with these strides.
    fn moved(self, from: MapLaunch<N>, by: i64, bytes: Self) -> MapLaunch<N> {
        let moved = |address: u64, stride: i64, bytes: i64| match address {
            0 => 0,
            address => address.wrapping_add_signed(by * stride * bytes),
        };
        let mut to = from;
        for k in 0..N {
            to.inputs[k] = moved(from.inputs[k], self.inputs[k], bytes.inputs[k]);
        }
        to.out = moved(from.out, self.out, bytes.out);
        to
    }
}

/// Appends the launches of modes, the innermost first: the outermost mode is halved while there are
/// too many vectors, and split into single indices while there are too many modes.
#[cfg(not(target_arch = "nvptx64"))]
fn split<const N: usize>(
    launches: &mut Vec<MapLaunch<N>>,
    modes: &mut Vec<(usize, Strides<N>)>,
    vector: usize,
    first: MapLaunch<N>,
    bytes: Strides<N>,
) {
    let rows: usize = modes[1..].iter().map(|(extent, _)| extent).product();
    let count = modes[0].0.div_ceil(vector) * rows;
    if modes.len() <= MODES && count < 1 << 31 {
        let mut of = MapModes { columns: modes[0].0 as u64, rank: modes.len() as u32, ..MapModes::EMPTY };
        (of.count, of.vector) = (count as u32, vector as u32);
        for (mode, (extent, strides)) in modes.iter().enumerate() {
            (of.inputs[mode], of.out[mode]) = (strides.inputs, strides.out);
            if mode < MODES - 1 {
                let vectors = if mode == 0 { extent.div_ceil(vector) } else { *extent };
                of.divisors[mode] = FastDivmod::new(vectors as u32);
            }
        }
        launches.push(MapLaunch { modes: of, ..first });
        return;
    }
    let Some((extent, strides)) = modes.pop() else { return };
    if modes.len() >= MODES {
        for index in 0..extent {
            split(launches, modes, vector, strides.moved(first, index as i64, bytes), bytes);
        }
    } else {
        // Halves of whole vectors.
        let half = (extent / 2).next_multiple_of(vector);
        for (from, extent) in [(0, half), (half, extent - half)] {
            if extent > 0 {
                modes.push((extent, strides));
                split(launches, modes, vector, strides.moved(first, from as i64, bytes), bytes);
                modes.pop();
            }
        }
    }
    modes.push((extent, strides));
}
