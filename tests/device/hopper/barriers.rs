//! mbarriers, named barriers, and other cooperation of a block's threads.

use crate::{PTX, devices};
use moye::{Global, GlobalMut, Grid, Kernel};
use moye_kernels_hopper as kernels;

#[test]
fn waits_by_parity_order_what_threads_wrote() {
    type Exchange = Kernel<(Global<u32>, GlobalMut<u32>, u32)>;
    const ROUNDS: usize = 7;
    for device in devices() {
        let module = device.load(&PTX).unwrap();
        for kernel in [&kernels::mbarrier_try_parity, &kernels::mbarrier_test_parity] as [&Exchange; 2] {
            let source: Vec<u32> = (0..64 * ROUNDS as u32).map(|i| i * i).collect();
            let buffer = device.upload(&source).unwrap();
            let mut output = device.alloc_zeroed::<u32>(source.len()).unwrap();
            // SAFETY: 64 elements for each round, one block.
            unsafe { module.launch(kernel, Grid::new(1, 64), (&buffer, &mut output, ROUNDS as u32)) }
                .unwrap();
            let expected: Vec<u32> = (0..source.len()).map(|i| source[i / 64 * 64 + (i + 1) % 64]).collect();
            assert_eq!(output.download().unwrap(), expected, "{} on {}", kernel.name(), device.name());
        }
    }
}

#[test]
fn half_of_a_block_waits_for_the_other_at_a_named_barrier() {
    for device in devices() {
        let module = device.load(&PTX).unwrap();
        let source: Vec<u32> = (0..64).map(|i| i * 3 + 1).collect();
        let buffer = device.upload(&source).unwrap();
        let mut output = device.alloc_zeroed::<u32>(64).unwrap();
        // SAFETY: 64 elements each, one block of 128.
        unsafe { module.launch(&kernels::named_barrier, Grid::new(1, 128), (&buffer, &mut output)) }.unwrap();
        let expected: Vec<u32> = source.iter().rev().copied().collect();
        assert_eq!(output.download().unwrap(), expected, "{}", device.name());
    }
}

#[test]
fn registers_go_from_one_warpgroup_to_the_others() {
    for device in devices() {
        let module = device.load(&PTX).unwrap();
        let source: Vec<u32> = (0..384).collect();
        let buffer = device.upload(&source).unwrap();
        let mut output = device.alloc_zeroed::<u32>(384).unwrap();
        // SAFETY: 384 elements each, one block of 384 threads.
        unsafe { module.launch(&kernels::set_registers, Grid::new(1, 384), (&buffer, &mut output)) }.unwrap();
        let expected: Vec<u32> = (0..384).map(|i| i + if i < 128 { 24 } else { 240 }).collect();
        assert_eq!(output.download().unwrap(), expected, "{}", device.name());
    }
}

#[test]
fn one_lane_of_a_warp_is_elected() {
    for device in devices() {
        let module = device.load(&PTX).unwrap();
        let mut output = device.alloc_zeroed::<u32>(6).unwrap();
        // SAFETY: two words for each of three warps.
        unsafe { module.launch(&kernels::elect_one, Grid::new(1, 96), (&mut output,)) }.unwrap();
        for warp in output.download().unwrap().chunks(2) {
            assert_eq!((warp[0], warp[1].count_ones()), (1, 1), "{}", device.name());
        }
    }
}

#[test]
fn dependent_launches_see_what_came_before() {
    for device in devices() {
        let module = device.load(&PTX).unwrap();
        let mut first = device.upload(&(0..640).collect::<Vec<u32>>()).unwrap();
        let mut second = device.alloc_zeroed::<u32>(640).unwrap();
        for _ in 0..4 {
            // SAFETY: 64 elements for each of ten blocks.
            unsafe {
                module.launch(&kernels::dependent, Grid::new(10, 64), (&first, &mut second)).unwrap();
                module.launch(&kernels::dependent, Grid::new(10, 64), (&second, &mut first)).unwrap();
            }
        }
        assert_eq!(first.download().unwrap(), (8..648).collect::<Vec<u32>>(), "{}", device.name());
    }
}
