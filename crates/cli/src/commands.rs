//! The subcommands.

use crate::cost;
use crate::failure::{SIGNAL, Said, refuse, say};
use crate::out::{errln, out, outln};
use crate::progress::Progress;
use crate::{Layout, Limits, PlanShown, RunFlags};
use chunkwise::executor::{Choice, Event, RunOptions};
use chunkwise::ops::table::{self, Operation};
use chunkwise::pipeline::{LoadError, Overrides, Pipeline, codec_named, load, read_text};
use chunkwise::plan::Plan;
use chunkwise::storage::{Location, Stores};
use chunkwise::{ByteSize, Runtime};
use miette::{Report, miette};
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_shutdown, register_usize};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};

type Outcome = Result<(), Report>;

/// Set by signals.
static CANCEL: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

fn overrides(limits: &Limits) -> Overrides {
    Overrides {
        allowed_mem: limits.allowed_mem.map(|m| m.0),
        work_dir: limits.work_dir.clone(),
        default_work_dir: limits.default_work_dir.clone(),
        set: limits.set.clone(),
    }
}

/// Opens a file. A JSON object with the format of a plan is a plan; anything else is a pipeline.
fn prepare(runtime: &Runtime, path: &Path, limits: &Limits) -> Result<(Plan, Option<Pipeline>), Report> {
    let text = read_text(runtime.stores(), path).map_err(say)?;
    if text.trim_start().starts_with('{') && text.contains("\"format\"") && text.contains("chunkwise-plan/") {
        let plan = Plan::from_json(&text).map_err(|e| Report::new(Said::Plan(path.display().to_string(), e)))?;
        // The author of the plan does not decide how much memory is allowed here.
        if let Some(allowed) = limits.allowed_mem.filter(|m| m.0 < plan.spec.allowed_mem) {
            let made = ByteSize(plan.spec.allowed_mem);
            return Err(refuse!("the plan was made for {made}, more than --allowed-mem {allowed}; plan again, or allow as much"));
        }
        runtime.stores().configure(&plan.spec.storage).map_err(say)?;
        chunkwise::executor::check_apart(runtime.stores(), &plan).map_err(say)?;
        return Ok((plan, None));
    }
    let pipeline = load(runtime, path, &overrides(limits)).map_err(|e| match e {
        LoadError::Pipeline(p) => Report::new(p),
        LoadError::Other(e) => say(e),
    })?;
    for note in &pipeline.notes {
        crate::out::remember(note);
        errln!("note: {note}");
    }
    let plan = pipeline.plan().map_err(say)?;
    Ok((plan, Some(pipeline)))
}

/// The executor of the command line, or else of the pipeline. Options of the pipeline count only if they belong to the same executor.
fn choose(runtime: &Runtime, pipeline: Option<&Pipeline>, limits: &Limits) -> Result<Choice, Report> {
    let spec = pipeline.map(|p| p.executor.clone()).unwrap_or_default();
    let function = limits.function.as_ref().map(|f| ("function".to_string(), f.clone()));
    let named = limits.executor.clone().or_else(|| function.as_ref().map(|_| "lambda".into()));
    let name = named.unwrap_or_else(|| spec.name.clone());
    let offered = if name == spec.name { spec.options } else { Default::default() };
    let given = function.into_iter().chain(limits.executor_option.iter().cloned()).collect();
    runtime.choose(&name, &given, &offered).map_err(|e| refuse!("{e}"))
}

/// Ends a run at the next chunk when the user (Ctrl-C) or an engine (SIGTERM) asks for it. A second signal ends it at once.
pub(crate) fn stop_on_signals() -> Result<&'static AtomicBool, Report> {
    for (signal, code) in [(SIGINT, 130), (SIGTERM, 143)] {
        // The order matters: at the first signal, the flag is not set yet.
        register_conditional_shutdown(signal, code, CANCEL.clone()).map_err(|e| miette!("{e}"))?;
        register_usize(signal, SIGNAL.clone(), signal as usize).map_err(|e| miette!("{e}"))?;
        register(signal, CANCEL.clone()).map_err(|e| miette!("{e}"))?;
    }
    Ok(&CANCEL)
}

