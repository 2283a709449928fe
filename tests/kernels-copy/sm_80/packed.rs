//! Elements smaller than a byte.

use crate::support::index;
use moye_device::arch::{Word128, shared_base, sync_threads};
use moye_device::memory::{
    Global, GlobalMut, GlobalPacked, GlobalPackedMut, Shared, SharedArray, SharedPacked,
};
use moye_device::number::{B1, S4, Scalar, U4};
use moye_device::{kernel, layout, static_layout};

/// Elements of a run.
pub const ELEMENTS: u32 = 256;

/// `output[i] = input[255 - i]`, each thread an element, so that threads share bytes; and
/// `values[i]` is the value of `input[i]`, to see that signs are kept.
#[inline(always)]
unsafe fn reverse<T: Scalar>(input: Global<u8>, output: GlobalMut<u8>, values: GlobalMut<f32>) {
    let i = i64::from(index());
    // SAFETY: the buffers have `ELEMENTS` elements; each element is written by one thread.
    unsafe {
        let (from, to) = (GlobalPacked::<T>::new(input), GlobalPackedMut::<T>::new(output));
        let last = i64::from(ELEMENTS) - 1;
        to.offset(i).write_shared_byte(0, from.offset(last).read(-i));
        values.write(i, from.read(i).to_f64() as f32);
    }
}

static_layout! {
    /// Room for 256 elements of 4 bits.
    pub Bytes = layout!(128);
}

/// Shared memory for 256 elements of 4 bits.
pub type PackedStorage = SharedArray<u8, Bytes>;

/// The same through shared memory by 32 threads: words in, transposed there element by element,
/// words out. Each thread has its own whole bytes.
#[inline(always)]
unsafe fn reverse_in_shared<T: Scalar>(input: Global<u8>, output: GlobalMut<u8>) {
    let thread = i64::from(index());
    // SAFETY: the buffers have `ELEMENTS` elements and lie at multiples of 16 bytes.
    unsafe {
        let (from, to) = (GlobalPacked::<T>::new(input), GlobalPackedMut::<T>::new(output));
        let shared = SharedPacked::<T>::new(Shared::from_address(shared_base()));
        let per_word = 128 / T::WIDTH as i64;
        let words = i64::from(ELEMENTS) / per_word;
        if thread < words {
            shared.write_word::<Word128>(thread * per_word, from.read_word(thread * per_word));
        }
        sync_threads();
        // Each thread exchanges eight elements of the lower half, whole bytes, with their
        // counterparts.
        if thread < 16 {
            for i in 0..8 {
                let (low, high) = (8 * thread + i, i64::from(ELEMENTS) - 1 - (8 * thread + i));
                let (a, b) = (shared.read(low), shared.read(high));
                shared.write(low, b);
                shared.write(high, a);
            }
        }
        sync_threads();
        if thread < words {
            to.write_word::<Word128>(thread * per_word, shared.read_word(thread * per_word));
        }
    }
}

macro_rules! packed {
    ($($global:ident $shared:ident $t:ident;)*) => { $(
        #[kernel(threads = 256)]
        pub unsafe fn $global(input: Global<u8>, output: GlobalMut<u8>, values: GlobalMut<f32>) {
            // SAFETY: the kernel's own contract.
            unsafe { reverse::<$t>(input, output, values) }
        }

        #[kernel(threads = 32, shared = PackedStorage)]
        pub unsafe fn $shared(input: Global<u8>, output: GlobalMut<u8>) {
            // SAFETY: the kernel's own contract.
            unsafe { reverse_in_shared::<$t>(input, output) }
        }
    )* };
}
packed! {
    reverse_s4 reverse_s4_shared S4;
    reverse_u4 reverse_u4_shared U4;
    reverse_b1 reverse_b1_shared B1;
}
