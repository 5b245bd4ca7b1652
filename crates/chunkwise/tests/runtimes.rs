//! Two runtimes in one process: each has its own rights, options, budget and memory.

#![allow(clippy::unwrap_used)]

use chunkwise::executor::{Event, RunOptions};
use chunkwise::storage::Stores;
use chunkwise::types::{Scalar, StoreOptions};
use chunkwise::{Error, Expr, Runtime, Session, ops};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

/// The end of a refusal.
const OUTSIDE: &str = "outside of what may be read and written here";

fn count(n: i128) -> Expr {
    ops::create::arange(Scalar::Int(0), Scalar::Int(n), Scalar::Int(1), None, Some(&[1000])).unwrap().into()
}

fn at(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

/// Budgets of two people, in bytes.
const BUDGETS: [u64; 2] = [100_000_000, 300_000_000];

/// Sessions of two people in a folder. Each may use a folder of its own and memory for results, and nothing else.
fn tenants(root: &Path) -> [(PathBuf, Session); 2] {
    let root = root.canonicalize().unwrap();
    [("one", BUDGETS[0]), ("other", BUDGETS[1])].map(|(name, budget)| {
        let folder = root.join(name);
        std::fs::create_dir(&folder).unwrap();
        let runtime = Runtime::new();
        runtime.stores().restrict(&[folder.display().to_string(), "memory:///chunkwise".into()]).unwrap();
        let session = runtime.session(budget, 2, &at(&folder, "work")).unwrap();
        (folder, session)
    })
}

#[test]
fn two_tenants_run_at_once_and_reach_nothing_of_each_other() {
    let root = tempfile::tempdir().unwrap();
    let tenants = tenants(root.path());
    let together = Barrier::new(2);
    std::thread::scope(|scope| {
        for k in 0..2 {
            let ((mine, session), (theirs, _), together) = (&tenants[k], &tenants[1 - k], &together);
            scope.spawn(move || {
                let n = 50_000 + k as i64;
                count(n.into()).write(session, &at(mine, "n")).unwrap();
                together.wait();
                for turn in 0..5 {
                    let target = at(mine, &format!("sum-{turn}"));
                    let sum = session.open(&at(mine, "n")).unwrap().sum(&[]);
                    let plan = session.plan(&[session.request(&target, &sum.array().unwrap()).unwrap()]).unwrap();
                    assert!(plan.stages.iter().all(|s| s.projected_mem + plan.spec.reserved_mem <= BUDGETS[k]));
                    sum.write(session, &target).unwrap();
                    let found = session.open(&target).unwrap().compute::<i64>(session).unwrap();
                    assert_eq!(found.into_raw_vec_and_offset().0, [n * (n - 1) / 2]);
                    // Neither by opening, nor by a result.
                    let refused = [
                        session.open(&at(theirs, "n")).unwrap_err().to_string(),
                        count(3).write(session, &at(theirs, "stolen")).unwrap_err().to_string(),
                    ];
                    for message in refused {
                        assert!(message.contains(OUTSIDE), "{message}");
                    }
                }
                together.wait();
            });
        }
    });
    assert!(tenants.iter().all(|(folder, _)| !folder.join("stolen").exists()));
}

#[test]
fn a_plan_of_one_tenant_does_not_run_for_another() {
    let root = tempfile::tempdir().unwrap();
    let [(folder, session), (_, other)] = tenants(root.path());
    let request = session.request(&at(&folder, "n"), &count(10).array().unwrap()).unwrap();
    let plan = session.plan(&[request]).unwrap();
    let run = |session: &Session| session.run(plan.clone(), None, &RunOptions::default());
    let message = run(&other).unwrap_err().to_string();
    assert!(message.contains(OUTSIDE), "{message}");
    assert!(!folder.join("n").exists());
    run(&session).unwrap();
    assert_eq!(
        session.open(&at(&folder, "n")).unwrap().compute::<i64>(&session).unwrap().into_raw_vec_and_offset().0,
        Vec::from_iter(0..10)
    );
}

#[test]
fn options_that_one_program_part_sets_are_not_rights_of_another() {
    // Without what the environment of this test may allow.
    let bare = || Runtime::builder().stores(Stores::new()).build().unwrap();
    let (one, other) = (bare(), bare());
    let options = StoreOptions { endpoint: Some("https://minio.lab:9000".into()), anonymous: Some(true), ..StoreOptions::default() };
    let storage = BTreeMap::from([("s3://data".to_string(), options)]);
    let session = one.session(100_000_000, 1, "memory:work").unwrap().with_storage(storage.clone()).unwrap();
    session.runtime().stores().configure(&storage).unwrap();
    let message = other.stores().configure(&storage).unwrap_err().to_string();
    assert!(message.contains("--allow endpoint=https://minio.lab:9000"), "{message}");
    assert_eq!(one.stores().allowed(), ["endpoint=https://minio.lab:9000", "anonymous"]);
    assert_eq!(other.stores().allowed(), Vec::<String>::new());
}

#[test]
fn a_flag_stops_what_computes_and_writes() {
    let cancel = Arc::new(AtomicBool::new(true));
    let runtime = Runtime::builder().cancel(cancel.clone()).build().unwrap();
    let session = runtime.session(200_000_000, 1, "memory:cancelled").unwrap();
    let stopped = |what: Result<(), Error>| {
        let message = what.unwrap_err().to_string();
        assert!(message.contains("cancelled"), "{message}");
    };
    stopped(count(1000).compute::<i64>(&session).map(drop));
    stopped(count(1000).write(&session, "memory:cancelled-out/n").map(drop));
    // One session has a flag of its own, and what was stopped begins again.
    let mine = session.clone().with_cancel(Arc::default());
    assert_eq!(count(4).compute::<i64>(&mine).unwrap().into_raw_vec_and_offset().0, [0, 1, 2, 3]);
    cancel.store(false, Ordering::SeqCst);
    count(1000).write(&session, "memory:cancelled-out/n").unwrap();
}

#[test]
fn events_tell_how_far_a_run_is() {
    let (seen, tasks) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (in_runtime, in_session) = (seen.clone(), tasks.clone());
    let runtime = Runtime::builder()
        .events(move |_| {
            in_runtime.fetch_add(1, Ordering::SeqCst);
        })
        .build()
        .unwrap();
    let session = runtime.session(200_000_000, 1, "memory:events").unwrap();
    count(1000).sum(&["0"]).compute::<i64>(&session).unwrap();
    let first = seen.load(Ordering::SeqCst);
    assert!(first > 0);
    let counted = session.with_events(move |event| {
        if matches!(event, Event::TaskFinished { .. }) {
            in_session.fetch_add(1, Ordering::SeqCst);
        }
    });
    let plan = counted.plan(&[counted.request("memory:events-out/n", &count(1000).array().unwrap()).unwrap()]).unwrap();
    let planned: u64 = plan.stages.iter().map(|stage| stage.tasks()).sum();
    counted.run(plan, None, &RunOptions::default()).unwrap();
    assert_eq!((tasks.load(Ordering::SeqCst) as u64, seen.load(Ordering::SeqCst)), (planned, first));
}

#[test]
fn a_program_that_is_no_worker_starts_no_copies_of_itself() {
    let folder = tempfile::tempdir().unwrap();
    let session = Runtime::new().session(500_000_000, 2, &at(folder.path(), "work")).unwrap();
    let plan = session.plan(&[session.request(&at(folder.path(), "n"), &count(10).array().unwrap()).unwrap()]).unwrap();
    let processes = session.runtime().choose("processes", &BTreeMap::new(), &BTreeMap::new()).unwrap();
    let run = session.runtime().run_on(&processes, plan, None, &RunOptions::default(), &AtomicBool::new(false), &mut |_| {});
    let message = run.unwrap_err().to_string();
    assert!(message.contains("worker_program") && message.contains("'program'"), "{message}");
}
