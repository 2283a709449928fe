//! `moye run OPERATION`, `moye copy` and `moye transpose`: a command for each declared operation,
//! built from its declaration.

use super::input::{NpyFile, Strided};
use super::npy::Kind;
use super::output::Output;
use super::{DeviceArgument, progress, transfer};
use anyhow::{Result, anyhow, bail};
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, Subcommand, value_parser};
use half::{bf16, f16};
use moye::number::{F8E4M3, F8E5M2};
use moye::operation::{
    Array, Axes, Call, Declaration, Dtype, OperandOf, OptionOf, Options, Plans, Role, Value,
};
use moye::{Buffer, Device};
use moye_bench::dtype::{Dtype as DtypeOfFile, InFile};
use std::path::PathBuf;

/// The operation of `moye run` and its arguments.
pub struct Run(Declared);

/// An operation that is a command of the program, and its arguments.
pub struct Movement(Declared);

/// A declared operation and its arguments.
struct Declared {
    declaration: &'static Declaration,
    matches: ArgMatches,
}

/// An operation's command, with its file arguments and options.
fn command(declaration: &'static Declaration) -> Command {
    let file = |operand: &OperandOf| {
        let name = operand.name;
        Arg::new(name)
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
        match option.default {
            Value::Int(value) => argument
                .value_name("N")
                .value_parser(value_parser!(i64))
                .help(format!("{} (default: {value})", option.about)),
            Value::Float(value) => argument
                .value_name("NUMBER")
                .value_parser(value_parser!(f64))
                .help(format!("{} (default: {value})", option.about)),
            Value::Dtype(dtype) => argument
                .value_name("TYPE")
                .value_parser(Dtype::ALL.map(Dtype::name))
                .help(format!("{} (default: {dtype})", option.about)),
            Value::Axes(_) => argument
                .value_name("N,...")
                .value_delimiter(',')
                .value_parser(value_parser!(i64))
                .help(format!("{} (default: all)", option.about)),
            Value::Bool(_) => {
                argument.allow_hyphen_values(false).action(ArgAction::SetTrue).help(option.about)
            }
            Value::Choice(chosen, names) => argument
                .value_name("NAME")
                .value_parser(PossibleValuesParser::new(names))
                .help(format!("{} (default: {chosen})", option.about)),
        }
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
        .arg(
            Arg::new("tuning")
                .long("tuning")
                .value_name("FILE.json")
                .value_parser(value_parser!(PathBuf))
                .help("Use the plans that `moye tune OPERATION` has stored in this file"),
        )
        .arg_required_else_help(true);
    // The group's own description would replace one that is set before.
    DeviceArgument::augment_args(command).about(declaration.summary)
}

/// The operations of `moye run`.
pub fn operations() -> impl Iterator<Item = &'static &'static Declaration> {
    moye_rows::OPERATIONS.iter().chain(moye_products::OPERATIONS)
}

/// The operations that are commands of the program.
const MOVEMENTS: [&Declaration; 2] = [&moye::COPY, &moye::TRANSPOSE];

impl Args for Run {
    fn augment_args(command: Command) -> Command {
        command
            .subcommands(operations().map(|declaration| self::command(declaration)))
            .subcommand_required(true)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Run {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Declared::named(matches, operations().copied()).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Subcommand for Movement {
    fn augment_subcommands(command: Command) -> Command {
        command.subcommands(MOVEMENTS.map(self::command))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        MOVEMENTS.iter().any(|declaration| declaration.name == name)
    }
}

impl FromArgMatches for Movement {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Declared::named(matches, MOVEMENTS.into_iter()).map(Self)
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
            Dtype::U8 => $function::<u8>($($argument),*),
            Dtype::E4m3 => $function::<F8E4M3>($($argument),*),
            Dtype::E5m2 => $function::<F8E5M2>($($argument),*),
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

/// Memory for a result.
fn uninit<T: InFile + Default>(device: &Device, elements: usize) -> Result<Box<dyn Elements>> {
    Ok(Box::new(device.alloc_uninit::<T>(elements)?))
}

/// The element type of a file that is passed for an operand.
fn dtype(operand: &OperandOf, file: &NpyFile) -> Result<Dtype> {
    // Commands of declared operations have no option of the element type: the program writes e4m3
    // as bytes without a type.
    let takes = |dtype| operand.dtypes.contains(&dtype);
    let bytes = match file.kind()? {
        Kind::Bytes(1) if takes(Dtype::E4m3) => Some(DtypeOfFile::E4m3),
        Kind::Other("uint16") => bail!(
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

impl Movement {
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
            let value = match option.default {
                Value::Int(_) => matches.get_one(option.name).copied().map(Value::Int),
                Value::Axes(_) => matches
                    .get_many::<i64>(option.name)
                    .map(|axes| Axes::of(declaration.name, &axes.copied().collect::<Vec<i64>>()))
                    .transpose()?
                    .map(Value::Axes),
                Value::Float(_) => matches.get_one(option.name).copied().map(Value::Float),
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
        if let Some(file) = matches.get_one::<PathBuf>("tuning") {
            Plans::load(file)?.apply();
        }
        // Outputs are opened first, so that a wrong path is reported immediately.
        let force = matches.get_flag("force");
        let mut outputs = Vec::new();
        let written = || declaration.operands.iter().filter(|operand| !operand.role.is_input());
        for operand in written() {
            outputs.push(path(operand).map(|path| Output::create(path, force)).transpose()?);
        }
        let mut report = Output::report(outputs.first().and_then(Option::as_ref));
        let device = DeviceArgument::from_arg_matches(&matches)?.open(&mut report)?;
        let (mut memory, mut operands, mut types) = (Vec::new(), Vec::new(), Vec::new());
        for operand in declaration.operands.iter().filter(|operand| operand.role.is_input()) {
            let Some(path) = path(operand) else {
                operands.push(None);
                types.push(None);
                continue;
            };
            let file = NpyFile::read(path)?;
            let dtype = dtype(operand, &file)?;
            let (elements, array) = of_elements!(dtype, upload, &device, &file, dtype)?;
            types.push(Some(array.ty()));
            operands.push(Some(array));
            memory.push(elements);
        }
        let wanted = (declaration.results)(&types, &options)?;
        let mut results = Vec::new();
        for ((ty, output), operand) in wanted.iter().zip(&outputs).zip(written()) {
            let elements = ty.shape.iter().product();
            let elements = match output.is_some() || operand.role == Role::Result {
                true => Some(of_elements!(ty.dtype, uninit, &device, elements)?),
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
        let problem: Vec<_> = declaration
            .operands
            .iter()
            .zip(&operands)
            .filter_map(|(operand, array)| {
                let array = array.as_ref().filter(|_| operand.role.is_input())?;
                Some(format!("{} {:?} {}", operand.name, array.shape, array.dtype))
            })
            .collect();
        report.line("problem", problem.join(", "));
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
        for ((elements, output), ty) in results.iter().zip(outputs).zip(&wanted) {
            if let (Some(elements), Some(output)) = (elements, output) {
                elements.write(output, &ty.shape)?;
            }
        }
        drop(memory);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_operation_is_a_command() {
        for declaration in super::operations().copied().chain(super::MOVEMENTS) {
            super::command(declaration).debug_assert();
        }
    }
}
