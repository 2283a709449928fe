//! A plot of the results: rates over sizes, with the peer and the machine's peak.

use super::results::{Conditions, Row};
use anyhow::{Result, anyhow, bail};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::fmt::Display;
use std::ops::Range;

/// A panel's extents, in the picture's units.
const PANEL: (u32, u32) = (560, 380);
/// The height of the title above all panels.
const TITLE: u32 = 44;
/// The height of a panel's title, and of a line of its legend.
const HEAD: u32 = 26;
const LEGEND_LINE: u32 = 18;
/// The minimum width of a legend entry; the width before its text, and of a letter.
const LEGEND_ENTRY: u32 = 138;
const LEGEND_DASH: u32 = 32;
const LEGEND_LETTER: u32 = 8;
/// Colours that are distinct for all kinds of colour vision (Okabe and Ito, "Color Universal
/// Design").
const COLOURS: [RGBColor; 4] =
    [RGBColor(0, 114, 178), RGBColor(213, 94, 0), RGBColor(0, 158, 115), RGBColor(204, 121, 167)];
const GREY: RGBColor = RGBColor(110, 110, 110);
const FONT: &str = "sans-serif";

/// Rows of one kind of work, in one panel.
struct Panel<'a> {
    title: String,
    unit: &'static str,
    limit: Option<f64>,
    series: Vec<Series<'a>>,
}

/// Rows that differ only in their size, by size.
struct Series<'a> {
    name: String,
    rows: Vec<&'a Row>,
}

/// The extent that represents a row: for a product that of the cube with the same number of
/// multiply-adds.
fn extent(row: &Row) -> f64 {
    match row.k {
        Some(k) => (row.m as f64 * row.n as f64 * k as f64).cbrt(),
        None => (row.m as f64 * row.n as f64).sqrt(),
    }
}

/// Whether a product is far from a cube. Such products have no line, because two of them with equal
/// multiply-adds may differ much in speed.
fn is_flat(row: &Row) -> bool {
    let extents = [Some(row.m), Some(row.n), row.k].into_iter().flatten();
    let (least, most) =
        extents.fold((usize::MAX, 0), |(least, most), extent| (least.min(extent), most.max(extent)));
    most / 2 > least
}

/// The rows by panel and series, in order of first occurrence. Products with an instruction other
/// than the chosen kernel's are only in the table: they have another peak, and possibly rests.
fn panels(rows: &[Row]) -> Vec<Panel<'_>> {
    let mut panels: Vec<Panel<'_>> = Vec::new();
    for row in rows.iter().filter(|row| row.by.is_none()) {
        let title = if row.k.is_some() { row.kind.clone() } else { format!("{}, {}", row.work, row.kind) };
        let at = panels.iter().position(|panel| panel.title == title).unwrap_or_else(|| {
            panels.push(Panel { title, unit: row.unit, limit: None, series: Vec::new() });
            panels.len() - 1
        });
        let panel = &mut panels[at];
        panel.limit = panel.limit.or(row.limit);
        let flat = if is_flat(row) { ", flat" } else { "" };
        let name = format!("{}{flat}", row.majors.as_deref().unwrap_or_default());
        match panel.series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.rows.push(row),
            None => panel.series.push(Series { name, rows: vec![row] }),
        }
    }
    for series in panels.iter_mut().flat_map(|panel| &mut panel.series) {
        series.rows.sort_by(|a, b| extent(a).total_cmp(&extent(b)));
    }
    panels
}

/// Draws the rows as SVG.
///
/// # Errors
/// There are no rows.
pub fn svg(conditions: &Conditions, rows: &[Row]) -> Result<String> {
    let panels = panels(rows);
    if panels.is_empty() {
        bail!("nothing was measured, so there is nothing to draw");
    }
    let columns = panels.len().min(2) as u32;
    let lines = (panels.len() as u32).div_ceil(columns);
    let size = (columns * PANEL.0, TITLE + lines * PANEL.1);
    let mut picture = String::new();
    {
        let root = SVGBackend::with_string(&mut picture, size).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        let flushed = if conditions.flush_l2 { ", L2 flushed" } else { "" };
        let rested = if conditions.rest_ms > 0 { ", rested" } else { "" };
        let title = format!(
            "{}, {}, medians of {} rounds{flushed}{rested}",
            conditions.device, conditions.date, conditions.rounds
        );
        write(&root, &title, (16, 14), 21, BLACK)?;
        let (_, below) = root.split_vertically(TITLE);
        for (panel, area) in panels.iter().zip(below.split_evenly((lines as usize, columns as usize))) {
            draw(panel, &area)?;
        }
        root.present().map_err(failed)?;
    }
    Ok(picture)
}

