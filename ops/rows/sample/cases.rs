//! Test cases that stress the kernels, and benchmark cases.

use moye_runtime::operation::{Case, Value};

const fn number(value: f64) -> Value {
    Value::Float(value)
}

/// Greedy and drawn, by each rule, from rows of fewer and more elements than candidates.
pub const CASES: &[Case] = &[
    Case::new(&[Some(&[1, 1]), None]),
    Case::new(&[Some(&[40, 30]), None]).options(&[("seed", Value::Int(7)), ("int32", Value::Bool(true))]),
    Case::new(&[Some(&[3, 5000]), None]).options(&[("temperature", number(0.0))]),
    Case::new(&[Some(&[2, 40]), None]).options(&[("temperature", number(1e-39))]),
    Case::new(&[Some(&[4, 2, 3000]), None])
        .options(&[("top_k", Value::Int(20)), ("temperature", number(0.7))]),
    Case::new(&[Some(&[4, 6000]), Some(&[4])])
        .options(&[("top_p", number(0.3)), ("seed", Value::Int(5))])
        .ranges(&[("seeds", -100.0, 100.0)]),
    Case::new(&[Some(&[4, 3000]), None]).options(&[("min_p", number(0.5)), ("seed", Value::Int(-1))]),
    Case::new(&[Some(&[0, 70]), None]),
    Case::new(&[Some(&[2, 5003]), None]).options(&[("top_k", Value::Int(600)), ("top_p", number(0.9))]),
    Case::new(&[Some(&[1, 131_072]), None]).options(&[("top_k", Value::Int(50)), ("seed", Value::Int(3))]),
];

/// A vocabulary.
pub const BENCH: &[Case] = &[
    Case::new(&[Some(&[64, 131_072]), None]).options(&[("temperature", number(0.0))]),
    Case::new(&[Some(&[64, 131_072]), None]).options(&[("top_k", Value::Int(50)), ("top_p", number(0.9))]),
    Case::new(&[Some(&[64, 131_072]), None]).options(&[("top_p", number(0.9)), ("min_p", number(0.05))]),
];
