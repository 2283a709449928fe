//! PTX for assemblers: the text of single kernels, and what NVIDIA's "PTX ISA" says of
//! architectures.

/// The text of one kernel of a module, from its `.visible` to its closing brace.
pub fn kernel_text(module: &'static str, kernel: &str) -> &'static str {
    let start = module.find(&format!(".visible .entry {kernel}(")).expect("the kernel is in its module");
    let length = module[start..].find("\n}\n").expect("a kernel ends") + 3;
    &module[start..start + length]
}

/// The first PTX version with an architecture.
pub fn version_of(arch: u32) -> (u32, u32) {
    match arch {
        50 => (4, 0),
        52 => (4, 1),
        53 => (4, 2),
        60..=62 => (5, 0),
        70 => (6, 0),
        72 => (6, 1),
        75 => (6, 3),
        80 => (7, 0),
        86 => (7, 1),
        89 | 90 => (7, 8),
        other => panic!("no instruction of the tests begins with sm_{other}, or with the one after it"),
    }
}

/// The architecture next older than one that instructions begin with.
pub fn before(arch: u32) -> Option<u32> {
    Some(match arch {
        90 => 89,
        89 => 86,
        80 => 75,
        75 => 72,
        70 => 62,
        61 => 60,
        60 => 53,
        53 => 52,
        _ => return None,
    })
}
