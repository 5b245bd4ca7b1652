//! How a command fails: with a message for people, an exit code, and with `--json` an object for programs.
//!
//! Errors keep their type inside a [`Report`] until they reach this module. Only [`json`] and [`exit_code`] examine it.

use chunkwise::executor::RunError;
use chunkwise::pipeline::PipelineError;
use chunkwise::plan::PlanError;
use chunkwise::storage::StorageError;
use chunkwise::task::{ErrorClass, TaskError};
use chunkwise::{Error, PlannerError};
use miette::{Diagnostic, Report};
use serde_json::{Map, Value, json};
use std::fmt;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The command failed while it worked.
const FAILED: u8 = 1;
/// Refused: nothing was computed.
pub(crate) const REFUSED: u8 = 2;

/// The signal that ended the run; 0 for none.
pub(crate) static SIGNAL: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// An error whose type tells the kind of failure.
#[derive(Debug)]
pub(crate) enum Said {
    /// An error of the library.
    Error(Error),
    /// The error of a run, with the names of its stages.
    Run(Error, Vec<String>),
    /// The error of a file that is read as a plan.
    Plan(String, PlanError),
    /// The request is not possible.
    Refused(String),
    /// The failure has a document of its own that describes it.
    Told { message: String, kind: &'static str, document: Value },
    /// An error of AWS.
    #[cfg(feature = "aws")]
    Aws(chunkwise_aws::AwsError),
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Said::Error(e) => e.fmt(f),
            Said::Run(e, names) => match stage_of(e).and_then(|s| Some((s, names.get(s)?))) {
                // People know the names of their arrays, not the numbers of stages.
                Some((s, name)) => f.write_str(&e.to_string().replacen(&format!("stage {s}, "), &format!("stage {s} '{name}', "), 1)),
                None => e.fmt(f),
            },
            Said::Plan(path, e) => write!(f, "{path}: {e}"),
            Said::Refused(message) | Said::Told { message, .. } => f.write_str(message),
            #[cfg(feature = "aws")]
            Said::Aws(e) => e.fmt(f),
        }
    }
}

/// The stage whose task failed.
fn stage_of(e: &Error) -> Option<usize> {
    match e {
        Error::Run(RunError::Task { source, .. }) => source.place().map(|(stage, _)| stage),
        _ => None,
    }
}

impl std::error::Error for Said {}
impl Diagnostic for Said {}

/// A report of an error of the library.
pub(crate) fn say(e: impl Into<Error>) -> Report {
    Report::new(Said::Error(e.into()))
}

/// A report that a request is not possible.
pub(crate) fn refused(message: impl Into<String>) -> Report {
    Report::new(Said::Refused(message.into()))
}

/// As `miette!`, for requests that are not possible.
macro_rules! refuse {
    ($($text:tt)*) => { $crate::failure::refused(format!($($text)*)) };
}
pub(crate) use refuse;

/// The facts about a failure, for programs.
struct Facts {
    kind: &'static str,
    class: &'static str,
    place: Map<String, Value>,
    hint: Option<String>,
    resumable: bool,
}

impl Facts {
    fn new(kind: &'static str, class: &'static str) -> Facts {
        Facts { kind, class, place: Map::new(), hint: None, resumable: false }
    }

    fn at(mut self, key: &str, value: impl Into<Value>) -> Facts {
        self.place.insert(key.into(), value.into());
        self
    }
}

fn of_storage(e: &StorageError) -> Facts {
    let class = if e.is_transient() { "transient" } else { "permanent" };
    match e {
        StorageError::Url { url, .. } => Facts::new("url", "refused").at("url", url.as_str()),
        StorageError::NotFound { url } => Facts::new("not_found", class).at("url", url.as_str()),
        StorageError::PermissionDenied { url, action, .. } => {
            Facts::new("permission_denied", class).at("url", url.as_str()).at("action", *action)
        }
        StorageError::NoBucket { url, bucket } => Facts::new("no_bucket", class).at("url", url.as_str()).at("bucket", bucket.as_str()),
        StorageError::Credentials { url, help, .. } => {
            let facts = Facts::new("credentials", class).at("url", url.as_str());
            Facts { hint: Some((*help).into()), ..facts }
        }
        StorageError::DiskFull { url } => Facts::new("disk_full", "resource").at("url", url.as_str()),
        StorageError::Corrupt { array, key, .. } => Facts::new("damaged", class).at("url", array.as_str()).at("chunk", key.as_str()),
        StorageError::Gone { array, key } => Facts::new("chunk_missing", class).at("url", array.as_str()).at("chunk", key.as_str()),
        StorageError::InputGone { url, machine } => Facts::new("input_gone", class).at("url", url.as_str()).at("machine", machine.as_str()),
        StorageError::InputChanged { url, .. } => Facts::new("input_changed", class).at("url", url.as_str()),
        StorageError::Kept { url, .. } => Facts::new("output", "refused").at("url", url.as_str()),
        StorageError::Group { url } => Facts::new("group", class).at("url", url.as_str()),
        StorageError::Metadata { url, .. } => Facts::new("metadata", class).at("url", url.as_str()),
        StorageError::Unsupported { url, .. } => Facts::new("unsupported", class).at("url", url.as_str()),
        StorageError::Store { url, action, .. } => Facts::new("storage", class).at("url", url.as_str()).at("action", *action),
    }
}

