//! NVIDIA's assembler, `ptxas`: its search paths, and its output for a module.

use crate::{Arch, files};
use std::collections::BTreeMap;
use std::env;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Its path in PyPI's packages `nvidia-cuda-nvcc` (13) and `nvidia-cuda-nvcc-cu12`.
const IN_PYTHON: &[&str] = &["nvidia/cu13/bin/ptxas", "nvidia/cuda_nvcc/bin/ptxas"];

/// An assembler that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ptxas {
    path: PathBuf,
}

/// The resources of one kernel on the GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Registers per thread.
    pub registers: usize,
    /// Bytes of stack per thread, including spilled registers.
    pub stack: usize,
    /// Bytes of registers that are spilled.
    pub spill_stores: usize,
    /// Bytes that are reloaded.
    pub spill_loads: usize,
    /// Named barriers.
    pub barriers: usize,
    /// Bytes of shared memory that the kernel declares.
    pub shared: usize,
}

impl Usage {
    /// Bytes of spills, stored and loaded.
    pub const fn spills(&self) -> usize {
        self.spill_stores + self.spill_loads
    }
}

/// The result of assembling a module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assembled {
    /// The resources of each entry point, by name.
    pub kernels: BTreeMap<String, Usage>,
    /// Warnings, and notes of lost performance.
    pub warnings: Vec<String>,
}

/// The reason why a module was not assembled.
#[derive(Debug)]
#[non_exhaustive]
pub enum PtxasError {
    /// The program could not be run.
    Run {
        /// The program.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The assembler refuses the module.
    Refused {
        /// The program.
        path: PathBuf,
        /// Its output, with line numbers of the PTX.
        message: String,
    },
}

impl fmt::Display for PtxasError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run { path, source } => write!(f, "{} cannot be run: {source}", path.display()),
            Self::Refused { path, message } => write!(f, "{} refuses the PTX:\n{message}", path.display()),
        }
    }
}

impl std::error::Error for PtxasError {}

impl Ptxas {
    /// The environment variable that names the program; `off` disables it.
    pub const VARIABLE: &str = "MOYE_PTXAS";

    /// Searches for the assembler: `MOYE_PTXAS`, the path, `CUDA_PATH` and `CUDA_HOME`,
    /// `/usr/local/cuda`, `.toolchain/ptxas` of this folder or one above it, and the packages of
    /// the active Python.
    pub fn find() -> Option<Self> {
        if is_off() {
            return None;
        }
        // An explicit path is used even if there is no file: running it reports the error.
        if let Some(named) = named() {
            return Some(Self { path: named });
        }
        places().find(|file| file.is_file()).map(|path| Self { path })
    }

    /// Searches for an assembler that supports this architecture, in the locations and the order of
    /// [`find`](Self::find). CUDA 13's assembler supports `sm_75` and later; CUDA 12's (PyPI's
    /// `nvidia-cuda-nvcc-cu12`) supports `sm_50` and later.
    pub fn find_for(arch: Arch) -> Option<Self> {
        if is_off() {
            return None;
        }
        let all = named().into_iter().chain(places()).filter(|file| file.is_file());
        all.map(|path| Self { path }).find(|ptxas| ptxas.takes(arch))
    }

    /// Whether it supports this architecture.
    pub fn takes(&self, arch: Arch) -> bool {
        // A PTX version that CUDA 12's assemblers support and that has the architecture; a module
        // without code needs no newer one.
        let version = if arch.capability().0 < 10 { "8.0" } else { "8.7" };
        self.assemble(&format!(".version {version}\n.target {arch}\n.address_size 64\n"), arch).is_ok()
    }

    /// The assembler at this path.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Assembles a module, and discards the code.
    ///
    /// # Errors
    /// The program cannot be run, or refuses the module.
    pub fn assemble(&self, ptx: &str, arch: Arch) -> Result<Assembled, PtxasError> {
        self.run(ptx, arch, &[], Path::new("/dev/null"))
    }

