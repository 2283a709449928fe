//! The ladder, step 4: `cp.async` fills shared memory for the next tile while this one, in
//! fragments, is multiplied (`device/kernels/ladder/overlapped.rs`).

mod support;

use moye::kernels::ladder::ladder_overlapped;
use moye::layout::layout;
use moye_device::atom::copy::SM80_CP_ASYNC_CACHEALWAYS;
use moye_device::atom::mma::UniversalFma;
use moye_device::atom::{TiledCopy, TiledMma};
use support::{Block, Fast, run};

fn main() -> moye::Result<()> {
    // What changes from step 3 is the copy atom: the instruction moves 8 bytes from global to
    // shared memory.
    const COPY: TiledCopy<SM80_CP_ASYNC_CACHEALWAYS<u64>, f32> =
        TiledCopy::new(layout!((32, 8)), layout!((2, 1)));
    println!("{COPY:?}");

    // The operands of a whole tile are in registers. How many that is depends on how the threads
    // divide C.
    for atoms in [layout!((32, 8, 1)), layout!((16, 16, 1))] {
        let mma = TiledMma::<UniversalFma<f32>>::new(atoms);
        let registers = |part: moye::layout::Layout| part.size();
        println!(
            "threads {atoms}: {} registers of A, {} of B, {} of C",
            registers(mma.partition_a(layout!((128, 8)))),
            registers(mma.partition_b(layout!((128, 8)))),
            registers(mma.partition_c(layout!((128, 128))))
        );
    }

    run(&ladder_overlapped, Block { tile: (128, 128), threads: 256 }, Fast::Mn, Fast::Mn)
}
