//! Tiled copies and tiled MMAs: tilers, thread-value layouts, partitions and fragments agree with
//! CuTe's in form and function.

use crate::golden::{Failures, layout, lines, tuple};
use half::f16;
use moye_device::atom::copy::*;
use moye_device::atom::mma::*;
use moye_device::atom::{
    AccumulatorOf, FragmentOf, OfA, OfB, OfC, Operand, PartitionMma, Permutation, StaticTiledMma, TiledCopy,
    TiledMma, TilingError, try_make_tiled_copy_a, try_make_tiled_copy_b, try_make_tiled_copy_c,
};
use moye_device::layout::Layout;
use moye_device::memory::Storable;
use moye_device::tensor::StaticLayout;
use moye_device::{layout, static_layout, tiled_mma};
use serde_json::Value;

fn of_kind(file: &str, kind: &str) -> Vec<Value> {
    lines(file).into_iter().filter(|line| line["kind"] == kind).collect()
}

/// Compares a reference line with this library's result.
struct Check<'a> {
    failures: &'a mut Failures,
    line: &'a Value,
}

impl Check<'_> {
    fn layout(&mut self, what: &str, got: Result<Layout, TilingError>, want: &Value) {
        match got {
            Ok(got) if got == layout(want) => {}
            Ok(got) => self.failures.add(self.line, format!("{what}: {got}, CuTe has {}", layout(want))),
            Err(error) => self.failures.add(self.line, format!("{what}: refused: {error}")),
        }
    }

    fn offsets(&mut self, what: &str, tidfrg: Result<Layout, TilingError>, want: &Value) {
        let Ok(tidfrg) = tidfrg else { return };
        let threads = tidfrg.mode(0);
        let got: Vec<i64> = (0..threads.size()).map(|thread| threads.at(thread)).collect();
        let want: Vec<i64> = want.as_array().unwrap().iter().map(|v| v.as_i64().unwrap()).collect();
        if got != want {
            self.failures.add(self.line, format!("{what}: threads start at {got:?}, in CuTe at {want:?}"));
        }
    }

    fn copy<A: CopyAtom, T: Storable>(&mut self, copy: &TiledCopy<A, T>) {
        let line = self.line;
        if copy.tile() != tuple(&line["tiler_mn"]) {
            self.failures.add(line, format!("the tile is {}, in CuTe {}", copy.tile(), line["tiler_mn"]));
        }
        // A copy of an operand has the threads of its MMA, and its line has no number of threads.
        if line["kind"] == "tiled_copy" && line["num_threads"].as_i64() != Some(copy.threads()) {
            self.failures.add(line, format!("{} threads, in CuTe {}", copy.threads(), line["num_threads"]));
        }
        self.layout("layout_tv", Ok(copy.layout_tv()), &line["layout_tv"]);
        self.layout("layout_src_tv", copy.try_layout_src_tv(), &line["layout_src_tv"]);
        self.layout("layout_dst_tv", copy.try_layout_dst_tv(), &line["layout_dst_tv"]);
        for partition in line["partitions"].as_array().unwrap() {
            let tensor = layout(&partition["tensor"]);
            self.layout("tidfrg_s", copy.try_tidfrg_s(tensor), &partition["tidfrg_S"]);
            self.layout("tidfrg_d", copy.try_tidfrg_d(tensor), &partition["tidfrg_D"]);
            self.layout("partition_s", copy.try_partition_s(tensor), &partition["partition_S"]);
            self.layout("partition_d", copy.try_partition_d(tensor), &partition["partition_D"]);
            self.offsets("source", copy.try_tidfrg_s(tensor), &partition["offsets_S"]);
            self.offsets("destination", copy.try_tidfrg_d(tensor), &partition["offsets_D"]);
        }
    }

    fn mma<M: MmaAtom>(&mut self, mma: &TiledMma<M>) {
        let line = self.line;
        self.layout("thr_layout_vmnk", Ok(mma.thr_layout_vmnk()), &line["thr_layout_vmnk"]);
        if mma.tile_mnk() != tuple(&line["tile_mnk"]) {
            self.failures.add(line, format!("the tile is {}, in CuTe {}", mma.tile_mnk(), line["tile_mnk"]));
        }
        if line["num_threads"].as_i64() != Some(mma.threads()) {
            self.failures.add(line, format!("{} threads", mma.threads()));
        }
        for (operand, name) in [(Operand::A, "A"), (Operand::B, "B"), (Operand::C, "C")] {
            let tensor = layout(&line[format!("tensor_{name}")]);
            let (thrfrg, part, fragment) = match operand {
                Operand::A => {
                    (mma.try_thrfrg_a(tensor), mma.try_partition_a(tensor), mma.try_fragment_a(tensor))
                }
                Operand::B => {
                    (mma.try_thrfrg_b(tensor), mma.try_partition_b(tensor), mma.try_fragment_b(tensor))
                }
                // CuTe's results have the layout of C.
                Operand::C | Operand::D => {
                    (mma.try_thrfrg_c(tensor), mma.try_partition_c(tensor), mma.try_fragment_c(tensor))
                }
            };
            self.layout(
                &format!("layout_{name}_tv"),
                mma.try_layout_tv(operand),
                &line[format!("layout_{name}_tv")],
            );
            self.layout(&format!("thrfrg_{name}"), thrfrg, &line[format!("thrfrg_{name}")]);
            self.layout(&format!("partition_{name}"), part, &line[format!("partition_{name}")]);
            self.layout(&format!("fragment_{name}"), fragment, &line[format!("fragment_{name}")]);
        }
    }
}

