//! A worker that an engine has started with a share of a stage. It runs the share, leaves its reports in storage, and ends.

use super::pool::Pool;
use super::{Answer, Exit, REPORTS, Worker, WorkerError};
use chunkwise_storage::Store;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often reports are stored at least, so that a driver sees progress and a killed worker loses little.
const EVERY: Duration = Duration::from_secs(2);
/// The largest number of reports in one object.
const MAX_REPORTS: usize = 1000;
const TICK: Duration = Duration::from_millis(100);

/// A share of the tasks of a stage.
#[derive(Debug, Clone)]
pub struct Share {
    /// Index of the stage.
    pub stage: usize,
    /// The tasks; `None` for all of them.
    pub tasks: Option<Vec<Range<u64>>>,
    /// The part of them to run, and the number of parts.
    pub part: Option<(u64, u64)>,
    /// The name of this worker in its reports, if the engine has one.
    pub name: Option<String>,
    /// A folder of its own for its reports, below `reports`.
    pub folder: Option<String>,
    /// The number of tasks at once, if it differs from the worker's.
    pub threads: Option<usize>,
    /// How long one attempt may take.
    pub timeout: Option<Duration>,
    /// When everything must be over. Tasks that would not end before that are handed back.
    pub until: Option<Instant>,
}

/// The result of a share.
#[derive(Debug)]
pub struct Shared {
    /// The worst end of a task.
    pub exit: Exit,
    /// The objects, below the run's folder, that hold the reports.
    pub stored: Vec<String>,
    /// A task hangs. It keeps its thread and its memory.
    pub hangs: bool,
}

/// Task numbers as `0..10,12,20..30`; ends are not included.
///
/// ```
/// use chunkwise_executor::worker::{parse_ranges, ranges_text};
/// assert_eq!(parse_ranges("0..10,12")?, [0..10, 12..13]);
/// assert_eq!(ranges_text(&[0, 1, 2, 7]), "0..3,7..8");
/// # Ok::<(), String>(())
/// ```
pub fn parse_ranges(text: &str) -> Result<Vec<Range<u64>>, String> {
    let number = |t: &str| t.trim().parse::<u64>().map_err(|_| format!("'{t}' is no task number; write tasks as 0..10,12"));
    text.split(',')
        .map(|part| {
            let range = match part.split_once("..") {
                Some((a, b)) => number(a)?..number(b)?,
                None => number(part).and_then(|n| Ok(n..n.checked_add(1).ok_or("too large")?))?,
            };
            if range.start < range.end { Ok(range) } else { Err(format!("'{part}' is an empty range of tasks")) }
        })
        .collect()
}

/// Prints ascending task numbers in the form that [`parse_ranges`] reads.
pub fn ranges_text(tasks: &[u64]) -> String {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for &t in tasks {
        match ranges.last_mut() {
            Some(r) if r.end == t => r.end = t + 1,
            _ => ranges.push(t..t + 1),
        }
    }
    ranges.iter().map(|r| format!("{}..{}", r.start, r.end)).collect::<Vec<_>>().join(",")
}

/// Cuts some ranges into `size` contiguous parts of nearly the same length, and returns part `index`.
pub(crate) fn part_of(ranges: Vec<Range<u64>>, index: u64, size: u64) -> impl Iterator<Item = u64> {
    let total = ranges.iter().map(|r| r.end - r.start).fold(0, u64::saturating_add);
    let cut = |i: u64| (u128::from(total) * u128::from(i) / u128::from(size.max(1))) as u64;
    let (from, to) = (cut(index), cut(index + 1));
    ranges.into_iter().flatten().skip(from as usize).take((to - from) as usize)
}

/// The variables in which engines give a container its number in an array.
const INDEX: [&str; 2] = ["AWS_BATCH_JOB_ARRAY_INDEX", "JOB_COMPLETION_INDEX"];

/// The number of this process in an array: the given one, or the one in the environment.
///
/// # Errors
/// When there is neither, or the one in the environment is not a number.
pub fn array_index(given: Option<u64>) -> Result<u64, WorkerError> {
    if let Some(index) = given {
        return Ok(index);
    }
    let found = INDEX.iter().find_map(|name| Some((name, std::env::var(name).ok()?)));
    let (name, text) = found
        .ok_or_else(|| WorkerError::Usage(format!("--array-size needs --array-index, or {} in the environment", INDEX.join(" or "))))?;
    text.parse().map_err(|_| WorkerError::Usage(format!("{name}={text} is not the number of a part")))
}

/// The reports of this worker, in objects of its own.
struct Reports<'a> {
    store: &'a Store,
    folder: String,
    name: String,
    stored: Vec<String>,
    lines: String,
    held: usize,
    last: Instant,
}

impl Reports<'_> {
    fn add(&mut self, answers: Vec<Answer>) -> Result<(), WorkerError> {
        for answer in answers {
            if let Ok(line) = serde_json::to_string(&answer) {
                self.lines.push_str(&line);
                self.lines.push('\n');
                self.held += 1;
            }
        }
        if self.held >= MAX_REPORTS || (self.held > 0 && self.last.elapsed() >= EVERY) { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), WorkerError> {
        self.last = Instant::now();
        if self.held > 0 {
            let key = format!("{REPORTS}/{}{}-{:06}.jsonl", self.folder, self.name, self.stored.len());
            self.store.put(&key, std::mem::take(&mut self.lines).into_bytes())?;
            self.held = 0;
            self.stored.push(key);
        }
        Ok(())
    }
}

