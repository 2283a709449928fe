//! Attention.
#![cfg_attr(not(feature = "all"), allow(unused, reason = "each element type uses some of it"))]

mod builder;
mod e4m3;
mod element;
mod explanation;
mod heads;
mod hopper;
mod model;
mod plan;
mod problem;
mod run;
mod variant;
mod varied;

pub use builder::Attention;
pub use element::AttentionElement;
pub use explanation::AttentionExplanation;
pub use heads::{Heads, HeadsMut};
