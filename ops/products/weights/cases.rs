//! Test cases that stress the kernels, and benchmark cases.

use moye_runtime::operation::{Case, Dtype, Value};

const EIGHT: (&str, Value) = ("bits", Value::Int(8));
const OFFSET: (&str, Value) = ("offset", Value::Int(128));
const E4M3: (&str, Value) = ("e4m3", Value::Bool(true));

const GATED: (&str, Value) = ("gated", Value::Bool(true));

const fn tile(tile: &'static str) -> (&'static str, Value) {
    ("tile", Value::Choice(tile, super::call::TILES_OF_X))
}

const fn case(inputs: &'static [Option<&'static [usize]>]) -> Case {
    Case::new(inputs).ranges(&[("codes", 0.0, 256.0), ("factors", -0.5, 0.5)])
}

/// Rows below and above a block's, ragged tiles, groups of a unit, of a step, of several and one;
/// the harness draws any bytes, which are valid codes.
pub const CASES: &[Case] = &[
    case(&[Some(&[3, 64]), Some(&[1, 1, 512]), Some(&[1, 2, 8, 2]), None, None]),
    case(&[Some(&[1, 96]), Some(&[3, 2, 512]), Some(&[3, 3, 8, 4]), None, Some(&[96])])
        .options(&[("rows", Value::Int(41))]),
    case(&[Some(&[2, 5, 640]), Some(&[5, 10, 512]), Some(&[5, 5, 8, 4]), None, Some(&[640])]),
    case(&[Some(&[33, 1280]), Some(&[6, 20, 512]), Some(&[6, 1, 8, 2]), None, None])
        .options(&[("rows", Value::Int(88))]),
    case(&[Some(&[3, 192]), Some(&[4, 3, 512]), Some(&[4, 3, 8, 4]), Some(&[3, 32]), Some(&[192])])
        .options(&[GATED]),
    case(&[Some(&[1, 192]), Some(&[4, 3, 512]), Some(&[4, 3, 8, 2]), Some(&[1, 32]), None]).options(&[GATED]),
    case(&[Some(&[9, 64]), Some(&[2, 1, 512]), Some(&[2, 1, 8, 2]), Some(&[9, 32]), None]),
    case(&[Some(&[0, 64]), Some(&[1, 1, 512]), Some(&[1, 1, 8, 2]), None, None]),
    case(&[Some(&[3, 48]), Some(&[2, 2, 512]), Some(&[2, 3, 8, 4]), None, Some(&[48])]).options(&[EIGHT]),
    case(&[Some(&[70, 320]), Some(&[5, 10, 512]), Some(&[5, 5, 8, 2]), None, None]).options(&[EIGHT, OFFSET]),
    // By wgmma.
    case(&[Some(&[70, 320]), Some(&[9, 5, 512]), Some(&[9, 5, 8, 2]), Some(&[70, 136]), None])
        .options(&[("rows", Value::Int(136)), tile("64")]),
    // By wgmma with K in slices.
    case(&[Some(&[3, 2048]), Some(&[2, 32, 512]), Some(&[2, 32, 8, 2]), None, None]).options(&[tile("64")]),
    case(&[Some(&[9, 96]), Some(&[4, 2, 512]), Some(&[4, 3, 8, 4]), Some(&[9, 32]), None])
        .options(&[GATED, tile("64")]),
    // K in slices.
    case(&[Some(&[9, 1024]), Some(&[5, 16, 512]), Some(&[5, 8, 8, 4]), Some(&[9, 72]), None])
        .options(&[("rows", Value::Int(72)), tile("64")]),
    case(&[Some(&[130, 96]), Some(&[2, 3, 512]), Some(&[2, 6, 8, 4]), None, None])
        .options(&[EIGHT, tile("256")]),
    // Codes of e4m3: groups of a unit, of a step, of several and one; by wgmma.
    case(&[Some(&[1, 96]), Some(&[3, 3, 512]), Some(&[3, 6, 8, 2]), None, Some(&[96])]).options(&[
        EIGHT,
        E4M3,
        ("rows", Value::Int(41)),
    ]),
    case(&[Some(&[11, 320]), Some(&[4, 10, 512]), Some(&[4, 5, 8, 2]), Some(&[11, 32]), None])
        .ranges(&[("codes", 0.0, 256.0), ("factors", -0.01, 0.01)])
        .options(&[EIGHT, E4M3, GATED]),
    case(&[Some(&[3, 1032]), Some(&[2, 33, 512]), Some(&[2, 1, 8, 2]), None, None]).options(&[EIGHT, E4M3]),
    case(&[Some(&[70, 320]), Some(&[9, 10, 512]), Some(&[9, 5, 8, 2]), Some(&[70, 136]), None]).options(&[
        EIGHT,
        E4M3,
        ("rows", Value::Int(136)),
        tile("64"),
    ]),
    case(&[Some(&[130, 96]), Some(&[2, 3, 512]), Some(&[2, 6, 8, 2]), None, None]).options(&[
        EIGHT,
        E4M3,
        tile("256"),
    ]),
];

