//! Loads and stores with hints, prefetches, `cp.async` with prefetches.

use crate::sm_80::copy::{Slots, through_shared};
use crate::support::index;
use moye_device::arch::*;
use moye_device::kernel;
use moye_device::memory::{Global, GlobalMut, Shared};

/// `output[i] = input[i]` for `i < count`, by a load from one address and a store to another.
macro_rules! words {
    ($($name:ident $t:ty: |$from:ident| $load:expr, |$to:ident, $word:ident| $store:expr;)*) => { $(
        #[kernel]
        pub unsafe fn $name(input: Global<$t>, output: GlobalMut<$t>, count: u32) {
            let i = index();
            if i < count {
                let ($from, $to) = (input.offset(i64::from(i)).address(), output.offset(i64::from(i)).address());
                // SAFETY: the buffers have `count` elements.
                unsafe {
                    let $word = $load;
                    $store;
                }
            }
        }
    )* };
}

/// In words of `W`, loaded with a hint.
macro_rules! load {
    ($($name:ident $t:ty as $word:ty: $hint:expr;)*) => {
        words! { $(
            $name $t: |from| <$word>::load_global_hint(const { $hint }, from), |to, word| <$word>::store_global(to, word);
        )* }
    };
}
const PLAIN: LoadHint = LoadHint::PLAIN;
const READ_ONLY: LoadHint = LoadHint::READ_ONLY;
load! {
    ld_ca u32 as u32: PLAIN.cache(LoadCache::Ca);
    ld_cg u128 as Word128: PLAIN.cache(LoadCache::Cg);
    ld_cs u64 as Word64x2: PLAIN.cache(LoadCache::Cs);
    ld_lu u32 as u32: PLAIN.cache(LoadCache::Lu);
    ld_evict_last u32 as u32: PLAIN.cache(LoadCache::L1EvictLast);
    ld_evict_first u128 as Word128: PLAIN.cache(LoadCache::L1EvictFirst);
    ld_evict_unchanged u32 as u32: PLAIN.cache(LoadCache::L1EvictUnchanged);
    ld_no_allocate u128 as Word128: PLAIN.cache(LoadCache::L1NoAllocate);
    ld_64b u32 as u32: PLAIN.prefetch(L2Prefetch::B64);
    ld_128b u128 as Word128: PLAIN.prefetch(L2Prefetch::B128);
    ld_256b u128 as Word128: PLAIN.prefetch(L2Prefetch::B256);
    ld_nc_u8 u8 as u8: READ_ONLY;
    ld_nc_u16 u16 as u16: READ_ONLY;
    ld_nc_u32 u32 as u32: READ_ONLY;
    ld_nc_u64 u64 as u64: READ_ONLY;
    ld_nc_v2 u64 as Word64x2: READ_ONLY;
    ld_nc_v4 u128 as Word128: READ_ONLY;
    ld_nc_ca u32 as u32: READ_ONLY.cache(LoadCache::Ca);
    ld_nc_cg u32 as u32: READ_ONLY.cache(LoadCache::Cg);
    ld_nc_cs u32 as u32: READ_ONLY.cache(LoadCache::Cs);
    ld_nc_evict_last u32 as u32: READ_ONLY.cache(LoadCache::L1EvictLast);
    ld_nc_evict_first u32 as u32: READ_ONLY.cache(LoadCache::L1EvictFirst);
    ld_nc_evict_unchanged u32 as u32: READ_ONLY.cache(LoadCache::L1EvictUnchanged);
    ld_nc_no_allocate_128b u128 as Word128: READ_ONLY.cache(LoadCache::L1NoAllocate).prefetch(L2Prefetch::B128);
    ld_nc_256b u128 as Word128: READ_ONLY.prefetch(L2Prefetch::B256);
}

/// In words of `W`, stored with a policy of the caches.
macro_rules! store {
    ($($name:ident $t:ty as $word:ty: $cache:ident;)*) => {
        words! { $(
            $name $t: |from| <$word>::load_global(from),
                |to, word| <$word>::store_global_hint(const { StoreCache::$cache }, to, word);
        )* }
    };
}
store! {
    st_wb u32 as u32: Wb;
    st_cg u128 as Word128: Cg;
    st_cs u64 as Word64x2: Cs;
    st_wt u32 as u32: Wt;
    st_evict_last u32 as u32: L1EvictLast;
    st_evict_first u128 as Word128: L1EvictFirst;
    st_no_allocate u128 as Word128: L1NoAllocate;
}

