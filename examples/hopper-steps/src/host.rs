//! The host side: the launch of each step, and the check of its result.

use crate::{step1, step2, step3, step4, step5, step6, step7};
use anyhow::{Context, Result, bail, ensure};
use half::bf16;
use moye::layout::layout;
use moye::{
    Arch, Buffer, Device, GlobalMut, Grid, Kernel, Module, Ptx, TensorMapOf, TensorPromotion, include_ptx,
};
use moye_device::atom::tma::{TmaCopy, TmaMap};
use moye_device::tensor::StaticLayout;
use std::fmt;
use std::str::FromStr;

/// The build script's output.
pub static KERNELS: Ptx = include_ptx!("hopper_steps");

/// M, N and K.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Rows of A and C.
    pub m: u32,
    /// Rows of B, columns of C.
    pub n: u32,
    /// Columns of A and B.
    pub k: u32,
}

impl Size {
    /// The operations of a product.
    pub fn flops(self) -> f64 {
        2.0 * f64::from(self.m) * f64::from(self.n) * f64::from(self.k)
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Option<Vec<u32>> =
            text.split('x').map(|part| part.parse().ok().filter(|&extent| extent > 0)).collect();
        match parts.as_deref() {
            Some(&[m, n, k]) => Ok(Self { m, n, k }),
            _ => Err(format!("`{text}` is not a size: expected MxNxK, such as 4096x4096x4096")),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}x{}", self.m, self.n, self.k)
    }
}

/// A step's kernel, which builds its tensor maps from its copies.
pub trait Entry: Sync {
    /// Bytes of shared memory.
    fn shared_bytes(&self) -> usize;

    /// Launches it.
    ///
    /// # Safety
    /// The grid is the kernel's, and the extents are multiples of the kernel's tile.
    ///
    /// # Errors
    /// The errors of the device.
    unsafe fn launch(&self, product: &mut Product, grid: Grid) -> Result<()>;
}

/// The copy of a matrix, by tiles of layout `L`, shared by `CLUSTER` blocks.
type Copy<L, const CLUSTER: u32> = TmaCopy<bf16, L, 2, CLUSTER>;

/// One block for each tile; threads write C.
type OfTiles<A, B> = Kernel<(TmaMap<A>, TmaMap<B>, GlobalMut<bf16>, u32, u32)>;
/// A persistent grid; threads write C.
type Persistent<A, B> = Kernel<(TmaMap<A>, TmaMap<B>, GlobalMut<bf16>, u32, u32, u32)>;
/// A persistent grid; TMA stores C.
type Stored<A, B, C> = Kernel<(TmaMap<A>, TmaMap<B>, TmaMap<C>, u32, u32, u32)>;

/// An [`Entry`] of kernels of a type: the arguments for product `p` of extents `m`, `n` and `k`, by
/// the maps of A and B.
macro_rules! entry {
    ($kernel:ty, <$($c:ident)?>, |$p:ident, $m:ident, $n:ident, $k:ident, $a:ident, $b:ident| $arguments:expr) => {
        impl<LA: StaticLayout, LB: StaticLayout, $($c: StaticLayout,)? const CA: u32, const CB: u32> Entry for $kernel {
            fn shared_bytes(&self) -> usize {
                Kernel::shared_bytes(self)
            }

            unsafe fn launch(&self, $p: &mut Product, grid: Grid) -> Result<()> {
                let Size { m: $m, n: $n, k: $k } = $p.size;
                let ($a, $b) = (&map(&$p.a, "A", $m, $k)?, &map(&$p.b, "B", $n, $k)?);
                // SAFETY: the maps are of the matrices; C has m * n elements; the caller checked
                // grid and extents.
                unsafe { $p.module.launch(self, grid, $arguments)? };
                Ok(())
            }
        }
    };
}
entry!(OfTiles<Copy<LA, CA>, Copy<LB, CB>>, <>, |p, m, n, k, a, b| (a, b, &mut p.c, n, k));
entry!(Persistent<Copy<LA, CA>, Copy<LB, CB>>, <>, |p, m, n, k, a, b| (a, b, &mut p.c, m, n, k));
entry!(Stored<Copy<LA, CA>, Copy<LB, CB>, Copy<LC, 1>>, <LC>, |p, m, n, k, a, b| (a, b, &map_c(p)?, m, n, k));

