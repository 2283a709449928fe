//! Wrong accesses to memory: each kernel commits one, and the fault names the access, the line and
//! the thread.

use crate::common::fault;
use moye_sim::intrinsics::*;
use moye_sim::{Access, Dim3, FaultKind, GlobalMemory, Launch};

/// A launch of four blocks of 64 threads with 256 bytes of shared memory each.
fn launch(memory: &GlobalMemory) -> Launch<'static> {
    Launch::new("k", 4, 64, memory).shared_bytes(256)
}

#[test]
fn a_fault_names_kernel_block_thread_line_and_what_happened() {
    let memory = GlobalMemory::new();
    let line = line!() + 3;
    let kernel = || {
        if block_idx().x == 3 && thread_idx().x == 17 {
            load_shared::<f32>(shared_base() + 132);
        }
    };
    let error = fault(launch(&memory), &kernel);
    let expected = format!(
        "kernel `k`, block (3,0,0), thread (17,0,0) at {}:{line}: read of 4 bytes of shared memory at offset 132, which no thread of the block has written",
        file!()
    );
    assert_eq!(error.to_string(), expected);
    assert_eq!((error.block, error.thread), (Dim3::new(3, 0, 0), Dim3::new(17, 0, 0)));
}

#[test]
fn a_wrapper_with_track_caller_passes_its_callers_line_on() {
    #[track_caller]
    fn wrapper(address: u32) -> f32 {
        load_shared(address)
    }
    let memory = GlobalMemory::new();
    let error = fault(launch(&memory), &|| {
        wrapper(shared_base());
    });
    assert_eq!(error.location.map(|l| l.line()), Some(line!() - 2), "{error}");
}

#[test]
fn a_global_access_out_of_bounds_names_the_nearest_allocation() {
    let memory = GlobalMemory::new();
    let only = memory.alloc(100, "the input").unwrap();
    let base = only.address();
    let told = |address: u64| {
        let error = fault(launch(&memory), &|| {
            load_global::<u32>(address);
        });
        assert!(matches!(error.kind, FaultKind::GlobalOutOfBounds { access: Access::Read, bytes: 4, .. }));
        error.to_string()
    };
    let nearest = format!("of the nearest allocation, `the input` (100 bytes at {base:#x})");
    for (address, place) in [
        (base + 100, "right at the end"),
        (base + 120, "20 bytes past the end"),
        (base - 8, "8 bytes before the start"),
        (16, &*format!("{} bytes before the start", base - 16)),
    ] {
        let text = told(address);
        let expected = format!("read of 4 bytes of global memory at {address:#x}, {place} {nearest}");
        assert!(text.ends_with(&expected), "{text}\nis to end with\n{expected}");
    }
    let error = fault(launch(&memory), &|| store_global(base + 96, 0u64));
    let crossing = format!(
        "write of 8 bytes of global memory at {:#x}, from offset 96, 4 bytes over the end",
        base + 96
    );
    assert!(error.to_string().contains(&crossing), "{error}");
}

#[test]
fn without_any_allocation_the_fault_says_so() {
    let error = fault(launch(&GlobalMemory::new()), &|| store_global(0x1000, 1u32));
    assert!(
        error
            .to_string()
            .ends_with("write of 4 bytes of global memory at 0x1000, and no global memory is allocated")
    );
}

#[test]
fn an_allocation_of_another_memory_and_a_freed_one_are_out_of_bounds() {
    let (memory, other) = (GlobalMemory::new(), GlobalMemory::new());
    let foreign = other.alloc(64, "foreign").unwrap();
    let address = foreign.address();
    let error = fault(launch(&memory), &|| {
        load_global::<u32>(address);
    });
    assert!(matches!(error.kind, FaultKind::GlobalOutOfBounds { nearest: None, .. }), "{error}");
    drop(foreign);
    let error = fault(launch(&other), &|| {
        load_global::<u32>(address);
    });
    assert!(matches!(error.kind, FaultKind::GlobalOutOfBounds { .. }), "{error}");
}

#[test]
fn memory_dropped_during_a_launch_stays_until_the_launch_ends() {
    let memory = GlobalMemory::new();
    let buffer = std::sync::Mutex::new(Some(memory.alloc(1 << 20, "dropped").unwrap()));
    let address = buffer.lock().unwrap().as_ref().unwrap().address();
    Launch::new("k", 1, 1, &memory)
        .run(&|| {
            store_global(address, 1u32);
            drop(buffer.lock().unwrap().take());
            store_global(address + (1 << 20) - 4, load_global::<u32>(address));
        })
        .unwrap();
    assert_eq!(memory.allocated_bytes(), 0);
}

