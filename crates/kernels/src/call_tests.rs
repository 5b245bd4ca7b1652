//! A function sees whole blocks, whatever region is wanted, and what it returns is checked.

#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use crate::{ArrayType, BlockElement, Kernel, Node};
use chunkwise_types::DType;
use ndarray::{ArcArray, IxDyn};
use std::sync::{Arc, Mutex};

fn block(shape: &[usize]) -> Block {
    let n = shape.iter().product::<usize>();
    i64::wrap(ArcArray::from_shape_vec(IxDyn(shape), (0..n as i64).collect()).unwrap())
}

fn regular(len: u64, size: u64) -> AxisChunks {
    AxisChunks::regular(len, size)
}

/// Of an array of 5 by 6 in blocks of 2 by 3, and a row of 6 as a whole.
fn call() -> Call {
    let axis = |axis, chunks| InputAxis::Chunk { axis, chunks, before: 0, after: 0 };
    Call {
        function: "add".into(),
        version: "1".into(),
        parameters: serde_json::json!({ "by": 2 }),
        blocks: ChunkGrid(vec![regular(5, 2), regular(6, 3)]),
        inputs: vec![vec![axis(0, regular(5, 2)), axis(1, regular(6, 3))], vec![InputAxis::Whole]],
        output: 0,
        outputs: 1,
        trim: None,
        memory: 100,
        bound: Bound::default(),
    }
}

fn types() -> [ArrayType; 3] {
    let ty = |shape: &[u64]| ArrayType::new(DType::Int64, shape.to_vec());
    [ty(&[5, 6]), ty(&[6]), ty(&[5, 6])]
}

/// Computes a region from all of the inputs that it demands.
fn compute(call: Call, region: &Region) -> Result<Block, KernelError> {
    let [a, b, output] = types();
    let inputs = [a, b];
    let kernel = Kernel::Call(call);
    let node = Node { kernel: &kernel, inputs: &inputs, output: &output };
    node.check()?;
    let all = [block(&[5, 6]), block(&[6])];
    let demand = node.demand(region, None);
    let parts: Vec<Part> = demand.into_iter().map(|d| Part { block: all[d.input].slice(&d.region), region: d.region }).collect();
    node.compute(region, &parts)
}

#[test]
fn a_function_sees_one_block_whatever_region_is_wanted() {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let seen = calls.clone();
    let function = move |at: &Invocation<'_>, inputs: &[Block]| -> Result<Vec<Block>, FunctionError> {
        seen.lock().unwrap().push((at.block.clone(), at.region.clone(), at.inputs.to_vec()));
        let by = at.parameters["by"].as_i64().unwrap();
        let row = i64::unwrap(&inputs[1]).unwrap().sum();
        Ok(vec![i64::wrap(i64::unwrap(&inputs[0]).unwrap().mapv(|v| v * by + row).into_shared())])
    };
    let bound = Call { bound: Bound::to(Arc::new(function)), ..call() };
    let whole = compute(bound.clone(), &Region::full(&[5, 6])).unwrap();
    let expected: Vec<i64> = (0..30).map(|v| v * 2 + 15).collect();
    assert_eq!(i64::unwrap(&whole).unwrap().iter().copied().collect::<Vec<_>>(), expected);
    assert_eq!(calls.lock().unwrap().len(), 6);
    for (start, shape) in [([2, 3], [2, 3]), ([1, 2], [2, 2]), ([4, 0], [1, 6]), ([0, 0], [1, 1])] {
        calls.lock().unwrap().clear();
        let region = Region::new(start, shape);
        let got = compute(bound.clone(), &region).unwrap();
        assert_eq!(
            i64::unwrap(&got).unwrap().iter().copied().collect::<Vec<_>>(),
            i64::unwrap(&whole.slice(&region)).unwrap().iter().copied().collect::<Vec<_>>()
        );
        let calls = calls.lock().unwrap();
        assert_eq!(Some(calls.len() as u64), KernelKind::blocks(&bound, &region));
        for (block, region, inputs) in calls.iter() {
            assert_eq!(*region, bound.blocks.region(block));
            assert_eq!(inputs[..], [region.clone(), Region::full(&[6])]);
        }
    }
}

#[test]
fn a_halo_ends_where_the_array_does() {
    let halo = |axis, len, size| InputAxis::Chunk { axis, chunks: regular(len, size), before: 1, after: 2 };
    let call = Call { inputs: vec![vec![halo(0, 5, 2), halo(1, 6, 3)], vec![InputAxis::Whole]], ..call() };
    let [a, b, output] = types();
    let inputs = [a, b];
    let at = Types { inputs: &inputs, output: &output };
    let taken = |start: [u64; 2], shape: [u64; 2]| call.demand(at, &Region::new(start, shape), None)[0].region.clone();
    assert_eq!(taken([2, 0], [2, 3]), Region::new([1, 0], [4, 5]));
    assert_eq!(taken([4, 3], [1, 1]), Region::new([3, 2], [2, 4]));
    assert_eq!(taken([0, 0], [5, 6]), Region::full(&[5, 6]));
}

