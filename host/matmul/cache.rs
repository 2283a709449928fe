//! What a thread keeps for products that repeat: plans, and launches.
//!
//! A plan compares a few hundred choices, which takes longer than a small product on a GPU. Its
//! [`Query`] leaves out all on which a plan does not depend, such as addresses beyond their
//! alignment, before the plan is made; so a cached plan equals a new one.
//!
//! A program also computes the same product again: a layer of a network, step after step, in the
//! same buffers. Its launches are the same, so a thread keeps them as the driver takes them.

use super::descriptor::Descriptor;
use super::element::{Operand, Output};
use super::operand::View;
use super::plan::{self, Plan, Query};
use crate::Result;
use crate::device::gpu::Gpu;
use crate::launch::Prepared;
use crate::memory::{Used, Workspace};
use crate::mix::{BuildMix, place};
use crate::stream::Stream;
use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::HashMap;

/// The capacity of a thread's plans. When it is full, they are cleared.
const MOST_PLANS: usize = 1024;
/// The products whose launches a thread keeps. Two of the same place replace each other.
const PLACES: usize = 64;
/// The most launches of a product that is kept.
const MOST_LAUNCHES: usize = 8;

/// Plans by query; each operand type has its own.
type Plans = HashMap<(TypeId, Query), Box<dyn Any>, BuildMix>;

thread_local! {
    static PLANS: RefCell<Plans> = RefCell::default();
    /// Each a [`Repeated`] of its type of factors.
    static REPEATED: RefCell<[Option<Box<dyn Any>>; PLACES]> = const { RefCell::new([const { None }; PLACES]) };
}

/// As [`plan::plan`].
pub(super) fn plan<T: Operand>(query: &Query) -> Option<Plan<T>> {
    let query = Query { operands: query.operands.map(View::anywhere), ..*query };
    let key = (TypeId::of::<T>(), query);
    PLANS.with_borrow_mut(|plans| {
        if let Some(known) = plans.get(&key) {
            return *known.downcast_ref::<Option<Plan<T>>>().expect("the type is part of the key");
        }
        if plans.len() >= MOST_PLANS {
            plans.clear();
        }
        let plan = plan::plan::<T>(&query);
        plans.insert(key, Box::new(plan));
        plan
    })
}

/// A product: all on which its launches depend, but for the memory that its stream keeps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Key<S> {
    /// The types of the operands and of the result.
    types: TypeId,
    product: Descriptor<S>,
    /// The addresses of the GPU and of the stream.
    on: [usize; 2],
}

impl<S> Key<S> {
    /// The key of a product on a stream of a GPU.
    pub fn of<T: Operand<Scalar = S>, U: Output<T>>(
        product: &Descriptor<S>,
        gpu: &'static Gpu,
        stream: &Stream,
    ) -> Self
    where
        Descriptor<S>: Copy,
    {
        let on = [std::ptr::from_ref(gpu).addr(), stream.raw(gpu).addr()];
        Self { types: TypeId::of::<(T, U)>(), product: *product, on }
    }

    /// Its place among the kept ones. Keys that differ only in another word replace each other.
    fn place(&self) -> usize {
        let ([m, n, k], [a, b]) = (self.product.extents, self.product.operands);
        place::<PLACES>([a.address, b.address, self.product.c.address, m.into(), n.into(), k.into()])
    }
}

/// A product that was computed.
struct Repeated<S> {
    key: Key<S>,
    launches: Vec<Prepared>,
    /// Its workspace.
    workspace: Used,
    /// The address of the stream's counters.
    counters: Option<u64>,
}

/// What [`launch`] has done.
pub(super) enum Replay<'a> {
    /// The launches.
    Launched,
    /// Nothing: the product was not computed before, or the memory of its launches is another one.
    /// The workspace for it, if its size is known.
    New(Option<Workspace<'a>>),
}

