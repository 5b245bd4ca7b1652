//! Why a run stops.

use chunkwise_storage::StorageError;
use chunkwise_task::TaskError;

/// A run that did not finish.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// An output exists already.
    #[error("the output '{url}' exists; use --overwrite to replace it, or --resume to go on with an unfinished run")]
    OutputExists {
        /// Its URL.
        url: String,
    },
    /// The earlier run belongs to another pipeline.
    #[error(
        "nothing can be resumed: the output '{url}' was written by run '{run}', and the pipeline has changed since:{detail}\nundo that, and \
         --resume goes on with the run; or use --overwrite to compute everything as the pipeline says now"
    )]
    Edited {
        /// The output.
        url: String,
        /// The run that wrote it.
        run: String,
        /// What has changed.
        changes: Vec<String>,
        /// The same as lines of text.
        detail: String,
    },
    /// There is no run to continue.
    #[error(
        "nothing can be resumed: the output '{url}' exists, but the work directory '{work_dir}' has no run that wrote it; name that of the \
         run with --work-dir, or use --overwrite to compute everything"
    )]
    NoRun {
        /// The output.
        url: String,
        /// Where runs were searched.
        work_dir: String,
    },
    /// A place that the run needs cannot be used.
    #[error("{what}: {source}; nothing was computed")]
    Place {
        /// What it is for.
        what: &'static str,
        /// Why.
        source: StorageError,
    },
    /// An output overlaps another place.
    #[error(
        "the output '{url}' is, holds or lies in {what} '{other}', perhaps by another name: writing one would destroy the other; choose another \
         place. Nothing was computed or deleted"
    )]
    Overlap {
        /// The output.
        url: String,
        /// The role of the other place.
        what: &'static str,
        /// The URL of the other place.
        other: String,
    },
    /// The outputs do not fit into an existing group.
    #[error("the outputs cannot go into the group '{url}': {detail}")]
    Group {
        /// The group.
        url: String,
        /// Why, and what can be done.
        detail: String,
    },
    /// Cancelled by the user.
    #[error("cancelled; run it again with --resume to go on where it stopped")]
    Cancelled,
    /// A task failed for good.
    #[error("{source}\nthe outputs are not published, but their finished chunks are kept ({}); --resume goes on from them, --overwrite starts anew", .outputs.join(", "))]
    Task {
        /// What failed.
        source: Box<TaskError>,
        /// The outputs that are unfinished.
        outputs: Vec<String>,
    },
    /// No worker can be started, or none can succeed.
    #[error("{0}")]
    Executor(String),
    /// Another process runs the same plan.
    #[error(
        "another process runs this plan now ({holder}); wait for it, or end it. A process that was killed on another machine counts as \
         running for {seconds} s; if it is certainly gone, delete '{url}'"
    )]
    Running {
        /// The process that runs it.
        holder: String,
        /// How long the lock of a dead process counts.
        seconds: u64,
        /// The lock file.
        url: String,
    },
    /// The run did not renew its note for too long.
    #[error(
        "this run may not go on: its note '{note}' was not renewed for {seconds} s, as the machine slept or the store did not answer, and {detail}; \
         what is finished is kept. If no other run has taken its place, --resume goes on"
    )]
    Lost {
        /// The note by which others know that the run is active.
        note: String,
        /// What has happened to it.
        detail: String,
        /// How long a run may go on without renewing it.
        seconds: u64,
    },
    /// Another run writes to an output.
    #[error(
        "the output '{url}' is being written by run {run} ({holder}); wait for it, end it, or write elsewhere. A run that was killed on another \
         machine counts as running for {seconds} s; if it is certainly gone, delete '{claim}'"
    )]
    Claimed {
        /// The output.
        url: String,
        /// The run.
        run: String,
        /// Its driver.
        holder: String,
        /// How long the claim of a dead process counts.
        seconds: u64,
        /// The claim file.
        claim: String,
    },
    /// The work directory or an output cannot be used.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A chunk that tasks reported is missing at the end.
    #[error("array '{array}' is not whole after the run: {missing} chunks are missing; run again with --resume")]
    Incomplete {
        /// The array.
        array: String,
        /// How many.
        missing: u64,
    },
}
