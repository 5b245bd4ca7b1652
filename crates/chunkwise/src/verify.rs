//! Proof that an array is whole.

use crate::Error;
use chunkwise_executor::checksums;
use chunkwise_executor::groups::MAX_COORDINATE;
use chunkwise_storage::{ArrayIo, Location, NodeKind, StorageError, Stores, TreeNode, list_tree, text_chunks};
use chunkwise_types::unravel;
use std::collections::BTreeMap;

/// What verification found.
#[derive(Debug, Clone, Default)]
pub struct VerifyReport {
    /// Chunks that are there, decode, and have their checksum if one is known.
    pub good: u64,
    /// What is wrong, one line each; not more than [`MAX_PROBLEMS`].
    pub problems: Vec<String>,
    /// Problems that are not listed any more.
    pub more: u64,
    /// Arrays without checksums, with how many of their chunks are not stored. Chunks of the fill value need not be stored, so it is not known
    /// whether something is lost.
    pub unknown: BTreeMap<String, u64>,
    /// Arrays of which no checksums are known: their chunks are only known to be there and to decode.
    pub without: Vec<String>,
}

/// Problems that are listed, at most.
pub const MAX_PROBLEMS: usize = 10_000;
/// Arrays of more chunks are listed first, since most of these may not be stored.
const LISTED: u64 = 1 << 20;

impl VerifyReport {
    fn problem(&mut self, text: String) {
        if self.problems.len() < MAX_PROBLEMS { self.problems.push(text) } else { self.more += 1 }
    }

    /// Problems, listed or not.
    pub fn bad(&self) -> u64 {
        self.problems.len() as u64 + self.more
    }
}

/// What a chunk should be.
enum Expected {
    /// Nothing is known of this array.
    Unknown,
    /// The array has checksums, but this chunk has none.
    Unlisted,
    /// XXH3-64 of the stored bytes, and their number if that is known too.
    Hash(u64, Option<u64>),
}

/// Compares what is found of a chunk, the size and the hash of what is stored, with what it should be.
fn judge(url: &str, key: &str, found: Result<Option<(u64, u64)>, StorageError>, expected: Expected, out: &mut VerifyReport) {
    match (found, expected) {
        (Ok(None), Expected::Unknown) => *out.unknown.entry(url.into()).or_default() += 1,
        (Ok(None), _) => out.problem(format!("{url}: chunk '{key}' is missing")),
        (Ok(Some(_)), Expected::Unlisted) => {
            out.problem(format!("{url}: chunk '{key}' has no checksum, so it was not written by the run that made the array"));
        }
        (Ok(Some((size, hash))), Expected::Hash(h, s)) if h != hash || s.is_some_and(|s| s != size) => out.problem(format!(
            "{url}: chunk '{key}' is not what its task wrote ({size} bytes, checksum {hash:016x}; expected {}{h:016x})",
            s.map(|s| format!("{s} bytes, ")).unwrap_or_default()
        )),
        (Ok(Some(_)), _) => out.good += 1,
        (Err(e), _) => out.problem(e.to_string()),
    }
}

fn verify(io: &ArrayIo, url: &str, expected: &dyn Fn(&str, &[u64]) -> Expected, out: &mut VerifyReport) -> Result<(), Error> {
    let grid = io.meta().grid.clone();
    let (counts, count) = (grid.counts(), grid.count());
    let mut look = |index: &[u64]| {
        let key = io.chunk_key(index);
        judge(url, &key, io.verify_chunk(index), expected(&key, index), out);
    };
    // Of a sparse array only what is there is asked for.
    let stored = if count > LISTED { io.stored_indices()? } else { None };
    let Some(stored) = stored else {
        (0..count).for_each(|k| look(&unravel(k, &counts)));
        return Ok(());
    };
    stored.iter().for_each(|index| look(index));
    let missing = count - stored.len() as u64;
    let key = io.chunk_key(&vec![0; counts.len()]);
    match expected(&key, &vec![0; counts.len()]) {
        _ if missing == 0 => {}
        Expected::Unknown => *out.unknown.entry(url.into()).or_default() += missing,
        // Of which each is named, as long as that is of use.
        _ => {
            let (mut there, mut named) = (stored.iter().peekable(), 0);
            for k in 0..count {
                let index = unravel(k, &counts);
                if there.next_if(|s| **s == index).is_some() {
                    continue;
                }
                if out.problems.len() >= MAX_PROBLEMS {
                    break;
                }
                out.problem(format!("{url}: chunk '{}' is missing", io.chunk_key(&index)));
                named += 1;
            }
            out.more += missing.saturating_sub(named);
        }
    }
    Ok(())
}

