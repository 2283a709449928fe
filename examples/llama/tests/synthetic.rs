//! Small files with random weights, written and quantised by candle.

use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use std::fs::File;
use std::path::PathBuf;
use tempfile::TempDir;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;

const WIDTH: usize = 64;
/// The elements of a block of the K formats.
const INNER: usize = 256;
const HEAD: usize = 64;
const HEADS: usize = 2;
const KV_HEADS: usize = 1;
pub const CONTEXT: usize = 128;
const EPSILON: f64 = 1e-5;
const BASE: f64 = 10_000.0;
/// The size of the vocabulary: the bytes, two merges, and two special tokens.
pub const VOCABULARY: usize = 260;
/// The token that ends an answer.
pub const END: u32 = 259;

/// The formats of a layer's matrices: queries, keys, values, output, gate, up and down. The first
/// layer has three parts of one format and a gated product, the second floats, the third the
/// remaining formats.
#[rustfmt::skip]
const FORMATS: [[GgmlDType; 7]; 3] = [
    [GgmlDType::Q4_1, GgmlDType::Q4_1, GgmlDType::Q4_1, GgmlDType::Q8_0, GgmlDType::Q4_0, GgmlDType::Q4_0, GgmlDType::Q4K],
    [GgmlDType::F16, GgmlDType::F16, GgmlDType::BF16, GgmlDType::BF16, GgmlDType::F32, GgmlDType::F32, GgmlDType::Q5K],
    [GgmlDType::Q4_0, GgmlDType::Q4_0, GgmlDType::Q8_0, GgmlDType::Q4_1, GgmlDType::Q8_0, GgmlDType::Q4_1, GgmlDType::Q6K],
];

const TEMPLATE: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message.content.strip() + '<|im_end|>' + '\n' }}{% endfor %}
{% if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}";

/// A file in a folder that lives as long as this value.
pub struct Synthetic {
    pub path: PathBuf,
    _folder: TempDir,
}

/// The vocabulary's names, by index.
pub fn names() -> Vec<String> {
    let mut bytes: Vec<char> = ByteLevel::alphabet().into_iter().collect();
    bytes.sort_unstable();
    let names = bytes
        .into_iter()
        .map(String::from)
        .chain(["th", "the", "<|im_start|>", "<|im_end|>"].map(String::from));
    names.collect()
}

/// A model of an architecture: llama has a tied output and Llama 3's rotation factors, qwen2 biases
/// and a separate output matrix, qwen3 norms of queries and keys.
pub fn model(architecture: &'static str) -> Synthetic {
    changed(architecture, &[])
}

