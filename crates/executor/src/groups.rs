//! The groups of the outputs. Before a run, existing groups must agree with the plan; after it, coordinates are written.
//!
//! Only this module writes coordinates, whatever runs the plan, so a group cannot contain two versions of a dimension.

use crate::claims::{GroupLock, LOCK};
use crate::driver::Still;
use crate::{RunError, checksums};
use chunkwise_ops::cf::take_fill;
use chunkwise_ops::{Coord, Labels};
use chunkwise_plan::{ArrayRole, CoordinateValues, Plan, PlanArray, PlanCoordinate, PlanGroup};
use chunkwise_storage::{
    Location, NodeKind, SmallArray, StorageError, Stores, Values, Version, at_once, consolidate, group_format, list_tree, make_group,
    read_small, replaceable, write_small,
};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The largest coordinate that is read, in bytes.
pub const MAX_COORDINATE: u64 = chunkwise_plan::MAX_BYTES;

/// A stored array as a coordinate; `None` if there is no array of this name, or its dimensions have no names.
///
/// # Errors
/// When it cannot be read.
pub fn read_coord(stores: &Stores, at: &Location) -> Result<Option<Coord>, StorageError> {
    let Some(small) = read_small(stores, at, MAX_COORDINATE)? else { return Ok(None) };
    let Some(dims) = small.dims.into_iter().collect::<Option<Vec<String>>>() else { return Ok(None) };
    let labels = match small.values {
        Values::Numbers(dtype, bytes) => Labels::Numbers { dtype, bytes },
        Values::Text(list) => Labels::Text(list),
    };
    Ok(Some(Coord { name: at.name().into(), dims, shape: small.shape, labels, attributes: small.attributes, bounds: false }))
}

fn coord_of(at: &Location, c: &PlanCoordinate) -> Result<Coord, RunError> {
    let labels = match &c.values {
        CoordinateValues::Text(list) => Labels::Text(list.clone()),
        values => match values.bytes(c.shape.iter().product()) {
            Ok(Some((dtype, bytes))) => Labels::Numbers { dtype, bytes },
            Ok(None) => Labels::Lost,
            Err(e) => return Err(refuse(at, format!("the coordinate '{}' of the plan cannot be read: {e}", c.name))),
        },
    };
    let (dims, shape, attributes) = (c.dims.clone(), c.shape.clone(), c.attributes.clone());
    Ok(Coord { name: c.name.clone(), dims, shape, labels, attributes, bounds: false })
}

/// True if the folder may become a group: it is one already, or contains no foreign files.
fn usable(stores: &Stores, group: &Location) -> bool {
    if stores.check_allowed(group).is_err() {
        return false;
    }
    let metadata = ["zarr.json", ".zgroup", ".zattrs", ".zmetadata", LOCK];
    let Some(entries) = group.local_path().and_then(|folder| std::fs::read_dir(folder).ok()) else { return true };
    let files: Vec<_> = entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_file())).map(|e| e.file_name()).collect();
    let is_group = files.iter().any(|f| f == "zarr.json" || f == ".zgroup");
    is_group || !files.iter().any(|f| !metadata.iter().any(|m| f == m))
}

/// A group of a plan, and its outputs by name.
struct Group<'a> {
    at: Location,
    planned: Option<&'a PlanGroup>,
    outputs: Vec<(String, &'a PlanArray)>,
}

/// The version of Zarr of an output.
fn format_of(array: &PlanArray) -> u8 {
    array.encoding.as_ref().map_or(3, |e| e.codec.zarr_format())
}

/// The groups of a plan, including those that it does not name: each folder with an output in it.
fn groups<'p>(stores: &Stores, plan: &'p Plan) -> Result<Vec<Group<'p>>, RunError> {
    let planned: HashMap<String, &PlanGroup> =
        plan.groups.iter().map(|g| Ok((Location::parse(&g.url, None)?.as_str().to_string(), g))).collect::<Result<_, StorageError>>()?;
    let mut out: BTreeMap<String, Group<'p>> = BTreeMap::new();
    for array in plan.arrays.values().filter(|a| a.role == ArrayRole::Output) {
        let output = Location::parse(&array.url, None)?;
        let Some(at) = output.parent().filter(|_| !output.name().ends_with(".zarr")) else { continue };
        let name = output.name().to_string();
        match out.get_mut(at.as_str()) {
            Some(group) => group.outputs.push((name, array)),
            None if usable(stores, &at) => {
                let planned = planned.get(at.as_str()).copied();
                out.insert(at.as_str().into(), Group { at, planned, outputs: vec![(name, array)] });
            }
            None => {}
        }
    }
    Ok(out.into_values().collect())
}

/// The folders that become groups, or are groups and get new arrays.
pub(crate) fn places(stores: &Stores, plan: &Plan) -> Result<Vec<Location>, RunError> {
    Ok(groups(stores, plan)?.into_iter().map(|g| g.at).collect())
}

/// The other arrays of a group, which are neither outputs nor coordinates of the plan: by name, with their dimensions and lengths.
struct Others(Vec<(String, Vec<Option<String>>, Vec<u64>)>);

