//! Text to tokens and back.

use crate::synthetic::{self, END, names};
use candle_core::quantized::gguf_file::Value;
use moye_llama::Result;
use moye_llama::gguf::Gguf;
use moye_llama::template::{Template, Turn};
use moye_llama::vocabulary::Vocabulary;
use std::collections::HashMap;

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

fn texts<T: AsRef<str>>(texts: &[T]) -> Value {
    Value::Array(texts.iter().map(|of| text(of.as_ref())).collect())
}

/// The vocabulary of a file with these metadata.
fn vocabulary(changes: &[(&str, Value)]) -> Result<Vocabulary> {
    Vocabulary::of(&Gguf::open(&synthetic::changed("qwen2", changes).path).unwrap())
}

#[test]
fn text_becomes_merged_tokens_and_comes_back_as_it_streams() {
    let file = Gguf::open(&synthetic::model("llama").path).unwrap();
    let vocabulary = Vocabulary::of(&file).unwrap();
    let text = "the thé 42 \u{1f600}\n\tend";
    let tokens = vocabulary.encode(text, true).unwrap();
    let number = |name: &str| names().iter().position(|known| known == name).unwrap() as u32;
    assert_eq!(tokens[0], number("the"));
    assert!(tokens.contains(&number("th")) && tokens.contains(&number("4")));
    assert_eq!(vocabulary.decode(&tokens).unwrap(), text);
    let mut stream = vocabulary.stream();
    let parts: Vec<_> = tokens.iter().map(|&token| stream.next(token).unwrap()).collect();
    assert_eq!(parts.concat(), text);
    assert!(parts.contains(&"\u{1f600}".to_owned()), "a character comes as a whole: {parts:?}");
    assert!(vocabulary.ends(END) && !vocabulary.ends(0));
}

#[test]
fn turns_become_a_prompt_by_the_template_of_the_file() {
    let file = Gguf::open(&synthetic::model("llama").path).unwrap();
    let vocabulary = Vocabulary::of(&file).unwrap();
    let template = Template::of(&file, &vocabulary).unwrap().unwrap();
    let turn = |role, content: &str| Turn { role, content: content.to_owned() };
    let prompt = template.prompt(&[turn("user", " the "), turn("assistant", "42")]).unwrap();
    let wanted =
        "<|im_start|>user\nthe<|im_end|>\n<|im_start|>assistant\n42<|im_end|>\n<|im_start|>assistant\n";
    assert_eq!(prompt, wanted);
    let tokens = vocabulary.encode(&prompt, false).unwrap();
    assert_eq!(tokens.iter().filter(|&&token| token == END).count(), 2, "special tokens are found by name");
}

#[test]
fn words_and_numbers_are_split_as_by_the_model_that_the_file_names() {
    let all = [names(), ["12", "123", "1234", "'S", "xyz"].map(str::to_owned).to_vec()].concat();
    let first = Value::U32(all.len() as u32 - 1);
    let of = |pre: &str, more: &[(&str, Value)]| {
        let merges = texts(&["1 2", "12 3", "123 4", "' S"]);
        let mut changes = vec![
            ("tokenizer.ggml.pre", text(pre)),
            ("tokenizer.ggml.tokens", texts(&all)),
            ("tokenizer.ggml.merges", merges),
            ("tokenizer.ggml.bos_token_id", first.clone()),
        ];
        changes.extend_from_slice(more);
        vocabulary(&changes).unwrap()
    };
    // Only Llama 3 accepts `xyz`, which no merges produce, and a first token.
    for (pre, wanted) in [
        ("gpt-2", "x y z Ġ I T ' S Ġ 1234"),
        ("smollm", "x y z Ġ I T ' S Ġ 1 2 3 4"),
        ("llama-bpe", "xyz xyz Ġ I T 'S Ġ 123 4"),
        ("qwen2", "x y z Ġ I T 'S Ġ 1 2 3 4"),
    ] {
        let vocabulary = of(pre, &[]);
        let tokens = vocabulary.encode("xyz IT'S 1234", true).unwrap();
        let is: Vec<_> = tokens.iter().map(|&token| vocabulary.name(token).unwrap()).collect();
        assert_eq!(is.join(" "), wanted, "{pre}");
        // Qwen composes characters.
        let [composed, parts] = ["\u{e9}", "e\u{301}"].map(|text| vocabulary.encode(text, false).unwrap());
        assert_eq!(composed == parts, pre == "qwen2", "{pre}");
    }
    let without = of("llama-bpe", &[("tokenizer.ggml.add_bos_token", Value::Bool(false))]);
    assert_eq!(without.encode("xyz", true).unwrap().len(), 1);
}

