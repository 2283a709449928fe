//! Numbers of the command line.

/// Parses an f64. A value that f64 rounds to infinity or to 0 is an error.
pub fn number(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| format!("`{text}` is not a number: 0.5 and -1e3 are"))?;
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let has_digit = |least| mantissa.bytes().any(|byte| (least..=b'9').contains(&byte));
    if number.is_infinite() && has_digit(b'0') {
        return Err(format!("`{text}` is too large: the largest 64-bit float is 1.8e308"));
    }
    if number == 0.0 && has_digit(b'1') {
        return Err(format!("`{text}` is too small: the smallest 64-bit float above 0 is 4.9e-324"));
    }
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_that_no_float_of_64_bits_is_near_to_are_refused() {
        for (text, want) in
            [("0.5", 0.5), ("-1e3", -1e3), ("0e9", 0.0), ("5e-324", 5e-324), ("1.7e308", 1.7e308)]
        {
            assert_eq!(number(text), Ok(want));
        }
        assert_eq!(number("-inf"), Ok(f64::NEG_INFINITY), "infinity itself is one");
        assert!(number("NaN").is_ok_and(f64::is_nan));
        for (text, why) in [
            ("1e400", "too large"),
            ("-1E400", "too large"),
            ("1e-400", "too small"),
            ("-0.1e-330", "too small"),
            ("x", "is not a number"),
        ] {
            let said = number(text).unwrap_err();
            assert!(said.contains(text) && said.contains(why), "{said}");
        }
    }
}
