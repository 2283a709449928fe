//! Lost and raced flags of each form on two simulators, and the error that reports them. Each rank
//! has eight rows of eight ones; rank 1 raises a flag for rank 0 when what it sends is complete.

use moye::half::bf16;
use moye::layout::layout;
use moye::{Buffer, Device, Global, GlobalMut, Grid, Result, Stream, TensorMap};
use moye_device::atom::tma::TmaTile;
use moye_device::collective::{Groups, StoreC, Target};
use moye_parallel::PTX;
use moye_parallel::arrivals::{FLAG_BYTES, Shards};
use moye_parallel::kernel::{
    Addresses, Awaited, CopyA, CopyB, Extents, Parts, SUM_THREADS, Slots, Square, gathered_bf16_128x128,
    partial_bf16_128x128, pushed, reduced_bf16_128x128, summed_bf16,
};

/// How rank 1 raises its flag.
#[derive(Clone, Copy, PartialEq)]
enum Flag {
    /// On the stream of what it sends.
    Raised,
    /// It does not.
    Lost,
    /// On a stream that has not waited for what it sends.
    Raced,
}

/// Whether rank 0 waits for the flag.
#[derive(Clone, Copy, PartialEq)]
enum Wait {
    Waits,
    Ignores,
}
use Wait::{Ignores, Waits};

/// Two ranks, with a stream each.
struct Ranks {
    devices: Vec<Device>,
    streams: [Stream; 2],
    /// Rank 0's flags, by rank.
    flags: Buffer<u32>,
}

const ONE: [bf16; 64] = [bf16::ONE; 64];

fn extents(m: u32) -> Extents {
    Extents { m, n: 8, k: 8, band: 16 }
}

/// The map of rows of eight elements.
fn map(device: &Device, tile: &TmaTile, buffer: &Buffer<bf16>) -> Result<TensorMap> {
    match buffer.len() / 8 {
        8 => TensorMap::of_tile(device, tile, buffer, &layout!((8, 8):(8, 1))),
        16 => TensorMap::of_tile(device, tile, buffer, &layout!((16, 8):(8, 1))),
        _ => TensorMap::of_tile(device, tile, buffer, &layout!((256, 8):(8, 1))),
    }
}

fn target(c: &Buffer<bf16>) -> Target<bf16> {
    let c = GlobalMut::from_address(c.address());
    Target { c, group: 0, row: 8, column: 1, columns: 8, aligned: 1, tensor: 1 }
}

impl Ranks {
    fn new() -> Result<Self> {
        let devices = Device::sim_peers(2);
        let streams = [devices[0].new_stream()?, devices[1].new_stream()?];
        let flags = devices[0].alloc_zeroed(2 * FLAG_BYTES as usize / 4)?;
        Ok(Self { devices, streams, flags })
    }

    /// The address of rank 1's flag.
    fn flag(&self) -> u64 {
        self.flags.address() + u64::from(FLAG_BYTES)
    }

    fn raise(&self, flag: Flag) -> Result<()> {
        // SAFETY: the flag is a word, here and below.
        match flag {
            Flag::Raised => unsafe { self.streams[1].raise(self.flag(), 1) },
            Flag::Lost => Ok(()),
            Flag::Raced => unsafe { self.devices[1].new_stream()?.raise(self.flag(), 1) },
        }
    }

    /// Multiplies a rank's rows, and stores the eights at `c`, in any rank's memory.
    fn partial(&self, rank: usize, ones: &Buffer<bf16>, c: &Buffer<bf16>) -> Result<()> {
        let device = &self.devices[rank];
        let a = map(device, &CopyA::<bf16, Square>::TILE, ones)?;
        let b = map(device, &CopyB::<bf16, Square>::TILE, ones)?;
        let (c, module) = (map(device, &StoreC::<bf16>::TILE, c)?, device.load(&PTX)?);
        let arguments = (&a, &b, &c, extents(8));
        // SAFETY: the maps are of the operands and of the results.
        unsafe { module.launch_on(&self.streams[rank], &partial_bf16_128x128, Grid::new(1, 384), arguments) }
    }
}

