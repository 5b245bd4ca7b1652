//! Plans are untrusted input: everything that evaluation relies on is checked here, once.

use crate::{ArrayRole, FORMAT, Plan, PlanError, Stage};
use chunkwise_kernels::{ArrayType, Node};
use chunkwise_types::{AxisChunks, MAX_RANK, volume};
use std::collections::{HashMap, HashSet};

const MAX_STEPS: usize = 100_000;
/// Pieces of a stream.
const MAX_STREAM: u64 = 1 << 24;
/// Tasks of all stages together: a run keeps a bit for each.
pub const MAX_TASKS: u64 = 1 << 30;
/// Workers of a plan, at most: threads.
pub const MAX_WORKERS: u64 = 4096;
/// Bytes of a stored chunk.
const MAX_CHUNK: u64 = 1 << 40;
/// Bytes of an array; an axis of length 0 does not make room for longer ones.
const MAX_BYTES: u64 = 1 << 62;

impl Plan {
    /// Refuses a plan that contradicts itself.
    pub fn validate(&self) -> Result<(), PlanError> {
        if self.format != FORMAT {
            return Err(PlanError::Version { found: self.format.clone(), wanted: FORMAT });
        }
        if self.spec.workers > MAX_WORKERS {
            return invalid("spec", format!("{} workers are more than {MAX_WORKERS}", self.spec.workers));
        }
        for (prefix, options) in &self.spec.storage {
            options.check(prefix).or_else(|e| invalid("spec.storage", e))?;
        }
        // Coordinates go beside outputs, and nowhere else: a plan may not say that something else is written.
        let outputs = self.arrays.values().filter(|a| a.role == ArrayRole::Output);
        let folders: HashSet<&str> = outputs.filter_map(|a| a.url.rsplit_once('/')).map(|(folder, _)| folder).collect();
        for group in &self.groups {
            group.check().or_else(|e| invalid("groups", e))?;
            if !folders.contains(group.url.as_str()) {
                return invalid("groups", format!("no output is in the group '{}'", group.url));
            }
        }
        let mut places: HashMap<&str, Vec<&String>> = HashMap::new();
        for (name, array) in &self.arrays {
            places.entry(array.url.trim_end_matches('/')).or_default().push(name);
        }
        for (name, array) in &self.arrays {
            let place = format!("array '{name}'");
            check_size(&place, &ArrayType::new(array.dtype, array.shape.clone()))?;
            array.grid.check(&array.shape).or_else(|e| invalid(&place, e.to_string()))?;
            if volume(&array.grid.stored_shape()).saturating_mul(array.dtype.size()) >= MAX_CHUNK {
                return invalid(&place, "a chunk of it is too large".into());
            }
            if array.in_flight > MAX_CHUNK {
                return invalid(&place, "too many bytes are to be under way at once".into());
            }
            if array.inner_chunk.as_ref().is_some_and(|c| c.len() != array.shape.len() || c.contains(&0)) {
                return invalid(&place, "its inner chunk does not fit its shape".into());
            }
            // What a run deletes or replaces must be its own: an intermediate lies in the run's folder, and no two arrays share a place.
            let plain = !matches!(array.url.as_str(), "" | "." | "..") && !array.url.contains(['/', '\\', '\0']);
            if array.role == ArrayRole::Intermediate && !plain {
                return invalid(&place, format!("the URL of an intermediate must be a plain name, not '{}'", array.url));
            }
            if array.role != ArrayRole::Input
                && let Some(other) = places.get(array.url.trim_end_matches('/')).and_then(|all| all.iter().find(|other| **other != name))
            {
                return invalid(&place, format!("it is written to '{}', which is also the place of array '{other}'", array.url));
            }
            match (array.role, &array.encoding) {
                (ArrayRole::Input, _) => {}
                (_, None) => return invalid(&place, "it is written but has no encoding".into()),
                (_, Some(e)) => {
                    let stored = e.shards.as_ref().unwrap_or(&e.chunks);
                    if array.grid != chunkwise_types::ChunkGrid::regular(&array.shape, stored) || stored.len() != array.shape.len() {
                        return invalid(&place, "its grid is not the grid of its chunks or shards".into());
                    }
                    if let Some(s) = &e.shards
                        && (s.len() != e.chunks.len() || s.iter().zip(&e.chunks).any(|(s, c)| *c == 0 || s % c != 0))
                    {
                        return invalid(&place, "a shard is not a multiple of the chunk".into());
                    }
                    e.codec.check(array.dtype.size(), array.shape.len()).or_else(|e| invalid(&place, e))?;
                    if e.stored_dtype.is_some() && array.dtype != chunkwise_types::DType::Float32 {
                        return invalid(&place, format!("float16 is stored of float32, not of {}", array.dtype));
                    }
                    match &e.index {
                        Some(index) if e.shards.is_some() => index.check().or_else(|e| invalid(&place, e))?,
                        Some(_) => return invalid(&place, "it has the index of a shard, but no shards".into()),
                        None => {}
                    }
                    if e.codec.zarr_format() == 2 {
                        if e.shards.is_some() {
                            return invalid(&place, "Zarr v2 has no shards".into());
                        }
                        if e.chunk_keys.is_some_and(|k| k.name != crate::KeyName::V2) {
                            return invalid(&place, "the keys of the chunks of Zarr v2 are those of v2".into());
                        }
                    }
                }
            }
        }
        let tasks = self.stages.iter().fold(0u64, |n, s| n.saturating_add(s.tasks()));
        if tasks > MAX_TASKS {
            return invalid("stages", format!("{tasks} tasks are more than {MAX_TASKS}"));
        }
        let mut written = HashSet::new();
        for (i, stage) in self.stages.iter().enumerate() {
            self.validate_stage(&format!("stage {i} ('{}')", stage.name), stage, &written)?;
            for o in &stage.outputs {
                if !written.insert(o.array.as_str()) {
                    return invalid(&format!("stage {i}"), format!("array '{}' is written twice", o.array));
                }
            }
        }
        Ok(())
    }

