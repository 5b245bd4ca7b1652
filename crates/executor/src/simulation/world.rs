//! Virtual time, machines, processes and their threads. One thread runs at a time.
//!
//! Whatever a thread waits for (an answer, a pause) is an event in a queue. The waiting thread takes events from the queue until one wakes
//! a thread, and hands control to that thread. All randomness comes from one generator. So a seed always gives the same course of events,
//! whichever thread of the real machine is faster.

use chunkwise_storage::World as Seen;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::Thread;
use std::time::Duration;

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1000 * MS;
/// When worlds begin, in nanoseconds since 1970.
pub const BEGIN: u64 = 1_700_000_000 * SECOND;
/// The value of `turn` when no simulated thread runs and the threads of the test wait.
const NOBODY: usize = usize::MAX;

enum Event {
    Wake(usize),
    /// Something happens at the store or to a process. The number is the process that has sent it.
    Happen(usize, Box<dyn FnOnce(&mut State) + Send>),
}

struct Machine {
    name: String,
    /// The error of its clock, in nanoseconds.
    skew: i64,
}

pub struct Process {
    machine: usize,
    pid: u32,
    started: u64,
    pub alive: bool,
    /// It is stopped until this time.
    paused: u64,
    /// How often it has been stopped so far.
    pub pauses: u64,
    /// What happens to it, by the number of the request.
    fate: BTreeMap<u64, Fate>,
    requests: u64,
}

/// What happens to a process during one of its requests.
#[derive(Debug, Clone, Copy)]
pub enum Fate {
    /// It is killed.
    Killed,
    /// It is stopped for this long.
    Stopped(u64),
}

pub struct State {
    pub random: fastrand::Rng,
    /// Nanoseconds since 1970.
    pub time: u64,
    next: u64,
    queue: BTreeMap<(u64, u64), Event>,
    machines: Vec<Machine>,
    pub processes: Vec<Process>,
    /// The process of each thread.
    threads: Vec<(usize, Option<Thread>)>,
    /// The number of threads that have not ended.
    running: usize,
    story: Option<Vec<String>>,
    /// How many requests of a hundred fail.
    pub faults: f64,
    pub requests: u64,
}

impl State {
    fn put(&mut self, time: u64, event: Event) {
        self.next += 1;
        self.queue.insert((time.max(self.time), self.next), event);
    }

    /// Schedules something for later.
    pub fn happen(&mut self, time: u64, process: usize, what: impl FnOnce(&mut State) + Send + 'static) {
        self.put(time, Event::Happen(process, Box::new(what)));
    }

    /// Adds to the record of events, if one is wanted.
    pub fn tell(&mut self, text: impl FnOnce() -> String) {
        let at = (self.time - BEGIN) as f64 / SECOND as f64;
        if let Some(story) = &mut self.story {
            story.push(format!("{at:9.3} {}", text()));
        }
    }

    /// A random time up to `most`, usually short.
    pub fn some_time(&mut self, most: u64) -> u64 {
        let part = self.random.f64();
        (part * part * part * most as f64) as u64
    }

    pub fn chance(&mut self, part: f64) -> bool {
        self.random.f64() < part
    }

    /// Gives a starting process the smallest number that no other process of its machine has. So the number of an ended process is used
    /// again.
    fn number(&mut self, process: usize) {
        let machine = self.processes[process].machine;
        let taken = |pid: u32| self.processes.iter().any(|p| p.machine == machine && p.alive && p.pid == pid);
        let pid = (1..).find(|pid| !taken(*pid)).unwrap_or(0);
        self.processes[process].pid = pid;
    }

    /// Ends a process. Its requests that have not arrived yet arrive now or never.
    pub fn kill(&mut self, process: usize) {
        if !self.processes[process].alive {
            return;
        }
        self.processes[process].alive = false;
        self.tell(|| format!("process {process} is killed"));
        let sent: Vec<_> = self.queue.iter().filter(|(_, e)| matches!(e, Event::Happen(p, _) if *p == process)).map(|(k, _)| *k).collect();
        for key in sent {
            if let Some(Event::Happen(_, what)) = self.queue.remove(&key)
                && self.random.bool()
            {
                what(self);
            }
        }
    }

