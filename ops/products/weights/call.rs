//! From a call to launches.

use super::codes::{Code, ROWS, Rows, Weights};
use super::formats::{self, Source};
use super::kernel::{self, Finish, WARPS};
use half::{bf16, f16};
use moye::operation::{self, Array, ArrayType, Call, Dtype, Launcher, Operation, Options};
use moye::{Error, Grid, Ptx, Rates, Result, Stream};
use moye_device::arch::F16x2;
use moye_device::kernel::Kernel;
use moye_device::memory::{Element, Global, GlobalMut};
use moye_device::number::U4;
use std::marker::PhantomData;

/// The product.
pub const LINEAR: &str = "linear_quantized";
/// The order of the kernels.
pub const PACK: &str = "pack_weights";
/// The weights as floats.
pub const UNPACK: &str = "unpack_weights";
/// Bytes of a tile of codes for a step.
pub const STEP_BYTES: usize = 512;

/// A form in which files have weights: its name, and what is known of it.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// The name.
    pub name: &'static str,
    /// Bits of a code in the kernels' order.
    pub bits: usize,
    /// Weights of a group, or 0 where scales apart say it.
    pub group: usize,
    /// Weights of a block and its bytes, or zeros where a row is codes alone.
    pub block: (usize, usize),
    /// Whether the words hold columns of W.
    pub columns: bool,
    /// Where there are no minima, what is subtracted from a code.
    pub offset: Option<u32>,
    kernel: Kernel<(Source, GlobalMut<[u32; 4]>, GlobalMut<F16x2>, bool)>,
}

macro_rules! forms {
    ($($name:literal: $bits:literal, $group:literal, $block:expr, $columns:literal, $offset:expr, $kernel:ident;)+) => {
        /// All forms.
        pub static FORMS: &[Form] = &[$(Form {
            name: $name, bits: $bits, group: $group, block: $block, columns: $columns, offset: $offset,
            kernel: formats::$kernel,
        }),+];
        /// Their names.
        pub const NAMES: &[&str] = &[$($name),+];
    };
}
forms! {
    "nibbles": 4, 0, (0, 0), false, Some(8), pack_nibbles;
    "bytes": 8, 0, (0, 0), false, Some(128), pack_bytes;
    "gptq": 4, 0, (0, 0), true, None, pack_gptq;
    "awq": 4, 0, (0, 0), true, None, pack_awq;
    "q4_0": 4, 32, (32, 18), false, Some(8), pack_q4_0;
    "q4_1": 4, 32, (32, 20), false, None, pack_q4_1;
    "q8_0": 8, 32, (32, 34), false, Some(128), pack_q8_0;
    "q4_k": 4, 32, (256, 144), false, None, pack_q4_k;
    "q5_k": 8, 32, (256, 176), false, None, pack_q5_k;
    "q6_k": 8, 16, (256, 210), false, Some(32), pack_q6_k;
}

impl Form {
    /// The form of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        FORMS.iter().find(|form| form.name == name)
    }
}

const fn unit(bits: usize) -> usize {
    if bits == 4 { U4::UNIT as usize } else { u8::UNIT as usize }
}

fn mismatch<T>(operation: &'static str, detail: String) -> Result<T> {
    Err(Error::ShapeMismatch { operation, detail })
}

/// Sizes of quantised weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sizes {
    /// Rows of W.
    pub n: usize,
    /// Elements of a row.
    pub k: usize,
    /// Groups of a row.
    pub groups: usize,
    /// Bits of a code.
    pub bits: usize,
    /// What is subtracted from a code, where there are no minima.
    pub offset: Option<u32>,
}

impl Sizes {
    /// Refuses sizes that no kernel takes.
    pub fn check(self, operation: &'static str) -> Result<Self> {
        let Self { n, k, groups, bits, .. } = self;
        let (unit, group) = (unit(bits), k / groups.max(1));
        let whole = groups > 0 && k.is_multiple_of(groups) && k.is_multiple_of(8);
        if n == 0
            || k == 0
            || !whole
            || (groups > 1 && !(group.is_multiple_of(unit) && (group / unit).is_power_of_two()))
        {
            return mismatch(
                operation,
                format!(
                    "W has {n} rows of {k} weights in {groups} groups; of {bits} bits a row takes groups of {unit}, {}, \
                     {}, ... or one, and a multiple of 8 weights",
                    2 * unit,
                    4 * unit
                ),
            );
        }
        if n * k / 8 > i32::MAX as usize {
            let detail = format!("W has {n} x {k} weights, and may have {}", 8 * i32::MAX as i64);
            return Err(Error::Unsupported { operation, detail });
        }
        Ok(self)
    }