    /// Assembles a module to machine code.
    ///
    /// # Errors
    /// Same as [`assemble`](Self::assemble); the code cannot be written to the temporary folder.
    pub fn cubin(&self, ptx: &str, arch: Arch) -> Result<Vec<u8>, PtxasError> {
        let file = files::beside(&env::temp_dir().join("moye-cubin"));
        let code = self.run(ptx, arch, &[], &file).and_then(|_| {
            let run = |source| PtxasError::Run { path: self.path.clone(), source };
            std::fs::read(&file).map_err(run)
        });
        // If the removal fails, the file stays in the temporary folder.
        let _ = std::fs::remove_file(&file);
        code
    }

    /// Its name and version: `ptxas V13.0.88`.
    pub fn version(&self) -> String {
        let output = Command::new(&self.path).arg("--version").output();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let text = text.unwrap_or_default();
        let words = text.split_whitespace().map(|word| word.trim_end_matches(','));
        let mut version = words.filter(|word| word.starts_with('V') && word.contains('.'));
        format!("ptxas {}", version.next().unwrap_or("of unknown version"))
    }

    /// Assembles only these kernels of a module. The rest of the module is only parsed, which is
    /// much faster.
    ///
    /// # Errors
    /// Same as [`assemble`](Self::assemble).
    pub fn assemble_kernels(&self, ptx: &str, arch: Arch, kernels: &[&str]) -> Result<Assembled, PtxasError> {
        if kernels.is_empty() {
            // Without a name the assembler assembles every kernel.
            return Ok(Assembled::default());
        }
        self.run(ptx, arch, &["--entry", &kernels.join(",")], Path::new("/dev/null"))
    }

    /// Writes the machine code to `to`.
    fn run(&self, ptx: &str, arch: Arch, options: &[&str], to: &Path) -> Result<Assembled, PtxasError> {
        let run = |source| PtxasError::Run { path: self.path.clone(), source };
        let mut child = Command::new(&self.path)
            .args(["-v", "--gpu-name", &arch.to_string()])
            .args(options)
            .arg("-o")
            .arg(to)
            .arg("/dev/stdin")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(run)?;
        let mut stdin = child.stdin.take().expect("it was piped");
        // The assembler reads all input before it writes. If it ends early, the pipe breaks, and
        // its output says why.
        let written = stdin.write_all(ptx.as_bytes());
        drop(stdin);
        let output = child.wait_with_output().map_err(run)?;
        let text = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            let message =
                text.lines().filter(|line| !line.starts_with("ptxas info")).collect::<Vec<_>>().join("\n");
            return Err(PtxasError::Refused { path: self.path.clone(), message });
        }
        written.map_err(run)?;
        Ok(Assembled::read(&text))
    }
}

impl Assembled {
    fn read(text: &str) -> Self {
        let mut all = Self::default();
        // The entry that is being assembled, and the function to which the next line's sizes
        // belong.
        let mut entry: Option<String> = None;
        let mut function: Option<String> = None;
        for line in text.lines() {
            if line.contains("warning") || line.contains("Performance Loss") {
                all.warnings.push(line.to_owned());
            } else if let Some(name) = quoted_after(line, "Compiling entry function") {
                all.kernels.insert(name.clone(), Usage::default());
                entry = Some(name);
            } else if let Some((_, name)) = line.split_once("Function properties for ") {
                function = Some(name.trim().to_owned());
            } else if let Some(usage) = entry.as_ref().and_then(|name| all.kernels.get_mut(name)) {
                if let Some(registers) = number_before(line, " registers") {
                    usage.registers = registers;
                    usage.barriers = number_before(line, " barriers").unwrap_or(0);
                    usage.shared = number_before(line, " bytes smem").unwrap_or(0);
                } else if let Some(stack) = number_before(line, " bytes stack frame") {
                    // A function that the entry calls has a separate frame; only the entry's frame
                    // counts.
                    if function == entry {
                        usage.stack = stack;
                        usage.spill_stores = number_before(line, " bytes spill stores").unwrap_or(0);
                        usage.spill_loads = number_before(line, " bytes spill loads").unwrap_or(0);
                    }
                }
            }
        }
        all
    }
}

