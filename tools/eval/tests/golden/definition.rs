//! Layouts in the form of the reference files, and the meaning of operations on them: by
//! definition, value by value, independent of the library.

use std::collections::HashSet;

use serde_json::Value;

/// A layout as a function of an integer.
pub struct Function {
    leaves: Vec<(i64, i64)>,
}

impl Function {
    pub fn of(layout: &Value) -> Result<Self, String> {
        let (shape, stride) = (&layout["shape"], &layout["stride"]);
        let mut leaves = Vec::new();
        gather(shape, stride, &mut leaves).ok_or_else(|| format!("{layout} is not a layout"))?;
        Ok(Self { leaves })
    }

    pub fn size(&self) -> i64 {
        self.leaves.iter().map(|(extent, _)| extent).product()
    }

    /// Its value at `index`; the last extent is unbounded.
    pub fn at(&self, index: i64) -> i64 {
        let mut rest = index;
        let mut sum = 0;
        for (i, (extent, stride)) in self.leaves.iter().enumerate() {
            let digit = if i + 1 == self.leaves.len() { rest } else { rest % extent };
            sum += digit * stride;
            rest /= extent;
        }
        sum
    }
}

/// The extents with their strides; none if shape and stride nest differently.
pub fn gather(shape: &Value, stride: &Value, leaves: &mut Vec<(i64, i64)>) -> Option<()> {
    match (shape, stride) {
        (Value::Array(shape), Value::Array(stride)) if shape.len() == stride.len() => {
            shape.iter().zip(stride).try_for_each(|(shape, stride)| gather(shape, stride, leaves))
        }
        (Value::Array(_), _) => None,
        (extent, stride) => {
            leaves.push((extent.as_i64()?, stride.as_i64()?));
            Some(())
        }
    }
}

/// The values of a composition or a product at 0, 1, 2, ...: for each mode first the part in the
/// tiler, then the rest.
pub fn values_of(op: &str, args: &[Value]) -> Result<Vec<i64>, String> {
    let whole = Function::of(&args[0])?;
    let modes = match &args[1] {
        Value::Array(tilers) => {
            let part =
                |part: &Value, i: usize| part.as_array().map_or(part.clone(), |parts| parts[i].clone());
            let rank = args[0]["shape"].as_array().map_or(1, Vec::len);
            let mode = |i| {
                let mode = serde_json::json!({"shape": part(&args[0]["shape"], i), "stride": part(&args[0]["stride"], i)});
                Ok::<_, String>((Function::of(&mode)?, tilers.get(i).cloned().unwrap_or_default()))
            };
            (0..rank).map(mode).collect::<Result<Vec<_>, _>>()?
        }
        tiler => vec![(whole, tiler.clone())],
    };
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    for (mode, tiler) in modes {
        let own: Vec<i64> = (0..mode.size()).map(|i| mode.at(i)).collect();
        if tiler.is_null() {
            let place = if op.starts_with("composition") { &mut first } else { &mut rest };
            place.push(own);
            continue;
        }
        let tiler = match tiler {
            Value::Number(extent) => Function::of(&serde_json::json!({"shape": extent, "stride": 1}))?,
            tiler => Function::of(&tiler)?,
        };
        let numbers = (0..tiler.size()).map(|j| tiler.at(j));
        if op.starts_with("composition") {
            first.push(numbers.map(|number| mode.at(number)).collect());
        } else {
            let numbers: Vec<i64> = numbers.collect();
            let places = free_places(&own, numbers.iter().max().map_or(0, |most| most + 1));
            rest.push(numbers.iter().map(|&number| places[number as usize]).collect());
            first.push(own);
        }
    }
    first.append(&mut rest);
    let sums = |sums: Vec<i64>, mode: &Vec<i64>| {
        mode.iter().flat_map(|step| sums.iter().map(move |sum| sum + step)).collect()
    };
    Ok(first.iter().fold(vec![0], sums))
}

/// The first offsets at which copies of a block do not overlap earlier ones.
fn free_places(block: &[i64], count: i64) -> Vec<i64> {
    let mut taken = HashSet::new();
    let mut places = Vec::new();
    let mut place = 0;
    while (places.len() as i64) < count {
        if block.iter().all(|element| !taken.contains(&(element + place))) {
            taken.extend(block.iter().map(|element| element + place));
            places.push(place);
        }
        place += 1;
    }
    places
}
