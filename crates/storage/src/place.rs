//! The identity of a place, whatever its name is.
//!
//! Two URLs may lead to one folder: by a symbolic link, by `.` and `..`, by a mount, or by another name of the same server. So places are
//! compared by what they are. A folder is identified by its device and its inode number. A folder that does not exist yet is identified by
//! its nearest existing parent. An object is identified by the address of its server, its bucket and its key. Only this module decides
//! whether two places are the same.

use crate::remote::{self, variable};
use crate::{Location, StorageError, Stores};
use chunkwise_types::PROGRAM_SCHEME;
use percent_encoding::percent_decode_str;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The largest number of links that are followed one after another.
const MOST_LINKS: usize = 40;

/// The identity of a place and of everything above it.
///
/// ```
/// use chunkwise_storage::{Location, Place, Stores};
/// let stores = Stores::new();
/// let place = |text: &str| Place::of(&stores, &Location::parse(text, None)?);
/// assert!(place("memory:a/b")?.overlaps(&place("memory:a")?));
/// assert!(!place("memory:a/b")?.overlaps(&place("memory:a/c")?));
/// # Ok::<(), chunkwise_storage::StorageError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// From the root down to the place itself.
    names: Vec<String>,
}

/// The place that another place is too near to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Near {
    /// The place with this index among those that are read.
    Read(usize),
    /// The place with this index among those that are written.
    Written(usize),
}

impl Place {
    /// Finds out what a URL leads to. It need not exist.
    ///
    /// # Errors
    /// When a folder cannot be examined, or a store cannot be opened.
    pub fn of(stores: &Stores, location: &Location) -> Result<Place, StorageError> {
        stores.check_allowed(location)?;
        location.check_not_root()?;
        let names = match location.local_path() {
            Some(path) => of_path(&path).map_err(|e| StorageError::of_io("look at", location.to_string(), &e))?,
            None => of_object(stores, location)?,
        };
        Ok(Place { names })
    }

    /// The places of an array that is read: its folder, and that of its chunks if the latter is a link.
    ///
    /// # Errors
    /// As [`Place::of`].
    pub fn of_array(stores: &Stores, location: &Location) -> Result<Vec<Place>, StorageError> {
        let mut out = vec![Place::of(stores, location)?];
        let chunks = location.join("c");
        if chunks.local_path().is_some_and(|p| p.is_symlink()) {
            out.push(Place::of(stores, &chunks)?);
        }
        Ok(out)
    }

    /// A place by its URL alone, if its target cannot be examined. Other places are compared with it by their URLs.
    pub fn by_name(location: &Location) -> Place {
        let mut names: Vec<String> = Vec::new();
        for part in location.as_str().split('/').filter(|p| !p.is_empty()) {
            names.push(names.last().map_or_else(|| part.to_string(), |above| format!("{above}/{part}")));
        }
        // A scheme alone contains nothing.
        Place { names: names.split_off(1.min(names.len())) }
    }

    fn own(&self) -> &str {
        self.names.last().map_or("", String::as_str)
    }

    /// True if the places are the same, or if one contains the other.
    pub fn overlaps(&self, other: &Place) -> bool {
        let inside = |a: &Place, b: &Place| a.names.iter().any(|n| n == b.own());
        inside(self, other) || inside(other, self)
    }

    /// The first written place that equals, contains or lies in a place that is read, or in another one that is written.
    pub fn first_overlap(read: &[Place], written: &[Place]) -> Option<(usize, Near)> {
        fn own(places: &[Place]) -> HashMap<&str, usize> {
            // If several have one name, the first one counts.
            places.iter().enumerate().rev().map(|(i, p)| (p.own(), i)).collect()
        }
        let (inputs, outputs) = (own(read), own(written));
        for (i, place) in written.iter().enumerate() {
            for name in place.names.iter().map(String::as_str) {
                if let Some(&r) = inputs.get(name) {
                    return Some((i, Near::Read(r)));
                }
                if let Some(&o) = outputs.get(name).filter(|&&o| o != i) {
                    return Some((i, Near::Written(o)));
                }
            }
        }
        let holds = |(r, place): (usize, &Place)| place.names.iter().find_map(|n| Some((*outputs.get(n.as_str())?, Near::Read(r))));
        read.iter().enumerate().find_map(holds)
    }
}

