//! The `chunkwise` command, for programs that add functions and executors of their own to it.
//!
//! Such a program is the command, the worker and, as an image, the container worker in one:
//!
//! ```no_run
//! fn main() -> std::process::ExitCode {
//!     chunkwise_cli::main_with(|runtime| runtime.function("double", "1", double))
//! }
//! # use chunkwise::kernels::{Block, FunctionError, Invocation};
//! # fn double(_: &Invocation<'_>, _: &[Block]) -> Result<Vec<Block>, FunctionError> { Err("an example".into()) }
//! ```

#[cfg(feature = "aws")]
mod aws;
mod clean;
mod commands;
mod cost;
mod failure;
mod info;
mod out;
mod progress;
mod show;
mod text;
mod worker;

use chunkwise::executor::{Executors, LEFT_OUT};
use chunkwise::{Runtime, RuntimeBuilder};
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use textwrap::{WordSeparator, WordSplitter};

#[global_allocator]
static ALLOCATOR: chunkwise_allocator::Allocator = chunkwise_allocator::Allocator;

const EXIT_CODES: &str = "Exit codes: 0 done, 1 failed, 2 refused before anything was computed (command line, pipeline, plan, memory, outputs), \
                          130 and 143 stopped by a signal. `worker` has codes of its own.";

/// Array computations that are larger than memory, in bounded memory.
#[derive(Parser)]
#[command(name = "chunkwise", version, about, max_term_width = 100, after_help = EXIT_CODES)]
struct Cli {
    /// Print one JSON object: the result, or what went wrong (see docs/cli.md).
    #[arg(long, global = true)]
    json: bool,
    /// Allow what a pipeline or a plan says of where requests go, and as whom: endpoint=URL, host=URL, profile=NAME, account=NAME or anonymous (see
    /// docs/storage.md).
    #[arg(long, global = true, value_name = "WHAT")]
    allow: Vec<String>,
    #[command(subcommand)]
    command: Command,
}

/// Limits that both `run` and `plan` take.
#[derive(clap::Args, Clone)]
pub(crate) struct Limits {
    /// What the whole process may use, everything included, such as 500MB or 2GiB [default: what the pipeline says, or 2GB].
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, value_parser = size)]
    allowed_mem: Option<chunkwise::ByteSize>,
    /// Where intermediates and reports are kept (a path or URL) [default: what the pipeline says, or a folder of the user's].
    #[arg(long)]
    work_dir: Option<String>,
    /// Tasks that compute at once [default: the number of processors].
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = workers)]
    workers: Option<u64>,
    /// Where tasks run [default: what the pipeline says, or threads].
    #[arg(long)]
    executor: Option<String>,
    /// The CloudFormation stack (infra/aws/chunkwise.yaml) whose function runs the tasks, and whose bucket has room for intermediates.
    #[arg(long, value_name = "NAME", hide = cfg!(not(feature = "aws")))]
    stack: Option<String>,
    /// The work directory where the pipeline names none either.
    #[arg(skip)]
    default_work_dir: Option<String>,
    /// The function of AWS Lambda that runs the tasks: --executor lambda --executor-option function=NAME.
    #[arg(long, value_name = "NAME")]
    function: Option<String>,
    /// Sets an option of the executor (see docs/executors.md).
    #[arg(long = "executor-option", value_name = "KEY=VALUE", value_parser = name_value)]
    executor_option: Vec<(String, String)>,
    /// Sets a parameter of the pipeline.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = name_value)]
    set: Vec<(String, String)>,
}

pub(crate) fn name_value(text: &str) -> Result<(String, String), String> {
    text.split_once('=').map(|(n, v)| (n.to_string(), v.to_string())).ok_or_else(|| "write NAME=VALUE".into())
}

/// Parses a size. It cannot be negative.
pub(crate) fn size(text: &str) -> Result<chunkwise::ByteSize, String> {
    match text.trim().strip_prefix('-') {
        Some(_) => Err("a size cannot be negative; write a number with a unit, such as 500MB or 2GiB".into()),
        None => text.parse().map_err(|e: chunkwise::types::ByteSizeError| e.to_string()),
    }
}

