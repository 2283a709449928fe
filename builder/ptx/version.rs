//! The version of the PTX language that a module states.

/// Instructions that only inline assembly contains, and the version that has them: the compiler
/// states the version that was requested.
const NEWER: [(&str, (u32, u32)); 1] = [("fence.proxy.tensormap::generic.", (8, 3))];

/// The module with a version that has all of its instructions: a driver refuses a module of a
/// version that it does not know, so that no module has a newer one than it needs.
pub fn raise_version(module: String) -> String {
    let needed = NEWER.iter().filter(|(instruction, _)| module.contains(instruction));
    let Some(needed) = needed.map(|&(_, version)| version).max() else { return module };
    let Some((before, rest)) = module.split_once(".version ") else { return module };
    let (stated, after) = rest.split_once('\n').unwrap_or((rest, ""));
    let parts = stated.trim().split_once('.');
    let is_older = parts
        .and_then(|(major, minor)| Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?)))
        .is_some_and(|version| version < needed);
    if is_older { format!("{before}.version {}.{}\n{after}", needed.0, needed.1) } else { module }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_raised_for_an_instruction_that_is_newer_and_not_otherwise() {
        let module = |version: &str, instruction: &str| {
            format!("//\n.version {version}\n.target sm_90a\n.entry k() {{ {instruction} ret; }}\n")
        };
        let fence = "fence.proxy.tensormap::generic.acquire.sys [%rd1], 128;";
        assert_eq!(raise_version(module("8.1", fence)), module("8.3", fence));
        for (version, instruction) in [("8.3", fence), ("8.6", fence), ("8.1", "fence.proxy.async;")] {
            assert_eq!(raise_version(module(version, instruction)), module(version, instruction));
        }
    }
}
