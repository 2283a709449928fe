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
    use super::super::{Launcher, plan, tune};
    use super::*;
    use crate::module::Ptx;
    use crate::profile::Card;

    thread_local! {
        /// The number of times that this thread has made a plan.
        static PLANNED: Cell<usize> = const { Cell::new(0) };
    }

    /// One of several operations with the same problems. A plan depends on the operation, the
    /// problem and the card.
    struct Numbered<const N: u64>;

    impl<const N: u64> Operation for Numbered<N> {
        type Problem = u64;
        type Plan = [u64; 4];
        type Call = ();
        const NAME: &'static str = "numbered";

        fn ptx() -> &'static Ptx {
            static PTX: Ptx = Ptx::new("numbered", &[]);
            &PTX
        }

        fn candidates(&problem: &u64, card: &Rates) -> Vec<[u64; 4]> {
            PLANNED.set(PLANNED.get() + 1);
            (0..3).map(|candidate| [N, problem, card.memory.to_bits(), candidate]).collect()
        }

        /// The cheapest candidate is the problem's remainder by 3.
        fn cost(plan: &[u64; 4], problem: &u64, _: &Rates) -> f64 {
            if plan[3] == problem % 3 { 1.0 } else { 2.0 }
        }

        fn kernel(_: &[u64; 4]) -> &'static str {
            "numbered"
        }

        unsafe fn launch(_: &[u64; 4], _: &u64, (): &(), _: &Launcher<'_>) -> Result<()> {
            Ok(())
        }
    }

    /// The number of plans of an operation that this thread has cached.
    fn cached<O: Operation>() -> usize {
        PLANS.with_borrow(|all| {
            let plans = all.get(&TypeId::of::<O>()).and_then(|plans| plans.downcast_ref::<Plans<O>>());
            plans.map_or(0, Plans::<O>::len)
        })
    }

    #[test]
    fn a_thread_forgets_plans_rather_than_keeping_them_without_end() {
        let (device, mut most) = (Device::sim(), 0);
        for problem in 0..4 * MOST_PLANS as u64 {
            plan::<Numbered<0>>(&device, &problem).unwrap();
            most = most.max(cached::<Numbered<0>>());
        }
        assert_eq!(most, MOST_PLANS, "the most plans at a time");
        let planned = PLANNED.get();
        assert_eq!(plan::<Numbered<0>>(&device, &0).unwrap()[1], 0);
        assert_eq!(PLANNED.get(), planned + 1, "the first plan was forgotten, and is made anew");
    }

    #[test]
    fn a_cached_plan_is_the_one_that_would_be_made_anew() {
        const ROUNDS: usize = 10;
        fn check<const N: u64>(device: &Device, problem: u64) {
            let got = plan::<Numbered<N>>(device, &problem).unwrap();
            let planned = PLANNED.get();
            let anew = tune::choose::<Numbered<N>>(device, &problem, &device.rates());
            PLANNED.set(planned);
            assert_eq!(Some(got), anew, "problem {problem} of operation {N} on {device:?}");
        }
        let devices = ["H100", "H200"].map(|name| Device::sim_of(&Card::named(name).unwrap()));
        assert_ne!(devices[0].rates().memory, devices[1].rates().memory);
        for _ in 0..ROUNDS {
            for device in &devices {
                for problem in 0..5 {
                    check::<1>(device, problem);
                    check::<2>(device, problem);
                }
            }
        }
        // Tests in other threads may clear the caches, so some plans may be made more than once.
        let calls = ROUNDS * 2 * 5 * 2;
        assert!(PLANNED.get() < calls, "{} plans of {calls} calls: none came from the cache", PLANNED.get());
    }

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
