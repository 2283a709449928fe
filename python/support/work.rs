//! Runs the work of a call without the GIL, on a GPU or on the simulator.

use crate::error;
use moye_runtime::Device;
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// The interval at which signals are checked.
const INTERVAL: Duration = Duration::from_millis(50);

/// Runs `work` on a device.
///
/// On a GPU it launches and returns. The simulator computes on another thread, while this one
/// handles Python's signals: an exception of a handler, such as `KeyboardInterrupt`, ends the
/// simulation.
///
/// # Errors
/// The handler's exception, or the error of `work`.
pub fn run(
    py: Python<'_>,
    device: &Device,
    work: impl FnOnce() -> moye_runtime::Result<()> + Send,
) -> PyResult<()> {
    if device.is_gpu() {
        return py.detach(work).map_err(error::raised);
    }
    let stop = Arc::new(AtomicBool::new(false));
    py.detach(|| {
        thread::scope(|scope| {
            let (running, ended) = channel::<()>();
            let simulation = scope.spawn({
                let stop = &stop;
                move || {
                    let result = moye_runtime::interruptible(stop, work);
                    drop(running);
                    result
                }
            });
            let mut signal = None;
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(INTERVAL) {
                if signal.is_none() {
                    signal = Python::attach(|py| py.check_signals()).err();
                    stop.store(signal.is_some(), Ordering::Relaxed);
                }
            }
            let result = simulation.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            signal.map_or(result.map_err(error::raised), Err)
        })
    })
}
