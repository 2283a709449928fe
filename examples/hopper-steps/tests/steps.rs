//! Every step compared with float64, on the simulator and on a GPU with `wgmma` if there is one.

use hopper_steps::host::{Product, STEPS, Size, TOLERANCE, runs_on};
use moye::Device;

/// The simulator, and GPU 0 if it runs the kernels.
fn devices() -> Vec<Device> {
    let required = std::env::var_os("MOYE_REQUIRE_GPU").is_some_and(|value| value == "1");
    let mut devices = vec![Device::sim()];
    match Device::gpu(0) {
        Ok(gpu) if runs_on(&gpu) => devices.push(gpu),
        Ok(gpu) => println!("skipped on {}: it has no wgmma", gpu.name()),
        Err(error) if required => panic!("MOYE_REQUIRE_GPU: {error}"),
        Err(error) => println!("skipped on a GPU: {error}"),
    }
    devices
}

fn is_right(index: usize) {
    let step = &STEPS[index];
    for device in devices() {
        // Fewer stages than the ring has; a ring that wraps around, and several tiles for a block;
        // on a GPU several bands.
        let mut sizes = vec![Size { m: 256, n: 256, k: 64 }, Size { m: 768, n: 512, k: 448 }];
        if device.is_gpu() {
            sizes.push(Size { m: 5376, n: 4352, k: 576 });
        }
        for size in sizes {
            let mut product = Product::new(&device, size, 24, index as u64).unwrap();
            let error = product.relative_error(step).unwrap();
            assert!(error < TOLERANCE, "{} of {size} on {}: {error:.1e}", step.name, device.name());
        }
    }
}

#[test]
fn step_1_is_right() {
    is_right(0);
}

#[test]
fn step_2_is_right() {
    is_right(1);
}

#[test]
fn step_3_is_right() {
    is_right(2);
}

#[test]
fn step_4_is_right() {
    is_right(3);
}

#[test]
fn step_5_is_right() {
    is_right(4);
}

#[test]
fn step_6_is_right() {
    is_right(5);
}

#[test]
fn step_6_from_parts_is_right() {
    is_right(6);
}

#[test]
fn blocks_of_a_persistent_grid_share_all_tiles() {
    use hopper_steps::tiles::Tiles;
    for (rows, columns, blocks) in [(1, 1, 1), (8, 3, 5), (9, 4, 132), (21, 17, 66)] {
        let mut seen = vec![false; rows * columns];
        for block in 0..blocks {
            for (m, n) in Tiles::new(block, blocks, (rows as u32, columns as u32), 8) {
                let at = m as usize * columns + n as usize;
                assert!(
                    !std::mem::replace(&mut seen[at], true),
                    "({m}, {n}) of {rows} x {columns} came twice"
                );
            }
        }
        assert!(seen.iter().all(|&seen| seen), "{rows} x {columns} on {blocks} blocks: {seen:?}");
    }
}

#[test]
fn sizes_that_are_no_multiples_are_refused_with_one_that_is() {
    let device = Device::sim();
    for (size, said) in [
        ("384x256x64", "step6: M = 384 of 384x256x64 is not a multiple of 256; 512 would work"),
        ("256x300x64", "step6: N = 300 of 256x300x64 is not a multiple of 256; 512 would work"),
        ("256x256x96", "step6: K = 96 of 256x256x96 is not a multiple of 64; 128 would work"),
    ] {
        let size: Size = size.parse().unwrap();
        assert_eq!(STEPS[5].check_size(size).unwrap_err().to_string(), said);
        let error = Product::new(&device, size, 1, 0).unwrap().relative_error(&STEPS[5]).unwrap_err();
        assert_eq!(error.to_string(), said);
    }
    assert!(STEPS[4].check_size("384x256x64".parse().unwrap()).is_ok(), "one block has 128 rows");
    for wrong in ["", "4096", "64x64", "64x64x64x64", "0x64x64", "64x-1x64", "axbxc"] {
        assert!(wrong.parse::<Size>().unwrap_err().contains(&format!("`{wrong}`")), "{wrong}");
    }
}
