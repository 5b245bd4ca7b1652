//! Loops over a run of elements with several states at once, which the compiler turns into vector registers.

use super::elements::Wide;

/// The longest run that is reduced at once: partial results of leaves live on the stack.
pub(super) const RUN: usize = 4096;
/// The elements of a leaf of a pairwise sum: each lane adds 16.
const LEAF: usize = 256;

#[inline(always)]
fn folded<const LANES: usize, T: Copy, P: Copy>(xs: &[T], start: P, add: impl Fn(P, T) -> P, join: impl Fn(P, P) -> P) -> P {
    let mut lane = [start; LANES];
    let (blocks, rest) = xs.as_chunks::<LANES>();
    for block in blocks {
        for (l, &x) in lane.iter_mut().zip(block) {
            *l = add(*l, x);
        }
    }
    for (l, &x) in lane.iter_mut().zip(rest) {
        *l = add(*l, x);
    }
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lane[i] = join(lane[i], lane[i + width]);
        }
        width /= 2;
    }
    lane[0]
}

/// Folds with independent lanes: as many as fill a few registers.
#[inline(always)]
pub(super) fn lanes<T: Copy, P: Copy>(xs: &[T], start: P, add: impl Fn(P, T) -> P, join: impl Fn(P, P) -> P) -> P {
    match size_of::<P>() {
        1 => folded::<128, T, P>(xs, start, add, join),
        2 => folded::<64, T, P>(xs, start, add, join),
        4 => folded::<32, T, P>(xs, start, add, join),
        _ => folded::<16, T, P>(xs, start, add, join),
    }
}

/// Pairwise sum of `value(x)`: leaves are summed by lanes, the leaves of a run as a tree, and runs one after another. A run of elements
/// that are narrower than the sum is one leaf: its rounding errors are far below the precision of the elements.
#[inline(always)]
pub(super) fn pairwise<T: Copy, W: Wide>(xs: &[T], value: &impl Fn(T) -> W) -> W {
    if !W::ROUNDS {
        // The compiler knows how to reorder this one; lanes of integers it takes apart again.
        return xs.iter().fold(W::ZERO, |a, &x| a.plus(value(x)));
    }
    let mut total = W::ZERO;
    for run in xs.chunks(RUN) {
        if size_of::<T>() < size_of::<W>() {
            let add = |a: W, x| a.plus(value(x));
            total = total.plus(match size_of::<W>() {
                8 => folded::<32, T, W>(run, W::ZERO, add, W::plus),
                _ => folded::<16, T, W>(run, W::ZERO, add, W::plus),
            });
            continue;
        }
        let mut sums = [W::ZERO; RUN / LEAF];
        let mut n = 0;
        for (sum, leaf) in sums.iter_mut().zip(run.chunks(LEAF)) {
            *sum = if leaf.len() < 16 {
                leaf.iter().fold(W::ZERO, |a, &x| a.plus(value(x)))
            } else {
                folded::<16, T, W>(leaf, W::ZERO, |a, x| a.plus(value(x)), W::plus)
            };
            n += 1;
        }
        while n > 1 {
            for i in 0..n / 2 {
                sums[i] = sums[2 * i].plus(sums[2 * i + 1]);
            }
            if n % 2 == 1 {
                sums[n / 2] = sums[n - 1];
            }
            n = n.div_ceil(2);
        }
        total = total.plus(sums[0]);
    }
    total
}
