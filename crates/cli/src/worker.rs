//! `chunkwise worker`: tasks for a driver elsewhere.

use crate::commands::stop_on_signals;
use chunkwise::ByteSize;
use chunkwise::executor::Host;
use chunkwise::executor::worker::{Exit, Start, WorkerError};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(clap::Args)]
pub(crate) struct WorkerArgs {
    /// The plan (a path or URL).
    #[arg(long)]
    pub plan: String,
    /// The id that the plan must have.
    #[arg(long, value_name = "ID")]
    hash: Option<String>,
    /// The version of the driver, which must be this one's.
    #[arg(long, value_name = "VERSION")]
    driver_version: Option<String>,
    /// Tasks come from standard input, and answers go to standard output, one JSON document a line.
    #[arg(long, conflicts_with_all = ["stage", "tasks", "array_index", "array_size", "name", "job", "task_timeout"])]
    stdin: bool,
    /// Index of the stage.
    #[arg(long, required_unless_present = "stdin")]
    stage: Option<usize>,
    /// Tasks, such as 0..100,105 (the end is not included) [default: all of the stage].
    #[arg(long, value_name = "A..B")]
    tasks: Option<String>,
    /// Which part of these tasks, from 0 [default: AWS_BATCH_JOB_ARRAY_INDEX or JOB_COMPLETION_INDEX of the environment].
    #[arg(long, value_name = "N", requires = "array_size")]
    array_index: Option<u64>,
    /// In how many parts they are cut.
    #[arg(long, value_name = "M")]
    array_size: Option<u64>,
    /// The name of this worker in its reports.
    #[arg(long, conflicts_with = "job")]
    name: Option<String>,
    /// The name of the job whose part this is; the worker's is JOB_N.
    #[arg(long, requires = "array_size")]
    job: Option<String>,
    /// Tasks that run at once.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// What the process may use, everything included [default: what the plan says].
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, value_parser = crate::size)]
    allowed_mem: Option<ByteSize>,
    /// Ends at once when standard input is closed: then whoever started it is gone.
    #[arg(long, conflicts_with = "stdin")]
    tied: bool,
    /// Run functions of Python that are stored beside the plan, with this interpreter [default: CHUNKWISE_PYTHON, or the one beside this program].
    /// It needs the package chunkwise. Without this option a plan that calls such functions is refused.
    #[arg(long, value_name = "PYTHON", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    allow_python: Option<PathBuf>,
    /// Seconds that one attempt at a task may take [default: no limit].
    #[arg(long, value_name = "SECONDS", value_parser = crate::seconds)]
    task_timeout: Option<Duration>,
}

impl WorkerArgs {
    fn start(&self) -> Start {
        Start {
            plan: self.plan.clone(),
            hash: self.hash.clone(),
            driver_version: self.driver_version.clone(),
            stdin: self.stdin,
            stage: self.stage,
            tasks: self.tasks.clone(),
            array_index: self.array_index,
            array_size: self.array_size,
            name: self.name.clone(),
            job: self.job.clone(),
            threads: self.threads,
            allowed_mem: self.allowed_mem.map(|m| m.0),
            task_timeout: self.task_timeout.map(|t| t.as_secs_f64()),
            tied: self.tied,
        }
    }
}

/// The interpreter of workers that may run functions of Python.
fn interpreter(given: &Path) -> PathBuf {
    let named = std::env::var_os("CHUNKWISE_PYTHON").map(PathBuf::from);
    let given = Some(given.to_path_buf()).filter(|p| !p.as_os_str().is_empty() && p.exists());
    let beside = std::env::current_exe().ok().map(|p| p.with_file_name("python3")).filter(|p| p.exists());
    named.or(given).or(beside).unwrap_or_else(|| PathBuf::from("python3"))
}

/// Becomes a worker of the package chunkwise, which runs functions of Python. It returns only if that fails.
fn in_python(host: &Host, args: &WorkerArgs, python: &Path) -> WorkerError {
    let python = interpreter(python);
    let start = serde_json::to_string(&args.start()).unwrap_or_default();
    let mut command = std::process::Command::new(&python);
    command.args(["-m", "chunkwise._work", &start]).args(host.stores.allowed());
    let e = command.exec();
    WorkerError::Usage(format!("'{}' cannot be started, which is to run functions of Python: {e}", python.display()))
}

pub(crate) fn worker(host: &Host, args: &WorkerArgs) -> ! {
    if let Some(python) = &args.allow_python {
        let e = in_python(host, args, python);
        crate::out::errln!("{e}");
        std::process::exit(i32::from(Exit::from(&e).code()))
    }
    let ran = stop_on_signals().map_err(|e| WorkerError::Usage(e.to_string())).and_then(|cancel| args.start().run(host, cancel));
    let exit = match ran {
        Ok(exit) => exit,
        Err(e) => {
            crate::out::errln!("{}", crate::text::message(&e.to_string()));
            Exit::from(&e)
        }
    };
    // Returning would wait for a thread that a hanging task holds.
    std::process::exit(i32::from(exit.code()))
}