#[test]
fn templates_of_llama_3_tinyllama_mistral_and_qwen3_are_rendered() {
    // The models' own templates, without tools.
    let [llama, tinyllama, mistral, qwen3] = [
        include_str!("templates/llama3.jinja"),
        include_str!("templates/tinyllama.jinja"),
        include_str!("templates/mistral.jinja"),
        include_str!("templates/qwen3.jinja"),
    ];
    let turn = |role, content: &str| Turn { role, content: content.to_owned() };
    let turns = [turn("user", "a"), turn("assistant", "<think>b</think>\n\nc"), turn("user", "d")];
    let prompt = |source: &str, turns: &[Turn]| {
        let file = synthetic::changed(
            "llama",
            &[("tokenizer.chat_template", text(source)), ("tokenizer.ggml.bos_token_id", Value::U32(0))],
        );
        let file = Gguf::open(&file.path).unwrap();
        let template = Template::of(&file, &Vocabulary::of(&file).unwrap()).unwrap().unwrap();
        template.prompt(turns).map_err(|error| error.to_string())
    };
    let first = &names()[0];
    let answer = "<think>b</think>\n\nc";
    let end = "<|im_end|>\n";
    let [user, assistant] =
        ["user", "assistant"].map(|role| format!("<|start_header_id|>{role}<|end_header_id|>\n\n"));
    let [asks, answers] = ["user", "assistant"].map(|role| format!("<|im_start|>{role}\n"));
    for (source, wanted) in [
        (llama, format!("{first}{user}a<|eot_id|>{assistant}{answer}<|eot_id|>{user}d<|eot_id|>{assistant}")),
        (tinyllama, format!("<|user|>\na{end}<|assistant|>\n{answer}{end}<|user|>\nd{end}<|assistant|>\n")),
        (mistral, format!("{first}[INST] a [/INST]{answer}<|im_end|>[INST] d [/INST]")),
        (qwen3, format!("{asks}a{end}{answers}c{end}{asks}d{end}{answers}")),
    ] {
        assert_eq!(prompt(source, &turns).unwrap(), wanted);
    }
    let error = prompt(mistral, &turns[1..]).unwrap_err();
    assert!(
        error.contains("template refuses the turns: ") && error.contains("roles must alternate"),
        "{error}"
    );
}

/// The pieces of a text by SentencePiece's algorithm: the adjacent pair whose piece has the best
/// score is joined, the first of equal ones; characters without a piece become bytes.
fn pieces(text: &str, scores: &HashMap<String, f32>) -> Vec<String> {
    let mut parts: Vec<String> = text.replace(' ', "\u{2581}").chars().map(String::from).collect();
    loop {
        let joined = |at: usize| scores.get(&parts[at..at + 2].concat()).map(|&score| (score, at));
        let best = (0..parts.len().saturating_sub(1)).filter_map(joined);
        let Some((_, at)) = best.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1))) else { break };
        let second = parts.remove(at + 1);
        parts[at] += &second;
    }
    let of_part = |part: String| match scores.contains_key(&part) {
        true => vec![part],
        false => part.bytes().map(|byte| format!("<0x{byte:02X}>")).collect(),
    };
    parts.into_iter().flat_map(of_part).collect()
}