/// By accesses with policies of L2, both of one kind.
macro_rules! policy {
    ($($name:ident $evict:ident;)*) => {
        words! { $(
            $name u128: |from| Word128::load_global_policy(CachePolicy::new(L2Evict::$evict), from),
                |to, word| Word128::store_global_policy(CachePolicy::new(L2Evict::$evict), to, word);
        )* }
    };
}
policy! {
    policy_last Last;
    policy_normal Normal;
    policy_first First;
    policy_unchanged Unchanged;
}

/// `output[i] = input[i]`, with a prefetch of the same element.
#[kernel]
pub unsafe fn prefetched(input: Global<u32>, output: GlobalMut<u32>, count: u32) {
    let i = index();
    if i < count {
        let at = i64::from(i);
        prefetch_l2(input.offset(at).address());
        // SAFETY: the buffers have `count` elements.
        unsafe { output.write(at, input.read(at)) }
    }
}

/// Thread `i` of a block of 64 copies `source[i]` through shared memory with a prefetch, and waits
/// for all its copies; the same where `valid[i]` is not 0, by a predicate and by the number of
/// bytes.
macro_rules! prefetching {
    ($($name:ident $predicated:ident $filled:ident $t:ty: $kind:ident $prefetch:ident;)*) => { $(
        #[kernel(threads = 64, shared = Slots<$t>)]
        pub unsafe fn $name(source: Global<$t>, output: GlobalMut<$t>) {
            let i = index();
            // SAFETY: the buffers have an element for each thread, and the kernel declares `Slots`.
            unsafe {
                let slot = Shared::<$t>::from_address(shared_base()).offset(thread_idx().x as i32);
                let from = source.offset(i64::from(i)).address();
                cp_async_plain(CpAsyncKind::$kind, L2Prefetch::$prefetch, slot.address(), from);
                cp_async_wait_all();
                output.write(i64::from(i), slot.read(0));
            }
        }

        #[kernel(threads = 64, shared = Slots<$t>)]
        pub unsafe fn $predicated(source: Global<$t>, valid: Global<u32>, output: GlobalMut<$t>) {
            // SAFETY: the kernel's own contract.
            unsafe {
                through_shared(source, output, !0, |i, from, to| {
                    cp_async_if(valid.read(i) != 0, CpAsyncKind::$kind, L2Prefetch::$prefetch, to, from)
                })
            }
        }

        #[kernel(threads = 64, shared = Slots<$t>)]
        pub unsafe fn $filled(source: Global<$t>, valid: Global<u32>, output: GlobalMut<$t>) {
            // SAFETY: the kernel's own contract.
            unsafe {
                through_shared(source, output, !0, |i, from, to| {
                    let bytes = u32::from(valid.read(i) != 0) * size_of::<$t>() as u32;
                    cp_async_zfill(CpAsyncKind::$kind, L2Prefetch::$prefetch, to, from, bytes)
                })
            }
        }
    )* };
}
prefetching! {
    ca_4_64b ca_4_if_64b ca_4_zfill_64b u32: Ca4 B64;
    ca_4_128b ca_4_if_128b ca_4_zfill_128b u32: Ca4 B128;
    ca_4_256b ca_4_if_256b ca_4_zfill_256b u32: Ca4 B256;
    ca_8_64b ca_8_if_64b ca_8_zfill_64b u64: Ca8 B64;
    ca_8_128b ca_8_if_128b ca_8_zfill_128b u64: Ca8 B128;
    ca_8_256b ca_8_if_256b ca_8_zfill_256b u64: Ca8 B256;
    ca_16_64b ca_16_if_64b ca_16_zfill_64b u128: Ca16 B64;
    ca_16_128b ca_16_if_128b ca_16_zfill_128b u128: Ca16 B128;
    ca_16_256b ca_16_if_256b ca_16_zfill_256b u128: Ca16 B256;
    cg_16_64b cg_16_if_64b cg_16_zfill_64b u128: Cg16 B64;
    cg_16_128b cg_16_if_128b cg_16_zfill_128b u128: Cg16 B128;
    cg_16_256b cg_16_if_256b cg_16_zfill_256b u128: Cg16 B256;
}
