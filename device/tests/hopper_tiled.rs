//! `wgmma` as a tiled MMA and TMA as a tiled copy: descriptors and boxes agree with the layouts.

use half::bf16;
use moye_device::algorithm::copy;
use moye_device::arch::{
    bulk_commit_group, bulk_wait_group, fence_mbarrier_init, fence_proxy_async_shared,
    mbarrier_arrive_expect_tx, mbarrier_init, mbarrier_wait_parity, shared_base, sync_threads, thread_idx,
};
use moye_device::atom::tma::{TmaCopy, TmaMap, TmaTiled};
use moye_device::atom::wgmma::{
    MN_MAJOR, SM90_64x64x16_F32BF16BF16_RS, SM90_64x128x16_F32BF16BF16_SS as Atom, SharedOperand,
};
use moye_device::atom::{StaticTiledMma, TiledMma};
use moye_device::layout::{ComposedLayout, Layout, Major, SwizzleBytes, layout, shared_memory_atom, tuple};
use moye_device::memory::{Global, GlobalMut, Shared};
use moye_device::tensor::{OneStage, SharedTensor, StaticLayout, Tensor};
use moye_device::{partition, static_layout, swizzled_layout, tensor, tile, tiled_mma};
use moye_sim::{GlobalMemory, Launch};

const ATOM: ComposedLayout = shared_memory_atom(Major::K, SwizzleBytes::B128, 16);
swizzled_layout! {
    Rows = ATOM.tile_to_shape(tuple!((128, 128, 4)));
    Columns = ComposedLayout::new(ATOM.swizzle, 0, ATOM.tile_to_shape(tuple!((96, 64, 2))).layout.select(&[1, 0, 2]));
}
tiled_mma! {
    Pair: TiledMma<Atom> = TiledMma::new(layout!((2, 1, 1)));
    Transposed: TiledMma<SM90_64x64x16_F32BF16BF16_RS<MN_MAJOR>> = TiledMma::new(layout!((1, 1, 1)));
}

/// The array of layout `L` at this shared address.
fn array<L: StaticLayout>(address: u32) -> SharedTensor<u16, L> {
    Tensor::shared(Shared::from_address(address))
}

#[test]
fn a_tensor_of_descriptors_has_those_of_each_instruction_warpgroup_and_stage() {
    const ADDRESS: u32 = 0x2400;
    const TILE: ComposedLayout = ATOM.tile_to_shape(tuple!((128, 128)));
    let operand = SharedOperand::a::<Atom>(TILE);
    for warpgroup in 0..2 {
        let mma = Pair::get_slice(128 * warpgroup);
        let tCrA = mma.fragment_a(&mma.partition_a(array::<Rows>(ADDRESS))); // (1, MMA_M, MMA_K, PIPE)
        let tCrB = mma.fragment_b(&mma.partition_b(array::<Rows>(ADDRESS))); // (1, MMA_N, MMA_K, PIPE)
        assert_eq!(tCrA.layout().shape(), tuple!(((1), 1, (4, 2), (1, 4))));
        for stage in 0..4 {
            let address = ADDRESS + stage * 128 * 128 * 2;
            for k in 0..8 {
                let expected = operand.descriptor(address, warpgroup as usize, k);
                assert_eq!(tCrA.at((.., .., .., stage)).descriptor(k), expected, "A, stage {stage}, k {k}");
                assert_eq!(
                    tCrA.at((.., .., k as u32, stage)).descriptor(0),
                    expected,
                    "A, stage {stage}, k {k}"
                );
                let expected = operand.descriptor(address, 0, k);
                assert_eq!(tCrB.at((.., .., .., stage)).descriptor(k), expected, "B, stage {stage}, k {k}");
            }
        }
    }
}

#[test]
fn a_transposed_operand_has_descriptors_along_its_contiguous_mode() {
    let mma = Transposed::get_slice(0);
    let part = mma.partition_b(array::<Columns>(0x400));
    let tCrB = mma.fragment_b(&part); // (1, MMA_N, MMA_K, PIPE)
    let tile = ComposedLayout::new(Columns::SWIZZLE, 0, Columns::LAYOUT.take(0, 2));
    let operand = SharedOperand::b::<SM90_64x64x16_F32BF16BF16_RS<MN_MAJOR>>(tile);
    for k in 0..6 {
        assert_eq!(
            tCrB.at((.., .., .., 1)).descriptor(k),
            operand.descriptor(0x400 + 96 * 64 * 2, 0, k),
            "k {k}"
        );
    }
}

