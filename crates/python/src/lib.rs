//! The engine as a Python extension module.
//!
//! It converts and binds, and decides nothing: what an operation takes is in the table of operations, what a run may use is in the plan.
//! The package in `python/chunkwise` is what users import.

mod array;
mod buffer;
mod errors;
mod function;
mod memory;
mod mounted;
mod run;
mod runtime;
mod store;
mod table;
mod values;
mod work;

use pyo3::prelude::*;

/// That of this module alone: Python and its other modules have their own.
#[global_allocator]
static ALLOCATOR: chunkwise_allocator::Allocator = chunkwise_allocator::Allocator;

/// The engine of the package `chunkwise`.
#[pymodule]
fn _chunkwise(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add_class::<array::Lazy>()?;
    m.add_class::<buffer::Buffer>()?;
    m.add_class::<buffer::View>()?;
    m.add_class::<function::Function>()?;
    m.add_class::<run::Settings>()?;
    m.add_class::<runtime::Runtime>()?;
    m.add_function(wrap_pyfunction!(array::open, m)?)?;
    m.add_function(wrap_pyfunction!(function::blockwise, m)?)?;
    m.add_function(wrap_pyfunction!(function::map_overlap, m)?)?;
    m.add_function(wrap_pyfunction!(function::reduce, m)?)?;
    m.add_function(wrap_pyfunction!(memory::held, m)?)?;
    m.add_function(wrap_pyfunction!(mounted::mounted, m)?)?;
    m.add_function(wrap_pyfunction!(table::functions, m)?)?;
    m.add_function(wrap_pyfunction!(table::call, m)?)?;
    m.add_function(wrap_pyfunction!(run::default_work_dir, m)?)?;
    m.add_function(wrap_pyfunction!(runtime::hold_references, m)?)?;
    m.add_function(wrap_pyfunction!(run::default_workers, m)?)?;
    m.add_function(wrap_pyfunction!(run::parse_bytes, m)?)?;
    m.add_function(wrap_pyfunction!(run::compute, m)?)?;
    m.add_function(wrap_pyfunction!(run::write, m)?)?;
    m.add_function(wrap_pyfunction!(run::plan, m)?)?;
    m.add_function(wrap_pyfunction!(store::store, m)?)?;
    m.add_function(wrap_pyfunction!(work::plan_functions, m)?)?;
    m.add_function(wrap_pyfunction!(work::work, m)?)?;
    Ok(())
}
