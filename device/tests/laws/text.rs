//! Text form and parsing.

use super::strategies::*;
use moye_device::layout::*;
use proptest::prelude::*;

proptest! {
    #![proptest_config(config(5_000))]

    #[test]
    fn text_and_back_is_the_same_layout(a in layouts()) {
        prop_assert_eq!(a.to_string().parse(), Ok(a));
        prop_assert_eq!(a.shape().to_string().parse(), Ok(a.shape()));
        let coordinates = identity_layout(a.shape());
        prop_assert_eq!(coordinates.to_string().parse(), Ok(coordinates));
    }

    #[test]
    fn text_and_back_is_the_same_tiler(tiler in tilers()) {
        let text = tiler.to_string();
        prop_assert_eq!(text.parse(), Ok(tiler));
        prop_assert_eq!(text.replace(',', " , ").replace(':', " : ").parse(), Ok(tiler));
    }

    #[test]
    fn text_and_back_is_the_same_swizzled_layout(
        a in layouts(), bits in 0i64..6, base in 0i64..8, shift in -8i64..8, offset in 0i64..1 << 40
    ) {
        let Ok(swizzle) = Swizzle::try_new(bits, base, shift) else { return Ok(()) };
        prop_assert_eq!(swizzle.to_string().parse(), Ok(swizzle));
        let composed = ComposedLayout::new(swizzle, offset, a);
        prop_assert_eq!(composed.to_string().parse(), Ok(composed));
    }
}
