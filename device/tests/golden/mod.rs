//! Reads the reference vectors of `tests/fixtures/data/golden` and applies the operations that they
//! name.

use std::fmt::Write as _;
use std::path::Path;

use moye_device::layout::*;
use serde_json::Value;

/// The lines of one file.
pub fn lines(file: &str) -> Vec<Value> {
    // A bundle for machines without cargo sets the variable too; the folder of the build does not
    // exist there.
    let package =
        std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
    let path = Path::new(&package).join("../tests/fixtures/data/golden").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// The result of an operation.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Int(i64),
    Tuple(IntTuple),
    Layout(Layout),
    Sliced(Layout, i64),
    Table(Vec<i64>),
    Tuples(Vec<IntTuple>),
}

pub fn tuple(value: &Value) -> IntTuple {
    match value {
        Value::Null => IntTuple::any(),
        Value::Number(number) => IntTuple::int(number.as_i64().expect("an integer")),
        Value::Array(elements) => IntTuple::tuple(&elements.iter().map(tuple).collect::<Vec<_>>()),
        other => panic!("no tuple: {other}"),
    }
}

pub fn layout(value: &Value) -> Layout {
    Layout::new(tuple(&value["shape"]), tuple(&value["stride"]))
}

pub fn tiler(value: &Value) -> Tiler {
    match value {
        Value::Object(_) => layout(value).tiler(),
        Value::Array(elements) => Tiler::by_mode(&elements.iter().map(tiler).collect::<Vec<_>>()),
        other => tuple(other).tiler(),
    }
}

fn int(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("no integer: {value}"))
}

fn ints(values: &Value) -> Vec<i64> {
    values.as_array().expect("a list").iter().map(int).collect()
}

pub fn swizzle(values: &Value) -> Result<Swizzle, LayoutError> {
    let values = ints(values);
    Swizzle::try_new(values[0], values[1], values[2])
}

fn composed(swizzled: &Value, offset: &Value, inner: &Value) -> Result<ComposedLayout, LayoutError> {
    ComposedLayout::try_new(swizzle(swizzled)?, int(offset), layout(inner))
}

