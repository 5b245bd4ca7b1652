//! The coordinates of the groups that outputs are in, or why outputs cannot be in one group.
//!
//! A reader of a group takes each dimension to have one length and one list of labels. So all outputs of a group must agree on them, by value.

use crate::error::LabelConflict;
use crate::{PlannerError, Request};
use chunkwise_ops::{Coord, Labels};
use chunkwise_plan::{CoordinateValues, MAX_BYTES, PlanCoordinate, PlanGroup};
use chunkwise_types::ByteSize;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The group that an output is in, and its name there; `None` for a store of its own.
pub(crate) fn group_of(url: &str) -> Option<(&str, &str)> {
    let (parent, name) = url.trim_end_matches('/').rsplit_once('/')?;
    (!name.ends_with(".zarr") && !parent.is_empty() && !parent.ends_with(['/', ':'])).then_some((parent, name))
}

/// What one output says of a dimension.
fn described(request: &Request, dim: &str) -> String {
    let a = &request.array;
    let length = a.axis_named(dim).map_or(0, |i| a.shape()[i]);
    match a.index_of(dim) {
        Some(c) if c.labels != Labels::Lost => c.summary(),
        Some(_) => format!("'{dim}' of length {length} whose labels are not known"),
        None => format!("'{dim}' of length {length}"),
    }
}

fn conflict(dim: &str, group: &str, first: &Request, second: &Request, why: &str) -> PlannerError {
    PlannerError::Labels(Box::new(LabelConflict {
        group: group.into(),
        dim: dim.into(),
        first: first.url.clone(),
        second: second.url.clone(),
        first_has: described(first, dim),
        second_has: described(second, dim),
        why: why.into(),
    }))
}

fn plan_coordinate(c: &Coord) -> Option<PlanCoordinate> {
    let values = match &c.labels {
        Labels::Numbers { dtype, bytes } => CoordinateValues::numbers(*dtype, bytes),
        Labels::Text(list) => CoordinateValues::Text(list.clone()),
        Labels::Lost => return None,
    };
    let attributes = c.attributes.clone();
    Some(PlanCoordinate { name: c.name.clone(), dims: c.dims.clone(), shape: c.shape.clone(), values, attributes })
}

/// True if the name of a dimension was made here, or by xarray, because there was none. Such a name was not chosen by the user, and the dimension
/// has no labels.
fn is_made(a: &chunkwise_ops::Array, dim: &str) -> bool {
    dim.strip_prefix("dim_").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        && !a.coords().iter().any(|c| c.dims.iter().any(|d| d == dim))
}

/// The requests with a name for each dimension, where they are in a group: an array of a group cannot be opened by xarray without.
pub(crate) fn named(requests: &[Request]) -> Vec<Request> {
    // The names that users gave, and those that are made here with their lengths, by group.
    let mut taken: HashSet<(String, String)> = HashSet::new();
    let mut made: HashMap<(String, String), u64> = HashMap::new();
    for r in requests {
        let Some((group, _)) = group_of(&r.url) else { continue };
        taken.extend(r.array.dims().iter().flatten().filter(|d| !is_made(&r.array, d)).map(|d| (group.to_string(), d.clone())));
    }
    let mut out = requests.to_vec();
    for r in &mut out {
        let Some((group, name)) = group_of(&r.url) else { continue };
        let mut dims = r.array.dims().to_vec();
        for i in 0..dims.len() {
            // One that an earlier run has made stays, unless another output has it in another length.
            let before = dims[i].take();
            if before.as_ref().is_some_and(|d| !is_made(&r.array, d)) {
                dims[i] = before;
                continue;
            }
            let length = r.array.shape()[i];
            let new = [format!("dim_{i}"), format!("{name}_dim_{i}")].into_iter().chain((2..).map(|k| format!("{name}_dim_{i}_{k}")));
            let free = before.into_iter().chain(new).map(|d| (group.to_string(), d)).find(|key| {
                !taken.contains(key) && made.get(key).is_none_or(|n| *n == length) && !dims.iter().flatten().any(|d| *d == key.1)
            });
            if let Some(key) = free {
                dims[i] = Some(key.1.clone());
                made.insert(key, length);
            }
        }
        if dims != r.array.dims() {
            r.array = r.array.with_dims(dims);
        }
    }
    out
}

/// The groups of some outputs.
///
/// # Errors
/// When outputs of one group have a dimension of one name in different lengths or with different labels, or other coordinates of one name.
pub(crate) fn run(requests: &[Request]) -> Result<Vec<PlanGroup>, PlannerError> {
    let mut groups: BTreeMap<&str, Vec<(&str, &Request)>> = BTreeMap::new();
    for r in requests {
        if let Some((group, name)) = group_of(&r.url) {
            groups.entry(group).or_default().push((name, r));
        }
    }
    groups.into_iter().map(|(url, outputs)| one(url, &outputs)).collect()
}

/// True if an output is a coordinate as it was read, and not something that was computed into its place.
fn is_coordinate(request: &Request, c: &Coord) -> bool {
    let array = &request.array;
    let along = array.dims().iter().map(Option::as_deref).eq(c.dims.iter().map(|d| Some(d.as_str())));
    along && array.inputs().is_empty() && (!c.is_index() || array.index_of(&c.name).is_some_and(|own| own.difference(c).is_none()))
}

