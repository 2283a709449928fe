//! The profile as a table for a terminal.

use super::{Card, Class, Counts, KernelProfile, Profile};

/// The columns. The first and the last are always shown, the others if a line has a figure.
pub(super) const COLUMNS: [&str; 19] = [
    "instr",
    "active",
    "divergent",
    "global bytes",
    "sectors",
    "coalesced",
    "shared wavefronts",
    "conflicts",
    "atomics",
    "tensor core",
    "warp",
    "special",
    "conversions",
    "fences",
    "barrier waits",
    "bulk bytes",
    "bytes in flight",
    "groups in flight",
    "line",
];

pub(super) type Row = [String; COLUMNS.len()];

pub(super) fn profile(profile: &Profile, card: Option<&Card>) -> String {
    let mut text = String::new();
    for kernel in &profile.kernels {
        text += &heading(kernel);
        if let Some(card) = card {
            for (name, fact) in on_card(kernel, card) {
                text += &format!("  {name}: {fact}\n");
            }
        }
        let mut rows = vec![COLUMNS.map(str::to_owned)];
        for ((file, line), counts) in &kernel.lines {
            let source = profile.sources.line(file, *line).unwrap_or_default();
            rows.push(row(counts, format!("{file}:{line}: {source}")));
        }
        rows.push(row(&kernel.total(), "all lines".to_owned()));
        let shown = shown(&rows[1..]);
        for row in &rows {
            for &column in &shown[..shown.len() - 1] {
                let width = rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
                text += &format!("{:>width$}  ", row[column]);
            }
            text += &row[COLUMNS.len() - 1];
            text.push('\n');
        }
        for (class, count) in kernel.total().classes() {
            text += &format!("{count} {}\n", class.name());
            let of_class = |name: &&&str| Class::of(name) == class;
            let total = kernel.total();
            for name in total.instructions.keys().filter(of_class) {
                text += &format!("  {} {name}\n", total.instructions[name]);
            }
        }
        text += &arithmetic(kernel);
        text.push('\n');
    }
    text
}

/// The columns that have a figure in one of these rows.
pub(super) fn shown(rows: &[Row]) -> Vec<usize> {
    let last = COLUMNS.len() - 1;
    let has_figure = |column: &usize| rows.iter().any(|row| !row[*column].is_empty());
    (0..=last).filter(|column| *column == 0 || *column == last || has_figure(column)).collect()
}

/// The known counts of plain arithmetic.
pub(super) fn arithmetic(kernel: &KernelProfile) -> String {
    match &kernel.ptx {
        Some(ptx) => {
            let named: Vec<_> = ptx.named().iter().map(|(name, count)| format!("{count} {name}")).collect();
            format!("plain arithmetic, from the PTX, each instruction once: {}\n", named.join(", "))
        }
        None => "plain arithmetic is not seen here: `moye report` counts it in the PTX\n".to_owned(),
    }
}

pub(super) fn heading(profiled: &KernelProfile) -> String {
    let KernelProfile { kernel, grid, block, shared_bytes, launches, .. } = profiled;
    let launches = if *launches == 1 { "1 launch".to_owned() } else { format!("{launches} launches") };
    let sample = match profiled.sector_sample {
        1 => String::new(),
        sample => format!(" (about, by a sample of one in {sample})"),
    };
    let KernelProfile { sectors_read, sectors_written, .. } = profiled;
    format!(
        "kernel `{kernel}`: {launches}, grid {grid}, block {block}, {shared_bytes} bytes of shared memory, {sectors_read} sectors read and {sectors_written} written{sample}\n"
    )
}

/// A card's figures of a kernel, by name. Without its registers, occupancy is an upper bound.
pub(super) fn on_card(kernel: &KernelProfile, card: &Card) -> Vec<(&'static str, String)> {
    let mut facts = vec![("card", format!("{} ({})", card.name, card.arch()))];
    if let Some((instruction, arch)) = card.lacks(kernel) {
        facts.push(("runs", format!("no: `{instruction}` needs {arch}")));
        return facts;
    }
    let occupancy = kernel.occupancy(card);
    // Registers may permit fewer blocks.
    let (at_most, registers) = match kernel.registers {
        Some(registers) => ("", format!("{registers} registers")),
        None => ("at most ", "registers are not known".to_owned()),
    };
    facts.push((
        "occupancy",
        format!(
            "{at_most}{:.0}%, {} of {} warps: {} blocks on an SM by {} ({registers})",
            100.0 * occupancy.fraction(),
            occupancy.warps,
            occupancy.most_warps,
            occupancy.blocks,
            occupancy.limit
        ),
    ));
    let roofline = card.roofline(kernel);
    let micro = |seconds: f64| format!("{:.3} us", seconds * 1e6);
    let bound = format!("at least {} a launch by {}", micro(roofline.seconds()), roofline.limit());
    let times: Vec<_> =
        roofline.times.iter().map(|(unit, seconds)| format!("{unit} {}", micro(*seconds))).collect();
    facts.push(("roofline", format!("{bound} ({}), plain arithmetic not counted", times.join(", "))));
    if !roofline.no_rate.is_empty() {
        let types: Vec<_> = roofline.no_rate.iter().map(String::as_str).collect();
        let types = types.join(", ");
        facts.push(("left out", format!("no rate known of its tensor cores for {types}")));
    }
    let traffic = format!(
        "memory at least {} bytes a launch, L2 cache at most {} bytes",
        kernel.memory_bytes(),
        kernel.l2_bytes()
    );
    facts.push(("traffic", traffic));
    facts
}

/// A percentage, or nothing if the total is empty.
pub(super) fn percent(fraction: f64, any: bool) -> String {
    if any { format!("{:.1}%", 100.0 * fraction) } else { String::new() }
}

/// A number, or nothing for 0.
pub(super) fn number(number: u64) -> String {
    if number == 0 { String::new() } else { number.to_string() }
}

/// A mean and a maximum, or nothing if the maximum is 0.
fn mean_of(mean: f64, most: u64) -> String {
    if most == 0 { String::new() } else { format!("{mean:.1} (most {most})") }
}

pub(super) fn row(counts: &Counts, line: String) -> Row {
    let (global, shared, flight) = (counts.global(), counts.shared(), &counts.in_flight);
    let of = |class| number(counts.of_class(class));
    [
        counts.warp_instructions().to_string(),
        percent(counts.active(), counts.live_lanes > 0),
        number(counts.divergent),
        number(global.bytes),
        number(global.sectors),
        percent(global.coalescing(), global.sectors > 0),
        number(shared.wavefronts),
        if shared.wavefronts == 0 { String::new() } else { shared.conflicts().to_string() },
        of(Class::Atomic),
        of(Class::TensorCore),
        of(Class::Warp),
        of(Class::Special),
        of(Class::Convert),
        of(Class::Fence),
        number(counts.barrier_waits().total()),
        number(counts.bulk_bytes),
        mean_of(flight.mean_bytes(), flight.max_bytes),
        mean_of(flight.mean_groups(), flight.max_groups),
        line,
    ]
}