/// The deepest existing folder of a path, with its real name, and the parts below it that do not exist.
fn resolve(path: &Path) -> std::io::Result<(PathBuf, Vec<String>)> {
    let (mut path, mut links) = (path.to_path_buf(), 0);
    'again: loop {
        let (mut at, mut rest) = (path.as_path(), Vec::new());
        loop {
            match at.canonicalize() {
                Ok(real) => {
                    rest.reverse();
                    return Ok((real, rest));
                }
                Err(e) if crate::local::is_missing(&e) => {}
                Err(e) => return Err(e),
            }
            // A link whose target does not exist yet.
            if let Ok(target) = std::fs::read_link(at) {
                links += 1;
                if links > MOST_LINKS {
                    return Err(std::io::Error::other("too many symbolic links"));
                }
                let mut next = at.parent().unwrap_or(Path::new("/")).join(target);
                next.extend(rest.iter().rev());
                path = next;
                continue 'again;
            }
            let (Some(parent), Some(name)) = (at.parent(), at.file_name()) else { return Ok((at.to_path_buf(), rest)) };
            rest.push(name.to_string_lossy().into_owned());
            at = parent;
        }
    }
}

#[cfg(unix)]
fn identity(folder: &Path) -> std::io::Result<String> {
    use std::os::unix::fs::MetadataExt;
    let m = std::fs::metadata(folder)?;
    Ok(format!("{}:{}", m.dev(), m.ino()))
}

#[cfg(not(unix))]
fn identity(folder: &Path) -> std::io::Result<String> {
    Ok(folder.to_string_lossy().to_lowercase())
}

fn of_path(path: &Path) -> std::io::Result<Vec<String>> {
    let (real, rest) = resolve(path)?;
    let above: Vec<&Path> = real.ancestors().collect();
    let mut names = above.into_iter().rev().map(identity).collect::<std::io::Result<Vec<_>>>()?;
    let mut name = names.last().cloned().unwrap_or_default();
    for part in rest {
        name = format!("{name}/{part}");
        names.push(name.clone());
    }
    Ok(names)
}

/// The host and the port of a server, in a unique form, and the parts of its path.
fn server(url: &str) -> (String, Vec<String>) {
    let Ok(url) = url::Url::parse(url) else { return (url.to_string(), Vec::new()) };
    let host = url.host_str().unwrap_or_default().trim_end_matches('.').to_ascii_lowercase();
    let host = if matches!(host.as_str(), "127.0.0.1" | "[::1]") { "localhost".into() } else { host };
    let path = url.path().split('/').filter(|p| !p.is_empty()).map(decoded).collect();
    (url.port().map_or(host.clone(), |port| format!("{host}:{port}")), path)
}

/// A part of the path of a URL without its escapes.
fn decoded(part: &str) -> String {
    percent_decode_str(part).decode_utf8_lossy().into_owned()
}

/// The hosts of clouds where the bucket is the first part of the path, or precedes the host.
fn of_cloud(host: &str) -> Option<(&'static str, Option<&str>)> {
    let s3 = |rest: &str| rest.ends_with(".amazonaws.com") || rest.ends_with(".amazonaws.com.cn");
    let is_s3 = |h: &str| s3(h) && (h.starts_with("s3.") || h.starts_with("s3-"));
    if is_s3(host) {
        return Some(("s3.amazonaws.com", None));
    }
    if host == "storage.googleapis.com" {
        return Some(("storage.googleapis.com", None));
    }
    if let Some(bucket) = host.strip_suffix(".storage.googleapis.com") {
        return Some(("storage.googleapis.com", Some(bucket)));
    }
    // Names of buckets may contain dots.
    let at = host.match_indices(".s3").map(|(i, _)| i).find(|i| is_s3(&host[i + 1..]))?;
    Some(("s3.amazonaws.com", Some(&host[..at])))
}