#[test]
fn what_is_around_a_block_is_cut_off_again() {
    let halo = |axis, len, size| InputAxis::Chunk { axis, chunks: regular(len, size), before: 1, after: 1 };
    let function = |_: &Invocation<'_>, inputs: &[Block]| -> Result<Vec<Block>, FunctionError> { Ok(vec![inputs[0].clone()]) };
    let inputs = vec![vec![halo(0, 5, 2), halo(1, 6, 3)], vec![InputAxis::Whole]];
    let call = Call { bound: Bound::to(Arc::new(function)), inputs, trim: Some(vec![0, 0]), ..call() };
    let got = compute(call.clone(), &Region::full(&[5, 6])).unwrap();
    assert_eq!(i64::unwrap(&got).unwrap().iter().copied().collect::<Vec<_>>(), Vec::from_iter(0..30));
    assert!(compute(Call { trim: Some(vec![1, 0]), ..call.clone() }, &Region::full(&[5, 6])).is_err());
    assert!(compute(Call { trim: Some(vec![0]), ..call }, &Region::full(&[5, 6])).is_err());
}

#[test]
fn what_a_function_returns_is_checked() {
    let failing = |function: fn(&Invocation<'_>, &[Block]) -> Result<Vec<Block>, FunctionError>| {
        let bound = Call { bound: Bound::to(Arc::new(function)), ..call() };
        compute(bound, &Region::full(&[5, 6])).unwrap_err().to_string()
    };
    let message = failing(|_, _| Ok(vec![]));
    assert!(message.contains("'add' (version 1)") && message.contains("[0, 0]") && message.contains("0 blocks"), "{message}");
    let message = failing(|_, inputs| Ok(vec![inputs[1].clone()]));
    assert!(message.contains("int64 [6], and int64 [2, 3] is expected"), "{message}");
    assert!(failing(|_, _| Ok(vec![Block::zeros(DType::Float32, &[2, 3])])).contains("returned float32"));
    assert!(failing(|_, _| Err("no such luck".into())).contains("no such luck"));
    let unbound = compute(call(), &Region::full(&[5, 6])).unwrap_err().to_string();
    assert!(unbound.contains("does not have it"), "{unbound}");
}

#[test]
fn one_of_several_outputs_is_taken() {
    let function = |at: &Invocation<'_>, inputs: &[Block]| -> Result<Vec<Block>, FunctionError> {
        Ok(vec![Block::zeros(DType::Bool, &at.region.shape), inputs[0].clone()])
    };
    let both = Call { bound: Bound::to(Arc::new(function)), outputs: 2, output: 1, ..call() };
    let got = compute(both.clone(), &Region::full(&[5, 6])).unwrap();
    assert_eq!(i64::unwrap(&got).unwrap().iter().sum::<i64>(), 435);
    assert!(compute(Call { output: 2, ..both }, &Region::full(&[5, 6])).is_err());
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |change: &dyn Fn(&mut Call)| {
        let mut call = call();
        change(&mut call);
        let [a, b, output] = types();
        Node { kernel: &Kernel::Call(call), inputs: &[a, b], output: &output }.check().is_err()
    };
    assert!(!refused(&|_| {}));
    assert!(refused(&|c| c.function.clear()));
    assert!(refused(&|c| c.outputs = 0));
    assert!(refused(&|c| c.inputs.truncate(1)));
    assert!(refused(&|c| c.inputs[1].push(InputAxis::Whole)));
    assert!(refused(&|c| c.blocks = ChunkGrid(vec![regular(5, 2), regular(7, 3)])));
    assert!(refused(&|c| c.inputs[0][0] = InputAxis::Chunk { axis: 2, chunks: regular(5, 2), before: 0, after: 0 }));
    assert!(refused(&|c| c.inputs[0][0] = InputAxis::Chunk { axis: 0, chunks: regular(5, 1), before: 0, after: 0 }));
    assert!(refused(&|c| c.inputs[0][0] = InputAxis::Chunk { axis: 0, chunks: regular(4, 2), before: 0, after: 0 }));
    assert!(refused(&|c| c.inputs[0][0] = InputAxis::Chunk { axis: 0, chunks: AxisChunks::Irregular(vec![]), before: 0, after: 0 }));
}

#[test]
fn a_plan_has_no_code() {
    let function = |_: &Invocation<'_>, _: &[Block]| -> Result<Vec<Block>, FunctionError> { Ok(vec![]) };
    let bound = Kernel::Call(Call { bound: Bound::to(Arc::new(function)), ..call() });
    let text = serde_json::to_string(&bound).unwrap();
    let read: Kernel = serde_json::from_str(&text).unwrap();
    assert_eq!(read, Kernel::Call(call()));
    assert!(text.contains("\"function\":\"add\"") && !text.contains("bound"));
}
