//! Events.

use super::EVENT_FORMAT;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bytes of an event, at most.
const MAX_EVENT: usize = 1 << 20;
/// Ranges of tasks in an event, at most.
const MAX_RANGES: usize = 10_000;
/// Tasks of an event, at most.
const MAX_TASKS: u64 = 1 << 24;
/// Characters of a URL, an id or a name, at most.
const MAX_TEXT: usize = 2048;

/// An event that is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the event is refused: {0}")]
pub struct EventError(pub String);

fn refuse<T>(why: impl Into<String>) -> Result<T, EventError> {
    Err(EventError(why.into()))
}

/// What the function is asked to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Event {
    /// Run tasks of a stage whose inputs are done.
    RunTasks(RunTasksEvent),
    /// Make a plan of a pipeline, store it, and say what there is to run.
    Plan(PlanEvent),
    /// How far a run is.
    Status(StatusEvent),
    /// Publish the outputs of a run whose tasks are all done.
    Finish(FinishEvent),
    /// Make functions hand back what they have not done.
    Cancel(CancelEvent),
    /// Delete the folder of a run: plan, intermediates, reports.
    Clean(CleanEvent),
}

/// A run, by its plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunRef {
    /// Always `chunkwise-event/1`.
    pub format: String,
    /// URL of the plan.
    pub plan: String,
    /// Its id.
    pub hash: String,
    /// W3C `traceparent` of the caller, for the logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

/// How far a run is.
pub type StatusEvent = RunRef;
/// Make functions hand back what they have not done.
pub type CancelEvent = RunRef;
/// Delete the folder of a run.
pub type CleanEvent = RunRef;

/// Run tasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunTasksEvent {
    /// Always `chunkwise-event/1`.
    pub format: String,
    /// URL of the plan.
    pub plan: String,
    /// Its id.
    pub hash: String,
    /// The version of the driver, which must be the function's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver_version: Option<String>,
    /// Index of the stage.
    pub stage: usize,
    /// Ranges of tasks, `[from, to)`.
    pub tasks: Vec<[u64; 2]>,
    /// The folder below `reports` in the run's folder where the reports of this invocation go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Tasks at once; by default as many as the function has processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// Seconds that one attempt at a task may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_timeout: Option<f64>,
    /// A task that fails makes the invocation fail, with the class of the failure as the type of the error: for callers that look at errors
    /// only. Otherwise failures are part of the answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub strict: bool,
    /// W3C `traceparent` of the caller, for the logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

/// What becomes of outputs and of a run that are there already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Outputs must not exist.
    #[default]
    New,
    /// Outputs are replaced.
    Overwrite,
    /// What an unfinished run of the same plan has left is used.
    Resume,
}

/// Make a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanEvent {
    /// Always `chunkwise-event/1`.
    pub format: String,
    /// URL of a pipeline file. Relative names in it are relative to its folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<String>,
    /// Instead: the pipeline itself, as an object, or as text in YAML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<serde_json::Value>,
    /// What relative names of `document` are relative to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// URL of the work directory, where the pipeline names none, or another one. Default: that of the function (`CHUNKWISE_WORK_DIR`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_dir: Option<String>,
    /// What one function may use, in bytes. Default: its memory size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_mem: Option<u64>,
    /// Parameters of the pipeline.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, String>,
    /// What becomes of outputs that are there already.
    #[serde(default)]
    pub mode: Mode,
    /// Store nothing and touch nothing: only say what the plan would be.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// Tasks of a batch, where that is not left to the function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    /// W3C `traceparent` of the caller, for the logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

/// Publish the outputs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FinishEvent {
    /// Always `chunkwise-event/1`.
    pub format: String,
    /// URL of the plan.
    pub plan: String,
    /// Its id.
    pub hash: String,
    /// Keep the intermediates.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep: bool,
    /// W3C `traceparent` of the caller, for the logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

/// What every event has, looked at first: so that one of another version is told so.
#[derive(Deserialize)]
struct Head {
    format: Option<String>,
    action: Option<String>,
}

impl Event {
    /// Reads an event.
    ///
    /// # Errors
    /// When it is too large or too deep, of another version, has an unknown action or field, or a field that no run can have.
    pub fn from_json(text: &[u8]) -> Result<Event, EventError> {
        if text.len() > MAX_EVENT {
            return refuse(format!("it has {} bytes, and {MAX_EVENT} are allowed", text.len()));
        }
        let head: Head =
            serde_json::from_slice(text).map_err(|e| EventError(format!("it is not an object with a format and an action: {e}")))?;
        match head.format.as_deref() {
            Some(EVENT_FORMAT) => {}
            Some(other) => return refuse(format!("it has format '{}', but this function takes '{EVENT_FORMAT}'", shown(other))),
            None => return refuse(format!("it has no format; this function takes '{EVENT_FORMAT}'")),
        }
        if head.action.is_none() {
            return refuse("it has no action; there are run_tasks, plan, status, finish, cancel and clean");
        }
        let event: Event = serde_json::from_slice(text).map_err(|e| EventError(e.to_string()))?;
        event.check()?;
        Ok(event)
    }

