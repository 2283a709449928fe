//! The copies and the transpose of the guide's ladder, a page each: see `moye_matmul::ladder`.
#![allow(
    unsafe_op_in_unsafe_fn,
    reason = "the body of an `unsafe fn` is under the contract that its documentation states"
)]
#![allow(non_snake_case, reason = "tensors have CuTe's names")]

mod copy;
mod copy_async;
// For sm_80 only: newer GPUs run the same PTX.
#[cfg(all(feature = "ladder", not(target_feature = "sm_90a")))]
mod plain_copy;
mod transpose;

pub use copy::copy;
pub use copy_async::copy_async;
#[cfg(all(feature = "ladder", not(target_feature = "sm_90a")))]
pub use plain_copy::ladder_plain_copy;
pub use transpose::transpose;
