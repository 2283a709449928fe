//! Which options apply to which picture. The parser checks conflicts, but not everything that an
//! option requires: an option of another picture would be ignored silently.

use super::Draw;
use anyhow::{Result, bail};

/// A kind of picture; kinds differ in their options.
struct Kind {
    /// Its name in messages.
    name: &'static str,
    /// The options that it accepts.
    takes: &'static [&'static str],
}

const LAYOUT: Kind = Kind { name: "a layout", takes: &["--swizzle", "--banks", "--access"] };
const THREAD_VALUE: Kind = Kind { name: "--tv", takes: &["--tile", "--threads"] };
const COPY: Kind = Kind { name: "--copy", takes: &["--atom", "--element"] };
const SOURCE: Kind = Kind { name: "--source", takes: &["--destination", "--tile"] };
const JSON: Kind = Kind { name: "--json", takes: &["--id", "--threads"] };
const OPERANDS: Kind = Kind { name: "--mma with a shape", takes: &["--a", "--b", "--c", "--threads"] };
const NAMED: Kind = Kind { name: "--mma with a name", takes: &["--threads"] };
const TILED: Kind = Kind { name: "a tiled instruction", takes: &["--atoms", "--tile"] };
const OPERAND: Kind =
    Kind { name: "--operand", takes: &["--operand", "--atoms", "--tile", "--atom", "--element"] };

const KINDS: &[&Kind] = &[&LAYOUT, &THREAD_VALUE, &COPY, &SOURCE, &JSON, &OPERANDS, &NAMED, &TILED, &OPERAND];

impl Draw {
    /// Rejects an option that does not apply to the picture.
    pub(super) fn check_options(&self) -> Result<()> {
        let kind = self.kind();
        for (option, _) in self.given().into_iter().filter(|(_, given)| *given) {
            if !kind.takes.contains(&option) {
                let with: Vec<&str> =
                    KINDS.iter().filter(|kind| kind.takes.contains(&option)).map(|kind| kind.name).collect();
                bail!("{option} does not apply to {}, but to {}; see --help", kind.name, with.join(", "));
            }
        }
        Ok(())
    }

    fn kind(&self) -> &'static Kind {
        match &self.mma {
            _ if self.json.is_some() => &JSON,
            _ if self.tv.is_some() => &THREAD_VALUE,
            _ if self.copy.is_some() => &COPY,
            _ if self.source.is_some() => &SOURCE,
            None => &LAYOUT,
            Some(shape) if shape.starts_with(|letter: char| letter.is_ascii_digit()) => &OPERANDS,
            Some(_) if self.operand.is_some() => &OPERAND,
            Some(_) if self.atoms.is_some() || self.tile.is_some() => &TILED,
            // A multiply-add has no thread ids to number: it is tiled from one atom.
            Some(name) if name == "UniversalFma" => &TILED,
            Some(_) => &NAMED,
        }
    }

    fn given(&self) -> [(&'static str, bool); 14] {
        [
            ("--tile", self.tile.is_some()),
            ("--threads", self.threads.is_some()),
            ("--atom", self.atom.is_some()),
            ("--element", self.element.is_some()),
            ("--destination", self.destination.is_some()),
            ("--a", self.a.is_some()),
            ("--b", self.b.is_some()),
            ("--c", self.c.is_some()),
            ("--atoms", self.atoms.is_some()),
            ("--operand", self.operand.is_some()),
            ("--id", self.id.is_some()),
            ("--swizzle", self.swizzle.is_some()),
            ("--banks", self.banks.is_some()),
            ("--access", self.access.is_some()),
        ]
    }
}
