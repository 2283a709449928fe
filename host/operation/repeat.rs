//! What a thread keeps of operations that repeat: plans by problem, and the launches of calls as
//! the driver takes them.

use super::{Operation, Workspace};
use crate::Result;
use crate::device::{Arch, Backend, Rates};
use crate::launch::{Prepared, noting};
use crate::memory::Used;
use crate::mix::Mix;
use crate::stream::Stream;
use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// The plans of an operation that a thread keeps. When there are more, they are made again.
const MOST_PLANS: usize = 1024;
/// The calls whose launches a thread keeps. Two of the same place replace each other.
const PLACES: usize = 256;

/// Plans by problem and card, of one operation.
type Plans<O> = HashMap<
    (<O as Operation>::Problem, (Arch, u32)),
    Option<<O as Operation>::Plan>,
    BuildHasherDefault<Mix>,
>;

/// A call that was made, and its launches.
struct Repeated<O: Operation> {
    problem: O::Problem,
    call: O::Call,
    on: [usize; 2],
    launches: Vec<Prepared>,
    workspace: Used,
    /// The address of the stream's counters, if a launch has needed them.
    counters: Option<u64>,
}

thread_local! {
    static PLANS: RefCell<HashMap<TypeId, Box<dyn Any>, BuildHasherDefault<Mix>>> = RefCell::default();
    static REPEATED: RefCell<[Option<Box<dyn Any>>; PLACES]> = const { RefCell::new([const { None }; PLACES]) };
}

/// The plan that this thread has made for the problem on such a card, or else the one made now.
pub(super) fn planned<O: Operation>(
    problem: &O::Problem,
    card: &Rates,
    plan: impl FnOnce() -> Option<O::Plan>,
) -> Option<O::Plan> {
    let key = (*problem, (card.arch, card.multiprocessors));
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

/// What is known of a call.
enum Known {
    /// It was launched again.
    Launched(Result<()>),
    /// It was made with a workspace of this size.
    Needs(usize),
}

/// Launches what this thread launched for the same call on the same stream, with the same
/// workspace, or else calls `launch` and keeps its launches. `launch` may take a workspace that is
/// here already, and returns what it used.
///
/// # Safety
/// As for [`Operation::launch`].
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
    let raw = stream.raw(gpu);
    let on = [std::ptr::from_ref(*gpu).addr(), raw.addr()];
    let mut hasher = Mix::default();
    (TypeId::of::<O>(), problem, call, on[0], on[1]).hash(&mut hasher);
    let place = (hasher.finish() % PLACES as u64) as usize;
    let again = |used: Used| {
        REPEATED.with_borrow(|kept| {
            let known = kept[place].as_ref()?.downcast_ref::<Repeated<O>>()?;
            if known.on != on || known.call != *call || known.problem != *problem {
                return None;
            }
            if used != known.workspace {
                return Some(Known::Needs(known.workspace.bytes));
            }
            // A launch with counters of an earlier size of theirs would use freed memory.
            if stream.kept(gpu).known_counters() != known.counters {
                return None;
            }
            Some(Known::Launched(gpu.bind().and_then(|()| {
                // SAFETY: the caller's contract; the launches were made for the same call on this
                // stream, with the same workspace and counters.
                known.launches.iter().try_for_each(|launch| unsafe { launch.launch(gpu, raw) })
            })))
        })
    };
    // Held until all has been launched. A caller's allocator may compute as well, so it is called
    // between two looks at the kept calls.
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
    let (result, launches) = noting(|| launch(workspace));
    let workspace = result?;
    // Memory of a graph is that graph's alone.
    if !workspace.is_captured {
        let (problem, call, counters) = (*problem, *call, stream.kept(gpu).known_counters());
        let kept = Repeated::<O> { problem, call, on, launches, workspace, counters };
        REPEATED.with_borrow_mut(|all| all[place] = Some(Box::new(kept)));
    }
    Ok(())
}
