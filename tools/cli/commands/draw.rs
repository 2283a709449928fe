//! `moye draw`: pictures of layouts, copies and matrix instructions.

mod atoms;
mod json;
mod options;
mod text;

use super::output::Output;
use super::report;
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use moye_device::atom::mma::MMA_ATOMS;
use moye_device::layout::{ComposedLayout, Layout};
use moye_draw::{self as draw, Colours, Format, Memory, Scene, Style, Theme};
use std::io::Write;
use std::path::{Path, PathBuf};
use text::Drawn;

/// The options of `moye draw`.
#[derive(Args)]
#[command(after_help = "Examples:
  moye draw '(8,8):(8,1)' -o grid.svg
  moye draw --tv '((4,8),(2,2)):((32,1),(16,8))' --tile 16x8
  moye draw --copy '(16,8):(8,1)' '(1,4)' --format typst
  moye draw 'zipped_divide((8,8), (4,2))'
  moye draw '(8,64):(64,1)' --swizzle 3,3,3 -o swizzle.tex
  moye draw '(32,32):(32,1)' --banks f32 --access 32:1
  moye draw --mma SM80_16x8x16_F32F16F16F32_TN -o mma.svg
  moye draw --mma 16x8x8 --a '((4,8),(2,2)):((16,1),(8,64))' --b '((4,8),2):((8,1),32)' \\
            --c '((4,8),(2,2)):((32,1),(16,8))' -o mma.svg
  moye draw --copy '(16,2)' '(2,4)' --atom SM75_U32x4_LDSM_N --element u16
  moye draw --mma SM80_16x8x8_F32TF32TF32F32_TN --atoms '(2,2,1)' --tile 32x32x8
  moye draw --mma SM80_16x8x8_F32TF32TF32F32_TN --operand a --atom SM75_U32x4_LDSM_N")]
#[command(group(clap::ArgGroup::new("drawn").args(["layout", "layout_option"])))]
#[command(group(clap::ArgGroup::new("what").args(["layout", "layout_option", "tv", "copy", "source", "mma", "json"]).multiple(true).required(true)))]
pub struct Draw {
    /// The layout to draw: `(4,(2,2)):(2,(1,8))`; without strides it is column-major. Also a
    /// swizzled layout, `Sw<3,3,3> o 0 o (8,64):(64,1)`, or an operation of `moye eval`,
    /// `logical_divide((8,8), (4,4))`.
    #[arg(conflicts_with_all = ["tv", "copy", "source", "mma", "json"])]
    layout: Option<String>,
    /// The same layout as an option, as for the other pictures.
    #[arg(long = "layout", value_name = "LAYOUT", hide = true, conflicts_with_all = ["tv", "copy", "source", "mma", "json"])]
    layout_option: Option<String>,

    /// Draw a thread-value layout: the thread and the value that hold each element of the tile.
    #[arg(long, value_name = "LAYOUT", requires = "tile", conflicts_with_all = ["copy", "source", "mma", "json"])]
    tv: Option<String>,
    /// The tile's extents, such as 16x8; for a tiled MMA, M, N and K.
    #[arg(long, value_name = "MxN|MxNxK")]
    tile: Option<String>,
    /// The thread ids of thread indices 0, 1, ..., as a layout (an atom's thr_id).
    #[arg(long, value_name = "LAYOUT")]
    threads: Option<String>,

    /// Draw the tiled copy of a thread layout and a value layout.
    #[arg(long, num_args = 2, value_names = ["THREADS", "VALUES"], conflicts_with_all = ["source", "mma", "json"])]
    copy: Option<Vec<String>>,
    /// The copy's atom: `UniversalCopy<u128>`, `SM75_U32x4_LDSM_N`, ... Without it, every value is
    /// copied separately.
    #[arg(long, value_name = "NAME")]
    atom: Option<String>,
    /// The element type that the atom copies: f32, bf16, e4m3, ..., or its number of bits.
    #[arg(long, value_name = "TYPE", requires = "atom")]
    element: Option<String>,
    /// Draw a tiled copy from its source's thread-value layout.
    #[arg(long, value_name = "LAYOUT", requires_all = ["destination", "tile"], conflicts_with_all = ["mma", "json"])]
    source: Option<String>,
    /// The destination's thread-value layout.
    #[arg(long, value_name = "LAYOUT", requires = "source")]
    destination: Option<String>,