impl Check<'_> {
    /// The line as types: they stand for exactly this line, and their fragments are CuTe's.
    fn fragments<M: StaticTiledMma, A: StaticLayout, B: StaticLayout, C: StaticLayout>(&mut self) {
        let line = self.line;
        self.failures.checked += 1;
        self.layout("the threads of the type", Ok(M::MMA.thr_layout_vmnk()), &line["thr_layout_vmnk"]);
        self.layout("layout_A_tv of the type", M::MMA.try_layout_tv(Operand::A), &line["layout_A_tv"]);
        self.layout("the type of tensor_A", Ok(A::LAYOUT), &line["tensor_A"]);
        self.layout("the type of tensor_B", Ok(B::LAYOUT), &line["tensor_B"]);
        self.layout("the type of tensor_C", Ok(C::LAYOUT), &line["tensor_C"]);
        self.layout("PartitionMma A", Ok(PartitionMma::<A, M, OfA>::LAYOUT), &line["partition_A"]);
        self.layout("PartitionMma B", Ok(PartitionMma::<B, M, OfB>::LAYOUT), &line["partition_B"]);
        self.layout("PartitionMma C", Ok(PartitionMma::<C, M, OfC>::LAYOUT), &line["partition_C"]);
        self.layout("FragmentOf A", Ok(FragmentOf::<A, M, OfA>::LAYOUT), &line["fragment_A"]);
        self.layout("FragmentOf B", Ok(FragmentOf::<B, M, OfB>::LAYOUT), &line["fragment_B"]);
        self.layout("FragmentOf C", Ok(FragmentOf::<C, M, OfC>::LAYOUT), &line["fragment_C"]);
        self.layout("AccumulatorOf", Ok(AccumulatorOf::<C, M>::LAYOUT), &line["fragment_C"]);
    }
}

fn permutation(value: &Value) -> [Permutation; 3] {
    let one = |value: &Value| match value {
        Value::Null => Permutation::Atoms,
        Value::Number(tile) => Permutation::Tile(tile.as_i64().unwrap()),
        Value::Object(_) => Permutation::Layout(layout(value)),
        other => panic!("no permutation: {other}"),
    };
    match value {
        Value::Null => [Permutation::Atoms; 3],
        Value::Array(modes) => [one(&modes[0]), one(&modes[1]), one(&modes[2])],
        other => panic!("no permutation: {other}"),
    }
}

