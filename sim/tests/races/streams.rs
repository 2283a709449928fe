//! Races between launches, and between a launch and a copy, on different streams.

use super::word;
use moye_sim::intrinsics::*;
use moye_sim::{
    Access, Allocation, Fault, FaultKind, GlobalMemory, Launch, LaunchError, RaceThreads, Stream,
};

const WORDS: usize = 128;

fn memory() -> (GlobalMemory, Allocation) {
    let memory = GlobalMemory::new();
    let data = memory.alloc(4 * WORDS, "data").unwrap();
    data.fill(0, 4 * WORDS, 0).unwrap();
    (memory, data)
}

/// Runs a kernel of two blocks of 32 threads on a stream, with the thread's index as argument.
fn run(memory: &GlobalMemory, name: &str, stream: &Stream, thread: impl Fn(u32) + Sync) -> Result<(), Fault> {
    let launch = Launch::new(name, 2, 32, memory).races(true).stream(stream);
    match launch.run(&|| thread(32 * block_idx().x + thread_idx().x)) {
        Ok(_) => Ok(()),
        Err(LaunchError::Fault(fault)) => Err(*fault),
        Err(other) => panic!("{other}"),
    }
}

/// Checks that a fault is a race of two streams, by these kinds of access, with a kernel.
fn expect(fault: Fault, [second, first]: [Access; 2], kernel: &str) -> String {
    let FaultKind::Race(race) = &fault.kind else { panic!("{fault}") };
    assert_eq!(
        (race.access, race.other.access, race.threads),
        (second, first, RaceThreads::Streams),
        "{fault}"
    );
    assert_eq!(race.other.kernel.as_deref(), Some(kernel), "{fault}");
    assert!(race.remedy().contains("events"), "{fault}");
    fault.to_string()
}

#[test]
fn a_launch_that_reads_what_another_streams_launch_writes_waits_for_an_event_of_it() {
    let (memory, data) = memory();
    let address = data.address();
    let (first, second) = (memory.new_stream(), memory.new_stream());
    let line = line!() + 1;
    let write = |t| store_global(word(address, t), t);
    let read = |t| _ = load_global::<u32>(word(address, 63 - t));
    for waits in [true, false] {
        run(&memory, "write", &first, write).unwrap();
        if waits {
            second.wait(&first.record());
        }
        let ran = run(&memory, "read", &second, read);
        memory.synchronize();
        assert_eq!(ran.is_ok(), waits);
        if let Err(fault) = ran {
            let told = expect(fault, [Access::Read, Access::Write], "write");
            let place = format!("{}:{line} are not ordered", file!());
            for part in ["kernel `read`, block (", "of `data`", "of kernel `write` at", &place] {
                assert!(told.contains(part), "{part}: {told}");
            }
        }
    }
}

/// The actions of the host between the launches of two streams, and whether they order them.
#[test]
fn events_and_waits_of_the_host_order_two_streams_and_nothing_else_does() {
    type Between = fn(&GlobalMemory, &Allocation, [&Stream; 3]);
    let cases: &[(&str, bool, Between)] = &[
        ("nothing", false, |_, _, _| ()),
        ("an event that the other stream waits for", true, |_, _, [a, b, _]| _ = b.wait(&a.record())),
        ("an event that no stream waits for", false, |_, _, [a, _, _]| _ = a.record()),
        ("an event of the wrong stream", false, |_, _, [_, b, c]| _ = b.wait(&c.record())),
        ("an event that the wrong stream waits for", false, |_, _, [a, _, c]| _ = c.wait(&a.record())),
        ("two events by a third stream", true, |_, _, [a, b, c]| {
            c.wait(&a.record());
            b.wait(&c.record());
        }),
        ("a wait of the host for the stream", true, |_, _, [a, _, _]| a.synchronize()),
        ("a wait of the host for an event", true, |_, _, [a, _, _]| a.record().synchronize()),
        ("a wait of the host for the other stream", false, |_, _, [_, b, _]| b.synchronize()),
        ("a wait of the host for all", true, |memory, _, _| memory.synchronize()),
        ("a read by the host", true, |_, data, _| data.read(0, &mut [0]).unwrap()),
        ("a read by a view", true, |memory, data, _| {
            memory.view(data.address(), 4).unwrap().read(0, &mut [0]).unwrap();
        }),
    ];
    for (what, is_ordered, between) in cases {
        let (memory, data) = memory();
        let address = data.address();
        let [a, b, c] = [(); 3].map(|()| memory.new_stream());
        let too_early = a.record();
        run(&memory, "first", &a, |t| store_global(word(address, t), t)).unwrap();
        // An event from before the launch orders nothing.
        b.wait(&too_early);
        between(&memory, &data, [&a, &b, &c]);
        let ran = run(&memory, "second", &b, |t| store_global(word(address, t), t + 1));
        match ran {
            Ok(()) => assert!(is_ordered, "{what} orders nothing"),
            Err(fault) => {
                assert!(!is_ordered, "{what}: {fault}");
                expect(fault, [Access::Write, Access::Write], "first");
            }
        }
    }
}

