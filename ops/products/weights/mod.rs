//! Products `y = x W^T` by quantised weights of 4 and 8 bits, with f16 or bf16 activations, or
//! 8-bit activations with a scale for each row, which are converted to f16 or bf16 first.
//!
//! A weight is `code * scale + minimum`; a scale and a minimum (in f16) belong to a group of
//! consecutive weights of a row of W. A code is an integer, or e4m3 without a minimum. Weights are
//! packed once ([`PackedWeights`]) from the forms of files: plain nibbles and bytes, e4m3, GPTQ,
//! AWQ, and GGUF's Q4_0, Q4_1, Q8_0, Q4_K, Q5_K and Q6_K.
//! Accumulators are f32. The factors multiply sums over a group, so that no weight is rounded,
//! except in the kernels for many rows of x, where weights become f16 or bf16. An infinite element
//! of x may make its row NaN: codes have a bias, whose product with x is subtracted.

pub mod activations;
pub mod codes;
pub mod floats;
pub mod formats;
pub mod kernel;
mod loads;
#[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90a"))]
pub mod many;
#[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90a"))]
pub mod unpacked;

#[cfg(not(target_arch = "nvptx64"))]
mod call;
#[cfg(not(target_arch = "nvptx64"))]
mod cases;
#[cfg(not(target_arch = "nvptx64"))]
mod kernels;
#[cfg(not(target_arch = "nvptx64"))]
mod matrices;
#[cfg(not(target_arch = "nvptx64"))]
mod oracle;
#[cfg(not(target_arch = "nvptx64"))]
mod pack;
#[cfg(not(target_arch = "nvptx64"))]
mod packed;
#[cfg(not(target_arch = "nvptx64"))]
mod sizes;

