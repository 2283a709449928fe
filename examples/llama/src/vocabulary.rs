//! Text to tokens and back, with a file's vocabulary.

use crate::error::{Error, Result};
use crate::gguf::{Gguf, Value};
use std::collections::HashMap;
use tokenizers::decoders::DecoderWrapper;
use tokenizers::decoders::byte_fallback::ByteFallback;
use tokenizers::decoders::fuse::Fuse;
use tokenizers::decoders::sequence::Sequence as Decoders;
use tokenizers::decoders::strip::Strip;
use tokenizers::models::bpe::{BPE, Merges, Vocab};
use tokenizers::normalizers::{NFC, Prepend, Replace, Sequence as Normalizers};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{AddedToken, SplitDelimiterBehavior, Tokenizer};

/// The vocabulary of a model.
pub struct Vocabulary {
    tokenizer: Tokenizer,
    /// The token before a prompt, if the model uses one.
    first: Option<u32>,
    /// The tokens that end an answer.
    ends: Vec<u32>,
    /// The names of tokens, by index.
    names: Vec<String>,
}

/// GGUF's kinds of tokens that match only by name: control tokens and user-defined ones.
const SPECIAL: [i128; 2] = [3, 4];
/// Names of tokens that end a turn.
const ENDS: [&str; 5] = ["<|im_end|>", "<|eot_id|>", "<|end_of_text|>", "<|endoftext|>", "</s>"];

/// The name of the way in which text is split before merges.
const PRE: &str = "tokenizer.ggml.pre";

/// The splitting of text before merges, by the name in `tokenizer.ggml.pre`. The expressions are
/// those of the models' `tokenizer.json`.
const CUTS: [(&[&str], Cut); 4] = [
    (&["gpt-2", "default"], Cut::Words),
    (&["smollm"], Cut::WordsAndDigits),
    (
        &["llama-bpe", "llama3", "smaug-bpe"],
        Cut::By(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ),
    ),
    (
        &["qwen2"],
        Cut::By(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ),
    ),
];

#[derive(Clone, Copy)]
enum Cut {
    /// GPT-2's words.
    Words,
    /// GPT-2's words, and each digit separately.
    WordsAndDigits,
    By(&'static str),
}

impl Vocabulary {
    /// The vocabulary of a file.
    ///
    /// # Errors
    /// [`Error::Key`] if its kind is not supported, or it is damaged.
    pub fn of(file: &Gguf) -> Result<Self> {
        let names: Vec<String> = file.array("tokenizer.ggml.tokens", text)?.into_iter().map(str::to_owned).collect();
        let key = "tokenizer.ggml.model";
        let mut tokenizer = match file.string(key)? {
            Some("gpt2") => byte_level(file, &names)?,
            Some("llama") => pieces(file, &names)?,
            other => {
                return Err(file.key_error(key, format!("it is {other:?}; supported are gpt2 and llama")));
            }
        };
        let kinds = "tokenizer.ggml.token_type";
        if file.metadata.contains_key(kinds) {
            let kinds = file.array(kinds, |kind| match kind {
                Value::Integer(kind) => Some(*kind),
                _ => None,
            })?;
            let special = names.iter().zip(kinds).filter(|(_, kind)| SPECIAL.contains(kind));
            let added = special.map(|(name, kind)| AddedToken::from(name.clone(), kind == SPECIAL[0]));
            let added = tokenizer.add_tokens(added.collect::<Vec<_>>());
            added.map_err(|error| file.key_error("tokenizer.ggml.tokens", error.to_string()))?;
        }
        let token = |key: &str| match file.number(key)? {
            Some(token) if token >= names.len() => {
                Err(file.key_error(key, format!("token {token}, and the vocabulary has {}", names.len())))
            }
            token => Ok(token.map(|token| token as u32)),
        };
        // SentencePiece and Llama 3 add the first token unless the file says otherwise.
        let llama_3 = file.string(PRE)?.is_some_and(is_llama_3);
        let adds = file.truth("tokenizer.ggml.add_bos_token")?;
        let adds = adds.unwrap_or(llama_3 || file.string(key)? == Some("llama"));
        let first = token("tokenizer.ggml.bos_token_id")?.filter(|_| adds);
        let mut ends: Vec<u32> = token("tokenizer.ggml.eos_token_id")?.into_iter().collect();
        ends.extend(token("tokenizer.ggml.eot_token_id")?);
        ends.extend(ENDS.iter().filter_map(|end| tokenizer.token_to_id(end)));
        ends.sort_unstable();
        ends.dedup();
        Ok(Self { tokenizer, first, ends, names })
    }

