//! A function of a dataset is the function of each of its variables.

use crate::value::fail;
use crate::{CallError, Dataset, Value, suggest};

/// Applies a function of values to each variable, where some of the values are datasets: those of one name meet.
///
/// # Errors
/// Those of the function, and if the datasets have no variable in common.
pub fn lift(values: &[Value], f: &mut dyn FnMut(&[Value]) -> Result<Value, CallError>) -> Result<Value, CallError> {
    let sets: Vec<&Dataset> = values.iter().filter_map(|v| if let Value::Dataset(d) = v { Some(d) } else { None }).collect();
    let Some(first) = sets.first() else { return f(values) };
    let common = |name: &str| sets.iter().all(|d| d.variables.iter().any(|(n, _)| n == name));
    let names: Vec<&String> = first.variables.iter().map(|(n, _)| n).filter(|n| common(n)).collect();
    if names.is_empty() {
        return fail("the datasets have no variable in common");
    }
    let mut variables = Vec::new();
    for name in names {
        let of = |v: &Value| match v {
            Value::Dataset(d) => d.variables.iter().find(|(n, _)| n == name).map_or(Value::None, |(_, a)| Value::Array(a.clone())),
            other => other.clone(),
        };
        let args: Vec<Value> = values.iter().map(of).collect();
        match f(&args) {
            Ok(Value::Array(out)) => variables.push((name.clone(), out)),
            Ok(_) => return fail(format!("what was made of '{name}' is no array")),
            Err(e) => return Err(CallError { message: format!("variable '{name}': {}", e.message), ..e }),
        }
    }
    // What is said of one group need not be true of what is made of several.
    let mut attributes = first.attributes.clone();
    attributes.retain(|k, v| sets.iter().all(|d| d.attributes.get(k) == Some(v)));
    Ok(Value::Dataset(Dataset { variables, attributes, ..(*first).clone() }))
}

/// Refuses dimensions that no variable of the datasets has: a function would leave all variables as they are.
///
/// # Errors
/// With the first such dimension.
pub fn check_dims(values: &[Value], dims: &[&str], function: &str) -> Result<(), CallError> {
    let sets = || values.iter().filter_map(|v| if let Value::Dataset(d) = v { Some(d) } else { None });
    if sets().next().is_none() {
        return Ok(());
    }
    let mut known: Vec<&str> = Vec::new();
    for d in sets().flat_map(|d| &d.variables).flat_map(|(_, a)| a.dims()).flatten() {
        if !known.contains(&d.as_str()) {
            known.push(d);
        }
    }
    let Some(wrong) = dims.iter().find(|d| !known.contains(d)) else { return Ok(()) };
    let help = suggest(wrong, known.iter().copied()).map(|s| format!("did you mean '{s}'?"));
    let message = format!("{function}: no variable of the dataset has a dimension '{wrong}'; there are {}", known.join(", "));
    Err(CallError { help, ..CallError::new(message) })
}
