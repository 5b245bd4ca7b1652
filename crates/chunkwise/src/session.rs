//! Planning and running inside one budget.

use crate::observer::Observer;
use crate::reserve::{RESERVED, reserve};
use crate::{Expr, Runtime};
use chunkwise_executor::{Choice, Event, RunOptions, RunReport};
use chunkwise_ops::Array;
use chunkwise_plan::{Codec, Plan, PlanSpec};
use chunkwise_planner::{Fusion, Options, PlannerError, Request, TimeLimit};
use chunkwise_storage::{Location, StorageError};
use chunkwise_task::TaskError;
use chunkwise_types::StoreOptions;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Whatever stops a computation.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Storage.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// An operation refuses its arguments.
    #[error(transparent)]
    Op(#[from] chunkwise_ops::OpError),
    /// No plan can be made.
    #[error(transparent)]
    Planner(#[from] PlannerError),
    /// The plan is not valid.
    #[error(transparent)]
    Plan(#[from] chunkwise_plan::PlanError),
    /// A task or its context.
    #[error(transparent)]
    Task(#[from] TaskError),
    /// The run.
    #[error(transparent)]
    Run(#[from] chunkwise_executor::RunError),
    /// Less memory than the program itself needs, in bytes.
    #[error(
        "the allowed memory of {} is too small: the program itself needs {}; allow more, with a unit, such as 500MB or 2GiB",
        chunkwise_types::ByteSize(*.0), chunkwise_types::ByteSize(RESERVED)
    )]
    Budget(u64),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

/// A memory budget, a number of workers and a work directory.
#[derive(Debug, Clone)]
pub struct Session {
    runtime: Runtime,
    observer: Observer,
    pub(crate) spec: PlanSpec,
    /// Bytes that the program holds.
    pub(crate) program: u64,
    fusion: Fusion,
    planning: Duration,
    calls: BTreeMap<String, u64>,
}

/// How long planning may take by default. It takes milliseconds; a graph of many thousands of operations takes seconds.
pub const PLANNING: Duration = Duration::from_secs(60);

impl Session {
    /// A session in a runtime of its own. `allowed_mem` bounds the whole process, whatever the number of `workers` (threads).
    pub fn new(allowed_mem: u64, workers: u64, work_dir: &str) -> Result<Session, Error> {
        Runtime::new().session(allowed_mem, workers, work_dir)
    }

    pub(crate) fn in_runtime(runtime: Runtime, allowed_mem: u64, workers: u64, work_dir: &str) -> Result<Session, Error> {
        let work_dir = Location::parse(work_dir, None)?.as_str().to_string();
        if allowed_mem <= RESERVED {
            return Err(Error::Budget(allowed_mem));
        }
        let spec = PlanSpec { allowed_mem, reserved_mem: RESERVED, workers: workers.max(1), work_dir, storage: BTreeMap::new() };
        let (observer, calls) = (runtime.observer().clone(), BTreeMap::new());
        Ok(Session { observer, runtime, spec, program: RESERVED, fusion: Fusion::On, planning: PLANNING, calls })
    }

    /// Plans every operation as a stage of its own, or (as by default) fuses them. The results are the same; only debugging and tests
    /// want them apart.
    pub fn with_fusion(self, fusion: Fusion) -> Session {
        Session { fusion, ..self }
    }

    /// How long planning may take, instead of [`PLANNING`]. Then it fails, with the pass that it was in.
    pub fn with_planning_limit(self, planning: Duration) -> Session {
        Session { planning, ..self }
    }

    /// Says how object stores are reached, by URL prefix: in the runtime of this session from now on, and in every plan that is made. The
    /// endpoints, profiles and accounts that a program names here are allowed in the runtime ([`chunkwise_storage::Stores::allow`]).
    ///
    /// # Errors
    /// When options contradict their prefix.
    pub fn with_storage(mut self, storage: BTreeMap<String, StoreOptions>) -> Result<Session, Error> {
        self.runtime.stores().configure_by_program(&storage)?;
        self.spec.storage = storage;
        Ok(self)
    }

    /// Bytes that a call of a function allocates, by the function's version, where that is known better than when the arrays were made: it was
    /// measured, for example.
    #[must_use]
    pub fn with_call_memory(self, calls: BTreeMap<String, u64>) -> Session {
        Session { calls, ..self }
    }

    /// The runtime that it is in.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// A stored array, with the stores of this session: [`Runtime::open`].
    ///
    /// # Errors
    /// When there is no such array, or it cannot be opened.
    pub fn open(&self, url: &str) -> Result<Expr, Error> {
        self.runtime.open(url)
    }

    /// A stored array with its values as they are stored.
    ///
    /// # Errors
    /// As [`Session::open`].
    pub fn open_stored(&self, url: &str) -> Result<Expr, Error> {
        self.runtime.open_stored(url)
    }

    /// An output with the default encoding.
    pub fn request(&self, url: &str, array: &Array) -> Result<Request, Error> {
        Ok(Request {
            url: Location::parse(url, None)?.as_str().into(),
            array: array.clone(),
            chunks: None,
            join: true,
            shards: None,
            codec: Codec::Default,
            stored_dtype: None,
            index: None,
            chunk_keys: None,
            fill_value: None,
            attributes: array.attributes().clone(),
            group_attributes: serde_json::Map::new(),
        })
    }

    /// An output that is encoded as `how` says: with the keys that an output of a pipeline file has, such as `chunks`, `shards`, `codec`, `dtype`,
    /// `fill_value` and `zarr_format`.
    ///
    /// # Errors
    /// What a pipeline file with the same keys would be refused for.
    ///
    /// ```
    /// let session = chunkwise::Session::new(500_000_000, 1, "work")?;
    /// let x = chunkwise::Expr::call("ones", [[6i64, 4].into()], []).array()?;
    /// let how = serde_json::json!({"chunks": [3, 4], "codec": "zstd", "fill_value": 1});
    /// let request = session.request_as("x.zarr", &x, how.as_object().expect("a mapping"))?;
    /// assert_eq!(request.chunks, Some(vec![3, 4]));
    /// # Ok::<(), chunkwise::Error>(())
    /// ```
    pub fn request_as(&self, url: &str, array: &Array, how: &serde_json::Map<String, serde_json::Value>) -> Result<Request, Error> {
        crate::outputs::request_as(url, array, how)
    }

    /// Threads that run tasks at once.
    pub fn workers(&self) -> u64 {
        self.spec.workers
    }

    /// Bytes that tasks may use together.
    pub fn task_budget(&self) -> u64 {
        self.spec.task_budget()
    }

    /// Plans outputs. Nothing is written.
    ///
    /// ```
    /// use chunkwise::{Expr, Session};
    /// let session = Session::new(500_000_000, 2, "memory:work")?;
    /// let u = Expr::open(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/data/winds.zarr/uwnd"))?;
    /// let request = session.request("memory:out/mean", &u.mean(&["time"]).array()?)?;
    /// let plan = session.plan(&[request])?;
    /// assert!(plan.stages.iter().all(|s| s.projected_mem < 500_000_000));
    /// print!("{}", chunkwise::report::table(&plan));
    /// # Ok::<(), chunkwise::Error>(())
    /// ```
    pub fn plan(&self, requests: &[Request]) -> Result<Plan, Error> {
        self.plan_beside(0, requests)
    }

    /// Plans as [`Session::plan`] beside so many bytes that the program holds already: a result in memory, for example.
    ///
    /// # Errors
    /// As [`Session::plan`]; the budget that would do has room for what is held.
    pub fn plan_beside(&self, held: u64, requests: &[Request]) -> Result<Plan, Error> {
        let allowed_mem = self.spec.allowed_mem.saturating_sub(held);
        let plan = |reserved_mem: u64| {
            // The planner has no clock, so that a plan cannot depend on one.
            let began = Instant::now();
            let limit = TimeLimit { most: self.planning, passed: &|| began.elapsed() };
            let spec = PlanSpec { allowed_mem, reserved_mem, ..self.spec.clone() };
            chunkwise_planner::plan(requests, spec, Options { fusion: self.fusion, limit, calls: &self.calls })
        };
        let reserved = reserve(self.program, allowed_mem);
        let made = match plan(reserved) {
            Err(PlannerError::Memory { .. }) if reserved > RESERVED => plan(RESERVED),
            made => made,
        };
        made.map_err(|e| match e {
            // What is held is as much in the way as the program itself.
            PlannerError::Memory { stage, operations, need, reserved, allowed, least, advice } => {
                let (reserved, allowed, least) = (reserved + held, allowed + held, least + held.div_ceil(1_000_000));
                Error::Planner(PlannerError::Memory { stage, operations, need, reserved, allowed, least, advice })
            }
            other => other.into(),
        })
    }

    /// Stops the runs of this session when the flag becomes true, instead of that of the runtime. A run that was stopped can be resumed.
    pub fn with_cancel(mut self, cancel: Arc<AtomicBool>) -> Session {
        self.observer.cancel = cancel;
        self
    }

    /// Tells the events of the runs of this session to a function, instead of that of the runtime. It is called by the thread that runs a plan.
    pub fn with_events(mut self, events: impl Fn(&Event) + Send + Sync + 'static) -> Session {
        self.observer.events = Some(Arc::new(events));
        self
    }

    /// Runs a plan on threads of this process: `threads`, or as many as it was planned for. The number changes neither the plan nor the
    /// results, so a run can be resumed with another.
    ///
    /// # Errors
    /// When the plan cannot be opened, a task fails, or the run is cancelled.
    pub fn run(&self, plan: Plan, threads: Option<usize>, options: &RunOptions) -> Result<RunReport, Error> {
        let events = &mut |event: &Event| self.observer.tell(event);
        self.runtime.run_on(&Choice::Threads, plan, threads, options, &self.observer.cancel, events)
    }
}

/// Makes glibc return large buffers to the system when they are freed, so that freed memory does not count against the budget; but not
/// the scratch that codecs take for every block, up to two megabytes: clearing its pages took longer than decoding.
///
/// It sets parameters of the whole process, so only a program may call it, once, when it starts. The command and the worker do.
pub fn limit_allocator() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: mallopt only sets parameters of the allocator, and both are documented ones.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 4 << 20);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 4 << 20);
        libc::mallopt(libc::M_ARENA_MAX, 4);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_in_the_budget_of_a_plan() {
        let session = Session::new(400_000_000, 2, "memory:held").unwrap();
        let x = Expr::open(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/data/winds.zarr/uwnd")).unwrap();
        let request = session.request("memory:held-out/x", &(&x + 1.0).array().unwrap()).unwrap();
        let plan = session.plan_beside(150_000_000, std::slice::from_ref(&request)).unwrap();
        assert_eq!(plan.spec.allowed_mem, 250_000_000);
        assert!(plan.stages.iter().all(|s| s.projected_mem + plan.spec.reserved_mem <= 250_000_000));
        let refused = session.plan_beside(335_000_000, &[request]).unwrap_err();
        let Error::Planner(PlannerError::Memory { reserved, allowed, least, .. }) = refused else { unreachable!("{refused}") };
        assert_eq!((reserved, allowed), (RESERVED + 335_000_000, 400_000_000));
        assert!(least > 400);
    }
}
