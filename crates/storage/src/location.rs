//! Where things are: URLs and plain paths.

use crate::{StorageError, trust};
use chunkwise_types::{is_remote, without_secrets};
use std::path::{Component, Path, PathBuf};

/// A normalised URL of a folder: `file:///abs/path`, `memory:///name`, `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix`,
/// `https://host/prefix`. Parsing it again gives the same location.
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
    pub(crate) url: String,
}

impl Location {
    /// From a URL, or from a path relative to `base` (or to the current folder). The base may be a URL, too.
    pub fn parse(text: &str, base: Option<&Path>) -> Result<Location, StorageError> {
        let text = text.trim_start();
        // Names may end in spaces. In a URL, which a plan may contain, they are meant.
        let text = if text.starts_with("file:") || text.starts_with("memory:") || text.contains("://") { text } else { text.trim_end() };
        let bad = |problem: &str| StorageError::Url { url: without_secrets(text), problem: problem.into() };
        if text.is_empty() || text.contains('\0') {
            return Err(bad("it is empty or holds a NUL byte"));
        }
        if let Some(rest) = text.strip_prefix("memory:") {
            return Ok(Location { url: format!("memory:///{}", rest.trim_matches('/')) });
        }
        if let Some((scheme, rest)) = text.split_once("://")
            && scheme != "file"
        {
            if !is_remote(text) {
                let meant = [("s3a", "s3"), ("s3n", "s3"), ("gcs", "gs"), ("abfs", "az"), ("azure", "az")];
                return Err(match meant.iter().find(|(s, _)| *s == scheme) {
                    Some((_, known)) => bad(&format!("write {known}:// instead of {scheme}://")),
                    None => bad("there are plain paths, and file:, memory:, s3://, gs://, az://, http:// and https:// URLs"),
                });
            }
            let rest = rest.trim_matches('/');
            if rest.is_empty() {
                return Err(bad("it names no bucket or host"));
            }
            if rest.split('/').any(|part| part.ends_with(char::is_whitespace)) {
                return Err(bad("it, or a folder in it, ends in a space or a line break"));
            }
            if rest.split('/').any(|p| p == "..") {
                return Err(bad("'..' is not allowed in a URL"));
            }
            if rest.contains(['?', '#']) || rest.split('/').next().is_some_and(|host| host.contains('@')) {
                return Err(bad("it has a user, a query or a fragment; secrets do not belong in a URL, and there is no use for the rest"));
            }
            trust::check_bucket(scheme, rest.split('/').next().unwrap_or_default()).map_err(|problem| bad(&problem))?;
            return Ok(Location { url: format!("{scheme}://{rest}") });
        }
        if let Some(base) = base.and_then(Path::to_str).filter(|b| is_remote(b) && !text.starts_with('/') && !text.starts_with("file:")) {
            return Location::parse(&format!("{}/{text}", base.trim_end_matches('/')), None);
        }
        let path = text.strip_prefix("file://").map(|path| if path.is_empty() { "/" } else { path });
        let path = path.or_else(|| text.strip_prefix("file:")).unwrap_or(text);
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
        if clean.contains('\0') {
            return Err(bad("the folder that it is relative to holds a NUL byte"));
        }
        Ok(Location { url: format!("file://{clean}") })
    }

    /// A place below this one.
    pub fn join(&self, rel: &str) -> Location {
        let rel = rel.trim_matches('/');
        // Only the roots of filesystems and of memory end in a slash.
        let slash = if self.url.ends_with('/') { "" } else { "/" };
        if rel.is_empty() { self.clone() } else { Location { url: format!("{}{slash}{rel}", self.url) } }
    }

    /// The folder that contains this place; `None` at the root of a store.
    pub fn parent(&self) -> Option<Location> {
        let (scheme, path) = self.url.split_once("://")?;
        let above = path[..path.rfind('/')?].trim_end_matches('/');
        if above.is_empty() {
            return None;
        }
        Some(Location { url: format!("{scheme}://{above}") })
    }

    /// The last part.
    pub fn name(&self) -> &str {
        self.url.rsplit('/').next().unwrap_or("")
    }

    /// The URL as text.
    pub fn as_str(&self) -> &str {
        &self.url
    }

    /// True if it is in an object store, where requests take long.
    pub fn is_remote(&self) -> bool {
        is_remote(&self.url)
    }

