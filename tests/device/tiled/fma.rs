//! `UniversalFma` of every pair of types: of random bits, of values from 1 to 2 whose sums must
//! round, and of extreme values.

use crate::common::ptx::{before, kernel_text, version_of};
use crate::common::{assembler, devices, matrix::rng};
use crate::{SM_80, load};
use half::{bf16, f16};
use moye::{Element, Global, GlobalMut, Grid, Kernel};
use moye_build::Arch;
use moye_build::report::Ptxas;
use moye_device::number::{Complex64, F8E4M3, F8E5M2, Tf32};
use moye_kernels_tiled::{self as kernels, fma};
use rand::{Rng, RngExt};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

type Product<A, B, D> = Kernel<(Global<A>, Global<B>, Global<D>, GlobalMut<D>, u32)>;

const COUNT: usize = 4096;

/// A value with its bits.
trait Value: Element + Debug {
    fn of(rng: &mut rand::rngs::StdRng, i: usize) -> Self;
    /// Equal bits, or both NaN.
    fn same(self, other: Self) -> bool;
}

macro_rules! floats {
    ($($t:ty: $bits:ty, $one:expr;)*) => { $(
        impl Value for $t {
            fn of(rng: &mut rand::rngs::StdRng, i: usize) -> Self {
                let bits = rng.next_u64() as $bits;
                // Every second value is between 1 and 2 or between -1 and -2: products and sums
                // overlap there.
                if i.is_multiple_of(2) {
                    return Self::from_bits(bits);
                }
                let fraction = (1 << (<$t>::MANTISSA_DIGITS - 1)) - 1;
                let sign = 1 << (<$bits>::BITS - 1);
                Self::from_bits($one.to_bits() ^ (bits & (fraction | sign)))
            }
            fn same(self, other: Self) -> bool {
                self.to_bits() == other.to_bits() || self.is_nan() && other.is_nan()
            }
        }
    )* };
}
floats! {
    f32: u32, 1_f32;
    f64: u64, 1_f64;
    f16: u16, f16::ONE;
    bf16: u16, bf16::ONE;
}

macro_rules! integers {
    ($($t:ty)*) => { $(
        impl Value for $t {
            fn of(rng: &mut rand::rngs::StdRng, i: usize) -> Self {
                match i % 4 {
                    0 => <$t>::MAX,
                    1 => <$t>::MIN,
                    _ => rng.random(),
                }
            }
            fn same(self, other: Self) -> bool {
                self == other
            }
        }
    )* };
}
integers!(i8 u8 i16 i32 u32 i64 u64);

macro_rules! bits {
    ($($t:ty)*) => { $(
        impl Value for $t {
            fn of(rng: &mut rand::rngs::StdRng, _: usize) -> Self {
                Self::from_bits(rng.random())
            }
            fn same(self, other: Self) -> bool {
                self.to_bits() == other.to_bits()
            }
        }
    )* };
}
bits!(Tf32 F8E4M3 F8E5M2);

impl Value for Complex64 {
    fn of(rng: &mut rand::rngs::StdRng, i: usize) -> Self {
        Self::new(f64::of(rng, i), f64::of(rng, i))
    }
    fn same(self, other: Self) -> bool {
        self.re.same(other.re) && self.im.same(other.im)
    }
}

