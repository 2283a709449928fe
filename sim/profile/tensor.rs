//! The operations and types in the name of a tensor core instruction.

use super::class::Class;
use super::counts::Counts;

/// The types of operands and accumulators in PTX.
const TYPES: &[&str] = &[
    "f16", "bf16", "tf32", "f32", "f64", "e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "s8", "u8", "s4", "u4",
    "b1", "s32",
];

/// One warp instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TensorInstruction {
    /// Multiplications and additions.
    pub operations: u64,
    /// The type of A.
    pub operand: &'static str,
    /// The type of D.
    pub accumulator: &'static str,
}

impl TensorInstruction {
    /// The operations of an instruction; `None` if it is not a tensor core instruction, or its name
    /// has no shape.
    ///
    /// PTX names the types after the shape in the order D, A, B and, for `mma`, C.
    pub fn of(name: &'static str) -> Option<Self> {
        if Class::of(name) != Class::TensorCore {
            return None;
        }
        let shape = name.split('.').find_map(|part| {
            let (m, rest) = part.strip_prefix('m')?.split_once('n')?;
            let (n, k) = rest.split_once('k')?;
            let [m, n, k] = [m, n, k].map(|extent| extent.parse::<u64>().ok());
            Some(m? * n? * k?)
        })?;
        // Four warps execute one instruction of a warpgroup.
        let warps = if name.starts_with("wgmma") { 4 } else { 1 };
        let mut types = name.split('.').filter(|part| TYPES.contains(part));
        let accumulator = types.next().unwrap_or("other");
        let operand = types.next().unwrap_or("other");
        Some(Self { operations: 2 * shape / warps, operand, accumulator })
    }
}

/// The tensor core instructions among counts, each with its number of executions.
pub(super) fn tensor_instructions(counts: &Counts) -> impl Iterator<Item = (TensorInstruction, u64)> {
    counts.instructions.iter().filter_map(|(name, count)| Some((TensorInstruction::of(name)?, *count)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_follow_from_the_shape_and_types_from_their_places() {
        for (name, operations, operand, accumulator) in [
            ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 4096, "bf16", "f32"),
            ("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", 4096, "f16", "f16"),
            ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 2048, "tf32", "f32"),
            ("mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e5m2.f16", 8192, "e4m3", "f16"),
            ("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32", 8192, "s8", "s32"),
            ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", 512, "f64", "f64"),
            ("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc", 65536, "b1", "s32"),
            ("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16", 65536, "f16", "f32"),
            ("wgmma.mma_async.sync.aligned.m64n128k32.f16.e4m3.e4m3", 131072, "e4m3", "f16"),
            ("mma.sync.aligned.m16n8k16", 4096, "other", "other"),
        ] {
            let expected = TensorInstruction { operations, operand, accumulator };
            assert_eq!(TensorInstruction::of(name), Some(expected), "{name}");
        }
        for name in ["shfl.sync.bfly", "wgmma.fence", "wgmma.commit_group", "mma.sync.aligned"] {
            assert_eq!(TensorInstruction::of(name), None, "{name}");
        }
    }
}
