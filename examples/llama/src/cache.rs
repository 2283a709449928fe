//! Keys and values of tokens in pages: a sequence holds the pages that its tokens need, anywhere.

use crate::config::Config;
use half::f16;
use moye::{Buffer, Device};

/// The pages of all layers. Page `i` of a sequence has the same index in each layer.
pub struct Cache {
    /// Keys and values of each layer: (page, token, keys and values, head, element).
    pub(crate) layers: Vec<Buffer<f16>>,
    /// The number of pages.
    pub(crate) pages: usize,
    /// Tokens of a page.
    pub(crate) page: usize,
    free: Vec<i32>,
}

/// The pages of one layer.
pub struct LayerCache<'a> {
    /// Keys and values: (page, token, keys and values, head, element).
    pub buffer: &'a mut Buffer<f16>,
    /// The number of pages.
    pub pages: usize,
    /// Tokens of a page.
    pub page: usize,
}

impl Cache {
    /// A cache of `pages` pages of `page` tokens.
    ///
    /// # Errors
    /// [`moye::Error::OutOfMemory`].
    pub fn new(device: &Device, config: &Config, pages: usize, page: usize) -> moye::Result<Self> {
        let elements = pages * page * 2 * config.kv_heads * config.head;
        let layers = (0..config.layers).map(|_| device.alloc_uninit(elements)).collect::<moye::Result<_>>()?;
        Ok(Self { layers, pages, page, free: (0..pages as i32).rev().collect() })
    }

    /// The pages of each layer.
    pub(crate) fn layers(&mut self) -> impl Iterator<Item = LayerCache<'_>> {
        let Self { pages, page, .. } = *self;
        self.layers.iter_mut().map(move |buffer| LayerCache { buffer, pages, page })
    }

    /// Adds pages to `pages` until they hold `tokens` tokens; adds none if too few are free.
    pub fn reserve(&mut self, pages: &mut Vec<i32>, tokens: usize) -> bool {
        let more = tokens.div_ceil(self.page).saturating_sub(pages.len());
        if more > self.free.len() {
            return false;
        }
        pages.extend(self.free.drain(self.free.len() - more..).rev());
        true
    }

    /// Returns pages to the cache.
    pub fn release(&mut self, pages: &mut Vec<i32>) {
        self.free.extend(pages.drain(..).rev());
    }

    /// The number of free pages.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// The slot of a token of a sequence.
    pub fn slot(&self, pages: &[i32], token: usize) -> i32 {
        pages[token / self.page] * self.page as i32 + (token % self.page) as i32
    }

    /// Bytes of the keys and values of a token.
    pub fn bytes_of_token(&self) -> usize {
        let of_layer = |layer: &Buffer<f16>| 2 * layer.len() / (self.pages * self.page).max(1);
        self.layers.iter().map(of_layer).sum()
    }
}
