//! Measures every product on a GPU:
//! `cargo run --release -p moye-products --example measure [NAME]`.

use moye::Device;
use moye::operation::{Dtype, measure};

fn main() -> moye::Result<()> {
    let wanted = std::env::args().nth(1);
    let device = Device::gpu(0)?;
    println!("operation,dtype,shape,kernel,microseconds,GB/s");
    for declaration in moye_products::OPERATIONS {
        if wanted.as_ref().is_some_and(|name| name != declaration.name) {
            continue;
        }
        let takes = |dtype| declaration.operands.iter().any(|operand| operand.dtypes.contains(&dtype));
        for dtype in [Dtype::Bf16, Dtype::F32].into_iter().filter(|&dtype| takes(dtype)) {
            for case in declaration.bench {
                let measured = measure(declaration, &device, case, dtype)?;
                let (name, shape) = (declaration.name, case.inputs[0].unwrap_or_default());
                let (time, rate) = (measured.time.as_secs_f64() * 1e6, measured.rate());
                println!("{name},{dtype},{shape:?},{},{time:.1},{rate:.0}", measured.kernel);
            }
        }
    }
    Ok(())
}
