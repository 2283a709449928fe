//! The kernels on the simulator against float64, on ragged sizes; what the compiler and ptxas made
//! of them.

mod compiled;
mod data;

use data::{Matrix, TOLERANCE, gelu, relative_error};
use half::{bf16, f16};
use moye_device::atom::tma::{TmaMap, TmaTiled};
use moye_device::collective::{Mainloop, SplitK, StoreC, StreamK, Tiles};
use moye_device::kernel::{Kernel, Params};
use moye_device::layout::layout;
use moye_device::memory::{Element, Global, GlobalMut};
use moye_kernels_collective::ampere::{
    LargeLoop, SmallLoop, TallLoop as Multistage256, multistage, multistage_persistent, multistage_split_k,
    multistage_stream_k, multistage_tall,
};
use moye_kernels_collective::hopper::{
    LoadA, LoadB, PairLoop, TallLoop, TurnLoop, WideLoop, batched_gelu, cooperative, ping_pong, split_k,
    stream_k,
};
use moye_sim::memory::Allocation;
use moye_sim::{GlobalMemory, Launch};

fn global<T: Element>(allocation: &Allocation) -> Global<T> {
    Global::from_address(allocation.address())
}

fn global_mut<T: Element>(allocation: &Allocation) -> GlobalMut<T> {
    GlobalMut::from_address(allocation.address())
}

/// Launches a kernel of a mainloop on a grid of `workers` workers.
fn launch<M: Mainloop, P: Params>(memory: &GlobalMemory, kernel: Kernel<P>, workers: u32, params: P) {
    Launch::new(kernel.name(), workers * M::CLUSTER, M::THREADS, memory)
        .cluster(M::CLUSTER)
        .shared_bytes(kernel.shared_bytes())
        .run(&|| unsafe { kernel.call(params) })
        .unwrap_or_else(|fault| panic!("{fault}"));
}

/// The map of row-major matrices of a batch, by the copy `C`.
fn map<C: TmaTiled>(
    on: &Allocation,
    (batches, rows, columns): (usize, usize, usize),
    make: Make<C>,
) -> TmaMap<C> {
    make(on.address(), (batches as i64, rows as i64, columns as i64))
}

type Make<C> = fn(u64, (i64, i64, i64)) -> TmaMap<C>;

macro_rules! maps {
    ($copy:ty, 2) => {
        |address, (_, rows, columns)| {
            let tensor = layout!((rows, columns):(columns, 1));
            TmaMap::from_words(<$copy>::tensor_map(address, &tensor).unwrap().encode())
        }
    };
    ($copy:ty, 3) => {
        |address, (batches, rows, columns)| {
            let tensor = layout!((rows, columns, batches):(columns, 1, rows * columns));
            TmaMap::from_words(<$copy>::tensor_map(address, &tensor).unwrap().encode())
        }
    };
}

#[test]
fn a_cooperative_mainloop_with_a_cluster_is_right_on_ragged_sizes() {
    // A cluster's second block without rows; fewer stages than the ring has; several tiles for a
    // worker.
    for (m, n, k, workers) in [(60, 264, 64, 1), (300, 520, 328, 1)] {
        let (a, b) = (Matrix::<bf16>::new(1, m, k, 1), Matrix::<bf16>::new(1, n, k, 2));
        let memory = GlobalMemory::new();
        let (da, db) = (a.upload(&memory, "a"), b.upload(&memory, "b"));
        let c = Matrix::<bf16>::filled(1, m, n, bf16::NAN);
        let dc = c.upload(&memory, "c");
        let params = (
            map::<LoadA<128, 4>>(&da, a.shape(), maps!(LoadA<128, 4>, 2)),
            map::<LoadB<256, 4, 2, 2>>(&db, b.shape(), maps!(LoadB<256, 4, 2, 2>, 2)),
            map::<StoreC<bf16>>(&dc, c.shape(), maps!(StoreC<bf16>, 2)),
            m as u32,
            n as u32,
            k as u32,
        );
        launch::<WideLoop, _>(&memory, cooperative, workers, params);
        let error = relative_error(&c.download(&dc), &a.times(&b));
        assert!(error < TOLERANCE, "{m}x{n}x{k}: {error:.1e}");
    }
}

#[test]
fn warpgroups_in_turn_are_right_whatever_number_of_tiles_they_have() {
    for (m, n, k, workers) in [(64, 64, 200, 1), (200, 136, 264, 1), (300, 72, 64, 2)] {
        let (a, b) = (Matrix::<bf16>::new(1, m, k, 3), Matrix::<bf16>::new(1, n, k, 4));
        let memory = GlobalMemory::new();
        let (da, db) = (a.upload(&memory, "a"), b.upload(&memory, "b"));
        let c = Matrix::<bf16>::filled(1, m, n, bf16::NAN);
        let dc = c.upload(&memory, "c");
        let params = (
            map::<LoadA<64, 3>>(&da, a.shape(), maps!(LoadA<64, 3>, 2)),
            map::<LoadB<64, 3, 2, 2>>(&db, b.shape(), maps!(LoadB<64, 3, 2, 2>, 2)),
            map::<StoreC<bf16>>(&dc, c.shape(), maps!(StoreC<bf16>, 2)),
            m as u32,
            n as u32,
            k as u32,
        );
        launch::<TurnLoop, _>(&memory, ping_pong, workers, params);
        let error = relative_error(&c.download(&dc), &a.times(&b));
        assert!(error < TOLERANCE, "{m}x{n}x{k}: {error:.1e}");
    }
}

