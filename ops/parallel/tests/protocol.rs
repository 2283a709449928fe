//! The messages of ranks to each other: ranks that differ, ranks that do not arrive.

use moye::half::{bf16, f16};
use moye::{Device, Matrix, MatrixMut, Result};
use moye_parallel::{Group, Operands, ParallelMatmul, ParallelMatmulBuilder, Rendezvous, Transfer};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// The errors of two ranks on two threads.
fn both(act: impl Fn(&Group, usize) -> Result<()> + Sync) -> Vec<String> {
    both_on(|group, _, rank| act(group, rank))
}

/// [`both`] with each rank's device.
fn both_on(act: impl Fn(&Group, &Device, usize) -> Result<()> + Sync) -> Vec<String> {
    let devices = Device::sim_peers(2);
    std::thread::scope(|scope| {
        let act = &act;
        let ranks: Vec<_> = devices
            .iter()
            .zip(Rendezvous::threads(2))
            .map(|(device, rendezvous)| {
                scope.spawn(move || {
                    let rank = rendezvous.rank();
                    let group = Group::join(device, rendezvous, Duration::from_millis(500)).unwrap();
                    act(&group, device, rank).err().map_or(String::new(), |error| error.to_string())
                })
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

#[test]
fn ranks_that_build_other_products_are_told_both() {
    for error in both(|group, rank| {
        ParallelMatmul::all_gather(group, [64, 8 + 8 * rank, 16]).build::<bf16>().map(drop)
    }) {
        assert!(error.contains("64 x 8 x 16") && error.contains("64 x 16 x 16"), "{error}");
        assert!(error.contains("all ranks make the same calls in the same order"), "{error}");
    }
}

/// Sums what `device` has, with results of `elements`: eight fit.
fn sum(group: &Group, device: &Device, elements: usize) -> Result<()> {
    sum_of(group, device, [8, elements])
}

fn sum_of(group: &Group, device: &Device, [gives, receives]: [usize; 2]) -> Result<()> {
    let (from, mut to) = (device.upload(&vec![bf16::ONE; gives])?, device.alloc_uninit::<bf16>(receives)?);
    let stream = device.new_stream()?;
    let call = Transfer { stream: &stream, from: from.as_slice(), to: to.as_slice_mut() };
    // SAFETY: no other stream uses the buffers.
    unsafe { group.collectives().all_reduce(&mut [call])? };
    group.wait(&[&stream])
}

#[test]
fn ranks_that_call_in_another_order_are_told_both() {
    for error in both_on(|group, device, rank| {
        if rank == 0 {
            return sum(group, device, 8);
        }
        let (from, mut to) = (device.upload(&[1.0f32; 8])?, device.alloc_uninit::<f32>(16)?);
        let stream = device.new_stream()?;
        let call = Transfer { stream: &stream, from: from.as_slice(), to: to.as_slice_mut() };
        // SAFETY: no other stream uses the buffers.
        let refused = unsafe { group.collectives().all_gather(&mut [call]) };
        let later = sum(group, device, 8).unwrap_err().to_string();
        assert!(later.contains("the group has failed, make a new one: rank 1 runs all-gather"), "{later}");
        refused
    }) {
        assert!(error.contains("runs sum 8") || error.contains("rank 0 sum 8"), "{error}");
        assert!(error.contains("all-gather 32") && error.contains("make the same calls"), "{error}");
    }
}

#[test]
fn simulators_that_make_known_calls_in_another_order_are_told_both() {
    for [one, other] in [[8, 16], [5, 12]] {
        for error in both_on(|group, device, rank| {
            [one, other].into_iter().try_for_each(|count| sum_of(group, device, [count; 2]))?;
            let count = if rank == 0 { one } else { other };
            sum_of(group, device, [count; 2])
        }) {
            assert!(error.contains("make the same calls in the same order"), "{error}");
        }
    }
}

#[test]
fn after_a_call_that_one_rank_was_refused_no_rank_takes_the_next_for_it() {
    let errors = both_on(|group, device, rank| {
        sum(group, device, 8)?;
        if rank == 0 {
            let refused = sum(group, device, 16).unwrap_err().to_string();
            assert!(refused.contains("rank 0 gives 8 elements and receives 16"), "{refused}");
        }
        sum(group, device, 8)
    });
    assert!(errors[0].contains("the group has failed, make a new one"), "{errors:?}");
    assert!(errors[1].contains("rank 0 has left the group: it has ended, or an error"), "{errors:?}");
}

#[test]
fn ranks_that_build_products_of_other_types_are_told_both() {
    for error in both(|group, rank| match rank {
        0 => ParallelMatmul::all_gather(group, [64, 8, 16]).build::<bf16>().map(drop),
        _ => ParallelMatmul::all_gather(group, [64, 8, 16]).build::<f16>().map(drop),
    }) {
        assert!(error.contains("of bf16 64 x 8") && error.contains("of f16 64 x 8"), "{error}");
    }
}

#[test]
fn a_rank_that_does_not_come_is_named() {
    let errors = both(|group, rank| match rank {
        0 => ParallelMatmul::all_reduce(group, [4, 8, 16]).build::<bf16>().map(drop),
        _ => {
            std::thread::sleep(Duration::from_millis(700));
            Ok(())
        }
    });
    assert!(errors[0].contains("rank 1 did not arrive within 0.5 s"), "{errors:?}");
}

/// An address of this host at which nothing listens.
fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[test]
fn all_ranks_that_come_name_the_same_missing_rank_within_the_timeout() {
    let timeout = Duration::from_millis(2500);
    let case = |(world, missing, by_tcp)| {
        let (devices, address) = (Device::sim_peers(world), free_address());
        std::thread::scope(|scope| {
            for (device, thread) in devices.iter().zip(Rendezvous::threads(world)) {
                let rank = thread.rank();
                let way = if by_tcp { Rendezvous::tcp(&address, rank, world) } else { thread };
                scope.spawn(move || {
                    let group = Group::join(device, way, timeout).unwrap();
                    if rank == missing {
                        std::thread::sleep(2 * timeout);
                        return;
                    }
                    // The timeout of the first to arrive is the first to end.
                    std::thread::sleep(Duration::from_millis(150 * (world - rank) as u64));
                    let start = Instant::now();
                    let built = ParallelMatmul::all_reduce(&group, [4, 8, 16]).build::<bf16>();
                    let error = built.err().unwrap().to_string();
                    let expected = format!("rank {missing} did not arrive within 2.5 s");
                    assert!(error.contains(&expected), "rank {rank} of {world}: {error}");
                    assert!(start.elapsed() < 2 * timeout, "{:?}", start.elapsed());
                });
            }
        });
    };
    std::thread::scope(|scope| {
        for of in [(3, 2, false), (4, 1, false), (3, 1, true), (4, 3, true), (3, 0, true)] {
            scope.spawn(move || case(of));
        }
    });
}

#[test]
fn a_rank_that_ends_is_named_before_the_timeout_also_when_rank_0_has_left_for_it() {
    let start = Instant::now();
    for late in [0, 300] {
        let (devices, address) = (Device::sim_peers(3), free_address());
        std::thread::scope(|scope| {
            for (rank, device) in devices.iter().enumerate() {
                let way = Rendezvous::tcp(&address, rank, 3);
                scope.spawn(move || {
                    let group = Group::join(device, way, Duration::from_secs(60)).unwrap();
                    if rank == 2 {
                        std::thread::sleep(Duration::from_millis(late));
                    }
                    // Rank 1 is refused a call that the others make, and ends.
                    let error = sum(&group, device, if rank == 1 { 16 } else { 8 }).unwrap_err().to_string();
                    let expected = match rank {
                        1 => "rank 1 gives 8 elements and receives 16",
                        _ => "rank 1 has left the group",
                    };
                    assert!(error.contains(expected), "rank {rank}: {error}");
                });
            }
        });
    }
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
}

#[test]
fn connections_of_other_programs_neither_hold_up_nor_end_the_meeting_of_ranks() {
    let (devices, address) = (Device::sim_peers(2), free_address());
    let connect = || {
        let start = Instant::now();
        loop {
            match TcpStream::connect(&address) {
                Ok(stream) => return stream,
                Err(reason) => assert!(start.elapsed() < Duration::from_secs(20), "{reason}"),
            }
        }
    };
    std::thread::scope(|scope| {
        let meet = |rank: usize| {
            let rendezvous = Rendezvous::tcp(&address, rank, 2);
            let group = Group::join(&devices[rank], rendezvous, Duration::from_secs(20)).unwrap();
            ParallelMatmul::all_reduce(&group, [4, 8, 16]).build::<bf16>().map(drop).unwrap();
        };
        let first = scope.spawn(move || meet(0));
        // One says nothing, one ends at once, one speaks another protocol, one stops in a greeting.
        let silent = connect();
        drop(connect());
        let mut other = connect();
        other.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut partial = connect();
        partial.write_all(b"moye").unwrap();
        std::thread::sleep(Duration::from_millis(50));
        let start = Instant::now();
        meet(1);
        first.join().unwrap();
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        drop((silent, other, partial));
    });
}

#[test]
fn a_rank_0_that_answers_nothing_or_ends_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::scope(|scope| {
        let join = |time: u64| {
            let rendezvous = Rendezvous::tcp(&address, 1, 2);
            let timeout = Duration::from_millis(time);
            Group::join(&Device::sim(), rendezvous, timeout).map(drop).unwrap_err().to_string()
        };
        let start = Instant::now();
        let silent = scope.spawn(move || join(500));
        // It stays open until the end.
        let _open = listener.accept().unwrap();
        let error = silent.join().unwrap();
        assert!(error.contains("rank 0 did not arrive within 0.5 s"), "{error}");
        assert!(start.elapsed() > Duration::from_millis(500), "{:?}", start.elapsed());
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        let ended = scope.spawn(move || join(60_000));
        drop(listener.accept().unwrap());
        let error = ended.join().unwrap();
        assert!(error.contains("rank 0 has left the group: it has ended"), "{error}");
    });
}

#[test]
fn ranks_with_other_numbers_of_ranks_and_a_second_one_of_a_number_are_refused() {
    for (world, others, expected) in [
        (2, &[(1, 3)][..], "rank 1 expects 3 ranks, and rank 0 expects 2"),
        (3, &[(1, 3), (1, 3)], "a second rank 1 of 3 arrived"),
    ] {
        let address = free_address();
        let join = |rank, world| {
            let rendezvous = Rendezvous::tcp(&address, rank, world);
            Group::join(&Device::sim(), rendezvous, Duration::from_secs(20))
                .map(drop)
                .unwrap_err()
                .to_string()
        };
        std::thread::scope(|scope| {
            let join = &join;
            for &(rank, world) in others {
                scope.spawn(move || join(rank, world));
            }
            let error = join(0, world);
            assert!(error.contains(expected), "{error}");
        });
    }
}

#[test]
fn processes_meet_by_tcp_and_by_a_file() {
    let path = std::env::temp_dir().join(format!("moye-parallel-{}", std::process::id()));
    let address = free_address();
    for by_file in [true, false] {
        let devices = Device::sim_peers(3);
        std::thread::scope(|scope| {
            for (rank, device) in devices.iter().enumerate() {
                let rendezvous = match by_file {
                    true => Rendezvous::file(&path, rank, 3),
                    false => Rendezvous::tcp(&address, rank, 3),
                };
                scope.spawn(move || {
                    let group = Group::join(device, rendezvous, Duration::from_secs(10)).unwrap();
                    let product = ParallelMatmul::reduce_scatter(&group, [6, 8, 16]).build::<bf16>().unwrap();
                    assert!(product.explain().contains("3 ranks with access"), "{}", product.explain());
                });
            }
        });
    }
}

#[test]
fn ranks_meet_at_names_and_at_addresses_of_both_versions() {
    let v6 = TcpListener::bind("[::1]:0").is_ok();
    for (first, other) in [
        ("localhost", "localhost"),
        ("127.0.0.1", "localhost"),
        ("0.0.0.0", "127.0.0.1"),
        ("[::1]", "[::1]"),
        ("[::]", "[::1]"),
    ] {
        if first.starts_with('[') && !v6 {
            println!("skipped: this host has no IPv6");
            continue;
        }
        let free = TcpListener::bind(format!("{first}:0")).unwrap().local_addr().unwrap();
        let (devices, port) = (Device::sim_peers(2), free.port());
        std::thread::scope(|scope| {
            for (rank, host) in [first, other].into_iter().enumerate() {
                let (device, address) = (&devices[rank], format!("{host}:{port}"));
                scope.spawn(move || {
                    let rendezvous = Rendezvous::tcp(&address, rank, 2);
                    Group::join(device, rendezvous, Duration::from_secs(10)).unwrap();
                });
            }
        });
    }
}

#[test]
fn addresses_and_numbers_of_ranks_that_cannot_meet_are_refused_at_once() {
    let start = Instant::now();
    let refused = |address: &str, rank, world| {
        let rendezvous = Rendezvous::tcp(address, rank, world);
        Group::join(&Device::sim(), rendezvous, Duration::from_secs(60)).unwrap_err().to_string()
    };
    for address in ["", "node0", "node0:", "node0:0", "node0:65536", "node0:-1", ":29600", "node0:http"] {
        for rank in [0, 1] {
            let error = refused(address, rank, 2);
            let expected = format!("rank 0's address is {address:?}, and must be HOST:PORT");
            assert!(error.contains(&expected), "{error}");
        }
    }
    for address in ["0.0.0.0:29600", "[::]:29600"] {
        let error = refused(address, 1, 2);
        assert!(error.contains(&format!("rank 1 cannot connect to {address}")), "{error}");
    }
    for world in [0, 9] {
        let error = refused("127.0.0.1:29600", 0, world);
        assert!(error.contains(&format!("{world} ranks; a group has 1 to 8")), "{error}");
    }
    let error = refused("127.0.0.1:29600", 3, 3);
    assert!(error.contains("rank 3 of 3: ranks count from 0"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    // Rank 0 may start later, so the timeout counts.
    let address = free_address();
    let rendezvous = Rendezvous::tcp(&address, 1, 2);
    let error = Group::join(&Device::sim(), rendezvous, Duration::from_millis(200)).unwrap_err().to_string();
    assert!(error.contains(&format!("rank 0 did not arrive within 0.2 s at {address}: ")), "{error}");
}

#[test]
fn products_that_all_ranks_refuse_alike_leave_the_group_usable() {
    let errors = both(|group, _| {
        let start = Instant::now();
        let refused = [
            ParallelMatmul::all_gather(group, [16, 8, 12]),
            ParallelMatmul::all_gather(group, [16, 8, 16]).shards(&[3, 4]),
            ParallelMatmul::all_gather(group, [16, 8, 16]).shards(&[16, usize::MAX]),
            ParallelMatmul::all_gather(group, [16, 8, 16]).tile("64x64"),
            ParallelMatmul::reduce_scatter(group, [1 << 30, 8, 16]),
            ParallelMatmul::all_reduce(group, [16, 8, 0]),
        ];
        assert!(refused.into_iter().all(|builder| builder.build::<bf16>().is_err()));
        assert!(start.elapsed() < Duration::from_millis(400), "{:?}", start.elapsed());
        let product = ParallelMatmul::all_reduce(group, [4, 8, 16]).build::<bf16>()?;
        drop(product);
        Ok(())
    });
    assert_eq!(errors, ["", ""]);
}

#[test]
fn calls_that_are_not_the_products_are_refused_with_the_way_out() {
    let devices = Device::sim_peers(2);
    let group = Group::local(&devices).unwrap();
    let refused = |builder: ParallelMatmulBuilder<'_>| builder.build::<bf16>().err().unwrap().to_string();
    let error = refused(ParallelMatmul::all_gather(&group, [16, 8, 12]));
    assert!(error.contains("k is 12") && error.contains("pad k to 16"), "{error}");
    let error = refused(ParallelMatmul::all_gather(&group, [16, 8, 16]).shards(&[3, 4]));
    assert!(error.contains("shards of [3, 4] rows, and must be 2 with 16 rows in all"), "{error}");
    let error = refused(ParallelMatmul::all_gather(&group, [16, 8, 16]).tile("64x64"));
    assert!(error.contains("there is no tile 64x64; give one of 128x256, 128x128"), "{error}");
    let error = refused(ParallelMatmul::all_reduce(&group, [16, 8, 0]));
    assert!(error.contains("k is 1 at least"), "{error}");
    assert!(
        Group::local(&[devices[0].clone(), devices[0].clone()])
            .unwrap_err()
            .to_string()
            .contains("given twice")
    );

    let product = ParallelMatmul::all_reduce(&group, [4, 8, 16]).build::<bf16>().unwrap();
    let x: Vec<_> = devices.iter().map(|device| device.upload(&[bf16::ONE; 128]).unwrap()).collect();
    let mut y: Vec<_> = devices.iter().map(|device| device.alloc_uninit::<bf16>(32).unwrap()).collect();
    let streams: Vec<_> = devices.iter().map(Device::default_stream).collect();
    let mut calls: Vec<_> = y
        .iter_mut()
        .enumerate()
        .map(|(rank, y)| Operands {
            stream: &streams[rank],
            a: Matrix::row_major(&x[rank], 4, 16).unwrap(),
            b: Matrix::row_major(&x[rank], 8, 16).unwrap(),
            c: MatrixMut::row_major(y, 4, 8).unwrap(),
        })
        .collect();
    // SAFETY: no other stream uses the matrices.
    let error = unsafe { product.run(&mut calls[..1]) }.unwrap_err().to_string();
    assert!(error.contains("1 operands for the ranks [0, 1]"), "{error}");
    calls[1].a = Matrix::row_major(&x[1], 8, 16).unwrap();
    // SAFETY: no other stream uses the matrices.
    let error = unsafe { product.run(&mut calls) }.unwrap_err().to_string();
    assert!(error.contains("a has shape [8, 16], and must have [4, 16]"), "{error}");
    calls[1].a = Matrix::new(&x[1], 4, 16, (1, 4)).unwrap();
    // SAFETY: no other stream uses the matrices.
    let error = unsafe { product.run(&mut calls) }.unwrap_err().to_string();
    assert!(error.contains("rows must be contiguous and begin at multiples of 16 bytes"), "{error}");
}

#[test]
fn ranks_are_read_from_the_variables_of_torchrun_mpi_and_slurm() {
    const ASKED: &str = "MOYE_TEST_VARIABLES";
    if std::env::var_os(ASKED).is_some() {
        let read =
            Rendezvous::from_env().map(|of| (of.rank(), of.world())).map_err(|error| error.to_string());
        let local = Rendezvous::local_rank().map_err(|error| error.to_string());
        println!("read: {read:?} {local:?} {}", Rendezvous::is_launched());
        return;
    }
    let launchers = [
        ["RANK", "WORLD_SIZE", "LOCAL_RANK"],
        ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"],
        ["PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"],
        ["SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"],
    ];
    let read = |set: &[(&str, &str)]| {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let name = "protocol::ranks_are_read_from_the_variables_of_torchrun_mpi_and_slurm";
        child.args(["--exact", name, "--nocapture"]).env(ASKED, "1");
        launchers.iter().flatten().chain(&["MASTER_ADDR", "MASTER_PORT"]).for_each(|name| {
            child.env_remove(name);
        });
        let output = child.envs(set.iter().copied()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let master = [("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "29600")];
    for [rank, world, local] in launchers {
        let said = read(&[&[(rank, "3"), (world, "8"), (local, "1")], &master[..]].concat());
        assert!(said.contains("read: Ok((3, 8)) Ok(Some(1)) true"), "{rank}: {said}");
        let said = read(&[&[(rank, "0"), (world, "1")], &master[..]].concat());
        assert!(said.contains("read: Ok((0, 1)) Ok(None) false"), "{rank}: {said}");
        for (value, number) in [("8", "8"), ("9", "8"), ("0", "0")] {
            let said = read(&[&[(rank, value), (world, number)], &master[..]].concat());
            let expected = format!("{rank} is {value}, and {world} is {number}: ranks count from 0");
            assert!(said.contains(&expected), "{expected}: {said}");
        }
        for wrong in ["three", "-1", "4294967296", ""] {
            let numbers = [(rank, wrong), (world, wrong), (local, wrong)];
            for (at, (name, value)) in numbers.into_iter().enumerate() {
                let mut set = [(rank, "0"), (world, "2"), (local, "0")];
                set[at].1 = value;
                let said = read(&[&set[..], &master[..]].concat());
                let expected =
                    format!("{name} is \\\"{value}\\\", and must be a number from 0 to 4294967295");
                assert!(said.contains(&expected), "{expected}: {said}");
            }
        }
    }
    for port in ["65535", "65536", "-1", "http"] {
        let set = [("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "::1"), ("MASTER_PORT", port)];
        let said = read(&set);
        let expected = format!("MASTER_PORT is \\\"{port}\\\", and must be a number from 0 to 65534");
        assert!(said.contains(&expected), "{expected}: {said}");
    }
    let ranks = [("RANK", "0"), ("WORLD_SIZE", "2")];
    for master in master {
        let missing = if master.0 == "MASTER_ADDR" { "MASTER_PORT" } else { "MASTER_ADDR" };
        let said = read(&[&ranks[..], &[master]].concat());
        assert!(
            said.contains(&format!("the variable {missing} is not set; set it to rank 0's host")),
            "{said}"
        );
    }
    assert!(read(&[]).contains("the variable RANK is not set; start the program by `torchrun` or `mpirun`"));
}
