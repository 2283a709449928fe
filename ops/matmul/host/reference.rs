//! A declared product in float64.

use moye_runtime::operation::{ArrayType, Options};

/// The error function, by its series, whose terms cancel to about 1e-10 below 3.5; past it the
/// function is 1 to 1e-6.
fn erf(x: f64) -> f64 {
    if x.abs() > 3.5 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..80 {
        let n = f64::from(n);
        term *= -x * x / n;
        sum += term / (2.0 * n + 1.0);
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI
}

/// The activation of this name; without one the identity.
fn activated(name: Option<&str>, x: f64) -> f64 {
    match name {
        None => x,
        Some("relu") => x.max(0.0),
        Some("gelu") => x / 2.0 * (1.0 + erf(x / std::f64::consts::SQRT_2)),
        Some("gelu_tanh") => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
            x / 2.0 * (1.0 + inner.tanh())
        }
        _ => x / (1.0 + (-x).exp()),
    }
}

/// The product.
pub fn reference(inputs: &[Option<(ArrayType, Vec<f64>)>], options: &Options) -> Vec<Vec<f64>> {
    let [Some((of_a, a)), Some((of_b, b)), c, bias, scale_a, scale_b] = inputs else {
        unreachable!("a and b are not optional")
    };
    let (&[.., m, k], &[.., n]) = (&of_a.shape[..], &of_b.shape[..]) else {
        unreachable!("`results` has refused it")
    };
    let batches = |ty: &ArrayType| if ty.shape.len() == 3 { ty.shape[0] } else { 1 };
    let count = if batches(of_a) == 1 { batches(of_b) } else { batches(of_a) };
    let alpha = options.float("alpha");
    let beta = if options.is_set("beta") { options.float("beta") } else { 1.0 };
    let activation = options.is_set("activation").then(|| options.choice("activation"));
    // One factor, one for each row or column, or for each of each batch.
    let scaled = |scale: &Option<(ArrayType, Vec<f64>)>, batch: usize, at: usize, extent: usize| match scale {
        None => 1.0,
        Some((_, factors)) if factors.len() == 1 => factors[0],
        Some((_, factors)) if factors.len() == extent => factors[at],
        Some((_, factors)) => factors[batch * extent + at],
    };
    let added = |row: usize, column: usize| match bias {
        None => 0.0,
        Some((ty, bias)) if matches!(ty.shape[..], [rows, 1] if rows > 1) => bias[row],
        Some((_, bias)) => bias[column],
    };
    let mut out = Vec::with_capacity(count * m * n);
    for batch in 0..count {
        let first = |ty: &ArrayType, elements: usize| if batches(ty) == 1 { 0 } else { batch * elements };
        let (a, b) = (&a[first(of_a, m * k)..], &b[first(of_b, k * n)..]);
        for row in 0..m {
            for column in 0..n {
                let sum: f64 = (0..k).map(|i| a[row * k + i] * b[i * n + column]).sum();
                let factors = scaled(scale_a, batch, row, m) * scaled(scale_b, batch, column, n);
                let mut value = if alpha == 0.0 || k == 0 { 0.0 } else { alpha * factors * sum };
                if let Some((_, c)) = c
                    && beta != 0.0
                {
                    value += beta * c[(batch * m + row) * n + column];
                }
                out.push(activated(activation, value + added(row, column)));
            }
        }
    }
    vec![out]
}
