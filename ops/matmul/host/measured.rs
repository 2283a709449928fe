//! The table of measured shapes whose fastest kernel the [estimate](super::cost) misses by more
//! than 1 %: `measured.csv`.

use super::descriptor::Preference;
use super::plan::Problem;
use std::sync::LazyLock;

/// A shape, and its fastest kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    /// The number of SMs of the GPU.
    pub multiprocessors: u32,
    /// M, N and K of a product with C row-major.
    pub extents: [u32; 3],
    /// The kernel, which exists for one element type and one pair of majors.
    pub kernel: &'static str,
}

/// The number of SMs of the GPUs on which the kernels' rates were measured.
pub(super) const MULTIPROCESSORS: u32 = 132;

/// The rows of the table.
pub(super) static MEASURED: LazyLock<Vec<Measured>> =
    LazyLock::new(|| rows(include_str!("measured.csv")).map(|row| row.expect("a test reads it")).collect());

/// The rows of a table; `None` if a line cannot be parsed as a row.
fn rows(table: &'static str) -> impl Iterator<Item = Option<Measured>> {
    let lines = table.lines().filter(|line| !line.starts_with('#')).skip(1);
    lines.map(|line| {
        let mut fields = line.split(',');
        let mut number = || fields.next()?.parse().ok();
        let (multiprocessors, extents) = (number()?, [number()?, number()?, number()?]);
        Some(Measured { multiprocessors, extents, kernel: fields.next()? })
    })
}

/// The fastest kernels for exactly these extents, one for each type and pair of majors; none for a
/// batch, another kind of GPU, or a caller with a preference.
pub(super) fn fastest(problem: &Problem) -> impl Iterator<Item = &'static str> {
    let (extents, multiprocessors) = (problem.extents, problem.multiprocessors);
    let applies = problem.batches == 1 && problem.preference == Preference::default();
    let is_it = move |row: &&Measured| row.extents == extents && row.multiprocessors == multiprocessors;
    MEASURED.iter().filter(move |row| applies && is_it(row)).map(|row| row.kernel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_a_row() {
        assert!(rows(include_str!("measured.csv")).all(|row| row.is_some()));
        assert_eq!(MEASURED.len(), 14);
        assert!(rows("sms,m,n,k,kernel\n132,1,2,x,wgmma\n").all(|row| row.is_none()));
    }
}