/// Decides when no more tasks of a share may be started.
struct Clock {
    until: Option<Instant>,
    /// The duration of the longest task of the share so far.
    longest: Duration,
}

impl Clock {
    /// True if a task that starts now would probably not end in time.
    fn too_late(&self) -> bool {
        self.until.is_some_and(|t| Instant::now() + self.longest.mul_f64(1.25) > t)
    }

    /// True if everything must stop.
    fn over(&self) -> bool {
        self.until.is_some_and(|t| Instant::now() >= t)
    }
}

/// Runs a share of a stage. The inputs of the stage must be done. `tell` sees every answer that goes to the reports.
///
/// # Errors
/// When there is no such share, or reports cannot be stored.
pub fn run_share(worker: &Worker, share: &Share, cancel: &AtomicBool, tell: &mut dyn FnMut(&Answer)) -> Result<Shared, WorkerError> {
    let Some(stage) = worker.context.plan.stages.get(share.stage) else {
        let n = worker.context.plan.stages.len();
        return Err(WorkerError::Usage(format!("the plan has {n} stages, and so no stage {}", share.stage)));
    };
    let ranges = share.tasks.clone().unwrap_or_else(|| std::iter::once(0..stage.tasks()).collect());
    if let Some(r) = ranges.iter().find(|r| r.end > stage.tasks()) {
        return Err(WorkerError::Usage(format!("stage {} has {} tasks, and so no task {}", share.stage, stage.tasks(), r.end - 1)));
    }
    let (index, size) = share.part.unwrap_or((0, 1));
    if index >= size {
        return Err(WorkerError::Usage(format!("there is no part {index} of {size}")));
    }
    let store = worker.context.stores().open(&worker.context.run_dir)?;
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    let own = format!("{}{}-{time:x}", share.name.as_ref().map(|n| format!("{n}-")).unwrap_or_default(), std::process::id());
    let name: String = own.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect();
    let folder = share.folder.as_ref().map(|f| format!("{f}/")).unwrap_or_default();
    let mut reports = Reports { store: &store, folder, name, stored: Vec::new(), lines: String::new(), held: 0, last: Instant::now() };
    reports.add(vec![Answer::hello(&worker.id)])?;
    let threads = share.threads.unwrap_or(worker.threads).max(1);
    let mut pool = Pool::new(worker, threads, share.timeout);
    let mut clock = Clock { until: share.until, longest: Duration::ZERO };
    // Only a few of them are in the pool at a time, so that ten million tasks take no memory.
    let mut rest = part_of(ranges, index, size);
    let mut worst = Exit::Done;
    let mut note = |answers: Vec<Answer>, reports: &mut Reports<'_>, longest: &mut Duration| {
        for a in &answers {
            match a {
                Answer::Failed { class, .. } => worst = worst.max(Exit::of(*class)),
                Answer::Returned { .. } => worst = worst.max(Exit::Stopped),
                Answer::Done { report, .. } => *longest = Duration::try_from_secs_f64(report.seconds).unwrap_or_default().max(*longest),
                _ => {}
            }
            tell(a);
        }
        reports.add(answers)
    };
    loop {
        let (over, late) = (cancel.load(Ordering::Relaxed) || clock.over(), clock.too_late());
        if over || late {
            let back = rest.by_ref().map(|task| Answer::Returned { attempt: task, stage: share.stage, task }).collect();
            note(if over { pool.cancel() } else { pool.hand_back() }, &mut reports, &mut clock.longest)?;
            note(back, &mut reports, &mut clock.longest)?;
        }
        if over {
            pool.wind_up(|answers| note(answers, &mut reports, &mut clock.longest))?;
            break;
        }
        let wanted = (2 * threads).saturating_sub(pool.waiting());
        rest.by_ref().take(wanted).for_each(|task| pool.push(task, share.stage, task, Vec::new()));
        if pool.idle() {
            break;
        }
        note(pool.step(TICK)?, &mut reports, &mut clock.longest)?;
    }
    reports.flush()?;
    let (stored, hangs) = (reports.stored, pool.hangs());
    if hangs {
        // A hanging thread is not waited for.
        std::mem::forget(pool);
    }
    Ok(Shared { exit: worst, stored, hangs })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_the_whole() {
        let ranges = parse_ranges("0..5,7,10..17").unwrap();
        let all: Vec<u64> = ranges.iter().flat_map(Clone::clone).collect();
        for size in 1..20 {
            let parts: Vec<Vec<u64>> = (0..size).map(|i| part_of(ranges.clone(), i, size).collect()).collect();
            assert_eq!(parts.concat(), all, "{size}");
            let (most, least) = (parts.iter().map(Vec::len).max(), parts.iter().map(Vec::len).min());
            assert!(most.unwrap() - least.unwrap() <= 1);
        }
        assert_eq!(parse_ranges(&ranges_text(&all)).unwrap(), ranges);
    }

    #[test]
    fn more_tasks_than_can_be_counted() {
        let all = || parse_ranges("0..18446744073709551615,0..18446744073709551615").unwrap();
        assert_eq!(part_of(all(), 0, 2).next(), Some(0));
    }

    #[test]
    fn not_ranges() {
        for text in ["", "a", "3..1", "1..", "1,,2", "-1", "99999999999999999999", "18446744073709551615"] {
            assert!(parse_ranges(text).is_err(), "{text}");
        }
    }
}
