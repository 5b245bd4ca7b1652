//! Decides which intermediates are written to storage while they are in memory, so that a kill does not cost all the time that they took.
//!
//! The work of a stage is safe if its results are in storage, or if they are not needed any more because everything that was made from them
//! is safe. As long as a kill would cost more than a fraction of the time so far, an array is written: the one that saves the most time for
//! each byte. The array then stays in storage until everything that was made from it is safe as well, even if no task reads it any more.
//! Short runs write nothing.

use crate::needs::Producers;
use crate::readiness::Done;
use chunkwise_plan::{ArrayRole, Plan};
use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};

/// The fraction of the time so far that a kill may cost, and the seconds that it may always cost.
const SHARE: f64 = 0.1;
const LEAST: f64 = 3.0;
/// If each task of a reader needs this many times more than its part, the reader needs everything.
const SPREAD: f64 = 3.0;

/// For each array, its bytes that are only in memory.
pub(super) type Unsaved = HashMap<String, u64>;

/// What this run has done in a stage.
#[derive(Debug, Clone, Copy, Default)]
struct Made {
    tasks: u64,
    seconds: f64,
}

/// The time that is invested in intermediates.
pub(super) struct Behind<'a> {
    plan: &'a Plan,
    producers: Producers<'a>,
    made: Vec<Made>,
    /// For each array, the bytes that this run has written.
    bytes: HashMap<&'a str, u64>,
    /// Intermediates that no task reads any more and that still exist, and those that are deleted.
    passed: BTreeSet<&'a str>,
    gone: BTreeSet<&'a str>,
    /// The array that is being written.
    target: Option<&'a str>,
    /// For each stage, its readers, and whether each of their tasks needs about its part of the stage.
    readers: OnceCell<Vec<Vec<(usize, bool)>>>,
}

