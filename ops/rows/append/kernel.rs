//! Rows into a cache at slots.

use moye_device::algorithm::{FastDivmod, MAP_THREADS, MapModes, load_vector_if, store_vector_if};
use moye_device::arch::overlap_launches;
use moye_device::prelude::*;

/// Words of a thread.
pub const WORDS: u32 = 4;

static_layout! { Words = layout!((1, WORDS as i64)); }

/// The slots of a cache: pages of consecutive slots. Strides are in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, KernelParam)]
#[repr(C)]
pub struct Slots {
    /// Slots of all pages.
    pub count: u32,
    /// Slots of a page.
    pub page: FastDivmod,
    /// Between two pages.
    pub page_stride: i64,
    /// Between two slots of a page.
    pub stride: i64,
    /// Whether slot numbers have 64 bits.
    pub wide: bool,
}

/// `cache[slots[i], j] = x[i, j]` of words `W`; a row is not written if its slot is not from 0 to
/// `count - 1`. The inputs of `modes` are the slots and `x`, its result is the place within a slot.
///
/// # Safety
/// A grid of `ceil(count / (WORDS * MAP_THREADS))` blocks for the words of `modes`. Operands have
/// their elements, the cache its slots; `cache` overlaps none of the inputs. No two rows have the
/// same slot.
#[kernel(
    threads = MAP_THREADS,
    instances = (append_128<u128>, append_32<u32>, append_16<u16>)
)]
pub unsafe fn append<W: Element>(
    numbers: Global<i32>,
    x: Global<W>,
    cache: GlobalMut<W>,
    modes: MapModes<2>,
    slots: Slots,
) {
    overlap_launches();
    let first = block_idx().x * (MAP_THREADS * WORDS) + thread_idx().x;
    let mut words = Fragment::<W, Words>::zeros(); // (1, WORDS)
    let (mut to, mut is_slot) = ([0; WORDS as usize], [false; WORDS as usize]);
    // All words are loaded before any is stored, and none waits for its slot.
    for i in 0..to.len() {
        let place = modes.place(first + i as u32 * MAP_THREADS);
        let exists = place.elements > 0;
        load_vector_if(exists, x.offset(place.inputs[1]), &mut words, i);
        let slot = if slots.wide {
            numbers.cast::<i64>().offset(place.inputs[0]).read_if(exists)
        } else {
            i64::from(numbers.offset(place.inputs[0]).read_if(exists))
        };
        is_slot[i] = exists && slot >= 0 && slot < i64::from(slots.count);
        let (page, slot) = slots.page.divide(slot as u32);
        to[i] = place.out + i64::from(page) * slots.page_stride + i64::from(slot) * slots.stride;
    }
    for i in 0..to.len() {
        store_vector_if(is_slot[i], cache.offset(to[i]), &words, i);
    }
}
