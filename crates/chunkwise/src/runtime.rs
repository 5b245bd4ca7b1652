//! What sessions share: stores with their options and rights, the program of workers, and those who watch and cancel runs.

use crate::observer::Observer;
use crate::open::{self, Opener};
use crate::{Error, Expr, Session, decode_cf};
use chunkwise_executor::{Choice, Driver, Event, Executors, Factory, Host, OptionError, Options, RunOptions, RunReport};
use chunkwise_kernels::{Function, Functions};
use chunkwise_plan::Plan;
use chunkwise_storage::{Location, Stores};
use chunkwise_types::StoreOptions;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Opens arrays and runs plans, with stores of its own. Clones share everything.
///
/// A program may have several. One does not see the storage options, the permissions, the prefixes or the `memory:` arrays of another, so a
/// service can work for two people at once:
///
/// ```
/// use chunkwise::{Expr, Runtime, ops, types::Scalar};
/// let (one, other) = (Runtime::new(), Runtime::new());
/// one.stores().restrict(&["memory:mine".into()])?;
/// let session = one.session(200_000_000, 1, "memory:mine/work")?;
/// let n = Expr::from(ops::create::arange(Scalar::Int(0), Scalar::Int(6), Scalar::Int(1), None, None)?);
/// n.write(&session, "memory:mine/n")?;
/// assert_eq!(one.open("memory:mine/n")?.array()?.shape(), [6]);
/// assert!(one.open("memory:theirs/n").is_err() && other.open("memory:mine/n").is_err());
/// # Ok::<(), chunkwise::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Runtime(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    host: Host,
    observer: Observer,
}

/// Makes a [`Runtime`].
///
/// ```
/// use chunkwise::{Runtime, executor::Event};
/// use std::sync::{Arc, atomic::AtomicBool};
/// let cancel = Arc::new(AtomicBool::new(false));
/// let runtime = Runtime::builder()
///     .restrict(["memory:service"])
///     .worker_program("/usr/local/bin/chunkwise")
///     .cancel(cancel.clone())
///     .events(|event: &Event| println!("{event:?}"))
///     .build()?;
/// assert!(runtime.open("/etc/passwd").is_err());
/// # Ok::<(), chunkwise::Error>(())
/// ```
#[derive(Debug)]
pub struct RuntimeBuilder {
    stores: Stores,
    storage: BTreeMap<String, StoreOptions>,
    allow: Vec<String>,
    prefixes: Option<Vec<String>>,
    program: Option<PathBuf>,
    functions: Functions,
    executors: Executors,
    /// Why an executor could not be added.
    refused: Option<OptionError>,
    observer: Observer,
}

impl RuntimeBuilder {
    /// Opens stores through this handle, instead of one with the permissions in the environment.
    pub fn stores(self, stores: Stores) -> RuntimeBuilder {
        RuntimeBuilder { stores, ..self }
    }

    /// Says how object stores are reached, by URL prefix. Plans that have the same options are allowed.
    pub fn storage(self, storage: BTreeMap<String, StoreOptions>) -> RuntimeBuilder {
        RuntimeBuilder { storage, ..self }
    }

    /// Allows what files may choose, in the words of the command line: [`Stores::allow`].
    pub fn allow<W: Into<String>>(mut self, words: impl IntoIterator<Item = W>) -> RuntimeBuilder {
        self.allow.extend(words.into_iter().map(Into::into));
        self
    }

    /// Restricts the runtime to places at or below these URLs. Work directories must be there, too.
    pub fn restrict<P: Into<String>>(self, prefixes: impl IntoIterator<Item = P>) -> RuntimeBuilder {
        RuntimeBuilder { prefixes: Some(prefixes.into_iter().map(Into::into).collect()), ..self }
    }

    /// The program of worker processes: the command `chunkwise`, or one that takes the same arguments. Without it, executors that start
    /// processes on this machine are refused, unless their option `program` names it.
    pub fn worker_program(self, program: impl Into<PathBuf>) -> RuntimeBuilder {
        RuntimeBuilder { program: Some(program.into()), ..self }
    }

    /// Registers a function of the user, which expressions and plans call by its name and version: [`crate::Expr::map_blocks`].
    ///
    /// A plan names functions and has no code. So every program that runs its tasks must register them: the one that plans, if it uses threads,
    /// and a worker, a container or a Lambda function of your own.
    pub fn function(mut self, name: impl Into<String>, version: impl Into<String>, function: impl Function + 'static) -> RuntimeBuilder {
        self.functions.insert(name, version, Arc::new(function));
        self
    }

    /// Adds an executor under a name, which pipelines, command lines and [`Runtime::choose`] take. `read` takes its options from
    /// `--executor-option`, and gives an executor that is opened for each plan. Most are an [`Engine`](chunkwise_executor::Engine), opened
    /// by [`Opening::through`](chunkwise_executor::Opening::through).
    ///
    /// The crate `examples/own` has one, with its tests.
    pub fn executor<F: Factory + 'static>(
        mut self,
        name: impl Into<String>,
        read: impl Fn(&mut Options<'_>) -> Result<F, OptionError> + Send + Sync + 'static,
    ) -> RuntimeBuilder {
        let refused = self.executors.add(name, read).err();
        self.refused = self.refused.or(refused);
        self
    }

    /// Stops the runs of all sessions when this becomes true. A run that was stopped can be resumed.
    pub fn cancel(mut self, cancel: Arc<AtomicBool>) -> RuntimeBuilder {
        self.observer.cancel = cancel;
        self
    }

    /// Tells the events of the runs of all sessions: progress, warnings, retries. It is called by the thread that runs a plan.
    pub fn events(mut self, events: impl Fn(&Event) + Send + Sync + 'static) -> RuntimeBuilder {
        self.observer.events = Some(Arc::new(events));
        self
    }

