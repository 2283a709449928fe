//! `page!`: a page of the guide as the documentation of a module, with links that resolve on
//! docs.rs.
//!
//! A page is written for the repository: its links are paths to files, which docs.rs lacks. There,
//! a link to another page leads to that page's documentation, pictures are embedded in the page,
//! and a link to another file becomes plain text.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use syn::{Error, LitStr};

/// The crates with pages, and the pages documented in each.
const PAGES: [(&str, &[&str]); 3] = [
    ("moye_build", &["ptx"]),
    (
        "moye_device",
        &[
            "attention",
            "bytes",
            "collectives",
            "debugging",
            "layout_algebra",
            "layouts",
            "partitions",
            "profile",
            "reductions",
            "tiling",
        ],
    ),
    ("moye_matmul", &["epilogue", "hopper", "ladder"]),
];

pub fn expand(input: TokenStream) -> syn::Result<TokenStream> {
    let name: LitStr = syn::parse2(input)?;
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let own = std::env::var("CARGO_PKG_NAME").unwrap_or_default().replace('-', "_");
    let path = package.unwrap_or_default().join(name.value());
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let fault = |path: &Path, error| Error::new(name.span(), format!("{}: {error}", path.display()));
    let text = std::fs::read_to_string(&path).map_err(|error| fault(&path, error))?;
    let page = rewritten(&text, &own, &mut |picture| {
        let file = folder.join("pictures").join(picture);
        std::fs::read_to_string(&file).map_err(|error| fault(&file, error))
    })?;
    let page = LitStr::new(&page, Span::call_site());
    Ok(quote!(#page))
}

/// A page with its link targets as on docs.rs. `picture` reads a picture by its name.
fn rewritten(
    page: &str,
    own: &str,
    picture: &mut dyn FnMut(&str) -> syn::Result<String>,
) -> syn::Result<String> {
    let mut new = String::with_capacity(page.len());
    let mut paragraph = String::new();
    let mut in_fence = false;
    for line in page.split_inclusive('\n') {
        let is_fence = line.trim_start().starts_with("```");
        if in_fence || is_fence || line.trim().is_empty() {
            new += &links(&std::mem::take(&mut paragraph), own, picture)?;
            new += line;
        } else {
            paragraph += line;
        }
        in_fence = in_fence != is_fence;
    }
    new += &links(&paragraph, own, picture)?;
    Ok(new)
}

/// The links of a paragraph.
fn links(text: &str, own: &str, picture: &mut dyn FnMut(&str) -> syn::Result<String>) -> syn::Result<String> {
    let mut new = String::with_capacity(text.len());
    // The positions in `new` at which the texts of links begin.
    let mut open = Vec::new();
    let mut in_code = false;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let after = &rest[first.len_utf8()..];
        match first {
            '`' => in_code = !in_code,
            '[' if !in_code => open.push(new.len()),
            ']' if !in_code => {
                let start = open.pop();
                if let (Some(start), Some((target, after))) =
                    (start, after.strip_prefix('(').and_then(|target| target.split_once(')')))
                {
                    let is_picture = new[..start].ends_with('!');
                    match is_picture {
                        true => write!(new, "](<{}>)", data(&picture(file_name(target))?)).expect("a string"),
                        false => match target_of(target, own) {
                            Some(target) => write!(new, "]({target})").expect("a string"),
                            // The plain text.
                            None => drop(new.remove(start)),
                        },
                    }
                    rest = after;
                    continue;
                }
            }
            _ => {}
        }
        new.push(first);
        rest = after;
    }
    Ok(new)
}

fn file_name(target: &str) -> &str {
    target.rsplit_once('/').map_or(target, |(_, name)| name)
}

/// The target of a link on docs.rs; `None` for a file that docs.rs lacks.
fn target_of(target: &str, own: &str) -> Option<String> {
    if target.starts_with('#') || target.starts_with("https://") {
        return Some(target.to_owned());
    }
    let (path, fragment) = target.split_once('#').map_or((target, ""), |(path, fragment)| (path, fragment));
    let fragment = if fragment.is_empty() { String::new() } else { format!("#{fragment}") };
    let page = path.strip_suffix(".md")?;
    let (krate, _) = PAGES.iter().find(|(_, pages)| pages.contains(&page))?;
    Some(match *krate == own {
        true => format!("crate::guide::{page}{fragment}"),
        false => {
            let package = krate.replace('_', "-");
            // The page of moye-build is its whole guide.
            let module = if pages_of(krate) == 1 { String::new() } else { format!("{page}/") };
            format!("https://docs.rs/{package}/latest/{krate}/guide/{module}index.html{fragment}")
        }
    })
}

fn pages_of(krate: &str) -> usize {
    PAGES.iter().find(|(name, _)| *name == krate).map_or(0, |(_, pages)| pages.len())
}

/// A picture as a data URL.
fn data(svg: &str) -> String {
    let mut address = String::from("data:image/svg+xml,");
    for c in svg.chars() {
        match c {
            '%' | '#' | '<' | '>' | '"' | '\\' | '\n' | '\r' | '\t' => {
                write!(address, "%{:02X}", c as u32).expect("a string");
            }
            _ => address.push(c),
        }
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> String {
        let mut picture = |name: &str| {
            assert_eq!(name, "a.svg");
            Ok("<svg a=\"1\">\n50%".to_owned())
        };
        rewritten(text, "moye_device", &mut picture).unwrap()
    }

    #[test]
    fn a_link_to_a_page_leads_to_its_documentation() {
        assert_eq!(page("see [Layouts](layouts.md#sizes)."), "see [Layouts](crate::guide::layouts#sizes).");
        let hopper = "https://docs.rs/moye-matmul/latest/moye_matmul/guide/hopper/index.html";
        assert_eq!(page("[the\nsteps](hopper.md)"), format!("[the\nsteps]({hopper})"));
        let ptx = "https://docs.rs/moye-build/latest/moye_build/guide/index.html";
        assert_eq!(page("[PTX](ptx.md)"), format!("[PTX]({ptx})"));
    }

    #[test]
    fn a_link_to_a_file_of_the_repository_is_its_text() {
        assert_eq!(page("in [`a.rs`](../../a.rs), see [b](products.md)\n"), "in `a.rs`, see b\n");
    }

    #[test]
    fn code_and_other_links_stay() {
        for text in ["`[a](b.md)` and [c](#d), [e](https://f.g)", "```\n[a](b.md)\n```\n", "a[i] and [x] (y)"]
        {
            assert_eq!(page(text), text);
        }
    }

    #[test]
    fn a_picture_is_part_of_the_page() {
        let svg = "data:image/svg+xml,%3Csvg a=%221%22%3E%0A50%25";
        assert_eq!(page("![A picture](../pictures/a.svg)\n"), format!("![A picture](<{svg}>)\n"));
    }
}
