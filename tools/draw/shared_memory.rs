//! Pictures of shared memory: swizzles, and the banks of elements.

use super::error::DrawError;
use super::grid::Frame;
use super::scene::{Cell, Fill, Grid, Label, Mark, Scene};
use moye_device::layout::{ComposedLayout, Layout};
use std::collections::{BTreeMap, BTreeSet};

/// The banks of shared memory.
const BANKS: i64 = 32;
/// The bits of a bank's word.
const WORD: i64 = 32;
/// The threads of a warp.
const WARP: i64 = 32;

/// A layout of shared memory, swizzled or not.
#[derive(Clone, Copy, Debug)]
pub enum Memory {
    /// A layout.
    Plain(Layout),
    /// A swizzle after a layout.
    Swizzled(ComposedLayout),
}

impl From<Layout> for Memory {
    fn from(layout: Layout) -> Self {
        Self::Plain(layout)
    }
}

impl From<ComposedLayout> for Memory {
    fn from(composed: ComposedLayout) -> Self {
        Self::Swizzled(composed)
    }
}

impl std::fmt::Display for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Plain(layout) => layout.fmt(f),
            Self::Swizzled(composed) => composed.fmt(f),
        }
    }
}

impl Memory {
    fn layout(&self) -> &Layout {
        match self {
            Self::Plain(layout) => layout,
            Self::Swizzled(composed) => &composed.layout,
        }
    }

    fn at(&self, coord: i64) -> i64 {
        match self {
            Self::Plain(layout) => layout.at(coord),
            Self::Swizzled(composed) => composed.at(coord),
        }
    }

    fn unsuited(&self, how: &'static str, why: String) -> DrawError {
        DrawError::Unsuited { layout: self.to_string(), how, why }
    }
}

/// The effect of a swizzle: the indices without it on the left, with it on the right. The colours
/// follow the bits that the swizzle changes, so they are in order on the left and permuted on the
/// right.
///
/// # Errors
/// The layout has too many elements.
///
/// ```
/// use moye_draw::Label;
/// use moye_device::layout::{ComposedLayout, Swizzle, layout};
///
/// let smem = ComposedLayout::new(Swizzle::new(3, 0, 3), 0, layout!((8, 8):(8, 1)));
/// let scene = moye_draw::swizzle(&smem).unwrap();
/// assert_eq!(scene.panels[0].grid.cell(1, 0).label, Label::Index(8));
/// assert_eq!(scene.panels[1].grid.cell(1, 0).label, Label::Index(9));
/// ```
pub fn swizzle(composed: &ComposedLayout) -> Result<Scene, DrawError> {
    let frame = Frame::of(&composed.layout)?;
    let swizzle = composed.swizzle;
    let fill = |index: i64| Fill::category((index & swizzle.target_mask()) >> swizzle.base());
    let grid = |at: &dyn Fn(i64) -> i64| {
        frame.grid(|row, column| {
            let index = at(frame.linear(row, column));
            Cell::new(Label::Index(index), fill(index))
        })
    };
    let mut before = grid(&|coord| composed.offset + composed.layout.at(coord)).with_caption("Before");
    before.cosize = Some(composed.offset + composed.layout.cosize());
    let mut after = grid(&|coord| composed.at(coord)).with_caption(format!("After {swizzle}"));
    after.cosize = Some(composed.cosize());
    let description = format!(
        "The swizzled layout {composed}: on the left the index of each element before the swizzle, on the right after \
         it."
    );
    Ok(Scene::pair(composed.to_string(), description, before, after))
}

/// The shared-memory bank of each element, for elements of `bits` bits: 32 banks of 32-bit words.
///
/// `access` is a warp's access in one instruction. It maps (thread, value) to an element's linear
/// coordinate in the layout; the values of a thread form its vector of up to 128 bits. Accessed
/// elements have strong borders, and those whose bank serves several words at a time have a filled
/// corner. 128-bit accesses proceed by quarter warps, 64-bit ones by half warps; threads that read
/// the same word do not conflict.
///
/// # Errors
/// The layout has too many elements or negative indices; the element size is not a power of two up
/// to 128; or the access has more than 32 threads, is out of bounds, or has vectors that are not
/// contiguous and aligned.
///
/// ```
/// use moye_draw;
/// use moye_device::layout::layout;
///
/// let column = layout!(32:1);
/// let scene = moye_draw::banks(layout!((32, 32):(32, 1)), 32, Some(&column)).unwrap();
/// assert!(scene.panels[0].grid.notes[0].contains("32-way"));
/// let scene = moye_draw::banks(layout!((32, 32):(33, 1)), 32, Some(&column)).unwrap();
/// assert!(scene.panels[0].grid.notes[0].contains("no bank conflict"));
/// ```
pub fn banks(memory: impl Into<Memory>, bits: i64, access: Option<&Layout>) -> Result<Scene, DrawError> {
    let memory = memory.into();
    let frame = Frame::of(memory.layout())?;
    let size = memory.layout().size();
    if !(1..=128).contains(&bits) || bits.count_ones() != 1 {
        return Err(
            memory.unsuited(HOW, format!("its elements have {bits} bits; give a power of two from 1 to 128"))
        );
    }
    if memory.layout().is_coordinate() {
        return Err(memory.unsuited(HOW, "it maps to coordinates, not to places in memory".to_owned()));
    }
    for index in (0..size).map(|coord| memory.at(coord)) {
        if index < 0 || index > i64::MAX / bits - 1 {
            return Err(memory.unsuited(HOW, format!("its index {index} is not a place in shared memory")));
        }
    }
    let access = access.map(|access| Access::of(&memory, bits, access)).transpose()?;
    let mut grid = frame.grid(|row, column| {
        let coord = frame.linear(row, column);
        let bit = memory.at(coord) * bits;
        let (first, last) = (bank(bit), bank(bit + bits - 1));
        let found = access.as_ref().and_then(|access| access.cells.get(&coord));
        let label = Label::Bank { first, last, thread: found.map(|found| (found.thread, found.others)) };
        Cell { label, fill: Fill::category(first), mark: found.map_or(Mark::None, |found| found.mark) }
    });
    grid.notes.extend(access.as_ref().map(|access| access.note.clone()));
    let description = format!(
        "The banks of shared memory, 0 to 31, that the elements of {memory} fall in, {bits} bits each.{}",
        access.map_or(String::new(), |access| format!(" {}", access.note)),
    );
    Ok(Scene::single(format!("{memory}, {bits}-bit elements by bank"), description, named(grid)))
}

