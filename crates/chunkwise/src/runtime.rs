//! What sessions share: the stores, with their options and rights.

use crate::{Error, Expr, Session, decode_cf, open};
use chunkwise_executor::{Choice, Driver, Event, RunOptions, RunReport};
use chunkwise_plan::Plan;
use chunkwise_storage::Stores;
use std::path::Path;
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
    stores: Stores,
}

impl Runtime {
    /// A runtime with the permissions in the environment, as [`Stores::from_env`].
    pub fn new() -> Runtime {
        Runtime::with_stores(Stores::from_env())
    }

    /// A runtime with these stores.
    pub fn with_stores(stores: Stores) -> Runtime {
        Runtime(Arc::new(Inner { stores }))
    }

    /// Its stores: to configure and restrict them, and to open what is no array.
    pub fn stores(&self) -> &Stores {
        &self.0.stores
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

    /// Runs a plan on any executor. `workers` tasks run at once where the options of the executor do not say otherwise; neither changes the
    /// plan or the results, so a run can be resumed on another executor. Memory that is freed goes back to the system from then on
    /// ([`crate::limit_allocator`], for the whole process), so that it does not count against the budget.
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
        crate::limit_allocator();
        let (context, mut executor) = choice.open(self.stores(), plan, workers)?;
        let report = Driver::run(&context, executor.as_mut(), options, events, cancel);
        // No worker outlives the run, whatever comes after it.
        drop(executor);
        let report = report?;
        Driver::sweep(&context, &report)?;
        Ok(report)
    }
}
