//! The same requests in pycute, with both sides alternating.

use std::collections::HashMap;
use std::process::Command;
use std::time::Instant;

/// The number of measurements of each side.
const ROUNDS: usize = 7;

/// The script that measures pycute, and prints a name and a time in ns in each line.
const SCRIPT: &str = include_str!("in_pycute.py");

/// Prints the median times of both sides, in ns for a request, and their ratio.
pub fn compare(requests: &[(&str, fn())]) {
    let mut ours: HashMap<&str, Vec<f64>> = HashMap::new();
    let mut theirs: HashMap<&str, Vec<f64>> = HashMap::new();
    for _ in 0..ROUNDS {
        let Some(times) = in_pycute() else { return };
        for &(name, run) in requests {
            ours.entry(name).or_default().push(time(run));
            theirs.entry(name).or_default().push(times[name]);
        }
    }
    println!("{:28} {:>10} {:>12} {:>7}", "medians of both in turn", "ns", "pycute, ns", "ratio");
    for (name, _) in requests {
        let [ours, theirs] =
            [&mut ours, &mut theirs].map(|times| median(times.get_mut(name).expect("was measured")));
        println!("{name:28} {ours:10.1} {theirs:12.0} {:6.0}x", theirs / ours);
    }
}

/// The time of each request in pycute; without pycute prints a line and returns `None`.
fn in_pycute() -> Option<HashMap<String, f64>> {
    let python = std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
    let output = Command::new(&python).args(["-c", SCRIPT]).output();
    let Some(output) = output.ok().filter(|output| output.status.success()) else {
        println!("{} has no pycute (PyPI's nvidia-cutlass 4.2.0 brings it): not compared", python.display());
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let times = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
    });
    Some(times.collect())
}

/// The median time of a request, in ns.
fn time(run: fn()) -> f64 {
    const REQUESTS: u32 = 2000;
    let mut samples: Vec<f64> = (0..51)
        .map(|_| {
            let start = Instant::now();
            (0..REQUESTS).for_each(|_| run());
            start.elapsed().as_secs_f64() * 1e9 / f64::from(REQUESTS)
        })
        .collect();
    median(&mut samples)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
