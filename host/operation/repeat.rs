//! What a thread keeps of operations that repeat: plans by problem, and the launches of calls as
//! the driver takes them.

use super::Operation;
use crate::Result;
use crate::device::{Arch, Backend, Rates};
use crate::launch::{Prepared, noting};
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
    /// The problem, the call, and the address of its workspace.
    key: (O::Problem, O::Call, u64),
    on: [usize; 2],
    launches: Vec<Prepared>,
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

/// Launches what this thread launched for the same call with the same workspace on the same stream,
/// or else calls `launch` and keeps its launches.
///
/// # Safety
/// As for [`Operation::launch`].
pub(super) unsafe fn repeated<O: Operation>(
    stream: &Stream,
    problem: &O::Problem,
    call: &O::Call,
    workspace: u64,
    launch: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let Backend::Gpu(gpu) = &stream.device().0 else { return launch() };
    if stream.captures() {
        return launch();
    }
    let raw = stream.raw(gpu);
    let on = [std::ptr::from_ref(*gpu).addr(), raw.addr()];
    let key = (*problem, *call, workspace);
    let mut hasher = Mix::default();
    (TypeId::of::<O>(), key, on).hash(&mut hasher);
    let place = (hasher.finish() % PLACES as u64) as usize;
    let known = REPEATED.with_borrow(|kept| {
        let known = kept[place].as_ref()?.downcast_ref::<Repeated<O>>()?;
        (known.key == key && known.on == on).then(|| {
            gpu.bind().and_then(|()| {
                // SAFETY: the caller's contract; the launches were made for the same call on this
                // stream.
                known.launches.iter().try_for_each(|launch| unsafe { launch.launch(gpu, raw) })
            })
        })
    });
    if let Some(launched) = known {
        return launched;
    }
    let (result, launches) = noting(launch);
    result?;
    let kept: Box<dyn Any> = Box::new(Repeated::<O> { key, on, launches });
    REPEATED.with_borrow_mut(|all| all[place] = Some(kept));
    Ok(())
}
