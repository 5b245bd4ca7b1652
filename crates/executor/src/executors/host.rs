//! The program that drives a run, as far as executors have to know it.

use super::Executors;
use crate::RunError;
use chunkwise_kernels::Functions;
use chunkwise_storage::Stores;
use std::path::PathBuf;

/// What the program that drives a run, or works for one, gives to its executor or worker.
#[derive(Debug, Clone, Default)]
pub struct Host {
    /// How it opens stores.
    pub stores: Stores,
    /// The program of workers on this machine, which takes the arguments of `chunkwise worker`. The command names itself; a program that uses
    /// the library is no worker.
    pub program: Option<PathBuf>,
    /// The functions of users that it has.
    pub functions: Functions,
    /// The executors that it has.
    pub executors: Executors,
    /// The interpreter with which workers may run functions of Python that are stored beside the plan. Without it, they refuse them.
    pub python: Option<PathBuf>,
}

impl Host {
    /// The program of the workers: that of the options of an executor, or else that of the host. This program need not be a worker: it may
    /// only use the library.
    ///
    /// # Errors
    /// When neither is known.
    pub fn worker_program(&self, option: Option<&PathBuf>) -> Result<PathBuf, RunError> {
        option.or(self.program.as_ref()).cloned().ok_or_else(|| {
            RunError::Executor(
                "the program of the workers is not known; name the command `chunkwise` with the executor's option 'program', or, in Rust, with \
                 RuntimeBuilder::worker_program"
                    .into(),
            )
        })
    }
}
