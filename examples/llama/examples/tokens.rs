//! Times of models with random weights: a token at several batch sizes, prompts, and the start.
//!
//! ```sh
//! cargo run --release -p moye-llama --example tokens -- 8b q4_0 gpu
//! ```
//! With a number at the end, only the case with this number of sequences is measured. `plain`
//! launches kernels without graphs, for a profiler. `kernels` measures each kind of kernel of a
//! layer in a graph of a hundred launches, which overlap as in a token.
//!
//! Prints a line for each figure: shape, format, what, milliseconds, and the fraction of the
//! device's bandwidth at which a token reads its weights, keys and values.

use half::f16;
use moye::{Device, Matrix, MatrixMut, Stream};
use moye_llama::attend::{Attend, Place, TokenBuffers};
use moye_llama::cache::LayerCache;
use moye_llama::config::{Config, Rotation};
use moye_llama::engine::{Engine, Limits, Sampling};
use moye_llama::gguf::Gguf;
use moye_llama::layer::Batch;
use moye_llama::model::Model;
use moye_products::weights::{LinearQuantized, PackedWeights};
use moye_rows::embedding::Embedding;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// A name, and the numbers of layers, state elements, heads, key-value heads, elements of a head,
/// elements of the inner state, and tokens.
const SHAPES: [(&str, [u32; 7]); 4] = [
    ("tiny", [2, 64, 2, 1, 64, 256, 512]),
    ("smollm2", [30, 576, 9, 3, 64, 1536, 49_152]),
    ("1b", [16, 2048, 32, 8, 64, 8192, 128_256]),
    ("8b", [32, 4096, 32, 8, 128, 14_336, 128_256]),
];
/// A name, its number in GGUF, and the elements and bytes of a block.
const FORMATS: [(&str, u32, usize, usize); 3] = [("f16", 1, 1, 2), ("q4_0", 2, 32, 18), ("q4_1", 3, 32, 20)];
/// Tokens in the cache before the measured ones.
const CACHED: usize = 512;
/// Sequences, the maximum number of tokens of one, and of a chunk of prompts.
const CASES: [(usize, usize, usize); 4] = [(1, 1024, 512), (16, 1024, 512), (64, 1024, 512), (1, 8448, 2048)];
const GREEDY: Sampling = Sampling { temperature: 0.0, top_p: 1.0, seed: 0 };

fn string(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.bytes());
}

/// Writes a file with random weights; the norms are ones.
fn write(
    path: &Path,
    [layers, width, heads, kv_heads, head, inner, tokens]: [u32; 7],
    format: &str,
) -> std::io::Result<()> {
    let &(_, number, elements, block) = FORMATS.iter().find(|of| of.0 == format).expect("f16, q4_0 or q4_1");
    let mut tensors =
        vec![("token_embd.weight".to_owned(), tokens, width), ("output_norm.weight".to_owned(), 1, width)];
    for layer in 0..layers {
        for (name, rows, columns) in [
            ("attn_norm", 1, width),
            ("attn_q", heads * head, width),
            ("attn_k", kv_heads * head, width),
            ("attn_v", kv_heads * head, width),
            ("attn_output", width, heads * head),
            ("ffn_norm", 1, width),
            ("ffn_gate", inner, width),
            ("ffn_up", inner, width),
            ("ffn_down", width, inner),
        ] {
            tensors.push((format!("blk.{layer}.{name}.weight"), rows, columns));
        }
    }
    let numbers = [
        ("block_count", layers),
        ("embedding_length", width),
        ("feed_forward_length", inner),
        ("attention.head_count", heads),
        ("attention.head_count_kv", kv_heads),
        ("attention.key_length", head),
        ("attention.value_length", head),
        ("context_length", 131_072),
    ];
    let mut out = b"GGUF".to_vec();
    out.extend(3u32.to_le_bytes());
    out.extend((tensors.len() as u64).to_le_bytes());
    out.extend((numbers.len() as u64 + 1).to_le_bytes());
    string(&mut out, "general.architecture");
    out.extend(8u32.to_le_bytes());
    string(&mut out, "llama");
    for (name, value) in numbers {
        string(&mut out, &format!("llama.{name}"));
        out.extend(4u32.to_le_bytes());
        out.extend(value.to_le_bytes());
    }
    let (mut offset, mut sizes) = (0u64, Vec::new());
    for (name, rows, columns) in &tensors {
        string(&mut out, name);
        out.extend(2u32.to_le_bytes());
        out.extend(u64::from(*columns).to_le_bytes());
        out.extend(u64::from(*rows).to_le_bytes());
        let all = *rows as usize * *columns as usize;
        let bytes = if *rows == 1 { 4 * all } else { all / elements * block };
        out.extend(if *rows == 1 { 0 } else { number }.to_le_bytes());
        out.extend(offset.to_le_bytes());
        sizes.push((*rows == 1, bytes));
        offset += bytes.next_multiple_of(32) as u64;
    }
    out.resize(out.len().next_multiple_of(32), 0);
    // Tensors begin at different random blocks. The blocks' scale, in their first bytes, is about
    // 2^-8 for floats and 2^-10 for codes, and a minimum is -7.5 times it, so that states stay
    // small.
    let mut random = fastrand::Rng::with_seed(1);
    let mut pool = vec![0u8; (32 << 20) / block * block];
    random.fill(&mut pool);
    for block in pool.chunks_exact_mut(block) {
        let scale = u16::from(block[0]) | if format == "f16" { 0x1c00 } else { 0x1400 };
        let sign = u16::from(format == "f16" && block[1] > 127) << 15;
        block[..2].copy_from_slice(&(scale | sign).to_le_bytes());
        if format == "q4_1" {
            block[2..4].copy_from_slice(&f16::from_f32(-7.5 * f16::from_bits(scale).to_f32()).to_le_bytes());
        }
    }
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    file.write_all(&out)?;
    for (is_norm, bytes) in sizes {
        if is_norm {
            file.write_all(&1.0f32.to_le_bytes().repeat(bytes / 4))?;
        } else {
            let (mut left, mut from) = (bytes, random.usize(..pool.len() / block / 2) * block);
            while left > 0 {
                let part = left.min(pool.len() - from);
                file.write_all(&pool[from..from + part])?;
                (left, from) = (left - part, 0);
            }
        }
        file.write_all(&[0; 32][..bytes.next_multiple_of(32) - bytes])?;
    }
    file.flush()
}

