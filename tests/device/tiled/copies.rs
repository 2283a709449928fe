//! Tiled copies of many thread layouts, value layouts, atoms and element types, on the simulator
//! and on a GPU if there is one: every element is copied once, a ragged source reads as zeros, and
//! nothing outside a destination is written.

use crate::common::bytes::{bytes, of_bytes};
use crate::common::devices;
use crate::{POISON, SM_80, entry};
use moye::{Device, Element, Grid, Module};
use moye_device::atom::copy::{CopyAtom, UniversalCopy};
use moye_device::atom::{StaticTiledCopy, TiledCopy};
use moye_device::layout::{IntTuple, make_col_major};
use moye_device::tensor::StaticLayout;
use moye_kernels_tiled::copies::{self, Case, CopyKernel, MARKER};
use std::fmt::Write as _;

/// The expected contents of the destination at a place of the tile.
enum Expected {
    Copied,
    /// Every byte of the element.
    All(u8),
}

/// Rows and columns.
type Extents = (usize, usize);

/// A case on a device.
struct Bench<'a, K: Case> {
    device: &'a Device,
    module: Module,
    source: Vec<K::Element>,
}

impl<'a, K: Case> Bench<'a, K> {
    fn new(device: &'a Device) -> Self {
        let ((m, n), bytes) = (whole::<K>(), K::Element::BYTES);
        let slow = if K::AXIS == 0 { n } else { m };
        let data: Vec<u8> =
            (0..bytes * leading::<K>() * slow).map(|i| (i * 167 + i / 251 + 1) as u8).collect();
        let source = data.chunks_exact(bytes).map(of_bytes).collect();
        Self { device, module: device.load(&SM_80).unwrap(), source }
    }

    /// Copies a source with extents `from` to a destination with extents `to`, and compares all of
    /// the destination's memory.
    fn check(
        &self,
        kernel: &CopyKernel<K::Element>,
        from: Extents,
        to: Extents,
        expected: impl Fn(usize, usize) -> Expected,
    ) {
        let name = self.device.name();
        let what = format!("{} on {name}, a source of {from:?} to a destination of {to:?}", kernel.name());
        // The simulator itself detects writes next to a buffer.
        let guard = if self.device.is_gpu() { 256 } else { 0 };
        let len = self.source.len();
        let source = self.device.upload(&self.source).unwrap();
        let mut destination = self.device.alloc_uninit::<K::Element>(guard + len + guard).unwrap();
        destination.fill_bytes(POISON).unwrap();
        let output = destination.slice_mut(guard..guard + len).unwrap();
        let grid = Grid::new(1, K::Load::COPY.threads() as u32);
        let [m, n, to_m, to_n] = [from.0, from.1, to.0, to.1].map(|extent| extent as u32);
        // SAFETY: both buffers contain a whole tile.
        unsafe { self.module.launch(kernel, grid, (&source, output, m, n, to_m, to_n)) }
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        let got = destination.download().unwrap_or_else(|error| panic!("{what}: {error}"));

        let mut wanted = vec![of_bytes::<K::Element>(&[POISON; 16]); got.len()];
        let (m, n) = whole::<K>();
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            wanted[guard + place::<K>(i, j)] = match expected(i, j) {
                Expected::Copied => self.source[place::<K>(i, j)],
                Expected::All(byte) => of_bytes(&[byte; 16]),
            };
        }
        compare::<K>(&what, &got, &wanted, guard);
    }
}

/// Fails if memory differs from the expected contents, with the first differences. The matrix
/// starts at `start`.
fn compare<K: Case>(what: &str, got: &[K::Element], wanted: &[K::Element], start: usize) {
    let different: Vec<usize> =
        (0..got.len()).filter(|&at| bytes(&got[at..=at]) != bytes(&wanted[at..=at])).collect();
    let mut text = String::new();
    for &at in different.iter().take(12) {
        let offset = at as i64 - start as i64;
        let leading = leading::<K>() as i64;
        let (fast, slow) = (offset.rem_euclid(leading), offset.div_euclid(leading));
        let element = if K::AXIS == 0 { (fast, slow) } else { (slow, fast) };
        let (got, wanted) = (bytes(&got[at..=at]), bytes(&wanted[at..=at]));
        let _ = writeln!(
            text,
            "  element {element:?}, at {offset} in memory: bytes {got:02x?}, expected {wanted:02x?}"
        );
    }
    assert!(different.is_empty(), "{what}: {} of {} elements are wrong:\n{text}", different.len(), got.len());
}

