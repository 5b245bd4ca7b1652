//! Names of places: a path or a URL, and behind a NUL byte the folder that it is relative to.

use crate::place::stores;
use chunkwise::storage::{Location, Place};
use chunkwise::types::StoreOptions;
use std::collections::BTreeMap;
use std::path::Path;

/// What must never be shown.
const SECRET: &str = "hunter2secret";

/// Reads the name of a place, by itself and as parts of the options of a store.
///
/// # Panics
/// When a promise is broken.
pub fn url(data: &[u8]) {
    let mut parts = data.splitn(2, |b| *b == 0).map(String::from_utf8_lossy);
    let (text, base) = (parts.next().unwrap_or_default(), parts.next());
    let base = base.as_deref().map(Path::new).unwrap_or(Path::new("/base"));
    if let Ok(location) = Location::parse(&text, Some(base)) {
        place(&location);
    }
    secrets(&text);
    options(&text);
}

/// What was accepted is accepted again, and stays the same.
fn place(location: &Location) {
    let stable = |l: &Location| {
        let again = Location::parse(l.as_str(), Some(Path::new("/elsewhere")));
        let again = again.unwrap_or_else(|e| panic!("'{}' is refused when it is read again: {e}", l.as_str()));
        assert_eq!(again.as_str(), l.as_str(), "it is another one when it is read again");
    };
    stable(location);
    let below = location.join("a/b");
    stable(&below);
    assert_eq!((below.name(), &below.parent().unwrap()), ("b", &location.join("a")));
    assert_eq!(location.join(""), *location);
    if let Some(parent) = location.parent() {
        stable(&parent);
        assert!(location.as_str().starts_with(parent.as_str()));
    }
    drop((location.name().len(), location.to_string(), location.local_path(), location.check_not_root().is_ok()));
    if location.is_remote() {
        assert!(stores().check_allowed(location).is_err(), "it is outside of what is allowed");
    }
    let by_name = Place::by_name(location);
    assert!(by_name.overlaps(&by_name) || location.as_str().ends_with("//"), "it is not where it is");
}

/// Passwords and signatures are not shown when they are refused.
fn secrets(text: &str) {
    let (scheme, rest) = text.split_once("://").unwrap_or(("https", text));
    for url in [
        format!("{scheme}://me:{SECRET}@{rest}"),
        format!("{scheme}://{rest}?sig={SECRET}"),
        format!("{scheme}://{SECRET}@{rest}/x#{SECRET}"),
    ] {
        if let Err(e) = Location::parse(&url, None) {
            assert!(!e.to_string().contains(SECRET), "{e}");
        }
    }
}

/// Regions, accounts, endpoints and prefixes of a file.
fn options(text: &str) {
    let s3 = |o: StoreOptions| stores().configure(&BTreeMap::from([("s3://".to_string(), o)]));
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if s3(StoreOptions { region: Some(text.into()), ..StoreOptions::default() }).is_ok() {
        assert!(text.chars().all(word), "'{text}' is taken for a region");
    }
    for endpoint in [text.to_string(), format!("http://me:{SECRET}@{text}"), format!("https://{text}?sig={SECRET}")] {
        let done = s3(StoreOptions { endpoint: Some(endpoint.clone()), ..StoreOptions::default() });
        let e = done.err().unwrap_or_else(|| panic!("the endpoint '{endpoint}' is taken from a file"));
        assert!(!e.to_string().contains(SECRET), "{e}");
    }
    let account = StoreOptions { account: Some(text.into()), ..StoreOptions::default() };
    assert!(stores().configure(&BTreeMap::from([("az://".to_string(), account)])).is_err(), "the account '{text}' is taken from a file");
    if let Err(e) = stores().configure(&BTreeMap::from([(text.to_string(), StoreOptions::default())])) {
        drop(e.to_string());
    }
}
