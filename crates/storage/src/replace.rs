//! What may be deleted where an array is written: the files of an array, and nothing else.
//!
//! A run that overwrites gets the name of an array. The folder of that name may be a group, or contain files of other people. So its
//! content is examined first, and only known files are touched. The replaced array is kept beside the new one, in the same folder, until
//! the new one is whole. In a filesystem it is moved there. In an object store, the store itself copies it.

use crate::{Location, StorageError, Stores};
use serde_json::Value;

/// The folder inside an array's folder in which the replaced array is kept.
pub const REPLACED: &str = ".chunkwise-replaced";
/// The name of that folder before everything is in it.
pub(crate) const MOVING: &str = ".chunkwise-replacing";
/// The prefix of all names that this program puts beside chunks, except for checksums.
const OWN: &str = ".chunkwise-";
/// The name of an array's checksums.
const CHECKSUMS: &str = "chunkwise.xxh3";
/// The metadata of an array.
pub(crate) const METADATA: [&str; 3] = ["zarr.json", ".zarray", ".zattrs"];
/// The number of arrays of a group that a message names.
const TOLD: usize = 3;

/// How the keys of chunks are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Form {
    /// They begin with `c`.
    letter: bool,
    separator: char,
    /// The rank of the array, if it is known.
    rank: Option<usize>,
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

impl Form {
    /// The form in the metadata of an array of version 3. The rank is left open if the metadata has none.
    fn of_v3(doc: &Value) -> Form {
        let keys = doc.get("chunk_key_encoding");
        let named = keys.and_then(|k| k.get("name").or(Some(k))).and_then(Value::as_str).unwrap_or("default");
        let said = keys.and_then(|k| k.pointer("/configuration/separator")).and_then(Value::as_str).and_then(|s| s.chars().next());
        let letter = named != "v2";
        Form { letter, separator: said.unwrap_or(if letter { '/' } else { '.' }), rank: rank(doc) }
    }

    fn of_v2(doc: &Value) -> Form {
        let said = doc.get("dimension_separator").and_then(Value::as_str).and_then(|s| s.chars().next());
        Form { letter: false, separator: said.unwrap_or('.'), rank: rank(doc) }
    }

    fn fits(self, key: &str) -> bool {
        let fits = |n: usize| self.rank.is_none_or(|rank| rank == n);
        if self.letter {
            let Some(rest) = key.strip_prefix('c') else { return false };
            if rest.is_empty() {
                return fits(0);
            }
            return rest.strip_prefix(self.separator).is_some_and(|r| self.numbers(r).is_some_and(fits));
        }
        // The one chunk of an array without dimensions is `0`.
        self.numbers(key).is_some_and(|n| fits(n) || key == "0" && fits(0))
    }

    fn numbers(self, text: &str) -> Option<usize> {
        let parts: Vec<&str> = text.split(self.separator).collect();
        parts.iter().all(|p| is_number(p)).then_some(parts.len())
    }
}

fn rank(doc: &Value) -> Option<usize> {
    doc.get("shape").and_then(Value::as_array).map(Vec::len)
}

/// A key without the suffix of staging: `c/0/15#...` becomes `c/0/15`.
fn unstaged(key: &str) -> String {
    let plain = |part: &str| match part.rsplit_once('#') {
        Some((name, digits)) if is_number(digits) => name.to_string(),
        _ => part.to_string(),
    };
    key.split('/').map(plain).collect::<Vec<_>>().join("/")
}

/// True for the key of a chunk in the form that this program uses by default.
pub fn is_chunk_key(key: &str) -> bool {
    ['/', '.'].into_iter().any(|separator| Form { letter: true, separator, rank: None }.fits(&unstaged(key)))
}

/// What belongs to an array: its metadata, its chunks, its checksums, and unfinished files of writers that were killed.
#[derive(Debug, Clone)]
pub struct Owned {
    forms: Vec<Form>,
    /// There is an array, and it is whole.
    pub published: bool,
}

impl Owned {
    /// What belongs to an array of known metadata, of any rank.
    pub(crate) fn of(metadata: &Value) -> Owned {
        Owned { forms: vec![Form { rank: None, ..of(metadata) }], published: false }
    }

    /// True for a key that belongs to the array.
    pub fn has(&self, key: &str) -> bool {
        let first = key.split('/').next().unwrap_or(key);
        if first.starts_with(OWN) || first == ".DS_Store" || first.starts_with(".nfs") {
            return true;
        }
        let key = unstaged(key);
        METADATA.contains(&key.as_str()) || key == CHECKSUMS || self.forms.iter().any(|f| f.fits(&key))
    }
}

