//! The time of an operation on a GPU.

use super::harness::Random;
use super::{Array, ArrayType, Call, Case, Declaration, Dtype, OperandOf, Options, Role};
use crate::graph::GraphExec;
use crate::{Buffer, Device, Result, Stream};
use std::time::Duration;

/// Bytes of all operand sets: several times the L2 cache, so that no run finds its data there.
const ROTATED: usize = 512 << 20;
/// Random values that the elements of an array repeat: a prime, so that rows differ.
const DRAWN: usize = 65_521;
/// The number of samples; their median counts.
const SAMPLES: usize = 11;
/// The minimum time of a sample.
const SAMPLE: Duration = Duration::from_millis(4);

/// A measurement.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The kernel.
    pub kernel: String,
    /// The median time of a call, averaged over many in a graph.
    pub time: Duration,
    /// The lowest time of a sample.
    pub least: Duration,
    /// The highest.
    pub most: Duration,
    /// Bytes that a call has to move: each input read once, each result written once.
    pub bytes: usize,
}

impl Measured {
    /// Bytes per nanosecond: GB/s.
    pub fn rate(&self) -> f64 {
        self.bytes as f64 / self.time.as_secs_f64() / 1e9
    }
}

/// Measures a case of an operation on random elements, in rotating operand sets. Operands that do
/// not accept `dtype` have the first type that they accept.
///
/// # Errors
/// The errors of the operation, and out of memory.
pub fn measure(declaration: &Declaration, device: &Device, case: &Case, dtype: Dtype) -> Result<Measured> {
    Prepared::new(declaration, device, case, dtype)?.measure()
}

/// [`measure`] of an operation and of another one beside it, such as a copy of its bytes, which
/// `peer` gets. Their samples alternate, so that a change of the clock affects both.
///
/// # Errors
/// Same as [`measure`].
pub fn measure_beside(
    device: &Device,
    (declaration, case, dtype): (&Declaration, &Case, Dtype),
    peer: impl FnOnce(usize) -> (&'static Declaration, Case, Dtype),
) -> Result<[Measured; 2]> {
    let ours = Prepared::new(declaration, device, case, dtype)?;
    let (declaration, case, dtype) = peer(ours.bytes);
    let peer = Prepared::new(declaration, device, &case, dtype)?;
    let (mut ours, mut peer) = (ours.timed()?, peer.timed()?);
    for _ in 0..SAMPLES {
        ours.sample()?;
        peer.sample()?;
    }
    Ok([ours.measured(), peer.measured()])
}

/// A case with its operands in memory.
pub(super) struct Prepared<'a> {
    declaration: &'a Declaration,
    device: &'a Device,
    options: Options,
    /// The operands of each set.
    calls: Vec<Vec<Option<Array>>>,
    /// Their elements: the operands of each set in order, without the omitted ones.
    buffers: Vec<Buffer<u8>>,
    /// Bytes that a call has to move.
    bytes: usize,
}

impl<'a> Prepared<'a> {
    /// Random operands.
    ///
    /// # Errors
    /// The case is refused, or out of memory.
    pub fn new(declaration: &'a Declaration, device: &'a Device, case: &Case, dtype: Dtype) -> Result<Self> {
        let mut options = case.set_options(declaration)?;
        let takes = |operand: &OperandOf| operand.dtypes.contains(&dtype);
        let inputs = case.types(declaration, |of| if takes(of) { dtype } else { of.dtypes[0] });
        let known: Vec<_> = declaration
            .operands
            .iter()
            .filter(|of| of.known.is_some())
            .filter_map(|of| Some((of.name, case.given(of.name)?.to_vec())))
            .collect();
        declaration.know(&inputs, &known, &mut options)?;
        let results = (declaration.results)(&inputs, &options)?;
        let (mut given, mut written) = (inputs.iter(), results.iter());
        let types: Vec<Option<ArrayType>> = declaration
            .operands
            .iter()
            .map(|operand| match operand.role {
                Role::Input | Role::Optional => given.next().cloned().flatten(),
                Role::Result => written.next().cloned(),
                // Optional results only if the case has all optional operands.
                Role::OptionalResult => {
                    let has_all = !case.is_bare && inputs.iter().all(Option::is_some);
                    written.next().filter(|_| has_all).cloned()
                }
            })
            .collect();
        let size = |ty: &ArrayType| ty.shape.iter().product::<usize>() * ty.dtype.bytes();
        let bytes: usize = types.iter().flatten().map(size).sum();
        // The simulator has no cache.
        let sets = if device.is_gpu() { (ROTATED / bytes.max(1)).clamp(1, 64) } else { 1 };
        let mut random = Random::new(0);
        let mut buffers: Vec<Buffer<u8>> = Vec::new();
        let mut calls = Vec::new();
        let mut elements = |(operand, ty): (&OperandOf, &Option<ArrayType>)| {
            let ty = ty.clone()?;
            let (bytes, each) = (size(&ty), ty.dtype.bytes());
            // Indices may have to be distinct.
            let all = Dtype::INTEGERS.contains(&ty.dtype);
            let count = if all { bytes / each } else { (bytes / each).min(DRAWN) };
            let drawn = case
                .given(operand.name)
                .map_or_else(|| random.elements(ty.dtype, &case.range(operand.name), count), <[f64]>::to_vec);
            let mut elements = vec![0u8; drawn.len() * each];
            for (element, value) in elements.chunks_exact_mut(each).zip(drawn) {
                ty.dtype.write(value, element);
            }
            let mut all = Vec::with_capacity(bytes);
            while all.len() < bytes {
                all.extend_from_slice(&elements[..elements.len().min(bytes - all.len())]);
            }
            Some((ty, all))
        };
        let drawn: Vec<_> = declaration.operands.iter().zip(&types).map(&mut elements).collect();
        for _ in 0..sets {
            let mut operands = Vec::new();
            for (of, operand) in declaration.operands.iter().zip(&drawn) {
                let Some((ty, elements)) = operand else {
                    operands.push(None);
                    continue;
                };
                let buffer = device.upload(elements)?;
                let mut array = Array::row_major(ty, buffer.address());
                if let ([.., rows, _], true) = (&ty.shape[..], case.column_major.contains(&of.name)) {
                    let last = ty.shape.len() - 1;
                    (array.strides[last - 1], array.strides[last]) = (1, *rows.max(&1) as i64);
                }
                operands.push(Some(array));
                buffers.push(buffer);
            }
            calls.push(operands);
        }
        let call = Call { operands: &calls[0], options: &options };
        declaration.check(&call)?;
        Ok(Self { declaration, device, options, calls, buffers, bytes })
    }