    fn tiles(self) -> usize {
        self.n.div_ceil(ROWS as usize)
    }

    fn steps(self) -> usize {
        self.k.div_ceil(2 * unit(self.bits))
    }

    /// The types of codes and factors.
    pub fn packed(self) -> [ArrayType; 2] {
        let parts = if self.offset.is_some() { 2 } else { 4 };
        [
            ArrayType { dtype: Dtype::U8, shape: vec![self.tiles(), self.steps(), STEP_BYTES] },
            ArrayType { dtype: Dtype::F16, shape: vec![self.tiles(), self.groups, 8, parts] },
        ]
    }

    /// The weights that a kernel reads.
    fn weights(self, codes: u64, factors: u64) -> Weights {
        let (group, step) = (self.k / self.groups, 2 * unit(self.bits));
        let shift = match self.groups {
            1 => 31,
            _ if group < step => Weights::BY_UNIT,
            _ => (group / step).ilog2(),
        };
        Weights {
            codes: Global::from_address(codes),
            factors: Global::from_address(factors),
            n: self.n as u32,
            k: self.k as u32,
            groups: self.groups as u32,
            shift,
            minima: self.offset.is_none(),
            offset: self.offset.unwrap_or(0) as f32,
        }
    }

    /// The sizes of packed weights with rows of `k` elements, by the types of codes and factors.
    fn of(
        operation: &'static str,
        [codes, factors]: [&ArrayType; 2],
        k: usize,
        options: &Options,
    ) -> Result<Self> {
        let (bits, rows) = (options.int("bits"), options.int("rows"));
        if bits != 4 && bits != 8 {
            let detail = format!("bits is {bits}, and must be 4 or 8");
            return Err(Error::Unsupported { operation, detail });
        }
        let tiles = codes.shape.first().copied().unwrap_or(0);
        let n = if rows == 0 { tiles * ROWS as usize } else { rows as usize };
        let groups = factors.shape.get(1).copied().unwrap_or(0);
        let minima = factors.shape.last() == Some(&4);
        let offset = (!minima).then(|| options.int("offset") as u32);
        let sizes = Self { n, k, groups, bits: bits as usize, offset }.check(operation)?;
        let wanted = sizes.packed();
        if [codes, factors].into_iter().ne(&wanted) || rows < 0 {
            return mismatch(
                operation,
                format!(
                    "codes have shape {:?} and factors {:?}; for {n} rows of {k} weights of {bits} bits they have {:?} \
                     and {:?}, as pack_weights gives them",
                    codes.shape, factors.shape, wanted[0].shape, wanted[1].shape
                ),
            );
        }
        Ok(sizes)
    }
}

fn input(inputs: &[Option<ArrayType>], index: usize) -> &ArrayType {
    inputs[index].as_ref().expect("checked: it is not optional")
}

