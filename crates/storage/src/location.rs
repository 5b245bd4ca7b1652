//! Where things are: URLs and plain paths.

use crate::StorageError;
use std::path::{Component, Path, PathBuf};

/// A normalised URL of a folder: `file:///abs/path`, `memory:///name`, `s3://bucket/prefix`.
///
/// ```
/// use chunkwise_storage::Location;
/// let l = Location::parse("data/x.zarr", Some(std::path::Path::new("/base")))?;
/// assert_eq!(l.as_str(), "file:///base/data/x.zarr");
/// assert_eq!(l.join("u").as_str(), "file:///base/data/x.zarr/u");
/// # Ok::<(), chunkwise_storage::StorageError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Location {
    url: String,
}

impl Location {
    /// From a URL, or a path relative to `base` (to the current folder without it).
    pub fn parse(text: &str, base: Option<&Path>) -> Result<Location, StorageError> {
        let text = text.trim();
        let bad = |problem: &str| StorageError::Url { url: text.into(), problem: problem.into() };
        if text.is_empty() || text.contains('\0') {
            return Err(bad("it is empty or holds a NUL byte"));
        }
        if let Some(rest) = text.strip_prefix("memory:") {
            return Ok(Location { url: format!("memory:///{}", rest.trim_matches('/')) });
        }
        if let Some((scheme, rest)) = text.split_once("://")
            && scheme != "file"
        {
            if scheme != "s3" {
                return Err(bad("this version opens plain paths, file:, memory: and s3:// URLs"));
            }
            if rest.split('/').any(|p| p == "..") {
                return Err(bad("'..' is not allowed in a URL"));
            }
            return Ok(Location { url: format!("s3://{}", rest.trim_matches('/')) });
        }
        let path = text.strip_prefix("file://").or_else(|| text.strip_prefix("file:")).unwrap_or(text);
        let path = Path::new(path);
        let absolute = if path.is_absolute() {
            path.to_path_buf()
        } else {
            let base = match base {
                Some(b) => std::path::absolute(b),
                None => std::env::current_dir(),
            };
            base.map_err(|e| bad(&e.to_string()))?.join(path)
        };
        let mut clean = PathBuf::new();
        for part in absolute.components() {
            match part {
                Component::ParentDir => {
                    clean.pop();
                }
                Component::CurDir => {}
                other => clean.push(other),
            }
        }
        let clean = clean.to_str().ok_or_else(|| bad("the path is not UTF-8"))?;
        Ok(Location { url: format!("file://{}", clean.trim_end_matches('/')) })
    }

    /// A place below this one.
    pub fn join(&self, rel: &str) -> Location {
        let rel = rel.trim_matches('/');
        if rel.is_empty() { self.clone() } else { Location { url: format!("{}/{rel}", self.url) } }
    }

    /// The folder that holds this place; `None` at the root of a store.
    pub fn parent(&self) -> Option<Location> {
        let (scheme, path) = self.url.split_once("://")?;
        let cut = path.rfind('/')?;
        if cut == 0 && scheme != "s3" {
            return None;
        }
        Some(Location { url: format!("{scheme}://{}", &path[..cut]) })
    }

    /// The last part.
    pub fn name(&self) -> &str {
        self.url.rsplit('/').next().unwrap_or("")
    }

    /// The URL.
    pub fn as_str(&self) -> &str {
        &self.url
    }

    /// The path, if it is on this machine.
    pub fn local_path(&self) -> Option<PathBuf> {
        self.url.strip_prefix("file://").map(PathBuf::from)
    }
}

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.url.strip_prefix("file://").unwrap_or(&self.url))
    }
}
