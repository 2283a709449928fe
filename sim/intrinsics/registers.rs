//! Registers. The simulator does not track them; fragments do.

use crate::block::running;
use crate::fault::FaultKind;
use std::fmt::Display;
use std::panic::Location;

/// Faults for a read of an element of a fragment that the thread has not written; the fragment
/// tracks its elements and calls this. Returns only in a thread that already unwinds.
///
/// # Panics
/// Outside a launch, with the text of the fault.
#[cold]
#[inline(never)]
#[track_caller]
pub fn unwritten_register(element: usize, layout: &dyn Display) {
    if std::thread::panicking() {
        return;
    }
    let fault = FaultKind::RegisterUnwritten { element, layout: layout.to_string() };
    match running() {
        Some(block) => block.raise(Location::caller(), fault),
        None => panic!("{fault}"),
    }
}
