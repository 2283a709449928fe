//! Eight elements do not go into six.

use moye_device::algorithm::transform;
use moye_device::layout::layout;
use moye_device::static_layout;
use moye_device::tensor::Fragment;

static_layout! {
    Eight = layout!((4, 2));
    Six = layout!((3, 2));
}

fn main() {
    let from = Fragment::<f32, Eight>::filled(1.0);
    let mut to = Fragment::<f32, Six>::filled(0.0);
    unsafe { transform(&from, &mut to, |x| 2.0 * x) };
}
