//! A task that is alone uses the idle cores of its process: as many as there are and its memory allows, for as long as no other task
//! wants them, and its results stay the same.

#![allow(clippy::unwrap_used, clippy::panic)]

use chunkwise_kernels::{Busy, Cores};
use chunkwise_plan::Plan;
use chunkwise_storage::MemoryTier;
use chunkwise_task::{TaskContext, Watch, run_task};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

const LENGTH: u64 = 6_000_000;

/// One task writes an array as one chunk, one applies a function to it, and one sums that function.
fn plan(name: &str) -> Plan {
    let grid = |shape: &[u64]| -> Value { shape.iter().map(|n| json!({"regular": {"len": n, "size": n}})).collect() };
    let array = |array: &str, shape: &[u64]| {
        json!({"role": "output", "url": format!("memory:helpers/{name}/{array}"), "dtype": "float64", "shape": shape,
               "grid": grid(shape), "raw": true, "encoding": {"chunks": shape, "codec": "none", "fill_value": {"float": 0.0}}})
    };
    let (int, float) = (json!({"dtype": "int64", "shape": [LENGTH]}), json!({"dtype": "float64", "shape": [LENGTH]}));
    let stage = |steps: Value, step: usize, array: &str, shape: &[u64]| {
        json!({"name": array, "kind": "blockwise", "program": {"steps": steps}, "projected_mem": 0,
               "outputs": [{"step": step, "array": array, "tasks": grid(shape)}],
               "cost": {"bytes_read": 0, "bytes_written": 0, "gets": 0, "puts": 0}})
    };
    let read = || json!({"read": "x", "type": float});
    let sqrt = || json!({"kernel": {"element": {"function": "sqrt"}}, "inputs": [0], "type": float});
    let create = json!([
        {"kernel": {"create": {"what": {"arange": {"start": {"int": 3}, "step": {"int": 1}}}}}, "type": int},
        {"kernel": "cast", "inputs": [0], "type": float},
    ]);
    let sum = json!({"kernel": {"reduce": {"function": "sum", "axes": [0]}}, "inputs": [1], "type": {"dtype": "float64", "shape": []},
                     "stream": [{"regular": {"len": LENGTH, "size": LENGTH}}]});
    serde_json::from_value(json!({
        "format": "chunkwise-plan/1",
        "spec": {"allowed_mem": 400_000_000, "reserved_mem": 1_000_000, "workers": 1, "work_dir": format!("memory:helpers/{name}/work")},
        "arrays": {"x": array("x", &[LENGTH]), "y": array("y", &[LENGTH]), "z": array("z", &[])},
        "stages": [
            stage(create, 1, "x", &[LENGTH]),
            stage(json!([read(), sqrt()]), 1, "y", &[LENGTH]),
            stage(json!([read(), sqrt(), sum]), 2, "z", &[]),
        ],
    }))
    .unwrap()
}

/// What another task does meanwhile.
#[derive(Clone, Copy, PartialEq)]
enum Other {
    Nothing,
    /// Starts as soon as somebody helps, and stays to the end.
    Starts,
    /// Is there at first, and ends soon.
    Ends,
}

/// Keeps in mind which threads ask whether to go on; slow enough for others to come.
struct Observer {
    asked: Mutex<Vec<ThreadId>>,
    cores: Arc<Cores>,
    starts: bool,
    ends: Mutex<Option<Busy>>,
}

impl Observer {
    fn threads(&self) -> usize {
        self.asked.lock().unwrap().iter().collect::<HashSet<_>>().len()
    }
}

impl Watch for Observer {
    fn cancelled(&self) -> bool {
        thread::sleep(Duration::from_micros(500));
        let before = self.threads();
        self.asked.lock().unwrap().push(thread::current().id());
        if self.starts && before < 2 && self.threads() == 2 {
            std::mem::forget(self.cores.enter());
        }
        if self.asked.lock().unwrap().len() == 8 {
            drop(self.ends.lock().unwrap().take());
        }
        false
    }
}

/// Runs both tasks that read, on so many cores and with so much memory in the process: the checksums of what they wrote, and who asked.
fn run(name: &str, cores: usize, memory: u64, other: Other) -> [(String, Observer); 2] {
    let ctx = TaskContext::open(plan(name)).unwrap().with_memory(&MemoryTier::new(memory)).unwrap();
    run_task(&ctx, 0, 0, &AtomicBool::new(false)).unwrap();
    [1, 2].map(|stage| {
        let cores = Cores::new(cores);
        let _busy = cores.enter();
        let ends = Mutex::new((other == Other::Ends).then(|| cores.enter()));
        let observer = Observer { asked: Mutex::default(), cores, starts: other == Other::Starts, ends };
        let report = run_task(&ctx, stage, 0, &observer).unwrap();
        (report.written[0].xxh3.clone(), observer)
    })
}

const PLENTY: u64 = 1_000_000_000;

#[test]
fn idle_cores_help() {
    let alone = run("alone", 1, PLENTY, Other::Nothing);
    for (cores, helped) in [(2, run("two", 2, PLENTY, Other::Nothing)), (3, run("three", 3, PLENTY, Other::Nothing))] {
        for ((bytes, one), (same, all)) in alone.iter().zip(&helped) {
            assert_eq!((one.threads(), all.threads()), (1, cores));
            assert_eq!(bytes, same);
        }
    }
}

#[test]
fn nobody_helps_without_memory() {
    for (_, observer) in run("full", 3, 1000, Other::Nothing) {
        assert_eq!(observer.threads(), 1);
    }
}

#[test]
fn a_core_is_given_back_when_a_task_wants_it() {
    for (_, observer) in run("wanted", 2, PLENTY, Other::Starts) {
        let asked = observer.asked.into_inner().unwrap();
        let last = asked.iter().rposition(|&t| t != thread::current().id()).unwrap();
        assert!(last < asked.len() / 2, "helped until {last} of {}", asked.len());
    }
}

#[test]
fn a_core_that_becomes_idle_helps() {
    for (_, observer) in run("later", 2, PLENTY, Other::Ends) {
        let asked = observer.asked.into_inner().unwrap();
        let first = asked.iter().position(|&t| t != thread::current().id()).unwrap();
        assert!((8..asked.len() / 2).contains(&first), "helped from {first} of {}", asked.len());
    }
}