    /// The tokens of a text, which may name special ones; `begins` adds the model's first token.
    ///
    /// # Errors
    /// [`Error::Request`] if the vocabulary cannot represent the text.
    pub fn encode(&self, text: &str, begins: bool) -> Result<Vec<u32>> {
        let encoded = self.tokenizer.encode(text, false);
        let encoded = encoded.map_err(|error| Error::Request(format!("the prompt has no tokens: {error}")))?;
        let first = self.first.filter(|_| begins);
        Ok(first.into_iter().chain(encoded.get_ids().iter().copied()).collect())
    }

    /// The text of tokens.
    ///
    /// # Errors
    /// [`Error::Request`] for tokens of another vocabulary.
    pub fn decode(&self, tokens: &[u32]) -> Result<String> {
        let decoded = self.tokenizer.decode(tokens, true);
        decoded.map_err(|error| Error::Request(format!("the tokens have no text: {error}")))
    }

    /// Whether a token ends an answer.
    pub fn ends(&self, token: u32) -> bool {
        self.ends.contains(&token)
    }

    /// The name of a token.
    pub fn name(&self, token: u32) -> Option<&str> {
        self.names.get(token as usize).map(String::as_str)
    }

    /// Decodes tokens one at a time: each call returns the new text.
    pub fn stream(&self) -> TextStream<'_> {
        TextStream { vocabulary: self, tokens: Vec::new(), before: 0, shown: 0 }
    }
}

/// The state of decoding tokens one at a time.
pub struct TextStream<'a> {
    vocabulary: &'a Vocabulary,
    /// The tokens of the last returned text, and the tokens since then. Decoders treat the first
    /// token, and each run of byte tokens, as a whole: so the former are decoded again.
    tokens: Vec<u32>,
    /// The number of tokens of the last returned text, and its bytes.
    before: usize,
    shown: usize,
}

impl TextStream<'_> {
    /// Adds a token and returns the new text, which is empty while a character is incomplete.
    ///
    /// # Errors
    /// Same as [`Vocabulary::decode`].
    pub fn next(&mut self, token: u32) -> Result<String> {
        self.tokens.push(token);
        let text = self.vocabulary.decode(&self.tokens)?;
        let new = text.get(self.shown..).unwrap_or_default();
        // A replacement character at the end stands for an incomplete character.
        if new.is_empty() || new.ends_with(char::REPLACEMENT_CHARACTER) {
            return Ok(String::new());
        }
        self.tokens.drain(..self.before);
        self.before = self.tokens.len();
        self.shown = self.vocabulary.decode(&self.tokens)?.len();
        Ok(new.to_owned())
    }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => Some(text),
        _ => None,
    }
}

