//! How operands meet: by the names of their dimensions, and by the labels of these.
//!
//! Where every axis of every operand has a name, axes of one name are one axis, whatever their positions; else axes meet by position, from the
//! last one on. Labels of one dimension must be the same, unless a [`Join`] says what to do where they are not.

use crate::coords::{Coord, Difference, Labels};
use crate::elementwise::{Operand, astype, elementwise};
use crate::index::take;
use crate::manipulate::view;
use crate::{Array, OpError, create};
use chunkwise_kernels::{ElementOp, ViewAxis};
use chunkwise_types::{DType, Scalar};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What becomes of elements whose labels are not in every operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Join {
    /// They are refused.
    #[default]
    Exact,
    /// They are left out.
    Inner,
    /// They are kept; where an operand lacks them, its elements are NaN. Labels are sorted.
    Outer,
    /// The labels are those of the first operand.
    Left,
    /// Elements meet by position, and have the labels of the first operand.
    Override,
}

impl Join {
    /// The names in pipelines.
    pub const NAMES: [(&'static str, Join); 5] =
        [("exact", Join::Exact), ("inner", Join::Inner), ("outer", Join::Outer), ("left", Join::Left), ("override", Join::Override)];

    /// The join of a name.
    pub fn named(name: &str) -> Option<Join> {
        Self::NAMES.iter().find(|(n, _)| *n == name).map(|(_, j)| *j)
    }
}

/// The names of all axes, if each has one and no two have the same.
fn names(a: &Array) -> Option<Vec<&str>> {
    let list: Vec<&str> = a.dims().iter().map(Option::as_deref).collect::<Option<_>>()?;
    (list.iter().collect::<HashSet<_>>().len() == list.len()).then_some(list)
}

/// The array with its axes in this order of dimensions, of length 1 where it has none.
fn arranged(a: &Array, order: &[&str]) -> Result<Array, OpError> {
    let axes: Vec<ViewAxis> = order.iter().map(|d| a.axis_named(d).map_or(ViewAxis::New, ViewAxis::In)).collect();
    if axes.iter().enumerate().all(|(i, x)| *x == ViewAxis::In(i)) {
        return Ok(a.clone());
    }
    view(a, axes, "broadcast_to")
}

/// The arrays with axes of one name in one place, if all their axes have names; as they are otherwise.
///
/// The order is that of the first array that has all dimensions; if none has, that in which they appear.
fn by_name(arrays: Vec<Array>) -> Result<Vec<Array>, OpError> {
    let Some(lists) = arrays.iter().map(names).collect::<Option<Vec<_>>>() else { return Ok(arrays) };
    let mut order: Vec<&str> = Vec::new();
    for d in lists.iter().flatten() {
        if !order.contains(d) {
            order.push(d);
        }
    }
    if let Some(whole) = lists.iter().find(|l| l.len() == order.len()) {
        order.clone_from(whole);
    }
    let order: Vec<String> = order.into_iter().map(String::from).collect();
    let order: Vec<&str> = order.iter().map(String::as_str).collect();
    arrays.iter().map(|a| arranged(a, &order)).collect()
}

/// A label as something that can be looked up. Times are compared as dates.
fn keys(c: &Coord, as_dates: bool) -> Vec<String> {
    match c.dates().filter(|_| as_dates) {
        Some(dates) => dates.iter().map(|d| format!("{:?}", d.fields())).collect(),
        None => match &c.labels {
            Labels::Text(list) => list.clone(),
            // Zero has two signs.
            _ => c.floats().unwrap_or_default().iter().map(|v| format!("{:?}", v + 0.0)).collect(),
        },
    }
}

/// The place of each of the wanted labels among those that there are.
fn places(operation: &str, wanted: &Coord, there: &Coord) -> Result<Vec<Option<u64>>, OpError> {
    let as_dates = wanted.is_time() && there.is_time();
    let mut found = HashMap::new();
    for (i, k) in keys(there, as_dates).into_iter().enumerate() {
        if found.insert(k, i as u64).is_some() {
            let label = there.shown().get(i).cloned().unwrap_or_default();
            return Err(OpError::new(
                operation,
                format!("the label {label} of '{}' occurs twice, so arrays cannot be joined by it", there.name),
            ));
        }
    }
    Ok(keys(wanted, as_dates).iter().map(|k| found.get(k).copied()).collect())
}

/// The elements at these places of a dimension, NaN where there is none.
fn reindexed(a: &Array, dim: &str, target: &Arc<Coord>, places: &[Option<u64>]) -> Result<Array, OpError> {
    let Some(axis) = a.axis_named(dim) else { return Ok(a.clone()) };
    let others: Vec<Arc<Coord>> = a.coords().iter().filter(|c| c.name != dim).cloned().collect();
    let list: Vec<i64> = places.iter().map(|p| p.unwrap_or(0) as i64).collect();
    let missing = places.iter().any(Option::is_none);
    if missing && a.shape()[axis] == 0 {
        return Err(OpError::new("join", format!("an array has no elements along '{dim}'")));
    }
    let mut out = take(a, &list, axis)?;
    if missing {
        let dtype = if out.dtype().is_inexact() { out.dtype() } else { DType::Float64 };
        let mut shape = vec![1; out.rank()];
        shape[axis] = places.len() as u64;
        let there = create::constant(places.iter().map(|p| Scalar::Bool(p.is_some())).collect(), &shape, DType::Bool)?;
        let all = astype(&out, dtype)?;
        out = elementwise(ElementOp::Where, &[(&there).into(), (&all).into(), Scalar::Float(f64::NAN).into()])?.with_missing();
    }
    let mut coords: Vec<Arc<Coord>> = Vec::new();
    for c in others {
        coords.push(if c.dims.iter().any(|d| d == dim) { Arc::new(c.take(dim, places)) } else { c });
    }
    coords.push(target.clone());
    Ok(out.with_coords(coords))
}

/// The labels of a dimension that a join leaves.
fn joined(operation: &str, all: &[&Arc<Coord>], join: Join) -> Result<Arc<Coord>, OpError> {
    let mut out = all[0].clone();
    for c in &all[1..] {
        let there = places(operation, &out, c)?;
        match join {
            Join::Inner => {
                let both: Vec<Option<u64>> = there.iter().enumerate().filter(|(_, p)| p.is_some()).map(|(i, _)| Some(i as u64)).collect();
                out = Arc::new(out.take(&out.name, &both));
            }
            _ => {
                let new: Vec<Option<u64>> =
                    (0..).zip(places(operation, c, &out)?).filter(|(_, p)| p.is_none()).map(|(i, _)| Some(i)).collect();
                let more = c.take(&c.name, &new);
                if more.is_empty() {
                    continue;
                }
                let Some(union) = Coord::concat(&[&out, &more], &out.name) else {
                    return Err(OpError::new(operation, format!("the labels of '{}' are of different kinds", out.name)));
                };
                out = Arc::new(union);
            }
        }
    }
    if join == Join::Outer && all[1..].iter().any(|c| all[0].difference(c).is_some()) {
        let mut order: Vec<u64> = (0..out.len()).collect();
        match (&out.labels, out.floats()) {
            (Labels::Text(t), _) => order.sort_by(|a, b| t[*a as usize].cmp(&t[*b as usize])),
            (_, Some(v)) => order.sort_by(|a, b| v[*a as usize].total_cmp(&v[*b as usize])),
            _ => {}
        }
        let order: Vec<Option<u64>> = order.into_iter().map(Some).collect();
        out = Arc::new(out.take(&out.name, &order));
    }
    Ok(out)
}

/// Says that labels differ, and what can be done.
fn refusal(operation: &str, dim: &str, a: &Coord, b: &Coord, difference: &Difference) -> OpError {
    let mut message = format!("the labels of '{dim}' differ: {difference} ({} and {})", a.summary(), b.summary());
    message += match (a.len(), b.len()) {
        (1, _) | (_, 1) => "; to use one element for all, select it with isel(), which drops the dimension",
        _ => "; select the same labels of both, or say how they are joined with `join: inner`, `outer`, `left` or `override` under `spec`",
    };
    OpError::new(operation, message)
}

/// Refuses two coordinates of one name that differ, where nothing says how they are joined.
///
/// # Errors
/// With the first difference.
pub(crate) fn agree(operation: &str, a: &Coord, b: &Coord) -> Result<(), OpError> {
    match a.difference(b) {
        Some(difference) => Err(refusal(operation, &a.name, a, b, &difference)),
        None => Ok(()),
    }
}

/// The arrays with equal labels along the dimensions that they share, but for `except`, along which they are put end to end.
///
/// # Errors
/// When labels differ and the join is [`Join::Exact`], or a label that they are joined by occurs twice.
pub fn by_label(operation: &str, mut arrays: Vec<Array>, except: Option<&str>, join: Join) -> Result<Vec<Array>, OpError> {
    let mut dims: Vec<String> = Vec::new();
    for d in arrays.iter().flat_map(|a| a.dims()).flatten() {
        if !dims.contains(d) && except != Some(d.as_str()) {
            dims.push(d.clone());
        }
    }
    for dim in dims.iter().map(String::as_str).chain(except) {
        let times: Vec<&Arc<Coord>> = arrays.iter().filter_map(|a| a.index_of(dim)).filter(|c| c.is_time()).collect();
        let other = |c: &&&Arc<Coord>| matches!(times[0].difference(c), Some(Difference::Calendar(..)));
        if let Some(other) = times.iter().find(other) {
            let difference = times[0].difference(other).unwrap_or(Difference::Kind);
            return Err(OpError::new(
                operation,
                format!("the labels of '{dim}' differ: {difference}; dates of different calendars do not meet"),
            ));
        }
    }
    for dim in dims {
        let known = |a: &Array| a.axis_named(&dim).and(a.index_of(&dim)).filter(|c| c.labels != Labels::Lost).cloned();
        let indices: Vec<Option<Arc<Coord>>> = arrays.iter().map(known).collect();
        let all: Vec<&Arc<Coord>> = indices.iter().flatten().collect();
        let Some(first) = all.first() else { continue };
        let Some((other, difference)) = all[1..].iter().find_map(|c| Some((c, first.difference(c)?))) else { continue };
        let target = match join {
            Join::Exact => return Err(refusal(operation, &dim, first, other, &difference)),
            Join::Override if all.iter().any(|c| c.len() != first.len()) => {
                return Err(refusal(operation, &dim, first, other, &difference));
            }
            Join::Override | Join::Left => (*first).clone(),
            Join::Inner | Join::Outer => joined(operation, &all, join)?,
        };
        for (a, index) in arrays.iter_mut().zip(&indices) {
            let Some(index) = index else { continue };
            *a = match join {
                Join::Override => a.with_coord((*target).clone()),
                _ => reindexed(a, &dim, &target, &places(operation, &target, index)?)?,
            };
        }
    }
    Ok(arrays)
}

/// The operands of an element-wise function with their axes in one order and with equal labels.
///
/// # Errors
/// As [`by_label`].
pub fn meet(operation: &str, operands: &[Operand], join: Join) -> Result<Vec<Operand>, OpError> {
    let arrays: Vec<Array> = operands.iter().filter_map(|o| if let Operand::Array(a) = o { Some(a.clone()) } else { None }).collect();
    if arrays.len() < 2 {
        return Ok(operands.to_vec());
    }
    let mut met = by_name(by_label(operation, arrays, None, join)?)?.into_iter();
    Ok(operands
        .iter()
        .map(|o| match o {
            Operand::Array(a) => Operand::Array(met.next().unwrap_or_else(|| a.clone())),
            Operand::Scalar(s) => Operand::Scalar(*s),
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::create::arange;

    fn labelled(dim: &str, labels: &[i64]) -> Array {
        let n = Scalar::Int(labels.len() as i128);
        let a = arange(Scalar::Int(0), n, Scalar::Int(1), None, None).unwrap();
        a.with_dims(vec![Some(dim.into())]).with_coord(Coord::integers(dim, labels, Default::default()))
    }

    fn sum(a: &Array, b: &Array, join: Join) -> Result<Array, OpError> {
        elementwise(ElementOp::Add, &meet("add", &[a.into(), b.into()], join)?)
    }

    fn labels(a: &Array, dim: &str) -> Vec<String> {
        a.index_of(dim).map(|c| c.shown()).unwrap_or_default()
    }

    #[test]
    fn operands_meet_by_name() {
        let (x, y) = (labelled("x", &[1, 2]), labelled("y", &[1, 2, 3]));
        let z = sum(&x, &y, Join::Exact).unwrap();
        assert_eq!(z.shape(), [2, 3]);
        assert_eq!(z.dims(), [Some("x".to_string()), Some("y".to_string())]);
        assert_eq!(sum(&y, &z, Join::Exact).unwrap().dims(), z.dims());
    }

    #[test]
    fn other_labels_are_refused_unless_joined() {
        let (a, b) = (labelled("x", &[1, 2, 5]), labelled("x", &[2, 3, 5]));
        let e = sum(&a, &b, Join::Exact).unwrap_err().to_string();
        assert!(e.contains("at index 0 one is 1, the other 2"), "{e}");
        assert_eq!(labels(&sum(&a, &b, Join::Inner).unwrap(), "x"), ["2", "5"]);
        assert_eq!(labels(&sum(&a, &b, Join::Outer).unwrap(), "x"), ["1", "2", "3", "5"]);
        assert_eq!(labels(&sum(&a, &b, Join::Left).unwrap(), "x"), ["1", "2", "5"]);
        assert_eq!(labels(&sum(&a, &b, Join::Override).unwrap(), "x"), ["1", "2", "5"]);
        assert_eq!(sum(&a, &b, Join::Outer).unwrap().dtype(), DType::Float64);
    }
}
