//! Stored arrays and groups as lazy arrays, with the coordinates that lie beside them.

use crate::Error;
use chunkwise_executor::groups::read_coord;
use chunkwise_ops::coords::Coords;
use chunkwise_ops::{Array, Coord, Dataset, Definition, Source, cf};
use chunkwise_storage::{ArrayMeta, Location, NodeKind, StorageError, Stores, list_tree, open_array};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// Opens a Zarr array (v2 or v3) by URL or path; relative paths are relative to `base`, or to the current folder without it. Values are as they are
/// stored; see [`decode_cf`]. For stores with options or rights of their own, see [`crate::Runtime::open`].
///
/// ```
/// let winds = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/data");
/// let u = chunkwise::open("winds.zarr/uwnd", Some(std::path::Path::new(winds)))?;
/// assert_eq!((u.dtype(), u.shape()), (chunkwise::DType::Float32, [132, 73, 144].as_slice()));
/// assert_eq!(u.index_of("lat").map(|c| c.len()), Some(73));
/// # Ok::<(), chunkwise::Error>(())
/// ```
pub fn open(url: &str, base: Option<&Path>) -> Result<Array, Error> {
    open_in(&Stores::from_env(), url, base)
}

pub(crate) fn open_in(stores: &Stores, url: &str, base: Option<&Path>) -> Result<Array, Error> {
    Opener::new(stores).array(&Location::parse(url, base)?)
}

/// Opens arrays and groups, and reads each coordinate once.
pub(crate) struct Opener {
    stores: Stores,
    /// By URL; `None` if there is none.
    known: HashMap<String, Option<Arc<Coord>>>,
    /// What is left out, and why.
    pub notes: Vec<String>,
}

/// The names in an attribute that lists some.
fn listed(attributes: &serde_json::Map<String, serde_json::Value>, key: &str) -> Vec<String> {
    let text = attributes.get(key).and_then(serde_json::Value::as_str).unwrap_or_default();
    // A grid mapping may be written as "name: x y".
    text.split_whitespace().map(|n| n.trim_end_matches(':').to_string()).collect()
}

/// True if a name can be that of an array beside another one.
fn is_key(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(|c: char| c == '/' || c.is_control())
}

/// A stored array with its attributes.
fn stored(location: &Location, meta: ArrayMeta) -> Result<Array, Error> {
    let dims = meta.dimension_names.clone().unwrap_or_else(|| vec![None; meta.shape.len()]);
    let metadata = serde_json::to_value(&meta).map_err(|e| Error::Other(e.to_string()))?;
    let access = meta.access();
    let (dtype, grid, inner_chunk, mut attributes) = (meta.dtype, meta.grid, meta.inner_chunk, meta.attributes);
    // How xarray names dimensions in version 2.
    attributes.remove("_ARRAY_DIMENSIONS");
    let source = Source { url: location.as_str().into(), access, inner_chunk, metadata };
    Ok(Array::stored(source, dtype, grid, dims).with_attributes(attributes))
}

impl Opener {
    pub fn new(stores: &Stores) -> Opener {
        Opener { stores: stores.clone(), known: HashMap::new(), notes: Vec::new() }
    }

    /// A stored array with its coordinates.
    pub fn array(&mut self, location: &Location) -> Result<Array, Error> {
        let meta = open_array(&self.stores, location)?;
        self.lazy(location, meta, &[])
    }

    /// A stored array without coordinates, its names of dimensions and its attributes: nothing but its own metadata is read.
    pub fn alone(&self, location: &Location) -> Result<Array, Error> {
        let meta = open_array(&self.stores, location)?;
        stored(location, meta)
    }

    fn lazy(&mut self, location: &Location, meta: ArrayMeta, more: &[String]) -> Result<Array, Error> {
        let array = stored(location, meta)?;
        let (dims, mut attributes) = (array.dims().to_vec(), array.attributes().clone());
        let mut names: Vec<String> = dims.iter().flatten().cloned().collect();
        let indices = names.len();
        names.extend(["coordinates", "grid_mapping"].iter().flat_map(|k| listed(&attributes, k)));
        names.extend(more.iter().cloned());
        let group = location.parent().filter(|g| self.stores.check_allowed(g).is_ok() && !location.name().ends_with(".zarr"));
        let mut coords: Coords = Vec::new();
        for (i, name) in names.iter().enumerate() {
            let Some(group) = &group else { break };
            if coords.iter().any(|c| c.name == *name) || !is_key(name) {
                continue;
            }
            let at = group.join(name);
            // The array may be the coordinate itself: its values are read as those of any array, and are its labels too.
            let Some(c) = self.coord(&at, i < indices)? else { continue };
            let bounds = listed(&c.attributes, "bounds").into_iter().next();
            coords.push(c.clone());
            let bounds = bounds.filter(|b| is_key(b)).map(|b| self.coord(&group.join(&b), false)).transpose()?.flatten();
            if let Some(b) = bounds.filter(|b| b.dims.starts_with(&c.dims)) {
                coords.push(Arc::new(Coord { bounds: b.dims.len() > c.dims.len(), ..(*b).clone() }));
            }
        }
        // It is said anew of what is written.
        attributes.remove("coordinates");
        Ok(array.with_attributes(attributes).with_coords(coords))
    }