fn execute(runtime: &Runtime, plan: Plan, pipeline: Option<&Pipeline>, limits: &Limits, flags: &RunFlags) -> Outcome {
    let choice = choose(runtime, pipeline, limits)?;
    if flags.dry_run {
        outln!(
            "{}",
            if flags.json { serde_json::to_string_pretty(&plan).map_err(|e| miette!("{e}"))? } else { chunkwise::report::table(&plan) }
        );
        return Ok(());
    }
    let cancel = stop_on_signals()?;
    let options = RunOptions {
        resume: flags.resume,
        overwrite: flags.overwrite,
        keep: flags.keep,
        retries: flags.retries,
        task_timeout: flags.task_timeout,
        backup_share: flags.backups / 100.0,
        definitions: pipeline.map(|p| p.definitions.clone()).unwrap_or_default(),
        ..RunOptions::default()
    };
    let mut progress = Progress::new(flags.json);
    let workers = limits.workers.map(|n| n.max(1) as usize);
    let events = &mut |e: &Event| progress.show(e);
    let report = runtime
        .run_on(&choice, plan.clone(), workers, &options, cancel, events)
        .map_err(|e| Report::new(Said::Run(e, plan.stages.iter().map(|s| s.name.clone()).collect())))?;
    if !flags.json && report.usage.is_some() {
        match cost::compared(&plan, &report) {
            Ok(c) => errln!("{}", c.summary()),
            Err(e) => errln!("what it cost is not known: {e}"),
        }
    }
    if flags.json {
        let mut document = serde_json::to_value(&report).map_err(|e| miette!("{e}"))?;
        if let Some(object) = document.as_object_mut() {
            // A region without prices is no reason to fail after the work is done.
            let cost = cost::compared(&plan, &report).ok().and_then(|c| serde_json::to_value(c).ok());
            object.insert("cost".into(), cost.unwrap_or_default());
            object.insert("warnings".into(), crate::out::warnings().into());
        }
        outln!("{document}");
    }
    Ok(())
}

pub(crate) fn run(runtime: &Runtime, path: &Path, limits: &Limits, flags: &RunFlags) -> Outcome {
    let (plan, pipeline) = prepare(runtime, path, limits)?;
    execute(runtime, plan, pipeline.as_ref(), limits, flags)
}

pub(crate) fn plan(runtime: &Runtime, path: &Path, limits: &Limits, shown: &PlanShown, as_json: bool) -> Outcome {
    let PlanShown { format, explain, cost, costs } = shown;
    let (format, explain, cost) = match (as_json, format.as_str()) {
        (true, "table" | "json") => ("json", *explain, *cost),
        (true, other) => return Err(refuse!("--json and --format {other} contradict each other; leave one of them out")),
        (false, format) => (format, *explain, *cost),
    };
    let (plan, pipeline) = prepare(runtime, path, limits)?;
    // Users who run it elsewhere are not interested in this cost.
    let spec = pipeline.as_ref().map_or("threads", |p| p.executor.name.as_str());
    let lambda = limits.function.is_some() || limits.executor.as_deref().unwrap_or(spec) == "lambda";
    match format {
        "json" => outln!("{}", serde_json::to_string_pretty(&plan).map_err(|e| miette!("{e}"))?),
        "dot" => out!("{}", chunkwise::report::dot(&plan)),
        "svg" => out!("{}", chunkwise::report::svg(&plan)),
        _ => {
            let projected = cost::projected(&plan, costs);
            out!("{}", chunkwise::report::table(&plan));
            match &projected {
                Ok((projection, _)) if lambda || cost => out!("{}", projection.summary()),
                // Users who pay nobody also look at plans.
                Err(e) if lambda && !cost => outln!("no cost is projected: {e}"),
                _ => {}
            }
            if explain {
                out!("\n{}", chunkwise::report::explain(&plan));
            }
            if cost {
                let (projection, prices) = projected?;
                out!("\n{}", projection.details(&prices));
            }
        }
    }
    Ok(())
}

