//! The test of an operation from its declaration: each case, element type and memory layout against
//! the float64 reference, with poisoned results, guarded memory, and the same bits in a graph. One
//! case has NaN and infinities: the result has them where the reference does, and its other
//! elements are right.
//!
//! Spills to local memory are tested where the kernels' PTX is, by ptxas: see
//! `ops/rows/tests/operations/ptxas.rs`.
//!
//! ```ignore
//! #[test]
//! fn softmax_is_that_of_float64() {
//!     moye::operation::harness::check(&my_operations::SOFTMAX);
//! }
//! ```

use super::{Array, ArrayType, Call, Case, Declaration, Dtype, MemoryLayout, OperandOf, Role, offsets, tune};
use crate::{Buffer, Device, DeviceChoice, Error, Stream};
use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A byte of memory that a call does not write: workspaces, and elements of integers, of which it
/// is one far below 0 that no case computes.
const POISON: u8 = 0xA5;

/// The value of a reference for an element that a call leaves as it is.
pub const UNWRITTEN: f64 = f64::from_bits(0x7FFD_A5A5_A5A5_A5A5);

fn is_written(expected: &f64) -> bool {
    expected.to_bits() != UNWRITTEN.to_bits()
}

/// The bytes of an element before a call: of floats a NaN with a payload, which no kernel computes.
/// Any value of one byte may be computed: results of such elements have two poisons, one a run.
fn poison(dtype: Dtype) -> &'static [u8] {
    match dtype {
        Dtype::F32 => &[POISON, POISON, 0xE5, 0x7F],
        Dtype::F16 => &[POISON, 0x7E],
        Dtype::Bf16 => &[0xE5, 0x7F],
        Dtype::F64 | Dtype::C128 => &[POISON, POISON, POISON, POISON, POISON, POISON, 0xFD, 0x7F],
        _ => &[POISON],
    }
}

/// The memory layout of a case's arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Row-major, aligned to 256 bytes.
    Dense,
    /// Rows padded to a multiple of 16 bytes plus another 16 bytes.
    Padded,
    /// Rows padded by one element, starting at the second element: no row is aligned.
    Unaligned,
    /// The modes in reverse order: the last has the largest stride.
    Reversed,
}

impl Placement {
    /// All placements.
    pub const ALL: [Self; 4] = [Self::Dense, Self::Padded, Self::Unaligned, Self::Reversed];

    /// The elements before the first one, and the strides: of the placement, or of a similar one
    /// that the operand accepts.
    fn of(self, ty: &ArrayType, layout: MemoryLayout) -> (usize, Vec<i64>) {
        let vector = 16 / ty.dtype.bytes();
        let mut shape = ty.shape.clone();
        let placement = match (layout, self) {
            (MemoryLayout::Contiguous, Self::Unaligned) => {
                return (1, Array::row_major(ty, 0).strides);
            }
            (MemoryLayout::Dense, _) | (MemoryLayout::Contiguous, _) => Self::Dense,
            (MemoryLayout::Rows, Self::Unaligned) => Self::Padded,
            (_, placement) => placement,
        };
        // The last mode of rows stays contiguous.
        let reversed = shape.len().saturating_sub(usize::from(layout == MemoryLayout::Rows));
        let last = shape.last_mut();
        let offset = match (placement, last) {
            (Self::Padded, Some(last)) => {
                *last = last.next_multiple_of(vector) + vector;
                0
            }
            (Self::Unaligned, Some(last)) => {
                *last = last.next_multiple_of(vector) + 1;
                1
            }
            _ => 0,
        };
        let reversed = if placement == Self::Reversed { reversed } else { 0 };
        shape[..reversed].reverse();
        let mut strides = Array::row_major(&ArrayType { dtype: ty.dtype, shape }, 0).strides;
        strides[..reversed].reverse();
        (offset, strides)
    }
}

