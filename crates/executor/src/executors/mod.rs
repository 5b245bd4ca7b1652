//! Where tasks run. Each executor has a module of its own. It does not deal with order, retries or resume.

#[cfg(feature = "aws")]
pub mod aws;
pub(crate) mod batch;
mod choice;
mod host;
#[cfg(feature = "lambda")]
mod lambda;
mod options;
mod processes;
mod registry;
mod reports;
mod threads;

pub use batch::{BatchExecutor, Engine, Job, Open, State};
pub use choice::{Choice, Factory, Opening};
pub use host::Host;
pub use options::{OptionError, Options};
pub use registry::{Executors, LEFT_OUT};
pub use threads::ThreadExecutor;

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
    /// Unique in a run, because a task may be tried again, or twice at once.
    pub attempt: u64,
    /// Index of the stage.
    pub stage: usize,
    /// Number of the task.
    pub task: u64,
    /// Bytes that it is projected to need.
    pub need: u64,
    /// No other task should run in its worker, because an earlier attempt was killed for memory.
    pub alone: bool,
    /// Its chunks that storage holds already. The task leaves them as they are.
    pub have: Vec<WrittenChunk>,
}

/// News from an executor.
#[derive(Debug)]
pub enum Update {
    /// A worker has begun an attempt. An executor that starts every attempt at once need not send this.
    Started {
        /// The attempt.
        attempt: u64,
    },
    /// A running task has written some chunks, and they are not in the [`Journal`].
    Wrote(TaskReport),
    /// An attempt has ended. [`TaskError::Cancelled`] hands the task back: it was not tried to its end, which is not a failure.
    Ended {
        /// The attempt.
        attempt: u64,
        /// How it ended.
        result: Result<TaskReport, TaskError>,
    },
    /// Something that the user should know.
    Warning(String),
}

/// The progress of a running attempt.
#[derive(Debug, Clone, Copy)]
pub struct UnderWay {
    /// The attempt.
    pub attempt: u64,
    /// Index of its stage.
    pub stage: usize,
    /// The share of its task that is done, from 0 to 1.
    pub share: f64,
}

/// Runs attempts, and says how each ended.
///
/// The scheduler asks for [`Executor::room`], submits at most that many attempts, and waits. Neighbouring tasks of one stage may go to an
/// engine as one range. An executor whose engine tells little about its jobs reads storage: [`BatchExecutor`] is one for any [`Engine`].
pub trait Executor {
    /// Its name, as the user writes it.
    fn name(&self) -> &str;

    /// How many more attempts it takes now.
    fn room(&self) -> usize;

    /// True if attempts may wait in a queue. Then [`Update::Started`] says when an attempt starts.
    fn queues(&self) -> bool {
        false
    }

    /// True if a second copy of a task may be faster than the first, because it runs in another process.
    fn separate(&self) -> bool {
        true
    }

    /// Lets threads of this process report their chunks to this journal, instead of with [`Update::Wrote`].
    fn keep(&mut self, _journal: Journal) {}

    /// Stops threads of this process from writing once this fence is passed.
    fn guard(&mut self, _fence: Fence) {}

    /// Makes room for an attempt that is submitted next. False if the attempt has to wait until others have ended.
    ///
    /// # Errors
    /// When intermediates cannot be written to storage to make room.
    fn admit(&mut self, _need: u64) -> Result<bool, StorageError> {
        Ok(true)
    }

    /// Takes attempts.
    ///
    /// # Errors
    /// When no worker can be started at all.
    fn submit(&mut self, work: Vec<Assignment>) -> Result<(), RunError>;

    /// Waits until there is news, at most for this time.
    ///
    /// # Errors
    /// When no attempt can ever succeed: workers do not start, or are of another version.
    fn wait(&mut self, timeout: Duration) -> Result<Vec<Update>, RunError>;

    /// Stops one attempt, at once if it `hangs`. It still ends with an [`Update::Ended`].
    fn stop(&mut self, attempt: u64, hangs: bool);

    /// Stops all attempts at their next chunk.
    fn cancel(&mut self);

    /// Writes to storage everything that is only in memory.
    ///
    /// # Errors
    /// When storage fails.
    fn flush(&mut self) -> Result<(), StorageError> {
        Ok(())
    }

    /// For each of these arrays, the bytes that are only in the memory of this process.
    fn unsaved(&self, _arrays: &[String]) -> Vec<u64> {
        Vec::new()
    }

    /// Begins to write this many bytes of an array to storage while tasks run, unless that is going on already.
    ///
    /// # Errors
    /// The errors of the last save.
    fn save(&mut self, _array: &str, _bytes: u64) -> Result<(), StorageError> {
        Ok(())
    }

    /// Waits until nothing is being saved.
    fn settle(&mut self) {}

    /// Bytes of intermediates that went to storage because there was no room in memory.
    fn spilled(&self) -> u64 {
        0
    }

    /// The use so far of a service that charges for use.
    fn usage(&self) -> Option<Usage> {
        None
    }

    /// The running attempts whose progress is known.
    fn under_way(&self) -> Vec<UnderWay> {
        Vec::new()
    }

    /// The largest memory of a worker so far, if the executor knows it.
    fn peak_memory(&self) -> u64 {
        0
    }
}
