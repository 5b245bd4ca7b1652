//! Finds out what has changed if a run cannot be resumed because the pipeline was edited.
//!
//! The folder of a run has the hash of its plan as its name, so an edited pipeline has another folder. Then this module searches the
//! neighbouring plans for one with the same outputs.

use crate::RunError;
use crate::driver::outputs;
use chunkwise_plan::{ArrayRole, Codec, Plan, PlanArray};
use chunkwise_storage::StorageError;
use chunkwise_task::TaskContext;
use chunkwise_types::ByteSize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

/// The definitions in the pipeline: `array y` is an expression, `input x` a place. They are kept in the folder of a run to say what has
/// changed.
pub type Definitions = BTreeMap<String, String>;

/// The object in a run's folder that holds them.
pub(crate) const DEFINITIONS: &str = "definitions.json";

/// The largest number of runs in a work directory that are read.
const MAX_RUNS: usize = 256;

/// The largest number of changes in a message.
const TOLD: usize = 12;

/// A run with some of the same outputs.
pub(crate) struct Earlier {
    /// The name of its folder.
    pub run: String,
    /// The differences to this run.
    pub changes: Vec<String>,
}

impl Earlier {
    /// The changes, one a line.
    pub fn list(&self) -> String {
        let more = self.changes.len().saturating_sub(TOLD);
        let mut out: String = self.changes.iter().take(TOLD).map(|c| format!("\n  - {c}")).collect();
        if more > 0 {
            out += &format!("\n  - and {more} more");
        }
        out
    }
}

/// The run in the work directory that is most like this plan and has one of its outputs.
pub(crate) fn earlier(ctx: &TaskContext, definitions: &Definitions) -> Result<Option<Earlier>, StorageError> {
    let Some(work) = ctx.run_dir.parent() else { return Ok(None) };
    let store = ctx.stores().open(&work)?;
    if !store.can_list() {
        return Ok(None);
    }
    let urls: BTreeSet<&str> = of_role(&ctx.plan, ArrayRole::Output).into_keys().collect();
    let mut best: Option<Earlier> = None;
    for run in store.list_dirs("")?.into_iter().filter(|run| run != ctx.run_dir.name()).take(MAX_RUNS) {
        let Some(text) = store.get(&format!("{run}/plan.json"))? else { continue };
        // It is a plan of another version, or a file of another program.
        let Ok(plan) = Plan::from_json(&String::from_utf8_lossy(&text)) else { continue };
        if !of_role(&plan, ArrayRole::Output).keys().any(|url| urls.contains(url)) {
            continue;
        }
        let written = store.get(&format!("{run}/{DEFINITIONS}"))?.and_then(|d| serde_json::from_slice(&d).ok()).unwrap_or_default();
        let changes = changes(&plan, &written, &ctx.plan, definitions);
        if best.as_ref().is_none_or(|b| changes.len() < b.changes.len()) {
            best = Some(Earlier { run, changes });
        }
    }
    Ok(best)
}

/// The error if a run should continue an earlier one that does not exist, and an output is in the way.
pub(crate) fn refusal(ctx: &TaskContext, url: String, definitions: &Definitions) -> Result<RunError, StorageError> {
    let work = ctx.run_dir.parent().map(|w| w.to_string()).unwrap_or_default();
    Ok(match earlier(ctx, definitions)? {
        Some(found) => RunError::Edited { detail: found.list(), run: found.run, changes: found.changes, url },
        None => RunError::NoRun { url, work_dir: work },
    })
}

fn of_role(plan: &Plan, role: ArrayRole) -> BTreeMap<&str, &PlanArray> {
    plan.arrays.values().filter(|a| a.role == role).map(|a| (a.url.as_str(), a)).collect()
}

fn short(url: &str) -> &str {
    url.strip_prefix("file://").unwrap_or(url)
}

fn lengths(shape: &[u64]) -> String {
    if shape.is_empty() { "one element".into() } else { shape.iter().map(u64::to_string).collect::<Vec<_>>().join(" x ") }
}

fn codec(codec: &Codec) -> String {
    match codec {
        Codec::Default => "blosc".into(),
        Codec::None => "none".into(),
        Codec::Zstd(level) => format!("zstd, level {level}"),
        Codec::Gzip(level) => format!("gzip, level {level}"),
        // In the form of the metadata.
        Codec::Codecs(_) | Codec::V2(_) => serde_json::to_string(codec).unwrap_or_default(),
    }
}

