//! Faults name the kernel and its line, even if an instruction of a whole warp is deep in the
//! library: fragments that were never filled, `ldmatrix` and `mma`.

use core::panic::Location;
use moye_device::prelude::*;
use moye_sim::intrinsics::store_shared;
use moye_sim::{Fault, FaultKind, GlobalMemory, Launch};
use std::sync::Mutex;

static_layout! {
    Smem = layout!((16, 16):(16, 1)); // (BLK_M, BLK_K)
    SmemB = layout!((8, 16):(16, 1)); // (BLK_N, BLK_K)
    TileC = layout!((16, 8)); // (BLK_M, BLK_N)
    Four = layout!((4, 1));
}
tiled_mma! { Mma: TiledMma<SM80_16x8x16_F32F16F16F32_TN> = TiledMma::new(layout!((1, 1, 1))); }
tiled_copy! {
    ReadQ: TiledCopy<SM75_U32x4_LDSM_N, f16> = make_tiled_copy_a(&Mma::MMA);
    Store: TiledCopy<UniversalCopy<u32>, f16> = TiledCopy::new(layout!((8, 4):(4, 1)), layout!((1, 2)));
}

type Storage = (SharedArray<f16, Smem>, SharedArray<f16, SmemB>);
type Line = &'static Location<'static>;

/// The line of the last call of [`here`].
static LINE: Mutex<Option<Line>> = Mutex::new(None);
/// One kernel runs at a time, as they share `LINE`.
static ONE: Mutex<()> = Mutex::new(());

/// Marks the line after the call as the line that the fault must name.
#[track_caller]
fn here() {
    *LINE.lock().unwrap() = Some(Location::caller());
}

/// The fault, if any, of a warp that runs `kernel` on filled shared memory; asserts that it names
/// the marked line.
fn fault(kernel: impl Fn() + Sync) -> Option<Fault> {
    let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let memory = GlobalMemory::new();
    let ran = Launch::new("scores", 1, 32, &memory).shared_bytes(Storage::BYTES).races(true).run(&|| {
        let thread = thread_idx().x;
        for word in 0..Storage::BYTES as u32 / 128 {
            store_shared(moye_sim::intrinsics::shared_base() + 4 * (32 * word + thread), 0_u32);
        }
        sync_threads();
        kernel();
    });
    let fault = ran.err()?.fault().unwrap().clone();
    let (told, marked) = (fault.location.unwrap(), LINE.lock().unwrap().unwrap());
    assert_eq!((told.file(), told.line()), (marked.file(), marked.line() + 1), "{fault}");
    assert!(fault.to_string().starts_with("kernel `scores`, block (0,0,0), thread ("), "{fault}");
    Some(fault)
}

fn is_unwritten(fault: Option<Fault>, element: usize) {
    let fault = fault.expect("a fault");
    assert!(
        matches!(fault.kind, FaultKind::RegisterUnwritten { element: at, .. } if at == element),
        "{fault}"
    );
}

/// Scores of Q and K, each loaded on request.
#[allow(non_snake_case)]
fn scores(loads_q: bool, loads_k: bool) {
    // SAFETY: the launch has the storage, and all lanes are here.
    unsafe {
        let (sQ, sK) = Storage::take();
        let mma = Mma::get_slice(thread_idx().x);
        let readQ = ReadQ::get_slice(thread_idx().x);
        let mut tSrQ = mma.fragment_a(&mma.partition_a(sQ)); // (MMA, MMA_M, MMA_D)
        let mut tSrK = mma.fragment_b(&mma.partition_b(sK)); // (MMA, MMA_N, MMA_D)
        let mut tSrS = mma.accumulator::<TileC>(); // (MMA, MMA_M, MMA_N)
        if loads_q {
            readQ.load(readQ.partition_s(sQ), &mut tSrQ);
        }
        if loads_k {
            copy(&mma.partition_b(sK), &mut tSrK);
        }
        here();
        mma.gemm(&mut tSrS, &tSrQ, &tSrK);
    }
}

#[test]
fn a_kernel_that_never_loaded_an_operand_is_a_fault_at_the_product() {
    assert!(fault(|| scores(true, true)).is_none(), "both were loaded");
    is_unwritten(fault(|| scores(false, true)), 0);
    is_unwritten(fault(|| scores(true, false)), 0);
}

