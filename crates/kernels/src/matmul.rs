//! Products of two matrices in memory, on one or several threads.
//!
//! The output is cut into blocks that are computed independently, each with a product that packs its operands. So threads share
//! nothing, what is packed at once is bounded, and of a symmetric product only the blocks on and below the diagonal are computed; see
//! [`triangle`].

mod triangle;

use crate::BlockElement;
use crate::integer;
use crate::threads;
use ndarray::{ArrayView2, ArrayViewMut2, Axis, s};
use num_complex::{Complex32, Complex64};
use parking_lot::Mutex;
use std::cmp::Reverse;
use std::ops::Range;

/// Bytes of the longest side of a block: what is packed of an operand must stay in the caches. Twice as long where so much may be packed.
const SIDE: usize = 8192;
/// The least elements of what is cut further so that threads share it: of a block with less than a quarter of them GEMM sums in another
/// order, and the bits would depend on the number of threads.
const LEAST: usize = 1024;
/// The longest side of a block that is not cut further so that threads share it.
const SHORT: usize = 128;
/// Summed elements that are packed at once.
const DEPTH: usize = 512;
/// A thread is worth starting for this many multiplications.
const THREAD_WORK: usize = if cfg!(test) { 1 << 14 } else { 1 << 25 };
/// Bytes that a thread packs at once: a panel of each operand.
const PANELS: u64 = (2 * SIDE * DEPTH) as u64;
/// Multiplications of all threads in one part of the summed elements.
const PART: usize = if cfg!(test) { 1 << 18 } else { 1 << 28 };
/// The number of threads that pack small operands at most twice. Of `2 MAX_PACKING_THREADS` blocks in a square, `MAX_PACKING_THREADS` blocks hold
/// each operand twice. Where there are more blocks, they hold less.
const MAX_PACKING_THREADS: usize = 8;
/// Bytes that may be packed whatever the size of the operands.
const PACKED: u64 = 16 << 20;

/// An upper bound of the bytes that are packed at once, by all threads, for operands of so many bytes.
pub(crate) fn panels(operands: u64) -> u64 {
    PACKED.max(operands / 4).min(operands.saturating_mul(2).saturating_add(64 << 10))
}

/// The most threads that may work on operands of so many bytes.
pub(crate) fn threads(operands: u64) -> usize {
    let small = if operands <= PACKED / 2 { MAX_PACKING_THREADS } else { 1 };
    usize::try_from(panels(operands) / PANELS).unwrap_or(usize::MAX).max(small)
}

/// The longest side of a block of operands of so many elements, where this many threads work.
fn side<T>(operands: usize, threads: usize) -> usize {
    let twice = threads as u64 * 2 * PANELS <= panels((operands * size_of::<T>()) as u64);
    SIDE * if twice { 2 } else { 1 } / size_of::<T>().max(8)
}