const HOW: &str = "by bank";

fn named(grid: Grid) -> Grid {
    grid.with_caption("Bank of each element")
}

fn bank(bit: i64) -> i64 {
    bit / WORD % BANKS
}

/// A warp's access, by the elements that it covers.
struct Access {
    /// By linear coordinate.
    cells: BTreeMap<i64, Accessed>,
    note: String,
}

struct Accessed {
    /// The first thread, and the number of others.
    thread: i64,
    others: usize,
    mark: Mark,
}

impl Access {
    fn of(memory: &Memory, bits: i64, access: &Layout) -> Result<Self, DrawError> {
        let unsuited =
            |why: String| DrawError::Unsuited { layout: access.to_string(), how: "as a warp's access", why };
        let threads = if access.rank() == 0 { 1 } else { access.extent(0) };
        if threads > WARP {
            return Err(unsuited(format!(
                "it maps (thread, value), and has {threads} threads; a warp's has at most {WARP}"
            )));
        }
        if access.is_coordinate() {
            return Err(unsuited(format!(
                "its strides are along basis vectors; it must map (thread, value) to linear coordinates of {}",
                memory.layout()
            )));
        }
        let values = access.size() / threads;
        let width = values.saturating_mul(bits);
        if !matches!(width, 8 | 16 | 32 | 64 | 128) {
            return Err(unsuited(format!(
                "each thread accesses {values} values of {bits} bits; an instruction takes 8, 16, 32, 64 or 128 bits"
            )));
        }
        let lanes = (128 * 8 / width).min(WARP);
        let mut cells: BTreeMap<i64, Accessed> = BTreeMap::new();
        // The words that each bank serves in each phase.
        let mut words: BTreeMap<(i64, i64), BTreeSet<i64>> = BTreeMap::new();
        for thread in 0..threads {
            let coords = (0..values).map(|value| access.at(thread + value * threads)).collect::<Vec<_>>();
            if let Some(coord) = coords.iter().find(|coord| !(0..memory.layout().size()).contains(*coord)) {
                return Err(unsuited(format!(
                    "thread {thread} accesses coordinate {coord} of a layout of {} elements",
                    memory.layout().size()
                )));
            }
            let first = memory.at(coords[0]);
            for (index, coord) in (first..).zip(&coords) {
                if memory.at(*coord) != index || first % values != 0 {
                    return Err(unsuited(format!(
                        "the {values} values of thread {thread} begin at index {first} and must be contiguous, \
                         from a multiple of {values} on"
                    )));
                }
                let found =
                    cells.entry(*coord).or_insert(Accessed { thread, others: 0, mark: Mark::Accessed });
                found.others += usize::from(found.thread != thread);
            }
            for word in first * bits / WORD..=((first + values) * bits - 1) / WORD {
                words.entry((thread / lanes, word % BANKS)).or_default().insert(word);
            }
        }
        for thread in 0..threads {
            for value in 0..values {
                let coord = access.at(thread + value * threads);
                let place = bank(memory.at(coord) * bits);
                let last = bank(memory.at(coord) * bits + bits - 1);
                let busy = |bank| words.get(&(thread / lanes, bank)).is_some_and(|words| words.len() > 1);
                if (place..=last).any(busy)
                    && let Some(cell) = cells.get_mut(&coord)
                {
                    cell.mark = Mark::Conflict;
                }
            }
        }
        Ok(Self { cells, note: note(access, threads, width, lanes, &words) })
    }
}

fn note(
    access: &Layout,
    threads: i64,
    width: i64,
    lanes: i64,
    words: &BTreeMap<(i64, i64), BTreeSet<i64>>,
) -> String {
    let phases = (threads + lanes - 1) / lanes;
    let ways =
        |phase: i64| words.range((phase, 0)..(phase + 1, 0)).map(|(_, words)| words.len()).max().unwrap_or(0);
    let worst = (0..phases).map(ways).max().unwrap_or(0);
    let total: usize = (0..phases).map(ways).sum();
    let what = format!("Access {access}, {width} bits a thread");
    if worst <= 1 {
        return format!("{what}: no bank conflict.");
    }
    format!("{what}: {worst}-way bank conflict; {total} passes instead of {phases}.")
}
