//! Sequences that join, are computed in one batch, and leave: continuous batching.
//!
//! A step reads a chunk of the prompts that are not in the cache yet, or computes a token of every
//! sequence. The token of every sequence is one graph: it reads the last tokens, positions, lengths
//! and slots from device memory, draws the next tokens and updates all of these, so that the host
//! only launches the graph and reads the tokens. A prompt's last token is the first one that the
//! graph reads.

mod limits;

pub use limits::{Limits, Sampling};

use crate::advance;
use crate::cache::Cache;
use crate::error::{Error, Result};
use crate::layer::{Batch, Scratch};
use crate::model::Model;
use half::f16;
use moye::{Buffer, GraphExec, Grid, Matrix, MatrixMut, Module, Stream};
use moye_rows::sample::Sample;

/// A sequence.
struct Row {
    /// Its tokens: prompt and answer.
    tokens: Vec<u32>,
    /// The number of tokens whose keys and values are in the cache.
    cached: usize,
    /// The maximum number of its tokens.
    most: usize,
    pages: Vec<i32>,
}

impl Row {
    /// Prompt tokens to read before the one that the graph reads.
    fn unread(&self) -> usize {
        self.tokens.len() - self.cached - 1
    }

    /// Whether the graph computes its next token.
    fn answers(&self) -> bool {
        self.unread() == 0 && self.tokens.len() < self.most
    }
}

/// The indices of a batch in device memory.
struct Numbers {
    tokens: Buffer<i32>,
    /// Positions, lengths and slots.
    state: Buffer<i32>,
    pages: Buffer<i32>,
}

/// A model with its sequences.
pub struct Engine {
    model: Model,
    limits: Limits,
    sampling: Sampling,
    stream: Stream,
    module: Module,
    cache: Cache,
    scratch: Scratch,
    logits: Buffer<f16>,
    rows: Vec<Option<Row>>,
    /// The indices of the sequences' next tokens, one row for each.
    next: Numbers,
    seeds: Buffer<i64>,
    /// The indices of the chunk of prompts.
    chunk: Numbers,
    /// The first token of each of the chunk's sequences and the end, and their lengths.
    offsets: Buffer<i32>,
    lengths: Buffer<i32>,
    /// Indexed by the logarithm of the number of rows.
    graphs: Vec<Option<GraphExec>>,
    /// Whether the device's indices differ from those of `rows`.
    changed: bool,
    /// The last step's tokens, by row.
    drawn: Vec<(usize, u32)>,
    /// The last `ahead` tokens of each row, on the device and as read by the host, and the number
    /// of them that are not in `rows` yet.
    computed: Buffer<i32>,
    read: Vec<i32>,
    waiting: usize,
}