#[test]
fn a_copy_of_a_stream_races_with_launches_and_copies_of_others() {
    let (memory, data) = memory();
    let address = data.address();
    let (first, second) = (memory.new_stream(), memory.default_stream());
    let fault = |error: LaunchError| error.fault().unwrap().clone();
    for right in [true, false] {
        let order = |from: &Stream, to: &Stream| {
            if right {
                to.wait(&from.record());
            }
        };
        // The launch reads what the copy writes.
        first.copy(address + 256, address, 128).unwrap();
        order(&first, &second);
        let read = run(&memory, "read", &second, |t| _ = load_global::<u32>(word(address, 64 + t % 32)));
        assert_eq!(read.is_ok(), right);
        if let Err(read) = read {
            let told = expect(read, [Access::Read, Access::CopyDestination], "copy");
            assert!(told.contains("and copy's write at ") && told.contains("streams.rs:"), "{told}");
        }
        memory.synchronize();
        // The copy reads what the launch writes.
        run(&memory, "write", &second, |t| store_global(word(address, t), 1_u32)).unwrap();
        order(&second, &first);
        let copied = first.copy(address + 256, address, 128);
        assert_eq!(copied.is_ok(), right);
        if let Err(copied) = copied {
            expect(fault(copied), [Access::CopySource, Access::Write], "write");
        }
        memory.synchronize();
        // Two copies to the same bytes.
        first.copy(address + 256, address, 128).unwrap();
        order(&first, &second);
        let copied = second.copy(address + 380, address, 4);
        assert_eq!(copied.is_ok(), right);
        if let Err(copied) = copied {
            expect(fault(copied), [Access::CopyDestination, Access::CopyDestination], "copy");
        }
        memory.synchronize();
    }
    let error = first.copy(address + 512, address, 4).unwrap_err().to_string();
    assert!(error.starts_with("kernel `copy`") && error.contains("512 bytes"), "{error}");
}

#[test]
fn launches_of_two_streams_share_what_both_read_or_count_in_by_atomic_operations() {
    let (memory, data) = memory();
    let address = data.address();
    let (first, second) = (memory.new_stream(), memory.new_stream());
    for stream in [&first, &second] {
        let kernel = |t| {
            load_global::<u32>(word(address, t));
            atomic_add(word(address, 100), 1_u32);
        };
        run(&memory, "count", stream, kernel).unwrap();
    }
    let fault = run(&memory, "plain", &first, |_| _ = load_global::<u32>(word(address, 100))).unwrap_err();
    expect(fault, [Access::Read, Access::Atomic], "count");
    memory.synchronize();
    let mut count = [0; 4];
    data.read(400, &mut count).unwrap();
    assert_eq!(u32::from_ne_bytes(count), 128);
}

#[test]
fn a_stream_of_another_memory_is_refused() {
    let (memory, _data) = memory();
    let other = GlobalMemory::new().new_stream();
    let error = Launch::new("k", 1, 1, &memory).stream(&other).run(&|| ()).unwrap_err().to_string();
    assert!(error.contains("its stream is of another memory"), "{error}");
    assert!(!memory.new_stream().wait(&other.record()), "an event of another memory orders nothing");
}
