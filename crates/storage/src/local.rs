//! The fast path of the local filesystem: direct reads, atomic writes and listings, on the calling thread.

use crate::input::modified;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;
use walkdir::{DirEntry, WalkDir};

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
    use std::io::{Seek, SeekFrom};
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(out)
}

/// Files of at least this size are read ahead.
const LARGE: u64 = 1 << 20;

/// Opens a file; `None` if there is none. A folder or a device in its place is an error. Otherwise it would read as the fill value.
fn regular(path: &Path) -> Result<Option<(File, Metadata)>> {
    let mut options = OpenOptions::new();
    options.read(true);
    // Opening a pipe would wait for its other end.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    let file = match options.open(path) {
        Err(e) if is_missing(&e) => return Ok(None),
        other => other?,
    };
    let meta = file.metadata()?;
    if !meta.is_file() {
        let what = if meta.is_dir() { "a folder" } else { "something that is no file" };
        return Err(Error::other(format!("{what} is in its place")));
    }
    Ok(Some((file, meta)))
}

/// Opens a file, and tells the system that it will be read from its beginning to its end. `None` if there is no such file.
pub(crate) fn open(path: &Path) -> Result<Option<(File, Metadata)>> {
    let Some((file, meta)) = regular(path)? else { return Ok(None) };
    #[cfg(target_os = "linux")]
    if meta.len() >= LARGE {
        // This is only advice. If a filesystem ignores it, reading works as before.
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Sequential);
    }
    Ok(Some((file, meta)))
}

/// The bytes of a file, or their number if that is too large.
pub(crate) type Bounded = std::result::Result<Vec<u8>, u64>;

/// The bytes of a file, or its size if that is more than `most`, with the file's metadata; `None` if there is none.
pub(crate) fn read(path: &Path, most: u64) -> Result<Option<(Bounded, Metadata)>> {
    let Some((file, meta)) = regular(path)? else { return Ok(None) };
    if meta.len() > most {
        return Ok(Some((Err(meta.len()), meta)));
    }
    // One byte more, so that the end is noticed at once.
    let mut data = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or(0).saturating_add(1));
    // The file may grow while it is read.
    file.take(most.saturating_add(1)).read_to_end(&mut data)?;
    let bytes = data.len() as u64;
    Ok(Some((if bytes > most { Err(bytes) } else { Ok(data) }, meta)))
}

/// A number for this machine, for use in a name.
fn machine() -> u64 {
    static OWN: OnceLock<u64> = OnceLock::new();
    *OWN.get_or_init(|| xxhash_rust::xxh3::xxh3_64(crate::machine().as_bytes()))
}

/// The number of digits for a machine, and for a process on it.
const MACHINE: usize = 20;
const PROCESS: usize = 10;

/// A name beside `path` that no other writer uses, and that listings leave out.
pub(crate) fn staging(path: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut name = path.as_os_str().to_owned();
    let (machine, pid, next) = (machine(), std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    name.push(format!("#{machine:0MACHINE$}{pid:0PROCESS$}{next:06}"));
    PathBuf::from(name)
}

/// The digits at the end of the name of an unfinished file or folder, after a `#`. `object_store` has the same rule.
fn staged(name: &str) -> Option<&str> {
    let (_, digits) = name.rsplit_once('#')?;
    (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())).then_some(digits)
}

/// True for the path of an unfinished file or folder, or of a file in an unfinished folder.
fn is_unfinished(path: &str) -> bool {
    path.contains('#') && path.split('/').any(|name| staged(name).is_some())
}

/// The machine and the process that a staging name belongs to.
fn owner(name: &str) -> Option<(u64, u32)> {
    let digits = staged(name)?;
    let (machine, pid) = (digits.get(..MACHINE)?, digits.get(MACHINE..MACHINE + PROCESS)?);
    Some((machine.parse().ok()?, pid.parse().ok()?))
}

