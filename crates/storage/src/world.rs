//! What this program knows of the world: the time, and which process it is on which machine. If a decision depends on these, they come from
//! here and from nowhere else, so that a simulation can put another world in their place.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A world that is not the real one.
pub trait World: Send + Sync {
    /// Nanoseconds since 1970, by the clock of this machine, which may be wrong and may jump.
    fn now(&self) -> u64;
    /// Time that has passed, also while the machine slept.
    fn uptime(&self) -> Duration;
    /// Lets time pass.
    fn sleep(&self, time: Duration);
    /// The space in which process ids are unique.
    fn machine(&self) -> String;
    /// The id of this process.
    fn process(&self) -> u32;
    /// When a process of this machine was started, if it runs.
    fn started(&self, process: u32) -> Option<u64>;
    /// Does some work on another thread of the same process.
    fn spawn(&self, work: Box<dyn FnOnce() + Send>);
}

thread_local! {
    static SIMULATED: RefCell<Option<Arc<dyn World>>> = const { RefCell::new(None) };
}

/// Puts this thread into another world from now on, or with `None` back into the real one.
pub fn simulate(world: Option<Arc<dyn World>>) {
    SIMULATED.with(|w| *w.borrow_mut() = world);
}

fn other() -> Option<Arc<dyn World>> {
    SIMULATED.with(|w| w.borrow().clone())
}

/// True if this thread is in a simulated world, where things happen one after another.
pub(crate) fn is_simulated() -> bool {
    SIMULATED.with(|w| w.borrow().is_some())
}

pub(crate) fn nanoseconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
}

/// Nanoseconds since 1970.
pub fn now() -> u64 {
    other().map_or_else(|| nanoseconds(SystemTime::now()), |w| w.now())
}

/// A point in time. Unlike with an [`Instant`], time counts while the machine sleeps, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    /// The present moment.
    pub fn now() -> Moment {
        Moment(other().map_or_else(uptime, |w| w.uptime()))
    }

    /// The time that has passed since this moment.
    pub fn elapsed(self) -> Duration {
        Moment::now().0.saturating_sub(self.0)
    }

    /// An earlier moment.
    #[must_use]
    pub fn before(self, time: Duration) -> Moment {
        Moment(self.0.saturating_sub(time))
    }

    /// A later moment.
    #[must_use]
    pub fn after(self, time: Duration) -> Moment {
        Moment(self.0.saturating_add(time))
    }

    /// As a number, which threads can share.
    pub fn nanoseconds(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }

    /// From the result of [`Moment::nanoseconds`].
    pub fn from_nanoseconds(n: u64) -> Moment {
        Moment(Duration::from_nanos(n))
    }
}

#[cfg(target_os = "linux")]
fn uptime() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(u64::try_from(t.tv_sec).unwrap_or(0), u32::try_from(t.tv_nsec).unwrap_or(0)) + started()
}

#[cfg(not(target_os = "linux"))]
fn uptime() -> Duration {
    started()
}

/// Time counts from before the start of the machine, so that [`Moment::before`] can look back even just after the start.
fn started() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let since = if cfg!(target_os = "linux") { Duration::ZERO } else { START.elapsed() };
    Duration::from_secs(86_400) + since
}

/// Waits.
pub fn sleep(time: Duration) {
    match other() {
        Some(w) => w.sleep(time),
        None => std::thread::sleep(time),
    }
}

/// Work that is repeated from time to time, until this is dropped.
pub struct Repeated {
    over: Arc<AtomicBool>,
    thread: Option<Thread>,
}

/// Calls a function again and again on a thread of its own, the first time after `pause`, until it returns false.
///
/// # Errors
/// When no thread can be started.
pub fn repeat(pause: Duration, mut call: impl FnMut() -> bool + Send + 'static) -> std::io::Result<Repeated> {
    let over = Arc::new(AtomicBool::new(false));
    let told = over.clone();
    if let Some(w) = other() {
        // The new thread asks its own world for a pause.
        w.spawn(Box::new(move || {
            sleep(pause);
            while !told.load(Ordering::Relaxed) && call() {
                sleep(pause);
            }
        }));
        return Ok(Repeated { over, thread: None });
    }
    let work = move || loop {
        let from = Instant::now();
        while from.elapsed() < pause {
            std::thread::park_timeout(pause.saturating_sub(from.elapsed()));
            if told.load(Ordering::Relaxed) {
                return;
            }
        }
        if !call() {
            return;
        }
    };
    let thread = std::thread::Builder::new().name("repeated".into()).spawn(work)?;
    Ok(Repeated { over, thread: Some(thread.thread().clone()) })
}

impl Drop for Repeated {
    /// Does not wait for a call that is running.
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = &self.thread {
            thread.unpark();
        }
    }
}

/// The space in which process ids are unique: the name of this machine, its present boot, and the namespace of its process ids. On a
/// filesystem that many nodes share, or many containers whose processes all have number 1, an id alone says little.
pub fn machine() -> String {
    static OWN: OnceLock<String> = OnceLock::new();
    let own = || {
        OWN.get_or_init(|| {
            let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_string();
            let space = std::fs::read_link("/proc/self/ns/pid").map(|p| p.display().to_string()).unwrap_or_default();
            format!("{} {} {space}", read("/proc/sys/kernel/hostname"), read("/proc/sys/kernel/random/boot_id"))
        })
        .clone()
    };
    other().map_or_else(own, |w| w.machine())
}

/// The id of this process.
pub fn process() -> u32 {
    other().map_or_else(std::process::id, |w| w.process())
}

/// When a process of this machine was started, in ticks of the kernel, because ids are used again. `None` if it does not run, or if it has
/// ended and its parent has not waited for it yet.
pub fn process_start(pid: u32) -> Option<u64> {
    if let Some(w) = other() {
        return w.started(pid);
    }
    // Field 22. The name, field 2, is in brackets and may contain anything.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    // A process that has ended does nothing any more, even if its parent has not waited for it yet.
    fields.next().filter(|state| !matches!(*state, "Z" | "X" | "x"))?;
    fields.nth(18)?.parse().ok()
}

/// The name of this machine, for messages.
pub(crate) fn in_words() -> String {
    match machine().split(' ').next() {
        None | Some("") => "this machine".into(),
        Some(name) => format!("the machine '{name}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_pass() {
        let moment = Moment::now();
        assert!(moment.before(Duration::from_secs(100)).elapsed() >= Duration::from_secs(100));
        std::thread::sleep(Duration::from_millis(2));
        assert!(moment.elapsed() >= Duration::from_millis(2));
        assert_eq!(Moment::from_nanoseconds(moment.nanoseconds()), moment);
    }
}
