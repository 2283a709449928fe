//! `moye bench OPERATION`: the operations of `moye run`, beside a copy of the same number of bytes.

use anyhow::{Result, bail};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use moye::Device;
use moye::operation::{
    Case, Declaration, Dtype, Measured, OperandOf, Role, Tuned, Value, measure_beside, tune as fastest,
};
use moye_bench::results::{Figure, Row};
use moye_bench::{Kind, Majors, Monitor, Seen, Size};
use std::fmt;
use std::time::Duration;

/// The default element types of a row.
const TYPES: [Kind; 2] = [Kind::Bf16, Kind::F32];

/// A cast to the same type copies.
const COPIED: &[(&str, Value)] = &[("dtype", Value::Dtype(Dtype::Bf16))];

/// The operation of this name.
pub fn named(name: &str) -> Option<&'static Declaration> {
    crate::commands::run::operations().find(|declaration| declaration.name == name).copied()
}

/// The operations' names, each with its help.
pub fn names() -> impl Iterator<Item = PossibleValue> {
    crate::commands::run::operations()
        .map(|declaration| PossibleValue::new(declaration.name).help(declaration.about().0))
}

/// Parses the name of an operation to tune: products and attention are among them, which
/// `moye bench` measures by their own cases.
pub fn parser() -> impl TypedValueParser<Value = &'static Declaration> {
    const OTHERS: [&Declaration; 2] = [&moye::MATMUL, &moye::ATTENTION];
    let others = OTHERS.map(|of| PossibleValue::new(of.name).help(of.about().0));
    PossibleValuesParser::new(names().chain(others)).map(|name| {
        let other = OTHERS.into_iter().find(|of| of.name == name).unwrap_or(&moye::MATMUL);
        named(&name).unwrap_or(other)
    })
}

/// One measurement.
pub struct Work {
    declaration: &'static Declaration,
    case: &'static Case,
    dtype: Dtype,
}

/// The elements of a kind of products, if operations take them.
const fn elements(kind: Kind) -> Option<Dtype> {
    match kind {
        Kind::F32 => Some(Dtype::F32),
        Kind::F16 => Some(Dtype::F16),
        Kind::Bf16 => Some(Dtype::Bf16),
        Kind::I8 => Some(Dtype::I8),
        Kind::E4m3 => Some(Dtype::E4m3),
        Kind::Tf32 | Kind::F16Accumulators | Kind::F64 => None,
    }
}

/// Each benchmark case of an operation, with each of these types that it takes.
///
/// # Errors
/// An operation takes none of them.
pub fn works(declarations: &[&'static Declaration], types: &[Kind]) -> Result<Vec<Work>> {
    let types = if types.is_empty() { &TYPES[..] } else { types };
    let mut works = Vec::new();
    for declaration in declarations {
        let takes = |kind: &Kind| {
            let dtype = elements(*kind)?;
            declaration.operands.iter().any(|operand| operand.dtypes.contains(&dtype)).then_some(dtype)
        };
        let dtypes: Vec<_> = types.iter().filter_map(takes).collect();
        if dtypes.is_empty() {
            let names: Vec<_> = types.iter().map(|kind| kind.name()).collect();
            bail!("{} has no operand of {}", declaration.name, names.join(" or "));
        }
        for &dtype in &dtypes {
            works.extend(declaration.bench.iter().map(|case| Work { declaration, case, dtype }));
        }
    }
    Ok(works)
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.declaration.name, self.dtype)?;
        for shape in self.case.inputs.iter().flatten() {
            let extents: Vec<_> = shape.iter().map(usize::to_string).collect();
            write!(f, " {}", extents.join("x"))?;
        }
        self.case.options.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))?;
        self.case.column_major.iter().try_for_each(|name| write!(f, " {name} column-major"))?;
        f.write_str(&self.with())
    }
}

impl Work {
    /// A product of these extents. C is column-major, as in [`moye_bench`].
    pub fn product(kind: Kind, majors: Majors, size: Size) -> Self {
        let Size { m, n, k } = size;
        // A case is data of the program: it is leaked.
        let shape = |shape: [usize; 2]| -> Option<&'static [usize]> { Some(Vec::leak(shape.to_vec())) };
        let column_major = [("a", !majors.a), ("b", !majors.b), ("out", true)];
        let column_major = column_major.into_iter().filter_map(|(name, is)| is.then_some(name));
        let (dtype, options): (_, &[_]) = match kind {
            Kind::Tf32 => (Dtype::F32, &[("precision", Value::Choice("tf32", &[]))]),
            Kind::F16Accumulators => (Dtype::F16, &[("precision", Value::Choice("float16", &[]))]),
            Kind::F32 => (Dtype::F32, &[]),
            Kind::F16 => (Dtype::F16, &[]),
            Kind::Bf16 => (Dtype::Bf16, &[]),
            Kind::F64 => (Dtype::F64, &[]),
            Kind::I8 => (Dtype::I8, &[]),
            Kind::E4m3 => (Dtype::E4m3, &[]),
        };
        let case = Case::new(vec![shape([m, k]), shape([k, n]), None, None, None, None].leak())
            .column_major(column_major.collect::<Vec<_>>().leak())
            .options(options)
            .within(kind.tolerance(k));
        Self { declaration: &moye::MATMUL, case: Box::leak(Box::new(case)), dtype }
    }

