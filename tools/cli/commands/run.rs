//! `moye run OPERATION`, `moye attention`, `moye copy` and `moye transpose`: a command for each
//! declared operation, built from its declaration.

use super::input::{NpyFile, Strided};
use super::npy::Kind;
use super::number::number;
use super::output::Output;
use super::{DeviceArgument, progress, transfer};
use crate::commands::dtype::{Dtype as DtypeOfFile, InFile};
use anyhow::{Result, anyhow, bail};
use clap::builder::{EnumValueParser, PossibleValuesParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, Subcommand, value_parser};
use half::{bf16, f16};
use moye::number::{F8E4M3, F8E5M2};
use moye::operation::{
    Array, Axes, Call, Declaration, Dtype, OperandOf, OptionOf, Options, Role, Value, offsets,
};
use moye::{Buffer, Device};
use std::path::PathBuf;

/// The operation of `moye run` and its arguments.
pub struct Run(Declared);

/// An operation that is a command of the program, and its arguments.
pub struct Named(Declared);

/// A declared operation and its arguments.
struct Declared {
    declaration: &'static Declaration,
    matches: ArgMatches,
}

/// Options by the names that commands had before they were declared.
const ALIASES: [(&str, &str, &str); 3] = [
    ("attention", "q_scale", "scale-q"),
    ("attention", "k_scale", "scale-k"),
    ("attention", "v_scale", "scale-v"),
];

/// Parses two integers, `L,R` or `LxR`, with `-` for no limit.
pub fn pair(text: &str) -> Result<[Option<i64>; 2], String> {
    let limit = |text: &str| match text.trim() {
        "-" => Ok(None),
        number => number.parse::<u32>().map(|number| Some(number.into())),
    };
    let wrong = || {
        format!(
            "`{text}` is not two numbers: expected L,R, with `-` for no limit, such as 128,0, or MxN, such as 64x64"
        )
    };
    let (first, second) = text.split_once(',').or_else(|| text.split_once('x')).ok_or_else(wrong)?;
    Ok([limit(first).map_err(|_| wrong())?, limit(second).map_err(|_| wrong())?])
}

/// Whether the command has an option for the element type of files that do not store it.
fn has_dtype(declaration: &Declaration) -> bool {
    declaration.options.iter().all(|option| option.name != "dtype")
}