    /// The path, if it is on this machine.
    pub fn local_path(&self) -> Option<PathBuf> {
        self.url.strip_prefix("file://").map(PathBuf::from)
    }

    /// Refuses the root of the file system, which is no place for an array.
    ///
    /// # Errors
    /// When it is the root.
    pub fn check_not_root(&self) -> Result<(), StorageError> {
        if self.local_path().is_some_and(|p| p.parent().is_none()) {
            let problem = "the root of the file system is no place for an array; name a folder".into();
            return Err(StorageError::Url { url: "/".into(), problem });
        }
        Ok(())
    }
}

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.url.strip_prefix("file://").unwrap_or(&self.url))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> String {
        Location::parse(text, Some(Path::new("/base"))).map_or_else(|e| e.to_string(), |l| l.as_str().into())
    }

    #[test]
    fn urls_of_object_stores() {
        assert_eq!(parse("s3://b/x/y/"), "s3://b/x/y");
        assert_eq!(parse("gs://b"), "gs://b");
        assert_eq!(parse("https://host:8000/x.zarr"), "https://host:8000/x.zarr");
        for (text, word) in [
            ("gcs://b/x", "write gs://"),
            ("ftp://b/x", "there are plain paths"),
            ("s3:///x/../y", "'..'"),
            ("s3://", "names no bucket"),
            ("https://user:pw@host/x", "secrets"),
            ("https://host/x?sig=1", "secrets"),
            ("s3://a b/x", "no bucket"),
            ("https://good\\.evil/x", "no host"),
        ] {
            assert!(parse(text).contains(word), "{text}: {}", parse(text));
        }
    }

    #[test]
    fn what_is_parsed_stays_the_same() {
        for (text, url) in [
            ("/", "file:///"),
            ("file://", "file:///"),
            ("file:///", "file:///"),
            ("/x/..", "file:///"),
            ("x /", "file:///base/x "),
            (" x ", "file:///base/x"),
            ("file:///base/x ", "file:///base/x "),
            ("file: x\n", "file:///base/ x\n"),
            ("/a//b/./c/", "file:///a/b/c"),
            ("file:///a://b", "file:///a:/b"),
            ("memory:", "memory:///"),
            ("memory: x /", "memory:/// x "),
            ("memory:a://b", "memory:///a://b"),
            ("s3://b//x/", "s3://b//x"),
            (" s3://b/x y", "s3://b/x y"),
        ] {
            assert_eq!(parse(text), url, "{text:?}");
            assert_eq!(parse(url), url, "{text:?}");
            assert_eq!(parse(&(url.to_string() + "/")), url, "{text:?}");
        }
        // In the key of an object it could be intended, but hardly ever is.
        for text in ["s3://b/x ", "s3://b/x\n", "s3://b/x /y", "https://host/x /", "s3://b /"] {
            assert!(parse(text).contains("in a space") || parse(text).contains("no bucket"), "{text:?}: {}", parse(text));
        }
    }

    #[test]
    fn relative_to_what_is_no_folder() {
        assert!(Location::parse("x", Some(Path::new("/a\0b"))).is_err());
    }

    #[test]
    fn roots() {
        for (root, below) in [("/", "file:///x"), ("memory:", "memory:///x"), ("s3://b", "s3://b/x")] {
            let root = Location::parse(root, None).unwrap();
            assert_eq!(root.join("x").as_str(), below);
            assert_eq!(root.join("x").join("y").parent().unwrap().as_str(), below);
            assert_eq!((root.name().is_empty(), root.parent()), (!root.is_remote(), None));
        }
        let root = Location::parse("/", None).unwrap();
        assert_eq!((root.to_string().as_str(), root.local_path()), ("/", Some(PathBuf::from("/"))));
        assert!(root.check_not_root().is_err());
        assert_eq!(Location::parse("s3://b//x", None).unwrap().parent().unwrap().as_str(), "s3://b");
    }

    #[test]
    fn relative_to_a_url() {
        let at = |text: &str| Location::parse(text, Some(Path::new("s3://b/dir"))).unwrap().as_str().to_string();
        assert_eq!(at("in.zarr/u"), "s3://b/dir/in.zarr/u");
        assert_eq!(at("/abs"), "file:///abs");
        assert_eq!(at("gs://c/x"), "gs://c/x");
        let l = Location::parse("s3://b/x", None).unwrap();
        assert_eq!(l.parent().unwrap().as_str(), "s3://b");
        assert_eq!(l.parent().unwrap().parent(), None);
    }
}
