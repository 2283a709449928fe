//! Panics of simulated threads: caught, reported as faults, and otherwise silent.

use super::context::{BlockContext, RawFault, within_simulated_thread};
use crate::fault::FaultKind;
use std::any::Any;
use std::cell::RefCell;
use std::panic::{self, Location};
use std::sync::Once;

/// The unwinding of a simulated thread whose block has a fault: not a panic, so no panic hook sees
/// it.
pub(crate) struct Unwound;

/// Message and location of a panic.
type Told = (String, Option<&'static Location<'static>>);

thread_local! {
    /// The panic of the simulated thread that unwinds on this OS thread.
    static TOLD: RefCell<Option<Told>> = const { RefCell::new(None) };
}

/// Installs, once per process, a panic hook that stores panics of simulated threads for their
/// faults and forwards all others to the previous hook.
pub(crate) fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !within_simulated_thread() {
                return previous(info);
            }
            // A panic's `Location` is that of a `#[track_caller]` call and lives in the program's
            // constants, but the hook passes it with a shorter lifetime. SAFETY: `Location`s that
            // the compiler emits are static; nothing else can create one.
            let location =
                info.location().map(|l| unsafe { &*std::ptr::from_ref(l).cast::<Location<'static>>() });
            TOLD.with_borrow_mut(|told| *told = Some((message(info.payload()), location)));
        }));
    });
}

fn message(payload: &dyn Any) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "with a payload that is not text".to_owned()
    }
}

impl BlockContext {
    /// Records the payload with which the running thread unwound as the block's fault, unless the
    /// block has one.
    pub(crate) fn note_unwound(&self, payload: &(dyn Any + Send)) {
        if payload.is::<Unwound>() {
            return;
        }
        let told = TOLD.with_borrow_mut(Option::take);
        let (message, location) = told.unwrap_or_else(|| (message(payload), None));
        self.record(RawFault {
            thread: self.thread_index.get(),
            location,
            kind: FaultKind::Panicked { message },
        });
    }
}
