//! Measured plans, in place of those with the lowest estimated cost.
//!
//! [`tune`] measures every candidate of the plans that a call makes. [`Plans`] keeps the fastest
//! ones in a file, and [`Plans::apply`] lets operations take them.

use super::{Case, Declaration, Dtype, Operation, measure, repeat};
use crate::device::Rates;
use crate::{Device, Result};
use std::any::type_name;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

/// The fastest candidate for a problem on a device.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "tune", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct TunedPlan {
    /// The device's name.
    pub device: String,
    /// The name of the type that implements [`Operation`].
    pub operation: String,
    /// The problem, as `Debug` formats it.
    pub problem: String,
    /// The candidate's kernel.
    pub kernel: String,
    /// Its index in [`Operation::candidates`].
    pub candidate: usize,
    /// The number of candidates.
    pub candidates: usize,
    /// The median time of the call with this plan, in microseconds.
    pub us: f64,
    /// The time with the plan of the lowest estimated cost.
    pub untuned_us: f64,
}

/// Tuned plans by device, operation and problem.
///
/// ```
/// # #[cfg(feature = "tune")] {
/// use moye::operation::{Case, Dtype, Plans, tune};
/// # let device = moye::Device::sim();
/// let mut plans = Plans::default();
/// const CASE: Case = Case::new(&[Some(&[3, 40])]);
/// for plan in tune(&moye::COPY, &device, &CASE, Dtype::F32)? {
///     plans.insert(plan);
/// }
/// # let folder = std::env::temp_dir().join(format!("moye-plans-{}", std::process::id()));
/// # let file = folder.join("plans.json");
/// plans.save(&file)?;
/// // From now on, calls of this process take the plans of the file.
/// Plans::load(&file)?.apply();
/// # std::fs::remove_dir_all(folder).unwrap();
/// # }
/// # Ok::<(), moye::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plans(BTreeMap<[String; 3], TunedPlan>);

/// The plans that calls of this process take.
static APPLIED: RwLock<Plans> = RwLock::new(Plans(BTreeMap::new()));

impl Plans {
    /// Adds a plan; replaces an older one of the same problem.
    pub fn insert(&mut self, plan: TunedPlan) {
        let key = [&plan.device, &plan.operation, &plan.problem].map(String::clone);
        self.0.insert(key, plan);
    }

    /// The plans.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &TunedPlan> {
        self.0.values()
    }

    /// Lets the calls of all threads of this process take these plans, and no others: problems
    /// without one have the plan of the lowest estimated cost. A plan of another version, whose
    /// candidates differ, is not taken. Results may differ by rounding.
    pub fn apply(self) {
        *APPLIED.write().unwrap_or_else(PoisonError::into_inner) = self;
        repeat::forget();
    }

    /// The index of the candidate for a problem among those with these kernels.
    fn candidate(&self, device: &str, operation: &str, problem: &str, kernels: &[&str]) -> Option<usize> {
        let plan = self.0.get(&[device, operation, problem].map(str::to_owned))?;
        let is_there =
            plan.candidates == kernels.len() && kernels.get(plan.candidate) == Some(&&*plan.kernel);
        is_there.then_some(plan.candidate)
    }
}

/// A choice among several candidates, which a call made.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    operation: &'static str,
    problem: String,
    kernels: Vec<&'static str>,
    /// The candidate of the lowest estimated cost.
    cheapest: usize,
}

impl Choice {
    /// The other candidates' indices and kernels.
    pub(super) fn others(&self) -> impl Iterator<Item = (usize, &'static str)> {
        self.kernels.iter().copied().enumerate().filter(|&(index, _)| index != self.cheapest)
    }
}

/// The candidate that this thread's calls take, and the choices that they have made.
struct Trial {
    taken: Option<(Choice, usize)>,
    made: Vec<Choice>,
}

thread_local! {
    static TRIAL: RefCell<Option<Trial>> = const { RefCell::new(None) };
}

/// Calls `act` with this candidate for the choice's problem, and the cheapest for all others.
/// Returns the choices that `act` made.
pub(super) fn with<R>(taken: Option<(&Choice, usize)>, act: impl FnOnce() -> R) -> (R, Vec<Choice>) {
    /// Ends the trial if `act` panics, too.
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            TRIAL.set(None);
            repeat::forget();
        }
    }
    let taken = taken.map(|(choice, index)| (choice.clone(), index));
    TRIAL.set(Some(Trial { taken, made: Vec::new() }));
    repeat::forget();
    let _end = End;
    let result = act();
    (result, TRIAL.take().map(|trial| trial.made).unwrap_or_default())
}

/// The plan for a problem: the one of a trial, the applied one, or the candidate of the lowest
/// cost.
pub(super) fn choose<O: Operation>(device: &Device, problem: &O::Problem, card: &Rates) -> Option<O::Plan> {
    let mut candidates = O::candidates(problem, card);
    if candidates.len() < 2 {
        return candidates.pop();
    }
    let costs: Vec<_> = candidates.iter().map(|plan| O::cost(plan, problem, card)).collect();
    let cheapest = (0..costs.len()).min_by(|&a, &b| costs[a].total_cmp(&costs[b]))?;
    let name = type_name::<O>();
    let kernels = || candidates.iter().map(O::kernel).collect::<Vec<_>>();
    let tried = TRIAL.with_borrow_mut(|trial| {
        let trial = trial.as_mut()?;
        let problem = format!("{problem:?}");
        let of = |choice: &Choice| choice.operation == name && choice.problem == problem;
        let taken = trial.taken.as_ref().filter(|(choice, _)| of(choice)).map(|&(_, index)| index);
        if !trial.made.iter().any(of) {
            trial.made.push(Choice { operation: name, problem, kernels: kernels(), cheapest });
        }
        Some(taken.unwrap_or(cheapest))
    });
    let chosen = tried.or_else(|| {
        let applied = APPLIED.read().unwrap_or_else(PoisonError::into_inner);
        if applied.0.is_empty() {
            return None;
        }
        applied.candidate(device.name(), name, &format!("{problem:?}"), &kernels())
    });
    Some(candidates.swap_remove(chosen.unwrap_or(cheapest)))
}

/// Measures a case with each candidate of the plans that its call makes, and returns the fastest
/// ones: one for each plan with several candidates.
///
/// # Errors
/// As for [`measure`].
pub fn tune(declaration: &Declaration, device: &Device, case: &Case, dtype: Dtype) -> Result<Vec<TunedPlan>> {
    let time = |taken: Option<(&Choice, usize)>| -> Result<(f64, Vec<Choice>)> {
        let (measured, choices) = with(taken, || measure(declaration, device, case, dtype));
        Ok((measured?.time.as_secs_f64() * 1e6, choices))
    };
    let (untuned_us, choices) = time(None)?;
    let mut plans = Vec::new();
    for choice in choices {
        let mut best = (choice.cheapest, untuned_us);
        for (candidate, _) in choice.others() {
            let (us, _) = time(Some((&choice, candidate)))?;
            if us < best.1 {
                best = (candidate, us);
            }
        }
        plans.push(TunedPlan {
            device: device.name().to_owned(),
            operation: choice.operation.to_owned(),
            kernel: choice.kernels[best.0].to_owned(),
            candidate: best.0,
            candidates: choice.kernels.len(),
            problem: choice.problem,
            us: best.1,
            untuned_us,
        });
    }
    Ok(plans)
}