/// Scores of Q and K, where the second half of Q's elements is not loaded, or excluded by a
/// predicate.
#[allow(non_snake_case)]
fn half_of_q(predicated: bool) {
    // SAFETY: the launch has the storage, and all lanes are here.
    unsafe {
        let (sQ, sK) = Storage::take();
        let mma = Mma::get_slice(thread_idx().x);
        let tSsQ = mma.partition_a(sQ); // (MMA, MMA_M, MMA_D)
        let mut tSrQ = mma.fragment_a(&tSsQ); // (MMA, MMA_M, MMA_D)
        let mut tSrK = mma.fragment_b(&mma.partition_b(sK)); // (MMA, MMA_N, MMA_D)
        let mut tSrS = mma.accumulator::<TileC>(); // (MMA, MMA_M, MMA_N)
        copy(&mma.partition_b(sK), &mut tSrK);
        if predicated {
            copy_elements_if(|i| i < 4, &tSsQ, &mut tSrQ);
        } else {
            for i in 0..4 {
                tSrQ.set(i, tSsQ.get(i));
            }
        }
        here();
        mma.gemm(&mut tSrS, &tSrQ, &tSrK);
    }
}

#[test]
fn an_operand_of_which_one_half_was_never_loaded_is_a_fault_unless_a_predicate_left_it_out() {
    is_unwritten(fault(|| half_of_q(false)), 4);
    assert!(fault(|| half_of_q(true)).is_none(), "zeros are meant");
}

#[test]
fn an_element_that_was_never_written_is_a_fault_wherever_it_is_read() {
    type Fragment4 = Fragment<f16, Four>;
    let some = |count: usize| {
        // SAFETY: a read of unwritten memory is a fault.
        let mut fragment = unsafe { Fragment4::uninit() };
        (0..count).for_each(|i| fragment[i] = f16::ONE);
        fragment
    };
    let index = fault(|| {
        let fragment = some(3);
        assert_eq!(fragment[2], f16::ONE);
        here();
        let _ = fragment[3];
    });
    is_unwritten(index, 3);
    let get = fault(|| {
        let fragment = some(1);
        // SAFETY: inside the fragment.
        unsafe {
            here();
            fragment.get(2)
        };
    });
    is_unwritten(get, 2);
    let copied = fault(|| {
        let fragment = some(2);
        let mut other = Fragment4::zeros();
        // SAFETY: one thread's own elements.
        unsafe {
            here();
            copy(&fragment, &mut other);
        }
    });
    // A word of four elements.
    is_unwritten(copied, 0);
    let all = fault(|| {
        let fragment = some(4);
        let mut other = Fragment4::zeros();
        // SAFETY: one thread's own elements.
        unsafe { copy(&fragment, &mut other) };
        assert_eq!(other[3], f16::ONE);
    });
    assert!(all.is_none(), "all were written");
}

#[test]
fn a_tiled_copy_of_a_fragment_that_was_never_filled_is_a_fault() {
    let stored = fault(|| {
        // SAFETY: the launch has the storage, and all lanes are here.
        unsafe {
            let (s, _) = Storage::take();
            let store = Store::get_slice(thread_idx().x);
            let fragment = store.partition_d(s).make_fragment_like();
            here();
            store.copy(&fragment, store.partition_d(s));
        }
    });
    is_unwritten(stored, 0);
}

#[test]
fn a_race_of_ldmatrix_names_the_users_line() {
    let race = fault(|| {
        // SAFETY: the launch has the storage, and all lanes are here.
        unsafe {
            let (s, _) = Storage::take();
            let mma = Mma::get_slice(thread_idx().x);
            let read = ReadQ::get_slice(thread_idx().x);
            let mut fragment = mma.fragment_a(&mma.partition_a(s));
            store_shared(moye_sim::intrinsics::shared_base() + 4 * thread_idx().x, 1_u32);
            here();
            read.load(read.partition_s(s), &mut fragment);
        }
    });
    let race = race.expect("a race");
    assert!(matches!(race.kind, FaultKind::Race(_)), "{race}");
}

#[test]
fn an_mma_that_a_lane_does_not_come_to_names_the_users_line() {
    let missing = fault(|| {
        // SAFETY: the missing lane is a fault.
        unsafe {
            let (s_q, s_k) = Storage::take();
            let mma = Mma::get_slice(thread_idx().x);
            let mut sums = mma.accumulator::<TileC>();
            let (a, b) = (mma.partition_a(s_q), mma.partition_b(s_k));
            if thread_idx().x == 5 {
                return;
            }
            here();
            mma.gemm(&mut sums, a, b);
        }
    });
    let missing = missing.expect("a fault");
    assert!(missing.to_string().contains("mma.sync"), "{missing}");
}
