//! The profile as an HTML page: each source file with the figures of its lines.

use super::text::{COLUMNS, Row, arithmetic, heading, on_card, row, shown};
use super::{Card, Counts, KernelProfile, Profile};
use std::collections::{BTreeMap, BTreeSet};

/// Source lines shown around lines with figures.
const AROUND: u32 = 4;

const STYLE: &str = "body{font:14px sans-serif;margin:2em}table{border-collapse:collapse}td,th{padding:1px 8px;text-align:right;\
white-space:pre}td:last-child,th:last-child{text-align:left;font-family:monospace}tr.bad td{background:#fdd}tr.gap td{height:8px}\
tr.sum td{border-top:1px solid}th{border-bottom:1px solid}.card th{text-align:left;border:0}.n{color:#888;padding-right:1em}\
tr.file td{text-align:left;font-family:sans-serif}";

/// The quantity by which the lines of a kernel are shaded.
#[derive(Clone, Copy)]
struct Shade {
    unit: &'static str,
    total: f64,
}

impl Shade {
    /// By what limits the kernel on a card, or by instructions.
    fn of(kernel: &KernelProfile, card: Option<&Card>) -> Self {
        let card = card.filter(|card| card.lacks(kernel).is_none());
        let unit = card.map_or("instruction issue", |card| card.roofline(kernel).limit());
        Self { unit, total: cost(&kernel.total(), unit) }
    }

    /// The fraction of a line, 0 to 1.
    fn share(self, line: &Counts) -> f64 {
        if self.total > 0.0 { cost(line, self.unit) / self.total } else { 0.0 }
    }
}

/// The cost of lines on a unit of the roofline.
fn cost(counts: &Counts, unit: &str) -> f64 {
    match unit {
        "memory" => counts.l2_bytes() as f64,
        "L1 sectors" => counts.global().sectors as f64,
        "shared memory" => counts.shared().wavefronts as f64,
        "tensor cores" => counts.tensor_operations().values().sum::<u64>() as f64,
        _ => counts.warp_instructions() as f64,
    }
}

pub(super) fn profile(profile: &Profile, card: Option<&Card>) -> String {
    let mut page = format!(
        "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>Profile</title><style>{STYLE}</style></head><body>\n"
    );
    for kernel in &profile.kernels {
        page += &format!("<h2>{}</h2>\n", escaped(heading(kernel).trim_end()));
        let shade = Shade::of(kernel, card);
        if let Some(card) = card {
            if card.lacks(kernel).is_none() {
                page += &format!("<p>Limited by <b>{}</b> on {}.</p>\n", shade.unit, escaped(card.name));
            }
            page += "<table class=\"card\">\n";
            for (name, fact) in on_card(kernel, card) {
                page += &format!("<tr><th>{name}</th><td>{}</td></tr>\n", escaped(&fact));
            }
            page += "</table>\n";
        }
        if kernel.registers.is_none() {
            page += "<p>Registers are not known: they may allow fewer blocks on an SM.</p>\n";
        }
        page += &format!("<p>A line is shaded by its share of {}.</p>\n", shade.unit);
        page += &lines(profile, kernel, shade);
        page += "<ul>\n";
        for (class, count) in kernel.total().classes() {
            page += &format!("<li>{count} {}</li>\n", class.name());
        }
        page += &format!("</ul>\n<p>{}</p>\n", escaped(arithmetic(kernel).trim_end()));
    }
    page + "</body></html>\n"
}

/// The lines of a kernel by files, and their sum, as one table.
fn lines(profile: &Profile, kernel: &KernelProfile, shade: Shade) -> String {
    let mut files: BTreeMap<&str, BTreeMap<u32, &Counts>> = BTreeMap::new();
    for ((file, line), counts) in &kernel.lines {
        files.entry(file).or_default().insert(*line, counts);
    }
    let total = row(&kernel.total(), "all lines".to_owned());
    let mut rows: Vec<Row> = kernel.lines.values().map(|counts| row(counts, String::new())).collect();
    rows.push(total.clone());
    let columns = shown(&rows);
    let mut page = "<table>\n<tr>".to_owned();
    page.extend(columns.iter().map(|column| format!("<th>{}</th>", COLUMNS[*column])));
    page += "</tr>\n";
    let wide = |class: &str, text: &str| {
        format!("<tr class=\"{class}\"><td colspan=\"{}\">{text}</td></tr>\n", columns.len())
    };
    for (file, lines) in files {
        page += &wide("file", &format!("<h3>{}</h3>", escaped(file)));
        let source = profile.sources.lines(file);
        let around: BTreeSet<u32> = lines
            .keys()
            .flat_map(|line| line.saturating_sub(AROUND).max(1)..=line + AROUND)
            .filter(|line| lines.contains_key(line) || *line as usize <= source.len())
            .collect();
        let mut last = None;
        for line in around {
            if last.is_some_and(|last| line > last + 1) {
                page += &wide("gap", "");
            }
            last = Some(line);
            let text = source.get(line as usize - 1).map_or("", String::as_str);
            page += &html_row(lines.get(&line).copied(), line, text, &columns, shade);
        }
    }
    page += "<tr class=\"sum\">";
    page.extend(columns.iter().map(|column| format!("<td>{}</td>", total[*column])));
    page + "</tr>\n</table>\n"
}

fn html_row(counts: Option<&Counts>, line: u32, text: &str, columns: &[usize], shade: Shade) -> String {
    let text = format!("<span class=\"n\">{line:>5}</span>{}", escaped(text));
    let Some(counts) = counts else {
        return format!("<tr><td colspan=\"{}\"></td><td>{text}</td></tr>\n", columns.len() - 1);
    };
    // Half of the transferred bytes are not requested, or half of the wavefronts are conflicts.
    let bad = counts.coalescing() < 0.5 || counts.conflict_degree() > 2.0;
    let cells = row(counts, text);
    let (source, figures) = columns.split_last().expect("the column of lines is always shown");
    let figures: String = figures.iter().map(|column| format!("<td>{}</td>", cells[*column])).collect();
    let percent = (100.0 * shade.share(counts)).round();
    let shaded = if percent > 0.0 {
        format!(
            " style=\"background:linear-gradient(to right,#fc6 {percent}%,transparent {percent}%)\" title=\"{percent}% of {}\"",
            shade.unit
        )
    } else {
        String::new()
    };
    let class = if bad { " class=\"bad\"" } else { "" };
    format!("<tr{class}>{figures}<td{shaded}>{}</td></tr>\n", cells[*source])
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
