//! The measurements in `docs/results`: the overview in their README, one row for each
//! file, and the files themselves as tables. Files of counters (`*-ncu.csv`), of the cost of race
//! detection (`*-races.csv`) and of compute-sanitizer's findings (`*-sanitizer.csv`) have neither:
//! docs/guide/profile.md and debugging.md describe them.

use crate::checkout::Checkout;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// The columns of a results file.
const HEADER: [&str; 11] =
    ["date", "card", "work", "moye", "peer", "peer_name", "unit", "ratio", "mhz", "command", "note"];
/// The lines around the generated part of the page.
const MARKS: [&str; 2] = ["<!-- results: begin -->\n", "<!-- results: end -->\n"];

/// Subjects of files, by the end of their names after the card; for other files the end is the
/// subject.
const SUBJECTS: &[(&str, &str)] = &[
    ("", "products, copies and transposes"),
    ("attention", "kernels of attention beside cuDNN and FlashAttention-2"),
    ("attention-e4m3", "kernels of attention of e4m3 beside cuDNN's"),
    ("attention-heads", "attention with heads of other sizes"),
    ("attention-one-body", "attention on Hopper by one body beside the three before it"),
    ("attention-options", "attention with options, from Python"),
    ("attention-scores", "attention with options that change scores, and heads of 96 and 192"),
    ("attention-splits", "attention with few tiles, splits and pages"),
    ("attention-tokens", "decoding with several query tokens, by two numbers of splits"),
    ("attention-steps", "the steps of the guide to attention"),
    ("before-and-after", "the program beside the one before its last rewrites"),
    ("collectives", "collectives beside the kernels that they replaced, and gated products"),
    ("experts", "layers of experts and products by group beside PyTorch"),
    ("hopper-steps", "the steps of the guide to Hopper"),
    ("host", "the host's time of a call"),
    ("instructions", "instructions alone"),
    ("interop", "other libraries"),
    ("ladder", "the ladder"),
    ("llama", "tokens and prompts of language models beside PyTorch"),
    ("minilm", "sentence embeddings beside PyTorch"),
    ("mma-sync", "kernels by `mma.sync` and FMA beside their earlier forms"),
    ("one-wave", "kernels of one wave of tiles: instances of the collective beside their earlier bodies"),
    ("parallel", "products over several GPUs beside PyTorch"),
    ("peers", "calls from Python beside PyTorch and Triton"),
    ("peers-profiled", "calls from Python under `ncu`"),
    ("products", "products with block scales and by group beside PyTorch"),
    ("rows", "operations along rows beside a copy and PyTorch"),
    ("variants", "variants of kernels"),
    ("weights", "products by quantised weights beside cuBLAS"),
];

/// Writes the overview into the page, or, if `check`, fails if the page has another one.
pub fn run(checkout: &Checkout, check: bool) -> Result<()> {
    let page = checkout.root.join("docs/results/README.md");
    let text = fs::read_to_string(&page).with_context(|| format!("cannot read {}", page.display()))?;
    let new = replaced(&text, &overview(&files(&checkout.root.join("docs/results"))?))?;
    if new == text {
        return Ok(());
    }
    if check {
        bail!(
            "docs/results/README.md has another overview than the files give; `cargo xtask results` writes it"
        );
    }
    fs::write(&page, new).with_context(|| format!("cannot write {}", page.display()))
}

/// The files whose names contain all of these words, as tables.
pub fn shown(checkout: &Checkout, words: &[&str]) -> Result<String> {
    let mut files = files(&checkout.root.join("docs/results"))?;
    files.retain(|file| words.iter().all(|&word| file.name.contains(word)));
    if files.is_empty() {
        bail!("no file of docs/results has {} in its name", words.join(" and "));
    }
    Ok(files.iter().map(File::table).collect())
}

