//! Which tasks may start: readiness by chunk, not by stage.
//!
//! A task that cannot start waits for any one task that it needs. When that one is done, the waiting task is examined again, and starts or
//! waits for another one. Each stage has a cursor from which tasks are taken, and only a window of them waits at a time. So a stage of ten
//! million tasks costs its bits and nothing else up front.

use crate::needs::Producers;
use chunkwise_task::TaskContext;
use std::collections::{HashMap, VecDeque};

/// The largest number of tasks of one stage that wait at a time.
const WINDOW: usize = 4096;

/// One bit a task.
pub(crate) struct Done {
    bits: Vec<u64>,
    tasks: u64,
    count: u64,
}

impl Done {
    pub fn new(tasks: u64) -> Done {
        Done { bits: vec![0; tasks.div_ceil(64) as usize], tasks, count: 0 }
    }
    pub fn get(&self, task: u64) -> bool {
        self.bits[(task / 64) as usize] >> (task % 64) & 1 == 1
    }
    pub fn set(&mut self, task: u64) {
        if !self.get(task) {
            self.bits[(task / 64) as usize] |= 1 << (task % 64);
            self.count += 1;
        }
    }
    pub fn set_all(&mut self) {
        (0..self.tasks).for_each(|t| self.set(t));
    }
    pub fn all(&self) -> bool {
        self.count == self.tasks
    }
    pub fn count(&self) -> u64 {
        self.count
    }
}

/// Decides which task is next.
pub(crate) struct Readiness<'a> {
    ctx: &'a TaskContext,
    pub done: Vec<Done>,
    cursor: Vec<u64>,
    ready: Vec<VecDeque<u64>>,
    waiting: HashMap<(usize, u64), Vec<(usize, u64)>>,
    waiters: Vec<usize>,
    producers: Producers<'a>,
}

impl<'a> Readiness<'a> {
    pub fn new(ctx: &'a TaskContext, done: Vec<Done>) -> Self {
        let n = ctx.plan.stages.len();
        let producers = Producers::new(&ctx.plan);
        Readiness {
            ctx,
            done,
            cursor: vec![0; n],
            ready: vec![VecDeque::new(); n],
            waiting: HashMap::new(),
            waiters: vec![0; n],
            producers,
        }
    }

    pub fn all_done(&self) -> bool {
        self.done.iter().all(Done::all)
    }

    /// A task that this one needs and that is not done.
    fn blocker(&self, stage: usize, task: u64) -> Option<(usize, u64)> {
        let undone = |p: usize, t: u64| (!self.done[p].get(t)).then_some((p, t));
        self.producers.find(&self.ctx.plan, stage, task, &|p| !self.done[p].all(), &mut { undone })
    }

    fn look(&mut self, stage: usize, task: u64) {
        match self.blocker(stage, task) {
            Some(b) => {
                self.waiting.entry(b).or_default().push((stage, task));
                self.waiters[stage] += 1;
            }
            None => self.ready[stage].push_back(task),
        }
    }

    /// Marks a task as done and wakes the tasks that waited for it.
    pub fn finish(&mut self, stage: usize, task: u64) {
        self.done[stage].set(task);
        for (s, t) in self.waiting.remove(&(stage, task)).unwrap_or_default() {
            self.waiters[s] -= 1;
            self.look(s, t);
        }
    }

    /// The next task that may start. Later stages come first, so that intermediates are used while they are in cache.
    pub fn next(&mut self) -> Option<(usize, u64)> {
        for s in (0..self.ctx.plan.stages.len()).rev() {
            loop {
                if let Some(t) = self.ready[s].pop_front() {
                    return Some((s, t));
                }
                if self.waiters[s] >= WINDOW || self.cursor[s] >= self.done[s].tasks {
                    break;
                }
                let t = self.cursor[s];
                self.cursor[s] += 1;
                if !self.done[s].get(t) {
                    self.look(s, t);
                }
            }
        }
        None
    }

    /// Puts a task back, to be started again.
    pub fn again(&mut self, stage: usize, task: u64) {
        self.ready[stage].push_front(task);
    }
}
