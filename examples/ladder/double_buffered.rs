//! The ladder, step 5: two tiles in shared memory, two steps in registers
//! (`device/kernels/ladder/double_buffer.rs`).

mod support;

use moye::kernels::ladder::ladder_double_buffered;
use moye::layout::{ComposedLayout, layout};
use moye::{Device, Grid};
use moye_device::atom::TiledCopy;
use moye_device::atom::copy::SM80_CP_ASYNC_CACHEALWAYS;
use support::{Fast, Product};

fn main() -> moye::Result<()> {
    // (BLK_M, BLK_K, PIPE): columns are 130 elements apart, so that each starts at a multiple of 8
    // bytes, as the copies require.
    let smem = layout!((128, 8, 2):(1, 130, 1040));
    const COPY: TiledCopy<SM80_CP_ASYNC_CACHEALWAYS<u64>, f32> =
        TiledCopy::new(layout!((32, 8)), layout!((2, 1)));
    println!("a thread's part of both tiles, (CPY, CPY_M, CPY_K, PIPE): {}", COPY.partition_d(smem));
    println!("words of one bank at a time: {}", COPY.access_d(ComposedLayout::plain(smem)).conflict_degree());
    // With columns 129 apart, as in step 2, every second copy would be misaligned.
    let odd = ComposedLayout::plain(layout!((128, 8, 2):(1, 129, 1032)));
    println!("{}", COPY.try_access_d(odd).unwrap_err());

    let device = Device::open()?;
    let product = Product::<f32>::random(&device, Fast::Mn, Fast::Mn);
    let ((m, n, k), (lda, ldb, ldc)) = (product.extents, product.leading);
    let (a, b) = (device.upload(&product.a)?, device.upload(&product.b)?);
    let mut c = device.upload(&vec![f32::NAN; product.c.len()])?;
    // One block of 256 threads for each 128 x 128 tile of C.
    let grid = Grid::new((m.div_ceil(128), n.div_ceil(128)), 256);
    product.time(&device, ladder_double_buffered.name(), || {
        // SAFETY: the buffers contain the matrices with these extents and leading dimensions.
        unsafe { device.launch(&ladder_double_buffered, grid, (&a, &b, &mut c, m, n, k, lda, ldb, ldc)) }
    })?;
    assert!(c.download()? == product.c, "a result that differs from float64");
    Ok(())
}
