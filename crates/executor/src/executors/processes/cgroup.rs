//! A control group of the operating system that holds one worker to its memory: cgroup v2 if it can be written, else v1.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A group below our own, removed when it is dropped.
pub(crate) struct MemoryGroup {
    path: PathBuf,
    version: Version,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Version {
    V1,
    V2,
}

/// Where groups can be made.
struct Place {
    folder: PathBuf,
    version: Version,
}

/// The names of our groups consist of the process that made them and a number.
fn name(pid: u32, number: u64) -> String {
    format!("chunkwise-{pid}-{number}")
}

fn owner(name: &str) -> Option<u32> {
    name.strip_prefix("chunkwise-")?.split('-').next()?.parse().ok()
}

/// Our own groups, by what the kernel says: lines `id:controllers:path`, and mounts.
fn places() -> Vec<Place> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    // A line is: id, parent, device, root, mount point, options, ..., "-", type, source, options.
    let mounted = |kind: &str, option: Option<&str>| {
        mounts.lines().find_map(|line| {
            let (front, back) = line.split_once(" - ")?;
            let (mut front, mut back) = (front.split(' ').skip(3), back.split(' '));
            let (root, point) = (front.next()?, front.next()?);
            let fits = back.next()? == kind && option.is_none_or(|o| back.nth(1).is_some_and(|all| all.split(',').any(|x| x == o)));
            fits.then(|| (root.to_string(), PathBuf::from(point)))
        })
    };
    let mut found = Vec::new();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(id), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let (mount, version) = match (id, controllers.split(',').any(|c| c == "memory")) {
            ("0", _) if controllers.is_empty() => (mounted("cgroup2", None), Version::V2),
            (_, true) => (mounted("cgroup", Some("memory")), Version::V1),
            _ => continue,
        };
        let Some((root, point)) = mount else { continue };
        // In a container, the mount shows only a part of the tree.
        let below = path.strip_prefix(root.trim_end_matches('/')).unwrap_or(path);
        let folder = point.join(below.trim_start_matches('/'));
        let parent = folder.parent().filter(|p| p.starts_with(&point)).map(Path::to_path_buf);
        // A v2 group that contains processes cannot have limited groups below it, but may have them beside it.
        found.extend([Some(folder), parent].into_iter().flatten().map(|folder| Place { folder, version }));
    }
    found.sort_by_key(|p| p.version != Version::V2);
    found
}

/// Removes the groups of processes that no longer run.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if let Some(pid) = entry.file_name().to_str().and_then(owner)
            && !Path::new(&format!("/proc/{pid}")).exists()
        {
            // This fails, as it should, while something runs in the group.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

impl MemoryGroup {
    /// A new group that may use this many bytes.
    ///
    /// # Errors
    /// When the system has no such groups, or does not allow them. The text says what was tried.
    pub fn create(number: u64, limit: u64) -> Result<MemoryGroup, String> {
        let mut problems = Vec::new();
        for place in places() {
            sweep(&place.folder);
            let group = MemoryGroup { path: place.folder.join(name(std::process::id(), number)), version: place.version };
            match group.make(limit) {
                Ok(()) => return Ok(group),
                Err(e) => problems.push(format!("{}: {e}", group.path.display())),
            }
        }
        Err(if problems.is_empty() { "this system has no memory cgroups".into() } else { problems.join("; ") })
    }

    fn make(&self, limit: u64) -> io::Result<()> {
        fs::create_dir(&self.path)?;
        let write = |file: &str, value: &str| fs::write(self.path.join(file), value);
        match self.version {
            Version::V1 => {
                write("memory.limit_in_bytes", &limit.to_string())?;
                // Without swap accounting, this file does not exist.
                let _ = write("memory.memsw.limit_in_bytes", &limit.to_string());
            }
            Version::V2 => {
                write("memory.max", &limit.to_string())?;
                let _ = write("memory.swap.max", "0");
            }
        }
        Ok(())
    }

    /// Puts a process into it.
    pub fn add(&self, pid: u32) -> io::Result<()> {
        fs::write(self.path.join("cgroup.procs"), pid.to_string())
    }

    /// How many processes the kernel has killed in it because they used too much.
    pub fn kills(&self) -> u64 {
        let file = if self.version == Version::V1 { "memory.oom_control" } else { "memory.events" };
        let text = fs::read_to_string(self.path.join(file)).unwrap_or_default();
        text.lines().find_map(|l| l.strip_prefix("oom_kill ")?.trim().parse().ok()).unwrap_or(0)
    }

    /// Its peak memory in bytes, file cache included.
    pub fn peak(&self) -> Option<u64> {
        let file = if self.version == Version::V1 { "memory.max_usage_in_bytes" } else { "memory.peak" };
        fs::read_to_string(self.path.join(file)).ok()?.trim().parse().ok()
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // A process that has just ended may still be counted.
        for _ in 0..50 {
            match fs::remove_dir(&self.path) {
                Err(e) if e.kind() == io::ErrorKind::ResourceBusy => std::thread::sleep(std::time::Duration::from_millis(2)),
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(owner(&name(42, 7)), Some(42));
        assert_eq!(owner("chunkwise"), None);
        assert_eq!(owner("system.slice"), None);
    }
}
