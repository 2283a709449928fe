//! Races: unordered accesses to the same bytes, at least one of them a write.
//!
//! Every access leaves an [`Entry`] in a shadow of the memory: its thread, and the epoch of that
//! thread. A thread's epoch ends whenever it passes its clock on: at a barrier, at an mbarrier, at
//! a fence. A later access is ordered after an entry if its thread knows that the entry's epoch has
//! ended ([`clock`]). Otherwise the access is a race, in whatever order the threads happened to
//! run.
//!
//! Clocks are epochs with few exceptions: a barrier of the whole block sets one value for all of
//! its threads, a barrier of a warp one for its lanes. Only named barriers, mbarriers, clusters and
//! atomics need a value for each thread. The idea of epochs comes from FastTrack (Flanagan and
//! Freund, 2009).

mod cell;
mod clock;
mod global;
mod meet;
mod note;
mod order;
mod place;
mod shared;
mod spin;
mod sync;

pub(crate) use cell::Kind;
pub(crate) use clock::{Gathered, Seen, ThreadClock};
pub(crate) use global::GlobalRaces;
pub(crate) use note::Noted;
pub(crate) use order::BlockClock;
pub(crate) use shared::SharedShadow;
pub(crate) use sync::{GLOBAL, Handover, Scope, SyncAddresses};
