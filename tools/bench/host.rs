//! The host time of a call of a product, beside cuBLASLt's: the device works meanwhile, and the
//! host does not wait.

use super::cublas::{Gemm, Peer};
use super::product::Problem;
use crate::{Kind, Majors, Member, Size, with_types};
use anyhow::Result;
use moye::number::Scalar;
use moye::{Device, Matmul, MatrixMut, Output, Stream};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Calls that are timed together: fewer than a stream queues before a launch blocks.
const CALLS: u32 = 64;
/// A product to time.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The element types.
    pub kind: Kind,
    /// The majors of A and B.
    pub majors: Majors,
    /// M, N and K.
    pub size: Size,
}

/// The default products: with one kernel, with two, and with operands that are rearranged first.
pub const CASES: [Case; 6] = [
    Case { kind: Kind::F16, majors: Majors::TN, size: Size { m: 64, n: 4096, k: 4096 } },
    Case { kind: Kind::F16, majors: Majors::TN, size: Size::cube(2048) },
    Case { kind: Kind::Bf16, majors: Majors::NN, size: Size { m: 1000, n: 1000, k: 1000 } },
    Case { kind: Kind::Bf16, majors: Majors::NN, size: Size { m: 1001, n: 1003, k: 1007 } },
    Case { kind: Kind::F32, majors: Majors::TN, size: Size::cube(512) },
    Case { kind: Kind::Tf32, majors: Majors::TN, size: Size::cube(1024) },
];

/// The time of a call, in microseconds.
pub struct Cost {
    what: String,
    kernel: String,
    /// The times of `Matmul::run`, of the same product in a graph, and of the peer.
    call: f64,
    graph: f64,
    peer: Option<(&'static str, f64)>,
    /// The reason for a missing peer.
    no_peer: Option<String>,
}

/// Times a product by the host's clock: medians of `rounds` rounds.
pub fn cost(device: &Device, rounds: usize, peer: Result<&Peer, String>, case: Case) -> Result<Cost> {
    with_types!(case.kind, measured(device, rounds, peer, case))
}

fn measured<T: Member, U: Output<T> + Scalar + Default>(
    device: &Device,
    rounds: usize,
    peer: Result<&Peer, String>,
    Case { kind, majors, size }: Case,
) -> Result<Cost> {
    let mut problem = Problem::<T, U>::new(device, kind, majors, size)?;
    let other_c = device.alloc_uninit::<U>(size.m * size.n)?;
    let gemm = Gemm {
        kind,
        transposed: (majors.a, majors.b),
        m: size.m,
        n: size.n,
        k: size.k,
        addresses: problem.addresses(&other_c),
        activation: Default::default(),
        bias: None,
    };
    let (mut name, mut theirs, mut no_peer) = (None, None, None);
    match peer {
        // SAFETY: the buffers have these extents and stay alive; no other work uses `other_c`.
        Ok(side) => match unsafe { side.prepare(&gemm) } {
            Ok(run) => (name, theirs) = (Some(side.name()), Some(run)),
            Err(reason) => no_peer = Some(format!("{}: {reason:#}", side.name())),
        },
        Err(reason) => no_peer = Some(reason),
    }
    let (kernel, call) = {
        let (product, mut c) = problem.call()?;
        let kernel = product.explain(device, &mut c)?.to_string();
        (kernel, median(device, rounds, || Ok(product.run(device, &mut c)?))?)
    };
    problem.check("moye")?;
    let graph = {
        let (product, mut c) = problem.call()?;
        let mut graph = captured(device, &product, &mut c)?;
        let stream = device.default_stream();
        // SAFETY: the operands and C stay alive, and no other work uses them.
        median(device, rounds, || unsafe { graph.launch(&stream) }.map_err(Into::into))?
    };
    let peer = match (name, &mut theirs) {
        (Some(name), Some(run)) => Some((name, median(device, rounds, run)?)),
        _ => None,
    };
    Ok(Cost { what: format!("{kind} {majors} {size}"), kernel, call, graph, peer, no_peer })
}

fn captured<T: Member, U: Output<T>>(
    device: &Device,
    product: &Matmul<'_, T, U>,
    c: &mut MatrixMut<'_, U>,
) -> Result<moye::GraphExec> {
    // SAFETY: no other stream uses the operands and C.
    let graph = device.capture(|stream: &Stream| unsafe { product.run_on(stream, c) })?;
    Ok(graph.instantiate()?)
}

/// The median time of a call in microseconds, while the device is still working.
fn median(device: &Device, rounds: usize, mut call: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut times = Vec::with_capacity(rounds);
    for round in 0..rounds + 2 {
        let begun = Instant::now();
        for _ in 0..CALLS {
            call()?;
        }
        let took = begun.elapsed();
        device.synchronize()?;
        // The first rounds load kernels and allocate.
        if round >= 2 {
            times.push(took / CALLS);
        }
    }
    times.sort_unstable();
    let middle = times.get(times.len() / 2).copied().unwrap_or(Duration::ZERO);
    Ok(middle.as_secs_f64() * 1e6)
}

/// The costs as a table in Markdown.
pub fn table(costs: &[Cost]) -> String {
    let mut text = String::from(
        "| product | a call, us | in a graph, us | beside, us | kernel |\n| --- | ---: | ---: | ---: | --- |\n",
    );
    for cost in costs {
        let peer = match (&cost.peer, &cost.no_peer) {
            (Some((name, time)), _) => format!("{time:.2} ({name})"),
            (None, reason) => reason.clone().unwrap_or_default(),
        };
        let Cost { what, kernel, call, graph, .. } = cost;
        text += &format!("| {what} | {call:.2} | {graph:.2} | {peer} | {kernel} |\n");
    }
    text
}

/// The costs as JSON.
pub fn json(costs: &[Cost]) -> Value {
    let of = |cost: &Cost| {
        json!({
            "product": cost.what,
            "kernel": cost.kernel,
            "call_us": cost.call,
            "graph_us": cost.graph,
            "peer": cost.peer.map(|(name, _)| name),
            "peer_us": cost.peer.map(|(_, time)| time),
            "no_peer": cost.no_peer,
        })
    };
    Value::Array(costs.iter().map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_timed_and_its_product_checked_also_in_a_graph() {
        let case = Case { kind: Kind::F32, majors: Majors::TN, size: Size { m: 8, n: 9, k: 10 } };
        let cost = cost(&Device::sim(), 1, Err("a test".to_owned()), case).unwrap();
        assert!(cost.call > 0.0 && cost.graph > 0.0);
        let text = table(std::slice::from_ref(&cost));
        assert!(text.contains("| f32 tn 8 x 9 x 10 |") && text.contains("| a test |"), "{text}");
        assert_eq!(json(&[cost])[0]["no_peer"], "a test");
    }
}