    /// Determines what happens to a process at one of its requests.
    pub fn doom(&mut self, process: usize, request: u64, fate: Fate) {
        self.processes[process].fate.insert(request, fate);
    }

    /// A process makes a request that arrives at a time. Something may happen to it meanwhile.
    pub fn request(&mut self, process: usize, arrives: u64) {
        self.requests += 1;
        let p = &mut self.processes[process];
        p.requests += 1;
        let Some(fate) = p.fate.remove(&p.requests) else { return };
        // Just before the request arrives, or just after.
        let time = if self.chance(0.5) { arrives.saturating_sub(1) } else { arrives + 1 };
        self.happen(time, usize::MAX, move |s| match fate {
            Fate::Killed => s.kill(process),
            Fate::Stopped(long) => s.pause(process, s.time + long),
        });
    }

    /// Stops a process until a time.
    pub fn pause(&mut self, process: usize, until: u64) {
        let p = &mut self.processes[process];
        p.paused = p.paused.max(until);
        p.pauses += 1;
        let long = (until - self.time) / SECOND;
        self.tell(|| format!("process {process} is stopped for {long} s"));
    }

    pub fn jump(&mut self, machine: usize, by: i64) {
        self.machines[machine].skew += by;
        self.tell(|| format!("the clock of machine {machine} jumps by {} s", by / SECOND as i64));
    }
}

pub struct World {
    state: Mutex<State>,
    /// The running thread.
    turn: AtomicUsize,
    owner: Thread,
}

/// A thread of a world.
#[derive(Clone)]
pub struct Here {
    pub world: Arc<World>,
    pub thread: usize,
    pub process: usize,
}

thread_local! {
    static HERE: RefCell<Option<Here>> = const { RefCell::new(None) };
}

/// The world that this thread is in. The test's own thread is in none.
pub fn here() -> Option<Here> {
    HERE.with(|h| h.borrow().clone())
}

