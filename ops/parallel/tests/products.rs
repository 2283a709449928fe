//! Products over several devices compared with float64: simulators, or GPUs with `MOYE_DEVICE=gpu`.

use crate::random::Random;
use moye::half::{bf16, f16};
use moye::profile::Card;
use moye::{Device, Element, Matrix, MatrixMut, Stream};
use moye_device::number::Scalar;
use moye_parallel::kernel::{GatheredKernels, PartialKernels, ReducedKernels};
use moye_parallel::{
    Form, Group, Operands, ParallelElement, ParallelMatmul, ParallelMatmulBuilder, Rendezvous,
};
use std::collections::BTreeSet;
use std::time::Duration;

/// The devices of a group, or `None` if there are too few GPUs.
fn devices(world: usize) -> Option<Vec<Device>> {
    if std::env::var("MOYE_DEVICE").is_ok_and(|device| device.starts_with("gpu")) {
        let count = Device::gpu_count().unwrap() as usize;
        return (world <= count)
            .then(|| (0..world).map(|index| Device::gpu(index as u32).unwrap()).collect());
    }
    Some(Device::sim_peers(world))
}

/// The devices of a group, and the group. With `MOYE_ONE_GPU` all ranks are on GPU 0.
fn group(world: usize) -> Option<(Vec<Device>, Group)> {
    if std::env::var_os("MOYE_ONE_GPU").is_some() {
        let device = Device::gpu(0).unwrap();
        let group = Group::on_one_device(&device, world).unwrap();
        return Some((vec![device; world], group));
    }
    let devices = devices(world)?;
    let group = Group::local(&devices).unwrap();
    Some((devices, group))
}

/// Values from -1 to 1, different for each seed.
fn random<T: Scalar>(count: usize, seed: u64) -> Vec<T> {
    let mut random = Random::new(seed);
    (0..count).map(|_| T::nearest(random.unit().into())).collect()
}

/// A product to check.
#[derive(Clone)]
struct Case<'a> {
    form: Form,
    extents: [usize; 3],
    shards: &'a [usize],
    /// Padding elements between the rows of C.
    padding: usize,
    tile: Option<&'static str>,
}

/// A rank's matrices.
struct Data<T> {
    a: Vec<T>,
    b: Vec<T>,
}

impl Case<'_> {
    fn rows(&self, rank: usize) -> [usize; 2] {
        let [m, ..] = self.extents;
        match self.form {
            Form::AllGather => [self.shards[rank], m],
            Form::ReduceScatter => [m, self.shards[rank]],
            Form::AllReduce => [m, m],
        }
    }

    fn data<T: Scalar>(&self, seed: u64) -> Vec<Data<T>> {
        let [_, n, k] = self.extents;
        let rank = |rank: usize| {
            let seed = 100 * seed + 2 * rank as u64;
            Data { a: random(self.rows(rank)[0] * k, seed), b: random(n * k, seed + 1) }
        };
        (0..self.shards.len()).map(rank).collect()
    }

    /// A rank's result.
    fn reference<T: Scalar>(&self, data: &[Data<T>], rank: usize) -> Vec<f64> {
        let [m, n, k] = self.extents;
        let product = |a: &[T], b: &[T], i: usize, j: usize| -> f64 {
            (0..k).map(|x| a[i * k + x].to_f64() * b[j * k + x].to_f64()).sum()
        };
        let first: usize = self.shards[..rank].iter().sum();
        let rows = match self.form {
            Form::ReduceScatter => first..first + self.shards[rank],
            _ => 0..m,
        };
        let all: Vec<T> = data.iter().flat_map(|data| data.a.iter().copied()).collect();
        let mut c = Vec::new();
        for i in rows {
            for j in 0..n {
                c.push(match self.form {
                    Form::AllGather => product(&all, &data[rank].b, i, j),
                    _ => data.iter().map(|data| product(&data.a, &data.b, i, j)).sum(),
                });
            }
        }
        c
    }
}

