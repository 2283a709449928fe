//! The contents of each kind of picture, and the inputs that it rejects.

use super::common::{mma, parsed, thread_value};
use moye_device::atom::copy::{SM75_U32x4_LDSM_N, UniversalCopy};
use moye_device::atom::mma::{SM80_16x8x8_F32TF32TF32F32_TN, UniversalFma};
use moye_device::atom::{TiledCopy, TiledMma};
use moye_device::layout::{ComposedLayout, Layout, Swizzle, layout, tuple};
use moye_draw::{self as draw, Draw, Fill, Label, MAX_CELLS, Mark, Scene};
use std::collections::{BTreeMap, BTreeSet};

fn label(scene: &Scene, panel: usize, row: usize, column: usize) -> &Label {
    &scene.panels[panel].grid.cell(row, column).label
}

fn held(thread: i64, value: i64) -> Label {
    Label::ThreadValue { thread, value, more: 0 }
}

#[test]
fn a_layout_of_coordinates_shows_coordinates() {
    let scene = draw::layout(&parsed("(3,4):(1@1,2@0)")).unwrap();
    assert_eq!(*label(&scene, 0, 2, 3), Label::Coordinate(Box::new(tuple!((6, 2)))));
}

#[test]
fn a_layout_of_mixed_strides_is_refused_with_the_reason() {
    let error = draw::layout(&parsed("(3,4):(1@0,2)")).unwrap_err().to_string();
    assert!(
        error.contains("(3,4):(1@0,2)")
            && error.contains("a coordinate both an integer and a tuple; it must be one or the other"),
        "{error}"
    );
}

#[test]
fn a_layout_of_rank_1_is_one_row_and_of_rank_3_has_all_further_modes_along_the_columns() {
    let scene = draw::layout(&parsed("5:2")).unwrap();
    assert_eq!((scene.panels[0].grid.rows().len(), scene.panels[0].grid.columns().len()), (1, 5));
    let scene = draw::layout(&parsed("(2,3,2):(6,2,1)")).unwrap();
    let grid = &scene.panels[0].grid;
    assert_eq!((grid.rows().len(), grid.columns().len()), (2, 6));
    assert_eq!(grid.columns()[4].coordinate.as_deref(), Some("(1,1)"));
    assert_eq!(*label(&scene, 0, 1, 4), Label::Index(6 + 2 + 1));
}

#[test]
fn every_thread_and_value_stands_where_the_layout_puts_it() {
    let tv = parsed("((4,2),(2,2)):((16,1),(8,2))");
    let scene = thread_value();
    let mut seen = 0;
    for thread in 0..8 {
        for value in 0..4 {
            let index = tv.at_coord([thread, value]);
            assert_eq!(*label(&scene, 0, (index % 8) as usize, (index / 8) as usize), held(thread, value));
            seen += 1;
        }
    }
    let cells = scene.panels[0].grid.cells();
    assert_eq!(cells.iter().filter(|cell| cell.label != Label::Empty).count(), seen);
    assert!(scene.panels[0].grid.notes[0].starts_with("32 of 64"), "{:?}", scene.panels[0].grid.notes);
}

#[test]
fn threads_have_their_colours_wherever_their_values_are() {
    for cell in thread_value().panels[0].grid.cells() {
        if let Label::ThreadValue { thread, .. } = cell.label {
            assert_eq!(cell.fill, Fill::Category(thread as u8));
        }
    }
    assert_eq!(Fill::category(33), Fill::Category(1), "colours repeat after 32");
    assert_eq!(Fill::category(-1), Fill::Category(31));
}

#[test]
fn a_thread_value_layout_of_coordinates_is_that_of_indices() {
    let by_index = draw::thread_value(&parsed("(4,2):(8,4)"), [4, 8], None).unwrap();
    let by_coordinate = draw::thread_value(&parsed("(4,2):(2@1,1@1)"), [4, 8], None).unwrap();
    assert_eq!(by_index.panels, by_coordinate.panels);
    let error = draw::thread_value(&parsed("(4,2):(2@1,1@2)"), [4, 8], None).unwrap_err().to_string();
    assert!(error.contains("basis vector 0 (rows) nor 1 (columns)"), "{error}");
}

#[test]
fn an_element_of_several_threads_says_how_many_more_hold_it() {
    let scene = draw::thread_value(&layout!((4, 2):(0, 1)), [1, 2], None).unwrap();
    assert_eq!(*label(&scene, 0, 0, 1), Label::ThreadValue { thread: 0, value: 1, more: 3 });
    assert_eq!(label(&scene, 0, 0, 1).lines(1), ["T1", "V2", "+3"]);
    let note = "+n: n more hold the element, beside the one shown.";
    assert_eq!(scene.panels[0].grid.notes, [note], "the picture says what the sign means");
    let alone = draw::thread_value(&layout!((4, 2):(1, 4)), [1, 8], None).unwrap();
    assert!(alone.panels[0].grid.notes.is_empty());
}

