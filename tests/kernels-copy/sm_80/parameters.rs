//! A kernel of every type that may be passed, narrow beside wide, so that each is read where the
//! launch put it.

use half::{bf16, f16};
use moye_device::kernel;
use moye_device::kernel::KernelParam;
use moye_device::memory::{Element, Global, GlobalMut};

/// Writes the bits of each parameter to `output`, signed ones with their sign, in order.
#[kernel(threads = 1)]
pub unsafe fn every_parameter(
    a: u8,
    b: u64,
    c: i8,
    d: f64,
    e: u16,
    f: i64,
    g: f16,
    h: usize,
    i: i16,
    j: isize,
    k: bf16,
    output: GlobalMut<u64>,
    l: u32,
    m: f32,
    n: i32,
) {
    let bits = [
        u64::from(a),
        b,
        c as u64,
        d.to_bits(),
        u64::from(e),
        f as u64,
        u64::from(g.to_bits()),
        h as u64,
        i as u64,
        j as u64,
        u64::from(k.to_bits()),
        u64::from(l),
        u64::from(m.to_bits()),
        n as u64,
    ];
    for (at, bits) in (0..).zip(bits) {
        // SAFETY: the launch gives a buffer of 14.
        unsafe { output.write(at, bits) }
    }
}

/// Numbers with padding between them.
#[derive(Clone, Copy, KernelParam)]
#[repr(C)]
pub struct Padded {
    /// One byte, and three of padding.
    pub narrow: u8,
    /// At byte 4.
    pub float: f32,
    /// At byte 8, and six of padding behind it.
    pub half: f16,
}

/// A pointer and numbers, of any element.
#[derive(Clone, Copy, KernelParam)]
#[repr(C)]
pub struct Scaled<T: Element, S> {
    /// One element.
    pub x: Global<T>,
    /// A number.
    pub factor: S,
    /// Another struct.
    pub padded: Padded,
}

/// A single number.
#[derive(Clone, Copy, KernelParam)]
#[repr(C)]
pub struct Single(pub f32);

/// Writes the fields of structs to `output`, in order, as numbers.
#[kernel(threads = 1)]
pub unsafe fn structs(first: Scaled<u32, i64>, single: Single, output: GlobalMut<f64>, last: Padded) {
    // SAFETY: the launch gives an element.
    let x = unsafe { first.x.read(0) };
    let Padded { narrow, float, half } = first.padded;
    let fields = [
        f64::from(x),
        first.factor as f64,
        f64::from(narrow),
        f64::from(float),
        f64::from(half.to_f32()),
        f64::from(single.0),
        f64::from(last.narrow),
        f64::from(last.float),
        f64::from(last.half.to_f32()),
    ];
    for (at, field) in (0..).zip(fields) {
        // SAFETY: the launch gives a buffer of nine.
        unsafe { output.write(at, field) }
    }
}

/// Writes the sum of its parameters, which have names that the attribute's own locals have or might
/// have, and one the kernel's.
#[kernel(threads = 1)]
pub unsafe fn named_as_locals(
    named_as_locals: u64,
    mut address: u64,
    value: u64,
    at: u64,
    entry: u64,
    arguments: u64,
    threads: u64,
    min_blocks: u64,
    shared: u64,
    constants: u64,
    output: GlobalMut<u64>,
) {
    address += named_as_locals + value + at + entry + arguments + threads + min_blocks + shared + constants;
    // SAFETY: the launch gives a buffer of one.
    unsafe { output.write(0, address) }
}
