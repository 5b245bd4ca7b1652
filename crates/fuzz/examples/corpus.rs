//! Writes the corpora of `tests/fuzz`: chunks of every kind of array, metadata, groups, pipelines of the documentation and their plans, events, URLs.
//!
//! `cargo run -p chunkwise-fuzz --example corpus`. Files that are there under other names, as what once failed, stay.

#![allow(clippy::unwrap_used)]

use chunkwise::pipeline::{Overrides, load_text};
use chunkwise::storage::{ArrayIo, ArrayMeta, Elements, Location, open_array};
use chunkwise::types::volume;
use chunkwise_fuzz::{Kind, pipeline, runtime};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Bytes of a file, at most.
const MAX_FILE_BYTES: usize = 6 << 10;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn write(target: &str, name: &str, data: impl AsRef<[u8]>) {
    let folder: PathBuf = [ROOT, "tests/fuzz/corpus", target].iter().collect();
    std::fs::create_dir_all(&folder).unwrap();
    let plain: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if data.as_ref().len() <= MAX_FILE_BYTES {
        std::fs::write(folder.join(plain.trim_matches('_')), data).unwrap();
    }
}

fn meta_of(kind: &Kind) -> Option<(Location, ArrayMeta)> {
    let at = Location::parse("memory:fuzz/corpus", None).unwrap().join(&kind.prefix.map(|b| b.to_string()).join("-"));
    runtime().stores().open(&at).unwrap().put(kind.key, serde_json::to_vec(&kind.document).unwrap()).unwrap();
    Some((at.clone(), open_array(runtime().stores(), &at).ok()?))
}

/// The first chunk of an array, encoded.
fn encoded(at: &Location, meta: &ArrayMeta, zeros: bool) -> Option<Vec<u8>> {
    let io = ArrayIo::new(runtime().stores(), at, meta).ok()?;
    let index = vec![0; meta.shape.len()];
    let shape = meta.grid.region(&index).shape;
    let mut rng = fastrand::Rng::with_seed(1);
    let mut values = vec![0; (volume(&shape) * meta.dtype.size()) as usize];
    if !zeros {
        values.iter_mut().enumerate().for_each(|(i, v)| *v = if i % 3 == 0 { rng.u8(..2) } else { (i / 40) as u8 % 2 });
    }
    let written = io.write_chunk(&index, Elements::whole(&values, &shape)).ok()?;
    io.store().get(&written.key).ok()?.map(|data| data.to_vec())
}

fn texts(kind: &Kind) -> Vec<u8> {
    let words = ["a", "", "größer", "DJF"];
    if kind.name.contains("four") {
        let letters = words.iter().cycle().take(16).flat_map(|w| w.chars().chain("\0\0\0\0".chars()).take(4).collect::<Vec<_>>());
        return letters.flat_map(|c| u32::from(c).to_le_bytes()).collect();
    }
    let n: u32 = 16;
    let mut out = n.to_le_bytes().to_vec();
    for word in words.iter().cycle().take(n as usize) {
        out.extend((word.len() as u32).to_le_bytes());
        out.extend(word.as_bytes());
    }
    out
}

fn chunks() {
    let all = Kind::all();
    for kind in &all {
        let [form, dtype, shape] = kind.prefix;
        if kind.text {
            write("chunk", &kind.name, [&kind.prefix[..], &texts(kind)].concat());
            continue;
        }
        let Some((at, meta)) = meta_of(kind) else {
            println!("not supported: {}", kind.name);
            continue;
        };
        // Each codec with each shape, and with some dtypes.
        let large = shape == 4;
        if (form + shape) % 8 != dtype && !large {
            continue;
        }
        let Some(data) = encoded(&at, &meta, large) else {
            println!("not encoded: {}", kind.name);
            continue;
        };
        if large && dtype == 4 {
            // A chunk of the same codec that claims, or takes, much more than it may.
            write("chunk", &format!("bomb of {}", kind.name), [&[form, dtype, 0][..], &data].concat());
        }
        if !large || dtype == 5 {
            write("chunk", &kind.name, [&kind.prefix[..], &data].concat());
        }
    }
    for kind in all.iter().filter(|k| k.prefix[2] == 1 && (k.text || (k.prefix[0] + 1) % 8 == k.prefix[1])) {
        let mut document = kind.document.clone();
        let attributes = json!({
            "units": "days since 2000-01-01", "calendar": "noleap", "scale_factor": 0.5, "add_offset": 1.5, "_FillValue": 3, "missing_value": [7],
            "valid_range": [0, 9], "_ARRAY_DIMENSIONS": ["y", "x"], "coordinates": "a b",
        });
        if kind.key == "zarr.json" {
            document["attributes"] = attributes;
            document["dimension_names"] = json!(["y", null]);
            write("metadata", &kind.name, document.to_string());
        } else {
            write("metadata_v2", &kind.name, format!("{document}\0{attributes}"));
        }
    }
}

