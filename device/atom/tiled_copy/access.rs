//! The memory cost of a tiled copy's accesses, at compile time.

use super::TiledCopy;
use super::partition::End;
use crate::analysis::{AccessError, AccessReport, requests};
use crate::atom::copy::{CopyAtom, MemorySpace, Side};
use crate::layout::{ComposedLayout, Layout};
use crate::memory::Storable;
use crate::tiling::TilingError;

impl<A: CopyAtom, T: Storable> TiledCopy<A, T> {
    /// Whether no request of a warp to the source, in global memory, moves more sectors than its
    /// bytes need.
    ///
    /// `tensor` is the source's layout `(M, N, ...)`, with its strides in memory.
    ///
    /// ```
    /// use moye_device::atom::TiledCopy;
    /// use moye_device::atom::copy::UniversalCopy;
    /// use moye_device::layout::layout;
    ///
    /// // Four consecutive f32 a thread, all at once: a request of a warp is 512 bytes in a row. By two, each request takes
    /// // half of what it moves.
    /// const AT_ONCE: TiledCopy<UniversalCopy<u128>, f32> = TiledCopy::new(layout!((32, 8)), layout!((4, 1)));
    /// const BY_TWO: TiledCopy<UniversalCopy<u64>, f32> = TiledCopy::new(layout!((32, 8)), layout!((4, 1)));
    /// const _: () = assert!(AT_ONCE.is_coalesced(layout!((128, 8):(1, 2048))));
    /// const _: () = assert!(!BY_TWO.is_coalesced(layout!((128, 8):(1, 2048))));
    /// ```
    ///
    /// # Panics
    /// If [`try_access_s`](Self::try_access_s) returns an error; in a `const` this is a compile
    /// error.
    #[track_caller]
    pub const fn is_coalesced(&self, tensor: Layout) -> bool {
        self.access_s(ComposedLayout::plain(tensor)).is_coalesced()
    }

    /// The requests of the source's side: sectors, wavefronts and bank conflicts.
    ///
    /// # Panics
    /// If [`try_access_s`](Self::try_access_s) returns an error; in a `const` this is a compile
    /// error.
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
    /// If [`try_access_d`](Self::try_access_d) returns an error; in a `const` this is a compile
    /// error.
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
    /// If the tensor cannot be partitioned, or an access's values are not contiguous.
    pub const fn try_access_s(&self, tensor: ComposedLayout) -> Result<AccessReport, TilingError> {
        self.access(End::Source, tensor, <A::Source as Side>::SPACE, A::LAYOUTS.src_bytes())
    }

    /// [`access_d`](Self::access_d) as a `Result`.
    ///
    /// # Errors
    /// Same as [`try_access_s`](Self::try_access_s).
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
        if matches!(space, MemorySpace::Registers) {
            return Err(
                of_atom(A::NAME).str(" has registers on this side, which need no access: use the other side")
            );
        }
        if bytes == 0 {
            return Err(of_atom(A::NAME).str(
                " leaves its width to the tensors, so that its accesses are not known: take UniversalCopy of a type",
            ));
        }
        let parts = match self.tiling().tidfrg(end, tensor.layout) {
            Ok(parts) => parts,
            Err(error) => return Err(error),
        };
        // (thread, (value, repetition, rest))
        let by_thread = Layout::concat(&[parts.mode(0), Layout::concat(&[parts.mode(1), parts.mode(2)])]);
        // `ldmatrix` and `stmatrix` take the addresses of as many lanes as the matrices have rows.
        let lanes = if self.atom_layouts().thr_id.size() == 1 {
            32
        } else {
            rows(if matches!(end, End::Source) { A::SRC } else { A::DST })
        };
        // Packed elements: a whole number of them in each access, as in the atom's layouts.
        let values = bytes as i64 * 8 / T::BITS;
        match requests(&ComposedLayout { layout: by_thread, ..tensor }, T::BITS, values, lanes) {
            Ok(report) => Ok(report),
            Err(why) => Err(unfit(of_atom(A::NAME), &why, values, T::BITS, &tensor.layout)),
        }
    }
}

/// An error that starts with the atom's name.
const fn of_atom(name: &str) -> TilingError {
    TilingError::of("the accesses of a tiled copy").str("the copy atom ").str(name)
}

/// The number of rows that the lanes of a matrix instruction address, by its side's layout in bits;
/// further lanes repeat them.
const fn rows(lanes: Layout) -> i64 {
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

/// The error of an atom's access that does not suit the tensor.
const fn unfit(
    error: TilingError,
    why: &AccessError,
    values: i64,
    bits: i64,
    tensor: &Layout,
) -> TilingError {
    let error = error
        .str(" moves ")
        .int(values)
        .str(" elements of ")
        .int(bits)
        .str(" bits at once, which must be contiguous and aligned; in ")
        .layout(tensor)
        .str(" ");
    match why {
        AccessError::Scattered { thread, value, first, other } if *first == *other => error
            .str("the access of thread ")
            .int(*thread)
            .str(" that starts with its value ")
            .int(*value)
            .str(" begins at element ")
            .int(*first)
            .str(": take strides that are multiples of ")
            .int(values),
        AccessError::Scattered { thread, value, first, other } => error
            .str("the access of thread ")
            .int(*thread)
            .str(" that starts with its value ")
            .int(*value)
            .str(" has the elements ")
            .int(*first)
            .str(" and ")
            .int(*other)
            .str(" side by side: lay the values along the fast axis, or take a narrower atom"),
        _ => error.str("they do not: ").str(why.message().as_str()),
    }
}