    /// Draw a matrix instruction by name (CuTe's or MoYe's; `moye atoms` lists them; with --json,
    /// by its name in the file), or by shape, such as 16x8x16 (M, N, K), with --a, --b and --c.
    /// UniversalFma is one multiply-add of one thread.
    #[arg(long, value_name = "SHAPE|NAME")]
    mma: Option<String>,
    /// The thread-value layout of A, to indices of M x K.
    #[arg(long, value_name = "LAYOUT", requires = "mma")]
    a: Option<String>,
    /// The thread-value layout of B, to indices of N x K.
    #[arg(long, value_name = "LAYOUT", requires = "mma")]
    b: Option<String>,
    /// The thread-value layout of C, to indices of M x N.
    #[arg(long, value_name = "LAYOUT", requires = "mma")]
    c: Option<String>,
    /// Tile the named instruction: atoms along M, N and K, such as (2,2,1). --tile enlarges the
    /// tile.
    #[arg(long, value_name = "LAYOUT", requires = "mma", conflicts_with = "json")]
    atoms: Option<String>,
    /// Draw the tiled copy by which the instruction's threads load this operand, with --atom: a, b
    /// or c.
    #[arg(long, value_name = "OPERAND", requires_all = ["mma", "atom"], conflicts_with = "json")]
    operand: Option<String>,
    /// Draw the object in a line of this file (`-`: standard input), whose `kind` is mma_traits,
    /// tiled_mma, tiled_copy or mma_copy, with its layouts.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The line with this `id`.
    #[arg(long, requires = "json", conflicts_with = "mma")]
    id: Option<i64>,

    /// Swizzle the layout: bits, base and shift, such as 3,4,3.
    #[arg(long, value_name = "B,M,S", requires = "drawn")]
    swizzle: Option<String>,
    /// Draw the shared-memory bank of each element of this type: f32, bf16, e4m3, ..., or its
    /// number of bits.
    #[arg(long, value_name = "TYPE", requires = "drawn")]
    banks: Option<String>,
    /// A warp's access: (thread, value) to the linear coordinate of an element. Conflicts are
    /// marked.
    #[arg(long, value_name = "LAYOUT", requires = "banks")]
    access: Option<String>,

    /// Output file; its suffix selects the format: .svg, .tex, .typ, .txt. Without it, or with `-`,
    /// the picture goes to standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Output format (default: by the file's suffix, or a table).
    #[arg(long)]
    format: Option<FormatName>,
    /// Overwrite the file if it exists.
    #[arg(long)]
    force: bool,
    /// Colours of SVG, TikZ and Typst: `auto` follows the reader's setting in SVG and is light
    /// elsewhere.
    #[arg(long, default_value = "auto")]
    theme: ThemeName,
    /// Count indices from 1, as Julia does.
    #[arg(long)]
    one_based: bool,
    /// Width of the table in characters (default: the terminal's width; no limit without a
    /// terminal).
    #[arg(long, value_name = "N")]
    width: Option<u16>,
    /// Colours of the table; `auto`: only if standard output is a terminal with colours.
    #[arg(long, default_value = "auto")]
    colour: ColourName,
}

#[derive(Clone, Copy, ValueEnum)]
enum FormatName {
    Table,
    Svg,
    #[value(alias = "tex")]
    Tikz,
    #[value(alias = "typ")]
    Typst,
    /// MoYe's print_layout.
    Moye,
    /// CuTe's print_layout.
    Cute,
}

#[derive(Clone, Copy, ValueEnum)]
enum ThemeName {
    Auto,
    Light,
    Dark,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ColourName {
    Auto,
    Always,
    Never,
}

impl Draw {
    /// Draws the picture and writes it.
    pub fn run(self) -> Result<()> {
        self.check_options()?;
        let file = self.output.as_deref().filter(|path| *path != Path::new("-"));
        let format = match (self.format, file) {
            (Some(name), _) => name.format(),
            (None, Some(path)) => Format::of_path(path)?,
            (None, None) => Format::Table,
        };
        let text = self.scene()?.render(format, &self.style(file.is_some()));
        match file {
            Some(path) => Output::create(path, self.force)?.write_text(&text),
            None => {
                print(&text, format);
                Ok(())
            }
        }
    }

    fn scene(&self) -> Result<Scene> {
        let threads = self.threads.as_deref().map(|text| text::layout("--threads", text)).transpose()?;
        if let Some(path) = &self.json {
            let mut scene = json::scene(path, self.id, self.mma.as_deref(), threads.as_ref())?;
            scene.title.retain(|letter| !letter.is_control());
            return Ok(scene);
        }
        if let Some(tv) = &self.tv {
            let tv = text::layout("--tv", tv)?;
            return Ok(draw::thread_value(&tv, self.tile()?, threads.as_ref())?);
        }
        if let Some([threads, values]) = self.copy.as_deref() {
            let (threads, values) = (text::layout("--copy", threads)?, text::layout("--copy", values)?);
            return match (&self.atom, &self.element) {
                (Some(atom), Some(element)) => atoms::copy(atom, element, &threads, &values),
                (Some(_), None) => bail!("--atom needs --element, the element type"),
                _ => Ok(draw::tiled_copy_of(&threads, &values)?),
            };
        }
        if let (Some(source), Some(destination)) = (&self.source, &self.destination) {
            let source = text::layout("--source", source)?;
            let destination = text::layout("--destination", destination)?;
            return Ok(draw::tiled_copy(&source, &destination, self.tile()?)?);
        }
        if let Some(shape) = &self.mma {
            return self.mma(shape, threads.as_ref());
        }
        let Some(layout) = self.layout.as_ref().or(self.layout_option.as_ref()) else {
            bail!("give a layout to draw; see --help")
        };
        self.memory(layout)
    }