/// Examines the place where an array is to be written, before anything is deleted there. `metadata` is the document of the new array.
///
/// # Errors
/// When there is a group, an array below this place, or a file that does not belong to a Zarr array. The error has its name and what can be
/// done.
pub fn replaceable(stores: &Stores, at: &Location, metadata: &Value) -> Result<Owned, StorageError> {
    let store = stores.open(at)?;
    let refuse = |detail: String| Err(StorageError::Kept { url: at.to_string(), detail });
    let document =
        |key: &str| Ok::<_, StorageError>(store.get(key)?.map(|data| serde_json::from_slice::<Value>(&data).unwrap_or_default()));
    let keys = store.everything()?;
    let arrays: Vec<&str> = keys.iter().filter_map(|k| k.strip_suffix("/zarr.json").or_else(|| k.strip_suffix("/.zarray"))).collect();
    let arrays: Vec<&str> = arrays.into_iter().filter(|k| !k.starts_with(OWN)).collect();
    let (v3, v2) = (document("zarr.json")?, document(".zarray")?);
    let group =
        v3.as_ref().is_some_and(|d| d.get("node_type").and_then(Value::as_str) == Some("group")) || keys.iter().any(|k| k == ".zgroup");
    if group || !arrays.is_empty() {
        let more = arrays.len().saturating_sub(TOLD);
        let named = arrays.iter().take(TOLD).map(|a| format!("'{a}'")).collect::<Vec<_>>().join(", ");
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let what = match (group, arrays.is_empty()) {
            (true, true) => "it is a Zarr group".to_string(),
            (true, false) => format!("it is a Zarr group with {named}{more} in it"),
            _ => format!("it holds other arrays: {named}{more}"),
        };
        return refuse(format!("{what}, and the output is one array; write to a place in it, or elsewhere, or delete it yourself"));
    }
    let mut forms = vec![Form { rank: None, ..of(metadata) }];
    forms.extend(v3.as_ref().map(Form::of_v3));
    forms.extend(v2.as_ref().map(Form::of_v2));
    if v3.is_none() && v2.is_none() {
        forms.push(Form { letter: true, separator: '/', rank: None });
    }
    let owned = Owned { forms, published: v3.is_some() || v2.is_some() };
    match keys.iter().find(|k| !owned.has(k)) {
        Some(foreign) => {
            refuse(format!("'{foreign}' in it is no file of a Zarr array; move what is yours out of it, or write the output elsewhere"))
        }
        None => Ok(owned),
    }
}

/// The form in the metadata of an array that is to be written. An array of version 2 is described in the same way.
fn of(doc: &Value) -> Form {
    if doc.get("zarr_format").and_then(Value::as_u64) == Some(2) { Form::of_v2(doc) } else { Form::of_v3(doc) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn put(stores: &Stores, at: &Location, keys: &[(&str, &str)]) {
        let store = stores.open(at).unwrap();
        for (key, text) in keys {
            store.put(key, text.as_bytes()).unwrap();
        }
    }

    const ARRAY: &str = r#"{"zarr_format": 3, "node_type": "array", "shape": [4, 4]}"#;

    #[test]
    fn only_what_an_array_has() {
        let new = json!({"zarr_format": 3, "shape": [1, 1, 1]});
        let stores = Stores::new();
        let check = |name: &str, keys: &[(&str, &str)]| {
            let at = Location::parse(&format!("memory:replaceable/{name}"), None).unwrap();
            put(&stores, &at, keys);
            replaceable(&stores, &at, &new).map(|o| o.published).map_err(|e| e.to_string())
        };
        assert_eq!(check("nothing", &[]), Ok(false));
        assert_eq!(check("whole", &[("zarr.json", ARRAY), ("c/0/0", ""), ("chunkwise.xxh3", ""), (".chunkwise-claim", "")]), Ok(true));
        assert_eq!(check("unfinished", &[("c/0/0/0", ""), ("c/0/0/1", "")]), Ok(false));
        let v2 = r#"{"zarr_format": 2, "shape": [4, 4], "dimension_separator": "."}"#;
        assert_eq!(check("old", &[(".zarray", v2), (".zattrs", "{}"), ("0.1", "")]), Ok(true));
        let group = r#"{"zarr_format": 3, "node_type": "group"}"#;
        for (name, keys, word) in [
            ("group", &[("zarr.json", group), ("u/zarr.json", ARRAY), ("u/c/0/0", "")][..], "'u'"),
            ("empty", &[("zarr.json", group)][..], "is a Zarr group,"),
            ("below", &[("zarr.json", ARRAY), ("c/0/0", ""), ("deep/v/.zarray", "{}")][..], "'deep/v'"),
            ("thesis", &[("zarr.json", ARRAY), ("c/0/0", ""), ("thesis.tex", "")][..], "'thesis.tex'"),
            ("hidden", &[("c/0/0", ""), ("c/notes", "")][..], "'c/notes'"),
            ("numbers", &[("2019", ""), ("2020", "")][..], "'2019'"),
            ("another rank", &[("zarr.json", v2), ("0/1/2/3", "")][..], "'0/1/2/3'"),
        ] {
            let said = check(name, keys).unwrap_err();
            assert!(said.contains(word), "{name}: {said}");
        }
    }

    #[test]
    fn names_of_chunks() {
        for key in ["c", "c/0", "c/0/15/20", "c.3.4", "c/0/15/20#000000000000000000010000000001000002", "c/7#12/3"] {
            assert!(is_chunk_key(key), "{key}");
        }
        for key in ["", "d/0", "c/", "c/x", "0/0", "c/0/", "c/0#x", "cc/0", "c/-1"] {
            assert!(!is_chunk_key(key), "{key}");
        }
    }
}
