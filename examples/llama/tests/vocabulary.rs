//! Text to tokens and back.

use crate::synthetic::{self, END, names};
use moye_llama::gguf::Gguf;
use moye_llama::template::{Template, Turn};
use moye_llama::vocabulary::Vocabulary;

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
