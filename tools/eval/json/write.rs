//! Values as JSON.

use moye_device::layout::{IntTuple, Layout, Leaf, Swizzle};

use crate::value::Value;

/// Writes `{"result": value}`.
pub fn result(value: &Value, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"result\":");
    write(value, out);
    out.push(b'}');
}

/// Writes `{"error": reason}`.
pub fn error(reason: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"error\":");
    string(reason, out);
    out.push(b'}');
}

fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        Value::Tuple(value) => tuple(value, out),
        Value::Layout(value) => layout(value, out),
        Value::Swizzle(value) => {
            out.extend_from_slice(b"{\"swizzle\":");
            swizzle(value, out);
            out.push(b'}');
        }
        Value::Composed(value) => {
            out.extend_from_slice(b"{\"swizzle\":");
            swizzle(&value.swizzle, out);
            out.extend_from_slice(b",\"offset\":");
            int(value.offset, out);
            out.extend_from_slice(b",\"layout\":");
            layout(&value.layout, out);
            out.push(b'}');
        }
        Value::List(values) => list(values, write, out),
        Value::Table(values) => list(values, tuple, out),
    }
}

fn layout(layout: &Layout, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"shape\":");
    tuple(&layout.shape(), out);
    out.extend_from_slice(b",\"stride\":");
    tuple(&layout.stride(), out);
    out.push(b'}');
}

fn swizzle(swizzle: &Swizzle, out: &mut Vec<u8>) {
    list(&[swizzle.bits(), swizzle.base(), swizzle.shift()], |number, out| int(*number, out), out);
}

fn tuple(tuple: &IntTuple, out: &mut Vec<u8>) {
    match tuple.depth() {
        0 => leaf(tuple.leaf(0), out),
        // Most tuples are flat: write them without copying each element.
        1 => list_of((0..tuple.leaves()).map(|i| tuple.leaf(i)), leaf, out),
        _ => list_of((0..tuple.rank()).map(|i| tuple.mode(i)), |mode, out| self::tuple(&mode, out), out),
    }
}

fn leaf(leaf: Leaf, out: &mut Vec<u8>) {
    match leaf {
        Leaf::Int(value) => int(value, out),
        Leaf::Any => out.extend_from_slice(b"null"),
        Leaf::Scaled { value, basis } => {
            out.push(b'"');
            int(value, out);
            // The innermost index first, as in the notation.
            for level in (0..basis.depth()).rev() {
                out.push(b'@');
                int(basis.index(level).unwrap_or_default() as i64, out);
            }
            out.push(b'"');
        }
    }
}

fn int(value: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

fn list<T>(values: &[T], element: impl Fn(&T, &mut Vec<u8>), out: &mut Vec<u8>) {
    list_of(values.iter(), element, out);
}

fn list_of<T>(values: impl Iterator<Item = T>, element: impl Fn(T, &mut Vec<u8>), out: &mut Vec<u8>) {
    out.push(b'[');
    for (i, value) in values.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        element(value, out);
    }
    out.push(b']');
}

fn string(text: &str, out: &mut Vec<u8>) {
    // Writing a string to memory cannot fail.
    let _ = serde_json::to_writer(out, text);
}
