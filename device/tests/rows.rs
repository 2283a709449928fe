//! Parts of rows, and the values of warps that share a row.

use moye_device::algorithm::{ArgMax, OneBlock, Reduction, RowPart, RowScratch, RowShape, RowTeam};
use moye_device::prelude::*;
use moye_sim::{GlobalMemory, Launch};

/// 64 threads share a row: a block has the warps of two rows.
#[derive(Clone, Copy, Debug, Default)]
struct TwoWarps;

impl RowShape for TwoWarps {
    const THREADS: u32 = 64;
    const ALIGN: usize = 16;
    type Blocks = OneBlock;
}

/// Each thread's values across the warps of its row, and sums of 1 and of the thread's number.
///
/// # Safety
/// `y` holds four elements for each of 128 threads.
#[kernel(threads = TwoWarps::BLOCK, shared = (scratch: SharedArray<f32, RowScratch>))]
pub unsafe fn exchanged(y: GlobalMut<f32>) {
    let (mut team, thread) = (RowTeam::<TwoWarps>::new(scratch), thread_idx().x);
    // A warp has its first lane's values.
    let [warp, row] = team.across_warps([(thread / 32) as f32, team.row() as f32]);
    let [count, sum] = team.sum_in_block([1.0, thread as f32]);
    for (value, i) in [warp, row, count, sum].into_iter().zip(0..) {
        y.write(4 * thread + i, value);
    }
}

#[test]
fn warps_of_a_row_exchange_and_add_their_values() {
    let memory = GlobalMemory::new();
    let y = memory.upload(&[f32::NAN; 512], "y").unwrap();
    // SAFETY: `y` holds four elements for each thread.
    unsafe { exchanged.simulate(&memory, 1, 128, (GlobalMut::from_address(y.address()),)) }.unwrap();
    for (thread, got) in y.download::<f32>().chunks(4).enumerate() {
        let (row, lane) = (thread / 64, thread % 32);
        let sum = [63 * 32, 191 * 32][row];
        assert_eq!(got, [2 * row + lane % 2, row, 64, sum].map(|value| value as f32), "thread {thread}");
    }
}

#[test]
fn parts_across_rows_have_each_value_of_each_row_once_and_in_order() {
    const STRIDE: usize = 8;
    let memory = GlobalMemory::new();
    let x = memory.upload(&(0..30 * STRIDE).map(|i| i as f32).collect::<Vec<_>>(), "x").unwrap();
    let address = x.address();
    for (from, to) in [(0, 30), (3, 26), (5, 6), (7, 7)] {
        let seen = std::sync::Mutex::new(Vec::new());
        let run = || {
            let (part, mut last) = (RowPart { from, to, part: thread_idx().x, parts: 3 }, [None; 4]);
            let of_part = |row: usize, values: &[f32], first: u32| {
                assert!(last[row] < Some(first) && values.len() <= RowPart::ACROSS, "{first} of row {row}");
                for (&value, at) in values.iter().zip(first..) {
                    assert_eq!(value, (at as usize * STRIDE + row) as f32);
                    seen.lock().unwrap().push((row, at));
                }
                last[row] = Some(first);
            };
            // SAFETY: four neighbouring rows are vectors of 16 bytes, and have 30 elements.
            unsafe { part.for_each_across(Global::<f32>::from_address(address), STRIDE as i64, of_part) };
        };
        Launch::new("across", 1, 3, &memory).run(&run).unwrap();
        let mut seen = seen.into_inner().unwrap();
        seen.sort_unstable();
        let all: Vec<_> = (0..4).flat_map(|row| (from..to).map(move |at| (row, at))).collect();
        assert_eq!(seen, all, "{from} to {to}");
    }
}

#[test]
fn an_index_is_found_among_the_values_that_its_state_stands_for() {
    let nan = f32::NAN;
    let run = || {
        for (values, wanted) in [
            (&[1.0, 7.0, 7.0, 2.0][..], 1),
            (&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 9.0], 7),
            (&[3.0, nan, 5.0, nan], 1),
            (&[f32::NEG_INFINITY; 3], 0),
            (&[-0.0, 0.0], 0),
            (&[4.0], 0),
        ] {
            let (state, last) = (ArgMax::roughly(values, 100), values.len() - 1);
            assert_eq!(state.1, 100);
            // Past the end the last one is read again.
            let (max, at) = ArgMax::located(state, |at| values[(at as usize - 100).min(last)]);
            assert_eq!(at, 100 + wanted, "{values:?}");
            let whole = ArgMax::of(values, |i| 100 + i);
            assert!(whole.1 == at && (whole.0 == max || whole.0.is_nan() && max.is_nan()), "{values:?}");
        }
    };
    Launch::new("located", 1, 1, &GlobalMemory::new()).run(&run).unwrap();
}
