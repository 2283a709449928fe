//! Measured plans, in place of those with the lowest estimated cost.
//!
//! [`tune`] measures every candidate of the plans that a call makes. [`Plans`] keeps the fastest
//! ones in a file, and [`Plans::apply`] lets operations take them.

use super::measure::Prepared;
use super::{Case, Declaration, Dtype, Operation, repeat};
use crate::device::Rates;
use crate::{Device, Error, Result};
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
    /// The plan, as the operation explains it.
    pub explained: String,
}

/// A candidate that [`tune`] left out, because its call failed or its results are wrong.
#[derive(Debug)]
pub struct FailedCandidate {
    /// The candidate's kernel.
    pub kernel: &'static str,
    /// Its index in [`Operation::candidates`].
    pub candidate: usize,
    /// The error of the call.
    pub error: Error,
}

/// The result of [`tune`].
#[derive(Debug, Default)]
pub struct Tuned {
    /// The fastest candidates: one for each plan with several.
    pub plans: Vec<TunedPlan>,
    /// The candidates that were left out.
    pub failed: Vec<FailedCandidate>,
}

/// Tuned plans by device, operation and problem.
///
/// ```
/// # #[cfg(feature = "tune")] {
/// use moye::operation::{Case, Dtype, Plans, tune};
/// # let device = moye::Device::sim();
/// let mut plans = Plans::default();
/// // A product of 8 x 16 and 16 x 8 elements, with each kernel that computes it.
/// const CASE: Case = Case::new(&[Some(&[8, 16]), Some(&[16, 8]), None, None, None, None]);
/// let tuned = tune(&moye::MATMUL, &device, &CASE, Dtype::F32)?;
/// assert!(tuned.plans[0].candidates > 1 && tuned.failed.is_empty());
/// tuned.plans.into_iter().for_each(|plan| plans.insert(plan));
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
pub struct Plans {
    plans: BTreeMap<[String; 3], TunedPlan>,
}

/// The plans that calls of this process take.
static APPLIED: RwLock<Plans> = RwLock::new(Plans { plans: BTreeMap::new() });

impl Plans {
    /// Adds a plan; replaces an older one of the same problem.
    pub fn insert(&mut self, plan: TunedPlan) {
        let key = [&plan.device, &plan.operation, &plan.problem].map(String::clone);
        self.plans.insert(key, plan);
    }

    /// The plans.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &TunedPlan> {
        self.plans.values()
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
        let plan = self.plans.get(&[device, operation, problem].map(str::to_owned))?;
        let is_there =
            plan.candidates == kernels.len() && kernels.get(plan.candidate) == Some(&&*plan.kernel);
        is_there.then_some(plan.candidate)
    }
}

/// A problem with several candidates, which a call planned.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    operation: &'static str,
    problem: String,
    kernels: Vec<&'static str>,
    /// The candidate of the lowest estimated cost.
    cheapest: usize,
}

impl Planned {
    /// The other candidates' indices and kernels.
    pub(super) fn others(&self) -> impl Iterator<Item = (usize, &'static str)> {
        self.kernels.iter().copied().enumerate().filter(|&(index, _)| index != self.cheapest)
    }
}

/// The candidate that this thread's calls take, and the problems that they have planned.
struct Trial {
    taken: Option<(Planned, usize)>,
    made: Vec<Planned>,
}

thread_local! {
    static TRIAL: RefCell<Option<Trial>> = const { RefCell::new(None) };
}