/// Calls `$then` with the copy atom of a C++ name as type `A`.
macro_rules! with_copy_atom {
    ($name:expr, |$atom:ident| $then:expr) => {
        with_copy_atom!($name, |$atom| $then;
            "SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>" SM80_CP_ASYNC_CACHEGLOBAL<u128>,
            "SM80_CP_ASYNC_CACHEALWAYS<uint64_t>" SM80_CP_ASYNC_CACHEALWAYS<u64>,
            "UniversalCopy<uint128_t>" UniversalCopy<u128>, "UniversalCopy<uint64_t>" UniversalCopy<u64>,
            "UniversalCopy<uint32_t>" UniversalCopy<u32>, "UniversalCopy<uint16_t>" UniversalCopy<u16>,
            "UniversalCopy<uint8_t>" UniversalCopy<u8>, "DefaultCopy" DefaultCopy,
            "SM75_U32x1_LDSM_N" SM75_U32x1_LDSM_N, "SM75_U32x2_LDSM_N" SM75_U32x2_LDSM_N,
            "SM75_U32x4_LDSM_N" SM75_U32x4_LDSM_N, "SM75_U16x2_LDSM_T" SM75_U16x2_LDSM_T,
            "SM75_U16x4_LDSM_T" SM75_U16x4_LDSM_T, "SM75_U16x8_LDSM_T" SM75_U16x8_LDSM_T,
            "SM90_U32x1_STSM_N" SM90_U32x1_STSM_N, "SM90_U32x2_STSM_N" SM90_U32x2_STSM_N,
            "SM90_U32x4_STSM_N" SM90_U32x4_STSM_N, "SM90_U16x2_STSM_T" SM90_U16x2_STSM_T,
            "SM90_U16x4_STSM_T" SM90_U16x4_STSM_T, "SM90_U16x8_STSM_T" SM90_U16x8_STSM_T
        )
    };
    ($name:expr, |$atom:ident| $then:expr; $($text:literal $type:ty),+) => {
        match $name {
            $($text => {
                type $atom = $type;
                $then
            })+
            other => panic!("a copy atom that the test does not know: {other}"),
        }
    };
}

/// Calls `$then` with the MMA atom of a C++ name as type `M`.
macro_rules! with_mma_atom {
    ($name:expr, |$atom:ident| $then:expr) => {
        with_mma_atom!($name, |$atom| $then;
            SM80_16x8x16_F32F16F16F32_TN, SM80_16x8x16_F16F16F16F16_TN, SM80_16x8x16_F32BF16BF16F32_TN,
            SM80_16x8x8_F32F16F16F32_TN, SM80_16x8x8_F16F16F16F16_TN, SM80_16x8x8_F32BF16BF16F32_TN,
            SM80_16x8x8_F32TF32TF32F32_TN, SM80_16x8x4_F32TF32TF32F32_TN, SM80_8x8x4_F64F64F64F64_TN,
            SM80_16x8x32_S32S8S8S32_TN, SM75_16x8x8_F32F16F16F32_TN, SM75_8x8x16_S32S8S8S32_TN,
            SM70_8x8x4_F32F16F16F32_TN, SM70_8x8x4_F32F16F16F32_NT, SM89_16x8x32_F32E4M3E4M3F32_TN
        )
    };
    ($name:expr, |$atom:ident| $then:expr; $($type:ident),+) => {
        match $name {
            $(stringify!($type) => {
                type $atom = $type;
                $then
            })+
            "UniversalFMA<float>" => {
                type $atom = UniversalFma<f32>;
                $then
            }
            other => panic!("an MMA atom that the test does not know: {other}"),
        }
    };
}

fn tiled_copy<A: CopyAtom, T: Storable>(line: &Value) -> Result<TiledCopy<A, T>, TilingError> {
    TiledCopy::try_new(layout(&line["thr"]), layout(&line["val"]))
}

