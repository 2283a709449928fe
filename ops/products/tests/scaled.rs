//! Products of 8-bit floats beside exact accumulation, and quantised results.
#![cfg(feature = "block_scaled")]

use crate::random::Random;
use half::bf16;
use moye::number::F8E4M3;
use moye::operation::harness;
use moye::{Device, Matrix, MatrixMut};
use moye_products::block_scaled::BlockScaled;

/// A product's operands with a scale for 1 x 128 elements of a and 128 x 128 of b.
struct Product {
    shape: [usize; 3],
    a: Vec<F8E4M3>,
    b: Vec<F8E4M3>,
    scale_a: Vec<f32>,
    scale_b: Vec<f32>,
}

impl Product {
    fn new([m, n, k]: [usize; 3]) -> Self {
        let random = |count, seed| {
            let mut random = Random::new(seed);
            (0..count).map(move |_| random.unit())
        };
        let floats = |count, seed| random(count, seed).map(F8E4M3::from_f32).collect();
        let scales = |count, seed| random(count, seed).map(|x| x + 1.5).collect();
        let (along_n, along_k) = (n.div_ceil(128), k.div_ceil(128));
        Self {
            shape: [m, n, k],
            a: floats(m * k, 1),
            b: floats(n * k, 2),
            scale_a: scales(m * along_k, 3),
            scale_b: scales(along_n * along_k, 4),
        }
    }

    /// The exact product.
    fn exact(&self) -> Vec<f64> {
        let [m, n, k] = self.shape;
        let along_k = k.div_ceil(128);
        let element = |at: usize| {
            let (i, j) = (at / n, at % n);
            let term = |l: usize| {
                let scales = [self.scale_a[i * along_k + l / 128], self.scale_b[j / 128 * along_k + l / 128]];
                let factors = [self.a[i * k + l].to_f32(), self.b[j * k + l].to_f32()];
                scales.into_iter().chain(factors).map(f64::from).product::<f64>()
            };
            (0..k).map(term).sum()
        };
        (0..m * n).map(element).collect()
    }

