//! Products fused with the next step of a model: a residual with RMSNorm's sums of squares, rotary
//! embedding with the append to caches, and an 8-bit result with its scales.
//!
//! Each is an [`End`](kernel::End): an epilogue and a sink. The kernel also takes a custom `End`.

pub mod kernel;
pub mod qkv;
pub mod quantised;
pub mod residual;

#[cfg(not(target_arch = "nvptx64"))]
mod builders;
#[cfg(not(target_arch = "nvptx64"))]
mod call;
#[cfg(not(target_arch = "nvptx64"))]
mod cases;
#[cfg(not(target_arch = "nvptx64"))]
mod oracle;

#[cfg(not(target_arch = "nvptx64"))]
pub use builders::{LinearE4m3, LinearQkv, LinearResidual};
#[cfg(not(target_arch = "nvptx64"))]
pub use host::*;

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::{call, cases, oracle};
    use crate::builder::option;
    use moye_runtime::operation::{Declaration, Dtype, OperandOf, OptionOf, Role, Value};

    const ELEMENTS: &[Dtype] = &[Dtype::Bf16, Dtype::F16];
    const TILE: OptionOf = option(
        "tile",
        "a block's tile of the result, by default the one of the least estimated time",
        Value::Choice("auto", call::TILES),
    );

    const fn a(name: &'static str) -> OperandOf {
        OperandOf::new(Role::Input, name, "float16 or bfloat16: (m, k)").of(ELEMENTS)
    }

    const fn b(name: &'static str) -> OperandOf {
        OperandOf::new(Role::Input, name, "(n, k), of the type of the other operand").of(ELEMENTS)
    }

    const fn f32_of(role: Role, name: &'static str, about: &'static str) -> OperandOf {
        OperandOf::new(role, name, about).of(&[Dtype::F32]).dense()
    }

    const fn i32_of(role: Role, name: &'static str, about: &'static str) -> OperandOf {
        OperandOf::new(role, name, about).of(&[Dtype::I32]).dense()
    }

    /// A product with a residual.
    pub static LINEAR_RESIDUAL: Declaration = Declaration {
        name: call::RESIDUAL,
        summary: "a b^T + residual, with the sums of squares that an RMSNorm of it needs; rows of a may be \
                  normalised by theirs",
        operands: &[
            a("a"),
            b("b"),
            OperandOf::new(Role::Optional, "residual", "(m, n), of the type of a").of(ELEMENTS),
            f32_of(
                Role::Optional,
                "squares_of_a",
                "float32 (m, parts): the rows of a are divided by the root of their mean square; fold the norm's \
                 weights into b",
            ),
            OperandOf::new(Role::Result, "out", "(m, n), of the type of a").of(ELEMENTS),
            f32_of(Role::OptionalResult, "squares", "float32 (m, n / 128): sums of squares of 128 columns"),
        ],
        options: &[option("eps", "epsilon, added to the mean of the squares", Value::Float(1e-6)), TILE],
        results: |inputs, _| call::with_residual(inputs),
        // SAFETY: the contract of `Declaration::run`, here and below.
        run: |stream, call| unsafe { call::run_residual(stream, call) },
        explain: |stream, call| call::explain_residual(stream, call).map(Into::into),
        reference: oracle::with_residual,
        tolerance: oracle::tolerance,
        cases: cases::RESIDUAL,
        bench: cases::BENCH_RESIDUAL,
    };

    /// A product to 8 bits.
    pub static LINEAR_E4M3: Declaration = Declaration {
        name: call::E4M3,
        summary: "a b^T in float8_e4m3fn, with a scale for each 1 x 128 elements, as block_scaled takes them",
        operands: &[
            a("a"),
            b("b"),
            OperandOf::new(Role::Result, "out", "float8_e4m3fn (m, n)").of(&[Dtype::E4m3]),
            OperandOf::new(Role::Result, "scales", "float32 (m, n / 128): the greatest magnitude / 448")
                .of(&[Dtype::F32]),
        ],
        options: &[TILE],
        results: |inputs, _| call::to_e4m3(inputs),
        run: |stream, call| unsafe { call::run_e4m3(stream, call) },
        explain: |stream, call| call::explain_e4m3(stream, call).map(Into::into),
        reference: oracle::to_e4m3,
        tolerance: oracle::tolerance,
        cases: cases::E4M3,
        bench: cases::BENCH_E4M3,
    };

    /// Queries, keys and values.
    pub static LINEAR_QKV: Declaration = Declaration {
        name: call::QKV,
        summary: "queries, keys and values of x w^T: rotary embedding, and keys and values to slots of caches, in \
                  the product's epilogue",
        operands: &[
            a("x"),
            b("w"),
            i32_of(
                Role::Input,
                "slots_of_rows",
                "int32 (m): where keys and values of a row go; below 0 nowhere",
            ),
            i32_of(Role::Optional, "positions", "int32 (m); without them nothing is rotated"),
            f32_of(Role::Optional, "cos", "float32 (positions, size / 2); positions past them give NaN"),
            f32_of(Role::Optional, "sin", "as cos"),
            OperandOf::new(Role::Result, "q", "(m, heads, size)").of(ELEMENTS),
            OperandOf::new(
                Role::Result,
                "k",
                "(slots, kv_heads, size), or (pages, page, kv_heads, size); other slots are kept",
            )
            .of(ELEMENTS),
            OperandOf::new(Role::Result, "v", "as k").of(ELEMENTS),
        ],
        options: &[
            option("size", "columns of a head: 32, 64, 128 or 256", Value::Int(128)),
            option("kv_heads", "heads of keys, and of values", Value::Int(1)),
            option("slots", "slots of a cache", Value::Int(0)),
            option("page", "slots of a page, or 0 for a cache without pages", Value::Int(0)),
            option(
                "interleaved",
                "whether pairs are adjacent columns, instead of one in each half of a head",
                Value::Bool(false),
            ),
            TILE,
        ],
        results: call::qkv,
        run: |stream, call| unsafe { call::run_qkv(stream, call) },
        explain: |stream, call| call::explain_qkv(stream, call).map(Into::into),
        reference: oracle::qkv,
        tolerance: oracle::tolerance,
        cases: cases::QKV,
        bench: cases::BENCH_QKV,
    };
}