fn lengths(text: &str, array: &chunkwise::Array, default: Vec<u64>) -> Result<Vec<u64>, Report> {
    let mut out = default;
    for (position, part) in text.split(',').enumerate() {
        let (axis, number) = match part.split_once('=') {
            Some((name, n)) => {
                let axis = array.axis_named(name.trim()).or_else(|| name.trim().parse().ok().filter(|&i| i < array.rank()));
                (
                    axis.ok_or_else(|| {
                        let has: Vec<&str> = array.dims().iter().flatten().map(String::as_str).collect();
                        let near = chunkwise::pipeline::suggest(name.trim(), has.iter().copied());
                        let near = near.map(|n| format!("; did you mean '{n}'?")).unwrap_or_default();
                        refuse!("there is no dimension '{}'; the array has {}{near}", name.trim(), has.join(", "))
                    })?,
                    n,
                )
            }
            None if position < array.rank() => (position, part),
            None => return Err(refuse!("there are more lengths than the {} dimensions of the array", array.rank())),
        };
        let n: i64 = number
            .trim()
            .parse()
            .map_err(|_| refuse!("'{number}' is not a length; write a whole number, such as time=10, or -1 for the whole dimension"))?;
        out[axis] = match n {
            -1 => array.shape()[axis].max(1),
            1.. => n as u64,
            _ => return Err(refuse!("a chunk length must be at least 1, or -1 for the whole dimension")),
        };
    }
    Ok(out)
}

pub(crate) fn rechunk(runtime: &Runtime, source: &str, target: &str, layout: &Layout, limits: &Limits, flags: &RunFlags) -> Outcome {
    let array = runtime.array(source, None).map_err(say)?;
    let work_dir = limits.work_dir.clone().unwrap_or_else(|| chunkwise::storage::default_work_dir().display().to_string());
    let session = runtime
        .session(limits.allowed_mem.map_or(2_000_000_000, |m| m.0), chunkwise::pipeline::default_workers(), &work_dir)
        .map_err(say)?;
    let mut request = session.request(target, &array).map_err(say)?;
    let apart = |place: &str| place.trim_end_matches('/').to_string();
    let (from, to) = (Location::parse(source, None).map_err(say)?, Location::parse(target, None).map_err(say)?);
    if apart(from.as_str()) == apart(to.as_str()) {
        return Err(refuse!("'{to}' would be written while it is read; name another target, and move it to the old place when it is done"));
    }
    let natural: Vec<u64> = array.chunks().max_shape().iter().map(|&n| n.max(1)).collect();
    let new = lengths(&layout.chunks, &array, natural)?;
    request.shards = layout.shards.as_deref().map(|s| lengths(s, &array, new.clone())).transpose()?;
    request.chunks = Some(new);
    let codec = &layout.codec;
    request.codec = codec_named(codec).ok_or_else(|| refuse!("there is no codec '{codec}'; there are blosc, none, zstd and gzip"))?;
    let pipeline = Pipeline::of(session, vec![request]);
    let plan = pipeline.plan().map_err(say)?;
    execute(runtime, plan, Some(&pipeline), limits, flags)
}

pub(crate) fn run_task(runtime: &Runtime, path: &Path, stage: usize, task: u64) -> Outcome {
    let stores = runtime.stores();
    let text = read_text(stores, path).map_err(say)?;
    let plan = Plan::from_json(&text).map_err(|e| Report::new(Said::Plan(path.display().to_string(), e)))?;
    let context =
        chunkwise::task::TaskContext::open(stores, plan).and_then(|c| c.with_functions(&runtime.host().functions)).map_err(say)?;
    let report = chunkwise::task::run_task(&context, stage, task, &**CANCEL).map_err(say)?;
    outln!("{}", serde_json::to_string_pretty(&report).map_err(|e| miette!("{e}"))?);
    Ok(())
}

/// Says what exists at a place that is neither an array nor a group.
pub(crate) fn not_there(stores: &Stores, at: &Location, e: chunkwise::Error) -> Report {
    if !matches!(e, chunkwise::Error::Storage(chunkwise::storage::StorageError::NotFound { .. })) {
        return say(e);
    }
    let run = |entry: std::fs::DirEntry| entry.path().join("plan.json").is_file().then(|| entry.file_name().to_string_lossy().into_owned());
    let runs = at.local_path().and_then(|p| std::fs::read_dir(p).ok());
    if let Some(name) = runs.and_then(|mut all| all.find_map(|entry| run(entry.ok()?))) {
        return refuse!("'{at}' is a work directory with runs, such as '{}'; `chunkwise clean {at}` lists them", at.join(&name));
    }
    // It says what a file or a folder is instead.
    match chunkwise::storage::open_array(stores, at) {
        Err(other) if !matches!(other, chunkwise::storage::StorageError::NotFound { .. }) => say(other),
        _ => say(e),
    }
}