/// All-gather and product: rank 1 copies its rows to rank 0, which gathers them while it
/// multiplies.
fn gather(flag: Flag, wait: Wait) -> Result<Vec<bf16>> {
    let ranks = Ranks::new()?;
    let [first, other] = [0, 1].map(|rank| &ranks.devices[rank]);
    let (own, b, sent) = (first.upload(&ONE)?, first.upload(&ONE)?, other.upload(&ONE)?);
    let (all, ends) = (first.alloc_zeroed::<bf16>(2 * 128 * 8)?, first.upload(&[8, 16])?);
    let c = first.alloc_uninit::<bf16>(128)?;
    // SAFETY: rank 1's rows follow 128 of rank 0.
    unsafe { ranks.streams[1].copy(all.address() + 2 * 128 * 8, sent.address(), 128)? };
    ranks.raise(flag)?;
    let rows = Groups { ends: Global::from_address(ends.address()), count: 2, rows: 16, apart: 0 };
    let flags = Global::from_address(ranks.flags.address());
    // The flags begin at 0, so a wait for 0 is over at once.
    let epoch = u32::from(wait == Waits);
    let shards = Shards { rows, flags, apart: 128, epoch, rank: 0 };
    let maps = (
        map(first, &CopyA::<bf16, Square>::TILE, &own)?,
        map(first, &CopyA::<bf16, Square>::TILE, &all)?,
        map(first, &CopyB::<bf16, Square>::TILE, &b)?,
        map(first, &StoreC::<bf16>::TILE, &c)?,
    );
    let module = first.load(&PTX)?;
    let arguments = (&maps.0, &maps.1, &maps.2, &maps.3, target(&c), shards, extents(16));
    let grid = Grid::new(4, 384);
    // SAFETY: the maps are of the operands, and the shards of their rows.
    unsafe { module.launch_on(&ranks.streams[0], &gathered_bf16_128x128, grid, arguments)? };
    c.download()
}

/// Product and reduce-scatter: rank 1 stores partial results in rank 0's memory, which adds them to
/// its own.
fn scatter(flag: Flag, wait: Wait) -> Result<Vec<bf16>> {
    let ranks = Ranks::new()?;
    let [first, other] = [0, 1].map(|rank| &ranks.devices[rank]);
    let (own, sent, slot) = (first.upload(&ONE)?, other.upload(&ONE)?, first.alloc_zeroed::<bf16>(64)?);
    let c = first.alloc_uninit::<bf16>(64)?;
    ranks.partial(1, &sent, &slot)?;
    ranks.raise(flag)?;
    if wait == Waits {
        // SAFETY: the flag is a word.
        unsafe { ranks.streams[0].wait_flag(ranks.flag(), 1)? };
    }
    let a = map(first, &CopyA::<bf16, Square>::TILE, &own)?;
    let b = map(first, &CopyB::<bf16, Square>::TILE, &own)?;
    let of_c = map(first, &StoreC::<bf16>::TILE, &c)?;
    let slots =
        Slots { first: Global::from_address(slot.address()), apart: 64, count: 1, rows: 8, columns: 8 };
    let (module, arguments) = (first.load(&PTX)?, (&a, &b, &of_c, target(&c), slots, extents(8)));
    // SAFETY: the maps are of the operands, and the slots of the partial results.
    unsafe { module.launch_on(&ranks.streams[0], &reduced_bf16_128x128, Grid::new(1, 384), arguments)? };
    c.download()
}

/// Where the results lie that rank 0 adds to its own.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sent {
    /// In rank 1's memory, stored by its product: the product + all-reduce.
    Kept,
    /// In rank 0's memory, stored by rank 1's kernel: a sum of up to 256 KiB.
    Pushed,
    /// In rank 0's memory, stored by rank 1's copy: a sum of more.
    Copied,
}

