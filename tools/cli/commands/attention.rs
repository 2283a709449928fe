//! `moye attention`

use super::input::NpyFile;
use super::matmul::number;
use super::output::Output;
use super::report::Report;
use super::{DeviceArgument, progress, transfer};
use anyhow::{Result, bail};
use clap::Args;
use half::{bf16, f16};
use moye::number::F8E4M3;
use moye::{Attention as Builder, AttentionElement, Buffer, Device, Factor, Heads, HeadsMut};
use moye_bench::dtype::{Dtype, Stored};
use std::path::PathBuf;
use std::str::FromStr;

#[derive(Args)]
pub struct Attention {
    /// A .npy file with the queries: float16, bfloat16 or float8_e4m3fn, of shape (batch, head,
    /// token, column).
    #[arg(value_name = "Q.npy")]
    q: PathBuf,
    /// The keys. They may have fewer heads: the number of query heads must be a multiple of theirs.
    #[arg(value_name = "K.npy")]
    k: PathBuf,
    /// The values.
    #[arg(value_name = "V.npy")]
    v: PathBuf,
    /// Output file; its shape is that of the queries. Results of float8_e4m3fn are bfloat16.
    #[arg(short, long, value_name = "O.npy")]
    output: PathBuf,
    /// Causal mask: hide the keys after a query's position; the last query is at the position of
    /// the last key.
    #[arg(long)]
    causal: bool,
    /// Sliding window: hide the keys more than L before or R after a query's position; `-` means no
    /// limit. With --causal both hold.
    #[arg(long, value_name = "L,R")]
    window: Option<Window>,
    /// Factor of the scores (default: one over the square root of the head size).
    #[arg(long, allow_hyphen_values = true, value_name = "NUMBER", value_parser = single)]
    scale: Option<f32>,
    /// Also write the log-sum-exp of each row: float32 of shape (batch, head, token, 1).
    #[arg(long, value_name = "FILE")]
    lse: Option<PathBuf>,
    /// Scale factors of float8_e4m3fn queries: a .npy file of float32 with one factor, one for each
    /// query head, or one for each head of each batch (default: 1).
    #[arg(long, value_name = "FILE")]
    scale_q: Option<PathBuf>,
    /// Scale factors of the keys, as --scale-q, by the heads of the keys.
    #[arg(long, value_name = "FILE")]
    scale_k: Option<PathBuf>,
    /// Scale factors of the values, as --scale-k.
    #[arg(long, value_name = "FILE")]
    scale_v: Option<PathBuf>,
    /// Element type, f16, bf16 or e4m3, for files that do not store it.
    #[arg(long, value_enum, value_name = "TYPE")]
    dtype: Option<Dtype>,
    /// Overwrite the outputs if they exist.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    device: DeviceArgument,
}

/// Parses an f32. A value that f32 rounds to infinity or to 0 is an error.
pub fn single(text: &str) -> Result<f32, String> {
    f32::of(number(text)?).ok_or_else(|| format!("`{text}` is outside of {}", f32::TAKES))
}

/// The window of a query, to the left and to the right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window(pub [Option<u32>; 2]);

impl FromStr for Window {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let limit = |text: &str| match text.trim() {
            "-" => Ok(None),
            number => number.parse().map(Some),
        };
        let wrong = || {
            format!(
                "`{text}` is not a window: expected two numbers of keys, L,R, with `-` for no limit, such as 128,0"
            )
        };
        let (left, right) = text.split_once(',').ok_or_else(wrong)?;
        Ok(Self([limit(left).map_err(|_| wrong())?, limit(right).map_err(|_| wrong())?]))
    }
}

/// An element type of the command.
trait Attended: AttentionElement<Output: Stored + Default> + Stored + Default {
    /// The call with the scale factors of Q, K and V; `None` if the type has none.
    fn scaled<'a>(call: Builder<'a, Self>, scales: &'a [Buffer<f32>; 3]) -> Option<Builder<'a, Self>>;
}

macro_rules! without_scales {
    ($($t:ty)+) => { $(
        impl Attended for $t {
            fn scaled<'a>(_: Builder<'a, Self>, _: &'a [Buffer<f32>; 3]) -> Option<Builder<'a, Self>> {
                None
            }
        }
    )+ };
}
without_scales!(f16 bf16);

impl Attended for F8E4M3 {
    fn scaled<'a>(call: Builder<'a, Self>, [q, k, v]: &'a [Buffer<f32>; 3]) -> Option<Builder<'a, Self>> {
        Some(call.scales(q, k, v))
    }
}

/// The number of elements of an array of this shape.
fn elements(shape: &[usize]) -> Result<usize> {
    if shape.contains(&0) {
        return Ok(0);
    }
    match shape.iter().try_fold(1usize, |all, &extent| all.checked_mul(extent)) {
        Some(elements) => Ok(elements),
        None => bail!("results of shape {shape:?} are larger than any memory; check the shapes of Q and V"),
    }
}