    /// The runtime.
    ///
    /// # Errors
    /// When options contradict their prefix, a prefix is not a URL, a word is nothing that can be allowed, or there is an executor of that name.
    pub fn build(self) -> Result<Runtime, Error> {
        let RuntimeBuilder { stores, storage, allow, prefixes, program, functions, executors, refused, observer } = self;
        if let Some(e) = refused {
            return Err(Error::Other(e.to_string()));
        }
        stores.allow(&allow).map_err(Error::Other)?;
        stores.configure_by_program(&storage)?;
        if let Some(prefixes) = prefixes {
            stores.restrict(&prefixes)?;
        }
        Ok(Runtime(Arc::new(Inner { host: Host { stores, program, functions, executors, python: None }, observer })))
    }
}

impl Runtime {
    /// A runtime with the permissions in the environment, as [`Stores::from_env`].
    pub fn new() -> Runtime {
        Runtime(Arc::new(Inner { host: Host { stores: Stores::from_env(), ..Host::default() }, observer: Observer::default() }))
    }

    /// Starts from the permissions in the environment, with no prefixes and no worker program.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder {
            stores: Stores::from_env(),
            storage: BTreeMap::new(),
            allow: Vec::new(),
            prefixes: None,
            program: None,
            functions: Functions::default(),
            executors: Executors::default(),
            refused: None,
            observer: Observer::default(),
        }
    }

    pub(crate) fn observer(&self) -> &Observer {
        &self.0.observer
    }

    /// Its stores: to configure and restrict them, and to open what is no array.
    pub fn stores(&self) -> &Stores {
        &self.0.host.stores
    }

    /// The same runtime with more functions of users: by name, version and function. Everything else is shared with this one.
    pub fn with_functions(&self, more: impl IntoIterator<Item = (String, String, Arc<dyn Function>)>) -> Runtime {
        let Inner { host, observer } = &*self.0;
        let mut host = host.clone();
        for (name, version, function) in more {
            host.functions.insert(name, version, function);
        }
        Runtime(Arc::new(Inner { host, observer: observer.clone() }))
    }

    /// The same runtime, whose workers may run functions of Python that are stored beside the plan, with this interpreter.
    pub fn with_python(&self, python: impl Into<PathBuf>) -> Runtime {
        let Inner { host, observer } = &*self.0;
        let host = Host { python: Some(python.into()), ..host.clone() };
        Runtime(Arc::new(Inner { host, observer: observer.clone() }))
    }

    /// Its stores, worker program and functions, as executors and workers take them.
    pub fn host(&self) -> &Host {
        &self.0.host
    }

    /// An executor by its name, with options as text. Of the options in `pipeline`, which may come from another person, only those count that
    /// a pipeline may set.
    ///
    /// # Errors
    /// When there is no such executor, or it has no such option.
    pub fn choose(&self, name: &str, given: &BTreeMap<String, String>, pipeline: &BTreeMap<String, String>) -> Result<Choice, OptionError> {
        self.0.host.executors.choose(name, given, pipeline)
    }

    /// A session in this runtime. `allowed_mem` bounds the whole process, whatever the number of `workers` (threads).
    ///
    /// # Errors
    /// When the work directory is not a valid place, or the memory is less than a program needs.
    pub fn session(&self, allowed_mem: u64, workers: u64, work_dir: &str) -> Result<Session, Error> {
        Session::in_runtime(self.clone(), allowed_mem, workers, work_dir)
    }

    /// A stored array, by path or URL, unpacked by the CF conventions: scaled, shifted, NaN where missing. A relative path is relative to the
    /// current folder.
    ///
    /// # Errors
    /// When there is no such array, or it cannot be opened with these stores.
    pub fn open(&self, url: &str) -> Result<Expr, Error> {
        Ok(decode_cf(&self.array(url, None)?)?.into())
    }

    /// A stored array with its values as they are stored.
    ///
    /// # Errors
    /// As [`Runtime::open`].
    pub fn open_stored(&self, url: &str) -> Result<Expr, Error> {
        Ok(self.array(url, None)?.into())
    }

    /// A stored array with its values as they are stored, as [`crate::open`] gives it. Relative paths are relative to `base`.
    ///
    /// # Errors
    /// As [`Runtime::open`].
    pub fn array(&self, url: &str, base: Option<&Path>) -> Result<crate::Array, Error> {
        open::open_in(self.stores(), url, base)
    }

    /// As [`Runtime::array`], without coordinates: nothing is read but the metadata of the array itself. For those who have labels of their own.
    ///
    /// # Errors
    /// As [`Runtime::open`].
    pub fn array_alone(&self, url: &str) -> Result<crate::Array, Error> {
        Opener::new(self.stores()).alone(&Location::parse(url, None)?)
    }

    /// Runs a plan on any executor. `workers` tasks run at once where the options of the executor do not say otherwise; neither changes the
    /// plan or the results, so a run can be resumed on another executor.
    ///
    /// # Errors
    /// When the plan cannot be opened, or a task fails.
    pub fn run_on(
        &self,
        choice: &Choice,
        plan: Plan,
        workers: Option<usize>,
        options: &RunOptions,
        cancel: &AtomicBool,
        events: &mut dyn FnMut(&Event),
    ) -> Result<RunReport, Error> {
        let (context, mut executor) = choice.open(&self.0.host, plan, workers)?;
        let report = Driver::run(&context, executor.as_mut(), options, events, cancel);
        // No worker outlives the run, whatever comes after it.
        drop(executor);
        let report = report?;
        Driver::sweep(&context, &report)?;
        Ok(report)
    }
}
