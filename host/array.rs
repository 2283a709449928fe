//! Arrays of any element type and number of modes, as in the program and Python.

use crate::{Buffer, Device, Error, Matrix, MatrixMut, Result};
use half::{bf16, f16};
use moye_device::memory::Element;
use moye_device::number::{F8E4M3, F8E5M2, Scalar as _};
use std::fmt;

/// An element type of arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// float32.
    F32,
    /// float16.
    F16,
    /// bfloat16.
    Bf16,
    /// int32.
    I32,
    /// int64.
    I64,
    /// int8.
    I8,
    /// uint8: bytes whose bits the operation interprets.
    U8,
    /// float8_e4m3fn.
    E4m3,
    /// float8_e5m2.
    E5m2,
    /// float64.
    F64,
    /// complex128, which is only moved: as a number it is its real part.
    C128,
    /// bool: a byte that is 0 or 1.
    Bool,
}

impl Dtype {
    /// All element types.
    pub const ALL: [Self; 12] = [
        Self::F32,
        Self::F16,
        Self::Bf16,
        Self::I32,
        Self::I64,
        Self::I8,
        Self::U8,
        Self::E4m3,
        Self::E5m2,
        Self::F64,
        Self::C128,
        Self::Bool,
    ];
    /// The element types other than [`Dtype::C128`] and [`Dtype::Bool`].
    pub const NUMBERS: &[Self] = {
        let [numbers @ .., Self::C128, Self::Bool] = &Self::ALL else { unreachable!() };
        numbers
    };
    /// The element types that operations compute with.
    pub const FLOATS: &[Self] = &[Self::F32, Self::F16, Self::Bf16];
    /// The element types of indices.
    pub const INTEGERS: &[Self] = &[Self::I32, Self::I64];
    /// The 8-bit element types.
    pub const BYTES: &[Self] = &[Self::I8, Self::E4m3, Self::E5m2];

    /// Whether the elements are integers.
    pub const fn is_integer(self) -> bool {
        matches!(self, Self::I32 | Self::I64 | Self::I8 | Self::U8 | Self::Bool)
    }

    /// Bytes of an element.
    pub const fn bytes(self) -> usize {
        match self {
            Self::C128 => 16,
            Self::I64 | Self::F64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::I8 | Self::U8 | Self::E4m3 | Self::E5m2 | Self::Bool => 1,
        }
    }