impl Attention {
    pub fn run(self) -> Result<()> {
        let output = Output::create(&self.output, self.force)?;
        let lse = self.lse.as_deref().map(|path| Output::create(path, self.force)).transpose()?;
        let report = Output::report(Some(&output));
        let files = [NpyFile::read(&self.q)?, NpyFile::read(&self.k)?, NpyFile::read(&self.v)?];
        match files[0].dtype(self.dtype, "attention takes float16, bfloat16 or float8_e4m3fn")? {
            Dtype::F16 => self.compute::<f16>(report, &files, output, lse),
            Dtype::Bf16 => self.compute::<bf16>(report, &files, output, lse),
            Dtype::E4m3 => self.compute::<F8E4M3>(report, &files, output, lse),
            other => bail!(
                "{} holds {other}; attention needs float16, bfloat16 or float8_e4m3fn: convert it, for example with a.astype('float16')",
                files[0].name()
            ),
        }
    }

    fn compute<T: Attended>(
        &self,
        mut report: Report,
        files: &[NpyFile; 3],
        output: Output,
        lse: Option<Output>,
    ) -> Result<()> {
        let [q, k, v] = [files[0].tensor::<T, 4>()?, files[1].tensor::<T, 4>()?, files[2].tensor::<T, 4>()?];
        let device: Device = self.device.open(&mut report)?;
        let [batches, heads, tokens, _] = q.1;
        let o_shape = [batches, heads, tokens, v.1[3]];
        let data = [
            transfer::upload(&device, &q.0)?,
            transfer::upload(&device, &k.0)?,
            transfer::upload(&device, &v.0)?,
        ];
        let mut result = device.alloc_uninit::<T::Output>(elements(&o_shape)?)?;
        let rows = elements(&o_shape[..3])?;
        let mut logarithms = device.alloc_uninit::<f32>(if lse.is_some() { rows } else { 0 })?;
        let scales = self.scales(&device)?;
        let mut call = Builder::new(
            Heads::head_first(&data[0], q.1)?,
            Heads::head_first(&data[1], k.1)?,
            Heads::head_first(&data[2], v.1)?,
        );
        if let Some(scales) = &scales {
            call = match T::scaled(call, scales) {
                Some(call) => call,
                None => bail!(
                    "--scale-q, --scale-k and --scale-v are for float8_e4m3fn, and {} holds {}; use --scale for other types",
                    files[0].name(),
                    T::DTYPE
                ),
            };
        }
        if self.causal {
            call = call.causal();
        }
        if let Some(Window([left, right])) = self.window {
            call = call.window(left, right);
        }
        if let Some(scale) = self.scale {
            call = call.scale(scale);
        }
        if lse.is_some() {
            call = call.lse(&mut logarithms);
        }
        let mut target = HeadsMut::head_first(&mut result, o_shape)?;
        let explanation = call.explain(&device, &target)?;
        report.line("problem", format_args!("q {:?}, k {:?}, v {:?}, {}", q.1, k.1, v.1, T::DTYPE));
        if let Some(kernel) = explanation.kernel {
            report.line("kernel", format_args!("{kernel}, splits {}", explanation.splits));
        }
        if device.is_gpu() {
            // The first launch loads the kernel.
            let loading = progress::loading(&device);
            let loaded = call.run(&device, &mut target);
            loading.finish_and_clear();
            loaded?;
        }
        let bar = progress::blocks(&device);
        let time = device.time(|_| call.run(&device, &mut target))?;
        bar.finish_and_clear();
        report.line("time", format_args!("{:.3} ms", time.as_secs_f64() * 1e3));
        drop(call);
        output.write_tensor(&o_shape, &transfer::download(&result)?)?;
        if let Some(lse) = lse {
            lse.write_tensor(&[batches, heads, tokens, 1], &transfer::download(&logarithms)?)?;
        }
        Ok(())
    }
}

impl Attention {
    /// The scale factors of Q, K and V, 1 for each omitted one; `None` if all are omitted.
    fn scales(&self, device: &Device) -> Result<Option<[Buffer<f32>; 3]>> {
        let files = [&self.scale_q, &self.scale_k, &self.scale_v];
        if files.iter().all(|file| file.is_none()) {
            return Ok(None);
        }
        let read = |file: &Option<PathBuf>, positive: bool| -> Result<Buffer<f32>> {
            let factors = match file {
                Some(path) => NpyFile::read(path)?.vector::<f32>()?.to_vec(),
                None => vec![1.0],
            };
            let wrong = factors.iter().find(|&&factor| !(factor > 0.0 && factor.is_finite()));
            if let (true, Some(file), Some(factor)) = (positive, file, wrong) {
                bail!(
                    "{} holds the factor {factor}: those of queries and keys must be positive",
                    file.display()
                );
            }
            transfer::upload(device, &factors)
        };
        Ok(Some([read(files[0], true)?, read(files[1], true)?, read(files[2], false)?]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_two_numbers_or_dashes() {
        assert_eq!("128,0".parse(), Ok(Window([Some(128), Some(0)])));
        assert_eq!("-, 5".parse(), Ok(Window([None, Some(5)])));
        for text in ["", "5", "5,", "-1,3", "1,2,3"] {
            assert!(text.parse::<Window>().unwrap_err().contains("L,R"), "{text}");
        }
    }

    #[test]
    fn a_scale_that_f32_does_not_hold_is_refused_with_the_range() {
        assert_eq!(single("0.125"), Ok(0.125));
        assert_eq!(single("-1e-44"), Ok(-1e-44));
        for text in ["1e39", "1e-50"] {
            let said = single(text).unwrap_err();
            assert!(said.starts_with(&format!("`{text}` is outside of a float of 32 bits")), "{said}");
        }
        assert!(single("1e400").unwrap_err().contains("too large"));
    }
}