/// Merges of bytes, as in GPT-2.
fn byte_level(file: &Gguf, names: &[String]) -> Result<Tokenizer> {
    let key = "tokenizer.ggml.merges";
    let merges: Option<Merges> = file
        .array(key, text)?
        .into_iter()
        .map(|merge| merge.split_once(' ').map(|(a, b)| (a.to_owned(), b.to_owned())))
        .collect();
    let Some(merges) = merges else {
        return Err(file.key_error(key, "an element is not two tokens with a space between"));
    };
    let name = file.string(PRE)?.unwrap_or("default");
    let Some(&(_, cut)) = CUTS.iter().find(|(names, _)| names.contains(&name)) else {
        let known: Vec<_> = CUTS.iter().flat_map(|(names, _)| *names).copied().collect();
        return Err(file.key_error(PRE, format!("it is {name:?}; supported are {}", known.join(", "))));
    };
    let failed = |error: tokenizers::Error| file.key_error(key, error.to_string());
    let vocabulary: Vocab = names.iter().cloned().zip(0..).collect();
    // The builder relies on it.
    if let Some((a, b)) = merges.iter().find(|(a, b)| !vocabulary.contains_key(&[&**a, b].concat())) {
        return Err(file.key_error(key, format!("{a:?} and {b:?} merge, and {a}{b} is not a token")));
    }
    // Llama 3 keeps a word that is a token whole.
    let model = BPE::builder().vocab_and_merges(vocabulary, merges).ignore_merges(is_llama_3(name)).build();
    let mut tokenizer = Tokenizer::new(model.map_err(failed)?);
    let bytes = |words| PreTokenizerWrapper::from(ByteLevel::new(false, true, words));
    let cuts: PreTokenizerWrapper = match cut {
        Cut::Words => bytes(true),
        Cut::WordsAndDigits => Sequence::new(vec![Digits::new(true).into(), bytes(true)]).into(),
        Cut::By(expression) => {
            let pattern = SplitPattern::Regex(expression.to_owned());
            let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false).map_err(failed)?;
            Sequence::new(vec![split.into(), bytes(false)]).into()
        }
    };
    tokenizer.with_pre_tokenizer(Some(cuts));
    tokenizer.with_decoder(Some(ByteLevel::default()));
    if name == "qwen2" {
        tokenizer.with_normalizer(Some(NFC)).map_err(failed)?;
    }
    Ok(tokenizer)
}

/// Whether this way to split is Llama 3's.
fn is_llama_3(pre: &str) -> bool {
    pre.starts_with("llama")
}

/// Pieces with scores, as in SentencePiece: a pair merges into the piece with the best score.
fn pieces(file: &Gguf, names: &[String]) -> Result<Tokenizer> {
    let key = "tokenizer.ggml.scores";
    let scores = file.array(key, |score| match score {
        Value::Float(score) => Some(*score),
        _ => None,
    })?;
    if scores.len() != names.len() {
        return Err(file.key_error(key, format!("{} scores of {} tokens", scores.len(), names.len())));
    }
    let numbers: HashMap<&str, u32> = names.iter().map(String::as_str).zip(0..).collect();
    let mut ranked = Vec::new();
    for (name, &score) in names.iter().zip(&scores) {
        for (at, _) in name.char_indices().skip(1) {
            let (left, right) = name.split_at(at);
            if let (Some(&l), Some(&r)) = (numbers.get(left), numbers.get(right)) {
                ranked.push((score, l, r));
            }
        }
    }
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    let merges: Merges =
        ranked.into_iter().map(|(_, l, r)| (names[l as usize].clone(), names[r as usize].clone())).collect();
    let failed = |error: tokenizers::Error| file.key_error(key, error.to_string());
    let vocabulary: Vocab = names.iter().cloned().zip(0..).collect();
    let builder = BPE::builder().vocab_and_merges(vocabulary, merges).byte_fallback(true).fuse_unk(true);
    let mut tokenizer = Tokenizer::new(builder.unk_token("<unk>".to_owned()).build().map_err(failed)?);
    // SentencePiece writes a space as a special character, and usually adds one at the start.
    let space = Replace::new(" ", "\u{2581}").map_err(failed)?;
    let (mut normalizers, mut decoders) = (vec![space.into()], Vec::<DecoderWrapper>::new());
    decoders.push(Replace::new("\u{2581}", " ").map_err(failed)?.into());
    decoders.extend([ByteFallback::default().into(), Fuse::default().into()]);
    if file.truth("tokenizer.ggml.add_space_prefix")?.unwrap_or(true) {
        normalizers.insert(0, Prepend::new("\u{2581}".to_owned()).into());
        decoders.push(Strip::new(' ', 1, 0).into());
    }
    tokenizer.with_normalizer(Some(Normalizers::new(normalizers))).map_err(failed)?;
    tokenizer.with_decoder(Some(Decoders::new(decoders)));
    Ok(tokenizer)
}