/// A step.
#[derive(Clone, Copy)]
pub struct Step {
    /// The kernel's name.
    pub name: &'static str,
    /// The change from the previous step.
    pub what: &'static str,
    /// The kernel.
    pub entry: &'static dyn Entry,
    /// Whether its grid is persistent instead of one block for each tile.
    pub persistent: bool,
    /// A block's tile of C.
    pub tile: [u32; 2],
    /// Threads of a block.
    pub threads: u32,
    /// Blocks of a cluster, along M.
    pub cluster: u32,
}

/// The first step: 128 x 128 for each block of one warpgroup.
const FIRST: Step = Step {
    name: "step1",
    what: "TMA and wgmma in turn, 128 x 128",
    entry: &step1::step1,
    persistent: false,
    tile: [step1::BLK_M, step1::BLK_N],
    threads: 128,
    cluster: 1,
};
/// The third, whose tiles and warpgroups the later ones have.
const THIRD: Step = Step {
    name: "step3",
    what: "128 x 256, two consumers, setmaxnreg",
    entry: &step3::step3,
    tile: [step3::BLK_M, step3::BLK_N],
    threads: 384,
    ..FIRST
};
/// The fourth, whose grid the later ones have.
const FOURTH: Step = Step {
    name: "step4",
    what: "a persistent grid, tiles in bands",
    entry: &step4::step4,
    persistent: true,
    ..THIRD
};
/// The sixth, whose clusters the last one has.
const SIXTH: Step = Step {
    name: "step6",
    what: "clusters of two, B by multicast",
    entry: &step6::step6,
    cluster: step6::CLUSTER,
    ..FOURTH
};

/// All steps, in order.
pub static STEPS: [Step; 7] = [
    FIRST,
    Step {
        name: "step2",
        what: "a producer, a ring of four stages",
        entry: &step2::step2,
        threads: 160,
        ..FIRST
    },
    THIRD,
    FOURTH,
    Step { name: "step5", what: "C by stmatrix and TMA", entry: &step5::step5, ..FOURTH },
    SIXTH,
    Step {
        name: "step7",
        what: "step 6 from parts (moye_device::collective)",
        entry: &step7::step7,
        ..SIXTH
    },
];

impl Step {
    /// Checks that the step supports this size: all extents are multiples of its tiles and stages.
    ///
    /// # Errors
    /// An extent is not such a multiple.
    pub fn check_size(&self, size: Size) -> Result<()> {
        let [tile_m, tile_n] = [self.tile[0] * self.cluster, self.tile[1]];
        for (name, extent, of) in
            [("M", size.m, tile_m), ("N", size.n, tile_n), ("K", size.k, crate::tile::BLK_K)]
        {
            ensure!(
                extent.is_multiple_of(of),
                "{}: {name} = {extent} of {size} is not a multiple of {of}; {} would work",
                self.name,
                extent.next_multiple_of(of)
            );
        }
        Ok(())
    }

    /// Launches the step on the device's default stream.
    ///
    /// # Errors
    /// An unsupported size, and the errors of the device.
    pub fn launch(&self, product: &mut Product) -> Result<()> {
        let size = product.size;
        self.check_size(size)?;
        let [rows, columns] = [size.m / self.tile[0], size.n / self.tile[1]];
        let grid = if self.persistent {
            // Whole clusters: as many as fit on the SMs, or fewer if there are fewer tiles.
            let blocks = product.device.properties().multiprocessors / self.cluster * self.cluster;
            Grid::new(blocks.clamp(self.cluster, rows * columns), self.threads).clusters(self.cluster)
        } else {
            Grid::new((rows, columns), self.threads)
        };
        // SAFETY: the extents were checked.
        unsafe { self.entry.launch(product, grid) }
    }
}