impl Engine {
    /// An engine without sequences.
    ///
    /// # Errors
    /// [`Error::Request`] for impossible limits or sampling, and the errors of device memory.
    pub fn new(model: Model, limits: Limits, sampling: Sampling) -> Result<Self> {
        sampling.check()?;
        let Limits { sequences, page, pages, chunk, ahead, .. } = limits;
        if sequences == 0 || chunk == 0 || pages == 0 || ahead == 0 || !page.is_power_of_two() {
            let detail =
                format!("{limits:?}: pages are a power of two of tokens, and the other sizes 1 or more");
            return Err(Error::Request(detail));
        }
        if pages.checked_mul(page).is_none_or(|slots| slots > i32::MAX as usize) {
            return Err(Error::Request(format!(
                "{pages} pages of {page} tokens: {} slots at most",
                i32::MAX
            )));
        }
        let device = model.device().clone();
        let of_row = model.context().div_ceil(page);
        let numbers = |tokens: usize| {
            Ok::<_, moye::Error>(Numbers {
                tokens: device.alloc_zeroed(tokens)?,
                state: device.alloc_zeroed(3 * tokens)?,
                pages: device.alloc_zeroed(sequences * of_row)?,
            })
        };
        let config = model.config();
        Ok(Self {
            stream: device.new_stream()?,
            module: device.load(&crate::PTX)?,
            cache: Cache::new(&device, config, pages, page)?,
            scratch: Scratch::new(&device, config, chunk, sequences, model.context())?,
            logits: device.alloc_uninit(sequences * config.vocabulary)?,
            rows: (0..sequences).map(|_| None).collect(),
            next: numbers(sequences)?,
            seeds: device.alloc_zeroed(sequences)?,
            chunk: numbers(chunk)?,
            offsets: device.alloc_zeroed(sequences + 1)?,
            lengths: device.alloc_zeroed(sequences)?,
            graphs: (0..=sequences.next_power_of_two().ilog2()).map(|_| None).collect(),
            changed: true,
            drawn: Vec::with_capacity(sequences),
            computed: device.alloc_zeroed(sequences * ahead)?,
            read: vec![0; sequences * ahead],
            waiting: 0,
            model,
            limits,
            sampling,
        })
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The model, without its sequences.
    pub fn into_model(self) -> Model {
        self.model
    }

    /// Adds a sequence with a prompt and returns its row; `most` is the maximum number of tokens of
    /// the answer. `None` if no row or too few pages are free: try again after a sequence has left.
    ///
    /// # Errors
    /// [`Error::Request`] if the prompt is empty, is too long for the context or the cache, or has
    /// a token that the vocabulary lacks.
    pub fn join(&mut self, prompt: &[u32], most: usize) -> Result<Option<usize>> {
        let Some(row) = self.rows.iter().position(Option::is_none) else {
            self.check(prompt, most)?;
            return Ok(None);
        };
        let mut new = Row { tokens: Vec::new(), cached: 0, most: 0, pages: Vec::new() };
        if !self.set(&mut new, prompt, most)? {
            return Ok(None);
        }
        self.rows[row] = Some(new);
        Ok(Some(row))
    }

    /// Replaces the tokens of a row's sequence by `prompt`. The keys and values of the common
    /// prefix stay in the cache. Returns whether enough pages are free.
    ///
    /// # Errors
    /// Same as [`Engine::join`]; also if the row has no sequence.
    pub fn resume(&mut self, row: usize, prompt: &[u32], most: usize) -> Result<bool> {
        let Some(mut of) = self.rows.get_mut(row).and_then(Option::take) else {
            return Err(Error::Request(format!("row {row} has no sequence")));
        };
        let set = self.set(&mut of, prompt, most);
        self.rows[row] = Some(of);
        set
    }

    /// Removes a sequence and frees its pages.
    pub fn leave(&mut self, row: usize) {
        if let Some(mut row) = self.rows.get_mut(row).and_then(Option::take) {
            self.cache.release(&mut row.pages);
            self.changed = true;
        }
    }

    /// The tokens of a row's sequence, prompt and answer.
    pub fn tokens(&self, row: usize) -> &[u32] {
        self.rows.get(row).and_then(Option::as_ref).map_or(&[], |row| &row.tokens)
    }

    /// Prompt tokens that later steps will read.
    pub fn unread(&self) -> usize {
        self.rows.iter().flatten().map(Row::unread).sum()
    }

    /// Bytes that computing the next token of all sequences reads: weights, keys and values.
    pub fn bytes_of_token(&self) -> usize {
        let cached: usize = self.rows.iter().flatten().map(|row| row.tokens.len()).sum();
        self.model.bytes() + cached * self.cache.bytes_of_token()
    }

    /// Reads a chunk of prompts, or computes a token of every sequence: returns the new tokens by
    /// row, none after a chunk.
    ///
    /// # Errors
    /// The errors of the launches.
    pub fn step(&mut self) -> Result<&[(usize, u32)]> {
        self.drawn.clear();
        if self.unread() > 0 {
            self.read_chunk()?;
        } else if self.rows.iter().flatten().any(Row::answers) {
            self.next_tokens()?;
        }
        Ok(&self.drawn)
    }

    /// The logits of the last computed token of a row's sequence, for tests.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn logits(&self, row: usize) -> Result<Vec<f32>> {
        let vocabulary = self.model.config().vocabulary;
        let logits = self.logits.slice(row * vocabulary..(row + 1) * vocabulary)?.download()?;
        Ok(logits.into_iter().map(f16::to_f32).collect())
    }

    /// Checks that a sequence with this prompt, and an answer of at most `most` tokens, can join
    /// when all rows and pages are free.
    ///
    /// # Errors
    /// Same as [`Engine::join`].
    pub fn check(&self, prompt: &[u32], most: usize) -> Result<()> {
        let refuse = |detail| Err(Error::Request(detail));
        let (context, vocabulary) = (self.model.context(), self.model.config().vocabulary);
        let all = prompt.len().saturating_add(most);
        if prompt.is_empty() || most == 0 {
            return refuse("the prompt or the answer has no token".to_owned());
        }
        if all > context || all.div_ceil(self.limits.page) > self.limits.pages {
            let cache = self.limits.pages * self.limits.page;
            return refuse(format!(
                "a prompt of {} tokens and an answer of {most}: the context has {context}, and the cache {cache}",
                prompt.len()
            ));
        }
        match prompt.iter().find(|&&token| token as usize >= vocabulary) {
            Some(token) => refuse(format!("the prompt has token {token}, and the vocabulary {vocabulary}")),
            None => Ok(()),
        }
    }

