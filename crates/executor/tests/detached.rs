//! Runs without a driver.

#![allow(clippy::unwrap_used)]

use chunkwise_executor::{RunError, detached};
use chunkwise_plan::Plan;
use chunkwise_storage::Stores;
use chunkwise_task::{TaskContext, run_task};
use serde_json::json;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Two chunks of an array of ten numbers, a task for each.
fn plan(folder: &Path) -> Plan {
    let at = |name: &str| folder.join(name).display().to_string();
    let grid = json!([{"regular": {"len": 10, "size": 5}}]);
    serde_json::from_value(json!({
        "format": "chunkwise-plan/1",
        "spec": {"allowed_mem": 100_000_000, "reserved_mem": 1_000_000, "workers": 1, "work_dir": at("work")},
        "arrays": {"x": {"role": "output", "url": at("x.zarr"), "dtype": "int64", "shape": [10], "grid": grid,
                         "encoding": {"chunks": [5], "fill_value": {"int": 0}}}},
        "stages": [{
            "name": "x", "kind": "blockwise", "projected_mem": 0, "outputs": [{"step": 0, "array": "x", "tasks": grid}],
            "program": {"steps": [{"kernel": {"create": {"what": {"arange": {"start": {"int": 0}, "step": {"int": 1}}}}},
                                   "type": {"dtype": "int64", "shape": [10]}}]},
            "cost": {"bytes_read": 0, "bytes_written": 0, "gets": 0, "puts": 0},
        }],
    }))
    .unwrap()
}

#[test]
fn unfinished_reports_are_swept_when_everything_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let ctx = TaskContext::open(&Stores::new(), plan(folder.path())).unwrap();
    detached::start(&ctx, false, false, None).unwrap();
    let reports = folder.path().join("work").join(ctx.plan.id()).join("reports");
    std::fs::create_dir_all(&reports).unwrap();
    // A worker on another machine uses such names for unfinished files.
    let staged = reports.join(format!("1.jsonl#{:020}{:010}000001", 1, 1));
    std::fs::write(&staged, b"").unwrap();
    run_task(&ctx, 0, 0, &AtomicBool::new(false)).unwrap();
    assert!(matches!(detached::finish(&ctx), Err(RunError::Incomplete { missing: 1, .. })));
    assert!(staged.exists(), "whoever writes it may be at work");
    run_task(&ctx, 0, 1, &AtomicBool::new(false)).unwrap();
    assert_eq!(detached::finish(&ctx).unwrap().len(), 1);
    assert!(!staged.exists());
}
