//! Small chunks that are taken from a block together: each is written whole, those of an earlier attempt are left alone, and the executor
//! hears of all that were written, also when the task fails.

#![allow(clippy::unwrap_used, clippy::panic)]

use chunkwise_plan::{Plan, WrittenChunk};
use chunkwise_storage::Stores;
use chunkwise_task::{TaskContext, TaskError, Watch, run_task};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

const LENGTH: u64 = 47;
const CHUNK: u64 = 3;
const CHUNKS: u64 = LENGTH.div_ceil(CHUNK);

/// One task that writes the numbers from 3 on, in chunks of three.
fn plan(folder: &Path) -> Plan {
    let url = |name: &str| folder.join(name).display().to_string();
    let grid = |size: u64| json!([{"regular": {"len": LENGTH, "size": size}}]);
    let create = json!({"create": {"what": {"arange": {"start": {"int": 3}, "step": {"int": 1}}}}});
    serde_json::from_value(json!({
        "format": "chunkwise-plan/1",
        "spec": {"allowed_mem": 100_000_000, "reserved_mem": 1_000_000, "workers": 1, "work_dir": url("work")},
        "arrays": {"x": {"role": "output", "url": url("x"), "dtype": "int64", "shape": [LENGTH], "grid": grid(CHUNK), "access": "raw",
                         "encoding": {"chunks": [CHUNK], "codec": "none", "fill_value": {"int": -1}}}},
        "stages": [{"name": "x", "kind": "blockwise", "projected_mem": 0,
                    "program": {"steps": [{"kernel": create, "type": {"dtype": "int64", "shape": [LENGTH]}}]},
                    "outputs": [{"step": 0, "array": "x", "tasks": grid(LENGTH)}],
                    "cost": {"bytes_read": 0, "bytes_written": 0, "gets": 0, "puts": 0}}],
    }))
    .unwrap()
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("writing-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

/// The bytes of a chunk: beyond the array there is the fill value.
fn expected(chunk: u64) -> Vec<u8> {
    let value = |i: u64| if i < LENGTH { i as i64 + 3 } else { -1 };
    (chunk * CHUNK..(chunk + 1) * CHUNK).flat_map(|i| value(i).to_le_bytes()).collect()
}

/// Has some chunks, hears of others, and wants the task to stop at one.
struct Observer {
    had: Vec<u64>,
    told: Mutex<Vec<u64>>,
    asked: AtomicU64,
    stop: u64,
}

impl Observer {
    fn new(had: &[u64], stop: u64) -> Observer {
        Observer { had: had.to_vec(), told: Mutex::default(), asked: AtomicU64::new(0), stop }
    }
}

impl Watch for Observer {
    fn cancelled(&self) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed) >= self.stop
    }

    fn have(&self, array: &str, chunk: &[u64]) -> Option<WrittenChunk> {
        let written = || WrittenChunk { array: array.into(), chunk: chunk.to_vec(), bytes: 24, xxh3: "had".into(), etag: None };
        chunk.last().is_some_and(|i| self.had.contains(i)).then(written)
    }

    fn wrote(&self, _stage: usize, _task: u64, chunks: Vec<WrittenChunk>) {
        // What is not told when the process is killed is made again. A folder appears with all of its chunks.
        assert!(chunks.len() <= 4 || chunks.iter().all(|c| c.chunk.len() > 1), "{chunks:?}");
        self.told.lock().unwrap().extend(chunks.iter().filter_map(|c| c.chunk.last()));
    }
}

#[test]
fn chunks_of_earlier_attempts_are_left_alone() {
    for had in [vec![], vec![0], vec![4, 5, 11], vec![CHUNKS - 1], (0..CHUNKS - 1).collect(), (0..CHUNKS).step_by(2).collect()] {
        let folder = folder("left");
        let ctx = TaskContext::open(&Stores::new(), plan(&folder)).unwrap();
        let watch = Observer::new(&had, u64::MAX);
        let report = run_task(&ctx, 0, 0, &watch).unwrap();
        assert!(report.written.iter().map(|w| w.chunk[0]).eq(0..CHUNKS), "{report:?}");
        for chunk in 0..CHUNKS {
            let stored = std::fs::read(folder.join(format!("x/c/{chunk}"))).ok();
            assert_eq!(stored, (!had.contains(&chunk)).then(|| expected(chunk)), "chunk {chunk}, {had:?}");
        }
        let told = watch.told.into_inner().unwrap();
        assert!(told.iter().copied().eq((0..CHUNKS).filter(|chunk| !had.contains(chunk))), "{told:?}, {had:?}");
    }
}

