//! The program and its options.

mod gpus;
mod stats;

use clap::Parser;
use gpus::Place;
use moye::DeviceChoice;
use moye_llama::engine::{Engine, Limits, Sampling};
use moye_llama::gguf::Gguf;
use moye_llama::model::Model;
use moye_llama::template::{Template, Turn};
use moye_llama::vocabulary::Vocabulary;
use moye_llama::{Error, Result};
use stats::Stats;
use std::io::{BufRead, IsTerminal, Write, stderr, stdin, stdout};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Answers prompts with a language model from a GGUF file.
#[derive(Parser)]
#[command(version)]
pub struct Options {
    /// The model: Llama, Mistral, SmolLM2, TinyLlama, Qwen2 or Qwen3, as F32, F16, BF16, Q8_0,
    /// Q4_0, Q4_1, Q4_K, Q5_K or Q6_K.
    #[arg(long, value_name = "FILE.gguf")]
    model: PathBuf,
    /// The prompt.
    #[arg(required_unless_present_any = ["chat", "batch"])]
    prompt: Option<String>,
    /// Answers turn by turn, read from standard input, and keeps the conversation; on one GPU.
    #[arg(long, conflicts_with = "batch")]
    chat: bool,
    /// Answers each line of a file, several at a time.
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    batch: Option<PathBuf>,
    /// Maximum number of tokens of an answer.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    tokens: u32,
    /// Maximum number of tokens of prompt and answer.
    #[arg(long, default_value_t = 2048, value_parser = clap::value_parser!(u32).range(1..))]
    context: u32,
    /// Prompts of a batch that are answered at the same time.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    sequences: u32,
    /// The seed of drawn tokens.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Divisor of the logits before a token is drawn; 0 selects the most probable token.
    #[arg(long, default_value_t = 0.0)]
    temperature: f32,
    /// Total probability of the most probable tokens from which one is drawn.
    #[arg(long, default_value_t = 1.0)]
    top_p: f32,
    /// auto, gpu, gpu:N or sim.
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
    /// GPUs over which the model is cut, starting at GPU 0: each holds part of the heads and of the
    /// inner state. If RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are set, as by torchrun, or
    /// the variables of MPI or Slurm, this process is one of them, on GPU LOCAL_RANK. Not with
    /// --chat.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=8))]
    gpus: u32,
    /// Prints rates, bytes, and the share of the device's bandwidth.
    #[arg(long)]
    stats: bool,
}

/// Runs the program.
pub fn run(options: &Options) -> Result<()> {
    gpus::run(options)
}

/// Answers as one rank.
fn answer(options: &Options, place: Place) -> Result<()> {
    let sampling = Sampling { temperature: options.temperature, top_p: options.top_p, seed: options.seed };
    // Before the model, which may take long to load.
    sampling.check()?;
    let file = Gguf::open(&options.model)?;
    let vocabulary = Vocabulary::of(&file)?;
    let template = Template::of(&file, &vocabulary)?;
    let (prints, Place { device, ranks }) = (place.prints(), place);
    if let Some(reason) = device.why_simulated() {
        note(&format!("no GPU ({reason}): the simulator runs the kernels"));
    }
    let start = Instant::now();
    let architecture = file.string("general.architecture")?.unwrap_or_default();
    let trained = file.number(&format!("{architecture}.context_length"))?.unwrap_or(usize::MAX);
    let context = trained.min(options.context as usize);
    let (file, ranks) = match ranks {
        None => (file, None),
        Some((rank, ranks)) => (file.cut(rank, options.gpus as usize)?, Some(ranks)),
    };
    let loaded = |layers, all| {
        if prints {
            progress("layer", layers, all)
        }
    };
    let model = Model::load(&device, &file, context, loaded)?.ranks(ranks);
    let sequences = if options.batch.is_some() { options.sequences as usize } else { 1 };
    // On the simulator, computing tokens past the end of an answer takes long.
    let (chunk, ahead) = if device.is_gpu() { (512, 4) } else { (64, 1) };
    let limits = Limits { chunk, ahead, ..Limits::new(sequences, context) };
    let mut stats = Stats::new(&device, start.elapsed());
    let engine = Engine::new(model, limits, sampling)?;
    let mut program = Program {
        engine,
        vocabulary: &vocabulary,
        template,
        stats: &mut stats,
        most: options.tokens as usize,
        prints,
    };
    match &options.batch {
        Some(file) => program.batch(file)?,
        None if options.chat => program.chat(options.prompt.as_deref())?,
        None => program.answer(options.prompt.as_deref().unwrap_or_default())?,
    }
    if options.stats && prints {
        note(&stats.to_string());
    }
    Ok(())
}

/// Prints a message to the user that is not part of an answer.
fn note(line: &str) {
    eprintln!("{line}");
}

/// Shows progress on a terminal.
fn progress(what: &str, done: usize, all: usize) {
    if stderr().is_terminal() {
        eprint!("\r{what} {done} of {all}{}", if done >= all { "\r\x1b[K" } else { "" });
    }
}

struct Program<'a> {
    engine: Engine,
    vocabulary: &'a Vocabulary,
    template: Option<Template>,
    stats: &'a mut Stats,
    most: usize,
    /// Whether this rank prints.
    prints: bool,
}

