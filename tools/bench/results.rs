//! The results and their output: a table in Markdown, JSON, CSV.

use super::timing::Times;
use crate::Seen;
use serde::Serialize;
use std::fmt::Write;

/// A rate: the median, minimum and maximum of the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The median.
    pub median: f64,
    /// The minimum.
    pub least: f64,
    /// The maximum.
    pub most: f64,
    /// The median time of one run, in seconds.
    pub seconds: f64,
}

impl Figure {
    /// The rate of `amount` work in these times: 10^12 operations, or GB.
    pub fn new(times: &Times, amount: f64) -> Self {
        Self {
            median: amount / times.median(),
            least: amount / times.most(),
            most: amount / times.least(),
            seconds: times.median(),
        }
    }
}

/// One line of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// `matmul`, `copy` or `transpose`.
    pub work: &'static str,
    /// The element type: `f16`, `tf32`, ...; for a copy its bytes.
    pub kind: String,
    /// The majors of A and B: `tn`, ...
    pub majors: Option<String>,
    /// The epilogue of a product: `bias, relu`, ...
    pub epilogue: Option<String>,
    /// The instruction of a product if another kernel than the chosen one is measured: `mma.sync`.
    pub by: Option<String>,
    /// The idle time before each batch of launches, in milliseconds.
    pub rest_ms: u64,
    /// The rows of the result; for a copy or transpose, of the matrix.
    pub m: usize,
    /// The columns.
    pub n: usize,
    /// The columns of A, of a product.
    pub k: Option<usize>,
    /// The unit of all rates: `TFLOP/s`, `TOP/s` or `GB/s`.
    pub unit: &'static str,
    /// Our rate.
    pub moye: Figure,
    /// The peer's name and rate.
    pub peer: Option<(&'static str, Figure)>,
    /// The reason for a missing peer.
    pub no_peer: Option<String>,
    /// The peak rate of the kernel's instruction.
    pub limit: Option<f64>,
    /// The relative error against float64, in norm, for some elements.
    pub relative_error: Option<f64>,
    /// Our kernel.
    pub kernel: String,
    /// Clocks, temperature and power while ours ran.
    pub seen: Seen,
}

/// The conditions under which all rows were measured.
#[derive(Clone, Debug, Serialize)]
pub struct Conditions {
    /// The name of the GPU.
    pub device: String,
    /// Its architecture.
    pub arch: String,
    /// Its number of SMs.
    pub multiprocessors: u32,
    /// The CUDA version of the driver.
    pub driver: Option<(u32, u32)>,
    /// The date, such as 2026-11-21, by the system's clock in UTC.
    pub date: String,
    /// The rounds.
    pub rounds: usize,
    /// Whether the L2 cache is flushed before each launch.
    pub flush_l2: bool,
    /// The minimum idle time before each batch of launches, in milliseconds; some rows have more.
    pub rest_ms: u64,
    /// The first sample.
    pub before: Seen,
    /// The reason for missing samples.
    pub unseen: Option<String>,
    /// The version of this program.
    pub moye: &'static str,
}

impl Row {
    /// The measurement in words.
    pub fn what(&self) -> String {
        match (self.k, &self.majors) {
            (Some(k), Some(majors)) => {
                let epilogue = self.epilogue.as_ref().map_or(String::new(), |name| format!(", {name}"));
                let by = match (&self.by, self.rest_ms) {
                    (None, _) => String::new(),
                    (Some(by), 0) => format!(" by {by}"),
                    (Some(by), rest) => format!(" by {by}, rests of {rest} ms"),
                };
                format!("{} {majors} {} x {} x {k}{by}{epilogue}", self.kind, self.m, self.n)
            }
            _ => format!("{} {} {} x {}", self.work, self.kind, self.m, self.n),
        }
    }

    /// The ratio of our rate to the peer's.
    pub fn ratio(&self) -> Option<f64> {
        self.peer.map(|(_, peer)| self.moye.median / peer.median)
    }
}

