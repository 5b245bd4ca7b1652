//! The places of a run's outputs, before and after it: what may never be replaced, what is kept until the new arrays are whole, and what
//! killed workers have left there.

use crate::RunError;
use crate::claims::CLAIM;
use crate::driver::{Still, outputs, unusable};
use chunkwise_plan::{ArrayRole, Plan, PlanArray};
use chunkwise_storage::{Location, Near, Owned, Place, REPLACED, StorageError, Store, Stores, at_once, replaceable};
use chunkwise_task::TaskContext;
use chunkwise_types::{ByteSize, volume};

/// The room that is enough to keep an old output beside the new one, as a multiple of the stored old output.
const ROOM: u64 = 2;
/// The smallest room that is required, in bytes.
const LEAST_ROOM: u64 = 1 << 20;

/// Checks that no output is, contains or lies in an input, another output or the folder of the run, under any name.
///
/// # Errors
/// When an output does, with both names; or when a place cannot be examined.
pub fn check_apart(stores: &Stores, plan: &Plan) -> Result<(), RunError> {
    let run_dir = Location::parse(&plan.spec.work_dir, None)?.join(&plan.id());
    let of = |role| -> Result<Vec<Location>, StorageError> {
        plan.arrays.values().filter(|a| a.role == role).map(|a| Location::parse(&a.url, None)).collect()
    };
    let (inputs, outputs) = (of(ArrayRole::Input)?, of(ArrayRole::Output)?);
    let places = at_once(&inputs, |at| Place::of_array(stores, at)).into_iter().collect::<Result<Vec<_>, _>>()?;
    // An input may have two places.
    let names: Vec<&Location> = inputs.iter().zip(&places).flat_map(|(url, p)| vec![url; p.len()]).collect();
    let mut read: Vec<Place> = places.into_iter().flatten().collect();
    let written = at_once(&outputs, |at| Place::of(stores, at)).into_iter().collect::<Result<Vec<_>, _>>()?;
    read.push(Place::of(stores, &run_dir)?);
    let Some((i, near)) = Place::first_overlap(&read, &written) else { return Ok(()) };
    let (what, other) = match near {
        Near::Read(r) if r < names.len() => ("the input", names[r]),
        Near::Read(_) => ("the folder of the run", &run_dir),
        Near::Written(o) => ("the output", &outputs[o]),
    };
    Err(RunError::Overlap { url: outputs[i].to_string(), what, other: other.to_string() })
}

/// Examines the places of the outputs, before anything is deleted.
///
/// # Errors
/// When there is something other than an array.
pub(crate) fn look<'a>(ctx: &TaskContext, names: &[&'a str]) -> Result<Vec<(&'a str, Owned)>, RunError> {
    let place = |source| match source {
        source @ StorageError::Kept { .. } => RunError::Place { what: "an output cannot be written", source },
        other => RunError::Storage(other),
    };
    let found = at_once(names, |name| replaceable(ctx.stores(), ctx.array_location(name), &ctx.array(name).meta().metadata));
    names.iter().zip(found).map(|(name, owned)| Ok((*name, owned.map_err(place)?))).collect()
}

/// True if there is room to keep an output beside the new one, or if the free room is not known.
fn has_room(ctx: &TaskContext, name: &str, store: &Store) -> Result<bool, StorageError> {
    let Some(free) = store.free_bytes() else { return Ok(true) };
    let array = &ctx.plan.arrays[name];
    let chunk = volume(&array.grid.stored_shape()).saturating_mul(array.dtype.size());
    let decoded = chunk.saturating_mul(array.grid.count());
    if free >= decoded {
        return Ok(true);
    }
    let stored: u64 = store.list("")?.iter().map(|(_, n)| n).sum();
    Ok(free >= decoded.min(stored.saturating_mul(ROOM).max(LEAST_ROOM)))
}

/// Makes room for an output. Says so if the old array cannot be kept until the new one is whole.
pub(crate) fn make_room(ctx: &TaskContext, name: &str, owned: &Owned, still: Still<'_>) -> Result<Option<String>, RunError> {
    still()?;
    let at = ctx.array_location(name);
    let store = ctx.stores().open(at)?;
    if !owned.published || has_room(ctx, name, &store)? {
        store.set_aside::<RunError>(owned, &|| still())?;
        return Ok(None);
    }
    let free = ByteSize(store.free_bytes().unwrap_or_default());
    // The metadata is deleted first: a half-deleted array must not open.
    ctx.unpublish(name).map_err(unusable)?;
    store.delete_ours(&|key| owned.has(key) && key != CLAIM, true)?;
    Ok(Some(format!("there is no room to keep '{at}' until the new one is whole ({free} are free), so it was deleted first")))
}

/// Deletes the kept arrays, because the new ones are whole.
pub(crate) fn drop_replaced(ctx: &TaskContext) -> Result<(), RunError> {
    let dropped = at_once(&outputs(ctx), |name| ctx.stores().open(ctx.array_location(name))?.drop_aside());
    Ok(dropped.into_iter().collect::<Result<(), StorageError>>()?)
}

/// The smallest chunk, in bytes, that may have been uploaded in parts. Parts are for larger objects, but encoding may make a chunk a little
/// larger.
const IN_PARTS: u64 = 60 << 20;

/// Aborts multipart uploads of this run's killed workers.
pub(crate) fn abort_uploads(ctx: &TaskContext) -> Result<(), StorageError> {
    let large = |a: &PlanArray| volume(&a.grid.stored_shape()).saturating_mul(a.dtype.size()) >= IN_PARTS;
    let written = ctx.plan.arrays.iter().filter(|(_, a)| a.role != ArrayRole::Input && large(a));
    let places: Vec<&Location> = written.map(|(name, _)| ctx.array_location(name)).filter(|at| at.is_remote()).collect();
    at_once(&places, |at| Ok(ctx.stores().open(at)?.abort_uploads())).into_iter().try_for_each(|n: Result<u64, StorageError>| n.map(|_| ()))
}

/// The URLs of the outputs. If an output replaces another array, the place where that is kept is added.
pub(crate) fn urls_with_kept(ctx: &TaskContext) -> Vec<String> {
    let url = |name: &&str| {
        let at = ctx.array_location(name);
        let kept = at.join(REPLACED);
        let there = kept.local_path().is_some_and(|p| p.is_dir());
        if there { format!("{at}, which is to replace what is kept in {kept}") } else { at.to_string() }
    };
    outputs(ctx).iter().map(url).collect()
}
