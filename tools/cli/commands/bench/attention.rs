//! The cases of `moye bench attention`: the default ones, or those given by shapes and options.

use crate::commands::number::number;
use crate::commands::run::pair;
use clap::Args;
use moye::Factor;
use moye_bench::Size;
use moye_bench::attention::{Case, Options, Order, cases, cases_of_e4m3};
use std::str::FromStr;

/// Parses an f32. A value that f32 rounds to infinity or to 0 is an error.
fn single(text: &str) -> Result<f32, String> {
    f32::of(number(text)?).ok_or_else(|| format!("`{text}` is outside of {}", f32::TAKES))
}

/// Default head sizes, in columns.
const COLUMNS: [usize; 3] = [64, 128, 256];
const TOKENS: [usize; 3] = [1024, 4096, 16384];
/// The total tokens of all sequences and columns of all heads if their numbers are not given, as in
/// FlashAttention's figures.
const ALL_TOKENS: usize = 16384;
const ALL_COLUMNS: usize = 2048;
/// Up to this number of queries of a sequence, rates are in bytes, because loading keys and values
/// dominates.
const FEW: usize = 16;

#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Options of attention")]
pub struct Cases {
    /// Number of sequences (default: 16,384 keys in total).
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..), value_name = "N")]
    batches: Option<u32>,
    /// Number of heads, `N`, or of query heads and the KV heads that they share, `N/KV` (default:
    /// 2048 columns in total).
    #[arg(long, value_name = "N[/KV]")]
    heads: Option<Heads>,
    /// Columns of a head, separated by commas (default: 64,128,256).
    #[arg(long, value_delimiter = ',', value_name = "COLUMNS")]
    head_dim: Vec<usize>,
    /// Columns of a head of values (default: as the queries and keys).
    #[arg(long, value_name = "COLUMNS")]
    value_dim: Option<usize>,
    /// Causal mask: hide the keys after a query's position; the last query is at the position of
    /// the last key.
    #[arg(long, conflicts_with = "window")]
    causal: bool,
    /// Sliding window: hide the keys more than L before or R after a query's position; `-` means no
    /// limit.
    #[arg(long, value_name = "L,R", value_parser = pair)]
    window: Option<[Option<i64>; 2]>,
    /// Replace each score s by CAP tanh(s / CAP).
    #[arg(long, value_name = "CAP", value_parser = single)]
    softcap: Option<f32>,
    /// ALiBi with the slopes 2^(-8 i / heads) for heads i = 1, 2, ...
    #[arg(long)]
    alibi: bool,
    /// An attention sink for each head.
    #[arg(long)]
    sinks: bool,
    /// A boolean mask for each pair of query and key, which hides one key in eight.
    #[arg(long)]
    mask: bool,
    /// Variable length: sequences follow each other in one batch, with offsets on the device.
    #[arg(long, conflicts_with = "pages")]
    offsets: bool,
    /// Keys and values in pages of this many tokens, a power of two, in random order.
    #[arg(long, value_name = "TOKENS")]
    pages: Option<usize>,
    /// Number of splits of the keys (default: chosen by shape and device).
    #[arg(long, value_name = "N")]
    splits: Option<u32>,
}

impl Cases {
    /// Whether an option is given.
    pub fn is_given(&self) -> bool {
        *self != Self::default()
    }

    /// The default cases if neither `sizes` nor an option is given; otherwise each head size with
    /// each size, M queries and N keys.
    pub fn all(&self, sizes: &[Size], bias: bool, e4m3: bool) -> Vec<Case> {
        if !self.is_given() && sizes.is_empty() && !bias {
            return if e4m3 { cases_of_e4m3() } else { cases() };
        }
        let columns = if self.head_dim.is_empty() { &COLUMNS[..] } else { &self.head_dim };
        let squares = TOKENS.map(Size::cube);
        let sizes = if sizes.is_empty() { &squares[..] } else { sizes };
        let options = Options {
            window: if self.causal {
                [None, Some(0)]
            } else {
                self.window.unwrap_or_default().map(|side| side.and_then(|side| u32::try_from(side).ok()))
            },
            softcap: self.softcap.unwrap_or(0.0),
            alibi: self.alibi,
            sinks: self.sinks,
            bias,
            mask: self.mask,
        };
        let order = match self.pages {
            Some(page) => Order::Pages(page),
            None if self.offsets => Order::Offsets,
            None => Order::Batches,
        };
        let mut cases = Vec::new();
        for &d in columns {
            for &Size { m: queries, n: keys, .. } in sizes {
                let heads = (ALL_COLUMNS / d.max(1)).max(1);
                let Heads { queries: heads, keys: kv_heads } =
                    self.heads.unwrap_or(Heads { queries: heads, keys: heads });
                let batches = self.batches.map_or((ALL_TOKENS / keys).max(1), |batches| batches as usize);
                cases.push(Case {
                    kv_heads,
                    queries,
                    dv: self.value_dim.unwrap_or(d),
                    options,
                    by_bytes: queries <= FEW,
                    order,
                    splits: self.splits,
                    e4m3,
                    ..Case::prompt(batches, heads, keys, d)
                });
            }
        }
        cases
    }
}

