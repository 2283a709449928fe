//! Checks of the indices and scale factors of calls whose arrays the host has: kernels read them
//! from the device's memory, and trust them.

use super::heads::OPERATION;
use moye_runtime::operation::{ArrayType, Known, Options, Value};
use moye_runtime::{Error, Result};

/// The error of an operand's elements.
fn refused<T>(detail: String) -> Result<T> {
    Err(Error::Unsupported { operation: OPERATION, detail })
}

/// The extents of an input (batch, head, token, column); of others 0.
fn extents(known: &Known<'_>, name: &str) -> [usize; 4] {
    let shape = |ty: &ArrayType| ty.shape.as_slice().try_into().ok();
    known.ty(name).and_then(shape).unwrap_or_default()
}

/// The offsets of queries and keys, which also tell the longest sequences.
pub fn offsets(known: &Known<'_>, options: &mut Options) -> Result<()> {
    let mut longest = [0; 2];
    for (longest, (name, of)) in longest.iter_mut().zip([("q_offsets", "q"), ("k_offsets", "k")]) {
        let [_, _, tokens, _] = extents(known, of);
        let Some(offsets) = known.values(name) else {
            *longest = tokens as i64;
            continue;
        };
        let ascends = offsets.windows(2).all(|pair| pair[0] <= pair[1]);
        let fits = offsets.first().is_none_or(|&first| first >= 0.0)
            && offsets.last().is_none_or(|&last| last <= tokens as f64);
        if !ascends || !fits {
            let offsets: Vec<_> = offsets.iter().map(|&offset| offset as i64).collect();
            return refused(format!(
                "{name} is {offsets:?}: it must ascend from 0 to at most the {tokens} tokens of {of}"
            ));
        }
        *longest = offsets.windows(2).map(|pair| (pair[1] - pair[0]) as i64).max().unwrap_or(0);
    }
    let [queries, keys] = longest;
    if !options.is_set("longest") {
        return options.set(OPERATION, "longest", Value::Pair([Some(queries), Some(keys)]));
    }
    let given = options.pair("longest").map(Option::unwrap_or_default);
    if given[0] < queries || known.values("k_offsets").is_some() && given[1] < keys {
        return refused(format!(
            "longest is ({}, {}), and the longest sequences have {queries} queries and {keys} keys",
            given[0], given[1]
        ));
    }
    Ok(())
}

/// The room of a sequence for keys.
struct Room {
    /// The tokens of a page; without pages those of all keys.
    page: usize,
    /// The pages of a sequence, if there are any.
    per_sequence: Option<usize>,
}

fn room(known: &Known<'_>) -> Room {
    let [_, _, page, _] = extents(known, "k");
    let per_sequence = known.ty("page_table").and_then(|table| table.shape.get(1).copied());
    Room { page, per_sequence }
}

/// The numbers of keys.
pub fn lengths(known: &Known<'_>, _: &mut Options) -> Result<()> {
    let Room { page, per_sequence } = room(known);
    let room = page * per_sequence.unwrap_or(1);
    let lengths = known.values("key_lengths").unwrap_or_default();
    match lengths.iter().find(|&&length| length < 0.0 || length > room as f64) {
        Some(wrong) => refused(format!("key_lengths has {wrong}, and there is room for 0 to {room} keys")),
        None => Ok(()),
    }
}

/// The numbers of the pages that have keys.
pub fn pages(known: &Known<'_>, _: &mut Options) -> Result<()> {
    let Room { page, per_sequence: Some(per_sequence) } = room(known) else { return Ok(()) };
    let [pages, ..] = extents(known, "k");
    let lengths = known.values("key_lengths");
    let table = known.values("page_table").unwrap_or_default();
    for (sequence, numbers) in table.chunks(per_sequence.max(1)).enumerate() {
        let length =
            lengths.and_then(|lengths| lengths.get(sequence)).map(|&length| length.max(0.0) as usize);
        let used = length.map_or(numbers.len(), |length| length.div_ceil(page.max(1)).min(numbers.len()));
        if let Some(wrong) = numbers[..used].iter().find(|&&number| number < 0.0 || number >= pages as f64) {
            return refused(format!("page_table has page {wrong}, and k has pages 0 to {pages} - 1"));
        }
    }
    Ok(())
}

/// The scale factors of queries and keys, which are positive.
pub fn scales(known: &Known<'_>, _: &mut Options) -> Result<()> {
    for name in ["q_scale", "k_scale"] {
        let factors = known.values(name).unwrap_or_default();
        if let Some(factor) = factors.iter().find(|&&factor| !(factor > 0.0 && factor.is_finite())) {
            return refused(format!("{name} has {factor}, and its factors must be positive"));
        }
    }
    Ok(())
}
