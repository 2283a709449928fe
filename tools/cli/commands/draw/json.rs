//! Matrix instructions and tiled copies described in JSON, one object for each line.
//!
//! An object has a `kind`, usually an `id` and a `name` (or `op`, or `atom`), and layouts as
//! `{"shape": S, "stride": D}` with integers or nested lists.

use anyhow::{Context, Result, anyhow, bail};
use moye_device::layout::Layout;
use moye_draw::{self as draw, Scene};
use serde_json::Value;
use std::io::Read;
use std::path::Path;

/// The picture of the line with this `id` or `name`, or of the only line.
pub fn scene(path: &Path, id: Option<i64>, name: Option<&str>, threads: Option<&Layout>) -> Result<Scene> {
    let text = read(path)?;
    let place = |line: usize| format!("{}:{line}", path.display());
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let object: Value = serde_json::from_str(line).with_context(|| place(index + 1))?;
        let chosen = match (id, name) {
            (Some(id), _) => object["id"] == id,
            (_, Some(name)) => name_of(&object) == Some(name) && is_mma(&object),
            (None, None) => true,
        };
        if chosen {
            found.push((index + 1, object));
        }
    }
    let wanted = match (id, name) {
        (Some(id), _) => format!("with id {id}"),
        (_, Some(name)) => format!("of a matrix instruction named {name}"),
        (None, None) => "to draw".to_owned(),
    };
    match found.as_slice() {
        [(line, object)] => draw_object(object, threads).with_context(|| place(*line)),
        // An instruction may occur as an atom and in tiles; the atom comes first.
        [(line, object), ..] if name.is_some() => draw_object(object, threads).with_context(|| place(*line)),
        [] => bail!("{} has no line {wanted}", path.display()),
        lines => {
            bail!("{} has {} lines {wanted}; choose one with --id or --mma", path.display(), lines.len())
        }
    }
}

fn read(path: &Path) -> Result<String> {
    if path != Path::new("-") {
        return std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()));
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
    Ok(text)
}

fn name_of(object: &Value) -> Option<&str> {
    ["name", "op", "copy_atom", "atom"].iter().find_map(|key| object[*key].as_str())
}

fn is_mma(object: &Value) -> bool {
    matches!(object["kind"].as_str(), Some("mma_traits" | "tiled_mma"))
}

fn draw_object(object: &Value, threads: Option<&Layout>) -> Result<Scene> {
    let own_threads = match threads {
        Some(threads) => Some(*threads),
        None if object.get("thr_id").is_some() => Some(layout(object, "thr_id")?),
        None => None,
    };
    let mut scene = match object["kind"].as_str() {
        Some("mma_traits") => {
            let operands = ["A", "B", "C"].map(|key| layout(object, key));
            mma(object, "shape_mnk", operands, own_threads)?
        }
        Some("tiled_mma") => {
            let operands = ["layout_A_tv", "layout_B_tv", "layout_C_tv"].map(|key| layout(object, key));
            mma(object, "tile_mnk", operands, own_threads)?
        }
        Some("tiled_copy" | "mma_copy") => {
            let (source, destination) = (layout(object, "layout_src_tv")?, layout(object, "layout_dst_tv")?);
            draw::tiled_copy(&source, &destination, extents(object, "tiler_mn")?)?
        }
        kind => bail!(
            "`kind` is {}; mma_traits, tiled_mma, tiled_copy and mma_copy can be drawn",
            kind.map_or("missing".to_owned(), |kind| format!("{kind:?}"))
        ),
    };
    if let Some(name) = name_of(object) {
        scene.title = format!("{name}, {}", scene.title);
    }
    Ok(scene)
}

fn mma(object: &Value, shape: &str, operands: [Result<Layout>; 3], threads: Option<Layout>) -> Result<Scene> {
    let [a, b, c] = operands;
    Ok(draw::mma(extents(object, shape)?, &a?, &b?, &c?, threads.as_ref())?)
}

fn layout(object: &Value, key: &str) -> Result<Layout> {
    let missing = || anyhow!("`{key}` must be a layout: {{\"shape\": ..., \"stride\": ...}}");
    let part = |name| object[key].get(name).and_then(tuple_text).ok_or_else(missing);
    let text = format!("{}:{}", part("shape")?, part("stride")?);
    Layout::parse(&text).with_context(|| format!("`{key}`"))
}

/// An integer or nested lists, written as a tuple.
fn tuple_text(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => number.as_i64().map(|number| number.to_string()),
        Value::Array(parts) => {
            let parts: Option<Vec<_>> = parts.iter().map(tuple_text).collect();
            Some(format!("({})", parts?.join(",")))
        }
        _ => None,
    }
}

fn extents<const N: usize>(object: &Value, key: &str) -> Result<[i64; N]> {
    let extents: Option<Vec<i64>> =
        object[key].as_array().and_then(|list| list.iter().map(Value::as_i64).collect());
    extents
        .and_then(|extents| extents.try_into().ok())
        .ok_or_else(|| anyhow!("`{key}` must be a list of {N} integers"))
}
