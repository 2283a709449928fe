//! Sizes of matrices on the command line.

use std::fmt;
use std::str::FromStr;

/// M, N and K of a product; a copy uses the first two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The rows of C.
    pub m: usize,
    /// The columns of C.
    pub n: usize,
    /// The columns of A.
    pub k: usize,
}

impl Size {
    /// The same extent along each mode.
    pub const fn cube(extent: usize) -> Self {
        Self { m: extent, n: extent, k: extent }
    }
}

impl FromStr for Size {
    type Err = String;

    /// Parses `N` or `MxNxK`, all at least 1.
    fn from_str(text: &str) -> Result<Self, String> {
        let extents: Option<Vec<usize>> =
            text.split('x').map(|part| part.parse().ok().filter(|&extent| extent > 0)).collect();
        match extents.as_deref() {
            Some(&[extent]) => Ok(Self::cube(extent)),
            Some(&[m, n, k]) => Ok(Self { m, n, k }),
            _ => Err(format!(
                "`{text}` is not a size: expected N or MxNxK, numbers from 1 without spaces, such as 4096 or 64x4096x4096"
            )),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {} x {}", self.m, self.n, self.k)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_one_number_or_three() {
        assert_eq!("4096".parse(), Ok(Size::cube(4096)));
        assert_eq!("64x4096x1".parse(), Ok(Size { m: 64, n: 4096, k: 1 }));
        for text in
            ["", "x", "64x64", "0", "1x0x1", "1x1x1x1", "64 x 64 x 64", "-1", "1e3", "99999999999999999999"]
        {
            let said = text.parse::<Size>().unwrap_err();
            assert!(said.starts_with(&format!("`{text}` is not a size")), "{said}");
        }
    }
}
