//! Tensors on the simulator: partitions cover their tile once, accesses are as wide as layout and
//! alignment allow and no wider, and out-of-bounds elements are neither read nor written.

use half::f16;
use moye_device::algorithm::{copy, copy_async};
use moye_device::arch::{block_dim, cp_async_commit, cp_async_wait, sync_threads, thread_idx};
use moye_device::layout::Layout;
use moye_device::memory::{Element, Global, GlobalMut, Shared, SharedArray, SharedStorage};
use moye_device::tensor::{
    Aligned, All, Dense, Fragment, FragmentLike, IdentityOf, Matrix, One, PartitionOf, Registers,
    StaticLayout, Step, Strided, ThreadOf, UnitStride, X, run_of,
};
use moye_device::{layout, static_layout};
use moye_sim::Launch;
use moye_sim::memory::{Allocation, GlobalMemory};

static_layout! {
    Tile = layout!((32, 32));
    Padded = layout!((32, 32) : (1, 33));
    PaddedBy4 = layout!((32, 32) : (1, 36));
    RowMajor = layout!((32, 32) : (32, 1));
    /// A thread takes every eighth column.
    Columns = layout!((1, 8));
    Threads = layout!((32, 8));
    ThreadsRowMajor = layout!((32, 8) : (8, 1));
    Square = layout!((16, 16));
    Column = layout!((32, 1));
    Operand = layout!((128, 8) : (1, 129));
}

/// Every element of the tile belongs to exactly one thread.
fn covers<L: StaticLayout, T: StaticLayout>() {
    let (threads, values) = (ThreadOf::<L, T>::LAYOUT, PartitionOf::<L, T>::LAYOUT);
    let mut named = vec![0; L::LAYOUT.cosize() as usize];
    for thread in 0..threads.size() {
        for value in 0..values.size() {
            named[(threads.at(thread) + values.at(value)) as usize] += 1;
        }
    }
    for i in 0..L::LAYOUT.size() {
        assert_eq!(named[L::LAYOUT.at(i) as usize], 1, "element {i} of {} by {}", L::LAYOUT, T::LAYOUT);
    }
    assert_eq!(named.iter().sum::<i64>(), L::LAYOUT.size(), "threads name only elements of the tile");
}

#[test]
fn a_partition_covers_its_tile_once() {
    covers::<Tile, Threads>();
    covers::<Tile, ThreadsRowMajor>();
    covers::<Padded, Threads>();
    covers::<RowMajor, Columns>();
    covers::<Padded, Square>();
    covers::<Operand, ThreadsRowMajor>();
}

#[test]
fn a_projection_leaves_a_mode_whole() {
    let rows = PartitionOf::<Operand, Square, Step<One, X>>::LAYOUT;
    assert_eq!(rows, layout!((8, 8):(16, 129)), "(THR_M, BLK_K)");
    // Threads t and t + 16 share a row and so the elements of A; threads of one column share the
    // elements of B.
    let (a, b) = (
        ThreadOf::<Operand, Square, Step<One, X>>::LAYOUT,
        ThreadOf::<Operand, Square, Step<X, One>>::LAYOUT,
    );
    for thread in 0..256 {
        assert_eq!(a.at(thread), thread % 16);
        assert_eq!(b.at(thread), thread / 16);
    }
}

#[test]
fn coordinates_go_through_a_partition_as_offsets_do() {
    let coordinates = PartitionOf::<IdentityOf<Tile>, Threads>::LAYOUT;
    let (rows, columns) = (coordinates.along(0), coordinates.along(1));
    let origin = ThreadOf::<IdentityOf<Tile>, Threads>::LAYOUT;
    for thread in 0..256 {
        for value in 0..4 {
            let row = origin.along(0).at(thread) + rows.at(value);
            let column = origin.along(1).at(thread) + columns.at(value);
            assert_eq!((row, column), (thread % 32, thread / 32 + 8 * value));
        }
    }
}

/// Elements per access to shared memory when each thread takes whole columns.
fn shared_run<T: Element, L: StaticLayout>() -> usize {
    run_of::<Shared<T>, PartitionOf<L, Columns>>()
}

/// Elements per access to global memory.
fn global_run<T: Element, S: moye_device::tensor::Strides>() -> usize {
    run_of::<Strided<Global<T>, S>, PartitionOf<IdentityOf<Tile>, Columns>>()
}

