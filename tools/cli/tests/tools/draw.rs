//! `moye draw` as a command.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn moye(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_moye"));
    command.arg("draw").args(args).env_remove("COLORTERM").env_remove("CLICOLOR_FORCE");
    command
}

fn run(args: &[&str]) -> Output {
    moye(args).output().expect("the program starts")
}

fn printed(args: &[&str]) -> String {
    let output = run(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("pictures are UTF-8")
}

fn refused(args: &[&str]) -> String {
    let output = run(args);
    assert_eq!(output.status.code(), Some(1), "{args:?} is refused");
    assert!(output.stdout.is_empty(), "{args:?} prints nothing");
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(error.trim_end().lines().count(), 1, "{args:?}: an error is one line: {error}");
    error
}

fn atoms() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/data/draw/atoms.jsonl")
}

#[test]
fn the_suffix_chooses_the_format_and_no_file_is_overwritten_unasked() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for (name, start) in [
        ("a.svg", "<svg"),
        ("a.tex", "% The layout"),
        ("a.typ", "// The layout"),
        ("a.txt", "(8, 8):(8, 1)\n"),
    ] {
        let file = path(name);
        assert_eq!(printed(&["(8,8):(8,1)", "-o", &file]), "", "a picture in a file is not printed too");
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.starts_with(start), "{name} begins with {start:?}");

        let error = refused(&["4:1", "-o", &file]);
        assert!(error.contains("exists") && error.contains("--force"), "{error}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text, "what was refused changed nothing");
        printed(&["4:1", "-o", &file, "--force"]);
        assert_ne!(std::fs::read_to_string(&file).unwrap(), text, "--force overwrites");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 4, "temporary files are gone");
}

#[test]
fn places_that_cannot_be_written_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("no/such.svg");
    let error = refused(&["4:1", "-o", missing.to_str().unwrap()]);
    assert!(error.contains("no/such.svg"), "{error}");
    let error = refused(&["4:1", "-o", folder.path().to_str().unwrap(), "--format", "svg"]);
    assert!(error.contains("is a folder"), "{error}");
    assert!(refused(&["4:1", "-o", "picture.pdf"]).contains("--format"));
}

#[test]
fn what_goes_into_a_pipe_has_no_colours_unless_asked_for() {
    assert!(!printed(&["(4,4)"]).contains('\x1b'));
    assert!(printed(&["(4,4)", "--colour", "always"]).contains("\x1b["));
    let output = moye(&["(4,4)"]).env("NO_COLOR", "1").env("CLICOLOR_FORCE", "1").output().unwrap();
    let forced = moye(&["(4,4)"]).env("CLICOLOR_FORCE", "1").output().unwrap();
    assert!(forced.stdout.contains(&0x1b), "CLICOLOR_FORCE is honoured");
    assert!(!output.stdout.contains(&0x1b), "NO_COLOR is stronger");
}

#[test]
fn errors_say_the_column_and_the_option() {
    assert!(refused(&["(4,2):(2,1"]).contains("column 11"));
    let error = refused(&["--tv", "(4,x)", "--tile", "4x2"]);
    assert!(error.contains("--tv") && error.contains("column 4"), "{error}");
    assert!(refused(&["--tv", "4:1", "--tile", "4x"]).contains("16x8"));
    assert!(refused(&["(300,300)"]).contains("at most 16384"));
    assert!(refused(&["(4,4)", "--banks", "f31"]).contains("bf16"));
    assert!(refused(&["(4,4)", "--swizzle", "3,3"]).contains("bits, base and shift"));
    assert!(refused(&["(4,4)", "--swizzle", "3,0,1"]).contains("Sw<3,0,1>"));
    assert!(refused(&["--mma", "16x8"]).contains("16x8x16"));
    assert!(refused(&["--mma", "8x8x4", "--a", "4:1"]).contains("--b"));
}