    /// The name in NumPy and PyTorch.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "float32",
            Self::F16 => "float16",
            Self::Bf16 => "bfloat16",
            Self::I32 => "int32",
            Self::I64 => "int64",
            Self::I8 => "int8",
            Self::U8 => "uint8",
            Self::E4m3 => "float8_e4m3fn",
            Self::E5m2 => "float8_e5m2",
            Self::F64 => "float64",
            Self::C128 => "complex128",
            Self::Bool => "bool",
        }
    }

    /// The type of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// The element type of a Rust type, if there is one.
    pub fn of<T: Element>() -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| match dtype {
            Self::F32 => T::NAME == <f32 as Element>::NAME,
            Self::F16 => T::NAME == <f16 as Element>::NAME,
            Self::Bf16 => T::NAME == <bf16 as Element>::NAME,
            Self::I32 => T::NAME == <i32 as Element>::NAME,
            Self::I64 => T::NAME == <i64 as Element>::NAME,
            Self::I8 => T::NAME == <i8 as Element>::NAME,
            Self::U8 => T::NAME == <u8 as Element>::NAME,
            Self::E4m3 => T::NAME == <F8E4M3 as Element>::NAME,
            Self::E5m2 => T::NAME == <F8E5M2 as Element>::NAME,
            Self::F64 => T::NAME == <f64 as Element>::NAME,
            // Rust has no complex numbers, and the elements of `bool` are those of `u8`.
            Self::C128 | Self::Bool => false,
        })
    }

    /// The value of an element from its bytes. Magnitudes of int64 above 2^53 are rounded.
    ///
    /// # Panics
    /// The number of bytes is not that of an element.
    pub fn read(self, bytes: &[u8]) -> f64 {
        fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
            bytes.try_into().expect("the bytes of one element")
        }
        match self {
            Self::F32 => f32::from_le_bytes(array(bytes)).into(),
            Self::F16 => f16::from_le_bytes(array(bytes)).to_f64(),
            Self::Bf16 => bf16::from_le_bytes(array(bytes)).to_f64(),
            Self::I32 => i32::from_le_bytes(array(bytes)).into(),
            Self::I64 => i64::from_le_bytes(array(bytes)) as f64,
            Self::I8 => i8::from_le_bytes(array(bytes)).into(),
            Self::U8 => bytes[0].into(),
            Self::E4m3 => F8E4M3::from_bits(bytes[0]).to_f64(),
            Self::E5m2 => F8E5M2::from_bits(bytes[0]).to_f64(),
            Self::F64 => f64::from_le_bytes(array(bytes)),
            Self::C128 => Self::F64.read(&bytes[..8]),
            Self::Bool => f64::from(u8::from(bytes[0] != 0)),
        }
    }

    /// The bytes of the element nearest to a value; integers are rounded towards 0.
    pub fn write(self, value: f64, bytes: &mut [u8]) {
        match self {
            Self::F32 => bytes.copy_from_slice(&(value as f32).to_le_bytes()),
            Self::F16 => bytes.copy_from_slice(&f16::from_f64(value).to_le_bytes()),
            Self::Bf16 => bytes.copy_from_slice(&bf16::from_f64(value).to_le_bytes()),
            Self::I32 => bytes.copy_from_slice(&(value as i32).to_le_bytes()),
            Self::I64 => bytes.copy_from_slice(&(value as i64).to_le_bytes()),
            Self::I8 => bytes.copy_from_slice(&(value as i8).to_le_bytes()),
            Self::U8 => bytes[0] = value as u8,
            Self::E4m3 => bytes[0] = F8E4M3::nearest(value).to_bits(),
            Self::E5m2 => bytes[0] = F8E5M2::nearest(value).to_bits(),
            Self::F64 => bytes.copy_from_slice(&value.to_le_bytes()),
            Self::C128 => {
                bytes[..8].copy_from_slice(&value.to_le_bytes());
                bytes[8..].fill(0);
            }
            Self::Bool => bytes[0] = u8::from(value != 0.0),
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The offset of each element from the first one, in row-major order.
///
/// ```
/// use moye_runtime::operation::offsets;
///
/// // Two rows of three elements, by columns.
/// assert!(offsets(&[2, 3], &[1, 2]).eq([0, 2, 4, 1, 3, 5]));
/// assert!(offsets(&[], &[]).eq([0]));
/// assert_eq!(offsets(&[2, 0], &[1, 1]).count(), 0);
/// ```
pub fn offsets(shape: &[usize], strides: &[i64]) -> impl Iterator<Item = i64> {
    let count = if shape.contains(&0) { 0 } else { shape.iter().product() };
    let (mut coordinate, mut next) = (vec![0; shape.len()], 0i64);
    (0..count).map(move |_| {
        let offset = next;
        for mode in (0..shape.len()).rev() {
            coordinate[mode] += 1;
            next = next.wrapping_add(strides[mode]);
            if coordinate[mode] < shape[mode] {
                break;
            }
            next = next.wrapping_sub(strides[mode].wrapping_mul(shape[mode] as i64));
            coordinate[mode] = 0;
        }
        offset
    })
}

/// A shape as NumPy writes it: `(3,)`, `(3, 4)`.
pub fn shape_text(shape: &[usize]) -> String {
    match shape {
        [one] => format!("({one},)"),
        _ => format!("({})", shape.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// The element type and the shape of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayType {
    /// The element type.
    pub dtype: Dtype,
    /// The extent of each mode.
    pub shape: Vec<usize>,
}

/// Axes of an array: one, several, or all. Negative axes count from the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axes {
    /// The first `count` entries are the axes; `None` means all axes of the array.
    count: Option<usize>,
    axes: [i64; Self::MOST],
}

impl Axes {
    /// The maximum number of axes of a list.
    pub const MOST: usize = 8;
    /// All axes of an array.
    pub const ALL: Self = Self { count: None, axes: [0; Self::MOST] };

    /// One axis or several: a list whose length is not 1 to 8 does not compile.
    pub const fn new<const N: usize>(list: [i64; N]) -> Self {
        const { assert!(N > 0 && N <= Self::MOST, "a list has 1 to 8 axes") };
        let (mut axes, mut i) = ([0; Self::MOST], 0);
        while i < N {
            axes[i] = list[i];
            i += 1;
        }
        Self { count: Some(N), axes }
    }

    /// The axes of a list.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for an empty list, or one longer than [`Axes::MOST`].
    pub fn of(operation: &'static str, axes: &[i64]) -> Result<Self> {
        let (count, most) = (axes.len(), Self::MOST);
        if !(1..=most).contains(&count) {
            let detail = format!("the list has {count} axes, and has 1 to {most}; leave it out for all");
            return Err(Error::Unsupported { operation, detail });
        }
        let mut all = [0; Self::MOST];
        all[..count].copy_from_slice(axes);
        Ok(Self { count: Some(count), axes: all })
    }

    /// The axes of a list, `None` for all of an array.
    pub fn list(&self) -> Option<&[i64]> {
        self.count.map(|count| &self.axes[..count])
    }
}

impl fmt::Display for Axes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(axes) = self.list() else { return f.write_str("all") };
        let axes: Vec<_> = axes.iter().map(i64::to_string).collect();
        f.write_str(&axes.join(","))
    }
}

/// An array in a device's memory.
#[derive(Clone, Debug)]
pub struct Array {
    /// The element type.
    pub dtype: Dtype,
    /// The extent of each mode.
    pub shape: Vec<usize>,
    /// The distance between two elements along each mode, in elements.
    pub strides: Vec<i64>,
    /// The device address of the first element.
    pub address: u64,
}

impl Array {
    /// A row-major array at an address.
    pub fn row_major(of: &ArrayType, address: u64) -> Self {
        let mut strides = vec![1; of.shape.len()];
        for mode in (1..of.shape.len()).rev() {
            strides[mode - 1] = strides[mode] * of.shape[mode].max(1) as i64;
        }
        Self { dtype: of.dtype, shape: of.shape.clone(), strides, address }
    }

    /// A matrix as an array.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if [`Dtype`] lacks the element type.
    pub fn of<T: Element>(operation: &'static str, matrix: &Matrix<'_, T>) -> Result<Self> {
        let shape = vec![matrix.rows(), matrix.cols()];
        Self::new::<T>(operation, shape, matrix.shape().strides(), matrix.data().address())
    }

    /// A matrix as an array, to write.
    ///
    /// # Errors
    /// Same as [`Array::of`].
    pub fn of_mut<T: Element>(operation: &'static str, matrix: &mut MatrixMut<'_, T>) -> Result<Self> {
        let (shape, strides) = (vec![matrix.rows(), matrix.cols()], matrix.shape().strides());
        Self::new::<T>(operation, shape, strides, matrix.data_mut().address())
    }

    fn new<T: Element>(
        operation: &'static str,
        shape: Vec<usize>,
        (row, column): (i64, i64),
        address: u64,
    ) -> Result<Self> {
        let dtype = Dtype::of::<T>().ok_or_else(|| Error::Unsupported {
            operation,
            detail: format!(
                "there are no kernels for elements of {}; convert them to f32, f16, bf16, i32 or i64",
                T::NAME
            ),
        })?;
        Ok(Self { dtype, shape, strides: vec![row, column], address })
    }

    /// The element type and the shape.
    pub fn ty(&self) -> ArrayType {
        ArrayType { dtype: self.dtype, shape: self.shape.clone() }
    }

    /// Whether the elements are row-major without gaps.
    pub fn is_contiguous(&self) -> bool {
        let mut next = 1;
        self.elements() == 0
            || self.shape.iter().zip(&self.strides).rev().all(|(&extent, &stride)| {
                let fits = extent == 1 || stride == next;
                next *= extent as i64;
                fits
            })
    }

    /// Whether the elements are row-major without gaps and start at a multiple of 16 bytes.
    pub fn is_dense(&self) -> bool {
        self.address.is_multiple_of(16) && self.is_contiguous()
    }

    /// Whether the elements of the last mode are contiguous, and the array starts at a multiple of
    /// 16 bytes, with strides of the other modes that are such multiples.
    pub fn has_aligned_rows(&self) -> bool {
        let bytes = self.dtype.bytes() as i64;
        let mut modes = self.shape.iter().zip(&self.strides).rev();
        let is_row = modes.next().is_none_or(|(&extent, &stride)| extent == 1 || stride == 1);
        let mut others = modes.filter(|&(&extent, _)| extent > 1);
        self.elements() == 0
            || is_row
                && self.address.is_multiple_of(16)
                && others.all(|(_, stride)| (stride * bytes) % 16 == 0)
    }

    /// The elements as a buffer, from the first one to the one with the largest offset.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a negative stride. On the simulator the memory is checked, on a
    /// GPU it is not: the caller of an operation has guaranteed it.
    ///
    /// # Safety
    /// The elements stay allocated in memory of the device until the buffer is dropped and its work
    /// has completed, and have type `T`. Until then no other code writes what is read through the
    /// buffer, or accesses what is written through it, except in the order of the same stream.
    pub unsafe fn buffer<T: Element>(
        &self,
        operation: &'static str,
        name: &str,
        device: &Device,
    ) -> Result<Buffer<T>> {
        let mut len = usize::from(self.elements() > 0);
        for (&extent, &stride) in self.shape.iter().zip(&self.strides) {
            let Ok(stride) = usize::try_from(if extent > 1 { stride } else { 0 }) else {
                let detail = format!("{name} has a stride of {stride}, and must have none below 0; copy it");
                return Err(Error::Unsupported { operation, detail });
            };
            len = len.saturating_add(stride.saturating_mul(extent.max(1) - 1) * len.min(1));
        }
        // SAFETY: the caller guarantees the elements.
        unsafe { Buffer::of_operand(self.address, len, device) }
    }

    /// Whether no stride of 0 lets elements of a result share a place.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with the axis.
    pub fn check_distinct(&self, operation: &'static str) -> Result<()> {
        let mut modes = 0..self.shape.len();
        let Some(mode) = modes.find(|&mode| self.strides[mode] == 0 && self.shape[mode] > 1) else {
            return Ok(());
        };
        let detail = format!(
            "the result has stride 0 along axis {mode}, of {} elements; give an array that has each element once",
            self.shape[mode]
        );
        Err(Error::Unsupported { operation, detail })
    }

    /// The number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// The mode of an axis; a negative axis counts from the end.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the array lacks the axis.
    pub fn axis(&self, operation: &'static str, axis: i64) -> Result<usize> {
        let rank = self.shape.len() as i64;
        if rank == 0 {
            let detail = "the array has no axes; give one of one or more modes".to_owned();
            return Err(Error::Unsupported { operation, detail });
        }
        if axis < -rank || axis >= rank {
            let detail = format!(
                "axis is {axis}, and an array of shape {:?} takes {} to {}",
                self.shape,
                -rank,
                rank - 1
            );
            return Err(Error::Unsupported { operation, detail });
        }
        Ok(axis.rem_euclid(rank) as usize)
    }

    /// The modes of the axes, in ascending order; `None` means all.
    ///
    /// # Errors
    /// Same as [`Array::axis`]; also if two axes are the same mode.
    pub fn axes(&self, operation: &'static str, axes: Axes) -> Result<Option<Vec<usize>>> {
        let Some(axes) = axes.list() else { return Ok(None) };
        let mut modes = axes.iter().map(|&axis| self.axis(operation, axis)).collect::<Result<Vec<_>>>()?;
        modes.sort_unstable();
        if modes.windows(2).any(|two| two[0] == two[1]) {
            let detail = format!(
                "the axes are {axes:?}, of which two are the same in an array of shape {:?}; name it once",
                self.shape
            );
            return Err(Error::Unsupported { operation, detail });
        }
        Ok(Some(modes))
    }
}