/// The kernel's result is `want` on the simulator, and the same on the GPU as on the simulator.
fn check<A: Value, B: Value, D: Value>(kernel: &Product<A, B, D>, want: impl Fn(A, B, D) -> D) {
    let mut rng = rng(&kernel.name().bytes().map(usize::from).collect::<Vec<_>>());
    // Different periods, so that each extreme value meets every other.
    let a: Vec<A> = (0..COUNT).map(|i| A::of(&mut rng, i)).collect();
    let b: Vec<B> = (0..COUNT).map(|i| B::of(&mut rng, i / 4)).collect();
    let c: Vec<D> = (0..COUNT).map(|i| D::of(&mut rng, i / 16)).collect();
    for device in devices() {
        let module = load(&device, &SM_80).expect("sm_80 is the oldest there is");
        let (left, right) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
        let addend = device.upload(&c).unwrap();
        let mut output = device.alloc_uninit::<D>(COUNT).unwrap();
        let grid = Grid::new((COUNT / 256) as u32, 256);
        // SAFETY: the buffers have `COUNT` elements.
        unsafe {
            module.launch(kernel, grid, (&left, &right, &addend, &mut output, COUNT as u32)).unwrap();
        }
        for (i, got) in output.download().unwrap().into_iter().enumerate() {
            let want = want(a[i], b[i], c[i]);
            let what = (kernel.name(), device.name());
            assert!(
                got.same(want),
                "{what:?}: {:?} * {:?} + {:?} is {want:?}, not {got:?}",
                a[i],
                b[i],
                c[i]
            );
        }
    }
}

#[test]
fn rounds_once_in_the_type_of_the_sum() {
    check(&fma::fma_f32, f32::mul_add);
    check(&fma::fma_f64, f64::mul_add);
    check(&fma::fma_f16_to_f32, |a: f16, b: f16, c| a.to_f32().mul_add(b.to_f32(), c));
    check(&fma::fma_bf16_to_f32, |a: bf16, b: bf16, c| a.to_f32().mul_add(b.to_f32(), c));
    check(&fma::fma_f32_to_f64, |a: f32, b: f32, c| f64::from(a).mul_add(b.into(), c));
    check(&fma::fma_f16_bf16_to_f32, |a: f16, b: bf16, c| a.to_f32().mul_add(b.to_f32(), c));
    check(&fma::fma_bf16_f16_to_f32, |a: bf16, b: f16, c| a.to_f32().mul_add(b.to_f32(), c));
    check(&fma::fma_f16_f32_to_f32, |a: f16, b, c| a.to_f32().mul_add(b, c));
    check(&fma::fma_f32_f16_to_f32, |a: f32, b: f16, c| a.mul_add(b.to_f32(), c));
    check(&fma::fma_bf16_f32_to_f32, |a: bf16, b, c| a.to_f32().mul_add(b, c));
    check(&fma::fma_f32_bf16_to_f32, |a: f32, b: bf16, c| a.mul_add(b.to_f32(), c));
    check(&fma::fma_tf32_to_f32, |a: Tf32, b: Tf32, c| a.to_f32().mul_add(b.to_f32(), c));
    check(&fma::fma_e4m3_to_f32, |a: F8E4M3, b: F8E4M3, c| a.to_f32().mul_add(b.to_f32(), c));
    check(&fma::fma_e4m3_e5m2_to_f32, |a: F8E4M3, b: F8E5M2, c| a.to_f32().mul_add(b.to_f32(), c));
    check(&fma::fma_e5m2_e4m3_to_f32, |a: F8E5M2, b: F8E4M3, c| a.to_f32().mul_add(b.to_f32(), c));
    check(&fma::fma_e5m2_to_f32, |a: F8E5M2, b: F8E5M2, c| a.to_f32().mul_add(b.to_f32(), c));
    check(&fma::fma_f32_f64_to_f64, |a: f32, b: f64, c| f64::from(a).mul_add(b, c));
    check(&fma::fma_f64_f32_to_f64, |a: f64, b: f32, c| a.mul_add(b.into(), c));
    check(&fma::fma_c64, |a: Complex64, b: Complex64, c: Complex64| {
        let (re, im) = (a.re.mul_add(b.re, c.re), a.re.mul_add(b.im, c.im));
        Complex64::new((-a.im).mul_add(b.im, re), a.im.mul_add(b.re, im))
    });
}

