//! The folder of a run: how it is recognised, and what may be deleted in it.
//!
//! A folder belongs to a run if it has a marker that contains the folder's name, which is the id of the run. A `plan.json` alone is not
//! enough, because other programs have files of that name, and people store plans under it. In such a folder, only files that a run can
//! have written are deleted, and links are not followed.

use crate::RunError;
use crate::driver::OVERWRITES;
use crate::edited::DEFINITIONS;
use crate::function::{CANCELLED, PIPELINE};
use crate::lease::Lease;
use crate::worker::REPORTS;
use chunkwise_plan::{ArrayRole, Plan};
use chunkwise_storage::{Location, StorageError, Stores, is_chunk_key, prepare_work_dir};
use chunkwise_task::Inputs;
use serde::{Deserialize, Serialize};

/// The object that marks a folder as that of a run.
const MARKER: &str = "chunkwise-run.json";
const FORMAT: &str = "chunkwise-run/1";
/// The plan of the run.
pub const PLAN: &str = "plan.json";
/// The other objects in a run's folder, beside reports and intermediates.
const FILES: [&str; 7] = [MARKER, PLAN, DEFINITIONS, OVERWRITES, CANCELLED, PIPELINE, Inputs::OBJECT];
/// The number of files that a message names.
const TOLD: usize = 3;

#[derive(Serialize, Deserialize)]
struct Marker {
    format: String,
    /// The id of the run, which is the name of its folder.
    run: String,
    version: String,
}

/// The kind of a folder in a work directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FolderKind {
    /// A run.
    Run,
    /// It looks like the folder of a run of a version that left no marker. It is left alone.
    Unmarked,
    /// Something else.
    Other,
}

/// The result of cleaning the folder of a run.
#[derive(Debug, Clone, Default)]
pub struct Cleaned {
    /// The objects that were deleted.
    pub objects: u64,
    /// Some of the files that were left because no run has written them.
    pub left: Vec<String>,
}

fn is_link(folder: &Location) -> bool {
    folder.local_path().is_some_and(|p| p.is_symlink())
}

/// Determines the kind of a folder.
///
/// # Errors
/// When storage fails.
pub fn kind(stores: &Stores, run: &Location) -> Result<FolderKind, StorageError> {
    if is_link(run) {
        return Ok(FolderKind::Other);
    }
    let store = stores.open(run)?;
    let marker = store.get(MARKER)?.and_then(|data| serde_json::from_slice::<Marker>(&data).ok());
    if marker.is_some_and(|m| m.format.starts_with("chunkwise-run/") && m.run == run.name()) {
        return Ok(FolderKind::Run);
    }
    // The name is the hash of a plan.
    let named = run.name().len() == 16 && run.name().bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let planned = named && store.get(PLAN)?.is_some_and(|p| String::from_utf8_lossy(&p).contains("\"chunkwise-plan/"));
    Ok(if planned { FolderKind::Unmarked } else { FolderKind::Other })
}

/// The marker of a run's folder.
pub(crate) fn marker(run: &Location) -> (&'static str, Vec<u8>) {
    let marker = Marker { format: FORMAT.into(), run: run.name().into(), version: env!("CARGO_PKG_VERSION").into() };
    (MARKER, serde_json::to_vec(&marker).unwrap_or_default())
}

/// True for a key that a run can have written.
fn is_ours(key: &str, intermediates: &[String]) -> bool {
    let plain = key.rsplit_once('#').filter(|(_, digits)| digits.bytes().all(|b| b.is_ascii_digit())).map_or(key, |(name, _)| name);
    if FILES.contains(&plain) {
        return true;
    }
    if let Some(number) = plain.strip_prefix("reports-").and_then(|r| r.strip_suffix(".jsonl")) {
        return number.bytes().all(|b| b.is_ascii_digit());
    }
    let Some((first, rest)) = key.split_once('/') else { return false };
    (first == REPORTS && plain.ends_with(".jsonl"))
        || (is_chunk_key(rest) && (intermediates.is_empty() || intermediates.iter().any(|i| i == first)))
}

