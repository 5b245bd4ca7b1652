//! Reads the reports that workers leave in storage. Drivers do this from time to time.

use crate::worker::{Answer, REPORTS};
use chunkwise_storage::{StorageError, Store};
use std::collections::HashSet;

/// The largest number of objects that are requested, and in memory, at once.
const AT_ONCE: usize = 256;

/// Which of a run's reports have been read.
#[derive(Default)]
pub(crate) struct Inbox {
    seen: HashSet<String>,
}

impl Inbox {
    /// True if no report has been read so far.
    pub fn is_new(&self) -> bool {
        self.seen.is_empty()
    }

    /// Marks the present reports as read. They belong to earlier runs.
    pub fn skip(&mut self, store: &Store) -> Result<(), StorageError> {
        self.seen = store.list(REPORTS)?.into_iter().map(|(k, _)| k).collect();
        Ok(())
    }

    /// Reads the reports that have arrived since the last call. `whose` tells from a key to whom the reports belong, or that nobody waits
    /// for them. `take` gets them in the order of their keys. If a report cannot be read now, it is read the next time, and so are all
    /// reports after it.
    pub fn look<T>(&mut self, store: &Store, whose: impl Fn(&str) -> Option<T>, take: impl FnMut(&T, Answer)) -> Result<(), StorageError> {
        let mut new = Vec::new();
        for (key, _) in store.list(REPORTS)? {
            if self.seen.contains(&key) {
                continue;
            }
            match whose(&key) {
                Some(who) => new.push((key, who)),
                None => _ = self.seen.insert(key),
            }
        }
        new.sort_by(|a, b| a.0.cmp(&b.0));
        self.read(&new, |keys| store.get_all(keys), take)
    }

    fn read<T, D: AsRef<[u8]>>(
        &mut self,
        new: &[(String, T)],
        mut get: impl FnMut(&[String]) -> Result<Vec<Option<D>>, StorageError>,
        mut take: impl FnMut(&T, Answer),
    ) -> Result<(), StorageError> {
        for some in new.chunks(AT_ONCE) {
            let keys: Vec<String> = some.iter().map(|(key, _)| key.clone()).collect();
            for ((key, who), data) in some.iter().zip(get(&keys)?) {
                // An object that was listed but cannot be found may still appear.
                let Some(data) = data else { continue };
                answers(data.as_ref()).into_iter().for_each(|a| take(who, a));
                self.seen.insert(key.clone());
            }
        }
        Ok(())
    }
}

/// The lines of an object with reports. A line that cannot be parsed is ignored.
pub(crate) fn answers(data: &[u8]) -> Vec<Answer> {
    String::from_utf8_lossy(data).lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_now_is_read_the_next_time() {
        let mut inbox = Inbox::default();
        let new: Vec<(String, usize)> = (0..3 * AT_ONCE).map(|k| (format!("{REPORTS}/{k:06}"), k)).collect();
        let line = |task: &str| format!("{{\"returned\":{{\"attempt\":0,\"stage\":0,\"task\":{task}}}}}\nno report\n");
        let mut look = |busy: &str, absent: &str| {
            let left: Vec<(String, usize)> = new.iter().filter(|(k, _)| !inbox.seen.contains(k)).cloned().collect();
            let mut asked = 0;
            let get = |keys: &[String]| {
                asked += 1;
                if keys.iter().any(|k| k == busy) {
                    let (action, url, detail) = ("read", busy.into(), "busy".into());
                    return Err(StorageError::Store { action, url, detail, transient: true });
                }
                // Numbers have no leading zeros in JSON.
                let text = |k: &String| line(&k[REPORTS.len() + 1..].parse::<usize>().unwrap().to_string());
                Ok(keys.iter().map(|k| (k != absent).then(|| text(k))).collect())
            };
            let mut tasks = Vec::new();
            let told = inbox.read(&left, get, |k, a| {
                assert!(matches!(a, Answer::Returned { task, .. } if task == *k as u64));
                tasks.push(*k);
            });
            (tasks, told.is_ok(), asked)
        };
        // The second request of three fails. The result of the first one counts, and nothing else counts as read.
        let (tasks, good, asked) = look(&new[AT_ONCE + 1].0, &new[3].0);
        assert_eq!((tasks.len(), good, asked), (AT_ONCE - 1, false, 2));
        let (tasks, good, asked) = look("", "");
        assert_eq!((tasks.len(), good, asked), (2 * AT_ONCE + 1, true, 3));
        assert_eq!((tasks[0], tasks[1]), (3, AT_ONCE));
        assert_eq!(look("", "").0, Vec::<usize>::new());
    }
}
