//! Events of the function on AWS Lambda, and the ranges of tasks that engines hand to workers.

use crate::pipeline::load;
use chunkwise::executor::function::Event;
use chunkwise::executor::worker::{parse_ranges, ranges_text};
use serde_json::Value;

/// Tasks that are written as ranges again, at most.
const MAX_TASKS: u64 = 10_000;

/// Reads an event; of one that brings a pipeline, loads and plans that.
///
/// # Panics
/// When a promise is broken.
pub fn event(data: &[u8]) {
    ranges(&String::from_utf8_lossy(data));
    let event = match Event::from_json(data) {
        Ok(event) => event,
        Err(e) => return drop(e.to_string()),
    };
    let again = Event::from_json(&serde_json::to_vec(&event).unwrap()).unwrap_or_else(|e| panic!("refused when read again: {e}"));
    assert_eq!((again.action(), again.trace()), (event.action(), event.trace()));
    match event {
        Event::RunTasks(run) => assert!(run.task_count() > 0 && run.tasks.iter().all(|[a, b]| a < b)),
        Event::Plan(plan) => match &plan.document {
            Some(Value::String(text)) => load(text),
            Some(document) => load(&document.to_string()),
            None => {}
        },
        _ => {}
    }
}

fn ranges(text: &str) {
    let Ok(ranges) = parse_ranges(text) else { return };
    let count = ranges.iter().map(|r| r.end.saturating_sub(r.start)).fold(0, u64::saturating_add);
    if count <= MAX_TASKS {
        let tasks: Vec<u64> = ranges.into_iter().flatten().collect();
        let again: Vec<u64> = parse_ranges(&ranges_text(&tasks)).unwrap_or_default().into_iter().flatten().collect();
        assert!(again == tasks, "other tasks when they are written as ranges again: {text}");
    }
}
