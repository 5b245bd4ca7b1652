//! Makes sure that planning ends: every loop has a measure that falls, and all of them together have a time limit.
//!
//! A loop that cannot go on stops where it is and leaves what it has. What went wrong is kept, and [`Watch::verdict`] says it after the pass.

use crate::PlannerError;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::time::Duration;

/// How long planning may take. The planner has no clock of its own: it asks what has passed.
#[derive(Clone, Copy)]
pub struct TimeLimit<'a> {
    /// The longest time.
    pub most: Duration,
    /// The time since planning began.
    pub passed: &'a dyn Fn() -> Duration,
}

impl TimeLimit<'_> {
    /// As long as it takes.
    pub const NONE: TimeLimit<'static> = TimeLimit { most: Duration::MAX, passed: &|| Duration::ZERO };

    pub(crate) fn is_over(&self) -> bool {
        (self.passed)() > self.most
    }
}

/// Watches over the loops of one attempt at a plan.
pub(crate) struct Watch<'a> {
    limit: TimeLimit<'a>,
    pass: Cell<&'static str>,
    failed: RefCell<Option<PlannerError>>,
}

impl std::fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("pass", &self.pass).field("failed", &self.failed).finish_non_exhaustive()
    }
}

impl<'a> Watch<'a> {
    pub fn new(limit: TimeLimit<'a>) -> Watch<'a> {
        Watch { limit, pass: Cell::new("start"), failed: RefCell::new(None) }
    }

    /// The pass that errors name from now on.
    pub fn enter(&self, pass: &'static str) {
        self.pass.set(pass);
    }

    /// A loop, by what it does.
    pub fn falling(&self, what: &'static str) -> Falling<'_> {
        Falling { watch: self, what, last: None }
    }

    /// What went wrong in a loop, if anything did.
    pub fn verdict(&self) -> Result<(), PlannerError> {
        self.time();
        self.failed.borrow_mut().take().map_or(Ok(()), Err)
    }

    /// True while there is time, and nothing has failed: for loops that end by themselves, over something that takes long.
    pub fn goes_on(&self) -> bool {
        self.time() && self.failed.borrow().is_none()
    }

    /// True while there is time.
    fn time(&self) -> bool {
        let over = self.limit.is_over();
        if over {
            self.fail(PlannerError::Time { pass: self.pass.get(), limit: self.limit.most });
        }
        !over
    }

    /// Something went wrong. The first failure is the one that counts.
    pub fn fail(&self, e: PlannerError) {
        self.failed.borrow_mut().get_or_insert(e);
    }
}

/// The measure of a loop.
#[derive(Debug)]
pub(crate) struct Falling<'w> {
    watch: &'w Watch<'w>,
    what: &'static str,
    last: Option<u64>,
}

impl Falling<'_> {
    /// True if the loop may go on: `measure` is less than it was the last time, there is time, and nothing has failed before.
    pub fn goes_on(&mut self, measure: u64) -> bool {
        if let Some(last) = self.last.filter(|&last| measure >= last) {
            let pass = self.watch.pass.get();
            self.watch.fail(PlannerError::Internal(format!(
                "the pass '{pass}' does not come to an end while {}: {measure} is not less than {last}",
                self.what
            )));
        }
        self.last = Some(measure);
        self.watch.goes_on()
    }
}

/// Opens everything that can be reached from some nodes by the edges that `next` gives. A node is opened when `first` says that it is new, so
/// this ends.
fn walk<'n>(starts: &[usize], mut first: impl FnMut(usize) -> bool, mut next: impl FnMut(usize) -> &'n [usize]) {
    let mut stack = starts.to_vec();
    while let Some(k) = stack.pop() {
        if first(k) {
            stack.extend(next(k));
        }
    }
}

/// For each of `n` nodes, whether it can be reached from some of them.
pub(crate) fn reach<'n>(starts: &[usize], n: usize, next: impl FnMut(usize) -> &'n [usize]) -> Vec<bool> {
    let mut seen = vec![false; n];
    walk(starts, |k| !std::mem::replace(&mut seen[k], true), next);
    seen
}

/// The nodes that can be reached from some nodes, in rising order, in time that depends on how many these are.
pub(crate) fn reached<'n>(starts: &[usize], next: impl FnMut(usize) -> &'n [usize]) -> Vec<usize> {
    let mut seen = HashSet::new();
    walk(starts, |k| seen.insert(k), next);
    let mut seen: Vec<usize> = seen.into_iter().collect();
    seen.sort_unstable();
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measure_that_does_not_fall_is_an_error_with_the_pass() {
        let watch = Watch::new(TimeLimit::NONE);
        watch.enter("tasks");
        let mut falls = watch.falling("halving steps");
        assert!(falls.goes_on(3) && falls.goes_on(2) && watch.verdict().is_ok());
        assert!(!falls.goes_on(2));
        assert!(!watch.falling("anything else").goes_on(1), "a failed attempt does no more");
        let text = watch.verdict().unwrap_err().to_string();
        assert!(text.contains("'tasks'") && text.contains("halving steps") && text.contains("bug"), "{text}");
    }

    #[test]
    fn a_loop_ends_when_time_is_over() {
        let steps = Cell::new(0);
        let passed = || Duration::from_secs(steps.get());
        let watch = Watch::new(TimeLimit { most: Duration::from_secs(5), passed: &passed });
        watch.enter("rechunk");
        let mut falls = watch.falling("looping");
        while falls.goes_on(1000 - steps.get()) {
            steps.set(steps.get() + 1);
        }
        assert_eq!(steps.get(), 6);
        let text = watch.verdict().unwrap_err().to_string();
        assert!(text.contains("'rechunk'") && text.contains("5 s"), "{text}");
    }

    #[test]
    fn a_walk_opens_each_node_once() {
        let edges: [&[usize]; 4] = [&[1, 1], &[0], &[3], &[]];
        let mut opened = 0;
        let seen = reach(&[0, 1], 4, |k| {
            opened += 1;
            edges[k]
        });
        assert_eq!((seen, opened), (vec![true, true, false, false], 2));
        assert_eq!(reached(&[2, 0], |k| edges[k]), [0, 1, 2, 3]);
    }
}