#[test]
fn pieces_with_scores_are_those_of_sentencepiece_and_come_back_as_they_stream() {
    let mut random = fastrand::Rng::with_seed(4);
    let letters = ["a", "b", "\u{e9}", "\u{2581}"];
    let mut of_text: Vec<String> = letters.map(str::to_owned).to_vec();
    while of_text.len() < 60 {
        let piece: String = (0..random.usize(2..5)).map(|_| letters[random.usize(..4)]).collect();
        if !of_text.contains(&piece) {
            of_text.push(piece);
        }
    }
    let control = ["<unk>", "<s>", "</s>"].map(str::to_owned);
    let bytes = (0..256).map(|byte| format!("<0x{byte:02X}>"));
    let all: Vec<String> = control.into_iter().chain(bytes).chain(of_text.clone()).collect();
    let before = all.len() - of_text.len();
    // The letters have the lowest scores, as in SentencePiece.
    let score = |at: usize| if at < before { 0.0 } else { -(((at - before + 56) % 60) as f32) };
    let kind = |at: usize| match at {
        0 => 2,
        1 | 2 => 3,
        _ if at < before => 6,
        _ => 1,
    };
    let of = |prefix: bool| {
        vocabulary(&[
            ("tokenizer.ggml.model", text("llama")),
            ("tokenizer.ggml.tokens", texts(&all)),
            ("tokenizer.ggml.scores", Value::Array((0..all.len()).map(|at| Value::F32(score(at))).collect())),
            (
                "tokenizer.ggml.token_type",
                Value::Array((0..all.len()).map(|at| Value::I32(kind(at))).collect()),
            ),
            ("tokenizer.ggml.bos_token_id", Value::U32(1)),
            ("tokenizer.ggml.eos_token_id", Value::U32(2)),
            ("tokenizer.ggml.add_space_prefix", Value::Bool(prefix)),
        ])
        .unwrap()
    };
    let scores = of_text.iter().cloned().zip((before..).map(score)).collect();
    for (vocabulary, prefix) in [(of(true), " "), (of(false), "")] {
        for _ in 0..200 {
            // Characters without a piece, one after another, are bytes in a row.
            let some = ["a", "b", "\u{e9}", " ", "c", "\n", "\u{1f600}"];
            let text: String = (0..random.usize(1..12)).map(|_| some[random.usize(..7)]).collect();
            let tokens = vocabulary.encode(&text, true).unwrap();
            let is: Vec<_> = tokens.iter().map(|&token| vocabulary.name(token).unwrap()).collect();
            let wanted = pieces(&format!("{prefix}{text}"), &scores);
            assert_eq!(is, [&["<s>".to_owned()], &wanted[..]].concat(), "{text:?}");
            let mut stream = vocabulary.stream();
            let streamed: String = tokens.iter().map(|&token| stream.next(token).unwrap()).collect();
            assert_eq!(streamed, text, "{is:?}");
            assert_eq!(vocabulary.decode(&tokens).unwrap(), text);
        }
    }
}

#[test]
fn damaged_vocabularies_are_errors_with_their_keys() {
    let long = "<|im_start|> <|im_start|>";
    for (key, value, wanted) in [
        ("merges", texts(&["the the"]), "\"the\" and \"the\" merge, and thethe is not a token"),
        (
            "merges",
            texts(&[long]),
            "\"<|im_start|>\" and \"<|im_start|>\" merge, and <|im_start|><|im_start|> is",
        ),
        ("merges", texts(&["the"]), "an element is not two tokens with a space between"),
        ("tokens", Value::Array(vec![Value::U32(1)]), "the array has elements of an unexpected type"),
        ("tokens", text("the"), "an array is expected"),
        ("token_type", texts(&["a"]), "the array has elements of an unexpected type"),
        ("eos_token_id", Value::U32(260), "token 260, and the vocabulary has 260"),
        ("model", text("rwkv"), "it is Some(\"rwkv\"); supported are gpt2 and llama"),
        ("pre", text("tekken"), "it is \"tekken\"; supported are gpt-2, default, smollm"),
    ] {
        let key = format!("tokenizer.ggml.{key}");
        let error = vocabulary(&[(&key, value)]).err().unwrap().to_string();
        assert!(error.contains(&format!(".gguf: {key}: {wanted}")), "{error}");
    }
}
