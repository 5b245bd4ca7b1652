//! Checks that places can be used, before anything is computed.
//!
//! For files, the system is asked, and nothing is touched. Object stores cannot be asked, so a small object is written and deleted again.

use crate::{Location, StorageError, Stores};
use std::path::{Path, PathBuf};

/// The object that is written to try an object store.
const PROBE: &str = ".chunkwise-write-test";

/// The deepest folder below an array in which a chunk is looked for.
const DEEPEST: usize = 64;

/// What the system allows.
#[derive(Clone, Copy)]
enum Right {
    /// To write into a folder.
    Write,
    /// To go into a folder.
    Enter,
}

#[cfg(target_os = "linux")]
fn ask(path: &Path, right: Right) -> std::io::Result<()> {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    let access = match right {
        Right::Write => Access::WRITE_OK | Access::EXEC_OK,
        Right::Enter => Access::EXEC_OK,
    };
    Ok(accessat(CWD, path, access, AtFlags::EACCESS)?)
}

/// On other systems, the first task finds out.
#[cfg(not(target_os = "linux"))]
fn ask(_: &Path, _: Right) -> std::io::Result<()> {
    Ok(())
}

fn denied(action: &'static str, at: &Location, why: String) -> StorageError {
    StorageError::PermissionDenied { action, url: at.to_string(), detail: why }
}

/// The nearest folder at or above a path that exists.
fn nearest(path: &Path) -> (PathBuf, std::io::Result<std::fs::Metadata>) {
    let mut at = path;
    loop {
        match std::fs::metadata(at) {
            Err(e) if matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => match at.parent() {
                Some(parent) => at = parent,
                None => return (at.into(), Err(e)),
            },
            found => return (at.into(), found),
        }
    }
}

/// Makes sure that objects can be written below a place.
///
/// # Errors
/// When objects cannot be written, with the folder that is in the way.
pub fn check_writable(stores: &Stores, at: &Location) -> Result<(), StorageError> {
    stores.check_allowed(at)?;
    if at.is_remote() {
        let store = stores.open(at)?;
        store.put(PROBE, &b""[..])?;
        // A user who may write but not delete can still run a plan that replaces nothing.
        let _ = store.delete(PROBE);
        return Ok(());
    }
    let Some(path) = at.local_path() else { return Ok(()) };
    let (folder, found) = nearest(&path);
    match found {
        Ok(m) if !m.is_dir() => Err(denied("write", at, format!("'{}' is a file, not a folder", folder.display()))),
        Ok(_) => ask(&folder, Right::Write).map_err(|e| denied("write", at, format!("the folder '{}': {e}", folder.display()))),
        Err(e) => Err(denied("write", at, format!("'{}': {e}", folder.display()))),
    }
}

/// Checks that the chunks of an array can be read, by the first one that is found. For object stores, reading the metadata has shown it
/// already.
///
/// # Errors
/// When chunks cannot be read, with the folder or file that is in the way.
pub fn check_readable(at: &Location) -> Result<(), StorageError> {
    // An array that is a file has been read when it was opened.
    let Some(mut path) = at.local_path().filter(|path| !path.is_file()) else { return Ok(()) };
    let denied = |path: &Path, e: std::io::Error| match e.kind() {
        std::io::ErrorKind::PermissionDenied => Err(denied("read", at, format!("'{}': {e}", path.display()))),
        // A task that needs the file reports any other problem.
        _ => Ok(()),
    };
    for _ in 0..DEEPEST {
        if let Err(e) = ask(&path, Right::Enter) {
            return denied(&path, e);
        }
        // A folder that cannot be listed may still have files that can be read by name.
        let Ok(entries) = std::fs::read_dir(&path) else { return Ok(()) };
        let is_chunk = |name: &std::ffi::OsStr| name.to_str().is_some_and(|n| n.starts_with(|c: char| c == 'c' || c.is_ascii_digit()));
        let next = entries.flatten().find(|e| is_chunk(&e.file_name()) && e.file_name() != "chunkwise.xxh3");
        let Some(next) = next.map(|e| e.path()) else { return Ok(()) };
        if next.is_file() {
            return std::fs::File::open(&next).map(|_| ()).or_else(|e| denied(&next, e));
        }
        // Anything that is neither a file nor a folder is refused when it is read.
        if !next.is_dir() {
            return Ok(());
        }
        path = next;
    }
    Ok(())
}
