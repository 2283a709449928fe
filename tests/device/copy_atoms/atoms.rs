//! Every copy atom in a kernel, compared with its layouts.

use crate::support::{Bits, SM_80, SM_90, on_each, poisoned, random, unary};
use moye::{Global, GlobalMut, Grid, Kernel, Ptx};
use moye_device::atom::copy::*;
use moye_kernels_copy as kernels;

/// `count` pseudo-random 32-bit words.
fn words(seed: u64, count: usize) -> Vec<u32> {
    random(seed, count).into_iter().map(|r| (r >> 32) as u32).collect()
}

/// One warp: copies `input` words to `len` words, and compares the result with `want`.
#[track_caller]
fn warp(
    ptx: &Ptx,
    kernel: &Kernel<(Global<u32>, GlobalMut<u32>)>,
    input: &[u32],
    len: usize,
    want: impl Fn(usize) -> Option<u32>,
) {
    let place = |i: usize| format!("word {i}");
    on_each(ptx, kernel.name(), want, place, |module, device| {
        let source = device.upload(input).unwrap();
        let mut output = poisoned::<u32>(device, len);
        // SAFETY: the buffers have the words that the kernel accesses.
        unsafe { module.launch(kernel, Grid::new(1, 32), (&source, &mut output)) }.unwrap();
        output.download().unwrap()
    });
}

/// The 16 bits at bit `bit` of lane `lane`, which holds `registers` words of `all`.
fn half_word(all: &[u32], registers: usize, lane: i64, bit: i64) -> u16 {
    (all[lane as usize * registers + bit as usize / 32] >> (bit % 32)) as u16
}

/// The source's `(lane, bit)` that the layouts map to the destination's `(lane, bit)`.
fn source_of(layouts: &BitLayouts, lane: i64, bit: i64) -> (i64, i64) {
    let place = layouts.dst.at_coord([lane, bit]);
    let (lanes, bits) = (layouts.src.extent(0), layouts.src.extent(1));
    (0..lanes)
        .flat_map(|lane| (0..bits).step_by(16).map(move |bit| (lane, bit)))
        .find(|&(lane, bit)| layouts.src.at_coord([lane, bit]) == place)
        .expect("every destination has a source")
}

/// Word `index` of the lanes' results, `registers` words each, from the lanes' words in `input`.
fn moved(layouts: &BitLayouts, input: &[u32], from: usize, to: usize, index: usize) -> u32 {
    let (lane, bit) = ((index / to) as i64, (index % to * 32) as i64);
    let half = |bit| {
        let (lane, bit) = source_of(layouts, lane, bit);
        u32::from(half_word(input, from, lane, bit))
    };
    half(bit) | half(bit + 16) << 16
}

#[test]
fn ldmatrix_moves_what_its_layouts_say() {
    let rows = words(1, 128);
    let check = |kernel: &Kernel<_>, layouts: BitLayouts, count: usize| {
        warp(&SM_80, kernel, &rows, 32 * count, |i| Some(moved(&layouts, &rows, 4, count, i)));
    };
    check(&kernels::ldsm_x1, SM75_U32x1_LDSM_N::LAYOUTS, 1);
    check(&kernels::ldsm_x2, SM75_U32x2_LDSM_N::LAYOUTS, 2);
    check(&kernels::ldsm_x4, SM75_U32x4_LDSM_N::LAYOUTS, 4);
    check(&kernels::ldsm_x1_trans, SM75_U16x2_LDSM_T::LAYOUTS, 1);
    check(&kernels::ldsm_x2_trans, SM75_U16x4_LDSM_T::LAYOUTS, 2);
    check(&kernels::ldsm_x4_trans, SM75_U16x8_LDSM_T::LAYOUTS, 4);
}

#[test]
fn stmatrix_moves_what_its_layouts_say() {
    let check = |kernel: &Kernel<_>, layouts: BitLayouts, count: usize| {
        let registers = words(2, 32 * count);
        // Rows past the matrices are not written: the poison stays.
        let want = |i: usize| {
            Some(if i < 32 * count { moved(&layouts, &registers, count, 4, i) } else { 0xA5A5_A5A5 })
        };
        warp(&SM_90, kernel, &registers, 128, want);
    };
    check(&kernels::sm_90::stsm_x1, SM90_U32x1_STSM_N::LAYOUTS, 1);
    check(&kernels::sm_90::stsm_x2, SM90_U32x2_STSM_N::LAYOUTS, 2);
    check(&kernels::sm_90::stsm_x4, SM90_U32x4_STSM_N::LAYOUTS, 4);
    check(&kernels::sm_90::stsm_x1_trans, SM90_U16x2_STSM_T::LAYOUTS, 1);
    check(&kernels::sm_90::stsm_x2_trans, SM90_U16x4_STSM_T::LAYOUTS, 2);
    check(&kernels::sm_90::stsm_x4_trans, SM90_U16x8_STSM_T::LAYOUTS, 4);
}

