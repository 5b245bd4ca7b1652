//! Rates of contractions in memory: `contract_rates THREADS [DTYPE [SIZE]]`; `benches/gemm.py` pairs them with NumPy's.
use chunkwise_kernels::*;
use chunkwise_types::{DType, Region};
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

fn rate(dtype: DType, a: &[u64], b: &[u64], la: &[u32], lb: &[u32], same: bool, flops: f64) -> Result<f64, Failure> {
    let kernel = Kernel::Contract(Contract { a: la.to_vec(), b: lb.to_vec(), out: vec![1, 2], segments: None });
    let inputs = [ArrayType::new(dtype, a.to_vec()), ArrayType::new(dtype, b.to_vec())];
    let at = |l: u32| la.iter().position(|&x| x == l).map(|i| a[i]).or_else(|| lb.iter().position(|&x| x == l).map(|i| b[i])).unwrap_or(1);
    let out = ArrayType::new(dtype, vec![at(1), at(2)]);
    let node = Node { kernel: &kernel, inputs: &inputs, output: &out };
    let x = block(dtype, a)?;
    let y = if same { x.clone() } else { block(dtype, b)? };
    let parts = [Part { region: Region::full(a), block: x }, Part { region: Region::full(b), block: y }];
    let region = Region::full(&out.shape);
    let mut best = f64::MAX;
    let mut fold = node.start_fold(&region)?;
    let t0 = Instant::now();
    let mut n = 0;
    while n < 3 || (t0.elapsed().as_secs_f64() < 1.2 && n < 30) {
        let t = Instant::now();
        fold.fold(&parts)?;
        best = best.min(t.elapsed().as_secs_f64());
        n += 1;
    }
    Ok(flops / best / 1e9)
}

fn main() -> Result<(), Failure> {
    let threads: usize = std::env::args().nth(1).map_or(Ok(1), |a| a.parse())?;
    let cores = Cores::new(threads);
    let _task = cores.enter();
    let only = std::env::args().nth(2);
    let size: Option<u64> = std::env::args().nth(3).map(|a| a.parse()).transpose()?;
    for (dtype, f, sizes) in [
        (DType::Float32, 2.0, &[500u64, 1000, 2000, 4000][..]),
        (DType::Float64, 2.0, &[500, 1000, 2000, 4000]),
        (DType::Complex64, 8.0, &[500, 1000, 2000]),
        (DType::Complex128, 8.0, &[500, 1000, 2000]),
        (DType::Int8, 2.0, &[500, 1000]),
        (DType::Int16, 2.0, &[500, 1000]),
        (DType::Int32, 2.0, &[500, 1000]),
        (DType::Int64, 2.0, &[500, 1000]),
        (DType::Bool, 2.0, &[1000]),
    ] {
        if only.as_ref().is_some_and(|o| *o != format!("{dtype:?}")) {
            continue;
        }
        for &n in sizes.iter().filter(|n| size.is_none_or(|s| s == **n)) {
            let r = rate(dtype, &[n, n], &[n, n], &[1, 0], &[0, 2], false, f * (n as f64).powi(3))?;
            println!("{dtype:?} {n} threads {threads}: {r:.1} G/s");
        }
        for (n, k) in [(500u64, 50_000u64), (1000, 20_000), (2000, 10_000)] {
            if f > 2.0 && n > 1000 || sizes.len() < 3 || size.is_some_and(|s| s != k) {
                continue;
            }
            let flops = f * (n * n * k) as f64;
            let plain = rate(dtype, &[k, n], &[k, n], &[0, 1], &[0, 2], false, flops)?;
            let same = rate(dtype, &[k, n], &[k, n], &[0, 1], &[0, 2], true, flops)?;
            println!("{dtype:?} AtA n {n} k {k} threads {threads}: plain {plain:.1}, symmetric (full flops) {same:.1} G/s");
        }
    }
    Ok(())
}