/// Deletes the files of a run in its folder.
fn delete(stores: &Stores, run: &Location) -> Result<Cleaned, StorageError> {
    let store = stores.open(run)?;
    if store.everything()?.is_empty() {
        return Ok(Cleaned::default());
    }
    // If the plan cannot be read any more, the names of its intermediates are not known.
    let plan = store.get(PLAN)?.and_then(|text| Plan::from_json(&String::from_utf8_lossy(&text)).ok());
    let intermediates = plan.iter().flat_map(|p| p.arrays.values()).filter(|a| a.role == ArrayRole::Intermediate);
    let intermediates: Vec<String> = intermediates.map(|a| a.url.clone()).collect();
    // Reports, which say that chunks are finished, are deleted first, and the files that make the folder a run are deleted last. The
    // deletion may be interrupted at any point. A driver that continues the run afterwards must not find finished chunks whose inputs are
    // not known.
    let reports = |key: &str| key.starts_with(REPORTS) && is_ours(key, &[]);
    let last = |key: &str| [Inputs::OBJECT, PLAN, MARKER].contains(&key);
    let (reported, _) = store.delete_ours(&reports, false)?;
    let (objects, left) = store.delete_ours(&|key| !last(key) && is_ours(key, &intermediates), false)?;
    let mut left: Vec<String> = left.into_iter().filter(|key| !last(key)).collect();
    left.truncate(TOLD);
    let (rest, _) = store.delete_ours(&last, false)?;
    Ok(Cleaned { objects: reported + objects + rest, left })
}

/// Makes the work directory of a plan, if it is the default one.
pub(crate) fn prepare(plan: &Plan) -> Result<(), RunError> {
    let at = Location::parse(&plan.spec.work_dir, None)?;
    prepare_work_dir(&at).map_err(|source| RunError::Place { what: "the work directory cannot be used", source })
}

/// Deletes the remains of an earlier run of a plan.
pub(crate) fn clear(stores: &Stores, run: &Location) -> Result<(), RunError> {
    delete(stores, run)?;
    Ok(())
}

/// Refuses a run's folder that is a link. A person who could put it there could choose what is written and deleted elsewhere.
pub(crate) fn check(run: &Location) -> Result<(), RunError> {
    if is_link(run) {
        let detail =
            "it is a symbolic link, and the folder of a run must be a real one; remove it, or name another place with --work-dir".into();
        let source = StorageError::PermissionDenied { action: "use", url: run.to_string(), detail };
        return Err(RunError::Place { what: "the work directory cannot be used", source });
    }
    Ok(())
}

/// Deletes the files of a run in its folder. Its outputs stay.
///
/// # Errors
/// When the folder does not belong to a run, another process drives the run now, or storage fails.
pub fn clean(stores: &Stores, run: &Location) -> Result<Cleaned, RunError> {
    if kind(stores, run)? != FolderKind::Run {
        return Err(RunError::Executor(format!(
            "'{run}' is not the folder of a run: it has no {MARKER} with its name; nothing was deleted"
        )));
    }
    let _lease = Lease::take(stores, run)?;
    Ok(delete(stores, run)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_writes() {
        let intermediates = ["t0".to_string()];
        for key in [
            "plan.json",
            "chunkwise-run.json",
            "definitions.json",
            "reports-000012.jsonl",
            "reports/9-18ff-000001.jsonl",
            "reports/1a_2/10-1900-000000.jsonl",
            "plan.json#000000000000000000010000000001000002",
            "t0/c/0/1",
            "t0/c",
        ] {
            assert!(is_ours(key, &intermediates), "{key}");
        }
        for key in [
            "thesis.tex",
            "notes/plan.json",
            "t0/zarr.json",
            "t1/c/0/1",
            "reports/thesis.tex",
            "reports-x.jsonl",
            "data/c/x",
            "plan.json#x",
        ] {
            assert!(!is_ours(key, &intermediates), "{key}");
        }
    }
}
