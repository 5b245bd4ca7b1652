//! Plans and runs, without Python's lock.

use crate::array::Lazy;
use crate::buffer::Buffer;
use crate::errors::Failure;
use crate::function::Calls;
use crate::memory::{Held, fresh};
use crate::runtime::Runtime;
use chunkwise::executor::{Choice, Event, Progress, RunOptions};
use chunkwise::plan::Plan;
use chunkwise::results::{read_whole, stored_bytes};
use chunkwise::storage::{ArrayIo, Location, Stores, open_array};
use chunkwise::types::volume;
use chunkwise::{Array, ByteSize, Error, PlannerError, RESERVED, Request, Session, program_memory};
use pyo3::exceptions::{PyNotImplementedError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How soon a run notices Ctrl-C.
const TICK: Duration = Duration::from_millis(50);

/// What a run may use.
#[pyclass(frozen, module = "chunkwise._chunkwise")]
#[derive(Clone)]
pub struct Settings {
    allowed_mem: u64,
    workers: u64,
    pub work_dir: String,
    executor: Choice,
    /// The interpreter of workers that may run functions of Python.
    python: Option<String>,
    runtime: Runtime,
    calls: BTreeMap<String, u64>,
}

#[pymethods]
impl Settings {
    #[new]
    fn new(
        allowed_mem: u64,
        workers: u64,
        work_dir: String,
        executor: &str,
        options: BTreeMap<String, String>,
        runtime: &Runtime,
        python: Option<String>,
    ) -> PyResult<Settings> {
        let executor = runtime.engine().choose(executor, &options, &BTreeMap::new()).map_err(|e| PyValueError::new_err(e.to_string()))?;
        Ok(Settings { allowed_mem, workers, work_dir, executor, python, runtime: runtime.clone(), calls: BTreeMap::new() })
    }

    /// The same, with what calls of functions take instead of what was assumed when the arrays were made, by their versions.
    fn with_calls(&self, calls: BTreeMap<String, u64>) -> Settings {
        Settings { calls, ..self.clone() }
    }
}

impl Settings {
    pub fn stores(&self) -> &Stores {
        self.runtime.stores()
    }

    /// True if tasks see the memory of this process.
    fn in_process(&self) -> bool {
        matches!(self.executor, Choice::Threads)
    }

    pub fn session(&self) -> Result<Session, Error> {
        let session = self.runtime.session(self.allowed_mem, self.workers, &self.work_dir)?.with_call_memory(self.calls.clone());
        // Programs of Python with their libraries are large. Workers elsewhere are not.
        Ok(if self.in_process() { session.beside(program_memory()) } else { session })
    }

    /// Refuses to hold so many bytes in memory, if they leave nothing for the rest.
    pub fn check_held(&self, held: u64) -> Result<(), Error> {
        if self.allowed_mem <= RESERVED || self.allowed_mem.saturating_sub(held) > RESERVED {
            return Ok(());
        }
        Err(Error::Planner(PlannerError::Memory {
            stage: "compute".into(),
            operations: "a result in memory".into(),
            need: held,
            reserved: RESERVED,
            allowed: self.allowed_mem,
            least: (held + 2 * RESERVED).div_ceil(1_000_000),
            advice: "write the result with to_zarr, which needs memory for its tasks only".into(),
        }))
    }

    /// Runs a plan. Meanwhile this thread waits with Python's lock released; it hands events to `watch` and notices Ctrl-C.
    pub fn run(
        &self,
        py: Python<'_>,
        plan: Plan,
        held: &[Arc<Held>],
        options: &RunOptions,
        watch: Option<&Bound<'_, PyAny>>,
    ) -> Result<Report, Failure> {
        let calls = Calls::of(held);
        // The program has opened them, maybe with other options.
        plan.arrays.values().for_each(|a| self.runtime.stores().allow_named(&a.url));
        let here = self.in_process();
        if !here && !calls.is_empty() && self.python.is_none() {
            let message = "functions of Python do not run on this executor: its workers are containers or functions without your Python. They run on \
                           'threads', 'processes', 'slurm', 'command', 'dask' and 'ray'";
            return Err(PyNotImplementedError::new_err(message).into());
        }
        let mut options = options.clone();
        let runtime = match &self.python {
            Some(python) if !here && !calls.is_empty() => {
                options.attachments = calls.attachments(py)?;
                self.runtime.engine().with_python(python)
            }
            _ => self.runtime.engine().with_functions(calls.registered()),
        };
        calls.begin(py)?;
        let report = self.run_in(&runtime, py, plan, &calls, &options, watch);
        calls.end(py)?;
        // The process goes on with other work.
        chunkwise_allocator::trim();
        // What the user's own function raised says more than the task that failed with it.
        match (report, calls.raised()) {
            (Err(Failure::Engine(_)), Some(e)) => Err(e.into()),
            (report, _) => report,
        }
    }

    fn run_in(
        &self,
        runtime: &chunkwise::Runtime,
        py: Python<'_>,
        plan: Plan,
        calls: &Calls,
        options: &RunOptions,
        watch: Option<&Bound<'_, PyAny>>,
    ) -> Result<Report, Failure> {
        // Freed memory would count against the budget, which is for the whole process.
        chunkwise::limit_allocator();
        let cancel = AtomicBool::new(false);
        let (send, receive) = channel::<Event>();
        let wanted = watch.is_some();
        std::thread::scope(|scope| {
            let cancelled = &cancel;
            let handle = scope.spawn(move || {
                let send: Sender<Event> = send;
                let mut events = |e: &Event| {
                    if wanted {
                        let _ = send.send(match e.clone() {
                            // The memory of this process includes what is held here; the budget of the plan does not.
                            Event::Progress(p) if self.in_process() => Event::Progress(Progress { allowed_mem: self.allowed_mem, ..p }),
                            other => other,
                        });
                    }
                };
                runtime.run_on(&self.executor, plan, None, options, cancelled, &mut events)
            });
            let mut stopped: Option<PyErr> = None;
            let mut receive = receive;
            loop {
                let event;
                (receive, event) = py.detach(move || {
                    let event = receive.recv_timeout(TICK);
                    (receive, event)
                });
                let said = match (&event, watch) {
                    (Ok(e), Some(watch)) if stopped.is_none() => tell(py, watch, e),
                    _ => Ok(()),
                };
                if let Err(e) = said.and_then(|()| py.check_signals())
                    && stopped.replace(e).is_none()
                {
                    cancel.store(true, Ordering::SeqCst);
                    // If that fails, the calls end by themselves, and the run with them.
                    let _ = calls.stop(py);
                }
                if matches!(event, Err(RecvTimeoutError::Disconnected)) {
                    break;
                }
            }
            let report = py.detach(|| handle.join());
            match (report, stopped) {
                (_, Some(e)) => Err(e.into()),
                (Ok(report), None) => Ok(serde_json::to_string(&report?).map_err(|e| Error::Other(e.to_string()))?),
                (Err(_), None) => Err(Error::Other("the run ended by a panic, which is a bug".into()).into()),
            }
        })
    }
}

/// All that arrays need.
pub fn held(lazy: &[Lazy]) -> Vec<Arc<Held>> {
    lazy.iter().flat_map(|l| l.held.iter().cloned()).collect()
}

/// A report as JSON.
pub type Report = String;

fn tell(py: Python<'_>, watch: &Bound<'_, PyAny>, event: &Event) -> PyResult<()> {
    let json = serde_json::to_string(event).map_err(|e| PyValueError::new_err(e.to_string()))?;
    let made = py.import("json")?.call_method1("loads", (json,))?;
    watch.call1((made,)).map(drop)
}

/// The work directory if none is named.
#[pyfunction]
pub fn default_work_dir() -> String {
    chunkwise::storage::default_work_dir().display().to_string()
}

/// A number of bytes from a text such as "500MB".
#[pyfunction]
pub fn parse_bytes(text: &str) -> PyResult<u64> {
    text.parse::<ByteSize>().map(|b| b.0).map_err(|e| PyValueError::new_err(e.to_string()))
}

/// As many workers as the machine has processors.
#[pyfunction]
pub fn default_workers() -> u64 {
    chunkwise::pipeline::default_workers()
}

/// Deletes, when it is dropped, what a computation has left in memory and in the work directory.
pub struct Swept {
    pub stores: Stores,
    pub places: Vec<Location>,
}

impl Drop for Swept {
    fn drop(&mut self) {
        for location in &self.places {
            let _ = self.stores.open(location).and_then(|s| s.delete_prefix(""));
        }
    }
}

/// An error that names too small a budget as the least that would do, with one for which there is a plan.
fn with_enough<T>(settings: &Settings, mut error: Error, attempt: &impl Fn(&Settings) -> Result<T, Error>) -> Error {
    for _ in 0..8 {
        let Error::Planner(PlannerError::Memory { least, .. }) = &mut error else { break };
        match attempt(&Settings { allowed_mem: least.saturating_mul(1_000_000), ..settings.clone() }) {
            Err(Error::Planner(PlannerError::Memory { least: more, .. })) if more > *least => *least = more,
            _ => break,
        }
    }
    error
}

/// The values of arrays, all of one run.
#[pyfunction]
#[pyo3(signature = (arrays, settings, watch = None))]
pub fn compute(
    py: Python<'_>,
    arrays: Vec<Bound<'_, Lazy>>,
    settings: &Settings,
    watch: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<Buffer>> {
    Ok(computed(py, &arrays.iter().map(|a| a.get().clone()).collect::<Vec<_>>(), settings, watch)?)
}

fn computed(py: Python<'_>, lazy: &[Lazy], settings: &Settings, watch: Option<&Bound<'_, PyAny>>) -> Result<Vec<Buffer>, Failure> {
    let arrays: Vec<&Array> = lazy.iter().map(|l| &l.array).collect();
    // In memory there are the results as they are stored beside what tasks use, and in the end beside the values themselves.
    let bytes = arrays.iter().fold(0u64, |sum, a| sum.saturating_add(volume(a.shape()).saturating_mul(a.dtype().size())));
    // Other processes do not see what is in the memory of this one.
    let folder = match settings.in_process() {
        true => "memory:///chunkwise".to_string(),
        false => Location::parse(&settings.work_dir, None).map_err(Error::from)?.join("results").as_str().to_string(),
    };
    let places = arrays.iter().map(|_| fresh(&folder, "result")).collect::<Result<Vec<_>, Error>>()?;
    let attempt = |settings: &Settings| -> Result<(Plan, Location), Error> {
        let session = settings.session()?;
        settings.check_held(bytes.saturating_add(stored_bytes(bytes)))?;
        let each = arrays.iter().zip(&places).map(|(a, at)| session.request(at.as_str(), a));
        let requests = each.collect::<Result<Vec<_>, _>>()?;
        let plan = match settings.in_process() {
            true => session.plan_in_memory(&requests),
            false => session.plan_beside(stored_bytes(bytes), &requests),
        }?;
        let run_dir = Location::parse(&plan.spec.work_dir, None)?.join(&plan.id());
        Ok((plan, run_dir))
    };
    let (plan, run_dir) = py.detach(|| attempt(settings).map_err(|e| with_enough(settings, e, &attempt)))?;
    let swept = Swept { stores: settings.stores().clone(), places: places.iter().cloned().chain([run_dir]).collect() };
    settings.run(py, plan, &held(lazy), &RunOptions::default(), watch)?;
    let buffers = py.detach(|| {
        let read = |at: &Location| -> Result<Buffer, Error> {
            let meta = open_array(settings.stores(), at)?;
            let io = ArrayIo::new(settings.stores(), at, &meta)?;
            let len = usize::try_from(volume(&meta.shape).saturating_mul(meta.dtype.size())).unwrap_or(usize::MAX);
            Ok(Buffer::filled(len, |out| read_whole(&io, &meta, settings.workers, out))?)
        };
        let buffers = places.iter().map(read).collect::<Result<Vec<_>, Error>>();
        drop(swept);
        buffers
    })?;
    Ok(buffers)
}

/// An output: the array, its URL, its attributes, and how it is encoded, both as JSON.
type Output<'py> = (Bound<'py, Lazy>, String, String, String);

fn planned(py: Python<'_>, outputs: &[Output<'_>], settings: &Settings, resume: bool) -> Result<Plan, Failure> {
    let outputs: Vec<_> = outputs.iter().map(|(a, url, attributes, how)| (a.get().array.clone(), url, attributes, how)).collect();
    let made = py.detach(|| -> Result<Plan, Error> {
        let session = settings.session()?;
        let json = |text: &str| serde_json::from_str(text).map_err(|e| Error::Other(e.to_string()));
        let request = |(array, url, attributes, how): &(Array, &String, &String, &String)| -> Result<Request, Error> {
            session.request_as(url, &array.with_attributes(json(attributes)?), &json(how)?)
        };
        let requests = outputs.iter().map(request).collect::<Result<Vec<_>, _>>()?;
        if resume { session.plan_to_resume(&requests) } else { session.plan(&requests) }
    });
    Ok(made?)
}

