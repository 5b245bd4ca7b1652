//! What a running task asks of its executor, and what it tells it.

use chunkwise_plan::WrittenChunk;
use std::sync::atomic::{AtomicBool, Ordering};

/// The executor's side of a task. An [`AtomicBool`] that says "stop" is one.
pub trait Watch: Sync {
    /// True if the task should stop at the next chunk.
    fn cancelled(&self) -> bool;

    /// The chunk, if an earlier attempt wrote it and storage still holds it: it is not made again.
    fn have(&self, _array: &str, _chunk: &[u64]) -> Option<WrittenChunk> {
        None
    }

    /// A task of several chunks has written some of them.
    fn wrote(&self, _stage: usize, _task: u64, _chunks: Vec<WrittenChunk>) {}

    /// A share of the task, from 0 to 1, is done.
    fn did(&self, _share: f64) {}
}

impl Watch for AtomicBool {
    fn cancelled(&self) -> bool {
        self.load(Ordering::Relaxed)
    }
}