swizzled_layout! {
    SmemA = ATOM.tile_to_shape(tuple!((64, 64))); // (BLK_M, BLK_K)
    SmemB = ATOM.tile_to_shape(tuple!((256, 64))); // (BLK_N, BLK_K)
}
static_layout! { TileC = layout!((64, 256)); }
tiled_mma! { Beside: TiledMma<Atom> = TiledMma::new(layout!((1, 2, 1))); }

/// `c = a b^T`, 64 x 256 x 64, by two warpgroups side by side along N, step by step along K.
///
/// # Safety
/// The three pointers hold these matrices, with K and N contiguous.
unsafe fn beside(a: Global<bf16>, b: Global<bf16>, c: GlobalMut<f32>) {
    let thread = thread_idx().x;
    let gA = tile!(tensor!(a, (64u32, 64u32), (64, 1)), (64, 64), (0, 0)); // (BLK_M, BLK_K)
    let gB = tile!(tensor!(b, (256u32, 64u32), (64, 1)), (256, 64), (0, 0)); // (BLK_N, BLK_K)
    let gC = tile!(tensor!(c, (64u32, 256u32), (256, 1)), (64, 256), (0, 0)); // (BLK_M, BLK_N)
    let sA: SharedTensor<bf16, SmemA> = Tensor::shared(Shared::from_address(shared_base()));
    let sB: SharedTensor<bf16, SmemB> = Tensor::shared(Shared::from_address(shared_base() + 64 * 64 * 2));
    // SAFETY: each thread copies its part of the tiles; the warpgroups multiply after a barrier.
    unsafe {
        copy(&partition!(gA, (64, 4), thread), &mut partition!(sA, (64, 4), thread));
        copy(&partition!(gB, (64, 4), thread), &mut partition!(sB, (64, 4), thread));
        fence_proxy_async_shared();
        sync_threads();
        let mma = Beside::get_slice(thread / 128 * 128);
        let tCrA = mma.fragment_a(&mma.partition_a(sA)); // (1, MMA_M, MMA_K)
        let tCrB = mma.fragment_b(&mma.partition_b(sB)); // (1, MMA_N, MMA_K)
        let mut tCrC = mma.accumulator::<TileC>(); // (MMA, MMA_M, MMA_N)
        mma.gemm_zero(&mut tCrC, tCrA.at((.., .., 0)), tCrB.at((.., .., 0)));
        for k in 1..4 {
            mma.gemm(&mut tCrC, tCrA.at((.., .., k)), tCrB.at((.., .., k)));
        }
        mma.wait_for::<0>(&mut tCrC);
        copy(&tCrC, Beside::get_slice(thread).partition_c(gC));
    }
}

#[test]
fn warpgroups_side_by_side_multiply_their_columns_of_b() {
    for warpgroup in 0..2 {
        let mma = Beside::get_slice(128 * warpgroup);
        let tCrA = mma.fragment_a(&mma.partition_a(array::<SmemA>(0x2400))); // (1, MMA_M, MMA_K)
        let tCrB = mma.fragment_b(&mma.partition_b(array::<SmemB>(0x2400))); // (1, MMA_N, MMA_K)
        let (a, b) = (ATOM.tile_to_shape(tuple!((64, 64))), ATOM.tile_to_shape(tuple!((256, 64))));
        for k in 0..4 {
            assert_eq!(tCrA.descriptor(k), SharedOperand::a::<Atom>(a).descriptor(0x2400, 0, k));
            let expected = SharedOperand::b::<Atom>(b).descriptor(0x2400, warpgroup as usize, k);
            assert_eq!(tCrB.descriptor(k), expected, "warpgroup {warpgroup}, k {k}");
        }
    }
    let memory = GlobalMemory::new();
    let a: Vec<bf16> = (0..64 * 64).map(|i| bf16::from_f32((i * 7 % 13) as f32 - 6.0)).collect();
    let b: Vec<bf16> = (0..256 * 64).map(|i| bf16::from_f32((i * 5 % 11) as f32 - 5.0)).collect();
    let (da, db) = (memory.upload(&a, "a").unwrap(), memory.upload(&b, "b").unwrap());
    let c = memory.upload(&vec![f32::NAN; 64 * 256], "c").unwrap();
    Launch::new("beside", 1, 256, &memory)
        .shared_bytes((64 + 256) * 64 * 2)
        .run(&|| {
            let pointers = (Global::from_address(da.address()), Global::from_address(db.address()));
            // SAFETY: the buffers hold the matrices.
            unsafe { beside(pointers.0, pointers.1, GlobalMut::from_address(c.address())) }
        })
        .unwrap();
    for (i, got) in c.download::<f32>().into_iter().enumerate() {
        let (m, n) = (i / 256, i % 256);
        let want: f32 = (0..64).map(|k| a[64 * m + k].to_f32() * b[64 * n + k].to_f32()).sum();
        assert_eq!(got, want, "({m}, {n})");
    }
}