#[test]
fn transposes_in_registers_move_what_their_layouts_say() {
    let registers = words(3, 64);
    for (kernel, layouts) in [
        (&kernels::shuffle_xor1, SM50_Shuffle_U32_2x2Trans_XOR1::LAYOUTS),
        (&kernels::shuffle_xor4, SM50_Shuffle_U32_2x2Trans_XOR4::LAYOUTS),
    ] {
        warp(&SM_80, kernel, &registers, 64, |i| Some(moved(&layouts, &registers, 2, 2, i)));
    }
    // CuTe's layouts of MOVM do not show the transpose; those of a transposed load do.
    let layouts =
        BitLayouts { src: SM75_U32x1_LDSM_N::DST, dst: SM75_U16x2_LDSM_T::DST, ..SM75_U32x1_MOVM_T::LAYOUTS };
    let matrix = &registers[..32];
    warp(&SM_80, &kernels::movm_trans, matrix, 32, |i| Some(moved(&layouts, matrix, 1, 1, i)));
}

#[test]
fn plain_copies_move_words_of_every_width() {
    let random = random(4, 1000);
    let wide: Vec<u128> = random.iter().map(|&r| u128::from(r) << 64 | u128::from(!r)).collect();
    unary(&SM_80, &kernels::copy_u8, &random.iter().map(|&r| r as u8).collect::<Vec<_>>(), |x| x);
    unary(&SM_80, &kernels::copy_u16, &random.iter().map(|&r| r as u16).collect::<Vec<_>>(), |x| x);
    unary(&SM_80, &kernels::copy_u32, &random.iter().map(|&r| r as u32).collect::<Vec<_>>(), |x| x);
    unary(&SM_80, &kernels::copy_u64, &random, |x| x);
    unary(&SM_80, &kernels::copy_u128, &wide, |x| x);
}

/// Two blocks of 64 threads, one element each; thread `i` receives the element of thread `i + 1` of
/// its block.
#[track_caller]
fn check_shared<T: Bits>(kernel: &Kernel<(Global<T>, GlobalMut<T>)>, of: impl Fn(u64) -> T) {
    let source: Vec<T> = random(7, 128).into_iter().map(of).collect();
    let want = |i: usize| Some(source[i / 64 * 64 + (i + 1) % 64]);
    let place = |i: usize| format!("thread {i}");
    on_each(&SM_80, kernel.name(), want, place, |module, device| {
        let from = device.upload(&source).unwrap();
        let mut to = poisoned::<T>(device, 128);
        // SAFETY: an element for each of 128 threads.
        unsafe { module.launch(kernel, Grid::new(2, 64), (&from, &mut to)) }.unwrap();
        to.download().unwrap()
    });
}

#[test]
fn plain_copies_through_shared_memory_move_words_of_every_width() {
    check_shared(&kernels::shared_u8, |r| r as u8);
    check_shared(&kernels::shared_u16, |r| r as u16);
    check_shared(&kernels::shared_u32, |r| r as u32);
    check_shared(&kernels::shared_u64, |r| r);
    check_shared(&kernels::shared_v2, |r| r);
    check_shared(&kernels::shared_u128, |r| u128::from(r) << 64 | u128::from(!r));
}

/// Values whose bytes are all different.
trait Distinct: Bits {
    fn of(random: u64) -> Self;
    /// The kernels' initial shared memory.
    const BEFORE: Self;
    const ZERO: Self;
}
macro_rules! distinct {
    ($($t:ty: $random:ident => $of:expr;)*) => { $(
        impl Distinct for $t {
            fn of($random: u64) -> Self {
                $of
            }
            const BEFORE: Self = !0;
            const ZERO: Self = 0;
        }
    )* };
}
distinct! {
    u32: r => r as u32;
    u64: r => r;
    u128: r => u128::from(r) << 64 | u128::from(r.rotate_left(17));
}

/// The kernel of a `cp.async` atom alone, and with a predicate.
type Alone<T> = Kernel<(Global<T>, GlobalMut<T>)>;
type Predicated<T> = Kernel<(Global<T>, Global<u32>, GlobalMut<T>)>;