/// Computes arrays into Zarr arrays, all in one run. The report is JSON.
#[pyfunction]
#[pyo3(signature = (outputs, settings, overwrite = false, resume = false, watch = None))]
pub fn write(
    py: Python<'_>,
    outputs: Vec<Output<'_>>,
    settings: &Settings,
    overwrite: bool,
    resume: bool,
    watch: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let plan = planned(py, &outputs, settings, resume)?;
    let options = RunOptions { overwrite, resume, ..RunOptions::default() };
    let lazy: Vec<Lazy> = outputs.iter().map(|(a, ..)| a.get().clone()).collect();
    Ok(settings.run(py, plan, &held(&lazy), &options, watch)?)
}

/// The plan of outputs: a table for reading, and in numbers the tasks and the largest projected memory.
#[pyfunction]
pub fn plan<'py>(py: Python<'py>, outputs: Vec<Output<'_>>, settings: &Settings) -> PyResult<Bound<'py, PyDict>> {
    let plan = planned(py, &outputs, settings, false)?;
    let out = PyDict::new(py);
    out.set_item("id", plan.id())?;
    out.set_item("table", chunkwise::report::table(&plan))?;
    out.set_item("stages", plan.stages.len())?;
    out.set_item("tasks", plan.stages.iter().map(|s| s.tasks()).sum::<u64>())?;
    out.set_item("projected_mem", plan.stages.iter().map(|s| s.projected_mem).max().unwrap_or(0))?;
    out.set_item("svg", chunkwise::report::svg(&plan))?;
    out.set_item("json", serde_json::to_string(&plan).map_err(|e| PyValueError::new_err(e.to_string()))?)?;
    Ok(out)
}
