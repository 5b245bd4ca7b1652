//! Pipeline files: from the text to a plan, and from a finished run to stores that xarray opens.

use crate::coordinates::{self, as_floats};
use crate::provenance::{Origin, Provenance, misplaced};
use crate::{Error, Session, decode_cf, open};
pub use chunkwise_executor::EXECUTORS;
use chunkwise_executor::{Choice, Event, RunOptions, RunReport};
use chunkwise_ops::{Array, Definition};
use chunkwise_pipeline::{BuildError, Dim, Document, Format, ParameterValue, Scope, TimeCoordinate, Value, build_expr, parse_document};
pub use chunkwise_pipeline::{FUNCTIONS, PipelineError};
use chunkwise_plan::{Codec, Plan};
use chunkwise_planner::{Fusion, Request};
use chunkwise_storage::{Location, Store};
use chunkwise_types::Scalar;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::AtomicBool;

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
    /// On what it is run, if nobody says otherwise.
    pub executor: ExecutorSpec,
    sources: Vec<Location>,
    groups: HashMap<String, Vec<i64>>,
}

/// An executor by name, with its options as text.
#[derive(Debug, Clone)]
pub struct ExecutorSpec {
    /// One of [`EXECUTORS`].
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
    std::thread::available_parallelism().map_or(1, |n| n.get() as u64)
}

/// The default of `allowed_mem`.
const DEFAULT_MEM: u64 = 2_000_000_000;

/// Reads a pipeline file or a plan file, by path or URL.
///
/// # Errors
/// When there is no such file, or it cannot be read.
pub fn read_text(path: &Path) -> Result<String, Error> {
    let bad = |e: &dyn std::fmt::Display| Error::Other(format!("cannot read '{}': {e}", path.display()));
    let Some(url) = path.to_str().filter(|p| p.contains("://")) else { return std::fs::read_to_string(path).map_err(|e| bad(&e)) };
    let location = Location::parse(url, None)?;
    let folder = location.parent().ok_or_else(|| bad(&"it is no file"))?;
    let data = Store::open(&folder)?.get(location.name())?.ok_or_else(|| bad(&"there is no such object"))?;
    String::from_utf8(data.into()).map_err(|_| bad(&"it is not text"))
}

/// Loads a pipeline file.
pub fn load(path: &Path, overrides: &Overrides) -> Result<Pipeline, LoadError> {
    load_text(&read_text(path)?, path, overrides)
}

/// Loads a pipeline whose text is known. `path` says what relative names are relative to (its folder), how the text is written (YAML unless its
/// ending is another one), and what messages call it.
pub fn load_text(text: &str, path: &Path, overrides: &Overrides) -> Result<Pipeline, LoadError> {
    let name = path.display().to_string();
    let inner = || -> Result<Pipeline, LoadError> {
        let mut doc = parse_document(text, Format::from_path(path).unwrap_or(Format::Yaml))?;
        for (n, v) in &overrides.set {
            doc.set_parameter(n, v)?;
        }
        build(&doc, path.parent().unwrap_or(Path::new(".")), overrides)
    };
    inner().map_err(|e| match e {
        LoadError::Pipeline(p) => LoadError::Pipeline(p.named(&name)),
        other => other,
    })
}