/// The devices to test: the simulator unless `MOYE_DEVICE` is `gpu`, and GPU 0 if there is one.
///
/// # Panics
/// `MOYE_REQUIRE_GPU` is 1, and there is no GPU.
pub fn devices() -> Vec<Device> {
    let set = |name: &str, value: &str| std::env::var_os(name).is_some_and(|is| is == *value);
    let mut devices = Vec::new();
    if !set("MOYE_DEVICE", "gpu") {
        devices.push(Device::sim());
    }
    match Device::choose(DeviceChoice::Gpu(0)) {
        Ok(device) => devices.push(device),
        Err(error) if set("MOYE_REQUIRE_GPU", "1") => panic!("{error}"),
        Err(error) => eprintln!("skipped on a GPU: {error}"),
    }
    devices
}

/// Tests all cases of an operation on all [`devices`], with each candidate of its plans, with the
/// workspaces of the stream and with a caller's: with both if a case runs as a call and in a graph,
/// otherwise alternating. The first case with three rows or more in an input of floats also runs
/// with NaN and infinities in some rows, unless the input is [`OperandOf::finite`].
///
/// # Panics
/// A result differs from the reference by more than the tolerance, memory next to a result or a
/// workspace was written, two runs differ, or a call failed; the message names the case.
pub fn check(declaration: &Declaration) {
    largest_workspace(declaration);
}

/// [`check`] for an operation with at least one case that needs a workspace.
///
/// # Panics
/// Same as [`check`]; also if there are devices and no case used the caller's workspace.
pub fn check_with_workspace(declaration: &Declaration) {
    let largest = largest_workspace(declaration);
    assert!(largest != Some(0), "{}: no case took a workspace of the caller", declaration.name);
}

/// [`check`] of the cases that `takes` selects, on one device, such as a simulator of another card,
/// without the case with NaN and infinities.
///
/// # Panics
/// Same as [`check`].
pub fn check_on(declaration: &Declaration, device: &Device, takes: impl Fn(&Case) -> bool) {
    largest_on(declaration, device, takes);
}

/// Checks an operation. Returns the size in bytes of the largest workspace taken from a caller: 0
/// if no case needs one, `None` without a device.
fn largest_workspace(declaration: &Declaration) -> Option<usize> {
    let check_all = |device: &Device| {
        check_special(declaration, device);
        largest_on(declaration, device, |_| true)
    };
    devices().iter().map(check_all).max()
}

/// The input that has NaN and infinities in a case: the first of floats, if it has three rows.
fn special_input(declaration: &Declaration, case: &Case, dtypes: usize) -> Option<&'static str> {
    let mut inputs = declaration.inputs().zip(case.inputs);
    let (of, shape) = inputs.find(|(of, shape)| {
        let is_random = of.known.is_none() && case.given(of.name).is_none();
        shape.is_some() && is_random && Dtype::FLOATS.contains(&of.dtypes[dtypes % of.dtypes.len()])
    })?;
    let [rows @ .., columns] = (*shape)? else { return None };
    (*columns > 0 && rows.iter().product::<usize>() > 2 && of.finite.is_none()).then_some(of.name)
}

/// Tests the first case with rows of floats with NaN and infinities in some of them.
fn check_special(declaration: &Declaration, device: &Device) {
    let first = declaration.operands.first().map_or(&[][..], |first| first.dtypes);
    for (dtypes, of) in first.iter().enumerate().take(if device.is_gpu() { first.len() } else { 1 }) {
        let found = declaration.cases.iter().enumerate().find_map(|(number, case)| {
            let takes = case.only.is_none_or(|only| only.contains(of));
            Some((number, case, special_input(declaration, case, dtypes).filter(|_| takes)?))
        });
        let Some((number, case, input)) = found else {
            let name = declaration.name;
            let mut inputs = declaration.inputs().filter(|input| input.role == Role::Input);
            let input = inputs.find(|input| {
                let of = input.dtypes.get(dtypes % input.dtypes.len().max(1));
                input.known.is_none() && of.is_some_and(|of| Dtype::FLOATS.contains(of))
            });
            let without = input.filter(|input| input.finite.is_none()).map(|input| input.name);
            assert!(
                without.is_none(),
                "{name}: no case of {of} has three random rows of {}, which are to have NaN and infinities; add \
                 one, or tell by OperandOf::finite why results do not have them",
                without.unwrap_or_default()
            );
            continue;
        };
        let form = Form { dtypes, placement: Placement::Padded, special: Some(input) };
        let workspaces = Workspaces::new(device);
        check_case(declaration, device, case, form, number as u64, &workspaces);
        workspaces.end(declaration.name);
    }
}

