//! The expression language.

use moye_eval::{all, evaluate, help};
use rstest::rstest;

#[rstest]
#[case("composition((6,2):(8,2), (4,3):(3,1))", "((2,2),3):((24,2),8)")]
#[case("(6,2):(8,2) o (4,3):(3,1)", "((2,2),3):((24,2),8)")]
#[case("composition((12,(4,8)):(59,(13,1)), <3:4, 8:2>)", "(3,(2,4)):(236,(26,1))")]
#[case("composition((12,(4,8)):(59,(13,1)), (3:4, 8:2))", "(3,(2,4)):(236,(26,1))")]
#[case("coalesce(composition((6,2):(8,2), (4,3):(3,1)))", "(2,2,3):(24,2,8)")]
#[case(" ( _4 , ( 2 , 2 , ) ) : ( 2 , ( 1 , 8 ) ) ", "(4,(2,2)):(2,(1,8))")]
#[case("zipped_divide((256,64), (64,16))", "((64,16),(4,4)):((1,256),(64,4096))")]
#[case("identity_layout((4,3))", "(4,3):(1@0,1@1)")]
#[case("(4,3):(1@0,1@1)", "(4,3):(1@0,1@1)")]
#[case("make_identity_layout((4,3))", "(4,3):(1@0,1@1)")]
#[case("make_identity_layout((4,(3,2)))", "(4,(3,2)):(1@0,(1@0@1,1@1@1))")]
#[case("(4,(3,2)):(1@0,(1@0@1,1@1@1))", "(4,(3,2)):(1@0,(1@0@1,1@1@1))")]
#[case("make_identity_layout((4,3))(2,1)", "(2,1)")]
#[case("make_identity_layout((4,3))((2,1))", "(2,1)")]
#[case("make_identity_layout((4,3))(6)", "(2,1)")]
#[case("make_identity_layout((4,(3,2)))(2,(1,1))", "(2,(1,1))")]
#[case("make_identity_layout((4,(3,2)))(2,4)", "(2,(1,1))")]
#[case("make_identity_layout((4,(2,3)))(22)", "(2,(1,2))")]
#[case("make_identity_layout((4,(1,3)))(2)", "(2,(0,0))")]
#[case("make_identity_layout((1,4))(3)", "(0,3)")]
#[case("with_shape(make_identity_layout((4,6)), (4,(3,2)))(2,(1,1))", "(2,4)")]
#[case("make_identity_layout(12)", "12:1")]
#[case("12:1@0(5)", "(5)")]
#[case("coshape((6,5):(1@0,1@1))", "(6,5)")]
#[case("coshape(make_identity_layout((6,(2,3))))", "(6,(2,3))")]
#[case("cosize((6,5):(1@0,1@1))", "30")]
#[case("cosize(make_identity_layout((6,(2,3))))", "36")]
#[case("coshape((4,3):(1,10))", "24")]
#[case("coshape(Sw<1,0,2> o 0 o 5:1)", "6")]
#[case("composition(make_identity_layout((4,(2,3))), 12:2)(5)", "(2,(0,1))")]
#[case("composition((4,(2,3)):(100,(10,1)), make_identity_layout((4,(2,3))))", "(4,(2,3)):(100,(10,1))")]
#[case("composition((4,(2,3)):(100,(10,1)), (3,2):(1@1@1,1@0))", "(3,2):(1,100)")]
#[case("make_identity_layout((4,3))(_,1)", "(4):(1@0)")]
#[case("make_identity_layout((4,3))(_,1)(3)", "(3)")]
#[case("make_identity_layout(4)(3)", "3")]
#[case("zipped_divide(make_identity_layout((10,6)), (4,4))((3,1),(2,1))", "(11,5)")]
#[case("composition(make_identity_layout((4,3)), (2,3):(2,4))(1,2)", "(2,2)")]
#[case("with_shape(make_identity_layout((4,3)), (2,6))(1,3)", "(3,1)")]
#[case("coalesce(make_identity_layout((4,(2,3))))(5)", "(1,(1,0))")]
#[case("along(make_identity_layout((4,(2,3))), 1)", "(4,(2,3)):(0,(1@0,1@1))")]
#[case("along(along(make_identity_layout((4,(2,3))), 1), 1)(22)", "2")]
#[case("coordinate_of((4,3):(3,1), (2,1))", "7")]
#[case("mode(make_identity_layout((4,3)), 1)(2)", "(0,2)")]
#[case("(4,3):(1@1,2@0)(3,2)", "(4,3)")]
#[case("crd2idx(make_identity_layout((4,3)), (2,1))", "(2,1)")]
#[case("coordinate_of(make_identity_layout((4,3)), (2,1))", "(2,1)")]
#[case("slice_offset(make_identity_layout((4,3)), (_,1))", "(0,1)")]
#[case("slice_coordinate(make_identity_layout((4,3)), (3,_))", "(3,0)")]
#[case("slice_and_offset((_,1), make_identity_layout((4,3)))", "((4):(1@0),(0,1))")]
#[case("along(make_identity_layout((4,3)), 1)", "(4,3):(0,1)")]
#[case("along(make_identity_layout((4,3)), 1)(2,1)", "1")]
#[case("(4,3):(3,1)(2,1)", "7")]
#[case("((4,3):(3,1))(2,1)", "7")]
#[case("((4,3):(3,1))((2,1))", "7")]
#[case("(((4,3):(3,1)))(_,1)", "(4):(3)")]
#[case("( (4,3):(3,1) ) (_,1) (2)", "6")]
#[case("((6,2):(8,2) o (4,3):(3,1))(2,1)", "10")]
#[case("(Sw<1,0,2> o 0 o (4,4):(4,1))(1,0)", "5")]
#[case("idx2crd(((4,3):(3,1))(2,1), (4,3))", "(3,1)")]
#[case("(((4,3):(3,1))(2,1), ((4,3):(3,1))(0,1))", "(7,1)")]
#[case("((8,3):(3,1)) o 2:1", "2:3")]
#[case("((4,3):(3,1))", "((4,3):(3,1))")]
#[case("composition((8,4):(1,8), ((4,2):(2,1)))", "((4,2)):((2,1))")]
#[case("(4,(2,3)):(1,(4,8)) (1, (_, 2))", "(2):(4)")]
#[case("4:2(3)", "6")]
#[case("():()()", "0")]
#[case("composed_layout((1,0,2), 0, (4,4):(4,1))(1,0)", "5")]
// A call applies to the whole composition, here 2:3 at 1, and not to `2:1` alone.
#[case("(8,3):(3,1) o 2:1(1)", "3")]
#[case("(6,2):(8,2) o (4,3):(3,1)(2,1)", "10")]
#[case("(6,2):(8,2) o (4,3):(3,1)(_,1) o 2:1", "2:24")]
#[case("Sw<3,4,3> o 0 o (32,8):(1,32)(0,1)", "32")]
#[case("Sw<1,0,2> o 0 o (4,4):(4,1)(1,0)", "5")]
#[case("Sw<3,3,3>", "Sw<3,3,3>")]
#[case("S<3,3,3>", "Sw<3,3,3>")]
#[case("Swizzle<3,3,3>", "Sw<3,3,3>")]
#[case("Swizzle(3,3,3)", "Sw<3,3,3>")]
#[case("Swizzle(3,3,3) o 0 o (8,64):(64,1)", "Sw<3,3,3> o 0 o (8,64):(64,1)")]
#[case("(4,3):(3,1)(None,1)", "(4):(3)")]
#[case("(4:2,_,(2,2))", "(4:2,_,(2,2))")]
#[case("Sw<3,3,3> o 0 o (8,64):(64,1)", "Sw<3,3,3> o 0 o (8,64):(64,1)")]
#[case("(6,2):(8,2) o 0 o (4,3):(3,1)", "((2,2),3):((24,2),8)")]
#[case("(4,8):(8,1) o 4 ", "4:8")]
#[case("Sw<3,3,3> o (8,64):(64,1)", "Sw<3,3,3> o 0 o (8,64):(64,1)")]
#[case(
    "tile_to_shape(Sw<3,3,3> o 0 o (8,64):(64,1), (16,64))",
    "Sw<3,3,3> o 0 o ((8,2),(64,1)):((64,512),(1,0))"
)]
#[case("tiled_divide(Sw<1,0,2> o 0 o (4,8):(8,1), (2,4))", "Sw<1,0,2> o 0 o ((2,4),2,2):((8,1),16,4)")]
#[case("flat_divide(Sw<1,0,2> o 0 o (4,8):(8,1), (2,4))", "Sw<1,0,2> o 0 o (2,4,2,2):(8,1,16,4)")]
#[case("logical_product(Sw<1,0,2> o 8 o 4:1, 4)", "Sw<1,0,2> o 8 o (4,4):(1,4)")]
#[case(
    "zipped_product(Sw<1,0,2> o 0 o (2,5):(5,1), <3:5,4:6>)",
    "Sw<1,0,2> o 0 o ((2,5),(3,4)):((5,1),(10,30))"
)]
#[case("tiled_product(Sw<1,0,2> o 0 o (2,5):(5,1), <3:5,4:6>)", "Sw<1,0,2> o 0 o ((2,5),3,4):((5,1),10,30)")]
#[case("flat_product(Sw<1,0,2> o 0 o (2,5):(5,1), <3:5,4:6>)", "Sw<1,0,2> o 0 o (2,5,3,4):(5,1,10,30)")]
#[case(
    "blocked_product(Sw<1,0,2> o 0 o (2,5):(5,1), (3,4))",
    "Sw<1,0,2> o 0 o ((2,3),(5,4)):((5,10),(1,30))"
)]
#[case("raked_product(Sw<1,0,2> o 0 o (2,5):(5,1), (3,4))", "Sw<1,0,2> o 0 o ((3,2),(4,5)):((10,5),(30,1))")]
#[case("coalesce(Sw<1,0,2> o 0 o (2,(1,6)):(1,(6,2)))", "Sw<1,0,2> o 0 o 12:1")]
#[case("coalesce(Sw<1,0,2> o 0 o (2,(1,6)):(1,(6,2)), (1,1))", "Sw<1,0,2> o 0 o (2,6):(1,2)")]
#[case("cosize(Sw<3,3,3> o 0 o (8,64):(64,1))", "512")]
#[case("cosize(Sw<1,0,2> o 0 o 5:1)", "6")] // 4 becomes 5
#[case("crd2idx(Sw<1,0,2> o 0 o (4,(2,2)):(4,(1,2)), (1,(0,1)))", "7")]
#[case("filter(Sw<1,0,2> o 0 o (4,(2,3)):(0,(1,2)))", "Sw<1,0,2> o 0 o 6:1")]
#[case("filter_profile(Sw<1,0,2> o 0 o (4,(2,3)):(0,(1,2)), (1,1))", "Sw<1,0,2> o 0 o (1,6):(0,1)")]
#[case("size(Sw<3,3,3> o 0 o (8,64):(64,1))", "512")]
#[case("rank(Sw<3,3,3> o 0 o (8,(2,32)):(64,(1,2)))", "2")]
#[case("depth(Sw<3,3,3> o 0 o (8,(2,32)):(64,(1,2)))", "2")]
#[case("flatten(Sw<3,3,3> o 0 o (8,(2,32)):(64,(1,2)))", "Sw<3,3,3> o 0 o (8,2,32):(64,1,2)")]
#[case("mode(Sw<3,3,3> o 0 o (8,64):(64,1), 1)", "Sw<3,3,3> o 0 o 64:1")]
#[case("take(Sw<3,3,3> o 0 o (8,64,2):(64,1,512), 1, 3)", "Sw<3,3,3> o 0 o (64,2):(1,512)")]
#[case("group(Sw<3,3,3> o 0 o (8,64,2):(64,1,512), 1, 3)", "Sw<3,3,3> o 0 o (8,(64,2)):(64,(1,512))")]
#[case("append(Sw<3,3,3> o 0 o (8,64):(64,1), 2:512)", "Sw<3,3,3> o 0 o (8,64,2):(64,1,512)")]
#[case("composition(Sw<1,5,3>, Sw<1,4,3>)", "Sw<2,4,3>")]
#[case("composition(Sw<1,5,3>, Sw<1,4,3> o 8 o 8:1)", "Sw<2,4,3> o 8 o 8:1")]
#[case("composition((4,2):(2,1), Sw<1,0,2>)", "Sw<1,0,-1> o 0 o (4,2):(2,1)")]
#[case("composition((8,8):(8,1), Sw<2,0,3> o 1 o 16:2)", "Sw<2,0,-3> o 8 o (4,4):(16,1)")]
#[case("right_inverse(Sw<1,0,2> o 0 o (2,4):(4,1))", "Sw<1,0,-1> o 0 o (4,2):(2,1)")]
#[case("left_inverse(Sw<1,0,2> o 0 o (2,4):(4,1))", "Sw<1,0,-1> o 0 o (4,2):(2,1)")]
#[case("max_common_layout(Sw<3,3,3> o (8,64):(64,1), (8,64):(64,1))", "8:8")]
#[case("max_common_vector(Sw<3,3,3> o (8,64):(64,1), Sw<3,3,3> o (8,64):(64,1))", "512")]
#[case("shared_memory_atom(1, 128, 4)", "Sw<3,5,3> o 0 o (8,256):(256,1)")]
#[case("shared_memory_atom(1, 128, 16)", "Sw<3,3,3> o 0 o (8,64):(64,1)")]
#[case("shared_memory_atom(0, 64, 32)", "Sw<2,2,3> o 0 o (16,8):(1,16)")]
#[case("make_layout_tv((16,8):(8,1), (1,4))", "((16,32),((8,16),4):((64,1),16))")]
#[case("tv_coordinates((16,8):(8,1), (1,4))", "((8,16),4):((4@1,1@0),1@1)")]
#[case("composed_layout_table((1,0,2), 0, (4,4):(4,1))", "(0,5,8,13,1,4,9,12,2,7,10,15,3,6,11,14)")]
#[case("slice_and_offset((1,_), (4,3):(3,1))", "((3):(1),3)")]
#[case("slice(Sw<1,0,2> o 0 o (4,4):(4,1), (1,_))", "Sw<1,0,2> o 4 o (4):(1)")]
#[case("complement(4:2)", "2:1")]
#[case("complement(4:2, (2,12))", "(2,3):(1,8)")]
#[case("size((4,(2,3)))", "24")]
#[case("idx2crd(7, (3,(2,3)))", "(1,(0,1))")]
#[case("crd2crd((1,2), 24, (4,6))", "9")]
#[case("increment((3,1), (4,8))", "(0,2)")]
#[case("increment((3,7), (4,8))", "(0,8)")]
#[case("modes((4,(2,3)):(1,(4,8)))", "(4:1,(2,3):(4,8))")]
#[case("modes((4,(2,3)))", "(4,(2,3))")]
#[case("modes(Sw<1,0,2> o 0 o (4,2))", "(Sw<1,0,2> o 0 o 4:1,Sw<1,0,2> o 0 o 2:4)")]
#[case("row_major((4,2))", "(4,2):(2,1)")]
#[case("col_major((4,2))", "(4,2):(1,4)")]
#[case("TV((4,2):(2,1), (1,2))", "((4,4),((2,4),2):((8,1),4))")]
#[case("elem_less((3,7), (4,8))", "true")]
#[case("select((2,3,5):(1,2,6), 2, 0)", "(5,2):(6,1)")]
#[case("concat(4:1, (2,2):(4,8))", "(4,(2,2)):(1,(4,8))")]
#[case("append((4,2):(1,4), 3:8)", "(4,2,3):(1,4,8)")]
#[case("shape((4,2):(1,4)) : (2,1)", "(4,2):(2,1)")]
#[case("():()", "():()")]
#[case("-3", "-3")]
fn expressions_have_values(#[case] text: &str, #[case] expected: &str) {
    let value = evaluate(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(value.to_string(), expected, "{text}");
    let again = evaluate(expected)
        .unwrap_or_else(|error| panic!("the answer {expected} does not read back: {error}"));
    assert_eq!(again.to_string(), expected, "the answer to {text} reads back as itself");
}

/// CuTe C++'s output of pointers, tensors and layouts (`print`, `print_tensor`), and the Python
/// DSL's.
#[rstest]
#[case("gmem_ptr[32b](0x7f2b40000000) o (_32,_4,1024):(_1,5120,20480)", "(32,4,1024):(1,5120,20480)")]
#[case("smem_ptr[16b](unset) o (_8,_64):(_64,_1)", "(8,64):(64,1)")]
#[case("ptr[32b](nil) o (4,8):(8,1)", "(4,8):(8,1)")]
#[case("ptr[32b]((nil)) o (4,8):(8,1)", "(4,8):(8,1)")]
#[case("tmem_[32b](0x0000.0000) o (_128,_64):(_65536,_1)", "(128,64):(65536,1)")]
#[case("subptr[4b](0x7f00.0) o 8:1", "8:1")]
#[case("ptr[32b](0x7ffc) o (2,_2):(_1,_2):\n    1.00e+00    3.00e+00\n", "(2,2):(1,2)")]
#[case("Sw<3,4,3> o _0 o (_8,_64):(_64,_1)", "Sw<3,4,3> o 0 o (8,64):(64,1)")]
#[case("Sw<3,4,3> o smem_ptr[16b](unset) o (_8,_64):(_64,_1)", "Sw<3,3,3> o 0 o (8,64):(64,1)")]
#[case("Sw<3,4,3> o smem_ptr[32b](unset) o (_8,_32):(_32,_1)", "Sw<3,2,3> o 0 o (8,32):(32,1)")]
#[case("Sw<3,4,3> o smem_ptr[8b](unset) o (_8,_128):(_128,_1)", "Sw<3,4,3> o 0 o (8,128):(128,1)")]
#[case("Sw<3,4,3> o smem_ptr[4b](unset) o (_8,_256):(_256,_1)", "Sw<3,5,3> o 0 o (8,256):(256,1)")]
#[case("Sw<3,4,3>_smem_ptr[16b](0x7f2b00000400) o (_8,_64):(_64,_1)", "Sw<3,3,3> o 0 o (8,64):(64,1)")]
#[case("Sw<3,4,3> o smem_ptr[16b](unset) o (_8,_64):(_64,_1)(1,0)", "72")]
#[case("ArithTuple(0,_0) o (4,3):(_1@0,_1@1)", "(4,3):(1@0,1@1)")]
#[case("ArithTuple(0,_0) o (4,3):(_1@0,_1@1)(2,1)", "(2,1)")]
#[case("counting_iter(0) o 12:1", "12:1")]
#[case("GMMA::DescriptorIterator o (_1,_2,_4,_3):(_0,_64,_256,_1024)", "(1,2,4,3):(0,64,256,1024)")]
#[case("UMMA::DescriptorIterator o (_1,_1,_4):(_0,_0,_2)", "(1,1,4):(0,0,2)")]
#[case("(0,0) o (4,3):(1@0,1@1)", "(4,3):(1@0,1@1)")]
#[case("S<3,4,3> o 0 o (8,64):(64,1)", "Sw<3,4,3> o 0 o (8,64):(64,1)")]
#[case("tensor<ptr<f32, gmem, align<16>> o (128,8,4):(1,256,2048)>", "(128,8,4):(1,256,2048)")]
#[case("tensor<ptr<f16, smem, align<16>, S<2,4,3>> o (8,32):(32,1)>", "Sw<2,3,3> o 0 o (8,32):(32,1)")]
#[case(
    "tensor<ptr<f8E4M3FN, smem, align<16>, S<3,4,3>> o (8,128):(128,1)>",
    "Sw<3,4,3> o 0 o (8,128):(128,1)"
)]
#[case("tensor<(0,0) o (4,3):(1@0,1@1)>", "(4,3):(1@0,1@1)")]
#[case(
    "tensor(raw_ptr(0x00007ffe26625740: f32, rmem, align<32>) o (4,3):(1,4), data=\n    [[ 0.0, ",
    "(4,3):(1,4)"
)]
#[case(
    "raw_ptr(0x0000781f44200400: f32, gmem, align<16>) o (128,8):(4098,1) =\n  ( 2.23, ",
    "(128,8):(4098,1)"
)]
#[case("size(gmem_ptr[32b](0x7f) o (_32,_4):(_1,32))", "128")]
fn what_cute_prints_can_be_pasted(#[case] text: &str, #[case] expected: &str) {
    let value = evaluate(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(value.to_string(), expected, "{text}");
}

#[rstest]
#[case(
    "(?,8):(8,1)",
    "column 2: expected a number in place of `?`, for which the Python DSL has one at run time only"
)]
#[case(
    "tensor<ptr<f32, generic> o (100,?{div=8}):(?{i32 div=8},1)>",
    "column 33: expected a number in place of `?`, for which the Python DSL has one at run time only"
)]
#[case(
    "ArithTuple(32,_0) o (4,3):(_1@0,_1@1)",
    "column 1: the coordinates begin at (32,0), and those of a layout at 0: leave the origin out"
)]
#[case(
    "counting_iter(8) o 12:1",
    "column 1: the coordinates begin at (8), and those of a layout at 0: leave the origin out"
)]
#[case(
    "GMMA::DescriptorIterator(_1,_2)",
    "column 25: expected `o` and a layout after the pointer, found `(`"
)]
#[case("gmem_ptr[32b](0x7f", "column 19: expected `)`, found the end")]
#[case("gmem_ptr[32b](0x7f) (4,2)", "column 21: expected `o` and a layout after the pointer, found `(`")]
#[case(
    "Sw<3,4,3> o smem_ptr(unset) o (8,64):(64,1)",
    "column 13: expected a pointer with the bits of an element, as in `smem_ptr[16b](unset)`"
)]
#[case(
    "Sw<3,0,3> o smem_ptr[16b](unset) o (8,64):(64,1)",
    "column 13: Sw<3,0,3> swizzles bytes, and within elements of 16 bits, which no layout does"
)]
fn what_is_printed_and_has_no_layout_is_told(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(evaluate(text).unwrap_err().to_string(), expected, "{text}");
}

