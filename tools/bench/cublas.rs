//! cuBLAS and cuBLASLt, loaded at run time through `cudarc`: the peers of products.
//!
//! The loader finds the libraries by name, in `LD_LIBRARY_PATH` or the system's folders, or by
//! `MOYE_CUBLAS`, which names the library `libcublas.so.13` (or `.12`) or its folder.

use crate::Kind;
use anyhow::{Result, anyhow, bail};
use cudarc::{cublas, cublaslt};
use half::f16;
use libloading::Library;
use moye::kernels::mma::Activation;
use moye::{Buffer, Device};
use std::ffi::{OsString, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr;

/// A product `c = a * b` of column-major matrices, optionally transposed.
#[derive(Clone, Copy, Debug)]
pub struct Gemm {
    /// The element types.
    pub kind: Kind,
    /// Whether A and B are transposed.
    pub transposed: (bool, bool),
    /// The rows of C.
    pub m: usize,
    /// The columns of C.
    pub n: usize,
    /// The columns of A.
    pub k: usize,
    /// Device addresses of A, B and C, dense matrices.
    pub addresses: [u64; 3],
    /// The activation.
    pub activation: Activation,
    /// The address of a bias of C's type, with one element for each row, if there is one.
    pub bias: Option<u64>,
}

impl Gemm {
    /// Rows and columns of A and B in memory, and of C.
    fn shapes(&self) -> [(usize, usize); 3] {
        let &Self { transposed: (ta, tb), m, n, k, .. } = self;
        [if ta { (k, m) } else { (m, k) }, if tb { (n, k) } else { (k, n) }, (m, n)]
    }
}

/// The factors 1 and 0 in the type that a product requires.
fn factors(kind: Kind) -> (*const c_void, *const c_void) {
    static SINGLE: [f32; 2] = [1.0, 0.0];
    static DOUBLE: [f64; 2] = [1.0, 0.0];
    static HALF: [f16; 2] = [f16::ONE, f16::ZERO];
    static WHOLE: [i32; 2] = [1, 0];
    fn both<T>([one, zero]: &'static [T; 2]) -> (*const c_void, *const c_void) {
        (ptr::from_ref(one).cast(), ptr::from_ref(zero).cast())
    }
    match kind {
        Kind::F32 | Kind::Tf32 | Kind::F16 | Kind::Bf16 | Kind::E4m3 => both(&SINGLE),
        Kind::F16Accumulators => both(&HALF),
        Kind::F64 => both(&DOUBLE),
        Kind::I8 => both(&WHOLE),
    }
}

/// The types of operands, of C and of the factors, and the compute type: each library's bindings
/// have separate enums.
macro_rules! types {
    ($kind:expr, $of:ty, $by:ty) => {{
        type By = $by;
        type Of = $of;
        match $kind {
            Kind::F32 => (Of::CUDA_R_32F, Of::CUDA_R_32F, Of::CUDA_R_32F, By::CUBLAS_COMPUTE_32F),
            Kind::Tf32 => (Of::CUDA_R_32F, Of::CUDA_R_32F, Of::CUDA_R_32F, By::CUBLAS_COMPUTE_32F_FAST_TF32),
            Kind::F16 => (Of::CUDA_R_16F, Of::CUDA_R_16F, Of::CUDA_R_32F, By::CUBLAS_COMPUTE_32F),
            Kind::F16Accumulators => (Of::CUDA_R_16F, Of::CUDA_R_16F, Of::CUDA_R_16F, By::CUBLAS_COMPUTE_16F),
            Kind::Bf16 => (Of::CUDA_R_16BF, Of::CUDA_R_16BF, Of::CUDA_R_32F, By::CUBLAS_COMPUTE_32F),
            Kind::F64 => (Of::CUDA_R_64F, Of::CUDA_R_64F, Of::CUDA_R_64F, By::CUBLAS_COMPUTE_64F),
            Kind::I8 => (Of::CUDA_R_8I, Of::CUDA_R_32I, Of::CUDA_R_32I, By::CUBLAS_COMPUTE_32I),
            Kind::E4m3 => (Of::CUDA_R_8F_E4M3, Of::CUDA_R_16BF, Of::CUDA_R_32F, By::CUBLAS_COMPUTE_32F),
        }
    }};
}

/// The environment variable that names cuBLAS.
const VARIABLE: &str = "MOYE_CUBLAS";

/// Opens the library of this name (`cublas`, `cublasLt`), so that `cudarc` finds it too: the loader
/// resolves later requests for the name to the open library. It stays open.
fn open(name: &str, named: Option<OsString>) -> Result<()> {
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        let path = beside(Path::new(&named), name);
        // SAFETY: a library with ordinary initialisers.
        match unsafe { Library::new(&path) } {
            Ok(library) => std::mem::forget(library),
            Err(error) => {
                let source =
                    std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
                bail!("{VARIABLE}: {source}; name libcublas.so.13 (or .12), or its folder")
            }
        }
    }
    // `cudarc` aborts if the library is missing, so check first. SAFETY: it has
    // ordinary initialisers.
    let there = unsafe {
        match name {
            "cublas" => cublas::sys::is_culib_present(),
            _ => cublaslt::sys::is_culib_present(),
        }
    };
    if !there {
        bail!(
            "there is no lib{name}.so.13 or .12; install CUDA's libraries (`pip install nvidia-cublas` does) and name their \
             folder in {VARIABLE} or LD_LIBRARY_PATH"
        );
    }
    Ok(())
}