#[test]
fn values_outside_the_tile_are_refused_with_the_place() {
    for (tv, tile, parts) in [
        ("(4,2):(2,9)", [4, 2], ["value 1 of thread 0", "index 9", "0 to 7"]),
        ("(4,2):(-1,4)", [4, 2], ["value 0 of thread 1", "index -1", "0 to 7"]),
        ("(4,2):(1@0,2@1)", [4, 2], ["value 1 of thread 0", "(0,2)", "4 x 2"]),
    ] {
        let error = draw::thread_value(&parsed(tv), tile, None).unwrap_err().to_string();
        for part in parts {
            assert!(error.contains(part), "{part:?} in {error}");
        }
    }
    assert!(draw::thread_value(&parsed("1:0"), [0, 4], None).is_err(), "a tile without rows");
    assert!(draw::thread_value(&parsed("1:0"), [i64::MAX, i64::MAX], None).is_err(), "a tile that overflows");
    let few = draw::thread_value(&parsed("4:1"), [4, 1], Some(&parsed("2:1"))).unwrap_err().to_string();
    assert!(few.contains("4 threads") && few.contains("numbers 2"), "{few}");
}

#[test]
fn too_large_pictures_are_refused_with_the_limit_and_the_way_out() {
    assert!(draw::layout(&parsed("(128,128)")).is_ok());
    let error = draw::layout(&parsed("(129,128)")).unwrap_err().to_string();
    assert!(error.contains("16512") && error.contains(&MAX_CELLS.to_string()), "{error}");
    assert!(error.contains("zipped_divide"), "{error}");
}

#[test]
fn a_tiled_copy_has_its_source_on_the_left_and_its_destination_on_the_right() {
    // The 8 x 8 matrices that ldmatrix reads by rows and distributes in pairs.
    let scene =
        draw::tiled_copy(&parsed("(32,(4,1)):(4,(1,0))"), &parsed("(32,(4,1)):(1,(32,0))"), [32, 4]).unwrap();
    assert_eq!((scene.panels[0].column, scene.panels[1].column), (0, 1));
    assert_eq!(*label(&scene, 0, 5, 0), held(1, 1));
    assert_eq!(*label(&scene, 1, 5, 2), held(5, 2));
}

#[test]
fn a_tiled_copy_of_a_thread_and_a_value_layout_covers_its_tile() {
    let scene = draw::tiled_copy_of(&layout!((16, 8):(8, 1)), &layout!((1, 4))).unwrap();
    let grid = &scene.panels[0].grid;
    assert_eq!((grid.rows().len(), grid.columns().len()), (16, 32));
    assert_eq!(*label(&scene, 0, 3, 9), held(3 * 8 + 2, 1));
    assert!(grid.cells().iter().all(|cell| cell.label != Label::Empty));
    assert_eq!(scene.panels[0].grid.cells(), scene.panels[1].grid.cells());
    let row = draw::tiled_copy_of(&layout!(8), &layout!(2)).unwrap();
    assert_eq!(row.panels[0].grid.rows().len(), 1, "a tile of one mode is one row");
}

#[test]
fn a_matrix_instruction_has_b_above_c_and_a_left_of_it() {
    let scene = mma();
    let places: Vec<_> = scene.panels.iter().map(|panel| (panel.row, panel.column)).collect();
    assert_eq!(places, [(0, 1), (1, 0), (1, 1)]);
    let extents: Vec<_> =
        scene.panels.iter().map(|panel| (panel.grid.rows().len(), panel.grid.columns().len())).collect();
    assert_eq!(extents, [(4, 8), (8, 4), (8, 8)], "B is K x N, A is M x K, C is M x N");
    // B maps (thread, value) to n + 8 k: thread 6 is id 18.
    let b = parsed("((4,2),4):((8,4),1)").at_coord([6, 3]);
    assert_eq!(*label(&scene, 0, (b / 8) as usize, (b % 8) as usize), held(18, 3));
    // A maps them to m + 8 k.
    assert_eq!(*label(&scene, 1, 7, 3), held(19, 3));
}

