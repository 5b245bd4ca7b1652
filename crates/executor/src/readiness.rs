//! Which tasks may start: readiness by chunk, not by stage.
//!
//! A task that cannot start waits on one task that it needs, any one; when that is done it is looked at again and starts or waits on
//! another. Tasks are taken from a cursor a stage, and only a window of them waits at a time, so a stage of ten million tasks costs its
//! bits and nothing else up front.

use chunkwise_plan::demand::Demands;
use chunkwise_plan::schedule::Schedule;
use chunkwise_task::TaskContext;
use chunkwise_types::{ravel, unravel};
use std::collections::{HashMap, VecDeque};

/// Tasks of one stage that may wait at a time.
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

/// Which task is next.
pub(crate) struct Readiness<'a> {
    ctx: &'a TaskContext,
    pub done: Vec<Done>,
    cursor: Vec<u64>,
    ready: Vec<VecDeque<u64>>,
    waiting: HashMap<(usize, u64), Vec<(usize, u64)>>,
    waiters: Vec<usize>,
    producer: HashMap<&'a str, (usize, usize)>,
}

impl<'a> Readiness<'a> {
    pub fn new(ctx: &'a TaskContext, done: Vec<Done>) -> Self {
        let stages = &ctx.plan.stages;
        let producer = stages
            .iter()
            .enumerate()
            .flat_map(|(s, stage)| stage.outputs.iter().enumerate().map(move |(o, out)| (out.array.as_str(), (s, o))))
            .collect();
        let n = stages.len();
        Readiness { ctx, done, cursor: vec![0; n], ready: vec![VecDeque::new(); n], waiting: HashMap::new(), waiters: vec![0; n], producer }
    }

    pub fn all_done(&self) -> bool {
        self.done.iter().all(Done::all)
    }

    /// A task that this one needs and that is not done.
    fn blocker(&self, stage: usize, task: u64) -> Option<(usize, u64)> {
        let s = &self.ctx.plan.stages[stage];
        // Stages that read only inputs, or finished stages, need no look at the regions.
        if !s.reads().any(|a| self.producer.get(a).is_some_and(|(p, _)| !self.done[*p].all())) {
            return None;
        }
        let schedule = Schedule::new(s, &s.task_regions(task));
        let missing = |demands: &Demands| {
            s.program.steps.iter().zip(demands).find_map(|(step, regions)| {
                let (p, o) = *self.producer.get(step.read.as_deref()?)?;
                let producer = &self.ctx.plan.stages[p];
                let (grid, counts) = (&producer.outputs[o].tasks, producer.task_counts());
                regions.iter().find_map(|r| {
                    let touched = grid.touched(r);
                    (0..touched.volume())
                        .map(|k| {
                            let mut index: Vec<u64> = unravel(k, &touched.shape).iter().zip(&touched.start).map(|(a, b)| a + b).collect();
                            index.resize(counts.len(), 0);
                            ravel(&index, &counts)
                        })
                        .find(|t| !self.done[p].get(*t))
                        .map(|t| (p, t))
                })
            })
        };
        for phase in &schedule.phases {
            for window in phase.windows.iter() {
                if let Some(b) = missing(&schedule.step_pass(&s.program, phase, &window).demands) {
                    return Some(b);
                }
            }
        }
        missing(&schedule.output_pass(&s.program).demands)
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

    /// Marks a task as done and wakes those that waited on it.
    pub fn finish(&mut self, stage: usize, task: u64) {
        self.done[stage].set(task);
        for (s, t) in self.waiting.remove(&(stage, task)).unwrap_or_default() {
            self.waiters[s] -= 1;
            self.look(s, t);
        }
    }

    /// The next task that may start: of the latest stage, so that intermediates are used while they are warm.
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

    /// Puts a task back to be started later.
    pub fn again(&mut self, stage: usize, task: u64) {
        self.ready[stage].push_front(task);
    }
}
