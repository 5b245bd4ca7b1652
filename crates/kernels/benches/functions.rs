//! Every element-wise function, cast and reduction on warm blocks of 8 MB, and fused chains; outputs are newly allocated.
//!
//! `benches/numpy_functions.py` runs this and NumPy on the same and prints the ratios.

use chunkwise_kernels::{ArrayType, Block, ElementOp, Fused, FusedOp, Kernel, Node, Operand, Part, ReduceOp, Scratch, ViewAxis, cast};
use chunkwise_types::{DType, DTypeKind, Region};
use divan::Bencher;
use std::fmt;

/// The program's own allocator, so that outputs are had as in a task. With one that gives memory back to the system and takes it anew for
/// every output, the benchmark would measure page faults.
#[global_allocator]
static ALLOCATOR: chunkwise_allocator::Allocator = chunkwise_allocator::Allocator;

/// Bytes of an input.
const BYTES: u64 = 8 << 20;
/// Rows of a block.
const ROWS: u64 = 1024;

fn main() {
    divan::main();
}

/// Numbers between 0.1 and 0.9 (floats, both parts of complex ones), 1 to 100 (integers) or either (bool), in no order.
fn block(dtype: DType, seed: u64) -> Block {
    block_from(dtype, seed, 0.1)
}

/// As [`block`], with floats from `low` to 0.8 more.
fn block_from(dtype: DType, seed: u64, low: f64) -> Block {
    let shape = [ROWS, BYTES / dtype.size() / ROWS];
    let complex = dtype.kind() == DTypeKind::Complex;
    let (kind, parts) = if complex { (DType::Complex128, 2) } else { (DType::Float64, 1) };
    let n = (shape[0] * shape[1] * parts) as usize;
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as f64 / (1u64 << 31) as f64
    };
    let data: Vec<f64> = (0..n).map(|_| next()).collect();
    let filled = Block::from_bytes_with(kind, &shape, |bytes| {
        for (to, x) in bytes.chunks_exact_mut(8).zip(&data) {
            let x = match dtype {
                DType::Bool => x.round(),
                d if d.is_integer() => 1.0 + (x * 99.0).floor(),
                _ => low + 0.8 * x,
            };
            to.copy_from_slice(&x.to_ne_bytes());
        }
        Ok::<(), ()>(())
    });
    filled.map(|b| cast(&b, dtype)).unwrap_or_else(|()| Block::zeros(dtype, &shape))
}

