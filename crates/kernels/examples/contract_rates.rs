//! Times of a matrix product in memory: `contract_rates THREADS DTYPE ROWS SUMMED square|other|same` computes one for each line that it
//! reads and answers with the seconds that it took. `benches/gemm.py` asks it and NumPy in turn.
//!
//! `square` is `A B`, `other` is `Aᵀ B` and `same` is `Aᵀ A`, added to what is there.
use chunkwise_kernels::*;
use chunkwise_types::{DType, Region};
use std::io::{BufRead, Write};
use std::time::Instant;

type Failure = Box<dyn std::error::Error>;

fn block(dtype: DType, shape: &[u64]) -> Result<Block, KernelError> {
    let mut s = 1u64;
    Block::from_bytes_with(dtype, shape, |bytes: &mut [u8]| -> Result<(), KernelError> {
        let mut next = || {
            s ^= s << 13;
            s ^= s >> 7;
            s ^= s << 17;
            s
        };
        match dtype {
            DType::Float32 | DType::Complex64 => {
                bytes.chunks_mut(4).for_each(|b| b.copy_from_slice(&((next() >> 40) as f32 / 16777216.0 - 0.5).to_ne_bytes()))
            }
            DType::Float64 | DType::Complex128 => {
                bytes.chunks_mut(8).for_each(|b| b.copy_from_slice(&((next() >> 11) as f64 / 9007199254740992.0 - 0.5).to_ne_bytes()))
            }
            _ => bytes.iter_mut().for_each(|b| *b = (next() >> 20) as u8),
        }
        Ok(())
    })
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [threads, dtype, rows, summed, kind] = arguments.as_slice() else {
        return Err("contract_rates THREADS DTYPE ROWS SUMMED square|other|same".into());
    };
    let dtype = dtype.parse::<DType>()?;
    let (rows, summed): (u64, u64) = (rows.parse()?, summed.parse()?);
    let (shape, labels) = match kind.as_str() {
        "square" => ([rows, summed], [1, 0]),
        "other" | "same" => ([summed, rows], [0, 1]),
        _ => return Err(format!("{kind}: neither square, other nor same").into()),
    };
    let kernel = Kernel::Contract(Contract { a: labels.to_vec(), b: vec![0, 2], out: vec![1, 2], segments: None });
    let inputs = [ArrayType::new(dtype, shape.to_vec()), ArrayType::new(dtype, vec![summed, rows])];
    let out = ArrayType::new(dtype, vec![rows, rows]);
    let node = Node { kernel: &kernel, inputs: &inputs, output: &out };
    let a = block(dtype, &inputs[0].shape)?;
    let b = if kind == "same" { a.clone() } else { block(dtype, &inputs[1].shape)? };
    let part = |block: Block| Part { region: Region::full(&block.shape()), block };
    let parts = [part(a), part(b)];
    let mut fold = node.start_fold(&Region::full(&out.shape))?;
    let cores = Cores::new(threads.parse()?);
    let _task = cores.enter();
    for line in std::io::stdin().lock().lines() {
        line?;
        let start = Instant::now();
        fold.fold(&parts)?;
        println!("{}", start.elapsed().as_secs_f64());
        std::io::stdout().flush()?;
    }
    Ok(())
}
