//! Copies of one thread: plain words, global and through shared memory, and `cp.async`.

use crate::support::{index, unary};
use moye_device::arch::{
    CpAsyncKind, L2Prefetch, Word, Word64x2, cp_async_commit, cp_async_if, cp_async_plain, cp_async_wait,
    shared_base, sync_threads, thread_idx,
};
use moye_device::atom::copy::*;
use moye_device::memory::{Element, Global, GlobalMut, Shared, SharedArray};
use moye_device::{kernel, layout, static_layout};

unary! {
    copy_u8: u8 => u8 = |value| unsafe { UniversalCopy::<u8>::call(value, ()) };
    copy_u16: u16 => u16 = |value| unsafe { UniversalCopy::<u16>::call(value, ()) };
    copy_u32: u32 => u32 = |value| unsafe { UniversalCopy::<u32>::call(value, ()) };
    copy_u64: u64 => u64 = |value| unsafe { UniversalCopy::<u64>::call(value, ()) };
    copy_u128: u128 => u128 = |value| unsafe { UniversalCopy::<u128>::call(value, ()) };
}

static_layout! {
    /// A word for each thread.
    pub PerThread = layout!(64);
}

/// Shared memory for a word of each thread.
pub type Slots<T> = SharedArray<T, PerThread>;

/// Thread `i` of a block of 64 puts `source[i]` into its slot of shared memory by `store`; then it
/// takes what the next thread put there by `load`, and writes that to `output[i]`.
#[inline(always)]
unsafe fn around<T: Element>(
    source: Global<T>,
    output: GlobalMut<T>,
    store: impl FnOnce(Shared<T>, T),
    load: impl FnOnce(Shared<T>) -> T,
) {
    let (i, thread) = (i64::from(index()), thread_idx().x);
    // SAFETY: the buffers have an element for each thread, and the kernel declares `Slots<T>`.
    unsafe {
        let slots = Shared::<T>::from_address(shared_base());
        store(slots.offset(thread as i32), source.read(i));
        sync_threads();
        output.write(i, load(slots.offset(((thread + 1) % 64) as i32)));
    }
}

macro_rules! shared {
    ($($name:ident $t:ident;)*) => { $(
        #[kernel(threads = 64, shared = Slots<$t>)]
        pub unsafe fn $name(source: Global<$t>, output: GlobalMut<$t>) {
            // SAFETY: the kernel's own contract; a slot is its thread's until the barrier, and read
            // after it.
            unsafe {
                around(
                    source,
                    output,
                    |slot, value| slot.write(0, UniversalCopy::<$t>::call(value, ())),
                    |slot| UniversalCopy::<$t>::call(slot.read(0), ()),
                );
            }
        }
    )* };
}
shared! {
    shared_u8 u8;
    shared_u16 u16;
    shared_u32 u32;
    shared_u64 u64;
    shared_u128 u128;
}

/// The same by words of two registers.
#[kernel(threads = 64, shared = Slots<u64>)]
pub unsafe fn shared_v2(source: Global<u64>, output: GlobalMut<u64>) {
    let halves = |value: u64| Word64x2([value as u32, (value >> 32) as u32]);
    let joined = |Word64x2([low, high])| u64::from(low) | u64::from(high) << 32;
    // SAFETY: as above.
    unsafe {
        around(
            source,
            output,
            |slot, value| Word64x2::store_shared(slot.address(), halves(value)),
            |slot| joined(Word64x2::load_shared(slot.address())),
        );
    }
}

/// Thread `i` of a block of 64 copies `source[i]` into shared memory by `copy`, over what `before`
/// has, and writes what is there then to `output[i]`.
#[inline(always)]
pub(super) unsafe fn through_shared<T: Element>(
    source: Global<T>,
    output: GlobalMut<T>,
    before: T,
    copy: impl Fn(i64, u64, u32),
) {
    let (i, thread) = (i64::from(index()), thread_idx().x);
    // SAFETY: the buffers have an element for each thread, and the kernel declares `Slots<T>`.
    unsafe {
        let slot = Shared::<T>::from_address(shared_base()).offset(thread as i32);
        slot.write(0, before);
        copy(i, source.offset(i).address(), slot.address());
        cp_async_commit();
        cp_async_wait::<0>();
        output.write(i, slot.read(0));
    }
}

