//! The inputs of a run: checks that they are there, and stay what they were when the run began.
//!
//! When a run begins, what stores say of the state of each input is kept in the folder of the run. Tasks refuse chunks that were written later,
//! and take a missing chunk for an empty one only while its array is there. A run that is resumed, and publishing, compare with what was kept.

use crate::context::Opened;
use crate::{TaskContext, TaskError};
use chunkwise_plan::ArrayRole;
use chunkwise_storage::{Since, Stamp, StorageError, at_once, check_input, checksum, has_grown, now};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};

/// The clock of a store may be ahead of ours by so much, in nanoseconds; what is later than that has a time that means nothing.
const AHEAD: u64 = 300_000_000_000;

/// The inputs of a run when it began.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inputs {
    /// When that was: nanoseconds since 1970.
    began: u64,
    /// The same by the clock of an object store that the run writes to, if there is one. Object stores have the right time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    began_there: Option<u64>,
    /// The state of the metadata object of each, by the name of the array in the plan.
    arrays: BTreeMap<String, Stamp>,
}

/// As it is kept.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept<T> {
    inputs: T,
    xxh3: String,
}

/// The checksum of what is kept.
fn sum(inputs: &Inputs) -> String {
    format!("{:016x}", checksum(&serde_json::to_vec(inputs).unwrap_or_default()))
}

impl Inputs {
    /// The object in the folder of a run that has this.
    pub const OBJECT: &str = "inputs.json";

    /// Looks at the inputs of a plan: each must be what the plan was made for. `began_there` is the time by the clock of an object store, shortly
    /// before.
    ///
    /// # Errors
    /// When one is not there, or another one.
    pub fn look(ctx: &TaskContext, began_there: Option<u64>) -> Result<Inputs, TaskError> {
        let began = now();
        let arrays = each(ctx, |_, a| check_input(ctx.stores(), &a.location, &a.meta))?;
        ctx.inputs().for_each(|(_, a)| a.watch.confirm(1));
        Ok(Inputs { began, began_there, arrays })
    }

    /// What was kept by [`Inputs::keep`]; `None` if nothing was, or it is damaged.
    ///
    /// # Errors
    /// When storage fails.
    pub fn of_run(ctx: &TaskContext) -> Result<Option<Inputs>, StorageError> {
        Ok(ctx.stores().open(&ctx.run_dir)?.get(Self::OBJECT)?.and_then(|text| Self::of_bytes(&text)))
    }

    /// What [`Inputs::bytes`] gave, if not a bit of it has changed: with another time, changes of the inputs would not be seen.
    fn of_bytes(bytes: &[u8]) -> Option<Inputs> {
        let kept: Kept<Inputs> = serde_json::from_slice(bytes).ok()?;
        (kept.xxh3 == sum(&kept.inputs)).then_some(kept.inputs)
    }

    /// Keeps it in the folder of the run.
    ///
    /// # Errors
    /// When storage fails.
    pub fn keep(&self, ctx: &TaskContext) -> Result<(), StorageError> {
        ctx.stores().open(&ctx.run_dir)?.put(Self::OBJECT, self.bytes())
    }

