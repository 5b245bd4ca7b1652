//! The fast path of the local filesystem: plain reads into place and atomic writes, on the thread that asks.

use std::fs::File;
use std::io::{Error, ErrorKind, Result, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// True if the error says that there is no such object.
pub(crate) fn is_missing(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory)
}

#[cfg(unix)]
pub(crate) fn read_at(file: &File, out: &mut [u8], offset: u64) -> Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, out, offset)
}

#[cfg(not(unix))]
pub(crate) fn read_at(mut file: &File, out: &mut [u8], offset: u64) -> Result<()> {
    use std::io::{Read, Seek, SeekFrom};
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(out)
}

/// Files from this size on are read ahead.
const LARGE: u64 = 1 << 20;

/// Opens a file, and tells the system that it will be read from its beginning to its end. `None` if there is no such file.
pub(crate) fn open(path: &Path) -> Result<Option<(File, u64)>> {
    let file = match File::open(path) {
        Err(e) if is_missing(&e) => return Ok(None),
        other => other?,
    };
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Ok(None);
    }
    #[cfg(target_os = "linux")]
    if meta.len() >= LARGE {
        // Only advice: a filesystem that does not take it reads as before.
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Sequential);
    }
    Ok(Some((file, meta.len())))
}

/// Where process ids mean something: this machine since it was started, and the container. On a filesystem that many nodes share, or many
/// containers whose processes are all number 1, an id alone says little.
fn machine() -> u64 {
    static OWN: OnceLock<u64> = OnceLock::new();
    *OWN.get_or_init(|| {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let space = std::fs::read_link("/proc/self/ns/pid").map(|p| p.display().to_string()).unwrap_or_default();
        let text = format!("{} {} {space}", read("/proc/sys/kernel/hostname"), read("/proc/sys/kernel/random/boot_id"));
        xxhash_rust::xxh3::xxh3_64(text.as_bytes())
    })
}

/// Digits of a machine, and of a process on it.
const MACHINE: usize = 20;
const PROCESS: usize = 10;

/// A name beside `path` that no other writer uses. Names with `#` and digits are those that `object_store` takes for unfinished
/// uploads and leaves out of listings.
fn staging(path: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut name = path.as_os_str().to_owned();
    let (machine, pid, next) = (machine(), std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    name.push(format!("#{machine:0MACHINE$}{pid:0PROCESS$}{next:06}"));
    PathBuf::from(name)
}

/// The machine and the process that a staging name belongs to.
fn owner(name: &str) -> Option<(u64, u32)> {
    let (_, digits) = name.rsplit_once('#')?;
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let (machine, pid) = (digits.get(..MACHINE)?, digits.get(MACHINE..MACHINE + PROCESS)?);
    Some((machine.parse().ok()?, pid.parse().ok()?))
}

/// Removes what processes that no longer run, or run elsewhere, have left unfinished below a folder that is complete.
pub(crate) fn sweep(folder: &Path) -> Result<()> {
    let entries = match std::fs::read_dir(folder) {
        Err(e) if is_missing(&e) => return Ok(()),
        other => other?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sweep(&entry.path())?;
        } else if let Some((on, pid)) = entry.file_name().to_str().and_then(owner)
            // What another machine writes now is there already: this is asked for when everything is.
            && (on != machine() || (pid != std::process::id() && !Path::new(&format!("/proc/{pid}")).exists()))
        {
            let _ = std::fs::remove_file(entry.path());
        }
    }
    Ok(())
}

/// Writes a file, whole or not at all: under another name first.
pub(crate) fn write(path: &Path, data: &[u8]) -> Result<()> {
    let staged = staging(path);
    let create = || File::options().write(true).create_new(true).open(&staged);
    let file = match create() {
        Err(e) if e.kind() == ErrorKind::NotFound => {
            let folder = path.parent().ok_or(e)?;
            std::fs::create_dir_all(folder)?;
            create()
        }
        other => other,
    };
    let written = file.and_then(|mut f| f.write_all(data)).and_then(|()| match std::fs::rename(&staged, path) {
        // Swept away by another machine that runs the same plan on this filesystem, after it wrote the same bytes.
        Err(e) if e.kind() == ErrorKind::NotFound && path.exists() => Ok(()),
        other => other,
    });
    if written.is_err() {
        let _ = std::fs::remove_file(&staged);
    }
    written
}

/// Writes a file, unless there is one. It appears with its content.
pub(crate) fn create(path: &Path, data: &[u8]) -> Result<bool> {
    let staged = staging(path);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let linked = std::fs::write(&staged, data).and_then(|()| std::fs::hard_link(&staged, path));
    let _ = std::fs::remove_file(&staged);
    match linked {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(false),
        // Filesystems without hard links.
        Err(e) if matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::PermissionDenied) => {
            match File::options().write(true).create_new(true).open(path) {
                Ok(mut file) => file.write_all(data).map(|()| true),
                Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(false),
                Err(e) => Err(e),
            }
        }
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_unfinished_files() {
        let name = |p: PathBuf| p.file_name().unwrap().to_str().unwrap().to_string();
        let (a, b) = (name(staging(Path::new("/x/c/0"))), name(staging(Path::new("/x/c/0"))));
        assert_ne!(a, b);
        assert!(a.starts_with("0#"));
        assert_eq!(owner(&a), Some((machine(), std::process::id())));
        for other in ["0", "0#", "0#12", "0#12x", "zarr.json", "0#123456789012345678901234567x"] {
            assert_eq!(owner(other), None, "{other}");
        }
    }

    #[test]
    fn what_others_left_is_swept() {
        let folder = tempfile::tempdir().unwrap();
        let own = staging(&folder.path().join("0"));
        let elsewhere = format!("0#{:020}{:010}000001", machine() ^ 1, std::process::id());
        // No process has this number.
        let gone = format!("0#{:020}{:010}000001", machine(), u32::MAX);
        for path in [own.clone(), folder.path().join(elsewhere), folder.path().join(gone), folder.path().join("1")] {
            std::fs::write(path, b"x").unwrap();
        }
        sweep(folder.path()).unwrap();
        let mut left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().path()).collect();
        left.sort();
        assert_eq!(left, [own, folder.path().join("1")]);
    }
}
