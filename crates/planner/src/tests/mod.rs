//! What each pass makes of a small program, as text in `snapshots/`. `INSTA_UPDATE=always cargo test -p chunkwise-planner` writes them again
//! after a change that is meant.

#![allow(clippy::unwrap_used)]

mod printed;

use crate::stages::Draft;
use crate::{Fusion, Options, Request, graph, passes};
use chunkwise_kernels::{ElementOp, ReduceOp};
use chunkwise_ops::elementwise::Operand;
use chunkwise_ops::group::{GroupOp, Groups, groupby};
use chunkwise_ops::{Array, Source, elementwise, linalg, manipulate, qr, reduce};
use chunkwise_plan::{Codec, PlanSpec};
use chunkwise_types::{ArrayAccess, ChunkGrid, DType, Scalar};
use insta::assert_snapshot;
use std::cell::RefCell;
use std::collections::BTreeMap;

const GB: u64 = 1_000_000_000;

/// A stored array of raw chunks.
fn stored(name: &str, dtype: DType, shape: &[u64], chunks: &[u64]) -> Array {
    stored_as(ArrayAccess::Raw, name, dtype, shape, chunks)
}

fn stored_as(access: ArrayAccess, name: &str, dtype: DType, shape: &[u64], chunks: &[u64]) -> Array {
    let metadata = serde_json::json!({"zarr_format": 3});
    let source = Source { url: format!("file:///data/{name}"), access, inner_chunk: None, metadata };
    Array::stored(source, dtype, ChunkGrid::regular(shape, chunks), vec![None; shape.len()])
}

fn output(name: &str, array: Array, chunks: Option<&[u64]>) -> Request {
    Request {
        url: format!("file:///out/{name}"),
        array,
        chunks: chunks.map(<[u64]>::to_vec),
        join: false,
        shards: None,
        codec: Codec::Default,
        stored_dtype: None,
        index: None,
        chunk_keys: None,
        fill_value: None,
        attributes: serde_json::Map::new(),
        group_attributes: serde_json::Map::new(),
    }
}