    /// A call with the first set of operands.
    fn call(&self) -> Call<'_> {
        Call { operands: &self.calls[0], options: &self.options }
    }

    /// Runs calls with the sets in turn.
    fn run(&self, stream: &Stream, count: usize) -> Result<()> {
        for operands in self.calls.iter().cycle().take(count) {
            // SAFETY: the arrays are in `buffers`, which live as long as `self`.
            unsafe { (self.declaration.run)(stream, &Call { operands, options: &self.options })? };
        }
        Ok(())
    }

    /// The elements of the first set's results after a call, as float64.
    ///
    /// # Errors
    /// The errors of the operation.
    pub fn results(&mut self) -> Result<Vec<(Dtype, Vec<f64>)>> {
        let operands = self.calls[0].iter().zip(self.declaration.operands);
        let given = operands.filter_map(|(array, of)| Some((array.as_ref()?.dtype, of.role.is_input())));
        let written: Vec<_> = given.enumerate().filter(|(_, (_, is_input))| !is_input).collect();
        for &(index, _) in &written {
            self.buffers[index].fill_bytes(0xFF)?;
        }
        self.run(&self.device.default_stream(), 1)?;
        let elements = |(index, (dtype, _)): (usize, (Dtype, bool))| {
            let bytes = self.buffers[index].download()?;
            Ok((dtype, bytes.chunks_exact(dtype.bytes()).map(|element| dtype.read(element)).collect()))
        };
        written.into_iter().map(elements).collect()
    }

    /// The plan of the call.
    ///
    /// # Errors
    /// The errors of the operation.
    pub fn explain(&self) -> Result<String> {
        Ok((self.declaration.explain)(&self.device.default_stream(), &self.call())?.into_owned())
    }

    /// A graph of as many calls as a sample takes: the host's time for a call does not count.
    ///
    /// # Errors
    /// The errors of the operation.
    pub fn timed(&self) -> Result<Timed<'_>> {
        let (device, sets) = (self.device, self.calls.len());
        let kernel = self.explain()?;
        self.run(&device.default_stream(), sets)?;
        let once = device.time(|stream| self.run(stream, sets))? / sets as u32;
        let count = (SAMPLE.as_secs_f64() / once.as_secs_f64().max(1e-6)).ceil() as usize;
        let count = count.clamp(1, 2000).next_multiple_of(sets);
        let graph = device.capture(|stream| self.run(stream, count))?.instantiate()?;
        let mut timed = Timed { of: self, kernel, graph, count: count as u32, times: Vec::new() };
        timed.sample()?;
        timed.times.clear();
        Ok(timed)
    }

    /// Measures the call.
    ///
    /// # Errors
    /// The errors of the operation.
    pub fn measure(&self) -> Result<Measured> {
        let mut timed = self.timed()?;
        for _ in 0..SAMPLES {
            timed.sample()?;
        }
        Ok(timed.measured())
    }
}

/// A call that is timed, and its samples.
pub(super) struct Timed<'a> {
    of: &'a Prepared<'a>,
    kernel: String,
    graph: GraphExec,
    /// Calls of a sample.
    count: u32,
    times: Vec<Duration>,
}

impl Timed<'_> {
    fn sample(&mut self) -> Result<()> {
        let graph = &mut self.graph;
        self.times.push(self.of.device.time(|stream| {
            // SAFETY: the arrays are in `of.buffers`; the samples run one after the other on one
            // stream.
            unsafe { graph.launch(stream) }
        })?);
        Ok(())
    }

    fn measured(mut self) -> Measured {
        self.times.sort();
        let last = self.times.len() - 1;
        let [least, time, most] = [0, last.div_ceil(2), last].map(|sample| self.times[sample] / self.count);
        Measured { kernel: self.kernel, time, least, most, bytes: self.of.bytes }
    }
}