/// Form and sizes of weights to be packed.
pub fn source_sizes(inputs: &[Option<ArrayType>], options: &Options) -> Result<(&'static Form, Sizes)> {
    let form = Form::named(options.choice("form")).expect("an option of these names");
    let (weights, scales, others) = (input(inputs, 0), inputs[1].as_ref(), inputs[2].as_ref());
    let name = form.name;
    let [rows, columns] = weights.shape[..] else {
        return mismatch(PACK, format!("weights have shape {:?}, and must have two modes", weights.shape));
    };
    let bytes = columns * weights.dtype.bytes();
    let (n, k) = match (form.block, form.columns) {
        ((0, 0), false) => (rows, bytes * 8 / form.bits),
        // Words of eight elements along K, or along N.
        (_, true) if name == "gptq" => (columns, rows * 8),
        (_, true) => (columns * 8, rows),
        ((weights, block), _) if bytes.is_multiple_of(block) => (rows, bytes / block * weights),
        ((_, block), _) => {
            return mismatch(PACK, format!("rows have {bytes} bytes, and {name} has blocks of {block}"));
        }
    };
    let apart = form.group == 0;
    if apart != scales.is_some()
        || (!apart && others.is_some())
        || (form.columns != others.is_some() && form.columns)
    {
        let takes = match (apart, form.columns) {
            (true, true) => "scales and zeros",
            (true, false) => "scales, with or without minima",
            _ => "the weights alone",
        };
        return mismatch(PACK, format!("{name} takes {takes}"));
    }
    let groups = match scales {
        None => k / form.group,
        Some(scales) if form.columns => scales.shape.first().copied().unwrap_or(0),
        Some(scales) => scales.shape.get(1).copied().unwrap_or(0),
    };
    let offset = form.offset.filter(|_| others.is_none());
    let sizes = Sizes { n, k, groups, bits: form.bits, offset }.check(PACK)?;
    let wanted = if form.columns { [groups, n] } else { [n, groups] };
    let zeros = [groups, n / 8];
    let fits = |array: Option<&ArrayType>, wanted: &[usize], dtype| {
        array.is_none_or(|array| array.shape == wanted && array.dtype == dtype)
    };
    let (other, dtype) = if form.columns { (&zeros, Dtype::I32) } else { (&wanted, Dtype::F16) };
    if !fits(scales, &wanted, Dtype::F16)
        || !fits(others, other, dtype)
        || (form.columns && weights.dtype != Dtype::I32)
    {
        return mismatch(
            PACK,
            format!(
                "{name} of {n} rows of {k} weights has scales of float16 {wanted:?} and, where given, others of {dtype} \
                 {other:?}; {}they have {scales:?} and {others:?}",
                if form.columns { "words are int32; " } else { "" }
            ),
        );
    }
    Ok((form, sizes))
}

/// Types of codes and factors.
pub fn packed(inputs: &[Option<ArrayType>], options: &Options) -> Result<Vec<ArrayType>> {
    Ok(source_sizes(inputs, options)?.1.packed().to_vec())
}

/// The type of the weights as floats.
pub fn unpacked(inputs: &[Option<ArrayType>], options: &Options) -> Result<Vec<ArrayType>> {
    let (dtype, columns) = (options.dtype("dtype"), options.int("columns"));
    let [codes, factors] = [input(inputs, 0), input(inputs, 1)];
    let whole = codes
        .shape
        .get(1)
        .map_or(0, |steps| steps * STEP_BYTES / 16 * 8 / options.int("bits").max(1) as usize);
    let k = if columns > 0 { columns as usize } else { whole };
    if !matches!(dtype, Dtype::F16 | Dtype::Bf16) {
        let detail = format!("dtype is {dtype}, and may be float16 or bfloat16");
        return Err(Error::Unsupported { operation: UNPACK, detail });
    }
    let sizes = Sizes::of(UNPACK, [codes, factors], k, options)?;
    Ok(vec![ArrayType { dtype, shape: vec![sizes.n, k] }])
}

/// The type of the product.
pub fn product(inputs: &[Option<ArrayType>], options: &Options) -> Result<Vec<ArrayType>> {
    let x = input(inputs, 0);
    let Some(&k) = x.shape.last() else {
        return mismatch(LINEAR, "x has no modes; give an array of one or more".to_owned());
    };
    let sizes = Sizes::of(LINEAR, [input(inputs, 1), input(inputs, 2)], k, options)?;
    let mut shape = x.shape.clone();
    let last = shape.last_mut().expect("x has a mode");
    *last = sizes.n;
    if options.bool("gated") {
        if !sizes.n.is_multiple_of(ROWS as usize) {
            let detail =
                format!("W has {} rows; gates and ups in turn, 8 each, are a multiple of {ROWS}", sizes.n);
            return mismatch(LINEAR, detail);
        }
        *last /= 2;
    }
    let result = ArrayType { dtype: x.dtype, shape };
    match &inputs[3] {
        Some(residual) if *residual != result => mismatch(
            LINEAR,
            format!(
                "residual has shape {:?} of {}, and must have {:?} of {}",
                residual.shape, residual.dtype, result.shape, result.dtype
            ),
        ),
        _ => Ok(vec![result]),
    }
}

