//! Logits and tokens compared with the reference, and batches with single sequences.

use crate::reference::Reference;
use crate::synthetic::{self, CONTEXT, END, VOCABULARY};
use moye::Device;
use moye::operation::harness::devices;
use moye_llama::config::Config;
use moye_llama::engine::{Engine, Limits, Sampling};
use moye_llama::gguf::Gguf;
use moye_llama::model::Model;
use moye_llama::template::{Template, Turn};
use moye_llama::vocabulary::Vocabulary;
use std::path::{Path, PathBuf};

pub const GREEDY: Sampling = Sampling { temperature: 0.0, top_p: 1.0, seed: 0 };
/// One sequence, whole prompts, kernel by kernel.
pub const PLAIN: Limits = Limits { sequences: 1, page: 64, pages: 2, chunk: 64, ahead: 1, graphs: false };
/// Two sequences in small pages, prompts in small chunks, one graph for each token, two tokens
/// together.
const BATCHED: Limits = Limits { sequences: 2, page: 16, pages: 8, chunk: 4, ahead: 2, graphs: true };

fn engine(device: &Device, path: &Path, limits: Limits, sampling: Sampling) -> Engine {
    let file = Gguf::open(path).unwrap();
    let model = Model::load(device, &file, CONTEXT, |_, _| ()).unwrap();
    Engine::new(model, limits, sampling).unwrap()
}

pub fn prompt(tokens: usize, seed: u64) -> Vec<u32> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..tokens).map(|_| random.u32(..VOCABULARY as u32)).collect()
}

/// The tokens after each prompt; sequences join as soon as there is room.
pub fn answers(engine: &mut Engine, prompts: &[Vec<u32>], most: usize) -> Vec<Vec<u32>> {
    let mut answers = vec![Vec::new(); prompts.len()];
    let (mut joined, mut rows) = (0, vec![0; prompts.len()]);
    loop {
        while let Some(prompt) = prompts.get(joined)
            && let Some(row) = engine.join(prompt, most).unwrap()
        {
            rows[row] = joined;
            joined += 1;
        }
        if engine.unread() == 0 && answers.iter().all(|answer| answer.len() == most) {
            return answers;
        }
        for (row, token) in engine.step().unwrap().to_vec() {
            answers[rows[row]].push(token);
            if answers[rows[row]].len() == most {
                engine.leave(row);
            }
        }
    }
}

/// The index of the greatest logit, and its margin over the next.
fn greatest(logits: &[f64]) -> (usize, f64) {
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    (order[0], logits[order[0]] - logits[order[1]])
}

/// Writes a copy of a file whose metadata say that it has `layers` layers: the later ones are not
/// read, and the logits are computed from the state after the last that is.
fn write_first_layers(file: &[u8], layers: usize, copy: &Path) {
    let key = b".block_count";
    let value = file.windows(key.len()).position(|window| window == key).unwrap() + key.len() + 4;
    let mut file = file.to_vec();
    assert!(layers <= u32::from_le_bytes(file[value..][..4].try_into().unwrap()) as usize);
    file[value..][..4].copy_from_slice(&(layers as u32).to_le_bytes());
    std::fs::write(copy, file).unwrap();
}

/// The relative error of the logits after the tokens of a row, beside the reference's logits.
fn logits_error(engine: &mut Engine, row: usize, reference: &Reference) -> (f64, Vec<f64>) {
    let wanted = reference.logits(engine.tokens(row)).pop().unwrap();
    engine.step().unwrap();
    let logits = engine.logits(row).unwrap();
    let squares: f64 = logits.iter().zip(&wanted).map(|(is, wanted)| (f64::from(*is) - wanted).powi(2)).sum();
    let norm: f64 = wanted.iter().map(|wanted| wanted * wanted).sum();
    ((squares / norm).sqrt(), wanted)
}

/// The row of a prompt, of which all but the last token are read.
fn read(engine: &mut Engine, prompt: &[u32], most: usize) -> usize {
    let row = engine.join(prompt, most).unwrap().unwrap();
    while engine.unread() > 0 {
        assert!(engine.step().unwrap().is_empty());
    }
    row
}

fn logits_are_those_of_float64(architecture: &'static str) {
    let file = synthetic::model(architecture);
    let whole = std::fs::read(&file.path).unwrap();
    for layers in 1..=Config::of(&Gguf::open(&file.path).unwrap()).unwrap().layers {
        let first = file.path.with_file_name("first.gguf");
        write_first_layers(&whole, layers, &first);
        let reference = Reference::of(&first);
        for device in devices() {
            let mut engine = engine(&device, &first, Limits { chunk: 7, ..PLAIN }, GREEDY);
            // One token, and more than two chunks.
            for (count, seed) in [(1, 1), (16, 2)] {
                let row = read(&mut engine, &prompt(count, seed), 2);
                for _ in 0..2 {
                    let before = engine.tokens(row).len();
                    let (error, wanted) = logits_error(&mut engine, row, &reference);
                    assert!(error < 2e-3, "{architecture}, {layers} layers, {before} tokens: {error}");
                    let (token, margin) = greatest(&wanted);
                    let drawn = *engine.tokens(row).last().unwrap();
                    assert!(margin < 0.05 || drawn == token as u32, "{drawn}, not {token} by {margin}");
                }
                engine.leave(row);
            }
        }
    }
}

