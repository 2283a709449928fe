//! The storage of the elements of A and B: separate, or packed into bytes.

use half::{bf16, f16};
use moye_device::memory::{
    Element, Global, GlobalPacked, GlobalPointer, Shared, SharedArray, SharedPacked, SharedStorage, Storable,
};
use moye_device::number::{B1, F8E4M3, S4, U4};
use moye_device::tensor::{AccessMut, Engine, PackedArray, Partitioned, StaticLayout, Tensor};

/// The elements of an operand.
pub trait Operand: Storable {
    /// What a kernel's parameter points to.
    type Stored: Element;
    /// The pointer to elements in global memory.
    type Pointer: GlobalPointer<Element = Self>;
    /// The pointer to elements in shared memory.
    type Shared: AccessMut + Engine<Element = Self> + Partitioned + Copy;
    /// An array in shared memory.
    type Array<L: StaticLayout>: SharedStorage<Tensors = Tensor<Self::Shared, L>>;

    /// The elements that the kernel's parameter leads to.
    fn pointer(stored: Global<Self::Stored>) -> Self::Pointer;
}

macro_rules! operands {
    ($($t:ty: $stored:ty, $pointer:ident $shared:ident $array:ident, |$parameter:ident| $of:expr;)*) => { $(
        impl Operand for $t {
            type Stored = $stored;
            type Pointer = $pointer<$t>;
            type Shared = $shared<$t>;
            type Array<L: StaticLayout> = $array<$t, L>;

            #[inline(always)]
            fn pointer($parameter: Global<$stored>) -> Self::Pointer {
                $of
            }
        }
    )* };
}
operands! {
    f16: f16, Global Shared SharedArray, |elements| elements;
    bf16: bf16, Global Shared SharedArray, |elements| elements;
    f32: f32, Global Shared SharedArray, |elements| elements;
    f64: f64, Global Shared SharedArray, |elements| elements;
    i8: i8, Global Shared SharedArray, |elements| elements;
    F8E4M3: F8E4M3, Global Shared SharedArray, |elements| elements;
    S4: u8, GlobalPacked SharedPacked PackedArray, |bytes| GlobalPacked::new(bytes);
    U4: u8, GlobalPacked SharedPacked PackedArray, |bytes| GlobalPacked::new(bytes);
    B1: u8, GlobalPacked SharedPacked PackedArray, |bytes| GlobalPacked::new(bytes);
}
