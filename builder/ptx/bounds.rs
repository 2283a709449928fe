//! Launch bounds. rustc has no attribute for them, so `#[kernel]` leaves a comment in the module's
//! assembly, `//.moye.kernel NAME maxntid=256 minnctapersm=2 shared=4096 constants=0`, which this
//! module turns into directives of the entry.
//!
//! Bit `i` of `constants` is set if instructions take parameter `i` by its address. Such a
//! parameter, a tensor map, must be aligned to 64 bytes, and the compiler crashes for a parameter
//! with that alignment.

use std::collections::BTreeMap;

const MARKER: &str = "//.moye.kernel ";

/// The declarations of `#[kernel]` for one entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The maximum number of threads of a block.
    pub threads: Option<u32>,
    /// Blocks that must fit on an SM.
    pub min_blocks: Option<u32>,
    /// Bytes of shared memory that a launch provides.
    pub shared: Option<u32>,
    /// The parameters that are taken by address, one bit each.
    pub constants: Option<u32>,
}

/// The alignment, in bytes, of a parameter that is taken by address.
const CONSTANT_ALIGN: &str = ".align 64";

impl Bounds {
    /// Parses the part of a marker after the name.
    fn parse(name: &str, fields: &str) -> Result<Self, String> {
        let mut bounds = Self::default();
        for field in fields.split_whitespace() {
            let wrong = || format!("the launch bounds of kernel `{name}` cannot be read: `{field}`");
            let (key, value) = field.split_once('=').ok_or_else(wrong)?;
            let value = Some(value.parse().map_err(|_| wrong())?);
            match key {
                "maxntid" => bounds.threads = value,
                "minnctapersm" => bounds.min_blocks = value,
                "shared" => bounds.shared = value,
                "constants" => bounds.constants = value,
                _ => return Err(wrong()),
            }
        }
        Ok(bounds)
    }

    fn directives(self) -> String {
        let mut text = String::new();
        if let Some(threads) = self.threads {
            text += &format!(".maxntid {threads}\n");
        }
        if let Some(min_blocks) = self.min_blocks {
            text += &format!(".minnctapersm {min_blocks}\n");
        }
        text
    }

    /// The line, with an alignment if it declares a parameter that is taken by address.
    fn aligned(self, kernel: &str, line: &str) -> String {
        let number = line
            .trim()
            .trim_end_matches(',')
            .split_once(&format!("{kernel}_param_"))
            .and_then(|(_, rest)| rest.split('[').next()?.parse::<u32>().ok());
        match (number, self.constants) {
            (Some(number), Some(mask)) if number < 32 && mask >> number & 1 == 1 => {
                line.replacen(".align 8", CONSTANT_ALIGN, 1)
            }
            _ => line.to_owned(),
        }
    }
}

/// Writes the declared launch bounds into the module as `.maxntid` and `.minnctapersm`, between
/// each entry's parameters and its body. A kernel's declared shared memory stays there as a
/// comment.
///
/// # Errors
/// A marker cannot be read, two markers of one kernel differ, or an entry's body is not found.
pub fn apply_bounds(module: &str) -> Result<String, String> {
    let mut declared: BTreeMap<&str, Bounds> = BTreeMap::new();
    for line in module.lines() {
        let Some(marker) = line.trim().strip_prefix(MARKER) else { continue };
        let (name, fields) = marker.split_once(' ').unwrap_or((marker, ""));
        let bounds = Bounds::parse(name, fields)?;
        if declared.insert(name, bounds).is_some_and(|other| other != bounds) {
            return Err(format!(
                "two kernels are named `{name}`; a kernel's name must be unique in the module"
            ));
        }
    }
    let mut text = String::with_capacity(module.len() + 64 * declared.len());
    // The bounds of the entry whose header is being read.
    let mut pending: Option<(&str, Bounds)> = None;
    let lost = |name: &str| {
        format!(
            "the launch bounds of kernel `{name}` cannot be written: its PTX has no line with the body's `{{`"
        )
    };
    for line in module.lines().filter(|line| !line.trim().starts_with(MARKER)) {
        if let Some(name) = entry_name(line) {
            let bounds = declared.get_key_value(name).map(|(&name, &bounds)| (name, bounds));
            if let Some((unwritten, _)) = std::mem::replace(&mut pending, bounds) {
                return Err(lost(unwritten));
            }
        }
        // The body's brace is alone on its line; nothing in a parameter list is.
        if line.trim() == "{"
            && let Some((_, bounds)) = pending.take()
        {
            text += &bounds.directives();
            if let Some(bytes) = bounds.shared {
                text += &format!("// shared {bytes}\n");
            }
        }
        match pending {
            Some((name, bounds)) => text += &bounds.aligned(name, line),
            None => text += line,
        }
        text.push('\n');
    }
    pending.map_or(Ok(text), |(unwritten, _)| Err(lost(unwritten)))
}

