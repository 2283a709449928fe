//! Collectives of buffers: on simulators, or with NCCL on GPUs with `MOYE_DEVICE=gpu`; and the
//! computed time of a product.

use moye::half::bf16;
use moye::{Buffer, Device, Matrix, MatrixMut, Result, Stream};
use moye_parallel::{Collectives, Form, Group, RankRates, Rendezvous, Summand, Transfer, measure};
use std::time::Duration;

fn devices(world: usize) -> Option<Vec<Device>> {
    if std::env::var("MOYE_DEVICE").is_ok_and(|device| device.starts_with("gpu")) {
        let count = Device::gpu_count().unwrap() as usize;
        return (world <= count)
            .then(|| (0..world).map(|index| Device::gpu(index as u32).unwrap()).collect());
    }
    Some(Device::sim_peers(world))
}

/// The elements that each member receives, `receives` of them: rank `r` sends the values 8 r + i.
fn received<T: Summand>(
    group: &Group,
    devices: &[Device],
    [gives, receives]: [usize; 2],
    issue: impl Fn(Collectives<'_>, &mut [Transfer<'_, T>]) -> Result<()>,
) -> Vec<Vec<f64>> {
    let values = |rank: usize| (0..gives).map(|i| T::nearest((8 * rank + i % 8) as f64)).collect::<Vec<_>>();
    let streams: Vec<Stream> = devices.iter().map(|device| device.new_stream().unwrap()).collect();
    let from: Vec<Buffer<T>> =
        group.ranks().zip(devices).map(|(rank, device)| device.upload(&values(rank)).unwrap()).collect();
    let mut to: Vec<Buffer<T>> =
        devices.iter().map(|device| device.alloc_uninit(receives).unwrap()).collect();
    to.iter_mut().for_each(|to| to.fill_bytes(0xA5).unwrap());
    let calls = streams.iter().zip(&from).zip(&mut to);
    let mut calls: Vec<_> = calls
        .map(|((stream, from), to)| Transfer { stream, from: from.as_slice(), to: to.as_slice_mut() })
        .collect();
    issue(group.collectives(), &mut calls).unwrap();
    group.wait(&streams.iter().collect::<Vec<_>>()).unwrap();
    to.iter().map(|to| to.download().unwrap().into_iter().map(T::to_f64).collect()).collect()
}

/// All collectives of elements `T`: `count` from each rank.
fn check<T: Summand>(group: &Group, devices: &[Device], count: usize) {
    let (world, ranks) = (group.world(), group.ranks().collect::<Vec<_>>());
    let given = |rank: usize, i: usize| (8 * rank + i % 8) as f64;
    let sum = |i: usize| (0..world).map(|rank| given(rank, i)).sum::<f64>();
    // SAFETY: no other stream uses the buffers.
    let all = received::<T>(group, devices, [count; 2], |c, calls| unsafe { c.all_reduce(calls) });
    assert!(all.iter().all(|to| to.iter().enumerate().all(|(i, &value)| value == sum(i))), "{all:?}");
    let whole = [world * count, count];
    // SAFETY: no other stream uses the buffers.
    let all = received::<T>(group, devices, whole, |c, calls| unsafe { c.reduce_scatter(calls) });
    for (to, rank) in all.iter().zip(&ranks) {
        assert!(to.iter().enumerate().all(|(i, &value)| value == sum(rank * count + i)), "{to:?}");
    }
    let whole = [count, world * count];
    // SAFETY: no other stream uses the buffers.
    let all = received::<T>(group, devices, whole, |c, calls| unsafe { c.all_gather(calls) });
    let expected: Vec<_> = (0..world).flat_map(|rank| (0..count).map(move |i| given(rank, i))).collect();
    assert!(all.iter().all(|to| *to == expected), "{all:?}");
    // SAFETY: no other stream uses the buffers.
    let all = received::<T>(group, devices, [count; 2], |c, calls| unsafe { c.broadcast(world - 1, calls) });
    assert!(all.iter().all(|to| to.iter().enumerate().all(|(i, &v)| v == given(world - 1, i))), "{all:?}");
}

#[test]
fn collectives_sum_gather_and_send_what_ranks_give() {
    for world in [1, 2, 3, 8] {
        let Some(devices) = devices(world) else { continue };
        let group = Group::local(&devices).unwrap();
        check::<f32>(&group, &devices, 5);
        // With one kernel, and without.
        check::<bf16>(&group, &devices, 16);
        check::<bf16>(&group, &devices, 12);
        check::<f64>(&group, &devices, 0);
    }
}

