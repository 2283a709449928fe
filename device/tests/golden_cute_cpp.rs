//! Results of CuTe C++: the layouts' form and function agree.

use crate::golden::{Answer, Failures, answer, layout, lines, swizzle, tuple};
use moye_device::layout::*;
use serde_json::Value;

fn of_kind(kind: &str) -> Vec<Value> {
    lines("cute_cpp.jsonl").into_iter().filter(|line| line["kind"] == kind).collect()
}

fn table(value: &Value) -> Vec<i64> {
    value.as_array().expect("a list").iter().map(|v| v.as_i64().expect("an integer")).collect()
}

#[test]
fn the_algebra_answers_in_the_form_of_cute() {
    let mut failures = Failures::default();
    for line in of_kind("algebra") {
        failures.checked += 1;
        let got = answer(line["op"].as_str().unwrap(), line["args"].as_array().unwrap());
        let result = &line["result"];
        match got {
            Err(error) => failures.add(&line, format!("refused: {error}; CuTe has {result}")),
            Ok(Answer::Layout(got)) => {
                if got != layout(result) {
                    failures.add(&line, format!("{got}, CuTe has {}", layout(result)));
                }
            }
            Ok(Answer::Int(got)) => {
                if Some(got) != result.as_i64() {
                    failures.add(&line, format!("{got}, CuTe has {result}"));
                }
            }
            Ok(other) => failures.add(&line, format!("{other:?} is not an answer to it")),
        }
    }
    failures.none(350);
}

#[test]
fn swizzled_layouts_have_the_values_of_cute() {
    let mut failures = Failures::default();
    for line in of_kind("swizzled_layout") {
        failures.checked += 1;
        let composed = ComposedLayout::new(swizzle(&line["swizzle"]).unwrap(), 0, layout(&line["layout"]));
        check(&mut failures, &line, &composed);
    }
    failures.none(20);
}

#[test]
fn tiles_of_swizzled_atoms_have_the_values_of_cute() {
    let mut failures = Failures::default();
    for line in of_kind("swizzled_tile_to_shape") {
        failures.checked += 1;
        let atom = ComposedLayout::new(swizzle(&line["swizzle"]).unwrap(), 0, layout(&line["atom"]));
        check(&mut failures, &line, &atom.tile_to_shape(tuple(&line["target"])));
    }
    failures.none(5);
}

fn check(failures: &mut Failures, line: &Value, composed: &ComposedLayout) {
    let got: Vec<i64> = (0..composed.size()).map(|i| composed.at(i)).collect();
    if composed.shape() != tuple(&line["domain_shape"]) {
        failures.add(line, format!("the shape is {}, in CuTe {}", composed.shape(), line["domain_shape"]));
    }
    if got != table(&line["values"]) {
        failures.add(line, format!("{composed} has other values: {:?}", &got[..16]));
    }
    let cosizes = (composed.cosize(), line["cosize"].as_i64().unwrap());
    if cosizes.0 != cosizes.1 {
        failures.add(line, format!("the cosize is {}, in CuTe {}", cosizes.0, cosizes.1));
    }
}