/// A type of activations.
pub trait WeightKernels: Element {
    /// The products, by bits (4, 8), with and without minima, and by shape.
    const LINEAR: [[Kernel<(Global<Self>, GlobalMut<Self>, Weights, u32, Rows, Rows, Finish)>; 5]; 4];
    /// The weights as floats, by bits.
    const UNPACK: [Kernel<(Weights, GlobalMut<Self>)>; 2];
}

macro_rules! kernels {
    ($($t:ty: $([$($linear:ident),+]),+; [$($unpack:ident),+];)+) => { $(
        impl WeightKernels for $t {
            const LINEAR: [[Kernel<(Global<Self>, GlobalMut<Self>, Weights, u32, Rows, Rows, Finish)>; 5]; 4] =
                [$([$(kernel::$linear),+]),+];
            const UNPACK: [Kernel<(Weights, GlobalMut<Self>)>; 2] = [$(formats::$unpack),+];
        }
    )+ };
}
kernels! {
    f16: [linear_f16_4_8x1, linear_f16_4_8x2, linear_f16_4_8x4, linear_f16_4_16x2, linear_f16_4_32x2], [linear_f16_4_8x1_minima, linear_f16_4_8x2_minima, linear_f16_4_8x4_minima, linear_f16_4_16x2_minima, linear_f16_4_32x2_minima],
        [linear_f16_8_8x1, linear_f16_8_8x2, linear_f16_8_8x4, linear_f16_8_16x2, linear_f16_8_32x2], [linear_f16_8_8x1_minima, linear_f16_8_8x2_minima, linear_f16_8_8x4_minima, linear_f16_8_16x2_minima, linear_f16_8_32x2_minima]; [unpack_f16_4, unpack_f16_8];
    bf16: [linear_bf16_4_8x1, linear_bf16_4_8x2, linear_bf16_4_8x4, linear_bf16_4_16x2, linear_bf16_4_32x2], [linear_bf16_4_8x1_minima, linear_bf16_4_8x2_minima, linear_bf16_4_8x4_minima, linear_bf16_4_16x2_minima, linear_bf16_4_32x2_minima],
        [linear_bf16_8_8x1, linear_bf16_8_8x2, linear_bf16_8_8x4, linear_bf16_8_16x2, linear_bf16_8_32x2], [linear_bf16_8_8x1_minima, linear_bf16_8_8x2_minima, linear_bf16_8_8x4_minima, linear_bf16_8_16x2_minima, linear_bf16_8_32x2_minima]; [unpack_bf16_4, unpack_bf16_8];
}

/// Rows of x and tiles of W of a block, by shape.
const SHAPES: [(usize, usize); 5] = [(8, 1), (8, 2), (8, 4), (16, 2), (32, 2)];

/// What the choice depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Problem {
    m: usize,
    sizes: Sizes,
}

/// Addresses of x, codes, factors and y; the rows of x and y; what is done beside the product.
type Arguments = ([u64; 4], [Rows; 2], Finish);

struct Linear<T>(PhantomData<T>);

impl<T: WeightKernels> Operation for Linear<T> {
    type Problem = Problem;
    /// The number of the kernels by bits and minima, and that of the shape.
    type Plan = (usize, usize);
    type Call = Arguments;
    const NAME: &'static str = LINEAR;

    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    fn candidates(problem: &Problem, _: &Rates) -> Vec<(usize, usize)> {
        let form = 2 * usize::from(problem.sizes.bits == 8) + usize::from(problem.sizes.offset.is_none());
        if let Ok(shape) = std::env::var("MOYE_SHAPE") {
            return vec![(form, shape.parse().unwrap())];
        }
        (0..SHAPES.len()).map(|shape| (form, shape)).collect()
    }

    /// Waves of blocks by what a block loads, in units of the bytes of a tile.
    fn cost(&(_, shape): &(usize, usize), problem: &Problem, card: &Rates) -> f64 {
        let (m, tiles) = SHAPES[shape];
        let blocks = problem.m.div_ceil(m) * problem.sizes.tiles().div_ceil(tiles);
        let at_once = f64::from(card.multiprocessors) * if m * tiles > 32 { 1.0 } else { 2.0 };
        let waves = (blocks as f64 / at_once).max(1.0);
        let (k, bits) = (problem.sizes.k as f64, problem.sizes.bits as f64);
        waves * k * (16.0 * tiles as f64 * bits / 8.0 + 0.5 * m as f64 * 2.0)
    }

