//! Measures operations on a GPU, beside a cast to the same type, which copies:
//! `cargo run --release -p moye-rows --example measure [NAME...] [DTYPE]`.

use moye::Device;
use moye::operation::{Case, Declaration, Dtype, Value, measure};

/// 128 MB and 512 MB that are copied.
const COPIES: [Case; 2] = [
    Case::new(&[Some(&[16_384, 4096])]).options(&[("dtype", Value::Dtype(Dtype::Bf16))]),
    Case::new(&[Some(&[65_536, 4096])]).options(&[("dtype", Value::Dtype(Dtype::Bf16))]),
];

fn main() -> moye::Result<()> {
    let (types, wanted): (Vec<_>, Vec<_>) =
        std::env::args().skip(1).partition(|name| Dtype::named(name).is_some());
    let types: Vec<_> = types.iter().filter_map(|name| Dtype::named(name)).collect();
    let types = if types.is_empty() { vec![Dtype::Bf16, Dtype::F32] } else { types };
    let device = Device::gpu(0)?;
    println!("operation,dtype,shape,options,kernel,microseconds,GB/s");
    let line = |of: &Declaration, dtype: Dtype, case: &Case| -> moye::Result<()> {
        let measured = measure(of, &device, case, dtype)?;
        let (time, rate) = (measured.time.as_secs_f64() * 1e6, measured.rate());
        let options: Vec<_> = case.options.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let (shape, options) = (case.inputs[0].unwrap_or_default(), options.join(" "));
        println!("{},{dtype},{shape:?},{options},{},{time:.1},{rate:.0}", of.name, measured.kernel);
        Ok(())
    };
    for case in &COPIES {
        line(&moye_rows::affine::CAST, Dtype::Bf16, case)?;
    }
    for declaration in moye_rows::OPERATIONS {
        if wanted.is_empty() || wanted.iter().any(|name| name == declaration.name) {
            for &dtype in &types {
                declaration.bench.iter().try_for_each(|case| line(declaration, dtype, case))?;
            }
        }
    }
    Ok(())
}
