//! Functions of users: results against the same computation on the whole array, and refusals.

#![allow(clippy::unwrap_used)]

use chunkwise::executor::RunOptions;
use chunkwise::kernels::{Block, BlockElement, FunctionError, Invocation, PadMode};
use chunkwise::ops::call::{self, Named, Output, Reduction};
use chunkwise::ops::stencil::Boundary;
use chunkwise::types::Scalar;
use chunkwise::{DType, Expr, Runtime, RuntimeBuilder, Session, ops};
use ndarray::{ArrayD, Axis};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

type Made = Result<Vec<Block>, FunctionError>;

fn numbers(shape: &[u64], chunks: &[u64]) -> Expr {
    let n = shape.iter().product::<u64>() as i128;
    let flat = ops::create::arange(Scalar::Int(0), Scalar::Int(n), Scalar::Int(1), None, None).unwrap();
    let shaped = ops::manipulate::reshape(&flat, &shape.iter().map(|&n| n as i64).collect::<Vec<_>>()).unwrap();
    let grid = chunkwise::types::ChunkGrid::regular(shape, chunks);
    let one = ops::create::full(shape, Scalar::Int(0), DType::Int64, Some(chunks)).unwrap();
    assert_eq!(*one.chunks(), grid);
    Expr::from(one) + Expr::from(shaped)
}

fn session(builder: RuntimeBuilder, name: &str) -> Session {
    builder.build().unwrap().session(400_000_000, 2, &format!("memory:functions-{name}")).unwrap()
}

fn ints(block: &Block) -> ArrayD<i64> {
    i64::unwrap(block).unwrap().to_owned()
}

fn made(array: ArrayD<i64>) -> Made {
    Ok(vec![i64::wrap(array.into_shared())])
}

#[test]
fn a_function_is_called_once_for_each_block() {
    let calls = Arc::new(AtomicUsize::new(0));
    for (shape, chunks) in [([7, 9], [3, 4]), ([8, 8], [2, 8]), ([5, 3], [5, 3]), ([9, 10], [1, 3])] {
        calls.store(0, Ordering::SeqCst);
        let counted = calls.clone();
        let double = move |_: &Invocation<'_>, inputs: &[Block]| {
            counted.fetch_add(1, Ordering::SeqCst);
            made(ints(&inputs[0]) * 2)
        };
        let session = session(Runtime::builder().function("double", "1", double), &format!("map-{chunks:?}"));
        let x = numbers(&shape, &chunks);
        let doubled = x.map_blocks(&Named::new("double", "1", 0), &[], DType::Int64);
        let both = (&doubled + &x).compute::<i64>(&session).unwrap();
        let n = shape.iter().product::<u64>() as i64;
        assert_eq!(both.into_raw_vec_and_offset().0, (0..n).map(|v| 3 * v).collect::<Vec<_>>());
        let blocks = shape.iter().zip(&chunks).map(|(n, c)| n.div_ceil(*c)).product::<u64>();
        assert_eq!(calls.load(Ordering::SeqCst) as u64, blocks);
        // A reduction of it does not call it again, either.
        calls.store(0, Ordering::SeqCst);
        let total = doubled.sum(&["0", "1"]).compute::<i64>(&session).unwrap();
        assert_eq!(total.into_raw_vec_and_offset().0, [n * (n - 1)]);
        assert_eq!(calls.load(Ordering::SeqCst) as u64, blocks);
    }
}

/// A fold takes the blocks in turn in the task that calls the function: nothing is stored between them, whatever is folded.
#[test]
fn a_fold_of_what_a_function_returns_calls_it_once_for_each_block() {
    let calls = Arc::new(AtomicUsize::new(0));
    for (shape, chunks) in [
        ([40, 9], [1, 9]),
        ([60, 60], [5, 5]),
        ([64, 3], [4, 3]),
        ([3, 64], [3, 4]),
        ([7, 90], [4, 7]),
        ([64, 65_536], [2, 65_536]),
        ([512, 8192], [128, 512]),
    ] {
        let counted = calls.clone();
        let tripled = move |_: &Invocation<'_>, inputs: &[Block]| {
            counted.fetch_add(1, Ordering::SeqCst);
            let x = ints(&inputs[0]);
            made(x.mapv(|v| v % 1000 * 3))
        };
        let session = session(Runtime::builder().function("tripled", "1", tripled), &format!("fold-{shape:?}"));
        let x = numbers(&shape, &chunks);
        let results = x.map_blocks(&Named::new("tripled", "1", 0), &[], DType::Int64);
        let n = shape.iter().product::<u64>() as i64;
        let all = ArrayD::from_shape_vec(vec![shape[0] as usize, shape[1] as usize], (0..n).map(|v| v % 1000 * 3).collect()).unwrap();
        let blocks = shape.iter().zip(&chunks).map(|(n, c)| n.div_ceil(*c)).product::<u64>();
        let folds = [
            (vec!["0", "1"], all.sum_axis(Axis(0)).sum_axis(Axis(0))),
            (vec!["0"], all.sum_axis(Axis(0))),
            (vec!["1"], all.sum_axis(Axis(1))),
        ];
        for (axes, expected) in folds {
            calls.store(0, Ordering::SeqCst);
            let fold = results.sum(&axes);
            let plan = session.plan(&[session.request("memory:fold", &fold.array().unwrap()).unwrap()]).unwrap();
            // Small blocks may be stored, so that several tasks call the function.
            assert!(chunks[0] * chunks[1] < 1 << 17 || plan.arrays.values().all(|a| a.shape != shape), "{shape:?} {axes:?}");
            let total = fold.compute::<i64>(&session).unwrap();
            assert_eq!(total, expected.into_dyn(), "{shape:?} {axes:?}");
            assert_eq!(calls.load(Ordering::SeqCst) as u64, blocks, "{shape:?} {axes:?}");
        }
    }
}

