//! The tasks of a worker: a queue, and the threads that take from it as memory allows.

use super::{Answer, Worker};
use crate::executors::{Assignment, Executor, ThreadExecutor, Update};
use chunkwise_plan::WrittenChunk;
use chunkwise_task::{TaskError, task_need};
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// How long a task may take to stop.
const GRACE: Duration = Duration::from_secs(5);

struct Queued {
    attempt: u64,
    stage: usize,
    task: u64,
    have: Vec<WrittenChunk>,
}

struct Running {
    stage: usize,
    task: u64,
    started: Instant,
    late: Option<f64>,
}

/// Runs tasks in the order of their arrival.
pub(crate) struct Pool<'a> {
    worker: &'a Worker,
    threads: ThreadExecutor,
    queue: VecDeque<Queued>,
    running: BTreeMap<u64, Running>,
    timeout: Option<Duration>,
    hanging: bool,
}

impl<'a> Pool<'a> {
    pub fn new(worker: &'a Worker, threads: usize, timeout: Option<Duration>) -> Pool<'a> {
        let threads = ThreadExecutor::new(worker.context.clone(), threads, worker.memory.clone());
        Pool { worker, threads, queue: VecDeque::new(), running: BTreeMap::new(), timeout, hanging: false }
    }

    pub fn push(&mut self, attempt: u64, stage: usize, task: u64, have: Vec<WrittenChunk>) {
        self.queue.push_back(Queued { attempt, stage, task, have });
    }

    pub fn idle(&self) -> bool {
        self.queue.is_empty() && self.running.is_empty()
    }

    /// Tasks that have not begun.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Stops an attempt, or hands it back if it has not begun.
    pub fn stop(&mut self, attempt: u64) -> Option<Answer> {
        if let Some(i) = self.queue.iter().position(|q| q.attempt == attempt) {
            let q = self.queue.remove(i)?;
            return Some(Answer::Returned { attempt, stage: q.stage, task: q.task });
        }
        self.threads.stop(attempt, false);
        None
    }

    /// To be called after [`Pool::cancel`]. Waits until all tasks have stopped at their next chunk. Hanging tasks are handed back as they
    /// are.
    pub fn wind_up(&mut self, mut say: impl FnMut(Vec<Answer>) -> Result<(), super::WorkerError>) -> Result<(), super::WorkerError> {
        let deadline = Instant::now() + GRACE;
        while !self.idle() && Instant::now() < deadline {
            say(self.step(Duration::from_millis(20))?)?;
        }
        let hanging = std::mem::take(&mut self.running);
        self.hanging |= !hanging.is_empty();
        say(hanging.into_iter().map(|(attempt, r)| Answer::Returned { attempt, stage: r.stage, task: r.task }).collect())
    }

    /// True if a task does not stop. Do not wait for the pool then.
    pub fn hangs(&self) -> bool {
        self.hanging || self.threads.stuck()
    }

    /// Hands back the tasks that have not begun, and stops the others at their next chunk.
    pub fn cancel(&mut self) -> Vec<Answer> {
        self.threads.cancel();
        self.hand_back()
    }

    /// Hands back the tasks that have not begun.
    pub fn hand_back(&mut self) -> Vec<Answer> {
        let back = |q: Queued| Answer::Returned { attempt: q.attempt, stage: q.stage, task: q.task };
        self.queue.drain(..).map(back).collect()
    }

    fn start(&mut self, out: &mut Vec<Answer>) -> Result<(), TaskError> {
        let ctx = &self.worker.context;
        while self.threads.room() > 0
            && let Some(q) = self.queue.front()
        {
            let (attempt, stage, task) = (q.attempt, q.stage, q.task);
            let known = ctx.plan.stages.get(stage).is_some_and(|s| task < s.tasks());
            let need = if known { task_need(ctx, stage, task) } else { 0 };
            let refused = if !known {
                Some(TaskError::NoSuchTask { stage, task })
            } else if need > self.worker.budget {
                Some(TaskError::Memory { stage, task, need, budget: self.worker.budget })
            } else {
                None
            };
            if let Some(e) = refused {
                self.queue.pop_front();
                out.push(Answer::of(attempt, stage, task, Err(e)));
                continue;
            }
            if !self.threads.admit(need).map_err(|source| TaskError::Storage { stage, task, source })? {
                break;
            }
            let Some(q) = self.queue.pop_front() else { break };
            self.running.insert(attempt, Running { stage, task, started: Instant::now(), late: None });
            out.push(Answer::Started { attempt, stage, task });
            // The threads belong to this process, so submitting cannot fail.
            let _ = self.threads.submit(vec![Assignment { attempt, stage, task, need, alone: false, have: q.have }]);
        }
        Ok(())
    }

    /// The progress of the running tasks.
    pub fn progress(&self) -> Vec<Answer> {
        self.threads.under_way().into_iter().map(|u| Answer::Did { attempt: u.attempt, share: u.share }).collect()
    }

    /// Starts tasks as memory allows, and waits for news, at most for this time.
    pub fn step(&mut self, timeout: Duration) -> Result<Vec<Answer>, TaskError> {
        let mut out = Vec::new();
        self.start(&mut out)?;
        if !out.is_empty() {
            return Ok(out);
        }
        if let Some(limit) = self.timeout {
            for (&attempt, r) in &mut self.running {
                if r.late.is_none() && r.started.elapsed() > limit {
                    r.late = Some(r.started.elapsed().as_secs_f64());
                    self.threads.stop(attempt, true);
                }
            }
        }
        for update in self.threads.wait(timeout).unwrap_or_default() {
            match update {
                Update::Wrote(chunk) => out.push(Answer::Wrote(chunk)),
                Update::Ended { attempt, result } => {
                    let Some(Running { stage, task, late, .. }) = self.running.remove(&attempt) else { continue };
                    let result = match (result, late) {
                        (Err(_), Some(seconds)) => Err(TaskError::Timeout { stage, task, seconds }),
                        (other, _) => other,
                    };
                    out.push(Answer::of(attempt, stage, task, result));
                }
                Update::Started { .. } | Update::Warning(_) => {}
            }
        }
        Ok(out)
    }
}
