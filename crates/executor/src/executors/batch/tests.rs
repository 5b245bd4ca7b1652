use super::*;
use crate::worker::part_of;
use chunkwise_plan::Plan;
use chunkwise_storage::Stores;
use serde_json::json;
use std::path::{Path, PathBuf};

#[test]
fn driver_and_worker_cut_alike() {
    for (total, each) in [(9, 4), (1, 4), (100, 7), (8, 8), (5, 1)] {
        let parts = cut((0..total).map(|t| attempt(0, t)).collect(), each);
        assert!(parts.iter().all(|p| !p.is_empty() && p.len() <= each));
        for (i, part) in parts.iter().enumerate() {
            let tasks: Vec<u64> = part.iter().map(|a| a.task).collect();
            let own: Vec<u64> = part_of(std::iter::once(0..total).collect(), i as u64, parts.len() as u64).collect();
            assert_eq!(tasks, own);
        }
    }
}

#[test]
fn words() {
    assert_eq!(quoted("s3://b/plan.json"), "s3://b/plan.json");
    assert_eq!(quoted("a b"), "'a b'");
    assert_eq!(quoted("it's $(x)"), r"'it'\''s $(x)'");
    assert_eq!(quoted(""), "''");
}

fn attempt(attempt: u64, task: u64) -> Assignment {
    Assignment { attempt, stage: 0, task, need: 0, alone: false, have: Vec::new() }
}

/// An engine that only records calls.
#[derive(Default)]
struct Notes {
    every: Duration,
    /// The tasks of each job.
    submitted: Vec<Vec<u64>>,
    cancelled: Vec<String>,
}

impl Engine for Notes {
    fn name(&self) -> &str {
        "notes"
    }
    fn capacity(&self) -> usize {
        10
    }
    /// The product of both numbers would overflow.
    fn widest(&self) -> usize {
        usize::MAX
    }
    fn tasks_per_part(&self) -> usize {
        2
    }
    fn every(&self) -> Duration {
        self.every
    }
    fn submit(&mut self, job: &Job<'_>) -> Result<String, RunError> {
        self.submitted.push(job.parts.concat());
        Ok(format!("j{}", self.submitted.len()))
    }
    fn states(&mut self, _jobs: &Open) -> Result<Vec<(String, State)>, RunError> {
        Ok(Vec::new())
    }
    fn cancel(&mut self, part: &str) {
        self.cancelled.push(part.into());
    }
}

/// A folder that is deleted when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("chunkwise-batch-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Ten tasks that write a chunk of one number each.
fn context(folder: &Path) -> Arc<TaskContext> {
    let grid = json!([{"regular": {"len": 10, "size": 1}}]);
    let typ = json!({"dtype": "float64", "shape": [10]});
    let create = json!({"create": {"what": {"full": {"value": {"float": 1.0}}}}});
    let plan = json!({
        "format": "chunkwise-plan/1",
        "spec": {"allowed_mem": 200_000_000u64, "reserved_mem": 67_108_864, "workers": 1, "work_dir": folder.join("work")},
        "arrays": {"x": {
            "role": "output", "url": folder.join("out.zarr/x"), "dtype": "float64", "shape": [10], "grid": grid,
            "encoding": {"chunks": [1], "fill_value": {"float": 0.0}},
        }},
        "stages": [{
            "name": "ones", "kind": "blockwise", "program": {"steps": [{"kernel": create, "type": typ}]},
            "outputs": [{"step": 0, "array": "x", "tasks": grid}], "projected_mem": 1_000_000,
            "cost": {"bytes_read": 0, "bytes_written": 80, "gets": 0, "puts": 10},
        }],
    });
    Arc::new(TaskContext::open(&Stores::new(), Plan::from_json(&plan.to_string()).unwrap()).unwrap())
}

/// The attempts that have ended, and whether they were cancelled.
fn ended(updates: Vec<Update>) -> Vec<(u64, bool)> {
    let end =
        |u| if let Update::Ended { attempt, result } = u { Some((attempt, matches!(result, Err(TaskError::Cancelled)))) } else { None };
    updates.into_iter().filter_map(end).collect()
}

#[test]
fn what_waits_to_be_submitted_can_be_stopped() {
    let folder = Folder::new("stop");
    let engine = Notes { every: Duration::from_secs(3600), ..Notes::default() };
    let mut executor = BatchExecutor::new(context(&folder.0), engine).unwrap();
    executor.submit(vec![attempt(1, 0)]).unwrap();
    assert_eq!(ended(executor.wait(Duration::ZERO).unwrap()), []);
    assert_eq!(executor.engine.submitted, [[0]]);
    // The next job waits for more tasks. One of these is cancelled meanwhile.
    executor.submit(vec![attempt(2, 1), attempt(3, 2), attempt(4, 3)]).unwrap();
    executor.stop(3, false);
    assert_eq!(ended(executor.wait(Duration::ZERO).unwrap()), [(3, true)]);
    assert_eq!(executor.room(), 7);
    executor.engine.every = Duration::ZERO;
    assert_eq!(ended(executor.wait(Duration::ZERO).unwrap()), []);
    assert_eq!((executor.engine.submitted.len(), &executor.engine.submitted[1]), (2, &vec![1, 3]));
    // The engine stops a running task if no other task is in its part, or if it hangs.
    executor.stop(4, false);
    assert!(executor.engine.cancelled.is_empty());
    executor.stop(1, false);
    executor.stop(4, true);
    assert_eq!(executor.engine.cancelled, ["j1_0", "j2_0"]);
    // When a run is cancelled, nothing more is submitted.
    executor.engine.every = Duration::from_secs(3600);
    executor.submit(vec![attempt(5, 4)]).unwrap();
    executor.cancel();
    assert_eq!(ended(executor.wait(Duration::ZERO).unwrap()), [(5, true)]);
}

#[test]
fn every_chunk_of_a_report_must_be_there() {
    let folder = Folder::new("stored");
    let ctx = context(&folder.0);
    for (k, text) in ["12", "123", "1234"].into_iter().enumerate() {
        ctx.array("x").store().put(&format!("c/{k}"), text.as_bytes()).unwrap();
    }
    let report = |written: &[(&str, &[u64], u64)]| -> TaskReport {
        let written: Vec<_> =
            written.iter().map(|(array, chunk, bytes)| json!({"array": array, "chunk": chunk, "bytes": bytes, "xxh3": "0"})).collect();
        serde_json::from_value(json!({"stage": 0, "task": 0, "written": written, "bytes_read": 0, "seconds": 0, "projected_mem": 0}))
            .unwrap()
    };
    let reports = [
        report(&[]),
        report(&[("x", &[0], 2), ("x", &[1], 3)]),
        report(&[("x", &[0], 2), ("x", &[2], 5), ("x", &[3], 1)]),
        report(&[("x", &[3], 1), ("x", &[2], 5)]),
        report(&[("y", &[0], 2)]),
        report(&[("x", &[2], 4)]),
    ];
    let found = stored(&ctx, &reports.iter().collect::<Vec<_>>());
    let said: Vec<String> = found.iter().map(|r| r.as_ref().err().map_or("".into(), ToString::to_string)).collect();
    assert!([0, 1, 5].iter().all(|k| said[*k].is_empty()), "{said:?}");
    assert!(
        said[2].contains("4 bytes instead of 5") && said[3].contains("which is not there") && said[4].contains("plan does not have"),
        "{said:?}"
    );
}