#[test]
fn a_task_that_is_stopped_has_told_what_it_wrote() {
    let mut told = Vec::new();
    for stop in 0..CHUNKS + 4 {
        let folder = folder("stopped");
        let ctx = TaskContext::open(&Stores::new(), plan(&folder)).unwrap();
        let watch = Observer::new(&[], stop);
        let result = run_task(&ctx, 0, 0, &watch);
        assert!(matches!(result, Err(TaskError::Cancelled) | Ok(_)), "{result:?}");
        let heard = watch.told.into_inner().unwrap();
        let stored: Vec<u64> = (0..CHUNKS).filter(|chunk| folder.join(format!("x/c/{chunk}")).exists()).collect();
        assert_eq!(heard, stored);
        told.push(heard.len() as u64);
    }
    assert!(told[0] == 0 && told.contains(&(CHUNKS / 2)), "{told:?}");
}

/// One task that writes a matrix with ones on its diagonal, in a row of chunks, which are files of one folder.
fn row(folder: &Path) -> Plan {
    let mut plan = serde_json::to_value(plan(folder)).unwrap();
    let grid = json!([{"regular": {"len": 2, "size": 2}}, {"regular": {"len": LENGTH, "size": CHUNK}}]);
    let eye = json!({"create": {"what": {"eye": {"k": 0}}}});
    let x = &mut plan["arrays"]["x"];
    (x["shape"], x["encoding"]["chunks"], x["grid"]) = (json!([2, LENGTH]), json!([2, CHUNK]), grid);
    let stage = &mut plan["stages"][0];
    stage["program"]["steps"] = json!([{"kernel": eye, "type": {"dtype": "int64", "shape": [2, LENGTH]}}]);
    stage["outputs"][0]["tasks"] = json!([{"regular": {"len": 2, "size": 2}}, {"regular": {"len": LENGTH, "size": LENGTH}}]);
    serde_json::from_value(plan).unwrap()
}

/// Chunks of the row that one can see; of each the size is right.
fn seen(folder: &Path) -> Vec<u64> {
    let size = |chunk: &u64| Some(std::fs::metadata(folder.join(format!("x/c/0/{chunk}"))).ok()?.len());
    let seen: Vec<u64> = (0..CHUNKS).filter(|chunk| size(chunk).is_some()).collect();
    assert!(seen.iter().all(|chunk| size(chunk) == Some(2 * CHUNK * 8)), "{seen:?}");
    seen
}

#[test]
fn chunks_of_a_row_appear_together() {
    let mut counts = Vec::new();
    for stop in 0..CHUNKS + 4 {
        let folder = folder("together");
        let ctx = TaskContext::open(&Stores::new(), row(&folder)).unwrap();
        let watch = Observer::new(&[], stop);
        let _ = run_task(&ctx, 0, 0, &watch);
        assert_eq!(seen(&folder), watch.told.into_inner().unwrap());
        let left = walk(&folder.join("x/c")).into_iter().filter(|name| name.contains('#')).count();
        assert_eq!(left, 0, "an unfinished folder was left");
        counts.push(seen(&folder).len() as u64);
    }
    assert!(counts.iter().all(|n| [0, CHUNKS].contains(n)) && counts.contains(&0) && counts.contains(&CHUNKS), "{counts:?}");
}

#[test]
fn rows_of_which_an_earlier_attempt_has_written_some() {
    for had in [vec![0], vec![4, 5, 11], vec![CHUNKS - 1], (1..CHUNKS).collect()] {
        for there in [false, true] {
            let folder = folder("some");
            let ctx = TaskContext::open(&Stores::new(), row(&folder)).unwrap();
            if there {
                std::fs::create_dir_all(folder.join("x/c/0")).unwrap();
            }
            let watch = Observer::new(&had, u64::MAX);
            let report = run_task(&ctx, 0, 0, &watch).unwrap();
            assert_eq!(report.written.len() as u64, CHUNKS);
            let rest: Vec<u64> = (0..CHUNKS).filter(|chunk| !had.contains(chunk)).collect();
            assert_eq!(seen(&folder), rest, "{had:?}");
            assert_eq!(watch.told.into_inner().unwrap(), rest, "{had:?}");
        }
    }
}

/// The names of all files and folders below one.
fn walk(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| [vec![path.display().to_string()], walk(&path)].concat()).collect()
}
