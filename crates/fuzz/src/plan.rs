//! Plans in JSON: read, checked, shown, and opened as a worker opens them.

use crate::place::stores;
use chunkwise::executor::check_apart;
use chunkwise::plan::Plan;
use chunkwise::report;
use chunkwise::report::cost::{Prices, Setup, project};
use chunkwise::task::{TaskContext, task_need};
use std::sync::LazyLock;

static PRICES: LazyLock<Prices> = LazyLock::new(|| Prices::built_in().unwrap());

/// Reads a plan.
///
/// # Panics
/// When a promise is broken.
pub fn plan(data: &[u8]) {
    match Plan::from_json(&String::from_utf8_lossy(data)) {
        Ok(plan) => examine(&plan),
        Err(e) => drop(e.to_string()),
    }
}

/// Does all with a valid plan that comes before its first task.
pub(crate) fn examine(plan: &Plan) {
    let again = Plan::from_json(&serde_json::to_string_pretty(plan).unwrap()).unwrap_or_else(|e| panic!("not valid when read again: {e}"));
    assert_eq!(again.id(), plan.id(), "it has another id when it is read again");
    if let Err(e) = check_apart(stores(), plan) {
        drop(e.to_string());
    }
    drop((report::table(plan), report::explain(plan), report::dot(plan), report::svg(plan)));
    let projection = project(plan, &Setup::of(plan, "us-east-1"), &PRICES).unwrap();
    drop((projection.summary(), projection.details(&PRICES)));
    let context = match TaskContext::open(stores(), plan.clone()) {
        Ok(context) => context,
        Err(e) => return drop(e.to_string()),
    };
    for (stage, s) in plan.stages.iter().enumerate() {
        let last = s.tasks().saturating_sub(1);
        for task in [0, last / 2, last] {
            if s.tasks() > 0 {
                task_need(&context, stage, task);
            }
        }
    }
}
