//! Two runtimes in one process: each has its own rights, options, budget and memory.

#![allow(clippy::unwrap_used)]

use chunkwise::types::{Scalar, StoreOptions};
use chunkwise::{Expr, Runtime, Session, ops};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Barrier;

fn count(n: i128) -> Expr {
    ops::create::arange(Scalar::Int(0), Scalar::Int(n), Scalar::Int(1), None, Some(&[1000])).unwrap().into()
}

fn at(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

/// A session that may use its own folder and nothing else.
fn tenant(folder: &Path, budget: u64) -> Session {
    let runtime = Runtime::new();
    runtime.stores().restrict(&[folder.display().to_string()]).unwrap();
    runtime.session(budget, 2, &at(folder, "work")).unwrap()
}

#[test]
fn two_tenants_run_at_once_and_reach_nothing_of_each_other() {
    let root = tempfile::tempdir().unwrap();
    let folders = ["one", "other"].map(|name| root.path().canonicalize().unwrap().join(name));
    folders.iter().for_each(|f| std::fs::create_dir(f).unwrap());
    let sessions = [tenant(&folders[0], 100_000_000), tenant(&folders[1], 300_000_000)];
    let together = Barrier::new(2);
    std::thread::scope(|scope| {
        for (k, session) in sessions.iter().enumerate() {
            let (mine, theirs, together) = (&folders[k], &folders[1 - k], &together);
            scope.spawn(move || {
                let n = 50_000 + k as i128;
                count(n).write(session, &at(mine, "n")).unwrap();
                together.wait();
                for turn in 0..5 {
                    let target = at(mine, &format!("sum-{turn}"));
                    let sum = session.open(&at(mine, "n")).unwrap().sum(&[]);
                    let plan = session.plan(&[session.request(&target, &sum.array().unwrap()).unwrap()]).unwrap();
                    assert_eq!(plan.spec.allowed_mem, [100_000_000, 300_000_000][k]);
                    sum.write(session, &target).unwrap();
                    assert_eq!(session.open(&target).unwrap().array().unwrap().shape(), [0u64; 0]);
                    // Neither by opening, nor by a result, nor by a plan of the other.
                    let refused = [
                        session.open(&at(theirs, "n")).unwrap_err().to_string(),
                        count(3).write(session, &at(theirs, "stolen")).unwrap_err().to_string(),
                    ];
                    for message in refused {
                        assert!(message.contains("outside of what may be read and written here"), "{message}");
                    }
                }
                together.wait();
            });
        }
    });
    assert!(folders.iter().all(|f| !f.join("stolen").exists()));
}

#[test]
fn a_plan_of_one_tenant_does_not_run_for_another() {
    let root = tempfile::tempdir().unwrap();
    let folders = ["one", "other"].map(|name| root.path().canonicalize().unwrap().join(name));
    folders.iter().for_each(|f| std::fs::create_dir(f).unwrap());
    let sessions = [tenant(&folders[0], 100_000_000), tenant(&folders[1], 100_000_000)];
    let request = sessions[0].request(&at(&folders[0], "n"), &count(10).array().unwrap()).unwrap();
    let plan = sessions[0].plan(&[request]).unwrap();
    let run = |session: &Session| {
        session.run(plan.clone(), None, &Default::default(), &std::sync::atomic::AtomicBool::new(false), &mut |_| {}).map(|_| ())
    };
    let message = run(&sessions[1]).unwrap_err().to_string();
    assert!(message.contains("outside of what may be read and written here"), "{message}");
    run(&sessions[0]).unwrap();
}

#[test]
fn options_that_one_program_part_sets_are_not_rights_of_another() {
    let (one, other) = (Runtime::new(), Runtime::new());
    let options = StoreOptions { endpoint: Some("https://minio.lab:9000".into()), anonymous: Some(true), ..StoreOptions::default() };
    let storage = BTreeMap::from([("s3://data".to_string(), options)]);
    let session = one.session(100_000_000, 1, "memory:work").unwrap().with_storage(storage.clone()).unwrap();
    session.runtime().stores().configure(&storage).unwrap();
    let message = other.stores().configure(&storage).unwrap_err().to_string();
    assert!(message.contains("--allow endpoint=https://minio.lab:9000"), "{message}");
    assert!(other.stores().allowed().is_empty(), "{:?}", other.stores().allowed());
}