#[test]
fn sums_without_nccl_are_right_whether_a_kernel_or_a_copy_pushes_the_parts() {
    for (world, counts) in [(2, &[8, 4104, 140_000][..]), (3, &[8, 1000, 2048]), (8, &[16])] {
        let (devices, group) = match std::env::var_os("MOYE_ONE_GPU") {
            Some(_) => {
                let device = Device::gpu(0).unwrap();
                let group = Group::on_one_device(&device, world).unwrap();
                (vec![device; world], group)
            }
            None => {
                let Some(devices) = devices(world) else { continue };
                let group = Group::local(&devices).unwrap();
                (devices, group)
            }
        };
        for _ in 0..3 {
            for &count in counts {
                let sum = |i: usize| (0..world).map(|rank| (8 * rank + i % 8) as f64).sum::<f64>();
                // SAFETY: no other stream uses the buffers.
                let all =
                    received::<bf16>(&group, &devices, [count; 2], |c, calls| unsafe { c.all_reduce(calls) });
                for (rank, to) in all.iter().enumerate() {
                    let wrong = to.iter().enumerate().find(|&(i, &value)| value != sum(i));
                    assert_eq!(wrong, None, "{count} elements of rank {rank} of {world}");
                }
            }
        }
    }
}

#[test]
fn threads_sum_by_one_kernel_in_every_call() {
    let Some(devices) = devices(2) else { return };
    std::thread::scope(|scope| {
        for (device, rendezvous) in devices.iter().zip(Rendezvous::threads(2)) {
            scope.spawn(move || {
                let group = Group::join(device, rendezvous, Duration::from_secs(20)).unwrap();
                for _ in 0..5 {
                    check::<bf16>(&group, std::slice::from_ref(device), 64);
                }
            });
        }
    });
}

#[test]
fn transfers_that_do_not_fit_are_refused_with_what_they_must_be() {
    let devices = Device::sim_peers(2);
    let group = Group::local(&devices).unwrap();
    let from: Vec<_> = devices.iter().map(|device| device.upload(&[1.0f32; 8]).unwrap()).collect();
    let mut to: Vec<_> = devices.iter().map(|device| device.upload(&[0.0f32; 12]).unwrap()).collect();
    let streams: Vec<_> = devices.iter().map(Device::default_stream).collect();
    let mut calls: Vec<_> = streams
        .iter()
        .zip(&from)
        .zip(&mut to)
        .map(|((stream, from), to)| Transfer { stream, from: from.as_slice(), to: to.as_slice_mut() })
        .collect();
    // SAFETY: no other stream uses the buffers, here and below.
    let error = unsafe { group.collectives().all_gather(&mut calls) }.unwrap_err().to_string();
    assert!(error.contains("rank 0 gives 8 elements and receives 12, and it must be 8 and 16"), "{error}");
    // SAFETY: no other stream uses the buffers.
    let error = unsafe { group.collectives().broadcast(2, &mut calls) }.unwrap_err().to_string();
    assert!(error.contains("a broadcast from rank 2 of 2"), "{error}");
    // SAFETY: no other stream uses the buffers.
    let error = unsafe { group.collectives().all_reduce(&mut calls[..1]) }.unwrap_err().to_string();
    assert!(error.contains("1 transfers, and this caller has 2 ranks"), "{error}");
    calls[1].from = from[1].slice(1..).unwrap();
    // SAFETY: no other stream uses the buffers.
    let error = unsafe { group.collectives().all_reduce(&mut calls) }.unwrap_err().to_string();
    assert!(error.contains("rank 0 gives 8 elements and receives 12, and it must be 8 and 8"), "{error}");
}

#[test]
fn nccl_says_its_version_or_which_library_is_missing() {
    match moye_parallel::nccl_version() {
        Ok(version) => assert!(version >= 21_000, "{version}"),
        Err(error) => {
            let error = error.to_string();
            assert!(error.contains("libnccl.so.2") && error.contains("LD_LIBRARY_PATH"), "{error}");
        }
    }
}