    fn kernel(&(form, shape): &(usize, usize)) -> &'static str {
        T::LINEAR[form][shape].name()
    }

    unsafe fn launch(
        &(form, shape): &(usize, usize),
        problem: &Problem,
        &([x, codes, factors, y], [of_x, of_y], finish): &Arguments,
        on: &Launcher<'_>,
    ) -> Result<()> {
        let (rows, tiles) = SHAPES[shape];
        let sizes = problem.sizes;
        let grid = (sizes.tiles().div_ceil(tiles) as u32, problem.m.div_ceil(rows) as u32);
        let weights = sizes.weights(codes, factors);
        let (x, y) = (Global::from_address(x), GlobalMut::from_address(y));
        let arguments = (x, y, weights, problem.m as u32, of_x, of_y, finish);
        // SAFETY: the caller's contract; the sizes were checked.
        unsafe { on.launch(&T::LINEAR[form][shape], Grid::new(grid, 32 * WARPS), arguments) }
    }
}

macro_rules! of_halves {
    ($operation:expr, $dtype:expr, $t:ident => $call:expr) => {
        match $dtype {
            Dtype::F16 => {
                type $t = f16;
                $call
            }
            Dtype::Bf16 => {
                type $t = bf16;
                $call
            }
            other => {
                let detail = format!("there are no kernels for elements of {other}; convert them to float16");
                Err(Error::Unsupported { operation: $operation, detail })
            }
        }
    };
}

/// The rows of an array, if one stride leads through all modes but the last.
fn rows(array: &Array) -> Option<Rows> {
    let last = array.shape.len() - 1;
    let (mut stride, mut rows) = (0, 1);
    for mode in (0..last).rev().filter(|&mode| array.shape[mode] != 1) {
        if rows > 1 && array.strides[mode] != stride * rows as i64 {
            return None;
        }
        if rows == 1 {
            stride = array.strides[mode];
        }
        rows *= array.shape[mode];
    }
    let element = if array.shape[last] == 1 { 1 } else { array.strides[last] };
    let bytes = array.dtype.bytes() as i64;
    let aligned = element == 1 && array.address.is_multiple_of(16) && (rows == 1 || stride * bytes % 16 == 0);
    Some(Rows { row: stride, element, aligned })
}

/// Calls `with` with the number of rows, the addresses and the rows of x, y and the residual: once
/// where all are matrices, else for each index of their first mode.
fn matrices(
    arrays: [Option<&Array>; 3],
    with: &mut impl FnMut(usize, [u64; 3], [Rows; 3]) -> Result<()>,
) -> Result<()> {
    const NONE: Rows = Rows { row: 0, element: 0, aligned: true };
    let of = arrays.map(|array| array.map_or(Some(NONE), rows));
    let x = arrays[0].expect("x is not optional");
    if let [Some(of_x), Some(of_y), Some(of_residual)] = of {
        let m = x.shape[..x.shape.len() - 1].iter().product();
        // A grid has 65,535 blocks along y.
        const MOST: usize = 8 * 65_535;
        return (0..m).step_by(MOST).try_for_each(|first| {
            let of = [of_x, of_y, of_residual];
            let at = |i: usize| {
                arrays[i].map_or(0, |array: &Array| {
                    array.address.wrapping_add_signed(first as i64 * of[i].row * array.dtype.bytes() as i64)
                })
            };
            with(MOST.min(m - first), [at(0), at(1), at(2)], of)
        });
    }
    (0..x.shape[0] as i64).try_for_each(|index| {
        let inner = arrays.map(|array| {
            array.map(|array| Array {
                shape: array.shape[1..].to_vec(),
                strides: array.strides[1..].to_vec(),
                address: array
                    .address
                    .wrapping_add_signed(index * array.strides[0] * array.dtype.bytes() as i64),
                dtype: array.dtype,
            })
        });
        matrices([0, 1, 2].map(|i| inner[i].as_ref()), with)
    })
}

/// The sizes of a product.
fn sizes(call: &Call<'_>) -> Result<Sizes> {
    let k = *call.operand(0).shape.last().expect("checked: x has a mode");
    Sizes::of(LINEAR, [&call.operand(1).ty(), &call.operand(2).ty()], k, call.options)
}

