//! Copies into smaller chunks: every element arrives where it belongs, whatever the shapes and however many threads read; chunks of earlier
//! attempts are left alone.

#![allow(clippy::unwrap_used, clippy::panic)]

use chunkwise_kernels::Cores;
use chunkwise_plan::{Plan, WrittenChunk};
use chunkwise_storage::{ArrayIo, CodecChoice, Elements, Location, MemoryTier, NewArray, Stores, new_meta, open_array, publish_array};
use chunkwise_task::{TaskContext, TaskError, Watch, run_task};
use chunkwise_types::{DType, Region};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// An array, the chunks that it is stored in, those that it is copied to, and the part that one task copies.
struct Case {
    dtype: DType,
    codec: CodecChoice,
    shape: Vec<u64>,
    from: Vec<u64>,
    to: Vec<u64>,
    task: Vec<u64>,
}

impl Case {
    fn new(dtype: DType, [shape, from, to, task]: [&[u64]; 4]) -> Case {
        let [shape, from, to, task] = [shape, from, to, task].map(<[u64]>::to_vec);
        Case { dtype, codec: CodecChoice::None, shape, from, to, task }
    }

    fn grid(&self, chunks: &[u64]) -> Value {
        self.shape.iter().zip(chunks).map(|(len, size)| json!({"regular": {"len": len, "size": size}})).collect()
    }

    /// The bytes of the whole array: all different where that is possible, and only zeros and ones for bools.
    fn bytes(&self) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(7);
        let n = self.shape.iter().product::<u64>() * self.dtype.size();
        (0..n).map(|_| if self.dtype == DType::Bool { u8::from(random.bool()) } else { random.u8(..) }).collect()
    }

    /// Stores the array, and plans its copy.
    fn plan(&self, folder: &Path) -> Plan {
        let url = |name: &str| folder.join(name).display().to_string();
        let location = Location::parse(&url("x"), None).unwrap();
        let new = NewArray::plain(self.dtype, &self.shape, &self.from, self.codec);
        let meta = new_meta(&new).unwrap();
        publish_array(&Stores::new(), &location, &meta).unwrap();
        let (io, bytes) = (ArrayIo::new(&Stores::new(), &location, &meta).unwrap(), self.bytes());
        for index in Region::full(&meta.grid.counts()).indices() {
            let start = meta.grid.region(&index).start;
            io.write_chunk(&index, Elements { data: &bytes, shape: &self.shape, start: &start }).unwrap();
        }
        let meta = open_array(&Stores::new(), &location).unwrap();
        let ty = json!({"dtype": self.dtype, "shape": self.shape});
        serde_json::from_value(json!({
            "format": "chunkwise-plan/1",
            "spec": {"allowed_mem": 400_000_000, "reserved_mem": 1_000_000, "workers": 1, "work_dir": url("work")},
            "arrays": {
                "x": {"role": "input", "url": url("x"), "dtype": self.dtype, "shape": self.shape, "grid": meta.grid, "access": meta.access(), "metadata": meta},
                "y": {"role": "output", "url": url("y"), "dtype": self.dtype, "shape": self.shape, "grid": self.grid(&self.to), "access": "raw",
                      "encoding": {"chunks": self.to, "codec": "none", "fill_value": new.fill_value}},
            },
            "stages": [{"name": "y", "kind": "rechunk", "projected_mem": 0, "program": {"steps": [{"read": "x", "type": ty}]},
                        "outputs": [{"step": 0, "array": "y", "tasks": self.grid(&self.task)}],
                        "cost": {"bytes_read": 0, "bytes_written": 0, "gets": 0, "puts": 0}}],
        }))
        .unwrap()
    }

    /// Copies it on some cores, and looks at all of it.
    fn check(&self, name: &str, cores: usize) {
        let folder = folder(name);
        let ctx = TaskContext::open(&Stores::new(), self.plan(&folder)).unwrap().with_memory(&MemoryTier::new(1_000_000_000)).unwrap();
        for task in 0..ctx.plan.stages[0].tasks() {
            let _busy = Cores::new(cores).enter();
            run_task(&ctx, 0, task, &Observer::default()).unwrap();
        }
        let mut found = vec![1; self.bytes().len()];
        ctx.array("y").read_region(&Region::full(&self.shape), &mut found).unwrap();
        let different = found.iter().zip(self.bytes()).position(|(a, b)| *a != b);
        assert_eq!(different, None, "{:?} of {:?} from {:?} to {:?}, {cores} cores", self.dtype, self.shape, self.from, self.to);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("scatter-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

/// Has some chunks, and wants the task to stop after it has asked so many times.
#[derive(Default)]
struct Observer {
    had: Vec<Vec<u64>>,
    asked: AtomicU64,
    stop: Option<u64>,
}

impl Watch for Observer {
    fn cancelled(&self) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed) >= self.stop.unwrap_or(u64::MAX)
    }

    fn have(&self, array: &str, chunk: &[u64]) -> Option<WrittenChunk> {
        let written = || WrittenChunk { array: array.into(), chunk: chunk.to_vec(), bytes: 24, xxh3: "had".into(), etag: None };
        self.had.iter().any(|had| had == chunk).then(written)
    }
}