#[test]
fn misaligned_accesses_fault_in_both_spaces_and_at_every_width() {
    let memory = GlobalMemory::new();
    let buffer = memory.alloc(64, "buffer").unwrap();
    let base = buffer.address();
    let error = fault(launch(&memory), &|| {
        load_global::<[f32; 4]>(base + 8);
    });
    let text = error.to_string();
    assert!(
        text.ends_with(&format!(
            "read of 16 bytes of global memory at {:#x}, which is not a multiple of 16",
            base + 8
        )),
        "{text}"
    );
    let error = fault(launch(&memory), &|| store_global(base + 1, 0u16));
    assert!(
        matches!(error.kind, FaultKind::GlobalMisaligned { access: Access::Write, bytes: 2, .. }),
        "{error}"
    );
    let error = fault(launch(&memory), &|| store_shared(shared_base() + 4, 0u64));
    let text = error.to_string();
    assert!(
        text.ends_with("write of 8 bytes of shared memory at offset 4, which is not a multiple of 8"),
        "{text}"
    );
    let error = fault(launch(&memory), &|| {
        atomic_add(base + 4, 1u64);
    });
    assert!(
        matches!(error.kind, FaultKind::GlobalMisaligned { access: Access::Atomic, bytes: 8, .. }),
        "{error}"
    );
}

#[test]
fn a_shared_access_out_of_bounds_names_its_offset_also_before_the_start() {
    let memory = GlobalMemory::new();
    let told = |address: u32| fault(launch(&memory), &|| store_shared(address, 0u32)).to_string();
    let text = told(shared_base() + 256);
    let expected = "write of 4 bytes of shared memory at offset 256, outside the 256 bytes that the launch gave the block";
    assert!(text.ends_with(expected), "{text}");
    let text = told(0);
    assert!(text.contains("at offset -1024, outside"), "an offset taken for an address faults: {text}");
    assert!(told(u32::MAX - 3).contains("outside the 256 bytes"));
    let error = fault(Launch::new("none", 1, 1, &memory), &|| store_shared(shared_base(), 0u8));
    assert!(error.to_string().contains("outside the 0 bytes"), "{error}");
}

#[test]
fn an_atomic_on_unwritten_shared_memory_and_a_half_written_word_fault() {
    let memory = GlobalMemory::new();
    let error = fault(launch(&memory), &|| {
        atomic_add(shared_base(), 1u32);
    });
    assert!(matches!(error.kind, FaultKind::SharedUnwritten { access: Access::Atomic, .. }), "{error}");
    let error = fault(launch(&memory), &|| {
        if thread_idx().x == 0 {
            store_shared(shared_base() + 8, 0u32);
            load_shared::<u64>(shared_base() + 8);
        }
    });
    assert!(matches!(error.kind, FaultKind::SharedUnwritten { bytes: 8, offset: 8, .. }), "{error}");
}

#[test]
fn a_missing_barrier_is_a_race_also_where_the_read_comes_before_the_write() {
    let memory = GlobalMemory::new();
    let kernel = || {
        let t = thread_idx().x;
        store_shared(shared_base() + 4 * t, t);
        load_shared::<u32>(shared_base() + 4 * (63 - t));
    };
    let error = fault(launch(&memory), &kernel);
    let FaultKind::Race(race) = &error.kind else { panic!("{error}") };
    assert_eq!((race.access, race.other.access), (Access::Write, Access::Read), "{error}");
    let write = error.location.unwrap().line();
    assert_eq!(race.other.location.line(), write + 1, "{error}");
    let unwritten = fault(launch(&memory).races(false), &kernel);
    assert!(matches!(unwritten.kind, FaultKind::SharedUnwritten { offset: 252, .. }), "{unwritten}");
}

#[test]
fn among_several_faulting_blocks_the_first_in_the_grid_is_reported_every_time() {
    let memory = GlobalMemory::new();
    let error = || {
        fault(Launch::new("many", (7, 11, 13), 32, &memory), &|| {
            let b = block_idx();
            let linear = (b.z * 11 + b.y) * 7 + b.x;
            if linear >= 400 && linear % 3 == 2 && thread_idx().x >= 5 {
                store_global(u64::from(8 * linear), 0u64);
            }
        })
        .to_string()
    };
    let first = error();
    assert!(
        first.starts_with("kernel `many`, block (2,2,5), thread (5,0,0)"),
        "401 = (5 * 11 + 2) * 7 + 2: {first}"
    );
    for _ in 0..20 {
        assert_eq!(error(), first);
    }
}