/// The parts that identify an object: the server, then the bucket, then the key.
fn of_object(stores: &Stores, location: &Location) -> Result<Vec<String>, StorageError> {
    let (scheme, bucket, key) = remote::parts(location);
    let mut parts: Vec<String> = Vec::new();
    let own = |url: &str| {
        let (host, path) = server(url);
        // `bucket.endpoint/key` is `endpoint/bucket/key`.
        let host = host.strip_prefix(&format!("{bucket}.")).map_or(host.clone(), String::from);
        let host = of_cloud(&host).map_or(host.clone(), |(cloud, _)| cloud.into());
        std::iter::once(host).chain(path).collect::<Vec<String>>()
    };
    match scheme {
        "memory" => parts.push("memory".into()),
        PROGRAM_SCHEME => parts.extend([scheme.to_string(), bucket.to_string()]),
        "http" | "https" => {
            let (host, _) = server(&format!("{scheme}://{bucket}"));
            match of_cloud(&host) {
                Some((cloud, before)) => parts.extend(std::iter::once(cloud.to_string()).chain(before.map(String::from))),
                None => parts.push(host),
            }
        }
        _ => {
            let endpoint = stores.remote(location)?.endpoint.clone();
            let account =
                || stores.options_of(location.as_str()).account.or_else(|| variable("AZURE_STORAGE_ACCOUNT_NAME")).unwrap_or_default();
            match (scheme, endpoint) {
                (_, Some(endpoint)) => parts.extend(own(&endpoint)),
                ("s3", None) => parts.push("s3.amazonaws.com".into()),
                ("gs", None) => parts.push("storage.googleapis.com".into()),
                (_, None) => parts.push(format!("{}.blob.core.windows.net", account().to_ascii_lowercase())),
            }
            parts.push(bucket.to_string());
        }
    }
    let plain = |p: &&str| !matches!(*p, "" | ".");
    let web = scheme.starts_with("http");
    parts.extend(key.split('/').filter(plain).map(|p| if web { decoded(p) } else { p.to_string() }));
    let mut names = Vec::with_capacity(parts.len());
    let mut name = String::from("//");
    for part in parts {
        name = format!("{name}/{part}");
        names.push(name.clone());
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> Place {
        Place::of(&Stores::new(), &Location::parse(text, None).unwrap()).unwrap()
    }

    #[test]
    #[cfg(unix)]
    fn one_folder_by_many_names() {
        let base = tempfile::tempdir().unwrap();
        let at = |name: &str| base.path().join(name).display().to_string();
        std::fs::create_dir_all(at("data/in.zarr/c")).unwrap();
        std::fs::create_dir_all(at("data/out.zarr")).unwrap();
        std::os::unix::fs::symlink(at("data"), at("link")).unwrap();
        std::os::unix::fs::symlink("nowhere/yet", at("dangling")).unwrap();
        let input = place(&at("data/in.zarr"));
        for same in ["link/in.zarr", "link/./in.zarr", "link//in.zarr/c", "data/x/../in.zarr", "link/in.zarr/c/0/new", "data", "link", "."]
        {
            assert!(input.overlaps(&place(&at(same))), "{same}");
        }
        for other in ["data/out.zarr", "link/in.zarr2", "data/in.zar", "new/in.zarr", "dangling"] {
            assert!(!input.overlaps(&place(&at(other))), "{other}");
        }
        assert!(place(&at("dangling/a")).overlaps(&place(&at("nowhere/yet"))));
        let written = [place(&at("new/a")), place(&at("link/in.zarr/c"))];
        assert_eq!(Place::first_overlap(std::slice::from_ref(&input), &written), Some((1, Near::Read(0))));
        assert_eq!(Place::first_overlap(&[input], &written[..1]), None);
        let twice = [place(&at("new/a")), place(&at("new/b")), place(&at("new/./b/c"))];
        assert_eq!(Place::first_overlap(&[], &twice), Some((2, Near::Written(1))));
    }

    #[test]
    fn one_object_by_many_names() {
        let names = |text: &str| of_object(&Stores::new(), &Location::parse(text, None).unwrap()).unwrap();
        for url in [
            "https://s3.eu-west-1.amazonaws.com/data/a/b",
            "https://data.s3.amazonaws.com/a/b",
            "https://data.s3-us-west-2.amazonaws.com/a//b",
            "https://DATA.s3.eu-west-1.amazonaws.com/a/%62",
        ] {
            assert_eq!(names(url).last().map(String::as_str), Some("///s3.amazonaws.com/data/a/b"), "{url}");
        }
        assert_eq!(names("http://127.0.0.1:9000/b"), names("http://localhost:9000/b/"));
        assert_ne!(names("http://localhost:9000/b"), names("http://localhost:9001/b"));
        assert_eq!(server("https://Minio.lab:443/x/y"), ("minio.lab".into(), vec!["x".into(), "y".into()]));
    }
}
