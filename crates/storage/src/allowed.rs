//! Limits the places that a handle may open at all.
//!
//! A function or a service runs plans and pipelines of other people. Before anything is opened, it names the URL prefixes that it was made
//! for, once. From then on its handle opens no store elsewhere, whatever a plan, a pipeline or the metadata of an array says. URLs are not
//! interpreted any further: if a part of a URL could mean something else to another reader (`..`, an empty part, `%2e`, a backslash), the
//! URL is refused.

use crate::{Location, StorageError};
use std::sync::OnceLock;

/// The places that a handle is restricted to, once they are set.
#[derive(Debug, Default)]
pub(crate) struct Prefixes(OnceLock<Vec<Location>>);

impl Prefixes {
    /// Restricts to places at or below some URLs, for good. An empty list allows nothing.
    pub fn restrict(&self, prefixes: &[String]) -> Result<(), StorageError> {
        let parsed: Vec<Location> = prefixes.iter().map(|p| Location::parse(p, None)).collect::<Result<_, _>>()?;
        if let Some(odd) = parsed.iter().find(|l| ambiguous(l.as_str()).is_some()) {
            return Err(StorageError::Url { url: odd.to_string(), problem: "it is no plain prefix".into() });
        }
        self.0.set(parsed).map_err(|_| StorageError::Url { url: prefixes.join(","), problem: "other prefixes were set before".into() })
    }

    /// Refuses a place outside.
    pub fn check(&self, location: &Location) -> Result<(), StorageError> {
        let Some(prefixes) = self.0.get() else { return Ok(()) };
        inside(location, prefixes).map_err(|problem| StorageError::Url { url: location.to_string(), problem })
    }
}

/// The ambiguous part of a URL; `None` if there is none.
fn ambiguous(url: &str) -> Option<&'static str> {
    let path = url.split_once("://").map_or(url, |(_, p)| p).trim_matches('/');
    if url.contains(['%', '\\']) || url.chars().any(char::is_control) {
        return Some("escapes (%) and backslashes are not allowed here");
    }
    path.split('/').any(|p| matches!(p, "" | "." | "..")).then_some("it has an empty part, '.' or '..'")
}

fn inside(location: &Location, prefixes: &[Location]) -> Result<(), String> {
    let url = location.as_str();
    if let Some(problem) = ambiguous(url) {
        return Err(problem.into());
    }
    let fits = |p: &Location| url.strip_prefix(p.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if prefixes.iter().any(fits) {
        return Ok(());
    }
    let list = prefixes.iter().map(|p| p.to_string()).collect::<Vec<_>>().join(", ");
    Err(format!("it is outside of what may be read and written here ({})", if list.is_empty() { "nothing" } else { &list }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_below() {
        let prefixes = ["s3://work/chunkwise/", "https://host:8000/data", "file:///srv/x"].map(|p| Location::parse(p, None).unwrap());
        let check = |url: &str| inside(&Location { url: url.into() }, &prefixes);
        for url in ["s3://work/chunkwise", "s3://work/chunkwise/a/b.zarr", "https://host:8000/data/x", "file:///srv/x/y"] {
            assert_eq!(check(url), Ok(()), "{url}");
        }
        for url in [
            "s3://work",
            "s3://work/chunkwise2/a",
            "s3://work/chunkwise/../secret",
            "s3://work/chunkwise/%2e%2e/secret",
            "s3://work/chunkwise//secret",
            "s3://work/chunkwise/./secret",
            "s3://work/chunkwise/..\\secret",
            "s3://work/chunkwise/\u{0}",
            "s3://Work/chunkwise/a",
            "s3://other/chunkwise/a",
            "gs://work/chunkwise/a",
            "http://host:8000/data/x",
            "https://host:8000.evil.example/data",
            "https://host/data/x",
            "file:///srv/x/../y",
            "file:///etc/passwd",
            "memory:///work",
        ] {
            assert!(check(url).is_err(), "{url}");
        }
    }
}
