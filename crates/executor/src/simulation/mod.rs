//! Deterministic simulation: drivers, locks and an object store in worlds where time, random numbers and faults come from a seed.
//!
//! The driver, the scheduler, the tasks and all code for notes, claims, groups and inputs are the real ones. Time, wrong clocks, machines,
//! and processes that are killed or stopped at any moment are simulated, and so is a store whose answers are late, lost or duplicated. In
//! each world some people run plans. Whenever a run reports success, its output must be right. In the end it must be possible to finish the
//! work.
//!
//! `CHUNKWISE_SEED=N` prints what happens in one world, `CHUNKWISE_SEEDS=N` tries that many worlds. A seed that fails is printed. Once it
//! is understood, it is added to `seeds.txt`, whose worlds are always tried.

mod crew;
mod store;
mod world;

use crate::{Driver, Event, RunError, RunOptions};
use chunkwise_plan::Plan;
use chunkwise_storage::{CodecChoice, Location, NewArray, Stores, new_meta, publish_array};
use chunkwise_task::TaskContext;
use chunkwise_types::DType;
use crew::Crew;
use serde_json::json;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use store::SimStore;
use world::{BEGIN, Fate, Here, SECOND, World};

/// The number of elements of the arrays, and their chunks: of inputs, intermediates and outputs.
const LENGTH: u64 = 12;
const CHUNKS: [u64; 3] = [3, 4, 2];
/// The number of worlds, unless the environment gives another.
const WORLDS: u64 = 10_000;
/// The largest number of the request at which a process is killed or stopped: as many as a run and a half makes.
const REQUESTS: u64 = 100;
/// The longest pause of a stopped process.
const LONGEST_PAUSE: u64 = 200 * SECOND;
/// How often a person tries again after another run was found at work.
const PERSISTENCE: usize = 4;
/// Attempts to finish the work when there are no more faults.
const ATTEMPTS: usize = 8;

/// What the people of a world do at the same time.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// They run one plan.
    OnePlan,
    /// They run one plan, and its input is replaced.
    Input,
    /// They run two plans that write one output.
    OnePlace,
    /// They run two plans whose outputs are in one group.
    OneGroup,
}

/// A world as the test sees it.
struct Stage {
    kind: Kind,
    bucket: String,
    stores: Stores,
    store: SimStore,
    world: Arc<World>,
    /// What went wrong.
    wrong: Mutex<Vec<String>>,
    /// The number of runs that succeeded, and that did not.
    ended: [AtomicU64; 2],
}

/// The elements of the input of a plan in one of its versions.
fn input(plan: usize, version: usize) -> Vec<i32> {
    (0..LENGTH as i32).map(|i| 1000 * (plan as i32 + 1) + 100 * version as i32 + i).collect()
}

fn bytes(elements: &[i32]) -> Vec<u8> {
    elements.iter().flat_map(|v| v.to_le_bytes()).collect()
}

impl Stage {
    fn new(name: &str, seed: u64, told: bool) -> Stage {
        let kind = [Kind::OnePlan, Kind::Input, Kind::OnePlace, Kind::OneGroup][(seed % 4) as usize];
        let mut random = fastrand::Rng::with_seed(seed ^ 0x5EED);
        const WRONG: i64 = 300 * SECOND as i64;
        let skews: Vec<i64> = (0..3).map(|_| if random.bool() { 0 } else { random.i64(-WRONG..WRONG) }).collect();
        let world = World::new(seed, &skews, told);
        let (bucket, store) = (format!("s3://{name}-{seed}"), SimStore::default());
        let stores = Stores::new();
        stores.mount(&Location::parse(&bucket, None).unwrap(), Arc::new(store.clone()));
        // If times are in whole seconds, writes in the second in which a run begins cannot be told from earlier ones.
        store.set_tick(if kind == Kind::Input { 1000 } else { SECOND });
        let stage = Stage { kind, bucket, stores, store, world, wrong: Mutex::default(), ended: Default::default() };
        for plan in 0..2 {
            publish_array(&stage.stores, &stage.at(&format!("in{plan}")), &stage.meta(CHUNKS[0])).unwrap();
            stage.write_input(plan, 0);
        }
        stage
    }

    fn at(&self, name: &str) -> Location {
        Location::parse(&format!("{}/{name}", self.bucket), None).unwrap()
    }

