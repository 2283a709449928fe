//! The guide's page quotes the steps: an added line is in the step's files, a removed one in those
//! of the previous step.

mod instructions;

use hopper_steps::host::STEPS;
use std::fs;
use std::path::Path;

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The lines of a step, without indentation, including the files that it shares with other steps.
fn lines(step: usize) -> Vec<String> {
    let files = [format!("step{step}"), "rows".into(), "tiles".into(), "boxes".into(), "tile".into()];
    files
        .iter()
        .flat_map(|file| {
            read(&format!("src/{file}.rs")).lines().map(|l| l.trim().to_owned()).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn excerpts_are_what_the_steps_have() {
    let page = read("../../docs/guide/hopper.md");
    let (mut step, mut fence, mut seen) = (0, None, [0; 8]);
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("# ") {
            step = heading.strip_prefix("Step ").map_or(0, |rest| rest[..1].parse().unwrap());
        } else if let Some(kind) = line.strip_prefix("```") {
            fence = if fence.is_none() { Some(kind.to_owned()) } else { None };
        } else if step > 0 && matches!(fence.as_deref(), Some("diff" | "ignore")) {
            let (of, text) = match (fence.as_deref(), line.split_at_checked(1)) {
                (Some("diff"), Some(("-", text))) => (step - 1, text),
                (Some("diff"), Some((_, text))) => (step, text),
                _ => (step, line),
            };
            let text = text.trim();
            assert!(lines(of).iter().any(|l| l == text), "step {of} has no line `{text}`");
            // A removed line occurs less often in the step.
            if of < step {
                let count =
                    |step| read(&format!("src/step{step}.rs")).lines().filter(|l| l.trim() == text).count();
                assert!(count(step) < count(of), "step {step} has `{text}` as often as step {of}");
            }
            seen[step] += 1;
        }
    }
    assert!(seen[1..].iter().all(|&lines| lines > 0), "a step without an excerpt: {seen:?}");
}

#[test]
fn figures_of_the_page_are_those_of_the_kernels() {
    let page = read("../../docs/guide/hopper.md");
    for (i, step) in STEPS.iter().enumerate() {
        let shared = step.entry.shared_bytes();
        let shared = format!("{},{:03}", shared / 1000, shared % 1000);
        let row = page
            .lines()
            .find(|line| line.starts_with(&format!("| {} |", i + 1)))
            .expect("a row of the table");
        assert!(
            row.contains(&format!("| {shared} |")),
            "step {}: {shared} bytes, and the page says {row}",
            i + 1
        );
    }
    let lengths: Vec<_> = (1..=6).map(|step| read(&format!("src/step{step}.rs")).lines().count()).collect();
    let told = format!("of {} to {} lines", lengths.iter().min().unwrap(), lengths.iter().max().unwrap());
    let words: Vec<_> = page.split_whitespace().collect();
    assert!(words.join(" ").contains(&told), "the steps are {told}");
}