pub(crate) fn verify(stores: &Stores, text: &str, as_json: bool) -> Outcome {
    let location = Location::parse(text, None).map_err(say)?;
    let is_run = stores.open(&location).and_then(|s| s.get("plan.json")).map_err(say)?.is_some();
    let report = match is_run {
        true => chunkwise::verify_plan(stores, &location).map_err(say)?,
        false => chunkwise::verify_store(stores, &location).map_err(|e| not_there(stores, &location, e))?,
    };
    let document = json!({
        "whole": report.good, "problems": report.problems, "more_problems": report.more, "cannot_tell": report.unknown, "without_checksums": report.without,
    });
    let problems = report.bad();
    let all = report.good + problems;
    if !as_json {
        for p in &report.problems {
            outln!("{p}");
        }
        if report.more > 0 {
            outln!("and {} more", report.more);
        }
        for (url, count) in &report.unknown {
            outln!(
                "{url}: cannot tell of {count} chunks that are not stored: they read as the fill value, and without checksums nobody can \
                 say whether they were ever written"
            );
        }
        for url in &report.without {
            outln!("{url}: checksums were not available, so its chunks are only known to be there and to decode");
        }
    }
    if problems > 0 {
        let message = format!("{problems} of {all} chunks or arrays are missing or damaged");
        return Err(Report::new(Said::Told { message, kind: "damaged", document }));
    }
    if as_json {
        outln!("{document}");
    } else if report.unknown.is_empty() {
        outln!("{all} chunks are there and whole");
    } else {
        outln!("{all} chunks are there and whole; of {} it cannot be told", report.unknown.values().sum::<u64>());
    }
    Ok(())
}

pub(crate) fn functions(name: Option<&str>, as_json: bool) -> Outcome {
    if let Some(name) = name {
        let (Some(operation), Some(signature)) = (table::find(name), table::called(name)) else {
            let near = || table::like(name).map(|n| format!("; did you mean '{n}'?")).unwrap_or_default();
            let near = table::instead(name).map_or_else(near, |help| format!("; {help}"));
            return Err(refuse!("there is no function '{name}'{near}"));
        };
        match as_json {
            true => outln!("{}", described(operation, name, &signature)),
            false => describe(operation, &signature),
        }
        return Ok(());
    }
    let names: Vec<&str> = chunkwise::kernels::ElementOp::ALL.iter().map(|op| op.name()).collect();
    let mut others: Vec<&Operation> = table::table().iter().filter(|o| o.element.is_none()).collect();
    others.sort_unstable_by_key(|o| o.name);
    if as_json {
        let all: Vec<_> = others.iter().map(|o| json!({ "name": o.name, "signature": o.signature() })).collect();
        outln!("{}", json!({ "functions": all, "elementwise": names }));
        return Ok(());
    }
    for operation in others {
        outln!("{}", operation.signature());
    }
    outln!("\nelement-wise: {}", names.join(", "));
    Ok(())
}

/// What the table says of a function, as a program reads it.
fn described(o: &Operation, name: &str, signature: &str) -> serde_json::Value {
    let examples = o.examples.iter().map(|e| json!({ "expression": e.expression, "result": e.result }));
    let parameters = o.parameters.iter().map(|p| json!({ "name": p.name, "default": p.default.map(|d| d.to_string()) }));
    json!({
        "name": name,
        "signature": signature,
        "subject": o.category.title,
        "about": o.plain_about(),
        "parameters": parameters.collect::<Vec<_>>(),
        "examples": examples.collect::<Vec<_>>(),
    })
}

/// What the table says of a function, as a person reads it.
fn describe(o: &Operation, signature: &str) {
    outln!("{signature}\n\n{}\n", o.plain_about());
    for example in &o.examples {
        outln!(">>> {}", example.expression);
        for line in &example.result {
            outln!("{line}");
        }
    }
}

pub(crate) fn schema() -> Outcome {
    outln!("{}", serde_json::to_string_pretty(&Plan::schema()).map_err(|e| miette!("{e}"))?);
    Ok(())
}