/// The sum of each element and its neighbours on the first axis; at the ends what is there.
fn sums(_: &Invocation<'_>, inputs: &[Block]) -> Made {
    let a = ints(&inputs[0]);
    let n = a.shape()[0];
    let mut out = a.clone();
    for i in 0..n {
        for j in [i.wrapping_sub(1), i + 1] {
            if j < n {
                let row = a.index_axis(Axis(0), j).to_owned();
                out.index_axis_mut(Axis(0), i).scaled_add(1, &row);
            }
        }
    }
    made(out)
}

#[test]
fn what_is_around_a_block_does_not_depend_on_the_chunks() {
    let session = session(Runtime::builder().function("sums", "1", sums), "overlap");
    let named = Named::new("sums", "1", 1 << 16);
    let expected = |boundary: Boundary| {
        let whole = numbers(&[11, 4], &[11, 4]).compute::<i64>(&session).unwrap();
        let row = |i: i64| -> Option<ndarray::Array1<i64>> {
            let at = match boundary {
                _ if (0..11).contains(&i) => i,
                Boundary::Pad(PadMode::Edge, _) => i.clamp(0, 10),
                Boundary::Pad(PadMode::Wrap, _) => i.rem_euclid(11),
                Boundary::Pad(..) => return Some(ndarray::Array1::from_elem(4, 7)),
                Boundary::None => return None,
            };
            Some(whole.index_axis(Axis(0), at as usize).iter().copied().collect())
        };
        let sum = |i: i64| [i - 1, i, i + 1].into_iter().filter_map(row).fold(ndarray::Array1::zeros(4), |a, b| a + b);
        (0..11).flat_map(|i| sum(i).to_vec()).collect::<Vec<i64>>()
    };
    let modes = [PadMode::Edge, PadMode::Wrap, PadMode::Constant].map(|mode| Boundary::Pad(mode, Scalar::Int(7)));
    for boundary in modes.into_iter().chain([Boundary::None]) {
        for chunks in [[11, 4], [4, 4], [3, 3], [1, 2], [10, 1]] {
            let got = numbers(&[11, 4], &chunks).map_overlap(&named, &[1, 0], boundary, DType::Int64);
            let got = got.compute::<i64>(&session).unwrap().into_raw_vec_and_offset().0;
            assert_eq!(got, expected(boundary), "{boundary:?} in chunks of {chunks:?}");
        }
    }
}

#[test]
fn a_reduction_is_a_tree() {
    let most = |_: &Invocation<'_>, inputs: &[Block]| -> Made {
        let a = ints(&inputs[0]);
        assert!(a.shape()[0] <= 4);
        made(a.map_axis(Axis(0), |lane| lane.iter().copied().max().unwrap()).insert_axis(Axis(0)))
    };
    let session = session(Runtime::builder().function("most", "1", most), "reduce");
    let most = Named::new("most", "1", 1 << 16);
    let reduction =
        Reduction { chunk: most.clone(), combine: most.clone(), aggregate: most, partial: DType::Int64, dtype: DType::Int64, at_once: 4 };
    for n in [1, 4, 5, 97] {
        let x = -numbers(&[n, 3], &[2, 2]);
        let got = x.reduce_with(&reduction, &["0"], false).compute::<i64>(&session).unwrap();
        assert_eq!((got.shape(), got.iter().copied().collect::<Vec<_>>()), (&[3][..], vec![0, -1, -2]));
    }
}

