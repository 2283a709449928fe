//! Ranks on stand-ins for the driver and for NCCL: calls that wait for a rank that never arrives
//! end by the timeout, and name it.

use crate::random::Random;
use moye::half::bf16;
use moye::{Device, Matrix, MatrixMut, Result, Stream};
use moye_parallel::{Group, Operands, ParallelMatmul, Rendezvous, Summand, Transfer};
use std::ffi::{c_int, c_void};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(2);
/// The timeout where all ranks arrive.
const LONG: Duration = Duration::from_secs(60);
/// The variable with which a test starts itself again.
const AGAIN: &str = "MOYE_TEST_STAND_INS";

/// The libraries by their source.
const LIBRARIES: [(&str, &str); 2] =
    [("libcuda.so.1", include_str!("driver.rs")), ("libnccl.so.2", include_str!("nccl.rs"))];

/// The folder of the libraries, which the first test compiles; `None` without a compiler.
fn libraries() -> Option<PathBuf> {
    let mut hasher = DefaultHasher::new();
    LIBRARIES.hash(&mut hasher);
    let tests = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let tests = if tests.is_dir() { tests.to_owned() } else { std::env::temp_dir() };
    let folder = tests.join(format!("stand-ins-{:x}", hasher.finish()));
    if folder.is_dir() {
        return Some(folder);
    }
    let fresh = tests.join(format!("stand-ins-of-{}", std::process::id()));
    std::fs::create_dir_all(&fresh).unwrap();
    for (file, source) in LIBRARIES {
        let path = fresh.join(format!("{file}.rs"));
        std::fs::write(&path, source).unwrap();
        let mut rustc = Command::new("rustc");
        rustc.args([
            "--edition",
            "2024",
            "--crate-type",
            "cdylib",
            "--crate-name",
            "stand_in",
            "-A",
            "warnings",
        ]);
        let Ok(output) = rustc.arg("-o").arg(fresh.join(file)).arg(path).output() else {
            println!("skipped: rustc cannot be run");
            return None;
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    // Another test may have been faster.
    if std::fs::rename(&fresh, &folder).is_err() {
        std::fs::remove_dir_all(fresh).unwrap();
    }
    Some(folder)
}

/// Runs test `name` again with the stand-ins and these variables; returns what it said, and which
/// communicators ended. `None` without a compiler.
fn again(name: &str, variables: &[(&str, &str)]) -> Option<(String, String)> {
    let folder = libraries()?;
    let notes = std::env::temp_dir().join(format!("moye-notes-{}", std::process::id()));
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("stand_ins::{name}"), "--nocapture"]).env(AGAIN, "1");
    command.env("LD_LIBRARY_PATH", &folder).env("STAND_IN_NOTES", &notes);
    let output = command.envs(variables.iter().copied()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let noted = std::fs::read_to_string(&notes).unwrap_or_default();
    let _ = std::fs::remove_file(notes);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    Some((said, noted))
}

/// Runs ranks as threads, each with a GPU, and prints their results. Waits for all but `hung`.
fn run(
    world: usize,
    hung: Option<usize>,
    act: impl Fn(&Group, &Device, usize) -> Result<()> + Clone + Send + 'static,
) {
    run_with(TIMEOUT, world, hung, act);
}

/// [`run`] with another timeout.
fn run_with(
    timeout: Duration,
    world: usize,
    hung: Option<usize>,
    act: impl Fn(&Group, &Device, usize) -> Result<()> + Clone + Send + 'static,
) {
    let (done, ended) = channel();
    for rendezvous in Rendezvous::threads(world) {
        let (done, act, rank) = (done.clone(), act.clone(), rendezvous.rank());
        std::thread::spawn(move || {
            let device = Device::gpu(rank as u32).unwrap();
            let group = Group::join(&device, rendezvous, timeout).unwrap();
            let result = act(&group, &device, rank).map_err(|error| error.to_string());
            drop(group);
            done.send((rank, result)).unwrap();
        });
    }
    let start = Instant::now();
    for _ in 0..world - usize::from(hung.is_some()) {
        let (rank, result) = ended.recv_timeout(20 * timeout).expect("a rank hangs");
        println!("rank {rank} after {:.1} s: {result:?}", start.elapsed().as_secs_f64());
    }
    std::process::exit(0);
}

/// Asserts that all ranks but `hung` named only that one.
fn names(said: &str, world: usize, hung: usize, expected: &str) {
    for rank in (0..world).filter(|&rank| rank != hung) {
        let found = said.lines().find(|line| line.starts_with(&format!("rank {rank} after")));
        assert!(found.is_some_and(|line| line.contains(expected)), "rank {rank}, {expected}: {said}");
    }
}

fn is_again() -> bool {
    std::env::var_os(AGAIN).is_some()
}

/// Does not return if this rank hangs.
fn hang(is_hung: bool) {
    if is_hung {
        loop {
            std::thread::park();
        }
    }
}

/// A sum by NCCL.
fn sum(group: &Group, device: &Device, stream: &Stream) -> Result<()> {
    sum_of(1.0f32, group, device, stream)
}

fn sum_of<T: Summand>(value: T, group: &Group, device: &Device, stream: &Stream) -> Result<()> {
    let (from, mut to) = (device.upload(&[value; 8])?, device.alloc_uninit::<T>(8)?);
    let call = Transfer { stream, from: from.as_slice(), to: to.as_slice_mut() };
    // SAFETY: no other stream uses the buffers.
    let issued = unsafe { group.collectives().all_reduce(&mut [call]) };
    // The stand-in's memory stays allocated.
    std::mem::forget((from, to));
    issued
}

#[test]
fn a_communicator_that_a_rank_does_not_create_is_aborted_and_the_rank_named() {
    let name = "a_communicator_that_a_rank_does_not_create_is_aborted_and_the_rank_named";
    if is_again() {
        // Without access to each other's memory a product needs NCCL.
        return run(3, Some(2), |group, _, _| {
            ParallelMatmul::all_reduce(group, [4, 8, 16]).build::<bf16>().map(drop)
        });
    }
    let Some((said, notes)) = again(name, &[("STAND_IN_HANGS", "init 2")]) else { return };
    names(&said, 3, 2, "rank 2 did not arrive within 2 s");
    assert!(notes.contains("abort 0") && notes.contains("abort 1"), "{notes}");
}

#[test]
fn a_rank_that_hangs_in_a_collective_of_nccl_is_named() {
    let name = "a_rank_that_hangs_in_a_collective_of_nccl_is_named";
    if is_again() {
        return run(3, Some(2), |group, device, _| sum(group, device, &device.new_stream()?));
    }
    let Some((said, notes)) = again(name, &[("STAND_IN_HANGS", "call 2")]) else { return };
    names(&said, 3, 2, "rank 2 did not arrive within 2 s");
    assert!(notes.contains("abort 0") && notes.contains("abort 1"), "{notes}");
}

#[test]
fn a_rank_that_does_not_make_a_collective_of_nccl_is_named_by_the_wait() {
    let name = "a_rank_that_does_not_make_a_collective_of_nccl_is_named_by_the_wait";
    if is_again() {
        return run(3, Some(2), |group, device, rank| {
            let stream = device.new_stream()?;
            sum(group, device, &stream)?;
            group.wait(&[&stream])?;
            hang(rank == 2);
            sum(group, device, &stream)?;
            group.wait(&[&stream])
        });
    }
    let Some((said, notes)) = again(name, &[]) else { return };
    names(&said, 3, 2, "rank 2 did not arrive within 2 s");
    assert!(notes.contains("abort 0") && notes.contains("abort 1"), "{notes}");
}

/// `ncclCommInitAll`.
type Init = unsafe extern "C" fn(*mut *mut c_void, c_int, *const c_int) -> c_int;

#[test]
fn a_blocking_communicator_of_the_program_does_not_hang_the_group_and_is_not_aborted() {
    let name = "a_blocking_communicator_of_the_program_does_not_hang_the_group_and_is_not_aborted";
    if is_again() {
        // SAFETY: the stand-in has no initialisers, and the function this type.
        let made = unsafe {
            let library = libloading::Library::new("libnccl.so.2").unwrap();
            let init = *library.get::<Init>(c"ncclCommInitAll").unwrap();
            std::mem::forget(library);
            let mut made = [std::ptr::null_mut(); 3];
            assert_eq!(init(made.as_mut_ptr(), 3, [0, 1, 2].as_ptr()), 0);
            made.map(|communicator| communicator.expose_provenance())
        };
        return run(3, Some(2), move |group, device, rank| {
            let own = std::ptr::with_exposed_provenance_mut(made[rank]);
            // SAFETY: the stand-in's communicators are alive until the process ends.
            unsafe { group.adopt(&[own])? };
            let stream = device.new_stream()?;
            sum(group, device, &stream)?;
            hang(rank == 2);
            sum(group, device, &stream)
        });
    }
    let Some((said, notes)) = again(name, &[]) else { return };
    names(&said, 3, 2, "rank 2 did not arrive within 2 s");
    assert_eq!(notes, "");
}

#[test]
fn communicators_of_a_group_end_with_it() {
    if is_again() {
        return run(2, None, |group, device, _| {
            let stream = device.new_stream()?;
            (0..3).try_for_each(|_| sum(group, device, &stream))?;
            group.wait(&[&stream])
        });
    }
    let Some((said, notes)) = again("communicators_of_a_group_end_with_it", &[]) else { return };
    let mut ended: Vec<_> = notes.lines().collect();
    ended.sort_unstable();
    assert_eq!(ended, ["destroy 0", "destroy 1", "finalize 0", "finalize 1"], "{said}");
}

#[test]
fn of_ranks_that_wait_in_one_call_the_one_that_did_not_come_to_it_is_named() {
    let name = "of_ranks_that_wait_in_one_call_the_one_that_did_not_come_to_it_is_named";
    if is_again() {
        let number = |name: &str| std::env::var(name).unwrap().parse::<usize>().unwrap();
        let (world, hung) = (number("STAND_IN_WORLD"), number("STAND_IN_HUNG"));
        return run(world, Some(hung), move |group, device, rank| {
            let product = ParallelMatmul::all_reduce(group, [4, 8, 16]).build::<bf16>()?;
            let stream = device.new_stream()?;
            let (x, mut y) = (device.upload(&[bf16::ONE; 128])?, device.alloc_uninit::<bf16>(32)?);
            // Ranks that do not wait issue further calls, each at a different pace.
            for call in 1..6 + rank {
                hang(rank == hung && call == 3);
                std::thread::sleep(Duration::from_millis(30 * rank as u64));
                let (a, b) = (Matrix::row_major(&x, 4, 16)?, Matrix::row_major(&x, 8, 16)?);
                let c = MatrixMut::row_major(&mut y, 4, 8)?;
                // SAFETY: no other stream uses the matrices.
                unsafe { product.run(&mut [Operands { stream: &stream, a, b, c }])? };
            }
            group.wait(&[&stream])
        });
    }
    for (world, hung) in [(3, 2), (3, 0), (4, 1)] {
        let (counts, who) = (world.to_string(), hung.to_string());
        let variables = [("STAND_IN_PEERS", "1"), ("STAND_IN_WORLD", &counts), ("STAND_IN_HUNG", &who)];
        let Some((said, _)) = again(name, &variables) else { return };
        names(&said, world, hung, &format!("rank {hung} did not arrive at call 3 within 2 s"));
    }
}

#[test]
fn a_rank_that_waits_in_nccl_before_a_call_with_flags_is_not_named_for_the_missing_one() {
    let name = "a_rank_that_waits_in_nccl_before_a_call_with_flags_is_not_named_for_the_missing_one";
    if is_again() {
        return run(3, Some(2), |group, device, rank| {
            let product = ParallelMatmul::all_reduce(group, [4, 8, 16]).build::<bf16>()?;
            let stream = device.new_stream()?;
            let (x, mut y) = (device.upload(&[bf16::ONE; 128])?, device.alloc_uninit::<bf16>(32)?);
            for call in 0..2 {
                hang(rank == 2 && call == 1);
                sum(group, device, &stream)?;
                let (a, b) = (Matrix::row_major(&x, 4, 16)?, Matrix::row_major(&x, 8, 16)?);
                let c = MatrixMut::row_major(&mut y, 4, 8)?;
                // SAFETY: no other stream uses the matrices.
                unsafe { product.run(&mut [Operands { stream: &stream, a, b, c }])? };
            }
            group.wait(&[&stream])
        });
    }
    let Some((said, _)) = again(name, &[("STAND_IN_PEERS", "1")]) else { return };
    names(&said, 3, 2, "rank 2 did not arrive within 2 s");
}

/// Makes calls of a product with reduce-scatter, each after `before` with the number of calls until
/// then, which is called once more before the wait: the wait's result, and the calls' stream.
fn scatter(
    group: &Group,
    device: &Device,
    calls: usize,
    before: impl Fn(usize),
) -> Result<(Result<()>, Stream)> {
    let product = ParallelMatmul::reduce_scatter(group, [4, 8, 16]).build::<bf16>()?;
    let stream = device.new_stream()?;
    let (x, mut y) = (device.upload(&[bf16::ONE; 128])?, device.alloc_uninit::<bf16>(32)?);
    for call in 0..calls {
        before(call);
        let (a, b) = (Matrix::row_major(&x, 4, 16)?, Matrix::row_major(&x, 8, 16)?);
        let c = MatrixMut::row_major(&mut y, 2, 8)?;
        // SAFETY: no other stream uses the matrices.
        unsafe { product.run(&mut [Operands { stream: &stream, a, b, c }])? };
    }
    before(calls);
    Ok((group.wait(&[&stream]), stream))
}

#[test]
fn a_rank_that_comes_after_another_gave_up_gets_no_results() {
    let name = "a_rank_that_comes_after_another_gave_up_gets_no_results";
    if is_again() {
        return run(2, None, |group, device, rank| {
            let (waited, _) = scatter(group, device, 5, |call| {
                if rank == 0 && call == 2 {
                    // Rank 1 has issued all calls, and its released work has raised all flags.
                    std::thread::sleep(2 * TIMEOUT);
                }
            })?;
            waited
        });
    }
    let Some((said, _)) = again(name, &[("STAND_IN_PEERS", "1")]) else { return };
    names(&said, 2, 0, "rank 0 did not arrive at call 3 within 2 s");
    names(&said, 2, 1, "rank 1 gave up waiting for another rank, so results here may be wrong");
}

#[test]
fn workspaces_are_cleared_before_other_ranks_write_there() {
    let name = "workspaces_are_cleared_before_other_ranks_write_there";
    if is_again() {
        return run(2, None, |group, device, rank| {
            let stream = device.new_stream()?;
            // Larger than the first workspace: the call allocates another one.
            let own = [bf16::from_f32(1.0 + rank as f32); 4096];
            let (from, mut to) = (device.upload(&own)?, device.alloc_uninit::<bf16>(own.len())?);
            let call = Transfer { stream: &stream, from: from.as_slice(), to: to.as_slice_mut() };
            // SAFETY: no other stream uses the buffers.
            unsafe { group.collectives().all_reduce(&mut [call])? };
            group.wait(&[&stream])?;
            assert_eq!(to.download()?, [bf16::from_f32(3.0); 4096]);
            Ok(())
        });
    }
    let variables = [("STAND_IN_PEERS", "1"), ("STAND_IN_SLOW_FILL", "1")];
    let Some((said, _)) = again(name, &variables) else { return };
    names(&said, 2, 2, "Ok(())");
}

#[test]
fn a_rank_that_comes_while_released_work_runs_does_not_stop_it_again() {
    let name = "a_rank_that_comes_while_released_work_runs_does_not_stop_it_again";
    if is_again() {
        return run(2, None, |group, device, rank| {
            // The sums of rank 0, released after the timeout, take a second. Rank 1 makes a call
            // with it, and another one while they run.
            let (waited, stream) = scatter(group, device, [200, 2][rank], |call| match (rank, call) {
                (1, 1) => std::thread::sleep(TIMEOUT + TIMEOUT / 8),
                (1, 2) => std::thread::sleep(TIMEOUT),
                _ => {}
            })?;
            println!("rank {rank} is idle: {}", stream.is_idle()?);
            waited
        });
    }
    let variables = [("STAND_IN_PEERS", "1"), ("STAND_IN_SLOW_SUM", "1")];
    let Some((said, _)) = again(name, &variables) else { return };
    names(&said, 2, 1, "rank 1 did not arrive at call 2 within 2 s");
    assert!(said.contains("rank 0 is idle: true"), "{said}");
}

/// Prints what each of these devices' ranks gets from `Group::join`.
fn join(devices: &[Device]) {
    std::thread::scope(|scope| {
        for (rendezvous, device) in Rendezvous::threads(devices.len()).into_iter().zip(devices) {
            scope.spawn(move || println!("{:?}", Group::join(device, rendezvous, TIMEOUT)));
        }
    });
}

#[test]
fn ranks_on_one_gpu_and_gpus_beside_simulators_are_refused_on_all_ranks() {
    let name = "ranks_on_one_gpu_and_gpus_beside_simulators_are_refused_on_all_ranks";
    if is_again() {
        let gpus = [0, 1, 2].map(|index| Device::gpu(index).unwrap());
        join(&[gpus[0].clone(), gpus[1].clone(), gpus[0].clone()]);
        // Another index, as with other values of `CUDA_VISIBLE_DEVICES`.
        join(&gpus);
        join(&[gpus[1].clone(), gpus[0].clone(), Device::sim()]);
        return;
    }
    let Some((said, _)) = again(name, &[("STAND_IN_PEERS", "1"), ("STAND_IN_GPUS", "2")]) else { return };
    for (one, other) in [("0", "0"), ("0", "2")] {
        let expected = format!(
            "ranks 0 and 2 have the same GPU (GPU {one} of rank 0, GPU {other} of rank 2, \
             GPU-01010101-0101-0101-0101-010101010101); each rank has a device"
        );
        assert_eq!(said.matches(&expected).count(), 3, "{expected}: {said}");
    }
    let expected = "rank 0 has a GPU, and rank 2 a simulator: give all ranks GPUs, or all simulators";
    assert_eq!(said.matches(expected).count(), 3, "{said}");
}

#[test]
fn a_product_that_one_ranks_gpu_does_not_run_is_refused_on_all_ranks_at_once() {
    let name = "a_product_that_one_ranks_gpu_does_not_run_is_refused_on_all_ranks_at_once";
    if is_again() {
        return run_with(LONG, 3, None, |group, device, _| {
            let (start, stream) = (Instant::now(), device.new_stream()?);
            let refused = ParallelMatmul::all_reduce(group, [4, 8, 16]).build::<bf16>().map(drop);
            assert!(start.elapsed() < LONG / 2, "{:?}", start.elapsed());
            let is_old = refused.as_ref().is_err_and(|error| error.to_string().contains("sm_80"));
            if is_old {
                // No rank has begun, so the group is usable. In bf16 GPUs of sm_90a alone would
                // sum by a kernel.
                sum(group, device, &stream)?;
                sum_of(bf16::ONE, group, device, &stream)?;
                group.wait(&[&stream])?;
            }
            refused
        });
    }
    for (variable, expected) in [
        ("STAND_IN_OLD", "the kernels need TMA and wgmma (sm_90a: H100, H200), and rank 1 is of sm_80"),
        ("STAND_IN_BROKEN", "cannot build product 1 of the group: AllReduce of bf16 4 x 8 x 16"),
    ] {
        let Some((said, _)) = again(name, &[("STAND_IN_PEERS", "1"), (variable, "1")]) else { return };
        let others = said.lines().filter(|line| line.contains(expected)).count();
        // The rank itself reports the driver's error.
        assert_eq!(others, if variable == "STAND_IN_OLD" { 3 } else { 2 }, "{expected}: {said}");
    }
}

#[test]
fn hundreds_of_sums_with_delays_on_one_rank_and_workspaces_that_grow_are_right_on_any_stream() {
    let name = "hundreds_of_sums_with_delays_on_one_rank_and_workspaces_that_grow_are_right_on_any_stream";
    if is_again() {
        return run_with(LONG, 3, None, |group, device, rank| {
            let streams = [device.new_stream()?, device.new_stream()?];
            let mut random = Random::new(57);
            // Rank r sends r + 1 times a value of the call; sums are integers to 256.
            let value = |call: usize, ranks: usize| bf16::from_f32((ranks * (1 + call % 40)) as f32);
            let mut calls = Vec::new();
            for call in 0..400 {
                // Larger sums need larger workspaces, whose flags start again.
                let count = 8 * (1 + random.below([8, 40, 200, 1000][call / 100]));
                let (delay, on) = (random.below(4) as u64, random.below(2));
                if rank == 1 {
                    std::thread::sleep(Duration::from_micros(delay * 700));
                }
                let from = device.upload(&vec![value(call, rank + 1); count])?;
                let mut to = device.alloc_zeroed::<bf16>(count)?;
                let (given, taken) = (from.as_slice(), to.as_slice_mut());
                let transfer = Transfer { stream: &streams[on], from: given, to: taken };
                // SAFETY: no other stream uses the buffers.
                unsafe { group.collectives().all_reduce(&mut [transfer])? };
                calls.push((from, to));
            }
            group.wait(&[&streams[0], &streams[1]])?;
            for (call, (_, to)) in calls.iter().enumerate() {
                let found = to.download()?;
                assert!(
                    found.iter().all(|&sum| sum == value(call, 6)),
                    "call {call} of rank {rank}: {found:?}"
                );
            }
            Ok(())
        });
    }
    let Some((said, notes)) = again(name, &[("STAND_IN_PEERS", "1")]) else { return };
    names(&said, 3, 3, "Ok(())");
    // Without NCCL.
    assert_eq!(notes, "");
}