impl Others {
    fn read(stores: &Stores, at: &Location, ours: &dyn Fn(&str) -> bool) -> Result<Others, RunError> {
        let nodes = match list_tree(stores, at) {
            Ok(nodes) => nodes,
            Err(StorageError::NotFound { .. } | StorageError::Unsupported { .. }) => return Ok(Others(Vec::new())),
            Err(e) => return Err(e.into()),
        };
        let mut out = Vec::new();
        for n in nodes.into_iter().filter(|n| !n.path.is_empty() && !n.path.contains('/') && !ours(&n.path)) {
            match n.kind {
                NodeKind::Array(Ok(m)) => out.push((n.path, m.dimension_names.unwrap_or_default(), m.shape)),
                NodeKind::Array(Err(_)) => {
                    if let Ok(Some(c)) = read_coord(stores, &at.join(&n.path)) {
                        out.push((n.path, c.dims.into_iter().map(Some).collect(), c.shape));
                    }
                }
                NodeKind::Group(_) => {}
            }
        }
        Ok(Others(out))
    }

    /// The name of an array that has this dimension.
    fn with_dim(&self, dim: &str) -> Option<&str> {
        self.0.iter().find(|(name, dims, _)| name != dim && dims.iter().any(|d| d.as_deref() == Some(dim))).map(|(n, ..)| n.as_str())
    }

    /// An array in which the dimension has another length.
    fn other_length(&self, dim: &str, n: u64) -> Option<(&str, u64)> {
        let of = |(name, dims, shape): &'_ (String, Vec<Option<String>>, Vec<u64>)| {
            let i = dims.iter().position(|d| d.as_deref() == Some(dim))?;
            Some((name.clone(), *shape.get(i)?)).filter(|(_, len)| *len != n)
        };
        self.0.iter().find_map(|o| of(o).map(|(_, len)| (o.0.as_str(), len)))
    }
}

fn refuse(at: &Location, detail: String) -> RunError {
    RunError::Group { url: at.to_string(), detail }
}

/// Refuses a group if foreign files, or another group, are in the way of one of its coordinates. In object stores, this is noticed when the
/// coordinate is written, because checking takes requests.
fn free_for(stores: &Stores, at: &Location, coord: &Coord) -> Result<(), RunError> {
    if at.is_remote() {
        return Ok(());
    }
    replaceable(stores, &at.join(&coord.name), &serde_json::Value::Null).map(|_| ()).map_err(|e| refuse(at, e.to_string()))
}

/// A group of the outputs, and the coordinates that it lacks.
struct Lacking {
    at: Location,
    /// True if it is a group already.
    is_group: bool,
    zarr_format: u8,
    coords: Vec<Coord>,
    /// The attributes of the group, if it has to be made.
    attributes: serde_json::Map<String, serde_json::Value>,
}

/// Compares a plan with the groups of its outputs, before anything is written.
///
/// # Errors
/// When a dimension of the outputs has another length or other labels in a group, unless the run replaces (`overwrite`) everything that the
/// group has along this dimension.
pub(crate) fn check(stores: &Stores, plan: &Plan, overwrite: bool) -> Result<(), RunError> {
    look(stores, plan, overwrite).map(|_| ())
}

fn look(stores: &Stores, plan: &Plan, overwrite: bool) -> Result<Vec<Lacking>, RunError> {
    groups(stores, plan)?.into_iter().map(|group| look_at(stores, group, overwrite)).collect()
}

