//! Uses of streams and events in captures that the driver and the simulator refuse.

use crate::Error;
use crate::device::gpu::Gpu;
use crate::driver::DriverCode;

pub(super) const UNJOINED: Error = Error::Capture {
    reason: "a stream that takes part has work after which the captured stream does not wait",
    way_out: "record an event after that work, and let the captured stream wait for it",
};
pub(super) const INVALID: Error = Error::Capture {
    reason: "an earlier call during the capture has failed",
    way_out: "return the error of that call from the closure",
};
pub(super) const FROM_OUTSIDE: Error = Error::Capture {
    reason: "a stream that takes part cannot wait for an event that was recorded outside the capture",
    way_out: "let the stream that launches the graph wait for the event",
};
pub(super) const MERGED: Error = Error::Capture {
    reason: "the event belongs to another capture than the stream",
    way_out: "use different streams for each capture",
};
pub(super) const ENDED: Error = Error::Capture {
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

/// The error for a failed wait for a recorded event.
pub(crate) fn of_wait(gpu: &Gpu, call: &'static str, code: DriverCode) -> Error {
    // The driver discards an event's record when its capture ends.
    if code == DriverCode::INVALID_VALUE { ENDED } else { gpu.error_of_code(call, code) }
}
