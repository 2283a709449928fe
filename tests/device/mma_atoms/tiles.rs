//! Matrices to and from the registers of a warp, by thread-value layouts.

use crate::numbers::TestNumber;
use moye_device::layout::Layout;

/// The lanes of a warp that hold each of its sets of matrices, by thread.
pub fn sets(thr_id: Layout) -> Vec<Vec<usize>> {
    let threads = thr_id.size() as usize;
    // Four quad pairs are 4 lanes apart; single threads are adjacent.
    let distance = match threads {
        32 => 32,
        8 => 4,
        1 => 1,
        _ => panic!("no instruction has {threads} threads"),
    };
    let lane = |set: usize, thread: usize| set * distance + thr_id.at(thread as i64) as usize;
    (0..32 / threads).map(|set| (0..threads).map(|thread| lane(set, thread)).collect()).collect()
}

/// The layout of one operand in the registers of a warp.
#[derive(Clone, Copy)]
pub struct Operand {
    pub thr_id: Layout,
    /// `(thread, value)` to the index in the tile.
    pub layout: Layout,
    /// Words of each lane.
    pub words: usize,
}

/// An element of a tile in the registers of a warp.
struct Place {
    lane: usize,
    /// The index among the lane's values.
    value: usize,
    /// The index in the tile.
    element: usize,
}

impl Operand {
    /// Elements of one tile.
    pub fn tile(&self) -> usize {
        self.layout.cosize() as usize
    }

    /// The place of each lane and value of a set.
    fn places(&self, set: &[usize]) -> Vec<Place> {
        let values = self.layout.extent(1);
        let of_lane = |(thread, &lane): (usize, &usize)| {
            (0..values).map(move |value| Place {
                lane,
                value: value as usize,
                element: self.layout.at_coord([thread as i64, value]) as usize,
            })
        };
        set.iter().enumerate().flat_map(of_lane).collect()
    }

    /// The registers of a warp, lane by lane, that hold the tiles, one for each set.
    pub fn scatter<T: TestNumber>(&self, tiles: &[Vec<T>]) -> Vec<u32> {
        let mut registers = vec![0; 32 * self.words];
        for (set, tile) in sets(self.thr_id).iter().zip(tiles) {
            for Place { lane, value, element } in self.places(set) {
                let at = lane * self.words * 32 + value * T::WIDTH;
                for (i, word) in tile[element].to_words().into_iter().enumerate() {
                    registers[at / 32 + i] |= word << (at % 32);
                }
            }
        }
        registers
    }

    /// The tiles that the registers of a warp hold.
    pub fn gather<T: TestNumber>(&self, registers: &[u32]) -> Vec<Vec<T>> {
        let gather = |set: &Vec<usize>| {
            let mut tile = vec![None; self.tile()];
            for Place { lane, value, element } in self.places(set) {
                let at = lane * self.words * 32 + value * T::WIDTH;
                let held = if T::WIDTH < 32 {
                    T::from_words(&[registers[at / 32] >> (at % 32)])
                } else {
                    T::from_words(&registers[at / 32..][..T::WIDTH / 32])
                };
                tile[element] = Some(held);
            }
            tile.into_iter().map(|element| element.expect("the layout covers the tile")).collect()
        };
        sets(self.thr_id).iter().map(gather).collect()
    }

    /// The lane and value that hold an element, for messages.
    pub fn holder(&self, set: usize, index: usize) -> (usize, usize) {
        let places = self.places(&sets(self.thr_id)[set]);
        let place = places.into_iter().find(|place| place.element == index).expect("it is held");
        (place.lane, place.value)
    }
}
