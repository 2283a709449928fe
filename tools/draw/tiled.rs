//! Pictures of tiled copies and tiled MMAs.

use super::error::DrawError;
use super::scene::Scene;
use super::thread_value::{mma, tiled_copy};
use moye_device::atom::Atom;
use moye_device::atom::copy::{self, CopyAtom};
use moye_device::atom::{CopyTiling, End, MmaTiling, Operand, TiledCopy, TiledMma};
use moye_device::layout::IntTuple;
use moye_device::memory::Storable;

/// Types that can be drawn directly: tiled copies and tiled MMAs.
///
/// ```
/// use moye_draw::Draw;
/// use moye_device::atom::{TiledCopy, TiledMma};
/// use moye_device::atom::copy::SM75_U32x4_LDSM_N;
/// use moye_device::atom::mma::SM80_16x8x8_F32TF32TF32F32_TN;
/// use moye_device::layout::layout;
///
/// let copy = TiledCopy::<SM75_U32x4_LDSM_N, u16>::new(layout!((16, 2)), layout!((2, 4)));
/// assert_eq!(copy.draw().unwrap().title, "SM75_U32x4_LDSM_N for u16, tiled copy of 32 x 8");
/// let mma = TiledMma::<SM80_16x8x8_F32TF32TF32F32_TN>::tiled(layout!((2, 2, 1)), [32, 32, 8]);
/// assert_eq!(mma.draw().unwrap().title, "SM80_16x8x8_F32TF32TF32F32_TN, 32 x 32 x 8");
/// ```
pub trait Draw {
    /// The picture.
    ///
    /// # Errors
    /// The picture would have too many cells, or a thread's values form no layout over the tile.
    fn draw(&self) -> Result<Scene, DrawError>;
}

/// The source on the left, the destination on the right. A tile of one mode is one row; with more
/// than two modes, all modes after the first go along the columns.
impl Draw for CopyTiling {
    fn draw(&self) -> Result<Scene, DrawError> {
        let rows = if self.tile.rank() < 2 { 1 } else { self.tile.mode(0).size() };
        let (source, destination) = (self.end_tv(End::Source)?, self.end_tv(End::Destination)?);
        tiled_copy(&source, &destination, [rows, self.tile.size() / rows])
    }
}

/// A on the left, B above, C between them.
impl Draw for MmaTiling {
    fn draw(&self) -> Result<Scene, DrawError> {
        let tv = |operand| self.layout_tv(operand);
        let tile = [0, 1, 2].map(|mode| self.tile(mode));
        mma(tile, &tv(Operand::A)?, &tv(Operand::B)?, &tv(Operand::C)?, None)
    }
}

impl<A: CopyAtom, T: Storable> Draw for TiledCopy<A, T> {
    fn draw(&self) -> Result<Scene, DrawError> {
        let mut scene = self.tiling().draw()?;
        scene.title = title_of_copy(&copy::name::<A>().to_string(), T::NAME, &self.tile());
        Ok(scene)
    }
}

impl<M: Atom> Draw for TiledMma<M> {
    fn draw(&self) -> Result<Scene, DrawError> {
        let mut scene = self.tiling().draw()?;
        scene.title = format!("{}, {}", M::TRAITS.name, scene.title);
        Ok(scene)
    }
}

/// The title of an atom's tiled copy, for elements of a type, over a tile.
pub fn title_of_copy(atom: &str, element: &str, tile: &IntTuple) -> String {
    let rows = if tile.rank() < 2 { 1 } else { tile.mode(0).size() };
    format!("{atom} for {element}, tiled copy of {rows} x {}", tile.size() / rows)
}