/// Three digits, or all digits before the decimal point.
fn digits(value: f64) -> String {
    match value {
        value if value >= 99.95 => format!("{value:.0}"),
        value if value >= 9.995 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// The table in Markdown, with aligned columns.
pub fn table(rows: &[Row]) -> String {
    let mut lines = vec![
        ["work", "unit", "moye", "beside it", "ratio", "of the limit", "MHz", "°C", "kernel"]
            .map(str::to_owned),
    ];
    for row in rows {
        let number = |value: Option<u32>| value.map_or(String::new(), |value| value.to_string());
        lines.push([
            row.what(),
            row.unit.to_owned(),
            digits(row.moye.median),
            row.peer.map_or_else(
                || "none".to_owned(),
                |(name, peer)| format!("{} ({name})", digits(peer.median)),
            ),
            row.ratio().map_or(String::new(), |ratio| format!("{ratio:.2}")),
            row.limit.map_or(String::new(), |limit| {
                format!("{:.0} % of {}", 100.0 * row.moye.median / limit, digits(limit))
            }),
            number(row.seen.sm_mhz),
            number(row.seen.celsius),
            format!("`{}`", row.kernel),
        ]);
    }
    // Empty columns are omitted.
    let kept: Vec<usize> =
        (0..lines[0].len()).filter(|&i| lines[1..].iter().any(|line| !line[i].is_empty())).collect();
    let widths: Vec<usize> =
        kept.iter().map(|&i| lines.iter().map(|line| line[i].chars().count()).max().unwrap_or(0)).collect();
    let right = |i: usize| matches!(i, 2 | 4 | 6 | 7);
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        for (&i, &width) in kept.iter().zip(&widths) {
            let cell = &line[i];
            // Writing to a string cannot fail.
            let _ =
                if right(i) { write!(text, "| {cell:>width$} ") } else { write!(text, "| {cell:<width$} ") };
        }
        text += "|\n";
        if index == 0 {
            for (&i, &width) in kept.iter().zip(&widths) {
                let (dashes, end) =
                    ("-".repeat(width.max(3) - usize::from(right(i))), if right(i) { ":" } else { "" });
                let _ = write!(text, "| {dashes}{end} ");
            }
            text += "|\n";
        }
    }
    text
}

/// Everything as one JSON object.
pub fn json(conditions: &Conditions, rows: &[Row]) -> serde_json::Value {
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            let mut value = serde_json::to_value(row).expect("a row has only numbers and texts");
            value["peer"] = row.peer.map_or(serde_json::Value::Null, |(name, figure)| {
                serde_json::json!({"name": name, "median": figure.median, "least": figure.least, "most": figure.most, "seconds": figure.seconds})
            });
            value["ratio"] = serde_json::json!(row.ratio());
            value
        })
        .collect();
    serde_json::json!({"conditions": conditions, "rows": rows})
}

/// The rows as CSV (RFC 4180), after a header line.
pub fn csv(conditions: &Conditions, rows: &[Row]) -> String {
    const HEADER: &str = "date,device,work,kind,majors,m,n,k,unit,moye,moye_least,moye_most,moye_seconds,peer,peer_median,peer_least,\
                          peer_most,peer_seconds,ratio,limit,relative_error,kernel,sm_mhz,celsius,watts,epilogue,by,rest_ms";
    let mut text = format!("{HEADER}\r\n");
    for row in rows {
        let peer = row.peer;
        let of_peer = |part: fn(&Figure) -> f64| maybe(peer.as_ref().map(|(_, figure)| part(figure)));
        let fields = [
            conditions.date.clone(),
            conditions.device.clone(),
            row.work.to_owned(),
            row.kind.clone(),
            row.majors.clone().unwrap_or_default(),
            row.m.to_string(),
            row.n.to_string(),
            maybe(row.k),
            row.unit.to_owned(),
            row.moye.median.to_string(),
            row.moye.least.to_string(),
            row.moye.most.to_string(),
            row.moye.seconds.to_string(),
            peer.map_or(String::new(), |(name, _)| name.to_owned()),
            of_peer(|figure| figure.median),
            of_peer(|figure| figure.least),
            of_peer(|figure| figure.most),
            of_peer(|figure| figure.seconds),
            maybe(row.ratio()),
            maybe(row.limit),
            maybe(row.relative_error),
            row.kernel.clone(),
            maybe(row.seen.sm_mhz),
            maybe(row.seen.celsius),
            maybe(row.seen.watts),
            row.epilogue.clone().unwrap_or_default(),
            row.by.clone().unwrap_or_default(),
            row.rest_ms.to_string(),
        ];
        text += &fields.map(|field| quoted(&field)).join(",");
        text += "\r\n";
    }
    text
}