#[rstest]
#[case("", "column 1: expected an integer, `_`, `(`, a swizzle or an operation, found the end")]
#[case("(4,2", "column 5: expected `,` or `)`, found the end")]
#[case("(4 2)", "column 4: expected `,` or `)`, found `2`")]
#[case("(4,2):(1,4) 7", "column 13: expected an operator or the end, found `7`")]
#[case("4:é", "column 3: expected an integer, `_`, `(`, a swizzle or an operation, found `é`")]
#[case("(é", "column 2: expected an integer, `_`, `(`, a swizzle or an operation, found `é`")]
#[case("4:2:1", "column 4: expected an operator or the end, found `:`")]
#[case("(4,2)(1,1)", "column 6: expected an operator or the end, found `(`")]
#[case("4:1(1", "column 6: expected `,` or `)`, found the end")]
#[case("1@64", "column 3: expected a basis number from 0 to 63")]
#[case("  99999999999999999999", "column 3: expected an integer of at most 64 bits")]
#[case("-", "column 2: expected an integer, `_` or `(`")]
#[case("coalesce 4", "column 10: expected `(` after the operation `coalesce`, found `4`")]
#[case("size(compositon(4, 2))", "column 6: there is no operation `compositon`; did you mean `composition`?")] // language-ok: misspelt
#[case("xyzzy(1)", "column 1: there is no operation `xyzzy`; `moye eval --help` lists them")]
#[case("size(cosize(4:1, 2))", "column 6: cosize(layout: any layout) was given 2 arguments")]
#[case("coalesce()", "column 1: coalesce(layout: any layout, profile?: tuple) was given 0 arguments")]
#[case(
    "(8:1):2",
    "column 1: argument 1 of make_layout(shape: tuple, stride?: tuple) must be an integer or a tuple, and is a list"
)]
#[case(
    "8:(4:1)",
    "column 3: argument 2 of make_layout(shape: tuple, stride?: tuple) must be an integer or a tuple, and is a list"
)]
#[case("Sw<1,2>", "column 7: expected three integers, as in `Sw<3,4,3>`")]
#[case(
    "Sw<3,4,3> o 0",
    "column 14: expected `o` and a layout, as in `Sw<3,4,3> o 0 o (8,64):(64,1)`, found the end"
)]
#[case(
    "32:1 o 8 o 4:1",
    "column 8: 8 between two layouts is an offset, which only a swizzle takes; the layout of this extent is 8:1"
)]
fn errors_name_the_column_and_what_was_expected(#[case] text: &str, #[case] expected: &str) {
    match evaluate(text) {
        Ok(value) => panic!("{text} is {value}, where an error is due"),
        Err(error) => assert_eq!(error.to_string(), expected, "the error of {text}"),
    }
}

