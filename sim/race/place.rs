//! Source lines of accesses, as indices that fit into an entry.

use crate::fault::Access;
use std::cell::Cell;
use std::collections::HashMap;
use std::panic::Location;
use std::sync::{Mutex, PoisonError};

pub(super) type Place = (&'static Location<'static>, Access);

/// The places of the process, by index, and the indices by address of the location and access.
struct Table {
    places: Vec<Place>,
    numbers: HashMap<(usize, Access), u16>,
}

static TABLE: Mutex<Option<Table>> = Mutex::new(None);

/// Entries of the cache; a kernel has some dozens of places.
const CACHED: usize = 512;

/// A block's cache of places.
pub(crate) struct Places(Box<[Cell<(usize, u16)>]>);

impl Default for Places {
    fn default() -> Self {
        Self(vec![Cell::new((0, 0)); CACHED].into())
    }
}

impl Places {
    /// The index of a place.
    #[inline(always)]
    pub(crate) fn number(&self, location: &'static Location<'static>, access: Access) -> u16 {
        // Locations are multiples of 8 and below 2^56, so that the access fits beside them.
        let address = std::ptr::from_ref(location).addr();
        let key = address ^ (access as usize) << 56;
        let slot = &self.0[((address / 8) ^ access as usize) % CACHED];
        let (cached, number) = slot.get();
        if cached == key {
            return number;
        }
        let number = look_up(location, access);
        slot.set((key, number));
        number
    }
}

#[cold]
#[inline(never)]
fn look_up(location: &'static Location<'static>, access: Access) -> u16 {
    let mut table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    let table = table.get_or_insert_with(|| Table { places: Vec::new(), numbers: HashMap::new() });
    let key = (std::ptr::from_ref(location).addr(), access);
    if let Some(&number) = table.numbers.get(&key) {
        return number;
    }
    // In a process with more places than indices, the last index stands for all further places.
    let number = table.places.len().min(u16::MAX.into()) as u16;
    if table.places.len() <= usize::from(u16::MAX) {
        table.places.push((location, access));
    }
    table.numbers.insert(key, number);
    number
}

/// The place of an index that [`Places::number`] returned.
pub(crate) fn place(number: u16) -> Place {
    let table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    table.as_ref().expect("a number is given by the table").places[usize::from(number)]
}
