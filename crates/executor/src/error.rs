//! Why a run stops.

use chunkwise_storage::StorageError;
use chunkwise_task::TaskError;

/// A run that did not finish.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// An output is there already.
    #[error("the output '{url}' exists; use --overwrite to replace it, or --resume to go on with an unfinished run")]
    OutputExists {
        /// Its URL.
        url: String,
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
    /// The work directory or an output cannot be used.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A chunk that tasks reported is not there at the end.
    #[error("array '{array}' is not whole after the run: {missing} chunks are missing; run again with --resume")]
    Incomplete {
        /// The array.
        array: String,
        /// How many.
        missing: u64,
    },
}