/// An element that can be multiplied.
pub(crate) trait Product: BlockElement {
    /// The longest side of a block on the diagonal of a symmetric product: short where half of it is computed in vain.
    const DIAGONAL: usize = 64;
    fn plus(self, other: Self) -> Self;
    #[cfg(test)]
    fn times(self, other: Self) -> Self;
    /// `c += a b` of one block, whose sides are short. The shapes fit.
    fn block(c: ArrayViewMut2<'_, Self>, a: ArrayView2<'_, Self>, b: ArrayView2<'_, Self>);
    /// `c += a aᵀ` of a block on the diagonal of a symmetric product. What is above the diagonal is left undefined.
    fn half(c: ArrayViewMut2<'_, Self>, a: ArrayView2<'_, Self>) {
        Self::block(c, a, a.reversed_axes());
    }
}

macro_rules! integers {
    ($($t:ty => $word:ty),*) => {$(
        impl Product for $t {
            fn plus(self, other: Self) -> Self { self.wrapping_add(other) }
            #[cfg(test)]
            fn times(self, other: Self) -> Self { self.wrapping_mul(other) }
            fn block(c: ArrayViewMut2<'_, Self>, a: ArrayView2<'_, Self>, b: ArrayView2<'_, Self>) {
                integer::product(c, a, b, |x| x as $word, |c, sum| c.wrapping_add(sum as $t));
            }
        }
    )*};
}
// Sums that wrap are the same in any wider type that wraps.
integers!(i8 => u16, i16 => u16, i32 => u32, i64 => u64, u8 => u16, u16 => u16, u32 => u32, u64 => u64);

impl Product for bool {
    fn plus(self, other: Self) -> Self {
        self | other
    }
    #[cfg(test)]
    fn times(self, other: Self) -> Self {
        self & other
    }
    fn block(c: ArrayViewMut2<'_, Self>, a: ArrayView2<'_, Self>, b: ArrayView2<'_, Self>) {
        integer::product(c, a, b, integer::Bit::from, |c, any| c | any.is_set());
    }
}

macro_rules! gemms {
    ($($t:ty => $one:expr),*) => {$(
        impl Product for $t {
            fn plus(self, other: Self) -> Self { self + other }
            #[cfg(test)]
            fn times(self, other: Self) -> Self { self * other }
            fn block(c: ArrayViewMut2<'_, Self>, a: ArrayView2<'_, Self>, b: ArrayView2<'_, Self>) {
                gemm_views(c, a, b, $one);
            }
            const DIAGONAL: usize = triangle::SIDE;
            fn half(c: ArrayViewMut2<'_, Self>, a: ArrayView2<'_, Self>) {
                triangle::add(c, a);
            }
        }
    )*};
}
gemms!(f32 => 1.0, f64 => 1.0, Complex32 => Complex32::new(1.0, 0.0), Complex64 => Complex64::new(1.0, 0.0));

/// `c += a b` with GEMM, for the four types that it knows.
fn gemm_views<T: Product>(mut c: ArrayViewMut2<'_, T>, a: ArrayView2<'_, T>, b: ArrayView2<'_, T>, one: T) {
    let (m, n, depth) = (a.nrows(), b.ncols(), a.ncols());
    assert!(c.dim() == (m, n) && b.nrows() == depth, "matrices of {:?}, {:?} into {:?}", a.dim(), b.dim(), c.dim());
    for k in (0..depth).step_by(DEPTH) {
        let k1 = depth.min(k + DEPTH);
        let (a, b) = (a.slice(s![.., k..k1]), b.slice(s![k..k1, ..]));
        let (cs, a_s, bs) = ([c.strides()[0], c.strides()[1]], [a.strides()[0], a.strides()[1]], [b.strides()[0], b.strides()[1]]);
        // SAFETY: the pointers and strides are those of live views, whose every index inside their shapes is a valid element; the
        // assertion above ties the shapes to (m, n, k); `c` is borrowed mutably, so it overlaps neither `a` nor `b`. `T` is one of
        // f32, f64, c32 and c64 (the only callers), as `gemm` requires.
        unsafe {
            gemm::gemm(
                m,
                n,
                k1 - k,
                c.as_mut_ptr(),
                cs[1],
                cs[0],
                true,
                a.as_ptr(),
                a_s[1],
                a_s[0],
                b.as_ptr(),
                bs[1],
                bs[0],
                one,
                one,
                false,
                false,
                false,
                gemm::Parallelism::None,
            );
        }
    }
}

/// One block of a product.
struct Job<'a, T> {
    c: ArrayViewMut2<'a, T>,
    a: ArrayView2<'a, T>,
    /// Nothing stands for `a` transposed: what is on and below the diagonal is wanted.
    b: Option<ArrayView2<'a, T>>,
}

impl<T: Product> Job<'_, T> {
    /// Adds what a range of the summed elements gives.
    fn add(&mut self, range: Range<usize>) {
        let a = self.a.slice(s![.., range.clone()]);
        match &self.b {
            None => T::half(self.c.view_mut(), a),
            Some(b) => T::block(self.c.view_mut(), a, b.slice(s![range, ..])),
        }
    }
}

/// Where a side is cut in two: near the middle, at a multiple of the registers of a kernel.
fn middle(n: usize) -> usize {
    (n / 2).next_multiple_of(if n > 600 { 48 } else { 16 }).min(n - 1)
}

