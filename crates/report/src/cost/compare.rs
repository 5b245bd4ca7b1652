//! What was projected, beside what was used.

use super::{Money, PriceError, Prices, Projection, Usage, classes, usd};
use chunkwise_plan::Requests;
use serde::Serialize;

/// What the service has charged for, where the executor knows it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Billed {
    /// Invocations, failed and repeated ones included.
    pub invocations: u64,
    /// GB-seconds.
    pub gb_seconds: f64,
}

/// A run in numbers, as tasks have reported it.
#[derive(Debug, Clone, Default)]
pub struct Actual<'a> {
    /// Seconds of tasks, by stage.
    pub task_seconds: &'a [f64],
    /// Requests of tasks, by stage.
    pub requests: &'a [Requests],
    /// Wall time in seconds.
    pub elapsed: f64,
    /// Functions, if there were any.
    pub billed: Option<Billed>,
}

/// A projection and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// What was projected.
    pub projected: Usage,
    /// What was used. Where no functions ran, invocations and GB-seconds are those that the same tasks would have taken.
    pub actual: Usage,
    /// How long it was projected to take on functions, in seconds.
    pub projected_elapsed: f64,
    /// How long it took.
    pub elapsed: f64,
    /// The projection in USD.
    pub projected_money: Money,
    /// What was used, in USD.
    pub actual_money: Money,
    /// True if invocations and GB-seconds are what the service has counted.
    pub billed: bool,
    /// The region whose prices these are.
    pub region: String,
}

/// Puts what a run has used beside the projection.
///
/// # Errors
/// When there are no prices of the region.
pub fn compare(projection: &Projection, actual: &Actual, prices: &Prices) -> Result<Comparison, PriceError> {
    let setup = &projection.setup;
    let region = prices.region(&setup.region)?;
    let (gets, puts) = classes(actual.requests);
    // Of what was not counted: tasks at once share a function, and an invocation takes its time.
    let mut functions = Billed { invocations: 0, gb_seconds: 0.0 };
    for (stage, &seconds) in projection.stages.iter().zip(actual.task_seconds) {
        let seconds = seconds / stage.at_once.max(1) as f64;
        let share = if stage.usage.task_seconds > 0.0 { seconds * stage.at_once.max(1) as f64 / stage.usage.task_seconds } else { 1.0 };
        let invocations =
            ((stage.usage.invocations as f64 * share).ceil() as u64).clamp(stage.usage.invocations.min(1), stage.usage.invocations);
        functions.invocations += invocations;
        functions.gb_seconds += (seconds + invocations as f64 * prices.rates.invocation_seconds) * setup.memory_mib as f64 / 1024.0;
    }
    let counted = actual.billed.unwrap_or(functions);
    let used = Usage {
        task_seconds: actual.task_seconds.iter().sum(),
        invocations: counted.invocations,
        gb_seconds: counted.gb_seconds,
        gets: gets + counted.invocations,
        puts: puts + counted.invocations,
    };
    let mut money = used.money(region, setup.architecture);
    money.storage = projection.money.storage * actual.elapsed / projection.elapsed.max(1e-9);
    Ok(Comparison {
        projected: projection.usage,
        actual: used,
        projected_elapsed: projection.elapsed,
        elapsed: actual.elapsed,
        projected_money: projection.money,
        actual_money: money,
        billed: actual.billed.is_some(),
        region: setup.region.clone(),
    })
}

impl Comparison {
    /// One line: what was used, with what was projected in brackets.
    pub fn summary(&self) -> String {
        let (a, p) = (&self.actual, &self.projected);
        format!(
            "{} {} in {} ({} were projected): {:.1} GB-seconds ({:.1}), {} invocations ({}), {} requests ({})",
            if self.billed { "cost" } else { "on AWS Lambda this would have cost" },
            usd(self.actual_money.total()),
            self.region,
            usd(self.projected_money.total()),
            a.gb_seconds,
            p.gb_seconds,
            a.invocations,
            p.invocations,
            a.gets.saturating_add(a.puts),
            p.gets.saturating_add(p.puts),
        )
    }
}
