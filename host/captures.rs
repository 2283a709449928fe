//! Calls that a capture of a graph does not allow, and captures that run on this thread.

use crate::driver::DriverCode;
use crate::{Error, Result};
use std::cell::Cell;

thread_local! {
    /// The number of running captures of this thread.
    static CAPTURES: Cell<u32> = const { Cell::new(0) };
}

/// Refuses a synchronous call while a graph is captured on this thread.
pub(crate) fn not_captured(call: &'static str) -> Result<()> {
    if CAPTURES.get() == 0 { Ok(()) } else { Err(Error::Captured { call }) }
}

/// Increments this thread's number of captures while it lives.
pub(crate) struct Counted;

impl Counted {
    pub fn new() -> Self {
        CAPTURES.set(CAPTURES.get() + 1);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        CAPTURES.set(CAPTURES.get() - 1);
    }
}

pub(crate) const UNJOINED: Error = Error::Capture {
    reason: "a stream that takes part has work after which the captured stream does not wait",
    way_out: "record an event after that work, and let the captured stream wait for it",
};
pub(crate) const INVALID: Error = Error::Capture {
    reason: "an earlier call during the capture has failed",
    way_out: "return the error of that call from the closure",
};
pub(crate) const FROM_OUTSIDE: Error = Error::Capture {
    reason: "a stream that takes part cannot wait for an event that was recorded outside the capture",
    way_out: "let the stream that launches the graph wait for the event",
};
pub(crate) const MERGED: Error = Error::Capture {
    reason: "the event belongs to another capture than the stream",
    way_out: "use different streams for each capture",
};
pub(crate) const ENDED: Error = Error::Capture {
    reason: "the event was recorded in a capture that has ended, so it never happens",
    way_out: "record it again on the stream that launches the graph",
};

/// The error for a capture-related code of the driver's function `call`.
pub(crate) fn of_code(call: &'static str, code: DriverCode) -> Option<Error> {
    Some(match code.number() {
        // CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUDA_ERROR_CAPTURED_EVENT
        900 | 907 => Error::Captured { call },
        // ..._INVALIDATED, _MERGE, _UNJOINED, _ISOLATION
        901 => INVALID,
        902 => MERGED,
        904 => UNJOINED,
        905 => FROM_OUTSIDE,
        _ => return None,
    })
}