/// Runs a product `times` times, each time with other operands, and checks every result of the
/// ranks of `group`, whose devices are given.
fn check<T: ParallelElement<Bits = u16> + Scalar>(
    group: &Group,
    devices: &[Device],
    case: &Case<'_>,
    times: u64,
) {
    let ranks: Vec<_> = group.ranks().collect();
    let [_, n, k] = case.extents;
    let builder = match case.form {
        Form::AllGather => ParallelMatmul::all_gather(group, case.extents),
        Form::ReduceScatter => ParallelMatmul::reduce_scatter(group, case.extents),
        Form::AllReduce => ParallelMatmul::all_reduce(group, case.extents),
    };
    let builder = case.tile.into_iter().fold(builder.shards(case.shards), ParallelMatmulBuilder::tile);
    let product = builder.build::<T>().unwrap();
    for seed in 0..times {
        let data = case.data::<T>(seed);
        let width = n + case.padding;
        let on: Vec<_> = devices
            .iter()
            .zip(&ranks)
            .map(|(device, &rank)| {
                (device.upload(&data[rank].a).unwrap(), device.upload(&data[rank].b).unwrap())
            })
            .collect();
        let mut results: Vec<_> = devices
            .iter()
            .zip(&ranks)
            .map(|(device, &rank)| {
                let mut c = device.alloc_uninit::<T>(case.rows(rank)[1] * width).unwrap();
                c.fill_bytes(0xA5).unwrap();
                c
            })
            .collect();
        let streams: Vec<Stream> = devices.iter().map(|device| device.new_stream().unwrap()).collect();
        let mut calls = Vec::new();
        for (at, c) in results.iter_mut().enumerate() {
            let [rows_a, rows_c] = case.rows(ranks[at]);
            calls.push(Operands {
                stream: &streams[at],
                a: Matrix::row_major(&on[at].0, rows_a, k).unwrap(),
                b: Matrix::row_major(&on[at].1, n, k).unwrap(),
                c: MatrixMut::new(c, rows_c, n, (width, 1)).unwrap(),
            });
        }
        // SAFETY: no other stream uses the matrices.
        unsafe { product.run(&mut calls).unwrap() };
        group.wait(&streams.iter().collect::<Vec<_>>()).unwrap();
        for (&rank, c) in ranks.iter().zip(&results) {
            let (c, expected) = (c.download().unwrap(), case.reference(&data, rank));
            let (mut difference, mut norm, mut most) = (0.0, 0.0, 0.0f64);
            for (at, expected) in expected.iter().enumerate() {
                let value = c[at / n * width + at % n].to_f64();
                difference += (value - expected).powi(2);
                norm += expected.powi(2);
                most = most.max((value - expected).abs() / (1.0 + expected.abs()));
            }
            let error = (difference / norm.max(1e-30)).sqrt();
            let what = format!(
                "{} {:?} {:?} shards {:?} rank {rank} call {seed}",
                <T as Element>::NAME,
                case.form,
                case.extents,
                case.shards
            );
            assert!(error < 1e-2 && most < 0.05, "{what}: {error}, an element by {most}");
            let poison = <T as Element>::from_bits(0xA5A5).to_f64();
            for (at, value) in c.iter().enumerate().filter(|(at, _)| at % width >= n) {
                assert_eq!(
                    value.to_f64().to_bits(),
                    poison.to_bits(),
                    "{what}: element {at} behind a row is written"
                );
            }
        }
    }
}

const FORMS: [Form; 3] = [Form::AllGather, Form::ReduceScatter, Form::AllReduce];

#[test]
fn each_form_is_the_product_of_one_device_on_any_shards() {
    for (extents, shards, padding) in [
        ([200, 40, 72], &[100, 100][..], 0),
        ([7, 24, 16], &[3, 4], 0),
        ([130, 19, 40], &[129, 1], 2),
        ([5, 8, 8], &[0, 5], 0),
        ([140, 264, 24], &[60, 0, 80], 0),
        ([9, 16, 64], &[2, 3, 3, 1], 3),
        ([3, 9, 8], &[3], 0),
        ([17, 8, 8], &[1, 2, 3, 0, 5, 1, 4, 1], 0),
    ] {
        let Some((devices, group)) = group(shards.len()) else { continue };
        for form in FORMS {
            check::<bf16>(&group, &devices, &Case { form, extents, shards, padding, tile: None }, 2);
        }
    }
}