#[test]
fn logits_of_llama_with_all_formats_and_scaled_rotations_are_those_of_float64() {
    logits_are_those_of_float64("llama");
}

#[test]
fn logits_of_qwen2_with_biases_and_an_output_of_its_own_are_those_of_float64() {
    logits_are_those_of_float64("qwen2");
}

#[test]
fn logits_of_qwen3_with_norms_of_queries_and_keys_are_those_of_float64() {
    logits_are_those_of_float64("qwen3");
}

#[test]
fn batches_in_pages_and_chunks_replayed_by_graphs_give_the_tokens_of_single_sequences() {
    let file = synthetic::model("llama");
    let prompts = [prompt(1, 3), prompt(9, 4), prompt(6, 5)];
    for device in devices() {
        for sampling in [GREEDY, Sampling { temperature: 8.0, top_p: 0.9, seed: 7 }] {
            let plain = answers(&mut engine(&device, &file.path, PLAIN, sampling), &prompts, 3);
            let mut batched = engine(&device, &file.path, BATCHED, sampling);
            assert_eq!(answers(&mut batched, &prompts, 3), plain, "{sampling:?}");
        }
    }
}

#[test]
fn drawn_tokens_depend_on_the_seed_alone() {
    let file = synthetic::model("llama");
    let device = devices().remove(0);
    let draw = |seed| {
        let sampling = Sampling { temperature: 20.0, top_p: 1.0, seed };
        answers(&mut engine(&device, &file.path, PLAIN, sampling), &[prompt(2, 6)], 3)
    };
    let first = draw(1);
    assert_eq!(first, draw(1));
    assert_ne!(first, draw(2));
    // Only the most probable token has a probability above 0.
    let tokens = |sampling| answers(&mut engine(&device, &file.path, PLAIN, sampling), &[prompt(2, 6)], 3);
    assert_eq!(tokens(Sampling { temperature: 20.0, top_p: 0.0, seed: 1 }), tokens(GREEDY));
}

#[test]
fn a_conversation_that_goes_on_keeps_what_the_cache_has_and_pages_are_free_again() {
    let file = synthetic::model("llama");
    let device = devices().remove(0);
    let mut engine = engine(&device, &file.path, BATCHED, GREEDY);
    let first = prompt(20, 8);
    let answer = answers(&mut engine, std::slice::from_ref(&first), 3).remove(0);
    let row = engine.join(&first, 3).unwrap().unwrap();
    while engine.tokens(row).len() < first.len() + 3 {
        engine.step().unwrap();
    }
    let longer = [first.clone(), answer.clone(), prompt(5, 9)].concat();
    assert!(engine.resume(row, &longer, 2).unwrap());
    // The answer's last token is not in the cache yet, and the graph reads the last prompt token.
    assert_eq!(engine.unread(), 5);
    while engine.tokens(row).len() < longer.len() + 2 {
        engine.step().unwrap();
    }
    let resumed = engine.tokens(row)[longer.len()..].to_vec();
    engine.leave(row);
    assert_eq!(answers(&mut engine, &[longer], 2), [resumed]);
    // Two sequences of four pages each; the cache has eight.
    let whole = prompt(60, 10);
    let rows = [engine.join(&whole, 4).unwrap(), engine.join(&whole, 4).unwrap()];
    assert_eq!(rows, [Some(0), Some(1)]);
    assert_eq!(engine.join(&whole, 4).unwrap(), None, "no row is free");
    rows.into_iter().flatten().for_each(|row| engine.leave(row));
    assert_eq!(engine.join(&prompt(CONTEXT - 8, 11), 8).unwrap(), Some(0), "all pages are free");
    assert_eq!(engine.join(&[1], 1).unwrap(), None, "no page is free");
}

#[test]
fn requests_that_no_batch_can_serve_are_errors_with_their_numbers() {
    let file = synthetic::model("llama");
    let mut engine = engine(&Device::sim(), &file.path, PLAIN, GREEDY);
    for (prompt, most, wanted) in [
        (vec![], 1, "the prompt or the answer has no token"),
        (
            vec![1],
            CONTEXT,
            "a prompt of 1 tokens and an answer of 128: the context has 128, and the cache 128",
        ),
        (vec![1, VOCABULARY as u32], 1, "the prompt has token 260, and the vocabulary 260"),
    ] {
        assert_eq!(engine.join(&prompt, most).unwrap_err().to_string(), wanted);
    }
    assert!(engine.step().unwrap().is_empty(), "there is no sequence");
    assert!(engine.resume(0, &[1], 1).is_err());
    let model =
        |context| Model::load(&Device::sim(), &Gguf::open(&file.path).unwrap(), context, |_, _| ()).err();
    let mut sampling = GREEDY;
    for (temperature, top_p) in
        [(f32::NAN, 1.0), (-1.0, 1.0), (f32::INFINITY, 1.0), (1.0, 1.5), (1.0, f32::NAN)]
    {
        (sampling.temperature, sampling.top_p) = (temperature, top_p);
        let of_file = Gguf::open(&file.path).unwrap();
        let model = Model::load(&Device::sim(), &of_file, CONTEXT, |_, _| ()).unwrap();
        let error = Engine::new(model, PLAIN, sampling).err().unwrap().to_string();
        assert!(error.starts_with(&format!("temperature {temperature} and top-p {top_p}: ")), "{error}");
    }
    let error = model(CONTEXT + 1).unwrap().to_string();
    assert_eq!(error, "a context of 129 tokens: the model takes 1 to 128");
    assert_eq!(END as usize + 1, VOCABULARY);
}

