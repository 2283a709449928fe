//! The update of an executable graph. It calls the driver's function directly, because a newer
//! driver may return a result that `cust`'s enum lacks.

use super::code::{DriverCode, check, known};
use super::library::Symbol;
use super::sys::{CUgraph, CUgraphExec, CUgraphNode};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

/// The reason why the driver refused an update, by `CUgraphExecUpdateResult`.
fn reason(result: c_int) -> Option<&'static str> {
    Some(match result {
        2 => "it has other launches, or in another order",
        3 => "one of its launches was another operation",
        4 => "one of its launches is of another kernel",
        5 | 8 => "one of its launches has a parameter that cannot be changed",
        6 => "it has an operation that cannot be updated",
        7 => "one of its launches is of a kernel of another context",
        _ => return None,
    })
}

/// Copies the parameters of a graph into an executable graph. The error has the code, and the
/// reason if the graphs differ.
///
/// # Safety
/// Both graphs are alive and belong to the current context.
pub unsafe fn update(
    executable: CUgraphExec,
    graph: CUgraph,
) -> Result<(), (DriverCode, Option<&'static str>)> {
    static UPDATE: Symbol = Symbol::new("cuGraphExecUpdate");
    type Update = unsafe extern "C" fn(CUgraphExec, CUgraph, *mut CUgraphNode, *mut c_int) -> c_int;
    let (mut node, mut result) = (null_mut(), 0);
    let code = match UPDATE.address() {
        Ok(address) => {
            // SAFETY: the driver's function of this name has this signature ("CUDA Driver API",
            // "Graph Management"); the pointers to its results are writable; both graphs are alive
            // and belong to the current context.
            known(unsafe {
                std::mem::transmute::<*mut c_void, Update>(address)(executable, graph, &mut node, &mut result)
            })
        }
        Err(code) => known(code),
    };
    check(code).map_err(|code| (code, reason(result)))
}