#[rstest]
#[case(
    "composition((4,6):(1,10), 4:3)",
    "the stride 3 neither divides nor is divided by the extent 4 of mode 0"
)]
#[case("size(composition((4,6):(1,10), 4:3))", "is divided by the extent 4 of mode 0 (modes coalesced)")]
#[case("(4,2):(1)", "column 7: shape and stride nest differently")]
#[case("size(coalesce((4, 2):(1)))", "column 22: shape and stride nest differently")]
#[case("0:1", "column 1: the extent 0 is below 1")]
#[case("size((4,(2,-3)):(1,(4,8)))", "column 12: the extent -3 is below 1")]
#[case("(2,3):(1,4611686018427387904)", "column 10: ")]
#[case(
    "(4, shape(2:1)):(1,(2))",
    "column 1: make_layout((4,2), (1,(2))): mode 1, 2 beside (2): shape and stride nest differently"
)]
#[case("Sw<4,0,2>", "column 8: the distance |shift| of the two groups of bits is 2; it must be at least 4")]
#[case("4:1 o Sw<1,60,3>", "column 15: the bits reach beyond bit 62")]
#[case("Sw<3,3,3> o -1 o 8:1", "column 13: the smallest index is -1; it must be at least 0")]
#[case("composition(Sw<3,3,3>, Sw<3,3,4> o 0 o 8:1)", "the shifts 3 and 4 differ")]
#[case("max_common_vector(Sw<3,3,3> o 8:1, 8:-1)", "at least 0")]
#[case("logical_divide(12, (2,2):(1,3))", "each stride must be a multiple of what those before it reach")]
#[case("composition(8, (Sw<1,0,2> o 4:1))", "and is a tuple with something else in it")]
#[case("composition(Sw<3,3,3>, (8:1,_))", "a swizzle has no modes")]
#[case("shared_memory_atom(2, 128, 16)", "the contiguous mode is 2; it is 0 (M or N) or 1 (K)")]
#[case(
    "shared_memory_atom(1, 96, 16)",
    "the swizzled row has 96 bytes; it has 16 (no swizzle), 32, 64 or 128"
)]
#[case(
    "shared_memory_atom(1, 128, 12)",
    "shared_memory_atom(K, a swizzle of 128 bytes, 12): the elements of a shared-memory atom have 1, 2, 4, 8"
)]
#[case("tv_coordinates(4:2, 2:1)", "threads are reached")]
#[case("swizzle(1,0,1,-4)", "an index is at least 0")]
#[case("swizzle_table(1,0,1,1000000000)", "a table of 1000000000 values is requested")]
#[case(
    "increment((9223372036854775807,0), (4,4))",
    "mode 0 of the coordinate: 9223372036854775807 is not within the extent 4"
)]
#[case("(4,3):(3,1)(2,1,0)", "(4,3):(3,1)(2,1,0): the coordinate has 3 elements for a rank of 2")]
#[case("size((4,3):(3,1)(2,1,0))", "(4,3):(3,1)(2,1,0): the coordinate has")]
#[case("crd2idx((4,3):(3,1), (2,1,0))", "crd2idx((4,3):(3,1), (2,1,0)): the coordinate has")]
#[case("((4,3):(3,1))(2,1,0)", "(4,3):(3,1)(2,1,0): the coordinate has 3 elements")]
#[case("(4:2,4:1)(1)", "expected an operator or the end, found `(`")]
#[case("(4,3):(3,1)((2,1):(1,2))", "must be an integer or a tuple, and is a layout")]
#[case(
    "make_identity_layout((4,3))(2,1,0)",
    "(4,3):(1@0,1@1)(2,1,0): the coordinate has 3 elements for a rank of 2"
)]
#[case(
    "(4,3):(1@0,1)(2,1)",
    "(4,3):(1@0,1)(2,1): the strides 1 and 1@0 make a coordinate both an integer and a tuple; it must be one or the other, for all strides along it"
)]
#[case("1@0@0@0@0@0@0", "column 13: a coordinate would nest deeper than 5 tuples")]
#[case("fold((4,4), 0)", "`fold` takes a function, which no expression is")]
#[case("Row_major((4,4))", "did you mean `row_major`?")]
#[case(
    "mode(4:1, -1)",
    "argument 2 of mode(of: tuple or any layout, index) must be an integer from 0, and is negative"
)]
#[case(
    "coalesce(Sw<3,3,3>)",
    "argument 1 of coalesce(layout: any layout, profile?: tuple) must be a layout or a composed layout, and is a swizzle"
)]
fn what_has_no_answer_is_told_with_its_operands(#[case] text: &str, #[case] part: &str) {
    match evaluate(text) {
        Ok(value) => panic!("{text} is {value}, where an error is due"),
        Err(error) => assert!(error.to_string().contains(part), "the error of {text} says {part:?}: {error}"),
    }
}