fn failed(error: impl Display) -> anyhow::Error {
    anyhow!("the plot cannot be drawn: {error}")
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn write(area: &Area<'_>, text: &str, at: (i32, i32), height: u32, colour: RGBColor) -> Result<()> {
    let style = (FONT, height).into_font().color(&colour).pos(Pos::new(HPos::Left, VPos::Top));
    area.draw_text(text, &style, at).map_err(failed)
}

/// The style of a legend line.
#[derive(Clone, Copy)]
enum Dash {
    Whole,
    Long,
    Short,
}

fn draw(panel: &Panel<'_>, area: &Area<'_>) -> Result<()> {
    let mut legend = Vec::new();
    for (series, colour) in panel.series.iter().zip(COLOURS.into_iter().cycle()) {
        let named = |side: &str| format!("{side} {}", series.name).trim_end().to_owned();
        legend.push((named("moye"), colour, Dash::Whole));
        if let Some((peer, _)) = series.rows.iter().find_map(|row| row.peer) {
            legend.push((named(peer), colour, Dash::Long));
        }
    }
    if panel.limit.is_some() {
        legend.push(("limit".to_owned(), GREY, Dash::Short));
    }
    let longest = legend.iter().map(|(name, ..)| name.len() as u32).max().unwrap_or(0);
    let entry = LEGEND_ENTRY.max(LEGEND_DASH + longest * LEGEND_LETTER + 8);
    let per_line = ((PANEL.0 - 32) / entry).max(1);
    let legend_lines = (legend.len() as u32).div_ceil(per_line);
    write(area, &format!("{}, {}", panel.title, panel.unit), (16, 4), 18, BLACK)?;
    for (i, (name, colour, dash)) in legend.iter().enumerate() {
        let x = 16 + (i as u32 % per_line * entry) as i32;
        let y = (HEAD + i as u32 / per_line * LEGEND_LINE) as i32;
        let pieces: &[(i32, i32)] = match dash {
            Dash::Whole => &[(0, 26)],
            Dash::Long => &[(0, 7), (10, 17), (20, 26)],
            Dash::Short => &[(0, 2), (6, 8), (12, 14), (18, 20), (24, 26)],
        };
        for (from, to) in pieces {
            let line = PathElement::new([(x + from, y + 7), (x + to, y + 7)], colour.stroke_width(2));
            area.draw(&line).map_err(failed)?;
        }
        write(area, name, (x + LEGEND_DASH as i32, y), 16, BLACK)?;
    }

    let (_, below) = area.split_vertically(HEAD + legend_lines * LEGEND_LINE + 4);
    let rows = || panel.series.iter().flat_map(|series| &series.rows);
    let sizes = ticks(rows().map(|row| extent(row)).collect());
    let (first, last) = (sizes[0].log2(), sizes[sizes.len() - 1].log2());
    let top = rows()
        .flat_map(|row| [Some(row.moye.median), row.peer.map(|(_, peer)| peer.median), panel.limit])
        .flatten()
        .fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(&below)
        .margin_right(28)
        .margin_bottom(8)
        .margin_left(8)
        .x_label_area_size(40)
        .y_label_area_size(52)
        .build_cartesian_2d(
            Sizes { first: first - 0.2, last: last + 0.2, marked: sizes.clone() },
            0.0..if top > 0.0 { 1.06 * top } else { 1.0 },
        )
        .map_err(failed)?;
    chart
        .configure_mesh()
        .x_labels(sizes.len())
        .y_labels(6)
        .max_light_lines(1)
        .light_line_style(WHITE.mix(0.0))
        .bold_line_style(RGBColor(224, 224, 224))
        .label_style((FONT, 16))
        .axis_desc_style((FONT, 16))
        .x_desc(if rows().any(|row| row.k.is_some()) { "cube root of M x N x K" } else { "root of M x N" })
        .y_label_formatter(&|rate| format!("{rate:.0}"))
        .draw()
        .map_err(failed)?;
    for (series, colour) in panel.series.iter().zip(COLOURS.into_iter().cycle()) {
        let points = |of: fn(&Row) -> Option<f64>| -> Vec<(f64, f64)> {
            series.rows.iter().filter_map(|row| Some((extent(row).log2(), of(row)?))).collect()
        };
        let (ours, theirs) = (points(|row| Some(row.moye.median)), points(|row| Some(row.peer?.1.median)));
        if !series.rows.iter().any(|row| is_flat(row)) {
            let dashed = DashedLineSeries::new(theirs.iter().copied(), 7, 4, colour.stroke_width(2));
            chart.draw_series(dashed).map_err(failed)?;
            chart
                .draw_series(LineSeries::new(ours.iter().copied(), colour.stroke_width(2)))
                .map_err(failed)?;
        }
        chart
            .draw_series(theirs.iter().map(|&at| Circle::new(at, 3, colour.stroke_width(2))))
            .map_err(failed)?;
        chart.draw_series(ours.iter().map(|&at| Circle::new(at, 3, colour.filled()))).map_err(failed)?;
    }
    if let Some(limit) = panel.limit {
        let ends = [(first - 0.2, limit), (last + 0.2, limit)];
        chart.draw_series(DashedLineSeries::new(ends, 2, 4, GREY.stroke_width(2))).map_err(failed)?;
    }
    Ok(())
}

/// A logarithmic axis of sizes, with labels at some of them.
struct Sizes {
    first: f64,
    last: f64,
    /// The sizes.
    marked: Vec<f64>,
}

impl Ranged for Sizes {
    type ValueType = f64;
    type FormatOption = NoDefaultFormatting;

    fn map(&self, exponent: &f64, (from, to): (i32, i32)) -> i32 {
        let part = (exponent - self.first) / (self.last - self.first);
        from + (part * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.marked.iter().map(|size| size.log2()).collect()
    }

    fn range(&self) -> Range<f64> {
        self.first..self.last
    }
}

impl ValueFormatter<f64> for Sizes {
    fn format(exponent: &f64) -> String {
        format!("{:.0}", exponent.exp2())
    }
}

/// The labelled sizes, at least one: from the largest down, all that do not overlap.
fn ticks(mut sizes: Vec<f64>) -> Vec<f64> {
    // A label of five digits takes about this fraction of the axis.
    const APART: f64 = 0.1;
    sizes.sort_by(f64::total_cmp);
    let whole = (sizes[sizes.len() - 1] / sizes[0]).log2() + 0.4;
    let mut kept: Vec<f64> = Vec::new();
    for &size in sizes.iter().rev() {
        // Both ends of the axis keep their labels.
        let from_first = (size / sizes[0]).log2() / whole;
        let far = kept.last().is_none_or(|last| (last / size).log2() / whole >= APART);
        if far && (from_first >= APART || size == sizes[0]) {
            kept.push(size);
        }
    }
    kept.reverse();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::made_up;

    /// An element of a picture, and the following line with its text.
    struct Element<'a> {
        tag: &'a str,
        text: &'a str,
    }

    impl Element<'_> {
        fn is(&self, name: &str) -> bool {
            self.tag.starts_with(&format!("<{name} "))
        }

        fn attribute(&self, name: &str) -> &str {
            let (_, rest) = self.tag.split_once(&format!(" {name}=\"")).unwrap_or(("", "\""));
            rest.split('"').next().unwrap()
        }

        fn number(&self, name: &str) -> f64 {
            self.attribute(name).parse().unwrap_or_else(|_| panic!("{name} of {}", self.tag))
        }
    }

    /// The elements positioned in panel `index`.
    fn elements(picture: &str, index: u32) -> Vec<Element<'_>> {
        let (left, top) = (index % 2 * PANEL.0, TITLE + index / 2 * PANEL.1);
        let inside = |element: &Element<'_>| {
            let names = if element.is("circle") { ["cx", "cy"] } else { ["x", "y"] };
            let [x, y] = names.map(|name| element.attribute(name).parse::<u32>().unwrap_or(0));
            (left..left + PANEL.0).contains(&x) && (top..top + PANEL.1).contains(&y)
        };
        let texts = picture.lines().skip(1);
        let elements = picture.lines().zip(texts).map(|(tag, text)| Element { tag, text });
        elements.filter(|element| (element.is("circle") || element.is("text")) && inside(element)).collect()
    }

    #[test]
    fn each_rate_is_a_circle_where_the_labels_of_the_axes_say() {
        let (conditions, rows) = made_up();
        let picture = svg(&conditions, &rows).unwrap();
        assert!(picture.contains("\nNVIDIA Made-up, 80 GB, 2026-11-21, medians of 11 rounds\n"), "the title");
        for (index, panel) in panels(&rows).iter().enumerate() {
            let elements = elements(&picture, index as u32);
            // The labels of an axis: the value and its position.
            let labels = |anchor: &str, at: &str| -> Vec<(f64, f64)> {
                let texts =
                    elements.iter().filter(|text| text.is("text") && text.attribute("text-anchor") == anchor);
                texts.filter_map(|text| Some((text.text.parse().ok()?, text.number(at)))).collect()
            };
            let (sizes, rates) = (labels("middle", "x"), labels("end", "y"));
            assert!(!sizes.is_empty() && rates.len() > 3, "{}", panel.title);
            let (low, high) = (rates[0], rates[rates.len() - 1]);
            let height = |rate: f64| low.1 + (rate - low.0) / (high.0 - low.0) * (high.1 - low.1);
            let mut count = 0;
            for (series, RGBColor(red, green, blue)) in panel.series.iter().zip(COLOURS) {
                let colour = format!("#{red:02X}{green:02X}{blue:02X}");
                for row in &series.rows {
                    let label = sizes.iter().find(|(size, _)| *size == extent(row).round());
                    let x = label.expect("each size has its label").1;
                    let peer = row.peer.map(|(_, peer)| (peer.median, "none"));
                    for (rate, fill) in [(row.moye.median, colour.as_str())].into_iter().chain(peer) {
                        let is_it = |circle: &&Element<'_>| {
                            circle.is("circle")
                                && (circle.number("cx") - x).abs() <= 1.0
                                && (circle.number("cy") - height(rate)).abs() <= 2.0
                                && circle.attribute("fill") == fill
                                && (fill != "none" || circle.attribute("stroke") == colour)
                        };
                        let found = elements.iter().any(|element| is_it(&element));
                        assert!(found, "{}: {rate} of {} at {x}, {}", panel.title, series.name, height(rate));
                        count += 1;
                    }
                }
                for side in
                    ["moye", "cuBLAS"].into_iter().take(1 + usize::from(series.rows[0].peer.is_some()))
                {
                    let named = format!("{side} {}", series.name);
                    let has = elements.iter().any(|text| text.is("text") && text.text == named.trim_end());
                    assert!(has, "{named} is in the legend of {}", panel.title);
                }
            }
            assert_eq!(
                elements.iter().filter(|element| element.is("circle")).count(),
                count,
                "{}",
                panel.title
            );
            assert!(elements.iter().any(|text| text.text == "limit"), "{}", panel.title);
        }
    }

    #[test]
    fn a_panel_has_one_kind_of_work_and_a_line_for_each_order() {
        let (_, rows) = made_up();
        let panels = panels(&rows);
        let told: Vec<_> = panels
            .iter()
            .map(|panel| {
                (
                    panel.title.as_str(),
                    panel.series.iter().map(|s| (s.name.as_str(), s.rows.len())).collect::<Vec<_>>(),
                )
            })
            .collect();
        assert_eq!(
            told,
            [("f16", vec![("tn", 5), ("nt", 5)]), ("f32", vec![("nt", 5)]), ("copy, 4 bytes", vec![("", 1)])]
        );
    }

    #[test]
    fn products_far_from_cubes_are_a_series_of_their_own() {
        let (_, mut rows) = made_up();
        rows[0].m = 64;
        rows[0].n = 4096;
        rows[3].k = Some(1000);
        let panels = panels(&rows);
        let names: Vec<_> = panels[0].series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["tn, flat", "nt", "tn"]);
    }

    #[test]
    fn labels_of_sizes_do_not_touch() {
        assert_eq!(ticks(vec![4095.0, 512.0, 4096.0, 4097.0, 1024.0]), [512.0, 1024.0, 4097.0]);
        assert_eq!(ticks(vec![4096.0, 4096.0]), [4096.0]);
        assert_eq!(ticks(vec![4096.0]), [4096.0]);
    }

    #[test]
    fn nothing_cannot_be_drawn() {
        let (conditions, _) = made_up();
        assert!(svg(&conditions, &[]).unwrap_err().to_string().contains("nothing was measured"));
    }
}