impl World {
    pub fn new(seed: u64, skews: &[i64], told: bool) -> Arc<World> {
        let machines = skews.iter().enumerate().map(|(k, &skew)| Machine { name: format!("machine-{k}"), skew }).collect();
        let state = State {
            random: fastrand::Rng::with_seed(seed),
            time: BEGIN,
            next: 0,
            queue: BTreeMap::new(),
            machines,
            processes: Vec::new(),
            threads: Vec::new(),
            running: 0,
            story: told.then(Vec::new),
            faults: 0.0,
            requests: 0,
        };
        Arc::new(World { state: Mutex::new(state), turn: AtomicUsize::new(NOBODY), owner: std::thread::current() })
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub fn story(&self) -> Vec<String> {
        self.state().story.clone().unwrap_or_default()
    }

    /// Starts a process on a machine at a time, with work to do.
    pub fn start(self: &Arc<World>, machine: usize, time: u64, work: impl FnOnce() + Send + 'static) -> usize {
        let mut state = self.state();
        let process = state.processes.len();
        state.processes.push(Process {
            machine,
            pid: 0,
            started: time,
            alive: true,
            paused: 0,
            pauses: 0,
            fate: BTreeMap::new(),
            requests: 0,
        });
        drop(state);
        let own = self.clone();
        self.thread(process, time, move || {
            own.state().number(process);
            work();
            // A process ends with its first thread.
            own.state().kill(process);
        });
        process
    }

    fn thread(self: &Arc<World>, process: usize, time: u64, work: impl FnOnce() + Send + 'static) {
        let thread = {
            let mut state = self.state();
            state.threads.push((process, None));
            state.running += 1;
            state.threads.len() - 1
        };
        let here = Here { world: self.clone(), thread, process };
        let spawned = std::thread::Builder::new().stack_size(1 << 20).spawn(move || {
            HERE.with(|h| *h.borrow_mut() = Some(here.clone()));
            chunkwise_storage::simulate(Some(Arc::new(here.clone())));
            here.wait_for_turn();
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            chunkwise_storage::simulate(None);
            let mut state = here.world.state();
            state.running -= 1;
            if done.is_err() {
                state.tell(|| format!("a thread of process {process} panics"));
            }
            here.world.hand_on(state, None);
            HERE.with(|h| *h.borrow_mut() = None);
        });
        let handle = spawned.expect("a thread");
        let mut state = self.state();
        state.threads[thread].1 = Some(handle.thread().clone());
        state.put(time, Event::Wake(thread));
    }

    /// Processes events until all threads have ended.
    pub fn run(&self) {
        self.hand_on(self.state(), None);
        while self.state().running > 0 {
            std::thread::park();
        }
    }

    /// Takes events until one wakes a thread. If that is another thread, waits for this thread's turn.
    fn hand_on(&self, mut state: MutexGuard<'_, State>, me: Option<usize>) {
        loop {
            let Some(((time, _), event)) = state.queue.pop_first() else {
                self.turn.store(NOBODY, Ordering::Release);
                assert_eq!(state.running, 0, "threads wait for what does not happen");
                drop(state);
                self.owner.unpark();
                return;
            };
            state.time = state.time.max(time);
            match event {
                Event::Happen(_, what) => what(&mut state),
                Event::Wake(thread) => {
                    let process = &state.processes[state.threads[thread].0];
                    if process.alive && process.paused > state.time {
                        let until = process.paused;
                        state.put(until, Event::Wake(thread));
                        continue;
                    }
                    if me == Some(thread) {
                        return;
                    }
                    self.turn.store(thread, Ordering::Release);
                    let other = state.threads[thread].1.clone();
                    drop(state);
                    if let Some(other) = other {
                        other.unpark();
                    }
                    return;
                }
            }
        }
    }
}

impl Here {
    fn wait_for_turn(&self) {
        while self.world.turn.load(Ordering::Acquire) != self.thread {
            std::thread::park();
        }
    }

    pub fn alive(&self) -> bool {
        self.world.state().processes[self.process].alive
    }

    /// Lets time pass. A process that was killed meanwhile goes on, but nothing that it does has any effect.
    pub fn wait_until(&self, time: u64) {
        let mut state = self.world.state();
        state.put(time, Event::Wake(self.thread));
        self.world.hand_on(state, Some(self.thread));
        self.wait_for_turn();
    }

    pub fn wait(&self, time: u64) {
        let until = self.world.state().time + time;
        self.wait_until(until);
    }

    pub fn tell(&self, text: impl FnOnce() -> String) {
        let mut state = self.world.state();
        if state.story.is_some() {
            let process = self.process;
            state.tell(|| format!("process {process}: {}", text()));
        }
    }
}

impl Seen for Here {
    fn now(&self) -> u64 {
        let state = self.world.state();
        let skew = state.machines[state.processes[self.process].machine].skew;
        state.time.saturating_add_signed(skew)
    }

    fn uptime(&self) -> Duration {
        let state = self.world.state();
        // For a dead process, all deadlines have passed.
        let dead = if state.processes[self.process].alive { 0 } else { 100_000 };
        Duration::from_nanos(state.time - BEGIN) + Duration::from_secs(86_400 + dead)
    }

    fn sleep(&self, time: Duration) {
        self.wait(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    fn machine(&self) -> String {
        let state = self.world.state();
        state.machines[state.processes[self.process].machine].name.clone()
    }

    fn process(&self) -> u32 {
        self.world.state().processes[self.process].pid
    }

    fn started(&self, pid: u32) -> Option<u64> {
        let state = self.world.state();
        let own = state.processes[self.process].machine;
        state.processes.iter().find(|p| p.machine == own && p.pid == pid && p.alive).map(|p| p.started)
    }

    fn spawn(&self, work: Box<dyn FnOnce() + Send>) {
        let time = self.world.state().time;
        self.world.thread(self.process, time, work);
    }
}
