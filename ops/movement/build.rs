//! Compiles the kernels of the operations that features name to PTX.

fn main() {
    moye_build::Operations::new(".").build_or_exit();
}