fn look_at(stores: &Stores, Group { at, planned, outputs }: Group<'_>, overwrite: bool) -> Result<Lacking, RunError> {
    let coordinates = planned.map_or(&[][..], |g| &g.coordinates);
    let attributes = planned.map(|p| p.attributes.clone()).unwrap_or_default();
    let coords = coordinates.iter().map(|c| coord_of(&at, c)).collect::<Result<Vec<Coord>, _>>()?;
    let zarr_format = outputs.first().map_or(3, |(_, a)| format_of(a));
    if outputs.iter().any(|(_, a)| format_of(a) != zarr_format) {
        return Err(refuse(&at, "its outputs are of Zarr v2 and of v3; write them into groups of their own".into()));
    }
    let there = group_format(stores, &at)?;
    if let Some(there) = there.filter(|n| *n != zarr_format) {
        let detail = format!(
            "it is a group of Zarr v{there}, in which arrays of v{zarr_format} are not seen; write into another group, or as `zarr_format: {there}`"
        );
        return Err(refuse(&at, detail));
    }
    if there.is_none() {
        coords.iter().try_for_each(|c| free_for(stores, &at, c))?;
        return Ok(Lacking { at, is_group: false, zarr_format, coords, attributes });
    }
    let names: HashSet<&str> = outputs.iter().map(|(name, _)| name.as_str()).collect();
    let others = Others::read(stores, &at, &|name| names.contains(name))?;
    // The length of each dimension of the outputs.
    let mut dims: BTreeMap<&str, u64> = BTreeMap::new();
    for (_, a) in &outputs {
        let names = a.encoding.as_ref().and_then(|e| e.dimension_names.as_ref());
        dims.extend(names.into_iter().flatten().zip(&a.shape).filter_map(|(d, n)| Some((d.as_deref()?, *n))));
    }
    let is_coordinate = |name: &str| coordinates.iter().any(|c| c.name == name);
    let mut wanting = Vec::new();
    for wanted in coords {
        let Some(there) = read_coord(stores, &at.join(&wanted.name))? else {
            free_for(stores, &at, &wanted)?;
            wanting.push(wanted);
            continue;
        };
        let Some(difference) = there.difference(&wanted) else { continue };
        // If an output has a single label, the labels of the whole dimension take precedence.
        if wanted.dims.is_empty() && there.is_index() {
            continue;
        }
        let user = wanted.own_dims().iter().find_map(|d| others.with_dim(d).filter(|n| !is_coordinate(n)));
        // Along other dimensions, it is not a coordinate of this run but a foreign array. An index, or one label of it, is a coordinate
        // nevertheless.
        let label = there.is_index() || there.dims.is_empty() && wanted.is_index();
        let foreign = there.dims != wanted.dims && !label;
        if overwrite && user.is_none() && !foreign {
            wanting.push(wanted);
            continue;
        }
        let out = match user {
            _ if foreign => "that array is another one and is not replaced".into(),
            Some(user) if overwrite => format!("the array '{user}' in it has these labels and is not replaced"),
            _ => "replace what has them with --overwrite".into(),
        };
        return Err(refuse(
            &at,
            format!(
                "it has other labels for '{}': {difference} (the group has {}, the outputs have {}); {out}, write into another group, or give the \
                 dimension another name with `dims:`",
                wanted.name,
                there.summary(),
                wanted.summary()
            ),
        ));
    }
    // A coordinate that is replaced does not count.
    let rest = Others(others.0.into_iter().filter(|o| !(overwrite && is_coordinate(&o.0))).collect());
    for (dim, n) in dims {
        if let Some((name, len)) = rest.other_length(dim, n) {
            return Err(refuse(
                &at,
                format!(
                    "its array '{name}' has {len} elements along '{dim}', the outputs have {n}: such a group cannot be opened; write into \
                     another group, or give the dimension another name with `dims:`"
                ),
            ));
        }
        if planned.is_some_and(|g| g.unlabelled.iter().any(|d| d == dim)) && read_coord(stores, &at.join(dim))?.is_some() {
            return Err(refuse(
                &at,
                format!(
                    "it has labels for '{dim}', and those of the outputs are not known (they were padded, or joined from unlike parts), so they \
                     would get the wrong ones; write into another group, or give the dimension another name with `dims:`"
                ),
            ));
        }
    }
    Ok(Lacking { at, is_group: true, zarr_format, coords: wanting, attributes })
}

fn write(stores: &Stores, at: &Location, mut coord: Coord, zarr_format: u8) -> Result<(), RunError> {
    let place = at.join(&coord.name);
    let version = match (&coord.labels, zarr_format) {
        (Labels::Numbers { dtype, .. }, 2) => Version::V2(take_fill(&mut coord.attributes, *dtype)),
        (_, 2) => Version::V2(None),
        _ => Version::V3,
    };
    let values = match coord.labels {
        Labels::Numbers { dtype, bytes } => Values::Numbers(dtype, bytes),
        Labels::Text(list) => Values::Text(list),
        Labels::Lost => return Ok(()),
    };
    // The metadata comes first: an array that is half old and half new must not open.
    let store = stores.open(&place)?;
    let owned = replaceable(stores, &place, &serde_json::Value::Null)?;
    for key in ["zarr.json", ".zarray", ".zattrs"] {
        store.delete(key)?;
    }
    store.delete_ours(&|key| owned.has(key), true)?;
    let dims = coord.dims.into_iter().map(Some).collect();
    let small = SmallArray { shape: coord.shape, dims, attributes: coord.attributes, values };
    if let Some((key, hash)) = write_small(stores, &place, &small, version)? {
        checksums::write(stores, &place, [(key, format!("{hash:016x}"))].into_iter())?;
    }
    Ok(())
}

/// Makes the folders of the outputs groups, and writes the coordinates that they lack.
///
/// # Errors
/// As [`check`], because a group may have changed during the run. Also when storage fails, or the run may not go on.
pub(crate) fn publish(stores: &Stores, plan: &Plan, overwrite: bool, still: Still<'_>) -> Result<(), RunError> {
    for group in groups(stores, plan)? {
        // Another run may write other arrays of the group at the same time.
        let lock = GroupLock::wait(stores, &group.at, still)?;
        let Lacking { at, is_group, zarr_format, coords, attributes } = look_at(stores, group, overwrite)?;
        lock.check()?;
        if !is_group {
            make_group(stores, &at, zarr_format, &attributes)?;
        }
        let write = |c: &Coord| lock.check().and_then(|()| write(stores, &at, c.clone(), zarr_format));
        at_once(&coords, write).into_iter().collect::<Result<(), RunError>>()?;
        lock.check()?;
        consolidate(stores, &at)?;
    }
    Ok(())
}
