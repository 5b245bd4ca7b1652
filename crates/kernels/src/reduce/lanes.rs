//! Loops over a run of elements with several states at once, which the compiler turns into vector registers.

use super::wide::Wide;

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
    joined(lane, join)
}

/// As [`folded`] with so many lanes that they live in the first-level cache and are looped over: vectors come out even where `add` has
/// several instructions or converts, of which lanes in registers are taken apart again. Four blocks go into a lane while it is loaded.
#[inline(always)]
pub(super) fn looped<const LANES: usize, T: Copy, P: Copy>(xs: &[T], start: P, add: impl Fn(P, T) -> P, join: impl Fn(P, P) -> P) -> P {
    let mut lane = [start; LANES];
    let (blocks, rest) = xs.as_chunks::<LANES>();
    rows_of(&mut lane, &|r| &blocks[r], blocks.len(), |l, x, _| *l = add(*l, x));
    for (l, &x) in lane.iter_mut().zip(rest) {
        *l = add(*l, x);
    }
    joined(lane, join)
}

/// Joins lanes as a tree.
#[inline(always)]
fn joined<const LANES: usize, P: Copy>(mut lane: [P; LANES], join: impl Fn(P, P) -> P) -> P {
    let mut width = LANES / 2;
    while width > 0 {
        let (to, from) = lane.split_at_mut(width);
        for (a, &b) in to.iter_mut().zip(from.iter()) {
            *a = join(*a, b);
        }
        width /= 2;
    }
    lane[0]
}

/// Adds rows to parts, one a column: four rows while a part is loaded, in their order.
#[inline(always)]
pub(super) fn rows_of<'a, T: Copy + 'a, P>(parts: &mut [P], row: &impl Fn(usize) -> &'a [T], rows: usize, add: impl Fn(&mut P, T, usize)) {
    let n = parts.len();
    let fours = rows / 4 * 4;
    for r in (0..fours).step_by(4) {
        let (a, b, c, d) = (&row(r)[..n], &row(r + 1)[..n], &row(r + 2)[..n], &row(r + 3)[..n]);
        for ((((p, &a), &b), &c), &d) in parts.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            add(p, a, r);
            add(p, b, r + 1);
            add(p, c, r + 2);
            add(p, d, r + 3);
        }
    }
    for r in fours..rows {
        for (p, &x) in parts.iter_mut().zip(row(r)) {
            add(p, x, r);
        }
    }
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
                8 => looped::<64, T, W>(run, W::ZERO, add, W::plus),
                _ => looped::<32, T, W>(run, W::ZERO, add, W::plus),
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