impl Program<'_> {
    /// The tokens of a conversation's prompt; without a template, of the plain turns.
    fn tokens(&self, turns: &[Turn]) -> Result<Vec<u32>> {
        match &self.template {
            Some(template) => self.vocabulary.encode(&template.prompt(turns)?, false),
            None => {
                let texts: Vec<_> = turns.iter().map(|turn| turn.content.as_str()).collect();
                self.vocabulary.encode(&texts.join("\n"), true)
            }
        }
    }

    /// The maximum number of tokens of an answer for which the context has room.
    fn most(&self, prompt: &[u32]) -> usize {
        self.most.min(self.engine.model().context().saturating_sub(prompt.len())).max(1)
    }

    /// Prints a part of an answer.
    fn show(&self, text: &str) -> Result<()> {
        let mut out = stdout();
        let shown = if self.prints { write!(out, "{text}").and_then(|()| out.flush()) } else { Ok(()) };
        shown.map_err(|source| Error::File { file: "standard output".into(), source })
    }

    /// Runs a step and records its time.
    fn step(&mut self) -> Result<Vec<(usize, u32)>> {
        let (unread, bytes, start) = (self.engine.unread(), self.engine.bytes_of_token(), Instant::now());
        let drawn = self.engine.step()?.to_vec();
        if drawn.is_empty() {
            // A step with tokens waits for the device, one with a chunk of prompts does not.
            self.engine.model().device().synchronize()?;
        }
        self.stats.step(unread - self.engine.unread(), drawn.len(), bytes, start.elapsed());
        Ok(drawn)
    }

    fn answer(&mut self, prompt: &str) -> Result<()> {
        let tokens = self.tokens(&[Turn { role: "user", content: prompt.to_owned() }])?;
        let most = self.most(&tokens);
        self.engine.join(&tokens, most)?;
        self.stream(tokens.len() + most)?;
        Ok(())
    }

    /// Prints the answer of the only sequence while it is computed, up to `most` tokens.
    fn stream(&mut self, most: usize) -> Result<String> {
        let vocabulary = self.vocabulary;
        let (mut text, mut stream, unread) = (String::new(), vocabulary.stream(), self.engine.unread());
        loop {
            let drawn = self.step()?;
            if drawn.is_empty() && self.prints {
                progress("prompt token", unread - self.engine.unread(), unread);
            }
            for (row, token) in drawn {
                let ends = vocabulary.ends(token);
                if !ends {
                    let new = stream.next(token)?;
                    self.show(&new)?;
                    text.push_str(&new);
                }
                if ends || self.engine.tokens(row).len() >= most {
                    self.show("\n")?;
                    return Ok(text);
                }
            }
        }
    }

    fn chat(&mut self, first: Option<&str>) -> Result<()> {
        let mut lines = stdin().lock().lines();
        let (mut turns, mut given) = (Vec::new(), first.map(str::to_owned));
        loop {
            let line = match given.take() {
                Some(line) => line,
                None => {
                    if stdin().is_terminal() {
                        self.show("> ")?;
                    }
                    match lines.next() {
                        Some(line) => {
                            line.map_err(|source| Error::File { file: "standard input".into(), source })?
                        }
                        None => return Ok(()),
                    }
                }
            };
            if line.trim().is_empty() {
                continue;
            }
            turns.push(Turn { role: "user", content: line });
            let tokens = self.tokens(&turns)?;
            let most = self.most(&tokens);
            // This conversation owns the only row.
            if turns.len() == 1 {
                self.engine.join(&tokens, most)?;
            } else {
                self.engine.resume(0, &tokens, most)?;
            }
            let content = self.stream(tokens.len() + most)?;
            turns.push(Turn { role: "assistant", content });
        }
    }

    /// Answers the lines of a file in order, if there is room for each.
    fn batch(&mut self, file: &Path) -> Result<()> {
        let failed = |source| Error::File { file: file.to_owned(), source };
        let lines = std::fs::read_to_string(file).map_err(failed)?;
        let (mut prompts, mut tokens) = (Vec::new(), Vec::new());
        for (number, line) in (1..).zip(lines.lines()).filter(|(_, line)| !line.trim().is_empty()) {
            let of_line =
                self.tokens(&[Turn { role: "user", content: line.to_owned() }]).and_then(|tokens| {
                    self.engine.check(&tokens, self.most(&tokens))?;
                    Ok(tokens)
                });
            let of_line = of_line
                .map_err(|error| Error::Request(format!("{}, line {number}: {error}", file.display())));
            tokens.push(of_line?);
            prompts.push(line);
        }
        let mut answers = vec![None; prompts.len()];
        // The prompt of each row, and the start and end of its answer.
        let mut rows = Vec::new();
        let (mut joined, mut done, mut printed) = (0, 0, 0);
        while done < prompts.len() {
            while let Some(tokens) = tokens.get(joined) {
                let most = self.most(tokens);
                let Some(row) = self.engine.join(tokens, most)? else { break };
                rows.resize(rows.len().max(row + 1), (0, 0, 0));
                rows[row] = (joined, tokens.len(), tokens.len() + most);
                joined += 1;
            }
            for (row, token) in self.step()? {
                let (prompt, from, most) = rows[row];
                let ends = self.vocabulary.ends(token);
                let tokens = self.engine.tokens(row);
                if ends || tokens.len() >= most {
                    let answer = &tokens[from..tokens.len() - usize::from(ends)];
                    answers[prompt] = Some(self.vocabulary.decode(answer)?);
                    self.engine.leave(row);
                    done += 1;
                }
            }
            while let Some(Some(answer)) = answers.get(printed) {
                self.show(&format!("> {}\n{answer}\n\n", prompts[printed]))?;
                printed += 1;
            }
            if self.prints {
                progress("answer", done, prompts.len());
            }
        }
        Ok(())
    }
}