fn one(url: &str, outputs: &[(&str, &Request)]) -> Result<PlanGroup, PlannerError> {
    let mut dims: BTreeMap<&str, (u64, &Request)> = BTreeMap::new();
    for (_, r) in outputs {
        let (first, format) =
            (outputs.first().map_or(r.codec.zarr_format(), |(_, first)| first.codec.zarr_format()), r.codec.zarr_format());
        if format != first {
            let problem = format!("it is of Zarr v{format}, and others in its group are of Zarr v{first}; write it into another group");
            return Err(PlannerError::Request { url: r.url.clone(), problem });
        }
        for (i, (dim, &n)) in r.array.dims().iter().zip(r.array.shape()).enumerate() {
            let Some(dim) = dim else { continue };
            let bad = |problem: String| PlannerError::Request { url: r.url.clone(), problem };
            if r.array.dims()[..i].contains(&Some(dim.clone())) {
                return Err(bad(format!("two of its dimensions are named '{dim}'; give them names of their own with `dims:`")));
            }
            match dims.get(dim.as_str()) {
                Some((len, first)) if *len != n => return Err(conflict(dim, url, first, r, "their lengths differ")),
                Some(_) => {}
                None => {
                    dims.insert(dim, (n, r));
                }
            }
        }
    }
    for (name, r) in outputs {
        if dims.contains_key(name) && (r.array.rank() != 1 || r.array.dims()[0].as_deref() != Some(name)) {
            let problem = format!(
                "'{name}' is also the name of a dimension in '{url}', of which it would be taken for the labels; give the output another name, \
                 or the dimension with `dims:`"
            );
            return Err(PlannerError::Request { url: r.url.clone(), problem });
        }
    }
    let mut found: BTreeMap<&str, (&Coord, &Request)> = BTreeMap::new();
    let mut unlabelled = Vec::new();
    let names: HashMap<&str, &Request> = outputs.iter().map(|(name, r)| (*name, *r)).collect();
    for (_, r) in outputs {
        for c in r.array.coords() {
            if let Some(own) = names.get(c.name.as_str()) {
                if c.labels != Labels::Lost && !is_coordinate(own, c) {
                    let problem = format!(
                        "'{}' is the name of a coordinate of '{}' ({}), whose place it would take; give the output another name",
                        c.name,
                        r.url,
                        c.summary()
                    );
                    return Err(PlannerError::Request { url: own.url.clone(), problem });
                }
                continue;
            }
            match found.get(c.name.as_str()) {
                None => {
                    found.insert(&c.name, (c, r));
                }
                Some((have, first)) => {
                    let Some(difference) = have.difference(c) else { continue };
                    match (have.own_dims().is_empty(), c.own_dims().is_empty()) {
                        // A scalar that is another for each output is said of neither, as in xarray.
                        (true, true) => continue,
                        // The label of the one element that an output is of gives way to the labels of all: it says nothing of them.
                        (false, true) if have.is_index() => continue,
                        (true, false) if c.is_index() => {
                            found.insert(&c.name, (c, r));
                            continue;
                        }
                        _ => {}
                    }
                    return Err(conflict(&c.name, url, first, r, &difference.to_string()));
                }
            }
        }
    }
    let scalars_differ = |name: &str| {
        let mut all = outputs.iter().filter_map(|(_, r)| r.array.coord(name)).filter(|c| c.own_dims().is_empty());
        let first = all.next();
        all.any(|c| first.is_some_and(|f| f.difference(c).is_some()))
    };
    let mut coordinates = Vec::new();
    let mut room = MAX_BYTES;
    for (name, (c, r)) in &found {
        if c.labels == Labels::Lost {
            if c.is_index() {
                unlabelled.push(String::from(*name));
            }
            continue;
        }
        let size = match &c.labels {
            Labels::Numbers { bytes, .. } => bytes.len() as u64,
            Labels::Text(list) => list.iter().map(|t| t.len() as u64 + 4).sum(),
            Labels::Lost => 0,
        };
        let Some(rest) = room.checked_sub(size) else {
            let problem = format!("with its coordinate '{name}', those of the group take more than {}", ByteSize(MAX_BYTES));
            return Err(PlannerError::Request { url: r.url.clone(), problem });
        };
        room = rest;
        if !(c.own_dims().is_empty() && scalars_differ(name)) {
            coordinates.extend(plan_coordinate(c));
        }
    }
    // Those that all outputs that have any agree on.
    let mut said = outputs.iter().map(|(_, r)| &r.group_attributes).filter(|a| !a.is_empty());
    let mut attributes = said.next().cloned().unwrap_or_default();
    for other in said {
        attributes.retain(|k, v| other.get(k) == Some(v));
    }
    Ok(PlanGroup { url: url.into(), coordinates, attributes, unlabelled })
}

/// The requests with the attribute by which xarray finds the coordinates of an array that are no indices (CF conventions, section 5).
pub(crate) fn attributed(requests: &[Request], groups: &[PlanGroup]) -> Vec<Request> {
    let by_url: HashMap<&str, &PlanGroup> = groups.iter().map(|g| (g.url.as_str(), g)).collect();
    let outputs: HashSet<(&str, &str)> = requests.iter().filter_map(|r| group_of(&r.url)).collect();
    let one = |request: &Request| {
        let mut out = request.clone();
        out.attributes.remove("coordinates");
        let group = group_of(&request.url).and_then(|(url, _)| by_url.get(url));
        let beside = |c: &Coord| group_of(&request.url).is_some_and(|(url, _)| outputs.contains(&(url, c.name.as_str())));
        let written = |c: &Coord| beside(c) || group.is_some_and(|g| g.coordinates.iter().any(|w| w.name == c.name && w.dims == c.dims));
        let auxiliary = request.array.coords().iter().filter(|c| !c.is_index() && !c.bounds && written(c));
        let names: Vec<&str> = auxiliary.map(|c| c.name.as_str()).collect();
        if !names.is_empty() {
            out.attributes.insert("coordinates".into(), names.join(" ").into());
        }
        out
    };
    requests.iter().map(one).collect()
}
