//! Reports as a table, one row for each kernel.

use super::{KernelReport, Report};

const HEADER: &[&str] = &[
    "kernel",
    "arch",
    "threads",
    "regs",
    "stack",
    "spills",
    "local",
    "shared",
    "ld.global",
    "st.global",
    "ld.shared",
    "st.shared",
    "cp.async",
    "ldmatrix",
    "fma",
    "mma",
    "wgmma",
    "bar",
    "all",
];

/// The kernels of these reports as a table, for a terminal.
pub fn table(reports: &[Report]) -> String {
    let mut rows = vec![HEADER.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>()];
    for report in reports {
        rows.extend(report.kernels.iter().map(|kernel| row(&report.arch.to_string(), kernel)));
    }
    let widths: Vec<_> =
        (0..HEADER.len()).map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<_> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    text
}

/// The instructions of each kernel by class: `k sm_80: 4 global load, 512 float, ...`.
pub fn classes(reports: &[Report]) -> String {
    let mut text = String::new();
    for report in reports {
        for kernel in &report.kernels {
            let counts = kernel.ptx.classes();
            let counts: Vec<_> =
                counts.iter().map(|(class, count)| format!("{count} {}", class.name())).collect();
            text += &format!("{} {}: {}\n", kernel.ptx.name, report.arch, counts.join(", "));
        }
    }
    text
}

fn row(arch: &str, kernel: &KernelReport) -> Vec<String> {
    let ptx = &kernel.ptx;
    let known = |number: Option<usize>| number.map_or("?".to_owned(), |n| n.to_string());
    let count = |name: &str| ptx.count(name).to_string();
    // `4x128 1x32`: four accesses of 128 bits and one of 32.
    let by_width = |name: &str| match kernel.widths(name) {
        widths if widths.is_empty() => "0".to_owned(),
        widths => widths.iter().rev().map(|(bits, n)| format!("{n}x{bits}")).collect::<Vec<_>>().join(" "),
    };
    // The assembler's value if it is known.
    let declared = kernel.usage.map_or(ptx.shared_bytes, |usage| usage.shared);
    let shared = declared + ptx.bounds.shared.map_or(0, |bytes| bytes as usize);
    vec![
        ptx.name.clone(),
        arch.to_owned(),
        ptx.bounds.threads.map_or("any".to_owned(), |threads| threads.to_string()),
        known(kernel.usage.map(|usage| usage.registers)),
        known(kernel.usage.map(|usage| usage.stack)),
        known(kernel.usage.map(|usage| usage.spills())),
        ptx.local_bytes.to_string(),
        shared.to_string(),
        by_width("ld.global"),
        by_width("st.global"),
        by_width("ld.shared"),
        by_width("st.shared"),
        // The copies, without commits and waits.
        ptx.count_where(|name| name.starts_with("cp.async") && name.contains(".shared")).to_string(),
        count("ldmatrix"),
        count("fma"),
        count("mma"),
        count("wgmma.mma_async"),
        (ptx.count("bar") + ptx.count("barrier")).to_string(),
        ptx.len().to_string(),
    ]
}
