//! The guide: its pages are tests, and its index names them.

use std::fs;
use std::path::{Path, PathBuf};

/// The checkout.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The files that compile pages as doctests, and the tests that run the code of pages.
const TESTS: [&str; 9] = [
    "builder/lib.rs",
    "device/guide.rs",
    "examples/hopper-steps/tests/page/main.rs",
    "ops/matmul/guide.rs",
    "ops/parallel/lib.rs",
    "ops/products/lib.rs",
    "python/tests/test_pages.py",
    "src/lib.rs",
    "xtask/transcript.rs",
];

#[test]
fn each_page_of_the_guide_runs_as_a_test_is_in_the_index_and_has_a_reading() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    let tests = TESTS.map(read).concat();
    let index = read("docs/guide/README.md");
    let readings = read("docs/readings.md");
    let mut pages = 0;
    for entry in fs::read_dir(root().join("docs/guide")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(readings.contains(&format!("\n| docs/guide/{name} | 20")), "no reading of docs/guide/{name}");
        if name == "README.md" {
            continue;
        }
        assert!(tests.contains(&format!("guide/{name}\"")), "no test has docs/guide/{name}");
        assert!(index.contains(&format!("]({name})")), "the index does not name docs/guide/{name}");
        let page = read(&format!("docs/guide/{name}"));
        let fences: Vec<_> = page.lines().filter(|line| line.starts_with("```rust")).collect();
        let compiled_alone = ["no_run", "ignore", "compile_fail", "text"];
        let runs =
            fences.iter().filter(|fence| !compiled_alone.iter().any(|word| fence.contains(word))).count();
        assert!(2 * runs >= fences.len(), "{runs} of {} blocks of docs/guide/{name} run", fences.len());
        pages += 1;
    }
    assert!(pages > 15, "{pages} pages");
}

#[test]
fn each_record_and_each_readme_of_a_package_has_a_reading() {
    let readings = fs::read_to_string(root().join("docs/readings.md")).unwrap();
    let below = |folder: &str| fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<_> = below("docs/decisions").collect();
    for folder in ["builder", "device", "host", "macros", "ops", "python", "sim", "src", "tests", "tools"] {
        let folders = below(folder).chain([root().join(folder)]);
        pages.extend(folders.map(|folder| folder.join("README.md")).filter(|page| page.is_file()));
    }
    for page in &pages {
        let name = page.strip_prefix(root()).unwrap().to_str().unwrap();
        assert!(readings.contains(&format!("\n| {name} | 20")), "no reading of {name}");
    }
    assert!(pages.len() > 25, "{} pages", pages.len());
}

#[test]
fn the_first_screen_the_changelog_and_the_records_stay_short() {
    let lines = |name: &str| fs::read_to_string(root().join(name)).unwrap().lines().count();
    assert!(lines("README.md") <= 120, "{} lines", lines("README.md"));
    assert!(lines("CHANGELOG.md") <= 60, "{} lines", lines("CHANGELOG.md"));
    let changelog = fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
    let longest = changelog.lines().map(str::len).max();
    assert!(longest <= Some(120), "a line of the changelog has {longest:?} bytes");
    for entry in fs::read_dir(root().join("docs/decisions")).unwrap() {
        let path = entry.unwrap().path();
        let words = fs::read_to_string(&path).unwrap().split_whitespace().count();
        assert!(words <= 900, "{} has {words} words; a record is one page", path.display());
    }
}

/// Crates whose doctests are pages with blocks of a feature: the file that includes the pages, and
/// the file that names the features, after this string. `cargo xtask test` tests the workspace with
/// those of `ALL`, and the others with their default features.
const TESTED: [(&str, &str, &str); 2] = [
    ("src/lib.rs", "xtask/test.rs", "pub const ALL: &[&str] = &[\"--workspace\", \"--features\", "),
    ("examples/candle/src/lib.rs", "examples/candle/Cargo.toml", "\ndefault = ["),
];

