//! Atomic operations. 64 threads; each works on cell `thread % 4`.

use crate::cells::{CellStorage, global, shared};
use crate::sm_80::copy::Slots;
use crate::support::index;
use moye_device::arch::*;
use moye_device::kernel;
use moye_device::memory::{Global, GlobalMut, Shared};

global! {
    atom_add_u32 u32: AtomicAdd::atomic_add_global;
    atom_add_s32 i32: AtomicAdd::atomic_add_global;
    atom_add_u64 u64: AtomicAdd::atomic_add_global;
    atom_add_s64 i64: AtomicAdd::atomic_add_global;
    atom_add_f32 f32: AtomicAdd::atomic_add_global;
    atom_add_f64 f64: AtomicAdd::atomic_add_global;
    atom_add_f16x2 F16x2: AtomicAdd::atomic_add_global;
    red_add_u32 u32: AtomicAdd::reduce_add_global;
    red_add_s32 i32: AtomicAdd::reduce_add_global;
    red_add_u64 u64: AtomicAdd::reduce_add_global;
    red_add_s64 i64: AtomicAdd::reduce_add_global;
    red_add_f32 f32: AtomicAdd::reduce_add_global;
    red_add_f64 f64: AtomicAdd::reduce_add_global;
    red_add_f16x2 F16x2: AtomicAdd::reduce_add_global;
    atom_min_u32 u32: AtomicInteger::atomic_min_global;
    atom_max_u32 u32: AtomicInteger::atomic_max_global;
    atom_min_s32 i32: AtomicInteger::atomic_min_global;
    atom_max_s32 i32: AtomicInteger::atomic_max_global;
    atom_min_u64 u64: AtomicInteger::atomic_min_global;
    atom_max_s64 i64: AtomicInteger::atomic_max_global;
    atom_and_b32 u32: AtomicInteger::atomic_and_global;
    atom_or_b32 u32: AtomicInteger::atomic_or_global;
    atom_xor_b64 u64: AtomicInteger::atomic_xor_global;
    atom_min_s64 i64: AtomicInteger::atomic_min_global;
    atom_max_u64 u64: AtomicInteger::atomic_max_global;
    atom_and_s32 i32: AtomicInteger::atomic_and_global;
    atom_and_b64 u64: AtomicInteger::atomic_and_global;
    atom_and_s64 i64: AtomicInteger::atomic_and_global;
    atom_or_s32 i32: AtomicInteger::atomic_or_global;
    atom_or_b64 u64: AtomicInteger::atomic_or_global;
    atom_or_s64 i64: AtomicInteger::atomic_or_global;
    atom_xor_b32 u32: AtomicInteger::atomic_xor_global;
    atom_xor_s32 i32: AtomicInteger::atomic_xor_global;
    atom_xor_s64 i64: AtomicInteger::atomic_xor_global;
}

shared! {
    shared_atom_add_u32 u32: AtomicAdd::atomic_add_shared;
    shared_atom_add_s32 i32: AtomicAdd::atomic_add_shared;
    shared_atom_add_u64 u64: AtomicAdd::atomic_add_shared;
    shared_atom_add_s64 i64: AtomicAdd::atomic_add_shared;
    shared_atom_add_f32 f32: AtomicAdd::atomic_add_shared;
    shared_atom_add_f64 f64: AtomicAdd::atomic_add_shared;
    shared_atom_add_f16x2 F16x2: AtomicAdd::atomic_add_shared;
    shared_red_add_u32 u32: AtomicAdd::reduce_add_shared;
    shared_red_add_s32 i32: AtomicAdd::reduce_add_shared;
    shared_red_add_u64 u64: AtomicAdd::reduce_add_shared;
    shared_red_add_s64 i64: AtomicAdd::reduce_add_shared;
    shared_red_add_f32 f32: AtomicAdd::reduce_add_shared;
    shared_red_add_f64 f64: AtomicAdd::reduce_add_shared;
    shared_red_add_f16x2 F16x2: AtomicAdd::reduce_add_shared;
    shared_atom_min_s32 i32: AtomicInteger::atomic_min_shared;
    shared_atom_max_u64 u64: AtomicInteger::atomic_max_shared;
    shared_atom_and_b64 u64: AtomicInteger::atomic_and_shared;
    shared_atom_or_b32 u32: AtomicInteger::atomic_or_shared;
    shared_atom_xor_b32 u32: AtomicInteger::atomic_xor_shared;
    shared_atom_min_u32 u32: AtomicInteger::atomic_min_shared;
    shared_atom_min_u64 u64: AtomicInteger::atomic_min_shared;
    shared_atom_min_s64 i64: AtomicInteger::atomic_min_shared;
    shared_atom_max_u32 u32: AtomicInteger::atomic_max_shared;
    shared_atom_max_s32 i32: AtomicInteger::atomic_max_shared;
    shared_atom_max_s64 i64: AtomicInteger::atomic_max_shared;
    shared_atom_and_b32 u32: AtomicInteger::atomic_and_shared;
    shared_atom_and_s32 i32: AtomicInteger::atomic_and_shared;
    shared_atom_and_s64 i64: AtomicInteger::atomic_and_shared;
    shared_atom_or_s32 i32: AtomicInteger::atomic_or_shared;
    shared_atom_or_b64 u64: AtomicInteger::atomic_or_shared;
    shared_atom_or_s64 i64: AtomicInteger::atomic_or_shared;
    shared_atom_xor_s32 i32: AtomicInteger::atomic_xor_shared;
    shared_atom_xor_b64 u64: AtomicInteger::atomic_xor_shared;
    shared_atom_xor_s64 i64: AtomicInteger::atomic_xor_shared;
}

