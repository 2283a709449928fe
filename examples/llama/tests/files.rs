//! Damaged and unsupported files; and blocks compared with candle's.

use crate::synthetic::{self, CONTEXT};
use candle_core::quantized::gguf_file::Value;
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use moye_llama::config::Config;
use moye_llama::format::Format;
use moye_llama::gguf::Gguf;
use moye_llama::model::Model;
use moye_llama::template::Template;
use moye_llama::vocabulary::Vocabulary;
use moye_llama::{Error, Result};
use std::fs;
use std::path::Path;

#[test]
fn blocks_of_each_format_have_the_values_that_candle_gives_them() {
    let mut random = fastrand::Rng::with_seed(1);
    for (format, of_candle) in [
        (Format::F32, GgmlDType::F32),
        (Format::F16, GgmlDType::F16),
        (Format::Bf16, GgmlDType::BF16),
        (Format::Q4_0, GgmlDType::Q4_0),
        (Format::Q4_1, GgmlDType::Q4_1),
        (Format::Q8_0, GgmlDType::Q8_0),
        (Format::Q4K, GgmlDType::Q4K),
        (Format::Q5K, GgmlDType::Q5K),
        (Format::Q6K, GgmlDType::Q6K),
    ] {
        let values: Vec<f32> = (0..1024).map(|_| 3.0 * random.f32() - 1.0).collect();
        let tensor = Tensor::from_vec(values, 1024, &Device::Cpu).unwrap();
        let blocks = QTensor::quantize(&tensor, of_candle).unwrap();
        let wanted = blocks.dequantize(&Device::Cpu).unwrap().to_vec1::<f32>().unwrap();
        let is = format.dequantize(&blocks.data().unwrap());
        let error = is.iter().zip(&wanted).map(|(is, wanted)| (is - wanted).abs()).fold(0.0, f32::max);
        assert!(is.len() == 1024 && error < 1e-6, "{format}: an error of {error}");
    }
}

/// Loads all that the program loads.
fn load(path: &Path) -> Result<()> {
    let file = Gguf::open(path)?;
    Template::of(&file, &Vocabulary::of(&file)?)?;
    Model::load(&moye::Device::sim(), &file, CONTEXT, |_, _| ()).map(|_| ())
}

/// The result of loading these bytes.
fn load_bytes(bytes: &[u8]) -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    fs::write(&path, bytes).unwrap();
    load(&path)
}

/// An error's message without the file, which it starts with.
fn message(error: &Error) -> String {
    let error = error.to_string();
    let (file, error) = error.split_once(".gguf: ").unwrap_or_else(|| panic!("no file: {error}"));
    assert!(file.ends_with("model"), "{file}");
    error.to_owned()
}

/// The error of loading a model from these bytes.
fn error(bytes: &[u8]) -> String {
    message(&load_bytes(bytes).unwrap_err())
}

#[test]
fn a_damaged_file_is_an_error_wherever_it_is_cut_off() {
    let whole = fs::read(synthetic::model("llama").path).unwrap();
    let mut random = fastrand::Rng::with_seed(2);
    let header = 8000;
    let cuts = (0..40).map(|_| random.usize(..header)).chain([0, 3, 4, 8, 23, 24, whole.len() / 2]);
    for cut in cuts {
        let error = error(&whole[..cut]);
        assert!(error.contains("cut off") || error.contains("past the end"), "{cut}: {error}");
    }
    assert!(error(b"PK\x03\x04, an archive").starts_with("it does not begin with GGUF"));
    let mut other = whole.clone();
    other[4] = 9;
    assert!(error(&other).contains("its version is 9, and 2 and 3 are supported"));
    // Any wrong byte of the header must give a wrong value or an error, never a panic.
    let whole = fs::read(synthetic::model("qwen3").path).unwrap();
    for _ in 0..100 {
        let mut damaged = whole.clone();
        let at = random.usize(..header);
        damaged[at] = random.u8(..);
        let _ = load_bytes(&damaged);
    }
}

