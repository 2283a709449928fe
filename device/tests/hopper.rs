//! Operands of `wgmma` and tiles of TMA: facts of CuTe, and laws that hold for every accepted
//! layout.

use moye_device::arch::wgmma::fragments;
use moye_device::atom::tma::{TmaMapError, TmaTile};
use moye_device::atom::wgmma::*;
use moye_device::layout::{
    ComposedLayout, IntTuple, Layout, Major, Swizzle, SwizzleBytes, identity_layout, layout,
    shared_memory_atom, tuple,
};
use moye_device::number::Number;
use moye_sim::intrinsics::MatrixDescriptor;
use moye_sim::{TensorElement, TensorSwizzle};
use proptest::prelude::*;

const SWIZZLES: [SwizzleBytes; 4] =
    [SwizzleBytes::None, SwizzleBytes::B32, SwizzleBytes::B64, SwizzleBytes::B128];

/// A descriptor's fields as in CuTe's `GmmaDescriptor`: type, SBO, LBO, start; the last three in
/// units of 16 bytes.
fn fields(bits: u64) -> (u64, u64, u64, u64) {
    (bits >> 62, bits >> 32 & 0x3FFF, bits >> 16 & 0x3FFF, bits & 0x3FFF)
}

#[test]
fn thread_value_layouts_are_cutes() {
    // CuTe has `CLayout_64x8` as `CLayout_64xN<8>`, which keeps the last mode of the values with an
    // extent of 1. `CLayout_64x8`, `CLayout_64x256`, `ALayout_64x8`, `ALayout_64x16`,
    // `ALayout_64x32`, `ABLayout` of mma_traits_sm90_gmma.hpp.
    for (layout, text) in [
        (fragments::accumulators(8), "((4,8,4),(2,2,1)):((128,1,16),(64,8,512))"),
        (fragments::accumulators(16), "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))"),
        (fragments::accumulators(256), "((4,8,4),(2,2,32)):((128,1,16),(64,8,512))"),
        (fragments::SM90_64x8, "((4,8,4),(2,2)):((64,1,16),(8,256))"),
        (fragments::SM90_64x16, "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))"),
        (fragments::SM90_64x32, "((4,8,4),(4,2,2)):((256,1,16),(64,8,1024))"),
        (fragments::shared_operand(96, 16), "(128,(96,16)):(0,(1,96))"),
    ] {
        assert_eq!(layout.to_string(), text);
    }
}

#[test]
fn every_accumulator_and_every_register_of_a_is_held_once() {
    for atom in WGMMA_ATOMS {
        let [m, n, k] = atom.shape_mnk;
        assert_eq!((m, k * atom.bits[0] as i64), (64, 256), "{}", atom.name);
        let c = atom.c();
        assert_eq!(c.size(), m * n, "{}", atom.name);
        // Code generic over N uses mode (1, 2), the groups of eight columns.
        assert_eq!(c.mode(1).mode(2).to_string(), format!("{}:512", n / 8), "{}", atom.name);
        assert_eq!(c.extent(1) * atom.bits[1] as i64, 32 * atom.registers as i64, "{}", atom.name);
        let mut layouts = vec![c];
        if atom.a_in_registers {
            assert_eq!(atom.a().extent(1) * atom.bits[0] as i64, 128, "{}: four registers", atom.name);
            layouts.push(atom.a());
        }
        for layout in layouts {
            let mut seen = vec![false; layout.size() as usize];
            for index in 0..layout.size() {
                assert!(!std::mem::replace(&mut seen[layout.at(index) as usize], true), "{}", atom.name);
            }
        }
    }
}