#[test]
fn swizzled_pictures_show_the_indices_on_both_sides() {
    let smem = ComposedLayout::new(Swizzle::new(3, 3, 3), 0, layout!((8, 64):(64, 1)));
    let scene = draw::swizzle(&smem).unwrap();
    for row in 0..8 {
        for column in 0..64 {
            let coord = [row as i64, column as i64];
            assert_eq!(*label(&scene, 0, row, column), Label::Index(smem.layout.at_coord(coord)));
            assert_eq!(*label(&scene, 1, row, column), Label::Index(smem.at_coord(coord)));
            let fill = scene.panels[1].grid.cell(row, column).fill;
            assert_eq!(
                fill,
                Fill::Category(((row ^ (column / 8)) % 8) as u8),
                "colours follow 16-byte pieces"
            );
        }
    }
}

/// The number of words that a bank serves at once, counted from the definition: all addresses of
/// the phase's bytes.
fn passes(indices: &[Vec<i64>], bits: i64) -> usize {
    let width = indices[0].len() as i64 * bits;
    let lanes = (1024 / width).min(32) as usize;
    let phase = |lanes: &[Vec<i64>]| {
        let mut words: BTreeMap<i64, BTreeSet<i64>> = BTreeMap::new();
        for index in lanes.iter().flatten() {
            for byte in index * bits / 8..(index + 1) * bits / 8 {
                words.entry(byte / 4 % 32).or_default().insert(byte / 4);
            }
        }
        words.values().map(BTreeSet::len).max().unwrap_or(0)
    };
    indices.chunks(lanes).map(phase).sum()
}

#[test]
fn bank_conflicts_are_those_of_the_hardware() {
    let plain = |text: &str| draw::Memory::Plain(parsed(text));
    let swizzled = |base, shift, text: &str| {
        draw::Memory::Swizzled(ComposedLayout::new(Swizzle::new(3, base, shift), 0, parsed(text)))
    };
    for (memory, bits, access) in [
        (plain("(32,32):(32,1)"), 32, "32:1"),
        (plain("(32,32):(33,1)"), 32, "32:1"),
        (plain("(32,32):(34,1)"), 32, "32:1"),
        (plain("(32,32):(32,1)"), 32, "32:32"),
        (plain("(32,32):(32,1)"), 32, "32:0"),
        (plain("(64,64):(64,1)"), 16, "32:1"),
        (plain("(64,64):(64,1)"), 16, "(32,2):(64,4096)"),
        (plain("(32,32):(1,32)"), 32, "(32,4):(4,1)"),
        (plain("(8,128):(1,8)"), 64, "(32,2):(2,1)"),
        (plain("(8,128):(1,8)"), 64, "(32,1):(8,0)"),
        (plain("(32,64):(64,1)"), 16, "(32,8):(1,32)"),
        (swizzled(3, 3, "(32,64):(64,1)"), 16, "(32,8):(1,32)"),
        (plain("(128,32):(1,128)"), 8, "32:128"),
        (plain("(32,8):(8,1)"), 128, "(32,1):(1,0)"),
    ] {
        let access = parsed(access);
        let size = match &memory {
            draw::Memory::Plain(layout) => layout.size(),
            draw::Memory::Swizzled(composed) => composed.size(),
        };
        if access.cosize() > size {
            assert!(draw::banks(memory, bits, Some(&access)).is_err(), "{access} leaves {memory}");
            continue;
        }
        let at = |coord: i64| match &memory {
            draw::Memory::Plain(layout) => layout.at(coord),
            draw::Memory::Swizzled(composed) => composed.at(coord),
        };
        let threads = access.extent(0);
        let values = access.size() / threads;
        let indices: Vec<Vec<i64>> = (0..threads)
            .map(|thread| (0..values).map(|value| at(access.at(thread + value * threads))).collect())
            .collect();
        let wanted = passes(&indices, bits);
        let scene = draw::banks(memory, bits, Some(&access)).unwrap();
        let grid = &scene.panels[0].grid;
        let conflicts = grid.cells().iter().filter(|cell| cell.mark == Mark::Conflict).count();
        let note = &grid.notes[0];
        let phases = indices.len().div_ceil((1024 / (values * bits)).min(32) as usize);
        if wanted == phases {
            assert!(note.contains("no bank conflict"), "{memory} by {access}: {note}");
            assert_eq!(conflicts, 0, "{memory} by {access}");
        } else {
            assert!(
                note.contains(&format!("{wanted} passes instead of {phases}")),
                "{memory} by {access}: {note}"
            );
            assert!(conflicts > 1, "{memory} by {access}: a conflict takes two");
        }
    }
}

#[test]
fn elements_say_their_banks() {
    let scene = draw::banks(parsed("(4,64):(64,1)"), 64, None).unwrap();
    assert_eq!(*label(&scene, 0, 0, 17), Label::Bank { first: 2, last: 3, thread: None });
    assert_eq!(label(&scene, 0, 0, 17).lines(1), ["2-3"], "banks count from 0 always");
    let scene = draw::banks(parsed("(4,64):(64,1)"), 16, Some(&parsed("4:1"))).unwrap();
    assert_eq!(*label(&scene, 0, 2, 0), Label::Bank { first: 0, last: 0, thread: Some((2, 0)) });
}

