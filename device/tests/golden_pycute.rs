//! Results of NVIDIA's pycute.

use crate::golden::{Answer, Failures, answer, layout, lines, tuple, values};
use moye_device::layout::*;
use serde_json::Value;

/// The result of pycute.
fn expected(line: &Value) -> Answer {
    let result = &line["result"];
    match line["op"].as_str().unwrap() {
        "slice_and_offset" => Answer::Sliced(layout(&result[0]), result[1].as_i64().unwrap()),
        "swizzle_table" | "composed_layout_table" | "composition_swizzled_table" => {
            Answer::Table(result.as_array().unwrap().iter().map(|v| v.as_i64().unwrap()).collect())
        }
        "idx2crd_table" => Answer::Tuples(result.as_array().unwrap().iter().map(tuple).collect()),
        "idx2crd" | "crd2crd" | "shape_div" | "prefix_product" => Answer::Tuple(tuple(result)),
        _ if result.is_object() => Answer::Layout(layout(result)),
        _ => Answer::Int(result.as_i64().unwrap()),
    }
}

/// Whether two layouts are the same function.
fn same_function(left: &Layout, right: &Layout) -> bool {
    left.size() == right.size() && values(left) == values(right)
}

#[test]
#[allow(
    clippy::collapsible_match,
    reason = "with guards, layouts that are the same would come to a later arm"
)]
fn answers_are_those_of_pycute() {
    let mut failures = Failures::default();
    let mut other_form = 0;
    for line in lines("pycute.jsonl") {
        let compare = line["compare"].as_str();
        if compare == Some("pycute_only") || compare == Some("property") {
            continue;
        }
        failures.checked += 1;
        let op = line["op"].as_str().unwrap();
        let got = answer(op, line["args"].as_array().unwrap());
        let expected = expected(&line);
        match (got, expected) {
            (Err(_), _) if compare == Some("optional") => {}
            (Err(error), _) => failures.add(&line, format!("refused: {error}")),
            (Ok(Answer::Layout(got)), Answer::Layout(expected)) => {
                if without_unit_strides(got) != without_unit_strides(expected) {
                    if same_function(&got, &expected) {
                        other_form += 1;
                        println!("{op} {}: {got}, pycute {expected}", line["args"]);
                    } else if compare != Some("optional") {
                        failures.add(&line, format!("{got}, pycute has {expected}"));
                    }
                }
            }
            (Ok(Answer::Sliced(got, offset)), Answer::Sliced(expected, at)) => {
                if offset != at || without_unit_strides(got) != without_unit_strides(expected) {
                    failures.add(&line, format!("{got} at {offset}, pycute has {expected} at {at}"));
                }
            }
            (Ok(got), expected) if got != expected && compare != Some("optional") => {
                failures.add(&line, format!("{got:?}, pycute has {expected:?}"));
            }
            _ => {}
        }
    }
    println!("{other_form} in another form");
    failures.none(4000);
}

/// The layout with stride 0 at every extent of 1, where pycute and CuTe C++ choose differently.
fn without_unit_strides(layout: Layout) -> Layout {
    let shape = layout.shape();
    let mut strides = Vec::new();
    for leaf in 0..shape.leaves() {
        let Leaf::Int(extent) = shape.leaf(leaf) else { panic!("a shape of integers") };
        let Leaf::Int(stride) = layout.stride().leaf(leaf) else { panic!("integer strides") };
        strides.push(if extent == 1 { 0 } else { stride });
    }
    if shape.is_int() {
        return Layout::new(shape, IntTuple::int(strides[0]));
    }
    Layout::new(shape, IntTuple::flat(&strides).unflatten(shape))
}
