//! What the accesses of a tiled copy cost in memory, at compile time.

use super::TiledCopy;
use super::partition::End;
use crate::analysis::{AccessError, AccessReport, matrix_access, try_shared_access};
use crate::atom::copy::{CopyAtom, MemorySpace, Side};
use crate::atom::tiling::TilingError;
use crate::layout::{ComposedLayout, Layout};
use crate::memory::Storable;

impl<A: CopyAtom, T: Storable> TiledCopy<A, T> {
    /// Whether every request of a warp to the source in global memory moves no more sectors than its bytes need.
    ///
    /// `tensor` is the source's layout `(M, N, ...)`, with the strides that it has in memory.
    ///
    /// ```
    /// use moye_device::atom::TiledCopy;
    /// use moye_device::atom::copy::UniversalCopy;
    /// use moye_device::layout::layout;
    ///
    /// // Four consecutive f32 a thread: neighbours along M serve a column-major matrix, neighbours along K do not.
    /// const ALONG_M: TiledCopy<UniversalCopy<u128>, f32> = TiledCopy::new(layout!((32, 8)), layout!((4, 1)));
    /// const ALONG_K: TiledCopy<UniversalCopy<f32>, f32> = TiledCopy::new(layout!((128, 2):(2, 1)), layout!((1, 4)));
    /// const _: () = assert!(ALONG_M.is_coalesced(layout!((128, 8):(1, 2048))));
    /// const _: () = assert!(!ALONG_K.is_coalesced(layout!((128, 8):(1, 2048))));
    /// ```
    ///
    /// # Panics
    /// In a `const`: does not compile. Where [`try_access_s`](Self::try_access_s) gives an error.
    #[track_caller]
    pub const fn is_coalesced(&self, tensor: Layout) -> bool {
        self.access_s(ComposedLayout::plain(tensor)).is_coalesced()
    }

    /// The requests of the source's side: sectors, wavefronts and bank conflicts.
    ///
    /// # Panics
    /// In a `const`: does not compile. Where [`try_access_s`](Self::try_access_s) gives an error.
    #[track_caller]
    pub const fn access_s(&self, tensor: ComposedLayout) -> AccessReport {
        match self.try_access_s(tensor) {
            Ok(report) => report,
            Err(error) => error.raise(),
        }
    }

    /// The requests of the destination's side.
    ///
    /// # Panics
    /// In a `const`: does not compile. Where [`try_access_d`](Self::try_access_d) gives an error.
    #[track_caller]
    pub const fn access_d(&self, tensor: ComposedLayout) -> AccessReport {
        match self.try_access_d(tensor) {
            Ok(report) => report,
            Err(error) => error.raise(),
        }
    }

    /// [`access_s`](Self::access_s) as a `Result`.
    ///
    /// # Errors
    /// Where the tensor cannot be partitioned, or an access's values do not lie next to each other.
    pub const fn try_access_s(&self, tensor: ComposedLayout) -> Result<AccessReport, TilingError> {
        self.access(End::Source, tensor, <A::Source as Side>::SPACE, A::LAYOUTS.src_bytes())
    }

    /// [`access_d`](Self::access_d) as a `Result`.
    ///
    /// # Errors
    /// As [`try_access_s`](Self::try_access_s).
    pub const fn try_access_d(&self, tensor: ComposedLayout) -> Result<AccessReport, TilingError> {
        self.access(End::Destination, tensor, <A::Destination as Side>::SPACE, A::LAYOUTS.dst_bytes())
    }

    const fn access(
        &self,
        end: End,
        tensor: ComposedLayout,
        space: MemorySpace,
        bytes: usize,
    ) -> Result<AccessReport, TilingError> {
        let what = "the accesses of a tiled copy";
        if matches!(space, MemorySpace::Registers) {
            return Err(TilingError::of(what).str("this side of the atom is in registers, which need none"));
        }
        let parts = match self.tiling().tidfrg(end, tensor.layout) {
            Ok(parts) => parts,
            Err(error) => return Err(error),
        };
        // (thread, (value, repetition, rest))
        let by_thread = Layout::concat(&[parts.mode(0), Layout::concat(&[parts.mode(1), parts.mode(2)])]);
        let places = ComposedLayout { layout: by_thread, ..tensor };
        let values = bytes as i64 * 8 / T::BITS;
        let matrix = self.atom_layouts().thr_id.size() == 32;
        if !matrix {
            return match try_shared_access(places, T::BITS, if values < 1 { 1 } else { values }) {
                Ok(report) => Ok(report),
                Err(error) => Err(scattered(what, &error, &by_thread)),
            };
        }
        // `ldmatrix` and `stmatrix`: one row of 16 bytes for each lane whose address counts.
        let lanes = if matches!(end, End::Source) { A::SRC } else { A::DST };
        let matrices = distinct_rows(lanes) / 8;
        let mut report = AccessReport::NOTHING;
        let (threads, all) = (by_thread.extent(0), by_thread.extent(1));
        let mut warp = 0;
        while warp < threads {
            let mut value = 0;
            while value < all {
                let first = by_thread.at(warp + threads * value);
                let rows = Layout::concat(&[crate::layout::composition(
                    by_thread.mode(0),
                    crate::layout::make_col_major(crate::layout::IntTuple::int(8 * matrices)),
                )]);
                let rows = ComposedLayout { layout: rows, offset: tensor.offset + first, ..tensor };
                report = report.plus(&matrix_access(rows, T::BITS));
                value += values;
            }
            warp += 32;
        }
        Ok(report)
    }
}

/// The rows that the lanes of a matrix instruction name; lanes beyond them repeat.
const fn distinct_rows(lanes: Layout) -> i64 {
    let mut most = 0;
    let mut lane = 0;
    while lane < lanes.extent(0) {
        let place = lanes.at(lane) / 128;
        if place + 1 > most {
            most = place + 1;
        }
        lane += 1;
    }
    most
}

const fn scattered(what: &str, error: &AccessError, places: &Layout) -> TilingError {
    let text = TilingError::of(what).str(error.text()).str("; (thread, value) is ").layout(places);
    match error {
        AccessError::Scattered { thread, value, first, other } => text
            .str(": thread ")
            .int(*thread)
            .str(" has element ")
            .int(*first)
            .str(" as value ")
            .int(*value)
            .str(", and element ")
            .int(*other)
            .str(" in the same access"),
        AccessError::Values { values, per_access } => {
            text.str(": ").int(*values).str(" values, ").int(*per_access).str(" an access")
        }
        AccessError::Bits { bits } => text.str(": ").int(*bits).str(" bits"),
        AccessError::Rank { .. } => text,
    }
}
