//! Problems of attention, their results in float64, and launches on the simulator.

use crate::attention::hopper_config::*;
use crate::attention::hopper_schedule::even_section;
use crate::attention::{Arguments, Window};
use crate::entries;
use moye_device::atom::tma::{TmaElement, TmaMap};
use moye_device::kernel::Kernel;
use moye_device::layout;
use moye_device::layout::Layout;
use moye_device::memory::{Element as _, Global, GlobalMut};
use moye_device::number::Scalar;
use moye_sim::{Allocation, GlobalMemory, Launch, TensorMap};

/// What each kernel takes.
pub type Parameters<C> =
    (TmaMap<TmaQ<C>>, TmaMap<TmaK<C>>, TmaMap<TmaK<C>>, TmaMap<TmaQ<C>>, Arguments<<C as Config>::T>, u32);

/// A configuration with its kernel.
pub trait Entry: Config<T: Scalar + TmaElement> {
    /// The kernel.
    const KERNEL: Kernel<Parameters<Self>>;
}

macro_rules! entry {
    ($($config:ident $kernel:ident;)+) => { $(
        impl Entry for $config {
            const KERNEL: Kernel<Parameters<Self>> = entries::$kernel;
        }
    )+ };
}
entry! {
    Bf16D64 hopper_bf16_64;
    Bf16D128 hopper_bf16_128;
    Bf16D128Causal hopper_bf16_128_causal;
    Bf16D256 hopper_bf16_256;
    F16D64 hopper_f16_64;
    F16D128 hopper_f16_128;
    F16D128Causal hopper_f16_128_causal;
    F16D256 hopper_f16_256;
}

/// The compiled kernels.
pub const PTX: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/hopper_attention.rs"));

/// The extents of a problem; operands are (batch, head, token, D), contiguous.
#[derive(Clone, Copy, Debug)]
pub struct Problem {
    /// Sequences.
    pub batches: u32,
    /// Query heads, and heads of keys and values.
    pub heads: [u32; 2],
    /// Query tokens and key tokens.
    pub lengths: [u32; 2],
    /// Columns of a head.
    pub d: u32,
    /// Whether a token sees no later ones.
    pub causal: bool,
}

impl Problem {
    /// The elements of Q (and O), and of K (and V).
    pub fn sizes(&self) -> [usize; 2] {
        [0, 1].map(|i| (self.batches * self.heads[i] * self.lengths[i] * self.d) as usize)
    }

    /// The operations of both products.
    pub fn flops(&self) -> f64 {
        let scores =
            f64::from(self.batches * self.heads[0]) * f64::from(self.lengths[0]) * f64::from(self.lengths[1]);
        4.0 * scores * f64::from(self.d) * if self.causal { 0.5 } else { 1.0 }
    }

    /// (row, column, head, sequence) of Q and O, or of K and V.
    fn layout(&self, which: usize) -> Layout {
        let [rows, d, heads] = [self.lengths[which], self.d, self.heads[which]].map(i64::from);
        let batches = i64::from(self.batches);
        layout!((rows, d, heads, batches):(d, 1, { rows * d }, { heads * rows * d }))
    }

    /// The tensor maps of Q, K, V and O at these addresses.
    pub fn maps<C: Entry>(&self, [q, k, v, o]: [u64; 4]) -> [TensorMap; 4] {
        let map_q = |address| TmaQ::<C>::tensor_map(address, &self.layout(0)).expect("TMA takes Q and O");
        let map_k = |address| TmaK::<C>::tensor_map(address, &self.layout(1)).expect("TMA takes K and V");
        [map_q(q), map_k(k), map_k(v), map_q(o)]
    }

