//! The table of `wgmma` instructions: `for_each_wgmma!`.
//!
//! There are over a thousand, in a few families, so the table is computed.

use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

/// The common properties of a family's instructions.
struct Family {
    /// The options: see [`for_each`].
    kind: &'static str,
    /// D, A, B: as in the atoms' names, as in PTX, and as types.
    names: [&'static str; 3],
    ptx: [&'static str; 3],
    types: [&'static str; 3],
    /// Bits of an element of A and B, and of D.
    bits: usize,
    d_bits: usize,
    sum: &'static str,
    /// The suffix after the types in PTX, and in names.
    suffix: (&'static str, &'static str),
    /// The first PTX version that supports it.
    version: f32,
    /// Whether N is any multiple of 8 up to 256; otherwise it is restricted as for integers.
    every_n: bool,
}

/// The N of integers: multiples of 8 up to 32, then of 16 (PTX ISA, "Asynchronous Warpgroup Level
/// Matrix Shape").
fn integer_n(n: usize) -> bool {
    n <= 32 || n.is_multiple_of(16)
}

fn families() -> Vec<Family> {
    let mut families = Vec::new();
    let float = |kind, d: &str, a: &'static str, b: &'static str, bits| {
        let ty = |name: &str| match name {
            "f32" => "f32",
            "f16" => "f16",
            "bf16" => "bf16",
            "tf32" => "Tf32",
            "e4m3" => "F8E4M3",
            _ => "F8E5M2",
        };
        let name = |name: &str| match name {
            "f32" => "F32",
            "f16" => "F16",
            "bf16" => "BF16",
            "tf32" => "TF32",
            "e4m3" => "E4M3",
            _ => "E5M2",
        };
        let d = if d == "f32" { "f32" } else { "f16" };
        Family {
            kind,
            names: [name(d), name(a), name(b)],
            ptx: [d, a, b],
            types: [ty(d), ty(a), ty(b)],
            bits,
            d_bits: if d == "f32" { 32 } else { 16 },
            sum: "Float",
            suffix: ("", ""),
            version: 8.0,
            every_n: true,
        }
    };
    families.push(float("majors", "f16", "f16", "f16", 16));
    families.push(float("majors", "f32", "f16", "f16", 16));
    families.push(float("majors", "f32", "bf16", "bf16", 16));
    families.push(float("scaled", "f32", "tf32", "tf32", 32));
    for d in ["f16", "f32"] {
        for a in ["e4m3", "e5m2"] {
            for b in ["e4m3", "e5m2"] {
                families.push(float("scaled", d, a, b, 8));
            }
        }
    }
    for (a, a_name, a_type) in [("s8", "S8", "i8"), ("u8", "U8", "u8")] {
        for (b, b_name, b_type) in [("s8", "S8", "i8"), ("u8", "U8", "u8")] {
            for (sum, suffix) in [("Wrap", ("", "")), ("Saturate", (".satfinite", "_SATURATE"))] {
                families.push(Family {
                    kind: "plain",
                    names: ["S32", a_name, b_name],
                    ptx: ["s32", a, b],
                    types: ["i32", a_type, b_type],
                    bits: 8,
                    d_bits: 32,
                    sum,
                    suffix,
                    // Mixed signs followed later (observed with ptxas 13.0).
                    version: if a == b { 8.0 } else { 8.4 },
                    every_n: false,
                });
            }
        }
    }
    families.push(Family {
        kind: "plain",
        names: ["S32", "U1", "U1"],
        ptx: ["s32", "b1", "b1"],
        types: ["i32", "B1", "B1"],
        bits: 1,
        d_bits: 32,
        sum: "AndPopc",
        suffix: (".and.popc", "_ANDPOPC"),
        version: 8.0,
        every_n: false,
    });
    families
}

/// Calls the macro of this name with a row for each instruction.
pub fn for_each(callback: TokenStream) -> TokenStream {
    let rows = families().into_iter().flat_map(|family| {
        (8..=256)
            .step_by(8)
            .filter(|&n| family.every_n || integer_n(n))
            .map(|n| row(&family, n))
            .collect::<Vec<_>>()
    });
    quote! { #callback! { #(#rows)* } }
}

fn row(family: &Family, n: usize) -> TokenStream {
    let k = 256 / family.bits;
    let [d, a, b] = family.types.map(|name| format_ident!("{name}"));
    let shape = format!("64x{n}x{k}_{}", family.names.concat());
    let only_tn = if family.kind == "majors" { "" } else { "_TN" };
    let atom = |source: &str| format_ident!("SM90_{shape}_{source}{only_tn}{}", family.suffix.1);
    let ptx = family.ptx.join(".");
    let function = |source: &str| {
        let suffix = family.suffix.0.replace('.', "_");
        format_ident!("wgmma_m64n{n}k{k}_{}{suffix}_{source}", family.ptx.join("_"))
    };
    let (ss, rs, ss_function, rs_function) = (atom("SS"), atom("RS"), function("ss"), function("rs"));
    let text = format!("m64n{n}k{k}.{ptx}{}", family.suffix.0);
    let (kind, sum) = (format_ident!("{}", family.kind), format_ident!("{}", family.sum));
    let count = n * family.d_bits / 64;
    let list = (0..count).map(|i| format!("{{{i}}}")).collect::<Vec<_>>().join(", ");
    let registers = (0..count).map(|i| format_ident!("r{i}"));
    let count = Literal::usize_unsuffixed(count);
    let version = Literal::f32_unsuffixed(family.version);
    let (n, k) = (Literal::usize_unsuffixed(n), Literal::usize_unsuffixed(k));
    quote! {
        wgmma {
            #kind; #ss #ss_function; #rs #rs_function; #text; needs #version; [64, #n, #k]; #sum;
            d #d #count #list [#(#registers)*]; a #a; b #b
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_all_instructions_and_none_twice() {
        let text = for_each(quote!(each)).to_string();
        let atoms: Vec<&str> = text.split_whitespace().filter(|word| word.starts_with("SM90_")).collect();
        // 12 families of 32 and 9 of 18, each from shared memory and from registers.
        assert_eq!(atoms.len(), 2 * (12 * 32 + 9 * 18));
        let mut sorted = atoms.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), atoms.len());
        for name in [
            "SM90_64x256x16_F32BF16BF16_SS",
            "SM90_64x8x16_F16F16F16_RS",
            "SM90_64x24x8_F32TF32TF32_SS_TN",
            "SM90_64x200x32_F16E4M3E5M2_RS_TN",
            "SM90_64x48x32_S32S8U8_SS_TN_SATURATE",
            "SM90_64x256x256_S32U1U1_RS_TN_ANDPOPC",
        ] {
            assert!(sorted.binary_search(&name).is_ok(), "{name}");
        }
        assert!(sorted.binary_search(&"SM90_64x40x32_S32S8S8_SS_TN").is_err(), "no N of 40 for integers");
    }
}