/// Launches a product again.
///
/// # Safety
/// As for [`super::launch::run`]; `key` is that of the product, whose buffers are on the stream's
/// device, which is `gpu`. The stream captures no graph of its own.
pub(super) unsafe fn launch<'a, S: PartialEq + 'static>(
    key: &Key<S>,
    gpu: &'static Gpu,
    stream: &'a Stream,
) -> Result<Replay<'a>> {
    let bytes = with_known(key, |known| known.workspace.bytes);
    // Held until all has been launched. A caller's allocator may compute products, so it is called
    // between two looks at the kept ones.
    let workspace = bytes.map(|bytes| Workspace::new(stream, bytes)).transpose()?.flatten();
    let launched = with_known(key, |known| {
        let used = workspace.as_ref().map(Workspace::used).unwrap_or_default();
        if used != known.workspace || stream.kept(gpu).known_counters() != known.counters {
            return None;
        }
        let raw = stream.raw(gpu);
        // The context is current if there is a workspace.
        let bound = if workspace.is_some() { Ok(()) } else { gpu.bind() };
        Some(bound.and_then(|()| {
            // SAFETY: the caller's contract: the launches were made for the same product, on this
            // stream, with the same workspace and counters.
            known.launches.iter().try_for_each(|launch| unsafe { launch.launch(gpu, raw) })
        }))
    });
    match launched.flatten() {
        Some(launched) => launched.map(|()| Replay::Launched),
        None => Ok(Replay::New(workspace)),
    }
}

/// The result of `f` of the kept product of this key.
fn with_known<S: PartialEq + 'static, R>(key: &Key<S>, f: impl FnOnce(&Repeated<S>) -> R) -> Option<R> {
    REPEATED.with_borrow(|kept| {
        let known = kept[key.place()].as_ref()?.downcast_ref::<Repeated<S>>()?;
        (known.key == *key).then(|| f(known))
    })
}

/// Keeps the launches of a product, unless a graph uses their memory.
pub(super) fn keep<S: 'static>(
    key: Key<S>,
    launches: Vec<Prepared>,
    workspace: Used,
    (gpu, stream): (&'static Gpu, &Stream),
) {
    if launches.len() <= MOST_LAUNCHES && Workspace::is_kept(workspace.bytes) && !workspace.is_captured {
        let counters = stream.kept(gpu).known_counters();
        let place = key.place();
        let repeated = Box::new(Repeated { key, launches, workspace, counters });
        REPEATED.with_borrow_mut(|kept| kept[place] = Some(repeated));
    }
}

#[cfg(test)]
mod plan_tests {
    use super::super::plan_tests::query;
    use super::*;
    use half::{bf16, f16};
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    fn random_query(random: &mut SmallRng) -> Query {
        let [m, n, k] = [(); 3].map(|()| 1 << random.random_range(0..13));
        let mut query = Query {
            written_by_sgemm: random.random::<bool>(),
            wgmma: random.random::<bool>(),
            ..query(m, n, k)
        };
        for (view, extent) in query.operands.iter_mut().zip([m, n]) {
            (view.mn, view.k) = if random.random() { (k.into(), 1) } else { (1, extent.into()) };
            view.address = 256 + random.random_range(0..4) * 2 + random.random_range(0..8) * 16;
            let bytes = 2 * u64::from(extent) * u64::from(k);
            view.end = view.address + bytes + random.random_range(0..3) * 2;
        }
        query
    }

    /// All fields of a plan.
    fn fields<T: Operand + std::fmt::Debug>(plan: Option<Plan<T>>) -> String {
        format!("{plan:?}")
    }

    #[test]
    fn a_cached_plan_is_the_one_that_would_be_made() {
        let mut random = SmallRng::seed_from_u64(7);
        for _ in 0..200 {
            let query = random_query(&mut random);
            let anew = fields(plan::plan::<f16>(&query));
            // Planned, then found in the cache, also for matrices at other addresses.
            assert_eq!(fields(plan::<f16>(&query)), anew, "{query:?}");
            let moved = |view: View| View { address: view.address + 4096, end: view.end + 4096, ..view };
            let elsewhere = Query { operands: query.operands.map(moved), ..query };
            assert_eq!(fields(plan::<f16>(&elsewhere)), anew, "{query:?}");
            // Another operand type has its own entry.
            assert_eq!(fields(plan::<bf16>(&query)), fields(plan::plan::<bf16>(&query)), "{query:?}");
        }
    }

