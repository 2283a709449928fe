//! The tables of `docs/performance.md`, one a card, from the CSV files in `docs/results/`. Files of
//! counters (`*-ncu.csv`), of what race detection costs (`*-races.csv`) and of what
//! compute-sanitizer finds (`*-sanitizer.csv`) have none there: docs/guide/profile.md and
//! debugging.md describe them.

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

/// Subjects of files, by the end of their names after the card; others have that end as subject.
const SUBJECTS: [(&str, &str); 23] = [
    ("", "products, copies and transposes"),
    ("attention", "kernels of attention beside cuDNN and FlashAttention-2"),
    ("attention-e4m3", "kernels of attention of e4m3 beside cuDNN's"),
    ("attention-heads", "attention with heads of other sizes"),
    ("attention-options", "attention with options, from Python"),
    ("attention-scores", "attention with options that change scores, and heads of 96 and 192"),
    ("attention-splits", "attention with few tiles, splits and pages"),
    ("attention-tokens", "decoding with several query tokens, by two numbers of splits"),
    ("attention-steps", "the steps of the guide to attention"),
    ("collectives", "kernels beside their earlier forms, and gated products"),
    ("hopper-steps", "the steps of the guide to Hopper"),
    ("host", "the host's time of a call"),
    ("instructions", "instructions alone"),
    ("interop", "other libraries"),
    ("ladder", "the ladder"),
    ("mma-sync", "kernels by `mma.sync` and FMA beside their earlier forms"),
    ("one-wave", "kernels of one wave of tiles, as instances of the collective and before"),
    ("parallel", "products over several GPUs beside PyTorch"),
    ("peers", "calls from Python beside PyTorch and Triton"),
    ("peers-profiled", "calls from Python under `ncu`"),
    ("products", "products with block scales and by group beside PyTorch"),
    ("rows", "operations along rows beside a copy and PyTorch"),
    ("variants", "variants of kernels"),
];
/// Writes the tables into the page, or, if `check`, fails where the page has others.
pub fn run(checkout: &Checkout, check: bool) -> Result<()> {
    let page = checkout.root.join("docs/performance.md");
    let text = fs::read_to_string(&page).with_context(|| format!("cannot read {}", page.display()))?;
    let new = replaced(&text, &tables(&checkout.root.join("docs/results"))?)?;
    if new == text {
        return Ok(());
    }
    if check {
        bail!("docs/performance.md has other tables than docs/results; `cargo xtask results` writes them");
    }
    fs::write(&page, new).with_context(|| format!("cannot write {}", page.display()))
}

/// The page with its generated part replaced.
fn replaced(text: &str, tables: &str) -> Result<String> {
    let [begin, end] = MARKS;
    let parts = text.split_once(begin).and_then(|(head, rest)| Some((head, rest.split_once(end)?.1)));
    let Some((head, tail)) = parts else {
        bail!("docs/performance.md has no lines `{}` and `{}`", begin.trim(), end.trim());
    };
    Ok(format!("{head}{begin}{tables}{end}{tail}"))
}

/// A table a file, in the order of the files' names.
fn tables(folder: &Path) -> Result<String> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let ends = |end: &str| path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(end));
        let is_described = ["-ncu.csv", "-races.csv", "-sanitizer.csv"].into_iter().any(ends);
        if !is_described && path.extension().is_some_and(|extension| extension == "csv") {
            let text = fs::read_to_string(&path)?;
            files.insert(path.file_name().unwrap_or_default().to_string_lossy().into_owned(), text);
        }
    }
    let mut all = String::new();
    for (name, text) in files {
        table(&mut all, &name, &text).with_context(|| format!("docs/results/{name}"))?;
    }
    Ok(all)
}

fn table(all: &mut String, name: &str, text: &str) -> Result<()> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    if *reader.headers()? != HEADER[..] {
        bail!("its columns are not {}", HEADER.join(", "));
    }
    let rows = reader.records().collect::<Result<Vec<_>, _>>()?;
    let Some(first) = rows.first() else { bail!("it has no rows") };
    writeln!(all, "\n### {}, {}: {}\n", &first[1], &first[0], subject(name))?;
    writeln!(all, "`{}` ([{name}](results/{name}))\n", &first[9])?;
    writeln!(all, "| work | moye | peer | ratio | MHz | note |\n| --- | ---: | ---: | ---: | ---: | --- |")?;
    for row in &rows {
        let [work, moye, peer, peer_name, unit, ratio, mhz] =
            [2, 3, 4, 5, 6, 7, 8].map(|column| &row[column]);
        let peer = if peer.is_empty() { String::new() } else { format!("{peer} ({peer_name})") };
        writeln!(all, "| {work} | {moye} {unit} | {peer} | {ratio} | {mhz} | {} |", &row[10])?;
    }
    Ok(())
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
        let error = table(&mut String::new(), "a.csv", "date,card\n1,2\n").unwrap_err();
        assert!(error.to_string().starts_with("its columns are not date, card, work"), "{error}");
    }

    #[test]
    fn the_generated_part_is_replaced_and_the_rest_kept() {
        let text = format!("head\n{}old\n{}tail\n", MARKS[0], MARKS[1]);
        assert_eq!(replaced(&text, "new\n").unwrap(), format!("head\n{}new\n{}tail\n", MARKS[0], MARKS[1]));
        assert!(replaced("no marks", "new").is_err());
    }

    #[test]
    fn headings_differ() {
        let tables = tables(&Checkout::find().unwrap().root.join("docs/results")).unwrap();
        let headings: Vec<_> = tables.lines().filter(|line| line.starts_with("### ")).collect();
        assert_eq!(headings.iter().collect::<BTreeSet<_>>().len(), headings.len(), "{headings:#?}");
    }

    #[test]
    fn rows_that_lose_have_a_reason() {
        let tables = tables(&Checkout::find().unwrap().root.join("docs/results")).unwrap();
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
    fn the_page_has_the_tables_of_the_files() {
        run(&Checkout::find().unwrap(), true).unwrap();
    }
}
