//! The threads of this process. They admit tasks by projected memory. The only option is the number of threads (`--workers`).
//!
//! Tasks that read from object stores or write to them wait at their beginning and at their end. So if a plan has such arrays, there may be
//! twice as many tasks as cores, as far as unused memory allows.

use super::{Assignment, Executor, UnderWay, Update};
use crate::RunError;
use crate::log::{Journal, Reports};
use crate::renewals::Fence;
use chunkwise_plan::{Requests, TaskReport, WrittenChunk};
use chunkwise_storage::{MemoryTier, StorageError};
use chunkwise_task::{Cores, TaskContext, TaskError, Watch, run_task};
use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a thread may take to stop a hanging task before it is given up.
const GRACE: Duration = Duration::from_secs(5);

struct Job {
    attempt: u64,
    stage: usize,
    task: u64,
    link: Arc<Link>,
}

/// The link between a running task and the executor.
#[derive(Default)]
struct Link {
    stop: AtomicBool,
    /// The fraction that is done, as the bits of a float.
    done: AtomicU32,
}

/// What a task on one of the threads needs of the run.
struct Watcher<'a> {
    shared: &'a Shared,
    link: &'a Link,
}

impl Watch for Watcher<'_> {
    fn cancelled(&self) -> bool {
        let stopped = self.link.stop.load(Ordering::Relaxed) || self.shared.stop.load(Ordering::Relaxed);
        stopped || self.shared.fence.get().is_some_and(Fence::passed)
    }

    fn have(&self, array: &str, chunk: &[u64]) -> Option<WrittenChunk> {
        let have = self.shared.have.read();
        if have.is_empty() { None } else { have.get(&(array.to_string(), chunk.to_vec())).cloned() }
    }

    fn wrote(&self, stage: usize, task: u64, written: Vec<WrittenChunk>) {
        let report = TaskReport { stage, task, written, bytes_read: 0, requests: Requests::default(), seconds: 0.0, projected_mem: 0 };
        // If the thread cannot write it, the executor tries, and reports the failure.
        if self.shared.journal.read().as_ref().is_none_or(|journal| journal.add(&report).is_err()) {
            let _ = self.shared.updates.send(Update::Wrote(report));
        }
    }

    fn did(&self, share: f64) {
        self.link.done.store((share as f32).to_bits(), Ordering::Relaxed);
    }
}

/// What all threads share.
struct Shared {
    ctx: Arc<TaskContext>,
    queue: Mutex<Receiver<Job>>,
    updates: Sender<Update>,
    journal: RwLock<Option<Journal>>,
    have: RwLock<Reports>,
    stop: AtomicBool,
    cores: Arc<Cores>,
    /// The time until which the run may write.
    fence: OnceLock<Fence>,
}

fn serve(shared: &Shared) {
    loop {
        let job = match shared.queue.lock() {
            Ok(q) => q.recv(),
            Err(_) => break,
        };
        let Ok(Job { attempt, stage, task, link }) = job else { break };
        let watcher = Watcher { shared, link: &link };
        let busy = shared.cores.enter();
        let result = run_task(&shared.ctx, stage, task, &watcher);
        drop(busy);
        if shared.updates.send(Update::Ended { attempt, result }).is_err() {
            break;
        }
    }
}

struct Running {
    stage: usize,
    task: u64,
    need: u64,
    link: Arc<Link>,
    started: Instant,
    /// The deadline for it to stop.
    until: Option<Instant>,
}

/// A pool of threads. The projections of the tasks that run at once never add up to more than the budget.
pub struct ThreadExecutor {
    jobs: Option<Sender<Job>>,
    updates: Receiver<Update>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// The number of tasks that run regardless of other data in memory, and the largest number of tasks.
    cores: usize,
    slots: usize,
    memory: Arc<MemoryTier>,
    /// Tasks that were admitted and have not ended.
    admitted: usize,
    running: HashMap<u64, Running>,
    /// Threads that were given up because their task hangs.
    stuck: usize,
    /// The thread that writes intermediates that would be lost if this process were killed.
    saving: Option<JoinHandle<Result<(), StorageError>>>,
}

impl ThreadExecutor {
    /// `threads` threads within the budget of `memory`, which may also hold intermediates.
    pub fn new(ctx: Arc<TaskContext>, threads: usize, memory: Arc<MemoryTier>) -> ThreadExecutor {
        let cores = threads.max(1);
        let waits = ctx.plan.arrays.values().any(|a| a.in_flight > 0);
        let slots = if waits { cores * 2 } else { cores };
        let (jobs, queue) = channel::<Job>();
        let (updates, received) = channel();
        let (queue, journal, have) = (Mutex::new(queue), RwLock::default(), RwLock::default());
        let (stop, cores_, fence) = (AtomicBool::new(false), Cores::new(cores), OnceLock::new());
        let shared = Arc::new(Shared { ctx, queue, updates, journal, have, stop, cores: cores_, fence });
        let mut this = ThreadExecutor {
            jobs: Some(jobs),
            updates: received,
            shared,
            threads: Vec::new(),
            cores,
            slots,
            memory,
            admitted: 0,
            running: HashMap::new(),
            stuck: 0,
            saving: None,
        };
        (0..slots).for_each(|_| this.spawn());
        this
    }

    fn spawn(&mut self) {
        let shared = self.shared.clone();
        self.threads.push(std::thread::spawn(move || serve(&shared)));
    }

