//! Coordinates of keys in the tensors of K and V (row, column, KV head, sequence or page).

use super::arguments::Arguments;
use super::hopper_config::{BOX, Config};
use super::sequence::Sequence;
use moye_device::memory::{Element, Global};

/// The largest number of TMA boxes in a tile of keys.
const MOST_BOXES: usize = 4;

/// Maps a key of one sequence to its row and sequence, or to its row and page.
#[derive(Clone, Copy)]
pub struct Places {
    /// Page numbers of the sequence; address 0 without pages.
    pages: Global<i32>,
    /// Tokens of a page.
    page: u32,
    /// Without pages: the row of the first key, and the sequence.
    first: u32,
    batch: u32,
    /// Keys of the sequence.
    keys: u32,
}

impl Places {
    /// The places of the keys of `sequence`.
    #[inline(always)]
    pub fn new<T: Element>(arguments: &Arguments<T>, sequence: &Sequence) -> Self {
        let pages = if arguments.pages.address() == 0 {
            arguments.pages
        } else {
            arguments.pages.offset(i64::from(sequence.batch) * arguments.stride_pages)
        };
        // With offsets, all sequences are rows of sequence 0 of the tensor.
        let batch = if arguments.k_offsets.address() == 0 { sequence.batch } else { 0 };
        Self { pages, page: arguments.page, first: sequence.k_first, batch, keys: sequence.visible.keys }
    }

    /// The row and the sequence, or the page, of a key. With pages, a key past the end of the
    /// sequence gets a row past the end of the page: TMA fills its elements with zeros.
    #[inline(always)]
    pub fn of(&self, key: u32) -> [i32; 2] {
        if self.pages.address() == 0 {
            return [(self.first + key) as i32, self.batch as i32];
        }
        if key >= self.keys {
            return [self.page as i32, 0];
        }
        let number = i64::from(key >> self.page.trailing_zeros());
        // SAFETY: the sequence has the key, so that the table has its page.
        [(key & (self.page - 1)) as i32, unsafe { self.pages.read(number) }]
    }

    /// The coordinates of the first key of each box of a tile.
    #[inline(always)]
    pub fn of_tile<C: Config>(&self, tile: u32) -> [[i32; 2]; MOST_BOXES] {
        let mut places = [[0; 2]; MOST_BOXES];
        for part in 0..const {
            assert!(C::BLK_N % BOX == 0 && C::BLK_N / BOX <= MOST_BOXES as u32, "a tile of 1 to 4 boxes");
            C::BLK_N / BOX
        } {
            places[part as usize] = self.of(tile * C::BLK_N + part * BOX);
        }
        places
    }
}