    /// Calls `with` with the product on a device.
    fn on<R>(&self, device: &Device, with: impl FnOnce(BlockScaled<'_>) -> R) -> R {
        let [m, n, k] = self.shape;
        let (a, b) = (device.upload(&self.a).unwrap(), device.upload(&self.b).unwrap());
        let scales = [device.upload(&self.scale_a).unwrap(), device.upload(&self.scale_b).unwrap()];
        let along_k = k.div_ceil(128);
        let product =
            BlockScaled::new(Matrix::row_major(&a, m, k).unwrap(), Matrix::row_major(&b, n, k).unwrap());
        with(product.scales(
            Matrix::row_major(&scales[0], m, along_k).unwrap(),
            Matrix::row_major(&scales[1], n.div_ceil(128), along_k).unwrap(),
        ))
    }
}

/// The relative error in norm.
fn error(got: impl Iterator<Item = f64>, exact: &[f64]) -> f64 {
    let (mut error, mut norm) = (0.0, 0.0);
    for (got, exact) in got.zip(exact) {
        error += (got - exact).powi(2);
        norm += exact.powi(2);
    }
    (error / norm).sqrt()
}

#[test]
fn the_error_over_a_long_k_is_within_twice_that_of_exact_accumulation() {
    for device in harness::devices() {
        let [m, n, k] = if device.is_gpu() { [192, 256, 16_384] } else { [16, 64, 1024] };
        let product = Product::new([m, n, k]);
        let exact = product.exact();
        let got = product.on(&device, |product| {
            let mut c = device.alloc_uninit::<bf16>(m * n).unwrap();
            product.run(&device, &mut MatrixMut::row_major(&mut c, m, n).unwrap()).unwrap();
            c.download().unwrap()
        });
        let rounded = error(exact.iter().map(|&x| bf16::from_f64(x).to_f64()), &exact);
        let own = error(got.into_iter().map(bf16::to_f64), &exact);
        eprintln!("{device:?}: {own:.2e}, and {rounded:.2e} by rounding the exact sums");
        assert!(own <= 2.0 * rounded, "{device:?}: {own:e}, and {rounded:e} by rounding the exact sums");
    }
}

#[test]
fn a_quantised_result_times_its_scales_is_the_product() {
    for device in harness::devices() {
        let [m, n, k] = [20, 144, 128];
        let product = Product::new([m, n, k]);
        let exact = product.exact();
        let (q, scales) = product.on(&device, |product| {
            let mut q = device.alloc_uninit::<F8E4M3>(m * n).unwrap();
            let mut scales = device.alloc_uninit::<f32>(m * 2).unwrap();
            let (mut of_q, mut of_scales) = (
                MatrixMut::row_major(&mut q, m, n).unwrap(),
                MatrixMut::row_major(&mut scales, m, 2).unwrap(),
            );
            // SAFETY: the default stream runs its work in order.
            unsafe { product.run_quantized_on(&device.default_stream(), &mut of_q, &mut of_scales) }.unwrap();
            (q.download().unwrap(), scales.download().unwrap())
        });
        let got = q
            .iter()
            .enumerate()
            .map(|(at, q)| f64::from(q.to_f32()) * f64::from(scales[at / n * 2 + at % n / 128]));
        let own = error(got, &exact);
        // Half a unit in the last place of e4m3.
        assert!(own < 2f64.powi(-4), "{device:?}: {own:e}");
    }
}

#[cfg(feature = "block_scaled_groups")]
#[test]
fn products_of_a_list_with_scales_are_those_of_float64() {
    use moye_products::block_scaled_groups::{BlockScaledList, ScaledProduct};
    // Several tiles, one row, ragged ones; no rows.
    let shapes = [[130, 136, 272], [1, 9, 16], [65, 257, 144], [0, 16, 32]];
    for device in harness::devices() {
        let products = shapes.map(Product::new);
        let up = |of: &[f32]| device.upload(if of.is_empty() { &[0.0] } else { of }).unwrap();
        let zero = [F8E4M3::from_f32(0.0)];
        let bytes = |of: &[F8E4M3]| device.upload(if of.is_empty() { &zero } else { of }).unwrap();
        let uploaded: Vec<_> = products
            .iter()
            .map(|of| (bytes(&of.a), bytes(&of.b), up(&of.scale_a), up(&of.scale_b)))
            .collect();
        let poison = -777.0f32;
        let mut buffers: Vec<_> = shapes
            .iter()
            .map(|&[m, n, _]| device.upload(&vec![poison; (m * (n + 3)).max(1)]).unwrap())
            .collect();
        let operands: Vec<_> = products
            .iter()
            .zip(&uploaded)
            .map(|(of, (a, b, scale_a, scale_b))| {
                let ([m, n, k], along_k) = (of.shape, of.shape[2].div_ceil(128));
                ScaledProduct {
                    a: Matrix::row_major(a, m, k).unwrap(),
                    b: Matrix::row_major(b, n, k).unwrap(),
                    scale_a: Matrix::row_major(scale_a, m, along_k).unwrap(),
                    scale_b: Matrix::row_major(scale_b, n.div_ceil(128), along_k).unwrap(),
                }
            })
            .collect();
        // Rows of results have three elements more than columns.
        let results = shapes.iter().zip(&mut buffers);
        let results = results.map(|(&[m, n, _], c)| MatrixMut::new(c, m, n, (n + 3, 1)).unwrap()).collect();
        BlockScaledList::new(&device, &operands, results).unwrap().run().unwrap();
        for (product, c) in products.iter().zip(&buffers) {
            let ([m, n, _], c) = (product.shape, c.download().unwrap());
            let rows = c.chunks(n + 3).take(m);
            assert!(rows.clone().all(|row| row[n..].iter().all(|&c| c == poison)), "{:?}", product.shape);
            let got = rows.flat_map(|row| row[..n].iter().map(|&c| f64::from(c)));
            let own = if m == 0 { 0.0 } else { error(got, &product.exact()) };
            // Tensor cores keep 14 bits of the sums of four instructions.
            assert!(own < 4.0 * 2f64.powi(-13), "{device:?} {:?}: {own:e}", product.shape);
        }
        let other = ScaledProduct { scale_a: operands[1].scale_a.clone(), ..operands[0].clone() };
        let mut c = device.alloc_uninit::<bf16>(130 * 136).unwrap();
        let c = MatrixMut::row_major(&mut c, 130, 136).unwrap();
        // A scale for all is accepted; scales for blocks that do not exist are refused.
        assert!(BlockScaledList::new(&device, &[other], vec![c]).is_ok());
        let other = ScaledProduct { scale_b: operands[0].scale_b.clone(), ..operands[2].clone() };
        let mut c = device.alloc_uninit::<bf16>(65 * 257).unwrap();
        let c = MatrixMut::row_major(&mut c, 65, 257).unwrap();
        let refused = BlockScaledList::new(&device, &[other], vec![c]).err().unwrap().to_string();
        assert!(refused.contains("scale_b of product 0 has shape [2, 3], and must have [3, 2]"), "{refused}");
    }
}