    /// True if nothing runs.
    pub fn idle(&self) -> bool {
        self.running.is_empty()
    }

    /// True if a thread was given up because its task hangs.
    pub fn stuck(&self) -> bool {
        self.stuck > 0
    }

    fn take(&mut self, update: Update, out: &mut Vec<Update>) {
        if let Update::Ended { attempt, .. } = &update {
            // A thread that was given up may end after all. Its result is ignored.
            let Some(done) = self.running.remove(attempt) else { return };
            self.memory.release(done.need);
            self.admitted -= 1;
        }
        out.push(update);
    }

    /// Gives up threads whose task does not stop. The task may go on, which does no harm: it can only write the same bytes.
    fn give_up(&mut self, out: &mut Vec<Update>) {
        let now = Instant::now();
        let late: Vec<u64> = self.running.iter().filter(|(_, r)| r.until.is_some_and(|t| t < now)).map(|(&a, _)| a).collect();
        for attempt in late {
            let Some(r) = self.running.remove(&attempt) else { continue };
            self.admitted -= 1;
            // Its memory stays reserved, because it may still use it. So a run cannot have many such threads in its budget.
            self.stuck += 1;
            self.spawn();
            let seconds = r.started.elapsed().as_secs_f64();
            out.push(Update::Ended { attempt, result: Err(TaskError::Timeout { stage: r.stage, task: r.task, seconds }) });
        }
    }
}

impl Executor for ThreadExecutor {
    fn name(&self) -> &str {
        "threads"
    }

    fn room(&self) -> usize {
        self.slots.saturating_sub(self.running.len())
    }

    /// A copy in the same process would only compete with the first one.
    fn separate(&self) -> bool {
        false
    }

    fn keep(&mut self, journal: Journal) {
        *self.shared.journal.write() = Some(journal);
    }

    fn guard(&mut self, fence: Fence) {
        // A run sets it once.
        let _ = self.shared.fence.set(fence);
    }

    fn admit(&mut self, need: u64) -> Result<bool, StorageError> {
        let admitted = if self.admitted < self.cores { self.memory.reserve(need)? } else { self.memory.reserve_beside(need) };
        self.admitted += usize::from(admitted);
        Ok(admitted)
    }

    fn submit(&mut self, work: Vec<Assignment>) -> Result<(), RunError> {
        for Assignment { attempt, stage, task, need, have, .. } in work {
            if !have.is_empty() {
                let mut known = self.shared.have.write();
                known.extend(have.into_iter().map(|w| ((w.array.clone(), w.chunk.clone()), w)));
            }
            let link = Arc::<Link>::default();
            let running = Running { stage, task, need, link: link.clone(), started: Instant::now(), until: None };
            self.running.insert(attempt, running);
            if let Some(jobs) = &self.jobs {
                // The threads live as long as this executor, so the channel is open.
                let _ = jobs.send(Job { attempt, stage, task, link });
            }
        }
        Ok(())
    }

    fn wait(&mut self, timeout: Duration) -> Result<Vec<Update>, RunError> {
        let mut out = Vec::new();
        if let Ok(first) = self.updates.recv_timeout(timeout) {
            self.take(first, &mut out);
            while let Ok(more) = self.updates.try_recv() {
                self.take(more, &mut out);
            }
        }
        self.give_up(&mut out);
        Ok(out)
    }

    fn stop(&mut self, attempt: u64, hangs: bool) {
        if let Some(r) = self.running.get_mut(&attempt) {
            r.link.stop.store(true, Ordering::Relaxed);
            if hangs && r.until.is_none() {
                r.until = Some(Instant::now() + GRACE);
            }
        }
    }

    fn cancel(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }

    fn flush(&mut self) -> Result<(), StorageError> {
        self.memory.flush()
    }

    fn spilled(&self) -> u64 {
        self.memory.spilled()
    }

    fn unsaved(&self, arrays: &[String]) -> Vec<u64> {
        self.memory.unsaved(arrays)
    }

    fn save(&mut self, array: &str, bytes: u64) -> Result<(), StorageError> {
        if self.saving.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return Ok(());
        }
        if let Some(thread) = self.saving.take() {
            thread.join().unwrap_or(Ok(()))?;
        }
        let (memory, array) = (self.memory.clone(), array.to_string());
        self.saving = Some(std::thread::spawn(move || memory.save(&array, bytes)));
        Ok(())
    }

    fn settle(&mut self) {
        if let Some(thread) = self.saving.take() {
            // Its failure does not matter any more.
            let _ = thread.join();
        }
    }

    fn under_way(&self) -> Vec<UnderWay> {
        let share = |r: &Running| f64::from(f32::from_bits(r.link.done.load(Ordering::Relaxed)));
        self.running.iter().map(|(&attempt, r)| UnderWay { attempt, stage: r.stage, share: share(r) }).collect()
    }
}

impl Drop for ThreadExecutor {
    fn drop(&mut self) {
        self.cancel();
        self.jobs = None;
        // All threads but the hanging ones come to their end.
        let deadline = Instant::now() + GRACE;
        let busy = |threads: &[JoinHandle<()>]| threads.iter().filter(|t| !t.is_finished()).count();
        while self.stuck > 0 && busy(&self.threads) > self.stuck && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        for t in self.threads.drain(..) {
            if self.stuck == 0 || t.is_finished() {
                let _ = t.join();
            }
        }
    }
}
