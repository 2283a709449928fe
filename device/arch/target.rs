//! What the architecture that is compiled for has to offer.

/// The architecture that is compiled for, `90` for sm_90: the newest of those that this crate asks for by number.
#[cfg(target_arch = "nvptx64")]
const SM: u32 = if cfg!(target_feature = "sm_90") {
    90
} else if cfg!(target_feature = "sm_89") {
    89
} else {
    80
};

/// The version of the PTX language that is compiled to, `78` for 7.8, likewise.
#[cfg(target_arch = "nvptx64")]
const PTX: u32 = if cfg!(target_feature = "ptx81") {
    81
} else if cfg!(target_feature = "ptx78") {
    78
} else if cfg!(target_feature = "ptx74") {
    74
} else {
    70
};

/// Does not compile for a GPU older than `OLDEST` (90 for sm_90) or to PTX older than `LANGUAGE` (78 for 7.8).
///
/// The numbers are parameters so that only code which calls it is refused. The simulator has every instruction.
#[inline(always)]
pub(crate) const fn needs<const OLDEST: u32, const LANGUAGE: u32>() {
    #[cfg(target_arch = "nvptx64")]
    const {
        assert!(
            SM >= OLDEST,
            "this instruction needs a newer architecture: the `OLDEST` of `needs::<OLDEST, LANGUAGE>` (90 is sm_90); \
             compile for that one, `PtxBuilder::arch(\"sm_90a\")` say, and give older GPUs another kernel"
        );
        assert!(
            PTX >= LANGUAGE,
            "this instruction needs a newer PTX language: the `LANGUAGE` of `needs::<OLDEST, LANGUAGE>` (74 is 7.4); \
             compile with `PtxBuilder::rustflag(\"-Ctarget-feature=+ptx74\")`"
        );
    }
}