#[test]
fn deep_nesting_is_an_error_and_no_overflow() {
    for (open, close) in [("(", ")"), ("<", ">"), ("size(", ")"), ("Sw<", ">"), ("tensor<", ">")] {
        for depth in [65, 100, 100_000] {
            let text = format!("{}1{}", open.repeat(depth), close.repeat(depth));
            let error = evaluate(&text).expect_err("nesting beyond the limit").to_string();
            assert!(
                error.contains("expected at most 64 brackets in one another"),
                "{depth} of {open}: {error}"
            );
        }
    }
    let nested = format!("{}7:1{}", "coalesce(".repeat(60), ")".repeat(60));
    assert_eq!(evaluate(&nested).map(|value| value.to_string()), Ok("7:1".to_owned()), "60 calls nest");
}

#[test]
fn long_lists_are_an_error() {
    let text = format!("({})", "1,".repeat(100_000));
    let error = evaluate(&text).expect_err("a long list").to_string();
    assert!(error.contains("expected at most 64 values in a list"), "{error}");
    let text = format!("({})", "1,".repeat(40));
    let error = evaluate(&text).expect_err("more integers than a tuple holds").to_string();
    assert!(error.starts_with("column 66: ") && error.contains("more than 32 integers"), "{error}");
}

#[test]
fn help_has_a_line_for_each_operation() {
    let help = help();
    let mut names: Vec<&str> = all().map(|operation| operation.name).collect();
    for operation in all() {
        let line = help.lines().find(|line| line.trim_start().starts_with(&format!("{}(", operation.name)));
        let line = line.unwrap_or_else(|| panic!("no line for {} in\n{help}", operation.name));
        assert!(line.contains(operation.about), "{line} says what {} does", operation.name);
    }
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "each name stands for one operation");
}