/// The library of this name, if `named` is cuBLAS or its folder.
fn beside(named: &Path, name: &str) -> PathBuf {
    if !named.is_dir() {
        let file = named
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .replace("libcublas.", &format!("lib{name}."));
        return named.with_file_name(file);
    }
    let versions = [".13", ".12", ""].map(|version| named.join(format!("lib{name}.so{version}")));
    versions.iter().find(|path| path.exists()).unwrap_or(&versions[0]).clone()
}

/// A peer.
pub enum Peer {
    /// cuBLAS.
    Cublas(Cublas),
    /// cuBLASLt.
    CublasLt(CublasLt),
}

impl Peer {
    /// The library's name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Cublas(_) => "cuBLAS",
            Self::CublasLt(lt) => lt.choice.name(),
        }
    }

    /// A function that launches this product on the device's default stream.
    ///
    /// # Safety
    /// The addresses are of dense matrices with these extents, and C is writable, for every call of
    /// the function.
    pub unsafe fn prepare<'a>(&'a self, gemm: &Gemm) -> Result<Box<dyn FnMut() -> Result<()> + 'a>> {
        let gemm = *gemm;
        Ok(match self {
            // SAFETY: the matrices have these extents, and C's is writable, at every call.
            Self::Cublas(cublas) => Box::new(move || unsafe { cublas.run(&gemm) }),
            Self::CublasLt(lt) => {
                let prepared = Prepared::new(lt, &gemm)?;
                // SAFETY: the matrices have these extents, and C's is writable, at every call.
                Box::new(move || unsafe { prepared.run(&gemm) })
            }
        })
    }
}

/// cuBLAS with a handle that launches on the device's default stream.
pub struct Cublas {
    handle: cublas::sys::cublasHandle_t,
}

impl Cublas {
    /// # Errors
    /// The library is missing or fails; the message includes the way out.
    pub fn open(device: &Device) -> Result<Self> {
        open("cublas", std::env::var_os(VARIABLE))?;
        let stream = device.default_stream().raw_handle()?;
        let handle =
            cublas::result::create_handle().map_err(|error| anyhow!("cublasCreate failed with {error}"))?;
        let this = Self { handle };
        // SAFETY: the handle is new; a device's default stream lives until the process exits.
        unsafe { cublas::result::set_stream(handle, stream.cast()) }
            .map_err(|error| anyhow!("cublasSetStream failed with {error}"))?;
        Ok(this)
    }