#[test]
fn wraps_around_where_integers_end() {
    check(&fma::fma_i32, |a: i32, b, c: i32| a.wrapping_mul(b).wrapping_add(c));
    check(&fma::fma_u32, |a: u32, b, c: u32| a.wrapping_mul(b).wrapping_add(c));
    check(&fma::fma_i64, |a: i64, b, c: i64| a.wrapping_mul(b).wrapping_add(c));
    check(&fma::fma_u64, |a: u64, b, c: u64| a.wrapping_mul(b).wrapping_add(c));
    check(&fma::fma_i8_to_i32, |a: i8, b: i8, c: i32| (i32::from(a) * i32::from(b)).wrapping_add(c));
    check(&fma::fma_u8_to_i32, |a: u8, b: u8, c: i32| (i32::from(a) * i32::from(b)).wrapping_add(c));
    check(&fma::fma_i16_to_i32, |a: i16, b: i16, c: i32| (i32::from(a) * i32::from(b)).wrapping_add(c));
    check(&fma::fma_i8_u8_to_i32, |a: i8, b: u8, c: i32| (i32::from(a) * i32::from(b)).wrapping_add(c));
    check(&fma::fma_u8_i8_to_i32, |a: u8, b: i8, c: i32| (i32::from(a) * i32::from(b)).wrapping_add(c));
    check(&fma::fma_i8_i16_to_i32, |a: i8, b: i16, c: i32| (i32::from(a) * i32::from(b)).wrapping_add(c));
    check(&fma::fma_i16_i8_to_i32, |a: i16, b: i8, c: i32| (i32::from(a) * i32::from(b)).wrapping_add(c));
    check(&fma::fma_u8_i16_to_i32, |a: u8, b: i16, c: i32| (i32::from(a) * i32::from(b)).wrapping_add(c));
    check(&fma::fma_i16_u8_to_i32, |a: i16, b: u8, c: i32| (i32::from(a) * i32::from(b)).wrapping_add(c));
    check(&fma::fma_u8_to_u32, |a: u8, b: u8, c: u32| (u32::from(a) * u32::from(b)).wrapping_add(c));
    check(&fma::fma_i32_to_i64, |a: i32, b: i32, c: i64| (i64::from(a) * i64::from(b)).wrapping_add(c));
    check(&fma::fma_u32_to_u64, |a: u32, b: u32, c: u64| (u64::from(a) * u64::from(b)).wrapping_add(c));
}

/// The oldest architecture that an available assembler supports. Multiply-adds of f32, f64 and
/// integers are older.
const ALL: u32 = 50;

