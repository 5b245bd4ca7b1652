//! What of the allowed memory is kept for the program itself.

use crate::{Error, Session};
use chunkwise_executor::run_folder;
use chunkwise_plan::Plan;
use chunkwise_planner::Request;
use chunkwise_storage::Location;
use std::collections::BTreeSet;

/// Bytes of the allowed memory that are kept for the program at least: code, runtime, thread stacks, allocator slack.
pub const RESERVED: u64 = 64 << 20;

/// Sizes of programs are multiples of this. So a program that grows a little makes the same plans as before.
const STEP: u64 = 64 << 20;

/// What a first run adds to a program: code of the engine that is read in, and stacks of threads.
const ADDED: u64 = 16 << 20;

/// Bytes of memory that this program holds now, rounded up; [`RESERVED`] where the system does not say.
///
/// ```
/// assert!(chunkwise::program_memory() >= chunkwise::RESERVED);
/// ```
pub fn program_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    resident.map_or(RESERVED, |kib| kib.saturating_mul(1024).saturating_add(ADDED).next_multiple_of(STEP))
}

/// What of `allowed` bytes is kept for a program that holds `program` bytes: no more than half, since the rest of a larger one is data that the
/// user may need or not. More allowed memory never leaves less for tasks.
pub(crate) fn reserve(program: u64, allowed: u64) -> u64 {
    program.min(allowed / 2).max(RESERVED)
}

impl Session {
    /// Keeps so many bytes of the allowed memory for the program, up to a half, instead of [`RESERVED`]. If there is no plan beside them, no more
    /// than [`RESERVED`] is kept: what a program holds is not all needed.
    ///
    /// ```
    /// use chunkwise::{RESERVED, Session, program_memory};
    /// let session = Session::new(500_000_000, 2, "memory:work")?;
    /// assert_eq!(session.task_budget(), 500_000_000 - RESERVED);
    /// assert_eq!(session.beside(150_000_000).task_budget(), 350_000_000);
    /// # Ok::<(), chunkwise::Error>(())
    /// ```
    #[must_use]
    pub fn beside(mut self, program: u64) -> Session {
        self.program = program;
        self.spec.reserved_mem = reserve(program, self.spec.allowed_mem);
        self
    }

    /// Plans as [`Session::plan`]; but if the work directory has a run of these requests, with its plan, although the program that began it had
    /// another size.
    ///
    /// # Errors
    /// As [`Session::plan`], and when the work directory cannot be read.
    pub fn plan_to_resume(&self, requests: &[Request]) -> Result<Plan, Error> {
        let store = self.runtime().stores().open(&Location::parse(&self.spec.work_dir, None)?)?;
        let known = |plan: &Plan| store.get(&format!("{}/{}", plan.id(), run_folder::PLAN)).map(|found| found.is_some());
        let plan = self.plan(requests);
        if let Ok(plan) = &plan
            && known(plan)?
        {
            return Ok(plan.clone());
        }
        let others = store.list_dirs("")?.into_iter().map(|run| store.get(&format!("{run}/{}", run_folder::PLAN)));
        let others: BTreeSet<u64> = others.filter_map(|text| reserved_in(&text.ok()??)).collect();
        for reserved in others {
            if let Ok(plan) = self.clone().beside(reserved).plan(requests)
                && known(&plan)?
            {
                return Ok(plan);
            }
        }
        plan
    }
}

/// What a stored plan keeps for the program.
fn reserved_in(plan: &[u8]) -> Option<u64> {
    serde_json::from_slice::<serde_json::Value>(plan).ok()?["spec"]["reserved_mem"].as_u64()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Expr;

    #[test]
    fn more_allowed_memory_never_leaves_less() {
        for program in [0, RESERVED, 3 * RESERVED, 40 * RESERVED] {
            let left = |allowed: u64| allowed.saturating_sub(reserve(program, allowed));
            assert!((1..100).all(|k| left(k * RESERVED / 7) <= left((k + 1) * RESERVED / 7)), "{program}");
        }
    }

    #[test]
    fn a_program_is_kept_free_of_tasks_unless_that_leaves_no_plan() {
        let session = Session::new(400_000_000, 2, "memory:beside").unwrap().beside(3 * RESERVED);
        let plan = |bytes: u64| {
            let x = Expr::full(&[bytes / 8], 1.0);
            let mut request = session.request("memory:beside-out/x", &x.array().unwrap()).unwrap();
            request.chunks = Some(vec![bytes / 8]);
            session.plan(&[request]).unwrap().spec.reserved_mem
        };
        assert_eq!((plan(20_000_000), plan(150_000_000)), (2 * 100_000_000, RESERVED));
    }
}