/// [`largest_workspace`] of some cases on one device.
fn largest_on(declaration: &Declaration, device: &Device, takes: impl Fn(&Case) -> bool) -> usize {
    let (workspaces, mut largest) = (Workspaces::new(device), 0);
    for (number, case) in declaration.cases.iter().enumerate().filter(|(_, case)| takes(case)) {
        let types = declaration.operands.iter().map(|operand| operand.dtypes.len()).max();
        let of_first = declaration.operands.first().map_or(&[][..], |first| first.dtypes);
        let computes = |dtypes: &usize| {
            let first = of_first.get(dtypes % of_first.len().max(1));
            first.is_none_or(|first| case.only.is_none_or(|only| only.contains(first)))
        };
        for dtypes in (0..types.unwrap_or(0)).filter(computes) {
            // On the simulator, run the first case in each placement. Run each type of each other
            // case in one placement, which rotates with the type and the case.
            for (index, placement) in Placement::ALL.into_iter().enumerate() {
                if number == 0 || (number + index + dtypes) % 4 == 0 || device.is_gpu() {
                    let form = Form { dtypes, placement, special: None };
                    check_case(declaration, device, case, form, number as u64, &workspaces);
                    largest = largest.max(workspaces.end(declaration.name));
                }
            }
        }
    }
    largest
}

/// A caller's memory, from which calls take their workspaces one after another.
struct Workspaces {
    memory: RefCell<Buffer<u8>>,
    /// The first byte and the number of bytes of each taken workspace.
    taken: Arc<Mutex<Vec<[usize; 2]>>>,
}

impl Workspaces {
    /// The minimum number of bytes between two workspaces, which must stay unchanged.
    const GUARD: usize = 256;

    fn new(device: &Device) -> Self {
        Self { memory: RefCell::new(Self::poisoned(device, 1 << 22)), taken: Arc::default() }
    }

    fn poisoned(device: &Device, bytes: usize) -> Buffer<u8> {
        device.upload(&vec![POISON; bytes]).expect("there is memory for the workspaces of a case")
    }

    fn taken(&self) -> MutexGuard<'_, Vec<[usize; 2]>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stream with workspaces in this memory.
    fn on(&self, stream: &Stream) -> Stream {
        let memory = self.memory.borrow();
        let (address, len, taken) = (memory.address(), memory.len(), self.taken.clone());
        let allocate = move |bytes: usize| {
            let mut taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
            let end = taken.last().map_or(0, |[first, bytes]| first + bytes) + Self::GUARD;
            let first = ((address + end as u64).next_multiple_of(256) - address) as usize;
            taken.push([first, bytes]);
            match first + bytes + Self::GUARD <= len {
                true => Ok(address + first as u64),
                false => Err(Error::Workspace { bytes, reason: "the next attempt has more".to_owned() }),
            }
        };
        // SAFETY: the memory outlives the call and its graph, and each workspace is handed out
        // once.
        unsafe { stream.with_workspaces(allocate) }
    }

    /// Whether a call was refused a workspace. If so, allocates more memory, and the call must be
    /// repeated.
    fn grow(&self, device: &Device) -> bool {
        let mut memory = self.memory.borrow_mut();
        let end = self.taken().last().map_or(0, |[first, bytes]| first + bytes + Self::GUARD);
        let grows = end > memory.len();
        if grows {
            *memory = Self::poisoned(device, 2 * end);
            self.taken().clear();
        }
        grows
    }

    /// Ends a case: the size of its largest workspace, after checking that no byte outside all of
    /// them was written.
    fn end(&self, of: &str) -> usize {
        let taken = std::mem::take(&mut *self.taken());
        if !taken.is_empty() {
            let mut memory = self.memory.borrow_mut();
            let mut bytes = memory.download().expect("it is the device's");
            taken.iter().for_each(|&[first, count]| bytes[first..][..count].fill(POISON));
            let written = bytes.iter().position(|&byte| byte != POISON);
            assert!(
                written.is_none(),
                "{of}: byte {written:?} beside the workspaces (first byte, bytes) {taken:?} was written"
            );
            memory.fill_bytes(POISON).expect("it is the device's");
        }
        taken.iter().map(|[_, bytes]| *bytes).max().unwrap_or(0)
    }
}