    /// Sets the tokens of a row, and reserves pages for them and the answer.
    fn set(&mut self, row: &mut Row, prompt: &[u32], most: usize) -> Result<bool> {
        self.check(prompt, most)?;
        let most = prompt.len() + most;
        if !self.cache.reserve(&mut row.pages, most) {
            return Ok(false);
        }
        let alike = row.tokens.iter().zip(prompt).take_while(|(old, new)| old == new).count();
        // The last token is always read again, because its successor is drawn then.
        row.cached = row.cached.min(alike).min(prompt.len() - 1);
        row.tokens.clear();
        row.tokens.extend(prompt);
        row.tokens.reserve(most - prompt.len());
        row.most = most;
        self.changed = true;
        Ok(true)
    }

    /// Reads the next chunk of the prompts' tokens.
    fn read_chunk(&mut self) -> Result<()> {
        let of_row = self.model.context().div_ceil(self.limits.page);
        let (mut tokens, mut positions, mut slots, mut pages) = (vec![], vec![], vec![], vec![]);
        let (mut offsets, mut lengths, mut longest) = (vec![0], vec![], 0);
        for row in self.rows.iter_mut().flatten() {
            let count = row.unread().min(self.limits.chunk - tokens.len());
            if count == 0 {
                continue;
            }
            for token in row.cached..row.cached + count {
                tokens.push(row.tokens[token] as i32);
                positions.push(token as i32);
                slots.push(self.cache.slot(&row.pages, token));
            }
            row.cached += count;
            offsets.push(tokens.len() as i32);
            lengths.push(row.cached as i32);
            longest = longest.max(count);
            pages.extend(&row.pages);
            pages.resize(lengths.len() * of_row, 0);
        }
        self.changed = true;
        let (m, sequences) = (tokens.len(), lengths.len());
        let chunk = &mut self.chunk;
        chunk.tokens.slice_mut(..m)?.upload_from(&tokens)?;
        chunk.state.slice_mut(..m)?.upload_from(&positions)?;
        chunk.state.slice_mut(m..2 * m)?.upload_from(&slots)?;
        chunk.pages.slice_mut(..pages.len())?.upload_from(&pages)?;
        self.offsets.slice_mut(..=sequences)?.upload_from(&offsets)?;
        self.lengths.slice_mut(..sequences)?.upload_from(&lengths)?;
        let batch = Batch {
            tokens: m,
            positions: chunk.state.slice(..m)?,
            slots: chunk.state.slice(m..2 * m)?,
            sequences,
            offsets: Some((self.offsets.slice(..=sequences)?, longest)),
            lengths: self.lengths.slice(..sequences)?,
            pages: (chunk.pages.slice(..pages.len())?, of_row),
        };
        let tokens = chunk.tokens.slice(..m)?;
        // SAFETY: tokens and positions were checked when the sequences joined, and the sequences
        // have pages for them. No other stream uses the buffers: transfers wait for the stream.
        unsafe { self.model.read(&self.stream, tokens, &batch, &mut self.scratch, &mut self.cache)? };
        self.model.wait(&self.stream)?;
        Ok(())
    }

    /// Returns the next token of every sequence that answers; computes several at a time.
    fn next_tokens(&mut self) -> Result<()> {
        if self.changed {
            self.upload()?;
            self.waiting = 0;
        }
        if self.waiting == 0 {
            let answering = self.rows.iter().flatten().filter(|row| row.answers());
            let left = answering.map(|row| row.most - row.tokens.len()).min().unwrap_or(0);
            for _ in 0..left.min(self.limits.ahead) {
                self.compute_tokens()?;
                self.waiting += 1;
            }
            self.model.wait(&self.stream)?;
            self.computed.download_into(&mut self.read)?;
        }
        self.waiting -= 1;
        let ahead = self.limits.ahead;
        for (number, row) in self.rows.iter_mut().enumerate() {
            let Some(row) = row.as_mut().filter(|row| row.answers()) else { continue };
            let token = self.read[number * ahead + row.tokens.len() % ahead] as u32;
            row.cached += 1;
            row.tokens.push(token);
            self.drawn.push((number, token));
            // The next token omits a full row.
            self.changed |= !row.answers();
        }
        Ok(())
    }

