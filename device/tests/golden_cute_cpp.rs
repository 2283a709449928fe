//! Results of CuTe C++: the layouts' form and function agree.

use crate::golden::{Answer, Failures, answer, layout, lines, swizzle, tuple, values};
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

#[test]
fn tiled_copies_have_the_thread_value_layouts_and_partitions_of_cute() {
    let mut failures = Failures::default();
    for line in of_kind("tiled_copy") {
        failures.checked += 1;
        let (threads, held) = (layout(&line["thr"]), layout(&line["val"]));
        let tv = match try_make_layout_tv(threads, held) {
            Ok(tv) => tv,
            Err(error) => {
                failures.add(&line, format!("refused: {error}"));
                continue;
            }
        };
        if tv.tile != tuple(&line["tiler_mn"]) {
            failures.add(&line, format!("the tile is {}, in CuTe {}", tv.tile, line["tiler_mn"]));
        }
        if tv.layout != layout(&line["layout_tv"]) {
            failures
                .add(&line, format!("the layout is {}, in CuTe {}", tv.layout, layout(&line["layout_tv"])));
        }
        if line["num_threads"].as_i64() != Some(tv.threads()) {
            failures.add(&line, format!("{} threads, in CuTe {}", tv.threads(), line["num_threads"]));
        }
        for partition in line["partitions"].as_array().unwrap() {
            let tensor = layout(&partition["tensor"]);
            for (side, tv) in [("S", &line["layout_src_tv"]), ("D", &line["layout_dst_tv"])] {
                let got = tidfrg(tensor, tuple(&line["tiler_mn"]), layout(tv));
                let want = layout(&partition[format!("tidfrg_{side}")]);
                if values(&got) != values(&want) || got.size() != want.size() {
                    failures.add(&line, format!("the partition of {tensor} is {got}, in CuTe {want}"));
                }
            }
        }
    }
    failures.none(20);
}

/// A tensor by thread, by value, and by the remaining tiles:
/// `(thread, value, (rest_m, rest_n, ...))`.
fn tidfrg(tensor: Layout, tile: IntTuple, tv: Layout) -> Layout {
    let tiles = zipped_divide(tensor, tile.tiler());
    let by_thread = composition(tiles.mode(0), tv);
    Layout::concat(&[by_thread.mode(0), by_thread.mode(1), tiles.mode(1)])
}
