//! Plans are untrusted input: small plans of every kernel are changed at random, always in the same way. Each of them is either
//! refused, or its tasks run to an end that is no panic.

#![allow(clippy::unwrap_used, clippy::panic)]

use chunkwise_plan::Plan;
use chunkwise_storage::Stores;
use chunkwise_task::{TaskContext, TaskError, run_task, task_need};
use fastrand::Rng;
use serde_json::{Value, json};
use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;

fn grid(shape: &[u64], chunk: &[u64]) -> Value {
    shape.iter().zip(chunk).map(|(n, c)| json!({"regular": {"len": n, "size": c}})).collect()
}

/// A plan that makes a 4 x 6 array, stores it in chunks, and applies a kernel to what it reads of it.
fn plan(kernel: Value, inputs: usize, dtype: &str, shape: &[u64], stream: Option<Value>) -> Value {
    let whole = json!({"dtype": "float64", "shape": [4, 6]});
    let mut steps: Vec<Value> = (0..inputs).map(|_| json!({"read": "x", "type": whole})).collect();
    let inputs: Vec<usize> = (0..inputs).collect();
    let mut step = json!({"kernel": kernel, "inputs": inputs, "type": {"dtype": dtype, "shape": shape}});
    if let Some(stream) = stream {
        step["stream"] = stream;
    }
    steps.push(step);
    let stage = |steps: Value, step: usize, array: &str, tasks: Value| {
        json!({
            "name": array, "kind": "blockwise", "program": {"steps": steps}, "projected_mem": 0,
            "outputs": [{"step": step, "array": array, "tasks": tasks}],
            "cost": {"bytes_read": 0, "bytes_written": 0, "gets": 0, "puts": 0},
        })
    };
    let first = json!([
        {"kernel": {"create": {"what": {"arange": {"start": {"int": -3}, "step": {"int": 1}}}}}, "type": {"dtype": "int64", "shape": [24]}},
        {"kernel": "reshape", "inputs": [0], "type": {"dtype": "int64", "shape": [4, 6]}},
        {"kernel": "cast", "inputs": [1], "type": whole},
    ]);
    let chunks: Vec<u64> = shape.iter().map(|n| (*n).clamp(1, 3)).collect();
    json!({
        "format": "chunkwise-plan/1",
        "spec": {"allowed_mem": 40_000_000, "reserved_mem": 1_000_000, "workers": 1, "work_dir": "memory:work"},
        "arrays": {
            "x": {"role": "intermediate", "url": "x", "dtype": "float64", "shape": [4, 6], "grid": grid(&[4, 6], &[2, 3]),
                  "encoding": {"chunks": [2, 3], "codec": "none", "fill_value": {"float": 0.0}}},
            "out": {"role": "output", "url": "memory:out", "dtype": dtype, "shape": shape, "grid": grid(shape, &chunks),
                    "encoding": {"chunks": chunks, "fill_value": {"int": 0}}},
        },
        "stages": [
            stage(first, 2, "x", grid(&[4, 6], &[2, 6])),
            stage(Value::Array(steps), inputs.len(), "out", grid(shape, &chunks)),
        ],
    })
}

