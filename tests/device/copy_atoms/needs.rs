//! The oldest architecture and PTX version of each instruction, from NVIDIA's "PTX ISA".

/// An architecture, 80 for sm_80, and a PTX version.
pub type Needs = (u32, (u32, u32));

/// The requirements of an instruction, by its name without operands.
pub fn needs(instruction: &str) -> Needs {
    match instruction.split('.').next().expect("a name") {
        "atom" | "red" => atomic(instruction),
        "ld" | "st" => access(instruction),
        "cvt" => conversion(instruction),
        "add" | "sub" | "mul" | "min" | "max" | "fma" => arithmetic(instruction),
        "cp" if instruction.contains(".L2::") => (80, (7, 4)),
        "cp" | "mbarrier" | "redux" => (80, (7, 0)),
        "createpolicy" => (80, (7, 4)),
        "prefetch" => (20, (2, 0)),
        "ldmatrix" => (75, (6, 5)),
        "movmatrix" => (75, (7, 8)),
        "stmatrix" => (90, (7, 8)),
        "match" => (70, (6, 0)),
        "vote" | "shfl" => (30, (6, 0)),
        _ => panic!("no entry says what {instruction} needs"),
    }
}

/// The newest qualifier decides.
fn access(instruction: &str) -> Needs {
    let has = |part: &str| instruction.contains(part);
    if has(".L2::cache_hint") || has(".L2::256B") {
        (80, (7, 4))
    } else if has(".L2::") {
        (75, (7, 4))
    } else if has(".L1::") {
        (70, (7, 4))
    } else if has(".nc") {
        (32, (3, 1))
    } else if [".ca.", ".cg.", ".cs.", ".lu.", ".wb.", ".wt."].into_iter().any(has) {
        (20, (2, 0))
    } else {
        (0, (1, 0))
    }
}

fn conversion(instruction: &str) -> Needs {
    let has = |part: &str| instruction.contains(part);
    match instruction {
        // sm_80's rounding is `rna`.
        _ if has(".rn.tf32") || has(".rz.tf32") || has(".rn.relu.tf32") => (90, (7, 8)),
        _ if has(".relu") || has("tf32") || has("bf16") || has("f16x2") => (80, (7, 0)),
        _ => (0, (1, 0)),
    }
}

fn arithmetic(instruction: &str) -> Needs {
    let bounds = instruction.starts_with("min.") || instruction.starts_with("max.");
    if bounds || instruction.contains("bf16") || instruction.contains(".relu") {
        (80, (7, 0))
    } else {
        (53, (4, 2))
    }
}

/// Exchanges and bit operations name no type, so the width decides.
fn atomic(instruction: &str) -> Needs {
    let mut parts = instruction.split('.').skip(2);
    let operation = parts.next().expect("an operation");
    match parts.last().expect("a type") {
        "bf16x2" => (90, (7, 8)),
        "f16x2" => (60, (6, 2)),
        "f64" => (60, (5, 0)),
        "f32" => (20, (2, 0)),
        wide if wide.ends_with("64") && !matches!(operation, "add" | "exch" | "cas") => (32, (3, 1)),
        wide if wide.ends_with("64") => (20, (2, 0)),
        _ => (12, (1, 2)),
    }
}
