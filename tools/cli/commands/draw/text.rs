//! Parsers of options' values.

use anyhow::{Context, Result, bail};
use moye_device::layout::{ComposedLayout, Layout, Swizzle, try_make_col_major};
use moye_eval::{Value, evaluate};

/// A layout, or an expression that evaluates to one; the error names the column.
pub fn layout(option: &str, text: &str) -> Result<Layout> {
    match drawn(text).with_context(|| option.to_owned())? {
        Drawn::Plain(layout) => Ok(layout),
        Drawn::Swizzled(layout) => {
            bail!("{option}: {layout} is swizzled, and a layout without a swizzle is needed")
        }
    }
}

/// A layout, plain or swizzled.
pub enum Drawn {
    Plain(Layout),
    Swizzled(ComposedLayout),
}

/// The layout of an option, or of an expression with the operations of `moye eval`.
pub fn drawn(text: &str) -> Result<Drawn> {
    match evaluate(text)? {
        Value::Layout(layout) => Ok(Drawn::Plain(layout)),
        Value::Composed(layout) => Ok(Drawn::Swizzled(layout)),
        Value::Tuple(shape) => Ok(Drawn::Plain(try_make_col_major(shape)?)),
        other => bail!("{text:?} is {other}, and not a layout to draw"),
    }
}

/// Extents such as `16x8`, each at least 1.
pub fn extents<const N: usize>(option: &str, text: &str) -> Result<[i64; N]> {
    let parts: Vec<_> = text.split(['x', 'X', ',']).map(|part| part.trim().parse::<i64>()).collect();
    let wanted = ["16", "8", "16"][..N].join("x");
    match parts.into_iter().collect::<Result<Vec<_>, _>>() {
        Ok(parts) if parts.len() == N && parts.iter().all(|&part| part >= 1) => {
            Ok(std::array::from_fn(|i| parts[i]))
        }
        _ => bail!("{option} {text:?}: expected {N} positive integers such as {wanted}"),
    }
}

/// A swizzle such as `3,4,3`, or as in expressions.
pub fn swizzle(text: &str) -> Result<Swizzle> {
    if text.contains(|letter: char| letter.is_ascii_alphabetic())
        && let Value::Swizzle(swizzle) = evaluate(text).context("--swizzle")?
    {
        return Ok(swizzle);
    }
    let parts: Result<Vec<i64>, _> = text.split(',').map(|part| part.trim().parse()).collect();
    match parts.as_deref() {
        Ok(&[bits, base, shift]) => Ok(Swizzle::try_new(bits, base, shift).context("--swizzle")?),
        _ => bail!("--swizzle {text:?}: expected the three integers bits, base and shift, such as 3,4,3"),
    }
}

/// The bits of an element type, or a number of bits.
pub fn element_bits(option: &str, text: &str) -> Result<i64> {
    let name = text.trim().to_ascii_lowercase();
    let bits = match name.as_str() {
        "e4m3" | "e5m2" | "fp8" => Some(8),
        "c64" => Some(128),
        // A `GaussComplex` of three f64: no copy moves 192 bits.
        "gc64" => bail!(
            "{option} {text:?}: the sums of a complex product of three real ones have three numbers of 64 bits, 192, which no \
             copy atom moves; --element f64 takes them number by number, and the operands are c64"
        ),
        "half" => Some(16),
        "float" => Some(32),
        "double" => Some(64),
        _ => {
            let letters = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
            let known = matches!(letters, "" | "b" | "f" | "bf" | "fp" | "tf" | "float" | "i" | "s" | "u");
            name[letters.len()..].parse::<i64>().ok().filter(|_| known)
        }
    };
    match bits {
        Some(bits @ (1 | 2 | 4 | 8 | 16 | 32 | 64 | 128)) => Ok(bits),
        _ => bail!(
            "{option} {text:?}: expected an element type such as f32, bf16, f16, e4m3, i8, u64, c64, or its bits, a power of \
             two up to 128"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_read_as_their_parser_reads_them() {
        let package = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| ".".to_owned());
        let path = format!("{package}/../../tests/fixtures/data/notation.txt");
        let lines = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut seen = 0;
        for line in lines.lines().filter(|line| !line.starts_with('#')) {
            let (text, expected) = line.split_once(" => ").unwrap();
            match drawn(text) {
                Ok(Drawn::Plain(layout)) => assert_eq!(layout.to_string(), expected, "{text:?}"),
                Ok(Drawn::Swizzled(layout)) => assert_eq!(layout.to_string(), expected, "{text:?}"),
                Err(error) => {
                    assert!(format!("{error:#}").contains(&format!("{expected}: ")), "{text:?}: {error:#}")
                }
            }
            seen += 1;
        }
        assert!(seen > 50, "{seen} lines");
    }
}