/// Cuts a product into blocks of at most so many multiplications, with sides of at most so many elements.
fn cut<'a, T: Product>(Job { c, a, b }: Job<'a, T>, most: usize, side: usize, out: &mut Vec<Job<'a, T>>) {
    let ((m, n), k) = (c.dim(), a.ncols());
    match b {
        None if m > side.min(T::DIAGONAL) || (m * m / 2 * k > most && m > 2 * SHORT) => {
            let (c0, c1) = c.split_at(Axis(0), middle(m));
            let ((c00, _), (c10, c11)) = (c0.split_at(Axis(1), middle(m)), c1.split_at(Axis(1), middle(m)));
            let (a0, a1) = a.split_at(Axis(0), middle(m));
            cut(Job { c: c10, a: a1, b: Some(a0.reversed_axes()) }, most, side, out);
            cut(Job { c: c00, a: a0, b: None }, most, side, out);
            cut(Job { c: c11, a: a1, b: None }, most, side, out);
        }
        Some(b) if m.max(n) > side || (m * n * k > most && m.max(n) > SHORT && m * n > LEAST) => {
            let ((c0, c1), (a0, a1), (b0, b1)) = if m >= n {
                (c.split_at(Axis(0), middle(m)), a.split_at(Axis(0), middle(m)), (b, b))
            } else {
                (c.split_at(Axis(1), middle(n)), (a, a), b.split_at(Axis(1), middle(n)))
            };
            cut(Job { c: c0, a: a0, b: Some(b0) }, most, side, out);
            cut(Job { c: c1, a: a1, b: Some(b1) }, most, side, out);
        }
        b => out.push(Job { c, a, b }),
    }
}

/// `c += a b`. The shapes fit. If the product is known to be `symmetric`, what is above the diagonal of `c` is left undefined; see
/// [`mirror`]. `threads` is the most that may work at once; they are taken from the idle [`crate::Cores`] of the run.
pub(crate) fn matmul<T: Product>(c: ArrayViewMut2<'_, T>, a: ArrayView2<'_, T>, b: ArrayView2<'_, T>, symmetric: bool, threads: usize) {
    let work = a.nrows().saturating_mul(b.ncols()).saturating_mul(a.ncols());
    if work == 0 {
        return;
    }
    let lent = threads::borrow(threads.min(work / THREAD_WORK).saturating_sub(1));
    let threads = lent.count + 1;
    let (depth, side) = (a.ncols(), side::<T>(a.len() + b.len(), threads));
    // All blocks take a part of the summed elements before the next part, which is in the caches when several of them read it. A thread
    // takes several turns, so that all of them end at about the same time.
    let (part, most) = if threads == 1 {
        (DEPTH, usize::MAX)
    } else {
        let part = (PART / (a.nrows() * b.ncols())).next_multiple_of(DEPTH).max(DEPTH);
        let blocks = threads * if depth <= part { 4 } else { 2 };
        (part, if symmetric { work / 2 } else { work } / blocks)
    };
    let parts = depth.div_ceil(part);
    let mut parked = Vec::new();
    cut(Job { c, a, b: (!symmetric).then_some(b) }, most, side, &mut parked);
    if threads == 1 {
        (0..parts).for_each(|turn| parked.iter_mut().for_each(|job| job.add(turn * part..depth.min((turn + 1) * part))));
        return;
    }
    let parked: Mutex<Vec<(usize, Job<'_, T>)>> = Mutex::new(parked.into_iter().map(|job| (0, job)).collect());
    // A thread takes the free block that is furthest behind, the largest of several, so that all end together. So the parts of a block are added in
    // their order, whichever thread adds them, and no thread waits.
    let work = || loop {
        let behind = |jobs: &Vec<(usize, Job<'_, T>)>| (0..jobs.len()).min_by_key(|&i| (jobs[i].0, Reverse(jobs[i].1.c.len())));
        let taken = {
            let mut jobs = parked.lock();
            behind(&jobs).map(|i| jobs.swap_remove(i))
        };
        let Some((turn, mut job)) = taken else { break };
        job.add(turn * part..depth.min((turn + 1) * part));
        if turn + 1 < parts {
            parked.lock().push((turn + 1, job));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..lent.count {
            scope.spawn(work);
        }
        work();
    });
}

/// Copies what is below the diagonal to above it.
pub(crate) fn mirror<T: Product>(mut c: ArrayViewMut2<'_, T>) {
    // Block by block, since one of the two sides runs across the rows.
    const BLOCK: usize = 32;
    let n = c.nrows().min(c.ncols());
    for i0 in (0..n).step_by(BLOCK) {
        for j0 in (0..=i0).step_by(BLOCK) {
            for i in i0..n.min(i0 + BLOCK) {
                for j in j0..i.min(j0 + BLOCK) {
                    c[[j, i]] = c[[i, j]];
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "matmul_tests.rs"]
mod tests;
