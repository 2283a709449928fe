//! Products that models run, on the simulator, and on a GPU where one is found.

#[path = "../../../tests/fixtures/common/assembler.rs"]
mod assembler;
mod groups;
mod operations;
mod own_end;
mod ptxas;
#[path = "../../../tests/fixtures/common/random.rs"]
mod random;
mod refused;
mod scaled;
mod weights;