    /// # Safety
    /// Same contract as [`Peer::prepare`].
    pub unsafe fn run(&self, gemm: &Gemm) -> Result<()> {
        use cublas::sys::{cublasGemmAlgo_t, cublasOperation_t::*};
        if gemm.bias.is_some() || gemm.activation != Activation::None {
            bail!("cublasGemmEx has no bias and no activation; use cuBLASLt");
        }
        let (of, of_c, _, by) =
            types!(gemm.kind, cublas::sys::cudaDataType_t, cublas::sys::cublasComputeType_t);
        let operation = |transposed| if transposed { CUBLAS_OP_T } else { CUBLAS_OP_N };
        let int = |extent: usize| {
            c_int::try_from(extent).map_err(|_| anyhow!("cuBLAS takes no extent of {extent}"))
        };
        let [lda, ldb, ldc] = gemm.shapes().map(|(rows, _)| int(rows));
        let [a, b, c] = gemm.addresses;
        let (one, zero) = factors(gemm.kind);
        // SAFETY: the caller guarantees the matrices; the factors have the type that this compute
        // type requires.
        unsafe {
            cublas::result::gemm_ex(
                self.handle,
                operation(gemm.transposed.0),
                operation(gemm.transposed.1),
                int(gemm.m)?,
                int(gemm.n)?,
                int(gemm.k)?,
                one,
                a as *const c_void,
                of,
                lda?,
                b as *const c_void,
                of,
                ldb?,
                zero,
                c as *mut c_void,
                of_c,
                ldc?,
                by,
                cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )
        }
        .map_err(|error| anyhow!("cublasGemmEx failed with {error}"))
    }
}

impl Drop for Cublas {
    fn drop(&mut self) {
        // SAFETY: created in `open`, destroyed once. An error here has no consequence.
        let _ = unsafe { cublas::result::destroy_handle(self.handle) };
    }
}

/// The workspace of cuBLASLt in bytes: NVIDIA's recommendation for Hopper (cuBLAS documentation,
/// `cublasSetWorkspace`).
const WORKSPACE_BYTES: usize = 32 << 20;

/// The choice of cuBLASLt's algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The first choice of its heuristic, with a workspace.
    Heuristic,
    /// `cublasLtMatmul` receives neither an algorithm nor a workspace, and chooses in each call, as
    /// PyTorch calls it for int8 (`torch._int_mm`).
    Default,
}

impl Choice {
    const fn name(self) -> &'static str {
        match self {
            Self::Heuristic => "cuBLASLt",
            Self::Default => "cuBLASLt by default",
        }
    }
}

/// cuBLASLt with a handle, on the device's default stream.
pub struct CublasLt {
    choice: Choice,
    handle: cublaslt::sys::cublasLtHandle_t,
    stream: *mut c_void,
    workspace: Buffer<u8>,
    /// The value 1, as the scale of 8-bit operands.
    scale: Buffer<f32>,
}

impl CublasLt {
    /// # Errors
    /// Same as [`Cublas::open`].
    pub fn open(device: &Device, choice: Choice) -> Result<Self> {
        open("cublasLt", std::env::var_os(VARIABLE))?;
        let workspace = device.alloc_uninit(WORKSPACE_BYTES)?;
        let scale = device.upload(&[1.0f32])?;
        let stream = device.default_stream().raw_handle()?;
        let handle = cublaslt::result::create_handle()
            .map_err(|error| anyhow!("cublasLtCreate failed with {error}"))?;
        Ok(Self { choice, handle, stream, workspace, scale })
    }
}

impl Drop for CublasLt {
    fn drop(&mut self) {
        // SAFETY: created in `open`, destroyed once.
        let _ = unsafe { cublaslt::result::destroy_handle(self.handle) };
    }
}

