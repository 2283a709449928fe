//! Compiles and runs the guide's blocks about candle, in its page on other libraries, as tests.

#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/interop.md")]
struct Interop;
