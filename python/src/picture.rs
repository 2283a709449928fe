//! Pictures: of layouts, thread-value layouts, tiled copies and tiled MMAs.

use crate::algebra::{Layout, value_of};
use crate::element::Dtype;
use crate::error::{self, LayoutError, of_draw};
use moye_device::atom::copy::{CopyAtomInfo, ValueLayouts, copy_atoms};
use moye_device::atom::mma::{MMA_ATOMS, MmaInfo, UniversalFma};
use moye_device::atom::{CopyTiling, End, MmaTiling, Operand, Permutation, TilingError};
use moye_device::layout::{
    self as device, IntTuple, LayoutError as Refused, try_make_col_major, try_make_layout_tv,
};
use moye_draw::{self as draw, Draw, Format, Memory, Scene, Style, title_of_copy};
use moye_eval::Value;
use pyo3::prelude::*;
use std::path::PathBuf;

/// A picture, which shows itself in a notebook. As a string it is a table.
#[pyclass(frozen, module = "moye")]
pub struct Picture(pub Scene);

#[pymethods]
impl Picture {
    /// The subject of the picture.
    #[getter]
    fn title(&self) -> &str {
        &self.0.title
    }

    /// The picture as SVG.
    pub fn svg(&self) -> String {
        self.0.render(Format::Svg, &Style::default())
    }

    /// The picture as a string in a format: `svg`, `tikz`, `typst`, `table`, `moye` or `cute`
    /// (their `print_layout`).
    fn render(&self, format: &str) -> PyResult<String> {
        let format = match format {
            "svg" => Format::Svg,
            "tikz" => Format::Tikz,
            "typst" => Format::Typst,
            "table" => Format::Table,
            "moye" => Format::MoYe,
            "cute" => Format::CuTe,
            _ => {
                return Err(error::value(format!(
                    "there is no format {format:?}; there are svg, tikz, typst, table, moye and cute"
                )));
            }
        };
        Ok(self.0.render(format, &Style::default()))
    }

    /// Writes the picture to a file, whose suffix chooses the format: .svg, .tex, .typ or .txt.
    fn save(&self, path: PathBuf) -> PyResult<()> {
        let format = Format::of_path(&path).map_err(of_draw)?;
        Ok(std::fs::write(path, self.0.render(format, &Style::default()))?)
    }

    fn _repr_svg_(&self) -> String {
        self.svg()
    }

    fn __str__(&self) -> String {
        self.0.render(Format::Table, &Style::default())
    }

    fn __repr__(&self) -> String {
        format!("<moye.Picture {:?}>", self.0.title)
    }
}

/// A layout from Python: a layout, its string, or a shape, for which it is the compact column-major
/// one.
fn layout_of(name: &str, object: &Bound<'_, PyAny>) -> PyResult<device::Layout> {
    match value_of(object)? {
        Value::Layout(layout) => Ok(layout),
        Value::Tuple(shape) => try_make_col_major(shape).map_err(refused),
        other => Err(LayoutError::new_err(format!("{name} is {other}, and must be a layout"))),
    }
}

fn refused(error: Refused) -> PyErr {
    LayoutError::new_err(error.to_string())
}

fn no_tiling(error: TilingError) -> PyErr {
    LayoutError::new_err(error.to_string())
}

/// A tile with, in each element, the thread and the value that hold it.
///
/// layout: maps (thread, value) to the index of an element, counted down the columns. tile: rows
/// and columns. threads: the ids of the threads, if they are not 0, 1, ...
#[pyfunction]
#[pyo3(signature = (layout, tile, threads=None))]
pub fn thread_value(
    layout: &Bound<'_, PyAny>,
    tile: [i64; 2],
    threads: Option<&Bound<'_, PyAny>>,
) -> PyResult<Picture> {
    let threads = threads.map(|threads| layout_of("threads", threads)).transpose()?;
    let layout = layout_of("layout", layout)?;
    draw::thread_value(&layout, tile, threads.as_ref()).map(Picture).map_err(of_draw)
}

