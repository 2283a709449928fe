//! Vectors compared with the reference, and sentences in a batch with the same sentences alone.

use crate::reference::Reference;
use crate::synthetic::{self, POSITIONS, WORDS};
use half::f16;
use moye::Device;
use moye::operation::harness::devices;
use moye_minilm::files::Folder;
use moye_minilm::model::Model;
use moye_minilm::real::Real;
use moye_minilm::sentences::Embedder;
use std::fs;

fn sentence(tokens: usize, seed: u64) -> Vec<u32> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..tokens).map(|_| random.u32(..WORDS.len() as u32)).collect()
}

/// The norm of the difference of vectors of length 1.
fn distance(vector: &[f32], wanted: &[f64]) -> f64 {
    assert_eq!(vector.len(), wanted.len());
    vector.iter().zip(wanted).map(|(is, wanted)| (f64::from(*is) - wanted).powi(2)).sum::<f64>().sqrt()
}

fn cosine(vector: &[f32], wanted: &[f64]) -> f64 {
    let length = vector.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
    vector.iter().zip(wanted).map(|(is, wanted)| f64::from(*is) * wanted).sum::<f64>() / length
}

fn vectors_are_those_of_float64<T: Real>(most: f64) {
    let synthetic = synthetic::model();
    let folder = Folder::open(synthetic.path()).unwrap();
    // One token, a part of a tile, and more than a tile of queries and keys.
    let sentences = [sentence(1, 1), sentence(9, 2), sentence(70, 3)];
    let wanted: Vec<_> = sentences.iter().map(|sentence| Reference(&folder).vector(sentence)).collect();
    for device in devices() {
        let model = Model::<T>::load(&device, &folder).unwrap();
        let mut batch = model.batch(&sentences).unwrap();
        // A second pass over the same memory produces the same bits.
        model.run(&mut batch).unwrap();
        let vectors = batch.vectors().unwrap();
        model.run(&mut batch).unwrap();
        assert_eq!(batch.vectors().unwrap(), vectors);
        for (vector, wanted) in vectors.iter().zip(&wanted) {
            let distance = distance(vector, wanted);
            assert!(distance < most, "{}: a distance of {distance}", device.name());
        }
    }
}

#[test]
fn vectors_in_f32_are_those_of_float64() {
    vectors_are_those_of_float64::<f32>(1e-5);
}

#[test]
fn vectors_in_f16_are_those_of_float64() {
    vectors_are_those_of_float64::<f16>(4e-3);
}

#[test]
fn a_sentence_has_the_same_vector_whichever_sentences_are_beside_it() {
    let synthetic = synthetic::model();
    let folder = Folder::open(synthetic.path()).unwrap();
    let embedder = Embedder::<f16>::load(&devices()[0], &folder).unwrap();
    // The tokeniser's padding is disabled, and its limit is the sentences'.
    assert_eq!(embedder.tokens("The sea").unwrap(), [2, 5, 6, 3]);
    assert_eq!(embedder.tokens("greener the sea is green").unwrap(), [2, 8, 9, 5, 6, 3]);
    let both = embedder.embed(&["The sea", "is green"]).unwrap();
    for (sentence, vector) in ["is green", "The sea"].iter().zip(both.iter().rev()) {
        let alone = embedder.embed(&[sentence]).unwrap();
        let wanted: Vec<_> = alone[0].iter().map(|&x| f64::from(x)).collect();
        assert!(distance(vector, &wanted) < 2e-3, "{sentence}");
    }
    assert!(embedder.embed(&[""; 0]).unwrap().is_empty());
}

#[test]
fn sentences_and_files_that_no_model_serves_are_errors_with_their_values() {
    let synthetic = synthetic::model();
    let folder = Folder::open(synthetic.path()).unwrap();
    let model = Model::<f32>::load(&Device::sim(), &folder).unwrap();
    for (sentences, wanted) in [
        (vec![], "0 sentences: a batch has 1 to 65535"),
        (vec![vec![1], vec![]], "sentence 1: 0 tokens; 1 to 80 are supported"),
        (vec![sentence(POSITIONS + 1, 1)], "sentence 0: 81 tokens; 1 to 80 are supported"),
        (vec![vec![10]], "sentence 0 has token 10, and the vocabulary 10"),
    ] {
        assert_eq!(model.batch(&sentences).err().unwrap().to_string(), wanted);
    }
    let error = folder.tensor("embeddings.LayerNorm.weight", &[3]).unwrap_err().to_string();
    assert!(error.ends_with("embeddings.LayerNorm.weight: its shape is [96], and by config.json [3]"));
    let config = fs::read_to_string(synthetic.file("config.json")).unwrap();
    for (from, to, wanted) in [
        ("\"gelu\"", "\"relu\"", "hidden_act: \"relu\"; \"gelu\" is supported"),
        (": 3,", ": 2,", "hidden_size 96 and num_attention_heads 2: heads of 32 elements are supported"),
        (": 72,", ": 0,", "intermediate_size: Some(Number(0)); a number from 1 to 2147483647"),
    ] {
        fs::write(synthetic.file("config.json"), config.replace(from, to)).unwrap();
        let error = Folder::open(synthetic.path()).err().unwrap().to_string();
        assert!(error.ends_with(wanted), "{error}");
    }
    // A sentence has the two special tokens, so it needs a limit above these.
    fs::write(synthetic.file("config.json"), config).unwrap();
    for most in [0, 2] {
        let limit = format!(r#"{{"max_seq_length": {most}}}"#);
        fs::write(synthetic.file("sentence_bert_config.json"), limit).unwrap();
        let error = Folder::open(synthetic.path()).unwrap().tokenizer().err().unwrap().to_string();
        let wanted = format!("tokenizer.json: 2 special tokens, and a sentence has at most {most} tokens");
        assert!(error.ends_with(&wanted), "{error}");
    }
}

/// With `MOYE_MINILM_MODEL`, the folder that `cargo xtask model minilm` fetches.
#[test]
fn vectors_of_a_real_model_are_those_of_float64() {
    let Some(path) = std::env::var_os("MOYE_MINILM_MODEL") else {
        eprintln!("skipped: MOYE_MINILM_MODEL names no model");
        return;
    };
    fn check<T: Real>(folder: &Folder, device: &Device, least: f64) {
        let embedder = Embedder::<T>::load(device, folder).unwrap();
        let sentences = ["The sea is green.", "It rains.", "Kernels in Rust multiply matrices on a GPU."];
        for (sentence, vector) in sentences.iter().zip(embedder.embed(&sentences).unwrap()) {
            let cosine = cosine(&vector, &Reference(folder).vector(&embedder.tokens(sentence).unwrap()));
            println!("{}, {sentence}: 1 - {:.2e}", device.name(), 1.0 - cosine);
            assert!(cosine > least, "{sentence}: {cosine}");
        }
    }
    let folder = Folder::open(path).unwrap();
    for device in devices() {
        check::<f32>(&folder, &device, 1.0 - 1e-9);
        check::<f16>(&folder, &device, 0.9999);
    }
}
