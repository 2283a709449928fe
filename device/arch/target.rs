//! The GPU and the PTX version that an instruction needs, checked when it is compiled for a GPU.

#[cfg(target_arch = "nvptx64")]
use crate::layout::Text;

/// The requirements of an instruction; [`needs`] implements them.
#[cfg(target_arch = "nvptx64")]
pub trait Needs {
    /// Its name, and its atom's name if it has one.
    const INSTRUCTION: &'static str;
    /// The oldest architecture, 89 for `sm_89`.
    const SM: u32;
    /// Whether only `sm_90a` has it.
    const ONLY_90A: bool;
    /// The oldest PTX version, 84 for 8.4.
    const PTX: u32;
}

/// A compile error for a GPU that lacks the instruction: the message states the requirements and
/// the compilation's target.
///
/// Generic, so that only code that calls it is rejected.
#[cfg(target_arch = "nvptx64")]
#[inline(always)]
pub const fn require<N: Needs>() {
    const {
        let has = if N::ONLY_90A { cfg!(target_feature = "sm_90a") } else { TARGET_SM >= N::SM };
        if !has || TARGET_PTX < N::PTX {
            panic!("{}", missing(N::INSTRUCTION, N::SM, N::ONLY_90A, N::PTX).as_str());
        }
    }
}

/// The message for a missing instruction.
#[cfg(target_arch = "nvptx64")]
const fn missing(instruction: &str, sm: u32, only_90a: bool, ptx: u32) -> Text<MESSAGE> {
    let mut text = Text::new();
    text.str(instruction);
    text.str(" needs sm_");
    text.int(sm as i64);
    text.str(if only_90a { "a, no older and no newer GPU, and PTX " } else { " and PTX " });
    version(&mut text, ptx);
    text.str(", and the kernel is compiled for sm_");
    text.int(TARGET_SM as i64);
    text.str(if cfg!(target_feature = "sm_90a") { "a, PTX " } else { ", PTX " });
    version(&mut text, TARGET_PTX);
    if only_90a {
        text.str(
            ": compile it for that GPU (PtxBuilder::arch(\"sm_90a\")), or leave it out elsewhere \
             (#[cfg(target_feature = \"sm_90a\")])",
        );
    } else {
        text.str(
            ": compile it for a newer GPU or PTX version (PtxBuilder::arch; PtxBuilder::rustflag with \
             -Ctarget-feature=+ptx",
        );
        text.int(ptx as i64);
        text.str("), or leave it out where the GPU is older (#[cfg(target_feature = \"sm_");
        text.int(sm as i64);
        text.str("\")])");
    }
    text
}

/// `8.4` for 84.
#[cfg(target_arch = "nvptx64")]
const fn version(text: &mut Text<MESSAGE>, tenfold: u32) {
    text.int((tenfold / 10) as i64);
    text.str(".");
    text.int((tenfold % 10) as i64);
}

/// The longest message, in bytes.
#[cfg(target_arch = "nvptx64")]
const MESSAGE: usize = 600;

/// Stands at the start of an instruction's function, or of a constant for one of its forms:
/// `needs!("movmatrix", 75 7.8)` for sm_75 and PTX 7.8, all literals, or
/// `needs!("wgmma", sm_90a 8.0)`. An instruction of an atom is named with it:
/// `ldmatrix.x4 (the atom SM75_U32x4_LDSM_N)`. The simulator has every instruction.
macro_rules! needs {
    ($instruction:expr, sm_90a $ptx:literal) => {
        $crate::arch::target::needs!(@ $instruction, 90, true, $ptx);
    };
    ($instruction:expr, $sm:literal $ptx:literal) => {
        $crate::arch::target::needs!(@ $instruction, $sm, false, $ptx);
    };
    (@ $instruction:expr, $sm:literal, $only_90a:literal, $ptx:literal) => {
        #[cfg(target_arch = "nvptx64")]
        {
            struct Need;
            impl $crate::arch::target::Needs for Need {
                const INSTRUCTION: &'static str = $instruction;
                const SM: u32 = $sm;
                const ONLY_90A: bool = $only_90a;
                const PTX: u32 = ($ptx * 10.0 + 0.5) as u32;
            }
            $crate::arch::target::require::<Need>();
        }
    };
}
pub(super) use needs;

/// A check that the simulator makes in every build, including release builds, and a GPU does not:
/// if the condition does not hold, the launch ends with a fault with this message. For conditions
/// that a caller promises, and whose violation would silently give wrong results.
macro_rules! simulator_assert {
    ($condition:expr, $($text:tt)+) => {
        #[cfg(not(target_arch = "nvptx64"))]
        {
            assert!($condition, $($text)+);
        }
        // Never called: it marks the names as used.
        #[cfg(target_arch = "nvptx64")]
        let _ = || assert!($condition, $($text)+);
    };
}
pub(crate) use simulator_assert;

/// The highest of the listed features with which the code is compiled. A feature implies the ones
/// before it.
#[cfg(target_arch = "nvptx64")]
macro_rules! highest {
    ($($feature:literal = $number:literal),* $(,)?) => {{
        let mut highest = 0;
        $(if cfg!(target_feature = $feature) {
            highest = $number;
        })*
        highest
    }};
}

#[cfg(target_arch = "nvptx64")]
const TARGET_SM: u32 = highest! {
    "sm_50" = 50, "sm_52" = 52, "sm_53" = 53, "sm_60" = 60, "sm_61" = 61, "sm_62" = 62, "sm_70" = 70, "sm_72" = 72,
    "sm_75" = 75, "sm_80" = 80, "sm_86" = 86, "sm_87" = 87, "sm_89" = 89, "sm_90" = 90, "sm_100" = 100,
    "sm_101" = 101, "sm_120" = 120,
};

/// The PTX version of the compilation: the requested one, or the first that has the architecture.
#[cfg(target_arch = "nvptx64")]
const TARGET_PTX: u32 = {
    let least = match TARGET_SM {
        ..70 => 50,
        70..75 => 60,
        75..80 => 63,
        80..86 => 70,
        86 => 71,
        87 => 74,
        // sm_90a needs a later PTX version than sm_90.
        90 if cfg!(target_feature = "sm_90a") => 80,
        88..100 => 78,
        100..120 => 86,
        _ => 87,
    };
    if ASKED_PTX > least { ASKED_PTX } else { least }
};

#[cfg(target_arch = "nvptx64")]
const ASKED_PTX: u32 = highest! {
    "ptx50" = 50, "ptx60" = 60, "ptx61" = 61, "ptx62" = 62, "ptx63" = 63, "ptx64" = 64, "ptx65" = 65, "ptx70" = 70,
    "ptx71" = 71, "ptx72" = 72, "ptx73" = 73, "ptx74" = 74, "ptx75" = 75, "ptx76" = 76, "ptx77" = 77, "ptx78" = 78,
    "ptx80" = 80, "ptx81" = 81, "ptx82" = 82, "ptx83" = 83, "ptx84" = 84, "ptx85" = 85, "ptx86" = 86, "ptx87" = 87,
};
