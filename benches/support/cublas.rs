//! NVIDIA's own products, opened at run time.

use libloading::{Library, Symbol};
use std::ffi::{c_int, c_void};

/// As much of cuBLAS as the products take.
pub struct Cublas {
    library: Library,
    handle: *mut c_void,
}

impl Cublas {
    /// cuBLAS, where there is one: the library that `MOYE_CUBLAS` names, or `libcublas.so.13` or `.12`.
    pub fn open() -> Option<Self> {
        let named = std::env::var("MOYE_CUBLAS").ok();
        let names = named.as_deref().into_iter().chain(["libcublas.so.13", "libcublas.so.12"]);
        // SAFETY: a library with ordinary initialisers.
        let library = names.into_iter().find_map(|name| unsafe { Library::new(name) }.ok())?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the function's type is that of cuBLAS's header.
        let code = unsafe {
            let create: Symbol<unsafe extern "C" fn(*mut *mut c_void) -> c_int> =
                library.get(b"cublasCreate_v2\0").ok()?;
            create(&raw mut handle)
        };
        (code == 0).then_some(Self { library, handle })
    }

    /// `c = a * b`, all column-major or transposed. Without tensor cores: cuBLAS's default for f32 is exact fp32.
    pub fn sgemm(&self, (ta, tb): (bool, bool), (m, n, k): (usize, usize, usize), [a, b, c]: [u64; 3]) {
        type Sgemm = unsafe extern "C" fn(
            *mut c_void,
            c_int,
            c_int,
            c_int,
            c_int,
            c_int,
            *const f32,
            u64,
            c_int,
            u64,
            c_int,
            *const f32,
            u64,
            c_int,
        ) -> c_int;
        let (lda, ldb) = (if ta { k } else { m }, if tb { n } else { k });
        // SAFETY: the type is that of the header; the matrices have these extents and leading dimensions.
        let code = unsafe {
            let sgemm: Symbol<Sgemm> = self.library.get(b"cublasSgemm_v2\0").expect("every cuBLAS has it");
            let (one, zero) = (1.0, 0.0);
            sgemm(
                self.handle,
                c_int::from(ta),
                c_int::from(tb),
                m as c_int,
                n as c_int,
                k as c_int,
                &raw const one,
                a,
                lda as c_int,
                b,
                ldb as c_int,
                &raw const zero,
                c,
                m as c_int,
            )
        };
        assert_eq!(code, 0, "cublasSgemm failed");
    }

    /// [`sgemm`](Self::sgemm) on tensor cores: operands of f32 taken as tf32.
    #[allow(dead_code, reason = "not every benchmark has a kernel in tf32")]
    pub fn tf32(&self, (ta, tb): (bool, bool), (m, n, k): (usize, usize, usize), [a, b, c]: [u64; 3]) {
        const F32: c_int = 0; // CUDA_R_32F
        const COMPUTE_32F_FAST_TF32: c_int = 77; // CUBLAS_COMPUTE_32F_FAST_TF32
        let (lda, ldb) = (if ta { k } else { m }, if tb { n } else { k });
        self.gemm_ex((ta, tb), (m, n, k), F32, COMPUTE_32F_FAST_TF32, [(a, lda), (b, ldb), (c, m)]);
    }

    /// `c = a * b^T` of f16 with sums in f32: `a` is `(m, k)` and `b` `(n, k)`, K contiguous, and `c` is `(m, n)`, N
    /// contiguous. To cuBLAS, which counts columns first, that is `c^T = b * a^T`.
    #[allow(dead_code, reason = "not every benchmark has a kernel in f16")]
    pub fn half(&self, (m, n, k): (usize, usize, usize), [a, b, c]: [u64; 3]) {
        const F16: c_int = 2; // CUDA_R_16F
        const COMPUTE_32F: c_int = 68; // CUBLAS_COMPUTE_32F
        self.gemm_ex((true, false), (n, m, k), F16, COMPUTE_32F, [(b, k), (a, k), (c, n)]);
    }

    /// `c = a * b`, all column-major or transposed, with their leading dimensions, all of one type.
    fn gemm_ex(
        &self,
        (ta, tb): (bool, bool),
        (m, n, k): (usize, usize, usize),
        element: c_int,
        compute: c_int,
        [(a, lda), (b, ldb), (c, ldc)]: [(u64, usize); 3],
    ) {
        type GemmEx = unsafe extern "C" fn(
            *mut c_void,
            c_int,
            c_int,
            c_int,
            c_int,
            c_int,
            *const f32,
            u64,
            c_int,
            c_int,
            u64,
            c_int,
            c_int,
            *const f32,
            u64,
            c_int,
            c_int,
            c_int,
            c_int,
        ) -> c_int;
        let (one, zero) = (1.0, 0.0);
        // SAFETY: the type is that of the header; the matrices have these extents and leading dimensions.
        let code = unsafe {
            let gemm: Symbol<GemmEx> = self.library.get(b"cublasGemmEx\0").expect("every cuBLAS has it");
            gemm(
                self.handle,
                c_int::from(ta),
                c_int::from(tb),
                m as c_int,
                n as c_int,
                k as c_int,
                &raw const one,
                a,
                element,
                lda as c_int,
                b,
                element,
                ldb as c_int,
                &raw const zero,
                c,
                element,
                ldc as c_int,
                compute,
                -1,
            )
        };
        assert_eq!(code, 0, "cublasGemmEx failed");
    }
}