    #[test]
    fn a_thread_forgets_plans_rather_than_keep_them_without_end() {
        for extent in 1..=3 * MOST_PLANS as u32 {
            assert!(plan::<f16>(&query(1, 1, extent)).is_some());
        }
        PLANS.with_borrow(|plans| assert!((1..=MOST_PLANS).contains(&plans.len()), "{}", plans.len()));
    }
}

#[cfg(all(test, feature = "matmul-f32"))]
mod tests {
    use super::*;
    use crate::{Buffer, Device, Matmul, Matrix, MatrixMut};

    /// The key of a product of these buffers, changed by `change`.
    fn key<'a>(
        [a, b]: [&'a Buffer<f32>; 2],
        c: &mut Buffer<f32>,
        (m, n, k): (usize, usize, usize),
        change: impl FnOnce(Matmul<'a, f32>) -> Matmul<'a, f32>,
    ) -> Key<f32> {
        let (device, mut c) = (a.device(), MatrixMut::row_major(c, m, n).unwrap());
        let (a, b) = (Matrix::row_major(a, m, k).unwrap(), Matrix::row_major(b, k, n).unwrap());
        let product = Descriptor::of(&change(Matmul::new(a, b)), device, &mut c).unwrap().unwrap();
        Key { types: TypeId::of::<(f32, f32)>(), product, on: [1, 2] }
    }

    #[test]
    fn products_that_differ_in_anything_have_different_keys() {
        let device = Device::sim();
        let buffer = || device.alloc_zeroed::<f32>(4096).unwrap();
        let (a, b, other, bias, mut c) = (buffer(), buffer(), buffer(), buffer(), buffer());
        let of = |len: usize| bias.slice(..len).unwrap();
        let cube = (16, 16, 16);
        let mut keys = vec![
            key([&a, &b], &mut c, cube, |product| product),
            key([&a, &b], &mut c, (8, 16, 16), |product| product),
            key([&a, &b], &mut c, (16, 8, 16), |product| product),
            key([&a, &b], &mut c, (16, 16, 8), |product| product),
            key([&other, &b], &mut c, cube, |product| product),
            key([&a, &other], &mut c, cube, |product| product),
            key([&a, &b], &mut buffer(), cube, |product| product),
            key([&a, &b], &mut c, cube, |product| product.transpose_a()),
            key([&a, &b], &mut c, cube, |product| product.transpose_b()),
            key([&a, &b], &mut c, cube, |product| product.alpha(2.0)),
            key([&a, &b], &mut c, cube, |product| product.beta(1.0)),
            key([&a, &b], &mut c, cube, |product| product.bias(of(16))),
            key([&a, &b], &mut c, cube, |product| product.bias_rows(of(16))),
            key([&a, &b], &mut c, cube, |product| product.relu()),
            key([&a, &b], &mut c, cube, |product| product.gelu()),
            key([&a, &b], &mut c, cube, |product| product.gelu_tanh()),
            key([&a, &b], &mut c, cube, |product| product.tf32()),
            key([&a, &b], &mut c, cube, |product| product.batch(2, [256, 256, 256])),
            key([&a, &b], &mut c, cube, |product| product.batch(3, [256, 256, 256])),
            key([&a, &b], &mut c, cube, |product| product.batch(3, [0, 256, 256])),
            key([&a, &b], &mut c, cube, |product| product.tile(128, 128)),
            key([&a, &b], &mut c, cube, |product| product.tile(0, 0)),
            key([&a, &b], &mut c, cube, |product| product.split_k(1)),
            key([&a, &b], &mut c, cube, |product| product.split_k(2)),
            key([&a, &b], &mut c, cube, |product| product.kernel("one")),
            key([&a, &b], &mut c, cube, |product| product.kernel("other")),
        ];
        let first = keys[0];
        assert!(key([&a, &b], &mut c, cube, |product| product) == first, "the same product");
        keys.push(Key { on: [1, 3], ..first });
        for (i, key) in keys.iter().enumerate() {
            let same = keys.iter().position(|other| other == key);
            assert_eq!(same, Some(i), "number {i} has the key of another product");
        }
    }
}
