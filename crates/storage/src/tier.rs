//! Objects that stay in memory while there is room, and go to their store when there is none.
//!
//! Tasks of one process need no disk to pass intermediates to each other. The tier shares one budget with those tasks. Their memory is
//! reserved here before they start, and the rest holds objects. When a reservation needs the room, the oldest objects are written to their
//! stores. If the process is killed, objects that are only in memory are lost, and are made again. So objects that took long to make are
//! also written in the background, with [`MemoryTier::save`], and stay in memory for their readers.
//!
//! The remaining room holds decoded chunks of which a task wanted only a part, for the next task that wants another part: a halo, or a
//! region that is smaller than the chunk. They are the first to be dropped, and never take more than a part of the budget, because there
//! may be no such task.

use crate::{StorageError, Store};
use bytes::Bytes;
use parking_lot::Mutex;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Decoded chunks take at most this fraction of the budget: one divided by this number.
const DECODED_SHARE: u64 = 4;

/// A budget in bytes for reservations and objects together.
pub struct MemoryTier {
    state: Mutex<State>,
    budget: u64,
    /// A task could start if no thread had spare memory.
    wanted: AtomicBool,
}

#[derive(Default)]
struct State {
    objects: HashMap<String, Object>,
    /// The objects by age.
    ages: BTreeMap<u64, String>,
    next: u64,
    held: u64,
    reserved: u64,
    /// Bytes of all [`Spare`]s. They are part of `reserved`.
    spare: u64,
    spilled: u64,
    /// Bytes of decoded chunks. They are part of `held`.
    decoded: u64,
    /// Decoded chunks by name, and by the time at which they were last read.
    cached: HashMap<String, (Bytes, u64)>,
    read: BTreeMap<u64, String>,
}

struct Object {
    data: Bytes,
    age: u64,
    /// The store that it belongs to.
    store: Store,
    key: String,
    /// It is also in its store.
    saved: bool,
}

/// A reservation that ends when this is dropped.
#[must_use]
pub struct Spare<'t> {
    tier: &'t MemoryTier,
    bytes: u64,
}

impl Spare<'_> {
    /// True if a task waits for memory of which this is a part. The thread that holds it should give it back soon.
    pub fn wanted(&self) -> bool {
        self.tier.wanted.load(Ordering::Relaxed)
    }
}

impl Drop for Spare<'_> {
    fn drop(&mut self) {
        let mut state = self.tier.state.lock();
        state.spare = state.spare.saturating_sub(self.bytes);
        state.reserved = state.reserved.saturating_sub(self.bytes);
    }
}

impl State {
    fn uncache(&mut self, name: &str) {
        if let Some((data, age)) = self.cached.remove(name) {
            self.read.remove(&age);
            self.held -= data.len() as u64;
            self.decoded -= data.len() as u64;
        }
    }

    /// Drops decoded chunks, the least recently read first, as long as `more` says so.
    fn forget(&mut self, more: impl Fn(&State) -> bool) {
        while more(self)
            && let Some(name) = self.read.first_key_value().map(|(_, name)| name.clone())
        {
            self.uncache(&name);
        }
    }

    /// Reserves memory if only decoded chunks are in the way. Otherwise they stay.
    fn reserve_beside(&mut self, bytes: u64, budget: u64) -> bool {
        let full = |state: &State, held: u64| state.reserved.saturating_add(held).saturating_add(bytes) > budget;
        let room = !full(self, self.held - self.decoded);
        if room {
            self.forget(|state| full(state, state.held));
            self.reserved += bytes;
        }
        room
    }

    fn remove(&mut self, url: &str) -> Option<Object> {
        let object = self.objects.remove(url)?;
        self.ages.remove(&object.age);
        self.held -= object.data.len() as u64;
        Some(object)
    }
}

impl MemoryTier {
    /// A tier of `budget` bytes, reservations included.
    pub fn new(budget: u64) -> Arc<MemoryTier> {
        Arc::new(MemoryTier { state: Mutex::default(), budget, wanted: AtomicBool::new(false) })
    }

    /// Reserves memory for a task, and writes objects to their stores if there is no room beside them. False if other reservations are in
    /// the way. The first reservation always succeeds.
    ///
    /// # Errors
    /// When an object cannot be written.
    pub fn reserve(&self, bytes: u64) -> Result<bool, StorageError> {
        {
            let mut state = self.state.lock();
            let full = |reserved: u64| reserved > 0 && reserved.saturating_add(bytes) > self.budget;
            let refused = full(state.reserved);
            self.wanted.store(refused && !full(state.reserved.saturating_sub(state.spare)), Ordering::Relaxed);
            if refused {
                return Ok(false);
            }
            // It is counted before the room is made, so that no other reservation takes the room meanwhile.
            state.reserved = state.reserved.saturating_add(bytes);
        }
        self.spill(|state| state.held > 0 && state.reserved.saturating_add(state.held) > self.budget)?;
        Ok(true)
    }

