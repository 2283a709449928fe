//! Progress bars on a terminal; nothing elsewhere.

use indicatif::{ProgressBar, ProgressStyle};
use moye::Device;

/// Fewer bytes than this take no time worth showing.
const SHOWN_BYTES: u64 = 64 << 20;

/// A bar for reading or writing so many bytes, hidden where they are few.
pub fn bytes(what: &'static str, total: u64) -> ProgressBar {
    if total < SHOWN_BYTES {
        return ProgressBar::hidden();
    }
    styled(total, "{msg:8} {wide_bar} {bytes}/{total_bytes} {eta}").with_message(what)
}

/// Shows the blocks of the launches on a simulator, until the bar is cleared.
pub fn blocks(device: &Device, total: u64) -> ProgressBar {
    if device.is_gpu() {
        return ProgressBar::hidden();
    }
    let bar = styled(total, "{msg:8} {wide_bar} {pos}/{len} blocks {eta}").with_message("running");
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
