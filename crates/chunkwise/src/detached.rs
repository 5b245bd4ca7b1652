//! Runs without a driver: what is done before the first task and after the last one, each by itself, with everything in storage.

use crate::Error;
use chunkwise_executor::detached as steps;
pub use chunkwise_executor::detached::{Progress, cancel, clean, is_cancelled, preview, progress, start};
use chunkwise_task::TaskContext;

/// Publishes the outputs of a run whose tasks are all done, with their checksums and coordinates, and deletes the intermediates unless they are
/// kept. The URLs of the outputs. Doing it again changes nothing.
///
/// # Errors
/// When a chunk is missing, or storage fails.
pub fn finish(context: &TaskContext, keep: bool) -> Result<Vec<String>, Error> {
    let outputs = steps::finish(context)?;
    if !keep {
        steps::delete_intermediates(context)?;
    }
    Ok(outputs)
}