    /// Reserves memory that a task could use beside its own, if there is room without writing an object to its store. It is released when
    /// the result is dropped.
    pub fn reserve_spare(&self, bytes: u64) -> Option<Spare<'_>> {
        let mut state = self.state.lock();
        if self.wanted.load(Ordering::Relaxed) || !state.reserve_beside(bytes, self.budget) {
            return None;
        }
        state.spare += bytes;
        Some(Spare { tier: self, bytes })
    }

    /// As [`MemoryTier::reserve`], but only if no object has to be written to its store.
    pub fn reserve_beside(&self, bytes: u64) -> bool {
        self.state.lock().reserve_beside(bytes, self.budget)
    }

    /// Releases a reservation.
    pub fn release(&self, bytes: u64) {
        let mut state = self.state.lock();
        state.reserved = state.reserved.saturating_sub(bytes);
    }

    /// Writes every object to its store.
    ///
    /// # Errors
    /// When one cannot be written; it stays in memory.
    pub fn flush(&self) -> Result<(), StorageError> {
        self.spill(|state| !state.objects.is_empty() || !state.cached.is_empty())
    }

    /// Bytes that were written to stores because there was no room, or by [`MemoryTier::flush`].
    pub fn spilled(&self) -> u64 {
        self.state.lock().spilled
    }

    /// Bytes of objects that are only in memory, by the prefix of their names.
    pub fn unsaved(&self, prefixes: &[String]) -> Vec<u64> {
        let state = self.state.lock();
        let mut out = vec![0; prefixes.len()];
        for (url, o) in state.objects.iter().filter(|(_, o)| !o.saved) {
            if let Some(i) = prefixes.iter().position(|p| url.starts_with(p)) {
                out[i] += o.data.len() as u64;
            }
        }
        out
    }

    /// Writes objects whose names start with `prefix` to their store, the oldest first, until `bytes` are written; they stay in memory.
    ///
    /// # Errors
    /// When one cannot be written.
    pub fn save(&self, prefix: &str, bytes: u64) -> Result<(), StorageError> {
        let chosen: Vec<(String, u64)> = {
            let state = self.state.lock();
            let unsaved = state.ages.iter().filter_map(|(&age, url)| Some((url, age, state.objects.get(url)?)));
            let mut sum = 0;
            let first = unsaved.filter(|(url, _, o)| url.starts_with(prefix) && !o.saved).take_while(|(_, _, o)| {
                let more = sum < bytes;
                sum += o.data.len() as u64;
                more
            });
            first.map(|(url, age, _)| (url.clone(), age)).collect()
        };
        for (url, age) in chosen {
            let found =
                self.state.lock().objects.get(&url).filter(|o| o.age == age).map(|o| (o.store.clone(), o.key.clone(), o.data.clone()));
            let Some((store, key, data)) = found else { continue };
            store.put(&key, &data[..])?;
            let mut state = self.state.lock();
            state.spilled += data.len() as u64;
            if let Some(o) = state.objects.get_mut(&url).filter(|o| o.age == age) {
                o.saved = true;
            }
        }
        Ok(())
    }

    fn spill(&self, more: impl Fn(&State) -> bool) -> Result<(), StorageError> {
        loop {
            let (url, age, unsaved) = {
                let mut state = self.state.lock();
                state.forget(&more);
                let oldest = state.ages.first_key_value().filter(|_| more(&state));
                let Some((&age, url)) = oldest else { return Ok(()) };
                let Some(o) = state.objects.get(url) else { return Ok(()) };
                (url.clone(), age, (!o.saved).then(|| (o.store.clone(), o.key.clone(), o.data.clone())))
            };
            // This holds no lock. Readers find the object in memory until it is in its store.
            if let Some((store, key, data)) = &unsaved {
                store.put(key, &data[..])?;
            }
            let mut state = self.state.lock();
            state.spilled += unsaved.map_or(0, |(_, _, data)| data.len() as u64);
            if state.objects.get(&url).is_some_and(|o| o.age == age) {
                state.remove(&url);
            }
        }
    }

    /// Keeps an object, or returns it if there is no room. In both cases, an older object of the same name is dropped.
    pub(crate) fn put<'a>(&self, store: &Store, key: &str, data: Cow<'a, [u8]>) -> Result<(), Cow<'a, [u8]>> {
        let url = store.url(key);
        let n = data.len() as u64;
        let mut state = self.state.lock();
        state.remove(&url);
        let full = |state: &State| state.reserved.saturating_add(state.held).saturating_add(n) > self.budget;
        state.forget(full);
        if full(&state) {
            state.spilled += n;
            return Err(data);
        }
        // The spare capacity of a buffer is memory, too.
        let data = Bytes::from(data.into_owned().into_boxed_slice());
        let age = state.next;
        state.next += 1;
        state.held += n;
        state.ages.insert(age, url.clone());
        state.objects.insert(url, Object { data, age, store: store.clone(), key: key.into(), saved: false });
        Ok(())
    }

    /// Reserves memory to decode and keep a chunk of `bytes` bytes, beside `encoded` ones, if nothing else needs it. It is released when
    /// the result is dropped.
    pub(crate) fn room_for(&self, bytes: u64, encoded: u64) -> Option<Spare<'_>> {
        if bytes > self.budget / DECODED_SHARE { None } else { self.reserve_spare(bytes.saturating_add(encoded)) }
    }

    /// Keeps a decoded chunk while there is room.
    pub(crate) fn cache(&self, name: String, data: Bytes) {
        let n = data.len() as u64;
        let mut state = self.state.lock();
        state.uncache(&name);
        let full = |state: &State| {
            state.reserved.saturating_add(state.held).saturating_add(n) > self.budget
                || state.decoded.saturating_add(n) > self.budget / DECODED_SHARE
        };
        state.forget(full);
        if full(&state) {
            return;
        }
        state.decoded += n;
        let age = state.next;
        state.next += 1;
        state.held += n;
        state.read.insert(age, name.clone());
        state.cached.insert(name, (data, age));
    }

    /// A decoded chunk that was kept.
    pub(crate) fn cached(&self, name: &str) -> Option<Bytes> {
        let mut state = self.state.lock();
        let age = state.next;
        let (data, last) = state.cached.get_mut(name)?;
        let (data, before) = (data.clone(), std::mem::replace(last, age));
        state.next += 1;
        state.read.remove(&before);
        state.read.insert(age, name.to_string());
        Some(data)
    }

    pub(crate) fn get(&self, url: &str) -> Option<Bytes> {
        self.state.lock().objects.get(url).map(|o| o.data.clone())
    }

    pub(crate) fn delete(&self, url: &str) {
        self.state.lock().remove(url);
    }

    /// The names and sizes of the objects whose name starts with a prefix.
    pub(crate) fn list(&self, prefix: &str) -> Vec<(String, u64)> {
        let state = self.state.lock();
        state.objects.iter().filter(|(url, _)| url.starts_with(prefix)).map(|(url, o)| (url.clone(), o.data.len() as u64)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoded_chunks_go_only_if_that_makes_room() {
        let tier = MemoryTier::new(1000);
        tier.cache("chunk".into(), Bytes::from(vec![1; 200]));
        assert_eq!(tier.reserve(500).ok(), Some(true));
        assert!(!tier.reserve_beside(501) && tier.reserve_spare(501).is_none());
        assert!(tier.cached("chunk").is_some());
        assert!(tier.reserve_beside(500));
        assert!(tier.cached("chunk").is_none());
    }

    #[test]
    fn what_is_saved_is_written_once_and_stays() -> Result<(), StorageError> {
        let store = crate::Stores::new().open(&crate::Location::parse("memory:tier-save", None)?)?;
        let tier = MemoryTier::new(1000);
        for (k, byte) in [("a/1", 1u8), ("a/2", 2), ("b/1", 3)] {
            assert!(tier.put(&store, k, Cow::Owned(vec![byte; 100])).is_ok());
        }
        let of = ["a/", "b/"].map(|p| store.url(p));
        assert_eq!(tier.unsaved(&of), [200, 100]);
        tier.save(&of[0], 1)?;
        assert_eq!((tier.unsaved(&of), tier.spilled()), (vec![100, 100], 100));
        assert_eq!(store.get("a/1")?.as_deref(), Some(&[1u8; 100][..]));
        assert!(store.get("a/2")?.is_none() && tier.get(&store.url("a/1")).is_some());
        tier.save(&of[0], 1000)?;
        tier.flush()?;
        assert_eq!((tier.unsaved(&of), tier.spilled()), (vec![0, 0], 300));
        assert!(tier.get(&store.url("a/1")).is_none() && store.get("b/1")?.is_some());
        Ok(())
    }

    #[test]
    fn spare_memory_is_wanted_by_tasks_that_it_keeps_from_starting() {
        let tier = MemoryTier::new(1000);
        assert_eq!(tier.reserve(500).ok(), Some(true));
        let Some(spare) = tier.reserve_spare(300) else { unreachable!("there is room") };
        // A task that would not fit anyway does not ask for it.
        assert_eq!((tier.reserve(501).ok(), spare.wanted()), (Some(false), false));
        assert_eq!((tier.reserve(500).ok(), spare.wanted()), (Some(false), true));
        assert!(tier.reserve_spare(1).is_none());
        drop(spare);
        assert_eq!(tier.reserve(400).ok(), Some(true));
        assert!(tier.reserve_spare(100).is_some());
    }
}