/// Deterministic random numbers (xorshift64*, Vigna 2016).
pub(super) struct Random(u64);

impl Random {
    /// Numbers that depend only on the seed.
    pub(super) fn new(seed: u64) -> Self {
        Self(0x9e37_79b9_7f4a_7c15 ^ (seed + 1).wrapping_mul(0x1000_0001))
    }

    /// Elements of a type in a range. Integers are distinct if the range has twice as many values,
    /// because they may be indices that are written to.
    pub(super) fn elements(&mut self, dtype: Dtype, range: &Range<f64>, count: usize) -> Vec<f64> {
        let distinct = dtype.is_integer() && range.end - range.start >= 2.0 * count as f64;
        let mut drawn = HashSet::new();
        let mut elements = Vec::with_capacity(count);
        while elements.len() < count {
            let element = self.next(dtype, range);
            if !distinct || drawn.insert(element as i64) {
                elements.push(element);
            }
        }
        elements
    }

    /// An element of a type, in `range` before rounding to the type.
    fn next(&mut self, dtype: Dtype, range: &Range<f64>) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let unit = (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1u64 << 53) as f64;
        let value = range.start + unit * (range.end - range.start);
        if dtype.is_integer() { value.floor() } else { value }
    }
}

/// An array of a case: its elements in row-major order, and the bytes of its memory.
struct Placed {
    ty: ArrayType,
    offset: usize,
    strides: Vec<i64>,
    bytes: Vec<u8>,
}

impl Placed {
    fn new(ty: ArrayType, layout: MemoryLayout, placement: Placement) -> Self {
        let (offset, strides) = placement.of(&ty, layout);
        let reach = ty
            .shape
            .iter()
            .zip(&strides)
            .map(|(&extent, &stride)| extent.saturating_sub(1) * stride as usize);
        let bytes = (offset + reach.sum::<usize>() + 1 + 16) * ty.dtype.bytes();
        let bytes = poison(ty.dtype).iter().copied().cycle().take(bytes).collect();
        Self { offset, strides, bytes, ty }
    }

    /// The offsets of the elements, in row-major order.
    fn places(&self) -> impl Iterator<Item = usize> + '_ {
        offsets(&self.ty.shape, &self.strides).map(|offset| self.offset + offset as usize)
    }

    fn values(&self, bytes: &[u8]) -> Vec<f64> {
        let size = self.ty.dtype.bytes();
        self.places().map(|place| self.ty.dtype.read(&bytes[place * size..][..size])).collect()
    }

    fn fill(&mut self, random: &mut Random, given: Option<&[f64]>, range: &Range<f64>) {
        let (size, dtype) = (self.ty.dtype.bytes(), self.ty.dtype);
        let places: Vec<_> = self.places().collect();
        let values = given.map_or_else(|| random.elements(dtype, range, places.len()), <[f64]>::to_vec);
        assert_eq!(values.len(), places.len(), "an element for each place");
        for (place, value) in places.iter().zip(values) {
            dtype.write(value, &mut self.bytes[place * size..][..size]);
        }
    }

    /// Sets the first element to NaN and the last one to infinity. With four rows or more, one of
    /// the second row is minus infinity.
    fn make_special(&mut self) {
        let (size, dtype) = (self.ty.dtype.bytes(), self.ty.dtype);
        let places: Vec<_> = self.places().collect();
        let columns = self.ty.shape.last().copied().unwrap_or(1);
        let mut set =
            |index: usize, value| dtype.write(value, &mut self.bytes[places[index] * size..][..size]);
        set(0, f64::NAN);
        set(places.len() - 1, f64::INFINITY);
        if places.len() / columns > 3 {
            set(columns + columns / 2, f64::NEG_INFINITY);
        }
    }

    /// Memory as `from`, with the elements of `bytes` that a call writes.
    fn with_written(&self, mut from: Vec<u8>, bytes: &[u8], expected: &[f64]) -> Vec<u8> {
        let size = self.ty.dtype.bytes();
        for (place, expected) in self.places().zip(expected) {
            if is_written(expected) {
                from[place * size..][..size].copy_from_slice(&bytes[place * size..][..size]);
            }
        }
        from
    }

    fn array(&self, buffer: &Buffer<u8>) -> Array {
        Array {
            dtype: self.ty.dtype,
            shape: self.ty.shape.clone(),
            strides: self.strides.clone(),
            address: buffer.address() + (self.offset * self.ty.dtype.bytes()) as u64,
        }
    }
}

