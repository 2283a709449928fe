//! Compiles the kernels to PTX.

fn main() {
    moye_build::Operations::new(".").build_or_exit();
}
