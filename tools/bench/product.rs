//! A product of random matrices: checked against float64, then timed beside cuBLAS.

use super::cublas::{Gemm, Peer};
use super::results::{Figure, Row};
use super::timing::in_turn;
use super::{Beside, Measure, Seen};
use crate::{Epilogue, Kind, Majors, Member, Size};
use anyhow::{Context, Result, bail};
use moye::number::Scalar;
use moye::{Buffer, Device, Element, Matmul, Matrix, MatrixMut, Output, Precision};
use rayon::prelude::*;

/// Elements of C that are compared with float64.
const SAMPLES: usize = 500;

/// Random operands on the host and on a device, and memory for the product.
pub struct Problem<T: Member, U: Element + Scalar> {
    /// The element types.
    pub kind: Kind,
    /// The majors of A and B.
    pub majors: Majors,
    /// M, N and K.
    pub size: Size,
    host: [Vec<T>; 2],
    operands: [Buffer<T>; 2],
    c: Buffer<U>,
    /// The value 1, as the scale of both operands, for kinds with scales.
    scale: Option<Buffer<f32>>,
    epilogue: Epilogue,
    /// The bias, if there is one, on the host and on the device.
    bias: Option<(Vec<U>, Buffer<U>)>,
}

/// Calls a generic function with the operands' and the result's types of a [`Kind`].
#[macro_export]
macro_rules! with_types {
    ($kind:expr, $function:ident($($argument:expr),* $(,)?)) => {
        match $kind {
            $crate::Kind::F32 | $crate::Kind::Tf32 => $function::<f32, f32>($($argument),*),
            $crate::Kind::F16 | $crate::Kind::F16Accumulators => {
                $function::<$crate::moye::half::f16, $crate::moye::half::f16>($($argument),*)
            }
            $crate::Kind::Bf16 => {
                $function::<$crate::moye::half::bf16, $crate::moye::half::bf16>($($argument),*)
            }
            $crate::Kind::F64 => $function::<f64, f64>($($argument),*),
            $crate::Kind::I8 => $function::<i8, i32>($($argument),*),
            $crate::Kind::E4m3 => {
                $function::<$crate::moye::number::F8E4M3, $crate::moye::half::bf16>($($argument),*)
            }
        }
    };
}

impl<T: Member, U: Output<T> + Scalar + Default> Problem<T, U> {
    /// # Errors
    /// The device lacks the memory.
    pub fn new(device: &Device, kind: Kind, majors: Majors, size: Size) -> Result<Self> {
        let Size { m, n, k } = size;
        let elements = |rows: usize, cols: usize| {
            rows.checked_mul(cols)
                .with_context(|| format!("a {rows} x {cols} matrix is larger than any memory"))
        };
        let host = [numbers(elements(m, k)?, 1)?, numbers(elements(k, n)?, 2)?];
        let operands = [device.upload(&host[0])?, device.upload(&host[1])?];
        let c = device.alloc_uninit::<U>(elements(m, n)?)?;
        let scale = (kind == Kind::E4m3).then(|| device.upload(&[1.0f32])).transpose()?;
        Ok(Self { kind, majors, size, host, operands, c, scale, epilogue: Epilogue::default(), bias: None })
    }

    /// The same problem with an epilogue.
    ///
    /// # Errors
    /// The device lacks the memory.
    pub fn with(mut self, device: &Device, epilogue: Epilogue) -> Result<Self> {
        if epilogue.bias {
            // As large as the sums of values in [-1, 1), so that a missing bias is noticed.
            let large = (self.size.k as f64 / 9.0).sqrt().max(1.0);
            let mut random = fastrand::Rng::with_seed(4);
            let bias: Vec<_> =
                (0..self.size.m).map(|_| U::nearest(large * (2.0 * random.f64() - 1.0))).collect();
            let buffer = device.upload(&bias)?;
            self.bias = Some((bias, buffer));
        }
        self.epilogue = epilogue;
        Ok(self)
    }

    /// The builder of the product, and C, column-major.
    pub fn call(&mut self) -> Result<(Matmul<'_, T, U>, MatrixMut<'_, U>)> {
        let Size { m, n, k } = self.size;
        let lies = |data, rows, cols, transposed| match transposed {
            true => Matrix::row_major(data, rows, cols),
            false => Matrix::col_major(data, rows, cols),
        };
        let (a, b) =
            (lies(&self.operands[0], m, k, self.majors.a)?, lies(&self.operands[1], k, n, self.majors.b)?);
        let precision = match self.kind {
            Kind::Tf32 => Precision::Tf32,
            Kind::F16Accumulators => Precision::F16Accumulators,
            _ => Precision::Full,
        };
        let product = T::scaled(Matmul::new(a, b), [self.scale.as_ref(); 2])?;
        let mut product = T::precise(product, precision)?.activation(self.epilogue.activation);
        if let Some((_, bias)) = &self.bias {
            product = product.bias_rows(bias);
        }
        Ok((product, MatrixMut::col_major(&mut self.c, m, n)?))
    }