/// What a test of a case chooses.
#[derive(Clone, Copy)]
struct Form {
    /// The index of the operands' types.
    dtypes: usize,
    placement: Placement,
    /// The input with NaN and infinities.
    special: Option<&'static str>,
}

fn check_case(
    declaration: &Declaration,
    device: &Device,
    case: &Case,
    Form { dtypes, placement, special }: Form,
    seed: u64,
    workspaces: &Workspaces,
) {
    let types = case.types(declaration, |operand| operand.dtypes[dtypes % operand.dtypes.len()]);
    let of: Vec<_> = types.iter().flatten().map(|ty| format!("{:?} {}", ty.shape, ty.dtype)).collect();
    let with = special.map_or_else(String::new, |input| format!(" with NaN and infinities in {input}"));
    let (name, of) = (declaration.name, of.join(", "));
    let what = format!("{name} of {of} {placement:?} {:?}{with} on {device:?}", case.options);
    let mut options = case.set_options(declaration).unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut random = Random::new(seed);
    let inputs: Vec<Option<Placed>> = declaration
        .inputs()
        .zip(&types)
        .map(|(operand, ty)| {
            let mut placed = Placed::new(ty.clone()?, operand.layout, placement);
            placed.fill(&mut random, case.given(operand.name), &case.range(operand.name));
            if special == Some(operand.name) {
                placed.make_special();
            }
            Some(placed)
        })
        .collect();
    let elements = |(of, input): (&OperandOf, &Option<Placed>)| {
        let input = input.as_ref().filter(|_| of.known.is_some())?;
        Some((of.name, input.values(&input.bytes)))
    };
    let known: Vec<_> = declaration.inputs().zip(&inputs).filter_map(elements).collect();
    declaration.know(&types, &known, &mut options).unwrap_or_else(|error| panic!("{what}: {error}"));
    let results = (declaration.results)(&types, &options).unwrap_or_else(|error| panic!("{what}: {error}"));
    let placed = |(operand, ty): (&OperandOf, ArrayType)| Placed::new(ty, operand.layout, placement);
    let results: Vec<_> = declaration.outputs().zip(results).map(placed).collect();
    let upload = |bytes: &[u8]| device.upload(bytes).unwrap_or_else(|error| panic!("{what}: {error}"));
    let read = inputs.iter().flatten().count();
    // Either the call uses the caller's workspaces and its graph the stream's, or the reverse.
    let (call_is_given, of_stream) = ((seed + dtypes as u64) % 2 == 1, device.default_stream());
    let attempt = |in_graph: bool| {
        let with_memory = |stream: &Stream| match call_is_given != in_graph {
            true => workspaces.on(stream),
            false => stream.clone(),
        };
        // In a graph another poison: what is not written then differs.
        let before = |result: &Placed| match in_graph {
            true => upload(&result.bytes.iter().map(|byte| !byte).collect::<Vec<_>>()),
            false => upload(&result.bytes),
        };
        let of_inputs = inputs.iter().flatten().map(|placed| upload(&placed.bytes));
        let memory: Vec<_> = of_inputs.chain(results.iter().map(before)).collect();
        let mut next = memory.iter();
        let mut given = inputs.iter();
        let mut written = results.iter();
        let operands: Vec<_> = declaration
            .operands
            .iter()
            .map(|operand| {
                let placed = match operand.role {
                    Role::Input | Role::Optional => given.next()?.as_ref()?,
                    Role::Result | Role::OptionalResult => written.next()?,
                };
                Some(placed.array(next.next()?))
            })
            .collect();
        let call = Call { operands: &operands, options: &options };
        declaration.check(&call).unwrap_or_else(|error| panic!("{what}: {error}"));
        let ran = if in_graph {
            // SAFETY: the arrays are in these buffers, which live until the results are downloaded.
            let graph = device.capture(|stream| unsafe { (declaration.run)(&with_memory(stream), &call) });
            graph.and_then(|graph| {
                let mut graph = graph.instantiate()?;
                // SAFETY: the arrays live until the download; nothing else runs on the stream.
                unsafe { graph.launch(&of_stream) }
            })
        } else {
            // SAFETY: the arrays are in these buffers, which live until the results are downloaded.
            unsafe { (declaration.run)(&with_memory(&of_stream), &call) }
        };
        if ran.is_err() && workspaces.grow(device) {
            return None;
        }
        ran.unwrap_or_else(|error| panic!("{what}: {error}"));
        let after = memory.iter().map(|buffer| buffer.download().expect("it is the device's"));
        Some(after.collect::<Vec<_>>())
    };
    let run = |in_graph| loop {
        if let Some(after) = attempt(in_graph) {
            break after;
        }
    };
    let (first, planned) = tune::with(None, || run(false));
    let values: Vec<_> = inputs
        .iter()
        .map(|input| input.as_ref().map(|input| (input.ty.clone(), input.values(&input.bytes))))
        .collect();
    let expected = (declaration.reference)(&values, &options);
    let verify = |after: &[Vec<u8>], what: &str| {
        for (input, bytes) in inputs.iter().flatten().zip(after) {
            assert!(input.bytes == *bytes, "{what}: an input was written");
        }
        for ((result, bytes), expected) in results.iter().zip(&after[read..]).zip(&expected) {
            let size = result.ty.dtype.bytes();
            let written = result.with_written(result.bytes.clone(), bytes, expected);
            assert!(written == *bytes, "{what}: memory beside the elements was written");
            let values = result.values(bytes);
            // Some of many elements of one byte may equal the poison.
            let is_close = |at: usize| (values[at] - expected[at]).abs() <= 0.01 * expected[at].abs();
            let unwritten = result.places().enumerate().find(|&(at, place)| {
                let own = place * size..(place + 1) * size;
                is_written(&expected[at]) && bytes[own.clone()] == result.bytes[own] && !is_close(at)
            });
            assert!(unwritten.is_none(), "{what}: an element of the result was not written");
            let tolerance = case.tolerance.unwrap_or_else(|| (declaration.tolerance)(result.ty.dtype));
            compare(&values, expected, tolerance, what);
        }
    };
    verify(&first, &what);
    // The simulator's order of execution does not depend on the type.
    let has_bytes = results.iter().any(|result| result.ty.dtype.bytes() == 1);
    if device.is_gpu() || (dtypes == 0 || has_bytes) && special.is_none() {
        let (mut again, _) = tune::with(None, || run(true));
        for ((result, bytes), expected) in results.iter().zip(&mut again[read..]).zip(&expected) {
            let complement = bytes.iter().map(|byte| !byte).collect();
            *bytes = result.with_written(complement, bytes, expected);
        }
        assert_eq!(
            first, again,
            "{what}: a launch of its graph differs from a call, or an element was not written"
        );
    }
    // Plans that other problems, cards or a file of tuned plans select.
    if device.is_gpu() || dtypes == 0 && (placement == Placement::Dense || special.is_some()) {
        for planned in &planned {
            for (candidate, kernel) in planned.others() {
                let (after, _) = tune::with(Some((planned, candidate)), || run(false));
                verify(&after, &format!("{what}, candidate {candidate} ({kernel})"));
            }
        }
    }
}

/// Compares by relative norm what is written; NaN and infinities must be equal.
fn compare(got: &[f64], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(got.len(), expected.len(), "{what}");
    let (mut error, mut norm) = (0.0, 0.0);
    let written = got.iter().zip(expected).enumerate().filter(|(_, (_, expected))| is_written(expected));
    for (index, (&got, &expected)) in written {
        if got.is_finite() && expected.is_finite() {
            error += (got - expected).powi(2);
            norm += expected.powi(2);
        } else {
            let same = got.is_nan() && expected.is_nan() || got == expected;
            assert!(same, "{what}: element {index} is {got}, and must be {expected}");
        }
    }
    let relative = if norm > 0.0 { (error / norm).sqrt() } else { error.sqrt() };
    assert!(relative <= tolerance, "{what}: relative error {relative:e}, more than {tolerance:e}");
}
