//! Proof that an array is whole.

use crate::Error;
use chunkwise_storage::{ArrayIo, Location, NodeKind, list_tree};
use chunkwise_types::unravel;

/// What verification found.
#[derive(Debug, Clone, Default)]
pub struct VerifyReport {
    /// Chunks that are there, decode, and have their checksum.
    pub good: u64,
    /// What is wrong, one line each.
    pub problems: Vec<String>,
}

/// The stored size and the checksum that a chunk should have, where that is known.
type Expected<'a> = &'a dyn Fn(&[u64]) -> Option<(u64, String)>;

fn verify(io: &ArrayIo, url: &str, expected: Expected<'_>, out: &mut VerifyReport) -> Result<(), Error> {
    let grid = io.meta().grid.clone();
    let counts = grid.counts();
    for k in 0..grid.count() {
        let index = unravel(k, &counts);
        let key = io.chunk_key(&index);
        match io.verify_chunk(&index) {
            Ok(None) => out.problems.push(format!("{url}: chunk '{key}' is missing")),
            Ok(Some((size, hash))) => match expected(&index) {
                Some((s, h)) if s != size || h != format!("{hash:016x}") => {
                    out.problems.push(format!(
                        "{url}: chunk '{key}' is not what its task wrote ({size} bytes, checksum {hash:016x}; expected {s} bytes, {h})"
                    ));
                }
                _ => out.good += 1,
            },
            Err(e) => out.problems.push(e.to_string()),
        }
    }
    Ok(())
}

/// Verifies every array of a store by reading and decoding every chunk.
pub fn verify_store(location: &Location) -> Result<VerifyReport, Error> {
    let mut out = VerifyReport::default();
    for node in list_tree(location)? {
        let at = location.join(&node.path);
        match node.kind {
            NodeKind::Group(_) => {}
            NodeKind::Array(Err(e)) => out.problems.push(e),
            NodeKind::Array(Ok(meta)) => verify(&ArrayIo::new(&at, &meta)?, &at.to_string(), &|_| None, &mut out)?,
        }
    }
    Ok(out)
}

/// Verifies the outputs of a run against the checksums that its tasks reported.
pub fn verify_plan(run_dir: &Location) -> Result<VerifyReport, Error> {
    let store = chunkwise_storage::Store::open(run_dir)?;
    let text =
        store.get("plan.json")?.ok_or_else(|| Error::Other(format!("'{run_dir}' is not the folder of a run: it has no plan.json")))?;
    let plan = chunkwise_plan::Plan::from_json(&String::from_utf8_lossy(&text))?;
    let context = chunkwise_task::TaskContext::open(plan)?;
    let reports = chunkwise_executor::read_reports(run_dir)?;
    let mut out = VerifyReport::default();
    for (name, array) in &context.plan.arrays {
        if array.role == chunkwise_plan::ArrayRole::Output {
            let expected = |index: &[u64]| {
                Some(reports.get(&(name.clone(), index.to_vec())).map_or((0, "no report".to_string()), |w| (w.bytes, w.xxh3.clone())))
            };
            verify(context.array(name), &context.array_location(name).to_string(), &expected, &mut out)?;
        }
    }
    Ok(out)
}
