//! Pipeline files: from the text to a plan, and from a finished run to stores that xarray opens.

use crate::inputs::Inputs;
use crate::{Error, Runtime, Session, outputs};
use chunkwise_ops::align::Join;
pub use chunkwise_ops::suggest;
use chunkwise_ops::{Value, table::Context};
pub use chunkwise_pipeline::PipelineError;
use chunkwise_pipeline::{BuildError, Document, Expr, Format, ParameterValue, Scope, TextMap, build_expr, named_constant, parse_document};
use chunkwise_plan::{Codec, Plan};
use chunkwise_planner::{Fusion, Request};
use chunkwise_storage::{Location, Stores};
use chunkwise_types::Scalar;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

/// What the command line sets over the file.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// Memory of the whole process in bytes.
    pub allowed_mem: Option<u64>,
    /// URL or path of the work directory.
    pub work_dir: Option<String>,
    /// The work directory where the file names none either.
    pub default_work_dir: Option<String>,
    /// Parameters, `NAME` and `VALUE`.
    pub set: Vec<(String, String)>,
}

/// A pipeline that is ready to be planned.
pub struct Pipeline {
    /// What is to be computed.
    pub requests: Vec<Request>,
    /// Where.
    pub session: Session,
    /// The executor that runs it, unless the caller chooses another.
    pub executor: ExecutorSpec,
    /// What the file says, by what it is, such as `array y`: to say what has changed when a run is resumed.
    pub definitions: BTreeMap<String, String>,
    /// What was left out of the inputs, and why: for the user to know.
    pub notes: Vec<String>,
}

/// An executor by name, with its options as text.
#[derive(Debug, Clone)]
pub struct ExecutorSpec {
    /// One of the executors of the runtime.
    pub name: String,
    /// Its options.
    pub options: BTreeMap<String, String>,
}

impl Default for ExecutorSpec {
    fn default() -> Self {
        ExecutorSpec { name: "threads".into(), options: BTreeMap::new() }
    }
}

/// Why a pipeline cannot be used.
#[derive(Debug)]
pub enum LoadError {
    /// The file says something wrong, and this is where.
    Pipeline(PipelineError),
    /// Something else.
    Other(Error),
}

impl<E: Into<Error>> From<E> for LoadError {
    fn from(e: E) -> Self {
        LoadError::Other(e.into())
    }
}

impl From<PipelineError> for LoadError {
    fn from(e: PipelineError) -> Self {
        LoadError::Pipeline(e)
    }
}

/// Tasks at once that a plan is made for: the processors of this machine.
pub fn default_workers() -> u64 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u64).min(chunkwise_plan::MAX_WORKERS)
}

/// The default of `allowed_mem`.
const DEFAULT_MEM: u64 = 2_000_000_000;

/// Reads a pipeline file or a plan file, by path or URL.
///
/// # Errors
/// When there is no such file, or it cannot be read.
pub fn read_text(stores: &Stores, path: &Path) -> Result<String, Error> {
    let bad = |e: &dyn std::fmt::Display| Error::Other(format!("cannot read '{}': {e}", path.display()));
    let Some(url) = path.to_str().filter(|p| p.contains("://")) else {
        if path.is_dir() {
            let what = if ["zarr.json", ".zgroup", ".zarray"].iter().any(|f| path.join(f).exists()) { "a Zarr store" } else { "a folder" };
            return Err(bad(&format!("it is {what}; a pipeline is a text file, in YAML, JSON or TOML")));
        }
        return match std::fs::read(path) {
            Ok(data) if data.contains(&0) => Err(bad(&"it is not text; a pipeline is a text file, in YAML, JSON or TOML")),
            Ok(data) => String::from_utf8(data).map_err(|_| bad(&"it is not text in UTF-8")),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Err(bad(&"there is no such file")),
            Err(e) => Err(bad(&e)),
        };
    };
    let location = Location::parse(url, None)?;
    let folder = location.parent().ok_or_else(|| bad(&"it is no file"))?;
    let data = stores.open(&folder)?.get(location.name())?.ok_or_else(|| bad(&"there is no such object"))?;
    String::from_utf8(data.into()).map_err(|_| bad(&"it is not text"))
}

