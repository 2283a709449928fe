//! Arrays in global or constant memory of a module, and loads from them at an index that is known
//! only at run time.

use std::collections::{BTreeMap, BTreeSet};

/// The arrays that a module declares in `text`, outside its functions.
pub fn arrays(text: &str) -> impl Iterator<Item = &str> {
    text.split(';').filter_map(|statement| {
        let (before, _) = statement.split_once('[')?;
        let has = |name| before.split_whitespace().any(|word| word == name);
        // An extern array belongs to another module.
        let is_ours = (has(".global") || has(".const")) && !has(".extern");
        before.split_whitespace().next_back().filter(|_| is_ours)
    })
}

/// The registers of a function that hold an address in an array.
#[derive(Default)]
pub struct Addresses<'a>(BTreeMap<&'a str, Address<'a>>);

#[derive(Clone, Copy)]
struct Address<'a> {
    array: &'a str,
    /// Whether a register was added to the address.
    is_indexed: bool,
}

impl<'a> Addresses<'a> {
    /// Follows an instruction, given without its predicate. Returns the array from which it loads
    /// at an index that is known only at run time.
    pub fn follow(&mut self, instruction: &'a str, arrays: &BTreeSet<&'a str>) -> Option<&'a str> {
        let (name, operands) = instruction.split_once(char::is_whitespace)?;
        if name.starts_with("ld.") {
            let (_, address) = operands.split_once('[')?;
            let register = address.split(['+', ']']).next()?.trim();
            return self.0.get(register).filter(|address| address.is_indexed).map(|address| address.array);
        }
        let mut operands = operands.split(',').map(str::trim);
        let to = operands.next()?;
        let (mut found, mut registers) = (None, 0);
        for from in operands {
            let array = arrays.get(from).map(|&array| Address { array, is_indexed: false });
            match array.or_else(|| self.0.get(from).copied()) {
                Some(address) => found = found.or(Some(address)),
                None => registers += usize::from(from.starts_with('%')),
            }
        }
        let keeps_address =
            ["mov", "cvta", "add", "sub", "mad"].contains(&name.split('.').next().unwrap_or_default());
        match found.filter(|_| keeps_address) {
            Some(address) => {
                let is_indexed = address.is_indexed || registers > 0;
                self.0.insert(to, Address { is_indexed, ..address });
            }
            None => _ = self.0.remove(to),
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = "
.version 7.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 smem[];
.extern .global .b8 theirs[4];
.global .align 4 .b8 table[2048] = {0, 0, 0, 0, 1};
.visible .const .align 4 .f32 factors[4];
.global .u64 counter;
";

    #[test]
    fn a_module_declares_its_arrays_in_global_and_constant_memory() {
        assert_eq!(arrays(MODULE).collect::<Vec<_>>(), ["table", "factors"]);
    }

    #[test]
    fn a_load_at_an_index_of_run_time_is_one_from_a_table() {
        let arrays: BTreeSet<_> = arrays(MODULE).collect();
        for (body, found) in [
            (&["mov.b64 %rd1, table", "add.s64 %rd2, %rd1, %rd9", "ld.global.nc.b32 %r1, [%rd2+8]"][..], 1),
            (
                &[
                    "mov.b64 \t%rd1, factors",
                    "cvta.const.u64 %rd2, %rd1",
                    "add.s64 %rd3, %rd8, %rd2",
                    "ld.b32 %r1, [%rd3]",
                ],
                1,
            ),
            (&["mad.lo.s64 %rd2, %rd8, 4, table", "ld.global.b32 %r1, [%rd2]"], 1),
            // The index is a constant.
            (&["mov.b64 %rd1, table", "add.s64 %rd2, %rd1, 16", "ld.global.b32 %r1, [%rd2+8]"], 0),
            (&["ld.global.b32 %r1, [table+4]"], 0),
            // The register holds another address at that point.
            (&["add.s64 %rd2, table, %rd9", "mov.b64 %rd2, %rd7", "ld.global.b32 %r1, [%rd2]"], 0),
            (&["mov.b64 %rd1, counter", "add.s64 %rd2, %rd1, %rd9", "ld.global.b32 %r1, [%rd2]"], 0),
            // A comparison of addresses loads nothing.
            (&["mov.b64 %rd1, table", "setp.eq.s64 %p1, %rd1, %rd9", "ld.param.b64 %rd2, [k_param_0]"], 0),
        ] {
            let mut addresses = Addresses::default();
            let loads = body.iter().filter(|line| addresses.follow(line, &arrays).is_some()).count();
            assert_eq!(loads, found, "{body:?}");
        }
    }
}
