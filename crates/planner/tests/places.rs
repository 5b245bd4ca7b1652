//! A plan tells arrays that are at hand from those whose requests take their time, by whatever name it has for them.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "it has cases for other tests too")]
mod random;

use chunkwise_ops::reduce;
use chunkwise_plan::{ArrayRole, PlanArray};
use chunkwise_types::DType;
use random::{Stored, declared, planned_in, request};

#[test]
fn an_intermediate_in_a_bucket_is_remote() {
    let x = declared("x", DType::Float64, &[400, 4000, 1000], &[10, 4000, 1000], Stored::BigEndian);
    let request = request(reduce::mean(&x, Some(&[0]), true).unwrap(), Some(vec![1, 10, 1000]));
    for (place, remote) in [("file:///work", false), ("s3://bucket/work", true), ("memory://work", false)] {
        let plan = planned_in(place, &request, 4_000_000_000, 2).unwrap();
        let inner: Vec<&PlanArray> = plan.arrays.values().filter(|a| a.role == ArrayRole::Intermediate).collect();
        assert!(!inner.is_empty());
        for array in inner {
            assert_eq!(array.is_remote(), remote, "{} in {place}", array.url);
        }
        assert!(plan.arrays.values().filter(|a| a.role == ArrayRole::Input).all(|a| a.is_file() && !a.is_remote()));
    }
}