#[test]
fn options_that_have_no_part_in_the_picture_are_refused() {
    let mma = "SM80_16x8x8_F32TF32TF32F32_TN";
    for (args, option, with) in [
        (&["(4,6)", "--a", "4"][..], "--a", "--mma with a shape"),
        (&["(4,6)", "--atoms", "4"], "--atoms", "a tiled instruction"),
        (&["(4,6)", "--atom", "foo"], "--atom", "--copy, --operand"),
        (&["(4,6)", "--threads", "4"], "--threads", "--tv, --json, --mma"),
        (&["(4,6)", "--tile", "2x2"], "--tile", "--tv, --source"),
        (&["(4,6)", "--id", "3"], "--id", "--json"),
        (&["--copy", "4", "4", "--banks", "f32"], "--banks", "a layout"),
        (&["--copy", "4", "4", "--tile", "4x4"], "--tile", "--tv"),
        (&["--tv", "4", "--tile", "4x1", "--swizzle", "3,4,3"], "--swizzle", "a layout"),
        (&["--mma", mma, "--a", "4"], "--a", "--mma with a shape"),
        (&["--mma", mma, "--atoms", "(2,2,1)", "--threads", "4"], "--threads", "--mma with a name"),
        (&["--mma", mma, "--atom", "SM75_U32x4_LDSM_N"], "--atom", "--operand"),
        (&["--mma", "2x2x1", "--atoms", "(2,2,1)"], "--atoms", "a tiled instruction"),
        (&["--mma", "2x2x1", "--tile", "2x2x1"], "--tile", "a tiled instruction"),
    ] {
        let output = run(args);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && output.stdout.is_empty(), "{args:?} is refused");
        // The parser rejects some options itself, in other words.
        let ours = error.contains(&format!("{option} does not apply to")) && error.contains(with);
        assert!(ours || output.status.code() == Some(2) && error.contains(option), "{args:?}: {error}");
    }
}

#[test]
fn expressions_are_drawn() {
    assert_eq!(printed(&["logical_divide((8,8),(4,4))"]), printed(&["((4,2),(4,2)):((1,4),(8,32))"]));
    assert_eq!(printed(&["(8,8):(8,1) o (4,4):(2,8)"]), printed(&["(4,4):(16,1)"]));
    assert_eq!(
        printed(&["composition(Sw<3,3,3>, (8,64):(64,1))"]),
        printed(&["(8,64):(64,1)", "--swizzle", "3,3,3"])
    );
    assert!(refused(&["logical_divid((8,8),(4,4))"]).contains("did you mean `logical_divide`?"));
    assert!(refused(&["size((8,8)) o"]).contains("column"));
    assert!(refused(&["congruent(4,4)"]).contains("not a layout to draw"));
}

#[test]
fn what_is_wrong_with_an_access_is_said() {
    let error = |access: &str| refused(&["(32,32):(32,1)", "--banks", "f32", "--access", access]);
    assert!(error("64:1").contains("has 64 threads; a warp's has at most 32"), "{}", error("64:1"));
    assert!(error("4:1@0").contains("its strides are along basis vectors"), "{}", error("4:1@0"));
}

#[test]
fn every_kind_can_be_asked_for() {
    assert!(printed(&["(2,3)", "--format", "cute"]).starts_with("(2,3):(1,2)\n      0"), "column-major");
    assert!(printed(&["(2,3)", "--format", "moye", "--one-based"]).contains(" 2  | 2 | 4 | 6 |"));
    assert!(printed(&["--tv", "(4,2):(2,1)", "--tile", "8x1"]).contains("T3 V1"));
    assert!(printed(&["--copy", "(4,2)", "(1,2)"]).contains("Source ((4,2),2):((1,8),4)"));
    let copy = ["--source", "(4,2):(1,4)", "--destination", "(4,2):(2,1)", "--tile", "4x2"];
    assert!(printed(&copy).contains("Destination"));
    assert!(printed(&["(8,8)", "--swizzle", "3,0,3"]).contains("After Sw<3,0,3>"));
    assert!(
        printed(&["(32,32):(32,1)", "--banks", "f32", "--access", "32:1"]).contains("32-way bank conflict")
    );
    let swizzled = ["(8,64):(64,1)", "--swizzle", "3,3,3", "--banks", "f16", "--access", "(8,8):(1,8)"];
    assert!(printed(&swizzled).contains("no bank conflict"));
    let mma = ["--mma", "2x2x1", "--a", "(2,1)", "--b", "(2,1)", "--c", "(2,2)", "--threads", "2:5"];
    assert!(printed(&mma).contains("T5 V1"));
}