#[test]
fn tiled_copies_are_those_of_cute() {
    let mut failures = Failures::default();
    for line in of_kind("cute_cpp.jsonl", "tiled_copy") {
        failures.checked += 1;
        let mut check = Check { failures: &mut failures, line: &line };
        with_copy_atom!(line["atom"].as_str().unwrap(), |A| {
            let done = match line["val_type"].as_str().unwrap() {
                "float" => tiled_copy::<A, f32>(&line).map(|copy| check.copy(&copy)),
                "half_t" => tiled_copy::<A, f16>(&line).map(|copy| check.copy(&copy)),
                "uint8_t" => tiled_copy::<A, u8>(&line).map(|copy| check.copy(&copy)),
                other => panic!("an element type that the test does not know: {other}"),
            };
            if let Err(error) = done {
                check.failures.add(&line, format!("refused: {error}"));
            }
        });
    }
    failures.none(26);
}

#[test]
fn tiled_mmas_are_those_of_cute() {
    let mut failures = Failures::default();
    for line in of_kind("cute_cpp.jsonl", "tiled_mma") {
        failures.checked += 1;
        let mut check = Check { failures: &mut failures, line: &line };
        with_mma_atom!(line["op"].as_str().unwrap(), |M| {
            match TiledMma::<M>::try_permuted(layout(&line["atom_layout"]), permutation(&line["permutation"]))
            {
                Ok(mma) => check.mma(&mma),
                Err(error) => check.failures.add(&line, format!("refused: {error}")),
            }
        });
    }
    failures.none(73);
}

