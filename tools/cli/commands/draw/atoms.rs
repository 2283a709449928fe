//! Tiled copies and tiled MMAs of named atoms.

use super::text;
use anyhow::{Result, bail};
use moye_device::atom::copy::{CopyAtomInfo, ValueLayouts, copy_atoms};
use moye_device::atom::mma::{MMA_ATOMS, MmaInfo, UniversalFma};
use moye_device::atom::{CopyTiling, MmaTiling, Operand, Permutation};
use moye_device::layout::Layout;
use moye_draw::{Draw, Scene, title_of_copy};

/// The tiled copy of an atom over threads and values.
pub fn copy(atom: &str, element: &str, threads: &Layout, values: &Layout) -> Result<Scene> {
    let tiling = CopyTiling::of_threads_and_values(values_of(atom, element)?, *threads, *values)?;
    titled(&tiling, atom, element)
}

/// The tiled copy with which the threads of an MMA load or store one operand.
pub fn copy_of_operand(atom: &str, element: Option<&str>, mma: &Mma, operand: &str) -> Result<Scene> {
    let (operand, own) = match operand {
        "a" | "A" => (Operand::A, mma.info.a.element),
        "b" | "B" => (Operand::B, mma.info.b.element),
        "c" | "C" => (Operand::C, mma.info.c.element),
        _ => bail!("--operand {operand:?}: the operands of a product are a, b and c"),
    };
    let element = element.unwrap_or(own);
    let tiling = CopyTiling::of_operand(values_of(atom, element)?, &mma.tiling, operand)?;
    titled(&tiling, atom, element)
}

fn titled(tiling: &CopyTiling, atom: &str, element: &str) -> Result<Scene> {
    let mut scene = tiling.draw()?;
    scene.title = title_of_copy(atom, element, &tiling.tile);
    Ok(scene)
}

fn values_of(atom: &str, element: &str) -> Result<ValueLayouts> {
    let bits = text::element_bits("--element", element)?;
    // The word of `UniversalCopy` is selected by size: f64 is u64.
    let word = atom.strip_prefix("UniversalCopy<").and_then(|rest| rest.strip_suffix('>'));
    let name = match word {
        Some(word) => format!("UniversalCopy<u{}>", text::element_bits("--atom", word)?),
        None => atom.to_owned(),
    };
    let matches = |info: &&CopyAtomInfo| info.to_string() == name;
    let Some(info) = copy_atoms().iter().find(matches) else {
        let all: Vec<_> = copy_atoms().iter().map(ToString::to_string).collect();
        bail!("--atom {atom:?}: there is no copy atom of this name; there are {}", all.join(", "));
    };
    info.layouts.try_whole_values(bits).map_err(|error| error.tiling(&format!("{atom} for {element}")).into())
}

/// A named MMA atom, tiled.
pub struct Mma {
    info: MmaInfo,
    tiling: MmaTiling,
}

impl Mma {
    /// The atom `name`, repeated by `atoms`, over a tile.
    pub fn of(name: &str, atoms: Option<&str>, tile: Option<&str>) -> Result<Self> {
        let universal = MmaInfo::of::<UniversalFma<f32>>();
        let matches = |info: &&MmaInfo| info.name == name || info.moye_name == Some(name);
        let Some(info) = MMA_ATOMS.iter().chain([&universal]).find(matches).copied() else {
            bail!(
                "--mma {name:?}: neither a shape, such as 16x8x16, nor UniversalFma, nor an instruction; `moye atoms` lists \
                 those, and --json takes a file that describes others"
            );
        };
        let atoms = text::layout("--atoms", atoms.unwrap_or("(1,1,1)"))?;
        let permutation = match tile {
            Some(tile) => text::extents::<3>("--tile", tile)?.map(Permutation::Tile),
            None => [Permutation::Atoms; 3],
        };
        let layouts = [info.a.layout, info.b.layout, info.c.layout, info.d.layout];
        let tiling = MmaTiling::new(info.shape_mnk, info.thr_id, layouts, atoms, permutation)?;
        Ok(Self { info, tiling })
    }

    /// The picture with A, B and C at their positions.
    pub fn scene(&self) -> Result<Scene> {
        let mut scene = self.tiling.draw()?;
        scene.title = format!("{}, {}", self.info.name, scene.title);
        Ok(scene)
    }
}