/// Each kernel, its instruction, its separate addition if there is one, the count of the
/// instruction, and its oldest architecture, from NVIDIA's "PTX ISA".
const TABLE: [(&str, &str, &str, usize, u32); 37] = [
    ("fma_f32", "fma.rn.f32", "", 1, ALL),
    ("fma_f16_to_f32", "fma.rn.f32", "", 1, ALL),
    ("fma_bf16_to_f32", "fma.rn.f32", "", 1, ALL),
    ("fma_f16_bf16_to_f32", "fma.rn.f32", "", 1, ALL),
    ("fma_bf16_f16_to_f32", "fma.rn.f32", "", 1, ALL),
    ("fma_f16_f32_to_f32", "fma.rn.f32", "", 1, ALL),
    ("fma_f32_f16_to_f32", "fma.rn.f32", "", 1, ALL),
    ("fma_bf16_f32_to_f32", "fma.rn.f32", "", 1, ALL),
    ("fma_f32_bf16_to_f32", "fma.rn.f32", "", 1, ALL),
    ("fma_tf32_to_f32", "fma.rn.f32", "", 1, ALL),
    ("fma_e4m3_to_f32", "fma.rn.f32", "", 1, ALL),
    ("fma_e4m3_e5m2_to_f32", "fma.rn.f32", "", 1, ALL),
    ("fma_e5m2_e4m3_to_f32", "fma.rn.f32", "", 1, ALL),
    ("fma_e5m2_to_f32", "fma.rn.f32", "", 1, ALL),
    ("fma_f64", "fma.rn.f64", "", 1, ALL),
    ("fma_f32_to_f64", "fma.rn.f64", "", 1, ALL),
    ("fma_f32_f64_to_f64", "fma.rn.f64", "", 1, ALL),
    ("fma_f64_f32_to_f64", "fma.rn.f64", "", 1, ALL),
    ("fma_c64", "fma.rn.f64", "", 4, ALL),
    ("fma_f16", "fma.rn.f16", "", 1, 53),
    ("fma_bf16", "fma.rn.bf16", "", 1, 80),
    ("fma_i32", "mad.lo.s32", "", 1, ALL),
    ("fma_u32", "mad.lo.s32", "", 1, ALL),
    ("fma_i8_to_i32", "mad.lo.s32", "", 1, ALL),
    ("fma_u8_to_i32", "mad.lo.s32", "", 1, ALL),
    ("fma_i8_u8_to_i32", "mad.lo.s32", "", 1, ALL),
    ("fma_u8_i8_to_i32", "mad.lo.s32", "", 1, ALL),
    ("fma_i8_i16_to_i32", "mad.lo.s32", "", 1, ALL),
    ("fma_i16_i8_to_i32", "mad.lo.s32", "", 1, ALL),
    ("fma_u8_i16_to_i32", "mad.lo.s32", "", 1, ALL),
    ("fma_i16_u8_to_i32", "mad.lo.s32", "", 1, ALL),
    ("fma_u8_to_u32", "mad.lo.s32", "", 1, ALL),
    ("fma_i64", "mad.lo.s64", "", 1, ALL),
    ("fma_u64", "mad.lo.s64", "", 1, ALL),
    ("fma_i16_to_i32", "mul.wide.s16", "add.s32", 1, ALL),
    ("fma_i32_to_i64", "mul.wide.s32", "add.s64", 1, ALL),
    ("fma_u32_to_u64", "mul.wide.u32", "add.s64", 1, ALL),
];

/// The number of each instruction in the computation of the stored values, back to the loads.
fn computed_by(kernel: &str, text: &str) -> BTreeMap<String, usize> {
    let parsed: Vec<_> = text.lines().filter_map(Instruction::of).collect();
    let store = parsed.iter().filter(|of| of.name.starts_with("st.global"));
    // The address is the first operand.
    let mut open: Vec<&str> = store.flat_map(|of| of.read.iter().copied()).collect();
    assert!(!open.is_empty(), "{kernel} stores nothing:\n{text}");
    let (mut seen, mut used) = (BTreeSet::new(), BTreeSet::new());
    while let Some(register) = open.pop() {
        if !seen.insert(register) {
            continue;
        }
        for (i, Instruction { name, written, read }) in parsed.iter().enumerate() {
            let loads = name.starts_with("ld.");
            if written.contains(&register) && !name.starts_with("st.") && used.insert(i) && !loads {
                open.extend(read);
            }
        }
    }
    let mut counts = BTreeMap::new();
    for i in used {
        *counts.entry(parsed[i].name.to_owned()).or_default() += 1;
    }
    counts
}

/// An instruction of a kernel.
struct Instruction<'t> {
    name: &'t str,
    /// The registers of the first operand.
    written: Vec<&'t str>,
    /// The registers of the other operands.
    read: Vec<&'t str>,
}

impl<'t> Instruction<'t> {
    fn of(line: &'t str) -> Option<Self> {
        let line = line.trim().split(';').next()?.trim_start_matches(['{', ' ']);
        let (name, operands) = line.split_once([' ', '\t'])?;
        let operands = operands.trim();
        let first = match operands.strip_prefix('{') {
            Some(list) => list.find('}').map_or(operands.len(), |end| end + 2),
            None => operands.find(',').unwrap_or(operands.len()),
        };
        let (written, read) = operands.split_at(first.min(operands.len()));
        (!name.starts_with("//")).then(|| Self { name, written: registers(written), read: registers(read) })
    }
}

