//! Every input has one answer, without a panic.

use moye_eval::{all, evaluate};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::answers;

fn name() -> impl Strategy<Value = &'static str> {
    let names: Vec<&str> = all().map(|operation| operation.name).collect();
    prop::sample::select(names)
}

fn int() -> impl Strategy<Value = i64> {
    prop_oneof![
        8 => 0..9i64,
        4 => prop::sample::select(vec![12, 16, 24, 32, 64, 128]),
        1 => -5..0i64,
        1 => prop::sample::select(vec![i64::MIN, i64::MAX, 1 << 62, 1 << 32, -(1 << 33), i64::MAX - 1]),
    ]
}

/// A tuple of integers and wildcards, as JSON.
fn tuple() -> impl Strategy<Value = Value> {
    let leaf =
        prop_oneof![20 => int().prop_map(Value::from), 2 => Just(Value::Null), 1 => Just(json!("2@1"))];
    leaf.prop_recursive(3, 10, 4, |inner| prop::collection::vec(inner, 0..4).prop_map(Value::Array))
}

/// A shape and a stride with the same nesting.
fn layout() -> impl Strategy<Value = Value> {
    let leaf = (int(), int()).prop_map(|(extent, stride)| (Value::from(extent), Value::from(stride)));
    let nested = leaf.prop_recursive(3, 10, 4, |inner| {
        prop::collection::vec(inner, 0..4).prop_map(|modes| {
            let (shape, stride): (Vec<_>, Vec<_>) = modes.into_iter().unzip();
            (Value::Array(shape), Value::Array(stride))
        })
    });
    nested.prop_map(|(shape, stride)| json!({"shape": shape, "stride": stride}))
}

fn argument() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => tuple(),
        6 => layout(),
        2 => prop::collection::vec(prop_oneof![tuple(), layout()], 0..4).prop_map(Value::Array),
        1 => (0..5i64, 0..5i64, -5..5i64).prop_map(|(b, m, s)| json!([b, m, s])),
        1 => (prop::array::uniform3(-2..9i64), int(), layout())
            .prop_map(|(swizzle, offset, layout)| json!({"swizzle": swizzle, "offset": offset, "layout": layout})),
        1 => expression().prop_map(Value::String),
        1 => any::<f64>().prop_map(Value::from),
        1 => Just(json!({"shape": {"shape": 1}, "extra": true})),
    ]
}

/// Pieces of expressions in any order.
fn expression() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        6 => int().prop_map(|value| value.to_string()),
        8 => prop::sample::select(vec!["(", ")", ",", ":", "<", ">", "_", "@", " o ", "Sw<3,3,3>", "ptr[16b](0)", "ArithTuple(0,0)", "tensor<", "?", " ", "-", "true"])
            .prop_map(str::to_owned),
        4 => name().prop_map(|name| format!("{name}(")),
        2 => layout().prop_map(|layout| {
            let text = format!("{}:{}", layout["shape"], layout["stride"]);
            text.replace('[', "(").replace(']', ")")
        }),
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(pieces, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_request_gets_one_answer(op in name(), args in prop::collection::vec(argument(), 0..4)) {
        let request = json!({"op": op, "args": args}).to_string();
        let got = answers(&request);
        prop_assert_eq!(got.len(), 1, "one answer to {}", request);
        let keys: Vec<&String> = got[0].as_object().expect("an object").keys().collect();
        prop_assert!(keys == ["result"] || keys == ["error"], "{} to {}", got[0], request);
    }

    #[test]
    fn any_line_gets_one_answer(line in "[^\n]{0,80}") {
        // A blank line is a request too; without a line there is nothing to answer.
        let expected = usize::from(!line.is_empty());
        prop_assert_eq!(answers(&line).len(), expected, "{:?}", line);
    }

    #[test]
    fn any_bytes_of_a_request_get_one_answer(
        op in name(),
        args in prop::collection::vec(argument(), 0..3),
        cut in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut line = json!({"op": op, "args": args}).to_string().into_bytes();
        let at = cut.index(line.len());
        line[at] = if byte == b'\n' { 0 } else { byte };
        let mut out = Vec::new();
        moye_eval::serve(line.as_slice(), &mut out).expect("memory");
        let lines = out.iter().filter(|byte| **byte == b'\n').count();
        prop_assert_eq!(lines, 1, "{:?}", String::from_utf8_lossy(&line));
    }

    #[test]
    fn any_expression_has_a_value_or_an_error(text in prop_oneof![expression(), any::<String>()]) {
        match evaluate(&text) {
            Ok(value) => {
                let text = value.to_string();
                let again = evaluate(&text).map(|value| value.to_string());
                // Tables may be longer than a tuple.
                if !again.as_ref().is_err_and(|error| error.to_string().contains("more than")
                    || error.to_string().contains("at most 64 values"))
                {
                    prop_assert_eq!(again, Ok(text), "the answer reads back");
                }
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn layouts_read_back_from_both_forms(layout in layout()) {
        let line = json!({"op": "composition", "args": [layout, "_"]}).to_string();
        let Some(result) = answers(&line)[0].get("result").cloned() else { return Ok(()) };
        let text = format!("{}:{}", result["shape"], result["stride"]).replace('[', "(").replace(']', ")");
        let value = evaluate(&text).map(|value| value.to_string());
        prop_assert_eq!(value, Ok(text.clone()), "the text form");
        let again = json!({"op": "composition", "args": [text, null]}).to_string();
        prop_assert_eq!(&answers(&again)[0]["result"], &result, "the text form as an argument");
    }
}
