//! Requests as JSON, one a line.

use rstest::rstest;
use serde_json::json;

use super::answers;

#[rstest]
#[case(r#"{"op":"composition","args":[{"shape":[6,2],"stride":[8,2]},{"shape":[4,3],"stride":[3,1]}]}"#, json!({"shape":[[2,2],3],"stride":[[24,2],8]}))]
#[case(r#"{"args":["(6,2):(8,2)","(4,3):(3,1)"],"op":"composition"}"#, json!({"shape":[[2,2],3],"stride":[[24,2],8]}))]
#[case(r#"{"op":"composition","args":["(12,(4,8)):(59,(13,1))",["3:4",{"shape":8,"stride":2}]]}"#, json!({"shape":[3,[2,4]],"stride":[236,[26,1]]}))]
#[case(r#"{"op":"zipped_divide","args":[{"shape":[256,64]},[64,null]]}"#, json!({"shape":[[64,1],[4,64]],"stride":[[1,0],[64,256]]}))]
#[case(r#"{"op":"slice_and_offset","args":[[1,null],"(4,3):(3,1)"],"id":7}"#, json!([{"shape":[3],"stride":[1]},3]))]
#[case(r#"{"op":"identity_layout","args":[[4,3]]}"#, json!({"shape":[4,3],"stride":["1@0","1@1"]}))]
#[case(r#"{"op":"identity_layout","args":[[4,[2,3]]]}"#, json!({"shape":[4,[2,3]],"stride":["1@0",["1@0@1","1@1@1"]]}))]
#[case(r#"{"op":"coshape","args":[{"shape":[4,[2,3]],"stride":["1@0",["1@0@1","2@1@1"]]}]}"#, json!([4,[2,5]]))]
#[case(r#"{"op":"make_identity_layout","args":[[4,3]]}"#, json!({"shape":[4,3],"stride":["1@0","1@1"]}))]
#[case(r#"{"op":"crd2idx","args":[{"shape":[4,3],"stride":["1@0","1@1"]},[2,1]]}"#, json!([2,1]))]
#[case(r#"{"op":"crd2idx","args":["make_identity_layout((4,(3,2)))",[2,[1,1]]]}"#, json!([2,[1,1]]))]
#[case(r#"{"op":"slice_and_offset","args":[[null,1],{"shape":[4,3],"stride":["1@0","1@1"]}]}"#, json!([{"shape":[4],"stride":["1@0"]},[0,1]]))]
#[case(r#"{"op":"along","args":[{"shape":[4,3],"stride":["1@0","1@1"]},1]}"#, json!({"shape":[4,3],"stride":[0,1]}))]
#[case(r#"{"op":"size","args":["make_identity_layout((4,3))(_,1)"]}"#, json!(4))]
#[case(r#"{"op":"coalesce","args":[{"shape":[4,3],"stride":["1@0","1@1"]}]}"#, json!({"shape":[4,3],"stride":["1@0","1@1"]}))]
#[case(r#"{"op":"composed_layout","args":[[3,3,3],0,"(8,64):(64,1)"]}"#, json!({"swizzle":[3,3,3],"offset":0,"layout":{"shape":[8,64],"stride":[64,1]}}))]
#[case(r#"{"op":"slice","args":[{"swizzle":[1,0,2],"offset":0,"layout":"(4,4):(4,1)"},[1,null]]}"#, json!({"swizzle":[1,0,2],"offset":4,"layout":{"shape":[4],"stride":[1]}}))]
#[case(r#"{"op":"composition","args":[{"swizzle":[1,0,2]},"8:1"]}"#, json!({"swizzle":[1,0,2],"offset":0,"layout":{"shape":8,"stride":1}}))]
#[case(r#"{"op":"congruent","args":[[1,2],[3,4]]}"#, json!(true))]
#[case(r#"{"op":"idx2crd_table","args":[[2,2]]}"#, json!([[0,0],[1,0],[0,1],[1,1]]))]
#[case(r#"{"op":"size","args":["coalesce((4,2):(1,4))"]}"#, json!(8))]
#[case(r#"{"op":"size","args":[[]]}"#, json!(1))]
#[case(r#"{"op":"modes","args":["(4,(2,3)):(1,(4,8))"]}"#, json!([{"shape":4,"stride":1},{"shape":[2,3],"stride":[4,8]}]))]
#[case(r#"{"op":"TV","args":["(4,2):(2,1)","(1,2)"]}"#, json!([[4,4],{"shape":[[2,4],2],"stride":[[8,1],4]}]))]
#[case(" \t{ \"op\" : \"size\" , \"args\" : [ [ 2 , 3 ] ] } \r", json!(6))]
#[case(r#"{"op":"siz\u0065","args":[[2,3]]}"#, json!(6))] // language-ok: an escape
fn requests_have_results(#[case] request: &str, #[case] expected: serde_json::Value) {
    assert_eq!(answers(request), [json!({ "result": expected })], "{request}");
}

