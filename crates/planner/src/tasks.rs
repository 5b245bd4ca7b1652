//! Task regions: unions of stored chunks, as large as one of the tasks that run at once may be.

use crate::PlannerError;
use crate::cost::{amplification, reads};
use crate::stages::Draft;
use chunkwise_plan::{Stage, memory};
use chunkwise_types::{AxisChunks, ByteSize};

/// Bytes that a task should write at least, where its chunks are smaller than that.
const TASK_BYTES: u64 = 32 << 20;

pub(crate) fn run(draft: &mut Draft) -> Result<(), PlannerError> {
    for s in 0..draft.stages.len() {
        let mut stage = draft.stages[s].clone();
        fit(draft, &mut stage)?;
        draft.stages[s] = stage;
    }
    Ok(())
}

/// Chooses the task regions of a stage and projects its memory.
pub(crate) fn fit(draft: &mut Draft, stage: &mut Stage) -> Result<(), PlannerError> {
    let budget = draft.spec.allowed_mem.saturating_sub(draft.spec.reserved_mem);
    shrink_chunks(draft, stage, budget);
    grow(draft, stage);
    widen(draft, stage, budget);
    let need = memory::worst_need(&draft.arrays, stage);
    stage.projected_mem = need.total;
    stage.notes.push(format!(
        "memory: {} = inputs {} + accumulators {} + outputs {} + the larger of reading {} and tile {} + writing {}",
        ByteSize(need.total),
        ByteSize(need.leaves),
        ByteSize(need.accumulators),
        ByteSize(need.outputs),
        ByteSize(need.reading),
        ByteSize(need.tile),
        ByteSize(need.writing)
    ));
    if need.total > budget {
        let advice = if need.reading + need.leaves > need.outputs + need.writing {
            "store the inputs in smaller chunks"
        } else {
            "ask for smaller output chunks"
        };
        return Err(PlannerError::Memory {
            stage: stage.name.clone(),
            operations: stage.notes.first().cloned().unwrap_or_default(),
            need: need.total,
            reserved: draft.spec.reserved_mem,
            allowed: draft.spec.allowed_mem,
            advice: advice.into(),
        });
    }
    Ok(())
}

/// Halves the chunks that the user left to the planner, while the stage does not fit.
fn shrink_chunks(draft: &mut Draft, stage: &mut Stage, budget: u64) {
    if !stage.outputs.iter().all(|o| draft.free.contains(&o.array)) {
        return;
    }
    let mut need = memory::worst_need(&draft.arrays, stage).total;
    while need > budget {
        let Some(first) = stage.outputs.first() else { return };
        let chunk = first.tasks.max_shape();
        let Some(axis) = (0..chunk.len()).max_by_key(|&i| chunk[i]).filter(|&i| chunk[i] > 1) else { return };
        let before = (stage.clone(), draft.arrays.clone());
        for o in &mut stage.outputs {
            let Some(array) = draft.arrays.get_mut(&o.array) else { continue };
            if axis >= array.shape.len() {
                continue;
            }
            let size = o.tasks.0[axis].max().div_ceil(2).max(1);
            o.tasks.0[axis] = AxisChunks::regular(array.shape[axis], size);
            array.grid = o.tasks.clone();
            if let Some(e) = &mut array.encoding {
                e.chunks[axis] = size;
            }
        }
        let now = memory::worst_need(&draft.arrays, stage).total;
        if now >= need {
            (*stage, draft.arrays) = before;
            return;
        }
        need = now;
    }
}

/// Multiplies the task regions along one axis, for all outputs; `None` if they cannot grow there.
fn multiplied(stage: &Stage, axis: usize, times: u64) -> Option<Stage> {
    let mut out = stage.clone();
    for o in &mut out.outputs {
        match o.tasks.0.get_mut(axis) {
            Some(AxisChunks::Regular { len, size }) if *size < *len => *size = size.saturating_mul(times),
            _ => return None,
        }
    }
    Some(out)
}

fn region_bytes(stage: &Stage) -> u64 {
    stage
        .outputs
        .iter()
        .map(|o| chunkwise_types::volume(&o.tasks.max_shape()).saturating_mul(stage.program.steps[o.step].ty.dtype.size()))
        .max()
        .unwrap_or(0)
}

/// Groups small chunks into one task, the last axes first, inside the share of one of the tasks that run at once.
fn grow(draft: &Draft, stage: &mut Stage) {
    let target = draft.target();
    let goal = TASK_BYTES.min(target / 6);
    let rank = stage.task_counts().len();
    for axis in (0..rank).rev() {
        loop {
            // Leave enough tasks for all workers.
            if stage.tasks() < 4 * draft.spec.workers.max(1) || region_bytes(stage) * 2 > goal {
                return;
            }
            let Some(next) = multiplied(stage, axis, 2) else { break };
            if next.tasks() == stage.tasks() || memory::worst_need(&draft.arrays, &next).total > target {
                break;
            }
            *stage = next;
        }
    }
}

/// Grows the regions beyond one share, up to the whole budget, where chunks are read again and again.
fn widen(draft: &Draft, stage: &mut Stage, budget: u64) {
    if reads(&draft.arrays, stage).0 < 16 << 20 {
        return;
    }
    let mut now = amplification(&draft.arrays, stage);
    while now > 1.25 {
        let rank = stage.task_counts().len();
        let best = (0..rank)
            .filter_map(|axis| {
                let next = multiplied(stage, axis, 2)?;
                let a = amplification(&draft.arrays, &next);
                (a < now * 0.95 && memory::worst_need(&draft.arrays, &next).total <= budget).then_some((a, next))
            })
            .min_by(|a, b| a.0.total_cmp(&b.0));
        match best {
            Some((a, next)) => (now, *stage) = (a, next),
            None => return,
        }
    }
}