    /// Launches the computation of the next token of every sequence that answers.
    fn compute_tokens(&mut self) -> Result<()> {
        let rows = 1 + self.rows.iter().rposition(|row| row.as_ref().is_some_and(Row::answers)).unwrap_or(0);
        let rows = rows.next_power_of_two().min(self.limits.sequences);
        let launch = |engine: &mut Self, stream: &Stream| {
            // SAFETY: `upload` wrote the rows' indices, also before the launches of a captured
            // graph, and one stream uses the buffers.
            unsafe { engine.launch_token(stream, rows) }
        };
        if !self.limits.graphs || !self.model.allows_graphs() {
            let stream = self.stream.clone();
            return Ok(launch(self, &stream)?);
        }
        let size = rows.next_power_of_two().ilog2() as usize;
        let mut graph = match self.graphs[size].take() {
            Some(graph) => graph,
            None => {
                let device = self.model.device().clone();
                device.capture(|stream| launch(self, stream))?.instantiate()?
            }
        };
        // SAFETY: the buffers belong to this engine and are alive; one stream uses them.
        let launched = unsafe { graph.launch(&self.stream) };
        self.graphs[size] = Some(graph);
        Ok(launched?)
    }

    /// Launches the computation of the next token of the first `rows` rows.
    ///
    /// # Safety
    /// When the work runs, the device's indices are those of the rows, and no other stream uses the
    /// buffers.
    unsafe fn launch_token(&mut self, stream: &Stream, rows: usize) -> moye::Result<()> {
        let (all, of_row) = (self.limits.sequences, self.model.context().div_ceil(self.limits.page));
        let batch = Batch {
            tokens: rows,
            positions: self.next.state.slice(..rows)?,
            lengths: self.next.state.slice(all..all + rows)?,
            slots: self.next.state.slice(2 * all..2 * all + rows)?,
            sequences: rows,
            offsets: None,
            pages: (self.next.pages.slice(..rows * of_row)?, of_row),
        };
        let vocabulary = self.model.config().vocabulary;
        let Sampling { temperature, top_p, .. } = self.sampling;
        let tokens = self.next.tokens.slice(..rows)?;
        self.model.read(stream, tokens, &batch, &mut self.scratch, &mut self.cache)?;
        self.model.logits(stream, &batch, &mut self.scratch, &mut self.logits)?;
        let mut tokens = MatrixMut::row_major(&mut self.next.tokens, rows, 1)?;
        Sample::new(Matrix::row_major(&self.logits, rows, vocabulary)?)
            .temperature(temperature)
            .top_p(top_p)
            .seeds(Matrix::row_major(&self.seeds, rows, 1)?)
            .run_on(stream, &mut tokens)?;
        let grid = Grid::new((all as u32).div_ceil(advance::THREADS), advance::THREADS).dependent();
        let [all, of_row, page, ahead] = [all, of_row, self.limits.page, self.limits.ahead].map(|n| n as u32);
        let Numbers { tokens, state, pages } = &mut self.next;
        let (seeds, drawn) = (&mut self.seeds, &mut self.computed);
        let arguments = (state, seeds, &*pages, &*tokens, drawn, all, of_row, page, ahead);
        self.module.launch_on(stream, &advance::advance, grid, arguments)
    }

    /// Writes the rows' indices to the device after sequences changed.
    fn upload(&mut self) -> Result<()> {
        let (all, of_row) = (self.limits.sequences, self.model.context().div_ceil(self.limits.page));
        let (mut tokens, mut state, mut seeds) = (vec![0; all], vec![0; 3 * all], vec![0; all]);
        let mut pages = vec![0; all * of_row];
        for (number, row) in self.rows.iter().enumerate() {
            // A row without a sequence has length 0 and no slot.
            state[2 * all + number] = -1;
            let Some(row) = row.as_ref().filter(|row| row.answers()) else { continue };
            tokens[number] = row.tokens[row.cached] as i32;
            state[number] = row.cached as i32;
            state[all + number] = row.cached as i32 + 1;
            state[2 * all + number] = self.cache.slot(&row.pages, row.cached);
            // By the position, so that a sequence draws the same tokens in any batch. Neighbouring
            // seeds differ in all bits.
            let seed = self.sampling.seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            seeds[number] = seed.rotate_left(29).cast_signed().wrapping_add(row.cached as i64);
            pages[number * of_row..][..row.pages.len()].copy_from_slice(&row.pages);
        }
        self.next.tokens.upload_from(&tokens)?;
        self.next.state.upload_from(&state)?;
        self.next.pages.upload_from(&pages)?;
        self.seeds.upload_from(&seeds)?;
        self.changed = false;
        Ok(())
    }
}
