//! `dp4a` and `dp2a`: dot products of short vectors of integers, one per thread.

#[cfg(target_arch = "nvptx64")]
use super::target::needs;

macro_rules! dot {
    ($(#[$doc:meta])* $name:ident, $ptx:literal, $atom:literal, |$a:ident, $b:ident| $products:expr) => {
        $(#[$doc])*
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        #[must_use]
        pub fn $name($a: u32, $b: u32, c: i32) -> i32 {
            #[cfg(target_arch = "nvptx64")]
            {
                needs!(concat!($ptx, " (the atom ", $atom, ")"), 61 5.0);
                let d: i32;
                // SAFETY: arithmetic on registers.
                unsafe {
                    core::arch::asm!(
                        concat!($ptx, " {d}, {a}, {b}, {c};"),
                        d = lateout(reg32) d, a = in(reg32) $a, b = in(reg32) $b, c = in(reg32) c,
                        options(pure, nomem, nostack)
                    )
                };
                d
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                let products: [i32; 4] = $products;
                products.iter().fold(c, |sum, &product| sum.wrapping_add(product))
            }
        }
    };
}

dot! {
    /// `c` plus the products of four signed bytes of `a` with those of `b` (`dp4a.s32.s32`),
    /// wrapping.
    ///
    /// ```
    /// use moye_device::arch::dp4a_s32_s32;
    /// assert_eq!(dp4a_s32_s32(0x01_02_03_ff, 0x04_03_02_02, 100), 100 + 4 + 6 + 6 - 2);
    /// ```
    dp4a_s32_s32, "dp4a.s32.s32", "SM61_DP4A", |a, b| core::array::from_fn(|i| byte(a, i) * byte(b, i))
}
dot! {
    /// `c` plus the products of two signed 16-bit integers of `a` with the lower two signed bytes
    /// of `b` (`dp2a.lo.s32.s32`), wrapping.
    ///
    /// ```
    /// use moye_device::arch::dp2a_lo_s32_s32;
    /// assert_eq!(dp2a_lo_s32_s32(0xffff_03e8, 0x7f7f_fe05, 7), 7 + 1000 * 5 + 2);
    /// ```
    dp2a_lo_s32_s32, "dp2a.lo.s32.s32", "SM61_DP2A", |a, b| [
        i32::from(a as u16 as i16) * byte(b, 0),
        i32::from((a >> 16) as u16 as i16) * byte(b, 1),
        0,
        0,
    ]
}

#[cfg(not(target_arch = "nvptx64"))]
fn byte(word: u32, index: usize) -> i32 {
    i32::from(word.to_le_bytes()[index] as i8)
}