/// The page with its generated part replaced.
fn replaced(text: &str, tables: &str) -> Result<String> {
    let [begin, end] = MARKS;
    let parts = text.split_once(begin).and_then(|(head, rest)| Some((head, rest.split_once(end)?.1)));
    let Some((head, tail)) = parts else {
        bail!("docs/results/README.md has no lines `{}` and `{}`", begin.trim(), end.trim());
    };
    Ok(format!("{head}{begin}{tables}{end}{tail}"))
}

/// A file of measurements.
struct File {
    name: String,
    rows: Vec<csv::StringRecord>,
}

/// The files, sorted by name.
fn files(folder: &Path) -> Result<Vec<File>> {
    let mut texts = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let ends = |end: &str| path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(end));
        let is_described = ["-ncu.csv", "-races.csv", "-sanitizer.csv"].into_iter().any(ends);
        if !is_described && path.extension().is_some_and(|extension| extension == "csv") {
            let text = fs::read_to_string(&path)?;
            texts.insert(path.file_name().unwrap_or_default().to_string_lossy().into_owned(), text);
        }
    }
    texts
        .into_iter()
        .map(|(name, text)| File::new(&name, &text).with_context(|| format!("docs/results/{name}")))
        .collect()
}

/// One row for each file: its number of rows, its peers, and the ratios.
fn overview(files: &[File]) -> String {
    let mut all = "\n| card, date | what | rows | beside | ratio: least, median, most |\n\
                   | --- | --- | ---: | --- | --- |\n"
        .to_owned();
    for file in files {
        let (name, first) = (&file.name, &file.rows[0]);
        let (peers, ratios) = (file.peers(), file.ratios());
        let (card, date, what, rows) = (&first[1], &first[0], subject(name), file.rows.len());
        writeln!(all, "| {card}, {date} | [{what}]({name}) | {rows} | {peers} | {ratios} |")
            .expect("a string takes all");
    }
    all + "\n"
}

impl File {
    fn new(name: &str, text: &str) -> Result<Self> {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        if *reader.headers()? != HEADER[..] {
            bail!("its columns are not {}", HEADER.join(", "));
        }
        let rows = reader.records().collect::<Result<Vec<_>, _>>()?;
        if rows.is_empty() {
            bail!("it has no rows");
        }
        Ok(Self { name: name.to_owned(), rows })
    }