    /// What [`Inputs::OBJECT`] holds.
    pub fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(&Kept { inputs: self, xxh3: sum(self) }).unwrap_or_default()
    }

    /// From now on, tasks of this process refuse what was written since.
    pub fn watch(&self, ctx: &TaskContext) {
        ctx.inputs().for_each(|(name, a)| a.watch.set_since(&a.location, self.since(name, a)));
    }

    /// Whatever was written after this does not belong to what the run reads. The metadata tells the time by the clock of its store.
    fn since(&self, name: &str, a: &Opened) -> Since {
        let theirs = self.began_there.filter(|_| a.location.is_remote());
        let began = theirs.unwrap_or(self.began);
        let ahead = |s: &Stamp| s.modified.checked_sub(began).is_some_and(|by| by < AHEAD);
        let since = self.arrays.get(name).filter(|s| ahead(s)).map_or(began, |s| s.modified);
        if theirs.is_some() { Since::Theirs(since) } else { Since::Ours(since) }
    }

    /// The chunks of each input that were written since the run began; from now on they belong to what it reads.
    ///
    /// # Errors
    /// When an input is not there any more, or is another one.
    pub fn changed(&mut self, ctx: &TaskContext, began_there: Option<u64>) -> Result<BTreeMap<String, HashSet<Vec<u64>>>, TaskError> {
        let began = now();
        let mut found = each(ctx, |name, a| {
            let stamp = check_input(ctx.stores(), &a.location, &a.meta)?;
            if self.arrays.get(name).is_some_and(|was| !was.is(&stamp)) {
                return Err(rewritten(a));
            }
            a.io.written_since(self.since(name, a))
        })?;
        found.retain(|_, chunks| !chunks.is_empty());
        if !found.is_empty() {
            (self.began, self.began_there) = (began, began_there);
        }
        ctx.inputs().for_each(|(_, a)| a.watch.confirm(1));
        Ok(found)
    }

    /// Makes sure, after the last task, that no input was replaced meanwhile. One that has only grown is what it was, as far as it was read.
    ///
    /// # Errors
    /// When one was, or is not there any more.
    pub fn check_end(&self, ctx: &TaskContext) -> Result<(), TaskError> {
        each(ctx, |name, a| {
            let stamp = match check_input(ctx.stores(), &a.location, &a.meta) {
                Err(e @ StorageError::InputChanged { .. }) => {
                    return if has_grown(ctx.stores(), &a.location, &a.meta)? { Ok(()) } else { Err(e) };
                }
                other => other?,
            };
            match self.arrays.get(name) {
                Some(was) if !was.is(&stamp) => Err(rewritten(a)),
                _ => Ok(()),
            }
        })
        .map(|_| ())
    }
}

fn rewritten(a: &Opened) -> StorageError {
    StorageError::InputChanged { url: a.location.to_string(), detail: "its metadata was written again after the run had begun".into() }
}

/// Does something for each input, some at once.
fn each<R: Send>(
    ctx: &TaskContext,
    call: impl Fn(&str, &Opened) -> Result<R, StorageError> + Sync,
) -> Result<BTreeMap<String, R>, TaskError> {
    let inputs: Vec<_> = ctx.inputs().collect();
    let results = at_once(&inputs, |(name, a)| call(name, a));
    let of = |((name, _), result): (&(&str, &Opened), Result<R, StorageError>)| match result {
        Ok(found) => Ok((name.to_string(), found)),
        Err(source) => Err(TaskError::Open { array: name.to_string(), source }),
    };
    inputs.iter().zip(results).map(of).collect()
}

impl TaskContext {
    fn inputs(&self) -> impl Iterator<Item = (&str, &Opened)> {
        self.arrays.iter().filter(|(name, _)| self.plan.arrays[*name].role == ArrayRole::Input).map(|(name, a)| (name.as_str(), a))
    }

    fn doubtful(&self, stage: usize) -> impl Iterator<Item = (&Opened, u64)> {
        let inputs = self.plan.stages[stage].reads().filter(|name| self.plan.arrays[*name].role == ArrayRole::Input);
        inputs.filter_map(|name| Some((&self.arrays[name], self.arrays[name].watch.doubtful()?)))
    }

    /// True if [`TaskContext::confirm_inputs`] would look for one.
    pub(crate) fn doubts_inputs(&self, stage: usize) -> bool {
        self.doubtful(stage).next().is_some()
    }

    /// Of the inputs of a stage, looks for those that were not looked at in this process yet, and those of which chunks were missing since: an
    /// array that is not there, or another one, has no empty chunks.
    ///
    /// # Errors
    /// When one is not there any more, or is another one.
    pub(crate) fn confirm_inputs(&self, stage: usize) -> Result<(), StorageError> {
        let doubtful: Vec<_> = self.doubtful(stage).collect();
        at_once(&doubtful, |(a, missed)| {
            check_input(self.stores(), &a.location, &a.meta)?;
            a.watch.confirm(*missed);
            Ok(())
        })
        .into_iter()
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_bit_may_change() {
        let inputs = Inputs { began: 1_700_000_000_123_456_789, began_there: Some(1_700_000_000_000_000_000), arrays: BTreeMap::new() };
        let bytes = inputs.bytes();
        let began = |bytes: &[u8]| Inputs::of_bytes(bytes).map(|i| (i.began, i.began_there));
        assert_eq!(began(&bytes), Some((inputs.began, inputs.began_there)));
        for bit in 0..bytes.len() * 8 {
            let mut other = bytes.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            // White space may become another one.
            assert!(began(&other).is_none_or(|found| Some(found) == began(&bytes)), "bit {bit}");
        }
        (0..bytes.len()).for_each(|n| assert_eq!(began(&bytes[..n]), None, "{n}"));
    }
}