/// Declares the tiled MMA and the tensors of lines as types, and compares a kernel's fragments with
/// CuTe's.
macro_rules! fragments_of_types {
    ($($line:ident $id:literal: $atom:ty = $mma:expr, $a:expr, $b:expr, $c:expr;)+) => {
        $(
            mod $line {
                use super::*;

                tiled_mma! { pub Mma: TiledMma<$atom> = $mma; }
                static_layout! {
                    pub A = $a;
                    pub B = $b;
                    pub C = $c;
                }
            }
        )+

        #[test]
        fn fragments_of_kernels_are_those_of_cute() {
            let mut failures = Failures::default();
            for line in of_kind("cute_cpp.jsonl", "tiled_mma") {
                let mut check = Check { failures: &mut failures, line: &line };
                match line["id"].as_u64().unwrap() {
                    $($id => check.fragments::<$line::Mma, $line::A, $line::B, $line::C>(),)+
                    // Its layouts are compared as values above.
                    _ => {}
                }
            }
            failures.none([$($id),+].len());
        }
    };
}
fragments_of_types! {
    l301 301: SM80_16x8x16_F32F16F16F32_TN = TiledMma::new(layout!((2, 2, 1):(2, 1, 1))),
        layout!((64, 32):(32, 1)), layout!((32, 32):(32, 1)), layout!((64, 32):(32, 1));
    l304 304: SM80_16x8x16_F32F16F16F32_TN = TiledMma::new(layout!((2, 1, 2):(1, 2, 2))),
        layout!((64, 64):(64, 1)), layout!((16, 64):(64, 1)), layout!((64, 16):(16, 1));
    l309 309: SM80_16x8x16_F32F16F16F32_TN = TiledMma::permuted(layout!((2, 2, 1):(1, 2, 4)), [Permutation::Atoms, Permutation::Layout(layout!((8, 2, 2):(1, 16, 8))), Permutation::Atoms]),
        layout!((64, 32):(32, 1)), layout!((64, 32):(32, 1)), layout!((64, 64):(64, 1));
    l317 317: SM80_16x8x16_F16F16F16F16_TN = TiledMma::permuted(layout!((2, 2, 1):(1, 2, 4)), [Permutation::Tile(32), Permutation::Tile(32), Permutation::Tile(16)]),
        layout!((64, 32):(32, 1)), layout!((64, 32):(32, 1)), layout!((64, 64):(64, 1));
    l326 326: SM80_16x8x16_F32BF16BF16F32_TN = TiledMma::new(layout!((2, 2, 1):(2, 1, 1))),
        layout!((64, 32):(32, 1)), layout!((32, 32):(32, 1)), layout!((64, 32):(32, 1));
    l338 338: SM80_16x8x16_F32BF16BF16F32_TN = TiledMma::permuted(layout!((1, 1, 1):(1, 1, 1)), [Permutation::Atoms, Permutation::Atoms, Permutation::Layout(layout!((2, 8):(8, 1)))]),
        layout!((32, 32):(32, 1)), layout!((16, 32):(32, 1)), layout!((32, 16):(16, 1));
    l344 344: SM80_16x8x8_F32F16F16F32_TN = TiledMma::new(layout!((2, 1, 2):(1, 2, 2))),
        layout!((64, 32):(32, 1)), layout!((16, 32):(32, 1)), layout!((64, 16):(16, 1));
    l354 354: SM80_16x8x8_F16F16F16F16_TN = TiledMma::new(layout!((1, 1, 1):(1, 1, 1))),
        layout!((32, 16):(16, 1)), layout!((16, 16):(16, 1)), layout!((32, 16):(16, 1));
    l365 365: SM80_16x8x8_F32BF16BF16F32_TN = TiledMma::new(layout!((2, 2, 1):(1, 2, 4))),
        layout!((64, 16):(16, 1)), layout!((32, 16):(16, 1)), layout!((64, 32):(32, 1));
    l375 375: SM80_16x8x8_F32TF32TF32F32_TN = TiledMma::new(layout!((2, 2, 1):(1, 2, 4))),
        layout!((64, 16):(16, 1)), layout!((32, 16):(16, 1)), layout!((64, 32):(32, 1));
    l389 389: SM80_16x8x4_F32TF32TF32F32_TN = TiledMma::new(layout!((1, 1, 1):(1, 1, 1))),
        layout!((32, 8):(8, 1)), layout!((16, 8):(8, 1)), layout!((32, 16):(16, 1));
    l399 399: SM80_8x8x4_F64F64F64F64_TN = TiledMma::new(layout!((1, 1, 1):(1, 1, 1))),
        layout!((16, 8):(8, 1)), layout!((16, 8):(8, 1)), layout!((16, 16):(16, 1));
    l402 402: SM80_16x8x32_S32S8S8S32_TN = TiledMma::new(layout!((1, 1, 1):(1, 1, 1))),
        layout!((32, 64):(64, 1)), layout!((16, 64):(64, 1)), layout!((32, 16):(16, 1));
    l412 412: SM75_16x8x8_F32F16F16F32_TN = TiledMma::new(layout!((1, 1, 1):(1, 1, 1))),
        layout!((32, 16):(16, 1)), layout!((16, 16):(16, 1)), layout!((32, 16):(16, 1));
    l422 422: SM75_8x8x16_S32S8S8S32_TN = TiledMma::new(layout!((1, 1, 1):(1, 1, 1))),
        layout!((16, 32):(32, 1)), layout!((16, 32):(32, 1)), layout!((16, 16):(16, 1));
    l427 427: SM70_8x8x4_F32F16F16F32_TN = TiledMma::permuted(layout!((2, 2, 1):(1, 2, 4)), [Permutation::Layout(layout!((4, 4, 2):(1, 8, 4))), Permutation::Layout(layout!((4, 4, 2):(1, 8, 4))), Permutation::Atoms]),
        layout!((64, 8):(8, 1)), layout!((64, 8):(8, 1)), layout!((64, 64):(64, 1));
    l428 428: SM70_8x8x4_F32F16F16F32_NT = TiledMma::new(layout!((2, 2, 1):(1, 2, 4))),
        layout!((32, 8):(1, 32)), layout!((32, 8):(1, 32)), layout!((32, 32):(32, 1));
    l432 432: SM89_16x8x32_F32E4M3E4M3F32_TN = TiledMma::new(layout!((2, 2, 1):(1, 2, 4))),
        layout!((64, 64):(64, 1)), layout!((32, 64):(64, 1)), layout!((64, 32):(32, 1));
    l443 443: UniversalFma<f32> = TiledMma::new(layout!((2, 2, 1):(2, 1, 1))),
        layout!((4, 2):(2, 1)), layout!((4, 2):(2, 1)), layout!((4, 4):(4, 1));
}