/// The tile's extents.
fn whole<K: Case>() -> Extents {
    (K::Tile::LAYOUT.extent(0) as usize, K::Tile::LAYOUT.extent(1) as usize)
}

fn leading<K: Case>() -> usize {
    K::leading() as usize
}

/// The offset of element `(i, j)` of a matrix, in elements.
fn place<K: Case>(i: usize, j: usize) -> usize {
    if K::AXIS == 0 { i + leading::<K>() * j } else { i * leading::<K>() + j }
}

/// An atom of a thread.
struct AtomOf {
    thread: u32,
    /// The index among the thread's atoms.
    number: usize,
    /// The elements that it copies: indices in the tile, down its columns.
    elements: Vec<i64>,
}

/// The atoms of all threads, which copy the tile.
fn atoms<C: StaticTiledCopy>(tile: IntTuple) -> Vec<AtomOf> {
    let parts = C::COPY.tidfrg_s(make_col_major(tile));
    let part = C::COPY.partition_s(make_col_major(tile));
    let per = C::COPY.atom_layouts().num_val_src();
    let mut atoms = Vec::new();
    for thread in 0..parts.extent(0) {
        for i in 0..part.size() / per {
            let elements = (0..per).map(|j| parts.mode(0).at(thread) + part.at(i * per + j)).collect();
            atoms.push(AtomOf { thread: thread as u32, number: i as usize, elements });
        }
    }
    atoms
}

/// Checks that every element of the tile belongs to one value of one thread.
fn covers_once<C: StaticTiledCopy>(tile: IntTuple) {
    let mut holders = vec![0; tile.size() as usize];
    for atom in atoms::<C>(tile) {
        for element in atom.elements {
            holders[element as usize] += 1;
        }
    }
    assert!(holders.iter().all(|&count| count == 1), "{:?} over {tile}: {holders:?}", C::COPY);
}

fn every_element_arrives_once<K: Case>(device: &Device) {
    let bench = Bench::<K>::new(device);
    let whole = whole::<K>();
    let (m, n) = whole;
    bench.check(&K::WHOLE, whole, whole, |_, _| Expected::Copied);
    for ragged in [(m - 1, n), (m, n - 1), (m / 2 + 1, n / 2 + 1), (1, 1), (3, 2), (0, 0)] {
        let inside = |i, j| i < ragged.0 && j < ragged.1;
        let or = |byte| move |i, j| if inside(i, j) { Expected::Copied } else { Expected::All(byte) };
        bench.check(&K::WHOLE, ragged, whole, or(0));
        bench.check(&K::WHOLE, whole, ragged, or(POISON));
    }
}

fn predicates_hold<K: Case>(device: &Device, kernel: &CopyKernel<K::Element>) {
    let bench = Bench::<K>::new(device);
    let whole = whole::<K>();
    let (m, n) = whole;
    let mut holds = vec![false; m * n];
    for atom in atoms::<K::Load>(K::Tile::LAYOUT.shape()) {
        for element in atom.elements {
            holds[element as usize] = copies::predicate(atom.thread, atom.number);
        }
    }
    let left_out = if <K::Load as StaticTiledCopy>::Atom::ZERO_FILLS { 0 } else { MARKER };
    for from in [whole, (m - 1, n / 2 + 1)] {
        bench.check(kernel, from, whole, |i, j| match (holds[i + m * j], i < from.0 && j < from.1) {
            (false, _) => Expected::All(left_out),
            (true, true) => Expected::Copied,
            (true, false) => Expected::All(0),
        });
    }
}

fn check<K: Case>() {
    covers_once::<K::Load>(K::Tile::LAYOUT.shape());
    covers_once::<K::Move>(K::Tile::LAYOUT.shape());
    for device in devices() {
        every_element_arrives_once::<K>(&device);
        predicates_hold::<K>(&device, &K::PREDICATED);
    }
}