/// Loads a pipeline file, to be run in a runtime.
pub fn load(runtime: &Runtime, path: &Path, overrides: &Overrides) -> Result<Pipeline, LoadError> {
    load_text(runtime, &read_text(runtime.stores(), path)?, path, overrides)
}

/// Loads a pipeline whose text is known. `path` says what relative names are relative to (its folder), how the text is written (YAML unless its
/// ending is another one), and what messages call it.
pub fn load_text(runtime: &Runtime, text: &str, path: &Path, overrides: &Overrides) -> Result<Pipeline, LoadError> {
    let name = path.display().to_string();
    let inner = || -> Result<Pipeline, LoadError> {
        let mut doc = parse_document(text, Format::from_path(path).unwrap_or(Format::Yaml))?;
        for (n, v) in &overrides.set {
            doc.set_parameter(n, v)?;
        }
        build(runtime, &doc, path.parent().unwrap_or(Path::new(".")), overrides)
    };
    inner().map_err(|e| match e {
        LoadError::Pipeline(p) => LoadError::Pipeline(p.named(&name)),
        other => other,
    })
}

fn build(runtime: &Runtime, doc: &Document, base: &Path, overrides: &Overrides) -> Result<Pipeline, LoadError> {
    let base = if base.as_os_str().is_empty() { Path::new(".") } else { base };
    // Before anything is opened.
    runtime.stores().configure(&doc.spec.storage)?;
    let mut values: HashMap<String, Value> = HashMap::new();
    for p in &doc.parameters {
        let v = match &p.value.value {
            ParameterValue::Bool(b) => Value::Scalar(Scalar::Bool(*b)),
            ParameterValue::Int(i) => Value::Scalar(Scalar::Int(*i)),
            ParameterValue::Float(f) => Value::Scalar(Scalar::Float(*f)),
            ParameterValue::Str(s) => Value::Str(s.clone()),
        };
        values.insert(p.name.value.clone(), v);
    }
    let mut inputs = Inputs::open(runtime.stores(), doc, base)?;
    values.extend(inputs.values.iter().map(|(n, v)| (n.clone(), v.clone())));
    let join = match &doc.spec.join {
        None => Join::Exact,
        Some(name) => Join::named(&name.value).ok_or_else(|| {
            let known = Join::NAMES.map(|(n, _)| n).join(", ");
            doc.error(name.span.clone(), format!("there is no join '{}'; there are {known}", name.value), "this join")
        })?,
    };
    let evaluate = |expr: &Expr, map: &TextMap, values: &HashMap<String, Value>| {
        let names = |n: &str| values.get(n).cloned();
        build_expr(expr, &Scope { names: &names, context: Context { inputs: &inputs.arrays, join } })
            .map_err(|BuildError { message, span, help }| doc.error(map.locate(span), message, "here").with_help_opt(help))
    };
    for def in doc.order() {
        let v = evaluate(&def.expr, &def.map, &values)?;
        values.insert(def.name.value.clone(), v);
    }
    if doc.outputs.is_empty() {
        let end = doc.text().trim_end().len();
        let e = doc.error(end..end, "the pipeline has no outputs", "the file ends here");
        return Err(e.with_help("name what to write under `outputs`, a line each, such as `out.zarr/mean: mean(x)`").into());
    }
    let mut requests = Vec::new();
    for output in &doc.outputs {
        let value = evaluate(&output.expr, &output.map, &values)?;
        if let Value::Dataset(d) = &value {
            let left = d.refused.iter().map(|(name, why)| format!("'{name}' is left out of '{}': {why}", output.url.value));
            inputs.notes.extend(left);
        }
        requests.extend(outputs::requests(doc, output, value, base, &inputs)?);
    }
    outputs::apart(runtime.stores(), doc, &requests, &inputs)?;
    let used = doc.arrays.iter().map(|a| &a.expr).chain(doc.outputs.iter().map(|o| &o.expr));
    let used: BTreeSet<&str> = used.flat_map(|expr| expr.names().into_iter().map(|(name, _)| name)).collect();
    let other = used.iter().filter(|name| values.contains_key(**name)).filter_map(|name| Some((name, named_constant(name)?)));
    inputs.notes.extend(other.map(|(name, number)| format!("'{name}' is what the file names so, and not the number {number:.5}")));
    let requests: Vec<Request> = requests.into_iter().map(|(r, _)| r).collect();
    // As xarray, which says nothing.
    for r in requests.iter().filter(|r| r.array.shape().contains(&0)) {
        let a = &r.array;
        let axis = a.shape().iter().position(|&n| n == 0).unwrap_or(0);
        let dim = a.dims()[axis].as_ref().map_or_else(|| format!("axis {axis}"), |d| format!("'{d}'"));
        inputs
            .notes
            .push(format!("the output '{}' is empty: nothing is left along {dim}", r.url.strip_prefix("file://").unwrap_or(&r.url)));
    }
    let executors = &runtime.host().executors;
    if let Some(e) = doc.spec.executor.as_ref().filter(|e| !executors.has(&e.value)) {
        return Err(doc.error(e.span.clone(), executors.none(&e.value), "this executor").into());
    }
    let executor = ExecutorSpec {
        name: doc.spec.executor.as_ref().map_or("threads", |e| &e.value).to_string(),
        options: doc.spec.executor_options.clone(),
    };
    let allowed = overrides.allowed_mem.or(doc.spec.allowed_mem.as_ref().map(|m| m.value.0)).unwrap_or(DEFAULT_MEM);
    // Not `--workers`: a plan must not change with the number of threads, or an unfinished run could not be found again.
    let workers = doc.spec.workers.as_ref().map_or_else(default_workers, |w| w.value as u64);
    let fusion = if doc.spec.fuse == Some(false) { Fusion::Off } else { Fusion::On };
    let work_dir = match (&overrides.work_dir, &doc.spec.work_dir) {
        (Some(dir), _) => dir.clone(),
        (None, Some(dir)) => Location::parse(&dir.value, Some(base))?.as_str().to_string(),
        (None, None) if overrides.default_work_dir.is_some() => overrides.default_work_dir.clone().unwrap_or_default(),
        (None, None) => chunkwise_storage::default_work_dir().display().to_string(),
    };
    let session = runtime.session(allowed, workers, &work_dir)?.with_fusion(fusion).with_storage(doc.spec.storage.clone())?;
    Ok(Pipeline { requests, session, executor, definitions: definitions(doc), notes: inputs.notes })
}