#[test]
fn an_access_is_as_wide_as_layout_and_alignment_allow() {
    assert_eq!(shared_run::<f32, Tile>(), 4, "16 bytes");
    assert_eq!(shared_run::<f16, Tile>(), 8, "16 bytes");
    assert_eq!(shared_run::<u8, Tile>(), 16, "16 bytes");
    assert_eq!(shared_run::<f64, Tile>(), 2, "16 bytes");
    assert_eq!(shared_run::<u128, Tile>(), 1, "16 bytes");
    assert_eq!(shared_run::<f32, PaddedBy4>(), 4, "padding by a whole access keeps the alignment");
    assert_eq!(shared_run::<f32, Padded>(), 1, "padding by one element breaks it");
    assert_eq!(shared_run::<f16, Padded>(), 1, "33 halves are not a multiple of 4 bytes");
    assert_eq!(shared_run::<f32, RowMajor>(), 1, "a column's elements are apart");
    // A thread's origin counts too: columns of 32 begin at a multiple of 4, the elements of
    // `Threads` do not.
    assert_eq!(run_of::<Shared<f32>, PartitionOf<Tile, Threads>>(), 1);

    assert_eq!(global_run::<f32, Aligned<UnitStride<0>, 16>>(), 4);
    assert_eq!(global_run::<f32, Aligned<UnitStride<0>, 8>>(), 2, "the promise is for 8 bytes");
    assert_eq!(global_run::<f16, Aligned<UnitStride<0>, 16>>(), 8);
    assert_eq!(global_run::<f32, UnitStride<0>>(), 1, "no promise");
    assert_eq!(global_run::<f32, Aligned<UnitStride<1>, 16>>(), 1, "the other axis is the contiguous one");
    assert_eq!(global_run::<f32, Dense>(), 1);

    assert_eq!(run_of::<Registers<f32>, PartitionOf<Tile, Columns>>(), 4);
}

#[test]
fn shared_arrays_follow_each_other_at_aligned_places() {
    type Storage = (SharedArray<f32, Operand>, SharedArray<f16, Tile>, SharedArray<u8, Tile>);
    // 128 + 7 * 129 floats, to the next multiple of 128; 1,024 halves; 1,024 bytes.
    assert_eq!(Storage::BYTES, (4 * 1031usize).next_multiple_of(128) + 2048 + 1024);
}

/// Runs `kernel` as one block of the 8 threads of `Columns`.
fn run(memory: &GlobalMemory, kernel: impl Fn() + Sync) {
    let bytes = SharedArray::<u128, Padded>::BYTES;
    Launch::new("test", 1, 8, memory).shared_bytes(bytes).run(&kernel).unwrap();
}

const POISON: u8 = 0xA5;
const LEADING: usize = 48;

/// Bytes that differ by position.
fn filled(memory: &GlobalMemory, bytes: usize) -> (Allocation, Vec<u8>) {
    let data: Vec<u8> = (0..bytes).map(|i| (i * 167 + i / 251) as u8).collect();
    (memory.upload(&data, "source").unwrap(), data)
}

/// Copies an `m x n` corner of a 32 x 32 tile from global memory through `L` in shared memory and a
/// fragment to global memory, and checks every byte of the destination buffer.
fn round_trip<T: Element, L: StaticLayout>(m: usize, n: usize, asynchronous: bool) {
    let memory = GlobalMemory::new();
    let bytes = LEADING * 32 * T::BYTES;
    let (source, data) = filled(&memory, bytes);
    let destination = memory.alloc(bytes, "destination").unwrap();
    destination.fill(0, bytes, POISON).unwrap();
    let (src, dst) = (source.address(), destination.address());
    run(&memory, || {
        let strides = Aligned::<_, 16>(UnitStride::<0>(LEADING as i64));
        let thread = thread_idx().x;
        assert_eq!(block_dim().x, 8);
        let shape = (m as u32, n as u32);
        let g_src = Matrix::new(Global::<T>::from_address(src), shape, strides).local_tile::<Tile, _>((0, 0));
        let g_dst =
            Matrix::new(GlobalMut::<T>::from_address(dst), shape, strides).local_tile::<Tile, _>((0, 0));
        // SAFETY: one block with enough shared memory; the tile is read after it was written.
        unsafe {
            let smem = SharedArray::<T, L>::take();
            let t_g_src = g_src.local_partition::<Columns>(thread);
            let mut t_g_dst = g_dst.local_partition::<Columns>(thread);
            let mut t_smem = smem.local_partition::<Columns>(thread);
            if asynchronous {
                copy_async(&t_g_src, &mut t_smem);
                cp_async_commit();
                cp_async_wait::<0>();
            } else {
                copy(&t_g_src, &mut t_smem);
            }
            sync_threads();
            let mut fragment: Fragment<T, FragmentLike<PartitionOf<L, Columns>>> =
                t_smem.make_fragment_like();
            copy(&t_smem, &mut fragment);
            copy(&fragment, &mut t_g_dst);
        }
    });
    for (i, byte) in destination.download::<u8>().into_iter().enumerate() {
        let (row, column) = (i / T::BYTES % LEADING, i / T::BYTES / LEADING);
        let expected = if row < m && column < n { data[i] } else { POISON };
        assert_eq!(byte, expected, "{} ({row}, {column}) of {m}x{n} through {}", T::NAME, L::LAYOUT);
    }
}