impl<'a> Behind<'a> {
    pub fn new(plan: &'a Plan) -> Behind<'a> {
        Behind {
            plan,
            producers: Producers::new(plan),
            made: vec![Made::default(); plan.stages.len()],
            bytes: HashMap::new(),
            passed: BTreeSet::new(),
            gone: BTreeSet::new(),
            target: None,
            readers: OnceCell::new(),
        }
    }

    /// A task has ended, and has written this many bytes of each output of its stage.
    pub fn finished(&mut self, stage: usize, seconds: f64, written: impl Iterator<Item = (&'a str, u64)>) {
        self.made[stage].tasks += 1;
        self.made[stage].seconds += seconds;
        for (array, bytes) in written.filter(|(array, _)| self.plan.arrays[*array].role == ArrayRole::Intermediate) {
            *self.bytes.entry(array).or_default() += bytes;
        }
    }

    /// No task reads an intermediate any more.
    pub fn pass(&mut self, array: &'a str) {
        self.passed.insert(array);
    }

    fn workers(&self) -> f64 {
        self.plan.spec.workers.max(1) as f64
    }

    fn spent(&self) -> f64 {
        self.made.iter().map(|m| m.seconds).sum()
    }

    /// True once a kill could cost more time than is always accepted.
    pub fn looks(&self) -> bool {
        !self.bytes.is_empty() && self.spent() > LEAST * self.workers()
    }

    /// The arrays to ask about.
    pub fn arrays(&self) -> impl Iterator<Item = &'a str> {
        self.bytes.keys().copied().filter(|a| !self.gone.contains(a))
    }

    fn readers(&self, stage: usize) -> &[(usize, bool)] {
        let all = self.readers.get_or_init(|| {
            let mut out = vec![Vec::new(); self.plan.stages.len()];
            for (r, stage) in self.plan.stages.iter().enumerate() {
                let sources: BTreeSet<usize> = stage.reads().filter_map(|a| self.producers.of(a)).collect();
                for p in sources {
                    let mut needed = BTreeSet::new();
                    self.producers.find::<()>(self.plan, r, stage.tasks() / 2, &|s| s == p, &mut |_, task| {
                        needed.insert(task);
                        None
                    });
                    let part = needed.len() as f64 / self.plan.stages[p].tasks().max(1) as f64;
                    out[p].push((r, part * stage.tasks() as f64 <= SPREAD));
                }
            }
            out
        });
        &all[stage]
    }

    /// Seconds that a kill would cost now.
    fn at_risk(&self, done: &[Done], unsaved: &dyn Fn(&str) -> u64) -> f64 {
        let share = |s: usize, tasks: u64| tasks as f64 / self.plan.stages[s].tasks().max(1) as f64;
        let mut safe = vec![0.0f64; self.plan.stages.len()];
        let mut risk = 0.0;
        for s in (0..self.plan.stages.len()).rev() {
            let (all, made) = (share(s, done[s].count()), share(s, self.made[s].tasks));
            let stored = self.plan.stages[s].outputs.iter().map(|o| match self.bytes.get(o.array.as_str()) {
                _ if self.plan.arrays[&o.array].role != ArrayRole::Intermediate => all,
                _ if self.gone.contains(o.array.as_str()) => 0.0,
                Some(&bytes) => all - made * (unsaved(&o.array) as f64 / bytes.max(1) as f64).min(1.0),
                None => all,
            });
            let temporary = self.plan.stages[s].outputs.iter().all(|o| self.plan.arrays[&o.array].role == ArrayRole::Intermediate);
            let used = self.readers(s).iter().map(|&(r, in_parts)| if in_parts || safe[r] >= 1.0 { safe[r] } else { 0.0 });
            let used = used.reduce(f64::min).filter(|_| temporary).unwrap_or(0.0);
            safe[s] = stored.reduce(f64::min).unwrap_or(all).max(used);
            if made > 0.0 {
                risk += self.made[s].seconds * ((all - safe[s]) / made).clamp(0.0, 1.0);
            }
        }
        risk
    }

    fn most(&self) -> f64 {
        (SHARE * self.spent()).max(LEAST * self.workers())
    }

    /// The intermediates that can be deleted now: all that no task reads, except the one that is being written, and those without which too
    /// much would be lost.
    pub fn unneeded(&mut self, done: &[Done], unsaved: &Unsaved) -> Vec<&'a str> {
        let bytes = |a: &str| unsaved.get(a).copied().unwrap_or(0);
        let mut out = Vec::new();
        for name in self.passed.clone() {
            let writing = self.target == Some(name) && bytes(name) > 0;
            self.gone.insert(name);
            let kept = self.looks() && (writing || (bytes(name) == 0 && self.at_risk(done, &bytes) > self.most()));
            if kept {
                self.gone.remove(name);
            } else {
                self.passed.remove(name);
                out.push(name);
            }
        }
        out
    }

    /// The array to write next, and how many bytes of it.
    pub fn next(&mut self, done: &[Done], unsaved: &Unsaved) -> Option<(&'a str, u64)> {
        let bytes = |a: &str| unsaved.get(a).copied().unwrap_or(0);
        if self.target.is_none_or(|a| bytes(a) == 0) {
            self.target = None;
            let risk = self.at_risk(done, &bytes);
            if risk > self.most() {
                let open = self.arrays().filter(|a| bytes(a) > 0);
                let saves =
                    |a: &&'a str| (risk - self.at_risk(done, &|other| if other == *a { 0 } else { bytes(other) })) / bytes(a) as f64;
                let each = open.map(|a| (a, saves(&a)));
                self.target = each.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(a, _)| a);
            }
        }
        self.target.map(|a| (a, bytes(a))).filter(|(_, n)| *n > 0)
    }

    /// All remaining arrays, when the run is over.
    pub fn rest(&mut self) -> Vec<&'a str> {
        std::mem::take(&mut self.passed).into_iter().collect()
    }
}
