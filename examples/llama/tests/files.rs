//! Damaged and unsupported files; and blocks compared with candle's.

use crate::synthetic;
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use moye_llama::config::Config;
use moye_llama::format::Format;
use moye_llama::gguf::Gguf;
use std::fs;

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

/// The error of loading a model from these bytes.
fn error(bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    fs::write(&path, bytes).unwrap();
    let all = Gguf::open(&path).and_then(|file| {
        let config = Config::of(&file)?;
        let names = ["token_embd.weight".to_owned(), format!("blk.{}.ffn_norm.weight", config.layers - 1)];
        names.iter().try_for_each(|name| file.read(name).map(|_| ()))
    });
    let error = all.unwrap_err().to_string();
    let (file, error) = error.split_once(".gguf: ").unwrap();
    assert!(file.ends_with("model"), "{file}");
    error.to_owned()
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
    for _ in 0..300 {
        let mut damaged = whole.clone();
        let at = random.usize(..header);
        damaged[at] = random.u8(..);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        fs::write(&path, damaged).unwrap();
        let _ = Gguf::open(&path).and_then(|file| Config::of(&file).map(|_| ()));
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
