//! moye-build
