//! Files of one folder that appear together. They are written into a folder that listings leave out, and the folder is renamed when all of
//! them are there. Renaming each small file instead takes a tenth of the time of writing it.

use crate::local::{is_missing, staging, write};
use std::fs::{File, create_dir, create_dir_all, read_dir, remove_dir, remove_dir_all, rename};
use std::io::{Error, ErrorKind, Result, Write};
use std::path::{Path, PathBuf};

/// A folder that is not visible yet. Its content is removed when this is dropped.
pub(crate) struct Folder {
    staged: PathBuf,
    target: PathBuf,
}

impl Folder {
    /// `None` if the folder exists already. Its files are replaced one by one then.
    pub fn new(target: &Path) -> Result<Option<Folder>> {
        if target.exists() {
            return Ok(None);
        }
        let staged = staging(target);
        match create_dir(&staged) {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                create_dir_all(target.parent().ok_or(e)?)?;
                create_dir(&staged)?;
            }
            other => other?,
        }
        Ok(Some(Folder { staged, target: target.into() }))
    }

    /// Writes a file of the folder.
    pub fn write(&self, name: &str, data: &[u8]) -> Result<()> {
        match File::options().write(true).create_new(true).open(self.staged.join(name)).and_then(|mut file| file.write_all(data)) {
            // Another machine that runs the same plan on this filesystem has swept the folder away, because all files were there.
            Err(e) if is_missing(&e) => write(&self.target.join(name), data),
            other => other,
        }
    }

    /// Makes the folder visible under its name, with all its files.
    pub fn publish(self) -> Result<()> {
        match rename(&self.staged, &self.target) {
            // Another attempt at the task has written the same files.
            Err(e) if self.target.is_dir() => self.replace(e),
            other => other,
        }
    }

    /// Moves the files into a folder that exists already.
    fn replace(&self, cause: Error) -> Result<()> {
        for file in read_dir(&self.staged).into_iter().flatten() {
            let name = file?.file_name();
            match rename(self.staged.join(&name), self.target.join(&name)) {
                Err(e) if is_missing(&e) && self.target.join(&name).exists() => {}
                Err(_) => return Err(cause),
                Ok(()) => {}
            }
        }
        let _ = remove_dir(&self.staged);
        Ok(())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // It exists unless it has been renamed.
        if self.staged.exists() {
            let _ = remove_dir_all(&self.staged);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::{folders, list, names, sweep};

    fn listed(folder: &Path) -> Vec<(String, u64)> {
        let mut found = list(folder).unwrap();
        found.sort();
        found
    }

    fn all(files: &[(&str, u64)]) -> Vec<(String, u64)> {
        files.iter().map(|(name, size)| (name.to_string(), *size)).collect()
    }

    #[test]
    fn files_appear_together() {
        let base = tempfile::tempdir().unwrap();
        let target = base.path().join("c/7");
        let folder = Folder::new(&target).unwrap().unwrap();
        folder.write("0", b"a").unwrap();
        folder.write("1", b"bc").unwrap();
        assert!(listed(base.path()).is_empty() && folders(&base.path().join("c")).unwrap().is_empty());
        assert_eq!(names(base.path()).unwrap(), (Vec::new(), true));
        folder.publish().unwrap();
        assert_eq!(listed(base.path()), all(&[("c/7/0", 1), ("c/7/1", 2)]));
        assert!(!names(base.path()).unwrap().1);
        assert!(Folder::new(&target).unwrap().is_none());
    }

    #[test]
    fn what_is_not_published_leaves_nothing() {
        let base = tempfile::tempdir().unwrap();
        let folder = Folder::new(&base.path().join("c/7")).unwrap().unwrap();
        folder.write("0", b"a").unwrap();
        drop(folder);
        assert_eq!(names(base.path()).unwrap(), (Vec::new(), false));
    }

    #[test]
    fn two_attempts_at_once() {
        let base = tempfile::tempdir().unwrap();
        let target = base.path().join("c/7");
        let [one, two] = [0; 2].map(|_| Folder::new(&target).unwrap().unwrap());
        one.write("0", b"a").unwrap();
        two.write("0", b"a").unwrap();
        two.write("1", b"bc").unwrap();
        one.publish().unwrap();
        two.publish().unwrap();
        assert_eq!(listed(base.path()), all(&[("c/7/0", 1), ("c/7/1", 2)]));
        assert!(!names(base.path()).unwrap().1);
    }

    #[test]
    fn what_was_left_is_swept() {
        let base = tempfile::tempdir().unwrap();
        let left = base.path().join(format!("c/7#{:020}{:010}000001", 1, 1));
        create_dir_all(&left).unwrap();
        std::fs::write(left.join("0"), b"a").unwrap();
        let folder = Folder::new(&base.path().join("c/8")).unwrap().unwrap();
        folder.write("0", b"a").unwrap();
        // It belongs to this process, which may be at work.
        sweep(base.path(), false).unwrap();
        assert!(!left.exists() && folder.staged.exists());
        // Another machine that finds everything in its place does not know that.
        remove_dir_all(&folder.staged).unwrap();
        create_dir_all(&folder.target).unwrap();
        folder.write("1", b"bc").unwrap();
        folder.publish().unwrap();
        assert_eq!(listed(base.path()), all(&[("c/8/1", 2)]));
    }
}
