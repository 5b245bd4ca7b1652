//! How stores are reached: a runtime of the engine for each set of storage options.

use crate::errors::Failure;
use chunkwise::storage::{HeldReferences, Location, ProgramStores, Stores};
use chunkwise::types::{StoreOptions, secret_field};
use chunkwise::{Error, Session};
use object_store::memory::InMemory;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// What is stored under `memory:`. All runtimes of this process share it: values of NumPy are there, and whoever computes with them may name
/// storage options or not.
static MEMORY: LazyLock<Arc<InMemory>> = LazyLock::new(Arc::default);

/// Where the chunks of HDF5 files are. All runtimes of this process share it, too.
static REFERENCES: LazyLock<HeldReferences> = LazyLock::new(HeldReferences::default);

/// Stores that only Python can read. All runtimes of this process share them as well.
pub static PROGRAMS: LazyLock<ProgramStores> = LazyLock::new(ProgramStores::default);

/// Lets arrays be opened in this process with a list of chunks, as if its file existed.
#[pyfunction]
pub fn hold_references(url: &str, content: &str) -> PyResult<()> {
    let location = Location::parse(url, None).map_err(Error::from).map_err(Failure::from)?;
    Ok(REFERENCES.hold(&location, content.as_bytes()).map_err(Error::from).map_err(Failure::from)?)
}

/// A runtime of the engine, with the storage options that it was made with.
#[pyclass(frozen, module = "chunkwise._chunkwise")]
#[derive(Clone)]
pub struct Runtime {
    engine: chunkwise::Runtime,
    storage: BTreeMap<String, StoreOptions>,
}

#[pymethods]
impl Runtime {
    /// With storage options by URL prefix, as JSON.
    #[new]
    #[pyo3(signature = (storage = "{}"))]
    fn new(storage: &str) -> PyResult<Runtime> {
        let storage = options(storage).map_err(PyValueError::new_err)?;
        let engine = chunkwise::Runtime::new();
        let stores = engine.stores();
        stores.mount(&Location::parse("memory:", None).map_err(Error::from).map_err(Failure::from)?, MEMORY.clone());
        stores.with_references(REFERENCES.clone());
        stores.with_program_stores(PROGRAMS.clone());
        stores.configure_by_program(&storage).map_err(Error::from).map_err(Failure::from)?;
        Ok(Runtime { engine, storage })
    }
}

impl Runtime {
    pub fn engine(&self) -> &chunkwise::Runtime {
        &self.engine
    }

    pub fn stores(&self) -> &Stores {
        self.engine.stores()
    }

    /// A session whose plans have the storage options.
    pub fn session(&self, allowed_mem: u64, workers: u64, work_dir: &str) -> Result<Session, Error> {
        self.engine.session(allowed_mem, workers, work_dir)?.with_storage(self.storage.clone())
    }
}

fn options(json: &str) -> Result<BTreeMap<String, StoreOptions>, String> {
    let all: BTreeMap<String, serde_json::Map<String, serde_json::Value>> =
        serde_json::from_str(json).map_err(|e| format!("storage options are a mapping of URL prefixes to mappings: {e}"))?;
    let read = |(prefix, fields): (String, serde_json::Map<String, serde_json::Value>)| {
        // Plans are stored, and hold the options.
        if let Some(problem) = fields.keys().find_map(|k| secret_field(k)) {
            return Err(problem);
        }
        let options: StoreOptions = serde_json::from_value(fields.into()).map_err(|e| format!("the storage options of '{prefix}': {e}"))?;
        options.check(&prefix)?;
        Ok((prefix, options))
    };
    all.into_iter().map(read).collect()
}
