//! The ladder, step 1: the first product (`ops/matmul/ladder/matmul.rs`).

use crate::support::{Fast, Product};
use moye::kernels::matmul_f32_nt;
use moye::{Device, Grid};

pub fn run(device: &Device) -> moye::Result<()> {
    let product = Product::<f32>::random(device, Fast::Mn, Fast::Mn);
    let ((m, n, k), (lda, ldb, ldc)) = (product.extents, product.leading);
    let (a, b) = (device.upload(&product.a)?, device.upload(&product.b)?);
    // An element that the kernel omits stays NaN.
    let mut c = device.upload(&vec![f32::NAN; product.c.len()])?;
    // One block of 256 threads for each 128 x 128 tile of C.
    let grid = Grid::new((m.div_ceil(128), n.div_ceil(128)), 256);
    product.time(device, matmul_f32_nt.name(), || {
        // This kernel takes any strides: two for each matrix.
        let arguments = (&a, &b, &mut c, m, n, k, 1, lda, 1, ldb, 1, ldc);
        // SAFETY: the buffers contain the matrices with these extents and strides.
        unsafe { device.launch(&matmul_f32_nt, grid, arguments) }
    })?;
    assert!(c.download()? == product.c, "a result that differs from float64");
    Ok(())
}
