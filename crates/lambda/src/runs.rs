//! `status`, `finish`, `cancel` and `clean`: actions on a whole run.

use crate::config::Config;
use crate::failure::Failure;
use chunkwise::detached;
use chunkwise::executor::function::{
    ANSWER_FORMAT, CancelAnswer, CancelEvent, CleanAnswer, CleanEvent, FinishAnswer, FinishEvent, StatusAnswer, StatusEvent,
};
use chunkwise::executor::worker::read_plan;
use chunkwise::plan::ArrayRole;
use chunkwise::storage::Location;
use chunkwise::task::TaskContext;

/// Opens the plan of an event. It must be in its run's folder, so that no action touches another folder.
fn open(config: &Config, url: &str, hash: &str) -> Result<TaskContext, Failure> {
    let stores = config.runtime.stores();
    let plan = read_plan(stores, url, Some(hash))?;
    let folder = Location::parse(&plan.spec.work_dir, None)?.join(hash);
    let given = Location::parse(url, None)?;
    if given != folder.join("plan.json") {
        return Err(Failure::refused(format!("the plan at '{given}' is of a run in '{folder}'; name it there")));
    }
    Ok(TaskContext::open(stores, plan)?)
}

/// The progress of a run.
pub fn status(config: &Config, e: &StatusEvent) -> Result<StatusAnswer, Failure> {
    let context = open(config, &e.plan, &e.hash)?;
    let found = detached::progress(&context)?;
    let outputs = context.plan.arrays.iter().filter(|(_, a)| a.role == ArrayRole::Output);
    Ok(StatusAnswer {
        format: ANSWER_FORMAT.into(),
        hash: e.hash.clone(),
        state: found.state.into(),
        stages: found.stages,
        outputs: outputs.map(|(n, _)| context.array_location(n).as_str().to_string()).collect(),
        failures: found.failures,
    })
}

/// Publishes the outputs.
pub fn finish(config: &Config, e: &FinishEvent) -> Result<FinishAnswer, Failure> {
    let context = open(config, &e.plan, &e.hash)?;
    let outputs = detached::finish(&context, e.keep)?;
    Ok(FinishAnswer { format: ANSWER_FORMAT.into(), hash: e.hash.clone(), outputs })
}

/// Tells functions to hand back their unfinished tasks.
pub fn cancel(config: &Config, e: &CancelEvent) -> Result<CancelAnswer, Failure> {
    detached::cancel(config.runtime.stores(), &open(config, &e.plan, &e.hash)?.run_dir)?;
    Ok(CancelAnswer { format: ANSWER_FORMAT.into(), hash: e.hash.clone() })
}

/// Deletes the folder of a run.
pub fn clean(config: &Config, e: &CleanEvent) -> Result<CleanAnswer, Failure> {
    let objects = detached::clean(config.runtime.stores(), &open(config, &e.plan, &e.hash)?.run_dir)?;
    Ok(CleanAnswer { format: ANSWER_FORMAT.into(), hash: e.hash.clone(), objects })
}
