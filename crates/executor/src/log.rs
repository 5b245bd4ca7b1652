//! The run's folder: the plan, the reports of its tasks in numbered segments, and the reports of workers in `reports`.
//!
//! In a filesystem a report is appended at once. In an object store a segment is written as a whole twice a second, so a killed driver
//! loses at most the reports since then. Their chunks count as missing and are made again.

use crate::worker::{Answer, REPORTS};
use chunkwise_plan::{TaskReport, WrittenChunk};
use chunkwise_storage::{Location, Moment, StorageError, Store, Stores};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Reports by array and chunk.
pub type Reports = HashMap<(String, Vec<u64>), WrittenChunk>;

const EVERY: Duration = Duration::from_millis(500);
const MAX_REPORTS: usize = 1000;
/// The number of objects with reports that are read at once. A function leaves one object each time.
const AT_ONCE: usize = 64;

/// Appends reports.
pub(crate) struct Log {
    store: Store,
    next: u64,
    buffer: String,
    held: usize,
    last: Moment,
    file: Option<Arc<File>>,
}

/// The end of a run's reports in a filesystem. Threads of the driver's process append to it by themselves, so they need not wake the driver
/// for every few chunks.
#[derive(Clone)]
pub struct Journal(Arc<File>);

impl Journal {
    /// Appends a report.
    ///
    /// # Errors
    /// When the filesystem fails. A line that is only partly written is not a report.
    pub(crate) fn add(&self, report: &TaskReport) -> io::Result<()> {
        let mut line = serde_json::to_vec(report)?;
        line.push(b'\n');
        // The line is written in one call, so lines of other threads come before it or after it.
        (&*self.0).write_all(&line)
    }
}

fn failed(url: &str, e: &io::Error) -> StorageError {
    if e.kind() == io::ErrorKind::StorageFull {
        return StorageError::DiskFull { url: url.into() };
    }
    StorageError::Store { action: "write", url: url.into(), detail: e.to_string(), transient: false }
}

fn segment(key: &str) -> Option<u64> {
    key.strip_prefix("reports-")?.strip_suffix(".jsonl")?.parse().ok()
}

impl Log {
    /// Starts a segment after the existing ones. A `fresh` folder has none.
    pub fn open(stores: &Stores, run_dir: &Location, fresh: bool) -> Result<Log, StorageError> {
        let store = stores.open(run_dir)?;
        let there = if fresh { Vec::new() } else { store.list("")? };
        let next = there.iter().filter_map(|(k, _)| segment(k)).max().map_or(0, |n| n + 1);
        let file = match run_dir.local_path() {
            Some(folder) => {
                let path = folder.join(format!("reports-{next:06}.jsonl"));
                let opened = File::options().create(true).append(true).open(&path);
                Some(Arc::new(opened.map_err(|e| failed(&path.display().to_string(), &e))?))
            }
            None => None,
        };
        Ok(Log { store, next, buffer: String::new(), held: 0, last: Moment::now(), file })
    }

    /// The journal to which threads of this process may append, if this is a filesystem.
    pub fn journal(&self) -> Option<Journal> {
        self.file.clone().map(Journal)
    }

    pub fn add(&mut self, report: &TaskReport) -> Result<(), StorageError> {
        if let Some(journal) = self.journal() {
            return journal.add(report).map_err(|e| failed("the run's reports", &e));
        }
        if let Ok(line) = serde_json::to_string(report) {
            self.buffer.push_str(&line);
            self.buffer.push('\n');
            self.held += 1;
        }
        if self.held >= MAX_REPORTS || self.last.elapsed() >= EVERY { self.flush() } else { Ok(()) }
    }

    pub fn flush(&mut self) -> Result<(), StorageError> {
        self.last = Moment::now();
        if self.held > 0 {
            self.store.put(&format!("reports-{:06}.jsonl", self.next), std::mem::take(&mut self.buffer).into_bytes())?;
            self.next += 1;
            self.held = 0;
        }
        Ok(())
    }
}