/// Computes a product.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`].
pub unsafe fn run(stream: &Stream, call: &Call<'_>) -> Result<()> {
    let [x, codes, factors, y] = [0, 1, 2, 4].map(|index| call.operand(index));
    if x.elements() == 0 {
        return Ok(());
    }
    let (sizes, gated) = (sizes(call)?, call.options.bool("gated"));
    matrices(
        [Some(x), Some(y), call.operands[3].as_ref()],
        &mut |m, [x_at, y_at, residual], [of_x, of_y, rows]| {
            let addresses = [x_at, codes.address, factors.address, y_at];
            let arguments = (addresses, [of_x, of_y], Finish { residual, rows, gated });
            // SAFETY: the call's arrays are on the stream's device until the work is complete.
            unsafe {
                of_halves!(LINEAR, x.dtype, T => operation::run::<Linear<T>>(stream, &Problem { m, sizes }, &arguments))
            }
        },
    )
}

/// The kernel of a product.
pub fn explain(stream: &Stream, call: &Call<'_>) -> Result<&'static str> {
    let x = call.operand(0);
    let problem = Problem { m: x.elements() / x.shape.last().map_or(1, |&k| k.max(1)), sizes: sizes(call)? };
    of_halves!(LINEAR, x.dtype, T => {
        Ok(Linear::<T>::kernel(&operation::plan::<Linear<T>>(stream.device(), &problem)?))
    })
}

/// Brings weights into the order of the kernels.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`].
pub unsafe fn pack(stream: &Stream, call: &Call<'_>) -> Result<()> {
    let types: Vec<_> = call.operands[..3].iter().map(|array| array.as_ref().map(Array::ty)).collect();
    let (form, sizes) = source_sizes(&types, call.options)?;
    let address = |index: usize| call.operands[index].as_ref().map_or(0, |array| array.address);
    let weights = call.operand(0);
    let source = Source {
        weights: Global::from_address(weights.address),
        scales: Global::from_address(address(1)),
        others: Global::from_address(address(2)),
        row: (weights.shape[1] * weights.dtype.bytes()) as u32,
        n: sizes.n as u32,
        k: sizes.k as u32,
        group: (sizes.k / sizes.groups) as u32,
    };
    let threads = sizes.tiles() * (sizes.steps() * 32).max(sizes.groups * 8);
    let grid = Grid::new((threads as u32).div_ceil(formats::THREADS), formats::THREADS);
    let codes = GlobalMut::from_address(address(3));
    let arguments = (source, codes, GlobalMut::from_address(address(4)), sizes.offset.is_none());
    let module = stream.device().load(&crate::PTX)?;
    // SAFETY: the call's arrays are on the stream's device until the work is complete; the grid has
    // all codes and factors.
    unsafe { module.launch_on(stream, &form.kernel, grid, arguments) }
}

/// The kernel that packs.
pub fn explain_pack(call: &Call<'_>) -> Result<&'static str> {
    let form = Form::named(call.options.choice("form")).expect("an option of these names");
    Ok(form.kernel.name())
}

/// The weights as floats.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`].
pub unsafe fn unpack(stream: &Stream, call: &Call<'_>) -> Result<()> {
    let [codes, factors, out] = [0, 1, 2].map(|index| call.operand(index));
    let sizes = Sizes::of(UNPACK, [&codes.ty(), &factors.ty()], out.shape[1], call.options)?;
    let weights = sizes.weights(codes.address, factors.address);
    let threads = sizes.tiles() * sizes.steps() * 32;
    let grid = Grid::new((threads as u32).div_ceil(formats::THREADS), formats::THREADS);
    let module = stream.device().load(&crate::PTX)?;
    // SAFETY: as in `pack`.
    of_halves!(UNPACK, out.dtype, T => unsafe {
        let kernel = &T::UNPACK[usize::from(sizes.bits == 8)];
        module.launch_on(stream, kernel, grid, (weights, GlobalMut::<T>::from_address(out.address)))
    })
}

/// The kernel that unpacks.
pub fn explain_unpack(call: &Call<'_>) -> Result<&'static str> {
    let bits = usize::from(call.options.int("bits") == 8);
    of_halves!(UNPACK, call.options.dtype("dtype"), T => Ok(T::UNPACK[bits].name()))
}