    fn meta(&self, chunk: u64) -> chunkwise_storage::ArrayMeta {
        new_meta(&NewArray::plain(DType::Int32, &[LENGTH], &[chunk], CodecChoice::None)).unwrap()
    }

    /// Replaces all chunks of an input at once.
    fn write_input(&self, plan: usize, version: usize) {
        let state = self.world.state();
        for (k, chunk) in input(plan, version).chunks(CHUNKS[0] as usize).enumerate() {
            self.store.write(&format!("in{plan}/c/{k}"), bytes(chunk), &state);
        }
    }

    /// The name of the output of a plan.
    fn output(&self, plan: usize) -> &'static str {
        if self.kind == Kind::OneGroup && plan == 1 { "out/b" } else { "out/a" }
    }

    /// A plan of two stages: a copy into other chunks, and a copy of that.
    fn plan(&self, plan: usize) -> Plan {
        let url = |name: &str| self.at(name).as_str().to_string();
        let grid = |size: u64| json!([{"regular": {"len": LENGTH, "size": size}}]);
        let ty = json!({"dtype": "int32", "shape": [LENGTH]});
        let encoding = |chunk: u64| json!({"chunks": [chunk], "codec": "none", "fill_value": {"int": 0}});
        let stage = |from: &str, to: &str, tasks: u64| {
            json!({"name": to, "kind": "rechunk", "projected_mem": 0, "program": {"steps": [{"read": from, "type": ty}]},
                   "outputs": [{"step": 0, "array": to, "tasks": grid(tasks)}],
                   "cost": {"bytes_read": 0, "bytes_written": 0, "gets": 0, "puts": 0}})
        };
        let array = |role: &str, url: String, chunk: u64| json!({"role": role, "url": url, "dtype": "int32", "shape": [LENGTH], "grid": grid(chunk), "access": "raw"});
        let mut x = array("input", url(&format!("in{plan}")), CHUNKS[0]);
        x["metadata"] = json!(self.meta(CHUNKS[0]));
        let mut t = array("intermediate", "t".into(), CHUNKS[1]);
        t["encoding"] = encoding(CHUNKS[1]);
        let mut y = array("output", url(self.output(plan)), CHUNKS[2]);
        y["encoding"] = encoding(CHUNKS[2]);
        serde_json::from_value(json!({
            "format": "chunkwise-plan/1",
            "spec": {"allowed_mem": 100_000_000, "reserved_mem": 1_000_000, "workers": 1, "work_dir": url("work")},
            "arrays": {"x": x, "t": t, "y": y},
            "stages": [stage("x", "t", CHUNKS[1]), stage("t", "y", 3 * CHUNKS[2])],
        }))
        .unwrap()
    }

    /// The present elements of an output; `None` if it cannot be opened, or is not whole.
    fn stored(&self, output: &str) -> Option<Vec<u8>> {
        self.store.look(&format!("{output}/zarr.json"))?;
        let chunks = (0..LENGTH / CHUNKS[2]).map(|k| self.store.look(&format!("{output}/c/{k}")));
        Some(chunks.collect::<Option<Vec<_>>>()?.concat())
    }

    fn accuse(&self, text: String) {
        self.world.state().tell(|| format!("WRONG: {text}"));
        self.wrong.lock().unwrap().push(text);
    }

    /// Checks that the output of a successful run is one that it may have made.
    fn check_result(&self, plan: usize, when: &str) {
        let output = self.output(plan);
        let versions = if self.kind == Kind::Input { 2 } else { 1 };
        match self.stored(output) {
            None => self.accuse(format!("{when}: '{output}' is not whole")),
            Some(found) if !(0..versions).any(|v| bytes(&input(plan, v)) == found) => {
                let found: Vec<i32> = found.chunks(4).map(|b| i32::from_le_bytes(b.try_into().unwrap_or_default())).collect();
                self.accuse(format!("{when}: '{output}' is {found:?}"));
            }
            Some(_) => {}
        }
    }

    /// Checks that every output that can be opened is whole and was made by one run.
    fn check_published(&self) {
        for output in ["out/a", "out/b"] {
            if self.store.look(&format!("{output}/zarr.json")).is_none() {
                continue;
            }
            let found = self.stored(output).unwrap_or_default();
            let whole = (0..2).any(|plan| (0..2).any(|version| bytes(&input(plan, version)) == found));
            if !whole {
                self.accuse(format!("'{output}' can be opened and is not whole"));
            }
        }
    }

    /// Checks that the group names the output of a plan in its metadata.
    fn check_group(&self, plan: usize, when: &str) {
        let name = self.output(plan).trim_start_matches("out/");
        let group = self.store.look("out/zarr.json").and_then(|d| serde_json::from_slice::<serde_json::Value>(&d).ok()).unwrap_or_default();
        if group["consolidated_metadata"]["metadata"].get(name).is_none() {
            self.accuse(format!("{when}: the group does not know '{name}'"));
        }
    }

    /// Runs a plan in this process.
    fn run(&self, here: &Here, plan: usize, resume: bool, overwrite: bool) -> Result<(), RunError> {
        here.tell(|| format!("runs plan {plan}{}{}", if resume { " --resume" } else { "" }, if overwrite { " --overwrite" } else { "" }));
        let pauses = || here.world.state().processes[here.process].pauses;
        let published = AtomicU64::new(u64::MAX);
        let mut events = |event: &Event| match event {
            Event::ArrayPublished { .. } => published.store(pauses(), Ordering::Relaxed),
            // A process that slept since then may see the results of another one.
            Event::RunFinished(_) if here.alive() && published.load(Ordering::Relaxed) == pauses() => {
                self.check_result(plan, "a run has ended");
                self.check_group(plan, "a run has ended");
            }
            _ => {}
        };
        let ctx = Arc::new(TaskContext::open(&self.stores, self.plan(plan)).map_err(crate::driver::unusable)?);
        let slots = 1 + here.world.state().random.usize(..3);
        let mut crew = Crew::new(ctx.clone(), here.clone(), slots);
        let options = RunOptions { resume, overwrite, backup_share: 0.0, ..RunOptions::default() };
        let ran = Driver::run(&ctx, &mut crew, &options, &mut events, &AtomicBool::new(false));
        here.tell(|| format!("plan {plan}: {}", ran.as_ref().map_or_else(|e| e.to_string(), |_| "it ended well".into())));
        self.ended[usize::from(ran.is_err())].fetch_add(1, Ordering::Relaxed);
        ran.map(|_| ())
    }

    /// One person, and what happens to the process.
    fn person(self: &Arc<Stage>, number: usize) {
        let (stage, mut s) = (self.clone(), self.world.state());
        let plan = if matches!(self.kind, Kind::OnePlace | Kind::OneGroup) { s.random.usize(..2) } else { 0 };
        let (machine, start) = (s.random.usize(..3), s.time + s.some_time(90 * SECOND));
        let resume = number > 0 && s.chance(0.6);
        let overwrite = self.kind == Kind::OnePlace || (number > 0 && s.chance(0.5));
        let killed = s.chance(0.5).then(|| s.random.u64(1..REQUESTS));
        let paused = s.chance(0.5).then(|| (s.random.u64(1..REQUESTS), s.random.u64(..LONGEST_PAUSE)));
        let jump = s.chance(0.1).then(|| (start + s.some_time(60 * SECOND), s.random.i64(-600..600) * SECOND as i64));
        drop(s);
        let process = self.world.start(machine, start, move || {
            let Some(here) = world::here() else { return };
            // A person who is told that another run is at work tries again.
            for _ in 0..PERSISTENCE {
                match stage.run(&here, plan, resume, overwrite) {
                    Err(RunError::Running { .. } | RunError::Claimed { .. }) if here.alive() => {}
                    _ => return,
                }
                let pause = here.world.state().some_time(60 * SECOND);
                here.wait(pause);
            }
        });
        let mut s = self.world.state();
        if let Some(request) = killed {
            s.doom(process, request, Fate::Killed);
        }
        if let Some((request, long)) = paused {
            s.doom(process, request, Fate::Stopped(long));
        }
        if let Some((time, by)) = jump {
            s.happen(time, usize::MAX, move |s| s.jump(machine, by));
        }
    }

    /// A person replaces the input.
    fn change_input(self: &Arc<Stage>) {
        let stage = self.clone();
        let time = BEGIN + self.world.state().some_time(150 * SECOND);
        self.world.start(0, time, move || {
            stage.write_input(0, 1);
            if let Some(here) = world::here() {
                here.tell(|| "the input is replaced".into());
            }
        });
    }

    /// There are no more faults, and a person finishes the work.
    fn finish(self: &Arc<Stage>, plan: usize) {
        let stage = self.clone();
        let time = self.world.state().time + 10 * SECOND;
        self.world.state().faults = 0.0;
        self.world.start(2, time, move || {
            let Some(here) = world::here() else { return };
            let (mut resume, mut last) = (stage.kind != Kind::OnePlace, String::new());
            for _ in 0..ATTEMPTS {
                match stage.run(&here, plan, resume, !resume) {
                    Ok(()) => return,
                    // Results of an old input are made again, and files of another program are replaced.
                    Err(RunError::Place { .. } | RunError::NoRun { .. } | RunError::Edited { .. } | RunError::OutputExists { .. }) => {
                        resume = false
                    }
                    Err(e) => last = e.to_string(),
                }
                here.wait(20 * SECOND);
            }
            stage.accuse(format!("nobody can finish plan {plan}: {last}"));
        });
        self.world.run();
        self.check_result(plan, "in the end");
        self.check_group(plan, "in the end");
    }

    /// Plays a whole world.
    fn play(self: &Arc<Stage>) {
        let people = {
            let mut s = self.world.state();
            s.faults = [0.0, 0.01, 0.05][s.random.usize(..3)];
            1 + s.random.usize(..3)
        };
        (0..people).for_each(|k| self.person(k));
        if self.kind == Kind::Input {
            self.change_input();
        }
        self.world.run();
        self.check_published();
        self.finish(0);
        if self.kind == Kind::OneGroup {
            self.finish(1);
            self.check_group(0, "after both");
        }
        if self.kind == Kind::Input && self.stored("out/a") != Some(bytes(&input(0, 1))) {
            self.accuse("in the end the output is not made of the new input".into());
        }
        self.check_published();
    }
}

