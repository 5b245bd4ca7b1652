//! Groups, consolidated metadata and the tree of a store.

use crate::meta::{MOST_OF_GROUP, from_document};
use crate::{ArrayMeta, Location, StorageError, Store, Stores, at_once};
use serde_json::{Map, Value, json};

/// A node of a store.
#[derive(Debug, Clone)]
pub struct TreeNode {
    /// Its path below the root, empty for the root.
    pub path: String,
    /// What it is.
    pub kind: NodeKind,
}

/// A group or an array.
#[derive(Debug, Clone)]
pub enum NodeKind {
    /// A group with its attributes.
    Group(Map<String, Value>),
    /// An array; the message says why it cannot be read, if so.
    Array(Result<Box<ArrayMeta>, String>),
}

fn read(store: &Store, key: &str) -> Result<Option<Value>, StorageError> {
    parsed(store, key, store.get_at_most(key, MOST_OF_GROUP)?)
}

fn parsed(store: &Store, key: &str, data: Option<bytes::Bytes>) -> Result<Option<Value>, StorageError> {
    let Some(data) = data else { return Ok(None) };
    serde_json::from_slice(&data)
        .map(Some)
        .map_err(|e| StorageError::Metadata { url: store.url(key), detail: format!("it is not JSON: {e}") })
}

/// The version of Zarr of the group in a folder; `None` if there is no group.
///
/// # Errors
/// When storage fails.
pub fn group_format(stores: &Stores, location: &Location) -> Result<Option<u8>, StorageError> {
    let store = stores.open(location)?;
    if store.get("zarr.json")?.is_some() {
        return Ok(Some(3));
    }
    Ok(store.get(".zgroup")?.map(|_| 2))
}

/// Makes a group of a version of Zarr in a folder that is not a group. If one exists by now, it stays as it is, even if a repeated request
/// arrives late.
pub fn make_group(stores: &Stores, location: &Location, zarr_format: u8, attributes: &Map<String, Value>) -> Result<(), StorageError> {
    let store = stores.open(location)?;
    if zarr_format == 2 {
        if !attributes.is_empty() {
            store.create(".zattrs", json!(attributes).to_string().as_bytes())?;
        }
        return store.create(".zgroup", json!({"zarr_format": 2}).to_string().as_bytes()).map(|_| ());
    }
    let document = json!({"zarr_format": 3, "node_type": "group", "attributes": attributes});
    store.create("zarr.json", document.to_string().as_bytes()).map(|_| ())
}

/// Writes the metadata of everything below a v2 group into one document, as zarr-python does.
fn consolidate_2(store: &Store) -> Result<(), StorageError> {
    let mut documents = Map::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let names = [".zgroup", ".zarray", ".zattrs"].map(|name| if folder.is_empty() { name.into() } else { format!("{folder}/{name}") });
        let found = store.get_all_at_most(&names, MOST_OF_GROUP)?;
        // Only chunks are below an array.
        if let [Some(_), None, _] = &found[..] {
            let below = store.list_dirs(&folder)?.into_iter();
            folders.extend(below.map(|name| if folder.is_empty() { name } else { format!("{folder}/{name}") }));
        }
        for (key, data) in names.into_iter().zip(found) {
            if let Some(doc) = parsed(store, &key, data)? {
                documents.insert(key, doc);
            }
        }
    }
    documents.sort_keys();
    store.put(".zmetadata", json!({"zarr_consolidated_format": 1, "metadata": documents}).to_string().into_bytes())
}

/// How often the metadata of a group is collected again because another writer has changed it meanwhile.
const ATTEMPTS: usize = 8;

/// Writes the metadata of everything below a group into one document, as zarr-python does. For a v3 group, this is the group's own
/// document.
pub fn consolidate(stores: &Stores, location: &Location) -> Result<(), StorageError> {
    let store = stores.open(location)?;
    for _ in 0..ATTEMPTS {
        if consolidate_once(&store)? {
            return Ok(());
        }
    }
    let (action, url, detail) = ("write", store.url("zarr.json"), "others keep changing the metadata of the group".into());
    Err(StorageError::Store { action, url, detail, transient: true })
}

