//! Groups: objects with their keys, separated by NUL bytes, the key of each on its first line.

use crate::pipeline::load;
use crate::place::{Scratch, at, stores};
use chunkwise::storage::{NodeKind, TreeNode, consolidate, consolidated_tree, list_tree};

/// Lists the group, by its folders and by its consolidated metadata, consolidates it, and computes with it.
///
/// # Panics
/// When a promise is broken.
pub fn group(data: &[u8]) {
    let scratch = Scratch::new();
    for object in data.split(|b| *b == 0) {
        let (key, text) = object.split_at(object.iter().position(|b| *b == b'\n').unwrap_or(object.len()));
        // Some keys are none.
        let _ = scratch.store.put(&String::from_utf8_lossy(key), text);
    }
    if let Ok(Some(root)) = scratch.store.get("zarr.json")
        && let Ok(root) = serde_json::from_slice(&root)
        && let Some(nodes) = consolidated_tree(&scratch.at, &root)
    {
        ordered(&nodes);
    }
    let nodes = list_tree(stores(), &scratch.at).map_err(|e| e.to_string());
    if let Ok(nodes) = &nodes {
        ordered(nodes);
    }
    let pipeline = serde_json::json!({
        "inputs": {"g": scratch.at.as_str()},
        "outputs": {at("out").as_str(): "g * 2"},
        "spec": {"work_dir": at("work").as_str()},
    });
    load(&pipeline.to_string());
    if nodes.is_ok() && consolidate(stores(), &scratch.at).is_ok() {
        let again = list_tree(stores(), &scratch.at).map_err(|e| e.to_string());
        assert_eq!(again.map(|n| n.len()), nodes.map(|n| n.len()), "consolidated, it has another number of nodes");
    }
}

/// Paths ascend, and lead nowhere else.
fn ordered(nodes: &[TreeNode]) {
    assert!(nodes.windows(2).all(|n| n[0].path < n[1].path), "a path is there twice");
    for node in nodes {
        assert!(!node.path.split('/').any(|p| p == ".."), "{}", node.path);
        if let NodeKind::Array(Err(why)) = &node.kind {
            assert!(!why.is_empty());
        }
    }
}
