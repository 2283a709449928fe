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
    // Fewer than one bin, a bin of more elements than candidates, and more than all bins.
    Case::new(&[Some(&[5, 3000]), None]).options(&[("top_p", number(0.6)), ("temperature", number(100.0))]),
    Case::new(&[Some(&[3, 4001]), None]).options(&[("top_p", number(0.5)), ("temperature", number(1e4))]),
    Case::new(&[Some(&[9, 700]), None]).options(&[("temperature", number(0.01))]),
    Case::new(&[Some(&[9, 700]), None]).options(&[("top_p", number(0.0))]),
    Case::new(&[Some(&[9, 700]), None]).options(&[("top_p", number(1e-7)), ("min_p", number(1.0))]),
    Case::new(&[Some(&[9, 700]), None])
        .options(&[("top_p", number(0.9)), ("min_p", number(0.1))])
        .ranges(&[("x", 0.0, 30.0)]),
    Case::new(&[Some(&[2, 262_144]), None]).options(&[("top_p", number(0.9)), ("seed", Value::Int(2))]),
];

/// A vocabulary.
const LOGITS: Case = Case::new(&[Some(&[64, 131_072]), None]);

/// Greedy, and the filters that engines use.
pub const BENCH: &[Case] = &[
    LOGITS.options(&[("temperature", number(0.0))]),
    LOGITS.options(&[("top_k", Value::Int(50)), ("top_p", number(0.9))]),
    LOGITS.options(&[("top_p", number(0.9)), ("min_p", number(0.05))]),
    LOGITS.options(&[("top_p", number(0.9))]),
    LOGITS.options(&[("min_p", number(0.05))]),
];
