//! Transposes of tiles of bytes for products of 8-bit floats.

use moye_device::algorithm::transpose_paired;
use moye_device::arch::{f32x2_to_e4m3x2, prmt, shared_base, sync_threads, thread_idx};
use moye_device::atom::wgmma::{
    SM90_64x32x32_F32E4M3E4M3_RS_TN, SM90_64x64x32_F32E4M3E4M3_SS_TN, accumulators_as_a_paired, paired_column,
};
use moye_device::atom::{AccumulatorOf, TiledMma};
use moye_device::layout::{Major, SwizzleBytes, layout, shared_memory_atom, tuple};
use moye_device::memory::Shared;
use moye_device::number::F8E4M3;
use moye_device::tensor::{Fragment, SharedTensor, StaticLayout, Tensor};
use moye_device::{static_layout, swizzled_layout, tiled_mma};
use moye_sim::intrinsics::{load_shared, store_shared};
use moye_sim::{GlobalMemory, Launch};
use std::sync::Mutex;

swizzled_layout! {
    Rows128 = shared_memory_atom(Major::K, SwizzleBytes::B128, 8).tile_to_shape(tuple!((96, 128)));
    Columns32 = shared_memory_atom(Major::K, SwizzleBytes::B32, 8).tile_to_shape(tuple!((128, 96)));
    Rows64 = shared_memory_atom(Major::K, SwizzleBytes::B64, 8).tile_to_shape(tuple!((64, 64)));
    Columns64 = shared_memory_atom(Major::K, SwizzleBytes::B64, 8).tile_to_shape(tuple!((64, 64)));
    Rows256 = shared_memory_atom(Major::K, SwizzleBytes::B128, 8).tile_to_shape(tuple!((128, 256)));
    Columns128 = shared_memory_atom(Major::K, SwizzleBytes::B128, 8).tile_to_shape(tuple!((256, 128)));
}

/// The byte of an element, by the layout and its swizzle.
fn at<L: StaticLayout>(row: i64, column: i64) -> usize {
    let offset = L::LAYOUT.at_coord([row, column]);
    (offset ^ (offset & L::SWIZZLE.source_mask()) >> L::SWIZZLE.shift()) as usize
}

/// Transposes a tile of random bytes by three warps.
fn transposes<LS: StaticLayout, LD: StaticLayout>() {
    let bytes = LS::LAYOUT.size() as usize;
    let (rows, columns) = (LS::LAYOUT.extent(0), LS::LAYOUT.extent(1));
    let value = |row: i64, column: i64| ((row * 37 + column * 101) ^ ((row * column) >> 3)) as u8;
    let mut source = vec![0u8; bytes];
    for row in 0..rows {
        for column in 0..columns {
            source[at::<LS>(row, column)] = value(row, column);
        }
    }
    let result = Mutex::new(vec![0u8; bytes]);
    let memory = GlobalMemory::new();
    Launch::new("transposes", 1, 96, &memory)
        .shared_bytes(2 * bytes + 1024)
        .run(&|| {
            let thread = thread_idx().x as usize;
            let from = shared_base().next_multiple_of(1024);
            let to = from + bytes as u32;
            for word in (thread..bytes / 4).step_by(96) {
                let value = u32::from_le_bytes(source[4 * word..][..4].try_into().unwrap());
                store_shared(from + 4 * word as u32, value);
            }
            sync_threads();
            let tensor = |address| Shared::<u8>::from_address(address);
            let (from, target): (SharedTensor<u8, LS>, SharedTensor<u8, LD>) =
                (Tensor::shared(tensor(from)), Tensor::shared(tensor(to)));
            // SAFETY: the barriers order writes and reads.
            unsafe { transpose_paired(&from, &target, thread as u32 / 32, 3) };
            sync_threads();
            for word in (thread..bytes / 4).step_by(96) {
                let value: u32 = load_shared(to + 4 * word as u32);
                result.lock().unwrap()[4 * word..][..4].copy_from_slice(&value.to_le_bytes());
            }
        })
        .unwrap();
    let result = result.into_inner().unwrap();
    for column in 0..columns {
        for position in 0..rows {
            let row = i64::from(paired_column(position as u32));
            assert_eq!(
                result[at::<LD>(column, position)],
                value(row, column),
                "column {column}, position {position} of {} to {}",
                LS::LAYOUT,
                LD::LAYOUT
            );
        }
    }
}

#[test]
fn a_tile_of_bytes_is_transposed_into_the_order_of_pairs() {
    transposes::<Rows128, Columns32>();
    transposes::<Rows64, Columns64>();
    transposes::<Rows256, Columns128>();
}

tiled_mma! {
    Scores: TiledMma<SM90_64x64x32_F32E4M3E4M3_SS_TN> = TiledMma::new(layout!((1, 1, 1)));
    Results: TiledMma<SM90_64x32x32_F32E4M3E4M3_RS_TN> = TiledMma::new(layout!((1, 1, 1)));
}
static_layout! { Tile = layout!((64, 64)); }

#[test]
fn accumulators_become_an_operand_whose_columns_are_in_the_order_of_pairs() {
    use moye_device::atom::wgmma::WgmmaAtom;
    type C = SM90_64x64x32_F32E4M3E4M3_SS_TN;
    type A = SM90_64x32x32_F32E4M3E4M3_RS_TN;
    for thread in [0, 1, 2, 3, 5, 31, 32, 77, 127] {
        let mut scores = Fragment::<f32, AccumulatorOf<Tile, Scores>>::filled(0.0);
        // The value of an accumulator is its column, mapped into the range that e4m3 holds exactly.
        let value = |row: i64, column: i64| ((column % 16 - 8) * if row & 8 == 0 { 1 } else { 2 }) as f32;
        for i in 0..32 {
            let place = <C as WgmmaAtom>::C.at_coord([thread, i]);
            // SAFETY: inside the fragment.
            unsafe { scores.set(i as usize, value(place % 64, place / 64)) };
        }
        let operand: Fragment<F8E4M3, _> = accumulators_as_a_paired::<Results, _, _, Tile>(&scores);
        for i in 0..32 {
            let place = <A as WgmmaAtom>::A.at_coord([thread, i % 16]);
            let position = place / 64 + 32 * (i / 16);
            let want = value(place % 64, i64::from(paired_column(position as u32)));
            // SAFETY: inside the fragment, which is written.
            let got = unsafe { operand.get(i as usize) }.to_f32();
            assert_eq!(got, want, "thread {thread}, value {i}");
        }
    }
}

#[test]
fn two_values_are_rounded_to_bytes_the_first_in_the_lower() {
    for (low, high) in [(1.0f32, -0.3f32), (1e9, f32::NAN), (-17.0, 0.001)] {
        let bytes = f32x2_to_e4m3x2(low, high).to_le_bytes();
        assert_eq!(bytes, [low, high].map(|value| F8E4M3::from_f32(value).to_bits()));
    }
    assert_eq!(prmt(0x0302_0100, 0x0706_0504, 0x7531), 0x0705_0301);
}
