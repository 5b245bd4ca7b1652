//! Which tasks of earlier stages a task needs.

use chunkwise_plan::Plan;
use chunkwise_plan::demand::Demands;
use chunkwise_plan::schedule::Schedule;
use chunkwise_types::{ravel, unravel};
use std::collections::HashMap;

/// By array, the stage that writes it, and as which of its outputs.
pub(crate) struct Producers<'a>(HashMap<&'a str, (usize, usize)>);

impl<'a> Producers<'a> {
    pub fn new(plan: &'a Plan) -> Producers<'a> {
        let outputs = plan.stages.iter().enumerate();
        Producers(
            outputs.flat_map(|(s, stage)| stage.outputs.iter().enumerate().map(move |(o, out)| (out.array.as_str(), (s, o)))).collect(),
        )
    }

    /// The stage that writes an array, if one does.
    pub fn of(&self, array: &str) -> Option<usize> {
        self.0.get(array).map(|(stage, _)| *stage)
    }

    /// The first thing that `look` finds in a task that this one needs, of the stages that are `open`. A task may be shown several times.
    pub fn find<T>(
        &self,
        plan: &Plan,
        stage: usize,
        task: u64,
        open: &dyn Fn(usize) -> bool,
        look: &mut dyn FnMut(usize, u64) -> Option<T>,
    ) -> Option<T> {
        let s = &plan.stages[stage];
        // Stages that read only inputs, or finished stages, need no look at the regions.
        if !s.reads().any(|a| self.of(a).is_some_and(open)) {
            return None;
        }
        let schedule = Schedule::new(s, &s.task_regions(task));
        let mut among = |demands: &Demands| {
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
        };
        for phase in &schedule.phases {
            for window in phase.windows.iter() {
                if let Some(found) = among(&schedule.step_pass(&s.program, phase, &window).demands) {
                    return Some(found);
                }
            }
        }
        among(&schedule.output_pass(&s.program).demands)
    }
}