/// Folders of a group that hold objects but no metadata: outputs of a run that has not ended.
fn unfinished(stores: &Stores, root: &Location, nodes: &[TreeNode], out: &mut VerifyReport) -> Result<(), Error> {
    for group in nodes.iter().filter(|n| matches!(n.kind, NodeKind::Group(_))) {
        let at = root.join(&group.path);
        let store = stores.open(&at)?;
        if !store.can_list() {
            return Ok(());
        }
        for name in store.list_dirs("")? {
            let path = if group.path.is_empty() { name.clone() } else { format!("{}/{name}", group.path) };
            if !nodes.iter().any(|n| n.path == path) && !store.list(&name)?.is_empty() {
                out.problem(format!("{}: it has chunks but no metadata; the run that writes it has not ended", at.join(&name)));
            }
        }
    }
    Ok(())
}

/// Verifies every array of a store by reading and decoding every chunk, against the checksums that lie beside it where there are any.
pub fn verify_store(stores: &Stores, location: &Location) -> Result<VerifyReport, Error> {
    let mut out = VerifyReport::default();
    let nodes = list_tree(stores, location)?;
    unfinished(stores, location, &nodes, &mut out)?;
    for node in nodes {
        let at = location.join(&node.path);
        let NodeKind::Array(array) = node.kind else { continue };
        // Coordinates may be texts, which no array that is computed with holds.
        let texts = if array.is_err() { text_chunks(stores, &at, MAX_COORDINATE)? } else { None };
        let known = checksums::read(stores, &at)?;
        let expected = |key: &str, _: &[u64]| match &known {
            None => Expected::Unknown,
            Some(k) => k.get(key).map_or(Expected::Unlisted, |h| Expected::Hash(*h, None)),
        };
        let chunks = match (array, texts) {
            (Ok(meta), _) => {
                verify(&ArrayIo::new(stores, &at, &meta)?, &at.to_string(), &expected, &mut out)?;
                meta.grid.count()
            }
            (Err(_), Some(chunks)) => {
                let count = chunks.len() as u64;
                chunks.into_iter().for_each(|(key, found)| judge(&at.to_string(), &key, Ok(found), expected(&key, &[]), &mut out));
                count
            }
            (Err(e), None) => {
                out.problem(e);
                continue;
            }
        };
        if known.is_none() && chunks > 0 {
            out.without.push(at.to_string());
        }
    }
    Ok(out)
}

/// Verifies the outputs of a run against the checksums that its tasks reported.
pub fn verify_plan(stores: &Stores, run_dir: &Location) -> Result<VerifyReport, Error> {
    let store = stores.open(run_dir)?;
    let text =
        store.get("plan.json")?.ok_or_else(|| Error::Other(format!("'{run_dir}' is not the folder of a run: it has no plan.json")))?;
    let plan = chunkwise_plan::Plan::from_json(&String::from_utf8_lossy(&text))?;
    let context = chunkwise_task::TaskContext::open(stores, plan)?;
    let reports = chunkwise_executor::read_reports(stores, run_dir)?;
    let mut out = VerifyReport::default();
    for (name, array) in &context.plan.arrays {
        if array.role == chunkwise_plan::ArrayRole::Output {
            let expected = |_: &str, index: &[u64]| {
                let report = reports.get(&(name.clone(), index.to_vec()));
                let hash = report.and_then(|w| Some((u64::from_str_radix(&w.xxh3, 16).ok()?, w.bytes)));
                hash.map_or(Expected::Unlisted, |(h, bytes)| Expected::Hash(h, Some(bytes)))
            };
            verify(context.array(name), &context.array_location(name).to_string(), &expected, &mut out)?;
        }
    }
    Ok(out)
}