/// What a pass leaves for 4 workers with so much memory, printed.
fn after(pass: &str, allowed: u64, requests: &[Request], print: impl Fn(&Draft<'_>) -> String) -> String {
    let spec =
        PlanSpec { allowed_mem: allowed, reserved_mem: 64 << 20, workers: 4, work_dir: "file:///work".into(), storage: BTreeMap::new() };
    let graph = graph::Graph::new(requests.iter().map(|r| &r.array), &BTreeMap::new());
    let text = RefCell::new(None);
    let see = |name: &'static str, draft: &Draft<'_>| {
        if name == pass {
            text.replace(Some(print(draft)));
        }
    };
    passes(&graph, requests, spec, Options::DEFAULT, &see).unwrap();
    text.into_inner().unwrap()
}

fn of(op: ElementOp, args: &[Operand]) -> Array {
    elementwise::elementwise(op, args).unwrap()
}

/// 1.6 GB in chunks of 16 MB.
fn x() -> Array {
    stored("x", DType::Float64, &[4000, 500, 100], &[40, 500, 100])
}

fn mean(x: &Array, axes: Option<&[usize]>) -> Array {
    reduce::mean(x, axes, false).unwrap()
}

#[test]
fn a_mean_that_every_task_needs_is_stored() {
    let away = of(ElementOp::Subtract, &[(&x()).into(), (&mean(&x(), None)).into()]);
    assert_snapshot!(after("materialise", 2 * GB, &[output("away", away, None)], printed::roots));
}

#[test]
fn a_mean_inside_the_chunks_is_not_stored() {
    let zonal = reduce::mean(&x(), Some(&[2]), true).unwrap();
    let away = of(ElementOp::Subtract, &[(&x()).into(), (&zonal).into()]);
    assert_snapshot!(after("materialise", 2 * GB, &[output("away", away, None)], printed::roots));
}

#[test]
fn a_fold_of_a_fold_of_much_is_stored() {
    let most = reduce::reduce(&mean(&x(), Some(&[0])), ReduceOp::Max, None, false).unwrap();
    assert_snapshot!(after("materialise", 2 * GB, &[output("most", most, None)], printed::roots));
}

#[test]
fn decompositions_are_stored_by_blocks() {
    let tall = stored("a", DType::Float64, &[400_000, 50], &[40_000, 50]);
    let (q, r) = qr::qr(&tall).unwrap();
    assert_snapshot!(after("materialise", 2 * GB, &[output("q", q, None), output("r", r, None)], printed::roots));
}

#[test]
fn an_element_wise_chain_is_one_stage() {
    let root = of(ElementOp::Sqrt, &[(&of(ElementOp::Add, &[(&x()).into(), Scalar::Float(1.0).into()])).into()]);
    let turned = manipulate::permute_dims(&root, &[2, 0, 1]).unwrap();
    assert_snapshot!(after("stages", 2 * GB, &[output("turned", turned, None)], printed::stages));
}

#[test]
fn siblings_share_a_stage() {
    let y = stored("y", DType::Float64, &[4000, 500, 100], &[40, 500, 100]);
    let product = |a: &Array, b: &Array| mean(&of(ElementOp::Multiply, &[a.into(), b.into()]), Some(&[0]));
    let all = [output("xx", product(&x(), &x()), None), output("xy", product(&x(), &y), None)];
    assert_snapshot!(after("stages", 2 * GB, &all, printed::stages));
}

#[test]
fn folds_in_lockstep_share_a_stage_whatever_their_shapes() {
    let variance = reduce::var(&x(), None, 0.0, false, false).unwrap();
    let table = manipulate::expand_dims(&mean(&x(), None), 0).unwrap();
    assert_snapshot!(after("stages", 2 * GB, &[output("var", variance, None), output("mean", table, None)], printed::stages));
}

#[test]
fn strangers_do_not_share_a_stage() {
    let y = stored("y", DType::Float64, &[4000, 500, 100], &[40, 500, 100]);
    let all = [output("x", mean(&x(), Some(&[0])), None), output("y", mean(&y, Some(&[0])), None)];
    assert_snapshot!(after("stages", 2 * GB, &all, printed::stages));
}

#[test]
fn groups_and_products_are_streamed() {
    let labels: Vec<i64> = (0..40).map(|i| i % 4).collect();
    let by = Groups { axis: 0, labels: &labels, count: 4, dim: None };
    let days = stored("days", DType::Float32, &[40, 1000, 1000], &[1, 1000, 1000]);
    let clim = groupby(&days, by, GroupOp::Mean, true).unwrap();
    let (a, b) = (stored("a", DType::Float64, &[4000, 4000], &[1000, 1000]), stored("b", DType::Float64, &[4000, 4000], &[1000, 1000]));
    let all = [output("clim", clim, None), output("ab", linalg::matmul(&a, &b).unwrap(), None)];
    assert_snapshot!(after("stages", 2 * GB, &all, printed::stages));
}

#[test]
fn chunks_that_nobody_asked_for() {
    let wide = stored("wide", DType::Float64, &[20_000, 20_000], &[20_000, 1000]);
    let turned = manipulate::permute_dims(&wide, &[1, 0]).unwrap();
    assert_snapshot!(after("chunks", GB / 2, &[output("turned", turned, None)], printed::stages));
}

#[test]
fn an_empty_output_has_no_chunks_to_join() {
    let empty = stored("empty", DType::Float64, &[100, 0], &[10, 1]);
    let request = Request { join: true, ..output("out", of(ElementOp::Negative, &[(&empty).into()]), None) };
    after("chunks", GB, &[request], |_| String::new());
}

#[test]
fn tasks_cover_many_small_chunks() {
    let small = stored("small", DType::Float32, &[10_000, 1000], &[10, 1000]);
    assert_snapshot!(after("tasks", 2 * GB, &[output("root", of(ElementOp::Sqrt, &[(&small).into()]), None)], printed::stages));
}

#[test]
fn intermediates_are_laid_out_for_their_readers() {
    let most = of(ElementOp::Subtract, &[(&x()).into(), (&reduce::reduce(&x(), ReduceOp::Max, Some(&[0]), true).unwrap()).into()]);
    assert_snapshot!(after("layout", 2 * GB, &[output("away", most, Some(&[40, 50, 100]))], printed::stages));
}

/// 1.6 GB in chunks of 16 MB of which no part can be read alone.
fn whole() -> Array {
    stored_as(ArrayAccess::default(), "x", DType::Float64, &[4000, 500, 100], &[40, 500, 100])
}

#[test]
fn a_copy_stands_between_slabs_and_series() {
    assert_snapshot!(after("rechunk", GB / 2, &[output("series", whole(), Some(&[4000, 10, 10]))], printed::stages));
}

/// The trees of reductions of everything.
fn tree(function: ReduceOp, dtype: DType) -> String {
    let all = stored("x", dtype, &[4000, 500, 100], &[40, 500, 100]);
    let out = reduce::reduce(&all, function, None, false).unwrap();
    after("split", 2 * GB, &[output(function.name(), out, None)], printed::stages)
}

#[test]
fn sums_become_trees() {
    assert_snapshot!(tree(ReduceOp::Sum, DType::Float64));
}

#[test]
fn partial_sums_of_float32_keep_their_precision() {
    assert_snapshot!(tree(ReduceOp::Sum, DType::Float32));
}

#[test]
fn other_reductions_become_trees() {
    let all = [ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max, ReduceOp::Any, ReduceOp::All, ReduceOp::CountNonzero];
    assert_snapshot!(all.map(|function| tree(function, DType::Float32)).join("\n"));
}

#[test]
fn positions_do_not_become_trees() {
    assert_snapshot!(tree(ReduceOp::ArgMax, DType::Float32));
}

#[test]
fn means_become_trees_along_one_axis() {
    let thin = stored("thin", DType::Float64, &[400_000, 500], &[4000, 500]);
    assert_snapshot!(after("split", 2 * GB, &[output("mean", mean(&thin, Some(&[0])), None)], printed::stages));
}

#[test]
fn variances_become_trees_of_moments() {
    let variance = reduce::var(&x(), None, 1.0, false, true).unwrap();
    assert_snapshot!(after("split", 2 * GB, &[output("var", variance, None)], printed::stages));
}

#[test]
fn products_become_trees() {
    let tall = |name| stored(name, DType::Float32, &[400_000, 100], &[40_000, 100]);
    let turned = manipulate::permute_dims(&tall("a"), &[1, 0]).unwrap();
    let product = linalg::matmul(&turned, &tall("b")).unwrap();
    assert_snapshot!(after("split", 2 * GB, &[output("ab", product, None)], printed::stages));
}

#[test]
fn groups_do_not_become_trees() {
    let labels: Vec<i64> = (0..40).map(|i| i % 4).collect();
    let by = Groups { axis: 0, labels: &labels, count: 4, dim: None };
    let days = stored("days", DType::Float32, &[40, 1000, 1000], &[1, 1000, 1000]);
    let clim = groupby(&days, by, GroupOp::Sum, false).unwrap();
    assert_snapshot!(after("split", 2 * GB, &[output("clim", clim, Some(&[4, 1000, 1000]))], printed::stages));
}

/// A tree whose result is taken off everything: three stages.
fn anomaly() -> [Request; 1] {
    [output("anomaly", of(ElementOp::Subtract, &[(&x()).into(), (&mean(&x(), None)).into()]), None)]
}

#[test]
fn costs() {
    assert_snapshot!(after("cost", 2 * GB, &anomaly(), printed::costs));
}

#[test]
fn names() {
    assert_snapshot!(after("names", 2 * GB, &anomaly(), printed::names));
}

#[test]
fn off_is_a_stage_for_each_operation() {
    let all = anomaly();
    let spec =
        PlanSpec { allowed_mem: 2 * GB, reserved_mem: 64 << 20, workers: 4, work_dir: "file:///work".into(), storage: BTreeMap::new() };
    let plan = crate::plan(&all, spec, Options { fusion: Fusion::Off, ..Options::DEFAULT }).unwrap();
    let names: Vec<String> = plan.stages.iter().map(|s| s.name.clone()).collect();
    assert_snapshot!(names.join("\n"));
}