#[track_caller]
fn check_cp_async<T: Distinct>(alone: &Alone<T>, predicated: &Predicated<T>, zero_fill: bool) {
    let source: Vec<T> = random(5, 128).into_iter().map(T::of).collect();
    let place = |i: usize| format!("thread {i}");
    on_each(
        &SM_80,
        alone.name(),
        |i| Some(source[i]),
        place,
        |module, device| {
            let from = device.upload(&source).unwrap();
            let mut to = poisoned::<T>(device, 128);
            // SAFETY: an element for each of 128 threads.
            unsafe { module.launch(alone, Grid::new(2, 64), (&from, &mut to)) }.unwrap();
            to.download().unwrap()
        },
    );
    check_predicated(predicated, zero_fill);
}

#[track_caller]
fn check_predicated<T: Distinct>(predicated: &Predicated<T>, zero_fill: bool) {
    let source: Vec<T> = random(5, 128).into_iter().map(T::of).collect();
    let valid: Vec<u32> = random(6, 128).into_iter().map(|r| (r & 1) as u32).collect();
    let place = |i: usize| format!("thread {i}");
    let left_out = if zero_fill { T::ZERO } else { T::BEFORE };
    let want = |i: usize| Some(if valid[i] != 0 { source[i] } else { left_out });
    on_each(&SM_80, predicated.name(), want, place, |module, device| {
        let (from, flags) = (device.upload(&source).unwrap(), device.upload(&valid).unwrap());
        let mut to = poisoned::<T>(device, 128);
        // SAFETY: an element and a flag for each of 128 threads.
        unsafe { module.launch(predicated, Grid::new(2, 64), (&from, &flags, &mut to)) }.unwrap();
        to.download().unwrap()
    });
}

#[test]
fn cp_async_copies_or_keeps_what_was_there() {
    check_cp_async(&kernels::ca_4, &kernels::ca_4_if, false);
    check_cp_async(&kernels::ca_8, &kernels::ca_8_if, false);
    check_cp_async(&kernels::ca_16, &kernels::ca_16_if, false);
    check_cp_async(&kernels::cg_16, &kernels::cg_16_if, false);
}

#[test]
fn cp_async_copies_or_fills_with_zeros() {
    check_cp_async(&kernels::ca_4_zfill, &kernels::ca_4_zfill_if, true);
    check_cp_async(&kernels::ca_8_zfill, &kernels::ca_8_zfill_if, true);
    check_cp_async(&kernels::ca_16_zfill, &kernels::ca_16_zfill_if, true);
    check_cp_async(&kernels::cg_16_zfill, &kernels::cg_16_zfill_if, true);
}

#[test]
fn cp_async_with_a_prefetch_copies_or_not() {
    for [predicated, filled] in [
        [&kernels::ca_4_if_64b, &kernels::ca_4_zfill_64b],
        [&kernels::ca_4_if_128b, &kernels::ca_4_zfill_128b],
        [&kernels::ca_4_if_256b, &kernels::ca_4_zfill_256b],
    ] {
        check_predicated(predicated, false);
        check_predicated(filled, true);
    }
    for [predicated, filled] in [
        [&kernels::ca_8_if_64b, &kernels::ca_8_zfill_64b],
        [&kernels::ca_8_if_128b, &kernels::ca_8_zfill_128b],
        [&kernels::ca_8_if_256b, &kernels::ca_8_zfill_256b],
    ] {
        check_predicated(predicated, false);
        check_predicated(filled, true);
    }
    for [predicated, filled] in [
        [&kernels::ca_16_if_64b, &kernels::ca_16_zfill_64b],
        [&kernels::ca_16_if_128b, &kernels::ca_16_zfill_128b],
        [&kernels::ca_16_if_256b, &kernels::ca_16_zfill_256b],
        [&kernels::cg_16_if_64b, &kernels::cg_16_zfill_64b],
        [&kernels::cg_16_if_128b, &kernels::cg_16_zfill_128b],
        [&kernels::cg_16_if_256b, &kernels::cg_16_zfill_256b],
    ] {
        check_predicated(predicated, false);
        check_predicated(filled, true);
    }
}

#[test]
fn groups_of_cp_async_are_there_one_after_the_other() {
    let source = words(8, 192);
    let place = |i: usize| format!("group {}, thread {}", i / 64, i % 64);
    on_each(
        &SM_80,
        kernels::groups.name(),
        |i| Some(source[i]),
        place,
        |module, device| {
            let from = device.upload(&source).unwrap();
            let mut to = poisoned::<u32>(device, 192);
            // SAFETY: three elements for each of 64 threads.
            unsafe { module.launch(&kernels::groups, Grid::new(1, 64), (&from, &mut to)) }.unwrap();
            to.download().unwrap()
        },
    );
}