/// The operations by their names in CuTe, pycute and MoYe.
const NAMES: &[&str] = &[
    // Shapes, strides and coordinates.
    "rank",
    "depth",
    "size",
    "product",
    "flatten",
    "unflatten",
    "congruent",
    "compatible",
    "weakly_congruent",
    "shape_div",
    "ceil_div",
    "elem_less",
    "colex_less",
    "increment",
    "idx2crd",
    "crd2idx",
    "crd2crd",
    "compact_col_major",
    "compact_row_major",
    "compact_order",
    "group",
    "append",
    "prepend",
    "insert",
    "remove",
    "replace",
    "take",
    "select",
    "inner_product",
    "prefix_product",
    // Layouts.
    "make_layout",
    "make_col_major",
    "make_row_major",
    "make_ordered_layout",
    "make_layout_like",
    "concat",
    "slice",
    "dice",
    "cosize",
    "shape",
    "stride",
    "mode",
    "modes",
    "coalesce",
    "filter",
    "filter_zeros",
    "composition",
    "complement",
    "right_inverse",
    "left_inverse",
    "nullspace",
    "max_common_layout",
    "max_common_vector",
    "logical_divide",
    "zipped_divide",
    "tiled_divide",
    "flat_divide",
    "logical_product",
    "zipped_product",
    "tiled_product",
    "flat_product",
    "blocked_product",
    "raked_product",
    "tile_to_shape",
    "recast",
    "upcast",
    "downcast",
    "transpose",
    "append_dim",
    "prepend_dim",
    "domain_distribute",
    "with_shape",
    // Swizzles, coordinates, threads and values.
    "swizzle",
    "composed_layout",
    "shared_memory_atom",
    "identity_layout",
    "coordinate_of",
    "slice_coordinate",
    "along",
    "make_layout_tv",
];

