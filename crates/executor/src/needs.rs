//! Which tasks of earlier stages a task needs.

use chunkwise_plan::demand::Demands;
use chunkwise_plan::schedule::Schedule;
use chunkwise_plan::{Plan, Stage};
use chunkwise_types::{ChunkGrid, ravel, unravel};
use std::collections::{HashMap, HashSet};

/// For each array, the stage that writes it, and the number of the output.
pub(crate) struct Producers<'a>(HashMap<&'a str, (usize, usize)>);

impl<'a> Producers<'a> {
    pub fn new(plan: &'a Plan) -> Producers<'a> {
        let outputs = plan.stages.iter().enumerate();
        Producers(
            outputs.flat_map(|(s, stage)| stage.outputs.iter().enumerate().map(move |(o, out)| (out.array.as_str(), (s, o)))).collect(),
        )
    }

    /// The stage that writes an array, if any.
    pub fn of(&self, array: &str) -> Option<usize> {
        self.0.get(array).map(|(stage, _)| *stage)
    }

    /// The first result of `look` for the tasks that this one needs, of the stages that are `open`. A task may be passed to it several
    /// times.
    pub fn find<T>(
        &self,
        plan: &Plan,
        stage: usize,
        task: u64,
        open: &dyn Fn(usize) -> bool,
        look: &mut dyn FnMut(usize, u64) -> Option<T>,
    ) -> Option<T> {
        let s = &plan.stages[stage];
        // Stages that read only inputs, or finished stages, do not depend on other tasks.
        if !s.reads().any(|a| self.of(a).is_some_and(open)) {
            return None;
        }
        passes(s, task, |demands| {
            s.program.steps.iter().zip(demands).find_map(|(step, regions)| {
                let &(p, o) = self.0.get(step.read.as_deref()?).filter(|(p, _)| open(*p))?;
                let producer = &plan.stages[p];
                let (grid, counts) = (&producer.outputs[o].tasks, producer.task_counts());
                regions.iter().find_map(|r| {
                    let touched = grid.touched(r);
                    (0..touched.volume()).find_map(|k| {
                        let mut index: Vec<u64> = unravel(k, &touched.shape).iter().zip(&touched.start).map(|(a, b)| a + b).collect();
                        index.resize(counts.len(), 0);
                        look(p, ravel(&index, &counts))
                    })
                })
            })
        })
    }
}

/// The first result of `look` for the demands of a task, pass by pass.
fn passes<T>(s: &Stage, task: u64, mut look: impl FnMut(&Demands) -> Option<T>) -> Option<T> {
    let schedule = Schedule::new(s, &s.task_regions(task));
    for phase in &schedule.phases {
        for window in phase.windows.iter() {
            if let Some(found) = look(&schedule.step_pass(&s.program, phase, &window).demands) {
                return Some(found);
            }
        }
    }
    look(&schedule.output_pass(&s.program).demands)
}

/// The first of some chunks of an array, stored in a grid, that a task reads.
pub(crate) fn reads_one<'c>(s: &Stage, task: u64, array: &str, grid: &ChunkGrid, chunks: &'c HashSet<Vec<u64>>) -> Option<&'c Vec<u64>> {
    passes(s, task, |demands| {
        let regions = s.program.steps.iter().zip(demands).filter(|(step, _)| step.read.as_deref() == Some(array)).flat_map(|(_, r)| r);
        regions.map(|r| grid.touched(r)).find_map(|touched| {
            // Whichever are fewer.
            if touched.volume() < chunks.len() as u64 {
                touched.indices().find_map(|index| chunks.get(&index))
            } else {
                chunks.iter().find(|c| c.iter().enumerate().all(|(i, &n)| touched.start[i] <= n && n < touched.end(i)))
            }
        })
    })
}
