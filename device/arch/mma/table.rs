//! The table of `mma.sync`: only data. [`for_each_mma!`](crate::for_each_mma) passes it to a macro.
//!
//! A row `sync` is an instruction and its atom:
//! - the atom's name, which is CuTe's; the function's name; the instruction after
//!   `mma.sync.aligned.`; MoYe's name, if it has one; the architecture of the atom's name;
//! - the oldest architecture and PTX version that have the instruction;
//! - m, n, k; how products are summed; the lanes that hold one set of matrices;
//! - for D, A, B and C: the number type, the registers for each lane, the thread-value layout.
//!
//! A row `same` is an atom with two names in CuTe: the second name, the first, the architecture of
//! the second. A row `own` is an atom that is defined elsewhere.
//!
//! Thread-value layouts are those of CuTe's `mma_traits_sm*.hpp`; architectures and versions are
//! those of NVIDIA's "PTX ISA", as far as its assembler confirms them.

/// Calls the macro `$callback` with the rows of the table of matrix instructions.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_mma {
    ($callback:ident) => {
        $callback! {
            sync {
                SM70_8x8x4_F16F16F16F16_TN; mma_m8n8k4_row_col_f16_f16_f16_f16;
                "m8n8k4.row.col.f16.f16.f16.f16"; moye("MMAOP_8x8x4_F16F16F16F16_TN"); arch 70;
                needs 70 6.4; [8, 8, 4]; Float; SM70_QuadPair;
                d f16 4 SM70_8x8_16b; a f16 2 SM70_8x4_Row; b f16 2 SM70_8x4_Row; c f16 4 SM70_8x8_16b
            }
            sync {
                SM70_8x8x4_F16F16F16F16_NT; mma_m8n8k4_col_row_f16_f16_f16_f16;
                "m8n8k4.col.row.f16.f16.f16.f16"; moye("MMAOP_8x8x4_F16F16F16F16_NT"); arch 70;
                needs 70 6.4; [8, 8, 4]; Float; SM70_QuadPair;
                d f16 4 SM70_8x8_16b; a f16 2 SM70_8x4_Col; b f16 2 SM70_8x4_Col; c f16 4 SM70_8x8_16b
            }
            sync {
                SM70_8x8x4_F16F16F16F16_NN; mma_m8n8k4_col_col_f16_f16_f16_f16;
                "m8n8k4.col.col.f16.f16.f16.f16"; moye("MMAOP_8x8x4_F16F16F16F16_NN"); arch 70;
                needs 70 6.4; [8, 8, 4]; Float; SM70_QuadPair;
                d f16 4 SM70_8x8_16b; a f16 2 SM70_8x4_Col; b f16 2 SM70_8x4_Row; c f16 4 SM70_8x8_16b
            }
            sync {
                SM70_8x8x4_F16F16F16F16_TT; mma_m8n8k4_row_row_f16_f16_f16_f16;
                "m8n8k4.row.row.f16.f16.f16.f16"; moye("MMAOP_8x8x4_F16F16F16F16_TT"); arch 70;
                needs 70 6.4; [8, 8, 4]; Float; SM70_QuadPair;
                d f16 4 SM70_8x8_16b; a f16 2 SM70_8x4_Row; b f16 2 SM70_8x4_Col; c f16 4 SM70_8x8_16b
            }
            sync {
                SM70_8x8x4_F32F16F16F32_TN; mma_m8n8k4_row_col_f32_f16_f16_f32;
                "m8n8k4.row.col.f32.f16.f16.f32"; moye("MMAOP_8x8x4_F32F16F16F32_TN"); arch 70;
                needs 70 6.4; [8, 8, 4]; Float; SM70_QuadPair;
                d f32 8 SM70_8x8_32b; a f16 2 SM70_8x4_Row; b f16 2 SM70_8x4_Row; c f32 8 SM70_8x8_32b
            }
            sync {
                SM70_8x8x4_F32F16F16F32_NT; mma_m8n8k4_col_row_f32_f16_f16_f32;
                "m8n8k4.col.row.f32.f16.f16.f32"; moye("MMAOP_8x8x4_F32F16F16F32_NT"); arch 70;
                needs 70 6.4; [8, 8, 4]; Float; SM70_QuadPair;
                d f32 8 SM70_8x8_32b; a f16 2 SM70_8x4_Col; b f16 2 SM70_8x4_Col; c f32 8 SM70_8x8_32b
            }
            sync {
                SM70_8x8x4_F32F16F16F32_NN; mma_m8n8k4_col_col_f32_f16_f16_f32;
                "m8n8k4.col.col.f32.f16.f16.f32"; moye("MMAOP_8x8x4_F32F16F16F32_NN"); arch 70;
                needs 70 6.4; [8, 8, 4]; Float; SM70_QuadPair;
                d f32 8 SM70_8x8_32b; a f16 2 SM70_8x4_Col; b f16 2 SM70_8x4_Row; c f32 8 SM70_8x8_32b
            }
            sync {
                SM70_8x8x4_F32F16F16F32_TT; mma_m8n8k4_row_row_f32_f16_f16_f32;
                "m8n8k4.row.row.f32.f16.f16.f32"; moye("MMAOP_8x8x4_F32F16F16F32_TT"); arch 70;
                needs 70 6.4; [8, 8, 4]; Float; SM70_QuadPair;
                d f32 8 SM70_8x8_32b; a f16 2 SM70_8x4_Row; b f16 2 SM70_8x4_Col; c f32 8 SM70_8x8_32b
            }
            sync {
                SM70_8x8x4_F32F16F16F16_TN; mma_m8n8k4_row_col_f32_f16_f16_f16;
                "m8n8k4.row.col.f32.f16.f16.f16"; moye("MMAOP_8x8x4_F32F16F16F16_TN"); arch 70;
                needs 70 6.4; [8, 8, 4]; Float; SM70_QuadPair;
                d f32 8 SM70_8x8_32b; a f16 2 SM70_8x4_Row; b f16 2 SM70_8x4_Row; c f16 4 SM70_8x8_16b
            }
            sync {
                SM70_8x8x4_F32F16F16F16_NT; mma_m8n8k4_col_row_f32_f16_f16_f16;
                "m8n8k4.col.row.f32.f16.f16.f16"; moye("MMAOP_8x8x4_F32F16F16F16_NT"); arch 70;
                needs 70 6.4; [8, 8, 4]; Float; SM70_QuadPair;
                d f32 8 SM70_8x8_32b; a f16 2 SM70_8x4_Col; b f16 2 SM70_8x4_Col; c f16 4 SM70_8x8_16b
            }
            sync {
                SM70_8x8x4_F32F16F16F16_NN; mma_m8n8k4_col_col_f32_f16_f16_f16;
                "m8n8k4.col.col.f32.f16.f16.f16"; moye("MMAOP_8x8x4_F32F16F16F16_NN"); arch 70;
                needs 70 6.4; [8, 8, 4]; Float; SM70_QuadPair;
                d f32 8 SM70_8x8_32b; a f16 2 SM70_8x4_Col; b f16 2 SM70_8x4_Row; c f16 4 SM70_8x8_16b
            }
            sync {
                SM70_8x8x4_F32F16F16F16_TT; mma_m8n8k4_row_row_f32_f16_f16_f16;
                "m8n8k4.row.row.f32.f16.f16.f16"; moye("MMAOP_8x8x4_F32F16F16F16_TT"); arch 70;
                needs 70 6.4; [8, 8, 4]; Float; SM70_QuadPair;
                d f32 8 SM70_8x8_32b; a f16 2 SM70_8x4_Row; b f16 2 SM70_8x4_Col; c f16 4 SM70_8x8_16b
            }
            sync {
                SM80_16x8x8_F16F16F16F16_TN; mma_m16n8k8_f16_f16_f16_f16;
                "m16n8k8.row.col.f16.f16.f16.f16"; moye("MMAOP_16x8x8_F16F16F16F16_TN"); arch 80;
                needs 75 6.5; [16, 8, 8]; Float; SM80_Warp;
                d f16 2 SM80_16x8_Row; a f16 2 SM80_16x8_Row; b f16 1 SM80_8x8_Row; c f16 2 SM80_16x8_Row
            }
            sync {
                SM80_16x8x8_F32F16F16F32_TN; mma_m16n8k8_f32_f16_f16_f32;
                "m16n8k8.row.col.f32.f16.f16.f32"; moye("MMAOP_16x8x8_F32F16F16F32_TN"); arch 80;
                needs 75 6.5; [16, 8, 8]; Float; SM80_Warp;
                d f32 4 SM80_16x8_Row; a f16 2 SM80_16x8_Row; b f16 1 SM80_8x8_Row; c f32 4 SM80_16x8_Row
            }
            sync {
                SM80_16x8x16_F16F16F16F16_TN; mma_m16n8k16_f16_f16_f16_f16;
                "m16n8k16.row.col.f16.f16.f16.f16"; moye("MMAOP_16x8x16_F16F16F16F16_TN"); arch 80;
                needs 80 7.0; [16, 8, 16]; Float; SM80_Warp;
                d f16 2 SM80_16x8_Row; a f16 4 SM80_16x16_16b; b f16 2 SM80_8x16_16b; c f16 2 SM80_16x8_Row
            }
            sync {
                SM80_16x8x16_F32F16F16F32_TN; mma_m16n8k16_f32_f16_f16_f32;
                "m16n8k16.row.col.f32.f16.f16.f32"; moye("MMAOP_16x8x16_F32F16F16F32_TN"); arch 80;
                needs 80 7.0; [16, 8, 16]; Float; SM80_Warp;
                d f32 4 SM80_16x8_Row; a f16 4 SM80_16x16_16b; b f16 2 SM80_8x16_16b; c f32 4 SM80_16x8_Row
            }
            sync {
                SM80_16x8x8_F32BF16BF16F32_TN; mma_m16n8k8_f32_bf16_bf16_f32;
                "m16n8k8.row.col.f32.bf16.bf16.f32"; moye("MMAOP_16x8x8_F32BF16BF16F32_TN"); arch 80;
                needs 80 7.0; [16, 8, 8]; Float; SM80_Warp;
                d f32 4 SM80_16x8_Row; a bf16 2 SM80_16x8_Row; b bf16 1 SM80_8x8_Row; c f32 4 SM80_16x8_Row
            }
            sync {
                SM80_16x8x16_F32BF16BF16F32_TN; mma_m16n8k16_f32_bf16_bf16_f32;
                "m16n8k16.row.col.f32.bf16.bf16.f32"; moye("MMAOP_16x8x16_F32BF16BF16F32_TN"); arch 80;
                needs 80 7.0; [16, 8, 16]; Float; SM80_Warp;
                d f32 4 SM80_16x8_Row; a bf16 4 SM80_16x16_16b; b bf16 2 SM80_8x16_16b; c f32 4 SM80_16x8_Row
            }
            sync {
                SM80_16x8x4_F32TF32TF32F32_TN; mma_m16n8k4_f32_tf32_tf32_f32;
                "m16n8k4.row.col.f32.tf32.tf32.f32"; moye("MMAOP_16x8x4_F32TF32TF32F32_TN"); arch 80;
                needs 80 7.0; [16, 8, 4]; Float; SM80_Warp;
                d f32 4 SM80_16x8_Row; a Tf32 2 SM80_16x4_32b; b Tf32 1 SM80_8x4; c f32 4 SM80_16x8_Row
            }
            sync {
                SM80_16x8x8_F32TF32TF32F32_TN; mma_m16n8k8_f32_tf32_tf32_f32;
                "m16n8k8.row.col.f32.tf32.tf32.f32"; moye("MMAOP_16x8x8_F32TF32TF32F32_TN"); arch 80;
                needs 80 7.0; [16, 8, 8]; Float; SM80_Warp;
                d f32 4 SM80_16x8_Row; a Tf32 4 SM80_16x8_32b; b Tf32 2 SM80_8x8_32b; c f32 4 SM80_16x8_Row
            }
            sync {
                SM80_8x8x4_F64F64F64F64_TN; mma_m8n8k4_f64_f64_f64_f64;
                "m8n8k4.row.col.f64.f64.f64.f64"; moye("MMAOP_8x8x4_F64F64F64F64_TN"); arch 80;
                needs 80 7.0; [8, 8, 4]; Fused; SM80_Warp;
                d f64 2 SM80_8x8_Row; a f64 1 SM80_8x4; b f64 1 SM80_8x4; c f64 2 SM80_8x8_Row
            }
            sync {
                SM80_8x8x16_S32S8S8S32_TN; mma_m8n8k16_s32_s8_s8_s32;
                "m8n8k16.row.col.s32.s8.s8.s32"; moye("MMAOP_8x8x16_S32S8S8S32_TN"); arch 80;
                needs 75 6.5; [8, 8, 16]; Wrap; SM80_Warp;
                d i32 2 SM80_8x8_Row; a i8 1 SM80_8x16_Row; b i8 1 SM80_8x16_Row; c i32 2 SM80_8x8_Row
            }
            sync {
                SM80_8x8x16_S32S8S8S32_TN_SATURATE; mma_m8n8k16_s32_s8_s8_s32_satfinite;
                "m8n8k16.row.col.satfinite.s32.s8.s8.s32"; moye("MMAOP_8x8x16_S32S8S8S32_TN_SATURATE"); arch 80;
                needs 75 6.5; [8, 8, 16]; Saturate; SM80_Warp;
                d i32 2 SM80_8x8_Row; a i8 1 SM80_8x16_Row; b i8 1 SM80_8x16_Row; c i32 2 SM80_8x8_Row
            }
            sync {
                SM80_16x8x16_S32S8S8S32_TN; mma_m16n8k16_s32_s8_s8_s32;
                "m16n8k16.row.col.s32.s8.s8.s32"; moye("MMAOP_16x8x16_S32S8S8S32_TN"); arch 80;
                needs 80 7.0; [16, 8, 16]; Wrap; SM80_Warp;
                d i32 4 SM80_16x8_Row; a i8 2 SM80_16x16_8b; b i8 1 SM80_8x16_Row; c i32 4 SM80_16x8_Row
            }
            sync {
                SM80_16x8x16_S32S8S8S32_TN_SATURATE; mma_m16n8k16_s32_s8_s8_s32_satfinite;
                "m16n8k16.row.col.satfinite.s32.s8.s8.s32"; moye("MMAOP_16x8x16_S32S8S8S32_TN_SATURATE"); arch 80;
                needs 80 7.0; [16, 8, 16]; Saturate; SM80_Warp;
                d i32 4 SM80_16x8_Row; a i8 2 SM80_16x16_8b; b i8 1 SM80_8x16_Row; c i32 4 SM80_16x8_Row
            }
            sync {
                SM80_16x8x32_S32S8S8S32_TN; mma_m16n8k32_s32_s8_s8_s32;
                "m16n8k32.row.col.s32.s8.s8.s32"; moye("MMAOP_16x8x32_S32S8S8S32_TN"); arch 80;
                needs 80 7.0; [16, 8, 32]; Wrap; SM80_Warp;
                d i32 4 SM80_16x8_Row; a i8 4 SM80_16x32_8b; b i8 2 SM80_8x32_8b; c i32 4 SM80_16x8_Row
            }
            sync {
                SM80_16x8x32_S32S8S8S32_TN_SATURATE; mma_m16n8k32_s32_s8_s8_s32_satfinite;
                "m16n8k32.row.col.satfinite.s32.s8.s8.s32"; moye("MMAOP_16x8x32_S32S8S8S32_TN_SATURATE"); arch 80;
                needs 80 7.0; [16, 8, 32]; Saturate; SM80_Warp;
                d i32 4 SM80_16x8_Row; a i8 4 SM80_16x32_8b; b i8 2 SM80_8x32_8b; c i32 4 SM80_16x8_Row
            }
            sync {
                SM80_8x8x16_S32S8U8S32_TN; mma_m8n8k16_s32_s8_u8_s32;
                "m8n8k16.row.col.s32.s8.u8.s32"; moye("MMAOP_8x8x16_S32S8U8S32_TN"); arch 80;
                needs 75 6.5; [8, 8, 16]; Wrap; SM80_Warp;
                d i32 2 SM80_8x8_Row; a i8 1 SM80_8x16_Row; b u8 1 SM80_8x16_Row; c i32 2 SM80_8x8_Row
            }
            sync {
                SM80_8x8x16_S32S8U8S32_TN_SATURATE; mma_m8n8k16_s32_s8_u8_s32_satfinite;
                "m8n8k16.row.col.satfinite.s32.s8.u8.s32"; moye("MMAOP_8x8x16_S32S8U8S32_TN_SATURATE"); arch 80;
                needs 75 6.5; [8, 8, 16]; Saturate; SM80_Warp;
                d i32 2 SM80_8x8_Row; a i8 1 SM80_8x16_Row; b u8 1 SM80_8x16_Row; c i32 2 SM80_8x8_Row
            }
            sync {
                SM80_16x8x16_S32S8U8S32_TN; mma_m16n8k16_s32_s8_u8_s32;
                "m16n8k16.row.col.s32.s8.u8.s32"; moye("MMAOP_16x8x16_S32S8U8S32_TN"); arch 80;
                needs 80 7.0; [16, 8, 16]; Wrap; SM80_Warp;
                d i32 4 SM80_16x8_Row; a i8 2 SM80_16x16_8b; b u8 1 SM80_8x16_Row; c i32 4 SM80_16x8_Row
            }
            sync {
                SM80_16x8x16_S32S8U8S32_TN_SATURATE; mma_m16n8k16_s32_s8_u8_s32_satfinite;
                "m16n8k16.row.col.satfinite.s32.s8.u8.s32"; moye("MMAOP_16x8x16_S32S8U8S32_TN_SATURATE"); arch 80;
                needs 80 7.0; [16, 8, 16]; Saturate; SM80_Warp;
                d i32 4 SM80_16x8_Row; a i8 2 SM80_16x16_8b; b u8 1 SM80_8x16_Row; c i32 4 SM80_16x8_Row
            }
            sync {
                SM80_16x8x32_S32S8U8S32_TN; mma_m16n8k32_s32_s8_u8_s32;
                "m16n8k32.row.col.s32.s8.u8.s32"; moye("MMAOP_16x8x32_S32S8U8S32_TN"); arch 80;
                needs 80 7.0; [16, 8, 32]; Wrap; SM80_Warp;
                d i32 4 SM80_16x8_Row; a i8 4 SM80_16x32_8b; b u8 2 SM80_8x32_8b; c i32 4 SM80_16x8_Row
            }
            sync {
                SM80_16x8x32_S32S8U8S32_TN_SATURATE; mma_m16n8k32_s32_s8_u8_s32_satfinite;
                "m16n8k32.row.col.satfinite.s32.s8.u8.s32"; moye("MMAOP_16x8x32_S32S8U8S32_TN_SATURATE"); arch 80;
                needs 80 7.0; [16, 8, 32]; Saturate; SM80_Warp;
                d i32 4 SM80_16x8_Row; a i8 4 SM80_16x32_8b; b u8 2 SM80_8x32_8b; c i32 4 SM80_16x8_Row
            }
            sync {
                SM80_8x8x16_S32U8S8S32_TN; mma_m8n8k16_s32_u8_s8_s32;
                "m8n8k16.row.col.s32.u8.s8.s32"; moye("MMAOP_8x8x16_S32U8S8S32_TN"); arch 80;
                needs 75 6.5; [8, 8, 16]; Wrap; SM80_Warp;
                d i32 2 SM80_8x8_Row; a u8 1 SM80_8x16_Row; b i8 1 SM80_8x16_Row; c i32 2 SM80_8x8_Row
            }
            sync {
                SM80_8x8x16_S32U8S8S32_TN_SATURATE; mma_m8n8k16_s32_u8_s8_s32_satfinite;
                "m8n8k16.row.col.satfinite.s32.u8.s8.s32"; moye("MMAOP_8x8x16_S32U8S8S32_TN_SATURATE"); arch 80;
                needs 75 6.5; [8, 8, 16]; Saturate; SM80_Warp;
                d i32 2 SM80_8x8_Row; a u8 1 SM80_8x16_Row; b i8 1 SM80_8x16_Row; c i32 2 SM80_8x8_Row
            }
            sync {
                SM80_16x8x16_S32U8S8S32_TN; mma_m16n8k16_s32_u8_s8_s32;
                "m16n8k16.row.col.s32.u8.s8.s32"; moye("MMAOP_16x8x16_S32U8S8S32_TN"); arch 80;
                needs 80 7.0; [16, 8, 16]; Wrap; SM80_Warp;
                d i32 4 SM80_16x8_Row; a u8 2 SM80_16x16_8b; b i8 1 SM80_8x16_Row; c i32 4 SM80_16x8_Row
            }
            sync {
                SM80_16x8x16_S32U8S8S32_TN_SATURATE; mma_m16n8k16_s32_u8_s8_s32_satfinite;
                "m16n8k16.row.col.satfinite.s32.u8.s8.s32"; moye("MMAOP_16x8x16_S32U8S8S32_TN_SATURATE"); arch 80;
                needs 80 7.0; [16, 8, 16]; Saturate; SM80_Warp;
                d i32 4 SM80_16x8_Row; a u8 2 SM80_16x16_8b; b i8 1 SM80_8x16_Row; c i32 4 SM80_16x8_Row
            }
            sync {
                SM80_16x8x32_S32U8S8S32_TN; mma_m16n8k32_s32_u8_s8_s32;
                "m16n8k32.row.col.s32.u8.s8.s32"; moye("MMAOP_16x8x32_S32U8S8S32_TN"); arch 80;
                needs 80 7.0; [16, 8, 32]; Wrap; SM80_Warp;
                d i32 4 SM80_16x8_Row; a u8 4 SM80_16x32_8b; b i8 2 SM80_8x32_8b; c i32 4 SM80_16x8_Row
            }
            sync {
                SM80_16x8x32_S32U8S8S32_TN_SATURATE; mma_m16n8k32_s32_u8_s8_s32_satfinite;
                "m16n8k32.row.col.satfinite.s32.u8.s8.s32"; moye("MMAOP_16x8x32_S32U8S8S32_TN_SATURATE"); arch 80;
                needs 80 7.0; [16, 8, 32]; Saturate; SM80_Warp;
                d i32 4 SM80_16x8_Row; a u8 4 SM80_16x32_8b; b i8 2 SM80_8x32_8b; c i32 4 SM80_16x8_Row
            }
            sync {
                SM80_8x8x16_S32U8U8S32_TN; mma_m8n8k16_s32_u8_u8_s32;
                "m8n8k16.row.col.s32.u8.u8.s32"; moye("MMAOP_8x8x16_S32U8U8S32_TN"); arch 80;
                needs 75 6.5; [8, 8, 16]; Wrap; SM80_Warp;
                d i32 2 SM80_8x8_Row; a u8 1 SM80_8x16_Row; b u8 1 SM80_8x16_Row; c i32 2 SM80_8x8_Row
            }
            sync {
                SM80_8x8x16_S32U8U8S32_TN_SATURATE; mma_m8n8k16_s32_u8_u8_s32_satfinite;
                "m8n8k16.row.col.satfinite.s32.u8.u8.s32"; moye("MMAOP_8x8x16_S32U8U8S32_TN_SATURATE"); arch 80;
                needs 75 6.5; [8, 8, 16]; Saturate; SM80_Warp;
                d i32 2 SM80_8x8_Row; a u8 1 SM80_8x16_Row; b u8 1 SM80_8x16_Row; c i32 2 SM80_8x8_Row
            }
            sync {
                SM80_16x8x16_S32U8U8S32_TN; mma_m16n8k16_s32_u8_u8_s32;
                "m16n8k16.row.col.s32.u8.u8.s32"; moye("MMAOP_16x8x16_S32U8U8S32_TN"); arch 80;
                needs 80 7.0; [16, 8, 16]; Wrap; SM80_Warp;
                d i32 4 SM80_16x8_Row; a u8 2 SM80_16x16_8b; b u8 1 SM80_8x16_Row; c i32 4 SM80_16x8_Row
            }
            sync {
                SM80_16x8x16_S32U8U8S32_TN_SATURATE; mma_m16n8k16_s32_u8_u8_s32_satfinite;
                "m16n8k16.row.col.satfinite.s32.u8.u8.s32"; moye("MMAOP_16x8x16_S32U8U8S32_TN_SATURATE"); arch 80;
                needs 80 7.0; [16, 8, 16]; Saturate; SM80_Warp;
                d i32 4 SM80_16x8_Row; a u8 2 SM80_16x16_8b; b u8 1 SM80_8x16_Row; c i32 4 SM80_16x8_Row
            }
            sync {
                SM80_16x8x32_S32U8U8S32_TN; mma_m16n8k32_s32_u8_u8_s32;
                "m16n8k32.row.col.s32.u8.u8.s32"; moye("MMAOP_16x8x32_S32U8U8S32_TN"); arch 80;
                needs 80 7.0; [16, 8, 32]; Wrap; SM80_Warp;
                d i32 4 SM80_16x8_Row; a u8 4 SM80_16x32_8b; b u8 2 SM80_8x32_8b; c i32 4 SM80_16x8_Row
            }
            sync {
                SM80_16x8x32_S32U8U8S32_TN_SATURATE; mma_m16n8k32_s32_u8_u8_s32_satfinite;
                "m16n8k32.row.col.satfinite.s32.u8.u8.s32"; moye("MMAOP_16x8x32_S32U8U8S32_TN_SATURATE"); arch 80;
                needs 80 7.0; [16, 8, 32]; Saturate; SM80_Warp;
                d i32 4 SM80_16x8_Row; a u8 4 SM80_16x32_8b; b u8 2 SM80_8x32_8b; c i32 4 SM80_16x8_Row
            }
            sync {
                SM80_8x8x32_S32S4S4S32_TN; mma_m8n8k32_s32_s4_s4_s32;
                "m8n8k32.row.col.s32.s4.s4.s32"; moye(); arch 80;
                needs 75 6.5; [8, 8, 32]; Wrap; SM80_Warp;
                d i32 2 SM80_8x8_Row; a S4 1 SM80_8x32_4b; b S4 1 SM80_8x32_4b; c i32 2 SM80_8x8_Row
            }
            sync {
                SM80_8x8x32_S32S4S4S32_TN_SATURATE; mma_m8n8k32_s32_s4_s4_s32_satfinite;
                "m8n8k32.row.col.satfinite.s32.s4.s4.s32"; moye(); arch 80;
                needs 75 6.5; [8, 8, 32]; Saturate; SM80_Warp;
                d i32 2 SM80_8x8_Row; a S4 1 SM80_8x32_4b; b S4 1 SM80_8x32_4b; c i32 2 SM80_8x8_Row
            }
            sync {
                SM80_16x8x32_S32S4S4S32_TN; mma_m16n8k32_s32_s4_s4_s32;
                "m16n8k32.row.col.s32.s4.s4.s32"; moye(); arch 80;
                needs 80 7.0; [16, 8, 32]; Wrap; SM80_Warp;
                d i32 4 SM80_16x8_Row; a S4 2 SM80_16x32_4b; b S4 1 SM80_8x32_4b; c i32 4 SM80_16x8_Row
            }
            sync {
                SM80_16x8x32_S32S4S4S32_TN_SATURATE; mma_m16n8k32_s32_s4_s4_s32_satfinite;
                "m16n8k32.row.col.satfinite.s32.s4.s4.s32"; moye(); arch 80;
                needs 80 7.0; [16, 8, 32]; Saturate; SM80_Warp;
                d i32 4 SM80_16x8_Row; a S4 2 SM80_16x32_4b; b S4 1 SM80_8x32_4b; c i32 4 SM80_16x8_Row
            }
            sync {
                SM80_16x8x64_S32S4S4S32_TN; mma_m16n8k64_s32_s4_s4_s32;
                "m16n8k64.row.col.s32.s4.s4.s32"; moye(); arch 80;
                needs 80 7.0; [16, 8, 64]; Wrap; SM80_Warp;
                d i32 4 SM80_16x8_Row; a S4 4 SM80_16x64_4b; b S4 2 SM80_8x64_4b; c i32 4 SM80_16x8_Row
            }
            sync {
                SM80_16x8x64_S32S4S4S32_TN_SATURATE; mma_m16n8k64_s32_s4_s4_s32_satfinite;
                "m16n8k64.row.col.satfinite.s32.s4.s4.s32"; moye(); arch 80;
                needs 80 7.0; [16, 8, 64]; Saturate; SM80_Warp;
                d i32 4 SM80_16x8_Row; a S4 4 SM80_16x64_4b; b S4 2 SM80_8x64_4b; c i32 4 SM80_16x8_Row
            }
            sync {
                SM80_8x8x32_S32S4U4S32_TN; mma_m8n8k32_s32_s4_u4_s32;
                "m8n8k32.row.col.s32.s4.u4.s32"; moye(); arch 80;
                needs 75 6.5; [8, 8, 32]; Wrap; SM80_Warp;
                d i32 2 SM80_8x8_Row; a S4 1 SM80_8x32_4b; b U4 1 SM80_8x32_4b; c i32 2 SM80_8x8_Row
            }
            sync {
                SM80_8x8x32_S32S4U4S32_TN_SATURATE; mma_m8n8k32_s32_s4_u4_s32_satfinite;
                "m8n8k32.row.col.satfinite.s32.s4.u4.s32"; moye(); arch 80;
                needs 75 6.5; [8, 8, 32]; Saturate; SM80_Warp;
                d i32 2 SM80_8x8_Row; a S4 1 SM80_8x32_4b; b U4 1 SM80_8x32_4b; c i32 2 SM80_8x8_Row
            }
            sync {
                SM80_16x8x32_S32S4U4S32_TN; mma_m16n8k32_s32_s4_u4_s32;
                "m16n8k32.row.col.s32.s4.u4.s32"; moye(); arch 80;
                needs 80 7.0; [16, 8, 32]; Wrap; SM80_Warp;
                d i32 4 SM80_16x8_Row; a S4 2 SM80_16x32_4b; b U4 1 SM80_8x32_4b; c i32 4 SM80_16x8_Row
            }
            sync {
                SM80_16x8x32_S32S4U4S32_TN_SATURATE; mma_m16n8k32_s32_s4_u4_s32_satfinite;
                "m16n8k32.row.col.satfinite.s32.s4.u4.s32"; moye(); arch 80;
                needs 80 7.0; [16, 8, 32]; Saturate; SM80_Warp;
                d i32 4 SM80_16x8_Row; a S4 2 SM80_16x32_4b; b U4 1 SM80_8x32_4b; c i32 4 SM80_16x8_Row
            }
            sync {
                SM80_16x8x64_S32S4U4S32_TN; mma_m16n8k64_s32_s4_u4_s32;
                "m16n8k64.row.col.s32.s4.u4.s32"; moye(); arch 80;
                needs 80 7.0; [16, 8, 64]; Wrap; SM80_Warp;
                d i32 4 SM80_16x8_Row; a S4 4 SM80_16x64_4b; b U4 2 SM80_8x64_4b; c i32 4 SM80_16x8_Row
            }
            sync {
                SM80_16x8x64_S32S4U4S32_TN_SATURATE; mma_m16n8k64_s32_s4_u4_s32_satfinite;
                "m16n8k64.row.col.satfinite.s32.s4.u4.s32"; moye(); arch 80;
                needs 80 7.0; [16, 8, 64]; Saturate; SM80_Warp;
                d i32 4 SM80_16x8_Row; a S4 4 SM80_16x64_4b; b U4 2 SM80_8x64_4b; c i32 4 SM80_16x8_Row
            }
            sync {
                SM80_8x8x32_S32U4S4S32_TN; mma_m8n8k32_s32_u4_s4_s32;
                "m8n8k32.row.col.s32.u4.s4.s32"; moye(); arch 80;
                needs 75 6.5; [8, 8, 32]; Wrap; SM80_Warp;
                d i32 2 SM80_8x8_Row; a U4 1 SM80_8x32_4b; b S4 1 SM80_8x32_4b; c i32 2 SM80_8x8_Row
            }
            sync {
                SM80_8x8x32_S32U4S4S32_TN_SATURATE; mma_m8n8k32_s32_u4_s4_s32_satfinite;
                "m8n8k32.row.col.satfinite.s32.u4.s4.s32"; moye(); arch 80;
                needs 75 6.5; [8, 8, 32]; Saturate; SM80_Warp;
                d i32 2 SM80_8x8_Row; a U4 1 SM80_8x32_4b; b S4 1 SM80_8x32_4b; c i32 2 SM80_8x8_Row
            }
            sync {
                SM80_16x8x32_S32U4S4S32_TN; mma_m16n8k32_s32_u4_s4_s32;
                "m16n8k32.row.col.s32.u4.s4.s32"; moye(); arch 80;
                needs 80 7.0; [16, 8, 32]; Wrap; SM80_Warp;
                d i32 4 SM80_16x8_Row; a U4 2 SM80_16x32_4b; b S4 1 SM80_8x32_4b; c i32 4 SM80_16x8_Row
            }
            sync {
                SM80_16x8x32_S32U4S4S32_TN_SATURATE; mma_m16n8k32_s32_u4_s4_s32_satfinite;
                "m16n8k32.row.col.satfinite.s32.u4.s4.s32"; moye(); arch 80;
                needs 80 7.0; [16, 8, 32]; Saturate; SM80_Warp;
                d i32 4 SM80_16x8_Row; a U4 2 SM80_16x32_4b; b S4 1 SM80_8x32_4b; c i32 4 SM80_16x8_Row
            }
            sync {
                SM80_16x8x64_S32U4S4S32_TN; mma_m16n8k64_s32_u4_s4_s32;
                "m16n8k64.row.col.s32.u4.s4.s32"; moye(); arch 80;
                needs 80 7.0; [16, 8, 64]; Wrap; SM80_Warp;
                d i32 4 SM80_16x8_Row; a U4 4 SM80_16x64_4b; b S4 2 SM80_8x64_4b; c i32 4 SM80_16x8_Row
            }
            sync {
                SM80_16x8x64_S32U4S4S32_TN_SATURATE; mma_m16n8k64_s32_u4_s4_s32_satfinite;
                "m16n8k64.row.col.satfinite.s32.u4.s4.s32"; moye(); arch 80;
                needs 80 7.0; [16, 8, 64]; Saturate; SM80_Warp;
                d i32 4 SM80_16x8_Row; a U4 4 SM80_16x64_4b; b S4 2 SM80_8x64_4b; c i32 4 SM80_16x8_Row
            }
            sync {
                SM80_8x8x32_S32U4U4S32_TN; mma_m8n8k32_s32_u4_u4_s32;
                "m8n8k32.row.col.s32.u4.u4.s32"; moye(); arch 80;
                needs 75 6.5; [8, 8, 32]; Wrap; SM80_Warp;
                d i32 2 SM80_8x8_Row; a U4 1 SM80_8x32_4b; b U4 1 SM80_8x32_4b; c i32 2 SM80_8x8_Row
            }
            sync {
                SM80_8x8x32_S32U4U4S32_TN_SATURATE; mma_m8n8k32_s32_u4_u4_s32_satfinite;
                "m8n8k32.row.col.satfinite.s32.u4.u4.s32"; moye(); arch 80;
                needs 75 6.5; [8, 8, 32]; Saturate; SM80_Warp;
                d i32 2 SM80_8x8_Row; a U4 1 SM80_8x32_4b; b U4 1 SM80_8x32_4b; c i32 2 SM80_8x8_Row
            }
            sync {
                SM80_16x8x32_S32U4U4S32_TN; mma_m16n8k32_s32_u4_u4_s32;
                "m16n8k32.row.col.s32.u4.u4.s32"; moye(); arch 80;
                needs 80 7.0; [16, 8, 32]; Wrap; SM80_Warp;
                d i32 4 SM80_16x8_Row; a U4 2 SM80_16x32_4b; b U4 1 SM80_8x32_4b; c i32 4 SM80_16x8_Row
            }
            sync {
                SM80_16x8x32_S32U4U4S32_TN_SATURATE; mma_m16n8k32_s32_u4_u4_s32_satfinite;
                "m16n8k32.row.col.satfinite.s32.u4.u4.s32"; moye(); arch 80;
                needs 80 7.0; [16, 8, 32]; Saturate; SM80_Warp;
                d i32 4 SM80_16x8_Row; a U4 2 SM80_16x32_4b; b U4 1 SM80_8x32_4b; c i32 4 SM80_16x8_Row
            }
            sync {
                SM80_16x8x64_S32U4U4S32_TN; mma_m16n8k64_s32_u4_u4_s32;
                "m16n8k64.row.col.s32.u4.u4.s32"; moye(); arch 80;
                needs 80 7.0; [16, 8, 64]; Wrap; SM80_Warp;
                d i32 4 SM80_16x8_Row; a U4 4 SM80_16x64_4b; b U4 2 SM80_8x64_4b; c i32 4 SM80_16x8_Row
            }
            sync {
                SM80_16x8x64_S32U4U4S32_TN_SATURATE; mma_m16n8k64_s32_u4_u4_s32_satfinite;
                "m16n8k64.row.col.satfinite.s32.u4.u4.s32"; moye(); arch 80;
                needs 80 7.0; [16, 8, 64]; Saturate; SM80_Warp;
                d i32 4 SM80_16x8_Row; a U4 4 SM80_16x64_4b; b U4 2 SM80_8x64_4b; c i32 4 SM80_16x8_Row
            }
            sync {
                SM80_8x8x128_S32U1U1S32_TN_XORPOPC; mma_m8n8k128_s32_b1_b1_s32_xor_popc;
                "m8n8k128.row.col.s32.b1.b1.s32.xor.popc"; moye("MMAOP_8x8x128_S32B1B1S32_TN_XORPOPC"); arch 80;
                needs 75 7.0; [8, 8, 128]; XorPopc; SM80_Warp;
                d i32 2 SM80_8x8_Row; a B1 1 SM80_8x128_1b; b B1 1 SM80_8x128_1b; c i32 2 SM80_8x8_Row
            }
            sync {
                SM80_8x8x128_S32U1U1S32_TN_ANDPOPC; mma_m8n8k128_s32_b1_b1_s32_and_popc;
                "m8n8k128.row.col.s32.b1.b1.s32.and.popc"; moye("MMAOP_8x8x128_S32B1B1S32_TN_ANDPOPC"); arch 80;
                needs 80 7.1; [8, 8, 128]; AndPopc; SM80_Warp;
                d i32 2 SM80_8x8_Row; a B1 1 SM80_8x128_1b; b B1 1 SM80_8x128_1b; c i32 2 SM80_8x8_Row
            }
            sync {
                SM80_16x8x128_S32U1U1S32_TN_XORPOPC; mma_m16n8k128_s32_b1_b1_s32_xor_popc;
                "m16n8k128.row.col.s32.b1.b1.s32.xor.popc"; moye("MMAOP_16x8x128_S32B1B1S32_TN_XORPOPC"); arch 80;
                needs 80 7.0; [16, 8, 128]; XorPopc; SM80_Warp;
                d i32 4 SM80_16x8_Row; a B1 2 SM80_16x128_1b; b B1 1 SM80_8x128_1b; c i32 4 SM80_16x8_Row
            }
            sync {
                SM80_16x8x128_S32U1U1S32_TN_ANDPOPC; mma_m16n8k128_s32_b1_b1_s32_and_popc;
                "m16n8k128.row.col.s32.b1.b1.s32.and.popc"; moye("MMAOP_16x8x128_S32B1B1S32_TN_ANDPOPC"); arch 80;
                needs 80 7.1; [16, 8, 128]; AndPopc; SM80_Warp;
                d i32 4 SM80_16x8_Row; a B1 2 SM80_16x128_1b; b B1 1 SM80_8x128_1b; c i32 4 SM80_16x8_Row
            }
            sync {
                SM80_16x8x256_S32U1U1S32_TN_XORPOPC; mma_m16n8k256_s32_b1_b1_s32_xor_popc;
                "m16n8k256.row.col.s32.b1.b1.s32.xor.popc"; moye("MMAOP_16x8x256_S32B1B1S32_TN_XORPOPC"); arch 80;
                needs 80 7.0; [16, 8, 256]; XorPopc; SM80_Warp;
                d i32 4 SM80_16x8_Row; a B1 4 SM80_16x256_1b; b B1 2 SM80_8x256_1b; c i32 4 SM80_16x8_Row
            }
            sync {
                SM80_16x8x256_S32U1U1S32_TN_ANDPOPC; mma_m16n8k256_s32_b1_b1_s32_and_popc;
                "m16n8k256.row.col.s32.b1.b1.s32.and.popc"; moye("MMAOP_16x8x256_S32B1B1S32_TN_ANDPOPC"); arch 80;
                needs 80 7.1; [16, 8, 256]; AndPopc; SM80_Warp;
                d i32 4 SM80_16x8_Row; a B1 4 SM80_16x256_1b; b B1 2 SM80_8x256_1b; c i32 4 SM80_16x8_Row
            }
            sync {
                SM89_16x8x32_F32E4M3E4M3F32_TN; mma_m16n8k32_f32_e4m3_e4m3_f32;
                "m16n8k32.row.col.f32.e4m3.e4m3.f32"; moye(); arch 89;
                needs 89 8.4; [16, 8, 32]; Float; SM80_Warp;
                d f32 4 SM80_16x8_Row; a F8E4M3 4 SM80_16x32_8b; b F8E4M3 2 SM80_8x32_8b; c f32 4 SM80_16x8_Row
            }
            sync {
                SM89_16x8x32_F32E4M3E5M2F32_TN; mma_m16n8k32_f32_e4m3_e5m2_f32;
                "m16n8k32.row.col.f32.e4m3.e5m2.f32"; moye(); arch 89;
                needs 89 8.4; [16, 8, 32]; Float; SM80_Warp;
                d f32 4 SM80_16x8_Row; a F8E4M3 4 SM80_16x32_8b; b F8E5M2 2 SM80_8x32_8b; c f32 4 SM80_16x8_Row
            }
            sync {
                SM89_16x8x32_F32E5M2E4M3F32_TN; mma_m16n8k32_f32_e5m2_e4m3_f32;
                "m16n8k32.row.col.f32.e5m2.e4m3.f32"; moye(); arch 89;
                needs 89 8.4; [16, 8, 32]; Float; SM80_Warp;
                d f32 4 SM80_16x8_Row; a F8E5M2 4 SM80_16x32_8b; b F8E4M3 2 SM80_8x32_8b; c f32 4 SM80_16x8_Row
            }
            sync {
                SM89_16x8x32_F32E5M2E5M2F32_TN; mma_m16n8k32_f32_e5m2_e5m2_f32;
                "m16n8k32.row.col.f32.e5m2.e5m2.f32"; moye(); arch 89;
                needs 89 8.4; [16, 8, 32]; Float; SM80_Warp;
                d f32 4 SM80_16x8_Row; a F8E5M2 4 SM80_16x32_8b; b F8E5M2 2 SM80_8x32_8b; c f32 4 SM80_16x8_Row
            }
            sync {
                SM89_16x8x32_F16E4M3E4M3F16_TN; mma_m16n8k32_f16_e4m3_e4m3_f16;
                "m16n8k32.row.col.f16.e4m3.e4m3.f16"; moye(); arch 89;
                needs 89 8.7; [16, 8, 32]; Float; SM80_Warp;
                d f16 2 SM80_16x8_Row; a F8E4M3 4 SM80_16x32_8b; b F8E4M3 2 SM80_8x32_8b; c f16 2 SM80_16x8_Row
            }
            sync {
                SM89_16x8x32_F16E4M3E5M2F16_TN; mma_m16n8k32_f16_e4m3_e5m2_f16;
                "m16n8k32.row.col.f16.e4m3.e5m2.f16"; moye(); arch 89;
                needs 89 8.7; [16, 8, 32]; Float; SM80_Warp;
                d f16 2 SM80_16x8_Row; a F8E4M3 4 SM80_16x32_8b; b F8E5M2 2 SM80_8x32_8b; c f16 2 SM80_16x8_Row
            }
            sync {
                SM89_16x8x32_F16E5M2E4M3F16_TN; mma_m16n8k32_f16_e5m2_e4m3_f16;
                "m16n8k32.row.col.f16.e5m2.e4m3.f16"; moye(); arch 89;
                needs 89 8.7; [16, 8, 32]; Float; SM80_Warp;
                d f16 2 SM80_16x8_Row; a F8E5M2 4 SM80_16x32_8b; b F8E4M3 2 SM80_8x32_8b; c f16 2 SM80_16x8_Row
            }
            sync {
                SM89_16x8x32_F16E5M2E5M2F16_TN; mma_m16n8k32_f16_e5m2_e5m2_f16;
                "m16n8k32.row.col.f16.e5m2.e5m2.f16"; moye(); arch 89;
                needs 89 8.7; [16, 8, 32]; Float; SM80_Warp;
                d f16 2 SM80_16x8_Row; a F8E5M2 4 SM80_16x32_8b; b F8E5M2 2 SM80_8x32_8b; c f16 2 SM80_16x8_Row
            }
            same { SM75_16x8x8_F32F16F16F32_TN; SM80_16x8x8_F32F16F16F32_TN; arch 75 }
            same { SM75_16x8x8_F16F16F16F16_TN; SM80_16x8x8_F16F16F16F16_TN; arch 75 }
            same { SM75_8x8x16_S32S8S8S32_TN; SM80_8x8x16_S32S8S8S32_TN; arch 75 }
            own { SM61_DP4A }
            own { SM61_DP2A }
            own { SM80_8x8x4_C64C64C64C64_TN }
            own { SM80_8x8x4_GC64C64C64GC64_TN }
        }
    };
}
