//! Each target, over its corpus and then for a moment over changes of it.
//!
//! `CHUNKWISE_FUZZ=60` goes on for so many seconds each, `CHUNKWISE_FUZZ_SEED=7` takes another way, and `CHUNKWISE_FUZZ_INPUT=FILE` runs one input.

#![allow(clippy::unwrap_used, clippy::panic)]

use chunkwise_fuzz::mutate::Mutator;
use chunkwise_fuzz::{TARGETS, Target};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// One target at a time, so that the memory of the process is that of its input.
static ALONE: Mutex<()> = Mutex::new(());

/// Changes of the corpus that are tried, unless the environment gives a time.
const COUNT: u64 = 2000;
/// Seconds of each target beside its corpus.
const SECONDS: f64 = 1.0;
/// Bytes that any input may take. What chunks and documents say of their own size is up to a thousand times as much.
const MEMORY: u64 = 64 << 20;
/// Bytes that an input with coordinates may take: they are read whole, up to a limit of their own.
const COORDINATES: u64 = 4 * chunkwise::executor::groups::MAX_COORDINATE;

fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no such value")))
}

/// The files of a corpus, in the order of their names.
fn corpus(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fuzz/corpus").join(name);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// A line of `/proc/self/status` in bytes; `None` where there is none.
fn status(name: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix(name)?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok())?;
    Some(line << 10)
}

/// Runs a target, and says what is wrong.
fn attempt(target: Target, most: u64, data: &[u8]) -> Result<(), String> {
    // From now on the peak is that of this input.
    let measured = std::fs::write("/proc/self/clear_refs", "5").is_ok();
    let before = status("VmRSS:");
    catch_unwind(AssertUnwindSafe(|| target(data))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        text.unwrap_or("a panic").to_string()
    })?;
    match (before, status("VmHWM:").filter(|_| measured)) {
        (Some(before), Some(peak)) if peak.saturating_sub(before) > most => Err(format!("it takes {} MiB", (peak - before) >> 20)),
        _ => Ok(()),
    }
}

fn failed(name: &str, path: &Path, why: &str) -> ! {
    panic!(
        "{name}: {why}\nThe input is in {path}. To run it again:\n  CHUNKWISE_FUZZ_INPUT={path} cargo test -p chunkwise-fuzz --test bounded {name}",
        path = path.display()
    )
}

fn bounded(name: &str) {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    chunkwise::limit_allocator();
    let (_, target) = TARGETS.into_iter().find(|(n, _)| *n == name).unwrap();
    let most = if matches!(name, "metadata" | "metadata_v2" | "group") { COORDINATES } else { MEMORY };
    let attempt = |data: &[u8]| attempt(target, most, data);
    if let Some(path) = variable::<PathBuf>("CHUNKWISE_FUZZ_INPUT") {
        let data = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        return attempt(&data).unwrap_or_else(|why| failed(name, &path, &why));
    }
    let corpus = corpus(name);
    assert!(!corpus.is_empty(), "there is no corpus: cargo run -p chunkwise-fuzz --example corpus");
    // What is made once is not of the first input.
    target(&corpus[0].1);
    for (path, data) in &corpus {
        attempt(data).unwrap_or_else(|why| failed(name, path, &why));
    }
    // Also what ends the process leaves its input there.
    let path = std::env::temp_dir().join(format!("chunkwise-fuzz-{name}-{}", std::process::id()));
    let (seconds, seed) = (variable("CHUNKWISE_FUZZ").unwrap_or(SECONDS), variable("CHUNKWISE_FUZZ_SEED").unwrap_or(0));
    let inputs: Vec<Vec<u8>> = corpus.into_iter().map(|(_, data)| data).collect();
    let mut mutator = Mutator::new(&inputs, seed);
    let (began, mut tried) = (Instant::now(), 0u64);
    // Always the same ones, unless more are asked for: what is found must not depend on how fast the machine is.
    let count = if variable::<f64>("CHUNKWISE_FUZZ").is_some() { u64::MAX } else { COUNT };
    while tried < count && began.elapsed() < Duration::from_secs_f64(seconds) {
        let data = mutator.input();
        std::fs::write(&path, &data).unwrap();
        attempt(&data).unwrap_or_else(|why| failed(name, &path, &why));
        tried += 1;
    }
    let _ = std::fs::remove_file(&path);
    println!("{name}: {} inputs of the corpus, {tried} changes", inputs.len());
}

#[test]
fn chunk() {
    bounded("chunk");
}

#[test]
fn metadata() {
    bounded("metadata");
}

#[test]
fn metadata_v2() {
    bounded("metadata_v2");
}

#[test]
fn group() {
    bounded("group");
}

#[test]
fn pipeline() {
    bounded("pipeline");
}

#[test]
fn plan() {
    bounded("plan");
}

#[test]
fn event() {
    bounded("event");
}

#[test]
fn url() {
    bounded("url");
}
