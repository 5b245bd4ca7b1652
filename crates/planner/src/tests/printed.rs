//! A draft as a few lines of text: what a pass changes is what changes in them.

use crate::stages::Draft;
use chunkwise_plan::{ArrayRole, PlanArray, Stage, Step};
use chunkwise_types::{AxisChunks, ChunkGrid};
use std::fmt::Write;

/// What is stored of the graph, in which tasks.
pub(super) fn roots(draft: &Draft<'_>) -> String {
    draft.roots.iter().fold(String::new(), |out, root| out + &format!("{} in {} tasks\n", root.array, counts(&root.tasks)))
}

/// The stages, and the arrays that they write.
pub(super) fn stages(draft: &Draft<'_>) -> String {
    let mut out = String::new();
    for stage in &draft.stages {
        write_stage(&mut out, stage);
    }
    for (name, array) in draft.arrays.iter().filter(|(_, array)| array.role != ArrayRole::Input) {
        writeln!(out, "{name}: {}", stored(array)).unwrap();
    }
    out
}

/// The projected costs of the stages.
pub(super) fn costs(draft: &Draft<'_>) -> String {
    draft.stages.iter().fold(String::new(), |out, stage| {
        let c = &stage.cost;
        out + &format!("{}: read {} in {}, write {} in {}\n", stage.name, c.bytes_read, c.gets, c.bytes_written, c.puts)
    })
}

/// The names of the stages.
pub(super) fn names(draft: &Draft<'_>) -> String {
    draft.stages.iter().fold(String::new(), |out, stage| out + &stage.name + "\n")
}

fn write_stage(out: &mut String, stage: &Stage) {
    writeln!(out, "stage {:?} {:?}, {} tasks", stage.name, stage.kind, stage.tasks()).unwrap();
    for (k, step) in stage.program.steps.iter().enumerate() {
        writeln!(out, "  {k} {} {:?} = {}", step.ty.dtype, step.ty.shape, value(step)).unwrap();
    }
    for o in &stage.outputs {
        writeln!(out, "  {} -> {}, tasks {}", o.step, o.array, o.tasks).unwrap();
    }
}

fn value(step: &Step) -> String {
    let Some(kernel) = &step.kernel else { return format!("read {}", step.read.as_deref().unwrap_or("nothing")) };
    let mut out = serde_json::to_string(kernel).unwrap().replace('"', "");
    if !step.inputs.is_empty() {
        write!(out, " of {:?}", step.inputs).unwrap();
    }
    if let Some(stream) = &step.stream {
        let cuts: Vec<String> = stream.iter().map(cut).collect();
        write!(out, ", in steps of {}", cuts.join(" x ")).unwrap();
    }
    out
}

fn cut(chunks: &AxisChunks) -> String {
    ChunkGrid(vec![chunks.clone()]).to_string()
}

fn counts(grid: &ChunkGrid) -> String {
    let counts: Vec<String> = grid.counts().iter().map(u64::to_string).collect();
    if counts.is_empty() { "1".into() } else { counts.join(" x ") }
}

fn stored(array: &PlanArray) -> String {
    let objects = format!("{:?} {} {:?} in {}", array.role, array.dtype, array.shape, array.grid).to_lowercase();
    array.inner_chunk.as_ref().map_or(objects.clone(), |inner| format!("{objects}, pieces {inner:?}"))
}