fn registers(operands: &str) -> Vec<&str> {
    operands.split([',', ' ', '{', '}', '[', ']']).filter(|part| part.starts_with('%')).collect()
}

#[test]
fn is_the_instruction_that_its_atom_names_once_or_four_times_of_complex_numbers() {
    let module = kernels::PTX_SM_80[0].1;
    let listed: BTreeSet<&str> = TABLE.iter().map(|row| row.0).collect();
    let kernels: BTreeSet<&str> = fma::ATOMS.iter().map(|atom| atom.0).collect();
    assert_eq!(listed, kernels, "a row for each kernel");
    for (kernel, instruction, sum, count, arch) in TABLE {
        let counts = computed_by(kernel, kernel_text(module, kernel));
        let multiplies = |name: &str| {
            ["fma.", "mad.", "mul.wide.", "mul.lo.", "mul.hi."].iter().any(|of| name.starts_with(of))
        };
        let found: Vec<_> = counts.iter().filter(|(name, _)| multiplies(name)).collect();
        assert_eq!(found, [(&instruction.to_owned(), &count)], "{kernel}: {counts:?}");
        let sums: Vec<_> =
            counts.keys().filter(|name| name.starts_with("add.s32") || name.starts_with("add.s64")).collect();
        assert_eq!(sums, if sum.is_empty() { vec![] } else { vec![sum] }, "{kernel}: {counts:?}");
        let (_, atom) = fma::ATOMS.iter().find(|atom| atom.0 == kernel).expect("there are as many");
        assert_eq!((atom.instruction, atom.instruction_count), (instruction, count), "{kernel}");
        assert_eq!(atom.oldest_arch.max(ALL), arch, "{kernel}");
        assert_eq!(atom.ptx_version.max(version_of(ALL)), version_of(arch), "{kernel}");
    }
}

#[test]
fn ptxas_takes_each_for_the_oldest_architecture_and_not_for_the_one_before() {
    let module = kernels::PTX_SM_80[0].1;
    let mut assemblers = BTreeMap::new();
    let mut assemble = |kernel, arch: u32| {
        let name: Arch = format!("sm_{arch}").parse().unwrap();
        let found: &Option<Ptxas> = assemblers.entry(arch).or_insert_with(|| Ptxas::find_for(name));
        let kernel = kernel_text(module, kernel);
        // The compiler drops half of a register with `_`, which needs a newer PTX version
        // than the other operands.
        let least = if kernel.contains("{_,") || kernel.contains(", _}") { (7, 1) } else { (0, 0) };
        let (major, minor) = version_of(arch).max(least);
        let text = format!(".version {major}.{minor}\n.target sm_{arch}\n.address_size 64\n{kernel}");
        Some(found.as_ref()?.assemble(&text, name).map(drop).map_err(|error| error.to_string()))
    };
    let mut failures = Vec::new();
    let mut taken = 0;
    for (kernel, _, _, _, arch) in TABLE {
        match assemble(kernel, arch) {
            Some(Ok(())) => taken += 1,
            Some(Err(error)) => failures.push(format!("{kernel} for sm_{arch}: {error}")),
            None => {}
        }
        if let Some(before) = before(arch)
            && assemble(kernel, before) == Some(Ok(()))
        {
            failures.push(format!("{kernel}: sm_{before} has it too, not only sm_{arch}"));
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    let missing: Vec<_> =
        assemblers.iter().filter(|(_, found)| found.is_none()).map(|(arch, _)| arch).collect();
    if missing.is_empty() {
        assert_eq!(taken, TABLE.len());
    } else {
        assembler::lacking(&format!("multiply-adds are not assembled for sm_{missing:?}"));
    }
}
