//! Planning comes to an end, whatever the shapes.

#![allow(clippy::unwrap_used)]

mod random;

use chunkwise_kernels::{ElementOp, ReduceOp};
use chunkwise_ops::{Array, elementwise::elementwise, reduce};
use chunkwise_plan::{ArrayRole, PlanSpec};
use chunkwise_planner::{Options, PlannerError, TimeLimit, plan};
use chunkwise_types::{DType, Scalar};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use random::{RESERVED, Stored, cases, declared, planned, request};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

fn sum(x: &Array, axis: usize) -> Array {
    reduce::reduce(x, ReduceOp::Sum, Some(&[axis]), false).unwrap()
}

fn followed(x: &Array, axis: usize) -> Vec<Array> {
    vec![
        reduce::mean(x, Some(&[axis]), false).unwrap(),
        elementwise(ElementOp::Add, &[(&sum(x, axis)).into(), Scalar::Int(1).into()]).unwrap(),
        elementwise(ElementOp::Sqrt, &[(&sum(x, axis)).into()]).unwrap(),
        reduce::std(x, Some(&[axis]), 0.0, false, false).unwrap(),
    ]
}

#[test]
fn a_fold_with_something_element_wise_after_it_is_planned_and_stays_one_stage() {
    let shapes: [(&[u64], &[u64]); 4] = [
        (&[7, 3, 33], &[2, 3, 16]),
        (&[721, 1440, 137], &[100, 1440, 50]),
        (&[70, 130, 330], &[20, 30, 160]),
        (&[5, 1, 5, 5], &[3, 1, 3, 3]),
    ];
    for (shape, chunks) in shapes {
        let x = declared("x", DType::Float64, shape, chunks, Stored::Raw);
        for axis in 0..shape.len() {
            for array in followed(&x, axis) {
                let plan = planned(&request(array, None), 2_000_000_000, 2).unwrap();
                // It was taken for computed again because the last tasks are smaller than the others.
                assert!(plan.arrays.keys().all(|name| !name.starts_with("tmp")), "{shape:?} along {axis}");
            }
        }
    }
}

#[test]
fn more_tasks_than_a_run_can_have_are_no_bug() {
    let x = declared("x", DType::Int16, &[7, 1 << 53], &[4, 6], Stored::Raw);
    let half = elementwise(ElementOp::Multiply, &[(&x).into(), Scalar::Float(0.5).into()]).unwrap();
    let error = planned(&request(half, None), 500_000_000, 2).unwrap_err();
    assert!(matches!(error, PlannerError::Tasks { .. }), "{error}");
    assert!(error.to_string().contains("the array is too large for its chunks"), "{error}");
}

#[test]
fn a_fold_that_all_tasks_need_is_still_stored() {
    let x = declared("x", DType::Float64, &[70, 130, 330], &[20, 30, 160], Stored::Raw);
    let mean = reduce::mean(&x, None, false).unwrap();
    let away = elementwise(ElementOp::Subtract, &[(&x).into(), (&mean).into()]).unwrap();
    let plan = planned(&request(away, None), 2_000_000_000, 2).unwrap();
    assert_eq!(plan.arrays.values().filter(|a| a.role == ArrayRole::Intermediate).count(), 1);
}

#[test]
fn time_is_up_in_a_pass_that_has_a_name() {
    let x = declared("x", DType::Float64, &[700, 1300, 330], &[20, 30, 160], Stored::Zstd);
    let request = request(x, Some(vec![700, 1, 330]));
    let mut named = Vec::new();
    for most in 0..200 {
        let looks = Cell::new(0);
        let passed = || {
            looks.set(looks.get() + 1);
            Duration::from_secs(looks.get())
        };
        let spec = PlanSpec {
            allowed_mem: 500_000_000,
            reserved_mem: RESERVED,
            workers: 2,
            work_dir: "file:///work".into(),
            storage: BTreeMap::new(),
        };
        let limit = TimeLimit { most: Duration::from_secs(most), passed: &passed };
        match plan(std::slice::from_ref(&request), spec, Options { limit, ..Options::DEFAULT }) {
            Ok(_) => break,
            Err(PlannerError::Time { pass, limit }) => {
                assert_eq!(limit.as_secs(), most);
                named.push(pass);
            }
            Err(e) => panic!("{e}"),
        }
    }
    assert!(named.len() < 200, "it comes to an end with more time");
    named.dedup();
    assert!(named.starts_with(&["materialise", "stages", "chunks", "tasks"]), "{named:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, rng_seed: RngSeed::Fixed(25), ..ProptestConfig::with_cases(64) })]

    #[test]
    fn every_program_is_planned_or_refused(case in cases(6), allowed in 200..4000u64) {
        // Internal errors are loops whose measure did not fall.
        match planned(&case.request(), allowed * 1_000_000, case.workers) {
            Ok(_) | Err(PlannerError::Memory { .. }) => {}
            Err(PlannerError::Tasks { .. }) => {}
            Err(e) => prop_assert!(false, "{e}"),
        }
    }
}
