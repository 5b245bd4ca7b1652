//! A worker that has Python: it runs functions of users that are stored beside the plan.

use crate::errors::Failure;
use crate::function::{Calls, Function};
use chunkwise::executor::Host;
use chunkwise::executor::worker::{Exit, Start, WorkerError, read_plan};
use chunkwise::storage::Location;
use chunkwise::{Error, Runtime};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// How soon a signal is noticed.
const TICK: Duration = Duration::from_millis(50);

/// The key of a function in the folder of a run.
pub fn key(version: &str) -> String {
    format!("functions/{version}")
}

fn start(json: &str) -> PyResult<Start> {
    serde_json::from_str(json).map_err(|e| PyValueError::new_err(format!("the arguments of a worker: {e}")))
}

fn runtime(start: &Start, allow: Vec<String>) -> Result<Runtime, Failure> {
    let runtime = Runtime::builder().allow(allow).build()?;
    runtime.stores().allow_named(&start.plan);
    Ok(runtime)
}

/// How a worker ends that cannot start: it has said why.
fn unusable(e: &WorkerError) -> u8 {
    eprintln!("{e}");
    Exit::from(e).code()
}

/// A function of a plan: its name, its version, and what is stored of it.
type Stored = (String, String, Option<Py<PyBytes>>);

/// The functions that a plan calls. If the plan cannot be read, there is an exit code for the worker in their place.
#[pyfunction]
pub fn plan_functions(py: Python<'_>, json: &str, allow: Vec<String>) -> PyResult<(Vec<Stored>, Option<u8>)> {
    let start = start(json)?;
    let stores = runtime(&start, allow)?.stores().clone();
    let plan = match py.detach(|| read_plan(&stores, &start.plan, start.hash.as_deref())) {
        Ok(plan) => plan,
        Err(e) => return Ok((Vec::new(), Some(unusable(&e)))),
    };
    let storage = |e| PyErr::from(Failure::from(Error::Storage(e)));
    stores.configure(&plan.spec.storage).map_err(storage)?;
    let calls = plan.stages.iter().flat_map(|s| &s.program.steps).filter_map(|step| step.kernel.as_ref()?.call());
    let named: BTreeSet<(&str, &str)> = calls.map(|c| (c.function.as_str(), c.version.as_str())).collect();
    let folder = Location::parse(&start.plan, None).map_err(storage)?.parent();
    let store = folder.map(|at| stores.open(&at)).transpose().map_err(storage)?;
    let mut found = Vec::new();
    for (name, version) in named {
        // A version of somebody else's making must not lead out of the folder.
        let plain = version.chars().all(|c| c.is_ascii_alphanumeric());
        let data = store.as_ref().filter(|_| plain).map(|s| s.get(&key(version))).transpose().map_err(storage)?.flatten();
        found.push((name.into(), version.into(), data.map(|d| PyBytes::new(py, &d).unbind())));
    }
    Ok((found, None))
}

/// Runs a worker to its end, and returns its exit code. An exception of a signal handler tells it to stop.
#[pyfunction]
pub fn work(py: Python<'_>, json: &str, allow: Vec<String>, functions: Vec<Bound<'_, Function>>) -> PyResult<u8> {
    chunkwise::limit_allocator();
    chunkwise::storage::one_codec_thread();
    let start = start(json)?;
    let calls = Calls::of(&functions.iter().map(|f| f.get().held()).collect::<Vec<_>>());
    let host: Host = runtime(&start, allow)?.with_functions(calls.registered()).host().clone();
    let cancel = AtomicBool::new(false);
    calls.begin(py)?;
    let ended = std::thread::scope(|scope| {
        let (send, mut receive) = channel();
        let cancelled = &cancel;
        scope.spawn(move || send.send(start.run(&host, cancelled)));
        loop {
            let ended;
            (receive, ended) = py.detach(move || {
                let ended = receive.recv_timeout(TICK);
                (receive, ended)
            });
            match ended {
                Ok(ended) => return Ok(ended),
                Err(RecvTimeoutError::Disconnected) => return Err(PyRuntimeError::new_err("the worker ended by a panic, which is a bug")),
                Err(RecvTimeoutError::Timeout) if py.check_signals().is_err() => {
                    cancel.store(true, Ordering::SeqCst);
                    // Those that go on end with this process.
                    let _ = calls.stop(py);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    })?;
    calls.end(py)?;
    Ok(ended.map_or_else(|e| unusable(&e), Exit::code))
}