fn percent(text: &str) -> Result<f64, String> {
    let n = text.trim_end_matches('%').parse().ok();
    n.filter(|n| (0.0..=100.0).contains(n)).ok_or_else(|| "write a number from 0 to 100".into())
}

/// The largest number of workers of a plan.
const MAX_WORKERS: u64 = chunkwise::plan::MAX_WORKERS;

fn workers(text: &str) -> Result<u64, String> {
    text.parse().ok().filter(|n| (1..=MAX_WORKERS).contains(n)).ok_or_else(|| format!("write an integer from 1 to {MAX_WORKERS}"))
}

pub(crate) fn seconds(text: &str) -> Result<std::time::Duration, String> {
    let n: f64 = text.trim_end_matches('s').parse().map_err(|_| "write a number of seconds".to_string())?;
    std::time::Duration::try_from_secs_f64(n).ok().filter(|d| !d.is_zero()).ok_or_else(|| "it must be more than 0".into())
}

/// What is shown of a plan.
#[derive(clap::Args)]
pub(crate) struct PlanShown {
    /// How it is printed.
    #[arg(long, default_value = "table", value_parser = ["table", "json", "dot", "svg"])]
    format: String,
    /// Say why operations were fused or stored, and what set the memory bound.
    #[arg(long)]
    explain: bool,
    /// Say what each stage would cost on AWS Lambda, and with which prices.
    #[arg(long)]
    cost: bool,
    #[command(flatten)]
    costs: cost::CostArgs,
}

/// How a copy of an array is stored.
#[derive(clap::Args)]
pub(crate) struct Layout {
    /// The new chunk lengths, such as time=-1,lat=10,lon=10 (-1: the whole dimension) or 100,10,10.
    #[arg(long)]
    chunks: String,
    /// Shard lengths, in the same form.
    #[arg(long)]
    shards: Option<String>,
    /// blosc, none, zstd or gzip.
    #[arg(long, default_value = "blosc")]
    codec: String,
}

