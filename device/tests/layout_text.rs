//! Text that is no layout, tuple, tiler or swizzle: the error names the column and what was expected there.

use moye_device::layout::*;
use std::fmt::Debug;
use std::str::FromStr;

/// Asserts that each text is refused at a column, counted from 1, with these words.
fn refused<T: FromStr<Err = LayoutError> + Debug>(cases: &[(&str, usize, &str)]) {
    for &(text, column, says) in cases {
        let error = text.parse::<T>().expect_err(text);
        assert_eq!(error.kind(), LayoutErrorKind::Parse { column }, "{error}");
        assert!(error.text().contains(says), "`{says}` is not in: {error}");
        assert!(error.text().contains(text), "the text itself is in the message: {error}");
    }
}

#[test]
fn layouts_and_tuples() {
    refused::<Layout>(&[
        ("", 1, "an integer, `_` or `(`"),
        ("(4,2", 5, "`,` or `)`"),
        ("(4,2))", 6, "the end"),
        ("(4,2):", 7, "an integer, `_` or `(`"),
        ("(4,2):(1,x)", 10, "an integer, `_` or `(`"),
        ("(4,_):(1,2)", 1, "a shape of integers"),
        ("(4,2):(1,_)", 1, "a stride without `_`"),
        ("(4, 99999999999999999999)", 5, "an integer of at most 64 bits"),
        ("(4,é)", 4, "an integer"),
        ("(é", 2, "an integer"),
        ("4:1@64", 5, "a basis number from 0 to 63"),
    ]);
    refused::<IntTuple>(&[
        ("(1,2)x", 6, "the end"),
        ("(1 2)", 4, "`,` or `)`"),
        ("1@-1", 3, "a basis number"),
    ]);
}

#[test]
fn tilers() {
    refused::<Tiler>(&[
        ("", 1, "a layout, an extent, `_` or `(`"),
        ("(4:2,", 6, "a layout, an extent, `_` or `(`"),
        ("(4:2,x)", 6, "a layout, an extent, `_` or `(`"),
        ("(4:2 8:1)", 6, "`,` or `)`"),
        ("(4:2,(2,2):(1,y))", 15, "an integer"),
        ("(4:2,0)", 6, "an extent of at least 1"),
        ("(4:2,1@0)", 6, "an extent of at least 1"),
        ("(4:2,(2,_):(1,2))", 6, "a shape of integers"),
        ("4:2:1", 4, "the end"),
    ]);
    assert_eq!("(64,32)".parse(), Ok(tiler!((64, 32))));
    assert_eq!("(4:2,_,(2,2):(1,8),(16,_))".parse(), Ok(tiler!((4:2, _, (2, 2):(1, 8), (16, _)))));
    assert_eq!("(2,2):(1,8)".parse(), Ok(layout!((2, 2):(1, 8)).tiler()));
    assert_ne!("(2,2)".parse(), Ok(layout!((2, 2)).tiler()), "without strides a tuple is by mode");
    assert_eq!("()".parse(), Ok(Tiler::by_mode(&[])));
    let incongruent = "(4:2,(2,2):1)".parse::<Tiler>().unwrap_err();
    assert_eq!(incongruent.kind(), LayoutErrorKind::Profile, "{incongruent}");
    let long = format!("({})", ["2:1"; 33].join(","));
    assert_eq!(long.parse::<Tiler>().unwrap_err().kind(), LayoutErrorKind::Capacity);
    let deep = "(".repeat(500).parse::<Tiler>().unwrap_err();
    assert!(matches!(deep.kind(), LayoutErrorKind::Parse { .. }), "{deep}");
}

#[test]
fn swizzles_and_composed_layouts() {
    refused::<Swizzle>(&[
        ("", 1, "a swizzle, such as `Sw<3,4,3>`"),
        ("Sx<3,4,3>", 1, "a swizzle"),
        ("Sw<3,4>", 7, "`,`"),
        ("Sw<3,4,3", 9, "`>`"),
        ("Sw<3,,3>", 6, "an integer"),
        ("Sw<3,4,3> o", 11, "the end"),
    ]);
    refused::<ComposedLayout>(&[
        ("(8,64):(64,1)", 1, "a swizzle"),
        ("Sw<3,4,3>", 10, "`o`"),
        ("Sw<3,4,3> o (8,64):(64,1)", 13, "an offset"),
        ("Sw<3,4,3> o 0 (8,64):(64,1)", 15, "`o`"),
        ("Sw<3,4,3> o 0 o (8,64):(64,1) o", 31, "the end"),
    ]);
    assert_eq!("Sw<2,4,-3>".parse(), Ok(Swizzle::new(2, 4, -3)));
    let overlap = "Sw<3,4,1>".parse::<Swizzle>().unwrap_err();
    assert_eq!(overlap.kind(), LayoutErrorKind::Range);
    assert!(overlap.text().contains("is 1; it must be at least 3"), "{overlap}");
    let negative = "Sw<3,4,3> o -1 o 8:1".parse::<ComposedLayout>().unwrap_err();
    assert!(negative.text().contains("the smallest index is -1"), "{negative}");
    let nests = "Sw<3,4,3> o 0 o (8,64):(64,)".parse::<ComposedLayout>().unwrap_err();
    assert_eq!(nests.kind(), LayoutErrorKind::Profile, "{nests}");
    const PARSED: ComposedLayout = match ComposedLayout::parse("Sw<3,4,3> o 16 o (8,64)") {
        Ok(composed) => composed,
        Err(error) => panic!("{}", error.text()),
    };
    assert_eq!(
        PARSED,
        ComposedLayout::new(Swizzle::new(3, 4, 3), 16, layout!((8, 64))),
        "a shape alone is compact"
    );
}