#[test]
fn communicators_of_the_program_are_used_and_not_destroyed() {
    use std::ffi::{c_int, c_void};
    let sims = Device::sim_peers(2);
    // SAFETY: a group of simulators refuses communicators before it uses them.
    let refused = unsafe { Group::local(&sims).unwrap().adopt(&[std::ptr::null_mut(); 2]) };
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("simulators have no communicators"), "{error}");
    let on_gpus = std::env::var("MOYE_DEVICE").is_ok_and(|device| device.starts_with("gpu"));
    let Some(devices) = devices(2).filter(|_| on_gpus) else {
        println!("skipped: it needs two GPUs");
        return;
    };
    // SAFETY: NCCL's initialisers have no conditions.
    let library = unsafe { libloading::Library::new("libnccl.so.2").unwrap() };
    type Init = unsafe extern "C" fn(*mut *mut c_void, c_int, *const c_int) -> c_int;
    type Destroy = unsafe extern "C" fn(*mut c_void) -> c_int;
    // SAFETY: the types are those of nccl.h.
    let (init, destroy) = unsafe {
        let init = library.get::<Init>(c"ncclCommInitAll").unwrap();
        (init, library.get::<Destroy>(c"ncclCommDestroy").unwrap())
    };
    let mut made = [std::ptr::null_mut(); 2];
    // SAFETY: two communicators are written, of the GPUs 0 and 1.
    assert_eq!(unsafe { init(made.as_mut_ptr(), 2, [0, 1].as_ptr()) }, 0);
    let group = Group::local(&devices).unwrap();
    // SAFETY: the communicators are alive until the group has been dropped, here and below.
    let error = unsafe { group.adopt(&[made[1], made[0]]) }.unwrap_err().to_string();
    assert!(error.contains("communicators of the ranks [1, 0], and the group's are [0, 1]"), "{error}");
    // SAFETY: the communicators outlive the group.
    unsafe { group.adopt(&made) }.unwrap();
    check::<f32>(&group, &devices, 5);
    check::<bf16>(&group, &devices, 12);
    // SAFETY: the communicators outlive the group.
    let error = unsafe { group.adopt(&made) }.unwrap_err().to_string();
    assert!(error.contains("has its communicators already"), "{error}");
    drop(group);
    // SAFETY: nothing uses them any longer.
    assert!(made.iter().all(|&communicator| unsafe { destroy(communicator) } == 0));
}

const RATES: RankRates = RankRates { product: 8e14, link: 4e11, memory: 4e12, call: 0.0 };

#[test]
fn a_product_that_takes_longer_than_its_copies_hides_them() {
    let [m, n, k] = [8192, 4096, 8192];
    let alone = RATES.time(Form::AllGather, [m, n, k], 1);
    assert_eq!(RATES.time(Form::AllGather, [m, n, k], 2), alone);
    // A ten times slower link: all shards wait.
    let slow = RankRates { link: RATES.link / 10.0, ..RATES };
    let copy = 2.0 * (m / 2 * k) as f64 / slow.link;
    assert!((slow.time(Form::AllGather, [m, n, k], 2) - (copy + alone / 2.0)).abs() < 1e-9);
}

#[test]
fn stores_that_take_longer_than_the_products_of_their_rows_set_the_time() {
    let [m, n, k] = [8192, 8192, 4096];
    let (alone, read) = (RATES.time(Form::AllGather, [m, n, k], 1), 2.0 * 4096.0 * 8192.0 / RATES.memory);
    assert!((RATES.time(Form::ReduceScatter, [m, n, k], 2) - alone - read).abs() < 1e-9);
    let slow = RankRates { link: RATES.link / 10.0, ..RATES };
    let stored = 2.0 * 4096.0 * 8192.0 / slow.link;
    assert!((slow.time(Form::ReduceScatter, [m, n, k], 2) - stored - alone / 2.0 - read).abs() < 1e-9);
}

#[test]
fn the_part_of_a_sum_over_ranks_that_is_read_over_the_link_grows_with_their_number() {
    let [m, n, k] = [64, 8192, 8192];
    let bytes = |count: usize| 2.0 * count as f64;
    let time = |world: usize| RATES.time(Form::AllReduce, [m, n, k / world], world);
    // Weights of few rows are read from memory for longer than they are multiplied.
    assert!((time(1) - bytes(n * k) / RATES.memory).abs() < 1e-9);
    for world in [2, 4, 8] {
        let link = (world - 1) as f64 * bytes(m * n) / RATES.link;
        assert!((time(world) - time(1) / world as f64 - link).abs() < 1e-9, "{world}");
    }
}

#[test]
fn measurements_on_three_devices_report_the_extents_of_equal_shares() {
    let devices = Device::sim_peers(3);
    for (form, whole) in [(Form::AllGather, [65, 24, 16]), (Form::ReduceScatter, [65, 16, 24])] {
        let plain = |_: &Stream, a: Matrix<'_, bf16>, b: Matrix<'_, bf16>, c: MatrixMut<'_, bf16>| {
            // A rank's columns or its slice of K.
            let own = if form == Form::AllGather { [8, 16] } else { [16, 8] };
            assert_eq!([a.rows(), a.cols()], [65, own[1]]);
            assert_eq!([b.rows(), b.cols(), c.rows(), c.cols()], [own[0], own[1], 65, own[0]]);
            std::thread::sleep(Duration::from_millis(2));
            Ok(())
        };
        let measured = measure::product(&devices, &plain, form, [65, 16, 16]).unwrap();
        assert_eq!(measured.extents, whole);
        assert!(measured.time > 0.0 && measured.alone >= 2e3 && measured.rate > 0.0, "{measured:?}");
    }
    let (time, extents) = measure::feed_forward(&devices, [67, 8, 40]).unwrap();
    assert!(time > 0.0 && extents == [67, 8, 48], "{time} {extents:?}");
}