#[test]
fn copies_of_every_width_are_exact_up_to_ragged_edges() {
    for (m, n) in [(32, 32), (31, 32), (1, 1), (18, 5), (7, 31), (0, 0), (29, 8)] {
        for asynchronous in [false, true] {
            round_trip::<u8, Tile>(m, n, asynchronous);
            round_trip::<i16, Tile>(m, n, asynchronous);
            round_trip::<f16, PaddedBy4>(m, n, asynchronous);
            round_trip::<u32, Tile>(m, n, asynchronous);
            round_trip::<u32, Padded>(m, n, asynchronous);
            round_trip::<u32, RowMajor>(m, n, asynchronous);
            round_trip::<u64, Tile>(m, n, asynchronous);
        }
    }
}

#[test]
fn a_promise_of_alignment_that_is_broken_is_a_fault() {
    let memory = GlobalMemory::new();
    let (source, _) = filled(&memory, 4 * LEADING * 32);
    let address = source.address() + 4;
    let fault = Launch::new("misaligned", 1, 8, &memory)
        .shared_bytes(SharedArray::<f32, Tile>::BYTES)
        .run(&|| {
            let strides = Aligned::<_, 16>(UnitStride::<0>(LEADING as i64));
            let matrix = Matrix::new(Global::<f32>::from_address(address), (32, 32), strides);
            let part = matrix.local_tile::<Tile, _>((0, 0)).local_partition::<Columns>(thread_idx().x);
            // SAFETY: shared memory suffices; the broken promise is what this test is about.
            unsafe {
                let mut smem = SharedArray::<f32, Tile>::take().local_partition::<Columns>(thread_idx().x);
                copy(&part, &mut smem);
            }
        })
        .unwrap_err()
        .to_string();
    assert!(fault.contains("misaligned") || fault.contains("aligned"), "{fault}");
    assert!(fault.contains("tensors.rs"), "the fault names the line that copies: {fault}");
}

/// The fault of a launch that reads tile `tile` of a column of `rows` bytes.
fn fault_of_a_column(rows: u32, tile: u32) -> Option<String> {
    let memory = GlobalMemory::new();
    let source = memory.alloc(4096, "column").unwrap();
    let address = source.address();
    let launch = Launch::new("column", 1, 1, &memory).run(&|| {
        let matrix = Matrix::new(Global::<u8>::from_address(address), (rows, 1), UnitStride::<0>(1));
        let _ = matrix.local_tile::<Column, _>((tile, 0));
        let _ = matrix.local_tile::<Column, _>((All, 0)).at((.., .., tile));
    });
    launch.err().map(|fault| fault.to_string())
}

#[test]
fn extents_and_tiles_from_2_to_the_31_on_are_faults_with_the_values() {
    let most = (1 << 31) - 1;
    assert_eq!(fault_of_a_column(most, most / 32), None, "the last tile that there is");
    for rows in [1 << 31, u32::MAX] {
        let fault = fault_of_a_column(rows, 0).unwrap();
        let expected =
            format!("GlobalArray::new: the extents are ({rows}, 1), and coordinates are below 2^31");
        assert!(fault.contains(&expected) && fault.contains("tensors.rs"), "{fault}");
    }
    for (tile, row) in [(1u32 << 26, 1u64 << 31), (u32::MAX, 32 * u64::from(u32::MAX))] {
        let fault = fault_of_a_column(most, tile).unwrap();
        let expected = format!("tile {tile} of 32 begins at {row}, and coordinates are below 2^31");
        assert!(fault.contains(&expected) && fault.contains("tensors.rs"), "{fault}");
    }
}

#[test]
fn the_layout_of_a_tensor_is_at_hand() {
    const PART: Layout = PartitionOf::<Tile, Columns>::LAYOUT;
    assert_eq!(PART, layout!((32, 4):(1, 256)));
}

