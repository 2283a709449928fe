//! The profile as a table for a terminal.

use super::{Card, Counts, KernelProfile, Profile};

const HEADER: [&str; 9] = [
    "instr",
    "active",
    "global bytes",
    "sectors",
    "coalesced",
    "shared wavefronts",
    "conflicts",
    "bulk bytes",
    "line",
];

pub(super) fn profile(profile: &Profile, card: Option<&Card>) -> String {
    let mut text = String::new();
    for kernel in &profile.kernels {
        text += &heading(kernel);
        if let Some(card) = card {
            text += &on_card(kernel, card);
        }
        let mut rows = vec![HEADER.map(str::to_owned)];
        for ((file, line), counts) in &kernel.lines {
            let source = profile.sources.line(file, *line).unwrap_or_default();
            rows.push(row(counts, format!("{file}:{line}: {source}")));
        }
        rows.push(row(&kernel.total(), "all lines".to_owned()));
        let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let widths: [usize; HEADER.len()] = std::array::from_fn(width);
        for row in &rows {
            let cells = row.iter().zip(widths).take(HEADER.len() - 1);
            text += &cells.map(|(cell, width)| format!("{cell:>width$}  ")).collect::<String>();
            text += &row[HEADER.len() - 1];
            text.push('\n');
        }
        for (name, count) in &kernel.total().instructions {
            text += &format!("  {count} {name}\n");
        }
        text += "plain arithmetic is not seen here: `moye report` counts it in the PTX\n\n";
    }
    text
}

pub(super) fn heading(kernel: &KernelProfile) -> String {
    let KernelProfile { kernel, grid, block, shared_bytes, launches, .. } = kernel;
    format!(
        "kernel `{kernel}`: {launches} launches, grid {grid}, block {block}, {shared_bytes} bytes of shared memory\n"
    )
}

pub(super) fn on_card(kernel: &KernelProfile, card: &Card) -> String {
    let occupancy = kernel.occupancy(card);
    let registers =
        kernel.registers.map_or("registers are not known".to_owned(), |n| format!("{n} registers"));
    let roofline = card.roofline(kernel);
    let times: Vec<_> =
        roofline.times.iter().map(|(unit, seconds)| format!("{unit} {:.3} us", seconds * 1e6)).collect();
    format!(
        "on {}: {} blocks on a multiprocessor by {} ({registers}), at least {:.3} us by {} ({})\n",
        card.name,
        occupancy.blocks,
        occupancy.limit,
        roofline.seconds() * 1e6,
        roofline.limit(),
        times.join(", "),
    )
}

/// A percentage, or nothing where there is nothing to take it of.
pub(super) fn percent(fraction: f64, any: bool) -> String {
    if any { format!("{:.1}%", 100.0 * fraction) } else { String::new() }
}

/// A number, or nothing for 0.
pub(super) fn number(number: u64) -> String {
    if number == 0 { String::new() } else { number.to_string() }
}

pub(super) fn row(counts: &Counts, line: String) -> [String; HEADER.len()] {
    let (global, shared) = (counts.global(), counts.shared());
    [
        counts.warp_instructions().to_string(),
        percent(counts.active(), counts.live_lanes > 0),
        number(global.bytes),
        number(global.sectors),
        percent(global.coalescing(), global.sectors > 0),
        number(shared.wavefronts),
        if shared.wavefronts == 0 { String::new() } else { shared.conflicts().to_string() },
        number(counts.bulk_bytes),
        line,
    ]
}

pub(super) const COLUMNS: [&str; HEADER.len()] = HEADER;
