//! Objects that stay in memory while there is room are the same as stored ones.

#![allow(clippy::unwrap_used)]
use chunkwise_storage::{Location, MemoryTier, Store, Stores};

fn stores(tier: &std::sync::Arc<MemoryTier>) -> (tempfile::TempDir, Store, Store) {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::parse(folder.path().to_str().unwrap(), None).unwrap();
    let plain = Stores::new().open(&location).unwrap();
    (folder, plain.clone().with_memory(tier.clone()), plain)
}

#[test]
fn objects_are_read_listed_and_deleted_wherever_they_are() {
    let tier = MemoryTier::new(1000);
    let (_folder, store, plain) = stores(&tier);
    for k in 0..4u8 {
        store.put(&format!("a/{k}"), vec![k; 300]).unwrap();
    }
    // Three fit; the fourth went to its file.
    assert_eq!(plain.list("").unwrap(), [("a/3".to_string(), 300)]);
    assert_eq!(tier.spilled(), 300);
    let mut names = store.list("a").unwrap();
    names.sort();
    assert_eq!(names, (0..4).map(|k| (format!("a/{k}"), 300)).collect::<Vec<_>>());
    for k in 0..4u8 {
        let key = format!("a/{k}");
        assert_eq!(store.get(&key).unwrap().unwrap(), vec![k; 300]);
        assert_eq!(store.size(&key).unwrap(), Some(300));
    }
    store.delete("a/1").unwrap();
    assert_eq!(store.get("a/1").unwrap(), None);
    store.delete_prefix("").unwrap();
    assert!(store.list("").unwrap().is_empty());
    assert_eq!(store.size("a/0").unwrap(), None);
}

#[test]
fn reservations_push_the_oldest_objects_out() {
    let tier = MemoryTier::new(1000);
    let (_folder, store, plain) = stores(&tier);
    for k in 0..3u8 {
        store.put(&k.to_string(), vec![k; 300]).unwrap();
    }
    assert!(tier.reserve(400).unwrap());
    let stored: Vec<String> = plain.list("").unwrap().into_iter().map(|(k, _)| k).collect();
    assert_eq!(stored, ["0"]);
    // Another reservation that does not fit beside the first one has to wait, and does not push out any object.
    assert!(!tier.reserve(601).unwrap());
    assert_eq!(plain.list("").unwrap().len(), 1);
    assert!(tier.reserve(600).unwrap());
    assert_eq!(plain.list("").unwrap().len(), 3);
    // There is no room beside the reservations, so it goes straight to the store.
    store.put("3", vec![3; 1]).unwrap();
    assert_eq!(plain.get("3").unwrap().unwrap(), vec![3]);
    tier.release(1000);
    // The first reservation always succeeds, whatever its size.
    assert!(tier.reserve(5000).unwrap());
    for k in 0..4u8 {
        assert_eq!(store.get(&k.to_string()).unwrap().unwrap()[0], k);
    }
}

#[test]
fn a_newer_object_replaces_an_older_one_on_either_side() {
    let tier = MemoryTier::new(100);
    let (_folder, store, plain) = stores(&tier);
    store.put("x", vec![1; 80]).unwrap();
    store.put("x", vec![2; 200]).unwrap();
    assert_eq!(store.get("x").unwrap().unwrap(), vec![2; 200]);
    store.put("x", vec![3; 10]).unwrap();
    assert_eq!(store.get("x").unwrap().unwrap(), vec![3; 10]);
    tier.flush().unwrap();
    assert_eq!(plain.get("x").unwrap().unwrap(), vec![3; 10]);
}

#[test]
fn what_cannot_be_written_stays() {
    let tier = MemoryTier::new(100);
    let (folder, store, _) = stores(&tier);
    store.put("x/y", vec![1; 80]).unwrap();
    std::fs::write(folder.path().join("x"), "a file where a folder is needed").unwrap();
    assert!(tier.flush().is_err());
    assert_eq!(store.get("x/y").unwrap().unwrap(), vec![1; 80]);
}
