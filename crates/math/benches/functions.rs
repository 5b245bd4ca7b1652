//! Time per call on warm arrays of 2^20 elements: `cargo bench -p chunkwise-math`. `numpy.py` times NumPy on the same arguments.

use chunkwise_math::{Elementary, Out};
use divan::{Bencher, black_box, counter::ItemsCount};

fn main() {
    println!("instruction set: {:?}", chunkwise_math::Level::best());
    divan::main();
}

const N: usize = 1 << 20;

/// Evenly spread arguments in an order without pattern; `numpy.py` makes the same ones.
fn arguments<T>(low: f64, high: f64, step: u64, cast: fn(f64) -> T) -> Vec<T> {
    (0..N as u64).map(|i| cast(low + (high - low) * (i.wrapping_mul(step) % N as u64) as f64 / N as f64)).collect()
}

macro_rules! unary {
    ($($name:ident $low:literal $high:literal;)*) => {$(
        mod $name {
            use super::*;

            #[divan::bench]
            fn f64(bencher: Bencher) {
                let (xs, mut out) = (arguments($low, $high, 1_000_003, |x| x), vec![0.0; N]);
                bencher.counter(ItemsCount::new(N)).bench_local(|| <f64 as Elementary>::$name(black_box(&xs), Out::from(black_box(&mut out))));
            }

            #[divan::bench]
            fn f32(bencher: Bencher) {
                let (xs, mut out) = (arguments($low, $high, 1_000_003, |x| x as f32), vec![0.0; N]);
                bencher.counter(ItemsCount::new(N)).bench_local(|| <f32 as Elementary>::$name(black_box(&xs), Out::from(black_box(&mut out))));
            }
        }
    )*};
}

macro_rules! binary {
    ($($name:ident $low:literal $high:literal;)*) => {$(
        mod $name {
            use super::*;

            #[divan::bench]
            fn f64(bencher: Bencher) {
                let (xs, ys) = (arguments($low, $high, 1_000_003, |x| x), arguments(-10.0, 10.0, 700_001, |x| x));
                let mut out = vec![0.0; N];
                bencher.counter(ItemsCount::new(N)).bench_local(|| <f64 as Elementary>::$name(black_box(&xs), black_box(&ys), Out::from(black_box(&mut out))));
            }

            #[divan::bench]
            fn f32(bencher: Bencher) {
                let (xs, ys) = (arguments($low, $high, 1_000_003, |x| x as f32), arguments(-10.0, 10.0, 700_001, |x| x as f32));
                let mut out = vec![0.0; N];
                bencher.counter(ItemsCount::new(N)).bench_local(|| <f32 as Elementary>::$name(black_box(&xs), black_box(&ys), Out::from(black_box(&mut out))));
            }
        }
    )*};
}

unary! {
    exp -20.0 20.0;
    exp2 -20.0 20.0;
    expm1 -5.0 5.0;
    log 0.001 1000.0;
    log2 0.001 1000.0;
    log10 0.001 1000.0;
    log1p -0.9 100.0;
    sin -100.0 100.0;
    cos -100.0 100.0;
    tan -100.0 100.0;
    asin -1.0 1.0;
    acos -1.0 1.0;
    atan -10.0 10.0;
    sinh -20.0 20.0;
    cosh -20.0 20.0;
    tanh -5.0 5.0;
    asinh -100.0 100.0;
    acosh 1.0 100.0;
    atanh -0.999 0.999;
}

binary! {
    pow 0.001 100.0;
    atan2 -10.0 10.0;
    hypot -10.0 10.0;
    logaddexp -10.0 10.0;
}