#[test]
fn blocks_of_a_cluster_load_their_parts_of_a_tile() {
    type Whole = TmaCopy<u16, OneStage<Rows>, 2>;
    type Half = TmaCopy<u16, OneStage<Rows>, 2, 2>;
    assert_eq!((Whole::TILE.copies(), Whole::BYTES), (2, 128 * 128 * 2));
    assert_eq!((Half::TILE.copies(), Half::TILE.bytes(), Half::BYTES), (2, 64 * 128 * 2, 128 * 128 * 2));
}

static_layout! {
    Line = layout!((32));
    Plane = layout!((32, 2));
    Room = layout!((16, 2, 2));
    RowsFirst = layout!((4, 32):(32, 1));
}

/// One thread loads the tiles of a tensor one by one and adds each to another tensor.
fn adds<L: StaticLayout, const R: usize>(extents: [i64; R], strides: [i64; R]) {
    type Copy<L, const R: usize> = TmaCopy<f32, L, R>;
    let memory = GlobalMemory::new();
    let tensor = Layout::new(moye_device::IntTuple::flat(&extents), moye_device::IntTuple::flat(&strides));
    let size = tensor.cosize() as usize;
    let from = memory.upload(&(0..size).map(|i| i as f32).collect::<Vec<_>>(), "from").unwrap();
    let to = memory.upload(&vec![0.5f32; size], "to").unwrap();
    let map = |address| {
        TmaMap::<Copy<L, R>>::from_words(Copy::<L, R>::tensor_map(address, &tensor).unwrap().encode())
    };
    let (source, destination) = (map(from.address()), map(to.address()));
    let tiles: Vec<u32> = (0..R)
        .map(|mode| {
            let extent = if mode < L::LAYOUT.rank() { L::LAYOUT.extent(mode) } else { 1 };
            (extents[mode] as u32).div_ceil(extent as u32)
        })
        .collect();
    let all: u32 = tiles.iter().product();
    let bytes = <Copy<L, R> as TmaTiled>::TILE.bytes();
    Launch::new("adds", 1, 32, &memory)
        .shared_bytes(bytes as usize + 1024)
        .run(&|| {
            let (tile, barrier) = (array_of::<L>(shared_base()), shared_base() + bytes.next_multiple_of(128));
            let copy = Copy::<L, R>::get_slice();
            // SAFETY: one thread does all, in the order that TMA requires.
            unsafe {
                if thread_idx().x == 0 {
                    mbarrier_init(barrier, 1);
                    fence_mbarrier_init();
                }
                sync_threads();
                for number in 0..if thread_idx().x == 0 { all } else { 0 } {
                    let mut rest = number;
                    let at = std::array::from_fn(|mode| {
                        let at = rest % tiles[mode];
                        rest /= tiles[mode];
                        at
                    });
                    copy.prefetch(source.tensor().at(at));
                    mbarrier_arrive_expect_tx(barrier, bytes);
                    copy.copy_to_barrier(source.tensor().at(at), tile, barrier);
                    mbarrier_wait_parity(barrier, number % 2);
                    fence_proxy_async_shared();
                    copy.reduce_add(tile, destination.tensor().at(at));
                    bulk_commit_group();
                    bulk_wait_group::<0>();
                }
            }
        })
        .unwrap();
    let result = to.download::<f32>();
    for index in 0..tensor.size() {
        let at = tensor.at(index) as usize;
        assert_eq!(result[at], at as f32 + 0.5, "element {at} of {tensor}");
    }
}

fn array_of<L: StaticLayout>(address: u32) -> SharedTensor<f32, L> {
    Tensor::shared(Shared::from_address(address))
}

#[test]
fn tiles_of_tensors_of_1_to_5_modes_are_loaded_and_added_also_beyond_their_edges() {
    adds::<Line, 1>([100], [1]);
    adds::<Line, 2>([40, 3], [1, 44]);
    adds::<Plane, 3>([40, 5, 2], [1, 40, 200]);
    adds::<RowsFirst, 3>([6, 40, 2], [40, 1, 240]);
    adds::<Room, 4>([20, 3, 3, 2], [1, 20, 60, 180]);
    adds::<Room, 5>([16, 3, 2, 2, 2], [1, 16, 48, 96, 192]);
}
