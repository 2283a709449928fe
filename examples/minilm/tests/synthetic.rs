//! Small models with random weights.

use half::f16;
use safetensors::tensor::{Dtype, TensorView, serialize_to_file};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Three heads: the last columns of the mean's second block are out of bounds.
pub const WIDTH: usize = 96;
const INNER: usize = 72;
const LAYERS: usize = 2;
pub const POSITIONS: usize = 80;

/// The tokens: special ones, words, and a suffix.
pub const WORDS: [&str; 10] =
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "sea", "is", "green", "##er"];

/// A model's folder that lives as long as this value.
pub struct Synthetic {
    folder: TempDir,
}

impl Synthetic {
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }
}

/// The names and shapes of a model's tensors.
fn shapes() -> Vec<(String, Vec<usize>)> {
    let mut shapes = vec![
        ("embeddings.word_embeddings.weight".to_owned(), vec![WORDS.len(), WIDTH]),
        ("embeddings.position_embeddings.weight".to_owned(), vec![POSITIONS, WIDTH]),
        ("embeddings.token_type_embeddings.weight".to_owned(), vec![2, WIDTH]),
    ];
    let mut add = |name: String, rows: usize, columns: Option<usize>| {
        let weight = columns.map_or(vec![rows], |columns| vec![rows, columns]);
        shapes.push((format!("{name}.weight"), weight));
        shapes.push((format!("{name}.bias"), vec![rows]));
    };
    add("embeddings.LayerNorm".to_owned(), WIDTH, None);
    for layer in 0..LAYERS {
        let name = |part: &str| format!("encoder.layer.{layer}.{part}");
        for part in ["query", "key", "value"] {
            add(name(&format!("attention.self.{part}")), WIDTH, Some(WIDTH));
        }
        add(name("attention.output.dense"), WIDTH, Some(WIDTH));
        add(name("attention.output.LayerNorm"), WIDTH, None);
        add(name("intermediate.dense"), INNER, Some(WIDTH));
        add(name("output.dense"), WIDTH, Some(INNER));
        add(name("output.LayerNorm"), WIDTH, None);
    }
    shapes
}

/// A model whose weights are representable in f16, so that each element type has the same weights.
/// Half of its tensors are stored as F32, half as F16.
pub fn model() -> Synthetic {
    let mut random = fastrand::Rng::with_seed(7);
    let tensors: Vec<_> = shapes()
        .into_iter()
        .enumerate()
        .map(|(number, (name, shape))| {
            // Scores of attention differ by a few units; norms are around 1.
            let (scale, offset) = match &shape[..] {
                [_, columns] => ((6.0 / *columns as f32).sqrt(), 0.0),
                _ if name.ends_with("LayerNorm.weight") => (0.5, 1.0),
                _ => (0.5, 0.0),
            };
            let values = (0..shape.iter().product::<usize>())
                .map(|_| f16::from_f32(offset + scale * (2.0 * random.f32() - 1.0)));
            let (dtype, bytes): (_, Vec<u8>) = if number % 2 == 0 {
                (Dtype::F32, values.flat_map(|value| value.to_f32().to_le_bytes()).collect())
            } else {
                (Dtype::F16, values.flat_map(f16::to_le_bytes).collect())
            };
            (name, dtype, shape, bytes)
        })
        .collect();
    let views = tensors
        .iter()
        .map(|(name, dtype, shape, bytes)| (name, TensorView::new(*dtype, shape.clone(), bytes).unwrap()));
    let synthetic = Synthetic { folder: tempfile::tempdir().unwrap() };
    serialize_to_file(views, None, &synthetic.file("model.safetensors")).unwrap();
    let config = format!(
        r#"{{"model_type": "bert", "hidden_act": "gelu", "hidden_size": {WIDTH}, "num_attention_heads": 3,
            "num_hidden_layers": {LAYERS}, "intermediate_size": {INNER}, "layer_norm_eps": 1e-12,
            "max_position_embeddings": {POSITIONS}, "vocab_size": {}, "type_vocab_size": 2}}"#,
        WORDS.len()
    );
    fs::write(synthetic.file("config.json"), config).unwrap();
    fs::write(synthetic.file("sentence_bert_config.json"), r#"{"max_seq_length": 6}"#).unwrap();
    // It truncates and pads, like all-MiniLM-L6-v2's tokeniser.
    let words: Vec<_> = WORDS.iter().enumerate().map(|(i, word)| format!("{word:?}: {i}")).collect();
    let tokenizer = format!(
        r#"{{"version": "1.0", "truncation": {{"max_length": 4, "strategy": "LongestFirst", "stride": 0}},
            "padding": {{"strategy": {{"Fixed": 16}}, "direction": "Right", "pad_to_multiple_of": null,
                "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}},
            "added_tokens": [],
            "normalizer": {{"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                "strip_accents": null, "lowercase": true}},
            "pre_tokenizer": {{"type": "BertPreTokenizer"}},
            "post_processor": {{"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}},
            "decoder": {{"type": "WordPiece", "prefix": "\#\#", "cleanup": true}},
            "model": {{"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "\#\#",
                "max_input_chars_per_word": 100, "vocab": {{{}}}}}}}"#,
        words.join(", ")
    );
    fs::write(synthetic.file("tokenizer.json"), tokenizer.replace(r"\#", "#")).unwrap();
    synthetic
}