/// The banks of shared memory of a layout's elements, with the conflicts of a warp's access.
///
/// layout: plain or swizzled. element: the elements' type or its bits. access: maps (thread, value)
/// to the coordinate of an element.
#[pyfunction]
#[pyo3(signature = (layout, element, access=None))]
pub fn banks(
    layout: &Bound<'_, PyAny>,
    element: &Bound<'_, PyAny>,
    access: Option<&Bound<'_, PyAny>>,
) -> PyResult<Picture> {
    let memory = match value_of(layout)? {
        Value::Composed(layout) => Memory::Swizzled(layout),
        _ => Memory::Plain(layout_of("layout", layout)?),
    };
    let access = access.map(|access| layout_of("access", access)).transpose()?;
    draw::banks(memory, element_bits(element)?, access.as_ref()).map(Picture).map_err(of_draw)
}

/// The bits of an element type's name, or a number of bits.
fn element_bits(element: &Bound<'_, PyAny>) -> PyResult<i64> {
    if let Ok(bits) = element.extract::<i64>() {
        return Ok(bits);
    }
    let name: String = element.extract()?;
    match Dtype::named(&name) {
        Some(dtype) => Ok(i64::from(dtype.bits)),
        None => Err(error::value(format!(
            "there are no elements of type {name}; there are {}, and numbers of bits",
            Dtype::names()
        ))),
    }
}

fn tuple_of(tuple: &IntTuple) -> Vec<i64> {
    (0..tuple.rank()).map(|mode| tuple.mode(mode).size()).collect()
}

/// A copy of a tile by many threads.
///
/// threads, values: the layouts of the threads over the tile and of each thread's values. atom: the
/// name of a copy atom, such as "SM75_U32x4_LDSM_N" or "UniversalCopy<u128>", for elements of type
/// `element` (a name, or bits); without it each value is copied separately.
#[pyclass(frozen, module = "moye")]
pub struct TiledCopy {
    tile: IntTuple,
    source: device::Layout,
    destination: device::Layout,
    title: Option<String>,
}

#[pymethods]
impl TiledCopy {
    #[new]
    #[pyo3(signature = (threads, values, *, atom=None, element=None))]
    fn new(
        threads: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        atom: Option<&str>,
        element: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let (threads, values) = (layout_of("threads", threads)?, layout_of("values", values)?);
        let Some(atom) = atom else {
            let tv = try_make_layout_tv(threads, values).map_err(refused)?;
            return Ok(Self { tile: tv.tile, source: tv.layout, destination: tv.layout, title: None });
        };
        let element = element
            .ok_or_else(|| error::value("atom needs element, the type of the elements that it copies"))?;
        let layouts = values_of(atom, element_bits(element)?)?;
        let tiling = CopyTiling::of_threads_and_values(layouts, threads, values).map_err(no_tiling)?;
        Ok(Self {
            tile: tiling.tile,
            source: tiling.end_tv(End::Source).map_err(no_tiling)?,
            destination: tiling.end_tv(End::Destination).map_err(no_tiling)?,
            title: Some(title_of_copy(atom, &element.str()?.to_cow()?, &tiling.tile)),
        })
    }

    /// The tile's extents.
    #[getter]
    fn tile(&self) -> Vec<i64> {
        tuple_of(&self.tile)
    }

    /// The thread-value layout of the source.
    #[getter]
    fn source(&self) -> Layout {
        Layout(self.source)
    }

    /// The thread-value layout of the destination.
    #[getter]
    fn destination(&self) -> Layout {
        Layout(self.destination)
    }

    /// A picture: the source on the left, the destination on the right.
    fn draw(&self) -> PyResult<Picture> {
        let rows = if self.tile.rank() < 2 { 1 } else { self.tile.mode(0).size() };
        let mut scene = draw::tiled_copy(&self.source, &self.destination, [rows, self.tile.size() / rows])
            .map_err(of_draw)?;
        if let Some(title) = &self.title {
            scene.title.clone_from(title);
        }
        Ok(Picture(scene))
    }

    fn _repr_svg_(&self) -> Option<String> {
        self.draw().ok().map(|picture| picture.svg())
    }

    fn __repr__(&self) -> String {
        let title = self.title.clone().unwrap_or_else(|| "tiled copy".to_owned());
        format!("<moye.TiledCopy {title}: {} to {}>", self.source, self.destination)
    }
}

fn values_of(atom: &str, bits: i64) -> PyResult<ValueLayouts> {
    let Some(info) = copy_atoms().iter().find(|info: &&CopyAtomInfo| info.to_string() == atom) else {
        let all: Vec<_> = copy_atoms().iter().map(ToString::to_string).collect();
        return Err(error::value(format!("there is no copy atom {atom:?}; there are {}", all.join(", "))));
    };
    let layouts = info.layouts.try_whole_values(bits);
    layouts.map_err(|error| no_tiling(error.tiling(&format!("{atom} for elements of {bits} bits"))))
}