    /// The trace of the caller.
    pub fn trace(&self) -> Option<&str> {
        match self {
            Event::RunTasks(e) => e.trace.as_deref(),
            Event::Plan(e) => e.trace.as_deref(),
            Event::Finish(e) => e.trace.as_deref(),
            Event::Status(e) | Event::Cancel(e) | Event::Clean(e) => e.trace.as_deref(),
        }
    }

    /// The name of the action.
    pub fn action(&self) -> &'static str {
        match self {
            Event::RunTasks(_) => "run_tasks",
            Event::Plan(_) => "plan",
            Event::Status(_) => "status",
            Event::Finish(_) => "finish",
            Event::Cancel(_) => "cancel",
            Event::Clean(_) => "clean",
        }
    }

    fn check(&self) -> Result<(), EventError> {
        if let Some(t) = self.trace() {
            text("trace", t)?;
        }
        match self {
            Event::RunTasks(e) => e.check(),
            Event::Plan(e) => e.check(),
            Event::Finish(e) => run(&e.plan, &e.hash),
            Event::Status(e) | Event::Cancel(e) | Event::Clean(e) => run(&e.plan, &e.hash),
        }
    }
}

/// The beginning of a text, for messages.
fn shown(text: &str) -> String {
    text.chars().take(60).collect()
}

fn text(field: &str, value: &str) -> Result<(), EventError> {
    if value.is_empty() || value.len() > MAX_TEXT || value.chars().any(char::is_control) {
        return refuse(format!("'{field}' is empty, longer than {MAX_TEXT} bytes, or holds control characters: '{}'", shown(value)));
    }
    Ok(())
}

fn run(plan: &str, hash: &str) -> Result<(), EventError> {
    text("plan", plan)?;
    if hash.is_empty() || hash.len() > 64 || !hash.bytes().all(|b| b.is_ascii_hexdigit()) {
        return refuse(format!("'hash' is no id of a plan: '{}'", shown(hash)));
    }
    Ok(())
}

impl RunTasksEvent {
    /// The number of tasks.
    pub fn task_count(&self) -> u64 {
        self.tasks.iter().map(|r| r[1].saturating_sub(r[0])).fold(0, u64::saturating_add)
    }

    fn check(&self) -> Result<(), EventError> {
        run(&self.plan, &self.hash)?;
        if self.tasks.is_empty() || self.tasks.len() > MAX_RANGES {
            return refuse(format!("it has {} ranges of tasks; 1 to {MAX_RANGES} are allowed", self.tasks.len()));
        }
        let mut end = 0;
        for [a, b] in &self.tasks {
            if a >= b || *a < end {
                return refuse(format!("the ranges of tasks must ascend and not be empty, and [{a}, {b}] does not"));
            }
            end = *b;
        }
        if self.task_count() > MAX_TASKS {
            return refuse(format!("it has {} tasks, and {MAX_TASKS} are allowed", self.task_count()));
        }
        if let Some(name) = &self.name
            && (name.is_empty() || name.len() > 100 || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.'))
        {
            return refuse(format!("'name' must be letters, digits, '_' and '.', at most 100, and not '{}'", shown(name)));
        }
        if self.threads.is_some_and(|n| n == 0 || n > 64) {
            return refuse("'threads' must be from 1 to 64");
        }
        if self.task_timeout.is_some_and(|s| !(0.001..=86_400.0).contains(&s)) {
            return refuse("'task_timeout' must be from 0.001 to 86400 seconds");
        }
        Ok(())
    }
}

impl PlanEvent {
    fn check(&self) -> Result<(), EventError> {
        if self.pipeline.is_some() == self.document.is_some() {
            return refuse("it must have either 'pipeline' (a URL) or 'document' (the pipeline itself)");
        }
        for (field, value) in [("pipeline", &self.pipeline), ("base", &self.base), ("work_dir", &self.work_dir)] {
            if let Some(value) = value {
                text(field, value)?;
            }
        }
        if self.document.as_ref().is_some_and(|d| !d.is_object() && !d.is_string()) {
            return refuse("'document' must be an object or a text");
        }
        if self.base.is_some() && self.document.is_none() {
            return refuse("'base' belongs to 'document'; a pipeline file is its own");
        }
        if self.batch == Some(0) {
            return refuse("'batch' must be at least 1");
        }
        if self.set.len() > 1000 {
            return refuse("it sets more than 1000 parameters");
        }
        for (name, value) in &self.set {
            text("set", name)?;
            if value.len() > MAX_TEXT {
                return refuse(format!("the parameter '{}' is longer than {MAX_TEXT} bytes", shown(name)));
            }
        }
        Ok(())
    }
}
