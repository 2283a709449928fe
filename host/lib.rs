//! moye