#[rstest]
#[case("nonsense", "column 2: expected ident")]
#[case("{", "column 1: EOF while parsing")]
#[case("", "column 1: expected a request, {\"op\": \"...\", \"args\": [...]}, and the line is blank")]
#[case(" \t\r", "the line is blank")]
#[case(r#"{"op":"transform","args":[4]}"#, "the macro moye_device::layout::transform!")]
#[case(
    r#"{"args":[99999999999999999999],"op":"size"}"#,
    ": 99999999999999999999 is not an integer of 64 bits"
)]
#[case(
    r#"{"op":"size","args":[-99999999999999999999]}"#,
    ": -99999999999999999999 is not an integer of 64 bits"
)]
#[case(r#"{"op":"size","args":[4.0]}"#, ": 4.0 is not an integer of 64 bits: it has a fraction")]
#[case(
    r#"{"op":"size","args":[[2, 1e3 ]]}"#,
    ": 1e3 is not an integer of 64 bits: it has a fraction or an exponent"
)]
#[case(r#"{"op":"size","args":[1.5.2]}"#, "column 24")]
#[case(r#"{"op":"size","args":[1e21474836480000]}"#, ": 1e21474836480000 is not an integer of 64 bits")]
#[case("[]", "expected a request")]
#[case("7", "expected a request")]
#[case(r#"{"op":"size"}"#, "missing field `args`")]
#[case(r#"{"args":[4]}"#, "missing field `op`")]
#[case(r#"{"op":"size","args":4}"#, "expected a list of arguments")]
#[case(r#"{"op":"size","args":[4]} 5"#, "trailing characters")]
#[case(r#"{"op":"siez","args":[4]}"#, "there is no operation `siez`; did you mean `size`?")] // language-ok: misspelt
#[case(r#"{"op":"size","args":[]}"#, "size(of: tuple or any layout) was given 0 arguments")]
#[case(r#"{"op":"size","args":[1.5]}"#, "1.5 is not an integer of 64 bits")]
#[case(r#"{"op":"size","args":[9223372036854775808]}"#, "9223372036854775808 does not fit")]
#[case(r#"{"op":"size","args":[{"shape":[2,2],"stride":[1]}]}"#, "shape and stride nest differently")]
#[case(r#"{"op":"size","args":[{"shape":[2,2],"strid":[1]}]}"#, "unknown field `strid`")]
#[case(r#"{"op":"size","args":[{"shape":4,"shape":4}]}"#, "duplicate field `shape`")]
#[case(r#"{"op":"size","args":[{"stride":4}]}"#, "missing or too much")]
#[case(r#"{"op":"size","args":["(4,"]}"#, "\"(4,\", column 4: expected")]
#[case(r#"{"op":"complement","args":["(4:1)"]}"#, "must be a layout, and is a list")]
fn malformed_requests_get_an_error_and_the_next_is_read(#[case] request: &str, #[case] part: &str) {
    let both = answers(&format!("{request}\n{{\"op\":\"size\",\"args\":[[2,3]]}}\n"));
    let [first, second] = both.as_slice() else { panic!("two answers to {request}: {both:?}") };
    let error = first["error"].as_str().unwrap_or_else(|| panic!("an error for {request}: {first}"));
    assert!(error.contains(part), "the error of {request} says {part:?}: {error}");
    assert_eq!(*second, json!({"result": 6}), "the line after {request}");
}

