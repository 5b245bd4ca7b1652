//! Events, pipelines and plans are untrusted. Whatever they say is refused, or done inside the allowed prefixes, and nothing panics.
//! Proptest changes good documents byte by byte and value by value, always in the same way. `PROPTEST_CASES` makes it search longer.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::config::Config;
use crate::serve::{Invocation, act};
use crate::tasks::Kept;
use chunkwise::Runtime;
use chunkwise::executor::function::{Answer, Event};
use chunkwise::plan::Plan;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

const PLAN: &str = include_str!("../../../examples/plan.json");
const FORMAT: &str = "chunkwise-event/1";

fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(if std::env::var_os("PROPTEST_CASES").is_some() { 1_000_000 } else { 10_000 })
    }
}

fn runner() -> proptest::test_runner::TestRunner {
    proptest::test_runner::TestRunner::new_with_rng(config(), TestRng::deterministic_rng(RngAlgorithm::ChaCha))
}

/// A change of a text.
#[derive(Debug, Clone)]
enum Edit {
    Set(usize, u8),
    Remove(usize, usize),
    Insert(usize, String),
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let words = prop::sample::select(vec![
        "[",
        "{",
        "\"",
        "null",
        "-1",
        "18446744073709551615",
        "1e999",
        "..",
        "../..",
        "%2e%2e",
        "s3://other/x",
        "file:///etc/passwd",
        "\\u0000",
        "memory:x",
        "9223372036854775807",
        "[[[[[[[[",
        "\"url\":",
        "true",
        "0",
        "{\"a\":",
        "http://169.254.169.254/",
        "//",
        ".",
        "chunkwise-plan/2",
    ]);
    let edit = prop_oneof![
        (any::<usize>(), any::<u8>()).prop_map(|(at, b)| Edit::Set(at, b)),
        (any::<usize>(), 1..40usize).prop_map(|(at, n)| Edit::Remove(at, n)),
        (any::<usize>(), words).prop_map(|(at, w)| Edit::Insert(at, w.to_string())),
    ];
    prop::collection::vec(edit, 1..6)
}

fn changed(text: &str, edits: &[Edit]) -> Vec<u8> {
    let mut out = text.as_bytes().to_vec();
    for edit in edits {
        let n = out.len().max(1);
        match edit {
            Edit::Set(at, b) if !out.is_empty() => out[at % n] = *b,
            Edit::Remove(at, k) if !out.is_empty() => drop(out.drain(at % n..(at % n + k).min(out.len()))),
            Edit::Insert(at, w) => drop(out.splice(at % n..at % n, w.bytes())),
            _ => {}
        }
    }
    out
}

/// The place of every value of a document.
fn places(value: &Value, at: String, out: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(k, v)| places(v, format!("{at}/{}", k.replace('~', "~0").replace('/', "~1")), out)),
        Value::Array(list) => list.iter().enumerate().for_each(|(i, v)| places(v, format!("{at}/{i}"), out)),
        _ => {}
    }
    out.push(at);
}

/// Replacements for values. None of them names an existing place by accident.
fn values() -> impl Strategy<Value = (usize, Value)> {
    let inside = ROOT.join("allowed").display().to_string();
    let outside = ROOT.join("other").display().to_string();
    let texts = ["", "x", "y", "x + 1", "overwrite", "resume", "s3://other/x", "memory:x", "..", "%2e", "100MB", "s3://", "file:", "1e9"];
    let mut all: Vec<Value> = texts.iter().map(|t| json!(t)).collect();
    all.extend([
        json!(null),
        json!(true),
        json!(-1),
        json!(0),
        json!(1),
        json!(24),
        json!(u64::MAX),
        json!(1e300),
        json!([]),
        json!({}),
        json!([[0, 1]]),
    ]);
    all.extend([json!(format!("{inside}/a")), json!(format!("{inside}/../other/secret")), json!(outside), json!(format!("{outside}/w"))]);
    (any::<usize>(), prop::sample::select(all))
}

/// A runtime that may use the folder.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let runtime = Runtime::new();
    runtime.stores().restrict(&[ROOT.join("allowed").display().to_string()]).unwrap();
    runtime
});

/// A folder that the function may use, and one beside it that it may not.
static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
    let root = std::env::temp_dir().join(format!("chunkwise-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(root.join("allowed")).unwrap();
    std::fs::create_dir_all(root.join("other")).unwrap();
    std::fs::write(root.join("other/secret"), "kept").unwrap();
    root
});