/// The tiled copy of an operand of a tiled MMA.
fn mma_copy<A: CopyAtom, T: Storable, M: MmaAtom>(line: &Value) -> Result<TiledCopy<A, T>, TilingError> {
    let mma =
        TiledMma::<M>::try_permuted(layout(&line["atom_layout"]), permutation(&line["permutation"])).unwrap();
    match line["operand"].as_str().unwrap() {
        "A" => try_make_tiled_copy_a(&mma),
        "B" => try_make_tiled_copy_b(&mma),
        "C" => try_make_tiled_copy_c(&mma),
        other => panic!("no operand: {other}"),
    }
}

/// Calls `$then` with the tiled copy of a line, by the bits of the operand's elements.
macro_rules! with_mma_copy {
    ($line:expr, |$copy:ident| $then:expr) => {
        with_mma_atom!($line["op"].as_str().unwrap(), |M| {
            let bits = match $line["operand"].as_str().unwrap() {
                "A" => mma_atoms_bits::<<M as MmaAtom>::A>(),
                "B" => mma_atoms_bits::<<M as MmaAtom>::B>(),
                _ => mma_atoms_bits::<<M as MmaAtom>::C>(),
            };
            with_copy_atom!($line["copy_atom"].as_str().unwrap(), |A| match bits {
                8 => {
                    let $copy = mma_copy::<A, u8, M>(&$line);
                    $then
                }
                16 => {
                    let $copy = mma_copy::<A, u16, M>(&$line);
                    $then
                }
                32 => {
                    let $copy = mma_copy::<A, u32, M>(&$line);
                    $then
                }
                _ => {
                    let $copy = mma_copy::<A, u64, M>(&$line);
                    $then
                }
            })
        })
    };
}

fn mma_atoms_bits<N: moye_device::number::Number>() -> usize {
    N::WIDTH
}

#[test]
fn tiled_copies_of_operands_are_those_of_cute() {
    let mut failures = Failures::default();
    for line in of_kind("cute_cpp.jsonl", "mma_copy") {
        failures.checked += 1;
        let mut check = Check { failures: &mut failures, line: &line };
        with_mma_copy!(line, |copy| match copy {
            Ok(copy) => {
                check.copy(&copy);
                let fragment = layout(&line["fragment"]);
                check.layout("retile_d", copy.try_retile_d(fragment), &line["retile_D"]);
                check.layout("retile_s", copy.try_retile_s(fragment), &line["retile_S"]);
            }
            Err(error) => check.failures.add(&line, format!("refused: {error}")),
        });
    }
    failures.none(213);
}

#[test]
fn what_cute_refuses_is_refused_with_the_numbers() {
    let mut failures = Failures::default();
    for line in of_kind("cute_cpp_rejected.jsonl", "mma_copy") {
        failures.checked += 1;
        with_mma_copy!(line, |copy| match copy {
            Ok(copy) => failures.add(&line, format!("accepted: {copy:?}")),
            Err(error) if error.text().contains("multiple of the") => {}
            Err(error) => failures.add(&line, format!("another error: {error}")),
        });
    }
    for line in of_kind("cute_cpp_rejected.jsonl", "tiled_copy") {
        failures.checked += 1;
        let bits = line["val_bits"].as_i64().unwrap();
        with_copy_atom!(line["atom"].as_str().unwrap(), |A| {
            let refused = match bits {
                16 => tiled_copy::<A, u16>(&line).err(),
                _ => tiled_copy::<A, u32>(&line).err(),
            };
            match refused {
                Some(error) if error.text().contains("multiple of the") => {}
                Some(error) => failures.add(&line, format!("another error: {error}")),
                None => failures.add(&line, "accepted"),
            }
        });
    }
    failures.none(16);
}