#[test]
fn a_tile_after_the_last_is_read_as_zeros_and_not_written() {
    let memory = GlobalMemory::new();
    let allocation = memory.upload(&(0..64).map(|i| i as f32 + 1.0).collect::<Vec<_>>(), "a").unwrap();
    let address = allocation.address();
    run(&memory, move || {
        let matrix = Matrix::new(GlobalMut::<f32>::from_address(address), (32, 2), UnitStride::<0>(32));
        let tiles = matrix.local_tile::<Column, _>((0, All)); // (32, 1, n)
        let mut fragment = Fragment::<f32, Column>::filled(7.0);
        if thread_idx().x == 0 {
            // SAFETY: one thread; the matrix is in its buffer.
            unsafe {
                copy(tiles.at((.., .., tiles.tiles())), &mut fragment);
                assert!((0..32).all(|i| fragment[i] == 0.0));
                copy(Fragment::<f32, Column>::filled(7.0), tiles.at((.., .., 2)));
                copy(tiles.at((.., .., 1)), &mut fragment);
            }
            assert!((0..32).all(|i| fragment[i] == 33.0 + i as f32));
        }
    });
    assert_eq!(allocation.download::<f32>(), (0..64).map(|i| i as f32 + 1.0).collect::<Vec<_>>());
}

#[test]
fn every_integer_type_names_elements_places_distances_and_strides_as_it_is() {
    let (global, shared) = (Global::<f32>::from_address(0x1000), Shared::<f32>::from_address(64));
    let tensor = moye_device::tensor::SharedTensor::<f32, Padded>::shared(shared);
    let matrix = moye_device::tensor!(global, (40u32, 50u32), (1, 40u32)); // (M, N)
    macro_rules! each {
        ($($t:ty),+) => { $(
            let (three, five): ($t, $t) = (3, 5);
            assert_eq!(global.offset(three).address(), 0x1000 + 12, stringify!($t));
            assert_eq!(GlobalMut::<f32>::from_address(0).offset(three).address(), 12);
            assert_eq!(shared.offset(three).address(), 64 + 12);
            assert_eq!(tensor.address_of(three), 64 + 12);
            assert_eq!(tensor.address_of((three, five)), 64 + 4 * (3 + 5 * 33));
            assert_eq!(matrix.at((.., five)).shape(), (40,));
            let batches = moye_device::tensor!(global, (4u32, 5u32, 6u32), (1, five, three)); // (M, N, L)
            assert_eq!(batches.shape(), (4, 5, 6));
        )+ };
    }
    each!(i32, u32, i64, u64, usize);
    // Backwards, and further than 32 bits reach.
    assert_eq!(global.offset(-4).address(), 0x1000 - 16);
    assert_eq!(global.offset(-4i64).address(), 0x1000 - 16);
    assert_eq!(shared.offset(-4).address(), 48);
    assert_eq!(global.offset(u32::MAX).address(), 0x1000 + 4 * u64::from(u32::MAX));
    assert_eq!(global.offset(1u64 << 33).address(), 0x1000 + (1 << 35));
    assert_eq!(global.offset(1i64 << 33).address(), 0x1000 + (1 << 35));
}

#[test]
fn a_kernel_reads_and_writes_at_indices_of_every_integer_type() {
    let memory = GlobalMemory::new();
    let allocation = memory.upload(&[0f32; 16], "a").unwrap();
    let a = GlobalMut::<f32>::from_address(allocation.address());
    let kernel = || {
        let s = Shared::<f32>::from_address(moye_sim::intrinsics::shared_base());
        let mut tensor = moye_device::tensor::SharedTensor::<f32, Padded>::shared(s);
        macro_rules! each {
            ($($t:ty = $at:literal),+) => { $(
                let (i, two): ($t, $t) = ($at, 2);
                // SAFETY: one thread; the elements exist and are written before they are read.
                unsafe {
                    a.write(i, 1.0 + $at as f32);
                    s.write(i, a.read(i));
                    assert_eq!(tensor.get(i), 1.0 + $at as f32, stringify!($t));
                    tensor.set((i, two), tensor.get((i, 0u32)) + 0.5);
                    assert_eq!(s.offset(66).read(i), 1.5 + $at as f32, stringify!($t));
                    a.write(i + 8, tensor.get((i, two)));
                }
            )+ };
        }
        each!(i32 = 0, u32 = 1, i64 = 2, u64 = 3, usize = 4);
    };
    Launch::new("k", 1, 1, &memory).shared_bytes(4 * 33 * 32).run(&kernel).unwrap();
    let got = allocation.download::<f32>();
    assert_eq!((&got[..5], &got[8..13]), (&[1.0, 2.0, 3.0, 4.0, 5.0][..], &[1.5, 2.5, 3.5, 4.5, 5.5][..]));
}

#[test]
#[should_panic(expected = "a mode has no place -4294967293")]
fn a_place_far_below_zero_is_not_that_of_its_lower_bits() {
    let tensor = moye_device::tensor::SharedTensor::<f32, Padded>::shared(Shared::from_address(0));
    let _ = tensor.address_of((-4_294_967_293_i64, 0));
}
