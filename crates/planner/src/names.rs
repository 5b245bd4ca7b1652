//! Names of stages for people: those of the outputs that they lead to, and what they do for them.
//!
//! A stage that writes an output is named after it. Any other one is `anomaly: mean`, or `anomaly: mean 1/2` where a fold has two rounds.

use crate::stages::Draft;
use chunkwise_plan::{ArrayRole, Note, Stage, StageKind};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Operations by which a stage cannot be recognised.
const PLAIN: [&str; 24] = [
    "scalar",
    "astype",
    "index",
    "squeeze",
    "expand_dims",
    "broadcast_to",
    "permute_dims",
    "reshape",
    "add",
    "subtract",
    "multiply",
    "divide",
    "square",
    "sqrt",
    "maximum",
    "minimum",
    "negative",
    "where",
    "isnan",
    "equal",
    "not_equal",
    "greater",
    "less",
    "copy",
];

/// Outputs that are named before the rest is counted.
const MAX_NAMED_OUTPUTS: usize = 2;

/// What follows the number of an array: `mean` of `tmp0-mean`.
fn plain(array: &str) -> &str {
    array.split_once('-').map_or(array, |(_, name)| name)
}

/// What a stage does, in a word or two.
fn does(stage: &Stage) -> String {
    let read = || stage.reads().next().map(plain).unwrap_or_default();
    if stage.kind == StageKind::Rechunk {
        return format!("rechunk {}", read());
    }
    let of = |note: &Note| if let Note::Operations { operations } = note { Some(operations.clone()) } else { None };
    let all = stage.notes.iter().find_map(of).unwrap_or_default();
    // As many as it has results, of which the last operations are.
    let names = all.iter().rev().map(String::as_str).filter(|o| !PLAIN.contains(o));
    let mut telling: Vec<&str> = names.take(stage.outputs.len().min(MAX_NAMED_OUTPUTS)).collect();
    telling.reverse();
    if telling.is_empty() { all.last().cloned().unwrap_or_else(|| "copy".into()) } else { telling.join(" and ") }
}

/// Names the stages that write an intermediate array.
pub(crate) fn run(draft: &mut Draft<'_>) {
    // By array: the outputs that it leads to. A stage reads only what stages before it write.
    let mut leads: HashMap<String, Rc<Vec<String>>> = HashMap::new();
    let mut second: Vec<bool> = vec![false; draft.stages.len()];
    for s in (0..draft.stages.len()).rev() {
        let stage = &draft.stages[s];
        let mut to: Vec<String> = Vec::new();
        let mut inner = false;
        // The arrays that one stage reads lead to the same outputs, mostly, and share one list of them.
        let (mut seen, mut lists) = (HashSet::new(), HashSet::new());
        for o in &stage.outputs {
            let output = draft.arrays.get(&o.array).is_some_and(|a| a.role == ArrayRole::Output);
            inner |= !output;
            if output {
                let name = plain(&o.array);
                to.extend(seen.insert(name.to_string()).then(|| name.to_string()));
            } else if let Some(list) = leads.get(&o.array).filter(|list| lists.insert(Rc::as_ptr(list))) {
                to.extend(list.iter().filter(|name| seen.insert((*name).clone())).cloned());
            }
        }
        let to = Rc::new(to);
        for array in stage.reads() {
            match leads.get(array) {
                None => _ = leads.insert(array.to_string(), to.clone()),
                Some(all) if Rc::ptr_eq(all, &to) => {}
                Some(all) => {
                    let known: HashSet<&String> = all.iter().collect();
                    let new = to.iter().filter(|name| !known.contains(name));
                    let both = Rc::new(new.chain(all.iter()).cloned().collect());
                    leads.insert(array.to_string(), both);
                }
            }
        }
        let first = stage.name.ends_with(" (partial)");
        if first {
            let made: HashSet<&str> = stage.outputs.iter().map(|o| o.array.as_str()).collect();
            let readers = (s + 1..draft.stages.len()).filter(|&r| draft.stages[r].reads().any(|a| made.contains(&a)));
            readers.for_each(|r| second[r] = true);
        }
        if inner && !to.is_empty() {
            let outputs = match to.len().saturating_sub(MAX_NAMED_OUTPUTS) {
                0 => to.join(", "),
                more => format!("{} and {more} more", to[..MAX_NAMED_OUTPUTS].join(", ")),
            };
            let round = if first { " 1/2" } else { "" };
            draft.stages[s].name = format!("{outputs}: {}{round}", does(&draft.stages[s]));
        }
    }
    for (stage, _) in draft.stages.iter_mut().zip(second).filter(|(_, second)| *second) {
        // Of a stage that writes only outputs, they say enough.
        if stage.outputs.iter().any(|o| draft.arrays.get(&o.array).is_some_and(|a| a.role == ArrayRole::Intermediate)) {
            stage.name += " 2/2";
        }
    }
}