#[test]
fn atoms_are_tiled_by_name() {
    let copy = ["--copy", "(16,2)", "(2,4)", "--atom", "SM75_U32x4_LDSM_N", "--element", "u16"];
    let text = printed(&copy);
    assert!(text.contains("Source ((4,2,4),(8,1)):((8,128,32),(1,0))"), "{text}");
    assert!(text.contains("Destination ((16,2),((2,4),1)):((2,128),((1,32),0))"), "{text}");
    let words = ["--copy", "(2,3):(3,1)", "(2,3):(1,2)", "--atom", "UniversalCopy<f64>", "--element", "f64"];
    assert!(printed(&words).starts_with("UniversalCopy<f64> for f64, tiled copy of 4 x 9"));

    let mma = ["--mma", "SM80_16x8x8_F32TF32TF32F32_TN"];
    assert!(printed(&mma).contains("T31 V3"));
    assert!(printed(&["--mma", "MMAOP_16x8x8_F32TF32TF32F32_TN"]).starts_with(mma[1]), "MoYe's name");
    let tiled = [&mma[..], &["--atoms", "(2,2,1)", "--tile", "32x32x8"]].concat();
    assert!(printed(&tiled).contains("T127 V7"));
    let operand = [&tiled[..], &["--operand", "b", "--atom", "SM75_U32x4_LDSM_N"]].concat();
    assert!(printed(&operand).contains("Destination ((4,8,2,2),((2,2),1)):((32,1,0,8),((128,16),0))"));
    assert!(printed(&["--mma", "UniversalFma", "--atoms", "(16,16)"]).contains("16 x 16 x 1"));

    let too_much = [&mma[..], &["--operand", "b", "--atom", "SM75_U32x4_LDSM_N"]].concat();
    assert!(refused(&too_much).contains("take 4 values a thread, or an atom that moves 2 at once"));
    let odd = ["--copy", "(2,3)", "(3,1)", "--atom", "UniversalCopy<u128>", "--element", "f64"];
    assert!(refused(&odd).contains("the 3 values of a thread"));
    let torn = ["--copy", "(32,1)", "(1,8)", "--atom", "SM75_U32x4_LDSM_N", "--element", "f64"];
    let error = refused(&torn);
    assert!(
        error.contains("SM75_U32x4_LDSM_N for f64: elements of 64 bits are torn between threads"),
        "{error}"
    );
    assert!(!error.contains("the copy atom"), "it is named: {error}");

    // Complex values have 128 bits; sums of three products have 192, which no copy moves.
    let complex = ["--mma", "SM80_8x8x4_C64C64C64C64_TN", "--atom", "UniversalCopy<u128>", "--operand", "a"];
    assert!(printed(&complex).starts_with("UniversalCopy<u128> for c64, tiled copy of 8 x 4"));
    let gauss = ["--mma", "SM80_8x8x4_GC64C64C64GC64_TN", "--atom", "UniversalCopy<u128>", "--operand", "c"];
    let error = refused(&gauss);
    assert!(
        error.contains("\"gc64\"") && error.contains("192") && error.contains("--element f64"),
        "{error}"
    );

    // A quad pair occurs four times in a warp.
    let pair = ["--mma", "SM70_8x8x4_F32F16F16F32_TN", "--atoms", "(1,1,1)"];
    assert!(printed(&pair).contains("T16"));
    let three = ["--mma", "SM70_8x8x4_F32F16F16F32_TN", "--atoms", "(3,1,1)"];
    assert!(refused(&three).contains("lanes 0 to 3 and 16 to 19"));
    assert!(refused(&["--mma", "none"]).contains("`moye atoms` lists"));
    assert!(
        refused(&["--copy", "8", "2", "--atom", "none", "--element", "f32"]).contains("SM75_U32x4_LDSM_N")
    );
    assert!(refused(&["--copy", "8", "2", "--atom", "DefaultCopy"]).contains("--element"));
    assert!(
        refused(&[&mma[..], &["--operand", "d", "--atom", "DefaultCopy"]].concat()).contains("a, b and c")
    );
    assert!(refused(&[&mma[..], &["--tile", "24x8x8", "--atoms", "(1,2)"]].concat()).contains("take 32"));
}

#[test]
fn instructions_and_copies_are_read_from_json() {
    let file = atoms();
    let file = file.to_str().unwrap();
    let name = "SM80_16x8x16_F32F16F16F32_TN";
    let text = printed(&["--json", file, "--mma", name]);
    assert!(text.starts_with(name) && text.contains("T31 V3"), "{text}");
    let text = printed(&["--json", file, "--mma", "SM70_8x8x4_F32F16F16F32_NT"]);
    assert!(text.contains("T19") && !text.contains("T4 "), "thread ids are the quad pair's: {text}");
    assert!(printed(&["--json", file, "--id", "297"]).contains("Destination ((8,4),((2,2,2),1))"));
    assert!(refused(&["--json", file]).contains("--id"));
    assert!(refused(&["--json", file, "--id", "5"]).contains("no line with id 5"));
    assert!(refused(&["--json", file, "--mma", "none"]).contains("named none"));
}