    fn validate_stage(&self, place: &str, stage: &Stage, written: &HashSet<&str>) -> Result<(), PlanError> {
        let steps = &stage.program.steps;
        if steps.len() > MAX_STEPS || stage.outputs.is_empty() {
            return invalid(place, "it has no output, or too many steps".into());
        }
        for (k, step) in steps.iter().enumerate() {
            let place = format!("{place}, step {k}");
            if step.inputs.iter().any(|&i| i >= k) {
                return invalid(&place, "a step takes only the values of earlier steps".into());
            }
            check_size(&place, &step.ty)?;
            match (&step.read, &step.kernel) {
                (Some(name), None) => {
                    let Some(array) = self.arrays.get(name) else { return invalid(&place, format!("there is no array '{name}'")) };
                    if array.dtype != step.ty.dtype || array.shape != step.ty.shape {
                        return invalid(&place, format!("its type is not that of array '{name}'"));
                    }
                    if array.role != ArrayRole::Input && !written.contains(name.as_str()) {
                        return invalid(&place, format!("array '{name}' is read before a stage has written it"));
                    }
                }
                (None, Some(kernel)) => {
                    let inputs: Vec<_> = step.inputs.iter().map(|&i| steps[i].ty.clone()).collect();
                    let node = Node { kernel, inputs: &inputs, output: &step.ty };
                    node.check().or_else(|e| invalid(&place, e.to_string()))?;
                    if let Some(stream) = &step.stream {
                        let lengths = node.contracted();
                        if !node.foldable() || stream.len() != lengths.len() || stream.iter().zip(lengths).any(|(s, n)| !s.cuts(n)) {
                            return invalid(&place, "its stream does not cut the contracted indices".into());
                        }
                        if volume(&stream.iter().map(AxisChunks::count).collect::<Vec<_>>()) > MAX_STREAM {
                            return invalid(&place, format!("its stream has more than {MAX_STREAM} pieces"));
                        }
                    }
                }
                _ => return invalid(&place, "it must have either 'read' or 'kernel'".into()),
            }
        }
        let counts = stage.task_counts();
        for o in &stage.outputs {
            let (Some(step), Some(array)) = (steps.get(o.step), self.arrays.get(&o.array)) else {
                return invalid(place, format!("output '{}' has no step or no array", o.array));
            };
            if array.role == ArrayRole::Input || array.dtype != step.ty.dtype || array.shape != step.ty.shape {
                return invalid(place, format!("output '{}' cannot hold the value of step {}", o.array, o.step));
            }
            o.tasks.check(&array.shape).or_else(|e| invalid(place, e.to_string()))?;
            let own = o.tasks.counts();
            if own[..] != counts[..own.len()] || counts[own.len()..].iter().any(|&n| n != 1) {
                return invalid(place, "the outputs do not have the same number of tasks on each axis".into());
            }
            // A task that wrote part of a chunk or of a shard would lose what another task wrote to the rest.
            for axis in 0..o.tasks.rank() {
                let (tasks, chunks) = (&o.tasks.0[axis], &array.grid.0[axis]);
                let aligned = match (tasks, chunks) {
                    (AxisChunks::Regular { size: t, len }, AxisChunks::Regular { size: c, .. }) => t % c == 0 || t >= len,
                    _ => {
                        let (mut end, len) = (0, tasks.len());
                        tasks.to_list().iter().all(|t| {
                            end += t;
                            end == len || chunks.bounds(chunks.find(end)).0 == end
                        })
                    }
                };
                if !aligned {
                    return invalid(place, format!("on axis {axis} the tasks of '{}' would write parts of chunks or shards", o.array));
                }
            }
        }
        Ok(())
    }
}

/// Refuses types that nothing can be computed with.
fn check_size(place: &str, ty: &ArrayType) -> Result<(), PlanError> {
    if ty.shape.len() > MAX_RANK {
        return invalid(place, format!("rank {} is over {MAX_RANK}", ty.shape.len()));
    }
    if ty.shape.iter().fold(ty.dtype.size(), |a, &n| a.saturating_mul(n.max(1))) > MAX_BYTES {
        return invalid(place, format!("an array of shape {:?} is too large", ty.shape));
    }
    Ok(())
}

fn invalid<T>(place: &str, problem: String) -> Result<T, PlanError> {
    Err(PlanError::Invalid { place: place.into(), problem })
}