fn group(name: &str, objects: &[(&str, Value)]) {
    write("group", name, objects.iter().map(|(key, doc)| format!("{key}\n{doc}")).collect::<Vec<_>>().join("\0"));
}

fn groups() {
    let array = |shape: &[u64], dims: &[&str], dtype: &str, attributes: Value| {
        json!({
            "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": dtype, "fill_value": 0, "attributes": attributes,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shape}}, "dimension_names": dims,
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        })
    };
    let t = array(&[6, 2], &["time", "lat"], "float32", json!({"coordinates": "height", "grid_mapping": "crs"}));
    let time = array(&[6], &["time"], "int32", json!({"units": "days since 2020-01-01", "bounds": "time_bounds"}));
    let bounds = array(&[6, 2], &["time", "n"], "int32", json!({}));
    let lat = array(&[2], &["lat"], "float64", json!({}));
    let height = array(&[], &[], "float64", json!({}));
    let root = |nodes: Value| {
        let consolidated = json!({"kind": "inline", "must_understand": false, "metadata": nodes});
        json!({"zarr_format": 3, "node_type": "group", "attributes": {"title": "x"}, "consolidated_metadata": consolidated})
    };
    let plain = json!({"zarr_format": 3, "node_type": "group", "attributes": {"title": "x"}});
    let nodes = [("t", &t), ("time", &time), ("time_bounds", &bounds), ("lat", &lat), ("height", &height)];
    let mut objects = vec![("zarr.json", plain.clone())];
    let keys: Vec<String> = nodes.iter().map(|(n, _)| format!("{n}/zarr.json")).collect();
    objects.extend(keys.iter().map(String::as_str).zip(nodes.iter().map(|(_, doc)| (*doc).clone())));
    group("group", &objects);
    objects[0].1 = root(nodes.iter().map(|(n, doc)| (n.to_string(), (*doc).clone())).collect::<serde_json::Map<_, _>>().into());
    group("consolidated", &objects);
    group(
        "nested",
        &[("zarr.json", plain.clone()), ("a/zarr.json", plain.clone()), ("a/b/zarr.json", t.clone()), ("a/c/zarr.json", json!({}))],
    );
    let v2 = json!({"zarr_format": 2, "shape": [6], "chunks": [3], "dtype": "<f4", "compressor": null, "filters": null, "fill_value": "NaN", "order": "C"});
    let dims = json!({"_ARRAY_DIMENSIONS": ["time"], "coordinates": "time"});
    let group2 = json!({"zarr_format": 2});
    group(
        "v2",
        &[
            (".zgroup", group2.clone()),
            (".zattrs", json!({"title": "x"})),
            ("t/.zarray", v2.clone()),
            ("t/.zattrs", dims.clone()),
            ("time/.zarray", v2),
            ("time/.zattrs", dims),
            ("g/.zgroup", group2),
        ],
    );
}

/// A pipeline with the inputs of the documentation, as far as an expression names them.
fn of_expression(expression: &str) -> String {
    let words: Vec<&str> = expression.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let arrays = ["a", "b", "v", "p", "w", "i", "j", "yes", "no", "z", "packed"].map(|n| (n, format!("memory:fuzz/in/{n}.zarr")));
    let variables = ["t", "m", "wet"].map(|n| (n, format!("memory:fuzz/in/ds.zarr/{n}")));
    let group = [("ds", "memory:fuzz/in/ds.zarr".to_string())];
    let inputs = arrays.into_iter().chain(variables).chain(group).filter(|(n, _)| words.contains(n));
    let inputs: String = inputs.map(|(n, url)| format!("  {n}: {url}\n")).collect();
    let inputs = if inputs.is_empty() { inputs } else { format!("inputs:\n{inputs}") };
    format!("{inputs}arrays:\n  x: {}\noutputs:\n  memory:fuzz/out: x\nspec: {{work_dir: memory:fuzz/work}}\n", json!(expression))
}