    /// Poisons C, so that unwritten elements are noticed.
    pub fn poison(&mut self) -> Result<()> {
        Ok(self.c.fill_bytes(0xFF)?)
    }

    /// The relative norm error of C against float64, for elements from all of C.
    ///
    /// # Errors
    /// The error exceeds what rounding explains: the result is wrong.
    pub fn check(&self, what: &str) -> Result<f64> {
        let error = self.relative_error(&self.c.download()?);
        let bound = self.kind.tolerance(self.size.k);
        if error.is_nan() || error > bound {
            let Self { kind, majors, size, .. } = self;
            bail!(
                "{what}: the product {kind} {majors} {size} is wrong: its relative error is {error:.1e}, and rounding \
                 explains at most {bound:.0e}; it is not timed"
            );
        }
        Ok(error)
    }

    fn relative_error(&self, c: &[U]) -> f64 {
        let (Size { m, n, k }, [a, b]) = (self.size, &self.host);
        let (step_a, step_b) =
            (if self.majors.a { (k, 1) } else { (1, m) }, if self.majors.b { (1, n) } else { (k, 1) });
        let (epilogue, bias) = (self.epilogue, self.bias.as_ref().map(|(bias, _)| &bias[..]));
        let (difference, norm) = samples(m, n)
            .into_par_iter()
            .map(|(i, j)| {
                let sum: f64 = (0..k)
                    .map(|l| {
                        a[i * step_a.0 + l * step_a.1].to_f64() * b[j * step_b.0 + l * step_b.1].to_f64()
                    })
                    .sum();
                let expected = epilogue.of(sum, bias.map_or(0.0, |bias| bias[i].to_f64()));
                ((c[i + j * m].to_f64() - expected).powi(2), expected * expected)
            })
            .reduce(|| (0.0, 0.0), |one, other| (one.0 + other.0, one.1 + other.1));
        (difference / if norm == 0.0 { 1.0 } else { norm }).sqrt()
    }

    /// The device addresses of A and B, and of a C.
    pub fn addresses(&self, c: &Buffer<U>) -> [u64; 3] {
        [self.operands[0].address(), self.operands[1].address(), c.address()]
    }
}

/// Coordinates in a matrix: its corners, and random ones.
fn samples(m: usize, n: usize) -> Vec<(usize, usize)> {
    if m == 0 || n == 0 {
        return Vec::new();
    }
    let mut random = fastrand::Rng::with_seed(3);
    let mut places = vec![(0, 0), (m - 1, 0), (0, n - 1), (m - 1, n - 1)];
    places.extend((places.len()..SAMPLES).map(|_| (random.usize(..m), random.usize(..n))));
    places
}

/// Random values, equal for equal seeds.
///
/// # Errors
/// The host lacks the memory.
fn numbers<T: Member>(len: usize, seed: u64) -> Result<Vec<T>> {
    // In chunks with separate seeds, so that all cores generate values.
    const PART: usize = 1 << 16;
    let mut numbers = Vec::new();
    numbers
        .try_reserve_exact(len)
        .with_context(|| format!("there is no memory for an operand of {len} elements; use smaller sizes"))?;
    numbers.resize(len, T::from_low_bits(0));
    numbers.par_chunks_mut(PART).enumerate().for_each(|(index, part)| {
        let mut random = fastrand::Rng::with_seed((seed << 32) + index as u64);
        part.fill_with(|| T::draw(&mut random));
    });
    Ok(numbers)
}

/// Checks and times a product.
///
/// # Errors
/// A wrong result, ours or the peer's, or an error of the device.
pub fn row(measure: &Measure<'_>, kind: Kind, majors: Majors, size: Size) -> Result<Row> {
    with_types!(kind, measured(measure, kind, majors, size))
}

/// Checks that products of a kind have a kernel of this name.
///
/// # Errors
/// They have no such kernel; the error lists their kernels.
fn known_kernel<T: Member, U: Output<T> + Scalar + Default>(
    device: &Device,
    kind: Kind,
    name: &str,
) -> Result<()> {
    let mut smallest = Problem::<T, U>::new(device, kind, Majors::TN, Size::cube(1))?;
    let kernels = smallest.call()?.0.kernels(device);
    if !kernels.contains(&name) {
        bail!(
            "there is no kernel `{name}` for products of {kind} (--types); there are {}",
            kernels.join(", ")
        );
    }
    Ok(())
}

