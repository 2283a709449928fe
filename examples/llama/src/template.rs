//! The template by which a model formats the turns of a conversation.

use crate::error::{Error, Result};
use crate::gguf::Gguf;
use crate::vocabulary::Vocabulary;
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, ErrorKind, Value, context};

/// A turn of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// `system`, `user` or `assistant`.
    pub role: &'static str,
    /// Its content.
    pub content: String,
}

/// The template of a file.
pub struct Template {
    environment: Environment<'static>,
    first: String,
    last: String,
}

const KEY: &str = "tokenizer.chat_template";

impl Template {
    /// The template of a file, if it has one.
    ///
    /// # Errors
    /// [`Error::Key`] if it is not a template.
    pub fn of(file: &Gguf, vocabulary: &Vocabulary) -> Result<Option<Self>> {
        let Some(source) = file.string(KEY)? else { return Ok(None) };
        let mut environment = Environment::new();
        // Rendered as by Hugging Face's library.
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|error| file.key_error(KEY, error.to_string()))?);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |detail: String| {
            Err::<Value, _>(minijinja::Error::new(ErrorKind::InvalidOperation, detail))
        });
        let added = environment.add_template_owned("chat", source.to_owned());
        added.map_err(|error| file.key_error(KEY, error.to_string()))?;
        let name = |key: &str| {
            let token = file.number(key)?;
            Ok::<_, Error>(token.and_then(|token| vocabulary.name(token as u32)).unwrap_or_default().to_owned())
        };
        let (first, last) = (name("tokenizer.ggml.bos_token_id")?, name("tokenizer.ggml.eos_token_id")?);
        Ok(Some(Self { environment, first, last }))
    }

    /// The prompt that requests the answer to the last turn.
    ///
    /// # Errors
    /// [`Error::Request`] if the template rejects the turns.
    pub fn prompt(&self, turns: &[Turn]) -> Result<String> {
        let turns = turns.iter().map(|turn| context! { role => turn.role, content => &turn.content });
        let context = context! {
            messages => turns.collect::<Vec<_>>(),
            add_generation_prompt => true,
            bos_token => &self.first,
            eos_token => &self.last,
        };
        let prompt = self.environment.get_template("chat").and_then(|template| template.render(context));
        prompt.map_err(|error| Error::Request(format!("the model's chat template refuses the turns: {error}")))
    }
}
