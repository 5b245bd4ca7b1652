//! Two runtimes in one process: each has its own rights, options, budget and memory.

#![allow(clippy::unwrap_used)]

use chunkwise::executor::RunOptions;
use chunkwise::storage::Stores;
use chunkwise::types::{Scalar, StoreOptions};
use chunkwise::{Expr, Runtime, Session, ops};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::AtomicBool;

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
    let run = |session: &Session| session.run(plan.clone(), None, &RunOptions::default(), &AtomicBool::new(false), &mut |_| {});
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
    let (one, other) = (Runtime::with_stores(Stores::new()), Runtime::with_stores(Stores::new()));
    let options = StoreOptions { endpoint: Some("https://minio.lab:9000".into()), anonymous: Some(true), ..StoreOptions::default() };
    let storage = BTreeMap::from([("s3://data".to_string(), options)]);
    let session = one.session(100_000_000, 1, "memory:work").unwrap().with_storage(storage.clone()).unwrap();
    session.runtime().stores().configure(&storage).unwrap();
    let message = other.stores().configure(&storage).unwrap_err().to_string();
    assert!(message.contains("--allow endpoint=https://minio.lab:9000"), "{message}");
    assert_eq!(one.stores().allowed(), ["endpoint=https://minio.lab:9000", "anonymous"]);
    assert_eq!(other.stores().allowed(), Vec::<String>::new());
}