/// The map of C, which one block stores.
///
/// # Errors
/// Same as [`map`].
fn map_c<L: StaticLayout>(p: &Product) -> Result<TensorMapOf<Copy<L, 1>>> {
    map(&p.c, "C", p.size.m, p.size.n)
}

/// The map of a row-major matrix for a kernel's copy.
fn map<L: StaticLayout, const CLUSTER: u32>(
    matrix: &Buffer<bf16>,
    name: &str,
    rows: u32,
    columns: u32,
) -> Result<TensorMapOf<Copy<L, CLUSTER>>> {
    let (rows, columns) = (i64::from(rows), i64::from(columns));
    // L2 fetches whole rows of a box, not half rows.
    TensorMapOf::new(matrix, &layout!((rows, columns):(columns, 1)))
        .and_then(|map| map.with_promotion(TensorPromotion::B256))
        .with_context(|| format!("the tensor map of {name}"))
}

/// Two random matrices with values from -1 to 1 and their product, on a device; some rows of the
/// product in float64.
pub struct Product {
    device: Device,
    module: Module,
    size: Size,
    a: Buffer<bf16>,
    b: Buffer<bf16>,
    c: Buffer<bf16>,
    expected: Vec<(usize, Vec<f64>)>,
}

impl Product {
    /// Uploads the matrices, and computes this number of rows of the product, spread over it.
    ///
    /// # Errors
    /// The errors of the device, such as too little memory.
    pub fn new(device: &Device, size: Size, rows: usize, seed: u64) -> Result<Self> {
        let mut random = fastrand::Rng::with_seed(seed);
        let (m, n, k) = (size.m as usize, size.n as usize, size.k as usize);
        let mut matrix = |rows: usize| -> Vec<bf16> {
            (0..rows * k).map(|_| bf16::from_f32(2.0 * random.f32() - 1.0)).collect()
        };
        let (a, b) = (matrix(m), matrix(n));
        let rows = rows.min(m);
        let expected = (0..rows).map(|i| {
            // A different row of each part, so that all positions in a tile occur.
            let row = i * m / rows + 37 * i % (m / rows);
            let a: Vec<f64> = a[row * k..][..k].iter().map(|x| x.to_f64()).collect();
            let sum = |b: &[bf16]| a.iter().zip(b).map(|(a, b)| a * b.to_f64()).sum();
            (row, b.chunks_exact(k).map(sum).collect())
        });
        Ok(Self {
            device: device.clone(),
            module: device.load(&KERNELS)?,
            size,
            expected: expected.collect(),
            a: device.upload(&a)?,
            b: device.upload(&b)?,
            c: device.alloc_uninit(m * n)?,
        })
    }

    /// Runs a step on a C of NaNs and compares the result with the float64 rows: the norm of the
    /// difference, relative to that of the rows.
    ///
    /// # Errors
    /// An unwritten element, with its coordinates; a size that the step does not support; an error
    /// of the device.
    pub fn relative_error(&mut self, step: &Step) -> Result<f64> {
        self.c.fill_bytes(0xFF)?;
        step.launch(self)?;
        let c = self.c.download()?;
        let n = self.size.n as usize;
        if let Some(at) = c.iter().position(|x| x.is_nan()) {
            bail!(
                "{}: C({}, {}) of {} was not written, or is not a number",
                step.name,
                at / n,
                at % n,
                self.size
            );
        }
        let (mut difference, mut norm) = (0.0, 0.0);
        for (row, expected) in &self.expected {
            for (c, sum) in c[row * n..].iter().zip(expected) {
                difference += (c.to_f64() - sum).powi(2);
                norm += sum * sum;
            }
        }
        Ok((difference / norm).sqrt())
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }
}

/// The allowed relative norm error of a result: rounding to bf16 takes about 0.0017.
pub const TOLERANCE: f64 = 0.003;

/// Whether a device runs the kernels: Hopper, because they are compiled for sm_90a, or the
/// simulator.
pub fn runs_on(device: &Device) -> bool {
    !device.is_gpu() || device.arch() == Arch::new(9, 0)
}