/// The name of the entry that this line begins: `.visible .entry NAME(`.
pub(super) fn entry_name(line: &str) -> Option<&str> {
    let (before, after) = line.split_once(".entry ")?;
    if !matches!(before.trim(), "" | ".visible" | ".weak" | ".extern") {
        return None;
    }
    Some(after.split(['(', ' ', '{']).next().unwrap_or(after).trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = "\
.version 7.0
.target sm_80
//.moye.kernel bounded maxntid=256 minnctapersm=2 shared=4096
//.moye.kernel gone maxntid=32
//.moye.kernel free
.visible .entry bounded(
\t.param .u32 bounded_param_0
)
{
\tret;
}
.visible .entry free()
{
\tret;
}
";

    #[test]
    fn bounds_stand_between_parameters_and_body() {
        let text = apply_bounds(MODULE).unwrap();
        assert!(
            text.contains("bounded_param_0\n)\n.maxntid 256\n.minnctapersm 2\n// shared 4096\n{\n\tret;"),
            "the directives belong right before the body: {text}"
        );
        assert!(text.contains(".entry free()\n{\n"), "a kernel without bounds stays as it is: {text}");
        assert!(
            !text.contains("moye"),
            "the markers are gone, also that of a kernel that is not there: {text}"
        );
    }

    #[test]
    fn parameters_that_are_taken_by_their_address_stand_at_multiples_of_64() {
        let module = "\
//.moye.kernel k maxntid=32 constants=2
.visible .entry k(
\t.param .align 8 .b8 k_param_0[128],
\t.param .align 8 .b8 k_param_1[128],
\t.param .u32 k_param_2
)
{
\tmov.b64 at, k_param_1;
}
";
        let text = apply_bounds(module).unwrap();
        assert!(text.contains(".align 8 .b8 k_param_0[128]"), "bit 0 is not set: {text}");
        assert!(text.contains(".align 64 .b8 k_param_1[128]"), "bit 1 is set: {text}");
        assert!(text.contains(".u32 k_param_2\n"), "{text}");
    }

    #[test]
    fn one_name_with_two_bounds_is_an_error() {
        let module = MODULE.replace("kernel gone maxntid=32", "kernel bounded maxntid=32");
        assert!(apply_bounds(&module).unwrap_err().contains("two kernels are named `bounded`"));
    }

    #[test]
    fn bounds_that_have_no_place_are_an_error() {
        for module in [MODULE.replacen(")\n{", ") {", 1), MODULE.split_once("\n)\n").unwrap().0.to_owned()] {
            let error = apply_bounds(&module).unwrap_err();
            assert!(error.contains("of kernel `bounded` cannot be written"), "{error}");
        }
    }

    #[test]
    fn a_marker_that_cannot_be_read_is_an_error() {
        for field in ["maxntid=many", "maxntid", "clusters=2"] {
            let error = apply_bounds(&format!("//.moye.kernel k {field}\n")).unwrap_err();
            assert!(error.contains(&format!("`{field}`")), "{error}");
        }
    }
}