#[test]
fn wrong_json_is_refused_with_its_line() {
    for (text, parts) in [
        ("{\"kind\": \"algebra\"}", ["-:1", "\"algebra\""]),
        ("\n{\"kind\": \"tiled_copy\"}", ["-:2", "layout_src_tv"]),
        ("{", ["-:1", "EOF"]),
        (
            "{\"kind\":\"mma_traits\",\"shape_mnk\":[1,1],\"A\":{\"shape\":1,\"stride\":0}}",
            ["-:1", "shape_mnk"],
        ),
    ] {
        let mut child = moye(&["--json", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}");
        for part in parts {
            assert!(error.contains(part), "{part:?} in {error}");
        }
    }
}

#[test]
fn every_matrix_instruction_is_drawn_by_its_name() {
    for atom in moye_device::atom::mma::MMA_ATOMS {
        let by_name = printed(&["--mma", atom.name, "--format", "svg"]);
        assert!(by_name.starts_with("<svg"), "{}", atom.name);
        assert!(by_name.contains(&format!(">{}<", atom.name)), "{} is the title", atom.name);
        if let Some(name) = atom.moye_name {
            // Atoms with one name in the table are equal except for the title.
            let body = |svg: &str| svg.replace("SM75", "SM80");
            let same = body(&printed(&["--mma", name, "--format", "svg"])) == body(&by_name);
            assert!(same, "{name} in MoYe is {}", atom.name);
        }
    }
    let error = refused(&["--mma", "SM80_1x1x1"]);
    assert!(error.contains("`moye atoms` lists"), "{error}");
}

#[test]
fn the_layout_may_stand_after_an_option_too() {
    assert_eq!(printed(&["--layout", "(4,8):(8,1)"]), printed(&["(4,8):(8,1)"]));
    let swizzled = ["(8,64):(64,1)", "--swizzle", "S<3,3,3>", "--banks", "f16"];
    assert_eq!(printed(&[&["--layout"], &swizzled[..]].concat()), printed(&swizzled));
    assert!(!run(&["--layout", "(4,8)", "(4,8)"]).status.success());
}

#[test]
fn what_cute_prints_is_drawn() {
    let same = [
        ("gmem_ptr[32b](0x7f2b40000000) o (_4,_8):(_8,_1)", "(4,8):(8,1)"),
        ("Sw<3,4,3> o smem_ptr[16b](unset) o (_8,_64):(_64,_1)", "Sw<3,3,3> o 0 o (8,64):(64,1)"),
        ("S<3,4,3> o 0 o (8,64):(64,1)", "Sw<3,4,3> o 0 o (8,64):(64,1)"),
        ("tensor<ptr<f32, gmem, align<16>> o (4,8):(8,1)>", "(4,8):(8,1)"),
    ];
    for (pasted, text) in same {
        assert_eq!(printed(&[pasted]), printed(&[text]), "{pasted}");
    }
    let tv = "((4,8),(2,2)):((32,1),(16,8))";
    let pasted = "((_4,_8),(_2,_2)):((_32,_1),(_16,_8))";
    assert_eq!(printed(&["--tv", pasted, "--tile", "16x8"]), printed(&["--tv", tv, "--tile", "16x8"]));
    let pointed = format!("ptr[16b](nil) o {tv}");
    assert_eq!(printed(&["--tv", &pointed, "--tile", "16x8"]), printed(&["--tv", tv, "--tile", "16x8"]));
    let error = refused(&["--tv", "Sw<3,3,3> o 0 o (4,2)", "--tile", "4x2"]);
    assert!(error.contains("--tv") && error.contains("without a swizzle"), "{error}");
    assert!(refused(&["(?,8):(8,1)"]).contains("column 2: expected a number in place of `?`"));
}

#[test]
fn a_swizzled_layout_is_drawn_from_its_text() {
    let text = "Sw<3,3,3> o 0 o (8,64):(64,1)";
    assert_eq!(printed(&[text]), printed(&["(8,64):(64,1)", "--swizzle", "3,3,3"]));
    assert_eq!(
        printed(&[text, "--banks", "f16"]),
        printed(&["(8,64):(64,1)", "--swizzle", "3,3,3", "--banks", "f16"])
    );
    assert!(refused(&[text, "--swizzle", "3,3,3"]).contains("already swizzled"));
    assert!(refused(&["Sw<3,3> o 0 o 8:1"]).contains("column"));
}
