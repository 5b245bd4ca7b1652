//! A plan cannot say that an array takes less memory to read than it does.

#![allow(clippy::unwrap_used)]

use chunkwise_plan::Plan;
use chunkwise_storage::{CodecChoice, Location, NewArray, Stores, new_meta, open_array, publish_array};
use chunkwise_task::TaskContext;
use chunkwise_types::{ArrayAccess, DType, STREAM_TABLES, Scalar};
use serde_json::{Value, json};

/// A plan that copies `x`, of which it says how it can be read.
fn plan(x: &str, said: Option<ArrayAccess>) -> Plan {
    let grid = json!([{"regular": {"len": 8, "size": 4}}]);
    let array = |role: &str, url: &str| json!({"role": role, "url": url, "dtype": "float64", "shape": [8], "grid": grid});
    let mut input: Value = array("input", x);
    if let Some(said) = said {
        input["access"] = json!(said);
    }
    let mut output = array("output", "memory:access/out");
    output["encoding"] = json!({"chunks": [4]});
    let stage = json!({
        "name": "copy", "kind": "rechunk", "program": {"steps": [{"read": "x", "type": {"dtype": "float64", "shape": [8]}}]}, "projected_mem": 0,
        "outputs": [{"step": 0, "array": "out", "tasks": grid}], "cost": {"bytes_read": 0, "bytes_written": 0, "gets": 0, "puts": 0},
    });
    let spec = json!({"allowed_mem": 100_000_000, "reserved_mem": 1_000_000, "workers": 1, "work_dir": "memory:access/work"});
    let text = json!({"format": "chunkwise-plan/1", "spec": spec, "arrays": {"x": input, "out": output}, "stages": [stage]}).to_string();
    Plan::from_json(&text).unwrap()
}

#[test]
fn a_task_refuses_a_plan_that_counts_on_less_memory_than_an_array_takes() {
    let whole = |in_place, scratch| ArrayAccess::Whole { in_place, scratch };
    let stream = |kept| ArrayAccess::Stream { kept };
    let all = [
        ArrayAccess::Raw,
        ArrayAccess::Blocks { block: 8 },
        stream(STREAM_TABLES - 1),
        stream(STREAM_TABLES),
        stream(1 << 30),
        whole(true, 0),
        whole(false, 0),
    ];
    let fitting: [(&str, CodecChoice, &[ArrayAccess]); 4] = [
        ("none", CodecChoice::None, &[ArrayAccess::Raw, whole(false, 0)]),
        ("gzip", CodecChoice::Gzip { level: 1 }, &[stream(STREAM_TABLES), stream(1 << 30), whole(false, 0)]),
        ("zstd", CodecChoice::Zstd { level: 1 }, &[stream(1 << 30), whole(false, 0)]),
        ("blosc", CodecChoice::Default, &[whole(true, 0), whole(false, 0)]),
    ];
    let stores = Stores::new();
    for (name, codec, fitting) in fitting {
        let url = format!("memory:access/{name}");
        let at = Location::parse(&url, None).unwrap();
        let new = NewArray {
            dtype: DType::Float64,
            shape: vec![8],
            chunks: vec![4],
            shards: None,
            codec,
            fill_value: Scalar::Float(0.0),
            dimension_names: None,
            attributes: serde_json::Map::new(),
        };
        publish_array(&stores, &at, &new_meta(&new).unwrap()).unwrap();
        let found = open_array(&stores, &at).unwrap().access();
        for said in all.into_iter().map(Some).chain([None, Some(found)]) {
            let opened = TaskContext::open(&stores, plan(&url, said)).map(drop).map_err(|e| e.to_string());
            let fits = said.is_none_or(|said| said == found || fitting.contains(&said));
            assert_eq!(opened.is_ok(), fits, "{name}, said to be read {said:?}: {opened:?}");
            assert!(opened.is_ok() || opened.is_err_and(|e| e.contains("array 'x'") && e.contains("plan again")));
        }
    }
}
