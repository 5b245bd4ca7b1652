//! The example on each executor, against the same formula on whole arrays, and what happens where the function is missing.

#![allow(clippy::unwrap_used)]

use chunkwise::executor::RunOptions;
use chunkwise::{Expr, Runtime};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::AtomicBool;

const WINDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../data/winds.zarr");
const OWN: &str = env!("CARGO_BIN_EXE_own");

fn forces(folder: &Path, more: &[&str]) -> Output {
    let out = folder.join("out.zarr").display().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_forces"));
    command.args([WINDS, &out]).args(more).env("WORK_DIR", folder.join("work")).output().unwrap()
}

fn stored(folder: &Path) -> Vec<u8> {
    let session = Runtime::new().session(300_000_000, 2, "memory:own-read").unwrap();
    let force = session.open(&folder.join("out.zarr/force").display().to_string()).unwrap();
    force.compute::<u8>(&session).unwrap().into_raw_vec_and_offset().0
}

/// The scale as its definition is written: the number of limits that a speed reaches.
fn expected() -> Vec<u8> {
    let session = Runtime::new().session(300_000_000, 2, "memory:own-expected").unwrap();
    let values = |name: &str| -> Vec<f32> {
        Expr::open(&format!("{WINDS}/{name}")).unwrap().compute::<f32>(&session).unwrap().into_raw_vec_and_offset().0
    };
    let force = |speed: f32| match speed {
        s if s < 0.3 => 0,
        s if s < 1.6 => 1,
        s if s < 3.4 => 2,
        s if s < 5.5 => 3,
        s if s < 8.0 => 4,
        s if s < 10.8 => 5,
        s if s < 13.9 => 6,
        s if s < 17.2 => 7,
        s if s < 20.8 => 8,
        s if s < 24.5 => 9,
        s if s < 28.5 => 10,
        s if s < 32.7 => 11,
        _ => 12,
    };
    values("uwnd").iter().zip(values("vwnd")).map(|(u, v)| force(u.hypot(v))).collect()
}

#[test]
fn the_same_forces_on_every_executor() {
    let expected = expected();
    assert!(expected.iter().any(|f| *f > 8) && expected.iter().any(|f| *f < 2));
    for more in [&["threads"][..], &["processes", "processes=2"], &["nice", "level=5", "workers=2"]] {
        let folder = tempfile::tempdir().unwrap();
        let done = forces(folder.path(), more);
        assert!(done.status.success(), "{more:?}: {}", String::from_utf8_lossy(&done.stderr));
        assert!(String::from_utf8_lossy(&done.stdout).contains(&format!("tasks on {}", more[0])));
        assert!(stored(folder.path()) == expected, "{more:?}");
    }
}

#[test]
fn a_worker_without_the_function_refuses_the_plan_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let runtime = own::add(Runtime::builder()).build().unwrap();
    let session = runtime.session(300_000_000, 2, &at("work")).unwrap();
    let wind = |name: &str| runtime.open(&format!("{WINDS}/{name}")).unwrap();
    let plan =
        session.plan(&[session.request(&at("out.zarr/force"), &own::forces(&wind("uwnd"), &wind("vwnd")).array().unwrap()).unwrap()]);
    let plan = plan.unwrap();
    // A runtime without functions, as the command `chunkwise` has it.
    let choice = Runtime::new().choose("threads", &BTreeMap::new(), &BTreeMap::new()).unwrap();
    let run = Runtime::new().run_on(&choice, plan.clone(), None, &RunOptions::default(), &AtomicBool::new(false), &mut |_| {});
    let message = run.unwrap_err().to_string();
    assert!(message.contains("beaufort"), "{message}");
    assert!(!folder.path().join("out.zarr/force/zarr.json").exists());
    // The plan is a file like any other, for the command that has the function.
    std::fs::write(at("plan.json"), serde_json::to_string(&plan).unwrap()).unwrap();
    let done = Command::new(OWN).args(["run", &at("plan.json"), "--executor", "nice"]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(stored(folder.path()) == expected());
}

#[test]
fn the_command_lists_and_checks_the_executor() {
    let run = |more: &[&str]| {
        let pipeline = concat!(env!("CARGO_MANIFEST_DIR"), "/../winds.yaml");
        let done = Command::new(OWN).args(["run", pipeline, "--dry-run"]).args(more).output().unwrap();
        (done.status.success(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    assert!(run(&["--executor", "nice", "--executor-option", "level=3"]).0);
    let (_, unknown) = run(&["--executor", "nicer"]);
    assert!(unknown.contains("nice") && unknown.contains("slurm"), "{unknown}");
    let (_, level) = run(&["--executor", "nice", "--executor-option", "level=high"]);
    assert!(level.contains("a number from 0 to 19"), "{level}");
    let (_, option) = run(&["--executor", "nice", "--executor-option", "colour=red"]);
    assert!(option.contains("it has level, workers"), "{option}");
}

#[test]
fn names_are_given_once() {
    let twice = |name: &str| Runtime::builder().executor(name, |_| -> Result<Nothing, _> { unreachable!() }).build();
    assert!(twice("slurm").unwrap_err().to_string().contains("there is an executor 'slurm' already"));
    assert!(twice("mine").is_ok());
}

/// An executor that is never opened.
#[derive(Debug)]
struct Nothing;

impl chunkwise::executor::Factory for Nothing {
    fn open(&self, _: &chunkwise::executor::Opening<'_>) -> Result<Box<dyn chunkwise::executor::Executor>, chunkwise::executor::RunError> {
        Err(chunkwise::executor::RunError::Executor("there is none".into()))
    }
}
