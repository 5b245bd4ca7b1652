//! The threads of this process, admitting tasks by projected memory.

use chunkwise_plan::TaskReport;
use chunkwise_task::{TaskContext, TaskError, run_task};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
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

/// A pool of threads. The projections of the tasks that run at once never sum to more than the budget.
pub struct ThreadExecutor {
    jobs: Option<Sender<(usize, u64)>>,
    completions: Receiver<Completion>,
    threads: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    slots: usize,
    budget: u64,
    running: std::collections::HashMap<(usize, u64), u64>,
}

impl ThreadExecutor {
    /// `threads` threads inside `budget` bytes.
    pub fn new(ctx: Arc<TaskContext>, threads: usize, budget: u64) -> ThreadExecutor {
        let (jobs, queue) = channel::<(usize, u64)>();
        let (report, completions) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..threads.max(1))
            .map(|_| {
                let (queue, report, ctx, stop) = (queue.clone(), report.clone(), ctx.clone(), stop.clone());
                std::thread::spawn(move || {
                    loop {
                        let job = match queue.lock() {
                            Ok(q) => q.recv(),
                            Err(_) => break,
                        };
                        let Ok((stage, task)) = job else { break };
                        let result = run_task(&ctx, stage, task, &stop);
                        if report.send(Completion { stage, task, result }).is_err() {
                            break;
                        }
                    }
                })
            })
            .collect::<Vec<_>>();
        let slots = threads.len();
        ThreadExecutor { jobs: Some(jobs), completions, threads, stop, slots, budget, running: Default::default() }
    }

    /// True if a task of this need may start now. A task that needs more than is left waits until others have ended.
    pub fn admits(&self, need: u64) -> bool {
        let used: u64 = self.running.values().sum();
        self.running.len() < self.slots && (self.running.is_empty() || used.saturating_add(need) <= self.budget)
    }

    /// True if every thread is busy.
    pub fn full(&self) -> bool {
        self.running.len() >= self.slots
    }

    /// True if nothing runs.
    pub fn idle(&self) -> bool {
        self.running.is_empty()
    }

    /// Starts a task.
    pub fn submit(&mut self, stage: usize, task: u64, need: u64) {
        self.running.insert((stage, task), need);
        if let Some(jobs) = &self.jobs {
            // The threads live as long as this executor, so the channel is open.
            let _ = jobs.send((stage, task));
        }
    }

    /// Waits for a task to end.
    pub fn wait(&mut self, timeout: Duration) -> Option<Completion> {
        let done = self.completions.recv_timeout(timeout).ok()?;
        self.running.remove(&(done.stage, done.task));
        Some(done)
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
