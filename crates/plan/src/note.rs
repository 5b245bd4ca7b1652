//! What a stage says of itself, for `--explain`, for pictures and for errors.

use crate::memory::Need;
use chunkwise_types::ByteSize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Something that is said of a stage. Nothing that a run does depends on it.
///
/// ```
/// use chunkwise_plan::Note;
/// let note = Note::operations(["mean", "sqrt"].map(String::from).to_vec());
/// assert_eq!(note.to_string(), "operations: mean, sqrt");
/// assert_eq!(serde_json::to_string(&note).unwrap(), r#"{"operations":["mean","sqrt"]}"#);
/// assert_eq!(serde_json::from_str::<Note>("\"anything\"").unwrap().to_string(), "anything");
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
pub enum Note {
    /// Why the stage is as it is, or anything else, in words.
    Text(String),
    /// What the stage computes.
    Operations {
        /// The user's operations, in the order in which they are computed; none for a copy.
        operations: Vec<String>,
    },
    /// What the largest task needs.
    Memory {
        /// In bytes, itemised.
        memory: Need,
    },
}

impl Note {
    /// The user's operations, in the order in which they are computed.
    pub fn operations(operations: Vec<String>) -> Note {
        Note::Operations { operations }
    }

    /// The user's operations with commas between them, if this says them.
    pub fn computes(&self) -> Option<String> {
        match self {
            Note::Operations { operations } if operations.is_empty() => Some("copy".into()),
            Note::Operations { operations } => Some(operations.join(", ")),
            Note::Text(_) | Note::Memory { .. } => None,
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::Text(text) => f.write_str(text),
            Note::Operations { .. } => write!(f, "operations: {}", self.computes().unwrap_or_default()),
            Note::Memory { memory: need } => write!(
                f,
                "memory: {} = inputs {} + accumulators {} + outputs {} + the larger of reading {} and tile {} + writing {} + allowance {}",
                ByteSize(need.total),
                ByteSize(need.leaves),
                ByteSize(need.accumulators),
                ByteSize(need.outputs),
                ByteSize(need.reading),
                ByteSize(need.tile),
                ByteSize(need.writing),
                ByteSize(need.allowance())
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Note;

    #[test]
    fn what_is_no_note_is_refused() {
        for text in [r#"{"operations": ["mean"], "more": 1}"#, r#"{"memory": {"total": 1}}"#, r#"{"other": []}"#, "1"] {
            assert!(serde_json::from_str::<Note>(text).is_err(), "{text}");
        }
    }
}
