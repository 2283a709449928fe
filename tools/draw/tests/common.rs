//! Pictures that several tests share, and a reader of SVG.

use moye_device::layout::{ComposedLayout, Layout, Swizzle, layout};
use moye_draw::{self as draw, Format, Scene, Style};
use roxmltree::{Document, Node};

pub const FORMATS: [Format; 6] =
    [Format::Svg, Format::Tikz, Format::Typst, Format::Table, Format::MoYe, Format::CuTe];

pub fn parsed(text: &str) -> Layout {
    Layout::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

/// One picture of each kind, and layouts of every shape that may break a renderer.
pub fn scenes() -> Vec<(&'static str, Scene)> {
    let grid = |text| draw::layout(&parsed(text)).unwrap();
    vec![
        ("row_major", grid("(8,8):(8,1)")),
        ("nested", grid("((2,3),(2,(2,2))):((1,4),(2,(12,24)))")),
        ("rank_0", grid("():()")),
        ("rank_1", grid("12:3")),
        ("rank_1_tuple", grid("((2,3)):((3,1))")),
        ("rank_3", grid("(2,3,2):(6,2,1)")),
        ("size_1", grid("(1,1,1):(0,5,7)")),
        ("one_row", grid("(1,10):(0,1)")),
        ("one_column", grid("(10,1):(1,0)")),
        ("broadcast", grid("(2,12):(1,0)")),
        ("negative", grid("(3,4):(-100,1)")),
        ("coordinates", grid("(3,4):(1@0,1@1)")),
        ("nested_coordinates", grid("(4,(2,3)):(1@0,(1@0@1,1@1@1))")),
        ("thousand", grid("(8,125):(125,1)")),
        ("long_column", grid("(120,2):(2,1)")),
        ("thread_value", thread_value()),
        ("uncovered", draw::thread_value(&layout!((2, 2):(1, 4)), [2, 4], None).unwrap()),
        ("shared_elements", draw::thread_value(&layout!((4, 2):(0, 1)), [1, 2], None).unwrap()),
        ("tiled_copy", draw::tiled_copy_of(&layout!((4, 2)), &layout!((1, 2))).unwrap()),
        ("mma", mma()),
        ("swizzle", draw::swizzle(&swizzled()).unwrap()),
        ("banks", draw::banks(layout!((8, 8):(32, 1)), 32, Some(&layout!(8:1))).unwrap()),
        ("banks_64", draw::banks(layout!((4, 8):(8, 1)), 64, None).unwrap()),
    ]
}

pub fn thread_value() -> Scene {
    draw::thread_value(&layout!(((4, 2), (2, 2)):((16, 1), (8, 2))), [8, 8], None).unwrap()
}

pub fn swizzled() -> ComposedLayout {
    ComposedLayout::new(Swizzle::new(2, 0, 2), 0, layout!((4, 4):(4, 1)))
}

/// Four threads to a quad pair, as on SM70: thread ids 0 to 3 and 16 to 19.
pub fn mma() -> Scene {
    draw::mma(
        [8, 8, 4],
        &parsed("(8,4):(1,8)"),
        &parsed("((4,2),4):((8,4),1)"),
        &parsed("((2,2,2),(2,2,2)):((1,16,4),(8,2,32))"),
        Some(&parsed("(4,2):(1,16)")),
    )
    .unwrap()
}

pub fn svg(scene: &Scene) -> String {
    scene.render(Format::Svg, &Style::default())
}

pub fn class<'a>(node: Node<'a, '_>) -> &'a str {
    node.attribute("class").unwrap_or_default()
}

/// The cells of an SVG picture.
pub fn cells<'a, 'input>(document: &'a Document<'input>) -> impl Iterator<Item = Node<'a, 'input>> {
    document.descendants().filter(|node| node.has_tag_name("g") && class(*node) == "cell")
}

pub fn number(node: Node, name: &str) -> f64 {
    let text = node.attribute(name).unwrap_or("0");
    text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}"))
}
