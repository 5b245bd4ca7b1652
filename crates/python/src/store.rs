//! Results into regions of arrays that exist.

use crate::array::Lazy;
use crate::errors::Failure;
use crate::memory::{Held, fresh};
use crate::run::{Settings, Swept, held};
use chunkwise::executor::RunOptions;
use chunkwise::plan::{Codec, CodecMetadata};
use chunkwise::storage::{ArrayIo, ArrayMeta, Elements, Location, Stores, open_array};
use chunkwise::types::{AxisChunks, Region, volume};
use chunkwise::{Array, Error, Request};
use pyo3::prelude::*;
use std::sync::Arc;

/// A region of an array that exists, and what is to be there.
struct Target {
    array: Array,
    location: Location,
    meta: ArrayMeta,
    region: Region,
    /// Where the values are computed first, in the chunks of the target.
    beside: Location,
}

/// Refuses regions that hold a part of a chunk: another writer may have the rest of it.
fn check(meta: &ArrayMeta, region: &Region, url: &str) -> Result<(), Error> {
    if region.shape.len() != meta.shape.len() {
        return Err(Error::Other(format!("an array with {} axes does not fit '{url}' of {:?}", region.shape.len(), meta.shape)));
    }
    for (i, chunks) in meta.grid.0.iter().enumerate() {
        let (start, end) = (region.start[i], region.start[i].saturating_add(region.shape[i]));
        if end > chunks.len() {
            return Err(Error::Other(format!("the region {start}:{end} of axis {i} is not inside '{url}' of shape {:?}", meta.shape)));
        }
        let cut = |at: u64| at == 0 || at == chunks.len() || chunks.bounds(chunks.find(at)).0 == at;
        if !cut(start) || !cut(end) {
            let size = chunks.max();
            return Err(Error::Other(format!(
                "the region {start}:{end} of axis {i} of '{url}' holds a part of a chunk of {size}; two writers of one chunk would \
                 undo each other: give regions that begin and end at multiples of {size}, or store in other chunks"
            )));
        }
        if matches!(chunks, AxisChunks::Irregular(_)) {
            return Err(Error::Other(format!("'{url}' has chunks of several lengths, which cannot be written yet")));
        }
    }
    Ok(())
}

/// The codecs of the chunks, if each is an object of its own that holds elements as they are in memory.
fn codecs(meta: &ArrayMeta) -> Option<Vec<CodecMetadata>> {
    let plain = meta.zarr_format == 3 && meta.inner_chunk.is_none() && meta.stored_dtype().0 == meta.dtype.name();
    plain.then(|| serde_json::from_value(meta.metadata.get("codecs")?.clone()).ok()).flatten()
}

/// True if the chunks of one array could be those of another.
fn interchangeable(a: &ArrayMeta, b: &ArrayMeta) -> bool {
    let codecs = codecs(a);
    codecs.is_some() && codecs == self::codecs(b) && a.dtype == b.dtype && a.grid.stored_shape() == b.grid.stored_shape()
}

/// Computes arrays in one run into regions of Zarr arrays that exist.
#[pyfunction]
#[pyo3(signature = (outputs, settings, watch = None))]
pub fn store(
    py: Python<'_>,
    outputs: Vec<(Bound<'_, Lazy>, String, Vec<u64>)>,
    settings: &Settings,
    watch: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    let lazy: Vec<Lazy> = outputs.iter().map(|(a, ..)| a.get().clone()).collect();
    let outputs: Vec<(Array, String, Vec<u64>)> = outputs.into_iter().map(|(a, url, start)| (a.get().array.clone(), url, start)).collect();
    Ok(stored(py, &outputs, &held(&lazy), settings, watch)?)
}

fn stored(
    py: Python<'_>,
    outputs: &[(Array, String, Vec<u64>)],
    held: &[Arc<Held>],
    settings: &Settings,
    watch: Option<&Bound<'_, PyAny>>,
) -> Result<(), Failure> {
    let (targets, plan, swept) = py.detach(|| -> Result<_, Error> {
        let folder = Location::parse(&settings.work_dir, None)?.join("stores");
        let mut targets = Vec::new();
        for (array, url, start) in outputs {
            let location = Location::parse(url, None)?;
            let meta = open_array(settings.stores(), &location)?;
            let region = Region::new(start, array.shape());
            check(&meta, &region, url)?;
            let array = if array.dtype() == meta.dtype { array.clone() } else { chunkwise::ops::elementwise::astype(array, meta.dtype)? };
            targets.push(Target { array, location, meta, region, beside: fresh(folder.as_str(), "store")? });
        }
        let session = settings.session()?;
        let plan = |encoded: bool| -> Result<_, Error> {
            let request = |t: &Target| -> Result<Request, Error> {
                let chunks = t.meta.grid.0.iter().map(|c| c.max().max(1)).collect();
                let base = session.request(t.beside.as_str(), &t.array)?;
                let codec = codecs(&t.meta).filter(|_| encoded).map_or(Codec::None, Codec::Codecs);
                Ok(Request { chunks: Some(chunks), join: false, codec, attributes: serde_json::Map::new(), ..base })
            };
            session.plan(&targets.iter().map(request).collect::<Result<Vec<_>, _>>()?)
        };
        // Chunks that are encoded as in the target need only be moved there. Codecs that the engine does not write are left to the copy.
        let plan = plan(true).or_else(|_| plan(false))?;
        let run_dir = Location::parse(&plan.spec.work_dir, None)?.join(&plan.id());
        let places = targets.iter().map(|t| t.beside.clone()).chain([run_dir]).collect();
        let swept = Swept { stores: settings.stores().clone(), places };
        Ok((targets, plan, swept))
    })?;
    settings.run(py, plan, held, &RunOptions::default(), watch)?;
    for target in &targets {
        copied(py, settings.stores(), target)?;
    }
    py.detach(|| drop(swept));
    Ok(())
}

/// Moves the computed chunks to the target, or writes them as it stores them.
fn copied(py: Python<'_>, stores: &Stores, t: &Target) -> Result<(), Failure> {
    if volume(&t.region.shape) == 0 {
        return Ok(());
    }
    let meta = open_array(stores, &t.beside).map_err(Error::from)?;
    let from = ArrayIo::new(stores, &t.beside, &meta).map_err(Error::from)?;
    let to = ArrayIo::new(stores, &t.location, &t.meta).map_err(Error::from)?;
    let mut values = Vec::new();
    let first = t.meta.grid.touched(&t.region).start;
    let moves = interchangeable(&meta, &t.meta);
    for index in t.meta.grid.touched(&t.region).indices() {
        py.check_signals()?;
        py.detach(|| -> Result<(), Error> {
            let own: Vec<u64> = index.iter().zip(&first).map(|(i, first)| i - first).collect();
            if moves && to.store().take(&to.chunk_key(&index), from.store(), &from.chunk_key(&own))? {
                return Ok(());
            }
            let chunk = t.meta.grid.region(&index);
            let start: Vec<u64> = chunk.start.iter().zip(&t.region.start).map(|(a, b)| a - b).collect();
            values.resize((volume(&chunk.shape) * t.meta.dtype.size()) as usize, 0);
            from.read_region(&Region::new(&start, &chunk.shape), &mut values)?;
            to.write_chunk(&index, Elements::whole(&values, &chunk.shape))?;
            Ok(())
        })?;
    }
    Ok(())
}