#[test]
fn an_epilogue_sees_each_element_where_it_is_in_its_matrix() {
    let (batches, m, n, k) = (2, 300, 70, 136);
    let (a, b) = (Matrix::<bf16>::new(batches, m, k, 5), Matrix::<bf16>::new(batches, n, k, 6));
    let (scales, bias) = (Matrix::<f32>::new(1, batches, m, 7), Matrix::<bf16>::new(1, 1, n, 8));
    let memory = GlobalMemory::new();
    let (da, db) = (a.upload(&memory, "a"), b.upload(&memory, "b"));
    let (dscales, dbias) = (scales.upload(&memory, "scales"), bias.upload(&memory, "bias"));
    let c = Matrix::<f32>::filled(batches, m, n, f32::NAN);
    let dc = c.upload(&memory, "c");
    let tiles = TallLoop::tiles((m as u32, n as u32, k as u32), batches as u32);
    let params = (
        map::<LoadA<256, 3, 3>>(&da, a.shape(), maps!(LoadA<256, 3, 3>, 3)),
        map::<LoadB<64, 3, 3>>(&db, b.shape(), maps!(LoadB<64, 3, 3>, 3)),
        global_mut::<f32>(&dc),
        global::<f32>(&dscales),
        global::<bf16>(&dbias),
        m as u32,
        n as u32,
        k as u32,
        batches as u32,
    );
    launch::<TallLoop, _>(&memory, batched_gelu, tiles.count(), params);
    let mut want = a.times(&b);
    for (i, want) in want.iter_mut().enumerate() {
        let (row, column) = (i / n, i % n);
        *want = gelu(0.5 * *want * scales.get(row) + bias.get(column));
    }
    // The approximate tangent has 11 bits.
    let error = relative_error(&c.download(&dc), &want);
    assert!(error < TOLERANCE, "{error:.1e}");
}

/// Runs a split kernel and compares; the counters are zero again afterwards.
fn is_right_in_parts<T: Element + data::Number, M: Mainloop, P: Params>(
    kernel: Kernel<P>,
    (m, n, k): (usize, usize, usize),
    workers: u32,
    partials: impl Fn(Tiles, usize) -> usize,
    params: impl Fn(&[Allocation; 5], [&Matrix<T>; 2]) -> P,
) {
    let (a, b) = (Matrix::<T>::new(1, m, k, 9), Matrix::<T>::new(1, n, k, 10));
    let memory = GlobalMemory::new();
    let c = Matrix::<f32>::filled(1, m, n, f32::NAN);
    let tiles = M::tiles((m as u32, n as u32, k as u32), 1);
    let elements = partials(tiles, (M::TILE.0 * M::TILE.1) as usize);
    let counters = Matrix::<f32>::filled(1, 1, tiles.count() as usize, 0.0);
    let on = [
        a.upload(&memory, "a"),
        b.upload(&memory, "b"),
        c.upload(&memory, "c"),
        memory.alloc(4 * elements, "partials").unwrap(),
        counters.upload(&memory, "counters"),
    ];
    launch::<M, P>(&memory, kernel, workers, params(&on, [&a, &b]));
    let error = relative_error(&c.download(&on[2]), &a.times(&b));
    assert!(error < 1e-5, "{} of {m}x{n}x{k} by {workers} workers: {error:.1e}", kernel.name());
    assert!(counters.download(&on[4]).iter().all(|&count| count == 0.0), "counters are left at zero");
}

const SPLITS: [((usize, usize, usize), u32); 3] =
    [((100, 40, 200), 3), ((136, 130, 520), 4), ((260, 72, 328), 4)];

#[test]
fn split_k_and_stream_k_add_up_all_of_k_by_wgmma() {
    for (size, workers) in SPLITS {
        let params = |slices: u32| {
            move |on: &[Allocation; 5], [a, b]: [&Matrix<bf16>; 2]| {
                (
                    map::<LoadA<128, 3>>(&on[0], a.shape(), maps!(LoadA<128, 3>, 2)),
                    map::<LoadB<64, 3>>(&on[1], b.shape(), maps!(LoadB<64, 3>, 2)),
                    global_mut::<f32>(&on[2]),
                    global_mut::<u32>(&on[3]),
                    global_mut::<u32>(&on[4]),
                    size.0 as u32,
                    size.1 as u32,
                    size.2 as u32,
                    slices,
                )
            }
        };
        let of_slices = |tiles, tile| SplitK::partials(tiles, 3, tile, 1);
        is_right_in_parts::<bf16, PairLoop, _>(split_k, size, workers, of_slices, params(3));
        let of_shares = |_, tile| StreamK::partials(workers, tile, 1);
        is_right_in_parts::<bf16, PairLoop, _>(stream_k, size, workers, of_shares, params(0));
    }
}

