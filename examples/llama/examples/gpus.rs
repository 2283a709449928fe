//! The time of a token of one sequence on one GPU and on several, for a model file such as one that
//! the example `tokens` has written.
//!
//! ```sh
//! cargo run --release -p moye-llama --example gpus -- /tmp/moye-8b-f16.gguf 2
//! ```
//! Prints a line for each number of GPUs: GPUs, milliseconds per token on the slowest rank, and the
//! fraction of the time on one GPU.

use moye::Device;
use moye_llama::engine::{Engine, Limits, Sampling};
use moye_llama::gguf::Gguf;
use moye_llama::model::Model;
use moye_llama::ranks::Ranks;
use moye_parallel::{Group, Rendezvous};
use std::path::Path;
use std::time::{Duration, Instant};

/// Tokens of the prompt and of a sequence.
const PROMPT: u32 = 512;
const CONTEXT: usize = 1024;
const GREEDY: Sampling = Sampling { temperature: 0.0, top_p: 1.0, seed: 0 };

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// The median time of a token.
fn rank(path: &Path, device: &Device, rendezvous: Option<Rendezvous>) -> Result<Duration, Failed> {
    let mut file = Gguf::open(path)?;
    let mut ranks = None;
    if let Some(rendezvous) = rendezvous {
        file = file.cut(rendezvous.rank(), rendezvous.world())?;
        ranks = Some(Ranks::new(Group::join(device, rendezvous, Duration::from_secs(120))?));
    }
    let model = Model::load(device, &file, CONTEXT, |_, _| ())?.ranks(ranks);
    let mut engine = Engine::new(model, Limits::new(1, CONTEXT), GREEDY)?;
    let prompt: Vec<u32> = (0..PROMPT).collect();
    engine.join(&prompt, CONTEXT - prompt.len())?;
    while engine.unread() > 0 {
        engine.step()?;
    }
    let mut times = Vec::new();
    for _ in 0..32 {
        let from = Instant::now();
        // As many steps as the device is ahead.
        for _ in 0..4 {
            engine.step()?;
        }
        times.push(from.elapsed() / 4);
    }
    times.sort();
    Ok(times[times.len() / 2])
}

fn main() -> Result<(), Failed> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, most] = &arguments[..] else { return Err("usage: gpus FILE.gguf GPUS".into()) };
    let (path, most) = (Path::new(path), most.parse::<u32>()?);
    let one = rank(path, &Device::gpu(0)?, None)?;
    println!("1,{:.3},1.00", 1e3 * one.as_secs_f64());
    let devices = (0..most).map(Device::gpu).collect::<moye::Result<Vec<_>>>()?;
    for world in 2..=devices.len() {
        let slowest = std::thread::scope(|scope| {
            let ranks = devices.iter().zip(Rendezvous::threads(world));
            let ranks: Vec<_> = ranks
                .map(|(device, rendezvous)| scope.spawn(move || rank(path, device, Some(rendezvous))))
                .collect();
            ranks.into_iter().map(|rank| rank.join().expect("no panic")).collect::<Result<Vec<_>, _>>()
        })?;
        let slowest = slowest.into_iter().max().unwrap_or_default();
        println!(
            "{world},{:.3},{:.2}",
            1e3 * slowest.as_secs_f64(),
            slowest.as_secs_f64() / one.as_secs_f64()
        );
    }
    Ok(())
}
