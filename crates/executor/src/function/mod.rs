//! The protocol of the function on AWS Lambda: the events that a driver, a state machine or a person sends to `chunkwise-lambda`, and its
//! answers.
//!
//! Both are versioned JSON, and the schema is published (`docs/lambda-event.schema.json`). An event is untrusted: [`Event::from_json`]
//! limits its size and depth, refuses unknown fields, and says clearly what it refuses.
//!
//! ```
//! use chunkwise_executor::function::Event;
//! let text = r#"{"format": "chunkwise-event/1", "action": "run_tasks", "plan": "s3://b/work/1f/plan.json", "hash": "1f", "stage": 0,
//!                "tasks": [[0, 10], [12, 13]]}"#;
//! let Event::RunTasks(run) = Event::from_json(text.as_bytes())? else { unreachable!() };
//! assert_eq!(run.task_count(), 11);
//! # Ok::<(), chunkwise_executor::function::EventError>(())
//! ```

mod answer;
mod event;

pub use answer::{
    Answer, CancelAnswer, CleanAnswer, FailedTask, FinishAnswer, PlanAnswer, RunTasksAnswer, StageBatches, StageStatus, StatusAnswer,
};
pub use event::{CancelEvent, CleanEvent, Event, EventError, FinishEvent, Mode, PlanEvent, RunRef, RunTasksEvent, StatusEvent};

use serde_json::{Value, json};

/// The format of the events that this version accepts.
pub const EVENT_FORMAT: &str = "chunkwise-event/1";
/// The format of its answers.
pub const ANSWER_FORMAT: &str = "chunkwise-answer/1";

/// The `errorType` if the event is refused. It would be refused again.
pub const REFUSED: &str = "Refused";
/// The `errorType` of a failure that may pass.
pub const TRANSIENT: &str = "TransientError";
/// The `errorType` if memory is not sufficient.
pub const RESOURCE: &str = "ResourceError";
/// The `errorType` of a failure that would happen again.
pub const PERMANENT: &str = "PermanentError";

/// The name of the object in a run's folder that tells functions to hand back their unfinished tasks.
pub const CANCELLED: &str = "cancelled.json";
/// The name of the object in a run's folder that holds the pipeline of its plan.
pub const PIPELINE: &str = "pipeline.json";

/// The JSON Schema of events and answers, as published.
pub fn schema() -> Value {
    let of = |s: schemars::Schema| s.to_value();
    let (mut event, mut answer) = (of(schemars::schema_for!(Event)), of(schemars::schema_for!(Answer)));
    let mut definitions = serde_json::Map::new();
    for part in [&mut event, &mut answer] {
        if let Some(object) = part.as_object_mut() {
            object.remove("$schema");
            if let Some(Value::Object(found)) = object.remove("$defs") {
                definitions.extend(found);
            }
        }
    }
    definitions.insert("Event".into(), event);
    definitions.insert("Answer".into(), answer);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Events and answers of chunkwise-lambda",
        "$ref": "#/$defs/Event",
        "$defs": definitions,
    })
}

/// Turns ascending task numbers into ranges `[from, to)`.
///
/// ```
/// assert_eq!(chunkwise_executor::function::ranges([0, 1, 2, 7]), [[0, 3], [7, 8]]);
/// ```
pub fn ranges(tasks: impl IntoIterator<Item = u64>) -> Vec<[u64; 2]> {
    let mut out: Vec<[u64; 2]> = Vec::new();
    for t in tasks {
        match out.last_mut() {
            Some(r) if r[1] == t => r[1] = t + 1,
            _ => out.push([t, t.saturating_add(1)]),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_schema_is_published() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/lambda-event.schema.json");
        let text = serde_json::to_string_pretty(&super::schema()).unwrap() + "\n";
        if std::env::var_os("CHUNKWISE_WRITE_SCHEMA").is_some() {
            std::fs::write(file, &text).unwrap();
        }
        let published = std::fs::read_to_string(file).unwrap_or_default();
        assert!(published == text, "the format has changed: CHUNKWISE_WRITE_SCHEMA=1 cargo test -p chunkwise-executor the_schema");
    }
}