#[test]
fn descriptors_of_canonical_layouts_are_cutes() {
    let tile = |major, swizzle, bits, rows, k| {
        shared_memory_atom(major, swizzle, bits).tile_to_shape(IntTuple::flat(&[rows, k]))
    };
    // K-major: with a swizzle, LBO is 1 and SBO the distance of 8 rows; without, LBO is the
    // distance of 16 bytes along K.
    for (swizzle, bits, expected) in [
        (SwizzleBytes::B128, 16, (1, 64, 1)),
        (SwizzleBytes::B64, 16, (2, 32, 1)),
        (SwizzleBytes::B32, 16, (3, 16, 1)),
        (SwizzleBytes::None, 16, (0, 8, 128)),
        (SwizzleBytes::B128, 8, (1, 64, 1)),
        (SwizzleBytes::B128, 32, (1, 64, 1)),
        (SwizzleBytes::None, 32, (0, 8, 128)),
    ] {
        let tile = tile(Major::K, swizzle, bits, 128, 1024 / bits);
        let operand = SharedOperand::try_new(&tile, bits, Major::K, 64).unwrap();
        let (kind, stride, leading, start) = fields(operand.descriptor(0x4000, 0, 0));
        assert_eq!((kind, stride, leading, start), (expected.0, expected.1, expected.2, 0x400), "{tile}");
    }
    // MN-major: with a swizzle, LBO is the distance between row lengths along M, SBO the distance
    // of 8 along K; without, the reverse.
    for (swizzle, expected) in [
        (SwizzleBytes::B128, (1, 128, 64)),
        (SwizzleBytes::B64, (2, 128, 32)),
        (SwizzleBytes::B32, (3, 128, 16)),
        (SwizzleBytes::None, (0, 8, 128)),
    ] {
        let tile = tile(Major::Mn, swizzle, 16, 128, 64);
        let operand = SharedOperand::try_new(&tile, 16, Major::Mn, 64).unwrap();
        let (kind, stride, leading, _) = fields(operand.descriptor(0x4000, 0, 0));
        assert_eq!((kind, stride, leading), expected, "{tile}");
    }
    // Along K, an instruction advances within the swizzle's rows by 32 bytes.
    let tile = tile(Major::K, SwizzleBytes::B128, 16, 128, 64);
    let operand = SharedOperand::try_new(&tile, 16, Major::K, 64).unwrap();
    let starts: Vec<u64> = (0..4).map(|k| fields(operand.descriptor(0x4000, 1, k)).3).collect();
    assert_eq!(starts, [0x400 + 512, 0x402 + 512, 0x404 + 512, 0x406 + 512]);
}

/// Whether a descriptor addresses the elements of the layout: each 16-byte chunk of each
/// instruction's part.
fn leads_to_the_layout(
    tile: &ComposedLayout,
    bits: i64,
    major: Major,
    rows: i64,
) -> Result<(), TestCaseError> {
    const BASE: u32 = 0x2000;
    let operand = match SharedOperand::try_new(tile, bits, major, rows) {
        Ok(operand) => operand,
        Err(error) => return Err(TestCaseError::reject(error.text().to_owned())),
    };
    let (piece, depth) = (128 / bits, 256 / bits);
    for mn in 0..operand.blocks_mn() {
        for k in 0..operand.blocks_k() {
            let descriptor = MatrixDescriptor::of(operand.descriptor(BASE, mn, k));
            for row in 0..rows {
                for column in 0..depth {
                    let (address, within) = match major {
                        Major::K => (descriptor.k_major(row as u32, (column / piece) as u32), column % piece),
                        Major::Mn => (descriptor.mn_major((row / piece) as u32, column as u32), row % piece),
                    };
                    let coordinate = [mn as i64 * rows + row, k as i64 * depth + column];
                    let expected = i64::from(BASE) * 8 / bits + tile.at_coord(coordinate);
                    prop_assert_eq!(
                        i64::from(address) * 8 / bits + within,
                        expected,
                        "{} at {:?}",
                        tile,
                        coordinate
                    );
                }
            }
        }
    }
    Ok(())
}

