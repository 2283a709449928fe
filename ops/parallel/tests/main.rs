//! Products over several devices, on simulators or on GPUs with `MOYE_DEVICE=gpu`, and what their
//! ranks say to each other.

#[path = "../../../tests/fixtures/common/assembler.rs"]
mod assembler;
mod collectives;
mod computed;
mod flags;
mod grouped;
mod processes;
mod products;
mod protocol;
mod ptxas;
#[path = "../../../tests/fixtures/common/random.rs"]
mod random;
mod stand_ins;
