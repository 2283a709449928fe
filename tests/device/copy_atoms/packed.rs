//! Elements smaller than a byte, in global and shared memory.

use crate::support::{SM_80, compare, modules, poisoned, random};
use moye::{Global, GlobalMut, Grid, Kernel};
use moye_device::number::{B1, S4, Scalar, U4};
use moye_kernels_copy as kernels;

const ELEMENTS: usize = kernels::ELEMENTS as usize;

/// Element `i` of packed bytes, the first of a byte in its lowest bits.
fn element<T: Scalar>(bytes: &[u8], i: usize) -> T {
    let per_byte = 8 / T::WIDTH;
    T::from_low_bits(u64::from(bytes[i / per_byte]) >> (i % per_byte * T::WIDTH))
}

/// The elements in reverse order, packed.
fn reversed<T: Scalar>(bytes: &[u8]) -> Vec<u8> {
    let mut result = vec![0; bytes.len()];
    for i in 0..ELEMENTS {
        let bits = element::<T>(bytes, ELEMENTS - 1 - i).low_bits() as u8;
        result[i * T::WIDTH / 8] |= bits << (i * T::WIDTH % 8);
    }
    result
}

#[track_caller]
fn check<T: Scalar>(
    global: &Kernel<(Global<u8>, GlobalMut<u8>, GlobalMut<f32>)>,
    shared: &Kernel<(Global<u8>, GlobalMut<u8>)>,
) {
    let bytes: Vec<u8> = random(61, ELEMENTS * T::WIDTH / 8).into_iter().map(|r| r as u8).collect();
    let want = reversed::<T>(&bytes);
    let want_values: Vec<f32> = (0..ELEMENTS).map(|i| element::<T>(&bytes, i).to_f64() as f32).collect();
    for module in modules(&SM_80) {
        let device = module.device();
        let input = device.upload(&bytes).unwrap();
        let (mut output, mut values) =
            (poisoned::<u8>(device, bytes.len()), poisoned::<f32>(device, ELEMENTS));
        // SAFETY: the buffers have `ELEMENTS` elements.
        unsafe { module.launch(global, Grid::new(1, 256), (&input, &mut output, &mut values)) }.unwrap();
        let what = format!("{} on {}", global.name(), device.name());
        compare(&what, &output.download().unwrap(), &want, |i| format!("byte {i}"));
        compare(&what, &values.download().unwrap(), &want_values, |i| format!("element {i}"));

        let mut output = poisoned::<u8>(device, bytes.len());
        // SAFETY: the buffers have `ELEMENTS` elements and are aligned to 256 bytes.
        unsafe { module.launch(shared, Grid::new(1, 32), (&input, &mut output)) }.unwrap();
        let what = format!("{} on {}", shared.name(), device.name());
        compare(&what, &output.download().unwrap(), &want, |i| format!("byte {i}"));
    }
}

#[test]
fn elements_of_4_bits_and_1_bit_are_addressable() {
    check::<S4>(&kernels::reverse_s4, &kernels::reverse_s4_shared);
    check::<U4>(&kernels::reverse_u4, &kernels::reverse_u4_shared);
    check::<B1>(&kernels::reverse_b1, &kernels::reverse_b1_shared);
}
