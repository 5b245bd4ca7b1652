//! Element-wise functions: an entry for each [`ElementOp`], whose descriptions are in `maths.rs` and `logic.rs`.

use super::parameter::Parameter;
use super::{Attributes, Call, Category, Kind, Operation, Times, find, logic, maths};
use crate::align::meet;
use crate::elementwise::{Operand, compares, elementwise};
use crate::select::date_fields;
use crate::value::fail;
use crate::{Array, CallError, Value, calendar};
use chunkwise_kernels::ElementOp;
use chunkwise_types::Scalar;

/// The operation that an element-wise function is.
///
/// # Errors
/// If the table has no entry for it, which a test excludes.
pub fn of(op: ElementOp) -> Result<&'static Operation, CallError> {
    find(op.name()).ok_or_else(|| CallError::new(format!("{} is not in the table of operations", op.name())))
}

pub(super) fn operations() -> Vec<Operation> {
    let mut out = maths::operations();
    out.extend(logic::operations());
    out
}

/// The entry of a function. It refuses times and drops attributes, unless it is told otherwise.
pub(super) fn element(op: ElementOp, category: &'static Category, text: &'static str) -> Operation {
    let names = ["x", "y", "z"].into_iter().take(op.arity());
    let parameters = names.map(|n| Parameter::new(n, Kind::Operand));
    Operation { element: Some(op), times: Times::Refused, ..Operation::new(op.name(), category, text, parameters, move |c| apply(op, c)) }
}

impl Operation {
    /// It keeps the quantity of its operands, or makes another of it.
    pub(super) fn quantity(self, attributes: Attributes, times: Times) -> Operation {
        Operation { attributes, times, ..self }
    }
}

/// Applies it to operands that meet by name and label.
pub(super) fn apply(op: ElementOp, c: &Call<'_>) -> Result<Array, CallError> {
    let kinds = [Kind::Operand, Kind::Other];
    let names = c.operation.parameters.iter().map(|p| p.name);
    let mut values = names.clone().map(|n| c.read(n, &kinds, |v, _| Ok(v.clone()))).collect::<Result<Vec<Value>, _>>()?;
    if let ([x, y], true) = (&values[..], compares(op))
        && let Some((x, y)) = dates(x, y)?
    {
        values = vec![x, y];
    }
    let all = values.iter().zip(names).map(|(value, n)| c.read(n, &kinds, |_, _| value.operand()));
    let all = all.collect::<Result<Vec<Operand>, _>>()?;
    Ok(elementwise(op, &meet(op.name(), &all, c.context.join)?)?)
}

/// A comparison of times with a date: the date as a number in the units of the times. `None` if it is none.
fn dates(a: &Value, b: &Value) -> Result<Option<(Value, Value)>, CallError> {
    let number = |x: &Array, text: &str| {
        let of = |name: &str| x.attributes().get(name).and_then(|v| v.as_str()).unwrap_or_default();
        if !of("units").contains(" since ") {
            return fail(format!("\"{text}\" is a text, and the array holds numbers; only times can be compared with a date"));
        }
        let Some(fields) = date_fields(text) else {
            return fail(format!("\"{text}\" is not a date such as \"2019-06-15\""));
        };
        let n = calendar::encode(fields, of("units"), of("calendar")).map_err(CallError::new)?;
        let whole = x.dtype().is_integer() && n.fract() == 0.0;
        Ok(Value::Scalar(if whole { Scalar::Int(n as i128) } else { Scalar::Float(n) }))
    };
    Ok(match (a, b) {
        (Value::Array(x), Value::Str(t)) => Some((a.clone(), number(x, t)?)),
        (Value::Str(t), Value::Array(x)) => Some((number(x, t)?, b.clone())),
        _ => None,
    })
}