/// Inputs, parameters, arrays and outputs as they are written.
fn definitions(doc: &Document) -> BTreeMap<String, String> {
    // Line breaks and spaces around them mean nothing.
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let value = |v: &ParameterValue| match v {
        ParameterValue::Bool(b) => b.to_string(),
        ParameterValue::Int(i) => i.to_string(),
        ParameterValue::Float(f) => f.to_string(),
        ParameterValue::Str(s) => s.clone(),
    };
    let inputs = doc.inputs.iter().map(|i| {
        let cf = i.decode_cf.map(|on| format!(" (decode_cf: {on})")).unwrap_or_default();
        (format!("input {}", i.name.value), format!("{}{cf}", i.url.value))
    });
    let parameters = doc.parameters.iter().map(|p| (format!("parameter {}", p.name.value), value(&p.value.value)));
    let arrays = doc.arrays.iter().map(|a| (format!("array {}", a.name.value), flat(&a.text.value)));
    let outputs = doc.outputs.iter().map(|o| (format!("output {}", o.url.value), flat(&o.array.value)));
    inputs.chain(parameters).chain(arrays).chain(outputs).collect()
}

/// A codec by the name that people use.
pub fn codec_named(name: &str) -> Option<Codec> {
    Some(match name {
        "default" | "blosc" | "lz4" => Codec::Default,
        "none" => Codec::None,
        "zstd" => Codec::Zstd(3),
        "gzip" => Codec::Gzip(5),
        _ => return None,
    })
}

impl Pipeline {
    /// Plans it. Nothing is written.
    pub fn plan(&self) -> Result<Plan, Error> {
        self.session.plan(&self.requests)
    }

    /// A pipeline of arrays that were made without a file.
    pub fn of(session: Session, requests: Vec<Request>) -> Pipeline {
        Pipeline { requests, session, executor: ExecutorSpec::default(), definitions: BTreeMap::new(), notes: Vec::new() }
    }
}