/// The same with other or additional metadata; in keys `ARCH` stands for the architecture.
pub fn changed(architecture: &'static str, changes: &[(&str, Value)]) -> Synthetic {
    let mut random = fastrand::Rng::with_seed(20);
    let mut tensors: Vec<(String, QTensor)> = Vec::new();
    let mut add =
        |name: String, rows: usize, columns: usize, format: GgmlDType, [scale, offset]: [f32; 2]| {
            let values: Vec<f32> =
                (0..rows * columns).map(|_| offset + scale * (2.0 * random.f32() - 1.0)).collect();
            let tensor = match rows {
                1 => Tensor::from_vec(values, columns, &Device::Cpu),
                _ => Tensor::from_vec(values, (rows, columns), &Device::Cpu),
            };
            tensors.push((name, QTensor::quantize(&tensor.unwrap(), format).unwrap()));
        };
    let vector = GgmlDType::F32;
    // The other architectures differ within a layer, and have one layer.
    let layers = if architecture == "llama" { FORMATS.len() } else { 1 };
    let matrix_scale = |columns: usize| (3.0 / columns as f32).sqrt();
    add("token_embd.weight".to_owned(), VOCABULARY, WIDTH, GgmlDType::Q8_0, [1.0, 0.0]);
    for (layer, formats) in FORMATS.into_iter().enumerate().take(layers) {
        let parts = [
            ("attn_q", HEADS * HEAD, WIDTH),
            ("attn_k", KV_HEADS * HEAD, WIDTH),
            ("attn_v", KV_HEADS * HEAD, WIDTH),
            ("attn_output", WIDTH, HEADS * HEAD),
            ("ffn_gate", INNER, WIDTH),
            ("ffn_up", INNER, WIDTH),
            ("ffn_down", WIDTH, INNER),
        ];
        for ((part, rows, columns), format) in parts.into_iter().zip(formats) {
            add(format!("blk.{layer}.{part}.weight"), rows, columns, format, [matrix_scale(columns), 0.0]);
            if architecture == "qwen2" && matches!(part, "attn_q" | "attn_k" | "attn_v") {
                add(format!("blk.{layer}.{part}.bias"), 1, rows, vector, [0.5, 0.0]);
            }
        }
        for norm in ["attn_norm", "ffn_norm"] {
            add(format!("blk.{layer}.{norm}.weight"), 1, WIDTH, vector, [0.5, 1.0]);
        }
        if architecture == "qwen3" {
            for norm in ["attn_q_norm", "attn_k_norm"] {
                add(format!("blk.{layer}.{norm}.weight"), 1, HEAD, vector, [0.3, 0.7]);
            }
        }
    }
    add("output_norm.weight".to_owned(), 1, WIDTH, vector, [0.5, 1.0]);
    match architecture {
        "llama" => add("rope_freqs.weight".to_owned(), 1, HEAD / 2, vector, [1.0, 2.0]),
        _ => add("output.weight".to_owned(), VOCABULARY, WIDTH, GgmlDType::F16, [1.0, 0.0]),
    }

    let number = |value: usize| Value::U32(value as u32);
    let texts =
        |texts: &[&str]| Value::Array(texts.iter().map(|text| Value::String((*text).to_owned())).collect());
    let names = names();
    let kind = |name: &String| Value::I32(if name.starts_with("<|") { 3 } else { 1 });
    let of = |key: &str| format!("{architecture}.{key}");
    let mut metadata = vec![
        ("general.architecture".to_owned(), Value::String(architecture.to_owned())),
        (of("block_count"), number(layers)),
        (of("embedding_length"), number(WIDTH)),
        (of("feed_forward_length"), number(INNER)),
        (of("attention.head_count"), number(HEADS)),
        (of("attention.head_count_kv"), number(KV_HEADS)),
        (of("attention.key_length"), number(HEAD)),
        (of("attention.layer_norm_rms_epsilon"), Value::F32(EPSILON as f32)),
        (of("rope.freq_base"), Value::F32(BASE as f32)),
        (of("context_length"), number(CONTEXT)),
        ("tokenizer.ggml.model".to_owned(), Value::String("gpt2".to_owned())),
        ("tokenizer.ggml.pre".to_owned(), Value::String("smollm".to_owned())),
        ("tokenizer.ggml.token_type".to_owned(), Value::Array(names.iter().map(kind).collect())),
        ("tokenizer.ggml.tokens".to_owned(), Value::Array(names.into_iter().map(Value::String).collect())),
        ("tokenizer.ggml.merges".to_owned(), texts(&["t h", "th e"])),
        ("tokenizer.ggml.eos_token_id".to_owned(), Value::U32(END)),
        ("tokenizer.chat_template".to_owned(), Value::String(TEMPLATE.to_owned())),
    ];
    for (key, value) in changes {
        let key = key.replace("ARCH", architecture);
        metadata.retain(|(old, _)| *old != key);
        metadata.push((key, value.clone()));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let metadata: Vec<_> = metadata.iter().map(|(key, value)| (key.as_str(), value)).collect();
    let tensors: Vec<_> = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    gguf_file::write(&mut File::create(&path).unwrap(), &metadata, &tensors).unwrap();
    Synthetic { path, _folder: folder }
}
