//! The table of operations as Python sees it, and calls of its operations.

use crate::array::Lazy;
use crate::errors::refused;
use crate::values::value;
use chunkwise::Array;
use chunkwise::ops::table::{self, Arguments, Context, Kind, Operation, Parameter, ParameterDefault};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// The result of an operation of the table, called by its name.
#[pyfunction]
#[pyo3(signature = (name, args, kwargs = None))]
pub fn call(py: Python<'_>, name: &str, args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<Lazy> {
    let mut held = Vec::new();
    let positional = args.iter().map(|v| value(&v, &mut held)).collect::<PyResult<_>>()?;
    let named = kwargs.into_iter().flatten().map(|(k, v)| Ok((k.extract()?, value(&v, &mut held)?))).collect::<PyResult<_>>()?;
    let arguments = Arguments { positional, named };
    let missing = arguments.positional.iter().chain(arguments.named.iter().map(|(_, v)| v)).any(|v| v.any_array(&Array::has_missing));
    // Labels are read from stores, which may need Python for it.
    let result = py.detach(|| table::named(name).and_then(|o| o.call(&arguments, &Context::default())?.array()));
    let result = result.map_err(refused)?;
    // To NumPy, NaN is missing in no array. It stays so in stored arrays that say so.
    Ok(Lazy::new(if result.has_missing() && !missing { result.without_missing() } else { result }, held))
}

/// Every operation: name, other names, subject, signature, description, parameters.
#[pyfunction]
pub fn functions(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    table::table().iter().map(|o| described(py, o)).collect()
}

fn described<'py>(py: Python<'py>, o: &Operation) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    out.set_item("name", o.name)?;
    out.set_item("aliases", o.aliases)?;
    out.set_item("subject", o.category.title)?;
    out.set_item("signature", o.forms())?;
    out.set_item("about", o.plain_about())?;
    out.set_item("elementwise", o.element.is_some())?;
    out.set_item("parameters", o.parameters.iter().map(|p| parameter(py, p)).collect::<PyResult<Vec<_>>>()?)?;
    Ok(out)
}

fn parameter<'py>(py: Python<'py>, p: &Parameter) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    out.set_item("name", p.name)?;
    out.set_item("alias", p.alias)?;
    out.set_item("kind", kind(p.kind))?;
    out.set_item("positional", p.positional)?;
    out.set_item("form", p.form)?;
    out.set_item("required", p.default.is_none())?;
    match p.default {
        None | Some(ParameterDefault::None) => out.set_item("default", py.None())?,
        Some(ParameterDefault::Flag(b)) => out.set_item("default", b)?,
        Some(ParameterDefault::Int(i)) => out.set_item("default", i)?,
        Some(ParameterDefault::Float(x)) => out.set_item("default", x)?,
        Some(ParameterDefault::Text(t)) => out.set_item("default", t)?,
    }
    Ok(out)
}

/// A word for what a parameter takes.
fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Array => "array",
        Kind::Operand | Kind::Other => "operand",
        Kind::Arrays => "arrays",
        Kind::Rest => "rest",
        Kind::Number => "number",
        Kind::Int => "int",
        Kind::Count => "count",
        Kind::Real => "real",
        Kind::Flag => "flag",
        Kind::SkipNa => "skipna",
        Kind::DType => "dtype",
        Kind::Text | Kind::Choice(_) => "text",
        Kind::Ints | Kind::Lengths => "ints",
        Kind::Chunks => "chunks",
        Kind::Dims => "dims",
        Kind::Axis => "axis",
        Kind::Order => "order",
        Kind::NewAxis => "new axis",
        Kind::NewDim => "new dim",
        Kind::AxisPairs => "axis pairs",
        Kind::Widths => "widths",
        Kind::Weights => "weights",
        Kind::Groups | Kind::Lookup => "groups",
        Kind::ByDimension(_) => "by dimension",
    }
}
