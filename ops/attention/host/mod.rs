//! Attention.
#![cfg_attr(not(feature = "all"), allow(unused, reason = "each element type uses some of it"))]

mod builder;
mod cases;
mod declared;
mod e4m3;
mod element;
mod explanation;
mod heads;
mod hopper;
mod known;
mod model;
pub mod oracle;
mod plan;
mod problem;
mod reference;
mod run;
mod variant;
mod varied;

pub use builder::Attention;
pub use declared::ATTENTION;
pub use element::AttentionElement;
pub use explanation::AttentionExplanation;
pub use heads::{Heads, HeadsMut};
