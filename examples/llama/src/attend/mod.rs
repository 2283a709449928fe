//! Attention of the next token of each sequence in one kernel, which includes the rotation, the
//! append to the cache, and the reduction of the splits.

pub mod kernel;
pub mod parameters;

#[cfg(not(target_arch = "nvptx64"))]
pub use host::*;

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::kernel::{self, QUERIES, VECTOR, warps};
    use super::parameters::{Places, Sizes, Tables, Tokens, Work};
    use crate::cache::LayerCache;
    use crate::config::Config;
    use crate::layer::Batch;
    use half::f16;
    use moye::{Buffer, Device, Grid, Module, Stream};
    use moye_device::memory::{Global, GlobalMut};

    /// Keys of a tile for heads of `VECTOR` elements. The tile shrinks with the head's size, so
    /// that a block makes the same number of passes.
    const TILE: usize = 8192;
    /// Up to this number of keys of a sequence, each block computes one query head and reads the
    /// keys again.
    const FEW_KEYS: usize = 2048;

    /// The kernel, and a workspace for the results of splits.
    pub struct Attend {
        module: Module,
        partials: Buffer<f32>,
        counters: Buffer<u32>,
        multiprocessors: usize,
        /// The maximum number of keys of a sequence.
        keys: usize,
        tile: usize,
    }

    /// The layout of the tokens' queries, keys or values in a buffer.
    #[derive(Clone, Copy)]
    pub struct Place {
        /// The first element.
        pub start: usize,
        /// The stride between tokens.
        pub stride: usize,
    }

    /// The tokens' queries, keys, values and results.
    pub struct TokenBuffers<'a> {
        /// Queries, keys and values.
        pub qkv: &'a Buffer<f16>,
        /// The layouts of queries, keys and values in `qkv`.
        pub places: [Place; 3],
        /// The results, one row for each token.
        pub o: &'a mut Buffer<f16>,
    }

    impl Attend {
        /// For at most `sequences` sequences of `context` tokens.
        ///
        /// # Errors
        /// The errors of the device.
        pub fn new(device: &Device, config: &Config, sequences: usize, context: usize) -> moye::Result<Self> {
            let tile = TILE / (config.head / VECTOR as usize).next_power_of_two().max(8);
            Self::with_tiles_of(tile, device, config, sequences, context)
        }

        /// The same with tiles of `tile` keys, for tests.
        ///
        /// # Errors
        /// The errors of the device.
        pub fn with_tiles_of(
            tile: usize,
            device: &Device,
            config: &Config,
            sequences: usize,
            context: usize,
        ) -> moye::Result<Self> {
            let multiprocessors = device.rates().multiprocessors as usize;
            // One split has at most this number of blocks; with several splits there are at most
            // two blocks for each SM.
            let of_split = sequences * config.heads;
            let blocks = of_split.max(2 * multiprocessors);
            let partials = blocks * QUERIES as usize * (config.head + 2);
            Ok(Self {
                module: device.load(&crate::PTX)?,
                partials: device.alloc_uninit(partials)?,
                counters: device.alloc_zeroed(of_split)?,
                multiprocessors,
                keys: context,
                tile,
            })
        }

        /// Rotates the queries and keys of one token of each sequence, appends keys and values to
        /// the cache, one row for each slot, and attends.
        ///
        /// # Errors
        /// The errors of the launch.
        ///
        /// # Safety
        /// The rotated elements of a head are a multiple of 16. The tokens have queries, keys and
        /// values at their places; the tables have their positions, the cache their slots and
        /// pages, and `self` the number of sequences; starts and strides are multiples of 8
        /// elements. Until the work is complete, no other stream uses the arguments.
        pub unsafe fn run(
            &self,
            stream: &Stream,
            config: &Config,
            batch: &Batch<'_>,
            TokenBuffers { qkv, places, o }: TokenBuffers<'_>,
            tables: &[Buffer<f32>; 2],
            cache: LayerCache<'_>,
        ) -> moye::Result<()> {
            let &Config { heads, kv_heads, head, .. } = config;
            let first =
                |of: Place| Global::from_address(qkv.address() + (of.start * size_of::<f16>()) as u64);
            let [q, k, v] = places;
            let (pages, pages_of_row) = &batch.pages;
            let Self { multiprocessors, keys, .. } = *self;
            // Blocks of one query head each, if there is at most one for each SM.
            let few = batch.tokens * heads <= multiprocessors && keys <= FEW_KEYS;
            let queries = if few { 1 } else { QUERIES as usize };
            let blocks = kv_heads * (heads / kv_heads).div_ceil(queries);
            let of_split = blocks * batch.tokens;
            let most = (2 * multiprocessors / of_split).min(keys.div_ceil(self.tile)).max(1);
            let global = |address| Global::from_address(address);
            let arguments = (
                Tokens {
                    q: first(q),
                    k: first(k),
                    v: first(v),
                    q_row: q.stride as i64,
                    k_row: k.stride as i64,
                    v_row: v.stride as i64,
                },
                Tables {
                    cos: Global::from_address(tables[0].address()),
                    sin: Global::from_address(tables[1].address()),
                    rotated: config.rotation.elements as u32,
                    adjacent: config.rotation.adjacent,
                },
                Places {
                    positions: global(batch.positions.address()),
                    lengths: global(batch.lengths.address()),
                    slots: global(batch.slots.address()),
                    pages: global(pages.address()),
                    pages_of_row: *pages_of_row as u32,
                    page_bits: cache.page.ilog2(),
                },
                GlobalMut::from_address(cache.buffer.address()),
                Work {
                    partials: GlobalMut::from_address(self.partials.address()),
                    counters: GlobalMut::from_address(self.counters.address()),
                },
                GlobalMut::from_address(o.address()),
                Sizes {
                    heads: heads as u32,
                    kv_heads: kv_heads as u32,
                    head: head as u32,
                    queries: queries as u32,
                    splits: most as u32,
                    tile: self.tile as u32,
                    scale: std::f32::consts::LOG2_E / (head as f32).sqrt(),
                },
            );
            let grid =
                Grid::new((blocks as u32, most as u32, batch.tokens as u32), 32 * warps(queries)).dependent();
            let kernel = match (head, queries) {
                (0..=64, 1) => &kernel::attend_64_1,
                (0..=64, _) => &kernel::attend_64_4,
                (65..=128, 1) => &kernel::attend_128_1,
                (65..=128, _) => &kernel::attend_128_4,
                (_, 1) => &kernel::attend_256_1,
                _ => &kernel::attend_256_4,
            };
            self.module.launch_on(stream, kernel, grid, arguments)
        }
    }
}
