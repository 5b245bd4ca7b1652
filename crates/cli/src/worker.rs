//! `chunkwise worker`: tasks for a driver elsewhere.

use crate::commands::stop_on_signals;
use chunkwise::ByteSize;
use chunkwise::executor::Host;
use chunkwise::executor::worker::{Exit, Limits, Share, Worker, WorkerError, array_index, parse_ranges, run_share, serve};
use std::io::BufReader;
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
    /// Seconds that one attempt at a task may take [default: no limit].
    #[arg(long, value_name = "SECONDS", value_parser = crate::seconds)]
    task_timeout: Option<Duration>,
}

fn run(host: &Host, args: &WorkerArgs) -> Result<Exit, WorkerError> {
    let cancel = stop_on_signals().map_err(|e| WorkerError::Usage(e.to_string()))?;
    let limits = Limits { threads: args.threads, allowed_mem: args.allowed_mem.map(|m| m.0) };
    let tasks = args.tasks.as_deref().map(parse_ranges).transpose().map_err(WorkerError::Usage)?;
    let worker = Worker::open(host, &args.plan, args.hash.as_deref(), args.driver_version.as_deref(), &limits)?;
    let Some(stage) = args.stage else {
        return serve(&worker, BufReader::new(std::io::stdin()), std::io::stdout(), cancel);
    };
    let part = args.array_size.map(|size| Ok::<_, WorkerError>((array_index(args.array_index)?, size))).transpose()?;
    let name = args.job.as_ref().zip(part).map(|(job, (index, _))| format!("{job}_{index}")).or_else(|| args.name.clone());
    let share = Share { stage, tasks, part, name, folder: None, threads: None, timeout: args.task_timeout, until: None };
    Ok(run_share(&worker, &share, cancel, &mut |_| {})?.exit)
}

/// Ends this process when standard input is closed. A worker may be killed at any time, so it need not clean up.
fn end_with_input() {
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(i32::from(Exit::Stopped.code()))
    });
}

pub(crate) fn worker(host: &Host, args: &WorkerArgs) -> ! {
    if args.tied {
        end_with_input();
    }
    if args.stdin {
        chunkwise::executor::worker::end_with_parent();
    }
    let exit = match run(host, args) {
        Ok(exit) => exit,
        Err(e) => {
            crate::out::errln!("{}", crate::text::message(&e.to_string()));
            Exit::from(&e)
        }
    };
    // Returning would wait for a thread that a hanging task holds.
    std::process::exit(i32::from(exit.code()))
}
