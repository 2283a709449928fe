//! The GPU architectures that the compiler knows.

use crate::{Arch, BuildError, core_source, environment};

/// The target of device code.
pub const TARGET: &str = "nvptx64-nvidia-cuda";

/// Rejects architectures that the compiler does not know. For these it only warns, and writes PTX
/// of an old version under their name.
///
/// # Errors
/// [`BuildError::UnknownArch`]; the compiler cannot be run.
pub fn check(archs: &[Arch]) -> Result<(), BuildError> {
    let listed = core_source::run(&environment::rustc(), &["--print", "target-cpus", "--target", TARGET])?;
    let known = names(&listed);
    match archs.iter().find(|arch| !known.contains(&arch.to_string())) {
        Some(&arch) => Err(BuildError::UnknownArch { arch, known }),
        None => Ok(()),
    }
}

/// The names in a list of processors: the first words of its lines.
fn names(listed: &str) -> Vec<String> {
    let first = listed.lines().filter_map(|line| line.split_whitespace().next());
    first.filter(|name| name.parse::<Arch>().is_ok()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiler_knows_the_architectures_that_there_are() {
        let archs = |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect::<Vec<Arch>>();
        check(&archs(&["sm_70", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a"])).unwrap();
        let error = check(&archs(&["sm_80", "sm_81"])).unwrap_err().to_string();
        assert!(error.contains("does not know sm_81") && error.contains(" sm_80, "), "{error}");
    }

    #[test]
    fn names_are_the_first_words_of_the_lines() {
        let listed = "Available CPUs for this target:\n    sm_20\n    sm_30  - This is the default target CPU\n    sm_100f\n";
        assert_eq!(names(listed), ["sm_20", "sm_30", "sm_100f"]);
    }
}