fn plans() -> Vec<Value> {
    let moments = json!({"moments": {"skip_nan": false}});
    let gather = |first: Value, second: Value| json!({"gather": {"axes": [first, second], "fill": {"int": 0}}});
    let slice = || json!({"slice": {"start": 0, "step": 1}});
    let rows = || Some(json!([{"regular": {"len": 4, "size": 2}}]));
    vec![
        plan(json!({"element": {"function": "add"}}), 2, "float64", &[4, 6], None),
        plan(json!({"qr": {"factor": "r", "rows": {"regular": {"len": 4, "size": 3}}}}), 1, "float64", &[2, 6, 6], None),
        plan(json!({"qr": {"factor": "q", "rows": {"irregular": [1, 3]}}}), 1, "float64", &[4, 6], None),
        plan(json!({"element": {"function": "sqrt"}}), 1, "float64", &[4, 6], None),
        plan(json!("cast"), 1, "int8", &[4, 6], None),
        plan(json!("reshape"), 1, "float64", &[3, 8], None),
        plan(json!({"view": {"axes": [{"in": 1}, "new", {"in": 0}]}}), 1, "float64", &[6, 2, 4], None),
        plan(gather(json!({"slice": {"start": 3, "step": -1}}), json!({"take": [4, 0, 0]})), 1, "float64", &[4, 3], None),
        plan(gather(json!({"pad": {"before": 2, "mode": "reflect"}}), json!({"roll": {"shift": 2}})), 1, "float64", &[9, 6], None),
        plan(gather(json!({"pad": {"before": 2, "mode": "constant"}}), slice()), 1, "float64", &[9, 6], None),
        plan(gather(json!({"repeat": {"times": 3}}), slice()), 1, "float64", &[12, 6], None),
        plan(json!({"concat": {"axis": 0}}), 2, "float64", &[8, 6], None),
        plan(json!({"reduce": {"function": "sum", "axes": [0]}}), 1, "float64", &[6], rows()),
        plan(json!({"reduce": {"function": "arg_max", "axes": [0, 1]}}), 1, "int64", &[], None),
        plan(json!({"reduce": {"function": moments, "axes": [0]}}), 1, "float64", &[6, 3], rows()),
        plan(json!({"reduce": {"function": "max", "axes": [1], "segments": [{"irregular": [4, 2]}]}}), 1, "float64", &[4, 2], None),
        plan(json!({"group": {"function": "sum", "axis": 0, "labels": [0, 1, 0, -1], "groups": 2}}), 1, "float64", &[2, 6], rows()),
        plan(json!({"group": {"function": moments, "axis": 0, "labels": [0, 1, 0, -1], "groups": 2}}), 1, "float64", &[2, 6, 3], None),
        plan(json!({"contract": {"a": [0, 1], "b": [2, 1], "out": [0, 2]}}), 2, "float64", &[4, 4], None),
        plan(
            json!({"contract": {"a": [0, 1], "b": [2, 1], "out": [0, 2], "segments": [1, {"irregular": [4, 2]}]}}),
            2,
            "float64",
            &[2, 4, 4],
            Some(json!([{"regular": {"len": 6, "size": 3}}])),
        ),
        plan(json!({"stencil": {"window": [1, 3], "function": {"weights": [0.25, 0.5, 0.25]}}}), 1, "float64", &[4, 4], None),
        plan(json!({"stencil": {"window": [2, 2], "function": "max"}}), 1, "float64", &[3, 5], None),
        plan(json!({"create": {"what": {"eye": {"k": 1}}}}), 0, "bool", &[3, 4], None),
        plan(json!({"create": {"what": {"constant": {"values": [{"int": 1}, {"float": "NaN"}]}}}}), 0, "float32", &[2], None),
        plan(json!({"create": {"what": {"random": {"seed": 1, "stream": 0, "distribution": "normal"}}}}), 0, "float64", &[5], None),
    ]
}

/// The place of every value inside a document.
fn places(value: &Value, at: String, out: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(k, v)| places(v, format!("{at}/{k}"), out)),
        Value::Array(list) => list.iter().enumerate().for_each(|(i, v)| places(v, format!("{at}/{i}"), out)),
        _ => {}
    }
    out.push(at);
}

const NUMBERS: &[u64] = &[0, 1, 2, 3, 4, 5, 6, 7, 12, 24, 1 << 16, 1 << 40, 1 << 61, 1 << 62, 1 << 63, u64::MAX];
const WORDS: &[&str] = &[
    "bool",
    "int8",
    "int64",
    "uint64",
    "float32",
    "float64",
    "complex64",
    "x",
    "out",
    "sum",
    "prod",
    "max",
    "any",
    "arg_min",
    "merge_moments",
    "count_nonzero",
    "edge",
    "wrap",
    "symmetric",
    "constant",
    "new",
    "cast",
    "reshape",
    "add",
    "where",
    "equal",
    "abs",
    "input",
    "output",
    "intermediate",
    "none",
];

