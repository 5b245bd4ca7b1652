//! A plan that fits a budget fits every larger one, and a refusal names the least that would do.

#![allow(clippy::unwrap_used)]

mod random;

use chunkwise_kernels::ReduceOp;
use chunkwise_ops::{Array, Source, elementwise, manipulate, reduce};
use chunkwise_planner::{PlannerError, Request};
use chunkwise_types::{ArrayAccess, ChunkGrid, DType};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use random::{RESERVED, Stored, cases, declared, planned, request};

const MB: u64 = 1_000_000;

fn fits(request: &Request, megabytes: u64, workers: u64) -> bool {
    planned(request, megabytes * MB, workers).is_ok()
}

/// The least memory that would do, in megabytes, where so much does not.
fn advice(request: &Request, megabytes: u64, workers: u64) -> Option<(u64, String)> {
    match planned(request, megabytes * MB, workers) {
        Err(PlannerError::Memory { least, advice, .. }) => Some((least, advice)),
        _ => None,
    }
}

#[test]
fn more_memory_is_never_too_much_for_a_copy() {
    let x = declared("x", DType::Float32, &[500, 800, 1000], &[25, 200, 25], Stored::Raw);
    let copy = request(x, Some(vec![250, 40, 100]));
    let first = (70..2000).find(|&mb| fits(&copy, mb, 1)).unwrap();
    assert!(first <= 90);
    for mb in (first..400).chain([500, 700, 1000, 2000, 4000]) {
        assert!(fits(&copy, mb, 1), "{first} MB are enough, {mb} are not");
    }
}

#[test]
fn more_memory_is_never_too_much_for_a_reshape() {
    let c = declared("c", DType::Float64, &[400, 400, 200], &[100, 100, 100], Stored::Zstd);
    let flat = manipulate::reshape(&c, &[32_000, 1000]).unwrap();
    let large = declared("c", DType::Float32, &[1000, 400, 1000], &[400, 400, 200], Stored::Zstd);
    let all: [(Array, Vec<u64>); 2] =
        [(flat, vec![32_000, 50]), (manipulate::reshape(&large, &[400_000, 1000]).unwrap(), vec![400_000, 50])];
    for (array, chunks) in all {
        let request = request(array, Some(chunks));
        let fitting: Vec<u64> = (100..=3000).step_by(290).filter(|&mb| fits(&request, mb, 1)).collect();
        let first = fitting.first().copied().unwrap();
        assert_eq!(fitting, (first..=3000).step_by(290).collect::<Vec<_>>());
    }
}

#[test]
fn short_steps_of_a_fold_are_whole_inner_chunks() {
    let (shape, shard, inner) = ([60, 487, 607], [60, 180, 96], vec![60, 90, 48]);
    let metadata = serde_json::json!({"zarr_format": 3});
    let source = Source { url: "file:///data/x".into(), access: ArrayAccess::default(), inner_chunk: Some(inner), metadata };
    let x = Array::stored(source, DType::Int64, ChunkGrid::regular(&shape, &shard), vec![None; 3]);
    let sum = request(reduce::reduce(&x, ReduceOp::Sum, Some(&[1, 2]), false).unwrap(), None);
    // A step of a shard needs 31 MB, one of an inner chunk 21 MB.
    let plan = planned(&sum, RESERVED + 22 * MB, 1).unwrap();
    let (read, all) = (plan.stages.iter().map(|s| s.cost.bytes_read).sum::<u64>(), shape.iter().product::<u64>() * 8);
    assert!(read < all * 12 / 10, "{read} bytes of {all}");
}

#[test]
fn a_mean_without_nans_reads_small_chunks_once() {
    // Packed numbers: what is counted has fewer bytes than what is added, so one fold alone would take longer steps than the other. The longer one is
    // a multiple of the shorter one, or not.
    for rows in [288, 400, 290] {
        let stored = declared("x", DType::Int16, &[1000, rows, 500], &[1, rows, 500], Stored::Gzip);
        let x = elementwise::astype(&stored, DType::Float64).unwrap();
        let mean = request(reduce::nanmean(&x, Some(&[0]), false).unwrap(), None);
        let plan = planned(&mean, RESERVED + 1000 * MB, 2).unwrap();
        let (read, all) = (plan.stages[0].cost.bytes_read, 1000 * rows * 500 * 2);
        assert!(read < all * 11 / 10, "{read} bytes of {all}");
        assert_eq!(plan.stages.len(), 2, "a tree, so that both workers are busy");
    }
}

#[test]
fn a_refusal_says_whose_chunks_are_the_cause() {
    let large = declared("h", DType::Float64, &[200, 5000, 500], &[20, 5000, 500], Stored::BigEndian);
    let (_, text) = advice(&request(large, Some(vec![1, 50, 50])), 200, 1).unwrap();
    assert!(text.contains("the input 'h' in smaller chunks") && text.contains("20 x 5000 x 500") && text.contains("400.0 MB"), "{text}");
    let small = declared("x", DType::Float64, &[200, 5000, 500], &[1, 50, 50], Stored::Raw);
    let (_, text) = advice(&request(small, Some(vec![20, 5000, 500])), 200, 1).unwrap();
    assert!(text.contains("smaller chunks of the output 'y'") && text.contains("20 x 5000 x 500"), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, rng_seed: RngSeed::Fixed(25), ..ProptestConfig::with_cases(24) })]

    #[test]
    fn what_fits_a_budget_fits_larger_ones(case in cases(4)) {
        let request = case.request();
        let budgets: Vec<u64> = (0..12).map(|i| (70.0 * 1.45f64.powi(i)) as u64).collect();
        let fitting: Vec<bool> = budgets.iter().map(|&mb| fits(&request, mb, case.workers)).collect();
        prop_assert!(fitting.windows(2).all(|w| w[0] <= w[1]), "{:?}", budgets.iter().zip(&fitting).collect::<Vec<_>>());
    }

    #[test]
    fn the_advice_is_the_least_that_works(case in cases(4), allowed in 68..400u64) {
        let request = case.request();
        if let Some((least, text)) = advice(&request, allowed, case.workers) {
            prop_assert!(least > allowed && least * MB > RESERVED, "{least} of {allowed}");
            prop_assert!(fits(&request, least, case.workers), "{least} MB do not do");
            let step = (least / 1000).max(1);
            prop_assert!(!fits(&request, least - step - 1, case.workers), "{} MB do, but {least} are said", least - step - 1);
            prop_assert!(text.contains("chunks"), "{text}");
        }
    }
}
