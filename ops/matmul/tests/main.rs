//! The shipped products on the simulator, and a custom epilogue.

#[cfg(feature = "products")]
mod declared;
#[cfg(all(feature = "bf16", feature = "f8"))]
mod hopper;
mod own_epilogue;
#[cfg(feature = "f32")]
mod sgemm;
