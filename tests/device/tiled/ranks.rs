//! Tensors of three to five modes in global memory, on the simulator and on a GPU if there is one:
//! copies between permuted strides copy every element and write nothing else.

use crate::common::devices;
use crate::{SM_80, entry};
use moye::{Buffer, Grid, Module};
use moye_kernels_tiled::ranks::{Mode, copy_3, copy_4, copy_5};

/// The padding between the elements of the destination.
const UNTOUCHED: f32 = -1.0;

/// Strides that visit the modes in this order, the first fastest, with a gap after each mode except
/// the first, such that rows start at multiples of four elements.
fn strides(extents: &[u32], order: &[usize]) -> Vec<i64> {
    let (mut strides, mut next) = (vec![0; extents.len()], 1u64);
    for &mode in order {
        strides[mode] = next as i64;
        next = (next * u64::from(extents[mode])).next_multiple_of(4) + 4;
    }
    strides
}

fn elements(extents: &[u32], strides: &[i64]) -> usize {
    extents.iter().zip(strides).map(|(&n, &stride)| (i64::from(n) - 1) * stride).sum::<i64>() as usize + 1
}

/// The offset of the element with this linear index, the first mode fastest.
fn offset(mut number: usize, extents: &[u32], strides: &[i64]) -> usize {
    let mut offset = 0;
    for (&extent, &stride) in extents.iter().zip(strides) {
        offset += number % extent as usize * stride as usize;
        number /= extent as usize;
    }
    offset
}

/// Copies a tensor on each device, and compares all of the destination.
fn check(
    extents: &[u32],
    (from, to): (&[usize], &[usize]),
    launch: impl Fn(&Module, &Buffer<f32>, &mut Buffer<f32>, &[Mode]),
) {
    let (from, to) = (strides(extents, from), strides(extents, to));
    let source: Vec<f32> = (0..elements(extents, &from)).map(|i| i as f32).collect();
    let mut want = vec![UNTOUCHED; elements(extents, &to) + 64];
    let before = want.clone();
    for number in 0..extents.iter().product::<u32>() as usize {
        want[offset(number, extents, &to)] = source[offset(number, extents, &from)];
    }
    let modes: Vec<Mode> =
        (0..extents.len()).map(|i| Mode { extent: extents[i], src: from[i], dst: to[i] }).collect();
    for device in devices() {
        let module = device.load(&SM_80).unwrap();
        let (input, mut output) = (device.upload(&source).unwrap(), device.upload(&before).unwrap());
        launch(&module, &input, &mut output, &modes);
        let got = output.download().unwrap();
        let wrong = (0..got.len()).find(|&at| got[at] != want[at]);
        assert!(
            wrong.is_none(),
            "{extents:?}, strides {from:?} to {to:?}, on {}: element {wrong:?} is {:?} and not {:?}",
            device.name(),
            wrong.map(|at| got[at]),
            wrong.map(|at| want[at]),
        );
    }
}

#[test]
fn tiles_of_three_modes_over_each_edge_arrive() {
    for extents in [[4, 16, 4], [1, 1, 1], [5, 15, 9], [3, 40, 1], [9, 17, 5]] {
        for order in [([0, 1, 2], [2, 1, 0]), ([1, 2, 0], [0, 2, 1])] {
            check(&extents, (&order.0, &order.1), |module, input, output, modes| {
                let grid = (extents[0].div_ceil(4), extents[1].div_ceil(16), extents[2].div_ceil(4));
                // SAFETY: both tensors are in their buffers.
                unsafe {
                    module.launch(&copy_3, Grid::new(grid, 64), (input, output, modes[0], modes[1], modes[2]))
                }
                .unwrap();
            });
        }
    }
}

#[test]
fn heads_of_every_batch_arrive_by_words_of_16_bytes() {
    // (B, S, H, D)
    for extents in [[2, 16, 3, 32], [1, 1, 1, 1], [3, 21, 2, 30], [2, 7, 5, 9]] {
        for to in [[3, 1, 2, 0], [1, 0, 3, 2], [0, 3, 1, 2]] {
            check(&extents, (&[3, 2, 1, 0], &to), |module, input, output, modes| {
                let &[b, s, h, d] = modes else { unreachable!("four modes") };
                let grid = Grid::new((extents[2], extents[0]), 64);
                // SAFETY: both tensors are in their buffers; the source's rows are aligned.
                unsafe { module.launch(&copy_4, grid, (input, output, b, s, h, d)) }.unwrap();
            });
        }
    }
}

#[test]
fn tiles_of_five_modes_over_each_edge_arrive() {
    for extents in [[2, 3, 1, 4, 8], [1, 1, 1, 1, 1], [3, 7, 2, 5, 9], [2, 2, 3, 7, 17]] {
        for order in [([0, 1, 2, 3, 4], [4, 3, 2, 1, 0]), ([4, 2, 0, 1, 3], [1, 3, 4, 0, 2])] {
            check(&extents, (&order.0, &order.1), |module, input, output, modes| {
                let &[a, b, c, d, e] = modes else { unreachable!("five modes") };
                let grid = (extents[0].div_ceil(2), extents[3].div_ceil(4), extents[4].div_ceil(8));
                // SAFETY: both tensors are in their buffers.
                unsafe { module.launch(&copy_5, Grid::new(grid, 64), (input, output, a, b, c, d, e)) }
                    .unwrap();
            });
        }
    }
}

#[test]
fn coordinates_of_five_modes_stay_in_registers() {
    for name in ["copy_3", "copy_5"] {
        entry(name);
    }
    let wide = |name: &str| name.starts_with("ld.global") && name.contains(".v4");
    assert!(entry("copy_4").count_where(wide) > 0, "rows are loaded by words of 16 bytes");
}
