//! `chunkwise clean`: lists and removes the runs of a work directory.

use crate::failure::{refuse, say};
use crate::out::outln;
use chunkwise::ByteSize;
use chunkwise::executor::RunError;
use chunkwise::executor::run_folder::{FolderKind, clean as clean_run, kind};
use chunkwise::storage::{Location, Stores};
use miette::Report;
use serde_json::json;

/// The content of a work directory.
#[derive(Default)]
struct Found {
    /// Runs, with the bytes that they have stored.
    runs: Vec<(String, u64)>,
    /// Folders that look like runs of a version that left no marker.
    unmarked: Vec<String>,
}

fn look(stores: &Stores, root: &Location) -> Result<Found, Report> {
    let store = stores.open(root).map_err(say)?;
    let mut found = Found::default();
    for name in store.list_dirs("").map_err(say)? {
        match kind(stores, &root.join(&name)).map_err(say)? {
            FolderKind::Run => {
                let bytes: u64 = store.list(&name).map_err(say)?.iter().map(|(_, n)| n).sum();
                found.runs.push((name, bytes));
            }
            FolderKind::Unmarked => found.unmarked.push(name),
            FolderKind::Other => {}
        }
    }
    Ok(found)
}

/// Lists the runs of a work directory, and removes those that are named, or all that are not running.
pub(crate) fn clean(stores: &Stores, work_dir: &str, runs: &[String], all: bool, as_json: bool) -> Result<(), Report> {
    let root = Location::parse(work_dir, None).map_err(say)?;
    match root.local_path().map(|p| (p.exists(), p.is_dir())) {
        Some((false, _)) => return Err(refuse!("there is no folder '{root}'")),
        Some((true, false)) => return Err(refuse!("'{root}' is a file; name the work directory of runs")),
        _ => {}
    }
    let found = look(stores, &root)?;
    // This check comes before anything is removed.
    if let Some(name) = runs.iter().find(|r| !found.runs.iter().any(|(name, _)| name == *r)) {
        let place = root.join(name);
        return Err(match found.unmarked.contains(name) {
            true => refuse!(
                "'{place}' has no marker of a run (an earlier version left none), so it is not removed; if it is one, delete the folder yourself"
            ),
            false => refuse!("there is no run '{name}' in '{root}'; `chunkwise clean {work_dir}` lists them"),
        });
    }
    let mut rows = Vec::new();
    for (name, bytes) in &found.runs {
        let mut row = json!({ "run": name, "bytes": bytes, "removed": false });
        let mut line = format!("{name}  {}", ByteSize(*bytes));
        if all || runs.contains(name) {
            match clean_run(stores, &root.join(name)) {
                Ok(done) => {
                    row["removed"] = true.into();
                    line = format!("removed {name} ({})", ByteSize(*bytes));
                    if let Some(file) = done.left.first() {
                        row["left"] = done.left.clone().into();
                        line += &format!("; its folder stays, for '{file}' in it was not written by the run");
                    }
                }
                // A user who named this run gets the error instead.
                Err(RunError::Running { holder, .. }) if all && !runs.contains(name) => {
                    row["running"] = holder.clone().into();
                    line += &format!("  left: it is running ({holder})");
                }
                Err(e) => return Err(say(e)),
            }
        }
        rows.push(row);
        if !as_json {
            outln!("{line}");
        }
    }
    if as_json {
        outln!("{}", json!({ "work_dir": root.to_string(), "runs": rows, "unmarked": found.unmarked }));
        return Ok(());
    }
    if found.runs.is_empty() {
        outln!("there are no runs in {root}");
    }
    for name in &found.unmarked {
        outln!(
            "{name}  left: it has no marker of a run (an earlier version left none); if it is one, delete '{}' yourself",
            root.join(name)
        );
    }
    Ok(())
}
