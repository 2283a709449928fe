//! The profile as a page of HTML: each source file with the figures of its lines.

use super::text::{COLUMNS, Row, arithmetic, heading, on_card, row, shown};
use super::{Card, Counts, Profile};
use std::collections::{BTreeMap, BTreeSet};

/// Lines of the source shown around those with figures.
const AROUND: u32 = 4;

const STYLE: &str = "body{font:14px sans-serif;margin:2em}table{border-collapse:collapse}td,th{padding:1px 8px;text-align:right;\
white-space:pre}td:last-child,th:last-child{text-align:left;font-family:monospace}tr.bad td{background:#fdd}tr.gap td{height:8px}\
tr.sum td{border-top:1px solid}th{border-bottom:1px solid}.card th{text-align:left;border:0}.n{color:#888;padding-right:1em}";

pub(super) fn profile(profile: &Profile, card: Option<&Card>) -> String {
    let mut page = format!(
        "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>Profile</title><style>{STYLE}</style></head><body>\n"
    );
    for kernel in &profile.kernels {
        page += &format!("<h2>{}</h2>\n", escaped(heading(kernel).trim_end()));
        if let Some(card) = card {
            page += "<table class=\"card\">\n";
            for (name, fact) in on_card(kernel, card) {
                page += &format!("<tr><th>{name}</th><td>{}</td></tr>\n", escaped(&fact));
            }
            page += "</table>\n";
        }
        let mut files: BTreeMap<&str, BTreeMap<u32, &Counts>> = BTreeMap::new();
        for ((file, line), counts) in &kernel.lines {
            files.entry(file).or_default().insert(*line, counts);
        }
        let rows: Vec<Row> = kernel.lines.values().map(|counts| row(counts, String::new())).collect();
        let columns = shown(&rows);
        for (file, lines) in files {
            page += &format!("<h3>{}</h3>\n<table>\n<tr>", escaped(file));
            page.extend(columns.iter().map(|column| format!("<th>{}</th>", COLUMNS[*column])));
            page += "</tr>\n";
            let source = profile.sources.lines(file);
            let around: BTreeSet<u32> = lines
                .keys()
                .flat_map(|line| line.saturating_sub(AROUND).max(1)..=line + AROUND)
                .filter(|line| lines.contains_key(line) || *line as usize <= source.len())
                .collect();
            let mut last = None;
            for line in around {
                if last.is_some_and(|last| line > last + 1) {
                    page += &format!("<tr class=\"gap\"><td colspan=\"{}\"></td></tr>\n", columns.len());
                }
                last = Some(line);
                let text = source.get(line as usize - 1).map_or("", String::as_str);
                page += &html_row(lines.get(&line).copied(), line, text, &columns);
            }
            page += "</table>\n";
        }
        page += "<table><tr class=\"sum\">";
        let total = row(&kernel.total(), "all lines".to_owned());
        page.extend(columns.iter().map(|column| format!("<td>{}</td>", total[*column])));
        page += "</tr></table>\n<ul>\n";
        for (class, count) in kernel.total().classes() {
            page += &format!("<li>{count} {}</li>\n", class.name());
        }
        page += &format!("</ul>\n<p>{}</p>\n", escaped(arithmetic(kernel).trim_end()));
    }
    page + "</body></html>\n"
}

fn html_row(counts: Option<&Counts>, line: u32, text: &str, columns: &[usize]) -> String {
    let text = format!("<span class=\"n\">{line:>5}</span>{}", escaped(text));
    let Some(counts) = counts else {
        return format!("<tr><td colspan=\"{}\"></td><td>{text}</td></tr>\n", columns.len() - 1);
    };
    // Half of what is moved is not wanted, or half of the wavefronts are conflicts.
    let bad = counts.coalescing() < 0.5 || counts.conflict_degree() > 2.0;
    let cells = row(counts, text);
    let cells: String = columns.iter().map(|column| format!("<td>{}</td>", cells[*column])).collect();
    format!("<tr{}>{cells}</tr>\n", if bad { " class=\"bad\"" } else { "" })
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
