//! TMA's tiled copy on tensors of 1 to 5 modes: prefetches, loads and additions, also across each
//! edge.

use crate::{PTX, devices};
use moye::{Device, Grid, Module, TensorMapOf};
use moye_device::IntTuple;
use moye_device::layout::Layout;
use moye_device::tensor::StaticLayout;
use moye_kernels_hopper::{self as kernels, Line, Plane, Room, RowsFirst, Tiles};

/// The value of elements outside the tensors.
const UNTOUCHED: f32 = -7.0;

/// Adds one tensor to another with `launch`, which receives the numbers of tiles, and compares all
/// of the destination, including the memory between and after the tensor's elements.
fn adds<L: StaticLayout, const R: usize>(
    device: &Device,
    module: &Module,
    extents: [i64; R],
    strides: [i64; R],
    launch: impl Fn(&Module, Grid, &TensorMapOf<Tiles<L, R>>, &TensorMapOf<Tiles<L, R>>, [u32; R]),
) {
    let tensor = Layout::new(IntTuple::flat(&extents), IntTuple::flat(&strides));
    let size = tensor.cosize() as usize;
    let source: Vec<f32> = (0..size + 64).map(|i| i as f32).collect();
    let mut before = vec![UNTOUCHED; size + 64];
    let mut want = before.clone();
    for index in 0..tensor.size() {
        let at = tensor.at(index) as usize;
        before[at] = 0.5 * (index % 5) as f32;
        want[at] = before[at] + source[at];
    }
    let tiles: [u32; R] = std::array::from_fn(|mode| {
        let extent = if mode < L::LAYOUT.rank() { L::LAYOUT.extent(mode) } else { 1 };
        (extents[mode] as u32).div_ceil(extent as u32)
    });
    // One block; three blocks, with several tiles each if there are enough; more blocks than tiles.
    for blocks in [1, 3, tiles.iter().product::<u32>() + 2] {
        let (from, to) = (device.upload(&source).unwrap(), device.upload(&before).unwrap());
        let map = |buffer| TensorMapOf::<Tiles<L, R>>::new(buffer, &tensor).unwrap();
        launch(module, Grid::new(blocks, 32), &map(&from), &map(&to), tiles);
        let got = to.download().unwrap();
        let wrong = (0..got.len()).find(|&at| got[at] != want[at]);
        assert!(
            wrong.is_none(),
            "{tensor} by {blocks} blocks on {}: element {wrong:?} is {:?} and not {:?}",
            device.name(),
            wrong.map(|at| got[at]),
            wrong.map(|at| want[at]),
        );
        assert_eq!(from.download().unwrap(), source, "{tensor}: the source stays as it was");
    }
}

macro_rules! add {
    ($device:expr, $module:expr, $kernel:ident $tile:ty, $extents:expr, $strides:expr; $($d:literal)+) => {
        adds::<$tile, { $extents.len() }>($device, $module, $extents, $strides, |module, grid, from, to, tiles| {
            // SAFETY: the maps' tensors are alive, and do not overlap.
            unsafe { module.launch(&kernels::$kernel, grid, (from, to, $(tiles[$d]),+)) }.unwrap()
        })
    };
}

#[test]
fn tiles_of_tensors_of_1_to_5_modes_are_fetched_loaded_and_added_also_over_their_edges() {
    for device in devices() {
        let module = device.load(&PTX).unwrap();
        add!(&device, &module, add_lines_1d Line, [100], [1]; 0);
        add!(&device, &module, add_lines_2d Line, [40, 3], [1, 44]; 0 1);
        add!(&device, &module, add_planes_3d Plane, [40, 5, 2], [1, 40, 200]; 0 1 2);
        add!(&device, &module, add_rows_first_3d RowsFirst, [6, 40, 2], [40, 1, 240]; 0 1 2);
        add!(&device, &module, add_rooms_4d Room, [20, 3, 3, 2], [1, 20, 60, 180]; 0 1 2 3);
        add!(&device, &module, add_rooms_5d Room, [16, 3, 2, 2, 2], [1, 16, 48, 96, 192]; 0 1 2 3 4);
    }
}