#[test]
fn every_canonical_tile_has_descriptors_that_lead_to_it() {
    for bits in [8, 16, 32] {
        for swizzle in SWIZZLES {
            for major in [Major::K, Major::Mn] {
                for (mn, rows) in [(64, 64), (128, 64), (256, 256), (256, 128), (96, 96), (24, 8), (192, 64)]
                {
                    for parts in [1, 2, 4] {
                        let row = swizzle.bytes() * 8 / bits;
                        let k = (256 / bits * parts).max(if major == Major::K { row } else { 0 });
                        let atom = shared_memory_atom(major, swizzle, bits);
                        let Ok(tile) = atom.try_tile_to_shape(IntTuple::flat(&[mn, k])) else { continue };
                        let possible = major == Major::K || bits == 16 && rows % row == 0;
                        match leads_to_the_layout(&tile, bits, major, rows) {
                            Ok(()) => assert!(possible, "{tile}, {major:?}, {rows}"),
                            Err(TestCaseError::Reject(reason)) => {
                                assert!(!possible, "{tile}, {major:?}, {rows}: {reason}");
                            }
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn a_layout_without_a_descriptor_is_an_error_with_the_reason_and_the_nearest_layout_that_has_one() {
    let told = |tile: ComposedLayout, bits, major, rows| {
        SharedOperand::try_new(&tile, bits, major, rows).unwrap_err().to_string()
    };
    let plain = ComposedLayout::plain;
    let text = told(plain(layout!((128, 64):(64, 1))), 16, Major::K, 64);
    assert_eq!(
        text,
        "the tile Sw<0,4,3> o 0 o (128,64):(64,1) of 16-bit elements, K-major, has no matrix descriptor for 64 x 16 of wgmma: \
         element 1 along M (or N) is 64 elements after the first of its instruction, which reads it at 8; Sw<3,3,3> o \
         0 o ((8,16),(64,1)):((64,512),(1,0)) has one: shared_memory_atom(Major::K, SwizzleBytes::B128, \
         16).tile_to_shape(tuple!((128, 64)))"
    );
    let text = told(plain(layout!((128, 64):(1, 128))), 16, Major::K, 64);
    assert!(
        text.contains("elements 0 and 1 along K are 128 apart, and 16 bytes of them must be contiguous"),
        "{text}"
    );
    let text = told(plain(layout!((96, 64):(64, 1))), 16, Major::K, 64);
    assert!(text.contains("its extent along M (or N) is 96, not a multiple of 64"), "{text}");
    assert!(text.contains("tile_to_shape(tuple!((128, 64)))"), "{text}");
    let text = told(
        shared_memory_atom(Major::Mn, SwizzleBytes::B128, 8).tile_to_shape(tuple!((128, 32))),
        8,
        Major::Mn,
        64,
    );
    assert!(text.contains("only elements of 16 bits may be MN-major"), "{text}");
    let text =
        told(ComposedLayout::new(Swizzle::new(2, 4, 3), 0, layout!((64, 64):(64, 1))), 16, Major::K, 64);
    assert!(text.contains("Sw<b,3,3> with b up to 3 for these elements"), "{text}");
    let narrow = shared_memory_atom(Major::Mn, SwizzleBytes::B128, 16).tile_to_shape(tuple!((64, 16)));
    let text = told(narrow, 16, Major::Mn, 32);
    assert!(text.contains("a row of its swizzle has 64 elements, and the instruction takes 32"), "{text}");
    assert!(text.contains("SwizzleBytes::B64, 16).tile_to_shape(tuple!((64, 16)))"), "{text}");
}

proptest! {
    /// Layouts with modes split in any order, with and without a swizzle: for accepted layouts the
    /// descriptor addresses each element.
    #[test]
    fn whatever_is_accepted_is_led_to(
        order in Just([0_usize, 1, 2, 3, 4]).prop_shuffle(),
        parts in prop::sample::select(vec![[8_i64, 8, 1, 8, 2], [8, 8, 2, 8, 2], [8, 8, 1, 16, 1], [64, 1, 1, 8, 4], [8, 4, 2, 8, 8]]),
        pad in prop::sample::select(vec![1_i64, 1, 1, 2]),
        swizzle in 0_i64..4,
        mn_major in any::<bool>(),
    ) {
        // M in three parts, K in two; strides in the drawn order, sometimes with gaps after the
        // first two.
        let mut strides = [0; 5];
        let mut stride = 1;
        for (i, &part) in order.iter().enumerate() {
            strides[part] = stride;
            stride *= parts[part] * if i == 2 { pad } else { 1 };
        }
        let [a, b, c, d, e] = parts;
        let [sa, sb, sc, sd, se] = strides;
        let tile: Layout = layout!(((a, b, c), (d, e)):((sa, sb, sc), (sd, se)));
        let swizzle = if swizzle == 0 { Swizzle::NONE } else { Swizzle::new(swizzle, 3, 3) };
        let major = if mn_major { Major::Mn } else { Major::K };
        for rows in [64, a * b * c] {
            match leads_to_the_layout(&ComposedLayout::new(swizzle, 0, tile), 16, major, rows) {
                Err(TestCaseError::Reject(_)) => {}
                other => other?,
            }
        }
    }
}

/// Whether the boxes of a tile place each element where the layout has it.
fn boxes_make_up(tile: &ComposedLayout, bits: i64) -> Option<TmaTile> {
    let boxes = TmaTile::try_new(tile, bits).ok()?;
    assert_eq!(i64::from(boxes.bytes()) * 8, tile.layout.size() * bits, "{tile}");
    Some(boxes)
}

#[test]
fn tiles_fall_into_boxes() {
    let tile = |major, swizzle, bits, shape| shared_memory_atom(major, swizzle, bits).tile_to_shape(shape);
    for (layout, bits, copies, extents, swizzle) in [
        (
            tile(Major::K, SwizzleBytes::B128, 16, tuple!((128, 64))),
            16,
            1,
            vec![64, 128],
            TensorSwizzle::B128,
        ),
        (
            tile(Major::K, SwizzleBytes::B128, 16, tuple!((128, 128))),
            16,
            2,
            vec![64, 128],
            TensorSwizzle::B128,
        ),
        (tile(Major::K, SwizzleBytes::B64, 16, tuple!((256, 64))), 16, 2, vec![32, 256], TensorSwizzle::B64),
        (tile(Major::K, SwizzleBytes::B128, 8, tuple!((64, 128))), 8, 1, vec![128, 64], TensorSwizzle::B128),
        // Along M first: blocks of 64 x 8.
        (
            tile(Major::Mn, SwizzleBytes::B128, 16, tuple!((128, 64))),
            16,
            16,
            vec![64, 8],
            TensorSwizzle::B128,
        ),
        (tile(Major::Mn, SwizzleBytes::B128, 16, tuple!((64, 64))), 16, 1, vec![64, 64], TensorSwizzle::B128),
        (ComposedLayout::plain(layout!((64, 32):(32, 1))), 32, 1, vec![32, 64], TensorSwizzle::None),
        (ComposedLayout::plain(layout!((4, 8, 16))), 32, 1, vec![4, 8, 16], TensorSwizzle::None),
        (ComposedLayout::plain(layout!((1024,))), 8, 4, vec![256], TensorSwizzle::None),
    ] {
        let boxes = boxes_make_up(&layout, bits).unwrap_or_else(|| panic!("{layout}"));
        assert_eq!(boxes.copies(), copies, "{layout}");
        // A large compact tensor, its modes in the order of the tile's strides.
        let element = match bits {
            8 => TensorElement::U8,
            16 => TensorElement::Bf16,
            _ => TensorElement::F32,
        };
        let tensor = match (layout.rank(), layout.layout.mode(0).at(1)) {
            (2, 1) => layout!((1024, 2048)),
            (2, _) => layout!((2048, 1024):(1024, 1)),
            (3, _) => layout!((64, 64, 64)),
            _ => layout!((4096,)),
        };
        let map = boxes.tensor_map(element, 0x1000, &tensor).unwrap();
        assert_eq!((map.box_extents[..map.rank].to_vec(), map.swizzle), (extents, swizzle), "{layout}");
    }
}

#[test]
fn tiles_that_are_no_boxes_and_tensors_that_do_not_fit_are_errors() {
    let told = |layout: ComposedLayout, bits| TmaTile::try_new(&layout, bits).unwrap_err().to_string();
    let text = told(ComposedLayout::plain(layout!((8, 8):(16, 2))), 16);
    assert!(text.contains("along no mode do elements follow each other"), "{text}");
    let text = told(ComposedLayout::plain(layout!((8, 12):(12, 1))), 8);
    assert!(
        text.contains("12 elements follow each other, 12 bytes; it must be a multiple of 16 bytes"),
        "{text}"
    );
    let text = told(ComposedLayout::new(Swizzle::new(3, 3, 3), 0, layout!((64, 32):(32, 1))), 16);
    assert!(text.contains("its rows have 32 elements, and those of its swizzle 64"), "{text}");
    let text = told(ComposedLayout::plain(layout!((64, 64):(80, 1))), 16);
    assert!(text.contains("it falls into 64 boxes, and at most 32 are issued"), "{text}");

    let tile = TmaTile::new(
        shared_memory_atom(Major::K, SwizzleBytes::B128, 16).tile_to_shape(tuple!((128, 64))),
        16,
    );
    let told = |tensor: Layout| tile.tensor_map(TensorElement::F16, 0x1000, &tensor).unwrap_err().to_string();
    assert!(
        told(layout!((100, 100)))
            .contains("mode 1 is contiguous in the tile and has the stride 100 in the tensor")
    );
    assert!(told(layout!((100, 100, 2))).contains("a tensor of 3 modes, and a tile of 2"));
    assert!(
        told(layout!((100, 100):(100, 1))).contains("the stride of dimension 1 of the tensor is 200 bytes")
    );
    assert!(told(layout!(((10, 10), 100):((1000, 8), 1))).contains("mode 0 of the tensor nests"));
}

#[test]
fn tensors_with_strides_below_0_or_past_64_bits_have_no_map() {
    let tile = TmaTile::new(
        shared_memory_atom(Major::K, SwizzleBytes::B128, 16).tile_to_shape(tuple!((128, 64))),
        16,
    );
    let told = |tensor: Layout| tile.tensor_map(TensorElement::F16, 0x1000, &tensor).unwrap_err();
    let error = told(layout!((100, 64):(-64, 1)));
    assert_eq!(error, TmaMapError::Descending { mode: 0, stride: -64 });
    assert_eq!(
        error.to_string(),
        "mode 0 of the tensor has the stride -64; TMA takes none below 0: begin at the mode's last element with the stride 64, \
         and count its coordinates from there"
    );
    assert_eq!(told(layout!((100, 64):(64, -1))), TmaMapError::Descending { mode: 1, stride: -1 });
    let most = i64::MAX / 2;
    let error = told(layout!((2, 64):(most, 1)));
    assert!(
        error.to_string().contains("the stride of dimension 1 of the tensor is 9223372036854775806 bytes"),
        "{error}"
    );
    let text = told(identity_layout(tuple!((100, 64)))).to_string();
    assert!(text.contains("the tensor's strides are along basis vectors"), "{text}");
    // The stride of an extent of 1 is never used.
    assert!(tile.tensor_map(TensorElement::F16, 0x1000, &layout!((1, 64):(-64, 1))).is_ok());
}

/// The assertion precedes every copy, so no launch is needed.
#[test]
#[should_panic(
    expected = "the start [0, 0, 0] has 3 coordinates, and the tile 2 modes: give one for each mode"
)]
fn a_start_with_another_number_of_modes_is_an_error() {
    let tile = TmaTile::new(ComposedLayout::plain(layout!((64, 32):(32, 1))), 32);
    let map = moye_device::memory::TensorMap::from_words([0; 16]);
    // SAFETY: nothing is stored.
    unsafe { tile.store(map.pointer(), [0, 0, 0], 1024, None) };
}

#[test]
fn atoms_are_listed_as_data() {
    type Atom = SM90_64x256x16_F32BF16BF16_SS;
    let info = WGMMA_ATOMS.iter().find(|info| info.name == <Atom>::NAME).unwrap();
    assert_eq!(info.instruction, "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16");
    assert_eq!((info.types, info.registers, info.ptx_version), (["bf16", "bf16", "f32"], 128, (8, 0)));
    assert_eq!(<<Atom as WgmmaAtom>::A as Number>::WIDTH, 16);
    let mixed = WGMMA_ATOMS.iter().find(|info| info.name == "SM90_64x8x32_S32S8U8_RS_TN_SATURATE").unwrap();
    assert_eq!((mixed.ptx_version, mixed.a_in_registers), ((8, 4), true));
    assert_eq!(WGMMA_ATOMS.len(), 2 * (12 * 32 + 9 * 18));
}
