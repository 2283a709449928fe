//! Workspaces from the allocator of the arrays' library: in a CUDA graph they belong to the graph's
//! memory, as the library's own workspaces do.

use moye_runtime::{Error, Stream};
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};

/// Arrays of a library that serve as workspaces until the call has launched its work.
#[derive(Clone, Default)]
pub struct Lent(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    arrays: Vec<Py<PyAny>>,
    error: Option<PyErr>,
}

impl Lent {
    /// The stream with workspaces from `allocate`, which returns a PyTorch array of a number of
    /// bytes; the stream's own workspaces if that is `None`.
    pub fn on(&self, stream: Stream, allocate: Option<Py<PyAny>>) -> Stream {
        let Some(allocate) = allocate else { return stream };
        let state = self.0.clone();
        let workspace = move |bytes: usize| {
            let lent = Python::attach(|py| {
                let array = allocate.bind(py).call1((bytes,))?;
                let address: u64 = array.call_method0("data_ptr")?.extract()?;
                Ok::<_, PyErr>((array.unbind(), address))
            });
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            match lent {
                Ok((array, address)) => {
                    state.arrays.push(array);
                    Ok(address)
                }
                Err(error) => {
                    let reason = error.to_string();
                    state.error = Some(error);
                    Err(Error::Workspace { bytes, reason })
                }
            }
        };
        // SAFETY: the library frees an array in the order of its current stream, which is this one,
        // and keeps the memory of arrays that were allocated in a capture for the graph.
        unsafe { stream.with_workspaces(workspace) }
    }

    /// The library's own exception, if its allocator raised one.
    pub fn error(&self) -> Option<PyErr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).error.take()
    }
}