fn mutate(document: &mut Value, rng: &mut Rng) {
    let mut all = Vec::new();
    places(document, String::new(), &mut all);
    let other = document.pointer(rng.choice(&all).unwrap()).cloned().unwrap();
    let Some(value) = document.pointer_mut(rng.choice(&all).unwrap()) else { return };
    match value {
        Value::Number(n) if rng.usize(..3) == 0 => {
            let n = n.as_i64().unwrap_or(1);
            *value = json!(n.wrapping_add(rng.choice(&[-1, 1]).unwrap().to_owned()));
        }
        Value::Number(_) if rng.usize(..8) == 0 => *value = json!(rng.choice(&[-1, -2, i64::MIN, i64::MAX]).unwrap()),
        Value::Number(_) => *value = json!(rng.choice(NUMBERS).unwrap()),
        Value::String(_) => *value = json!(rng.choice(WORDS).unwrap()),
        Value::Array(list) => {
            let i = rng.usize(..list.len().max(1));
            match rng.usize(..4) {
                0 if !list.is_empty() => drop(list.remove(i)),
                1 if !list.is_empty() => list.push(list[i].clone()),
                2 if !list.is_empty() => list.swap(0, i),
                _ => list.push(json!(rng.choice(NUMBERS).unwrap())),
            }
        }
        _ => *value = other,
    }
}

/// Attempts find what earlier ones have written.
static STORES: LazyLock<Stores> = LazyLock::new(Stores::new);

/// Runs what can be run of a plan; says if it was refused.
fn attempt(text: &str) -> Result<(), String> {
    let plan = Plan::from_json(text).map_err(|e| e.to_string())?;
    let ctx = TaskContext::open(&STORES, plan).map_err(|e| e.to_string())?;
    for stage in 0..ctx.plan.stages.len() {
        // A few tasks of many; the last is at an edge.
        let n = ctx.plan.stages[stage].tasks();
        for task in (0..n.min(8)).chain(n.checked_sub(1)) {
            task_need(&ctx, stage, task);
            if let Err(e @ TaskError::Bug { .. }) = run_task(&ctx, stage, task, &AtomicBool::new(false)) {
                panic!("{e}");
            }
        }
    }
    Ok(())
}

#[test]
fn mutants_are_refused_or_run() {
    let bases = plans();
    for base in &bases {
        assert_eq!(attempt(&base.to_string()), Ok(()), "{base}");
    }
    let mut rng = Rng::with_seed(0x9E37_79B9_7F4A_7C15);
    let (mut ran, mut refused) = (0, 0);
    for k in 0..6000 {
        let mut document = bases[k % bases.len()].clone();
        for _ in 0..1 + rng.usize(..3) {
            mutate(&mut document, &mut rng);
        }
        // Nothing is written to files.
        if let Some(work) = document.pointer_mut("/spec/work_dir") {
            *work = json!("memory:work");
        }
        if let Some(arrays) = document.pointer_mut("/arrays").and_then(Value::as_object_mut) {
            arrays.values_mut().filter(|a| a.is_object()).for_each(|a| {
                if a["role"] != "intermediate" {
                    a["url"] = json!("memory:out");
                }
            });
        }
        let text = document.to_string();
        match std::panic::catch_unwind(|| attempt(&text)) {
            Ok(Ok(())) => ran += 1,
            Ok(Err(_)) => refused += 1,
            Err(_) => panic!("mutant {k} panicked: {text}"),
        }
    }
    assert!(ran > 100 && refused > 1000, "{ran} ran, {refused} were refused");
}