/// Returns false if the document was changed meanwhile.
fn consolidate_once(store: &Store) -> Result<bool, StorageError> {
    enum Found {
        Document(Option<bytes::Bytes>),
        Folders(Vec<String>),
    }
    let found = at_once(&[true, false], |document| {
        Ok(if *document { Found::Document(store.get_at_most("zarr.json", MOST_OF_GROUP)?) } else { Found::Folders(store.list_dirs("")?) })
    });
    let (mut before, mut top) = (None, None);
    for part in found {
        match part? {
            Found::Document(data) => before = data,
            Found::Folders(names) => top = Some(names),
        }
    }
    let Some((before, mut root)) = before.clone().zip(parsed(store, "zarr.json", before)?) else {
        if store.get(".zgroup")?.is_some() {
            consolidate_2(store)?;
        }
        return Ok(true);
    };
    let mut nodes = Map::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let names = top.take().map_or_else(|| store.list_dirs(&folder), Ok)?;
        let below: Vec<String> = names.into_iter().map(|name| if folder.is_empty() { name } else { format!("{folder}/{name}") }).collect();
        let keys: Vec<String> = below.iter().map(|path| format!("{path}/zarr.json")).collect();
        for ((path, key), data) in below.into_iter().zip(&keys).zip(store.get_all_at_most(&keys, MOST_OF_GROUP)?) {
            if let Some(doc) = parsed(store, key, data)? {
                if doc.get("node_type").and_then(Value::as_str) == Some("group") {
                    folders.push(path.clone());
                }
                nodes.insert(path, doc);
            }
        }
    }
    nodes.sort_keys();
    let Some(object) = root.as_object_mut() else { return Ok(true) };
    object.insert("consolidated_metadata".into(), json!({"kind": "inline", "must_understand": false, "metadata": nodes}));
    let mut text = root.to_string();
    if text.len() as u64 > MOST_OF_GROUP {
        // It would be too large to be read again. A group without consolidated metadata is complete, too.
        root.as_object_mut().map(|o| o.remove("consolidated_metadata"));
        text = root.to_string();
    }
    // A faster writer knows what existed at its time, which may not be everything. A request that arrives late changes nothing.
    if text.as_bytes() == before { Ok(true) } else { store.swap("zarr.json", &before, text.as_bytes()) }
}

/// The nodes that the consolidated metadata of a v3 group names, where `root` is its `zarr.json`. For stores that cannot be listed.
pub fn consolidated_tree(location: &Location, root: &Value) -> Option<Vec<TreeNode>> {
    let nodes = root.pointer("/consolidated_metadata/metadata")?.as_object()?;
    let node = |path: &str, doc: &Value| {
        let url = location.join(path).to_string();
        let group = doc.get("node_type").and_then(Value::as_str) == Some("group");
        let kind = if group {
            NodeKind::Group(doc.get("attributes").and_then(Value::as_object).cloned().unwrap_or_default())
        } else {
            NodeKind::Array(from_document(&url, doc.clone(), 3).map(Box::new).map_err(|e| e.to_string()))
        };
        TreeNode { path: path.to_string(), kind }
    };
    let mut out = vec![node("", root)];
    out.extend(nodes.iter().filter(|(path, _)| !path.split('/').any(|p| p.is_empty() || p == "..")).map(|(path, doc)| node(path, doc)));
    out.sort_by(|a, b| a.path.cmp(&b.path));
    Some(out)
}

/// Every group and array of a store. If the store cannot be listed (http), the nodes that its consolidated metadata names.
pub fn list_tree(stores: &Stores, location: &Location) -> Result<Vec<TreeNode>, StorageError> {
    let store = stores.open(location)?;
    if !store.can_list()
        && let Some(root) = read(&store, "zarr.json")?
        && let Some(nodes) = consolidated_tree(location, &root)
    {
        return Ok(nodes);
    }
    let mut out = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(path) = folders.pop() {
        let key = |name: &str| if path.is_empty() { name.to_string() } else { format!("{path}/{name}") };
        let url = location.join(&path);
        let kind = if let Some(mut doc) = read(&store, &key("zarr.json"))? {
            if doc.get("node_type").and_then(Value::as_str) == Some("group") {
                let attributes = doc.get_mut("attributes").map(Value::take);
                Some(NodeKind::Group(attributes.and_then(|a| if let Value::Object(o) = a { Some(o) } else { None }).unwrap_or_default()))
            } else {
                Some(NodeKind::Array(from_document(&url.to_string(), doc, 3).map(Box::new).map_err(|e| e.to_string())))
            }
        } else if store.get(&key(".zarray"))?.is_some() {
            Some(NodeKind::Array(crate::open_array(stores, &url).map(Box::new).map_err(|e| e.to_string())))
        } else if store.get(&key(".zgroup"))?.is_some() {
            let attributes = read(&store, &key(".zattrs"))?.and_then(|v| v.as_object().cloned()).unwrap_or_default();
            Some(NodeKind::Group(attributes))
        } else if path.is_empty() {
            return Err(StorageError::NotFound { url: url.to_string() });
        } else {
            None
        };
        if let Some(kind) = kind {
            if matches!(kind, NodeKind::Group(_)) {
                if !store.can_list() {
                    let detail =
                        "what is in the group is not known: the server cannot be listed, and the group has no consolidated metadata; \
                                  name an array in it"
                            .into();
                    return Err(StorageError::Unsupported { url: url.to_string(), detail });
                }
                folders.extend(store.list_dirs(&path)?.into_iter().map(|n| key(&n)));
            }
            out.push(TreeNode { path, kind });
        }
    }
    out.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(out)
}
