//! Plans are untrusted input: everything that evaluation relies on is checked here, once.

use crate::{ArrayRole, FORMAT, Plan, PlanError, Stage};
use chunkwise_kernels::Kernel;
use chunkwise_types::MAX_RANK;
use std::collections::HashSet;

const MAX_STEPS: usize = 100_000;

impl Plan {
    /// Refuses a plan that contradicts itself.
    pub fn validate(&self) -> Result<(), PlanError> {
        if self.format != FORMAT {
            return Err(PlanError::Version { found: self.format.clone(), wanted: FORMAT });
        }
        for (name, array) in &self.arrays {
            let place = format!("array '{name}'");
            if array.shape.len() > MAX_RANK {
                return invalid(&place, format!("rank {} is over {MAX_RANK}", array.shape.len()));
            }
            if array.shape.iter().try_fold(array.dtype.size(), |a, &n| a.checked_mul(n)).is_none_or(|n| n > 1 << 62) {
                return invalid(&place, "it is too large".into());
            }
            array.grid.check(&array.shape).or_else(|e| invalid(&place, e.to_string()))?;
            if array.inner_chunk.as_ref().is_some_and(|c| c.len() != array.shape.len() || c.contains(&0)) {
                return invalid(&place, "its inner chunk does not fit its shape".into());
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
                }
            }
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
            if step.inputs.iter().any(|&i| i >= k) || step.ty.shape.len() > MAX_RANK {
                return invalid(&place, "a step takes only the values of earlier steps, of rank up to 32".into());
            }
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
                    check_kernel(kernel, &inputs, &step.ty).or_else(|e| invalid(&place, e))?;
                    if let Some(stream) = &step.stream {
                        let node = chunkwise_kernels::Node { kernel, inputs: &inputs, output: &step.ty };
                        let lengths: Vec<u64> = stream.iter().map(chunkwise_types::AxisChunks::len).collect();
                        if !node.foldable() || node.contracted() != lengths {
                            return invalid(&place, "its stream does not cut the contracted indices".into());
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
                    (chunkwise_types::AxisChunks::Regular { size: t, len }, chunkwise_types::AxisChunks::Regular { size: c, .. }) => {
                        t % c == 0 || t >= len
                    }
                    _ => {
                        let mut end = 0;
                        let len = tasks.len();
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

/// Ranks, axes and shapes that the kernel's own code relies on.
fn check_kernel(kernel: &Kernel, inputs: &[chunkwise_kernels::ArrayType], out: &chunkwise_kernels::ArrayType) -> Result<(), String> {
    let need = |n: usize| if inputs.len() == n { Ok(()) } else { Err(format!("it needs {n} inputs and has {}", inputs.len())) };
    let rank = out.shape.len();
    let same = |a: &[u64], b: &[u64], what: &str| if a == b { Ok(()) } else { Err(format!("{what}: {a:?} is not {b:?}")) };
    match kernel {
        Kernel::Create { .. } => need(0),
        Kernel::Element { function } => {
            need(function.arity())?;
            inputs.iter().try_for_each(|t| same(&t.shape, &out.shape, "input shape"))
        }
        Kernel::Cast => {
            need(1)?;
            same(&inputs[0].shape, &out.shape, "input shape")
        }
        Kernel::View { axes } => {
            need(1)?;
            if axes.len() != rank {
                return Err("one entry for each output axis is needed".into());
            }
            let mut used = vec![false; inputs[0].shape.len()];
            for (i, axis) in axes.iter().enumerate() {
                if let chunkwise_kernels::ViewAxis::In(a) = axis {
                    match inputs[0].shape.get(*a) {
                        Some(&n) if !used[*a] && (n == out.shape[i] || n == 1) => used[*a] = true,
                        _ => return Err(format!("output axis {i} cannot come from input axis {a}")),
                    }
                }
            }
            if used.iter().zip(&inputs[0].shape).any(|(u, &n)| !u && n != 1) {
                return Err("a dropped axis must have length 1".into());
            }
            Ok(())
        }
        Kernel::Gather { axes, .. } => {
            need(1)?;
            if axes.len() != rank || inputs[0].shape.len() != rank {
                return Err("one map for each axis is needed".into());
            }
            for (i, map) in axes.iter().enumerate() {
                map.check(inputs[0].shape[i], out.shape[i]).map_err(|e| format!("axis {i}: {e}"))?;
            }
            Ok(())
        }
        Kernel::Concat { axis } => {
            let total: u64 = inputs.iter().map(|t| t.shape.get(*axis).copied().unwrap_or(0)).sum();
            let fits = inputs.iter().all(|t| {
                t.dtype == out.dtype
                    && t.shape.len() == rank
                    && t.shape.iter().zip(&out.shape).enumerate().all(|(i, (a, b))| i == *axis || a == b)
            });
            if *axis < rank && fits && total == out.shape[*axis] { Ok(()) } else { Err("the inputs do not make up the output".into()) }
        }
        Kernel::Reshape => {
            need(1)?;
            same(&[chunkwise_types::volume(&inputs[0].shape)], &[chunkwise_types::volume(&out.shape)], "elements")
        }
        Kernel::Reduce { axes, segments, .. } => {
            need(1)?;
            if axes.windows(2).any(|w| w[0] >= w[1]) || axes.iter().any(|&a| a >= inputs[0].shape.len()) {
                return Err("the axes must be ascending axes of the input".into());
            }
            match segments {
                Some(s) if s.len() != axes.len() || s.iter().zip(axes).any(|(s, &a)| s.len() != inputs[0].shape[a]) => {
                    Err("the segments do not cut the reduced axes".into())
                }
                _ => Ok(()),
            }
        }
        Kernel::Group { axis, labels, groups, .. } => {
            need(1)?;
            let n = inputs[0].shape.get(*axis).copied();
            let fits = n == Some(labels.len() as u64) && out.shape.get(*axis) == Some(groups);
            if fits && labels.iter().all(|&l| l < *groups as i64) { Ok(()) } else { Err("labels and groups do not fit the axis".into()) }
        }
        Kernel::Contract(_) => need(2),
        Kernel::Stencil(s) => {
            need(1)?;
            let grown: Vec<u64> = out.shape.iter().zip(&s.window).map(|(n, w)| n + w.saturating_sub(1)).collect();
            same(&inputs[0].shape, &grown, "input shape")
        }
    }
}

fn invalid<T>(place: &str, problem: String) -> Result<T, PlanError> {
    Err(PlanError::Invalid { place: place.into(), problem })
}