fn build(doc: &Document, base: &Path, overrides: &Overrides) -> Result<Pipeline, LoadError> {
    let base = if base.as_os_str().is_empty() { Path::new(".") } else { base };
    // Before anything is opened.
    chunkwise_storage::configure(&doc.spec.storage)?;
    let mut values: HashMap<String, Value> = HashMap::new();
    let mut sources = Vec::new();
    for p in &doc.parameters {
        let v = match &p.value.value {
            ParameterValue::Bool(b) => Value::Scalar(Scalar::Bool(*b)),
            ParameterValue::Int(i) => Value::Scalar(Scalar::Int(*i)),
            ParameterValue::Float(f) => Value::Scalar(Scalar::Float(*f)),
            ParameterValue::Str(s) => Value::Str(s.clone()),
        };
        values.insert(p.name.value.clone(), v);
    }
    for input in &doc.inputs {
        let array = open(&input.url.value, Some(base))
            .and_then(|a| if input.decode_cf { decode_cf(&a) } else { Ok(a) })
            .map_err(|e| doc.error(input.url.span.clone(), e.to_string(), "this input"))?;
        sources.push(Location::parse(&input.url.value, Some(base))?);
        values.insert(input.name.value.clone(), Value::Array(array));
    }
    let groups = RefCell::new(HashMap::new());
    let time = |place: Option<(&Array, usize)>, dim: &str| time_coordinate(&sources, place, dim);
    let evaluate = |expr: &chunkwise_pipeline::Expr, map: &chunkwise_pipeline::TextMap, values: &HashMap<String, Value>| {
        let names = |n: &str| values.get(n).cloned();
        let scope = Scope { names: &names, time: &time, groups: RefCell::new(HashMap::new()) };
        let out = build_expr(expr, &scope)
            .map_err(|BuildError { message, span, help }| doc.error(map.locate(span), message, "here").with_help_opt(help));
        groups.borrow_mut().extend(scope.groups.into_inner());
        out
    };
    for def in doc.order() {
        let v = evaluate(&def.expr, &def.map, &values)?;
        values.insert(def.name.value.clone(), v);
    }
    if doc.outputs.is_empty() {
        return Err(Error::Other("the pipeline has no outputs; name what to write under 'outputs'".into()).into());
    }
    let mut requests = Vec::new();
    for output in &doc.outputs {
        let span = output.array.span.clone();
        let array = match evaluate(&output.expr, &output.map, &values)? {
            Value::Array(a) => a,
            Value::Scalar(s) => chunkwise_ops::create::full(&[], s, s.default_dtype(), None)?,
            _ => return Err(doc.error(span, "an output must be an array", "this is none").into()),
        };
        if let Some(dim) = misplaced(&mut Provenance::default(), std::iter::once(array.clone())) {
            let message = format!(
                "sel() takes the labels of every '{dim}' of the inputs, but its result meets an array whose '{dim}' was sliced, reversed or shifted"
            );
            let e = doc.error(output.array.span.clone(), message, "this output");
            return Err(e
                .with_help_opt(Some(format!("name the array that it should follow: sel(..., \"{dim}....\", like=that array)")))
                .into());
        }
        let url =
            Location::parse(&output.url.value, Some(base)).map_err(|e| doc.error(output.url.span.clone(), e.to_string(), "this output"))?;
        if url.as_str().starts_with("http") {
            let e = doc.error(output.url.span.clone(), "http and https URLs can only be read", "this output");
            return Err(e.with_help("write to a folder, s3://, gs:// or az://").into());
        }
        if sources.iter().any(|s| overlaps(s, &url))
            || requests.iter().any(|r: &Request| Location::parse(&r.url, None).is_ok_and(|o| overlaps(&o, &url)))
        {
            return Err(doc
                .error(output.url.span.clone(), "an output must not be, hold or lie in an input or another output", "choose another place")
                .into());
        }
        let lengths =
            |spec: &Option<Vec<(chunkwise_pipeline::Spanned<Dim>, i64)>>, default: Vec<u64>| -> Result<Option<Vec<u64>>, PipelineError> {
                let Some(spec) = spec else { return Ok(None) };
                let mut out = default;
                for (dim, n) in spec {
                    let axis = match &dim.value {
                        Dim::Name(name) => array.axis_named(name),
                        Dim::Number(i) => usize::try_from(*i).ok().filter(|&i| i < array.rank()),
                    };
                    let Some(axis) = axis else {
                        return Err(doc.error(
                            dim.span.clone(),
                            format!("the array has no such dimension; it has {:?}", array.dims().iter().flatten().collect::<Vec<_>>()),
                            "this dimension",
                        ));
                    };
                    out[axis] = if *n < 0 { array.shape()[axis].max(1) } else { (*n).max(1) as u64 };
                }
                Ok(Some(out))
            };
        let natural: Vec<u64> = array.chunks().max_shape().iter().map(|&n| n.max(1)).collect();
        let chunks = lengths(&output.chunks, natural.clone())?;
        let shards = lengths(&output.shards, chunks.clone().unwrap_or(natural))?;
        let codec = match output.codec.as_ref().map(|c| (c.value.as_str(), c.span.clone())) {
            None => Codec::Default,
            Some((name, span)) => codec_named(name).ok_or_else(|| {
                doc.error(span, format!("there is no codec '{name}'; there are blosc, none, zstd and gzip"), "this codec")
            })?,
        };
        let mut attributes = array.attributes().clone();
        attributes.extend(output.attributes.clone());
        requests.push(Request { url: url.as_str().into(), array, chunks, shards, codec, attributes });
    }
    if let Some(e) = doc.spec.executor.as_ref().filter(|e| !EXECUTORS.contains(&e.value.as_str())) {
        let text = format!("there is no executor '{}'; there are {}", e.value, EXECUTORS.join(", "));
        return Err(doc.error(e.span.clone(), text, "this executor").into());
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
        (None, None) => std::env::temp_dir().join("chunkwise").display().to_string(),
    };
    let session = Session::new(allowed, workers, &work_dir)?.with_fusion(fusion).with_storage(doc.spec.storage.clone())?;
    Ok(Pipeline { requests, session, executor, sources, groups: groups.into_inner() })
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

fn overlaps(a: &Location, b: &Location) -> bool {
    let inside = |x: &str, y: &str| x == y || x.strip_prefix(y).is_some_and(|r| r.starts_with('/'));
    inside(a.as_str(), b.as_str()) || inside(b.as_str(), a.as_str())
}

fn time_coordinate(sources: &[Location], place: Option<(&Array, usize)>, dim: &str) -> Result<TimeCoordinate, String> {
    let time = |c: coordinates::Coordinate| {
        let text = |k: &str| c.meta.attributes.get(k).and_then(|v| v.as_str()).unwrap_or_default().to_string();
        Some(TimeCoordinate { values: as_floats(&c)?, units: text("units"), calendar: text("calendar") })
    };
    let origin = place.map_or(Origin::Unknown, |(array, axis)| Provenance::default().of(array, axis));
    if origin != Origin::Unknown && !origin.whole() {
        return Err(format!(
            "'{dim}' is no longer the dimension of an input: its indices were joined, padded or shifted against each other"
        ));
    }
    let found = match origin {
        Origin::Unknown => coordinates::groups_of(sources).into_iter().find_map(|g| coordinates::read(&g.join(dim)).and_then(time)),
        _ => coordinates::moved(&origin, dim, sources).and_then(time),
    };
    found.ok_or_else(|| format!("there is no coordinate array '{dim}' beside the inputs, which says the time of each index"))
}

impl Pipeline {
    /// Plans it. Nothing is written.
    pub fn plan(&self) -> Result<Plan, Error> {
        self.session.plan(&self.requests)
    }

    /// Runs its plan, as [`Session::run_on`], and writes coordinates and the metadata of groups beside the outputs.
    pub fn run_on(
        &self,
        choice: &Choice,
        plan: Plan,
        workers: Option<usize>,
        options: &RunOptions,
        cancel: &AtomicBool,
        events: &mut dyn FnMut(&Event),
    ) -> Result<RunReport, Error> {
        let report = Session::run_arrays(choice, plan, workers, options, cancel, events)?;
        self.finish()?;
        Ok(report)
    }

    /// Writes coordinates and group metadata beside the outputs.
    pub fn finish(&self) -> Result<(), Error> {
        let mut groups = Vec::new();
        for r in &self.requests {
            let mut sources = self.sources.clone();
            sources.extend(stored_sources(&r.array));
            groups.extend(coordinates::finish(&Location::parse(&r.url, None)?, &r.array, &sources, &self.groups)?);
        }
        coordinates::consolidate_all(groups)
    }

    /// A pipeline of arrays that were made without a file.
    pub fn of(session: Session, requests: Vec<Request>) -> Pipeline {
        let (mut sources, mut seen) = (Vec::new(), HashSet::new());
        let mut stack: Vec<Array> = requests.iter().map(|r| r.array.clone()).collect();
        while let Some(a) = stack.pop() {
            if seen.insert(a.id()) {
                sources.extend(stored_sources(&a));
                stack.extend(a.inputs().iter().cloned());
            }
        }
        Pipeline { sources, requests, session, executor: ExecutorSpec::default(), groups: HashMap::new() }
    }

    /// A pipeline of one array that is copied.
    pub fn copy(session: Session, request: Request) -> Pipeline {
        let executor = ExecutorSpec::default();
        Pipeline { sources: stored_sources(&request.array), requests: vec![request], session, executor, groups: HashMap::new() }
    }
}

fn stored_sources(array: &Array) -> Vec<Location> {
    match array.definition() {
        Definition::Stored(s) => Location::parse(&s.url, None).into_iter().collect(),
        _ => Vec::new(),
    }
}