    /// The optional results to measure too.
    fn with(&self) -> String {
        let has_all = !self.case.is_bare && self.case.inputs.iter().all(Option::is_some);
        let optional = |operand: &&OperandOf| has_all && operand.role == Role::OptionalResult;
        let operands = self.declaration.operands.iter().filter(optional);
        operands.map(|operand| format!(" with {}", operand.name)).collect()
    }
}

/// The fastest plans of a measurement.
///
/// # Errors
/// Same as [`row`].
pub fn tune(device: &Device, work: &Work) -> Result<Tuned> {
    Ok(fastest(work.declaration, device, work.case, work.dtype)?)
}

/// Measures it and a copy of the same number of bytes, in turn.
///
/// # Errors
/// Those of the operation, and out of memory.
pub fn row(device: &Device, work: &Work, monitor: Option<&Monitor>) -> Result<Row> {
    let Work { declaration, case, dtype } = *work;
    let [measured, copy] = measure_beside(device, (declaration, case, dtype), |bytes| {
        // Half of the bytes are read and half are written. A case is data of the program: leaked.
        let elements: &'static [usize] = vec![bytes / 2 / Dtype::Bf16.bytes()].leak();
        let copied = Case::new(vec![Some(elements)].leak()).options(COPIED);
        (&moye_rows::affine::CAST, copied, Dtype::Bf16)
    })?;
    let seen = monitor.map_or_else(Seen::default, Monitor::look);
    let figure = |measured: &Measured| {
        let rate = |time: Duration| measured.bytes as f64 / time.as_secs_f64() / 1e9;
        Figure {
            median: rate(measured.time),
            least: rate(measured.most),
            most: rate(measured.least),
            seconds: measured.time.as_secs_f64(),
        }
    };
    let options = case.options.iter().map(|(name, value)| format!(" {name}={value}"));
    let shape = case.inputs[0].unwrap_or_default();
    let (last, leading) = shape.split_last().unwrap_or((&1, &[]));
    Ok(Row {
        work: declaration.name,
        kind: format!("{dtype}{}{}", options.collect::<String>(), work.with()),
        majors: None,
        epilogue: None,
        by: None,
        rest_ms: 0,
        m: leading.iter().product(),
        n: *last,
        k: None,
        unit: "GB/s",
        moye: figure(&measured),
        peer: Some(("copy", figure(&copy))),
        no_peer: None,
        limit: None,
        relative_error: None,
        kernel: measured.kernel.to_owned(),
        seen,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_measured_beside_a_copy_of_its_bytes() {
        const SHAPE: &[Option<&[usize]>] = &[Some(&[3, 40])];
        const CASE: Case = Case::new(SHAPE).options(&[("causal", Value::Bool(true))]);
        let declaration = named("softmax").unwrap();
        let work = Work { declaration, case: &CASE, dtype: Dtype::F32 };
        let row = row(&Device::sim(), &work, None).unwrap();
        assert_eq!(row.what(), format!("softmax {} causal=true 3 x 40", Dtype::F32));
        assert_eq!(row.moye.median, 960.0 / row.moye.seconds / 1e9, "120 elements are read and written");
        assert!(row.peer.is_some_and(|(name, copy)| name == "copy" && copy.median > 0.0));
        assert!(row.moye.least <= row.moye.median && row.moye.median <= row.moye.most, "{row:?}");
    }

    #[test]
    fn the_plans_of_an_operation_are_measured_in_turn() {
        const CASE: Case = Case::new(&[Some(&[1, 8]), Some(&[1, 8]), None]);
        let work = Work { declaration: named("linear_few").unwrap(), case: &CASE, dtype: Dtype::F32 };
        assert_eq!(work.to_string(), format!("linear_few {} 1x8 1x8", Dtype::F32));
        let Tuned { plans, failed } = tune(&Device::sim(), &work).unwrap();
        assert!(failed.is_empty(), "{failed:?}");
        let [plan] = &plans[..] else { panic!("{plans:?}") };
        assert!(plan.us <= plan.untuned_us && plan.kernel.starts_with("linear_few_f32_"), "{plan:?}");
    }

    #[test]
    fn types_that_an_operation_takes_are_measured_and_where_it_takes_none_that_is_an_error() {
        let softmax = named("softmax").unwrap();
        assert_eq!(works(&[softmax], &[]).unwrap().len(), 2 * softmax.bench.len());
        assert_eq!(works(&[softmax], &[Kind::F16, Kind::Tf32]).unwrap().len(), softmax.bench.len());
        let said = works(&[softmax], &[Kind::Tf32, Kind::F64]).err().unwrap().to_string();
        assert_eq!(said, "softmax has no operand of tf32 or f64");
    }
}