/// An atom's copy, and the same where `valid[i]` is not 0: by a predicate, or by the number of
/// bytes.
macro_rules! cp_async {
    ($($plain:ident $predicated:ident $atom:ident $t:ident $by:ident $kind:ident;)*) => { $(
        #[kernel(threads = 64, shared = Slots<$t>)]
        pub unsafe fn $plain(source: Global<$t>, output: GlobalMut<$t>) {
            // SAFETY: the kernel's own contract.
            unsafe { through_shared(source, output, !0, |_, from, to| $atom::<$t>::call(from, to)) }
        }

        #[kernel(threads = 64, shared = Slots<$t>)]
        pub unsafe fn $predicated(source: Global<$t>, valid: Global<u32>, output: GlobalMut<$t>) {
            // SAFETY: the kernel's own contract.
            unsafe {
                through_shared(source, output, !0, |i, from, to| {
                    let valid = valid.read(i) != 0;
                    cp_async!(@ $by $atom $t $kind, valid, from, to)
                })
            }
        }
    )* };
    (@ predicate $atom:ident $t:ident $kind:ident, $valid:ident, $from:ident, $to:ident) => {
        cp_async_if($valid, CpAsyncKind::$kind, L2Prefetch::None, $to, $from)
    };
    (@ bytes $atom:ident $t:ident $kind:ident, $valid:ident, $from:ident, $to:ident) => {
        $atom::<$t>::call_partial(u32::from($valid) * size_of::<$t>() as u32, $from, $to)
    };
}
cp_async! {
    ca_4 ca_4_if SM80_CP_ASYNC_CACHEALWAYS u32 predicate Ca4;
    ca_8 ca_8_if SM80_CP_ASYNC_CACHEALWAYS u64 predicate Ca8;
    ca_16 ca_16_if SM80_CP_ASYNC_CACHEALWAYS u128 predicate Ca16;
    cg_16 cg_16_if SM80_CP_ASYNC_CACHEGLOBAL u128 predicate Cg16;
    ca_4_zfill ca_4_zfill_if SM80_CP_ASYNC_CACHEALWAYS_ZFILL u32 bytes Ca4;
    ca_8_zfill ca_8_zfill_if SM80_CP_ASYNC_CACHEALWAYS_ZFILL u64 bytes Ca8;
    ca_16_zfill ca_16_zfill_if SM80_CP_ASYNC_CACHEALWAYS_ZFILL u128 bytes Ca16;
    cg_16_zfill cg_16_zfill_if SM80_CP_ASYNC_CACHEGLOBAL_ZFILL u128 bytes Cg16;
}

static_layout! {
    /// Three words for each thread.
    pub Three = layout!((64, 3));
}

/// Each of 64 threads copies three words into shared memory, in a group each, and takes every word
/// when only the groups after its own may still be under way.
#[kernel(threads = 64, shared = SharedArray<u32, Three>)]
pub unsafe fn groups(source: Global<u32>, output: GlobalMut<u32>) {
    let thread = thread_idx().x;
    // SAFETY: the buffers have three elements for each thread, and the kernel declares three slots
    // for it.
    unsafe {
        let slot =
            |group: u32| Shared::<u32>::from_address(shared_base()).offset((thread + 64 * group) as i32);
        let at = |group: u32| i64::from(thread + 64 * group);
        for group in 0..3 {
            let from = source.offset(at(group)).address();
            cp_async_plain(CpAsyncKind::Ca4, L2Prefetch::None, slot(group).address(), from);
            cp_async_commit();
        }
        cp_async_wait::<2>();
        output.write(at(0), slot(0).read(0));
        cp_async_wait::<1>();
        output.write(at(1), slot(1).read(0));
        cp_async_wait::<0>();
        output.write(at(2), slot(2).read(0));
    }
}
