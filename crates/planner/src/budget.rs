//! The budget that a plan is made for, chosen so that a plan that fits a budget fits every larger one.
//!
//! The passes make something of every budget, but a larger one may lead them to regions or copies that then do not fit. A plan for a smaller budget
//! is also good for a larger one. So where the plan for all of the budget does not fit, plans for less are tried. They are tried at the rungs of a
//! ladder, which are the same whatever the budget is. What is found there for one budget is found for every larger one.

use crate::PlannerError;
use crate::cause::cause;
use chunkwise_plan::{Note, Plan, PlanSpec};

/// A plan, and what its largest task needs.
pub(crate) struct Attempt {
    pub plan: Plan,
    pub need: u64,
}

/// The smallest budget that a plan is made for.
const LEAST: u64 = 4 << 20;
/// Rungs of the ladder for each doubling.
const RUNGS: u64 = 2;
/// Plans for so many times the budget are looked at: what they make may need less than what is made for less.
const ABOVE: u64 = 2;
/// Advice is given in these units, or in thousandths of it.
const UNIT: u64 = 1_000_000;

/// Makes a plan for a budget.
type Attempts<'a> = &'a dyn Fn(u64) -> Result<Attempt, PlannerError>;

/// The budgets that are tried, in ascending order.
fn ladder() -> impl DoubleEndedIterator<Item = u64> {
    let first = u64::from(LEAST.ilog2());
    (first..50).flat_map(|power| (0..RUNGS).map(move |i| ((1 << power) / RUNGS).saturating_mul(RUNGS + i)))
}

/// The first of the plans that `attempt` makes, the one for the whole budget before all others, that fits.
pub(crate) fn within(spec: &PlanSpec, attempt: Attempts<'_>) -> Result<Plan, PlannerError> {
    let budget = spec.task_budget();
    let whole = attempt(budget);
    match &whole {
        Ok(made) if made.need <= budget => return whole.map(|made| made.plan),
        Ok(_) => {}
        Err(e) if e.invalid() => {}
        Err(_) => return whole.map(|made| made.plan),
    }
    let mut search = Search { spec, attempt, least: None };
    let below = ladder().rev().skip_while(|&rung| rung >= budget);
    let above = ladder().skip_while(|&rung| rung < budget).take_while(|&rung| rung / ABOVE <= budget);
    for rung in below.chain(above) {
        if let Some(plan) = search.rung(rung)? {
            return Ok(plan);
        }
    }
    // A plan that is not valid is no question of memory.
    whole?;
    search.refuse()
}

/// The search for a plan that needs little.
struct Search<'a> {
    spec: &'a PlanSpec,
    attempt: Attempts<'a>,
    /// The plan that is found for the least budget, and that budget.
    least: Option<(u64, Attempt)>,
}

impl Search<'_> {
    /// The plan for a rung of the ladder, if there is one that fits the budget. It is remembered if it is the best so far.
    fn rung(&mut self, rung: u64) -> Result<Option<Plan>, PlannerError> {
        let made = match (self.attempt)(rung) {
            Ok(made) if made.need <= self.spec.task_budget() => return Ok(Some(made.plan)),
            Ok(made) => made,
            Err(e) if e.invalid() => return Ok(None),
            // The advice may not be the best one then, but it is right.
            Err(PlannerError::Time { .. }) if self.least.is_some() => return Ok(None),
            Err(e) => return Err(e),
        };
        let budget = made.need.max(rung / ABOVE);
        if self.least.as_ref().is_none_or(|(least, _)| budget < *least) {
            self.least = Some((budget, made));
        }
        Ok(None)
    }

    /// Finds the least budget that would do, by planning, and says it.
    fn refuse(mut self) -> Result<Plan, PlannerError> {
        let budget = self.spec.task_budget();
        for rung in ladder().skip_while(|&rung| rung / ABOVE <= budget) {
            if self.least.as_ref().is_some_and(|(least, _)| rung / ABOVE >= *least) {
                break;
            }
            if let Some(plan) = self.rung(rung)? {
                return Ok(plan);
            }
        }
        let Some((least, mut made)) = self.least else {
            return Err(PlannerError::Internal("no budget has a plan that is valid".into()));
        };
        // Between the rungs: what is made for the whole of what would be allowed. Megabytes are a number that people write.
        let reserved = self.spec.reserved_mem;
        let (mut low, mut high) = (self.spec.allowed_mem / UNIT, least.saturating_add(reserved).div_ceil(UNIT));
        while high.saturating_sub(low) > (low / 1000).max(1) {
            let middle = low + (high - low) / 2;
            let more = middle.saturating_mul(UNIT).saturating_sub(reserved);
            match (self.attempt)(more) {
                Ok(found) if found.need <= budget => return Ok(found.plan),
                Ok(found) if found.need <= more => (high, made) = (middle, found),
                Ok(_) => low = middle,
                Err(e) if e.invalid() => low = middle,
                Err(_) => break,
            }
        }
        let worst = made.plan.stages.iter().max_by_key(|s| s.projected_mem);
        let Some(stage) = worst else { return Err(PlannerError::Internal("a plan without stages does not fit".into())) };
        Err(PlannerError::Memory {
            stage: stage.name.clone(),
            operations: stage.notes.first().map(Note::to_string).unwrap_or_default(),
            need: stage.projected_mem,
            reserved,
            allowed: self.spec.allowed_mem,
            least: high,
            advice: cause(&made.plan.arrays, stage),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rungs_are_near_to_each_other() {
        let rungs: Vec<u64> = ladder().collect();
        assert!(rungs.windows(2).all(|w| w[0] < w[1] && w[1] * 2 <= w[0] * 3), "{rungs:?}");
        assert_eq!(rungs[0], LEAST);
    }
}