fn of_task(e: &TaskError) -> Facts {
    let class = match e.class() {
        ErrorClass::Transient | ErrorClass::Lost => "transient",
        ErrorClass::Resource => "resource",
        ErrorClass::Permanent => "permanent",
        ErrorClass::Cancelled => "cancelled",
    };
    let mut facts = match e {
        TaskError::Storage { source, .. } => of_storage(source),
        TaskError::Open { array, source } => of_storage(source).at("array", array.as_str()),
        TaskError::Kernel { .. } => Facts::new("kernel", class),
        TaskError::Memory { .. } | TaskError::OutOfMemory { .. } => Facts::new("memory", class),
        TaskError::NoFunction { function, version, .. } => {
            Facts::new("no_function", "refused").at("function", function.as_str()).at("version", version.as_str())
        }
        TaskError::NoSuchTask { .. } => Facts::new("no_such_task", "refused"),
        TaskError::Plan(_) => Facts::new("plan", "refused"),
        TaskError::Bug { .. } => Facts::new("bug", class),
        TaskError::Reported { .. } => Facts::new("task", class),
        TaskError::Lost { .. } => Facts::new("lost_worker", class),
        TaskError::Timeout { .. } => Facts::new("timeout", class),
        TaskError::Cancelled => Facts::new("cancelled", class),
    };
    if let Some((stage, task)) = e.place() {
        facts = facts.at("stage", stage).at("task", task);
    }
    facts
}

fn of_planner(e: &PlannerError) -> Facts {
    match e {
        PlannerError::Memory { stage, least, advice, .. } => {
            let facts = Facts::new("budget", "refused").at("stage_name", stage.as_str());
            Facts { hint: Some(format!("--allowed-mem {least}MB, or {advice}")), ..facts }
        }
        PlannerError::Request { url, .. } => Facts::new("output", "refused").at("url", url.as_str()),
        PlannerError::Labels(c) => Facts::new("labels", "refused").at("url", c.group.as_str()).at("dim", c.dim.as_str()),
        PlannerError::Time { pass, .. } => Facts::new("planning_time", "refused").at("pass", *pass),
        PlannerError::Tasks { .. } => Facts::new("tasks", "refused"),
        PlannerError::Internal(_) => Facts::new("bug", "permanent"),
    }
}

fn of_run(e: &RunError) -> Facts {
    match e {
        RunError::OutputExists { url } => Facts::new("output_exists", "refused").at("url", url.as_str()),
        RunError::Edited { url, run, changes, .. } => {
            let facts = Facts::new("pipeline_changed", "refused").at("url", url.as_str());
            facts.at("run", run.as_str()).at("changes", changes.clone())
        }
        RunError::NoRun { url, work_dir } => Facts::new("no_run", "refused").at("url", url.as_str()).at("work_dir", work_dir.as_str()),
        RunError::Overlap { url, other, .. } => Facts::new("output", "refused").at("url", url.as_str()).at("other", other.as_str()),
        RunError::Group { url, .. } => Facts::new("labels", "refused").at("url", url.as_str()),
        RunError::Cancelled => Facts { resumable: true, ..Facts::new("cancelled", "cancelled") },
        RunError::Task { source, outputs } => Facts { resumable: !outputs.is_empty(), ..of_task(source) },
        RunError::Executor(_) => Facts::new("executor", "permanent"),
        RunError::Running { url, .. } => Facts::new("running", "transient").at("url", url.as_str()),
        RunError::Lost { note, .. } => Facts { resumable: true, ..Facts::new("lost", "transient") }.at("note", note.as_str()),
        RunError::Claimed { url, run, holder, .. } => {
            Facts::new("claimed", "refused").at("url", url.as_str()).at("run", run.as_str()).at("holder", holder.as_str())
        }
        RunError::Place { source, .. } if source.is_transient() => of_storage(source),
        RunError::Place { source, .. } => Facts { class: "refused", ..of_storage(source) },
        RunError::Storage(e) => of_storage(e),
        RunError::Incomplete { array, .. } => {
            Facts { resumable: true, ..Facts::new("incomplete", "permanent") }.at("array", array.as_str())
        }
    }
}

