//! The guide's page on other libraries: its blocks on candle are compiled and run as tests here.

#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/interop.md")]
struct Interop;