/// An event of every action, the plan that they refer to, and the place of the plan.
fn events() -> (Vec<Value>, PathBuf, Vec<u8>) {
    let allowed = ROOT.join("allowed").display().to_string();
    let document = json!({
        "arrays": {"x": "arange(0, 24)", "y": "x + 1"},
        "outputs": {format!("{allowed}/out.zarr/y"): "y"},
        "spec": {"work_dir": format!("{allowed}/work")},
    });
    let plan = json!({"format": FORMAT, "action": "plan", "document": document, "mode": "overwrite"});
    let Answer::Plan(planned) = serve(&Mutex::default(), plan.to_string().as_bytes()).unwrap() else { panic!("no plan") };
    let run = |action: &str| json!({"format": FORMAT, "action": action, "plan": planned.plan, "hash": planned.hash});
    let mut tasks = run("run_tasks");
    tasks["stage"] = json!(0);
    tasks["tasks"] = json!([[0, 1]]);
    let at = PathBuf::from(planned.plan.strip_prefix("file://").unwrap());
    let text = std::fs::read(&at).unwrap();
    (vec![plan, tasks, run("status"), run("finish"), run("cancel"), run("clean")], at, text)
}

fn serve(kept: &Mutex<Kept>, text: &[u8]) -> Result<Answer, String> {
    let event = Event::from_json(text).map_err(|e| e.to_string())?;
    let config = Config { memory: 512 << 20, processors: 1, work_dir: None, runtime: RUNTIME.clone() };
    let invocation = Invocation { request_id: "r".into(), deadline: Instant::now() + Duration::from_secs(20), init_seconds: None };
    act(&config, kept, event, &invocation).map_err(|f| f.message)
}

#[test]
fn any_bytes_are_no_event() {
    runner()
        .run(&prop::collection::vec(any::<u8>(), 0..200), |bytes| {
            prop_assert!(Event::from_json(&bytes).is_err());
            Ok(())
        })
        .unwrap();
}

#[test]
fn nested_documents_are_refused() {
    for open in ["[", "{\"a\":", "[{\"a\":["] {
        let deep = format!("{{\"format\": \"chunkwise-event/1\", \"action\": \"plan\", \"document\": {}", open.repeat(100_000));
        assert!(Event::from_json(deep.as_bytes()).is_err());
        assert!(Plan::from_json(&deep.replace("chunkwise-event/1", "chunkwise-plan/1")).is_err());
    }
}

#[test]
fn changed_plans_are_refused_or_valid() {
    assert!(Plan::from_json(PLAN).is_ok());
    runner()
        .run(&edits(), |edits| {
            let text = String::from_utf8_lossy(&changed(PLAN, &edits)).into_owned();
            let began = Instant::now();
            let _ = Plan::from_json(&text);
            prop_assert!(began.elapsed() < Duration::from_secs(2), "{text}");
            Ok(())
        })
        .unwrap();
}

#[test]
fn changed_events_touch_nothing_else() {
    let (events, at, plan) = events();
    let kept = Mutex::default();
    // Unchanged, all of them succeed. So the changed ones below are close to valid ones.
    for event in events.iter().filter(|e| e["action"] != "clean") {
        serve(&kept, event.to_string().as_bytes()).unwrap();
    }
    let (refused, done) = (std::cell::Cell::new(0u32), std::cell::Cell::new(0u32));
    // Usually values are changed, because few documents survive a change of their bytes.
    let edits = prop_oneof![4 => Just(Vec::new()), 1 => edits()];
    runner()
        .run(&(0..events.len(), prop::option::of(values()), edits), |(k, value, edits)| {
            if !at.exists() {
                std::fs::create_dir_all(at.parent().unwrap()).unwrap();
                std::fs::write(&at, &plan).unwrap();
            }
            let mut event = events[k].clone();
            if let Some((at, value)) = value {
                let mut all = Vec::new();
                places(&event, String::new(), &mut all);
                if let Some(place) = event.pointer_mut(&all[at % all.len()]) {
                    *place = value;
                }
            }
            let which = if serve(&kept, &changed(&event.to_string(), &edits)).is_err() { &refused } else { &done };
            which.set(which.get() + 1);
            Ok(())
        })
        .unwrap();
    assert!(refused.get() > 1000 && done.get() > 10, "{} were refused, {} done", refused.get(), done.get());
    assert_eq!(std::fs::read_to_string(ROOT.join("other/secret")).unwrap(), "kept");
    let mut found: Vec<_> = std::fs::read_dir(&*ROOT).unwrap().flatten().map(|e| e.file_name()).collect();
    found.sort();
    assert_eq!(found, ["allowed", "other"]);
    let beside: Vec<_> = std::fs::read_dir(ROOT.join("other")).unwrap().flatten().map(|e| e.file_name()).collect();
    assert_eq!(beside, ["secret"], "something was written outside of the prefixes");
    let _ = std::fs::remove_dir_all(&*ROOT);
}
