//! Random programs, prepared and evaluated tile by tile, give the same bits as one step after another on whole arrays.

use crate::evaluate::{Known, Prepared};
use chunkwise_kernels::{ArrayType, AxisMap, Block, Create, ElementOp, Kernel, Node, Part, ReduceOp, ViewAxis, cast};
use chunkwise_plan::demand::demands;
use chunkwise_plan::units::{Unit, Units};
use chunkwise_plan::{Program, Step};
use chunkwise_types::{DType, DTypeKind, Region, Scalar};
use fastrand::Rng;

fn step(kernel: Option<Kernel>, inputs: Vec<usize>, ty: ArrayType) -> Step {
    Step { read: kernel.is_none().then(|| "x".to_string()), kernel, inputs, ty, stream: None }
}

const SHAPE: [u64; 3] = [6, 5, 6];

/// A program of which every value but sums over an axis has the same shape.
fn program(rng: &mut Rng) -> Program {
    let of = |dtype: DType| ArrayType::new(dtype, SHAPE.to_vec());
    let dtypes = [DType::Bool, DType::Int16, DType::Int64, DType::UInt8, DType::Float32, DType::Float64];
    let mut steps: Vec<Step> = (0..1 + rng.usize(..3)).map(|_| step(None, vec![], of(*rng.choice(&dtypes).unwrap()))).collect();
    // The steps of that shape.
    let mut full: Vec<usize> = (0..steps.len()).collect();
    for _ in 0..3 + rng.usize(..12) {
        let from = *rng.choice(&full).unwrap();
        let dtype = steps[from].ty.dtype;
        match rng.usize(..9) {
            0 => steps.push(step(
                Some(Kernel::Create { what: Create::Full { value: Scalar::Int(rng.usize(..5) as i128) } }),
                vec![],
                of(dtype),
            )),
            1 => {
                let axes = vec![ViewAxis::In(2), ViewAxis::In(1), ViewAxis::In(0)];
                steps.push(step(Some(Kernel::View { axes }), vec![from], of(dtype)));
            }
            2 => {
                let flip = |n: u64, flip: bool| AxisMap::Slice { start: if flip { n - 1 } else { 0 }, step: if flip { -1 } else { 1 } };
                let axes = SHAPE.iter().map(|&n| flip(n, rng.usize(..2) == 0)).collect();
                steps.push(step(Some(Kernel::Gather { axes, fill: Scalar::Int(0) }), vec![from], of(dtype)));
            }
            3 => {
                // The greatest along an axis, and broadcast again.
                let axis = rng.usize(..3);
                let mut kept = SHAPE.to_vec();
                kept.remove(axis);
                let max = Kernel::Reduce { function: ReduceOp::Max, axes: vec![axis], segments: None };
                steps.push(step(Some(max), vec![from], ArrayType::new(dtype, kept)));
                let mut axes = vec![ViewAxis::In(0), ViewAxis::In(1)];
                axes.insert(axis, ViewAxis::New);
                steps.push(step(Some(Kernel::View { axes }), vec![steps.len() - 1], of(dtype)));
            }
            _ => {
                let function = *rng.choice(ElementOp::ALL).unwrap();
                let chosen: Vec<usize> = (0..function.arity()).map(|_| *rng.choice(&full).unwrap()).collect();
                let Ok((casts, out)) = function.result_dtype(&chosen.iter().map(|&i| steps[i].ty.dtype).collect::<Vec<_>>()) else {
                    continue;
                };
                let mut as_dtype = |i: usize, dtype: DType| {
                    if steps[i].ty.dtype == dtype {
                        return i;
                    }
                    steps.push(step(Some(Kernel::Cast), vec![i], of(dtype)));
                    steps.len() - 1
                };
                let mut inputs: Vec<usize> = chosen.iter().zip(&casts).map(|(&i, &dtype)| as_dtype(i, dtype)).collect();
                // A negative exponent of an integer is refused: exponents are made from what is not negative.
                if function == ElementOp::Pow && casts[1].kind() == DTypeKind::Signed {
                    let small = as_dtype(inputs[1], if casts[1] == DType::Int8 { DType::Bool } else { DType::UInt8 });
                    inputs[1] = as_dtype(small, casts[1]);
                }
                steps.push(step(Some(Kernel::Element { function }), inputs, of(out)));
            }
        }
        full = (0..steps.len()).filter(|&k| steps[k].ty.shape == SHAPE).collect();
    }
    Program { steps }
}

