//! A thread's caches of operations that repeat: plans by problem, and the launches of calls in the
//! driver's form.

use super::{Operation, Workspace};
use crate::Result;
use crate::device::{Backend, Device, Rates};
use crate::launch::{Prepared, noting};
use crate::memory::Used;
use crate::mix::Mix;
use crate::stream::Stream;
use std::any::{Any, TypeId};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

/// The maximum number of cached plans of an operation; beyond it the cache is cleared.
const MOST_PLANS: usize = 1024;
/// The number of slots for calls with their launches. Two calls with the same slot replace each
/// other.
const PLACES: usize = 256;

/// Plans by problem and the number of the card, of one operation.
type Plans<O> =
    HashMap<(<O as Operation>::Problem, usize), Option<<O as Operation>::Plan>, BuildHasherDefault<Mix>>;

/// A call that was made, and its launches.
struct Repeated<O: Operation> {
    problem: O::Problem,
    call: O::Call,
    on: [usize; 2],
    launches: Vec<Prepared>,
    workspace: Used,
    /// The address of the stream's counters, if a launch used them.
    counters: Option<u64>,
}

thread_local! {
    /// The hash of the last call of each slot. A call is cached when it is made a second time: a
    /// call of new addresses each time allocates nothing.
    static SEEN: [Cell<u64>; PLACES] = const { [const { Cell::new(0) }; PLACES] };
    /// The cards of the plans: names and rates. Cards of one name have measured plans in common.
    static CARDS: RefCell<Vec<(String, Rates)>> = const { RefCell::new(Vec::new()) };
    static PLANS: RefCell<HashMap<TypeId, Box<dyn Any>, BuildHasherDefault<Mix>>> = RefCell::default();
    static REPEATED: RefCell<[Option<Box<dyn Any>>; PLACES]> = const { RefCell::new([const { None }; PLACES]) };
}

/// The number of times that all threads have been told to clear their caches.
static CLEARED: AtomicU64 = AtomicU64::new(0);
thread_local! {
    static CLEARED_HERE: Cell<u64> = const { Cell::new(0) };
}

/// Lets all threads clear their caches before their next call.
pub(super) fn forget() {
    CLEARED.fetch_add(1, Ordering::Release);
}

/// Clears this thread's caches if [`forget`] was called since it last did so.
#[inline]
fn clear_if_told() {
    let cleared = CLEARED.load(Ordering::Acquire);
    if CLEARED_HERE.replace(cleared) != cleared {
        SEEN.with(|seen| seen.iter().for_each(|hash| hash.set(0)));
        PLANS.take();
        REPEATED.with_borrow_mut(|all| all.fill_with(|| None));
    }
}

/// The number of a device's card.
fn number_of(device: &Device, card: &Rates) -> usize {
    CARDS.with_borrow_mut(|cards| {
        let known = cards.iter().position(|(name, rates)| rates == card && name == device.name());
        known.unwrap_or_else(|| {
            cards.push((device.name().to_owned(), *card));
            cards.len() - 1
        })
    })
}

/// The plan that this thread has cached for the problem on such a card, or a new one.
pub(super) fn planned<O: Operation>(
    device: &Device,
    problem: &O::Problem,
    card: &Rates,
    plan: impl FnOnce() -> Option<O::Plan>,
) -> Option<O::Plan> {
    clear_if_told();
    let key = (*problem, number_of(device, card));
    let known = |plans: &mut Plans<O>| plans.get(&key).copied();
    let of = TypeId::of::<O>();
    let found = PLANS.with_borrow_mut(|all| {
        let plans = all.entry(of).or_insert_with(|| Box::new(Plans::<O>::default()));
        known(plans.downcast_mut().expect("the type is the key"))
    });
    found.unwrap_or_else(|| {
        let made = plan();
        PLANS.with_borrow_mut(|all| {
            let plans = all.entry(of).or_insert_with(|| Box::new(Plans::<O>::default()));
            let plans = plans.downcast_mut::<Plans<O>>().expect("the type is the key");
            if plans.len() >= MOST_PLANS {
                plans.clear();
            }
            plans.insert(key, made);
        });
        made
    })
}

