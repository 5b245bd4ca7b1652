//! A task that is alone uses the idle cores of its process: as many as there are and its memory allows, for as long as no other task
//! wants them, and its results stay the same.

#![allow(clippy::unwrap_used, clippy::panic)]

use chunkwise_kernels::{Busy, Cores};
use chunkwise_plan::Plan;
use chunkwise_storage::{MemoryTier, Stores, open_array};
use chunkwise_task::{TaskContext, Watch, run_task};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

const LENGTH: u64 = 6_000_000;

fn url(name: &str, array: &str) -> String {
    format!("memory:helpers/{name}/{array}")
}

/// The first stage of a plan writes `x` as one chunk. A second plan reads that: one task applies a function to it, one sums the function.
fn plan(name: &str, arrays: Value, stages: Value) -> Plan {
    let spec = json!({"allowed_mem": 400_000_000, "reserved_mem": 1_000_000, "workers": 1, "work_dir": url(name, "work")});
    serde_json::from_value(json!({"format": "chunkwise-plan/1", "spec": spec, "arrays": arrays, "stages": stages})).unwrap()
}

fn grid(shape: &[u64]) -> Value {
    shape.iter().map(|n| json!({"regular": {"len": n, "size": n}})).collect()
}

fn array(name: &str, array: &str, shape: &[u64], codec: &Value) -> Value {
    let access = if codec == "none" { json!("raw") } else { json!({"whole": {}}) };
    json!({"role": "output", "url": url(name, array), "dtype": "float64", "shape": shape, "grid": grid(shape), "access": access,
           "encoding": {"chunks": shape, "codec": codec, "fill_value": {"float": 0.0}}})
}

fn stage(steps: Value, array: &str, shape: &[u64]) -> Value {
    let step = steps.as_array().unwrap().len() - 1;
    json!({"name": array, "kind": "blockwise", "program": {"steps": steps}, "projected_mem": 0,
           "outputs": [{"step": step, "array": array, "tasks": grid(shape)}],
           "cost": {"bytes_read": 0, "bytes_written": 0, "gets": 0, "puts": 0}})
}

/// Writes `x`, and plans what reads it.
fn reading(stores: &Stores, name: &str, codec: &Value) -> Plan {
    let float = json!({"dtype": "float64", "shape": [LENGTH]});
    let create = json!([
        {"kernel": {"create": {"what": {"arange": {"start": {"int": 3}, "step": {"int": 1}}}}}, "type": {"dtype": "int64", "shape": [LENGTH]}},
        {"kernel": "cast", "inputs": [0], "type": float},
    ]);
    let x = array(name, "x", &[LENGTH], codec);
    let source = TaskContext::open(stores, plan(name, json!({"x": x}), json!([stage(create, "x", &[LENGTH])]))).unwrap();
    run_task(&source, 0, 0, &AtomicBool::new(false)).unwrap();
    source.publish("x").unwrap();
    let meta = open_array(stores, source.array_location("x")).unwrap();
    let input = json!({"role": "input", "url": url(name, "x"), "dtype": "float64", "shape": [LENGTH], "grid": grid(&[LENGTH]),
                       "access": meta.access(), "metadata": meta});
    let read = || json!({"read": "x", "type": float});
    let sqrt = || json!({"kernel": {"element": {"function": "sqrt"}}, "inputs": [0], "type": float});
    let sum = json!({"kernel": {"reduce": {"function": "sum", "axes": [0]}}, "inputs": [1], "type": {"dtype": "float64", "shape": []},
                     "stream": [{"regular": {"len": LENGTH, "size": LENGTH}}]});
    let none = json!("none");
    let arrays = json!({"x": input, "y": array(name, "y", &[LENGTH], &none), "z": array(name, "z", &[], &none)});
    plan(name, arrays, json!([stage(json!([read(), sqrt()]), "y", &[LENGTH]), stage(json!([read(), sqrt(), sum]), "z", &[])]))
}

