//! Pipelines whose consumers do not read all stages.

use crate::{PTX, devices};
use moye::Grid;
use moye_kernels_hopper as kernels;

/// Runs of stages that two warps read alternately, in a ring of three: shorter ones, longer ones,
/// whole rings, and long ones after which a warp that waited too early would accept an old phase.
const RUNS: &[&[u32]] =
    &[&[1], &[5], &[1, 1], &[3, 3, 3], &[2, 7, 1, 1, 4], &[6, 1, 6, 12, 1, 5], &[1, 2, 3, 4, 5, 6, 7, 8, 9]];

#[test]
fn consumers_skip_the_stages_that_others_read_in_turn() {
    for device in devices() {
        let module = device.load(&PTX).unwrap();
        for runs in RUNS {
            let stages: u32 = runs.iter().sum();
            let source: Vec<u32> = (0..32 * stages).map(|i| i.wrapping_mul(0x9E37_79B9) >> 2).collect();
            let (words, lengths) = (device.upload(&source).unwrap(), device.upload(runs).unwrap());
            let mut output = device.alloc_zeroed::<u32>(source.len()).unwrap();
            let arguments = (&words, &lengths, runs.len() as u32, &mut output);
            // SAFETY: 32 words for each stage of all runs, one block.
            unsafe { module.launch(&kernels::readers_in_turn, Grid::new(1, 96), arguments) }
                .unwrap_or_else(|error| panic!("{runs:?} on {}: {error}", device.name()));
            let readers = runs
                .iter()
                .enumerate()
                .flat_map(|(run, &stages)| std::iter::repeat_n(run as u32 % 2, 32 * stages as usize));
            let expected: Vec<u32> =
                source.iter().zip(readers).map(|(word, reader)| 2 * word + reader).collect();
            assert_eq!(output.download().unwrap(), expected, "{runs:?} on {}", device.name());
        }
    }
}