fn maybe(value: Option<impl ToString>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

/// A field, quoted if necessary.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

/// The date of a time in seconds since 1970, such as 2026-11-21.
pub fn date(seconds: u64) -> String {
    let (mut day, mut year) = (seconds / 86_400, 1970);
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = |year| if leap(year) { 366 } else { 365 };
    while day >= days(year) {
        day -= days(year);
        year += 1;
    }
    let february = if leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", day + 1)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use expect_test::{expect, expect_file};

    /// Invented results: products of two kinds at several sizes, with and without a peer, and a
    /// copy.
    pub fn made_up() -> (Conditions, Vec<Row>) {
        let figure =
            |median: f64| Figure { median, least: 0.75 * median, most: 1.25 * median, seconds: 1.0 / median };
        let row = |kind: &str, majors: &str, size, moye, peer: Option<f64>, limit| Row {
            work: "matmul",
            kind: kind.to_owned(),
            majors: Some(majors.to_owned()),
            epilogue: None,
            by: None,
            rest_ms: 0,
            m: size,
            n: size,
            k: Some(size),
            unit: "TFLOP/s",
            moye: figure(moye),
            peer: peer.map(|peer| ("cuBLAS", figure(peer))),
            no_peer: None,
            limit: Some(limit),
            relative_error: Some(2.5e-4),
            kernel: format!("matmul_{kind}_{majors}"),
            seen: Seen { sm_mhz: Some(1755), memory_mhz: Some(3201), celsius: Some(51), watts: Some(500) },
        };
        let mut rows = Vec::new();
        for (i, size) in [512, 1024, 2048, 4096, 8192].into_iter().enumerate() {
            let i = i as f64;
            rows.push(row("f16", "tn", size, 100.0 + 100.0 * i, Some(150.0 + 128.0 * i), 673.0));
            rows.push(row("f16", "nt", size, 90.0 + 90.0 * i, Some(140.0 + 128.0 * i), 673.0));
            rows.push(row("f32", "nt", size, 20.0 + 8.0 * i, Some(24.0 + 7.0 * i), 66.9));
        }
        rows.push(Row {
            work: "copy",
            kind: "4 bytes".to_owned(),
            majors: None,
            epilogue: None,
            by: None,
            rest_ms: 0,
            k: None,
            unit: "GB/s",
            peer: None,
            no_peer: Some("wanted none, \"really\"".to_owned()),
            kernel: "copy, \"async\"".to_owned(),
            relative_error: None,
            ..row("", "", 16384, 3924.0, None, 4900.0)
        });
        let by = Some("mma.sync".to_owned());
        rows.push(Row {
            by,
            rest_ms: 300,
            epilogue: Some("bias".to_owned()),
            ..row("bf16", "tn", 8192, 533.0, Some(768.0), 645.0)
        });
        let conditions = Conditions {
            device: "NVIDIA Made-up, 80 GB".to_owned(),
            arch: "sm_90".to_owned(),
            multiprocessors: 132,
            driver: Some((13, 0)),
            date: "2026-11-21".to_owned(),
            rounds: 11,
            flush_l2: false,
            rest_ms: 0,
            before: Seen { celsius: Some(30), ..Seen::default() },
            unseen: None,
            moye: "0.1.0",
        };
        (conditions, rows)
    }

    /// A file with expected results. In a bundle for other machines it is not at its compile-time
    /// path.
    pub fn golden(name: &str) -> expect_test::ExpectFile {
        let folder =
            std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
        expect_file![format!("{folder}/../../tests/fixtures/data/bench/{name}")]
    }

    #[test]
    fn results_are_printed_in_the_recorded_form() {
        let (conditions, rows) = made_up();
        golden("table.md").assert_eq(&table(&rows));
        golden("rows.csv").assert_eq(&csv(&conditions, &rows).replace("\r\n", "\n"));
        let json = serde_json::to_string_pretty(&json(&conditions, &rows[rows.len() - 2..])).unwrap();
        golden("last_two.json").assert_eq(&(json + "\n"));
    }

    #[test]
    fn every_line_of_csv_has_as_many_fields_as_the_header() {
        let (conditions, rows) = made_up();
        for line in csv(&conditions, &rows).split_terminator("\r\n") {
            // Count separators outside quotes.
            let fields = line.split('"').step_by(2).map(|part| part.matches(',').count()).sum::<usize>() + 1;
            assert_eq!(fields, 28, "{line}");
        }
        assert_eq!(quoted("a \"b\", c"), "\"a \"\"b\"\", c\"");
    }

    #[test]
    fn columns_with_nothing_in_them_are_left_out() {
        let (_, rows) = made_up();
        let text = table(&rows[..1]);
        assert!(text.contains("| ratio |"), "{text}");
        let alone = table(&[Row { peer: None, ..rows[0].clone() }]);
        assert!(!alone.contains("ratio") && alone.contains("none"), "{alone}");
        expect![["3.14 31.4 314 3142"]]
            .assert_eq(&[std::f64::consts::PI, 31.4159, 314.159, 3141.59].map(digits).join(" "));
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for (seconds, day) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_795_219_199, "2026-11-20"),
            (1_795_219_200, "2026-11-21"),
            (4_107_542_400, "2100-03-01"),
        ] {
            assert_eq!(date(seconds), day);
        }
    }
}