#[test]
fn split_k_and_stream_k_add_up_all_of_k_by_mma_sync() {
    for (size, workers) in SPLITS {
        let params = |slices: u32| {
            move |on: &[Allocation; 5], _: [&Matrix<f16>; 2]| {
                (
                    global::<f16>(&on[0]),
                    global::<f16>(&on[1]),
                    global_mut::<f32>(&on[2]),
                    global_mut::<u32>(&on[3]),
                    global_mut::<u32>(&on[4]),
                    size.0 as u32,
                    size.1 as u32,
                    size.2 as u32,
                    slices,
                )
            }
        };
        let of_slices = |tiles, tile| SplitK::partials(tiles, 2, tile, 1);
        is_right_in_parts::<f16, SmallLoop, _>(multistage_split_k, size, workers, of_slices, params(2));
        let of_shares = |_, tile| StreamK::partials(workers, tile, 1);
        is_right_in_parts::<f16, SmallLoop, _>(multistage_stream_k, size, workers, of_shares, params(0));
    }
}

#[test]
fn a_multistage_mainloop_is_right_on_whole_and_ragged_tiles_of_a_batch() {
    for (batches, m, n, k) in [(1, 128, 128, 256), (2, 130, 250, 200)] {
        let (a, b) = (Matrix::<f16>::new(batches, m, k, 11), Matrix::<f16>::new(batches, n, k, 12));
        let bias = Matrix::<f16>::new(1, 1, n, 13);
        let memory = GlobalMemory::new();
        let (da, db, dbias) = (a.upload(&memory, "a"), b.upload(&memory, "b"), bias.upload(&memory, "bias"));
        let c = Matrix::<f16>::filled(batches, m, n, f16::NAN);
        let dc = c.upload(&memory, "c");
        let (of_a, of_b, of_c, of_bias) = (global(&da), global(&db), global_mut(&dc), global(&dbias));
        let tiles = LargeLoop::tiles((m as u32, n as u32, k as u32), batches as u32);
        let params = (of_a, of_b, of_c, of_bias, m as u32, n as u32, k as u32, batches as u32, 0.5);
        launch::<LargeLoop, _>(&memory, multistage, tiles.count(), params);
        let mut want = a.times(&b);
        for (i, want) in want.iter_mut().enumerate() {
            *want = (0.5 * *want + bias.get(i % n)).max(0.0);
        }
        let error = relative_error(&c.download(&dc), &want);
        assert!(error < TOLERANCE, "{batches} of {m}x{n}x{k}: {error:.1e}");
    }
}

#[test]
fn tiles_of_the_shipped_products_are_right_whole_and_ragged() {
    for (m, n, k) in [(256, 128, 192), (270, 100, 136)] {
        let (a, b) = (Matrix::<f16>::new(1, m, k, 17), Matrix::<f16>::new(1, n, k, 18));
        let memory = GlobalMemory::new();
        let (da, db) = (a.upload(&memory, "a"), b.upload(&memory, "b"));
        let c = Matrix::<f16>::filled(1, m, n, f16::NAN);
        let dc = c.upload(&memory, "c");
        let params = (global(&da), global(&db), global_mut(&dc), m as u32, n as u32, k as u32);
        let tiles = Multistage256::tiles((m as u32, n as u32, k as u32), 1);
        launch::<Multistage256, _>(&memory, multistage_tall, tiles.count(), params);
        let error = relative_error(&c.download(&dc), &a.times(&b));
        assert!(error < TOLERANCE, "{m}x{n}x{k}: {error:.1e}");
    }
}

#[test]
fn a_persistent_multistage_grid_adds_to_what_was_in_c() {
    let (m, n, k) = (200, 150, 72);
    let (a, b, c) =
        (Matrix::<f16>::new(1, m, k, 14), Matrix::<f16>::new(1, n, k, 15), Matrix::<f32>::new(1, m, n, 16));
    let memory = GlobalMemory::new();
    let (da, db, dc) = (a.upload(&memory, "a"), b.upload(&memory, "b"), c.upload(&memory, "c"));
    let params = (global(&da), global(&db), global_mut(&dc), m as u32, n as u32, k as u32, -2.0);
    launch::<SmallLoop, _>(&memory, multistage_persistent, 5, params);
    let want: Vec<f64> = a.times(&b).iter().enumerate().map(|(i, ab)| ab - 2.0 * c.get(i)).collect();
    let error = relative_error(&c.download(&dc), &want);
    assert!(error < 1e-5, "{error:.1e}");
}