#[test]
fn random_extents_and_shards_of_one_to_eight_ranks_are_the_product_of_one_device() {
    let mut random = Random::new(57);
    let mut next = |end| random.below(end);
    for world in [5, 6, 7, 1, 2, 3, 4, 8] {
        let shards: Vec<_> = (0..world).map(|_| next(3) * next(12)).collect();
        let extents = [shards.iter().sum(), 1 + next(40), 8 * (1 + next(9))];
        let Some((devices, group)) = group(world) else { continue };
        for form in FORMS {
            let case = Case { form, extents, shards: &shards, padding: next(4), tile: None };
            check::<bf16>(&group, &devices, &case, 2);
        }
    }
}

#[test]
fn ranks_that_do_not_reach_each_others_memory_compute_the_same_by_collectives() {
    let on_gpus = std::env::var("MOYE_DEVICE").is_ok_and(|device| device.starts_with("gpu"));
    let (group, devices, shards) = if on_gpus {
        // With NCCL.
        let Some(devices) = devices(2) else { return };
        (Group::local(&devices).unwrap().without_peers(), devices, &[16, 7][..])
    } else {
        let devices: Vec<_> = (0..3).map(|_| Device::sim()).collect();
        let group = Group::local(&devices).unwrap();
        let said = group.explain();
        assert!(said.contains("does not reach that of rank 1), by NCCL beside plain products"), "{said}");
        (group, devices, &[16, 0, 7][..])
    };
    for form in FORMS {
        let case = Case { form, extents: [23, 19, 40], shards, padding: 2, tile: None };
        check::<bf16>(&group, &devices, &case, 2);
    }
}

#[test]
fn each_tile_and_element_type_computes_the_same() {
    let Some((devices, group)) = group(2) else { return };
    for form in FORMS {
        for tile in ["128x256", "128x128"] {
            let case =
                Case { form, extents: [150, 264, 72], shards: &[140, 10], padding: 0, tile: Some(tile) };
            check::<f16>(&group, &devices, &case, 1);
        }
        let case =
            Case { form, extents: [131, 272, 40], shards: &[1, 130], padding: 1, tile: Some("128x256") };
        check::<bf16>(&group, &devices, &case, 1);
    }
}

/// Runs all forms and tiles for `T` on ranks that share a simulator of a card with one or two SMs,
/// so that each launch has more tiles than blocks. Checks that every kernel that multiplies ran.
fn check_on_few_blocks<T: ParallelElement<Bits = u16> + Scalar>(blocks: u64, shards: &[usize]) {
    let card = Card { multiprocessors: blocks, ..Card::named("H200").unwrap() };
    let device = Device::sim_of(&card);
    let devices = vec![device.clone(); shards.len()];
    let group = Group::on_one_device(&device, shards.len()).unwrap();
    let m = shards.iter().sum();
    // Three columns of the widest tile, and two stages of K, so that the tiles of a block use all
    // stages more than once.
    let (n, k) = (520, 72);
    let mut launched = BTreeSet::new();
    let mut run = |case: Case<'_>| {
        let profile = device
            .profile(|| {
                check::<T>(&group, &devices, &case, 1);
                Ok(())
            })
            .unwrap();
        for kernel in profile.kernels {
            if ["gathered_", "partial_", "reduced_"].iter().any(|of| kernel.kernel.starts_with(of)) {
                assert!(
                    u64::from(kernel.grid.x) <= blocks && blocks < 3,
                    "{}: {}",
                    kernel.kernel,
                    kernel.grid.x
                );
                launched.insert(kernel.kernel);
            }
        }
    };
    for form in FORMS {
        for tile in ["128x256", "128x128"] {
            run(Case { form, extents: [m, n, k], shards, padding: 0, tile: Some(tile) });
        }
    }
    let few: Vec<_> = shards.iter().map(|rows| rows.div_ceil(8)).collect();
    let extents = [few.iter().sum(), n, k];
    run(Case { form: Form::AllReduce, extents, shards: &few, padding: 0, tile: None });
    let gathered = <T as GatheredKernels>::KERNELS.iter().map(|kernel| kernel.name());
    let partial = <T as PartialKernels>::KERNELS.iter().map(|kernel| kernel.name());
    let reduced = <T as ReducedKernels>::KERNELS.iter().map(|kernel| kernel.name());
    assert_eq!(launched, gathered.chain(partial).chain(reduced).map(str::to_owned).collect());
}

#[test]
fn blocks_that_compute_several_tiles_compute_the_same() {
    check_on_few_blocks::<bf16>(1, &[131, 9]);
    check_on_few_blocks::<f16>(2, &[5, 130, 18]);
}