#[test]
fn every_element_arrives() {
    use DType::{Bool, Complex128, Float32, Int64, UInt8, UInt16};
    // Pieces of many rows of the first axis, of some lines of the second one, and of a part of a single line.
    let cases: [(DType, [&[u64]; 4]); 9] = [
        (Float32, [&[62, 41, 300], &[31, 41, 300], &[62, 10, 10], &[62, 20, 300]]),
        (Int64, [&[9, 400, 301], &[4, 400, 301], &[9, 7, 13], &[9, 399, 301]]),
        (Int64, [&[2, 3, 70_001], &[1, 3, 70_001], &[2, 2, 999], &[2, 3, 70_001]]),
        (Complex128, [&[1, 40, 30], &[1, 40, 30], &[1, 6, 4], &[1, 40, 30]]),
        (Bool, [&[50, 33, 65], &[50, 33, 65], &[7, 5, 3], &[50, 33, 65]]),
        (UInt8, [&[30, 20, 3, 5], &[11, 20, 3, 5], &[10, 4, 3, 5], &[30, 20, 3, 5]]),
        (UInt8, [&[1000, 1000], &[600, 1000], &[1000, 1], &[1000, 700]]),
        (UInt16, [&[300, 40, 50], &[300, 40, 50], &[300, 40, 33], &[300, 40, 50]]),
        (Float32, [&[5, 6, 7, 8, 9], &[3, 6, 7, 8, 9], &[2, 3, 7, 2, 9], &[4, 6, 7, 8, 9]]),
    ];
    for (k, (dtype, shapes)) in cases.into_iter().enumerate() {
        Case::new(dtype, shapes).check(&format!("all{k}"), 1);
    }
}

#[test]
fn random_shapes() {
    for seed in 0..60 {
        let mut random = fastrand::Rng::with_seed(seed);
        let rank = random.usize(2..5);
        let shape: Vec<u64> = (0..rank).map(|_| random.u64(1..24)).collect();
        let dtype = [DType::UInt8, DType::Int16, DType::Float32, DType::Float64, DType::Complex128][random.usize(..5)];
        let to: Vec<u64> = shape.iter().map(|n| random.u64(1..=*n)).collect();
        let mut from = shape.clone();
        from[0] = random.u64(1..=shape[0]);
        let task = shape.iter().zip(&to).map(|(n, c)| c * random.u64(1..=n.div_ceil(*c))).collect();
        Case { dtype, codec: CodecChoice::None, shape, from, to, task }.check(&format!("random{seed}"), 1);
    }
}

#[test]
fn threads_share_a_region() {
    // A few megabytes each: less is not worth a thread.
    let time_slabs = Case::new(DType::Float64, [&[60, 70, 300], &[25, 70, 300], &[60, 10, 7], &[60, 70, 300]]);
    let first_axis = Case::new(DType::Float64, [&[60, 70, 300], &[25, 70, 300], &[11, 35, 300], &[60, 70, 300]]);
    let blocks =
        Case { codec: CodecChoice::Default, ..Case::new(DType::Float64, [&[60, 70, 300], &[25, 70, 300], &[60, 9, 300], &[60, 70, 300]]) };
    for (k, case) in [time_slabs, first_axis, blocks].iter().enumerate() {
        for cores in [1, 2, 3, 16] {
            case.check(&format!("threads{k}-{cores}"), cores);
        }
    }
}

#[test]
fn chunks_of_earlier_attempts_are_left_alone() {
    let case = Case::new(DType::Int64, [&[6, 20, 30], &[3, 20, 30], &[6, 10, 10], &[6, 20, 30]]);
    for had in [vec![], vec![vec![0, 0, 0]], vec![vec![0, 1, 2], vec![0, 0, 1]], vec![vec![0, 1, 0], vec![0, 1, 1], vec![0, 1, 2]]] {
        let folder = folder("left");
        let ctx = TaskContext::open(&Stores::new(), case.plan(&folder)).unwrap();
        let report = run_task(&ctx, 0, 0, &Observer { had: had.clone(), ..Observer::default() }).unwrap();
        assert_eq!(report.written.len(), 6);
        for WrittenChunk { chunk, xxh3, .. } in report.written {
            let file = folder.join(format!("y/c/{}/{}/{}", chunk[0], chunk[1], chunk[2]));
            assert_eq!((had.contains(&chunk), xxh3 == "had"), (!file.exists(), !file.exists()), "{chunk:?}");
        }
    }
}

#[test]
fn a_copy_that_is_stopped_stops() {
    let case = Case::new(DType::Int64, [&[6, 20, 30], &[3, 20, 30], &[6, 10, 10], &[6, 20, 30]]);
    for stop in 0..7 {
        let folder = folder("stopped");
        let ctx = TaskContext::open(&Stores::new(), case.plan(&folder)).unwrap();
        let result = run_task(&ctx, 0, 0, &Observer { stop: Some(stop), ..Observer::default() });
        assert!(matches!(result, Err(TaskError::Cancelled)), "{stop}: {result:?}");
        // Once for the only piece, then before every chunk.
        let stored = (0..6).filter(|k| folder.join(format!("y/c/0/{}/{}", k / 3, k % 3)).exists()).count() as u64;
        assert_eq!(stored, stop.saturating_sub(1));
    }
}