/// This library's result of one request.
pub fn answer(op: &str, args: &[Value]) -> Result<Answer, LayoutError> {
    use Answer::*;
    let l = |i: usize| layout(&args[i]);
    let t = |i: usize| tuple(&args[i]);
    let by = |i: usize| tiler(&args[i]);
    Ok(match op {
        "coalesce" if args.len() == 1 => Layout(try_coalesce(l(0))?),
        "coalesce" | "coalesce_profile" => Layout(try_coalesce_profile(l(0), t(1))?),
        "filter" if args.len() == 1 => Layout(try_filter(l(0))?),
        "filter" | "filter_profile" => Layout(try_filter_profile(l(0), t(1))?),
        "complement" if args.len() == 1 => Layout(try_complement(l(0), l(0).cosize())?),
        "complement" => Layout(try_complement(l(0), try_product(t(1))?)?),
        "composition" => Layout(try_composition(l(0), l(1))?),
        "composition_tiler" => Layout(try_composition_tiler(l(0), by(1))?),
        "logical_divide" => Layout(try_logical_divide(l(0), by(1))?),
        "zipped_divide" => Layout(try_zipped_divide(l(0), by(1))?),
        "tiled_divide" => Layout(try_tiled_divide(l(0), by(1))?),
        "flat_divide" => Layout(try_flat_divide(l(0), by(1))?),
        "logical_product" => Layout(try_logical_product(l(0), by(1))?),
        "zipped_product" => Layout(try_zipped_product(l(0), by(1))?),
        "tiled_product" => Layout(try_tiled_product(l(0), by(1))?),
        "flat_product" => Layout(try_flat_product(l(0), by(1))?),
        "blocked_product" => Layout(try_blocked_product(l(0), l(1))?),
        "raked_product" => Layout(try_raked_product(l(0), l(1))?),
        "right_inverse" => Layout(try_right_inverse(l(0))?),
        "left_inverse" => Layout(try_left_inverse(l(0))?),
        "nullspace" => Layout(try_nullspace(l(0))?),
        "make_layout_like" => Layout(try_make_layout_like(l(0))?),
        "make_ordered_layout" => Layout(try_make_ordered_layout(t(0), t(1))?),
        "tile_to_shape" => Layout(try_tile_to_shape_ordered(l(0), t(1), t(2))?),
        "upcast" => Layout(try_upcast(l(0), int(&args[1]))?),
        "downcast" => Layout(try_downcast(l(0), int(&args[1]))?),
        "max_common_layout" => Layout(try_max_common_layout(l(0), l(1))?),
        "max_common_vector" => Int(try_max_common_vector(l(0), l(1))?),
        "size" => Int(l(0).size()),
        "cosize" => Int(l(0).cosize()),
        "product" => Int(try_product(t(0))?),
        "inner_product" => Int(try_inner_product(t(0), t(1))?),
        "prefix_product" if args.len() == 1 => Tuple(try_prefix_product(t(0))?),
        "prefix_product" => Tuple(try_prefix_product_from(t(0), t(1))?),
        "shape_div" => Tuple(try_shape_div(t(0), t(1))?),
        "crd2idx" => Int(try_crd2idx(l(0), t(1))?),
        "idx2crd" if args.len() == 3 => Tuple(try_idx2crd_strided(int(&args[0]), t(1), t(2))?),
        "idx2crd" => Tuple(try_idx2crd(int(&args[0]), t(1))?),
        "idx2crd_table" => {
            let all = (0..try_product(t(0))?).map(|i| try_idx2crd(i, t(0)));
            Tuples(all.collect::<Result<_, _>>()?)
        }
        "crd2crd" => Tuple(try_crd2crd(t(0), t(1))?),
        "slice" => Layout(try_slice(l(0), t(1))?),
        "slice_and_offset" => {
            let (part, offset) = try_slice_and_offset(l(1), t(0))?;
            Sliced(part, offset)
        }
        "swizzle" => Int(Swizzle::try_new(int(&args[0]), int(&args[1]), int(&args[2]))?.apply(int(&args[3]))),
        "swizzle_table" => {
            let swizzle = Swizzle::try_new(int(&args[0]), int(&args[1]), int(&args[2]))?;
            Table((0..int(&args[3])).map(|i| swizzle.apply(i)).collect())
        }
        "composed_layout_table" => {
            let layout = composed(&args[0], &args[1], &args[2])?;
            Table((0..layout.size()).map(|i| layout.at(i)).collect())
        }
        "composition_swizzled_table" => {
            let inner = composed(&args[1][0], &args[1][1], &args[1][2])?;
            let layout = try_composition_swizzled(l(0), inner)?;
            Table((0..layout.size()).map(|i| layout.at(i)).collect())
        }
        other => panic!("an operation that the tests do not know: {other}"),
    })
}

/// The first 4,096 values of a layout.
pub fn values(layout: &Layout) -> Vec<i64> {
    (0..layout.size().min(4096)).map(|i| layout.at(i)).collect()
}

/// Collects failures, so that a test reports all of them.
#[derive(Default)]
pub struct Failures {
    text: String,
    count: usize,
    pub checked: usize,
}

impl Failures {
    pub fn add(&mut self, line: &Value, what: impl std::fmt::Display) {
        self.count += 1;
        if self.count <= 40 {
            let _ = writeln!(self.text, "{} {} {}: {what}", line["id"], line["op"], line["args"]);
        }
    }

    #[track_caller]
    pub fn none(self, least: usize) {
        assert!(self.count == 0, "{} of {} lines fail:\n{}", self.count, self.checked, self.text);
        assert!(self.checked >= least, "only {} lines were checked, expected at least {least}", self.checked);
    }
}