/// Calls `act` with this candidate for its problem, and the cheapest for all others. Returns
/// the problems with several candidates that `act` planned.
pub(super) fn with<R>(taken: Option<(&Planned, usize)>, act: impl FnOnce() -> R) -> (R, Vec<Planned>) {
    /// Ends the trial if `act` panics, too.
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            TRIAL.set(None);
            repeat::forget();
        }
    }
    let taken = taken.map(|(planned, index)| (planned.clone(), index));
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
        let of = |planned: &Planned| planned.operation == name && planned.problem == problem;
        let taken = trial.taken.as_ref().filter(|(planned, _)| of(planned)).map(|&(_, index)| index);
        if !trial.made.iter().any(of) {
            trial.made.push(Planned { operation: name, problem, kernels: kernels(), cheapest });
        }
        Some(taken.unwrap_or(cheapest))
    });
    let chosen = tried.or_else(|| {
        let applied = APPLIED.read().unwrap_or_else(PoisonError::into_inner);
        if applied.plans.is_empty() {
            return None;
        }
        applied.candidate(device.name(), name, &format!("{problem:?}"), &kernels())
    });
    Some(candidates.swap_remove(chosen.unwrap_or(cheapest)))
}

/// The number of fastest candidates that are measured again, in turn.
const FINALISTS: usize = 3;

/// Measures a case with each candidate of the plans that its call makes, and returns the fastest
/// ones: one for each plan with several candidates. The fastest are measured twice. A candidate is
/// left out if its call fails, or if its results differ from those of the cheapest plan by more
/// than twice the tolerance.
///
/// # Errors
/// Same as [`measure`](super::measure), of the call with the plans of the lowest estimated cost.
pub fn tune(declaration: &Declaration, device: &Device, case: &Case, dtype: Dtype) -> Result<Tuned> {
    let mut prepared = Prepared::new(declaration, device, case, dtype)?;
    let mut untuned = 0.0;
    let (expected, planned) = with(None, || {
        let results = prepared.results()?;
        untuned = microseconds(&prepared)?;
        Ok::<_, Error>(results)
    });
    let expected = expected?;
    let tolerance = |dtype| case.tolerance.unwrap_or_else(|| (declaration.tolerance)(dtype));
    let mut tuned = Tuned::default();
    for planned in planned {
        let mut ranked = vec![(planned.cheapest, untuned)];
        for (candidate, kernel) in planned.others() {
            let checked = with(Some((&planned, candidate)), || {
                let results = prepared.results()?;
                let differs = results.iter().zip(&expected).find_map(|((dtype, ours), (_, others))| {
                    let error = relative_difference(ours, others);
                    (error.is_nan() || error > 2.0 * tolerance(*dtype)).then_some(error)
                });
                if let Some(error) = differs {
                    let detail = format!("its results and those of the untuned plan differ by {error:.1e}");
                    return Err(Error::Unsupported { operation: declaration.name, detail });
                }
                microseconds(&prepared)
            });
            match checked.0 {
                Ok(us) => ranked.push((candidate, us)),
                Err(error) => tuned.failed.push(FailedCandidate { kernel, candidate, error }),
            }
        }
        ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
        let is_cheapest = |&(candidate, _): &(usize, f64)| candidate == planned.cheapest;
        let cheapest = ranked.iter().position(is_cheapest).unwrap_or(0);
        // The untuned plan is one of the finalists.
        let last = FINALISTS.min(ranked.len() - 1);
        ranked.swap(cheapest.max(last), last);
        ranked.truncate(last + 1);
        for (candidate, us) in &mut ranked {
            *us = us.min(with(Some((&planned, *candidate)), || microseconds(&prepared)).0?);
        }
        let of = |wanted: usize| ranked.iter().find(|(candidate, _)| *candidate == wanted);
        let untuned_us = of(planned.cheapest).map_or(untuned, |&(_, us)| us);
        let fastest = ranked.iter().min_by(|a, b| a.1.total_cmp(&b.1));
        let &(candidate, us) = fastest.unwrap_or(&(planned.cheapest, untuned));
        tuned.plans.push(TunedPlan {
            device: device.name().to_owned(),
            operation: planned.operation.to_owned(),
            kernel: planned.kernels[candidate].to_owned(),
            candidate,
            candidates: planned.kernels.len(),
            explained: with(Some((&planned, candidate)), || prepared.explain()).0?,
            problem: planned.problem,
            us,
            untuned_us,
        });
    }
    Ok(tuned)
}

