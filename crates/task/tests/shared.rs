//! Chunks in memory are read where their owners have them, and handed over without a copy.

#![allow(clippy::unwrap_used)]

use chunkwise_kernels::Block;
use chunkwise_plan::Plan;
use chunkwise_storage::{ArrayIo, CodecChoice, Location, NewArray, Owner, Stores, new_meta, open_array, publish_array};
use chunkwise_task::{TaskContext, run_task};
use chunkwise_types::{DType, Region};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const SHAPE: [u64; 2] = [2, 3];

fn block(values: [f64; 6]) -> Block {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
    Block::from_bytes_with(DType::Float64, &SHAPE, |out| {
        out.copy_from_slice(&bytes);
        Ok::<(), ()>(())
    })
    .unwrap()
}

fn numbers(stores: &Stores, at: &Location) -> Vec<f64> {
    let meta = open_array(stores, at).unwrap();
    let mut out = [0; 48];
    ArrayIo::new(stores, at, &meta).unwrap().read_region(&Region::full(&meta.shape), &mut out).unwrap();
    out.chunks_exact(8).map(|b| f64::from_ne_bytes(b.try_into().unwrap())).collect()
}

/// A copy, and the square roots.
fn plan(input: &Value) -> Plan {
    let grid = |shape: &[u64]| -> Value { shape.iter().map(|n| json!({"regular": {"len": n, "size": n}})).collect() };
    let output = |name: &str| {
        json!({"role": "output", "url": format!("memory:shared/{name}"), "dtype": "float64", "shape": SHAPE, "grid": grid(&SHAPE), "access": "raw",
               "encoding": {"chunks": SHAPE, "codec": "none", "fill_value": {"float": 0.0}}})
    };
    let float = json!({"dtype": "float64", "shape": SHAPE});
    let steps = json!([{"read": "x", "type": float}, {"kernel": {"element": {"function": "sqrt"}}, "inputs": [0], "type": float}]);
    let stage = |name: &str, step: usize| {
        json!({"name": name, "kind": "blockwise", "program": {"steps": steps.as_array().unwrap()[..=step]}, "projected_mem": 0,
               "outputs": [{"step": step, "array": name, "tasks": grid(&SHAPE)}],
               "cost": {"bytes_read": 0, "bytes_written": 0, "gets": 0, "puts": 0}})
    };
    let spec = json!({"allowed_mem": 400_000_000, "reserved_mem": 1_000_000, "workers": 1, "work_dir": "memory:shared/work"});
    let arrays = json!({"x": input, "same": output("same"), "roots": output("roots")});
    let document = json!({"format": "chunkwise-plan/1", "spec": spec, "arrays": arrays, "stages": [stage("same", 0), stage("roots", 1)]});
    serde_json::from_value(document).unwrap()
}

#[test]
fn a_task_takes_the_block_of_a_chunk_and_gives_its_own() {
    let (stores, at) = (Stores::new(), Location::parse("memory:shared/x", None).unwrap());
    let meta = new_meta(&NewArray::plain(DType::Float64, &SHAPE, &SHAPE, CodecChoice::None)).unwrap();
    let io = ArrayIo::new(&stores, &at, &meta).unwrap();
    // The owner has other numbers than the bytes, so that results say which of them was read.
    let bytes = block([0.0; 6]).shared_bytes().unwrap();
    let owner: Owner = Arc::new(block([1.0, 4.0, 9.0, 16.0, 25.0, 36.0]));
    io.put_shared(&[0, 0], &bytes, &owner).unwrap().unwrap();
    publish_array(&stores, &at, &meta).unwrap();
    let meta = open_array(&stores, &at).unwrap();
    let input = json!({"role": "input", "url": at.as_str(), "dtype": "float64", "shape": SHAPE, "grid": meta.grid, "access": meta.access(), "metadata": meta});
    let ctx = TaskContext::open(&stores, plan(&input)).unwrap();
    for (stage, name) in ["same", "roots"].into_iter().enumerate() {
        run_task(&ctx, stage, 0, &AtomicBool::new(false)).unwrap();
        ctx.publish(name).unwrap();
    }
    assert_eq!(numbers(&stores, ctx.array_location("same")), [1.0, 4.0, 9.0, 16.0, 25.0, 36.0]);
    assert_eq!(numbers(&stores, ctx.array_location("roots")), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let whole = Region::full(&SHAPE);
    let (_, roots) = ctx.array("roots").shared(&whole).unwrap().expect("the block of the task");
    assert_eq!(roots.downcast_ref::<Block>().unwrap().as_bytes(), block([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).as_bytes());
    // What others have, too, is copied.
    assert!(ctx.array("same").shared(&whole).unwrap().is_none());
}
