//! A device of the library, which runs the kernels of a case.

use crate::attention::Arguments;
use moye::{Device, Element, Grid, Kernel};

pub trait Buffer {
    fn address(&self) -> u64;
    fn download(&self) -> Vec<u8>;
}

pub trait Machine {
    type Buffer: Buffer;
    /// The number of runs of a case, which must all have the same bits.
    const RUNS: u32;
    fn upload(&self, bytes: &[u8]) -> Self::Buffer;
    fn attend<T: Element>(&self, kernel: &Kernel<(Arguments<T>,)>, blocks: u32, arguments: Arguments<T>);
    fn combine<T: Element>(
        &self,
        kernel: &Kernel<(Arguments<T>, u32)>,
        blocks: u32,
        arguments: Arguments<T>,
        dv: u32,
    );
}

pub struct OnDevice(pub Device);

impl Buffer for moye::Buffer<u8> {
    fn address(&self) -> u64 {
        moye::Buffer::address(self)
    }
    fn download(&self) -> Vec<u8> {
        moye::Buffer::download(self).unwrap()
    }
}

impl Machine for OnDevice {
    type Buffer = moye::Buffer<u8>;
    const RUNS: u32 = 2;

    fn upload(&self, bytes: &[u8]) -> moye::Buffer<u8> {
        self.0.upload(bytes).unwrap()
    }

    fn attend<T: Element>(&self, kernel: &Kernel<(Arguments<T>,)>, blocks: u32, arguments: Arguments<T>) {
        let grid = Grid::new(blocks, kernel.bounds().threads.unwrap());
        // SAFETY: the operands of the case.
        unsafe { self.0.launch(kernel, grid, (arguments,)) }.unwrap();
    }

    fn combine<T: Element>(
        &self,
        kernel: &Kernel<(Arguments<T>, u32)>,
        blocks: u32,
        arguments: Arguments<T>,
        dv: u32,
    ) {
        let grid = Grid::new(blocks, kernel.bounds().threads.unwrap());
        // SAFETY: the operands of the case.
        unsafe { self.0.launch(kernel, grid, (arguments, dv)) }.unwrap();
    }
}