/// An operation's command, with its file arguments and options; with `plans` also the option of a
/// file of tuned plans.
fn command(declaration: &'static Declaration, plans: bool) -> Command {
    let file = |operand: &OperandOf| {
        let name = operand.name;
        let alias = ALIASES.iter().find(|(of, own, _)| *of == declaration.name && *own == name);
        Arg::new(name)
            .visible_aliases(alias.map(|(_, _, alias)| *alias))
            .help(format!("{name}: {}", operand.about))
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
    };
    let mut is_first = true;
    let operands = declaration.operands.iter().map(|operand| match operand.role {
        Role::Input => file(operand).required(true),
        Role::Result if std::mem::take(&mut is_first) => {
            file(operand).short('o').long("output").required(true)
        }
        Role::Optional | Role::OptionalResult | Role::Result => file(operand).long(operand.name),
    });
    let option = |option: &OptionOf| {
        let argument = Arg::new(option.name).long(option.name).allow_hyphen_values(true);
        let help = match option.default {
            Value::Bool(_) | Value::Unset(_) => option.about.to_owned(),
            default => format!("{} (default: {default})", option.about),
        };
        let argument = match option.default.of_type() {
            Value::Int(_) => argument.value_name("N").value_parser(value_parser!(i64)),
            Value::Float(_) => argument.value_name("NUMBER").value_parser(number),
            Value::Dtype(_) => {
                let computed = Dtype::ALL.iter().filter(|dtype| **dtype != Dtype::C128);
                argument.value_name("TYPE").value_parser(Vec::from_iter(computed.map(|dtype| dtype.name())))
            }
            Value::Axes(_) => {
                argument.value_name("N,...").value_delimiter(',').value_parser(value_parser!(i64))
            }
            Value::Pair([None, None]) => argument.value_name("L,R").value_parser(pair),
            Value::Pair(_) => argument.value_name("MxN").value_parser(pair),
            Value::Choice(_, names) => {
                argument.value_name("NAME").value_parser(PossibleValuesParser::new(names))
            }
            Value::Text(_) | Value::Unset(_) => argument.value_name("NAME"),
            Value::Bool(_) => argument.allow_hyphen_values(false).action(ArgAction::SetTrue),
        };
        argument.help(help)
    };
    let command = Command::new(declaration.name)
        .args(operands)
        .args(declaration.options.iter().map(option))
        .arg(
            Arg::new("force")
                .long("force")
                .action(ArgAction::SetTrue)
                .help("Overwrite the outputs if they exist"),
        )
        .arg_required_else_help(true);
    let tuning = || {
        Arg::new("tuning")
            .long("tuning")
            .value_name("FILE.json")
            .value_parser(value_parser!(PathBuf))
            .help("Use the plans that `moye tune` has stored in this file")
    };
    let dtype = || {
        Arg::new("dtype")
            .long("dtype")
            .value_name("TYPE")
            .value_parser(EnumValueParser::<DtypeOfFile>::new())
            .help("Element type of files that do not store it: bfloat16 in uint16, 8-bit floats in uint8")
    };
    // Files of plans are read by the program with all operations.
    let command = if plans && cfg!(feature = "operations") { command.arg(tuning()) } else { command };
    let command = if has_dtype(declaration) { command.arg(dtype()) } else { command };
    // The group's own description would replace one that is set before.
    DeviceArgument::augment_args(command).about(declaration.about().0)
}

/// The operations that `moye bench` and `moye tune` know by their declaration.
pub fn operations() -> impl Iterator<Item = &'static &'static Declaration> {
    #[cfg(feature = "operations")]
    const PRODUCTS: &[&Declaration] = moye_products::OPERATIONS;
    #[cfg(not(feature = "operations"))]
    const PRODUCTS: &[&Declaration] = &[];
    moye_rows::OPERATIONS.iter().chain(PRODUCTS)
}

/// The operations that are commands of the program, and whether their plans may be tuned: copies
/// and transposes have one candidate.
const NAMED: &[(&Declaration, bool)] = &[
    #[cfg(feature = "operations")]
    (&moye::ATTENTION, true),
    #[cfg(feature = "operations")]
    (&moye::COPY, false),
    #[cfg(feature = "operations")]
    (&moye::TRANSPOSE, false),
];

/// The operations of `moye run`, and whether their plans may be tuned. `moye matmul` is a separate
/// command: it also multiplies random matrices, and compares products with float64.
fn runnable() -> impl Iterator<Item = (&'static Declaration, bool)> {
    #[cfg(feature = "operations")]
    const MATMUL: &[&Declaration] = &[&moye::MATMUL];
    #[cfg(not(feature = "operations"))]
    const MATMUL: &[&Declaration] = &[];
    let tuned = operations().chain(MATMUL).copied();
    tuned.map(|declaration| (declaration, true)).chain(NAMED.iter().copied())
}

