//! Threads of a simulated process that run tasks, for a driver that runs in the same process.

use super::world::{Here, SECOND};
use crate::executors::{Assignment, Executor, Update};
use crate::log::Reports;
use crate::{Fence, RunError};
use chunkwise_plan::{Requests, TaskReport, WrittenChunk};
use chunkwise_storage::World as _;
use chunkwise_task::{TaskContext, Watch, run_task};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// The longest duration of a task.
const LONGEST: u64 = 8 * SECOND;
/// How often the driver checks its tasks.
const LOOK: u64 = SECOND / 2;

#[derive(Default)]
struct Shared {
    updates: Mutex<Vec<Update>>,
    have: Mutex<Reports>,
    fence: OnceLock<Fence>,
    stop: AtomicBool,
}

/// An executor of a few threads, each of which pretends to compute for a while.
pub struct Crew {
    ctx: Arc<TaskContext>,
    here: Here,
    shared: Arc<Shared>,
    stops: HashMap<u64, Arc<AtomicBool>>,
    slots: usize,
}

struct Watcher {
    here: Here,
    shared: Arc<Shared>,
    stop: Arc<AtomicBool>,
}

impl Watch for Watcher {
    fn cancelled(&self) -> bool {
        let stopped = self.stop.load(Ordering::Relaxed) || self.shared.stop.load(Ordering::Relaxed) || !self.here.alive();
        stopped || self.shared.fence.get().is_some_and(Fence::passed)
    }

    fn have(&self, array: &str, chunk: &[u64]) -> Option<WrittenChunk> {
        self.shared.have.lock().unwrap().get(&(array.to_string(), chunk.to_vec())).cloned()
    }

    fn wrote(&self, stage: usize, task: u64, written: Vec<WrittenChunk>) {
        let report = TaskReport { stage, task, written, bytes_read: 0, requests: Requests::default(), seconds: 0.0, projected_mem: 0 };
        self.shared.updates.lock().unwrap().push(Update::Wrote(report));
    }
}

impl Crew {
    pub fn new(ctx: Arc<TaskContext>, here: Here, slots: usize) -> Crew {
        Crew { ctx, here, shared: Arc::default(), stops: HashMap::new(), slots }
    }
}

impl Executor for Crew {
    fn name(&self) -> &'static str {
        "threads"
    }

    fn room(&self) -> usize {
        self.slots.saturating_sub(self.stops.len())
    }

    fn separate(&self) -> bool {
        false
    }

    fn guard(&mut self, fence: Fence) {
        let _ = self.shared.fence.set(fence);
    }

    fn submit(&mut self, work: Vec<Assignment>) -> Result<(), RunError> {
        for Assignment { attempt, stage, task, have, .. } in work {
            self.shared.have.lock().unwrap().extend(have.into_iter().map(|w| ((w.array.clone(), w.chunk.clone()), w)));
            let stop = Arc::new(AtomicBool::new(false));
            self.stops.insert(attempt, stop.clone());
            let (ctx, here, shared) = (self.ctx.clone(), self.here.clone(), self.shared.clone());
            let work = move || {
                let Some(own) = super::world::here() else { return };
                let pause = |most| {
                    let time = own.world.state().some_time(most);
                    own.wait(time);
                };
                pause(LONGEST);
                let watcher = Watcher { here: own.clone(), shared: shared.clone(), stop };
                let result = run_task(&ctx, stage, task, &watcher);
                here.tell(|| {
                    format!("task {task} of stage {stage}: {}", result.as_ref().map_or_else(|e| e.to_string(), |_| "done".into()))
                });
                pause(LONGEST / 4);
                shared.updates.lock().unwrap().push(Update::Ended { attempt, result });
            };
            self.here.spawn(Box::new(work));
        }
        Ok(())
    }

    fn wait(&mut self, _: Duration) -> Result<Vec<Update>, RunError> {
        if self.shared.updates.lock().unwrap().is_empty() {
            self.here.wait(LOOK);
        }
        if !self.here.alive() {
            return Err(RunError::Executor("this process is dead".into()));
        }
        let updates = std::mem::take(&mut *self.shared.updates.lock().unwrap());
        for update in &updates {
            if let Update::Ended { attempt, .. } = update {
                self.stops.remove(attempt);
            }
        }
        Ok(updates)
    }

    fn stop(&mut self, attempt: u64, _: bool) {
        if let Some(stop) = self.stops.get(&attempt) {
            stop.store(true, Ordering::Relaxed);
        }
    }

    fn cancel(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.cancel();
    }
}