/// How a run behaves.
#[derive(clap::Args, Clone)]
pub(crate) struct RunFlags {
    /// Replace outputs that exist.
    #[arg(long, conflicts_with = "resume")]
    overwrite: bool,
    /// Go on with an unfinished run of the same pipeline.
    #[arg(long)]
    resume: bool,
    /// Keep the intermediates.
    #[arg(long)]
    keep: bool,
    /// How often a task is tried again after a failure that may pass, or when its worker is lost.
    #[arg(long, default_value_t = 3, value_name = "N", allow_negative_numbers = true)]
    retries: u32,
    /// Seconds that one attempt at a task may take [default: no limit].
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = seconds)]
    task_timeout: Option<std::time::Duration>,
    /// Second copies of slow tasks on other workers, at most, in per cent of the tasks; 0 for none.
    #[arg(long, default_value_t = 5.0, value_name = "PERCENT", allow_negative_numbers = true, value_parser = percent)]
    backups: f64,
    /// Plan, print the stages, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print the report as JSON: `--json`, which every subcommand has.
    #[arg(skip)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Run a pipeline file or a plan file.
    Run {
        /// The file: YAML, JSON or TOML.
        pipeline: PathBuf,
        #[command(flatten)]
        limits: Limits,
        #[command(flatten)]
        flags: RunFlags,
    },
    /// Show the stages of a pipeline file or a plan file, without running anything.
    Plan {
        /// The file: YAML, JSON or TOML.
        pipeline: PathBuf,
        #[command(flatten)]
        limits: Limits,
        #[command(flatten)]
        shown: PlanShown,
    },
    /// Copy an array into other chunks.
    Rechunk {
        /// The array to read.
        source: String,
        /// The array to write.
        target: String,
        #[command(flatten)]
        layout: Layout,
        #[command(flatten)]
        limits: Limits,
        #[command(flatten)]
        flags: RunFlags,
    },
    /// Show what a store holds.
    Info {
        /// A path or URL of a group or an array.
        url: String,
    },
    /// Draw a slice of one or two dimensions, in the terminal or as a PNG file.
    Show(show::ShowArgs),
    /// Hand a pipeline over to the state machine of a stack on AWS, which runs it without any machine that stays up.
    #[cfg(feature = "aws")]
    Submit(aws::SubmitArgs),
    /// Show how a run is that was handed over.
    #[cfg(feature = "aws")]
    Status(aws::StatusArgs),
    /// Show what the functions of a run that was handed over have logged.
    #[cfg(feature = "aws")]
    Logs(aws::RunArgs),
    /// Cancel a run that was handed over. What is stored stays.
    #[cfg(feature = "aws")]
    Cancel(aws::RunArgs),
    /// What this build was compiled without.
    #[cfg(not(feature = "aws"))]
    #[command(name = "submit", aliases = ["status", "logs", "cancel"], hide = true, disable_help_flag = true)]
    LeftOut {
        /// Its arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<std::ffi::OsString>,
    },
    /// Run one task of a plan.
    RunTask {
        /// The plan file.
        plan: PathBuf,
        /// Index of the stage.
        stage: usize,
        /// Number of the task.
        task: u64,
    },
    /// Run tasks of a plan for a driver elsewhere: what executors start.
    ///
    /// With --stdin, tasks come in line by line; otherwise they are a share of one stage, and reports go to the folder of the run. Exit
    /// codes: 0 all done, 1 it could not start, 10 a task failed for good, 11 in a way that may pass, 12 for want of memory or disk, 13 the
    /// plan or the driver has another version, 14 it was told to stop.
    Worker(worker::WorkerArgs),
    /// Prove that arrays are whole: every chunk is there, decodes, and has the checksum that its task reported.
    ///
    /// Checksums are in the folder of a run, and beside every array that a run has written. Of arrays that other programs wrote there are
    /// none; their chunks can only be read and decoded.
    Verify {
        /// The folder of a run (WORK_DIR/ID), or the URL of an array or group.
        run_or_store: String,
    },
    /// List the runs in a work directory, and remove them if asked.
    Clean {
        /// The work directory.
        work_dir: String,
        /// Remove this run.
        #[arg(long)]
        run: Vec<String>,
        /// Remove all runs.
        #[arg(long)]
        all: bool,
    },
    /// List the functions of the expression language, or say how one of them is called.
    Functions {
        /// A function.
        name: Option<String>,
    },
    /// Print the JSON Schema of plans.
    PlanSchema,
    /// Print completions for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// Errors contain the names of files and URLs. So lines are not broken inside a word, and not at all if standard error is not a terminal.
fn report_errors_legibly() {
    let hook = miette::set_hook(Box::new(|_| {
        let options = miette::MietteHandlerOpts::new().wrap_lines(std::io::stderr().is_terminal()).break_words(false);
        Box::new(text::Handler(options.word_separator(WordSeparator::AsciiSpace).word_splitter(WordSplitter::NoHyphenation).build()))
    }));
    debug_assert!(hook.is_ok(), "nothing else sets the hook");
}

impl Command {
    /// The places on the command line. Web servers among them may be on this machine.
    fn named(&self) -> Vec<String> {
        let text = |p: &std::path::Path| p.to_string_lossy().into_owned();
        match self {
            Command::Run { pipeline, .. } | Command::Plan { pipeline, .. } => vec![text(pipeline)],
            Command::RunTask { plan, .. } => vec![text(plan)],
            Command::Rechunk { source, .. } => vec![source.clone()],
            Command::Info { url } => vec![url.clone()],
            Command::Show(args) => vec![args.url.clone()],
            Command::Verify { run_or_store } => vec![run_or_store.clone()],
            Command::Worker(args) => vec![args.plan.clone()],
            _ => Vec::new(),
        }
    }

    /// Looks up the values that only the stack knows.
    #[cfg(feature = "aws")]
    fn resolve(&mut self) -> Result<(), miette::Report> {
        match self {
            Command::Run { limits, .. } | Command::Plan { limits, .. } | Command::Rechunk { limits, .. } => aws::resolve(limits),
            _ => Ok(()),
        }
    }

