//! Decoding Blosc chunks in memory, beside C-Blosc: `cargo bench -p chunkwise-storage`.
//!
//! The chunks are float32 and float64, a sine with and without noise. Both decode the same chunk in turns, and the table has the best of
//! many.

#![allow(clippy::unwrap_used)]

use chunkwise_storage::{ArrayIo, CodecChoice, Location, NewArray, Stores, new_meta};
use chunkwise_types::{DType, Region};
use serde_json::json;
use std::ffi::CString;
use std::time::{Duration, Instant};

const SHUFFLES: [&str; 3] = ["noshuffle", "shuffle", "bitshuffle"];

fn elements(dtype: DType, bytes: usize, noise: usize) -> Vec<u8> {
    let value = |i: usize| (i as f64 * 0.001).sin() * 100.0 + (i * 7919 % noise) as f64 * 0.01;
    match dtype {
        DType::Float32 => (0..bytes / 4).flat_map(|i| (value(i) as f32).to_le_bytes()).collect(),
        _ => (0..bytes / 8).flat_map(|i| value(i).to_le_bytes()).collect(),
    }
}

fn encoded(data: &[u8], name: &str, shuffle: usize, item: usize) -> Vec<u8> {
    let name = CString::new(name).unwrap();
    let mut out = vec![0u8; data.len() + 1000];
    // SAFETY: both slices are live and have the lengths that are passed; the name ends with a zero.
    let n = unsafe {
        let (from, to) = (data.as_ptr().cast(), out.as_mut_ptr().cast());
        blosc_src::blosc_compress_ctx(5, shuffle as i32, item, data.len(), from, to, out.len(), name.as_ptr(), 0, 1)
    };
    out.truncate(usize::try_from(n).unwrap());
    out
}

/// The array of one chunk with these bytes.
fn stored(dtype: DType, chunk: &[u8], elements: u64, name: &str, shuffle: &str) -> ArrayIo {
    let mut meta = new_meta(&NewArray::plain(dtype, &[elements], &[elements], CodecChoice::Default)).unwrap();
    let configuration = json!({"cname": name, "clevel": 5, "shuffle": shuffle, "typesize": dtype.size(), "blocksize": 0});
    meta.metadata["codecs"][1] = json!({"name": "blosc", "configuration": configuration});
    let (stores, at) = (Stores::new(), Location::parse("memory:x", None).unwrap());
    stores.open(&at).unwrap().put("c/0", chunk).unwrap();
    ArrayIo::new(&stores, &at, &meta).unwrap()
}

fn best(times: u32, mut run: impl FnMut()) -> Duration {
    (0..times)
        .map(|_| {
            let began = Instant::now();
            run();
            began.elapsed()
        })
        .min()
        .unwrap()
}

fn main() {
    // Cargo asks every benchmark for its tests.
    if std::env::args().any(|a| a == "--list" || a == "--test") {
        return;
    }
    println!("| compressor | shuffle | chunk | ratio | C-Blosc | chunkwise | of its time |\n|---|---|---|---|---|---|---|");
    for name in ["lz4", "zstd", "zlib", "snappy", "blosclz"] {
        for (k, shuffle) in SHUFFLES.iter().enumerate() {
            for (dtype, bytes, noise) in [(DType::Float32, 1 << 20, 1000), (DType::Float64, 1 << 20, 1), (DType::Float32, 120_000, 1000)] {
                let item = dtype.size() as usize;
                let data = elements(dtype, bytes, noise);
                let chunk = encoded(&data, name, k, item);
                // The codec of Zarr v3 has no Snappy by name. What decodes is the header's.
                let io = stored(dtype, &chunk, (bytes / item) as u64, if name == "snappy" { "lz4" } else { name }, shuffle);
                let region = Region::full(&[(bytes / item) as u64]);
                // One buffer for both: where it lies in memory makes a difference.
                let mut out = vec![0u8; bytes];
                let turns: Vec<[Duration; 2]> = (0..40)
                    .map(|_| {
                        let theirs = best(3, || {
                            // SAFETY: the buffer is one of C-Blosc, and `out` has the size that it decodes to.
                            let n = unsafe { blosc_src::blosc_decompress_ctx(chunk.as_ptr().cast(), out.as_mut_ptr().cast(), bytes, 1) };
                            assert_eq!(n as usize, bytes);
                        });
                        out.fill(0);
                        let ours = best(3, || {
                            io.read_region(&region, &mut out).unwrap();
                        });
                        assert!(out == data);
                        [theirs, ours]
                    })
                    .collect();
                let of = |i: usize| turns.iter().map(|t| t[i]).min().unwrap().as_secs_f64();
                let rate = |seconds: f64| bytes as f64 / seconds / 1e9;
                println!(
                    "| {name} | {shuffle} | {:.1} MB {} | {:.2} | {:.1} GB/s | {:.1} GB/s | {:.2} |",
                    bytes as f64 / 1e6,
                    dtype.name(),
                    bytes as f64 / chunk.len() as f64,
                    rate(of(0)),
                    rate(of(1)),
                    of(1) / of(0)
                );
            }
        }
    }
}