    fn tile(&self) -> Result<[i64; 2]> {
        text::extents("--tile", self.tile.as_deref().unwrap_or_default())
    }

    fn mma(&self, shape: &str, threads: Option<&Layout>) -> Result<Scene> {
        let named = MMA_ATOMS.iter().find(|atom| atom.name == shape || atom.moye_name == Some(shape));
        let tiled = self.atoms.is_some() || self.tile.is_some() || self.operand.is_some();
        if let Some(atom) = named
            && !tiled
        {
            let (a, b, c) = (&atom.a.layout, &atom.b.layout, &atom.c.layout);
            let mut scene = draw::mma(atom.shape_mnk, a, b, c, threads.or(Some(&atom.thr_id)))?;
            scene.title = atom.name.to_owned();
            return Ok(scene);
        }
        if !shape.starts_with(|letter: char| letter.is_ascii_digit()) {
            let mma = atoms::Mma::of(shape, self.atoms.as_deref(), self.tile.as_deref())?;
            return match (&self.operand, &self.atom) {
                (Some(operand), Some(atom)) => {
                    atoms::copy_of_operand(atom, self.element.as_deref(), &mma, operand)
                }
                _ => mma.scene(),
            };
        }
        let shape: [i64; 3] = text::extents("--mma", shape)?;
        let operand = |name: &str, text: &Option<String>| match text {
            Some(text) => text::layout(name, text),
            None => {
                bail!("--mma with a shape needs the thread-value layouts --a, --b and --c; {name} is missing")
            }
        };
        let (a, b, c) = (operand("--a", &self.a)?, operand("--b", &self.b)?, operand("--c", &self.c)?);
        Ok(draw::mma(shape, &a, &b, &c, threads)?)
    }

    /// A layout alone, swizzled, or by bank.
    fn memory(&self, layout: &str) -> Result<Scene> {
        let (layout, swizzled) = match (text::drawn(layout)?, &self.swizzle) {
            (Drawn::Plain(layout), Some(swizzle)) => {
                (layout, Some(ComposedLayout::try_new(text::swizzle(swizzle)?, 0, layout)?))
            }
            (Drawn::Plain(layout), None) => (layout, None),
            (Drawn::Swizzled(_), Some(_)) => {
                bail!("the layout {layout} is already swizzled; leave --swizzle out")
            }
            (Drawn::Swizzled(composed), None) => (composed.layout, Some(composed)),
        };
        match (&self.banks, swizzled) {
            (Some(element), swizzled) => {
                let memory = swizzled.map_or(Memory::Plain(layout), Memory::Swizzled);
                let access = self.access.as_deref().map(|text| text::layout("--access", text)).transpose()?;
                Ok(draw::banks(memory, text::element_bits("--banks", element)?, access.as_ref())?)
            }
            (None, Some(swizzled)) => Ok(draw::swizzle(&swizzled)?),
            (None, None) => Ok(draw::layout(&layout)?),
        }
    }

    fn style(&self, to_file: bool) -> Style {
        let theme = match self.theme {
            ThemeName::Auto => Theme::Auto,
            ThemeName::Light => Theme::Light,
            ThemeName::Dark => Theme::Dark,
        };
        let coloured = match self.colour {
            ColourName::Always => true,
            ColourName::Never => false,
            ColourName::Auto => {
                let choice = anstream::AutoStream::choice(&std::io::stdout());
                !to_file && choice != anstream::ColorChoice::Never
            }
        };
        let rich = std::env::var("COLORTERM").is_ok_and(|value| value == "truecolor" || value == "24bit");
        let colours = match (coloured, rich) {
            (false, _) => Colours::None,
            (true, false) => Colours::Fixed256,
            (true, true) => Colours::True,
        };
        let terminal = || terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| width.0);
        let width = self.width.or_else(|| if to_file { None } else { terminal() }).map(usize::from);
        Style { theme, colours, width, one_based: self.one_based }
    }
}

impl FormatName {
    fn format(self) -> Format {
        match self {
            Self::Table => Format::Table,
            Self::Svg => Format::Svg,
            Self::Tikz => Format::Tikz,
            Self::Typst => Format::Typst,
            Self::Moye => Format::MoYe,
            Self::Cute => Format::CuTe,
        }
    }
}

/// Prints to standard output.
fn print(text: &str, format: Format) {
    match format {
        // The table has colours only on request; old Windows consoles need them translated.
        Format::Table => {
            let mut output = anstream::AutoStream::always(std::io::stdout().lock());
            report::keep(output.write_all(text.as_bytes()).and_then(|()| output.flush()));
        }
        _ => report::print(text),
    }
}