/// A matrix instruction, side by side over a tile.
///
/// atom: its name in CuTe or MoYe (`mma_atoms()` lists them), or "UniversalFma". atoms: the layout
/// of the instructions along M, N and K. tile: extents along M, N and K, if the tile is larger than
/// the atoms.
#[pyclass(frozen, module = "moye")]
pub struct TiledMma {
    name: &'static str,
    shape: [i64; 3],
    threads: device::Layout,
    tiling: MmaTiling,
}

#[pymethods]
impl TiledMma {
    #[new]
    #[pyo3(signature = (atom, atoms=None, tile=None))]
    fn new(atom: &str, atoms: Option<&Bound<'_, PyAny>>, tile: Option<[i64; 3]>) -> PyResult<Self> {
        let universal = MmaInfo::of::<UniversalFma<f32>>();
        let matches = |info: &&MmaInfo| info.name == atom || info.moye_name == Some(atom);
        let info = MMA_ATOMS.iter().chain([&universal]).find(matches).copied();
        let info = info.ok_or_else(|| {
            error::value(format!("there is no matrix instruction {atom:?}; moye.mma_atoms() lists them"))
        })?;
        let atoms = match atoms {
            Some(atoms) => layout_of("atoms", atoms)?,
            None => try_make_col_major(IntTuple::try_tuple(&[IntTuple::int(1); 3]).map_err(refused)?)
                .map_err(refused)?,
        };
        let permutation = tile.map_or([Permutation::Atoms; 3], |tile| tile.map(Permutation::Tile));
        let layouts = [info.a.layout, info.b.layout, info.c.layout, info.d.layout];
        let tiling =
            MmaTiling::new(info.shape_mnk, info.thr_id, layouts, atoms, permutation).map_err(no_tiling)?;
        Ok(Self { name: info.name, shape: info.shape_mnk, threads: info.thr_id, tiling })
    }

    /// The atom's name in CuTe.
    #[getter]
    fn atom(&self) -> &'static str {
        self.name
    }

    /// M, N and K of the atom.
    #[getter]
    fn shape_mnk(&self) -> (i64, i64, i64) {
        self.shape.into()
    }

    /// The ids of the atom's threads.
    #[getter]
    fn thr_id(&self) -> Layout {
        Layout(self.threads)
    }

    /// M, N and K of the tile.
    #[getter]
    fn tile(&self) -> (i64, i64, i64) {
        [0, 1, 2].map(|mode| self.tiling.tile(mode)).into()
    }

    /// The thread-value layout of A.
    #[getter]
    fn a(&self) -> PyResult<Layout> {
        self.tiling.layout_tv(Operand::A).map(Layout).map_err(no_tiling)
    }

    /// The thread-value layout of B.
    #[getter]
    fn b(&self) -> PyResult<Layout> {
        self.tiling.layout_tv(Operand::B).map(Layout).map_err(no_tiling)
    }

    /// The thread-value layout of C.
    #[getter]
    fn c(&self) -> PyResult<Layout> {
        self.tiling.layout_tv(Operand::C).map(Layout).map_err(no_tiling)
    }

    /// A picture: A on the left, B above, C between them.
    fn draw(&self) -> PyResult<Picture> {
        let mut scene = self.tiling.draw().map_err(of_draw)?;
        scene.title = format!("{}, {}", self.name, scene.title);
        Ok(Picture(scene))
    }

    fn _repr_svg_(&self) -> Option<String> {
        self.draw().ok().map(|picture| picture.svg())
    }

    fn __repr__(&self) -> String {
        let (m, n, k) = self.tile();
        format!("<moye.TiledMma {}, {m} x {n} x {k}>", self.name)
    }
}

/// The names of all matrix instructions of a warp, as CuTe has them.
#[pyfunction]
pub fn mma_atoms() -> Vec<&'static str> {
    MMA_ATOMS.iter().map(|atom| atom.name).collect()
}

/// The names of all copy atoms.
#[pyfunction]
pub fn copy_atom_names() -> Vec<String> {
    copy_atoms().iter().map(ToString::to_string).collect()
}
