//! The inputs of a pipeline: arrays and groups, with their coordinates, unpacked by the CF conventions unless the file says otherwise.

use crate::open::{Opener, decode_cf};
use crate::pipeline::LoadError;
use chunkwise_ops::{Array, Definition, Value};
use chunkwise_pipeline::Document;
use chunkwise_storage::{Location, StorageError, Stores};
use chunkwise_types::DTypeKind;
use std::path::Path;

/// What a pipeline reads.
#[derive(Default)]
pub(crate) struct Inputs {
    /// What each name stands for.
    pub values: Vec<(String, Value)>,
    /// All arrays, as expressions see them.
    pub arrays: Vec<Array>,
    /// Where each input is.
    pub places: Vec<Location>,
    /// Coordinates that cannot be read.
    pub notes: Vec<String>,
    /// Arrays as expressions see them, with what is stored, where that is something else.
    packed: Vec<(Array, Array)>,
}

/// A stored array whose attributes say all of its packing. In version 2 the fill value of the array says what is missing; in version 3, which
/// is written, an attribute does. `None` where no plain number can say it.
fn told(stored: &Array) -> Option<Array> {
    let Definition::Stored(source) = stored.definition() else { return Some(stored.clone()) };
    let v2 = source.metadata.get("zarr_format").and_then(serde_json::Value::as_u64) == Some(2);
    let fill = source.metadata.get("metadata").and_then(|m| m.get("fill_value")).filter(|f| v2 && !f.is_null());
    let Some(fill) = fill.filter(|_| !stored.attributes().contains_key("_FillValue")) else { return Some(stored.clone()) };
    let float = match fill.as_str() {
        Some("NaN") => Some(f64::NAN),
        Some("Infinity") => Some(f64::INFINITY),
        Some("-Infinity") => Some(f64::NEG_INFINITY),
        _ => fill.as_f64(),
    };
    let value = match stored.dtype().kind() {
        DTypeKind::Float => chunkwise_ops::cf::float_attribute(float?).into(),
        _ => fill.clone(),
    };
    let mut attributes = stored.attributes().clone();
    attributes.insert("_FillValue".into(), value);
    Some(stored.with_attributes(attributes))
}

/// What may be meant by the place of an input that is not there.
fn near(written: &str, place: &Location) -> Option<String> {
    for scheme in ["s3", "gs", "az", "http", "https"] {
        if let Some(rest) = written.strip_prefix(scheme).and_then(|r| r.strip_prefix(":/")) {
            return Some(format!("did you mean '{scheme}://{}'?", rest.trim_start_matches('/')));
        }
    }
    let beside = std::fs::read_dir(place.local_path()?.parent()?).ok()?;
    let names: Vec<String> = beside.flatten().take(10_000).filter_map(|e| e.file_name().into_string().ok()).collect();
    let near = chunkwise_ops::suggest(place.name(), names.iter().map(String::as_str).filter(|n| !n.starts_with('.')))?;
    let folder = written.trim_end_matches('/').rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
    Some(format!("did you mean '{folder}{near}'?"))
}

impl Inputs {
    /// Opens the inputs of a file.
    pub fn open(stores: &Stores, doc: &Document, base: &Path) -> Result<Inputs, LoadError> {
        let mut opener = Opener::new(stores);
        let mut out = Inputs { values: Vec::new(), arrays: Vec::new(), places: Vec::new(), notes: Vec::new(), packed: Vec::new() };
        for input in &doc.inputs {
            let decode = input.decode_cf.or(doc.spec.decode_cf).unwrap_or(true);
            let bad = |e: crate::Error| doc.error(input.url.span.clone(), e.to_string(), "this input").with_cause(e);
            let place = Location::parse(&input.url.value, Some(base)).map_err(|e| bad(e.into()))?;
            // A user who asks for unpacked values gets them, of a copy too.
            let keep = |pair: &(Array, Array)| input.decode_cf.is_none().then(|| pair.clone());
            let (value, pairs) = match opener.array(&place) {
                Ok(stored) => {
                    let array = if decode { decode_cf(&stored).map_err(bad)? } else { stored.as_numbers() };
                    (Value::Array(array.clone()), vec![(array, stored)])
                }
                Err(crate::Error::Storage(StorageError::Group { .. })) => {
                    let (dataset, pairs) = opener.dataset(&place, decode).map_err(bad)?;
                    if pairs.is_empty() {
                        return Err(doc.error(input.url.span.clone(), format!("the group '{place}' holds no arrays"), "this input").into());
                    }
                    (Value::Dataset(dataset), pairs)
                }
                Err(e) => {
                    let near =
                        matches!(e, crate::Error::Storage(StorageError::NotFound { .. })).then(|| near(&input.url.value, &place)).flatten();
                    return Err(bad(e).with_help_opt(near).into());
                }
            };
            out.arrays.extend(pairs.iter().map(|(a, _)| a.clone()));
            out.packed.extend(pairs.iter().filter_map(keep));
            out.places.push(place);
            out.values.push((input.name.value.clone(), value));
        }
        out.packed.retain(|(a, stored)| a.definition() != stored.definition() || a.attributes() != stored.attributes());
        out.packed = out.packed.into_iter().filter_map(|(a, stored)| Some((a, told(&stored)?))).collect();
        out.notes = opener.notes;
        Ok(out)
    }

    /// What is stored of an array that an expression only copied or moved: packed values and their attributes stay as they are then.
    pub fn as_stored(&self, array: &Array) -> Option<Array> {
        // Its own stack, because a chain of arrays can be long.
        let mut moves = vec![array.clone()];
        let stored = loop {
            let at = moves.last()?;
            if let Some((_, stored)) = self.packed.iter().find(|(seen, _)| is(seen, at)) {
                break stored;
            }
            let [input] = at.inputs() else { return None };
            if !moves_only(at.definition()) {
                return None;
            }
            moves.push(input.clone());
        };
        moves.iter().rev().try_fold(stored.clone(), |out, at| again(at, &out, stored))
    }
}

/// True if an array is another one, perhaps with other names and coordinates.
fn is(a: &Array, b: &Array) -> bool {
    a.id() == b.id() || a.definition() == b.definition() && a.inputs().iter().map(Array::id).eq(b.inputs().iter().map(Array::id))
}

/// True if every element of the result is one of the input's.
fn moves_only(definition: &Definition) -> bool {
    match definition {
        Definition::Rechunk => true,
        Definition::Apply(kernel) => kernel.traits().moves,
        Definition::Stored(_) => false,
    }
}

/// What made `at`, done to stored values.
fn again(at: &Array, input: &Array, stored: &Array) -> Option<Array> {
    let dims = at.dims().to_vec();
    let out = match at.definition() {
        Definition::Rechunk => input.rechunked(at.chunks().clone()),
        Definition::Apply(kernel) if moves_only(at.definition()) => {
            let ty = chunkwise_kernels::ArrayType::new(stored.dtype(), at.shape().to_vec());
            Array::apply(kernel.clone(), &[input], ty, at.chunks().clone(), dims.clone(), at.operation()).ok()?
        }
        // Where the stored values begin.
        _ => input.clone(),
    };
    Some(out.with_dims(dims).with_coords(at.coords().clone()).with_attributes(stored.attributes().clone()))
}
