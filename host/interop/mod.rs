//! Streams and memory of other crates, each under the feature of the crate's name.
//!
//! Without these features, [`Device::from_raw_context`](crate::Device::from_raw_context),
//! [`Stream::from_raw_handle`](crate::Stream::from_raw_handle) and
//! [`Buffer::from_raw_parts`](crate::Buffer::from_raw_parts) accept the handles of any library.

#[cfg(feature = "candle")]
pub mod candle;
#[cfg(feature = "cudarc")]
pub mod cudarc;
