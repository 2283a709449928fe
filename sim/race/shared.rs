//! The shadow of a block's shared memory.

use super::cell::{PAGE, Page};
use std::cell::RefCell;

/// The pages of a block's shared memory.
pub(crate) struct SharedShadow(RefCell<Vec<Page>>);

impl SharedShadow {
    /// The shadow of this many bytes; empty without race detection.
    pub(crate) fn new(bytes: usize) -> Self {
        Self(RefCell::new((0..bytes.div_ceil(PAGE)).map(|_| Page::default()).collect()))
    }

    /// Forgets all accesses.
    pub(crate) fn clear(&self) {
        self.0.borrow_mut().iter_mut().for_each(Page::clear);
    }

    /// Calls `act` with the page of an offset and the offset in it.
    #[inline(always)]
    pub(crate) fn with_page<R>(&self, offset: usize, act: impl FnOnce(&mut Page, usize) -> R) -> R {
        act(&mut self.0.borrow_mut()[offset / PAGE], offset % PAGE)
    }
}
