//! Cases that pycute and CuTe C++ refuse or get wrong.

use crate::definition::values_of;
use crate::golden::{Answer, Failures, answer, layout, lines, values};
use moye_device::layout::*;
use serde_json::Value;

fn ask(line: &Value) -> Result<Answer, LayoutError> {
    answer(line["op"].as_str().unwrap(), line["args"].as_array().unwrap())
}

/// Checks a result for which an error would be acceptable too.
fn check_property(line: &Value, got: &Answer) -> Result<(), String> {
    match (line["expect_property"].as_str(), got) {
        (Some("A(R(A(i)))==A(i)"), Answer::Layout(inverse)) => {
            let a = layout(&line["args"][0]);
            let wrong = (0..a.size()).find(|&i| a.at(inverse.at(a.at(i))) != a.at(i));
            wrong.map_or(Ok(()), |i| Err(format!("A(R(A({i}))) != A({i}) for {inverse}")))
        }
        (Some("R(A(i))==i"), Answer::Layout(inverse)) => {
            let a = layout(&line["args"][0]);
            let wrong = (0..a.size()).find(|&i| inverse.at(a.at(i)) != i);
            wrong.map_or(Ok(()), |i| Err(format!("R(A({i})) != {i} for {inverse}")))
        }
        (Some("identity (C++ Swizzle<0,M,0>)"), Answer::Int(got)) => {
            let want = line["args"][3].as_i64().unwrap();
            if *got == want { Ok(()) } else { Err(format!("{got} is not the identity's {want}")) }
        }
        (property, got) => Err(format!("{got:?}, but the test does not know the property {property:?}")),
    }
}

#[test]
fn what_pycute_rejects_is_rejected_or_right() {
    let mut failures = Failures::default();
    let (mut answered, mut defined) = (0, 0);
    for line in lines("pycute_rejected.jsonl") {
        failures.checked += 1;
        let got = ask(&line);
        answered += usize::from(got.is_ok());
        match (line["expect"].as_str().unwrap(), got) {
            (_, Err(_)) | ("undefined", _) => {}
            ("error", Ok(got)) => {
                failures.add(&line, format!("{got:?} where an error is due: {}", line["reason"]))
            }
            ("error_or_property", Ok(got)) => {
                if let Err(error) = check_property(&line, &got) {
                    failures.add(&line, error);
                }
            }
            ("error_or_correct", Ok(Answer::Layout(got))) => {
                let right: Vec<i64> = match line["correct_functional"].as_array() {
                    Some(right) => right.iter().map(|value| value.as_i64().unwrap()).collect(),
                    // Products and tilers are checked by their definition.
                    None => {
                        defined += 1;
                        values_of(line["op"].as_str().unwrap(), line["args"].as_array().unwrap()).unwrap()
                    }
                };
                if values(&got) != right {
                    failures.add(&line, format!("{got} has the values {:?}, not {right:?}", values(&got)));
                }
            }
            (expect, Ok(got)) => failures.add(&line, format!("{got:?}, {expect}")),
        }
    }
    println!("{answered} answered, {defined} of them by definition");
    assert!(defined >= 4, "{defined} lines without values are answered");
    failures.none(280);
}

#[test]
fn what_cute_rejects_of_the_algebra_is_rejected_or_right() {
    let mut failures = Failures::default();
    for line in lines("cute_cpp_rejected.jsonl").into_iter().filter(|line| line["kind"] == "algebra") {
        failures.checked += 1;
        let (a, b) = (layout(&line["args"][0]), &line["args"][1]);
        match (line["op"].as_str().unwrap(), ask(&line)) {
            (_, Err(_)) => {}
            // The common layout is defined even if CuTe's way to find it is not:
            // docs/decisions/0012.
            ("max_common_layout", Ok(Answer::Layout(common))) => {
                let b = layout(b);
                let wrong = (0..common.size()).find(|&i| a.at(common.at(i)) != i || b.at(common.at(i)) != i);
                if let Some(i) = wrong {
                    failures.add(&line, format!("{common} is wrong at {i}"));
                }
            }
            ("max_common_vector", Ok(Answer::Int(size))) => {
                let common = max_common_layout(a, layout(b));
                if common.size() != size {
                    failures.add(&line, format!("{size}, but the common layout is {common}"));
                }
            }
            (_, Ok(got)) => failures.add(&line, format!("{got:?} where CuTe says {}", line["cpp_error"])),
        }
    }
    failures.none(35);
}

#[test]
fn inverses_of_pycute_hold_by_their_law() {
    let mut failures = Failures::default();
    for line in lines("pycute.jsonl").into_iter().filter(|line| line["compare"] == "property") {
        failures.checked += 1;
        let a = layout(&line["args"][0]);
        let inverse = match ask(&line) {
            Ok(Answer::Layout(inverse)) => inverse,
            other => {
                failures.add(&line, format!("{other:?}"));
                continue;
            }
        };
        let wrong = match line["op"].as_str().unwrap() {
            "left_inverse" if line["exact_inverse"] == true => {
                (0..a.size()).find(|&i| inverse.at(a.at(i)) != i)
            }
            "left_inverse" => (0..a.size()).find(|&i| a.at(inverse.at(a.at(i))) != a.at(i)),
            "right_inverse" => {
                if Some(inverse.size()) != line["cpp_size"].as_i64() {
                    failures.add(&line, format!("{inverse} has not the size {}", line["cpp_size"]));
                }
                (0..inverse.size()).find(|&i| a.at(inverse.at(i)) != i)
            }
            other => panic!("an operation compared by property: {other}"),
        };
        if let Some(i) = wrong {
            failures.add(&line, format!("{inverse} is not an inverse at {i}"));
        }
    }
    failures.none(150);
}