/// The cache's knowledge of a call.
enum Known {
    /// Its launches were replayed.
    Launched(Result<()>),
    /// Its workspace had this size.
    Needs(usize),
}

/// Replays this thread's launches of the same call on the same stream with the same workspace; if
/// there are none, calls `launch`, and caches its launches if the thread's last call of the slot
/// was the same. `launch` may use an existing workspace, and returns what it used.
///
/// # Safety
/// Same contract as [`Operation::launch`].
pub(super) unsafe fn repeated<'s, O: Operation>(
    stream: &'s Stream,
    problem: &O::Problem,
    call: &O::Call,
    launch: impl FnOnce(Option<Workspace<'s>>) -> Result<Used>,
) -> Result<()> {
    let Backend::Gpu(gpu) = &stream.device().0 else { return launch(None).map(drop) };
    if stream.captures() {
        return launch(None).map(drop);
    }
    clear_if_told();
    let raw = stream.raw(gpu);
    let on = [std::ptr::from_ref(*gpu).addr(), raw.addr()];
    let mut hasher = Mix::default();
    (TypeId::of::<O>(), problem, call, on[0], on[1]).hash(&mut hasher);
    let hash = hasher.finish();
    let place = (hash % PLACES as u64) as usize;
    let again = |used: Used| {
        REPEATED.with_borrow(|kept| {
            let known = kept[place].as_ref()?.downcast_ref::<Repeated<O>>()?;
            if known.on != on || known.call != *call || known.problem != *problem {
                return None;
            }
            if used != known.workspace {
                return Some(Known::Needs(known.workspace.bytes));
            }
            // Replaying a launch with a former address of the counters would use freed memory.
            if stream.kept(gpu).known_counters() != known.counters {
                return None;
            }
            Some(Known::Launched(gpu.bind().and_then(|()| {
                // SAFETY: the caller guarantees the operands; the launches were made for the same
                // call on this stream, with the same workspace and counters.
                known.launches.iter().try_for_each(|launch| unsafe { launch.launch(gpu, raw) })
            })))
        })
    };
    // Held until everything has been launched. A caller's allocator may run operations too, so it
    // is called between two accesses to the cache, not within one.
    let mut workspace = None;
    let mut known = again(Used::default());
    if let Some(Known::Needs(bytes)) = known {
        workspace = Workspace::new(stream, bytes)?;
        let used = workspace.as_ref().map(Workspace::used).unwrap_or_default();
        known = if used.is_captured { None } else { again(used) };
    }
    if let Some(Known::Launched(launched)) = known {
        return launched;
    }
    if SEEN.with(|seen| seen[place].replace(hash)) != hash {
        return launch(workspace).map(drop);
    }
    let (result, launches) = noting(|| launch(workspace));
    let workspace = result?;
    // A graph's memory belongs only to that graph.
    if !workspace.is_captured {
        let (problem, call, counters) = (*problem, *call, stream.kept(gpu).known_counters());
        let kept = Repeated::<O> { problem, call, on, launches, workspace, counters };
        REPEATED.with_borrow_mut(|all| all[place] = Some(Box::new(kept)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Card;

    #[test]
    fn cards_with_another_name_or_other_rates_have_plans_apart() {
        let of = |name: &str| Device::sim_of(&Card::named(name).unwrap());
        let (h100, h200) = (of("H100"), of("H200"));
        let number = |device: &Device| number_of(device, &device.rates());
        assert_eq!(number(&h100), number(&of("H100")));
        assert_ne!(number(&h100), number(&h200));
        // The same name, with other rates; the same rates, with another name.
        assert_ne!(number_of(&h100, &Rates { clock: 1.0, ..h100.rates() }), number(&h100));
        assert_ne!(number_of(&h200, &h100.rates()), number(&h100));
    }
}
