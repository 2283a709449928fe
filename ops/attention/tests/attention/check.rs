//! Runs a case and compares it with the reference.

use crate::attention::*;
use crate::case::Case;
use crate::machine::{Buffer, Machine};
use crate::operands::{Buffers, Operands, POISON, Tested};
use crate::random::Random;
use crate::reference::{Errors, assert_lse, each_row, row};
use half::{bf16, f16};
use moye_device::kernel::Kernel;

/// A kernel and its tile's rows.
pub type Entry<T> = (Kernel<(Arguments<T>,)>, u32);

/// The element type's kernels.
pub trait Kernels: Tested {
    fn entry(case: &Case) -> Entry<Self>;
    fn combine() -> Kernel<(Arguments<Self>, u32)>;
}

macro_rules! kernels {
    ($t:ty, $combine:ident: $($d:literal $dv:literal $rows:literal $plain:ident $general:ident $decode:ident;)+) => {
        impl Kernels for $t {
            fn entry(case: &Case) -> Entry<Self> {
                match (case.d, case.dv) {
                    $(($d, $dv) => if case.decode {
                        ($decode, 16)
                    } else if case.is_general() {
                        ($general, 64)
                    } else {
                        ($plain, $rows)
                    },)+
                    other => panic!("no kernel for heads of {other:?}"),
                }
            }
            fn combine() -> Kernel<(Arguments<Self>, u32)> {
                $combine
            }
        }
    };
}
kernels! { bf16, combine_bf16:
    64 64 128 forward_bf16_64 forward_bf16_64_general decode_bf16_64;
    80 80 128 forward_bf16_80 forward_bf16_80_general decode_bf16_80;
    96 96 128 forward_bf16_96 forward_bf16_96_general decode_bf16_96;
    128 128 128 forward_bf16_128 forward_bf16_128_general decode_bf16_128;
    192 192 64 forward_bf16_192 forward_bf16_192_general decode_bf16_192;
    192 128 64 forward_bf16_192x128 forward_bf16_192x128_general decode_bf16_192x128;
    256 256 64 forward_bf16_256 forward_bf16_256_general decode_bf16_256;
}
kernels! { f16, combine_f16:
    64 64 128 forward_f16_64 forward_f16_64_general decode_f16_64;
    80 80 128 forward_f16_80 forward_f16_80_general decode_f16_80;
    96 96 128 forward_f16_96 forward_f16_96_general decode_f16_96;
    128 128 128 forward_f16_128 forward_f16_128_general decode_f16_128;
    192 192 64 forward_f16_192 forward_f16_192_general decode_f16_192;
    192 128 64 forward_f16_192x128 forward_f16_192x128_general decode_f16_192x128;
    256 256 64 forward_f16_256 forward_f16_256_general decode_f16_256;
}

/// Runs `case` by the kernels for sm_80; see [`check_by`].
pub fn check<T: Kernels, M: Machine>(machine: &M, case: &Case, seed: u64) -> Errors {
    check_by::<T, M>(machine, case, seed, |arguments, _| {
        let (kernel, rows) = T::entry(case);
        let blocks = arguments.grid(rows);
        if blocks > 0 {
            machine.attend(&kernel, blocks, *arguments);
        }
    })
}

/// Runs `case` by `run` and reduces the splits unless the last block does, [`Machine::RUNS`] times.
/// Asserts that every result is within its bound, the whole by norm, that nothing else was written,
/// and that each run has the same bits.
pub fn check_by<T: Kernels, M: Machine>(
    machine: &M,
    case: &Case,
    seed: u64,
    run: impl Fn(&mut Arguments<T>, &Operands<T>),
) -> Errors {
    let operands = Operands::<T>::new(case, &mut Random::new(seed));
    let attend = || {
        let (buffers, mut arguments) = Buffers::new(machine, case, &operands);
        run(&mut arguments, &operands);
        let rows = arguments.batches * arguments.heads * arguments.q_length;
        if case.splits > 1 && rows > 0 && arguments.counters.address() == 0 {
            let blocks = rows.div_ceil(rows_of_block(rows, arguments.splits));
            machine.combine(&T::combine(), blocks, arguments, case.dv as u32);
        }
        assert!(buffers.len() < 20);
        (buffers.o.download(), buffers.lse.download())
    };
    let (all_o, all_lse) = attend();
    for _ in 1..M::RUNS {
        let (again_o, again_lse) = attend();
        let same = again_o == all_o && again_lse == all_lse;
        assert!(same, "another run has other bits; {case:?}, seed {seed}");
    }
    let o: Vec<T> = all_o.chunks_exact(2).map(crate::bytes::of_bytes).collect();
    let lse: Vec<f32> = all_lse.chunks_exact(4).map(crate::bytes::of_bytes).collect();
    let errors = each_row(case, |batch, head, token, errors| {
        let want = row(case, &operands, batch, token, head);
        let what = format!("batch {batch}, head {head}, token {token} of {case:?}, seed {seed}");
        let o = &o[operands.o_at(batch, token, head)..][..case.dv];
        errors.add(&what, case, &want, o);
        if want.results.lse == f64::NEG_INFINITY {
            assert!(o.iter().all(|o| o.value() == 0.0), "{what}: zeros");
        }
        if case.lse {
            let got = f64::from(lse[operands.lse_at(case, batch, token, head)]);
            assert_lse(&what, case, got, &want);
        }
    });
    let (mut o_written, mut lse_written) = (vec![false; o.len()], vec![false; lse.len()]);
    for batch in 0..case.batches {
        for head in 0..case.heads {
            for token in 0..case.lengths_of(batch).0 {
                let at = operands.o_at(batch, token, head);
                o_written[at..at + case.dv].fill(true);
                if case.lse {
                    lse_written[operands.lse_at(case, batch, token, head)] = true;
                }
            }
        }
    }
    for (what, all, written) in [("o", all_o, o_written), ("lse", all_lse, lse_written)] {
        let size = all.len() / written.len().max(1);
        for (at, written) in written.iter().enumerate() {
            let untouched = all[at * size..][..size].iter().all(|&byte| byte == POISON);
            assert!(
                *written || untouched,
                "{what}: element {at} outside of the results was written; {case:?}, seed {seed}"
            );
        }
    }
    assert!(errors.relative() <= T::ROUNDING, "{:e} by norm; {case:?}, seed {seed}", errors.relative());
    errors
}
