//! The threads of this process, admitting tasks by projected memory.

use crate::log::Reports;
use chunkwise_plan::{Requests, TaskReport, WrittenChunk};
use chunkwise_storage::{MemoryTier, StorageError};
use chunkwise_task::{Cores, TaskContext, TaskError, Watch, run_task};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

/// A task that ended.
pub struct Completion {
    /// Index of its stage.
    pub stage: usize,
    /// Its number.
    pub task: u64,
    /// How it ended.
    pub result: Result<TaskReport, TaskError>,
}

enum Message {
    Chunk(TaskReport),
    Done(Completion),
}

/// What a task on one of the threads sees of the run.
struct Watcher<'a> {
    stop: &'a AtomicBool,
    have: &'a OnceLock<Reports>,
    report: &'a Sender<Message>,
}

impl Watch for Watcher<'_> {
    fn cancelled(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn have(&self, array: &str, chunk: &[u64]) -> Option<WrittenChunk> {
        self.have.get().filter(|h| !h.is_empty())?.get(&(array.to_string(), chunk.to_vec())).cloned()
    }

    fn wrote(&self, stage: usize, task: u64, chunk: &WrittenChunk) {
        let written = vec![chunk.clone()];
        let report = TaskReport { stage, task, written, bytes_read: 0, requests: Requests::default(), seconds: 0.0, projected_mem: 0 };
        let _ = self.report.send(Message::Chunk(report));
    }
}

/// A pool of threads. The projections of the tasks that run at once never sum to more than the budget.
pub struct ThreadExecutor {
    jobs: Option<Sender<(usize, u64)>>,
    messages: Receiver<Message>,
    have: Arc<OnceLock<Reports>>,
    chunks: Vec<TaskReport>,
    threads: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    slots: usize,
    memory: Arc<MemoryTier>,
    running: std::collections::HashMap<(usize, u64), u64>,
}

impl ThreadExecutor {
    /// `threads` threads inside the budget of `memory`, which also holds intermediates.
    pub fn new(ctx: Arc<TaskContext>, threads: usize, memory: Arc<MemoryTier>) -> ThreadExecutor {
        let (jobs, queue) = channel::<(usize, u64)>();
        let (report, messages) = channel();
        let have = Arc::new(OnceLock::new());
        let queue = Arc::new(Mutex::new(queue));
        let stop = Arc::new(AtomicBool::new(false));
        let cores = Cores::new(threads.max(1));
        let threads = (0..threads.max(1))
            .map(|_| {
                let (queue, report, ctx, cores) = (queue.clone(), report.clone(), ctx.clone(), cores.clone());
                let (stop, have) = (stop.clone(), have.clone());
                std::thread::spawn(move || {
                    loop {
                        let job = match queue.lock() {
                            Ok(q) => q.recv(),
                            Err(_) => break,
                        };
                        let Ok((stage, task)) = job else { break };
                        let watcher = Watcher { stop: &stop, have: &have, report: &report };
                        let busy = cores.enter();
                        let result = run_task(&ctx, stage, task, &watcher);
                        drop(busy);
                        if report.send(Message::Done(Completion { stage, task, result })).is_err() {
                            break;
                        }
                    }
                })
            })
            .collect::<Vec<_>>();
        let slots = threads.len();
        ThreadExecutor { jobs: Some(jobs), messages, have, chunks: Vec::new(), threads, stop, slots, memory, running: Default::default() }
    }

    /// Reserves the memory of a task that is to start now. False if it has to wait until others have ended.
    ///
    /// # Errors
    /// When intermediates cannot be written to storage to make room.
    pub fn admit(&self, need: u64) -> Result<bool, StorageError> {
        if self.full() { Ok(false) } else { self.memory.reserve(need) }
    }

    /// Where intermediates stay while there is room.
    pub fn memory(&self) -> &MemoryTier {
        &self.memory
    }

    /// True if every thread is busy.
    pub fn full(&self) -> bool {
        self.running.len() >= self.slots
    }

    /// True if nothing runs.
    pub fn idle(&self) -> bool {
        self.running.is_empty()
    }

    /// Starts a task that was admitted.
    pub fn submit(&mut self, stage: usize, task: u64, need: u64) {
        self.running.insert((stage, task), need);
        if let Some(jobs) = &self.jobs {
            // The threads live as long as this executor, so the channel is open.
            let _ = jobs.send((stage, task));
        }
    }

    /// Waits for a task to end, or for a running one to have written a chunk; see [`ThreadExecutor::chunks`].
    pub fn wait(&mut self, timeout: Duration) -> Option<Completion> {
        match self.messages.recv_timeout(timeout).ok()? {
            Message::Done(done) => {
                if let Some(need) = self.running.remove(&(done.stage, done.task)) {
                    self.memory.release(need);
                }
                Some(done)
            }
            Message::Chunk(report) => {
                self.chunks.push(report);
                None
            }
        }
    }

    /// The chunks that running tasks have written since the last call, each in a report of its own.
    pub fn chunks(&mut self) -> Vec<TaskReport> {
        std::mem::take(&mut self.chunks)
    }

    /// Chunks that are there already: tasks leave them as they are. To be called before the first task starts.
    pub fn leave(&mut self, have: Reports) {
        let _ = self.have.set(have);
    }

    /// Tells running tasks to stop at the next chunk.
    pub fn cancel(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Drop for ThreadExecutor {
    fn drop(&mut self) {
        self.cancel();
        self.jobs = None;
        for t in self.threads.drain(..) {
            let _ = t.join();
        }
    }
}
