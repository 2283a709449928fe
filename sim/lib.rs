//! moye-sim
