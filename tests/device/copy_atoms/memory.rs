//! Loads and stores with hints, prefetches and mbarriers: they change when data is transferred,
//! never which data.

use crate::support::{Bits, SM_80, on_each, poisoned, random, unary};
use moye::{Global, GlobalMut, Grid, Kernel};
use moye_kernels_copy as kernels;

fn bytes() -> Vec<u8> {
    random(51, 999).into_iter().map(|r| r as u8).collect()
}

fn words() -> Vec<u32> {
    random(52, 999).into_iter().map(|r| r as u32).collect()
}

fn wide() -> Vec<u128> {
    random(53, 999).into_iter().map(|r| u128::from(r) << 64 | u128::from(r.rotate_left(29))).collect()
}

#[test]
fn hints_do_not_change_what_is_loaded() {
    let shorts: Vec<u16> = random(54, 999).into_iter().map(|r| r as u16).collect();
    let longs = random(55, 999);
    unary(&SM_80, &kernels::ld_nc_u8, &bytes(), |x| x);
    unary(&SM_80, &kernels::ld_nc_u16, &shorts, |x| x);
    for kernel in [
        &kernels::ld_ca,
        &kernels::ld_lu,
        &kernels::ld_evict_last,
        &kernels::ld_evict_unchanged,
        &kernels::ld_64b,
        &kernels::ld_nc_u32,
        &kernels::ld_nc_ca,
        &kernels::ld_nc_cg,
        &kernels::ld_nc_cs,
        &kernels::ld_nc_evict_last,
        &kernels::ld_nc_evict_first,
        &kernels::ld_nc_evict_unchanged,
    ] {
        unary(&SM_80, kernel, &words(), |x| x);
    }
    for kernel in [&kernels::ld_cs, &kernels::ld_nc_u64, &kernels::ld_nc_v2] {
        unary(&SM_80, kernel, &longs, |x| x);
    }
    for kernel in [
        &kernels::ld_cg,
        &kernels::ld_evict_first,
        &kernels::ld_no_allocate,
        &kernels::ld_128b,
        &kernels::ld_256b,
        &kernels::ld_nc_v4,
        &kernels::ld_nc_no_allocate_128b,
        &kernels::ld_nc_256b,
    ] {
        unary(&SM_80, kernel, &wide(), |x| x);
    }
}

#[test]
fn hints_do_not_change_what_is_stored() {
    for kernel in [&kernels::st_wb, &kernels::st_wt, &kernels::st_evict_last] {
        unary(&SM_80, kernel, &words(), |x| x);
    }
    unary(&SM_80, &kernels::st_cs, &random(56, 999), |x| x);
    for kernel in [&kernels::st_cg, &kernels::st_evict_first, &kernels::st_no_allocate] {
        unary(&SM_80, kernel, &wide(), |x| x);
    }
}

#[test]
fn policies_of_l2_do_not_change_what_is_moved() {
    for kernel in
        [&kernels::policy_last, &kernels::policy_normal, &kernels::policy_first, &kernels::policy_unchanged]
    {
        unary(&SM_80, kernel, &wide(), |x| x);
    }
}

#[test]
fn a_prefetch_of_any_address_does_nothing() {
    unary(&SM_80, &kernels::prefetched, &words(), |x| x);
}

#[track_caller]
fn through_shared<T: Bits>(kernel: &Kernel<(Global<T>, GlobalMut<T>)>, of: impl Fn(u64) -> T) {
    let source: Vec<T> = random(57, 128).into_iter().map(of).collect();
    on_each(
        &SM_80,
        kernel.name(),
        |i| Some(source[i]),
        |i| format!("thread {i}"),
        |module, device| {
            let from = device.upload(&source).unwrap();
            let mut to = poisoned::<T>(device, 128);
            // SAFETY: an element for each of 128 threads.
            unsafe { module.launch(kernel, Grid::new(2, 64), (&from, &mut to)) }.unwrap();
            to.download().unwrap()
        },
    );
}

#[test]
fn cp_async_with_a_prefetch_copies() {
    for kernel in [&kernels::ca_4_64b, &kernels::ca_4_128b, &kernels::ca_4_256b] {
        through_shared(kernel, |r| r as u32);
    }
    for kernel in [&kernels::ca_8_64b, &kernels::ca_8_128b, &kernels::ca_8_256b] {
        through_shared(kernel, |r| r);
    }
    for kernel in [
        &kernels::ca_16_64b,
        &kernels::ca_16_128b,
        &kernels::ca_16_256b,
        &kernels::cg_16_64b,
        &kernels::cg_16_128b,
        &kernels::cg_16_256b,
    ] {
        through_shared(kernel, |r| u128::from(r) * 0x1_0000_0001_0000_0001);
    }
}

#[test]
fn copies_that_arrive_at_an_mbarrier_are_there_for_all_threads() {
    let source: Vec<u32> = random(58, 128).into_iter().map(|r| r as u32).collect();
    for kernel in [&kernels::mbarrier_counted, &kernels::mbarrier_uncounted] {
        let want = |i: usize| Some(source[i / 64 * 64 + (i + 1) % 64]);
        on_each(
            &SM_80,
            kernel.name(),
            want,
            |i| format!("element {i}"),
            |module, device| {
                let from = device.upload(&source).unwrap();
                let mut to = poisoned::<u32>(device, 128);
                // SAFETY: 128 elements each, which one block of 64 threads copies in two rounds.
                unsafe { module.launch(kernel, Grid::new(1, 64), (&from, &mut to, 2)) }.unwrap();
                to.download().unwrap()
            },
        );
    }
}
