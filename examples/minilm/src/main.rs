//! Compares sentences by the vectors of an embedding model.

use clap::{Parser, ValueEnum};
use half::f16;
use moye::{Device, DeviceChoice};
use moye_minilm::files::Folder;
use moye_minilm::real::Real;
use moye_minilm::sentences::Embedder;
use moye_minilm::{Error, Result};
use std::io::{self, BufRead, Write, stdin, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Compares sentences by the vectors of an embedding model.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// The model: a folder with config.json, model.safetensors and tokenizer.json.
    #[arg(long, value_name = "FOLDER")]
    model: PathBuf,
    /// The sentences; without any, the lines of standard input. The first one's similarity to each
    /// other sentence is printed.
    sentences: Vec<String>,
    /// Prints the vector of each sentence as JSON instead.
    #[arg(long)]
    vectors: bool,
    /// The type of weights and states; accumulators are f32.
    #[arg(long, default_value = "f16")]
    dtype: Dtype,
    /// auto, gpu, gpu:N or sim.
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
    /// Number of times to repeat the pass over the sentences, to print the median time.
    #[arg(long, value_name = "N")]
    repeat: Option<u32>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Dtype {
    F16,
    F32,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let run = match options.dtype {
        Dtype::F16 => run::<f16>(options),
        Dtype::F32 => run::<f32>(options),
    };
    match run {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run<T: Real>(options: Options) -> Result<()> {
    let folder = Folder::open(options.model)?;
    let device = Device::choose(options.device)?;
    if let Some(reason) = device.why_simulated() {
        eprintln!("no GPU ({reason}): the simulator runs the kernels");
    }
    let mut sentences = options.sentences;
    if sentences.is_empty() {
        let lines = stdin().lock().lines().collect::<io::Result<_>>();
        sentences = lines.map_err(|source| Error::File { file: "standard input".into(), source })?;
    }
    let embedder = Embedder::<T>::load(&device, &folder)?;
    let vectors = embedder.embed(&sentences)?;
    let mut out = String::new();
    for (number, (sentence, vector)) in sentences.iter().zip(&vectors).enumerate() {
        out += &if options.vectors {
            format!("{vector:?}\n")
        } else if number == 0 {
            format!("       {sentence}\n")
        } else {
            let similarity: f32 = vector.iter().zip(&vectors[0]).map(|(a, b)| a * b).sum();
            format!("{similarity:6.3} {sentence}\n")
        };
    }
    let written = stdout().write_all(out.as_bytes());
    written.map_err(|source| Error::File { file: "standard output".into(), source })?;
    match options.repeat {
        Some(count) if count > 0 => measure(&embedder, &sentences, count),
        _ => Ok(()),
    }
}

/// Prints the median time of a pass over all sentences in one batch, in samples of ten passes.
fn measure<T: Real>(embedder: &Embedder<T>, sentences: &[String], count: u32) -> Result<()> {
    let tokens: Vec<_> = sentences.iter().map(|sentence| embedder.tokens(sentence)).collect::<Result<_>>()?;
    let (model, all) = (&embedder.model, tokens.iter().map(Vec::len).sum::<usize>());
    let mut batch = model.batch(&tokens)?;
    let mut times = Vec::new();
    for _ in 0..count {
        let start = Instant::now();
        for _ in 0..10 {
            model.run(&mut batch)?;
        }
        model.device().synchronize()?;
        times.push(start.elapsed().as_secs_f64() / 10.0);
    }
    times.sort_by(f64::total_cmp);
    let median = times[times.len() / 2];
    println!("{} sentences, {all} tokens: {:.1} us a pass", tokens.len(), 1e6 * median);
    Ok(())
}
