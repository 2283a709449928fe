//! Products of the dequantised operands.

pub use crate::block_scaled::oracle::tolerance;
use moye_runtime::operation::{ArrayType, Options};

type Inputs<'a> = &'a [Option<(ArrayType, Vec<f64>)>];
type Operand = Option<(ArrayType, Vec<f64>)>;

/// The scale of the element (row, column) for blocks of (rows, columns) elements; broadcast along
/// extents of 1.
fn scale(of: &Operand, [row, column]: [usize; 2], [rows, columns]: [usize; 2]) -> f64 {
    let (ty, scales) = of.as_ref().expect("it is given with its operand");
    let at = |mode: usize, at: usize| if ty.shape[mode] == 1 { 0 } else { at };
    scales[at(0, row / rows) * ty.shape[1] + at(1, column / columns)]
}

/// `(scale_a a[i]) (scale_b b[i])^T` of each product.
pub fn pairs(inputs: Inputs<'_>, _: &Options) -> Vec<Vec<f64>> {
    let of = |product: &[Operand]| {
        let [Some((of_a, a)), Some((of_b, b)), scale_a, scale_b] = product else { return Vec::new() };
        let (&[m, k], n) = (&of_a.shape[..], of_b.shape[0]) else { panic!("checked: a has two modes") };
        let dot = |i: usize, j: usize| {
            let term = |l: usize| {
                scale(scale_a, [i, l], [1, 128])
                    * scale(scale_b, [j, l], [128, 128])
                    * a[i * k + l]
                    * b[j * k + l]
            };
            (0..k).map(term).sum()
        };
        (0..m * n).map(|at| dot(at / n, at % n)).collect()
    };
    inputs.chunks(4).map(of).collect()
}

/// `c[g] = (scale_a a)[rows of g]^T (scale_b b)[rows of g]`.
pub fn along_rows(inputs: Inputs<'_>, _: &Options) -> Vec<Vec<f64>> {
    let [a, b, ends] = [0, 1, 4].map(|i| inputs[i].as_ref().expect("it is not optional"));
    let (m, n) = (a.0.shape[1], b.0.shape[1]);
    let of_b = inputs[3].as_ref().map_or(0, |scales| scales.0.shape[1]);
    let columns = if of_b == n { 1 } else { 128 };
    let mut c = Vec::with_capacity(ends.1.len() * m * n);
    for rows in crate::operand::groups_of(&a.0, &ends.1) {
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let term = |row: usize| {
                let scales =
                    scale(&inputs[2], [row, i], [128, 1]) * scale(&inputs[3], [row, j], [128, columns]);
                scales * a.1[row * m + i] * b.1[row * n + j]
            };
            c.push(rows.clone().map(term).sum());
        }
    }
    vec![c]
}