/// Activations of 8 bits: few rows, and many.
pub const BYTES: &[Case] = &[
    case(&[Some(&[3, 96]), Some(&[3]), Some(&[3, 2, 512]), Some(&[3, 3, 8, 4])])
        .options(&[("rows", Value::Int(41))]),
    case(&[Some(&[70, 320]), Some(&[70]), Some(&[9, 5, 512]), Some(&[9, 5, 8, 2])])
        .options(&[("dtype", Value::Dtype(Dtype::Bf16)), tile("64")]),
    case(&[Some(&[5, 96]), Some(&[5]), Some(&[3, 3, 512]), Some(&[3, 1, 8, 2])]).options(&[EIGHT, E4M3]),
];

/// The weights as floats: the same kinds.
pub const UNPACKED: &[Case] = &[
    case(&[Some(&[1, 1, 512]), Some(&[1, 2, 8, 2])]),
    case(&[Some(&[3, 2, 512]), Some(&[3, 3, 8, 4])])
        .options(&[("rows", Value::Int(41)), ("columns", Value::Int(96))]),
    case(&[Some(&[2, 2, 512]), Some(&[2, 4, 8, 4])]).options(&[EIGHT]),
    case(&[Some(&[2, 2, 512]), Some(&[2, 4, 8, 2])]).options(&[EIGHT, E4M3]),
];

/// Products of decoding and of batches with groups of 128, and of 8 bits with groups of 32.
pub const BENCH: &[Case] = &[
    case(&[Some(&[1, 4096]), Some(&[256, 64, 512]), Some(&[256, 32, 8, 2]), None, None]),
    case(&[Some(&[1, 4096]), Some(&[896, 64, 512]), Some(&[896, 32, 8, 2]), None, None]),
    case(&[Some(&[1, 4096]), Some(&[896, 64, 512]), Some(&[896, 128, 8, 4]), None, None]),
    case(&[Some(&[16, 4096]), Some(&[896, 64, 512]), Some(&[896, 32, 8, 2]), None, None]),
    case(&[Some(&[16, 8192]), Some(&[1792, 128, 512]), Some(&[1792, 64, 8, 2]), None, None]),
    case(&[Some(&[64, 4096]), Some(&[896, 64, 512]), Some(&[896, 32, 8, 2]), None, None]),
    case(&[Some(&[64, 4096]), Some(&[256, 64, 512]), Some(&[256, 32, 8, 2]), None, None]),
    case(&[Some(&[64, 14_336]), Some(&[256, 224, 512]), Some(&[256, 112, 8, 2]), None, None]),
    case(&[Some(&[128, 4096]), Some(&[896, 64, 512]), Some(&[896, 32, 8, 2]), None, None]),
    case(&[Some(&[4096, 4096]), Some(&[896, 64, 512]), Some(&[896, 32, 8, 2]), None, None]),
    case(&[Some(&[1, 4096]), Some(&[896, 128, 512]), Some(&[896, 128, 8, 2]), None, None])
        .options(&[EIGHT, OFFSET]),
    case(&[Some(&[1, 4096]), Some(&[896, 128, 512]), Some(&[896, 1, 8, 2]), None, None])
        .options(&[EIGHT, E4M3]),
    case(&[Some(&[16, 4096]), Some(&[896, 128, 512]), Some(&[896, 32, 8, 2]), None, None])
        .options(&[EIGHT, E4M3]),
    case(&[Some(&[64, 4096]), Some(&[896, 128, 512]), Some(&[896, 32, 8, 2]), None, None])
        .options(&[EIGHT, E4M3]),
    case(&[Some(&[4096, 4096]), Some(&[896, 128, 512]), Some(&[896, 1, 8, 2]), None, None])
        .options(&[EIGHT, E4M3]),
];

/// The same by activations of 8 bits, of a token and of 64, and of a batch.
pub const BENCH_BYTES: &[Case] = &[
    case(&[Some(&[1, 4096]), Some(&[1]), Some(&[896, 64, 512]), Some(&[896, 32, 8, 2])]),
    case(&[Some(&[64, 4096]), Some(&[64]), Some(&[896, 64, 512]), Some(&[896, 32, 8, 2])]),
    case(&[Some(&[4096, 4096]), Some(&[4096]), Some(&[896, 64, 512]), Some(&[896, 32, 8, 2])]),
    case(&[Some(&[64, 4096]), Some(&[64]), Some(&[896, 128, 512]), Some(&[896, 1, 8, 2])])
        .options(&[EIGHT, E4M3]),
];

const fn form(form: &'static str) -> (&'static str, Value) {
    ("form", Value::Choice(form, super::sizes::NAMES))
}

/// A matrix of a large model in the order of the kernels, from nibbles, blocks of Q4_K and e4m3.
pub const BENCH_PACK: &[Case] = &[
    Case::new(&[Some(&[14_336, 2048]), Some(&[14_336, 32]), None]),
    Case::new(&[Some(&[14_336, 2304]), None, None]).options(&[form("q4_k")]),
    Case::new(&[Some(&[14_336, 4096]), Some(&[14_336, 1]), None]).options(&[form("e4m3")]),
];

/// The same matrix as floats.
pub const BENCH_UNPACK: &[Case] = &[
    case(&[Some(&[896, 64, 512]), Some(&[896, 32, 8, 2])]),
    case(&[Some(&[896, 128, 512]), Some(&[896, 1, 8, 2])]).options(&[EIGHT, E4M3]),
];
