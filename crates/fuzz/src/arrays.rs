//! The arrays whose chunks are decoded: all kinds of codecs, dtypes and shapes.

use serde_json::{Value, json};

/// The dtypes, as version 3 and version 2 name them.
const DTYPES: [(&str, &str); 8] = [
    ("uint8", "|u1"),
    ("bool", "|b1"),
    ("int16", "<i2"),
    ("float16", "<f2"),
    ("float32", "<f4"),
    ("float64", "<f8"),
    ("complex64", "<c8"),
    ("int64", "<i8"),
];

/// Shapes of arrays and of their chunks. The last chunk lies partly outside, and the chunks of the last one are read block by block.
const SHAPES: [(&[u64], &[u64]); 5] =
    [(&[40], &[16]), (&[7, 9], &[4, 6]), (&[2, 3, 4], &[2, 2, 4]), (&[], &[]), (&[700, 512], &[512, 512])];

/// How chunks are encoded.
enum Form {
    /// The codecs of version 3.
    V3(Vec<Value>),
    /// Compressor, filters, order, and whether the numbers are big-endian, of version 2.
    V2(Value, Value, &'static str, bool),
}

/// A kind of array.
pub struct Kind {
    /// The names of its codecs, dtype and shape.
    pub name: String,
    /// The bytes that an input begins with to be a chunk of it.
    pub prefix: [u8; 3],
    /// The key of its metadata.
    pub key: &'static str,
    /// Its metadata.
    pub document: Value,
    /// True if its elements are texts.
    pub text: bool,
}

fn codec(name: &str, configuration: Value) -> Value {
    json!({"name": name, "configuration": configuration})
}

/// An inner chunk: half of a chunk on each axis where that is possible.
fn half(chunk: &[u64]) -> Vec<u64> {
    chunk.iter().map(|n| if n % 2 == 0 { n / 2 } else { *n }).collect()
}

fn forms(item: u64, chunk: &[u64]) -> Vec<(&'static str, Form)> {
    let end = |e: &str| codec("bytes", json!({"endian": e}));
    let (little, big, crc) = (end("little"), end("big"), json!({"name": "crc32c"}));
    let (gzip, zlib, bz2) =
        (codec("gzip", json!({"level": 5})), codec("numcodecs.zlib", json!({"level": 5})), codec("numcodecs.bz2", json!({"level": 5})));
    let zstd = |level: i64, checksum: bool| codec("zstd", json!({"level": level, "checksum": checksum}));
    let blosc = |cname: &str, shuffle: &str, blocksize: u64| {
        codec("blosc", json!({"cname": cname, "clevel": 5, "shuffle": shuffle, "typesize": item, "blocksize": blocksize}))
    };
    let shard = |inner: &[u64], codecs: Vec<Value>, index: Vec<Value>, at: &str| {
        codec("sharding_indexed", json!({"chunk_shape": inner, "codecs": codecs, "index_codecs": index, "index_location": at}))
    };
    let usual = || vec![little.clone(), crc.clone()];
    let inner = half(chunk);
    let reversed: Vec<usize> = (0..chunk.len()).rev().collect();
    let transpose = codec("transpose", json!({"order": reversed}));
    let turned: Vec<u64> = inner.iter().rev().copied().collect();
    let v3 = |name, codecs: &[&Value]| (name, Form::V3(codecs.iter().map(|c| (*c).clone()).collect()));
    let v2 = |name, compressor: Value| (name, Form::V2(compressor, Value::Null, "C", false));
    let inside = shard(&half(&inner), vec![little.clone()], vec![little.clone()], "end");
    vec![
        v3("raw", &[&little]),
        v3("raw, big-endian", &[&big]),
        v3("gzip", &[&little, &gzip]),
        v3("zlib", &[&little, &zlib]),
        v3("bz2", &[&little, &bz2]),
        v3("zstd", &[&little, &zstd(0, false)]),
        v3("zstd with a checksum", &[&little, &zstd(3, true)]),
        v3("zstd, big-endian", &[&big, &zstd(1, false)]),
        v3("blosc of lz4", &[&little, &blosc("lz4", "shuffle", 0)]),
        v3("blosc of zstd", &[&little, &blosc("zstd", "bitshuffle", 0)]),
        v3("blosc of blosclz", &[&little, &blosc("blosclz", "noshuffle", 256)]),
        v3("blosc of zlib, big-endian", &[&big, &blosc("zlib", "shuffle", 0)]),
        v3("crc32c", &[&little, &crc]),
        v3("crc32c outside", &[&little, &gzip, &crc]),
        v3("gzip in gzip", &[&little, &gzip, &gzip]),
        v3("transpose", &[&transpose, &little, &zstd(0, false)]),
        v3("shuffle", &[&little, &codec("numcodecs.shuffle", json!({"elementsize": item})), &zlib]),
        v3("packbits", &[&codec("packbits", json!({}))]),
        v3("bitround", &[&codec("bitround", json!({"keepbits": 5})), &little, &gzip]),
        v3("shard", &[&shard(&inner, vec![little.clone()], usual(), "end")]),
        v3("shard without a checksum", &[&shard(&inner, vec![little.clone()], vec![little.clone()], "end")]),
        v3(
            "shard of gzip, big-endian index at the start",
            &[&shard(&inner, vec![little.clone(), gzip.clone()], vec![big.clone()], "start")],
        ),
        v3("shard of zstd", &[&shard(&inner, vec![little.clone(), zstd(0, false)], vec![little.clone()], "end")]),
        v3("shard of blosc", &[&shard(&inner, vec![little.clone(), blosc("lz4", "shuffle", 0)], vec![little.clone()], "end")]),
        v3("shard in a shard", &[&shard(&inner, vec![inside.clone()], vec![little.clone()], "start")]),
        v3("shard with a checksum", &[&shard(&inner, vec![little.clone()], vec![little.clone()], "end"), &crc]),
        v3("shard behind a transpose", &[&transpose, &shard(&turned, vec![little.clone(), gzip.clone()], vec![little.clone()], "end")]),
        v3("shard with a packed index", &[&shard(&inner, vec![little.clone()], vec![little.clone(), gzip.clone()], "end")]),
        v2("v2 raw", Value::Null),
        v2("v2 gzip", json!({"id": "gzip", "level": 5})),
        v2("v2 zlib", json!({"id": "zlib", "level": 5})),
        v2("v2 bz2", json!({"id": "bz2", "level": 5})),
        v2("v2 zstd", json!({"id": "zstd", "level": 3})),
        v2("v2 blosc", json!({"id": "blosc", "cname": "zstd", "clevel": 5, "shuffle": 2, "blocksize": 0})),
        v2("v2 lz4", json!({"id": "lz4", "acceleration": 1})),
        ("v2 in the order of Fortran, big-endian", Form::V2(json!({"id": "zlib", "level": 1}), Value::Null, "F", true)),
        ("v2 shuffle", Form::V2(json!({"id": "zlib", "level": 1}), json!([{"id": "shuffle", "elementsize": item}]), "C", false)),
    ]
}

fn numbers(form: Form, (v3, v2): (&str, &str), shape: &[u64], chunk: &[u64]) -> (&'static str, Value) {
    let fill = match v3 {
        "bool" => json!(false),
        "complex64" => json!([0.0, 1.0]),
        _ => json!(1),
    };
    match form {
        Form::V3(codecs) => ("zarr.json", version_3(json!(v3), fill, shape, chunk, codecs)),
        Form::V2(compressor, filters, order, big) => {
            let dtype = if big { v2.replace('<', ">") } else { v2.into() };
            let doc = json!({
                "zarr_format": 2, "shape": shape, "chunks": chunk, "dtype": dtype, "compressor": compressor, "filters": filters,
                "fill_value": if v3 == "complex64" { Value::Null } else { fill }, "order": order,
            });
            (".zarray", doc)
        }
    }
}

fn version_3(dtype: Value, fill: Value, shape: &[u64], chunk: &[u64], codecs: Vec<Value>) -> Value {
    json!({
        "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": dtype, "fill_value": fill, "codecs": codecs, "attributes": {},
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    })
}

/// Arrays of texts: of any length, and of four characters.
fn texts(shape: &[u64], chunk: &[u64]) -> Vec<(&'static str, &'static str, Value)> {
    let gzip = codec("gzip", json!({"level": 5}));
    let codes = json!({"name": "fixed_length_utf32", "configuration": {"length_bytes": 16}});
    let v2 = |dtype: &str, filters: Value, compressor: Value| {
        json!({
            "zarr_format": 2, "shape": shape, "chunks": chunk, "dtype": dtype, "compressor": compressor, "filters": filters,
            "fill_value": Value::Null, "order": "C",
        })
    };
    let any = codec("vlen-utf8", json!({}));
    vec![
        ("texts", "zarr.json", version_3(json!("string"), json!(""), shape, chunk, vec![any.clone()])),
        ("texts of gzip", "zarr.json", version_3(json!("string"), json!(""), shape, chunk, vec![any, gzip])),
        ("texts of four", "zarr.json", version_3(codes, json!(""), shape, chunk, vec![codec("bytes", json!({"endian": "little"}))])),
        ("v2 texts", ".zarray", v2("|O", json!([{"id": "vlen-utf8"}]), Value::Null)),
        ("v2 texts of four", ".zarray", v2("<U4", Value::Null, json!({"id": "zlib", "level": 1}))),
    ]
}

impl Kind {
    /// The kind that the first bytes of an input stand for: codecs, dtype, shape.
    pub fn of([form, dtype, shape]: [u8; 3]) -> Kind {
        let s = usize::from(shape) % SHAPES.len();
        let d = usize::from(dtype) % (DTYPES.len() + 1);
        let (shape, chunk) = SHAPES[s];
        let Some(dtype) = DTYPES.get(d) else {
            let mut all = texts(shape, chunk);
            let f = usize::from(form) % all.len();
            let (name, key, doc) = all.swap_remove(f);
            let prefix = [f as u8, d as u8, s as u8];
            return Kind { name: format!("{name}, {}", dims(shape)), prefix, key, document: doc, text: true };
        };
        let mut all = forms(dtype.1[2..].parse().unwrap_or(1), chunk);
        let f = usize::from(form) % all.len();
        let (name, form) = all.swap_remove(f);
        let (key, document) = numbers(form, *dtype, shape, chunk);
        Kind { name: format!("{name}, {}, {}", dtype.0, dims(shape)), prefix: [f as u8, d as u8, s as u8], key, document, text: false }
    }

    /// All kinds. Some of them are not supported.
    pub fn all() -> Vec<Kind> {
        let prefixes = |s: usize, d: usize| {
            let n = if d < DTYPES.len() { forms(1, &[]).len() } else { texts(&[], &[]).len() };
            (0..n).map(move |f| [f as u8, d as u8, s as u8])
        };
        let each = (0..SHAPES.len()).flat_map(|s| (0..=DTYPES.len()).flat_map(move |d| prefixes(s, d)));
        each.map(Kind::of).collect()
    }
}

fn dims(shape: &[u64]) -> String {
    let lengths: Vec<String> = shape.iter().map(u64::to_string).collect();
    if lengths.is_empty() { "one".into() } else { lengths.join("x") }
}