impl Args for Run {
    fn augment_args(command: Command) -> Command {
        command
            .subcommands(runnable().map(|(declaration, plans)| self::command(declaration, plans)))
            .subcommand_required(true)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Run {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Declared::named(matches, runnable().map(|(declaration, _)| declaration)).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Subcommand for Named {
    fn augment_subcommands(command: Command) -> Command {
        command.subcommands(NAMED.iter().map(|&(declaration, plans)| self::command(declaration, plans)))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        NAMED.iter().any(|(declaration, _)| declaration.name == name)
    }
}

impl FromArgMatches for Named {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Declared::named(matches, NAMED.iter().map(|&(declaration, _)| declaration)).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Declared {
    /// The operation that the subcommand names.
    fn named(
        matches: &ArgMatches,
        mut operations: impl Iterator<Item = &'static Declaration>,
    ) -> Result<Self, clap::Error> {
        let found = matches.subcommand().and_then(|(name, matches)| {
            let declaration = operations.find(|declaration| declaration.name == name)?;
            Some(Self { declaration, matches: matches.clone() })
        });
        found.ok_or_else(|| clap::Error::new(clap::error::ErrorKind::MissingSubcommand))
    }
}

/// The elements of an operand on a device.
trait Elements {
    fn address(&self) -> u64;
    fn write(&self, output: Output, shape: &[usize]) -> Result<()>;
}

impl<T: InFile + Default> Elements for Buffer<T> {
    fn address(&self) -> u64 {
        Buffer::address(self)
    }

    fn write(&self, output: Output, shape: &[usize]) -> Result<()> {
        output.write_tensor(shape, &transfer::download(self)?)
    }
}

/// Calls `$function` for elements of a type.
macro_rules! of_elements {
    ($dtype:expr, $function:ident, $($argument:expr),*) => {
        match $dtype {
            Dtype::F32 => $function::<f32>($($argument),*),
            Dtype::F16 => $function::<f16>($($argument),*),
            Dtype::Bf16 => $function::<bf16>($($argument),*),
            Dtype::I32 => $function::<i32>($($argument),*),
            Dtype::I64 => $function::<i64>($($argument),*),
            Dtype::I8 => $function::<i8>($($argument),*),
            Dtype::U8 | Dtype::Bool => $function::<u8>($($argument),*),
            Dtype::E4m3 => $function::<F8E4M3>($($argument),*),
            Dtype::E5m2 => $function::<F8E5M2>($($argument),*),
            Dtype::F64 => $function::<f64>($($argument),*),
            Dtype::C128 => Err(anyhow!("files of complex numbers are neither read nor written")),
        }
    };
}

/// Uploads the elements of a file.
fn upload<T: InFile + Default>(
    device: &Device,
    file: &NpyFile,
    dtype: Dtype,
) -> Result<(Box<dyn Elements>, Array)> {
    let Strided { elements, shape, strides } = file.array::<T>()?;
    let buffer = transfer::upload(device, &elements)?;
    let array = Array { dtype, shape, strides, address: buffer.address() };
    Ok((Box::new(buffer), array))
}

/// Memory for a result; elements that the call does not write have `value`.
fn result<T: InFile + Default>(
    device: &Device,
    elements: usize,
    dtype: Dtype,
    value: Option<f64>,
) -> Result<Box<dyn Elements>> {
    let Some(value) = value else { return Ok(Box::new(device.alloc_uninit::<T>(elements)?)) };
    let mut bytes = [0; 8];
    dtype.write(value, &mut bytes[..T::BYTES]);
    // SAFETY: `T` is the type of the bytes' element, and every byte pattern is an element.
    let element = unsafe { bytes.as_ptr().cast::<T>().read_unaligned() };
    Ok(Box::new(transfer::upload(device, &vec![element; elements])?))
}

/// The extents of a product of shapes that memory may hold.
fn elements(shape: &[usize]) -> Result<usize> {
    if shape.contains(&0) {
        return Ok(0);
    }
    match shape.iter().try_fold(1usize, |all, &extent| all.checked_mul(extent)) {
        Some(elements) => Ok(elements),
        None => bail!("results of shape {shape:?} are larger than any memory; check the shapes of the files"),
    }
}

/// The elements of a file as float64.
fn values<T: InFile + Default>(file: &NpyFile, dtype: Dtype) -> Result<Vec<f64>> {
    let Strided { elements, shape, strides } = file.array::<T>()?;
    let value = |offset: i64| {
        let bits = elements[offset as usize].stored_bits().to_le_bytes();
        dtype.read(&bits[..T::BYTES])
    };
    Ok(offsets(&shape, &strides).map(value).collect())
}

/// The element type of a file that is passed for an operand; `given` is that of the command line,
/// if the command has the option.
fn dtype(operand: &OperandOf, file: &NpyFile, given: Option<Option<DtypeOfFile>>) -> Result<Dtype> {
    // The program writes e4m3 as bytes without a type.
    let takes = |dtype| operand.dtypes.contains(&dtype);
    let bytes = match (file.kind()?, given) {
        (Kind::Other("bool"), _) if takes(Dtype::Bool) => return Ok(Dtype::Bool),
        (Kind::Other("uint8") | Kind::Bytes(1), Some(Some(given))) if given.is_float8() => Some(given),
        (Kind::Bytes(1), _) if takes(Dtype::E4m3) => Some(DtypeOfFile::E4m3),
        (Kind::Other("uint16"), Some(given)) => given,
        (Kind::Other("uint16"), None) => bail!(
            "{} holds uint16; if it stores bfloat16, save a.view(ml_dtypes.bfloat16), otherwise convert it with \
             a.astype('float32')",
            file.name()
        ),
        _ => takes(Dtype::U8).then_some(DtypeOfFile::U8),
    };
    let stored = file.dtype(bytes, &format!("{} takes {}", operand.name, operand.dtype_names()))?;
    let wanted = if operand.dtypes[0].is_integer() { DtypeOfFile::I64 } else { DtypeOfFile::F32 };
    let advice = file.conversion(wanted)?;
    operand.dtype(stored.name()).map_err(|is| anyhow!("{}: {is}; {advice}", file.name()))
}

impl Run {
    pub fn run(self) -> Result<()> {
        self.0.run()
    }
}

impl Named {
    pub fn run(self) -> Result<()> {
        self.0.run()
    }
}

impl Declared {
    fn run(self) -> Result<()> {
        let Self { declaration, matches } = self;
        let path = |operand: &OperandOf| matches.get_one::<PathBuf>(operand.name);
        let mut options = Options::of(declaration);
        for option in declaration.options {
            let value = match option.default.of_type() {
                Value::Int(_) => matches.get_one(option.name).copied().map(Value::Int),
                Value::Axes(_) => matches
                    .get_many::<i64>(option.name)
                    .map(|axes| Axes::of(declaration.name, &axes.copied().collect::<Vec<i64>>()))
                    .transpose()?
                    .map(Value::Axes),
                Value::Float(_) => matches.get_one(option.name).copied().map(Value::Float),
                Value::Pair(_) => matches.get_one(option.name).copied().map(Value::Pair),
                Value::Text(_) | Value::Unset(_) => {
                    if let Some(text) = matches.get_one::<String>(option.name) {
                        options.set_text(declaration.name, option.name, text)?;
                    }
                    None
                }
                Value::Dtype(_) => matches
                    .get_one::<String>(option.name)
                    .and_then(|name| Dtype::named(name))
                    .map(Value::Dtype),
                Value::Bool(_) => Some(Value::Bool(matches.get_flag(option.name))),
                Value::Choice(..) => {
                    if let Some(chosen) = matches.get_one::<String>(option.name) {
                        options.choose(declaration.name, option.name, chosen)?;
                    }
                    None
                }
            };
            if let Some(value) = value {
                options.set(declaration.name, option.name, value)?;
            }
        }
        // Commands without the option do not know it.
        #[cfg(feature = "operations")]
        if let Ok(Some(file)) = matches.try_get_one::<PathBuf>("tuning") {
            moye::operation::Plans::load(file)?.apply();
        }
        let given = has_dtype(declaration).then(|| matches.get_one::<DtypeOfFile>("dtype").copied());
        // Outputs are opened first, so that a wrong path is reported immediately.
        let force = matches.get_flag("force");
        let mut outputs = Vec::new();
        for operand in declaration.outputs() {
            outputs.push(path(operand).map(|path| Output::create(path, force)).transpose()?);
        }
        let mut report = Output::report(outputs.first().and_then(Option::as_ref));
        let device = DeviceArgument::from_arg_matches(&matches)?.open(&mut report)?;
        let (mut memory, mut operands, mut types) = (Vec::new(), Vec::new(), Vec::new());
        let mut known = Vec::new();
        for operand in declaration.inputs() {
            let Some(path) = path(operand) else {
                operands.push(None);
                types.push(None);
                continue;
            };
            let file = NpyFile::read(path)?;
            let dtype = dtype(operand, &file, given)?;
            if operand.known.is_some() {
                known.push((operand.name, of_elements!(dtype, values, &file, dtype)?));
            }
            let (elements, array) = of_elements!(dtype, upload, &device, &file, dtype)?;
            types.push(Some(array.ty()));
            operands.push(Some(array));
            memory.push(elements);
        }
        declaration.know(&types, &known, &mut options)?;
        let wanted = (declaration.results)(&types, &options)?;
        let mut results = Vec::new();
        for ((ty, output), operand) in wanted.iter().zip(&outputs).zip(declaration.outputs()) {
            let elements = elements(&ty.shape)?;
            let value = declaration.unwritten(operand, &types);
            let elements = match output.is_some() || operand.role == Role::Result {
                true => Some(of_elements!(ty.dtype, result, &device, elements, ty.dtype, value)?),
                false => None,
            };
            operands.push(elements.as_ref().map(|elements| Array::row_major(ty, elements.address())));
            results.push(elements);
        }
        // The optional results that the call omits.
        operands.resize_with(declaration.operands.len(), || None);
        let call = Call { operands: &operands, options: &options };
        declaration.check(&call)?;
        let stream = device.default_stream();
        let inputs = declaration.operands.iter().zip(&operands).filter(|(of, _)| of.role.is_input());
        let inputs: Vec<_> = inputs.filter_map(|(of, array)| Some((of.name, array.as_ref()?))).collect();
        let problem = inputs.iter().enumerate().map(|(index, (name, array))| {
            // The type follows the last of several operands that have it.
            match inputs.get(index + 1) {
                Some((_, next)) if next.dtype == array.dtype => format!("{name} {:?}", array.shape),
                _ => format!("{name} {:?} {}", array.shape, array.dtype),
            }
        });
        report.line("problem", problem.collect::<Vec<_>>().join(", "));
        if call.operand(0).elements() > 0 {
            report.line("kernel", (declaration.explain)(&stream, &call)?);
        }
        // SAFETY: the arrays are in `memory` and `results`, which live until the end of this
        // function.
        let run = || unsafe { (declaration.run)(&stream, &call) };
        if device.is_gpu() {
            // The first launch loads the kernel.
            let loading = progress::loading(&device);
            let loaded = run();
            loading.finish_and_clear();
            loaded?;
        }
        let bar = progress::blocks(&device);
        let time = device.time(|_| run())?;
        bar.finish_and_clear();
        report.line("time", format_args!("{:.3} ms", time.as_secs_f64() * 1e3));
        for (((elements, output), ty), operand) in
            results.iter().zip(outputs).zip(&wanted).zip(declaration.outputs())
        {
            if let (Some(elements), Some(output)) = (elements, output) {
                // The file of the log-sum-exp has another mode, of one column.
                let mut shape = ty.shape.clone();
                shape.extend((operand.name == "lse" && declaration.name == "attention").then_some(1));
                elements.write(output, &shape)?;
            }
        }
        drop(memory);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{command, pair, runnable};

    #[test]
    fn every_operation_is_a_command() {
        for (declaration, plans) in runnable() {
            command(declaration, plans).debug_assert();
        }
    }

    #[test]
    fn a_pair_is_two_numbers_or_dashes() {
        assert_eq!(pair("128,0"), Ok([Some(128), Some(0)]));
        assert_eq!(pair("-, 5"), Ok([None, Some(5)]));
        assert_eq!(pair("64x128"), Ok([Some(64), Some(128)]));
        for text in ["", "5", "5,", "-1,3", "1,2,3", "64x"] {
            assert!(pair(text).unwrap_err().contains("L,R"), "{text}");
        }
    }
}