#[test]
fn bytes_that_are_no_text_get_an_error() {
    let mut out = Vec::new();
    let lines = b"{\"op\":\"size\",\"args\":[\"\xff\"]}\n\xff\xfe\n\0\n";
    moye_eval::serve(lines.as_slice(), &mut out).expect("memory");
    let text = String::from_utf8(out).expect("answers are UTF-8");
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(text.lines().all(|line| line.starts_with("{\"error\":")), "{text}");
}

#[test]
fn what_is_quoted_of_a_long_operand_is_short() {
    for operand in [format!("\"(4,{}\"", "x".repeat(100_000)), format!("1{}.5", "0".repeat(1000))] {
        let error = answers(&format!(r#"{{"op":"size","args":[{operand}]}}"#)).remove(0);
        let error = error["error"].as_str().expect("an error").to_owned();
        assert!(error.len() < 300 && error.contains("..."), "{error}");
    }
    let field = format!(r#"{{"op":"size","args":[{{"{}":4}}]}}"#, "x".repeat(100_000));
    assert!(answers(&field)[0]["error"].as_str().expect("an error").len() < 1100);
}

#[test]
fn blank_lines_are_answered_by_an_error_and_the_last_line_needs_no_end() {
    let request = r#"{"op":"size","args":[[2,3]]}"#;
    let lines = format!("\n  \n{request}\r\n\t\r\n\n{request}");
    let answers_of_lines = answers(&lines);
    assert_eq!(answers_of_lines.len(), 6, "an answer each: {answers_of_lines:?}");
    for (i, answer) in answers_of_lines.iter().enumerate() {
        match i {
            2 | 5 => assert_eq!(*answer, json!({"result": 6})),
            _ => assert!(answer["error"].is_string(), "{answer}"),
        }
    }
    assert!(answers("").is_empty(), "no line, no answer");
}

#[test]
fn answers_come_in_the_order_of_requests() {
    let lines: String = (0..5000).map(|i| format!("{{\"op\":\"size\",\"args\":[[{i},2]]}}\n")).collect();
    let expected: Vec<_> = (0..5000).map(|i| json!({"result": 2 * i})).collect();
    assert_eq!(answers(&lines), expected);
}

#[test]
fn deep_and_long_lines_get_an_error() {
    let after = r#"{"op":"size","args":[4]}"#;
    for bad in [
        format!("{{\"op\":\"size\",\"args\":[{}4{}]}}", "[".repeat(100_000), "]".repeat(100_000)),
        format!("{{\"op\":\"size\",\"args\":[{}4{}]}}", "[".repeat(100), "]".repeat(100)),
        format!("{{\"op\":\"size\",\"args\":{}", "{\"shape\":[".repeat(10_000)),
        format!("{{\"op\":\"size\",\"args\":[[{}4]]}}", "4,".repeat(100_000)),
        format!("{{\"op\":\"size\",\"args\":[4],\"more\":\"{}\"}}", "x".repeat(2 << 20)),
        "(".repeat(3 << 20),
    ] {
        let got = answers(&format!("{bad}\n{after}\n"));
        assert_eq!(got.len(), 2, "an answer each: {got:?}");
        assert!(got[0]["error"].is_string(), "an error for {}...: {}", &bad[..40], got[0]);
        assert_eq!(got[1], json!({"result": 4}), "the line after {}...", &bad[..40]);
    }
}