fn quoted_after(line: &str, label: &str) -> Option<String> {
    line.split_once(label)?.1.split('\'').nth(1).map(str::to_owned)
}

/// The number directly before `unit`.
fn number_before(line: &str, unit: &str) -> Option<usize> {
    let before = line.split_once(unit)?.0;
    before.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Whether the environment disables the program.
fn is_off() -> bool {
    env::var_os(Ptxas::VARIABLE).is_some_and(|value| value == "off")
}

/// The program that the environment names.
fn named() -> Option<PathBuf> {
    env::var_os(Ptxas::VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The possible paths of an assembler, in the order of preference.
fn places() -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path: Vec<_> = env::split_paths(&path).map(|folder| folder.join("ptxas")).collect();
    let toolkits = ["CUDA_PATH", "CUDA_HOME"].into_iter().filter_map(env::var_os).map(PathBuf::from);
    let toolkits = toolkits.chain([PathBuf::from("/usr/local/cuda")]).map(|root| root.join("bin/ptxas"));
    let here = env::current_dir().unwrap_or_default();
    let kept: Vec<_> =
        here.ancestors().flat_map(|folder| in_python(&folder.join(".toolchain/ptxas"))).collect();
    // Python runs only if the earlier locations have no assembler.
    let python = std::iter::once_with(python_packages).flatten().flat_map(|folder| in_python(&folder));
    on_path.into_iter().chain(toolkits).chain(kept).chain(python)
}

fn in_python(packages: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let packages = packages.to_owned();
    IN_PYTHON.iter().map(move |file| packages.join(file))
}

/// The package folders of the active Python: the installation's and the user's.
fn python_packages() -> Vec<PathBuf> {
    let script =
        "import site, sysconfig; print(sysconfig.get_paths()['purelib']); print(site.getusersitepackages())";
    let Ok(output) = Command::new("python3").args(["-c", script]).output() else { return Vec::new() };
    String::from_utf8_lossy(&output.stdout).lines().map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'matmul' for 'sm_80'
ptxas info    : Function properties for matmul
    16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads
ptxas info    : Function properties for helper
    64 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 127 registers, used 1 barriers, 16 bytes cumulative stack size, 4096 bytes smem, 384 bytes cmem[0]
ptxas info    : Compile time = 3.234 ms
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized
ptxas info    : Compiling entry function 'copy' for 'sm_80'
ptxas info    : Function properties for copy
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers, 384 bytes cmem[0]
";

    #[test]
    fn each_entry_has_its_own_numbers() {
        let all = Assembled::read(SAID);
        let matmul =
            Usage { registers: 127, stack: 16, spill_stores: 8, spill_loads: 4, barriers: 1, shared: 4096 };
        assert_eq!(all.kernels["matmul"], matmul, "a called function's frame is not the entry's");
        assert_eq!(all.kernels["copy"], Usage { registers: 10, ..Usage::default() });
        assert_eq!(all.warnings.len(), 1, "lost performance is worth a warning: {:?}", all.warnings);
    }

    #[test]
    fn an_assembler_that_is_not_there_is_an_error() {
        let error = Ptxas::at("/nowhere/ptxas").assemble("", "sm_80".parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("/nowhere/ptxas cannot be run"), "{error}");
    }

    #[test]
    fn an_assembler_that_is_found_for_an_architecture_takes_it() {
        // Installed assemblers differ; none supports this architecture.
        for (name, exists) in [("sm_50", true), ("sm_75", true), ("sm_90a", true), ("sm_11", false)] {
            let arch = name.parse().unwrap();
            if let Some(ptxas) = Ptxas::find_for(arch) {
                assert!(exists && ptxas.takes(arch), "{name}: {}", ptxas.path().display());
            }
        }
    }
}