    /// A coordinate, if there is one. One that cannot be used, or that this user may not read, is left out with a note; that a store does not
    /// answer is an error, or results would lack labels for a passing fault.
    fn coord(&mut self, at: &Location, index: bool) -> Result<Option<Arc<Coord>>, StorageError> {
        if let Some(known) = self.known.get(at.as_str()) {
            return Ok(known.clone());
        }
        // An array may have the name of a dimension and be none of its labels: only what can be an index is read.
        let labels = |m: ArrayMeta| m.dimension_names.is_some_and(|d| d.len() == 1 && d[0].as_deref() == Some(at.name()));
        if index && open_array(&self.stores, at).is_ok_and(|m| !labels(m)) {
            self.known.insert(at.as_str().into(), None);
            return Ok(None);
        }
        let found = match read_coord(&self.stores, at) {
            Ok(c) => c.filter(|c| !index || c.is_index()).map(Arc::new),
            Err(StorageError::NotFound { .. }) => None,
            Err(e @ (StorageError::Unsupported { .. } | StorageError::Metadata { .. } | StorageError::PermissionDenied { .. })) => {
                self.notes.push(format!("the coordinate '{}' is left out: {e}", at.name()));
                None
            }
            Err(e) => return Err(e),
        };
        self.known.insert(at.as_str().into(), found.clone());
        Ok(found)
    }

    /// The arrays of a group. `decode` unpacks them by the CF conventions.
    pub fn dataset(&mut self, location: &Location, decode: bool) -> Result<(Dataset, Vec<(Array, Array)>), Error> {
        let nodes = list_tree(&self.stores, location)?;
        let mut attributes = serde_json::Map::new();
        let mut arrays = Vec::new();
        let mut out = Dataset::default();
        for n in nodes {
            match n.kind {
                NodeKind::Group(a) if n.path.is_empty() => attributes = a,
                NodeKind::Array(Ok(m)) if !n.path.contains('/') => arrays.push((n.path, *m)),
                NodeKind::Array(Err(e)) if !n.path.contains('/') => out.refused.push((n.path, e)),
                _ => {}
            }
        }
        // Whatever an array names as its coordinate is none of the variables, nor are indices and bounds.
        let mut coordinates = listed(&attributes, "coordinates");
        for (name, m) in &arrays {
            coordinates.extend(["coordinates", "grid_mapping", "bounds"].iter().flat_map(|k| listed(&m.attributes, k)));
            let dims = m.dimension_names.clone().unwrap_or_default();
            if dims.len() == 1 && dims[0].as_ref() == Some(name) {
                coordinates.push(name.clone());
            }
        }
        let auxiliary: Vec<String> = coordinates.clone();
        let mut pairs = Vec::new();
        for (name, meta) in arrays {
            if coordinates.contains(&name) {
                continue;
            }
            let stored = self.lazy(&location.join(&name), meta, &auxiliary)?;
            let array = if decode { decode_cf(&stored)? } else { stored.as_numbers() };
            for c in array.coords() {
                if !out.coords.iter().any(|o| o.name == c.name) {
                    out.coords.push(c.clone());
                }
            }
            pairs.push((array.clone(), stored));
            out.variables.push((name, array));
        }
        // Arrays name their coordinates themselves.
        attributes.remove("coordinates");
        out.attributes = attributes;
        out.refused.retain(|(n, _)| !out.coords.iter().any(|c| c.name == *n));
        Ok((out, pairs))
    }
}

/// The values that the stored values of an opened array stand for, by the CF conventions: scaled, shifted, NaN where missing.
pub fn decode_cf(array: &Array) -> Result<Array, Error> {
    let Definition::Stored(source) = array.definition() else { return Ok(array.clone()) };
    // In version 2 the fill value of the array is the CF fill value too, as for xarray.
    let v2 = source.metadata.get("zarr_format").and_then(serde_json::Value::as_u64) == Some(2);
    // Of bool and complex numbers no value stands for a missing one.
    let numbers = array.dtype().is_integer() || array.dtype().kind() == chunkwise_types::DTypeKind::Float;
    let fill = source.metadata.get("metadata").and_then(|m| m.get("fill_value")).filter(|_| v2 && numbers);
    let packing = cf::Packing::parse(array.attributes(), fill)?;
    let out = cf::decode(array, &packing)?;
    Ok(if out.dtype().is_inexact() && !packing.missing.is_empty() { out.with_missing() } else { out })
}
