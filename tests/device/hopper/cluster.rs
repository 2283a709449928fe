//! Clusters.

use crate::{PTX, devices};
use moye::{Error, Grid, TensorMap};
use moye_device::atom::tma::TmaTile;
use moye_device::layout::{ComposedLayout, layout};
use moye_kernels_hopper as kernels;

#[test]
fn blocks_know_their_place() {
    for device in devices() {
        let module = device.load(&PTX).unwrap();
        let mut output = device.alloc_zeroed::<u32>(8 * 4 * 6 * 2).unwrap();
        let grid = Grid::new((4, 6, 2), 32).clusters((2, 3));
        // SAFETY: eight words for each block.
        unsafe { module.launch(&kernels::cluster_place, grid, (&mut output,)) }.unwrap();
        for (block, told) in output.download().unwrap().chunks(8).enumerate() {
            let (x, y) = (block as u32 % 4 % 2, block as u32 / 4 % 6 % 3);
            assert_eq!(told, [x + 2 * y, 6, x, y, 0, 2, 3, 1], "block {block} on {}", device.name());
        }
    }
}

#[test]
fn impossible_clusters_are_refused() {
    for device in devices() {
        let module = device.load(&PTX).unwrap();
        let mut output = device.alloc_zeroed::<u32>(8 * 64).unwrap();
        for (blocks, cluster) in [(9, 9), (6, 4), (4, 0)] {
            let grid = Grid::new(blocks, 32).clusters(cluster);
            // SAFETY: nothing is launched.
            let result = unsafe { module.launch(&kernels::cluster_place, grid, (&mut output,)) };
            assert!(matches!(result, Err(Error::Cluster { .. })), "{result:?}");
        }
    }
}

#[test]
fn words_go_to_other_blocks_and_come_back() {
    for device in devices() {
        let module = device.load(&PTX).unwrap();
        let grid = Grid::new(8, 64).clusters(4);
        let mut output = device.alloc_zeroed::<u32>(64 * 8).unwrap();
        // SAFETY: 64 words for each block.
        unsafe { module.launch(&kernels::cluster_u32, grid, (&mut output,)) }.unwrap();
        for (i, value) in output.download().unwrap().into_iter().enumerate() {
            let (previous, thread) = ((i / 64 + 3) % 4, i % 64);
            assert_eq!(value as usize, 1000 * previous + 63 - thread, "{i} on {}", device.name());
        }
        // SAFETY: 64 words for each block.
        unsafe { module.launch(&kernels::cluster_u128, grid, (&mut output,)) }.unwrap();
        for (i, value) in output.download().unwrap().into_iter().enumerate() {
            let (previous, thread) = ((i / 64 + 3) % 4, 15 - i % 64 / 4);
            let expected = [previous, thread, 2 * thread, 3 * thread][i % 4];
            assert_eq!(value as usize, expected, "{i} on {}", device.name());
        }
    }
}

#[test]
fn arrivals_from_other_blocks_end_phases() {
    const ROUNDS: usize = 5;
    for device in devices() {
        let module = device.load(&PTX).unwrap();
        let mut output = device.alloc_zeroed::<u32>(ROUNDS * 8 * 4).unwrap();
        let grid = Grid::new(8, 64).clusters(4);
        // SAFETY: a word for each round, block and peer.
        unsafe { module.launch(&kernels::cluster_mbarrier, grid, (&mut output, ROUNDS as u32)) }.unwrap();
        for (i, value) in output.download().unwrap().into_iter().enumerate() {
            let (peer, block, round) = (i % 4, i / 4 % 8, i / 32);
            assert_eq!(value as usize, 100 * round + 10 * peer + block % 4, "{i} on {}", device.name());
        }
    }
}

#[test]
fn multicast_gives_every_block_all_parts() {
    let numbers: Vec<u32> = (0..64).map(|i| 7 * i + 1).collect();
    for device in devices() {
        let module = device.load(&PTX).unwrap();
        let grid = Grid::new(8, 64).clusters(4);
        let source = device.upload(&numbers).unwrap();
        let mut output = device.alloc_zeroed::<u32>(64 * 8).unwrap();
        for kernel in [&kernels::multicast_bytes, &kernels::multicast_bytes_policy] {
            output.upload_from(&[0; 64 * 8]).unwrap();
            // SAFETY: 64 words, and 64 for each block.
            unsafe { module.launch(kernel, grid, (&source, &mut output)) }.unwrap();
            for part in output.download().unwrap().chunks(64) {
                assert_eq!(part, numbers, "{} on {}", kernel.name(), device.name());
            }
        }
        let tile = TmaTile::new(ComposedLayout::plain(layout!((32,))), 32);
        let map = TensorMap::of_tile(&device, &tile, &source, &layout!((64,))).unwrap();
        output = device.alloc_zeroed::<u32>(64 * 8).unwrap();
        // SAFETY: 64 words in the source, and 64 for each block.
        unsafe { module.launch(&kernels::multicast_tensor, grid, (&map, &mut output)) }.unwrap();
        for part in output.download().unwrap().chunks(64) {
            assert_eq!(part, numbers, "boxes on {}", device.name());
        }
    }
}

#[test]
fn blocks_copy_to_the_next() {
    for device in devices() {
        let module = device.load(&PTX).unwrap();
        let mut output = device.alloc_zeroed::<u32>(32 * 8).unwrap();
        let grid = Grid::new(8, 64).clusters(4);
        // SAFETY: 32 words for each block.
        unsafe { module.launch(&kernels::copy_to_cluster, grid, (&mut output,)) }.unwrap();
        for (i, value) in output.download().unwrap().into_iter().enumerate() {
            assert_eq!(value as usize, 100 * ((i / 32 + 3) % 4) + i % 32, "{i} on {}", device.name());
        }
    }
}

#[test]
fn asynchronous_stores_of_every_width_are_there_after_the_phase() {
    const ROUNDS: usize = 3;
    // Each kernel, and the factors of the words that it sends relative to the first.
    let senders: [(_, &[usize]); 5] = [
        (&kernels::store_async_u32, &[1]),
        (&kernels::store_async_f32, &[1]),
        (&kernels::store_async_u64, &[1, 3]),
        (&kernels::store_async_u32x2, &[1, 3]),
        (&kernels::store_async_u128, &[1, 3, 5, 7]),
    ];
    for device in devices() {
        let module = device.load(&PTX).unwrap();
        for (kernel, times) in senders {
            let mut output = device.alloc_zeroed::<u32>(64 * 8 * ROUNDS).unwrap();
            let grid = Grid::new(8, 64).clusters(4);
            // SAFETY: 64 words for each block in each round.
            unsafe { module.launch(kernel, grid, (&mut output, ROUNDS as u32)) }.unwrap();
            for (i, value) in output.download().unwrap().into_iter().enumerate() {
                let (words, round, previous) = (times.len(), i / 64 / 8, (i / 64 % 8 + 3) % 4);
                let thread = 64 / words - 1 - i % 64 / words;
                let expected = times[i % words] * (10_000 * round + 1000 * previous + thread);
                assert_eq!(value as usize, expected, "{i} of {} on {}", kernel.name(), device.name());
            }
        }
    }
}