/// Twenty prompts.
const PROMPTS: [&str; 20] = [
    "What is the capital of France?",
    "Name three colours.",
    "What is 2 + 2?",
    "Write a sentence about the sea.",
    "Who wrote Hamlet?",
    "What do bees make?",
    "Say hello in Spanish.",
    "How many days has a week?",
    "What is the opposite of hot?",
    "Which planet is the largest?",
    "What is water made of?",
    "Give a word that rhymes with cat.",
    "What is the boiling point of water?",
    "Who painted the Mona Lisa?",
    "Translate 'good morning' to German.",
    "What is a triangle?",
    "List two fruits.",
    "Why is the sky blue?",
    "What language is spoken in Brazil?",
    "Finish: once upon a time",
];

/// With `MOYE_LLAMA_MODEL` and a GPU.
#[test]
fn logits_after_each_layer_of_a_real_model_are_those_of_float64() {
    let Some(path) = std::env::var_os("MOYE_LLAMA_MODEL").map(PathBuf::from) else {
        eprintln!("skipped: MOYE_LLAMA_MODEL names no model");
        return;
    };
    let device = devices().pop().unwrap();
    if !device.is_gpu() {
        eprintln!("skipped: thirty models take too long on the simulator");
        return;
    }
    let whole = std::fs::read(&path).unwrap();
    let config = Config::of(&Gguf::open(&path).unwrap()).unwrap();
    let prompt: Vec<u32> = (0..20).map(|token| token * 997 % config.vocabulary as u32).collect();
    let folder = tempfile::tempdir().unwrap();
    let first = folder.path().join("first.gguf");
    for layers in 1..=config.layers {
        write_first_layers(&whole, layers, &first);
        let mut engine = engine(&device, &first, PLAIN, GREEDY);
        let row = read(&mut engine, &prompt, 1);
        let (error, _) = logits_error(&mut engine, row, &Reference::of(&first));
        println!("{layers} layers: a relative error of {error:.1e}");
        assert!(error < 2e-3, "{layers} layers: {error}");
    }
}

/// With `MOYE_LLAMA_MODEL`, the path of a model such as one fetched by `cargo xtask model smollm2`.
#[test]
fn greedy_answers_of_a_real_model_are_those_of_float64() {
    let Some(path) = std::env::var_os("MOYE_LLAMA_MODEL").map(PathBuf::from) else {
        eprintln!("skipped: MOYE_LLAMA_MODEL names no model");
        return;
    };
    let file = Gguf::open(&path).unwrap();
    let vocabulary = Vocabulary::of(&file).unwrap();
    let template = Template::of(&file, &vocabulary).unwrap().unwrap();
    let prompt = |content: &&str| {
        let turn = Turn { role: "user", content: (*content).to_owned() };
        vocabulary.encode(&template.prompt(&[turn]).unwrap(), false).unwrap()
    };
    // The simulator takes minutes for each prompt.
    let device = devices().pop().unwrap();
    let count = if device.is_gpu() { PROMPTS.len() } else { 1 };
    let prompts: Vec<_> = PROMPTS[..count].iter().map(prompt).collect();
    let limits = Limits { sequences: 4, page: 16, pages: 32, chunk: 64, ahead: 4, graphs: true };
    let answers = answers(&mut engine(&device, &path, limits, GREEDY), &prompts, 12);
    let reference = Reference::of(&path);
    let mut apart = 0;
    for ((prompt, answer), text) in prompts.iter().zip(&answers).zip(PROMPTS) {
        // One pass computes the reference's next token after each token of the answer.
        let logits = reference.logits(&[&prompt[..], answer].concat());
        for (i, &token) in answer.iter().enumerate() {
            let (wanted, margin) = greatest(&logits[prompt.len() - 1 + i]);
            let before = vocabulary.decode(&answer[..i]).unwrap();
            assert!(
                wanted as u32 == token || margin < 0.05,
                "{text} {before}: {token}, not {wanted} by {margin}"
            );
            apart += usize::from(wanted as u32 != token);
        }
    }
    println!("{} tokens, {apart} of them where two logits are within 0.05", 12 * count);
}