/// cuBLASLt's constant for an epilogue; `None` without an epilogue.
///
/// # Errors
/// cuBLASLt lacks such a function.
fn epilogue(gemm: &Gemm) -> Result<Option<cublaslt::sys::cublasLtEpilogue_t>> {
    use cublaslt::sys::cublasLtEpilogue_t::*;
    Ok(match (gemm.activation, gemm.bias.is_some()) {
        (Activation::None, false) => None,
        (Activation::None, true) => Some(CUBLASLT_EPILOGUE_BIAS),
        (Activation::Relu, false) => Some(CUBLASLT_EPILOGUE_RELU),
        (Activation::Relu, true) => Some(CUBLASLT_EPILOGUE_RELU_BIAS),
        // The tanh approximation.
        (Activation::GeluTanh, false) => Some(CUBLASLT_EPILOGUE_GELU),
        (Activation::GeluTanh, true) => Some(CUBLASLT_EPILOGUE_GELU_BIAS),
        (Activation::Gelu, _) => bail!("it has no GELU but that by a hyperbolic tangent, gelu_tanh"),
        (Activation::Silu, _) => bail!("it has no SiLU"),
    })
}

/// A product with its cuBLASLt descriptors and, unless it chooses in each call, its algorithm. The
/// few descriptors are leaked.
struct Prepared<'a> {
    lt: &'a CublasLt,
    desc: cublaslt::sys::cublasLtMatmulDesc_t,
    layouts: [cublaslt::sys::cublasLtMatrixLayout_t; 3],
    chosen: Option<cublaslt::sys::cublasLtMatmulHeuristicResult_t>,
}

impl<'a> Prepared<'a> {
    fn new(lt: &'a CublasLt, gemm: &Gemm) -> Result<Self> {
        use cublaslt::result::{
            create_matmul_desc, create_matmul_pref, create_matrix_layout, get_matmul_algo_heuristic,
            set_matmul_desc_attribute, set_matmul_pref_attribute,
        };
        use cublaslt::sys::cublasLtMatmulDescAttributes_t::{
            CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER,
            CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
            CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_MATMUL_DESC_FAST_ACCUM, CUBLASLT_MATMUL_DESC_TRANSA,
            CUBLASLT_MATMUL_DESC_TRANSB,
        };
        use cublaslt::sys::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
        let (of, of_c, scale, by) =
            types!(gemm.kind, cublaslt::sys::cudaDataType_t, cublaslt::sys::cublasComputeType_t);
        let refused = |error| anyhow!("cuBLASLt has nothing for this product: {error}");
        let layout = |of, (rows, cols): (usize, usize)| {
            create_matrix_layout(of, rows as u64, cols as u64, rows as i64)
        };
        let [a, b, c] = gemm.shapes();
        let desc = create_matmul_desc(by, scale).map_err(refused)?;
        let layouts = [
            layout(of, a).map_err(refused)?,
            layout(of, b).map_err(refused)?,
            layout(of_c, c).map_err(refused)?,
        ];
        let transposed = [gemm.transposed.0, gemm.transposed.1].map(i32::from);
        // SAFETY: the descriptor is new; each attribute is passed with its size.
        let chosen = unsafe {
            for (attribute, value) in
                [CUBLASLT_MATMUL_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSB].into_iter().zip(&transposed)
            {
                set_matmul_desc_attribute(desc, attribute, ptr::from_ref(value).cast(), size_of::<i32>())
                    .map_err(refused)?;
            }
            if gemm.kind == Kind::E4m3 {
                let scale = lt.scale.address();
                for attribute in [CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER]
                {
                    set_matmul_desc_attribute(
                        desc,
                        attribute,
                        ptr::from_ref(&scale).cast(),
                        size_of::<u64>(),
                    )
                    .map_err(refused)?;
                }
                // The tensor cores' accumulators, without a second, wider accumulator.
                let fast = 1i8;
                let attribute = CUBLASLT_MATMUL_DESC_FAST_ACCUM;
                set_matmul_desc_attribute(desc, attribute, ptr::from_ref(&fast).cast(), size_of::<i8>())
                    .map_err(refused)?;
            }
            if let Some(epilogue) = epilogue(gemm)? {
                let attribute = CUBLASLT_MATMUL_DESC_EPILOGUE;
                let value = ptr::from_ref(&epilogue).cast();
                set_matmul_desc_attribute(desc, attribute, value, size_of_val(&epilogue)).map_err(refused)?;
            }
            if let Some(bias) = gemm.bias {
                let (value, of) = (ptr::from_ref(&bias).cast(), ptr::from_ref(&of_c).cast());
                set_matmul_desc_attribute(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, value, size_of::<u64>())
                    .map_err(refused)?;
                set_matmul_desc_attribute(desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, of, size_of_val(&of_c))
                    .map_err(refused)?;
            }
            if lt.choice == Choice::Default {
                None
            } else {
                let preference = create_matmul_pref().map_err(refused)?;
                let bytes = ptr::from_ref(&WORKSPACE_BYTES).cast();
                let attribute = CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
                set_matmul_pref_attribute(preference, attribute, bytes, size_of::<usize>())
                    .map_err(refused)?;
                let [a, b, c] = layouts;
                Some(get_matmul_algo_heuristic(lt.handle, desc, a, b, c, c, preference).map_err(refused)?)
            }
        };
        Ok(Self { lt, desc, layouts, chosen })
    }