#[test]
fn axes_are_taken_by_their_labels() {
    let product = |_: &Invocation<'_>, inputs: &[Block]| -> Made {
        let two = |b: &Block| ints(b).into_dimensionality::<ndarray::Ix2>().unwrap();
        made(two(&inputs[0]).dot(&two(&inputs[1])).into_dyn())
    };
    let both = |_: &Invocation<'_>, inputs: &[Block]| -> Made {
        let a = ints(&inputs[0]);
        let least = a.map_axis(Axis(1), |lane| lane.iter().copied().min().unwrap());
        Ok(vec![i64::wrap(least.into_shared()), i64::wrap((a * 10).into_shared())])
    };
    let session = session(Runtime::builder().function("product", "1", product).function("both", "1", both), "labels");
    let (a, b) = (numbers(&[5, 6], &[2, 3]).array().unwrap(), numbers(&[6, 4], &[4, 3]).array().unwrap());
    let named = Named::new("product", "1", 1 << 16);
    let c = call::blockwise(&named, &[Output::new(&[0, 2], DType::Int64)], &[(&a, vec![0, 1]), (&b, vec![1, 2])]).unwrap();
    let got = Expr::from(&c[0]).compute::<i64>(&session).unwrap();
    let whole = |e: &ops::Array| Expr::from(e).compute::<i64>(&session).unwrap().into_dimensionality::<ndarray::Ix2>().unwrap();
    assert_eq!(got, whole(&a).dot(&whole(&b)).into_dyn());

    let outputs = [Output::new(&[0], DType::Int64), Output::new(&[0, 1], DType::Int64)];
    let made = call::blockwise(&Named::new("both", "1", 1 << 16), &outputs, &[(&a, vec![0, 1])]).unwrap();
    assert_eq!(made[0].chunks().counts(), [3]);
    let refused = call::blockwise(&named, &[Output::new(&[0, 9], DType::Int64)], &[(&a, vec![0, 1])]).unwrap_err().to_string();
    assert!(refused.contains("its chunks must be given"), "{refused}");
    let refused = call::map_blocks(&named, &[&a, &b], DType::Int64).unwrap_err().to_string();
    assert!(refused.contains("lengths"), "{refused}");
}

#[test]
fn a_program_without_the_function_refuses_the_plan() {
    let x = numbers(&[4, 4], &[2, 2]).map_blocks(&Named::new("mystery", "3", 0), &[], DType::Int64);
    let refused = |builder: RuntimeBuilder, name: &str| {
        let session = session(builder, name);
        let plan = session.plan(&[session.request("memory:mystery", &x.array().unwrap()).unwrap()]).unwrap();
        session.run(plan, None, &RunOptions::default()).unwrap_err().to_string()
    };
    let message = refused(Runtime::builder(), "none");
    assert!(message.contains("'mystery' in version '3'") && message.contains("does not have"), "{message}");
    let older = |_: &Invocation<'_>, _: &[Block]| -> Made { Ok(vec![]) };
    let message = refused(Runtime::builder().function("mystery", "2", older), "older");
    assert!(message.contains("has in version '2'"), "{message}");
    let wrong = refused(Runtime::builder().function("mystery", "3", older), "wrong");
    assert!(wrong.contains("returned 0 blocks"), "{wrong}");
}

#[test]
fn what_a_function_takes_is_in_the_projection() {
    let session = session(Runtime::builder(), "memory");
    let plan = |memory: u64| {
        let x = numbers(&[1000, 1000], &[500, 1000]).map_blocks(&Named::new("f", "1", memory), &[], DType::Int64);
        session.plan(&[session.request("memory:projected", &x.array().unwrap()).unwrap()])
    };
    let need = |memory: u64| plan(memory).unwrap().stages.iter().map(|s| s.projected_mem).max().unwrap();
    assert!(need(100_000_000) >= need(0) + 100_000_000);
    let message = plan(1_580_000_000).unwrap_err().to_string();
    assert!(message.contains("1.6 GB") || message.contains("1.58 GB"), "{message}");
}

#[test]
fn what_is_known_of_a_function_counts_instead_of_what_was_assumed() {
    let need = |calls: &[(&str, u64)]| {
        let known = calls.iter().map(|(version, memory)| (version.to_string(), *memory)).collect();
        let session = session(Runtime::builder(), "known").with_call_memory(known);
        let x = numbers(&[1000, 1000], &[500, 1000]).map_blocks(&Named::new("f", "1", 50_000_000), &[], DType::Int64);
        let plan = session.plan(&[session.request("memory:known", &x.array().unwrap()).unwrap()]).unwrap();
        plan.stages.iter().map(|s| s.projected_mem).max().unwrap()
    };
    let assumed = need(&[("another", 1)]);
    assert!(need(&[("1", 150_000_000)]) >= assumed + 100_000_000);
    assert!(need(&[("1", 10_000_000)]) <= assumed - 40_000_000);
}

#[test]
fn functions_that_do_not_fit_together_run_one_after_another() {
    let plus = |_: &Invocation<'_>, inputs: &[Block]| made(ints(&inputs[0]) + 1);
    let session = session(Runtime::builder().function("plus", "1", plus), "apart");
    let x = numbers(&[6, 4], &[2, 4]);
    let large = Named::new("plus", "1", 150_000_000);
    let chain = (0..5).fold(x.clone(), |x, _| x.map_blocks(&large, &[], DType::Int64));
    let found = chain.compute::<i64>(&session).unwrap();
    assert_eq!(found.into_raw_vec_and_offset().0, (5..29).collect::<Vec<i64>>());
    // Each by itself must fit.
    let too_large = x.map_blocks(&Named::new("plus", "1", 500_000_000), &[], DType::Int64).map_blocks(&large, &[], DType::Int64);
    let refused = too_large.compute::<i64>(&session).unwrap_err().to_string();
    assert!(refused.contains("allow at least 58"), "{refused}");
}