    /// The arguments beside the maps, and the tiles of rows of all heads.
    pub fn arguments<C: Entry>(&self, o: u64, lse: u64) -> (Arguments<C::T>, u32) {
        let null = Global::from_address(0);
        let mut arguments = Arguments::contiguous(
            (null, null, null, GlobalMut::from_address(o)),
            (self.batches, self.heads[0], self.heads[1]),
            (self.lengths[0], self.lengths[1]),
            (self.d, self.d),
        );
        arguments.lse = GlobalMut::from_address(lse);
        arguments.stride_lse.row = 1;
        arguments.stride_lse.head = i64::from(self.lengths[0]);
        arguments.stride_lse.batch = i64::from(self.heads[0] * self.lengths[0]);
        arguments.scale = 1.0 / (self.d as f32).sqrt();
        if self.causal {
            arguments.window = Window::CAUSAL;
        }
        let tiles = arguments.grid(64 * C::WARPGROUPS);
        (arguments, tiles)
    }

    /// The heads of a section: see [`even_section`].
    pub fn section<C: Entry>(&self, blocks: u32) -> u32 {
        let (arguments, tiles) = self.arguments::<C>(0, 0);
        even_section(&arguments, blocks.min(tiles), (64 * C::WARPGROUPS, C::BLK_N), (self.d, 32 << 20))
    }

    /// A row of O and the logarithm of its sum, in float64. `q`, `k` and `v` are whole operands.
    pub fn row<T: Scalar>(&self, [q, k, v]: [&[T]; 3], batch: u32, head: u32, row: u32) -> (Vec<f64>, f64) {
        let d = self.d as usize;
        let of = |array: &[T], at: u32| -> Vec<f64> {
            array[at as usize * d..][..d].iter().map(|x| x.to_f64()).collect()
        };
        let kv_head = head / (self.heads[0] / self.heads[1]);
        let first = (batch * self.heads[1] + kv_head) * self.lengths[1];
        let query = of(q, (batch * self.heads[0] + head) * self.lengths[0] + row);
        let end = i64::from(row) + i64::from(self.lengths[1]) - i64::from(self.lengths[0]) + 1;
        let keys = if self.causal { end.clamp(0, self.lengths[1].into()) as u32 } else { self.lengths[1] };
        let scale = 1.0 / f64::from(self.d).sqrt();
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let scores: Vec<f64> = (0..keys).map(|key| scale * dot(&query, &of(k, first + key))).collect();
        let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (mut sum, mut result) = (0.0, vec![0.0; d]);
        for (key, score) in (0..keys).zip(&scores) {
            let p = (score - max).exp();
            sum += p;
            for (result, v) in result.iter_mut().zip(of(v, first + key)) {
                *result += p * v;
            }
        }
        if keys == 0 {
            return (result, f64::NEG_INFINITY);
        }
        (result.iter().map(|x| x / sum).collect(), max + sum.ln())
    }
}

/// Numbers from -1 to 1 that a seed gives.
pub fn random<T: Scalar>(seed: u64, count: usize) -> Vec<T> {
    // Numbers of a table, in random order.
    let table: Vec<T> = (0..1024).map(|i| T::nearest(f64::from(i) / 512.0 - 1.0)).collect();
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..count)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            table[(state >> 50) as usize % 1024]
        })
        .collect()
}

/// Elements as bytes, in the order of the device.
pub fn bytes<T: Scalar>(elements: &[T]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(elements.len() * T::WIDTH / 8);
    for element in elements {
        bytes.extend_from_slice(&element.low_bits().to_le_bytes()[..T::WIDTH / 8]);
    }
    bytes
}

/// The elements of bytes.
pub fn elements<T: Scalar>(bytes: &[u8]) -> Vec<T> {
    let of = |bytes: &[u8]| bytes.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
    bytes.chunks_exact(T::WIDTH / 8).map(|bytes| T::from_low_bits(of(bytes))).collect()
}