fn leaf(rng: &mut Rng, ty: &ArrayType) -> Block {
    let n = ty.shape.iter().product::<u64>() as usize;
    let numbers: Vec<f64> = (0..n).map(|_| *rng.choice(&[0.0, -1.0, 1.0, 2.5, -7.25, 100.0, f64::NAN, f64::INFINITY]).unwrap()).collect();
    let block = Block::from_bytes_with(DType::Float64, &ty.shape, |bytes| {
        bytes.chunks_exact_mut(8).zip(&numbers).for_each(|(to, x)| to.copy_from_slice(&x.to_ne_bytes()));
        Ok::<(), ()>(())
    });
    cast(&block.unwrap(), ty.dtype)
}

/// The bytes of a block. Every NaN is the same: no reduction promises which of several comes out.
fn bits(block: &Block) -> Vec<u8> {
    let mut bytes = block.contiguous().as_bytes().unwrap().to_vec();
    match block.dtype() {
        DType::Float32 | DType::Complex64 => bytes
            .chunks_exact_mut(4)
            .filter(|b| f32::from_ne_bytes((**b).try_into().unwrap()).is_nan())
            .for_each(|b| b.copy_from_slice(&f32::NAN.to_ne_bytes())),
        DType::Float64 | DType::Complex128 => bytes
            .chunks_exact_mut(8)
            .filter(|b| f64::from_ne_bytes((**b).try_into().unwrap()).is_nan())
            .for_each(|b| b.copy_from_slice(&f64::NAN.to_ne_bytes())),
        _ => {}
    }
    bytes
}

#[test]
fn tiles_of_prepared_passes_hold_the_bits_of_whole_steps() {
    let (mut fused, mut together) = (0, 0);
    for seed in 1..400u64 {
        let mut rng = Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let program = program(&mut rng);
        let types: Vec<Vec<ArrayType>> = program.steps.iter().map(|s| program.input_types(s)).collect();
        let whole = |k: usize| Region::full(&program.steps[k].ty.shape);
        let mut values: Vec<Block> = Vec::new();
        let mut known: Known = vec![Vec::new(); program.steps.len()];
        for (k, step) in program.steps.iter().enumerate() {
            let block = match &step.kernel {
                None => leaf(&mut rng, &step.ty),
                Some(kernel) => {
                    let node = Node { kernel, inputs: &types[k], output: &step.ty };
                    let part = |&i: &usize| Part { region: whole(i), block: values[i].clone() };
                    node.compute(&whole(k), &step.inputs.iter().map(part).collect::<Vec<_>>()).unwrap()
                }
            };
            if step.kernel.is_none() {
                // In two parts, so that some regions are assembled.
                let parts = [Region::new([0, 0, 0], [4, 5, 6]), Region::new([4, 0, 0], [2, 5, 6])];
                known[k] = parts.map(|region| Part { block: block.slice(&region), region }).to_vec();
            }
            values.push(block);
        }
        let full: Vec<usize> = (0..program.steps.len()).filter(|&k| program.steps[k].ty.shape == SHAPE).collect();
        let wanted: Vec<usize> = (0..1 + rng.usize(..3)).map(|_| *rng.choice(&full).unwrap()).chain(full.last().copied()).collect();
        let wants: Vec<(usize, Region)> = wanted.iter().map(|&k| (k, whole(k))).collect();
        let mut prepared = Prepared::new(Units::new(&program, &types, (&wants, &demands(&program, &types, &wants)), true).unwrap());
        for unit in &prepared.units.list {
            fused += usize::from(matches!(unit, Unit::Fused(_)));
        }
        together += program.steps.len();
        for dense in [false, true] {
            for tile in [Region::full(&SHAPE), Region::new([1, 0, 2], [2, 5, 3]), Region::new([3, 4, 0], [3, 1, 6])] {
                let got = prepared.evaluate(&known, &vec![tile.clone(); wanted.len()], dense).unwrap();
                for (&k, got) in wanted.iter().zip(&got) {
                    assert_eq!(bits(got), bits(&values[k].slice(&tile)), "step {k} at {tile}, seed {seed}: {:?}", program.steps);
                }
            }
        }
        // Each want at a region of its own.
        let mut own: Vec<(usize, Region)> = wants.clone();
        own.iter_mut().for_each(|(_, r)| *r = Region::new([rng.usize(..3) as u64, 0, 1], [3, 2, 4]));
        let regions: Vec<Region> = own.iter().map(|(_, r)| r.clone()).collect();
        let got = Prepared::new(Units::new(&program, &types, (&own, &demands(&program, &types, &own)), false).unwrap())
            .evaluate(&known, &regions, true)
            .unwrap();
        for ((k, region), got) in own.iter().zip(&got) {
            assert_eq!(bits(got), bits(&values[*k].slice(region)), "step {k} at {region}, seed {seed}");
        }
    }
    assert!(fused > 0 && fused * 3 < together, "{fused} groups of {together} steps");
}