/// Prints the time of each kind of kernel of a layer in microseconds.
fn kernels(
    device: &Device,
    [_, width, heads, kv_heads, head, inner, _]: [u32; 7],
    format: &str,
    m: usize,
) -> moye::Result<()> {
    let [width, heads, kv_heads, head, inner] = [width, heads, kv_heads, head, inner].map(|n| n as usize);
    let (context, length) = (1024, CACHED + 1);
    let (_, _, elements, block) = *FORMATS.iter().find(|of| of.0 == format).expect("a quantised format");
    let time = |name: &str, work: &mut dyn FnMut(&Stream) -> moye::Result<()>| -> moye::Result<()> {
        let graph = device.capture(|stream| (0..100).try_for_each(|_| work(stream)))?;
        let (mut graph, stream) = (graph.instantiate()?, device.new_stream()?);
        let mut times = Vec::new();
        for _ in 0..7 {
            let start = stream.record()?;
            // SAFETY: the buffers are alive, and one stream uses them.
            unsafe { graph.launch(&stream)? };
            times.push(stream.record()?.elapsed_since(&start)?);
        }
        println!("{name},{:.2}", 10.0 * median(times));
        Ok(())
    };
    let vector = |count: usize| device.upload(&vec![f16::from_f32(0.5); count]);
    let (x, norm, mut y) = (vector(2 * inner * m)?, vector(width)?, vector(2 * inner * m)?);
    for (name, rows, columns, normed, gated) in [
        ("qkv", (heads + 2 * kv_heads) * head, width, true, false),
        ("qkv without norm", (heads + 2 * kv_heads) * head, width, false, false),
        ("output", width, heads * head, false, false),
        ("gate and up", 2 * inner, width, true, true),
        ("gate and up without norm", 2 * inner, width, false, true),
        ("down", width, inner, false, false),
    ] {
        let blocks = device.upload(&vec![0x11u8; rows * columns / elements * block])?;
        let packed =
            PackedWeights::blocks(format, &Matrix::row_major(&blocks, rows, columns / elements * block)?)?;
        time(name, &mut |stream| {
            let x = Matrix::row_major(x.slice(..m * columns)?, m, columns)?;
            let mut product = LinearQuantized::new(x.clone(), &packed);
            if normed {
                product = product.rms_norm(Matrix::row_major(&norm, 1, columns)?, 1e-5);
            }
            let all = if gated { rows / 2 } else { rows };
            product = if gated { product.gated() } else { product };
            // SAFETY: one stream uses the buffers.
            unsafe { product.run_on(stream, &mut MatrixMut::row_major(y.slice_mut(..m * all)?, m, all)?) }
        })?;
    }
    let rotation = Rotation { elements: head, adjacent: true, angles: vec![0.0; head / 2] };
    let (layers, vocabulary, epsilon) = (1, 1, 1e-5);
    let config =
        Config { layers, width, inner, heads, kv_heads, head, vocabulary, context, epsilon, rotation };
    let attend = Attend::new(device, &config, m, context)?;
    let tables = config.tables(context).map(|table| device.upload(&table));
    let [cos, sin] = tables;
    let (tables, page) = ([cos?, sin?], 64);
    let pages: Vec<i32> = (0..(m * context / page) as i32).collect();
    let (pages, mut cache) = (device.upload(&pages)?, vector(m * context * 2 * kv_heads * head)?);
    let slots = (0..m).map(|row| (row * context + length - 1) as i32);
    let state: Vec<i32> =
        [length as i32 - 1, length as i32].iter().flat_map(|&n| vec![n; m]).chain(slots).collect();
    let state = device.upload(&state)?;
    let batch = Batch {
        tokens: m,
        positions: state.slice(..m)?,
        lengths: state.slice(m..2 * m)?,
        slots: state.slice(2 * m..)?,
        sequences: m,
        offsets: None,
        pages: (pages.slice(..)?, context / page),
    };
    let places =
        [0, heads * head, (heads + kv_heads) * head].map(|start| Place { start, stride: config.qkv() });
    time("attend", &mut |stream| {
        let cache = LayerCache { buffer: &mut cache, pages: m * context / page, page };
        let buffers = TokenBuffers { qkv: &x, places, o: &mut y };
        // SAFETY: one stream uses the buffers, which hold the token.
        unsafe { attend.run(stream, &config, &batch, buffers, &tables, cache) }
    })?;
    time("embedding", &mut |stream| {
        let table = Matrix::row_major(x.slice(..width)?, 1, width)?;
        let tokens = Matrix::row_major(pages.slice(..1)?, 1, 1)?;
        // SAFETY: one stream uses the buffers, which hold the token.
        unsafe {
            Embedding::new(table, tokens)
                .run_on(stream, &mut MatrixMut::row_major(y.slice_mut(..width)?, 1, width)?)
        }
    })
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    1e3 * times[times.len() / 2].as_secs_f64()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [shape, format, device, rest @ ..] = &arguments[..] else {
        return Err(
            "usage: tokens tiny|smollm2|1b|8b f16|q4_0|q4_1 gpu|sim [kernels | plain] [SEQUENCES]".into()
        );
    };
    let named = |mode: &str| rest.iter().any(|argument| argument == mode);
    let graphs = !named("plain");
    let only = rest.last().and_then(|last| last.parse::<usize>().ok());
    let sizes = SHAPES.iter().find(|of| of.0 == shape).ok_or("an unknown shape")?.1;
    let device = Device::choose(device.parse()?)?;
    if named("kernels") {
        return Ok(kernels(&device, sizes, format, only.unwrap_or(1))?);
    }
    let path = std::env::temp_dir().join(format!("moye-{shape}-{format}.gguf"));
    if !path.exists() {
        write(&path, sizes, format)?;
    }
    let bandwidth = device.rates().memory * 1e6;
    let line = |what: &str, time: f64, share: f64| println!("{shape},{format},{what},{time:.3},{share:.3}");
    let mut kept = None;
    // The long case, by its context.
    let cases =
        CASES.iter().filter(|of| only.is_none_or(|only| of.1 == only || of.0 == only && of.1 <= 1024));
    for &(sequences, context, chunk) in cases {
        let (start, is_first) = (Instant::now(), kept.is_none());
        let file = Gguf::open(&path)?;
        let context = context.min(if sizes[0] < 8 { 16 } else { context });
        let model = match kept.take() {
            Some((model, of)) if of >= context => model,
            _ => Model::load(&device, &file, context.max(1024), |_, _| ())?,
        };
        let loaded = start.elapsed();
        let mut engine =
            Engine::new(model, Limits { chunk, graphs, ..Limits::new(sequences, context) }, GREEDY)?;
        let cached = if context > 1024 { context - 256 } else { CACHED.min(context / 2) };
        let mut random = fastrand::Rng::with_seed(2);
        // Twice, because the first prompt loads kernels.
        let mut read = Duration::ZERO;
        for again in [false, true] {
            for _ in 0..sequences {
                let prompt: Vec<u32> = (0..cached).map(|_| random.u32(..sizes[6])).collect();
                engine.join(&prompt, context - cached)?.ok_or("no room")?;
            }
            let from = Instant::now();
            while engine.unread() > 0 {
                engine.step()?;
            }
            device.synchronize()?;
            read = from.elapsed();
            if !again {
                engine.step()?;
                if is_first {
                    line("load", 1e3 * loaded.as_secs_f64(), 0.0);
                    line("start to the first token", 1e3 * start.elapsed().as_secs_f64(), 0.0);
                }
                (0..sequences).for_each(|row| engine.leave(row));
            }
        }
        line(&format!("prompt of {cached} x {sequences}"), 1e3 * read.as_secs_f64(), 0.0);
        let (mut times, ahead, memory) = (Vec::new(), 4, device.memory()?);
        for _ in 0..((context - cached - 1) / ahead).min(16) {
            let from = Instant::now();
            for _ in 0..ahead {
                engine.step()?;
            }
            times.push(from.elapsed() / ahead as u32);
        }
        if device.memory()? != memory {
            return Err("tokens have allocated device memory".into());
        }
        let time = median(times);
        let share = engine.bytes_of_token() as f64 / (1e-3 * time) / bandwidth;
        line(&format!("token after {cached} x {sequences}"), time, share);
        kept = Some((engine.into_model(), context.max(1024)));
    }
    Ok(())
}
