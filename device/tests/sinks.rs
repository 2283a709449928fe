//! Sinks on the simulator: rows of C anywhere in memory.

use moye_device::arch::{lane_id, shared_base, sync_warp, thread_idx};
use moye_device::collective::{Corner, blocks_of_vectors, fill_box, store_vectors, store_words};
use moye_device::layout::{Major, SwizzleBytes, shared_memory_atom, tuple};
use moye_device::memory::Element;
use moye_device::swizzled_layout;
use moye_device::tensor::StaticLayout;
use moye_sim::intrinsics::load_shared;
use moye_sim::{GlobalMemory, Launch, Pod};

swizzled_layout! {
    Boxes16 = shared_memory_atom(Major::K, SwizzleBytes::B128, 16).tile_to_shape(tuple!((64, 64, 2)));
    Boxes32 = shared_memory_atom(Major::K, SwizzleBytes::B128, 32).tile_to_shape(tuple!((64, 32, 2)));
}

/// An element of C whose bits encode its coordinate.
trait Number: Element<Bits = Self> + Pod + PartialEq + std::fmt::Debug {
    const NONE: Self;
    fn at(row: u32, column: u32) -> Self;
    fn bits(self) -> u64;
}

macro_rules! numbers {
    ($($t:ident)+) => { $(
        impl Number for $t {
            const NONE: Self = Self::MAX;
            fn at(row: u32, column: u32) -> Self {
                (200 * row + column) as Self
            }
            fn bits(self) -> u64 {
                self.into()
            }
        }
    )+ };
}
numbers!(u16 u32);

/// Runs `store` with the corner of a C whose first element is element `first` of its buffer and
/// whose rows are `ld` elements apart. Exactly the elements within `left` are stored.
fn stores<O: Number>(
    threads: u32,
    first: usize,
    ld: usize,
    left: (u32, u32),
    store: impl Fn(&Corner) + Sync,
) {
    let memory = GlobalMemory::new();
    let before = vec![O::NONE; first + 64 * ld + 256];
    let c = memory.upload(&before, "c").unwrap();
    let address = c.address() + (first * O::BYTES) as u64;
    let corner = Corner { address, row: (ld * O::BYTES) as i64, left };
    Launch::new("store", 1, threads, &memory)
        .shared_bytes(17 << 10)
        .run(&|| store(&corner))
        .unwrap_or_else(|fault| panic!("{left:?} of rows of {ld}: {fault}"));
    for (i, got) in c.download::<O>().into_iter().enumerate() {
        let (row, column) = (i.wrapping_sub(first) / ld, i.wrapping_sub(first) % ld);
        let inside = i >= first && row < left.0 as usize && column < left.1 as usize;
        let expected = if inside { O::at(row as u32, column as u32) } else { O::NONE };
        assert_eq!(got, expected, "{row}, {column} of {left:?}, rows of {ld} from {first} on");
    }
}

fn in_vectors<O: Number>() {
    let word = 16 / O::BYTES as u32;
    for (ld, left) in [(64, (16, 64)), (40, (9, 3 * word)), (64, (16, word)), (48, (1, 32)), (64, (0, 64))] {
        let first = 16 / O::BYTES;
        stores::<O>(32, first, ld, left, |corner| {
            let lane = lane_id();
            let pair = |block: u32, below: u32| {
                let (row, column) = (lane / 4 + 8 * below, 8 * block + 2 * (lane % 4));
                O::at(row, column).bits() | O::at(row, column + 1).bits() << (8 * O::BYTES)
            };
            let blocks = 8;
            assert!(blocks % blocks_of_vectors::<O>() == 0);
            // SAFETY: one warp; rows are whole vectors.
            unsafe { store_vectors::<O>(pair, blocks, corner, 0, lane) };
        });
    }
}

#[test]
fn quads_of_lanes_store_rows_in_vectors_up_to_the_edges_of_c() {
    in_vectors::<u16>();
    in_vectors::<u32>();
}

/// A warpgroup's results in two boxes, laid out as `L`, each stored by each warp.
fn in_words<O: Number, L: StaticLayout>() {
    let columns = 256 / O::BYTES as u32;
    let places = [
        (0, columns as usize, (64, columns)),
        (1, columns as usize + 1, (64, columns)),
        (2, columns as usize + 3, (53, columns - 1)),
        (3, columns as usize + 2, (16, 1)),
        (1, 2 * columns as usize, (5, columns / 2 + 1)),
    ];
    for (first, ld, left) in places {
        for count in 1..=2 {
            let left = (left.0, left.1.min(count * columns / 2));
            stores::<O>(128, first, ld, left, |corner| {
                let (thread, lane) = (thread_idx().x, lane_id());
                let base = shared_base().next_multiple_of(1024);
                let row = thread / 32 * 16 + lane / 4;
                // SAFETY: a warpgroup, whose warps store rows that they have written.
                unsafe {
                    for b in 0..count {
                        fill_box::<O>(base + b * 8192, thread, |i| {
                            let column = b * columns / 2 + 8 * (i as u32 / 4) + 2 * (lane % 4);
                            let row = row + 8 * (i as u32 / 2 % 2);
                            O::at(row, column).bits() | O::at(row, column + 1).bits() << (8 * O::BYTES)
                        });
                    }
                    sync_warp(u32::MAX);
                    for b in 0..count {
                        let (row, column) = (thread / 32 * 16 + 3, b * columns / 2 + 5);
                        let offset = L::SWIZZLE.apply(L::LAYOUT.at(i64::from(row + 64 * column)));
                        let got: O = load_shared(base + (offset as usize * O::BYTES) as u32);
                        assert_eq!(got, O::at(row, column), "box {b} by its layout");
                    }
                    store_words::<O>(base, count, 0, corner, thread / 32, lane);
                }
            });
        }
    }
}

#[test]
fn warps_store_rows_of_boxes_at_any_address() {
    in_words::<u16, Boxes16>();
    in_words::<u32, Boxes32>();
}
