//! The default work directory.
//!
//! Intermediates are large, and belong to the person who runs the pipeline. So the default is a folder of that person alone, for large
//! temporary files: in `$TMPDIR` if that is set, else in `/var/tmp`. Unlike `/tmp`, `/var/tmp` is always on a disk, and is not emptied when
//! the machine starts. Caches in a home folder would fill quotas. The folder must be a real one, and belong to the user. Otherwise the user
//! is told, and nothing is written.

use crate::{Location, StorageError};
use std::path::{Path, PathBuf};

/// The folder for large temporary files.
#[cfg(target_os = "linux")]
fn temporary() -> PathBuf {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    let large = Path::new("/var/tmp");
    let usable = || accessat(CWD, large, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS).is_ok();
    match std::env::var_os("TMPDIR").filter(|t| !t.is_empty()) {
        None if usable() => large.into(),
        _ => std::env::temp_dir(),
    }
}

/// The work directory if the user names none.
#[cfg(target_os = "linux")]
pub fn default_work_dir() -> PathBuf {
    temporary().join(format!("chunkwise-{}", rustix::process::geteuid().as_raw()))
}

/// The work directory if the user names none. On other systems the folder of temporary files belongs to the user.
#[cfg(not(target_os = "linux"))]
pub fn default_work_dir() -> PathBuf {
    std::env::temp_dir().join("chunkwise")
}

/// Makes the default work directory, for its owner alone. Other work directories are the responsibility of their users and are left as they
/// are.
///
/// # Errors
/// When it is a link or not a folder, or belongs to another user.
pub fn prepare_work_dir(at: &Location) -> Result<(), StorageError> {
    let path = default_work_dir();
    let is_default = Location::parse(&path.display().to_string(), None).is_ok_and(|default| default == *at);
    if is_default { prepare(&path, at) } else { Ok(()) }
}

#[cfg(target_os = "linux")]
fn prepare(path: &Path, at: &Location) -> Result<(), StorageError> {
    use rustix::fs::{Mode, OFlags, fchmod, fstat, mkdir, open};
    let refuse = |why: String| {
        let detail = format!("{why}; the default work directory must be a folder of yours: remove it, or name another with --work-dir");
        StorageError::PermissionDenied { action: "use", url: at.to_string(), detail }
    };
    let failed = |e: rustix::io::Errno| StorageError::of_io("write", at.to_string(), &e.into());
    let owner_only = Mode::RWXU;
    match mkdir(path, owner_only) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(rustix::io::Errno::NOENT) => {
            std::fs::create_dir_all(path.parent().unwrap_or(path)).map_err(|e| StorageError::of_io("write", at.to_string(), &e))?;
            mkdir(path, owner_only).or_else(|e| if e == rustix::io::Errno::EXIST { Ok(()) } else { Err(e) }).map_err(failed)?;
        }
        Err(e) => return Err(failed(e)),
    }
    let folder = match open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
        Ok(folder) => folder,
        Err(rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR) => {
            let what = if path.is_symlink() { "it is a symbolic link" } else { "it is no folder" };
            return Err(refuse(what.into()));
        }
        Err(rustix::io::Errno::ACCESS) => return Err(refuse("it belongs to somebody else".into())),
        Err(e) => return Err(failed(e)),
    };
    let found = fstat(&folder).map_err(failed)?;
    if found.st_uid != rustix::process::geteuid().as_raw() {
        return Err(refuse(format!("it belongs to the user {}, not to you", found.st_uid)));
    }
    if found.st_mode & 0o777 != owner_only.bits() {
        fchmod(&folder, owner_only).map_err(failed)?;
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn prepare(path: &Path, at: &Location) -> Result<(), StorageError> {
    let failed = |e: std::io::Error| StorageError::of_io("write", at.to_string(), &e);
    std::fs::create_dir_all(path).map_err(failed)?;
    if path.is_symlink() {
        let detail = "it is a symbolic link; remove it, or name another work directory with --work-dir".into();
        return Err(StorageError::PermissionDenied { action: "use", url: at.to_string(), detail });
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // Only its owner may do that.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).map_err(failed)?;
    }
    Ok(())
}