/// Thread `i` puts `values[i]` into cell `i` of 64 and writes what it took out to `taken[i]`.
macro_rules! exchange {
    ($($name:ident $cas:ident $t:ty;)*) => { $(
        #[kernel(threads = 64)]
        pub unsafe fn $name(values: Global<$t>, cells: GlobalMut<$t>, taken: GlobalMut<$t>) {
            let i = i64::from(index());
            // SAFETY: 64 elements each.
            unsafe {
                let old = <$t>::atomic_exchange_global(cells.offset(i).address(), values.read(i));
                taken.write(i, old);
            }
        }

        /// The same where cell `i` is `expected[i]`.
        #[kernel(threads = 64)]
        pub unsafe fn $cas(expected: Global<$t>, values: Global<$t>, cells: GlobalMut<$t>, taken: GlobalMut<$t>) {
            let i = i64::from(index());
            // SAFETY: 64 elements each.
            unsafe {
                let at = cells.offset(i).address();
                let old = <$t>::atomic_compare_exchange_global(at, expected.read(i), values.read(i));
                taken.write(i, old);
            }
        }
    )* };
}
exchange! {
    atom_exch_b32 atom_cas_b32 u32;
    atom_exch_b64 atom_cas_b64 u64;
    atom_exch_s32 atom_cas_s32 i32;
    atom_exch_s64 atom_cas_s64 i64;
    atom_exch_f32 atom_cas_f32 f32;
    atom_exch_f64 atom_cas_f64 f64;
}

/// As [`exchange`], in shared memory: thread `i` brings cell `i` there and back.
macro_rules! exchange_shared {
    ($($name:ident $cas:ident $t:ty;)*) => { $(
        #[kernel(threads = 64, shared = Slots<$t>)]
        pub unsafe fn $name(values: Global<$t>, cells: GlobalMut<$t>, taken: GlobalMut<$t>) {
            let i = i64::from(index());
            // SAFETY: 64 elements each; the kernel declares `Slots`, of which a thread touches its
            // own alone.
            unsafe {
                let slot = Shared::<$t>::from_address(shared_base()).offset(i as i32);
                slot.write(0, cells.read(i));
                taken.write(i, <$t>::atomic_exchange_shared(slot.address(), values.read(i)));
                cells.write(i, slot.read(0));
            }
        }

        /// The same where cell `i` is `expected[i]`.
        #[kernel(threads = 64, shared = Slots<$t>)]
        pub unsafe fn $cas(expected: Global<$t>, values: Global<$t>, cells: GlobalMut<$t>, taken: GlobalMut<$t>) {
            let i = i64::from(index());
            // SAFETY: as above.
            unsafe {
                let slot = Shared::<$t>::from_address(shared_base()).offset(i as i32);
                slot.write(0, cells.read(i));
                let old = <$t>::atomic_compare_exchange_shared(slot.address(), expected.read(i), values.read(i));
                taken.write(i, old);
                cells.write(i, slot.read(0));
            }
        }
    )* };
}
exchange_shared! {
    shared_exch_b32 shared_cas_b32 u32;
    shared_exch_b64 shared_cas_b64 u64;
    shared_exch_s32 shared_cas_s32 i32;
    shared_exch_s64 shared_cas_s64 i64;
    shared_exch_f32 shared_cas_f32 f32;
    shared_exch_f64 shared_cas_f64 f64;
}

/// Each of 64 threads adds 1 to a counter in shared memory by compare and exchange, and takes part
/// in a round of exchanges; the first writes the counter to `output[0]`.
#[kernel(threads = 64, shared = CellStorage<u32>)]
pub unsafe fn shared_exchanges(output: GlobalMut<u32>) {
    let i = index();
    // SAFETY: the kernel declares `CellStorage`.
    unsafe {
        let shared = Shared::<u32>::from_address(shared_base());
        if i < 2 {
            shared.write(i as i32, 0);
        }
        sync_threads();
        let mut seen = 0;
        loop {
            let found = u32::atomic_compare_exchange_shared(shared.address(), seen, seen + 1);
            if found == seen {
                break;
            }
            seen = found;
        }
        // Every number but the last comes back out.
        let out = u32::atomic_exchange_shared(shared.offset(1).address(), i + 1);
        sync_threads();
        output.write(i64::from(i) + 2, out);
        if i < 2 {
            output.write(i64::from(i), shared.read(i as i32));
        }
    }
}
