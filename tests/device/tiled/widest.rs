//! Copies by the widest access that both layouts, the element type and the alignment allow, up to
//! an atom's cap or with `cp.async`: the result, on the simulator and on a GPU if there is one, and
//! in PTX the width of each access.

use crate::common::bytes::{bytes, of_bytes};
use crate::common::devices;
use crate::common::ptx::kernel_text;
use crate::{POISON, SM_80, entry};
use half::{bf16, f16};
use moye::{Element, Global, GlobalMut, Grid, Kernel};
use moye_kernels_tiled::widest::{self as kernels, COLUMNS, LEADING, ROWS};

type CopyKernel<T> = Kernel<(Global<T>, GlobalMut<T>)>;

/// The indices of the tile's elements in a matrix: down its columns, or along its rows.
fn places(across: bool) -> impl Iterator<Item = usize> {
    (0..COLUMNS).flat_map(move |column| {
        (0..ROWS)
            .map(move |row| (if across { LEADING * row + column } else { row + LEADING * column }) as usize)
    })
}

/// Copies a tile of pseudo-random bytes over poison, and compares all of the destination's memory.
fn arrives<T: Element>(kernel: &CopyKernel<T>, across: bool) {
    let len = (LEADING * COLUMNS) as usize;
    let data: Vec<u8> = (0..len * T::BYTES).map(|i| (i * 167 + i / 251 + 1) as u8).collect();
    let source: Vec<T> = data.chunks_exact(T::BYTES).map(of_bytes).collect();
    let mut wanted = vec![of_bytes::<T>(&[POISON; 16]); len];
    for (from, to) in places(across).zip(places(false)) {
        wanted[to] = source[from];
    }
    for device in devices() {
        let module = device.load(&SM_80).unwrap();
        let input = device.upload(&source).unwrap();
        let mut output = device.alloc_uninit::<T>(len).unwrap();
        output.fill_bytes(POISON).unwrap();
        // SAFETY: the buffers have a tile, and start at multiples of 16 bytes.
        unsafe { module.launch(kernel, Grid::new(1, COLUMNS as u32), (&input, &mut output)) }.unwrap();
        let got = output.download().unwrap();
        let different = (0..len).find(|&at| bytes(&got[at..=at]) != bytes(&wanted[at..=at]));
        assert_eq!(different, None, "{} on {}: the first element that differs", kernel.name(), device.name());
    }
}

/// The suffix of an access of this many bits in PTX, after `ld.global` and the like. A single
/// element of 64 bits is one register.
fn suffix(bits: usize, element: usize) -> &'static str {
    match bits {
        8 => "u8",
        16 => "b16",
        32 => "b32",
        64 if element == 64 => "b64",
        64 => "v2.b32",
        128 => "v4.b32",
        other => panic!("no access has {other} bits"),
    }
}

/// The kernel's accesses on the way in have `into` bits each, those on the way out `out`, and there
/// are no others.
fn is_as_wide(kernel: &str, element: usize, into: usize, out: usize) {
    let entry = entry(kernel);
    for (access, bits) in [("ld.global", into), ("st.shared", into), ("ld.shared", out), ("st.global", out)] {
        let wanted = ROWS as usize * element / bits;
        let exactly = format!("{access}.{}", suffix(bits, element));
        let counts = (entry.count_where(|name| name == exactly), entry.count(access));
        assert_eq!(
            counts,
            (wanted, wanted),
            "{}: {exactly}, and {access} of any width: {:?}",
            entry.name,
            entry.instructions
        );
    }
}

macro_rules! tests {
    ($($name:ident $(($across:ident))?: $t:ty, $into:literal, $out:literal;)+) => {
        #[test]
        fn every_element_arrives_by_the_widest_accesses() {
            $(arrives::<$t>(&kernels::$name, [$(stringify!($across))?].contains(&"across"));)+
        }

        #[test]
        fn accesses_are_as_wide_as_layouts_type_and_alignment_allow() {
            $(is_as_wide(kernels::$name.name(), 8 * size_of::<$t>(), $into, $out);)+
        }
    };
}
moye_kernels_tiled::for_each_widest!(tests);

/// Checks that every copy to shared memory is a `cp.async` of this many bits, cached in L1 too
/// unless it has 16 bytes; or, for 0 bits, that none is, and the elements pass through registers.
fn is_as_wide_by_cp_async(kernel: &str, element: usize, bits: usize) {
    let entry = entry(kernel);
    let copies: Vec<_> = kernel_text(moye_kernels_tiled::PTX_SM_80[0].1, kernel)
        .lines()
        .map(str::trim)
        .filter(|line| line.contains("cp.async.") && line.contains(".shared"))
        .collect();
    let wanted = (ROWS as usize * element).checked_div(bits).unwrap_or(0);
    assert_eq!(copies.len(), wanted, "{kernel}: {copies:#?}");
    // The instruction and its size, the third operand.
    let (name, size) = match bits {
        128 => ("cp.async.cg.shared.global ", "16"),
        bits => ("cp.async.ca.shared.global ", if bits == 64 { "8" } else { "4" }),
    };
    for copy in copies {
        let operands: Vec<_> = copy.trim_end_matches(';').split(", ").collect();
        assert!(
            copy.starts_with(name) && operands[2] == size,
            "{kernel}: {copy} is no {name}of {size} bytes"
        );
    }
    for access in ["ld.global", "st.shared"] {
        assert_eq!(entry.count(access) > 0, bits == 0, "{kernel}: {access}: {:?}", entry.instructions);
    }
}

macro_rules! async_tests {
    ($($name:ident $(($across:ident))?: $t:ty, $bits:literal;)+) => {
        #[test]
        fn every_element_arrives_by_cp_async() {
            $(arrives::<$t>(&kernels::$name, [$(stringify!($across))?].contains(&"across"));)+
        }

        #[test]
        fn copies_of_cp_async_are_as_wide_as_the_tensors_allow() {
            $(is_as_wide_by_cp_async(kernels::$name.name(), 8 * size_of::<$t>(), $bits);)+
        }
    };
}
moye_kernels_tiled::for_each_async!(async_tests);