/// The median time of a call, in microseconds.
fn microseconds(prepared: &Prepared<'_>) -> Result<f64> {
    Ok(prepared.measure()?.time.as_secs_f64() * 1e6)
}

/// The norm of the difference over that of the second; elements that are NaN in both count as
/// equal, which a call may leave as they are.
fn relative_difference(ours: &[f64], others: &[f64]) -> f64 {
    let pairs = ours.iter().zip(others).filter(|(a, b)| a != b && !(a.is_nan() && b.is_nan()));
    let difference = pairs.map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
    let norm = others.iter().filter(|x| x.is_finite()).map(|x| x * x).sum::<f64>().sqrt();
    if difference == 0.0 { 0.0 } else { difference / norm.max(f64::MIN_POSITIVE) }
}

#[cfg(test)]
mod tests {
    use super::super::{ArrayType, Call, Launcher, OperandOf, Role};
    use super::*;
    use crate::{Ptx, Stream};

    /// An operation with three candidates, the last of which fails.
    struct Three;

    const KERNELS: [&str; 3] = ["one", "two", "fails"];

    impl Operation for Three {
        type Problem = u32;
        type Plan = usize;
        type Call = ();
        const NAME: &'static str = "three";

        fn ptx() -> &'static Ptx {
            static PTX: Ptx = Ptx::new("three", &[]);
            &PTX
        }

        fn candidates(_: &u32, _: &Rates) -> Vec<usize> {
            vec![0, 1, 2]
        }

        fn kernel(plan: &usize) -> &'static str {
            KERNELS[*plan]
        }

        unsafe fn launch(plan: &usize, _: &u32, (): &(), _: &Launcher<'_>) -> Result<()> {
            match plan {
                2 => Err(Error::Unsupported { operation: "three", detail: "it fails".to_owned() }),
                _ => Ok(()),
            }
        }
    }

    static THREE: Declaration = Declaration {
        name: "three",
        summary: "nothing",
        operands: &[
            OperandOf::new(Role::Input, "x", "an array"),
            OperandOf::new(Role::Result, "out", "an array like x"),
        ],
        options: &[],
        results: |inputs, _| Ok(inputs.iter().flatten().map(ArrayType::clone).collect()),
        // SAFETY: nothing is launched.
        run: |stream: &Stream, _: &Call<'_>| unsafe { super::super::run::<Three>(stream, &0, &()) },
        explain: |stream, _| Ok(KERNELS[super::super::plan::<Three>(stream.device(), &0)?].into()),
        reference: |_, _| Vec::new(),
        tolerance: |_| 0.0,
        cases: &[],
        bench: &[],
    };

    #[test]
    fn results_differ_by_their_norm_and_by_what_only_one_has() {
        let (nan, inf) = (f64::NAN, f64::INFINITY);
        assert_eq!(relative_difference(&[1.0, nan, inf], &[1.0, nan, inf]), 0.0);
        assert_eq!(relative_difference(&[3.0, 5.0], &[3.0, 4.0]), 0.2);
        assert!(relative_difference(&[nan, 1.0], &[0.0, 1.0]).is_nan());
        assert_eq!(relative_difference(&[inf, 1.0], &[0.0, 1.0]), inf);
        assert!(relative_difference(&[1e-30], &[0.0]) > 1.0);
    }

    #[test]
    fn a_candidate_that_fails_is_left_out_and_told() {
        let device = Device::sim();
        let tuned = tune(&THREE, &device, &Case::new(&[Some(&[4])]), Dtype::F32).unwrap();
        let [plan] = &tuned.plans[..] else { panic!("{tuned:?}") };
        assert!(plan.candidate < 2 && plan.candidates == 3, "{plan:?}");
        let [failed] = &tuned.failed[..] else { panic!("{tuned:?}") };
        assert_eq!((failed.kernel, failed.candidate), ("fails", 2));
        assert_eq!(failed.error.to_string(), "three: it fails");
    }
}
