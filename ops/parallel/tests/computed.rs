//! The computed columns of the table in docs/performance.md, section "More than one GPU": they are
//! what `RankRates::time` returns for the inputs that the page names.

use moye_parallel::{Form, RankRates};

const PAGE: &str = include_str!("../../../docs/performance.md");
/// The measurements on two GPUs, with the time of each product alone.
const RESULTS: &str = include_str!("../../../docs/results/2026-11-30-h200x2-parallel.csv");
const LINK: f64 = 383e9;
const MEMORY: f64 = 4e12;
/// Seconds of a call.
const CALLS: [f64; 3] = [28e-6, 56e-6, 20.4e-6];
const FORMS: [(&str, Form); 3] = [
    ("all-gather + product", Form::AllGather),
    ("product + reduce-scatter", Form::ReduceScatter),
    ("product + all-reduce", Form::AllReduce),
];

/// The extents of a rank.
fn of_rank(form: Form, [m, n, k]: [usize; 3], world: usize) -> [usize; 3] {
    match form {
        Form::AllGather => [m, n / world, k],
        _ => [m, n, k / world],
    }
}

/// The rates of a form, from the time of this product alone on a rank of two. With few rows a
/// product takes the time in which its weights are read.
fn rates(form: Form, extents: [usize; 3]) -> RankRates {
    let product = match form {
        Form::AllReduce => f64::INFINITY,
        _ => {
            let [m, n, k] = of_rank(form, extents, 2);
            2.0 * (m * n * k) as f64 / (alone(form, extents) * 1e-6)
        }
    };
    RankRates { product, link: LINK, memory: MEMORY, call: CALLS[form as usize] }
}

/// Microseconds of a rank's product alone on two GPUs.
fn alone(form: Form, [m, n, k]: [usize; 3]) -> f64 {
    let name = FORMS.iter().find(|(_, of)| *of == form).unwrap().0;
    let start = format!("2026-11-30,2 x H200,{name} bf16 {m} x {n} x {k},");
    let line = RESULTS.lines().find(|line| line.starts_with(&start)).expect("results of this product");
    let alone = line.split("the product alone ").nth(1).unwrap().split([',', ';']).next();
    alone.unwrap().parse().unwrap()
}

/// Seconds of a form on `world` ranks, and of its product alone.
fn times(form: Form, extents: [usize; 3], inputs: [usize; 3], world: usize) -> [f64; 2] {
    let (rates, own) = (rates(form, inputs), of_rank(form, extents, world));
    [rates.time(form, own, world), rates.time(form, own, 1)]
}

/// The cell of a row for `world` GPUs.
fn computed(work: &str, world: usize) -> String {
    let share = |[time, alone]: [f64; 2]| format!("{:.0}, {:.2}", time * 1e6, alone / time);
    if work == "feed-forward, 4,096 tokens, 8192, 28672" {
        let inputs = [4096, 8192, 8192];
        let up = times(Form::AllGather, [4096, 28_672, 8192], inputs, world);
        let down = times(Form::ReduceScatter, [4096, 8192, 28_672], inputs, world);
        return share([up[0] + down[0], up[1] + down[1]]);
    }
    let of = |(name, form): (&str, Form)| Some((work.strip_prefix(name)?.trim().to_owned(), form));
    let (extents, form) = FORMS.into_iter().find_map(of).unwrap();
    let extents: Vec<usize> = match extents.strip_suffix("^3") {
        Some(extent) => vec![extent.parse().unwrap(); 3],
        None => extents.split(" x ").map(|extent| extent.parse().unwrap()).collect(),
    };
    let extents = extents.try_into().unwrap();
    let times = times(form, extents, extents, world);
    if form == Form::AllReduce { format!("{:.1}", times[0] * 1e6) } else { share(times) }
}

#[test]
fn the_pages_table_of_more_gpus_is_what_the_model_computes() {
    let section = PAGE.split("\n## More than one GPU\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let prose = section.split_whitespace().collect::<Vec<_>>().join(" ");
    for input in [
        "28 us (all-gather), 56 us (reduce-scatter) and 20.4 us (all-reduce)",
        "the 383 GB/s of a copy over the link",
        "4 TB/s of memory",
    ] {
        assert!(prose.contains(input), "the page does not name the input: {input}");
    }
    let table = section.split("| work | 2, measured | 2, computed | 4, computed | 8, computed |\n").nth(1);
    let rows: Vec<Vec<&str>> = table
        .unwrap()
        .lines()
        .skip(1)
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    assert_eq!(rows.len(), 9, "{rows:?}");
    let mut wrong = Vec::new();
    for row in rows {
        for (cell, world) in row[2..].iter().zip([2, 4, 8]) {
            let expected = computed(row[0], world);
            if *cell != expected {
                wrong.push(format!("{} on {world} GPUs: {cell}, computed {expected}", row[0]));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