/// Removes unfinished files below a folder that belong to processes on another machine, or that no longer run. If the folder is `whole`,
/// all unfinished files are removed, also those of writers that are still at work: a writer does not fail if its file was swept away and
/// the finished one is in its place.
pub(crate) fn sweep(folder: &Path, whole: bool) -> Result<()> {
    let mut walk = WalkDir::new(folder).min_depth(1).into_iter();
    while let Some(entry) = walk.next() {
        let Some(entry) = walked(entry).transpose()? else { continue };
        let name = entry.file_name().to_str();
        // Claims may be written at any time, also on other machines.
        let claim = name.is_some_and(|name| name.starts_with(".chunkwise-"));
        let left = |(on, pid): (u64, u32)| {
            let dead = pid != std::process::id() && !Path::new(&format!("/proc/{pid}")).exists();
            // If another machine writes a chunk now, the chunk exists already: `whole` is only given if all chunks do.
            if claim { on == machine() && dead } else { whole || on != machine() || dead }
        };
        if name.and_then(owner).is_some_and(left) {
            if entry.file_type().is_dir() {
                walk.skip_current_dir();
                let _ = std::fs::remove_dir_all(entry.path());
            } else {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
    Ok(())
}

/// Writes a file, whole or not at all. It has another name first.
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

/// Gives a file another place. False if it stays where it is.
pub(crate) fn take(source: &Path, path: &Path) -> bool {
    match std::fs::rename(source, path) {
        Err(e) if e.kind() == ErrorKind::NotFound && source.exists() => {
            path.parent().is_some_and(|folder| std::fs::create_dir_all(folder).is_ok()) && std::fs::rename(source, path).is_ok()
        }
        other => other.is_ok(),
    }
}

/// The time by the clock of a file's filesystem, which may be on another machine.
pub(crate) fn clock(path: &Path) -> Result<SystemTime> {
    let probe = staging(path);
    let asked = File::options().write(true).create_new(true).open(&probe).and_then(|mut f| {
        f.write_all(b".")?;
        f.metadata()?.modified()
    });
    let _ = std::fs::remove_file(&probe);
    match asked {
        // A process that may not write here uses its own clock.
        Err(e) if matches!(e.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) => Ok(SystemTime::now()),
        other => other,
    }
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

/// Replaces a file if it still has the old bytes. The process holds a lock on the file meanwhile, if the filesystem has locks.
pub(crate) fn swap(path: &Path, old: &[u8], new: &[u8]) -> Result<bool> {
    let mut file = match File::open(path) {
        Err(e) if is_missing(&e) => return Ok(false),
        other => other?,
    };
    match file.lock() {
        Err(e) if e.kind() == ErrorKind::Unsupported => {}
        other => other?,
    }
    let mut found = Vec::new();
    file.read_to_end(&mut found)?;
    // Another process may have replaced it before the lock was free.
    let now = std::fs::read(path);
    if found != old || !now.is_ok_and(|now| now == old) {
        return Ok(false);
    }
    write(path, new).map(|()| true)
}

/// An entry that a walk has found; `None` if it was removed since.
fn walked(entry: walkdir::Result<DirEntry>) -> Option<Result<DirEntry>> {
    match entry.map_err(Error::from) {
        Err(e) if is_missing(&e) => None,
        other => Some(other),
    }
}

/// The files below a folder, with links followed. Names are relative to the folder. There are none if it does not exist.
fn files(folder: &Path) -> impl Iterator<Item = Result<(String, DirEntry)>> {
    WalkDir::new(folder).min_depth(1).follow_links(true).into_iter().filter_map(walked).filter_map(move |entry| {
        let entry = match entry {
            Ok(entry) => entry,
            Err(e) => return Some(Err(e)),
        };
        // Names that are not Unicode are not keys of this program.
        let name = entry.path().strip_prefix(folder).ok().and_then(Path::to_str)?;
        let name = name.replace(std::path::MAIN_SEPARATOR, "/");
        entry.file_type().is_file().then_some(Ok((name, entry)))
    })
}

/// The finished files below a folder with their sizes in bytes.
pub(crate) fn list(folder: &Path) -> Result<Vec<(String, u64)>> {
    let mut out = Vec::new();
    for file in files(folder) {
        let (name, entry) = file?;
        if is_unfinished(&name) {
            continue;
        }
        match entry.metadata().map_err(Error::from) {
            Err(e) if is_missing(&e) => {}
            meta => out.push((name, meta?.len())),
        }
    }
    Ok(out)
}

/// The finished files below a folder that were written after a time, in nanoseconds since 1970.
pub(crate) fn newer(folder: &Path, time: u64) -> Result<Vec<String>> {
    let mut out = Vec::new();
    for file in files(folder) {
        let (name, entry) = file?;
        match entry.metadata().map_err(Error::from) {
            Err(e) if is_missing(&e) => {}
            meta => {
                if modified(&meta?) > time && !is_unfinished(&name) {
                    out.push(name);
                }
            }
        }
    }
    Ok(out)
}

/// The names of the finished files below a folder, and whether there are others. Looking at each file would take longer than everything
/// else.
pub(crate) fn names(folder: &Path) -> Result<(Vec<String>, bool)> {
    let (mut out, mut unfinished) = (Vec::new(), false);
    for file in files(folder) {
        let (name, _) = file?;
        match is_unfinished(&name) {
            true => unfinished = true,
            false => out.push(name),
        }
    }
    Ok((out, unfinished))
}

/// The names of the finished folders directly in a folder. There are none if it does not exist.
pub(crate) fn folders(folder: &Path) -> Result<Vec<String>> {
    let found = WalkDir::new(folder).min_depth(1).max_depth(1).follow_links(true).into_iter().filter_map(walked);
    let is_folder = |e: &Result<DirEntry>| e.as_ref().map_or(true, |e| e.file_type().is_dir());
    let name = |e: DirEntry| e.file_name().to_str().filter(|name| staged(name).is_none()).map(String::from);
    found.filter(is_folder).filter_map(|e| e.map(name).transpose()).collect()
}

/// Removes a file; it need not exist.
pub(crate) fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if is_missing(&e) => Ok(()),
        other => other,
    }
}

/// Removes a folder with everything in it, and returns how many files that were. Links are removed, but not their targets. If the folder
/// itself is a link, it stays, empty: a user has put it where there is room.
pub(crate) fn remove_all(folder: &Path) -> Result<u64> {
    let mut n = 0;
    if !folder.is_dir() {
        return Ok(n);
    }
    for entry in WalkDir::new(folder).min_depth(1).contents_first(true).into_iter().filter_map(walked) {
        let entry = entry?;
        if entry.file_type().is_dir() {
            // Not empty if another process writes into it right now.
            let _ = std::fs::remove_dir(entry.path());
        } else {
            remove(entry.path())?;
            n += 1;
        }
    }
    let _ = std::fs::remove_dir(folder);
    Ok(n)
}

/// Everything below a folder that is not a folder itself. This includes links, which are not followed.
pub(crate) fn entries(folder: &Path) -> Result<Vec<String>> {
    let mut out = Vec::new();
    for entry in WalkDir::new(folder).min_depth(1).into_iter().filter_map(walked) {
        let entry = entry?;
        if !entry.file_type().is_dir() {
            out.push(relative(folder, &entry));
        }
    }
    Ok(out)
}

fn relative(folder: &Path, entry: &DirEntry) -> String {
    let path = entry.path().strip_prefix(folder).unwrap_or(entry.path());
    path.to_string_lossy().replace(std::path::MAIN_SEPARATOR, "/")
}

/// Removes the files below a folder that are `ours`, and folders that become empty. Returns how many files that were, and the other files.
pub(crate) fn remove_ours(folder: &Path, ours: &dyn Fn(&str) -> bool, linked: bool) -> Result<(u64, Vec<String>)> {
    if !linked && folder.is_symlink() {
        return Err(Error::other("it is a symbolic link, and what it leads to is not deleted"));
    }
    let (mut n, mut left) = (0, Vec::new());
    if !folder.is_dir() {
        return Ok((n, left));
    }
    for entry in WalkDir::new(folder).min_depth(1).contents_first(true).into_iter().filter_map(walked) {
        let entry = entry?;
        if entry.file_type().is_dir() {
            // Not empty if there is something else in it.
            let _ = std::fs::remove_dir(entry.path());
            continue;
        }
        let name = relative(folder, &entry);
        if ours(&name) {
            remove(entry.path())?;
            n += 1;
        } else {
            left.push(name);
        }
    }
    let _ = std::fs::remove_dir(folder);
    Ok((n, left))
}

/// Bytes that may still be written at the place of a folder, which need not exist.
#[cfg(target_os = "linux")]
pub(crate) fn free_bytes(folder: &Path) -> Option<u64> {
    let at = folder.ancestors().find(|f| f.is_dir())?;
    let found = rustix::fs::statvfs(at).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn free_bytes(_: &Path) -> Option<u64> {
    None
}

/// Moves the content of an array's folder into a folder in it, the metadata first: half an array must not open. The inner folder has
/// another name until everything is in it, so that an interrupted move can go on.
pub(crate) fn set_aside(folder: &Path) -> Result<()> {
    let (moving, kept) = (folder.join(crate::replace::MOVING), folder.join(crate::replace::REPLACED));
    std::fs::create_dir_all(&moving)?;
    let move_in = |name: &std::ffi::OsStr| match std::fs::rename(folder.join(name), moving.join(name)) {
        Err(e) if is_missing(&e) => Ok(()),
        other => other,
    };
    crate::replace::METADATA.iter().try_for_each(|name| move_in(name.as_ref()))?;
    let names = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect::<Result<Vec<_>>>()?;
    let stays = |name: &&std::ffi::OsString| name.to_str().is_some_and(|n| n.starts_with(".chunkwise-") || n.starts_with(".nfs"));
    names.iter().filter(|name| !stays(name)).try_for_each(|name| move_in(name))?;
    std::fs::rename(&moving, &kept)
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

    #[cfg(unix)]
    #[test]
    fn listings_follow_links_and_leave_out_what_is_unfinished() {
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("a/c/0")).unwrap();
        std::fs::create_dir_all(at("empty")).unwrap();
        for (name, bytes) in [("a/zarr.json", 2), ("a/c/0/1", 3), ("top", 1)] {
            std::fs::write(at(name), vec![0; bytes]).unwrap();
        }
        std::fs::write(staging(&at("a/c/0/2")), b"x").unwrap();
        std::fs::write(elsewhere.path().join("far"), b"1234").unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), at("link")).unwrap();
        let sorted = |folder: &Path| {
            let mut found = list(folder).unwrap();
            found.sort();
            found
        };
        let found = sorted(folder.path());
        let found: Vec<(&str, u64)> = found.iter().map(|(k, n)| (k.as_str(), *n)).collect();
        assert_eq!(found, [("a/c/0/1", 3), ("a/zarr.json", 2), ("link/far", 4), ("top", 1)]);
        let (mut finished, unfinished) = names(folder.path()).unwrap();
        finished.sort();
        assert!(finished.iter().eq(found.iter().map(|(name, _)| name)) && unfinished, "{finished:?}");
        assert!(!names(&at("link")).unwrap().1);
        let mut folders_found = folders(folder.path()).unwrap();
        folders_found.sort();
        assert_eq!(folders_found, ["a", "empty", "link"]);
        assert_eq!((list(&at("none")).unwrap(), folders(&at("none")).unwrap()), (Vec::new(), Vec::new()));
        assert_eq!(names(&at("none")).unwrap(), (Vec::new(), false));

        // The target of a link stays, even if the folder itself is the link.
        assert_eq!(remove_all(&at("a")).unwrap(), 3);
        assert!(!at("a").exists());
        assert_eq!(remove_all(&at("link")).unwrap(), 1);
        assert!(at("link").is_dir() && elsewhere.path().is_dir());
        std::fs::write(at("link/far"), b"1234").unwrap();
        assert_eq!(remove_all(folder.path()).unwrap(), 2);
        assert!(!folder.path().exists() && elsewhere.path().join("far").exists());
        assert_eq!(remove_all(folder.path()).unwrap(), 0);
    }

    #[cfg(unix)]
    #[test]
    fn links_in_a_circle_are_an_error() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(folder.path(), folder.path().join("round")).unwrap();
        assert!(list(folder.path()).is_err());
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
        sweep(folder.path(), false).unwrap();
        let mut left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().path()).collect();
        left.sort();
        assert_eq!(left, [own, folder.path().join("1")]);
    }
}
