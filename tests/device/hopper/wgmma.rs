//! Every atom of `wgmma`, compared with the plain triple loop.

use crate::common::matrix::rng;
use crate::matrix::{Kind, Matrix, Run, check};
use crate::numbers::{Inputs, TestNumber};
use crate::{WGMMA_PTX, devices};
use moye::{Device, Global, GlobalMut, Grid, Kernel, Module};
use moye_device::atom::wgmma::{WGMMA_ATOMS, WgmmaInfo};
use moye_kernels_wgmma::{self as kernels, k_major_tile};
use rstest::rstest;

type AtomKernel = Kernel<(Global<u32>, Global<u32>, Global<u32>, GlobalMut<u32>)>;

/// Generic over the element types only: there are 1,092 atoms with 21 combinations of types.
fn computes_the_product<A: TestNumber, B: TestNumber, D: TestNumber>(
    device: &Device,
    module: &Module,
    kernel: &AtomKernel,
) {
    let atom =
        WGMMA_ATOMS.iter().find(|atom| atom.name == kernel.name()).expect("kernels have the names of atoms");
    for inputs in [Inputs::Small, Inputs::Uniform, Inputs::Wide] {
        // Extreme values on a few shapes only: the simulator takes long.
        if inputs != Inputs::Wide || matches!(atom.shape_mnk[1], 8 | 64 | 256) {
            product::<A, B, D>(device, module, atom, kernel, inputs);
        }
    }
}

fn product<A: TestNumber, B: TestNumber, D: TestNumber>(
    device: &Device,
    module: &Module,
    atom: &WgmmaInfo,
    kernel: &AtomKernel,
    inputs: Inputs,
) {
    let [m, n, k] = atom.shape_mnk.map(|extent| extent as usize);
    let mut rng = rng(&atom.name.bytes().map(usize::from).chain([inputs as usize]).collect::<Vec<_>>());
    let a = Matrix::draw(m, k, |rng| A::factor(inputs, rng), &mut rng);
    let b = Matrix::draw(n, k, |rng| B::factor(inputs, rng), &mut rng);
    let c = Matrix::draw(m, n, |rng| D::addend(inputs, rng), &mut rng);
    let a_words =
        if atom.a_in_registers { a.registers(&atom.a()) } else { a.image(&k_major_tile::<A>(m as i64)) };
    let upload = |words: &[u32]| device.upload(words).unwrap();
    let (a_buffer, b_buffer) = (upload(&a_words), upload(&b.image(&k_major_tile::<B>(n as i64))));
    let c_buffer = upload(&c.registers(&atom.c()));
    let mut d = device.alloc_uninit::<u32>(128 * atom.registers).unwrap();
    // SAFETY: the buffers have the operands of one block.
    unsafe { module.launch(kernel, Grid::new(1, 128), (&a_buffer, &b_buffer, &c_buffer, &mut d)) }.unwrap();
    let d = Matrix::of_registers(m, &atom.c(), &d.download().unwrap());
    let run = Run { kind: Kind::of(atom.instruction, A::WIDTH), inputs, on_gpu: device.is_gpu(), sign: 1.0 };
    check(&format!("{} on {}, {inputs:?}", atom.name, device.name()), run, (&a, &b), Some(&c), &d);
}

/// The check of an atom's kernel.
type Check = fn(&Device, &Module, &AtomKernel);

macro_rules! atoms {
    ($(wgmma {
        $kind:ident; $ss:ident $ss_function:ident; $rs:ident $rs_function:ident; $text:literal; needs $ptx:literal; $shape:tt;
        $sum:ident; d $d:ident $count:literal $list:literal $indices:tt; a $a:ident; b $b:ident
    })*) => {
        fn checks() -> Vec<(&'static AtomKernel, Check)> {
            use half::{bf16, f16};
            use moye_device::number::{B1, F8E4M3, F8E5M2, Tf32};

            vec![$(
                (&kernels::$ss, computes_the_product::<$a, $b, $d> as Check),
                (&kernels::$rs, computes_the_product::<$a, $b, $d>),
            )*]
        }
    };
}
moye_device::for_each_wgmma!(atoms);

/// One test for every eighth atom: loading the module takes longer than an atom's products.
#[rstest]
fn every_atom_computes_the_product_on_every_device(#[values(0, 1, 2, 3, 4, 5, 6, 7)] first: usize) {
    for device in devices() {
        let module = device.load(&WGMMA_PTX).unwrap();
        for (kernel, check) in checks().into_iter().skip(first).step_by(8) {
            check(&device, &module, kernel);
        }
    }
}
