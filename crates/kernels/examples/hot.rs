//! Runs one hot kernel some times on a block that stays in cache: `hot NAME TIMES`; without arguments the names.
//!
//! `benches/instructions.py` counts the instructions of a run with a few more times against one with fewer.

use chunkwise_kernels::{ArrayType, Block, Contract, ElementOp, Kernel, Node, Part, ReduceOp, Stencil, StencilOp, cast};
use chunkwise_types::{DType, Region};
use std::error::Error;

const SHAPE: [u64; 2] = [64, 512];

/// Numbers between 0.1 and 0.9, in no order; those of integers are between 10 and 90.
fn block(dtype: DType, shape: &[u64], seed: u64) -> Result<Block, Box<dyn Error>> {
    let mut state = seed;
    let made = Block::from_bytes_with(DType::Float64, shape, |bytes| {
        for to in bytes.chunks_exact_mut(8) {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let x = 0.1 + 0.8 * ((state >> 11) as f64 / (1u64 << 53) as f64);
            to.copy_from_slice(&if dtype.is_integer() { 100.0 * x } else { x }.to_ne_bytes());
        }
        Ok::<(), std::fmt::Error>(())
    })?;
    Ok(cast(&made, dtype))
}

struct Case {
    kernel: Kernel,
    inputs: Vec<(DType, Vec<u64>)>,
    output: ArrayType,
}

fn element(function: ElementOp, dtype: DType) -> Case {
    Case {
        kernel: Kernel::Element { function },
        inputs: vec![(dtype, SHAPE.to_vec()); function.arity()],
        output: ArrayType::new(dtype, SHAPE.to_vec()),
    }
}

fn reduce(function: ReduceOp, dtype: DType, axes: &[usize]) -> Result<Case, Box<dyn Error>> {
    let mut shape: Vec<u64> = (0..2).filter(|i| !axes.contains(i)).map(|i| SHAPE[i]).collect();
    shape.extend(function.parts());
    Ok(Case {
        kernel: Kernel::Reduce { function, axes: axes.to_vec(), segments: None },
        inputs: vec![(dtype, SHAPE.to_vec())],
        output: ArrayType::new(function.result_dtype(dtype)?, shape),
    })
}

fn product(dtype: DType) -> Case {
    Case {
        kernel: Kernel::Contract(Contract { a: vec![0, 1], b: vec![1, 2], out: vec![0, 2], segments: None }),
        inputs: vec![(dtype, vec![128, 128]); 2],
        output: ArrayType::new(dtype, vec![128, 128]),
    }
}

/// `Aᵀ A`, of one block.
fn symmetric(dtype: DType) -> Case {
    Case {
        kernel: Kernel::Contract(Contract { a: vec![0, 1], b: vec![0, 2], out: vec![1, 2], segments: None }),
        inputs: vec![(dtype, vec![128, 256]); 2],
        output: ArrayType::new(dtype, vec![256, 256]),
    }
}

fn cases() -> Result<Vec<(&'static str, Case)>, Box<dyn Error>> {
    let stencil = Stencil { window: vec![3, 3], function: StencilOp::Mean };
    let (f4, f8, i1, i4) = (DType::Float32, DType::Float64, DType::Int8, DType::Int32);
    let cast_to = |from: DType, to: DType| Case {
        kernel: Kernel::Cast,
        inputs: vec![(from, SHAPE.to_vec())],
        output: ArrayType::new(to, SHAPE.to_vec()),
    };
    Ok(vec![
        ("add f32", element(ElementOp::Add, f4)),
        ("add i8", element(ElementOp::Add, i1)),
        ("multiply f64", element(ElementOp::Multiply, f8)),
        ("maximum f64", element(ElementOp::Maximum, f8)),
        ("exp f32", element(ElementOp::Exp, f4)),
        ("exp f64", element(ElementOp::Exp, f8)),
        ("log f64", element(ElementOp::Log, f8)),
        ("sin f64", element(ElementOp::Sin, f8)),
        ("sin f32", element(ElementOp::Sin, f4)),
        ("log10 f32", element(ElementOp::Log10, f4)),
        ("tanh f32", element(ElementOp::Tanh, f4)),
        ("pow f32", element(ElementOp::Pow, f4)),
        ("pow f64", element(ElementOp::Pow, f8)),
        ("exp c128", element(ElementOp::Exp, DType::Complex128)),
        ("cast f32 f64", cast_to(f4, f8)),
        ("cast f64 i32", cast_to(f8, i4)),
        ("sum f32 last", reduce(ReduceOp::Sum, f4, &[1])?),
        ("sum f32 first", reduce(ReduceOp::Sum, f4, &[0])?),
        ("sum f64 all", reduce(ReduceOp::Sum, f8, &[0, 1])?),
        ("max f32 first", reduce(ReduceOp::Max, f4, &[0])?),
        ("max i32 last", reduce(ReduceOp::Max, i4, &[1])?),
        ("max f64 last", reduce(ReduceOp::Max, f8, &[1])?),
        ("arg_min f64 last", reduce(ReduceOp::ArgMin, f8, &[1])?),
        ("any bool first", reduce(ReduceOp::Any, DType::Bool, &[0])?),
        ("count i8 all", reduce(ReduceOp::CountNonzero, i1, &[0, 1])?),
        ("moments f32 first", reduce(ReduceOp::Moments { skip_nan: false }, f4, &[0])?),
        (
            "group mean f32",
            Case {
                kernel: Kernel::Group {
                    function: ReduceOp::Mean { skip_nan: true },
                    axis: 0,
                    labels: (0..64).map(|i| i % 12).collect(),
                    groups: 12,
                },
                inputs: vec![(f4, SHAPE.to_vec())],
                output: ArrayType::new(f4, vec![12, SHAPE[1]]),
            },
        ),
        (
            "stencil mean f32",
            Case {
                kernel: Kernel::Stencil(stencil),
                inputs: vec![(f4, SHAPE.to_vec())],
                output: ArrayType::new(f4, vec![SHAPE[0] - 2, SHAPE[1] - 2]),
            },
        ),
        ("matmul f32", product(f4)),
        ("matmul f64", product(f8)),
        ("matmul i32", product(i4)),
        ("symmetric f32", symmetric(f4)),
        ("symmetric f64", symmetric(f8)),
    ])
}

fn main() -> Result<(), Box<dyn Error>> {
    let (name, times) = (std::env::args().nth(1), std::env::args().nth(2));
    let cases = cases()?;
    let Some(name) = name else {
        cases.iter().for_each(|(name, _)| println!("{name}"));
        return Ok(());
    };
    let (_, case) = cases.iter().find(|(n, _)| *n == name).ok_or("there is no such kernel")?;
    let inputs: Vec<ArrayType> = case.inputs.iter().map(|(dtype, shape)| ArrayType::new(*dtype, shape.clone())).collect();
    let node = Node { kernel: &case.kernel, inputs: &inputs, output: &case.output };
    node.check()?;
    let region = Region::full(&case.output.shape);
    let mut parts = node
        .demand(&region, None)
        .into_iter()
        .zip(&case.inputs)
        .zip(1..)
        .map(|((d, (dtype, shape)), seed)| Ok(Part { region: d.region, block: block(*dtype, shape, seed)? }))
        .collect::<Result<Vec<Part>, Box<dyn Error>>>()?;
    if name.starts_with("symmetric") {
        parts[1] = parts[0].clone();
    }
    for _ in 0..times.map_or(Ok(1), |t| t.parse())? {
        std::hint::black_box(node.compute(&region, std::hint::black_box(&parts))?);
    }
    Ok(())
}