    /// The names of the peers; only the first three if there are more.
    fn peers(&self) -> String {
        const MOST: usize = 3;
        let mut names = Vec::new();
        for name in self.rows.iter().map(|row| &row[5]).filter(|name| !name.is_empty()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let shown = names[..names.len().min(MOST)].join(", ");
        match names.len().saturating_sub(MOST) {
            0 => shown,
            more => format!("{shown} and {more} more"),
        }
    }

    /// The minimum, the median and the maximum ratio.
    fn ratios(&self) -> String {
        let mut ratios: Vec<f64> = self.rows.iter().filter_map(|row| row[7].parse().ok()).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        match ratios[..] {
            [] => String::new(),
            [least, .., most] => format!("{least:.2}, {:.2}, {most:.2}", ratios[ratios.len() / 2]),
            [one] => format!("{one:.2}"),
        }
    }

    /// The rows as a table.
    fn table(&self) -> String {
        let (mut all, first) = (String::new(), &self.rows[0]);
        let mut line = |text: String| all.extend([text.as_str(), "\n"]);
        line(format!("\n### {}, {}: {}\n", &first[1], &first[0], subject(&self.name)));
        line(format!("`{}` (docs/results/{})\n", &first[9], self.name));
        line("| work | moye | peer | ratio | MHz | note |".into());
        line("| --- | ---: | ---: | ---: | ---: | --- |".into());
        for row in &self.rows {
            let [work, moye, peer, peer_name, unit, ratio, mhz] =
                [2, 3, 4, 5, 6, 7, 8].map(|column| &row[column]);
            let peer = if peer.is_empty() { String::new() } else { format!("{peer} ({peer_name})") };
            line(format!("| {work} | {moye} {unit} | {peer} | {ratio} | {mhz} | {} |", &row[10]));
        }
        all
    }
}

/// The subject of a file such as `2026-11-27-h100-peers.csv`.
fn subject(name: &str) -> String {
    let after_date = name.trim_end_matches(".csv").get("2026-11-27-".len()..).unwrap_or_default();
    let end = after_date.split_once('-').map_or("", |(_card, end)| end);
    let known = SUBJECTS.iter().find(|(known, _)| *known == end);
    known.map_or_else(|| end.replace('-', " "), |(_, subject)| (*subject).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// A row with a lower ratio has a reason in its note.
    const LOSES: f64 = 0.97;
    /// Parts of notes that do not explain a lower rate.
    const NO_REASONS: [&str; 4] = [
        "replays of a graph",
        "no side has a mask",
        "cuDNN has the operands in bf16",
        "PyTorch's scaled_dot_product_attention takes no pages",
    ];

    #[test]
    fn a_file_with_other_columns_is_refused() {
        let error = File::new("a.csv", "date,card\n1,2\n").err().unwrap();
        assert!(error.to_string().starts_with("its columns are not date, card, work"), "{error}");
    }

    #[test]
    fn the_generated_part_is_replaced_and_the_rest_kept() {
        let text = format!("head\n{}old\n{}tail\n", MARKS[0], MARKS[1]);
        assert_eq!(replaced(&text, "new\n").unwrap(), format!("head\n{}new\n{}tail\n", MARKS[0], MARKS[1]));
        assert!(replaced("no marks", "new").is_err());
    }

    #[test]
    fn a_file_is_a_row_of_the_overview_and_a_table_when_it_is_named() {
        let row = |ratio: &str, peer: &str| {
            format!("2026-11-27,H100,f16,9,10,{peer},TFLOP/s,{ratio},1980,bench,\n")
        };
        let rows = [row("0.9", "A"), row("1.1", "B"), row("1.0", "A"), row("", "")].concat();
        let file = File::new("2026-11-27-h100-ladder.csv", &format!("{}\n{rows}", HEADER.join(","))).unwrap();
        assert_eq!(
            overview(std::slice::from_ref(&file)).lines().nth(3).unwrap(),
            "| H100, 2026-11-27 | [the ladder](2026-11-27-h100-ladder.csv) | 4 | A, B | 0.90, 1.00, 1.10 |"
        );
        assert!(file.table().contains("| f16 | 9 TFLOP/s | 10 (B) | 1.1 | 1980 |  |"), "{}", file.table());
        let checkout = Checkout::find().unwrap();
        assert!(shown(&checkout, &["h200", "weights"]).unwrap().contains("W4A16"));
        let error = shown(&checkout, &["no", "such"]).unwrap_err().to_string();
        assert_eq!(error, "no file of docs/results has no and such in its name");
    }

    #[test]
    fn headings_differ() {
        let tables = shown(&Checkout::find().unwrap(), &[]).unwrap();
        let headings: Vec<_> = tables.lines().filter(|line| line.starts_with("### ")).collect();
        assert_eq!(headings.iter().collect::<BTreeSet<_>>().len(), headings.len(), "{headings:#?}");
    }

    #[test]
    fn rows_that_lose_have_a_reason() {
        let tables = shown(&Checkout::find().unwrap(), &[]).unwrap();
        let mut losing = 0;
        for row in tables.lines() {
            let cells: Vec<_> = row.split('|').map(str::trim).collect();
            let [_, _, _, _, ratio, _, note, _] = cells[..] else { continue };
            if ratio.parse::<f64>().is_ok_and(|ratio| ratio < LOSES) {
                losing += 1;
                assert!(
                    note.split("; ").any(|part| !part.is_empty() && !NO_REASONS.contains(&part)),
                    "{row}"
                );
            }
        }
        assert!(losing > 50, "{losing} rows");
    }

    #[test]
    fn the_page_has_the_overview_of_the_files() {
        run(&Checkout::find().unwrap(), true).unwrap();
    }
}