#[test]
fn accesses_that_no_instruction_makes_are_refused() {
    let memory = parsed("(32,32):(32,1)");
    let refused =
        |bits, access: &str| draw::banks(memory, bits, Some(&parsed(access))).unwrap_err().to_string();
    assert!(refused(32, "64:1").contains("64 threads; a warp's has at most 32"), "more than a warp");
    assert!(refused(32, "(8,3):(96,32)").contains("96") || refused(32, "(8,3):(96,32)").contains("3 values"));
    assert!(refused(32, "(8,2):(1,8)").contains("must be contiguous"), "the values are 256 apart");
    assert!(refused(16, "32:1000").contains("of 1024 elements"));
    assert!(draw::banks(memory, 24, None).unwrap_err().to_string().contains("power of two"));
    assert!(draw::banks(parsed("4:-1"), 32, None).unwrap_err().to_string().contains("index -1"));
    assert!(draw::banks(parsed("4:1@0"), 32, None).unwrap_err().to_string().contains("coordinates"));
}

#[test]
fn the_ramp_keeps_to_its_steps_at_the_ends_of_64_bits() {
    let steps: Vec<_> = [i64::MIN, 0, i64::MAX].map(|value| Fill::ramp(value, i64::MIN, i64::MAX)).into();
    assert_eq!(steps, [Fill::Ramp(0), Fill::Ramp(4), Fill::Ramp(7)]);
    assert_eq!(Fill::ramp(3, 3, 3), Fill::Ramp(0));
    let far = Layout::parse("(2,2):(4611686018427387904,1)").unwrap();
    assert!(draw::layout(&far).is_ok());
}

#[test]
fn tiled_copies_are_drawn_as_they_are() {
    let copy = TiledCopy::<UniversalCopy<f64>, f64>::new(layout!((2, 3):(3, 1)), layout!((2, 3):(1, 2)));
    let scene = copy.draw().unwrap();
    assert_eq!(scene.title, "UniversalCopy<f64> for f64, tiled copy of 4 x 9");
    for (panel, row) in [(0, 0), (1, 0)] {
        let threads: Vec<_> = (0..9)
            .map(|column| match *label(&scene, panel, row + 2, column) {
                Label::ThreadValue { thread, .. } => thread,
                _ => panic!("an element without a thread"),
            })
            .collect();
        assert_eq!(threads, [3, 3, 3, 4, 4, 4, 5, 5, 5]);
    }
    // With ldmatrix the two sides differ: lane 8 addresses column 1 and receives rows 16 and 17.
    let copy = TiledCopy::<SM75_U32x4_LDSM_N, u16>::new(layout!((16, 2)), layout!((2, 4)));
    let scene = copy.draw().unwrap();
    assert_eq!(*label(&scene, 0, 7, 1), held(8, 7));
    assert_eq!(*label(&scene, 1, 17, 3), held(8, 7));
    // One row for a tile of one mode; all modes after the first along the columns.
    let row = TiledCopy::<UniversalCopy<f32>, f32>::new(layout!(8), layout!(2)).draw().unwrap();
    assert_eq!((row.panels[0].grid.rows().len(), row.panels[0].grid.columns().len()), (1, 16));
}

#[test]
fn tiled_mmas_are_drawn_as_they_are() {
    let mma = TiledMma::<SM80_16x8x8_F32TF32TF32F32_TN>::tiled(layout!((2, 2, 1)), [32, 32, 8]);
    let scene = mma.draw().unwrap();
    assert_eq!(scene.title, "SM80_16x8x8_F32TF32TF32F32_TN, 32 x 32 x 8");
    // B above, A on the left, C between them; two warps share each element of A and of B.
    assert_eq!(*label(&scene, 0, 4, 17), Label::ThreadValue { thread: 4, value: 3, more: 1 });
    assert_eq!(*label(&scene, 1, 31, 7), Label::ThreadValue { thread: 63, value: 3, more: 1 });
    assert_eq!(*label(&scene, 2, 31, 31), held(127, 7));
    let fma = TiledMma::<UniversalFma<f32>>::new(layout!((16, 16))).draw().unwrap();
    assert_eq!(*label(&fma, 1, 3, 0), Label::ThreadValue { thread: 3, value: 0, more: 15 });
    assert_eq!(*label(&fma, 2, 3, 2), held(35, 0));
    let large = TiledMma::<UniversalFma<f32>>::tiled(layout!((16, 16)), [256, 256, 1]).draw().unwrap_err();
    assert!(large.to_string().contains("at most"), "{large}");
}