/// Query heads and KV heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Heads {
    queries: usize,
    keys: usize,
}

impl FromStr for Heads {
    type Err = String;

    /// Reads `N` or `N/KV`, where KV divides N.
    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse::<usize>().ok().filter(|&number| number > 0);
        let (queries, keys) = text.split_once('/').unwrap_or((text, text));
        match (number(queries), number(keys)) {
            (Some(queries), Some(keys)) if queries.is_multiple_of(keys) => Ok(Self { queries, keys }),
            _ => Err(format!(
                "`{text}` is not a number of heads: expected N or N/KV, numbers from 1 of which KV divides N, such as 16 or 32/8"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        cases: Cases,
    }

    fn parsed(arguments: &[&str]) -> Cases {
        <Program as clap::Parser>::parse_from([&["bench"], arguments].concat()).cases
    }

    #[test]
    fn without_options_the_cases_are_the_default_ones() {
        assert_eq!(parsed(&[]).all(&[], false, false), cases());
        assert_eq!(parsed(&[]).all(&[], false, true), cases_of_e4m3());
    }

    #[test]
    fn options_and_head_sizes_make_cases_for_all_sizes() {
        let given = parsed(&["--head-dim", "80,192", "--causal", "--softcap", "30", "--alibi"]);
        let all = given.all(&[], false, false);
        let names: Vec<_> =
            all.iter().map(|case| format!("{case} {} x {}", case.queries, case.keys)).collect();
        assert_eq!(
            names,
            [
                "bf16 B 16 H 25 D 80 causal softcap 30 alibi 1024 x 1024",
                "bf16 B 4 H 25 D 80 causal softcap 30 alibi 4096 x 4096",
                "bf16 B 1 H 25 D 80 causal softcap 30 alibi 16384 x 16384",
                "bf16 B 16 H 10 D 192 causal softcap 30 alibi 1024 x 1024",
                "bf16 B 4 H 10 D 192 causal softcap 30 alibi 4096 x 4096",
                "bf16 B 1 H 10 D 192 causal softcap 30 alibi 16384 x 16384",
            ]
        );
        assert!(all.iter().all(|case| !case.by_bytes));
    }

    #[test]
    fn decoding_against_a_cache_in_pages_is_measured_in_bytes() {
        let shape = ["--batches", "16", "--heads", "32/8", "--head-dim", "192", "--value-dim", "128"];
        let options = ["--pages", "64", "--window", "1024,0", "--sinks", "--splits", "4"];
        let given = parsed(&[&shape[..], &options].concat());
        let [case] = given.all(&["1x8192x1".parse().unwrap()], true, false)[..] else { panic!("one case") };
        assert_eq!(case.to_string(), "bf16 B 16 H 32/8 D 192/128 window 1024,0 sinks bias pages of 64");
        assert!(case.by_bytes && (case.queries, case.keys, case.splits) == (1, 8192, Some(4)), "{case:?}");
        let offsets = parsed(&["--offsets", "--mask"]).all(&[Size::cube(64)], false, true)[0];
        assert_eq!(offsets.to_string(), "e4m3 B 256 H 32 D 64 mask by offsets");
    }

    #[test]
    fn heads_are_one_number_or_two_of_which_one_divides_the_other() {
        assert_eq!("16".parse(), Ok(Heads { queries: 16, keys: 16 }));
        assert_eq!("32/8".parse(), Ok(Heads { queries: 32, keys: 8 }));
        for text in ["", "0", "8/0", "8/3", "8/", "/8", "8/4/2", "-8"] {
            let said = text.parse::<Heads>().unwrap_err();
            assert!(said.starts_with(&format!("`{text}` is not a number of heads")), "{said}");
        }
    }

    #[test]
    fn a_scale_that_f32_does_not_hold_is_refused_with_the_range() {
        assert_eq!(single("0.125"), Ok(0.125));
        assert_eq!(single("-1e-44"), Ok(-1e-44));
        for text in ["1e39", "1e-50"] {
            let said = single(text).unwrap_err();
            assert!(said.starts_with(&format!("`{text}` is outside of a float of 32 bits")), "{said}");
        }
        assert!(single("1e400").unwrap_err().contains("too large"));
    }
}
