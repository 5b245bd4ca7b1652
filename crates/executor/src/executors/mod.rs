//! Where tasks run. Each executor has a module of its own and nothing in it about order, retries or resume.

#[cfg(feature = "aws")]
pub mod aws;
pub(crate) mod batch;
mod choice;
#[cfg(feature = "lambda")]
mod lambda;
mod options;
mod processes;
mod reports;
mod threads;

pub use choice::{Choice, EXECUTORS};
pub use options::OptionError;
pub use threads::ThreadExecutor;

pub(crate) use options::Options;
pub(crate) use reports::answers;

use crate::RunError;
use crate::event::Usage;
use crate::log::Journal;
use crate::renewals::Fence;
use chunkwise_plan::{TaskReport, WrittenChunk};
use chunkwise_storage::StorageError;
use chunkwise_task::TaskError;
use std::time::Duration;

/// One attempt at one task.
#[derive(Debug, Clone)]
pub struct Assignment {
    /// Unique in a run: a task may be tried again, or twice at once.
    pub attempt: u64,
    /// Index of the stage.
    pub stage: usize,
    /// Number of the task.
    pub task: u64,
    /// Bytes that it is projected to need.
    pub need: u64,
    /// Nothing else should run in its worker: an earlier attempt was killed for memory.
    pub alone: bool,
    /// Chunks of it that storage holds already: it leaves them as they are.
    pub have: Vec<WrittenChunk>,
}

/// What an executor has to say.
#[derive(Debug)]
pub enum Update {
    /// A worker has begun with an attempt. Executors that start what they are given at once need not say so.
    Started {
        /// The attempt.
        attempt: u64,
    },
    /// A running task has written some chunks, and they are not in the [`Journal`].
    Wrote(TaskReport),
    /// An attempt has ended. [`TaskError::Cancelled`] hands the task back: the task was not tried to its end, and that is no failure.
    Ended {
        /// The attempt.
        attempt: u64,
        /// How it ended.
        result: Result<TaskReport, TaskError>,
    },
    /// Something that the user should know.
    Warning(String),
}

/// How far a running attempt is.
#[derive(Debug, Clone, Copy)]
pub struct UnderWay {
    /// The attempt.
    pub attempt: u64,
    /// Index of its stage.
    pub stage: usize,
    /// The share of its task that is done, from 0 to 1.
    pub share: f64,
}

/// Runs what it is given, and says what became of it.
///
/// The scheduler asks for [`Executor::room`], submits at most so many attempts, of which neighbours in one stage may go to an engine as
/// one range, and waits. An executor whose engine tells little about its jobs looks at what storage holds.
pub trait Executor {
    /// Its name, as the user writes it.
    fn name(&self) -> &'static str;

    /// How many more attempts it takes now.
    fn room(&self) -> usize;

    /// True if what is submitted may wait in a queue: an attempt starts when [`Update::Started`] says so.
    fn queues(&self) -> bool {
        false
    }

    /// True if a second copy of a task may be faster than the first: it runs in another process.
    fn separate(&self) -> bool {
        true
    }

    /// Threads of this process may report the chunks that they write here, instead of with [`Update::Wrote`].
    fn keep(&mut self, _journal: Journal) {}

    /// Threads of this process write nothing any more once this is passed.
    fn guard(&mut self, _fence: Fence) {}

    /// Makes room for an attempt that is submitted next. False if it has to wait until others have ended.
    ///
    /// # Errors
    /// When intermediates cannot be written to storage to make room.
    fn admit(&mut self, _need: u64) -> Result<bool, StorageError> {
        Ok(true)
    }

    /// Takes attempts.
    ///
    /// # Errors
    /// When no worker can be had at all.
    fn submit(&mut self, work: Vec<Assignment>) -> Result<(), RunError>;

    /// Waits until there is something to say, at most so long.
    ///
    /// # Errors
    /// When no attempt can ever succeed: workers do not start, or are of another version.
    fn wait(&mut self, timeout: Duration) -> Result<Vec<Update>, RunError>;

    /// Stops one attempt, at once if it `hangs`. It still ends with an [`Update::Ended`].
    fn stop(&mut self, attempt: u64, hangs: bool);

    /// Stops all attempts at their next chunk.
    fn cancel(&mut self);

    /// Writes to storage what is only in memory.
    ///
    /// # Errors
    /// When storage fails.
    fn flush(&mut self) -> Result<(), StorageError> {
        Ok(())
    }

    /// Of the arrays at some places, the bytes that are in the memory of this process only.
    fn unsaved(&self, _arrays: &[String]) -> Vec<u64> {
        Vec::new()
    }

    /// Begins to write so many bytes of the array at a place to storage, while tasks run, unless that is going on already.
    ///
    /// # Errors
    /// Those of the last time.
    fn save(&mut self, _array: &str, _bytes: u64) -> Result<(), StorageError> {
        Ok(())
    }

    /// Waits until nothing is being saved.
    fn settle(&mut self) {}

    /// Bytes of intermediates that went to storage because there was no room in memory.
    fn spilled(&self) -> u64 {
        0
    }

    /// What was used so far, of a service that is paid for by use.
    fn usage(&self) -> Option<Usage> {
        None
    }

    /// The running attempts of which it is known how far they are.
    fn under_way(&self) -> Vec<UnderWay> {
        Vec::new()
    }

    /// The largest memory of a worker so far, where the executor knows it.
    fn peak_memory(&self) -> u64 {
        0
    }
}