    /// Refuses what this build was compiled without.
    #[cfg(not(feature = "aws"))]
    fn resolve(&mut self) -> Result<(), miette::Report> {
        let what = match self {
            Command::LeftOut { .. } => "commands submit, status, logs and cancel",
            Command::Run { limits, .. } | Command::Plan { limits, .. } | Command::Rechunk { limits, .. } if limits.stack.is_some() => {
                "option --stack"
            }
            _ => return Ok(()),
        };
        Err(failure::refuse!(
            "this build has no {what}: it was compiled without the feature 'aws'. \
             `cargo install --locked --path crates/cli --features full` makes one that has all"
        ))
    }
}

/// The command line. The executors by name; those that this build was compiled without are taken too, for an error that says so.
fn command_line(executors: &Executors) -> clap::Command {
    let names = |arg: clap::Arg| {
        let hidden = LEFT_OUT.iter().map(|(name, _)| PossibleValue::new(name).hide(true));
        // A command line lives as long as the process.
        let all = executors.names().map(|name| PossibleValue::new(&*String::from(name).leak())).chain(hidden);
        arg.value_parser(PossibleValuesParser::new(all))
    };
    let with = |command: clap::Command| command.mut_arg("executor", names);
    ["run", "plan", "rechunk"].into_iter().fold(Cli::command(), |all, name| all.mut_subcommand(name, with))
}

/// Runs the command, with what `add` adds to its runtime: functions and executors. Returns the exit code of the process.
///
/// It reads the arguments of the process, sets its allocator and its log, and answers signals. So it is called once, from `main`.
pub fn main_with(add: impl FnOnce(RuntimeBuilder) -> RuntimeBuilder) -> ExitCode {
    let mut builder = Runtime::builder();
    if let Ok(program) = std::env::current_exe() {
        builder = builder.worker_program(program);
    }
    let runtime = add(builder).build();
    let executors = runtime.as_ref().map(|r| r.host().executors.clone()).unwrap_or_default();
    let parsed = command_line(&executors).try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    let mut cli = match parsed {
        Ok(cli) => cli,
        Err(e) => return failure::command_line(&e),
    };
    chunkwise::limit_allocator();
    chunkwise::storage::one_codec_thread();
    report_errors_legibly();
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .log_internal_errors(false)
        .init();
    let json = cli.json;
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(e) => return failure::report(&failure::say(e), json),
    };
    let stores = runtime.stores();
    if let Err(e) = stores.allow(&cli.allow) {
        return failure::report(&failure::refuse!("{e}"), json);
    }
    cli.command.named().iter().for_each(|url| stores.allow_named(url));
    let result = cli.command.resolve().and_then(|()| match cli.command {
        Command::Run { pipeline, limits, flags } => commands::run(&runtime, &pipeline, &limits, &RunFlags { json, ..flags }),
        Command::Plan { pipeline, limits, shown } => commands::plan(&runtime, &pipeline, &limits, &shown, json),
        Command::Rechunk { source, target, layout, limits, flags } => {
            commands::rechunk(&runtime, &source, &target, &layout, &limits, &RunFlags { json, ..flags })
        }
        Command::Info { url } => info::info(stores, &url, json),
        Command::Show(args) => show::show(stores, &args, json),
        #[cfg(feature = "aws")]
        Command::Submit(args) => aws::submit(&args, json),
        #[cfg(feature = "aws")]
        Command::Status(args) => aws::status(&args, json),
        #[cfg(feature = "aws")]
        Command::Logs(args) => aws::logs(&args, json),
        #[cfg(feature = "aws")]
        Command::Cancel(args) => aws::cancel(&args, json),
        // Refused above.
        #[cfg(not(feature = "aws"))]
        Command::LeftOut { .. } => Ok(()),
        Command::RunTask { plan, stage, task } => commands::run_task(&runtime, &plan, stage, task),
        // This ends the process, with an exit code of its own.
        Command::Worker(args) => worker::worker(runtime.host(), &args),
        Command::Verify { run_or_store } => commands::verify(stores, &run_or_store, json),
        Command::Clean { work_dir, run, all } => clean::clean(stores, &work_dir, &run, all, json),
        Command::Functions { name } => commands::functions(name.as_deref(), json),
        Command::PlanSchema => commands::schema(),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command_line(&executors), "chunkwise", &mut script);
            out::out!("{}", String::from_utf8_lossy(&script));
            Ok(())
        }
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(report) => failure::report(&report, json),
    }
}
