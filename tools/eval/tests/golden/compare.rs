//! The equality of answers, on the JSON itself: independent of the library.

use std::collections::HashMap;

use serde_json::Value;

use super::definition::{Function, gather};

/// The answer with stride 0 at each extent of 1, where pycute and CuTe choose differently.
pub fn without_unit_strides(answer: &Value) -> Value {
    match answer {
        Value::Object(layout) => {
            let mut layout = layout.clone();
            let shape = layout["shape"].clone();
            clear(&shape, &mut layout["stride"]);
            Value::Object(layout)
        }
        Value::Array(values) => Value::Array(values.iter().map(without_unit_strides).collect()),
        other => other.clone(),
    }
}

fn clear(shape: &Value, stride: &mut Value) {
    match (shape, stride) {
        (Value::Array(shape), Value::Array(stride)) => {
            for (shape, stride) in shape.iter().zip(stride) {
                clear(shape, stride);
            }
        }
        (shape, stride) if *shape == 1 => *stride = 0.into(),
        _ => {}
    }
}

/// Whether only the tuple around the single rest of a tiled divide or product differs, which CuTe
/// keeps.
pub fn same_form(line: &Value, result: &Value) -> bool {
    let is_tiled = matches!(line["op"].as_str(), Some("tiled_divide" | "tiled_product"));
    let unwrapped = |part: &str| {
        let mut modes = result[part].as_array()?.clone();
        let [_, rest] = modes.as_mut_slice() else { return None };
        let only = match rest.as_array()?.as_slice() {
            [only] => only.clone(),
            _ => return None,
        };
        *rest = only;
        Some(Value::Array(modes))
    };
    is_tiled
        && unwrapped("shape").zip(unwrapped("stride")).is_some_and(|(shape, stride)| {
            let unwrapped = serde_json::json!({"shape": shape, "stride": stride});
            without_unit_strides(&unwrapped) == without_unit_strides(&line["result"])
        })
}

/// The properties of an answer for which pycute has a different form.
pub fn cute_form(line: &Value, result: &Value) -> Result<(), String> {
    let expected = &line["result"];
    match line["op"].as_str() {
        // The last extent is unbounded.
        Some("idx2crd") => {
            let (mut index, mut step) = (0, 1);
            let mut leaves = Vec::new();
            gather(result, &line["args"][1], &mut leaves).ok_or("a coordinate nests as its shape")?;
            for (coordinate, extent) in leaves {
                index += coordinate * step;
                step *= extent;
            }
            if line["args"][0] == index {
                Ok(())
            } else {
                Err(format!("{result} is the coordinate of {index}"))
            }
        }
        // Modes past the tiler are dropped.
        Some("composition_tiler") => {
            let (got, kept) = (without_unit_strides(result), without_unit_strides(expected));
            let begins = |part: &str| {
                let (got, kept) = (got[part].as_array(), kept[part].as_array());
                got.zip(kept).is_some_and(|(got, kept)| kept.starts_with(got))
            };
            let rank = |value: &Value| value.as_array().map_or(1, Vec::len);
            if rank(&result["shape"]) == rank(&line["args"][1]) && begins("shape") && begins("stride") {
                Ok(())
            } else {
                nested_prefix(&result["shape"], &expected["shape"])
                    .then_some(())
                    .ok_or_else(|| format!("{result} are not the first modes of {expected}"))
            }
        }
        _ => {
            let (got, want) = (Function::of(result)?, Function::of(expected)?);
            let wrong = (0..want.size().min(4096)).find(|&i| got.at(i) != want.at(i));
            if got.size() == want.size() && wrong.is_none() {
                Ok(())
            } else {
                Err(format!("{result} is not the function {expected}, first at {wrong:?}"))
            }
        }
    }
}

/// Whether modes are omitted at the end of some tuple, at any depth.
fn nested_prefix(got: &Value, kept: &Value) -> bool {
    match (got, kept) {
        (Value::Array(got), Value::Array(kept)) => {
            got.len() <= kept.len() && got.iter().zip(kept).all(|(got, kept)| nested_prefix(got, kept))
        }
        (got, kept) => got == kept,
    }
}

/// Whether a property of the golden files holds for a result.
pub fn holds(property: &str, line: &Value, result: &Value) -> Result<(), String> {
    if property.starts_with("identity") {
        return if *result == line["args"][3] { Ok(()) } else { Err(format!("{result} is not the index")) };
    }
    let (a, r) = (Function::of(&line["args"][0])?, Function::of(result)?);
    let wrong = match property {
        "R(A(i))==i" if line["exact_inverse"] != false => (0..a.size()).find(|&i| r.at(a.at(i)) != i),
        "R(A(i))==i" | "A(R(A(i)))==A(i)" => (0..a.size()).find(|&i| a.at(r.at(a.at(i))) != a.at(i)),
        "A(R(i))==i for i<size(R)" => {
            if line["cpp_size"] != r.size() {
                return Err(format!("{result} has the size {}, in CuTe {}", r.size(), line["cpp_size"]));
            }
            (0..r.size()).find(|&i| a.at(r.at(i)) != i)
        }
        other => return Err(format!("a property that the test does not know: {other}")),
    };
    wrong.map_or(Ok(()), |i| Err(format!("{result} breaks {property} at {i}")))
}

/// Whether a layout is common to the two in question, and no common layout has more elements.
pub fn common(line: &Value, result: &Value) -> Result<(), String> {
    let (a, b, r) = (Function::of(&line["args"][0])?, Function::of(&line["args"][1])?, Function::of(result)?);
    match (0..r.size()).find(|&i| a.at(r.at(i)) != i || b.at(r.at(i)) != i) {
        None if r.size() == most_common(line)? => Ok(()),
        None => Err(format!("{result} has not all of the {} elements in common", most_common(line)?)),
        Some(i) => Err(format!("{result} is not common to both at {i}")),
    }
}

/// The number of elements that are adjacent in both layouts in question and form a layout, by a
/// search through all coordinates.
pub fn most_common(line: &Value) -> Result<i64, String> {
    let (a, b) = (Function::of(&line["args"][0])?, Function::of(&line["args"][1])?);
    let places: HashMap<i64, i64> = (0..b.size()).rev().map(|coord| (b.at(coord), coord)).collect();
    let mut coords = Vec::new();
    while let Some(&coord) =
        places.get(&(coords.len() as i64)).filter(|coord| a.at(**coord) == coords.len() as i64)
    {
        coords.push(coord);
    }
    // A layout's values from an index on are the earlier values, shifted: extend by whole runs of
    // the known ones.
    let mut size = 1;
    while size < coords.len() {
        let step = coords[size];
        let agree = (0..coords.len())
            .take_while(|i| coords[*i] == coords[i % size] + (i / size) as i64 * step)
            .count();
        if agree < 2 * size {
            break;
        }
        size *= agree / size;
    }
    Ok(size as i64)
}
