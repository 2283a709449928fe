//! A cache of plans.
//!
//! A plan compares a few hundred choices, which takes longer than a small product on a GPU, and
//! programs multiply the same shapes again. So each thread keeps its plans. The key leaves out what
//! a plan does not depend on, such as addresses beyond their alignment, before the plan is made; so
//! a cached plan equals a new one.

use super::element::Operand;
use super::plan::{self, Plan, Question};
use crate::mix::BuildMix;
use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::HashMap;

/// The capacity of a thread's cache. When it is full, it is cleared.
const KEPT: usize = 1024;

/// Plans by key; each operand type has its own keys.
type Plans = HashMap<(TypeId, Question), Box<dyn Any>, BuildMix>;

thread_local! {
    static PLANS: RefCell<Plans> = RefCell::default();
}

/// As [`plan::plan`].
pub(super) fn plan<T: Operand>(question: &Question) -> Option<Plan<T>> {
    let question = Question { operands: question.operands.map(super::operand::View::anywhere), ..*question };
    let asked = (TypeId::of::<T>(), question);
    PLANS.with_borrow_mut(|plans| {
        if let Some(made) = plans.get(&asked) {
            return *made.downcast_ref::<Option<Plan<T>>>().expect("the type is part of the question");
        }
        if plans.len() >= KEPT {
            plans.clear();
        }
        let made = plan::plan::<T>(&question);
        plans.insert(asked, Box::new(made));
        made
    })
}

#[cfg(test)]
mod tests {
    use super::super::element::Precision;
    use super::super::operand::View;
    use super::super::plan::Forced;
    use super::*;
    use half::{bf16, f16};
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    fn question(random: &mut SmallRng) -> Question {
        let extents = [(); 3].map(|()| 1 << random.random_range(0..13));
        let view = |random: &mut SmallRng, extent: u32| {
            let along_k = random.random::<bool>();
            let [mn, k] = if along_k { [i64::from(extents[2]), 1] } else { [1, i64::from(extent)] };
            let address = 256 + random.random_range(0..4) * 2 + random.random_range(0..8) * 16;
            let end = address + 2 * u64::from(extent) * u64::from(extents[2]) + random.random_range(0..3) * 2;
            View { address, mn, k, batch: 0, bytes: 2, batches: 1, end }
        };
        Question {
            extents,
            batches: 1,
            operands: [view(random, extents[0]), view(random, extents[1])],
            precision: Precision::Full,
            finished_apart: random.random::<bool>(),
            multiprocessors: 132,
            shared_bytes: 232_448,
            wgmma: random.random::<bool>(),
            forced: Forced::default(),
        }
    }

    #[test]
    fn what_is_remembered_is_what_would_be_planned() {
        let mut random = SmallRng::seed_from_u64(7);
        let same = |a: String, b: String, question: &Question| assert_eq!(a, b, "{question:?}");
        for _ in 0..200 {
            let question = question(&mut random);
            let anew = format!("{:?}", plan::plan::<f16>(&question).map(told));
            // Planned, then found in the cache, also for matrices at other addresses.
            same(format!("{:?}", plan::<f16>(&question).map(told)), anew.clone(), &question);
            let moved = question.operands.map(|view| View {
                address: view.address + 4096,
                end: view.end + 4096,
                ..view
            });
            let elsewhere = Question { operands: moved, ..question };
            same(format!("{:?}", plan::<f16>(&elsewhere).map(told)), anew, &question);
            // Another operand type has its own entry.
            let other = format!("{:?}", plan::plan::<bf16>(&question).map(told));
            same(format!("{:?}", plan::<bf16>(&question).map(told)), other, &question);
        }
    }

    /// All fields of a plan.
    fn told<T: Operand>(plan: Plan<T>) -> impl std::fmt::Debug {
        let Plan { variant, leading, majors, splits, k_chunk, apart, cut, clusters, cost } = plan;
        (variant.kernel.name(), leading, majors, splits, k_chunk, apart, (cut, clusters, cost))
    }

    #[test]
    fn a_thread_forgets_rather_than_keep_plans_without_end() {
        let mut random = SmallRng::seed_from_u64(8);
        let first = question(&mut random);
        for extent in 1..=3 * KEPT as u32 {
            let question = Question { extents: [1, 1, extent], ..first };
            assert!(plan::<f16>(&question).is_some());
        }
        PLANS.with_borrow(|plans| assert!(!plans.is_empty() && plans.len() <= KEPT, "{}", plans.len()));
    }
}
