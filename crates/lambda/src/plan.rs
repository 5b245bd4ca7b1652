//! `plan`: makes and stores a plan of a pipeline, and answers with the batches of its tasks.

use crate::config::Config;
use crate::failure::Failure;
use crate::tasks::check_memory;
use chunkwise::Runtime;
use chunkwise::detached;
use chunkwise::executor::function::{ANSWER_FORMAT, Mode, PIPELINE, PlanAnswer, PlanEvent};
use chunkwise::pipeline::{Overrides, Pipeline, load_text};
use chunkwise::plan::ArrayRole;
use chunkwise::storage::Location;
use chunkwise::task::TaskContext;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The largest size of a pipeline in bytes.
const MAX_PIPELINE: u64 = 1 << 20;

/// A pipeline as planned. It is kept beside its plan, for people who look at the run.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// Where it came from. Relative names are relative to that folder.
    path: String,
    text: String,
    allowed_mem: u64,
    work_dir: Option<String>,
    default_work_dir: Option<String>,
    set: BTreeMap<String, String>,
}

impl Kept {
    /// Reads the pipeline of an event.
    fn of(config: &Config, e: &PlanEvent) -> Result<Kept, Failure> {
        let (path, text) = match (&e.pipeline, &e.document) {
            (Some(url), _) => (url.clone(), fetch(config, url)?),
            (_, Some(serde_json::Value::String(text))) => (inline(e), text.clone()),
            (_, document) => (inline(e), serde_json::to_string(&document).unwrap_or_default()),
        };
        if text.len() as u64 > MAX_PIPELINE {
            return Err(Failure::refused(format!("the pipeline has {} bytes, and {MAX_PIPELINE} are allowed", text.len())));
        }
        Ok(Kept {
            path,
            text,
            allowed_mem: e.allowed_mem.unwrap_or(config.memory).min(config.memory),
            work_dir: e.work_dir.clone(),
            default_work_dir: config.work_dir.clone(),
            set: e.set.clone(),
        })
    }

    /// Opens its inputs.
    pub fn load(&self, runtime: &Runtime) -> Result<Pipeline, Failure> {
        let overrides = Overrides {
            allowed_mem: Some(self.allowed_mem),
            work_dir: self.work_dir.clone(),
            default_work_dir: self.default_work_dir.clone(),
            set: self.set.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
        };
        Ok(load_text(runtime, &self.text, Path::new(&self.path), &overrides)?)
    }
}

fn inline(e: &PlanEvent) -> String {
    e.base.as_ref().map_or_else(|| "document.yaml".into(), |b| format!("{}/document.yaml", b.trim_end_matches('/')))
}

fn fetch(config: &Config, url: &str) -> Result<String, Failure> {
    let location = Location::parse(url, None)?;
    let folder = location.parent().ok_or_else(|| Failure::refused(format!("'{url}' is no file")))?;
    let store = config.runtime.stores().open(&folder)?;
    match store.size(location.name())? {
        None => return Err(Failure::refused(format!("there is no pipeline at '{url}'"))),
        Some(n) if n > MAX_PIPELINE => {
            return Err(Failure::refused(format!("the pipeline '{url}' has {n} bytes, and {MAX_PIPELINE} are allowed")));
        }
        Some(_) => {}
    }
    let data = store.get(location.name())?.ok_or_else(|| Failure::refused(format!("there is no pipeline at '{url}'")))?;
    String::from_utf8(data.into()).map_err(|_| Failure::refused(format!("the pipeline '{url}' is not text")))
}

/// Makes a plan, and prepares the run.
///
/// # Errors
/// When the pipeline is wrong, uses a place that is not allowed, or needs more memory than the function has; when outputs exist.
pub fn plan(config: &Config, e: &PlanEvent) -> Result<PlanAnswer, Failure> {
    let kept = Kept::of(config, e)?;
    let plan = kept.load(&config.runtime)?.plan()?;
    for stage in 0..plan.stages.len() {
        check_memory(config, &plan, stage)?;
    }
    let context = TaskContext::open(config.runtime.stores(), plan)?;
    let (plan, run) = (&context.plan, &context.run_dir);
    // This check comes before anything is deleted.
    for name in plan.arrays.keys() {
        config.runtime.stores().check_allowed(context.array_location(name))?;
    }
    let stages = if e.dry_run {
        detached::preview(&context, e.batch)
    } else {
        let stages = detached::start(&context, e.mode == Mode::Resume, e.mode == Mode::Overwrite, e.batch)?;
        let text = serde_json::to_vec(&kept).map_err(|e| Failure::refused(e.to_string()))?;
        context.stores().open(run)?.put(PIPELINE, text)?;
        stages
    };
    let outputs = plan.arrays.iter().filter(|(_, a)| a.role == ArrayRole::Output);
    let sum = |f: fn(&chunkwise::plan::Cost) -> u64| plan.stages.iter().map(|s| f(&s.cost)).fold(0, u64::saturating_add);
    Ok(PlanAnswer {
        format: ANSWER_FORMAT.into(),
        plan: run.join("plan.json").as_str().into(),
        hash: plan.id(),
        run: run.as_str().into(),
        outputs: outputs.map(|(n, _)| context.array_location(n).as_str().to_string()).collect(),
        tasks: plan.stages.iter().map(|s| s.tasks()).sum(),
        bytes_read: sum(|c| c.bytes_read),
        bytes_written: sum(|c| c.bytes_written),
        gets: sum(|c| c.gets),
        puts: sum(|c| c.puts),
        projected_mem: plan.stages.iter().map(|s| s.projected_mem).max().unwrap_or(0).saturating_add(plan.spec.reserved_mem),
        dry_run: e.dry_run,
        stages,
    })
}