const PIPELINES: [(&str, &str); 6] = [
    (
        "all of a file",
        "# All sections.\ninputs:\n  t: {url: memory:fuzz/in/ds.zarr/t, decode_cf: false}\n  ds: memory:fuzz/in/ds.zarr\nparameters: {scale: 2.5, name: \"time.month\", n: 3, on: true}\narrays:\n  climatology: groupby_mean(t, name)\n  anomaly: t - lookup(climatology, name)\n  half: anomaly / scale ** n\noutputs:\n  memory:fuzz/out.zarr/half:\n    array: half\n    chunks: {t: -1, y: 1}\n    shards: {t: -1, y: 2}\n    attributes: {units: K, long_name: half of it}\n    dims: [t, y]\n  memory:fuzz/all.zarr: ds\nspec:\n  allowed_mem: 500MB\n  work_dir: memory:fuzz/work\n  workers: 2\n  fuse: false\n  join: outer\n  join_chunks: false\n  executor: processes\n  executor_options: {memory_limit: watch}\n  storage: {\"s3://\": {region: eu-west-1, path_style: true, timeout: 5, retries: 2, connections: 8}}\n",
    ),
    (
        "encodings",
        "inputs: {t: memory:fuzz/in/ds.zarr/t}\noutputs:\n  memory:fuzz/a.zarr/t: {array: t, codec: zstd, fill_value: NaN}\n  memory:fuzz/b.zarr/t: {array: t, zarr_format: 2, compressor: {id: zlib, level: 3}, filters: [{id: shuffle}], order: F, dtype: \">f8\", dimension_separator: /}\n  memory:fuzz/c.zarr/t: {array: t, codecs: [{name: transpose, configuration: {order: [1, 0]}}, {name: bytes, configuration: {endian: big}}, {name: blosc, configuration: {cname: zstd, clevel: 9, shuffle: bitshuffle}}]}\n  memory:fuzz/d.zarr/t: {array: t, dtype: int16, scale_factor: 0.01, add_offset: 20, _FillValue: -999, chunk_key_encoding: {name: v2, separator: .}}\n  memory:fuzz/e.zarr/t: {array: \"astype(t, 'float32')\", dtype: float16, shards: {time: 2, lat: 2}, codecs: [{name: sharding_indexed, configuration: {chunk_shape: [1, 1], codecs: [{name: bytes, configuration: {endian: little}}, {name: gzip, configuration: {level: 5}}], index_location: start}}]}\nspec: {work_dir: memory:fuzz/work}\n",
    ),
    (
        "json",
        "{\"inputs\": {\"p\": \"memory:fuzz/in/packed.zarr\"}, \"arrays\": {\"x\": \"p * 2 + arange(0, 6)\"}, \"outputs\": {\"memory:fuzz/out\": {\"array\": \"x[::2]\", \"chunks\": [2]}}, \"spec\": {\"work_dir\": \"memory:fuzz/work\"}}",
    ),
    (
        "quotes and blocks",
        "arrays:\n  x: \"arange(0, 24)\"\n  y: 'x + 1'\n  z: |\n    reshape(x,\n      [4, 6])\noutputs: {memory:fuzz/out: \"z @ permute_dims(z, [1, 0])\"}\n",
    ),
    (
        "large",
        "arrays:\n  x: random([200000, 100000], seed=1, chunks=[1000, 1000])\n  y: mean(x, axis=0)\noutputs: {memory:fuzz/out: y, memory:fuzz/rows: \"x[5:7, ::-1]\"}\nspec: {allowed_mem: 200MB, work_dir: memory:fuzz/work}\n",
    ),
    (
        "places",
        "inputs: {a: s3://bucket/a.zarr, b: ../b.zarr, c: /etc/c.zarr, d: http://localhost/d.zarr, e: \"file:///x y/e.zarr\"}\noutputs: {gs://bucket/out.zarr: a + b + c + d + e}\n",
    ),
];

