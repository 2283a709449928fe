//! Malformed layouts, tuples, tilers and swizzles: the error names the column and what the parser
//! expected there.

use moye_device::layout::*;
use std::fmt::Debug;
use std::str::FromStr;

/// Asserts that each text is refused at a column, counted from 1, with this message.
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
        ("(4,_):(1,2)", 4, "integers in a shape"),
        ("(4,2):(1,_)", 10, "no `_` in a stride"),
        ("(4,(2,1@0))", 7, "integers in a shape"),
        ("(4,--2)", 5, "an integer"),
        ("(4, 99999999999999999999)", 5, "an integer of at most 64 bits"),
        ("(4,é)", 4, "an integer"),
        ("(é", 2, "an integer"),
        ("4:1@64", 5, "a basis number from 0 to 63"),
        ("(4,2):(1@0,1@0@64)", 16, "a basis number from 0 to 63"),
        ("4:1@0@", 7, "a basis number from 0 to 63"),
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
        ("(4:2,(2,_):(1,2))", 9, "integers in a shape"),
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
        ("Sw<3,4,3> o (8,64)", 13, "an offset, or a layout with its stride"),
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

/// Asserts that each text, although well formed, is refused at a column.
fn misfits<T: FromStr<Err = LayoutError> + Debug>(cases: &[(&str, usize, LayoutErrorKind, &str)]) {
    for &(text, column, kind, says) in cases {
        let error = text.parse::<T>().expect_err(text);
        assert_eq!((error.kind(), error.column()), (kind, Some(column)), "{error}");
        assert!(error.text().contains(&format!("\"{text}\": column {column}: ")), "{error}");
        assert!(error.text().contains(says), "`{says}` is not in: {error}");
    }
}

#[test]
fn what_makes_no_layout_is_named_with_its_column() {
    use LayoutErrorKind::{Capacity, Overflow, Profile, Range};
    misfits::<Layout>(&[
        ("(4,0)", 4, Range, "the extent 0 is below 1"),
        ("(4,(2, -3)):(1,(4,8))", 8, Range, "the extent -3 is below 1"),
        ("0:1", 1, Range, "the extent 0 is below 1"),
        ("(4,2):(1)", 7, Profile, "nest differently"),
        ("(4,2):1", 7, Profile, "nest differently"),
        ("4:(1)", 3, Profile, "nest differently"),
        ("(4,(2,2)):(2,1)", 14, Profile, "nest differently"),
        ("(4,(2,2)):(2,(1,8,16))", 14, Profile, "nest differently"),
        ("((2,2),4):((1,(2)),4)", 15, Profile, "nest differently"),
        ("(2,4294967296,4294967296)", 15, Overflow, "64 bits"),
        ("(2,4294967296,4294967296):(1,0,0)", 15, Overflow, "64 bits"),
        ("(2,3):(1,4611686018427387904)", 10, Overflow, "64 bits"),
        ("(2,2,2):(4611686018427387904,4611686018427387904,1)", 30, Overflow, "64 bits"),
        ("(2,2):(1, -9223372036854775808)", 11, Overflow, "64 bits"),
        ("(é", 2, LayoutErrorKind::Parse { column: 2 }, "an integer"),
    ]);
    let long = format!("({})", ["1"; 33].join(","));
    misfits::<Layout>(&[(&long, 66, Capacity, "more than 32 integers")]);
    misfits::<IntTuple>(&[(&long, 66, Capacity, "more than 32 integers")]);
    let tuples = format!("({})", ["()"; 64].join(","));
    misfits::<IntTuple>(&[(&tuples, 191, Capacity, "more than 32 integers")]);
    let strides = format!("(2):({})", ["1"; 33].join(","));
    misfits::<Layout>(&[(&strides, 70, Capacity, "more than 32 integers")]);
    misfits::<Tiler>(&[
        ("(4:2,(2,2):1)", 12, Profile, "nest differently"),
        ("(4:2,_,(2,0):(1,2))", 11, Range, "the extent 0 is below 1"),
        ("(4:2,3:4611686018427387904)", 8, Overflow, "64 bits"),
    ]);
    let tilers = format!("({})", ["2:1"; 33].join(","));
    misfits::<Tiler>(&[(&tilers, 130, Capacity, "more than 32 integers")]);
    misfits::<Swizzle>(&[
        ("Sw<-1,4,3>", 4, Range, "the number of bits is -1"),
        ("Sw<3, -4,3>", 7, Range, "the base is -4"),
        ("Sw<3,4,1>", 8, Range, "is 1; it must be at least 3"),
        ("Sw<3,60,3>", 9, Range, "beyond bit 62"),
    ]);
    misfits::<ComposedLayout>(&[
        ("Sw<3,4,3> o -1 o 8:1", 13, Range, "the smallest index is -1"),
        ("Sw<3,4,1> o 0 o 8:1", 8, Range, "is 1; it must be at least 3"),
        ("Sw<3,4,3> o 0 o (8,64):(64,)", 24, Profile, "nest differently"),
        ("Sw<3,4,3> o 0 o (8,0):(64,1)", 20, Range, "the extent 0 is below 1"),
        ("Sw<3,4,3> o 0 o 8:1@0", 17, Profile, "along basis vectors"),
        ("Sw<3,4,3> o 3 o 8:-1", 17, Range, "the smallest index is -4"),
    ]);
    assert_eq!(try_make_col_major(tuple!((4, 0))).unwrap_err().column(), None, "there was no text");
}

#[test]
fn basis_vectors_are_written_innermost_index_first() {
    let nested = identity_layout(tuple!((4, (2, 3))));
    assert_eq!(nested.to_string(), "(4,(2,3)):(1@0,(1@0@1,1@1@1))");
    assert_eq!(nested, layout!((4, (2, 3)):(1@0, (1@0@1, 1@1@1))));
    assert_eq!(nested.stride().mode(1).leaf(1), Leaf::Scaled { value: 1, basis: Basis::new(&[1, 1]) });
    for (text, path) in
        [("2@1", &[1][..]), ("2@0@1", &[1, 0]), ("2@63@0@5", &[5, 0, 63]), ("2@4@3@2@1@0", &[0, 1, 2, 3, 4])]
    {
        let basis = Basis::new(path);
        assert_eq!(IntTuple::along(2, basis).to_string(), text);
        assert_eq!(text.parse(), Ok(IntTuple::along(2, basis)));
        assert_eq!((0..path.len()).map(|level| basis.index(level).unwrap()).collect::<Vec<_>>(), path);
        assert_eq!((basis.depth(), basis.index(path.len())), (path.len(), None));
    }
    assert_eq!("0@0@1".parse(), Ok(tuple!(0)), "0 is along nothing");
    let deep = "4:1@0@0@0@0@0@0".parse::<Layout>().unwrap_err();
    assert_eq!((deep.kind(), deep.column()), (LayoutErrorKind::Capacity, Some(15)), "{deep}");
    assert!(deep.text().contains("deeper than 5 tuples"), "{deep}");
    assert!(Basis::try_new(&[0; 6]).unwrap_err().text().starts_with("Basis::new([0, 0, 0, 0, 0, 0]): "));
    assert!(Basis::try_new(&[0, 64]).unwrap_err().text().contains("there is no basis vector 64"));
    assert!(
        Basis::try_new(&[]).unwrap_err().text().contains("the number of indices is 0; it must be at least 1")
    );
}