#[test]
fn metadata_that_no_model_has_are_errors_with_their_keys() {
    let most = Value::U32(u32::MAX);
    let number = "a whole number from 1 is expected";
    for (key, value, wanted) in [
        ("ARCH.block_count", most.clone(), "tensor blk.1.attn_q.weight: the file has no such tensor"),
        ("ARCH.block_count", Value::U32(0), number),
        ("ARCH.block_count", Value::I32(-1), "a whole number from 0 is expected, not Integer(-1)"),
        ("ARCH.block_count", Value::String("1".to_owned()), "a whole number from 0 is expected"),
        ("ARCH.embedding_length", Value::U32(0), number),
        (
            "ARCH.embedding_length",
            Value::U32(1),
            "token_embd.weight: its shape is [260, 64], and by the metadata",
        ),
        ("ARCH.feed_forward_length", most.clone(), "by the metadata [4294967295, 64]"),
        ("ARCH.attention.head_count", Value::U32(0), number),
        ("ARCH.attention.head_count", most.clone(), "by the metadata [274877906880, 64]"),
        ("ARCH.attention.head_count_kv", Value::U32(0), number),
        ("ARCH.attention.head_count_kv", Value::U32(3), "2 query heads are not a multiple of 3 key heads"),
        ("ARCH.attention.key_length", Value::U32(0), number),
        (
            "ARCH.attention.value_length",
            Value::U32(128),
            "heads have 128 elements; supported are [64, 80, 96,",
        ),
        ("ARCH.attention.layer_norm_rms_epsilon", Value::F32(-1.0), "a number above 0 is expected, not -1"),
        ("ARCH.context_length", Value::U32(0), number),
        ("ARCH.rope.dimension_count", most, "4294967295 of a head's 64 elements are rotated"),
        (
            "ARCH.rope.dimension_count",
            Value::U32(40),
            "40 of a head's 64 elements are rotated; supported are",
        ),
        ("ARCH.rope.freq_base", Value::F32(0.0), "a number above 0 is expected, not 0"),
        ("ARCH.rope.freq_base", Value::F32(f32::NAN), "a number is expected, not Float(NaN)"),
        ("ARCH.rope.scaling.factor", Value::F32(0.0), "a number above 0 is expected, not 0"),
        (
            "ARCH.rope.scaling.type",
            Value::String("yarn".to_owned()),
            "it is \"yarn\"; supported are none, linear",
        ),
        ("ARCH.expert_count", Value::U32(200), "models with it are not supported"),
        ("ARCH.attention.sliding_window", Value::U32(127), "models with it are not supported"),
        ("general.architecture", Value::U32(1), "a string is expected, not Integer(1)"),
        ("tokenizer.chat_template", Value::String("{% if %}".to_owned()), "syntax error"),
    ] {
        let of_key = synthetic::changed("qwen2", &[(key, value)]);
        let error = message(&load(&of_key.path).unwrap_err());
        let named = ["qwen2.", "tensor ", "general.", "tokenizer."].iter().any(|key| error.starts_with(key));
        assert!(named && error.contains(wanted), "{key}: {error}");
    }
    assert!(load(&synthetic::changed("qwen2", &[("ARCH.expert_count", Value::U32(0))]).path).is_ok());
}

#[test]
fn linear_scaling_divides_the_angles_under_each_of_its_names() {
    let angles = |changes: &[(&str, Value)]| {
        let file = Gguf::open(&synthetic::changed("llama", changes).path).unwrap();
        Config::of(&file).unwrap().rotation.angles
    };
    let (factor, named) = (Value::F32(4.0), |name: &str| Value::String(name.to_owned()));
    let plain = angles(&[]);
    let quarter: Vec<f64> = plain.iter().map(|angle| angle / 4.0).collect();
    for name in ["ARCH.rope.scaling.factor", "ARCH.rope.scale_linear"] {
        assert_eq!(angles(&[(name, factor.clone())]), quarter);
        assert_eq!(angles(&[(name, factor.clone()), ("ARCH.rope.scaling.type", named("linear"))]), quarter);
        assert_eq!(angles(&[(name, factor.clone()), ("ARCH.rope.scaling.type", named("none"))]), plain);
    }
}

#[test]
fn what_is_not_supported_is_named_with_what_is() {
    let whole = fs::read(synthetic::model("llama").path).unwrap();
    let find = |text: &str| {
        let at = whole.windows(text.len()).position(|window| window == text.as_bytes()).unwrap();
        at + text.len()
    };
    // The format's number follows the name, the number of dimensions and two extents.
    let mut other = whole.clone();
    other[find("token_embd.weight") + 4 + 16] = 10;
    let wanted = "tensor token_embd.weight: its format is number 10 of ggml; supported are F32, F16, BF16, Q4_0, Q4_1, \
                  Q8_0, Q4_K, Q5_K, Q6_K";
    assert_eq!(error(&other), wanted);
    // The second extent is the number of rows.
    let mut other = whole.clone();
    let at = find("token_embd.weight") + 4 + 8;
    other[at..at + 8].fill(0);
    assert_eq!(error(&other), "tensor token_embd.weight: it has no rows");
    let mut other = whole.clone();
    other[find("output_norm.weight") + 4 + 8] = 8;
    let wanted =
        "tensor output_norm.weight: it is a vector in Q8_0; supported for vectors are F32, F16 and BF16";
    assert_eq!(error(&other), wanted);
    // The architecture follows the type and the length of the string.
    let mut other = whole.clone();
    let at = find("general.architecture") + 4 + 8;
    other[at..at + 5].copy_from_slice(b"mamba");
    assert!(
        error(&other).starts_with("general.architecture: it is \"mamba\"; supported are llama, qwen2, qwen3")
    );
    let mut other = whole.clone();
    let at = find("llama.attention.key_length") + 4;
    other[at] = 32;
    let wanted =
        "llama.attention.key_length: heads have 32 elements; supported are [64, 80, 96, 128, 192, 256]";
    assert!(error(&other).starts_with(wanted));
}
