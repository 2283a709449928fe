//! Progress bars on a terminal; elsewhere none.

use indicatif::{ProgressBar, ProgressStyle};
use moye::Device;
use std::time::Duration;

/// Below this number of bytes no bar is shown.
const SHOWN_BYTES: u64 = 64 << 20;

/// A bar for reading or writing this number of bytes; hidden if it is small.
pub fn bytes(what: &'static str, total: u64) -> ProgressBar {
    if total < SHOWN_BYTES {
        return ProgressBar::hidden();
    }
    styled(total, "{msg:8} {wide_bar} {bytes}/{total_bytes} {eta}").with_message(what)
}

/// Below this time no bar is shown.
const SHOWN_TIME: Duration = Duration::from_secs(1);

/// A bar for this number of launches of about `each`; hidden if they are short.
pub fn launches(count: usize, each: Duration) -> ProgressBar {
    if each * u32::try_from(count).unwrap_or(u32::MAX) < SHOWN_TIME {
        return ProgressBar::hidden();
    }
    styled(count as u64, "{msg:8} {wide_bar} {pos}/{len} launches {eta}").with_message("running")
}

/// A spinner while the driver compiles the kernels, at the first launch on a GPU.
pub fn loading(device: &Device) -> ProgressBar {
    if !device.is_gpu() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner().with_message("the driver compiles the kernels");
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

/// Shows the blocks of launches on a simulator until the bar is cleared.
pub fn blocks(device: &Device) -> ProgressBar {
    if device.is_gpu() {
        return ProgressBar::hidden();
    }
    let bar = styled(0, "{msg:8} {wide_bar} {pos}/{len} blocks {eta}").with_message("running");
    let shown = bar.clone();
    device.on_progress(move |done, all| {
        shown.set_length(all);
        shown.set_position(done);
    });
    bar
}

fn styled(total: u64, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).expect("the template is a constant");
    ProgressBar::new(total).with_style(style)
}