/// What went wrong in the world of a seed, the events if they are `told`, and the number of requests and runs.
struct Played {
    wrong: Vec<String>,
    story: Vec<String>,
    requests: u64,
    ended: [u64; 2],
}

/// Plays a world in a bucket of this name, which no other test uses.
fn play(name: &str, seed: u64, told: bool) -> Played {
    let stage = Arc::new(Stage::new(name, seed, told));
    stage.play();
    let wrong = std::mem::take(&mut *stage.wrong.lock().unwrap());
    let (story, requests) = (stage.world.story(), stage.world.state().requests);
    Played { wrong, story, requests, ended: [0, 1].map(|k| stage.ended[k].load(Ordering::Relaxed)) }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn nothing_is_lost_or_mixed_in_any_world() {
    if let Some(seed) = number("CHUNKWISE_SEED") {
        let played = play("sim", seed, true);
        println!("{}", played.story.join("\n"));
        assert!(played.wrong.is_empty(), "{:#?}", played.wrong);
        return;
    }
    let kept = include_str!("seeds.txt").lines().filter_map(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    let seeds: Vec<u64> = kept.chain(0..number("CHUNKWISE_SEEDS").unwrap_or(WORLDS)).collect();
    let (next, totals, wrong) = (AtomicU64::new(0), [const { AtomicU64::new(0) }; 3], Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get()) {
            scope.spawn(|| {
                while let Some(&seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                    let played = play("sim", seed, false);
                    let counts = [played.requests, played.ended[0], played.ended[1]];
                    totals.iter().zip(counts).for_each(|(t, n)| _ = t.fetch_add(n, Ordering::Relaxed));
                    if !played.wrong.is_empty() {
                        wrong.lock().unwrap().push((seed, played.wrong));
                    }
                }
            });
        }
    });
    let [requests, good, bad] = totals.map(AtomicU64::into_inner);
    println!("{} worlds: {requests} requests, {good} runs ended well and {bad} did not", seeds.len());
    // Otherwise nothing was tested.
    assert!(good > seeds.len() as u64 && bad > seeds.len() as u64 / 4, "{good} {bad}");
    let mut wrong = wrong.into_inner().unwrap();
    wrong.sort();
    assert!(wrong.is_empty(), "{} worlds went wrong; CHUNKWISE_SEED=N tells of one: {:#?}", wrong.len(), &wrong[..wrong.len().min(10)]);
}

#[test]
fn a_seed_is_one_story() {
    for seed in 0..24 {
        let [first, second] = [play("twin", seed, true), play("twin", seed, true)];
        assert!(first.story.len() > 20, "{seed}");
        let differ = first.story.iter().zip(&second.story).find(|(a, b)| a != b);
        assert_eq!(differ, None, "{seed}");
    }
}