#[test]
fn a_page_with_blocks_of_a_feature_is_tested_with_that_feature() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let tested = TESTED.map(|(pages, features, start)| {
        let features = read(features);
        let (_, rest) = features.split_once(start).unwrap_or_else(|| panic!("no `{start}` in {features}"));
        let features: Vec<_> = rest.lines().next().unwrap().split(['"', ',']).map(str::to_owned).collect();
        (read(pages), features)
    });
    let mut of_features = 0;
    for page in markdown("docs/guide") {
        let text = fs::read_to_string(&page).unwrap();
        let name = page.file_name().unwrap().to_str().unwrap();
        for line in text.lines() {
            let Some((_, rest)) = line.split_once("#[cfg(feature = \"") else { continue };
            let feature = rest.split('"').next().unwrap();
            // A build of the workspace has it, because the program depends on it.
            if feature == "tune" {
                continue;
            }
            let is_tested = tested.iter().any(|(pages, features)| {
                pages.contains(&format!("guide/{name}\"")) && features.iter().any(|of| of == feature)
            });
            assert!(is_tested, "no step tests docs/guide/{name} with {feature}");
            of_features += 1;
        }
    }
    assert!(of_features >= 2, "interop.md has blocks of candle and of cudarc");
}

/// The Markdown files of a folder and its subfolders.
fn markdown(folder: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                files.push(path);
            }
        }
    }
    files
}

/// The lines of a page outside its blocks of code, with their numbers.
fn prose(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_fence = false;
    (1..).zip(page.lines()).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_fence = in_fence != is_fence;
        !in_fence && !is_fence
    })
}

/// The blocks of code of a page, each with its info string.
fn blocks(page: &str) -> Vec<(&str, Vec<&str>)> {
    let mut blocks: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut in_fence = false;
    for line in page.lines() {
        if let Some(info) = line.strip_prefix("```") {
            if !in_fence {
                blocks.push((info, Vec::new()));
            }
            in_fence = !in_fence;
        } else if in_fence {
            blocks.last_mut().expect("the fence's block").1.push(line);
        }
    }
    blocks
}

/// The first part of a block that the source lacks after the block's earlier parts, compared
/// without whitespace. A line `// ...` separates two parts.
fn missing_part(block: &[&str], source: &str) -> Option<String> {
    let compact = |text: &str| text.split_whitespace().collect::<String>();
    let source = compact(source);
    let mut rest = source.as_str();
    for part in block.split(|line| line.trim() == "// ...") {
        let part = part.join("\n");
        let Some((_, after)) = rest.split_once(&compact(&part)) else { return Some(part) };
        rest = after;
    }
    None
}

#[test]
fn rust_in_a_block_of_text_is_in_the_file_that_the_block_names() {
    let (mut faults, mut compared) = (Vec::new(), 0);
    for page in markdown("docs/guide") {
        let text = fs::read_to_string(&page).unwrap();
        for (info, block) in blocks(&text) {
            let place = format!("{}: ```{info}", page.strip_prefix(root()).unwrap().display());
            let is_rust = block.iter().any(|line| line.ends_with([';', '{']));
            if let Some(file) = info.strip_prefix("text ") {
                let source = fs::read_to_string(root().join(file)).unwrap_or_else(|e| panic!("{place}: {e}"));
                faults.extend(
                    missing_part(&block, &source)
                        .map(|part| format!("{place}: the file does not have\n{part}")),
                );
                compared += 1;
            } else if info == "text" && is_rust {
                faults.push(format!("{place}: name the code's file after `text`:\n{}", block.join("\n")));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(compared >= 5, "{compared} blocks were compared");
}

#[test]
fn parts_of_a_block_are_compared_in_their_order_and_without_whitespace() {
    let source = "fn f() {\n    first(\n        a,\n    );\n    second();\n}\n";
    assert_eq!(missing_part(&["first(a,);", "second();"], source), None);
    assert_eq!(missing_part(&["fn f() {", "    // ...", "    second();", "}"], source), None);
    assert_eq!(missing_part(&["second();", "// ...", "first(a,);"], source), Some("first(a,);".to_owned()));
    let page = "a\n```text b.rs\nc;\n```\nd\n```\ne\n```\n";
    assert_eq!(blocks(page), [("text b.rs", vec!["c;"]), ("", vec!["e"])]);
}

/// The targets of `[text](target)` and `[name]: target` in a line.
fn targets(line: &str) -> Vec<String> {
    // Every other part is code.
    let text: String = line.split('`').step_by(2).collect();
    let mut targets: Vec<String> =
        text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).map(str::to_owned).collect();
    if text.starts_with('[')
        && let Some((_, target)) = text.split_once("]: ")
    {
        targets.push(target.to_owned());
    }
    targets
}

/// The names in brackets and backticks without a target, which only rustdoc resolves.
fn names_without_target<'a>(line: &'a str, page: &str) -> Vec<&'a str> {
    let names = line.split("[`").skip(1).filter_map(|part| part.split_once("`]"));
    names
        .filter(|(name, rest)| {
            !rest.starts_with(['(', ':', '[']) && !page.contains(&format!("\n[`{name}`]: "))
        })
        .map(|(name, _)| name)
        .collect()
}

