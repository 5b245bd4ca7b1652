//! The progress of a run, counted in bytes over all stages, however long their tasks take.

use crate::driver::memory;
use crate::event::Progress;
use crate::executors::Executor;
use crate::readiness::Done;
use chunkwise_plan::Plan;
use std::time::{Duration, Instant};

pub(super) struct Meter {
    started: Instant,
    told: Instant,
    /// For each stage, the bytes of one task.
    weights: Vec<f64>,
    before: f64,
}

impl Meter {
    pub fn new(plan: &Plan, done: &[Done]) -> Meter {
        // A task that reads and writes nothing counts as well.
        let weight =
            |s: &chunkwise_plan::Stage| (s.cost.bytes_read.saturating_add(s.cost.bytes_written)).max(1) as f64 / s.tasks().max(1) as f64;
        let (started, weights) = (Instant::now(), plan.stages.iter().map(weight).collect());
        let mut meter = Meter { started, told: started, weights, before: 0.0 };
        meter.before = meter.finished(done);
        meter
    }

    fn finished(&self, done: &[Done]) -> f64 {
        self.weights.iter().zip(done).map(|(w, d)| w * d.count() as f64).sum()
    }

    /// True if it is time for another event.
    pub fn is_due(&mut self, every: Duration) -> bool {
        let due = self.told.elapsed() >= every;
        if due {
            self.told = Instant::now();
        }
        due
    }

    pub fn read(&self, plan: &Plan, done: &[Done], executor: &dyn Executor) -> Progress {
        let total: f64 = self.weights.iter().zip(&plan.stages).map(|(w, s)| w * s.tasks() as f64).sum();
        let running: f64 = executor.under_way().iter().map(|u| self.weights.get(u.stage).unwrap_or(&0.0) * u.share.clamp(0.0, 1.0)).sum();
        Progress {
            total,
            // A second copy of a task counts only when the task is done.
            done: (self.finished(done) + running).min(total),
            before: self.before,
            seconds: self.started.elapsed().as_secs_f64(),
            memory: if executor.separate() { executor.peak_memory() } else { memory().0 },
            allowed_mem: plan.spec.allowed_mem,
        }
    }
}
