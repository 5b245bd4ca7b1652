//! Determines which part of an array is shown: `DIM=INDEX` drops a dimension, `DIM=FROM:TO` keeps a part of it.

use crate::failure::refuse;
use chunkwise::storage::ArrayMeta;
use miette::Report;

/// A dimension that is kept.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Kept {
    /// Its number in the array.
    pub axis: usize,
    /// Its name, or its number.
    pub name: String,
    /// The first index.
    pub start: u64,
    /// The number of indices.
    pub len: u64,
}

/// A slice of an array.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Slice {
    /// The kept dimensions, in their order.
    pub kept: Vec<Kept>,
    /// The other dimensions, with the chosen index.
    pub fixed: Vec<(Kept, u64)>,
}

/// The name of an axis, or its number.
fn name_of(meta: &ArrayMeta, axis: usize) -> String {
    let names = meta.dimension_names.as_ref();
    names.and_then(|n| n.get(axis).cloned().flatten()).unwrap_or_else(|| axis.to_string())
}

/// The dimensions with their lengths, as in `time (132), lat (73)`.
fn list(meta: &ArrayMeta) -> String {
    let all: Vec<String> = meta.shape.iter().enumerate().map(|(i, n)| format!("{} ({n})", name_of(meta, i))).collect();
    if all.is_empty() { "none".into() } else { all.join(", ") }
}

/// An index as in Python: negative numbers count from the end.
fn index(text: &str, kept: &Kept) -> Result<i128, Report> {
    let i: i128 = text.trim().parse().map_err(|_| {
        let last = kept.len.saturating_sub(1);
        refuse!("'{}' is not an index of dimension '{}'; write a whole number from 0 to {last}", text.trim(), kept.name)
    })?;
    Ok(if i < 0 { i + i128::from(kept.len) } else { i })
}

pub(super) fn parse(selections: &[String], meta: &ArrayMeta) -> Result<Slice, Report> {
    let mut all: Vec<(Kept, Option<u64>, bool)> = (0..meta.shape.len())
        .map(|axis| (Kept { axis, name: name_of(meta, axis), start: 0, len: meta.shape[axis] }, None, false))
        .collect();
    for text in selections.iter().filter(|t| !t.trim().is_empty()) {
        let (name, range) = text.split_once('=').ok_or_else(|| refuse!("'{text}': write DIM=INDEX or DIM=FROM:TO, such as time=0"))?;
        let name = name.trim();
        let number = name.parse().unwrap_or(usize::MAX);
        let found = all.iter().position(|(k, ..)| k.name == name).or_else(|| all.get(number).map(|_| number));
        let Some((kept, fixed, seen)) = found.and_then(|i| all.get_mut(i)) else {
            return Err(refuse!("there is no dimension '{name}'; the array has {}", list(meta)));
        };
        if std::mem::replace(seen, true) {
            return Err(refuse!("dimension '{name}' is selected twice"));
        }
        let n = i128::from(kept.len);
        match range.split_once(':') {
            None => {
                let i = index(range, kept)?;
                if !(0..n).contains(&i) {
                    return Err(refuse!("index {} is out of bounds for dimension '{name}' of length {n}", range.trim()));
                }
                *fixed = Some(i as u64);
            }
            Some((_, to)) if to.contains(':') => {
                return Err(refuse!("'{text}': a step is not possible here; large slices are thinned out to fit the picture"));
            }
            Some((from, to)) => {
                let end = |t: &str, default: i128| if t.trim().is_empty() { Ok(default) } else { index(t, kept) };
                let (from, to) = (end(from, 0)?.clamp(0, n), end(to, n)?.clamp(0, n));
                if from >= to {
                    return Err(refuse!("'{text}' selects nothing of dimension '{name}' of length {n}"));
                }
                (kept.start, kept.len) = (from as u64, (to - from) as u64);
            }
        }
    }
    let (mut kept, mut fixed) = (Vec::new(), Vec::new());
    for (k, i, _) in all {
        match i {
            Some(i) => fixed.push((k, i)),
            None => kept.push(k),
        }
    }
    // Dimensions of length 1 are dropped without a choice, as long as there are too many dimensions.
    while kept.len() > 2
        && let Some(i) = kept.iter().position(|k| k.len == 1)
    {
        let k = kept.remove(i);
        let at = k.start;
        fixed.push((k, at));
    }
    fixed.sort_by_key(|(k, _)| k.axis);
    if let Some(k) = kept.iter().find(|k| k.len == 0) {
        return Err(refuse!("there is nothing to show: dimension '{}' has length 0", k.name));
    }
    if kept.len() > 2 {
        let first: Vec<String> = kept[..kept.len() - 2].iter().map(|k| format!("--select {}=0", k.name)).collect();
        return Err(refuse!(
            "a picture has one or two dimensions, and {} are left of {}; choose one index of the others, for instance with {}",
            kept.len(),
            list(meta),
            first.join(" ")
        ));
    }
    Ok(Slice { kept, fixed })
}
