//! The program that drives a run, as far as executors have to know it.

use chunkwise_storage::Stores;
use std::path::PathBuf;

/// What the program that drives a run gives to its executor.
#[derive(Debug, Clone, Default)]
pub struct Host {
    /// How it opens stores.
    pub stores: Stores,
    /// The program of workers on this machine, which takes the arguments of `chunkwise worker`. The command names itself; a program that uses
    /// the library is no worker.
    pub program: Option<PathBuf>,
}
