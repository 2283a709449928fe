//! Attention benchmarks: prompts, decoding against a cache, chunks of a prompt.
//!
//! Unlike the declaration's benchmarks, rates count the scores that queries see, and for gigabytes
//! of scores only some rows of the result are compared with float64.

mod case;
mod operands;
mod reference;

pub use case::{Case, Options, Order, cases, cases_of_e4m3};

use super::results::{Figure, Row};
use super::timing::in_turn;
use super::{Measure, Monitor, Seen};
use anyhow::{Context, Result, bail};
use half::bf16;
use moye::number::{F8E4M3, Scalar};
use moye::{AttentionElement, Buffer, HeadsMut};
use operands::{OnDevice, Operands};
use reference::relative_error;

/// Checks and times a case.
///
/// # Errors
/// A wrong result, or an error of the device.
pub fn row(measure: &Measure<'_>, case: &Case) -> Result<Row> {
    // Weights are rounded to the type, so its error bound is larger.
    if case.e4m3 { row_of::<F8E4M3>(measure, case, 4e-2) } else { row_of::<bf16>(measure, case, 6e-3) }
}

/// [`row`] with the largest allowed relative error.
fn row_of<T: AttentionElement<Output = bf16> + Scalar>(
    measure: &Measure<'_>,
    case: &Case,
    tolerance: f64,
) -> Result<Row> {
    let device = measure.device;
    if let Order::Pages(page) = case.order
        && (page == 0 || !case.keys.is_multiple_of(page))
    {
        bail!("attention {case}: {} keys are not a multiple of the pages' {page} tokens", case.keys);
    }
    let host = Operands::<T>::random(case);
    let data = OnDevice::of(device, case, &host)?;
    let shape = case.query_shape(case.dv);
    let mut o = device.alloc_uninit::<bf16>(shape.iter().product())?;
    o.fill_bytes(0xFF)?;
    let call = data.call(case)?;
    let run =
        |o: &mut Buffer<bf16>| -> Result<()> { Ok(call.run(device, &mut HeadsMut::head_first(o, shape)?)?) };
    let kernel = call
        .explain(device, &HeadsMut::head_first(&mut o, shape)?)
        .with_context(|| format!("attention {case} {} x {}", case.queries, case.keys))?;
    run(&mut o)?;
    let error = relative_error(case, &host, &o.download()?);
    if error.is_nan() || error > tolerance {
        bail!("attention {case} has the relative error {error:.1e}; it is not timed");
    }
    let mut seen = Vec::new();
    let mut watch = || seen.extend(measure.monitor.map(Monitor::look));
    let mut ours = || run(&mut o);
    let times = in_turn(device, &measure.plan, &mut [&mut ours], &mut watch)?;
    let (unit, amount) =
        if case.by_bytes { ("GB/s", case.bytes() / 1e9) } else { ("TFLOP/s", case.operations() / 1e12) };
    Ok(Row {
        work: "attention",
        kind: case.to_string(),
        majors: None,
        epilogue: None,
        by: None,
        rest_ms: measure.plan.rest.as_millis() as u64,
        m: case.queries,
        n: case.keys,
        k: None,
        unit,
        moye: Figure::new(&times[0], amount),
        peer: None,
        no_peer: None,
        limit: measure
            .facts
            .as_ref()
            .map(|facts| facts.memory_rate / 1e9)
            .filter(|&rate| case.by_bytes && rate > 0.0),
        relative_error: Some(error),
        kernel: format!("{}, splits {}", kernel.kernel.unwrap_or(""), kernel.splits),
        seen: Seen::typical(&seen),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::on_simulator;

    #[test]
    fn attention_is_checked_and_printed() {
        on_simulator(|measure| {
            let case =
                Case { kv_heads: 1, queries: 3, options: Options::CAUSAL, ..Case::prompt(1, 2, 70, 64) };
            let of_e4m3 = row(measure, &Case { e4m3: true, ..case }).unwrap();
            assert_eq!(of_e4m3.what(), "attention e4m3 B 1 H 2/1 D 64 causal 3 x 70");
            assert!(of_e4m3.relative_error.unwrap() < 4e-2, "{of_e4m3:?}");
            let row = row(measure, &case).unwrap();
            assert_eq!(row.what(), "attention bf16 B 1 H 2/1 D 64 causal 3 x 70");
            assert!(row.relative_error.unwrap() < 4e-3, "{row:?}");
        });
    }

    #[test]
    fn sequences_by_offsets_and_in_pages_are_checked_and_printed() {
        on_simulator(|measure| {
            for (order, says) in [(Order::Offsets, " by offsets"), (Order::Pages(64), " pages of 64")] {
                let case = Case {
                    kv_heads: 2,
                    queries: 20,
                    options: Options::CAUSAL,
                    order,
                    ..Case::prompt(2, 4, 128, 64)
                };
                let row = row(measure, &case).unwrap();
                assert_eq!(row.what(), format!("attention bf16 B 2 H 4/2 D 64 causal{says} 20 x 128"));
                assert!(
                    row.relative_error.unwrap() < 4e-3 && row.kernel.starts_with("hopper_bf16_64_few"),
                    "{row:?}"
                );
            }
        });
    }

    #[test]
    fn every_option_is_part_of_the_call_and_of_the_reference() {
        let all = [
            Options { window: [Some(9), Some(3)], ..Options::NONE },
            // The scores are below 1.
            Options { softcap: 0.125, ..Options::NONE },
            Options { alibi: true, ..Options::NONE },
            Options { sinks: true, ..Options::NONE },
            Options { bias: true, ..Options::CAUSAL },
            Options { mask: true, ..Options::NONE },
        ];
        on_simulator(|measure| {
            let case = Case { queries: 5, kv_heads: 1, ..Case::prompt(1, 2, 40, 64) };
            for options in all {
                let case = Case { options, ..case };
                let error = row(measure, &case).unwrap().relative_error.unwrap();
                assert!(error < 4e-3, "{case}: {error:.1e}");
                // A kernel that ignores the option must not be timed.
                let device = measure.device;
                let host = Operands::<bf16>::random(&case);
                let data = OnDevice::of(device, &case, &host).unwrap();
                let mut o = device.alloc_uninit::<bf16>(2 * 5 * 64).unwrap();
                let call = data.call(&Case { options: Options::NONE, ..case }).unwrap();
                call.run(device, &mut HeadsMut::head_first(&mut o, [1, 2, 5, 64]).unwrap()).unwrap();
                let error = relative_error(&case, &host, &o.download().unwrap());
                assert!(error > 6e-3, "{case} without the option: {error:.1e}");
            }
        });
    }

    #[test]
    fn other_heads_of_values_are_checked_and_head_sizes_without_a_kernel_are_refused() {
        on_simulator(|measure| {
            let case = Case { queries: 4, dv: 128, splits: Some(2), ..Case::prompt(1, 1, 64, 192) };
            let row = row(measure, &case).unwrap();
            assert_eq!(row.what(), "attention bf16 B 1 H 1 D 192/128 4 x 64");
            assert!(row.relative_error.unwrap() < 4e-3 && row.kernel.ends_with("splits 2"), "{row:?}");
            let refused = super::row(measure, &Case { d: 72, dv: 72, ..case }).unwrap_err();
            let refused = format!("{refused:#}");
            assert!(refused.contains("D 72 4 x 64: ") && refused.contains("192/128"), "{refused}");
            let pages = Case { order: Order::Pages(48), ..case };
            let refused = super::row(measure, &pages).unwrap_err().to_string();
            assert!(refused.contains("64 keys are not a multiple of the pages' 48 tokens"), "{refused}");
        });
    }
}