/// Applies the named kernel.
///
/// # Errors
/// There is no such kernel for these elements.
fn by_kernel<'a, T: Member, U: Output<T>>(
    call: Matmul<'a, T, U>,
    measure: &Measure<'a>,
) -> Result<Matmul<'a, T, U>> {
    if let Some(name) = measure.kernel {
        let kernels = call.kernels(measure.device);
        let known = kernels.into_iter().find(|known| *known == name);
        return Ok(call.kernel(known.with_context(|| format!("there is no kernel `{name}`"))?));
    }
    Ok(call)
}

fn measured<T: Member, U: Output<T> + Scalar + Default>(
    measure: &Measure<'_>,
    kind: Kind,
    majors: Majors,
    size: Size,
) -> Result<Row> {
    let device = measure.device;
    if let Some(name) = measure.kernel {
        // Check before random values are generated.
        known_kernel::<T, U>(device, kind, name)?;
    }
    let mut problem = Problem::<T, U>::new(device, kind, majors, size)?.with(device, measure.epilogue)?;
    problem.poison()?;
    let plan = {
        let (call, mut c) = problem.call()?;
        let call = by_kernel(call, measure)?;
        let plan = call.explain(device, &mut c)?;
        call.run(device, &mut c)?;
        plan
    };
    let error = problem.check("moye")?;

    // The peer writes a separate C.
    let mut other_c = device.alloc_uninit::<U>(size.m * size.n)?;
    other_c.fill_bytes(0xFF)?;
    let gemm = Gemm {
        kind,
        transposed: (majors.a, majors.b),
        m: size.m,
        n: size.n,
        k: size.k,
        addresses: problem.addresses(&other_c),
        activation: measure.epilogue.activation,
        bias: problem.bias.as_ref().map(|(_, bias)| bias.address()),
    };
    let Beside { peer: side, mut missing } = measure.beside(kind);
    let mut peer = None;
    if let Some(side) = side {
        // SAFETY: the buffers have these extents and stay alive; no other work uses `other_c`.
        match unsafe { side.prepare(&gemm) }.and_then(|mut run| run().map(|()| run)) {
            Ok(run) => peer = Some(run),
            Err(reason) => missing = Some(format!("{}: {reason:#}", side.name())),
        }
    }
    if peer.is_some() {
        let error = problem.relative_error(&other_c.download()?);
        let bound = kind.tolerance(size.k);
        if error.is_nan() || error > bound {
            let name = side.map_or("", Peer::name);
            bail!(
                "{name} and float64 differ by {error:.1e} in {kind} {majors} {size}, more than {bound:.0e}; it is not timed"
            );
        }
    }

    let mut seen = Vec::new();
    let times = {
        let (call, mut c) = problem.call()?;
        let call = by_kernel(call, measure)?;
        let mut ours = || Ok(call.run(device, &mut c)?);
        let mut watch = || seen.extend(measure.monitor.map(super::Monitor::look));
        match &mut peer {
            Some(peer) => in_turn(device, &measure.plan, &mut [&mut ours, peer], &mut watch)?,
            None => in_turn(device, &measure.plan, &mut [&mut ours], &mut watch)?,
        }
    };
    drop(peer);
    let operations = 2.0 * size.m as f64 * size.n as f64 * size.k as f64 / 1e12;
    Ok(Row {
        work: "matmul",
        kind: kind.name().to_owned(),
        majors: Some(majors.to_string()),
        epilogue: (!measure.epilogue.is_nothing()).then(|| measure.epilogue.to_string()),
        by: None,
        rest_ms: measure.plan.rest.as_millis() as u64,
        m: size.m,
        n: size.n,
        k: Some(size.k),
        unit: kind.unit(),
        moye: Figure::new(&times[0], operations),
        peer: times.get(1).and_then(|times| Some((side?.name(), Figure::new(times, operations)))),
        no_peer: missing,
        limit: measure.facts.as_ref().and_then(|facts| facts.limit(kind)),
        relative_error: Some(error),
        kernel: plan.to_string(),
        seen: Seen::typical(&seen),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::on_simulator;
    use moye::kernels::mma::Activation;

    fn checked<T: Member, U: Output<T> + Scalar + Default>(kind: Kind, majors: Majors) {
        let device = Device::sim();
        let mut problem = Problem::<T, U>::new(&device, kind, majors, Size { m: 33, n: 17, k: 40 }).unwrap();
        problem.poison().unwrap();
        let said = problem.check("nothing").unwrap_err().to_string();
        assert!(
            said.contains("is wrong") && said.contains("33 x 17 x 40"),
            "unwritten elements are wrong: {said}"
        );
        let (call, mut c) = problem.call().unwrap();
        call.run(&device, &mut c).unwrap();
        problem.check("moye").unwrap();
    }

    #[test]
    fn products_of_every_kind_in_every_order_pass_the_check_and_poison_does_not() {
        use clap::ValueEnum;
        for &kind in Kind::value_variants() {
            for majors in Majors::ALL {
                with_types!(kind, checked(kind, majors));
            }
        }
    }

    #[test]
    fn an_epilogue_is_checked_too() {
        let epilogue = Epilogue { bias: true, activation: Activation::Relu };
        on_simulator(|measure| {
            let measure = Measure { epilogue, no_peer: None, facts: None, ..*measure };
            for kind in [Kind::F16, Kind::F32, Kind::I8] {
                let told = row(&measure, kind, Majors::TN, Size { m: 40, n: 24, k: 64 }).unwrap();
                assert_eq!(told.what(), format!("{kind} tn 40 x 24 x 64, bias, relu"));
            }
        });
        let device = Device::sim();
        let size = Size { m: 40, n: 24, k: 64 };
        let mut problem = Problem::<f32, f32>::new(&device, Kind::F32, Majors::TN, size).unwrap();
        let (call, mut c) = problem.call().unwrap();
        call.run(&device, &mut c).unwrap();
        let problem = problem.with(&device, epilogue).unwrap();
        assert!(problem.check("without it").is_err(), "a bias and an activation that are left out show");
    }

    #[test]
    fn a_kernel_is_taken_by_its_name_and_one_of_other_elements_is_refused() {
        on_simulator(|measure| {
            let by = |kind, name| {
                let measure = Measure { kernel: Some(name), no_peer: None, facts: None, ..*measure };
                row(&measure, kind, Majors::TN, Size { m: 40, n: 24, k: 64 })
            };
            assert_eq!(by(Kind::F16, "matmul_f16_tn_64x64").unwrap().kernel, "matmul_f16_tn_64x64");
            let said = by(Kind::F32, "matmul_f16_tn_64x64").unwrap_err().to_string();
            let expected =
                "there is no kernel `matmul_f16_tn_64x64` for products of f32 (--types); there are ";
            assert!(said.starts_with(expected), "{said}");
        });
    }

    #[test]
    fn a_row_has_its_rate_its_kernel_and_its_error() {
        on_simulator(|measure| {
            let size = Size { m: 40, n: 24, k: 512 };
            let told = row(measure, Kind::F16, Majors::TN, size).unwrap();
            assert_eq!(told.what(), "f16 tn 40 x 24 x 512");
            let rate = 2.0 * 40.0 * 24.0 * 512.0 / told.moye.seconds / 1e12;
            assert!((told.moye.median / rate - 1.0).abs() < 1e-9, "{told:?}");
            assert!(told.peer.is_none() && told.no_peer.as_deref() == Some("a test"), "{told:?}");
            assert!(told.relative_error.is_some_and(|error| error < 1e-3), "{told:?}");
        });
    }

    #[test]
    fn samples_are_from_everywhere_whatever_the_extents_divide() {
        for (m, n) in [(1, 1), (7919, 104_729), (4096, 64), (3, 100_000)] {
            let places = samples(m, n);
            assert!(places.iter().all(|&(i, j)| i < m && j < n));
            let distinct = |mut of: Vec<usize>| {
                of.sort_unstable();
                of.dedup();
                of.len()
            };
            let (rows, columns) =
                (places.iter().map(|place| place.0).collect(), places.iter().map(|place| place.1).collect());
            // Most of 500 draws from 64 or more positions differ; with few positions all are drawn.
            assert!(distinct(rows) >= m.min(SAMPLES / 10), "{m} x {n}");
            assert!(distinct(columns) >= n.min(SAMPLES / 10), "{m} x {n}");
        }
        assert!(samples(0, 5).is_empty());
    }

    #[test]
    fn random_numbers_are_the_same_again_and_others_of_another_seed() {
        let len = 3 << 16;
        let one = numbers::<f32>(len, 1).unwrap();
        assert_eq!(one, numbers::<f32>(len, 1).unwrap());
        assert_ne!(one[..100], numbers::<f32>(len, 2).unwrap()[..100]);
        assert_ne!(one[..100], one[1 << 16..(1 << 16) + 100], "parts are not copies");
    }
}