/// What another task does meanwhile.
#[derive(Clone, Copy, PartialEq)]
enum Other {
    Nothing,
    /// Starts as soon as a thread helps, and stays to the end.
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
        thread::sleep(Duration::from_millis(1));
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

/// Runs both tasks that read, on so many cores and with so much memory in the process: the checksums of what they wrote, and which threads asked.
fn run(stores: &Stores, plan: &Plan, cores: usize, memory: u64, other: Other) -> [(String, Observer); 2] {
    let ctx = TaskContext::open(stores, plan.clone()).unwrap().with_memory(&MemoryTier::new(memory)).unwrap();
    [0, 1].map(|stage| {
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
    let stores = Stores::new();
    // Byte ranges, blocks, and what is decoded as a whole.
    for (k, codec) in [json!("none"), json!("default"), json!({"zstd": 1})].iter().enumerate() {
        let plan = reading(&stores, &format!("idle{k}"), codec);
        let alone = run(&stores, &plan, 1, PLENTY, Other::Nothing);
        for cores in [2, 3] {
            for ((bytes, one), (same, all)) in alone.iter().zip(&run(&stores, &plan, cores, PLENTY, Other::Nothing)) {
                assert_eq!((one.threads(), all.threads()), (1, cores), "{codec}");
                assert_eq!(bytes, same, "{codec}");
            }
        }
    }
}

#[test]
fn nobody_helps_without_memory() {
    let stores = Stores::new();
    for (_, observer) in run(&stores, &reading(&stores, "full", &json!("none")), 3, 1000, Other::Nothing) {
        assert_eq!(observer.threads(), 1);
    }
}

#[test]
fn a_core_is_given_back_when_a_task_wants_it() {
    let stores = Stores::new();
    for (_, observer) in run(&stores, &reading(&stores, "wanted", &json!("none")), 2, PLENTY, Other::Starts) {
        let asked = observer.asked.into_inner().unwrap();
        let last = asked.iter().rposition(|&t| t != thread::current().id()).unwrap();
        assert!(last < asked.len() / 2, "helped until {last} of {}", asked.len());
    }
}

#[test]
fn a_core_that_becomes_idle_helps() {
    let stores = Stores::new();
    for (_, observer) in run(&stores, &reading(&stores, "later", &json!("none")), 2, PLENTY, Other::Ends) {
        let asked = observer.asked.into_inner().unwrap();
        let first = asked.iter().position(|&t| t != thread::current().id()).unwrap();
        assert!((8..asked.len() / 2).contains(&first), "helped from {first} of {}", asked.len());
    }
}

#[test]
fn memory_is_given_back_when_a_task_waits_for_it_and_asked_for_again_later() {
    let stores = Stores::new();
    let plan = reading(&stores, "memory", &json!("none"));
    let tier = MemoryTier::new(PLENTY);
    let ctx = TaskContext::open(&stores, plan).unwrap().with_memory(&tier).unwrap();
    let cores = Cores::new(2);
    let _busy = cores.enter();
    // All of it at first, then less, so that a thread helps. Then another task wants what is left and what the helper has.
    assert!(tier.reserve(PLENTY).unwrap());
    let asked: Mutex<Vec<ThreadId>> = Mutex::default();
    let watch = Asking(|| {
        thread::sleep(Duration::from_millis(1));
        let mut asked = asked.lock().unwrap();
        asked.push(thread::current().id());
        match asked.len() {
            8 => tier.release(PLENTY / 2),
            40 => assert!(!tier.reserve(PLENTY / 2).unwrap()),
            _ => {}
        }
    });
    run_task(&ctx, 1, 0, &watch).unwrap();
    let asked = asked.into_inner().unwrap();
    let helper = |t: &&ThreadId| **t != thread::current().id();
    let helped: Vec<bool> = asked.iter().map(|t| helper(&t)).collect();
    assert!(!helped[..8].contains(&true) && helped[8..40].contains(&true) && !helped[asked.len() / 2..].contains(&true), "{helped:?}");
    assert!(tier.reserve(PLENTY / 2).unwrap());
}

#[test]
fn a_task_of_one_chunk_says_how_far_it_is() {
    let stores = Stores::new();
    for (k, codec) in [json!("none"), json!("default"), json!({"zstd": 1}), json!({"gzip": 1})].iter().enumerate() {
        let ctx = TaskContext::open(&stores, reading(&stores, &format!("shares{k}"), codec)).unwrap();
        for stage in [0, 1] {
            let told = Told(Mutex::default());
            run_task(&ctx, stage, 0, &told).unwrap();
            let shares = told.0.into_inner().unwrap();
            assert!(shares.is_sorted() && shares.iter().all(|share| (0.0..=1.0).contains(share)), "{codec}, stage {stage}: {shares:?}");
            let inside = shares.iter().filter(|share| (0.05..0.95).contains(*share)).count();
            assert!(inside > 10, "{codec}, stage {stage}: {shares:?}");
        }
    }
}

/// Keeps the shares that a task says are done.
struct Told(Mutex<Vec<f64>>);

impl Watch for Told {
    fn cancelled(&self) -> bool {
        false
    }

    fn did(&self, share: f64) {
        self.0.lock().unwrap().push(share);
    }
}

/// Calls a function whenever a task asks whether to go on.
struct Asking<F>(F);

impl<F: Fn() + Sync> Watch for Asking<F> {
    fn cancelled(&self) -> bool {
        self.0();
        false
    }
}