/// All-reduce: rank 0 sums its eights and those of rank 1.
fn sum(sent: Sent, flag: Flag, wait: Wait) -> Result<Vec<bf16>> {
    let ranks = Ranks::new()?;
    let [first, other] = [0, 1].map(|rank| &ranks.devices[rank]);
    let (ones, eights) = ([first.upload(&ONE)?, other.upload(&ONE)?], [bf16::from_f32(8.0); 64]);
    let [own, results] = match sent {
        Sent::Kept => [first.alloc_zeroed(64)?, other.alloc_zeroed(64)?],
        _ => [first.upload(&eights)?, other.upload(&eights)?],
    };
    let (slot, c) = (first.alloc_zeroed::<bf16>(64)?, first.alloc_uninit::<bf16>(64)?);
    // SAFETY: the slot has the 128 bytes, here and below.
    match sent {
        Sent::Kept => ranks.partial(1, &ones[1], &results)?,
        Sent::Pushed => {
            let to = Addresses::from([slot.address(), 0, 0, 0, 0, 0, 0, 0]);
            let (module, arguments) = (other.load(&PTX)?, (results.address(), to, 8));
            unsafe { module.launch_on(&ranks.streams[1], &pushed, Grid::new(1, SUM_THREADS), arguments)? }
        }
        Sent::Copied => unsafe { ranks.streams[1].copy(slot.address(), results.address(), 128)? },
    }
    ranks.raise(flag)?;
    if sent == Sent::Kept {
        ranks.partial(0, &ones[0], &own)?;
    }
    let received = if sent == Sent::Kept { results.address() } else { slot.address() };
    let addresses = [own.address(), received, 0, 0, 0, 0, 0, 0].into();
    let parts = Parts { addresses, count: 2, rows: 8, columns: 8 };
    let flags = Global::from_address(ranks.flags.address());
    let awaited = Awaited { flags, epoch: 1, ranks: if wait == Waits { 2 } else { 0 }, rank: 0 };
    let (module, arguments) = (first.load(&PTX)?, (parts, awaited, target(&c)));
    // SAFETY: the parts have the rows, and there is a flag for each rank.
    unsafe { module.launch_on(&ranks.streams[0], &summed_bf16, Grid::new(1, SUM_THREADS), arguments)? };
    c.download()
}

/// The error of a form.
fn refused(result: Result<Vec<bf16>>) -> String {
    result.unwrap_err().to_string()
}

/// Whether the error is that of a wait for a flag that no stream has raised.
fn assert_lost(error: &str, who: &str) {
    assert!(error.contains("a wait for 1 in the flag at") && error.contains("which holds 0"), "{error}");
    assert!(error.contains(who), "{error}");
}

/// Whether the error is a race of these two accesses.
fn assert_race(error: &str, read: &str, write: &str) {
    assert!(error.contains("race: ") && error.contains(read) && error.contains(write), "{error}");
}

#[test]
fn a_shard_that_is_awaited_is_multiplied() {
    assert_eq!(gather(Flag::Raised, Waits).unwrap(), [bf16::from_f32(8.0); 128]);
}

#[test]
fn a_lost_flag_of_a_shard_is_a_fault_of_the_wait() {
    assert_lost(&refused(gather(Flag::Lost, Waits)), "kernel `gathered_bf16_128x128`");
}

#[test]
fn a_shard_whose_flag_is_raised_early_or_not_awaited_is_a_race() {
    for (flag, wait) in [(Flag::Raced, Waits), (Flag::Lost, Ignores)] {
        assert_race(&refused(gather(flag, wait)), "bulk copy's read", "copy's write");
    }
}

#[test]
fn partial_results_that_are_awaited_are_added() {
    assert_eq!(scatter(Flag::Raised, Waits).unwrap(), [bf16::from_f32(16.0); 64]);
    for sent in [Sent::Kept, Sent::Pushed, Sent::Copied] {
        assert_eq!(sum(sent, Flag::Raised, Waits).unwrap(), [bf16::from_f32(16.0); 64], "{sent:?}");
    }
}

#[test]
fn a_lost_flag_of_partial_results_is_a_fault_of_the_wait() {
    // The stream waits, not a kernel.
    assert_lost(&refused(scatter(Flag::Lost, Waits)), "kernel `flag`");
    for sent in [Sent::Kept, Sent::Pushed, Sent::Copied] {
        assert_lost(&refused(sum(sent, Flag::Lost, Waits)), "kernel `summed_bf16`");
    }
}

#[test]
fn scattered_results_whose_flag_is_raised_early_or_not_awaited_are_a_race() {
    for (flag, wait) in [(Flag::Raced, Waits), (Flag::Raised, Ignores), (Flag::Lost, Ignores)] {
        let error = refused(scatter(flag, wait));
        assert_race(&error, "kernel `reduced_bf16_128x128`", "of kernel `partial_bf16_128x128`");
    }
}

#[test]
fn parts_of_a_sum_whose_flag_is_raised_early_or_not_awaited_are_a_race() {
    for (sent, write) in [
        (Sent::Kept, "of kernel `partial_bf16_128x128`"),
        (Sent::Pushed, "of kernel `pushed`"),
        (Sent::Copied, "copy's write"),
    ] {
        for (flag, wait) in [(Flag::Raced, Waits), (Flag::Raised, Ignores), (Flag::Lost, Ignores)] {
            assert_race(&refused(sum(sent, flag, wait)), "kernel `summed_bf16`", write);
        }
    }
}