#[test]
fn threads_with_a_rank_each_meet_in_every_call_whatever_their_pace() {
    // Calls of each form; simulators run fewer.
    let on_gpus = std::env::var("MOYE_DEVICE").is_ok_and(|device| device.starts_with("gpu"));
    let calls = if on_gpus && std::env::var_os("MOYE_WATCHED").is_none() { 100 } else { 2 };
    let Some(devices) = devices(2) else { return };
    let shards = &[70, 65][..];
    std::thread::scope(|scope| {
        for (device, rendezvous) in devices.iter().zip(Rendezvous::threads(2)) {
            scope.spawn(move || {
                let rank = rendezvous.rank() as u64;
                let group = Group::join(device, rendezvous, Duration::from_secs(20)).unwrap();
                for call in 0..calls {
                    for form in FORMS {
                        let pause = (call * 7919 + 31 * rank) % 5;
                        std::thread::sleep(Duration::from_millis(if call % 2 == rank { pause } else { 0 }));
                        let case = Case { form, extents: [135, 72, 40], shards, padding: 0, tile: None };
                        check::<bf16>(&group, std::slice::from_ref(device), &case, 1);
                    }
                }
            });
        }
    });
}

#[test]
fn hundreds_of_calls_on_any_streams_that_no_rank_waits_for_meet_whatever_the_pace() {
    let calls = if std::env::var_os("MOYE_WATCHED").is_none() { 200 } else { 6 };
    let Some(devices) = devices(2) else { return };
    let [m, n, k] = [6, 8, 16];
    std::thread::scope(|scope| {
        for (device, rendezvous) in devices.iter().zip(Rendezvous::threads(2)) {
            scope.spawn(move || {
                let rank = rendezvous.rank();
                let group = Group::join(device, rendezvous, Duration::from_secs(20)).unwrap();
                let products = [
                    ParallelMatmul::all_gather(&group, [m, n, k]),
                    ParallelMatmul::reduce_scatter(&group, [m, n, k]),
                    ParallelMatmul::all_reduce(&group, [m, n, k]),
                ]
                .map(|builder| builder.build::<bf16>().unwrap());
                // The values of rank r are r + 1 times the call's number.
                let value = |call: usize, rank: usize| ((1 + rank) * (1 + call % 8)) as f32;
                let b = device.upload(&vec![bf16::ONE; n * k]).unwrap();
                let a: Vec<_> = (0..8)
                    .map(|call| device.upload(&vec![bf16::from_f32(value(call, rank)); m * k]).unwrap())
                    .collect();
                let mut results: Vec<_> =
                    (0..calls).map(|_| device.alloc_uninit::<bf16>(m * n).unwrap()).collect();
                let streams = [device.new_stream().unwrap(), device.new_stream().unwrap()];
                for (call, c) in results.iter_mut().enumerate() {
                    if call / 3 % 2 == rank {
                        std::thread::sleep(Duration::from_millis((call * 7919 % 4) as u64));
                    }
                    let product = &products[call % 3];
                    let [rows_a, rows_c] = match product.form() {
                        Form::AllGather => [m / 2, m],
                        Form::ReduceScatter => [m, m / 2],
                        Form::AllReduce => [m, m],
                    };
                    let mut operands = [Operands {
                        // Two calls on a stream, then two on the other one.
                        stream: &streams[call / 2 % 2],
                        a: Matrix::row_major(&a[call % 8], rows_a, k).unwrap(),
                        b: Matrix::row_major(&b, n, k).unwrap(),
                        c: MatrixMut::row_major(c, rows_c, n).unwrap(),
                    }];
                    // SAFETY: no other stream uses the matrices.
                    unsafe { product.run(&mut operands).unwrap() };
                }
                group.wait(&[&streams[0], &streams[1]]).unwrap();
                for (call, c) in results.iter().enumerate() {
                    let form = products[call % 3].form();
                    let rows = if form == Form::ReduceScatter { m / 2 } else { m };
                    for (at, found) in c.download().unwrap()[..rows * n].iter().enumerate() {
                        let sum = match form {
                            Form::AllGather => value(call, at / n / (m / 2)),
                            _ => value(call, 0) + value(call, 1),
                        };
                        let expected = sum * k as f32;
                        assert_eq!(found.to_f32(), expected, "{form:?}, rank {rank}, call {call}, {at}");
                    }
                }
            });
        }
    });
}