/// Calls `told` for every chunk that the tasks of a run reported, in order of precedence: the valid report of a chunk comes last. Only a
/// few reports are in memory at once, however many there are.
///
/// # Errors
/// When storage fails.
pub(crate) fn each_report(stores: &Stores, run_dir: &Location, told: &mut dyn FnMut(WrittenChunk)) -> Result<(), StorageError> {
    let store = stores.open(run_dir)?;
    // Those of workers come first. A driver's own reports come later and take precedence.
    let number = |k: &str| segment(k).map(|n| n + 1).or_else(|| k.starts_with(&format!("{REPORTS}/")).then_some(0));
    let mut segments: Vec<(u64, String)> = store.list("")?.into_iter().filter_map(|(k, _)| Some((number(&k)?, k))).collect();
    segments.sort();
    let mut line = |line: &[u8]| {
        // A line that cannot be parsed is ignored.
        let report = serde_json::from_slice::<TaskReport>(line).ok().or_else(|| match serde_json::from_slice(line).ok()? {
            Answer::Wrote(report) | Answer::Done { report, .. } => Some(report),
            _ => None,
        });
        report.into_iter().flat_map(|r| r.written).for_each(&mut *told);
    };
    let keys: Vec<String> = segments.into_iter().map(|(_, key)| key).collect();
    if let Some(folder) = run_dir.local_path() {
        for key in keys {
            let path = folder.join(&key);
            each_line(&path, &mut line).map_err(|e| read_failed(&path, &e))?;
        }
        return Ok(());
    }
    for some in keys.chunks(AT_ONCE) {
        let objects = store.get_all(some)?;
        objects.into_iter().flatten().for_each(|data| data.split(|b| *b == b'\n').for_each(&mut line));
    }
    Ok(())
}

fn read_failed(path: &Path, e: &io::Error) -> StorageError {
    StorageError::Store { action: "read", url: path.display().to_string(), detail: e.to_string(), transient: false }
}

/// Calls `told` for each line of a file. A file that no longer exists has no lines.
fn each_line(path: &Path, told: &mut dyn FnMut(&[u8])) -> io::Result<()> {
    let mut file = match File::open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => BufReader::with_capacity(1 << 18, other?),
    };
    let mut line = Vec::new();
    while file.read_until(b'\n', &mut line)? > 0 {
        told(line.trim_ascii_end());
        line.clear();
    }
    Ok(())
}

/// Every chunk that the tasks of a run reported. If there are several reports of a chunk, the latest one is used.
pub fn read_reports(stores: &Stores, run_dir: &Location) -> Result<Reports, StorageError> {
    let mut out = Reports::new();
    each_report(stores, run_dir, &mut |w| {
        out.insert((w.array.clone(), w.chunk.clone()), w);
    })?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_driver_believed_counts_for_more_than_what_a_worker_said() {
        let line = |bytes: u64| {
            let written = serde_json::json!([{"array": "a", "chunk": [0], "bytes": bytes, "xxh3": "0"}]);
            serde_json::json!({"stage": 0, "task": 0, "written": written, "bytes_read": 0, "seconds": 0.0, "projected_mem": 0})
        };
        let run_dir = Location::parse("memory://log/run", None).unwrap();
        let stores = Stores::new();
        let store = stores.open(&run_dir).unwrap();
        store.put("reports-000000.jsonl", line(7).to_string().into_bytes()).unwrap();
        let said = serde_json::json!({"done": {"attempt": 0, "report": line(77)}});
        store.put(&format!("{REPORTS}/9_0-1.jsonl"), said.to_string().into_bytes()).unwrap();
        let found = read_reports(&stores, &run_dir).unwrap();
        assert_eq!(found[&("a".to_string(), vec![0])].bytes, 7);
    }
}