/// Sentences about the differences between an earlier plan and the present one, each with both definitions.
fn changes(was: &Plan, wrote: &Definitions, is: &Plan, writes: &Definitions) -> Vec<String> {
    let mut out = Vec::new();
    let known = !wrote.is_empty() && !writes.is_empty();
    if known {
        for name in wrote.keys().chain(writes.keys()).collect::<BTreeSet<_>>() {
            match (wrote.get(name), writes.get(name)) {
                (Some(a), Some(b)) if a != b => out.push(format!("{name} was `{a}`, is `{b}`")),
                (Some(a), None) => out.push(format!("{name} is not there any more; it was `{a}`")),
                (None, Some(b)) => out.push(format!("{name} is new: `{b}`")),
                _ => {}
            }
        }
    }
    if was.spec.allowed_mem != is.spec.allowed_mem {
        out.push(format!("the allowed memory was {}, is {}", ByteSize(was.spec.allowed_mem), ByteSize(is.spec.allowed_mem)));
    }
    if was.spec.workers != is.spec.workers {
        out.push(format!(
            "it was planned for {} tasks at once, is for {} (`workers` in the spec, or the processors of the machine)",
            was.spec.workers, is.spec.workers
        ));
    }
    if was.spec.storage != is.spec.storage {
        out.push("the storage options have changed".into());
    }
    for (role, what) in [(ArrayRole::Input, "input"), (ArrayRole::Output, "output")] {
        let (before, now) = (of_role(was, role), of_role(is, role));
        for (url, a) in &before {
            match now.get(url) {
                Some(b) => array(&format!("the {what} '{}'", short(url)), a, b, &mut out),
                None if !known => out.push(format!("the {what} '{}' is not there any more", short(url))),
                None => {}
            }
        }
        if !known {
            out.extend(now.keys().filter(|url| !before.contains_key(*url)).map(|url| format!("the {what} '{}' is new", short(url))));
        }
    }
    if out.is_empty() {
        // The computation of each output, stage by stage.
        for url in of_role(is, ArrayRole::Output).keys() {
            if made(was, url) != made(is, url) {
                out.push(format!("what is computed for '{}' has changed", short(url)));
            }
        }
    }
    if out.is_empty() {
        out.push(if was.groups == is.groups { "the plan is another one" } else { "the coordinates of the outputs have changed" }.into());
    }
    out
}

/// The differences of one array.
fn array(what: &str, a: &PlanArray, b: &PlanArray, out: &mut Vec<String>) {
    let mut add = |part: &str, was: String, is: String| {
        if was != is {
            out.push(format!("{what}: {part} was {was}, is {is}"));
        }
    };
    add("the dtype", a.dtype.to_string(), b.dtype.to_string());
    add("the shape", lengths(&a.shape), lengths(&b.shape));
    match (&a.encoding, &b.encoding) {
        (Some(x), Some(y)) => {
            add("the chunk shape", lengths(&x.chunks), lengths(&y.chunks));
            let shards = |s: &Option<Vec<u64>>| s.as_ref().map_or("none".into(), |s| lengths(s));
            add("the shard shape", shards(&x.shards), shards(&y.shards));
            add("the codec", codec(&x.codec), codec(&y.codec));
            let text = |v: &dyn Debug| format!("{v:?}");
            add("the fill value", text(&x.fill_value), text(&y.fill_value));
            let dims = |d: &Option<Vec<Option<String>>>| {
                d.iter().flatten().map(|n| n.clone().unwrap_or_else(|| "?".into())).collect::<Vec<_>>().join(", ")
            };
            add("the list of dimensions", dims(&x.dimension_names), dims(&y.dimension_names));
            for key in x.attributes.keys().chain(y.attributes.keys()).collect::<BTreeSet<_>>() {
                let value = |of: &serde_json::Map<String, serde_json::Value>| of.get(key).map_or("not there".into(), |v| v.to_string());
                add(&format!("the attribute {key}"), value(&x.attributes), value(&y.attributes));
            }
        }
        _ if a.grid != b.grid => out.push(format!("{what}: chunks have changed")),
        _ if a.shape == b.shape && a.dtype == b.dtype && a.metadata != b.metadata => out.push(format!("{what}: its metadata has changed")),
        _ => {}
    }
}

/// The kernels of all stages on which an output depends, in order.
fn made(plan: &Plan, url: &str) -> Vec<String> {
    let mut wanted: BTreeSet<&str> = plan.arrays.iter().filter(|(_, a)| a.url == url).map(|(n, _)| n.as_str()).collect();
    let mut out = Vec::new();
    for stage in plan.stages.iter().rev() {
        if stage.outputs.iter().any(|o| wanted.contains(o.array.as_str())) {
            wanted.extend(stage.reads());
            out.push(serde_json::to_string(&stage.program).unwrap_or_default());
        }
    }
    out
}

/// A note for a run that should continue an earlier one and finds none, although a run with the same outputs exists.
pub(crate) fn note(ctx: &TaskContext, definitions: &Definitions) -> Result<Option<String>, StorageError> {
    if outputs(ctx).is_empty() {
        return Ok(None);
    }
    Ok(earlier(ctx, definitions)?.map(|found| {
        format!("nothing of run '{}' is used, because the pipeline has changed since; everything is computed:{}", found.run, found.list())
    }))
}