/// A kernel on blocks of one shape.
#[derive(Clone)]
struct Case {
    name: String,
    kernel: Kernel,
    inputs: Vec<DType>,
    output: DType,
    /// The shape of the output of a reduction.
    shape: Option<Vec<u64>>,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Case {
    fn bench(&self, bencher: Bencher<'_, '_>) {
        let blocks: Vec<Block> = match self.inputs[..] {
            // The condition of `where` is as long as the others.
            [DType::Bool, a, b] => {
                let (x, y) = (block(a, 1), block(b, 2));
                let condition = block(DType::Bool, 3).slice(&Region::full(&x.shape())).contiguous();
                vec![condition, x, y]
            }
            // Products of many numbers around 1 neither overflow nor become denormal, which would be timed instead.
            [dtype] if matches!(self.kernel, Kernel::Reduce { function: ReduceOp::Prod, .. }) => vec![block_from(dtype, 1, 0.6)],
            _ => self.inputs.iter().zip(1..).map(|(&d, seed)| block(d, seed)).collect(),
        };
        let types: Vec<ArrayType> = blocks.iter().map(|b| ArrayType::new(b.dtype(), b.shape())).collect();
        let output = ArrayType::new(self.output, self.shape.clone().unwrap_or_else(|| types[0].shape.clone()));
        let parts: Vec<Part> = blocks.into_iter().map(|block| Part { region: Region::full(&block.shape()), block }).collect();
        let node = Node { kernel: &self.kernel, inputs: &types, output: &output };
        let region = Region::full(&output.shape);
        bencher.bench_local(|| node.compute(&region, &parts).map(|b| b.shape().len()).unwrap_or(usize::MAX));
    }
}

fn functions() -> Vec<Case> {
    let mut cases = Vec::new();
    for &function in ElementOp::ALL {
        for dtype in DType::ALL {
            let mut inputs = vec![dtype; function.arity()];
            if function == ElementOp::Where {
                inputs[0] = DType::Bool;
            }
            if let Ok((casts, output)) = function.result_dtype(&inputs)
                && casts == inputs
            {
                let name = format!("{} {dtype}", function.name());
                cases.push(Case { name, kernel: Kernel::Element { function }, inputs, output, shape: None });
            }
        }
    }
    cases
}

#[divan::bench(args = functions(), sample_count = 400, sample_size = 1, max_time = 0.1)]
fn function(bencher: Bencher<'_, '_>, case: &Case) {
    case.bench(bencher);
}

fn casts() -> Vec<Case> {
    let pairs = DType::ALL.into_iter().flat_map(|a| DType::ALL.into_iter().map(move |b| (a, b)));
    pairs
        .filter(|(a, b)| a != b)
        .map(|(a, b)| Case { name: format!("{a} {b}"), kernel: Kernel::Cast, inputs: vec![a], output: b, shape: None })
        .collect()
}

#[divan::bench(args = casts(), sample_count = 400, sample_size = 1, max_time = 0.1)]
fn astype(bencher: Bencher<'_, '_>, case: &Case) {
    case.bench(bencher);
}

fn reductions() -> Vec<Case> {
    use ReduceOp::*;
    let mut cases = Vec::new();
    for op in [Sum, Prod, Min, Max, Any, All, CountNonzero, ArgMin, ArgMax, Mean { skip_nan: false }, Moments { skip_nan: false }] {
        for dtype in DType::ALL {
            let Ok(output) = op.result_dtype(dtype) else { continue };
            for (axis, axes) in [("first", vec![0]), ("last", vec![1]), ("all", vec![0, 1])] {
                let input = [ROWS, BYTES / dtype.size() / ROWS];
                let kept = (0..2).filter(|i| !axes.contains(i)).map(|i| input[i]);
                let shape = Some(kept.chain(op.parts()).collect());
                let name = format!("{} {dtype} {axis}", op.name());
                cases.push(Case {
                    name,
                    kernel: Kernel::Reduce { function: op, axes, segments: None },
                    inputs: vec![dtype],
                    output,
                    shape,
                });
            }
        }
    }
    cases
}

#[divan::bench(args = reductions(), sample_count = 400, sample_size = 1, max_time = 0.1)]
fn reduce(bencher: Bencher<'_, '_>, case: &Case) {
    case.bench(bencher);
}

/// Twelve operations on two inputs, in one program: `((x + y) * x - y) ...`.
fn twelve(dtype: DType) -> Option<Fused> {
    use ElementOp::*;
    let functions = [Add, Multiply, Subtract, Maximum, Multiply, Add, Minimum, Subtract, Multiply, Add, Multiply, Subtract];
    let ops: Vec<FusedOp> = functions
        .iter()
        .enumerate()
        .map(|(i, &f)| FusedOp { function: Some(f), inputs: vec![if i == 0 { 0 } else { i + 1 }, 1 - i % 2], dtype })
        .collect();
    Fused::new(&[dtype, dtype], &ops, &[13]).ok()
}

#[divan::bench(args = [DType::Float32, DType::Float64, DType::Int32], sample_count = 30)]
fn twelve_fused(bencher: Bencher<'_, '_>, dtype: DType) {
    let (Some(program), x, y) = (twelve(dtype), block(dtype, 1), block(dtype, 2)) else { return };
    let (shape, mut scratch) = (x.shape(), Scratch::default());
    let operands = [Operand::new(x), Operand::new(y)];
    bencher.bench_local(|| program.run(&operands, &shape, false, &mut scratch).map(|b| b.len()).unwrap_or(0));
}

/// The same on a tile of 64 Ki elements: what one tile costs.
#[divan::bench(args = [1 << 10, 1 << 12, 1 << 14, 1 << 16], sample_count = 30)]
fn twelve_fused_tile(bencher: Bencher<'_, '_>, n: u64) {
    let dtype = DType::Float64;
    let columns = n.min(1 << 10);
    let tile = Region::full(&[n / columns, columns]);
    let Some(program) = twelve(dtype) else { return };
    let operands = [1, 2].map(|seed| Operand::new(block(dtype, seed).slice(&tile).contiguous()));
    let mut scratch = Scratch::default();
    bencher.bench_local(|| program.run(&operands, &tile.shape, false, &mut scratch).map(|b| b.len()).unwrap_or(0));
}

/// A matrix minus a row, a column and a transposed matrix.
#[divan::bench(args = ["row", "column", "transposed", "step"], sample_count = 30)]
fn subtract_view(bencher: Bencher<'_, '_>, layout: &str) {
    let dtype = DType::Float64;
    let x = block(dtype, 1);
    let (shape, other) = (x.shape(), block(dtype, 2));
    let (from, axes) = match layout {
        "row" => (vec![1, shape[1]], [ViewAxis::In(0), ViewAxis::In(1)]),
        "column" => (vec![shape[0], 1], [ViewAxis::In(0), ViewAxis::In(1)]),
        "step" => (shape.clone(), [ViewAxis::In(0), ViewAxis::In(1)]),
        _ => (shape.clone(), [ViewAxis::In(1), ViewAxis::In(0)]),
    };
    let op = FusedOp { function: Some(ElementOp::Subtract), inputs: vec![0, 1], dtype };
    let Ok(program) = Fused::new(&[dtype; 2], &[op], &[2]) else { return };
    let Ok(view) = Operand::new(other.slice(&Region::new(vec![0, 0], from))).viewed(&axes, &shape) else { return };
    let operands = [Operand::new(x), view];
    let mut scratch = Scratch::default();
    bencher.bench_local(|| program.run(&operands, &shape, false, &mut scratch).map(|b| b.len()).unwrap_or(0));
}
