//! Streams of tensors on a GPU.

use crate::interop::cudarc::CudarcStream;
use candle_core::{Error, Result};
use cudarc::driver::CudaStream;
use std::sync::{Arc, Mutex, PoisonError};

/// The streams of earlier launches: each owns its workspaces.
#[derive(Clone, Debug, Default)]
pub struct Streams(Arc<Mutex<Vec<Arc<CudarcStream>>>>);

impl Streams {
    /// The stream of a device's `cudarc` stream.
    ///
    /// # Errors
    /// Same as [`CudarcStream::new`].
    pub fn of(&self, cuda: &Arc<CudaStream>) -> Result<Arc<CudarcStream>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = known.iter().find(|stream| Arc::ptr_eq(stream.cuda(), cuda)) {
            return Ok(stream.clone());
        }
        let stream = Arc::new(CudarcStream::new(cuda).map_err(Error::wrap)?);
        known.push(stream.clone());
        Ok(stream)
    }
}