fn pipelines() {
    let docs = std::fs::read_to_string(Path::new(ROOT).join("docs/functions.md")).unwrap();
    let expressions: Vec<&str> = docs.lines().filter_map(|l| l.strip_prefix(">>> ")).collect();
    let named =
        expressions.iter().enumerate().map(|(i, e)| (format!("{i:03} {}", e.chars().take(24).collect::<String>()), of_expression(e)));
    let all = named.chain(PIPELINES.iter().map(|(name, text)| (name.to_string(), text.to_string())));
    for (k, (name, text)) in all.enumerate() {
        write("pipeline", &name, &text);
        // It makes the inputs, too.
        pipeline(text.as_bytes());
        let loaded = load_text(runtime(), &text, Path::new("x.yaml"), &Overrides::default()).map_err(|e| format!("{e:?}"));
        match loaded.and_then(|p| p.plan().map_err(|e| e.to_string())) {
            Ok(plan) if k % 6 == 0 || k >= expressions.len() => write("plan", &name, serde_json::to_string(&plan).unwrap()),
            Err(why) if name != "places" => println!("no plan: {name}: {why}"),
            _ => {}
        }
    }
    let plan = std::fs::read_to_string(Path::new(ROOT).join("examples/plan.json")).unwrap();
    let places = [("\"data/", "\"memory:fuzz/in/"), ("\"out/", "\"memory:fuzz/out/")];
    write("plan", "example", places.iter().fold(plan, |text, (a, b)| text.replace(a, b)));
}

fn events() {
    let of = |action: &str, more: Value| {
        let mut event =
            json!({"format": "chunkwise-event/1", "action": action, "trace": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"});
        event.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        event.to_string()
    };
    let run = |more: Value| {
        let mut run = json!({"plan": "s3://bucket/work/1f/plan.json", "hash": "1f00aa"});
        run.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        run
    };
    let tasks = json!({"stage": 1, "tasks": [[0, 10], [12, 13]], "name": "a.1", "threads": 2, "task_timeout": 1.5, "strict": true, "driver_version": "0.1.0"});
    write("event", "run tasks", of("run_tasks", run(tasks)));
    for action in ["status", "cancel", "clean"] {
        write("event", action, of(action, run(json!({}))));
    }
    write("event", "finish", of("finish", run(json!({"keep": true}))));
    let document = json!({"arrays": {"x": "arange(0, n)"}, "parameters": {"n": 24}, "outputs": {"memory:fuzz/out": "x + 1"}, "spec": {"work_dir": "memory:fuzz/work"}});
    let more =
        json!({"document": document, "set": {"n": "12"}, "mode": "overwrite", "dry_run": true, "batch": 3, "allowed_mem": 500_000_000});
    write("event", "plan", of("plan", more));
    write(
        "event",
        "plan of text",
        of("plan", json!({"document": document.to_string(), "base": "s3://bucket/x", "work_dir": "s3://bucket/work"})),
    );
    write("event", "plan of a file", of("plan", json!({"pipeline": "s3://bucket/p.yaml", "mode": "resume"})));
    write("event", "ranges", "0..10,12,20..30");
    write("event", "large ranges", "0..18446744073709551615,18446744073709551614");
}

fn urls() {
    let all = [
        "/",
        "file://",
        "file:///",
        "file:",
        "x",
        "x y",
        " x /",
        "./x/../y//z/",
        "/x/../..",
        "~/x",
        "file:///a b/c ",
        "file:x",
        "file://host/x",
        "file:///a://b",
        "memory:",
        "memory:x",
        "memory:///x/",
        "memory: x /",
        "memory:a://b",
        "s3://b",
        "s3://b/",
        "s3://my.bucket-1/x/y.zarr",
        "s3://b//x",
        "s3://b/x ",
        "s3://b/../x",
        "s3://x@host/y",
        "s3://a b/x",
        "gs://a_b/x",
        "gcs://b/x",
        "az://$web/x",
        "az://c-1/x",
        "http://host:8000/x",
        "https://[::1]:80/x",
        "https://me:pw@host/x",
        "https://host/x?sig=1#y",
        "https://good\\@evil/x",
        "http://2130706433/",
        "ftp://x/y",
        "S3://b/x",
        "://",
        "a://b/c",
        "in.zarr/u\0s3://b/dir/",
        "x\0memory:y",
        "../x\0relative/base",
        "/x\0http://host/y",
        "eu-west-1",
        "account1",
        "HTTPS://Minio.lab:443/tenant/",
    ];
    for (i, text) in all.iter().enumerate() {
        write("url", &format!("{i:02} {text}"), text);
    }
}

fn main() {
    chunks();
    groups();
    pipelines();
    events();
    urls();
}