#[test]
fn every_operation_can_be_asked_for_by_its_name() {
    for name in NAMES {
        assert!(all().any(|operation| operation.name == *name), "{name} is no operation");
    }
}

#[test]
fn every_function_of_the_algebra_is_an_operation() {
    // The exports of `moye_device::layout` with a `Result` form.
    let exports = include_str!("../../../device/layout/mod.rs");
    let words = exports.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    // Under other names: the first three take another operand, the others are parts of an
    // operation.
    let elsewhere = [
        ("crd2crd_from", "crd2crd"),
        ("idx2crd_strided", "idx2crd"),
        ("prefix_product_from", "prefix_product"),
        ("tile_to_shape_ordered", "tile_to_shape"),
        ("composition_swizzled", "composition"),
    ];
    let functions: Vec<&str> = words.filter_map(|word| word.strip_prefix("try_")).collect();
    assert!(functions.len() > 50, "{functions:?}");
    for function in functions {
        let name = elsewhere.iter().find(|(from, _)| *from == function).map_or(function, |(_, to)| to);
        assert!(all().any(|operation| operation.name == name), "{function} has no entry");
    }
}

#[test]
fn what_an_operation_does_is_said_in_one_line() {
    for operation in all() {
        let lines = operation.about.lines().count();
        assert!(lines == 1 && operation.about.len() < 120, "{}: {}", operation.name, operation.about);
    }
}