    /// # Safety
    /// Same contract as [`Peer::prepare`].
    unsafe fn run(&self, gemm: &Gemm) -> Result<()> {
        let [a, b, c] = gemm.addresses;
        let (one, zero) = factors(gemm.kind);
        let (algorithm, workspace, bytes) = match &self.chosen {
            Some(chosen) => (&raw const chosen.algo, self.lt.workspace.address(), WORKSPACE_BYTES),
            None => (ptr::null(), 0, 0),
        };
        // SAFETY: the caller guarantees the matrices; descriptors and algorithm belong to this
        // product, and the workspace is ours, or absent.
        unsafe {
            cublaslt::result::matmul(
                self.lt.handle,
                self.desc,
                one,
                zero,
                a as *const c_void,
                self.layouts[0],
                b as *const c_void,
                self.layouts[1],
                c as *const c_void,
                self.layouts[2],
                c as *mut c_void,
                self.layouts[2],
                algorithm,
                workspace as *mut c_void,
                bytes,
                self.lt.stream.cast(),
            )
        }
        .map_err(|error| anyhow!("cublasLtMatmul failed with {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_found_beside_the_one_that_is_named() {
        assert_eq!(beside(Path::new("/cuda/libcublas.so.13"), "cublas"), Path::new("/cuda/libcublas.so.13"));
        assert_eq!(
            beside(Path::new("/cuda/libcublas.so.13"), "cublasLt"),
            Path::new("/cuda/libcublasLt.so.13")
        );
        let folder = tempfile::TempDir::new().unwrap();
        std::fs::write(folder.path().join("libcublas.so.12"), "").unwrap();
        assert_eq!(beside(folder.path(), "cublas"), folder.path().join("libcublas.so.12"));
    }

    #[test]
    fn a_missing_library_is_an_error_with_the_way_out() {
        let folder = tempfile::TempDir::new().unwrap();
        for named in [folder.path().to_owned(), folder.path().join("libcublas.so.12")] {
            for (name, file) in [("cublas", "libcublas.so.1"), ("cublasLt", "libcublasLt.so.1")] {
                let said = open(name, Some(named.clone().into())).unwrap_err().to_string();
                assert!(said.starts_with("MOYE_CUBLAS: ") && said.contains(file), "{said}");
            }
        }
        // An installed library opens; without one `cudarc` must not be called, because it would
        // abort.
        if let Err(error) = open("cublasLt", None) {
            assert!(
                error.to_string().starts_with("there is no libcublasLt.so.13 or .12; install"),
                "{error}"
            );
        }
    }

    #[test]
    fn transposed_operands_have_their_strides_swapped() {
        let gemm = Gemm {
            kind: Kind::F32,
            transposed: (true, true),
            m: 2,
            n: 3,
            k: 5,
            addresses: [0; 3],
            activation: Activation::None,
            bias: None,
        };
        assert_eq!(gemm.shapes(), [(5, 2), (3, 5), (2, 3)]);
        assert_eq!(Gemm { transposed: (false, false), ..gemm }.shapes(), [(2, 5), (5, 3), (2, 3)]);
    }
}
