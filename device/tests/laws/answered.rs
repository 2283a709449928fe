//! The laws apply to results; a case whose operation returns an error tests no law. These tests
//! assert that each operation returns a result for a good share of the cases above.

use super::strategies::*;
use super::swizzle::{composed, inner_layout, swizzles};
use moye_device::layout::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// The number of 1,000 cases of a strategy that yield a result.
fn answered<S: proptest::strategy::Strategy>(strategy: S, asks: impl Fn(S::Value) -> bool) -> usize {
    let mut runner = TestRunner::deterministic();
    (0..1000).filter(|_| asks(strategy.new_tree(&mut runner).expect("a case").current())).count()
}

#[test]
fn most_operations_have_an_answer_for_a_good_part_of_the_cases() {
    let counts = [
        ("composition", 300, answered((layouts(), layouts()), |(a, b)| try_composition(a, b).is_ok())),
        ("complement", 500, answered(layouts(), |a| try_complement(a, 1000).is_ok())),
        ("left_inverse", 400, answered(layouts(), |a| try_left_inverse(a).is_ok())),
        (
            "logical_divide",
            300,
            answered((layouts(), layouts()), |(a, b)| try_logical_divide(a, b.tiler()).is_ok()),
        ),
        (
            "by mode",
            300,
            answered((layouts(), tiler_modes()), |(a, tiler)| {
                let tiler = &tiler[..tiler.len().min(a.rank())];
                try_zipped_divide(a, tiler_of(tiler)).is_ok()
            }),
        ),
        (
            "composition by mode",
            300,
            answered((layouts(), tiler_modes()), |(a, tiler)| {
                let tiler = &tiler[..tiler.len().min(a.rank())];
                try_composition_tiler(a, tiler_of(tiler)).is_ok()
            }),
        ),
        (
            "logical_product",
            300,
            answered((layouts(), layouts()), |(a, b)| try_logical_product(a, b.tiler()).is_ok()),
        ),
        (
            "blocked_product",
            300,
            answered((layouts(), layouts()), |(a, b)| try_blocked_product(a, b).is_ok()),
        ),
        (
            "max_common_layout",
            500,
            answered((layouts(), layouts()), |(a, b)| try_max_common_layout(a, b).is_ok()),
        ),
        ("upcast", 200, answered(layouts(), |a| try_upcast(a, 4).is_ok())),
        ("downcast", 300, answered(layouts(), |a| try_downcast(a, 4).is_ok())),
        (
            "a swizzle after another",
            300,
            answered((swizzles(), swizzles()), |(a, b)| a.try_composition(b).is_ok()),
        ),
        (
            "a layout after a swizzled one",
            300,
            answered(
                (bijection(even_shape()), swizzles(), inner_layout(), 0i64..16),
                |(a, swizzle, inner, offset)| {
                    ComposedLayout::try_new(swizzle, offset, inner)
                        .is_ok_and(|inner| try_composition_swizzled(a, inner).is_ok())
                },
            ),
        ),
        (
            "a swizzled layout after another",
            100,
            answered((composed(), swizzles(), inner_layout()), |(a, swizzle, inner)| {
                ComposedLayout::try_new(swizzle, 0, inner)
                    .is_ok_and(|b| a.try_composition_swizzled(b).is_ok())
            }),
        ),
        ("right inverse of a swizzled layout", 300, answered(composed(), |a| a.try_right_inverse().is_ok())),
        ("left inverse of a swizzled layout", 200, answered(composed(), |a| a.try_left_inverse().is_ok())),
        (
            "thread-value layout",
            300,
            answered((bijection(even_shape()), bijection(even_shape())), |(threads, values)| {
                try_make_layout_tv(threads, values).is_ok()
            }),
        ),
    ];
    for (name, least, count) in counts {
        println!("{name}: {count} of 1000");
        assert!(count >= least, "{name} answers {count} of 1000 cases");
    }
}