#[cfg(not(target_arch = "nvptx64"))]
pub use host::*;
#[cfg(not(target_arch = "nvptx64"))]
pub use kernels::WeightKernels;
#[cfg(not(target_arch = "nvptx64"))]
pub use packed::{LinearQuantized, LinearQuantized8, PackedWeights};

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::call::{LINEAR, LINEAR_8, PACK, UNPACK};
    use super::sizes::{NAMES, SCALES};
    use super::{call, cases, oracle, pack, sizes};
    use crate::builder::option;
    use moye_runtime::operation::{Declaration, Dtype, OperandOf, OptionOf, Role, Value};

    const HALVES: &[Dtype] = &[Dtype::F16, Dtype::Bf16];
    const FACTORS: &[Dtype] = &[Dtype::F16];
    const BYTES: &[Dtype] = &[Dtype::U8];
    const CODES: OperandOf =
        OperandOf::new(Role::Input, "codes", "uint8 (tiles of 16 rows, steps, 512), from pack_weights")
            .of(BYTES)
            .dense();
    const OF_CODES: OperandOf =
        OperandOf::new(Role::Input, "factors", "float16 (tiles, groups, 8, 2 or 4), from pack_weights")
            .of(FACTORS)
            .dense();
    const BITS: OptionOf = option("bits", "bits of a code: 4 or 8", Value::Int(4));
    const E4M3: OptionOf = option(
        "e4m3",
        "codes are float8_e4m3fn instead of integers, without minima; bits is 8, and offset does not count",
        Value::Bool(false),
    );
    const ROWS: OptionOf = option("rows", "rows of W, or 0 for those of all tiles", Value::Int(0));
    const OFFSET: OptionOf = option(
        "offset",
        "what is subtracted from a code where factors have no minima: 8 for nibbles and q4_0, 128 for bytes and \
                q8_0, 32 for q6_k",
        Value::Int(8),
    );

    const GATED: OptionOf = option(
        "gated",
        "W alternates eight gate rows and eight up rows, and the result is silu(gate) * up",
        Value::Bool(false),
    );
    const EPS: OptionOf =
        option("eps", "epsilon of the norm, added to the mean of the squares", Value::Float(1e-6));
    const TILE: OptionOf = option(
        "tile",
        "rows of x of a block, by default those of the least estimated time; 64 and 256 on sm_90a alone",
        Value::Choice("auto", call::TILES_OF_X),
    );

    /// Products by quantised weights.
    pub static LINEAR_QUANTIZED: Declaration = PRODUCT;

    /// [`LINEAR_QUANTIZED`] by [`PackedWeights`](super::PackedWeights), which are complete before
    /// any product.
    pub(super) static LINEAR_PACKED: Declaration = Declaration { run: call::run_early, ..PRODUCT };

    /// Why the harness gives x and its scales neither NaN nor infinities.
    const BIAS: &str = "codes have a bias, whose product with x is subtracted: infinity makes NaN";

    const PRODUCT: Declaration = Declaration {
        name: LINEAR,
        summary: "x times the transpose of quantised weights, code * scale + minimum by groups of a row",
        operands: &[
            OperandOf::new(Role::Input, "x", "float16 or bfloat16 (..., k)").of(HALVES).finite(BIAS),
            CODES,
            OF_CODES,
            OperandOf::new(Role::Optional, "residual", "added to the result, of its shape and type")
                .of(HALVES),
            OperandOf::new(
                Role::Optional,
                "norm",
                "(k), weights of an RMSNorm of each row of x before the product",
            )
            .of(HALVES)
            .dense(),
            OperandOf::new(Role::Result, "out", "(..., rows of W), of the type of x; half of them if gated")
                .of(HALVES),
        ],
        options: &[BITS, ROWS, OFFSET, GATED, EPS, TILE, E4M3],
        results: sizes::product,
        run: call::run,
        explain: |stream, call| call::explain(stream, call).map(Into::into),
        reference: oracle::product,
        tolerance: oracle::tolerance,
        cases: cases::CASES,
        bench: cases::BENCH,
    };

    /// Products of activations of 8 bits by quantised weights.
    pub static LINEAR_QUANTIZED_A8: Declaration = Declaration {
        name: LINEAR_8,
        summary: "x of 8 bits, times the scales of its rows, times the transpose of quantised weights",
        operands: &[
            OperandOf::new(Role::Input, "x", "int8 or float8_e4m3fn (m, k)").of(&[Dtype::I8, Dtype::E4m3]),
            OperandOf::new(Role::Input, "scales", "float32 (m), one for each row of x")
                .of(&[Dtype::F32])
                .finite(BIAS)
                .dense(),
            CODES,
            OF_CODES,
            OperandOf::new(Role::Result, "out", "(m, rows of W), or half of them if gated").of(HALVES),
        ],
        options: &[
            BITS,
            ROWS,
            OFFSET,
            GATED,
            EPS,
            TILE,
            option(
                "dtype",
                "the type of the result, float16 or bfloat16, to which x times its scale is rounded",
                Value::Dtype(Dtype::F16),
            ),
            E4M3,
        ],
        results: sizes::product_8,
        run: call::run_8,
        explain: |stream, call| call::explain_8(stream, call).map(Into::into),
        reference: oracle::product_8,
        tolerance: oracle::tolerance,
        cases: cases::BYTES,
        bench: cases::BENCH_BYTES,
    };

    /// Weights in the order of the kernels.
    pub static PACK_WEIGHTS: Declaration = Declaration {
        name: PACK,
        summary: "quantised weights in the order in which linear_quantized reads them",
        operands: &[
            OperandOf::new(
                Role::Input,
                "weights",
                "uint8 rows of nibbles or blocks, int8 rows of bytes, float8_e4m3fn, int32 words of GPTQ (k / 8, n) and \
                 AWQ (k, n / 8)",
            )
            .of(&[Dtype::U8, Dtype::I8, Dtype::I32, Dtype::E4m3])
            .dense(),
            OperandOf::new(
                Role::Optional,
                "scales",
                "float16, or bfloat16 or float32 that become it, beyond 65,504 infinity: (n, groups), or (groups, n) of \
                 GPTQ and AWQ",
            )
            .of(SCALES)
            .dense(),
            OperandOf::new(
                Role::Optional,
                "others",
                "minima (n, groups) of nibbles and bytes, of the type of scales; qzeros int32 (groups, n / 8) of GPTQ and AWQ",
            )
            .of(&[Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::I32])
            .dense(),
            OperandOf::new(Role::Result, "codes", "uint8 (tiles of 16 rows, steps, 512)").of(BYTES).dense(),
            OperandOf::new(Role::Result, "factors", "float16 (tiles, groups, 8, 2), or 4 with minima").of(FACTORS).dense(),
        ],
        options: &[option("form", "the form of the weights: nibbles, bytes, e4m3, gptq, awq, q4_0, q4_1, q8_0, q4_k, q5_k or q6_k", Value::Choice("nibbles", NAMES))],
        results: sizes::packed,
        run: pack::pack,
        explain: |_, call| pack::explain_pack(call).map(Into::into),
        // Its tests unpack what it packed (`tests/weights.rs`).
        reference: |_, _| Vec::new(),
        tolerance: |_| 0.0,
        cases: &[],
        bench: cases::BENCH_PACK,
    };

    /// Quantised weights as floats.
    pub static UNPACK_WEIGHTS: Declaration = Declaration {
        name: UNPACK,
        summary: "packed quantised weights as floats, row-major",
        operands: &[
            CODES,
            OF_CODES,
            OperandOf::new(Role::Result, "out", "(rows, columns)").of(HALVES).dense(),
        ],
        options: &[
            BITS,
            ROWS,
            option("columns", "elements of a row, or 0 for those of all steps", Value::Int(0)),
            OFFSET,
            option("dtype", "float16 or bfloat16", Value::Dtype(Dtype::F16)),
            E4M3,
        ],
        results: sizes::unpacked,
        run: pack::unpack,
        explain: |_, call| pack::explain_unpack(call).map(Into::into),
        reference: oracle::unpacked,
        tolerance: oracle::tolerance,
        cases: cases::UNPACKED,
        bench: cases::BENCH_UNPACK,
    };
}