fn of_error(e: &Error) -> Facts {
    match e {
        Error::Storage(e) => of_storage(e),
        Error::Op(e) => Facts::new("operation", "refused").at("operation", e.operation.as_str()),
        Error::Planner(e) => of_planner(e),
        Error::Plan(_) => Facts::new("plan", "refused"),
        Error::Task(e) => of_task(e),
        Error::Run(e) => of_run(e),
        Error::Budget(_) => Facts::new("budget", "refused"),
        Error::Other(_) => Facts::new("refused", "refused"),
    }
}

fn of_pipeline(e: &PipelineError) -> Facts {
    // The cause may be a place that the pipeline names, and not the file.
    let cause = e.cause().and_then(|c| c.downcast_ref::<Error>()).map(of_error);
    let mut facts = cause.unwrap_or_else(|| Facts::new("pipeline", "refused"));
    if facts.class != "transient" {
        facts.class = "refused";
    }
    let (line, column) = e.line_column();
    facts.hint = e.advice().map(Into::into).or(facts.hint);
    facts.at("file", e.file()).at("line", line).at("column", column)
}

fn facts(report: &Report) -> Facts {
    if let Some(e) = report.downcast_ref::<PipelineError>() {
        return of_pipeline(e);
    }
    match report.downcast_ref::<Said>() {
        Some(Said::Error(e)) => of_error(e),
        Some(Said::Run(e, names)) => match stage_of(e).and_then(|s| names.get(s)) {
            Some(name) => of_error(e).at("stage_name", name.as_str()),
            None => of_error(e),
        },
        Some(Said::Plan(path, _)) => Facts::new("plan", "refused").at("file", path.as_str()),
        Some(Said::Refused(_)) => Facts::new("usage", "refused"),
        Some(Said::Told { kind, .. }) => Facts::new(kind, "permanent"),
        #[cfg(feature = "aws")]
        Some(Said::Aws(chunkwise_aws::AwsError::Connect(e))) => of_run(e),
        #[cfg(feature = "aws")]
        Some(Said::Aws(chunkwise_aws::AwsError::Input(_))) => Facts::new("usage", "refused"),
        #[cfg(feature = "aws")]
        Some(Said::Aws(_)) => Facts::new("aws", "permanent"),
        None => Facts::new("failed", "permanent"),
    }
}

/// The exit code of a signal, as in shells.
fn of_signal() -> u8 {
    match SIGNAL.load(Ordering::Relaxed) {
        0 => FAILED,
        number => (128 + number).min(255) as u8,
    }
}

fn code(class: &str) -> u8 {
    match class {
        "refused" => REFUSED,
        "cancelled" => of_signal(),
        _ => FAILED,
    }
}

/// The object of a failure. It is the document of the command, if there is one, with `error` added.
fn json(report: &Report) -> Value {
    let f = facts(report);
    let mut error = json!({
        "kind": f.kind, "class": f.class, "message": crate::text::message(&report.to_string()), "where": f.place, "exit_code": code(f.class),
        "resumable": f.resumable,
    });
    if let Some(hint) = f.hint {
        error["hint"] = hint.into();
    }
    let mut out = match report.downcast_ref() {
        Some(Said::Told { document, .. }) => document.clone(),
        _ => json!({}),
    };
    out["error"] = error;
    let warnings = crate::out::warnings();
    if !warnings.is_empty() {
        out["warnings"] = warnings.into();
    }
    out
}

/// Reports a failure: on standard error for people, and on standard output for programs.
pub(crate) fn report(report: &Report, as_json: bool) -> ExitCode {
    crate::out::write_report(report);
    if as_json {
        crate::out::outln!("{}", json(report));
    }
    ExitCode::from(code(facts(report).class))
}

/// Handles a command line that cannot be parsed, or that asks for help.
pub(crate) fn command_line(e: &clap::Error) -> ExitCode {
    let before_files = std::env::args_os().take_while(|a| a != "--");
    if e.use_stderr() && before_files.into_iter().any(|a| a == "--json") {
        let text = e.render().to_string();
        let mut parts = text.split("\n\n").map(str::trim);
        let message = parts.next().unwrap_or_default().trim_start_matches("error: ").to_string();
        let hints: Vec<&str> = parts.filter_map(|p| p.strip_prefix("tip: ")).collect();
        let mut error = json!({
            "kind": "usage", "class": "refused", "message": message, "where": {}, "exit_code": REFUSED, "resumable": false,
        });
        if !hints.is_empty() {
            error["hint"] = hints.join("; ").into();
        }
        crate::out::outln!("{}", json!({ "error": error }));
    }
    let printed = e.print();
    ExitCode::from(match e.use_stderr() {
        true => REFUSED,
        // Help that could not be printed is a failure.
        false if printed.is_err_and(|e| e.kind() != std::io::ErrorKind::BrokenPipe) => FAILED,
        false => 0,
    })
}