/// The difference of results from float64 in relative norm, over rows that are spread over all of them, and the largest difference of
/// a logarithm.
pub fn errors<T: Scalar>(
    problem: &Problem,
    operands: [&[T]; 3],
    (o, lse): (&[T], &[f32]),
    rows: u32,
) -> Result<(f64, f64), String> {
    let all = problem.batches * problem.heads[0] * problem.lengths[0];
    let (mut difference, mut norm, mut worst) = (0.0f64, 0.0f64, 0.0f64);
    for i in 0..rows.min(all) {
        let index = if rows >= all { i } else { (u64::from(i) * 2_654_435_761 % u64::from(all)) as u32 };
        let (row, rest) = (index % problem.lengths[0], index / problem.lengths[0]);
        let (head, batch) = (rest % problem.heads[0], rest / problem.heads[0]);
        let (expected, logarithm) = problem.row(operands, batch, head, row);
        let d = problem.d as usize;
        for (o, expected) in o[index as usize * d..][..d].iter().zip(&expected) {
            let o = o.to_f64();
            if !o.is_finite() {
                return Err(format!("row {row} of head {head} of sequence {batch} has {o}"));
            }
            difference += (o - expected).powi(2);
            norm += expected * expected;
        }
        let lse = f64::from(lse[index as usize]);
        if lse != logarithm {
            worst = worst.max((lse - logarithm).abs());
        }
    }
    let relative = if difference == 0.0 { 0.0 } else { (difference / norm).sqrt() };
    if relative.is_nan() || worst.is_nan() {
        return Err(format!("relative norm {relative}, logarithm {worst}"));
    }
    Ok((relative, worst))
}

/// Runs a problem in the simulator on `blocks` blocks, and compares all rows.
///
/// # Errors
/// A fault of the simulator, or a result that is no number.
pub fn simulate<C: Entry>(problem: &Problem, blocks: u32, seed: u64) -> Result<(f64, f64), String> {
    let memory = GlobalMemory::new();
    let [of_q, of_k] = problem.sizes();
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let (q, k, v) =
        (random::<C::T>(seed, of_q), random::<C::T>(seed + 1, of_k), random::<C::T>(seed + 2, of_k));
    let alloc = |bytes: usize, label: &str| memory.alloc(bytes.max(16), label).map_err(|error| text(&error));
    let upload = |values: &[C::T], label: &str| -> Result<Allocation, String> {
        let allocation = alloc(C::T::BYTES * values.len(), label)?;
        allocation.write(0, &bytes(values)).map_err(|error| text(&error))?;
        Ok(allocation)
    };
    let (on_q, on_k, on_v) = (upload(&q, "Q")?, upload(&k, "K")?, upload(&v, "V")?);
    let on_o = alloc(C::T::BYTES * of_q, "O")?;
    let rows = of_q / problem.d as usize;
    let on_lse = alloc(4 * rows, "log-sum-exp")?;
    let maps = problem.maps::<C>([&on_q, &on_k, &on_v, &on_o].map(Allocation::address));
    let words = maps.map(|map| map.encode());
    let (arguments, tiles) = problem.arguments::<C>(on_o.address(), on_lse.address());
    let parameters: Parameters<C> = (
        TmaMap::from_words(words[0]),
        TmaMap::from_words(words[1]),
        TmaMap::from_words(words[2]),
        TmaMap::from_words(words[3]),
        arguments,
        problem.section::<C>(blocks),
    );
    Launch::new(C::KERNEL.name(), blocks.min(tiles), C::THREADS, &memory)
        .shared_bytes(C::KERNEL.shared_bytes())
        // SAFETY: a simulated thread; the maps are of the operands.
        .run(&|| unsafe { C::KERNEL.call(parameters) })
        .map_err(|error| text(&error))?;
    let download = |allocation: &Allocation, count: usize| -> Result<Vec<u8>, String> {
        let mut bytes = vec![0; count];
        allocation.read(0, &mut bytes).map_err(|error| text(&error))?;
        Ok(bytes)
    };
    let o = elements::<C::T>(&download(&on_o, C::T::BYTES * of_q)?);
    let lse = elements::<f32>(&download(&on_lse, 4 * rows)?);
    errors(problem, [&q, &k, &v], (&o, &lse), u32::MAX)
}
