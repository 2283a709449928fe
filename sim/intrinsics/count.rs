//! Instructions that the simulator executes as plain Rust: a profile counts them on request.

use crate::block::running;
use std::panic::Location;

/// Counts an instruction at the calling line in the profile, if one is taken: for instructions that
/// the simulator does not see, such as those of the special function unit. Does nothing outside a
/// launch.
///
/// ```
/// use moye_sim::profile::Profiler;
/// use moye_sim::{GlobalMemory, Launch, intrinsics::count_instruction};
///
/// let profiler = Profiler::new();
/// let kernel = || count_instruction("ex2.approx.ftz.f32");
/// Launch::new("k", 1, 64, &GlobalMemory::new()).profiler(&profiler).run(&kernel)?;
/// assert_eq!(profiler.take().kernels[0].total().count("ex2"), 2, "one for each warp");
/// # Ok::<(), moye_sim::LaunchError>(())
/// ```
#[inline(never)]
#[track_caller]
pub fn count_instruction(name: &'static str) {
    if let Some(block) = running() {
        block.profile_event(name, Location::caller());
    }
}
