//! The profile as JSON.

use super::{Card, Counts, GlobalCounts, KernelProfile, Profile, SharedCounts};

pub(super) fn profile(profile: &Profile, card: Option<&Card>) -> String {
    let kernels: Vec<_> = profile.kernels.iter().map(|kernel| one(kernel, card)).collect();
    format!("{{\"kernels\":[{}]}}\n", kernels.join(","))
}

fn one(kernel: &KernelProfile, card: Option<&Card>) -> String {
    let extents = |d: crate::Dim3| format!("[{},{},{}]", d.x, d.y, d.z);
    let lines: Vec<_> = kernel
        .lines
        .iter()
        .map(|((file, line), of)| format!("{{\"file\":{},\"line\":{line},{}}}", string(file), counts(of)))
        .collect();
    let on_card = card.map_or(String::new(), |card| {
        if let Some((instruction, arch)) = card.lacks(kernel) {
            let (card, lacks) = (string(card.name), string(instruction));
            return format!("\"card\":{card},\"lacks\":{lacks},\"needs\":{},", string(arch));
        }
        let occupancy = kernel.occupancy(card);
        let roofline = card.roofline(kernel);
        let times = |(unit, seconds): &(&str, f64)| format!("{}:{}", string(unit), real(*seconds));
        format!(
            "\"card\":{},\"occupancy\":{{\"blocks\":{},\"warps\":{},\"most_warps\":{},\"fraction\":{},\"limit\":{}}},\"seconds\":{{{}}},\"limit\":{},\"no_rate\":[{}],",
            string(card.name),
            occupancy.blocks,
            occupancy.warps,
            occupancy.most_warps,
            real(occupancy.fraction()),
            string(occupancy.limit),
            roofline.times.iter().map(times).collect::<Vec<_>>().join(","),
            string(roofline.limit()),
            roofline.no_rate.iter().map(|ty| string(ty)).collect::<Vec<_>>().join(","),
        )
    });
    format!(
        "{{\"kernel\":{},\"grid\":{},\"block\":{},\"shared_bytes\":{},\"launches\":{},\"sectors_read\":{},\"sectors_written\":{},\"sector_sample\":{},\"memory_bytes\":{},\"l2_bytes\":{},\"registers\":{},\"ptx\":{},{on_card}\"total\":{{{}}},\"lines\":[{}]}}",
        string(&kernel.kernel),
        extents(kernel.grid),
        extents(kernel.block),
        kernel.shared_bytes,
        kernel.launches,
        kernel.sectors_read,
        kernel.sectors_written,
        kernel.sector_sample,
        kernel.memory_bytes(),
        kernel.l2_bytes(),
        kernel.registers.map_or("null".to_owned(), |registers| registers.to_string()),
        ptx(kernel),
        counts(&kernel.total()),
        lines.join(","),
    )
}

fn ptx(kernel: &KernelProfile) -> String {
    let Some(ptx) = &kernel.ptx else { return "null".to_owned() };
    let named: Vec<_> = ptx.named().iter().map(|(name, count)| format!("{}:{count}", string(name))).collect();
    format!("{{{}}}", named.join(","))
}

fn counts(counts: &Counts) -> String {
    let named = |(name, count): (&&str, &u64)| format!("{}:{count}", string(name));
    let instructions: Vec<_> = counts.instructions.iter().map(named).collect();
    let tensor: Vec<_> = counts.tensor_operations().iter().map(named).collect();
    let classes: Vec<_> =
        counts.classes().iter().map(|(class, count)| format!("{}:{count}", string(class.name()))).collect();
    let (waits, flight) = (counts.barrier_waits(), &counts.in_flight);
    format!(
        "\"instructions\":{{{}}},\"classes\":{{{}}},\"active\":{},\"divergent\":{},\"divergence\":{},\"coalescing\":{},\"conflict_degree\":{},\"l2_bytes\":{},\"barrier_waits\":{{\"block\":{},\"named\":{},\"mbarrier\":{},\"cluster\":{}}},\"in_flight\":{{\"waits\":{},\"mean_bytes\":{},\"max_bytes\":{},\"mean_groups\":{},\"max_groups\":{}}},\"global_loads\":{},\"global_stores\":{},\"async_loads\":{},\"global_atomics\":{},\"shared_loads\":{},\"shared_stores\":{},\"async_stores\":{},\"shared_atomics\":{},\"bulk_bytes\":{},\"bulk_stored_bytes\":{},\"bulk_global_bytes\":{},\"tensor_operations\":{{{}}}",
        instructions.join(","),
        classes.join(","),
        real(counts.active()),
        counts.divergent,
        real(counts.divergence()),
        real(counts.coalescing()),
        real(counts.conflict_degree()),
        counts.l2_bytes(),
        waits.block,
        waits.named,
        waits.mbarrier,
        waits.cluster,
        flight.waits,
        real(flight.mean_bytes()),
        flight.max_bytes,
        real(flight.mean_groups()),
        flight.max_groups,
        global(&counts.global_loads),
        global(&counts.global_stores),
        global(&counts.async_loads),
        global(&counts.global_atomics),
        shared(&counts.shared_loads),
        shared(&counts.shared_stores),
        shared(&counts.async_stores),
        shared(&counts.shared_atomics),
        counts.bulk_bytes,
        counts.bulk_stored_bytes,
        counts.bulk_global_bytes,
        tensor.join(","),
    )
}

fn global(counts: &GlobalCounts) -> String {
    format!(
        "{{\"requests\":{},\"lanes\":{},\"bytes\":{},\"sectors\":{},\"coalescing\":{}}}",
        counts.requests,
        counts.lanes,
        counts.bytes,
        counts.sectors,
        real(counts.coalescing())
    )
}

fn shared(counts: &SharedCounts) -> String {
    format!(
        "{{\"requests\":{},\"lanes\":{},\"wavefronts\":{},\"conflicts\":{},\"conflict_degree\":{}}}",
        counts.requests,
        counts.lanes,
        counts.wavefronts,
        counts.conflicts(),
        real(counts.conflict_degree())
    )
}

/// JSON has no infinity.
fn real(number: f64) -> String {
    if number.is_finite() { number.to_string() } else { "null".to_owned() }
}

fn string(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c < ' ' => quoted += &format!("\\u{:04x}", c as u32),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}
