//! Measures operations on a GPU, beside a cast to the same type, which copies:
//! `cargo run --release -p moye-rows --example measure [NAME...] [DTYPE]`. With the name `small`,
//! operations of one input on 4,096 elements, beside a kernel that does nothing.

use moye::operation::{Case, Declaration, Dtype, Role, Value, measure};
use moye::{Device, Grid, Stream};
use moye_device::memory::GlobalMut;
use moye_rows::cumsum::kernel::{THREADS, cumsum_clear};

/// 128 MB and 512 MB that are copied.
const COPIES: [Case; 2] = [
    Case::new(&[Some(&[16_384, 4096])]).options(&[("dtype", Value::Dtype(Dtype::Bf16))]),
    Case::new(&[Some(&[65_536, 4096])]).options(&[("dtype", Value::Dtype(Dtype::Bf16))]),
];

/// 4,096 elements.
const SMALL: Case = Case::new(&[Some(&[4, 1024]), None, None, None, None]);
/// Launches of a graph that is timed.
const LAUNCHES: u32 = 2000;

/// The time in microseconds of a launch whose kernel does nothing, of many in a graph.
fn empty(device: &Device) -> moye::Result<f64> {
    let module = device.load(&moye_rows::PTX)?;
    let launch = |stream: &Stream| {
        let (grid, nothing) = (Grid::new(1, THREADS), (GlobalMut::from_address(0), 0));
        // SAFETY: the kernel writes 0 words.
        (0..LAUNCHES).try_for_each(|_| unsafe { module.launch_on(stream, &cumsum_clear, grid, nothing) })
    };
    let mut graph = device.capture(launch)?.instantiate()?;
    let mut times = [0.0; 11];
    for time in &mut times {
        // SAFETY: the graph accesses no memory.
        let all = device.time(|stream| unsafe { graph.launch(stream) })?;
        *time = all.as_secs_f64() * 1e6 / f64::from(LAUNCHES);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[5])
}

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
        println!("{},{dtype},{shape:?},{options},{},{time:.2},{rate:.0}", of.name, measured.kernel);
        Ok(())
    };
    for case in &COPIES {
        line(&moye_rows::affine::CAST, Dtype::Bf16, case)?;
    }
    if wanted.iter().any(|name| name == "small") {
        println!("empty,,,,{},{:.2},", cumsum_clear.name(), empty(&device)?);
        // Rotations have more axes.
        let inputs =
            |of: &Declaration| of.operands.iter().filter(|of| matches!(of.role, Role::Input)).count();
        for of in moye_rows::OPERATIONS.iter().filter(|of| inputs(of) == 1 && of.name != "rope") {
            types.iter().try_for_each(|&dtype| line(of, dtype, &SMALL))?;
        }
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
