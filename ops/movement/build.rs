//! Compiles the kernels of the enabled operations to PTX.

fn main() {
    moye_build::Operations::new(".").build_or_exit();
}