#[test]
fn links_of_pages_resolve_to_files_of_the_checkout() {
    let mut pages = markdown("docs");
    pages.extend(["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|name| root().join(name)));
    let (mut faults, mut links) = (Vec::new(), 0);
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        let folder = page.parent().unwrap();
        for (number, line) in prose(&text) {
            let place = format!("{}:{number}", page.strip_prefix(root()).unwrap().display());
            for name in names_without_target(line, &text) {
                faults
                    .push(format!("{place}: `{name}` has no target; write plain code, or a path to a file"));
            }
            for target in targets(line) {
                if target.starts_with('#') || target.starts_with("https://") {
                    continue;
                }
                links += 1;
                let path = target.split('#').next().unwrap();
                if target.contains("::") || target.contains('@') {
                    faults.push(format!("{place}: {target} is a path of rustdoc; write a path to a file"));
                } else if !folder.join(path).exists() {
                    faults.push(format!("{place}: there is no file {target}"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(links > 50, "{links} links");
}

#[test]
fn links_are_read_as_a_browser_reads_them() {
    assert_eq!(targets("[a](b.md) and [`c`](../d.rs#e), not `[f](g)`"), ["b.md", "../d.rs#e"]);
    assert_eq!(targets("[`name`]: ../file.rs"), ["../file.rs"]);
    let page = "text\n[`known`]: a.rs\n";
    assert_eq!(names_without_target("[`known`], [`other`], [`third`](b.rs)", page), ["other"]);
    let lines: Vec<_> = prose("a\n```\nb\n```\nc").collect();
    assert_eq!(lines, [(1, "a"), (5, "c")]);
}

#[test]
fn a_page_of_a_crate_is_in_the_list_that_resolves_links_of_docs_rs() {
    let list = fs::read_to_string(root().join("macros/page.rs")).unwrap();
    let list = list.split("const PAGES").nth(1).and_then(|rest| rest.split("];").next()).unwrap();
    let names = |text: &str| -> Vec<String> {
        text.split('"')
            .skip(1)
            .step_by(2)
            .filter(|name| !name.starts_with("moye_"))
            .map(str::to_owned)
            .collect()
    };
    let mut listed = names(list);
    let mut pages = Vec::new();
    for folder in ["builder/guide", "device/guide", "ops/matmul/guide"] {
        for page in markdown(folder) {
            pages.push(page.file_stem().unwrap().to_str().unwrap().to_owned());
        }
    }
    listed.sort();
    pages.sort();
    assert_eq!(listed, pages);
}

/// Names in the tables that are a user's, Rust's, or names of crates.
const NOT_OURS: [&str; 7] = ["Copy", "Threads", "Tile", "const", "moye", "moye_draw", "println"];

/// The names in a piece of code: of calls, in a path or a type, or alone. Others are variables.
fn names_in(code: &str) -> Vec<&str> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut names = Vec::new();
    let mut from = 0;
    while let Some(start) = code[from..].find(is_part).map(|at| from + at) {
        let end = code[start..].find(|c| !is_part(c)).map_or(code.len(), |at| start + at);
        let (name, after) = (&code[start..end], &code[end..]);
        from = end;
        let is_called = after.starts_with(['(', '!', '<']) || after.starts_with("::");
        let is_type = name.starts_with(|c: char| c.is_uppercase());
        let is_alone = name.len() == code.len();
        // `N` and `CLUSTER` are parameters, `u128` and `f16` are types, `_nn` ends a name.
        let is_parameter = !name.contains(|c: char| c.is_lowercase() || c == '_');
        let is_number =
            name.trim_start_matches("bf").trim_start_matches(['f', 'u', 'i']).parse::<u32>().is_ok();
        if (is_called || is_type || is_alone || code[..start].ends_with('.') || code[..start].ends_with("::"))
            && !(name.len() == 1
                || is_parameter
                || is_number
                || name.starts_with('_')
                || NOT_OURS.contains(&name))
        {
            names.push(name);
        }
    }
    names
}

/// Whether a source declares a name: with a keyword, or as a line of a macro's table or of an
/// `enum`.
fn declares(source: &str, name: &str) -> bool {
    const KEYWORDS: [&str; 10] = [
        "fn ",
        "struct ",
        "enum ",
        "trait ",
        "type ",
        "const ",
        "mod ",
        "as ",
        "macro_rules! ",
        "macro_rules! __",
    ];
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    source.match_indices(name).any(|(at, _)| {
        let (before, after) = (&source[..at], &source[at + name.len()..]);
        let line = before.rsplit('\n').next().unwrap_or(before).trim_start();
        if after.starts_with(is_part) || line.starts_with("//") {
            return false;
        }
        let is_type = name.starts_with(|c: char| c.is_uppercase());
        let is_intrinsic = after.lines().next().is_some_and(|rest| rest.contains("\"llvm."));
        KEYWORDS.iter().any(|keyword| line.ends_with(keyword))
            || line.is_empty() && (after.starts_with(" / try_") || after.starts_with(" \"") || is_intrinsic)
            || line.is_empty() && is_type && after.starts_with([',', '(', ' '])
    })
}

#[test]
fn our_names_in_the_tables_of_names_are_in_the_sources() {
    let mut sources = Vec::new();
    let mut folders: Vec<_> =
        ["device", "host", "macros", "sim", "tools/draw"].iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("tests") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources.push(fs::read_to_string(path).unwrap());
            }
        }
    }
    let page = fs::read_to_string(root().join("docs/guide/README.md")).unwrap();
    let (_, tables) = page.split_once("\n## CUDA's name -> ours\n").expect("the first table of names");
    let (mut names, mut missing) = (0, Vec::new());
    for row in tables.lines().filter(|line| line.starts_with("| ")).skip(2) {
        let cells: Vec<_> = row.trim_matches(['|', ' ']).split(" | ").collect();
        let [theirs, ours] = cells[..] else { panic!("a row of two cells: {row}") };
        let ours = if ours.starts_with("the same") { theirs } else { ours };
        for name in ours.split('`').skip(1).step_by(2).flat_map(names_in) {
            names += 1;
            if !sources.iter().any(|source| declares(source, name)) {
                missing.push(format!("{name}: {row}"));
            }
        }
    }
    assert!(missing.is_empty(), "no source declares\n{}", missing.join("\n"));
    assert!(names > 200, "{names} names");
}

#[test]
fn a_name_of_a_table_is_declared_and_not_only_used() {
    assert_eq!(names_in("mma.gemm_into(&mut d, a, &c)"), ["gemm_into"]);
    assert_eq!(names_in("TmaCopy<T, L, RANK>"), ["TmaCopy"]);
    assert_eq!(names_in("arch::fence_gpu"), ["arch", "fence_gpu"]);
    assert_eq!((names_in("filter"), names_in("_nn"), names_in("f16")), (vec!["filter"], vec![], vec![]));
    let source = "pub const fn size(&self) {}\n    slice / try_slice(a: B) = f;\n    Zero,\n    // fn spoken()\n    used(size);\n";
    assert!(["size", "slice", "Zero"].iter().all(|name| declares(source, name)));
    assert!(!declares("pub fn sizes() {}", "size"));
    assert!(!["sizes", "try_size", "spoken", "used", "One"].iter().any(|name| declares(source, name)));
}