/// The instruction of an atom that loads, if it has one, and how often a thread executes it.
type Load = Option<(&'static str, usize)>;

/// The kernels of a case.
fn of<K: Case>() -> Vec<(&'static str, Load)> {
    let per_thread = atoms::<K::Load>(K::Tile::LAYOUT.shape()).iter().filter(|atom| atom.thread == 0).count();
    let load = <K::Load as StaticTiledCopy>::Atom::PTX.map(|instruction| (instruction, per_thread));
    [K::WHOLE.name(), K::PREDICATED.name()].map(|name| (name, load)).to_vec()
}

macro_rules! tests {
    ($($name:ident)+) => {
        $(
            #[test]
            fn $name() {
                check::<copies::$name::This>();
            }
        )+

        /// All kernels, by name.
        fn kernels() -> Vec<(&'static str, Load)> {
            [$(of::<copies::$name::This>()),+].concat()
        }
    };
}
moye_kernels_tiled::for_each_copy!(tests);

#[test]
fn every_thread_layout_of_the_grid_is_copied_with_every_value_layout() {
    let mut copied = Vec::new();
    macro_rules! copies {
        ($($name:ident)+) => { $(
            if stringify!($name).starts_with("grid_") {
                copied.push((stringify!($name), <copies::$name::Load as StaticTiledCopy>::COPY.layout_src_tv()));
            }
        )+ };
    }
    moye_kernels_tiled::for_each_copy!(copies);
    let mut wanted = Vec::new();
    for (t, threads) in copies::GRID_THREADS.into_iter().enumerate() {
        for (v, values) in copies::GRID_VALUES.into_iter().enumerate() {
            let copy = TiledCopy::<UniversalCopy<f32>, f32>::new(threads, values);
            wanted.push((format!("grid_{t}{v}"), copy.layout_src_tv()));
        }
    }
    let copied: Vec<_> = copied.into_iter().map(|(name, layout)| (name.to_owned(), layout)).collect();
    assert_eq!(copied, wanted);
}

#[test]
fn each_atom_of_cp_async_is_one_instruction_and_nothing_goes_through_registers() {
    let mut checked = 0;
    for (name, load) in kernels() {
        // Each, that none uses local memory.
        let entry = entry(name);
        let Some((instruction, count)) = load else { continue };
        assert_eq!(entry.count(instruction), count, "{name}: {instruction}: {:?}", entry.instructions);
        assert_eq!(entry.count("ld.global"), 0, "{name} loads: {:?}", entry.instructions);
        checked += 1;
    }
    assert!(checked > 0, "there are cases with cp.async");
}

#[test]
fn accesses_are_as_wide_as_their_atom_or_the_tensors_allow() {
    // BLK_M * BLK_N / (threads * elements of an access). At a ragged edge single elements are
    // accessed in addition.
    let wanted = [
        // 16 bytes in and out; in two halves; in four parts.
        ("f32_async_16", "ld.shared.v4.b32", 4),
        ("f32_async_16", "st.global.v4.b32", 4),
        ("f32_async_16_if", "ld.shared.v4.b32", 4),
        ("f32_async_16_zfill", "ld.shared.b64", 4),
        ("f32_async_16_zfill", "st.global.b64", 4),
        ("f16_swizzled_128", "ld.shared.v4.b32", 4),
        ("f16_swizzled_128", "st.global.v4.b32", 4),
        ("f16_blocks", "ld.global.b64", 8),
        ("f16_blocks", "st.shared.b64", 8),
        ("f16_blocks", "ld.shared.b32", 16),
        ("f16_blocks", "st.global.b32", 16),
        ("u8_words", "ld.shared.b16", 24),
        ("u8_words", "st.global.b16", 24),
        ("u128_each", "ld.shared.v4.b32", 8),
        ("u128_each", "st.global.v4.b32", 8),
        // The width that the tensors allow: eight elements in two accesses, or in one, or element
        // by element.
        ("f32_widest", "ld.global.v4.b32", 4),
        ("f32_widest", "st.shared.v4.b32", 4),
        ("i16_widest", "ld.global.v4.b32", 2),
        ("i16_widest", "st.shared.v4.b32", 2),
        ("f32_by_element", "ld.global.v4.b32", 0),
        ("f32_by_element", "st.shared.b32", 16),
        // The page's copy and its vector form: in the latter no single element goes through shared
        // memory.
        ("f64_4x9", "ld.global.v4.b32", 0),
        ("f64_4x9", "st.shared.b64", 24),
        ("f64_4x9_vectors", "ld.global.v4.b32", 12),
        ("f64_4x9_vectors", "st.shared.v4.b32", 12),
        ("f64_4x9_vectors", "st.shared.b64", 0),
    ];
    for (kernel, access, count) in wanted {
        let entry = entry(kernel);
        assert_eq!(entry.count(access), count, "{kernel}: {access}: {:?}", entry.instructions);
    }
}
