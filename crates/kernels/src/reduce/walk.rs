//! The loops: every element of a strided view goes to its accumulator, in the order of memory, without copies.
//!
//! Each axis of the view carries a stride of the input, one of the accumulator (0 on a reduced axis) and one of the position
//! (for arg reductions). Sorted by the input's stride and merged where all three allow, the axes become a short list whose
//! innermost one decides the kernel: a *row* reduces a contiguous run into one accumulator, *columns* add rows to a run of
//! temporaries. A view that is not contiguous is cut along its slowest axis until its pieces are.

use super::reducers::Reducer;
use crate::simd::{Loop, dispatch};
use ndarray::{ArrayViewD, Axis, Slice};

/// Bytes of the temporaries of columns: they stay in the first-level cache beside some rows.
const COLUMN_BYTES: usize = 16 << 10;
/// Where the elements of a view go.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The stride of the accumulator along each axis; 0 where the axis is reduced.
    pub acc: Vec<isize>,
    /// The stride of the position along each axis.
    pub pos: Vec<isize>,
    /// The accumulator of the view's first element.
    pub at: isize,
    /// The position of the view's first element.
    pub first: isize,
}

/// One merged axis.
#[derive(Clone, Copy, Debug)]
struct Dim {
    len: usize,
    x: usize,
    acc: isize,
    pos: isize,
}

/// The merged axes of a contiguous view with positive strides, the slowest first.
fn dims_of<T>(view: &ArrayViewD<'_, T>, to: &Target) -> Vec<Dim> {
    let mut dims: Vec<Dim> = (0..view.ndim())
        .filter(|&i| view.shape()[i] > 1)
        .map(|i| Dim { len: view.shape()[i], x: view.strides()[i].unsigned_abs(), acc: to.acc[i], pos: to.pos[i] })
        .collect();
    dims.sort_by_key(|d| std::cmp::Reverse(d.x));
    let mut out: Vec<Dim> = Vec::with_capacity(dims.len());
    for d in dims {
        let n = d.len as isize;
        match out.last_mut() {
            Some(o) if o.x == d.x * d.len && o.acc == d.acc * n && o.pos == d.pos * n => *o = Dim { len: o.len * d.len, ..d },
            _ => out.push(d),
        }
    }
    out
}

/// Calls `f` with the offsets (input, accumulator, position) of every index of the axes.
fn each(dims: &[Dim], x: usize, acc: isize, pos: isize, f: &mut impl FnMut(usize, isize, isize)) {
    match dims.split_first() {
        None => f(x, acc, pos),
        Some((d, rest)) => {
            for i in 0..d.len {
                each(rest, x + i * d.x, acc + i as isize * d.acc, pos + i as isize * d.pos, f);
            }
        }
    }
}

/// Rows of the same length and distance, each of which one accumulator takes.
struct Each<'a, R: Reducer> {
    xs: &'a [R::In],
    rows: Dim,
    len: usize,
    acc: &'a mut [R::Acc],
    at: isize,
    pos: isize,
    step: isize,
}

impl<R: Reducer> Loop for Each<'_, R> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for i in 0..self.rows.len {
            let (x, i) = (i * self.rows.x, i as isize);
            let (xs, pos) = (&self.xs[x..x + self.len], self.pos + i * self.rows.pos);
            let acc = &mut self.acc[(self.at + i * self.rows.acc) as usize];
            match R::glance(xs, pos, self.step) {
                Some(part) => R::merge(acc, part),
                None => row::<R>(xs, pos, self.step, acc),
            }
        }
    }
}

/// Reduces a row into an accumulator, in runs that stay in the cache, until the result is decided.
#[inline(always)]
fn row<R: Reducer>(xs: &[R::In], pos: isize, step: isize, acc: &mut R::Acc) {
    for (k, xs) in xs.chunks(R::RUN).enumerate() {
        let pos = pos + step * (k * R::RUN) as isize;
        if R::decided(acc, pos, step) {
            return;
        }
        let part = R::row_after(acc, xs, pos, step);
        R::merge(acc, part);
    }
}

/// Some rows that are added column by column.
struct Columns<'a, 'b, R: Reducer, F> {
    parts: &'b mut [R::Part],
    row: &'b F,
    from: std::ops::Range<usize>,
    rows: usize,
    pos: isize,
    step: isize,
    elements: std::marker::PhantomData<&'a R>,
}

impl<'a, R: Reducer, F: Fn(usize) -> &'a [R::In]> Loop for Columns<'a, '_, R, F> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let from = self.from;
        R::columns(self.parts, &|k| &(self.row)(k)[from.clone()], self.rows, self.pos, self.step);
    }
}

/// The rows of one column-wise pass.
struct Rows {
    rows: usize,
    columns: usize,
    at: isize,
    stride: isize,
    pos: isize,
    pos_step: isize,
}

/// One row that accumulators next to each other take, without temporaries.
struct Single<'a, R: Reducer> {
    acc: &'a mut [R::Acc],
    xs: &'a [R::In],
    pos: isize,
}

impl<R: Reducer> Loop for Single<'_, R> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for (a, &x) in self.acc.iter_mut().zip(self.xs) {
            let mut part = R::part();
            R::add(&mut part, x, self.pos);
            R::merge(a, part);
        }
    }
}

fn columns<'a, R: Reducer>(job: &Rows, row: impl Fn(usize) -> &'a [R::In], acc: &mut [R::Acc]) {
    if (job.rows, job.stride) == (1, 1) {
        return dispatch(Single::<R> { acc: &mut acc[job.at as usize..][..job.columns], xs: row(0), pos: job.pos });
    }
    let most = (COLUMN_BYTES / size_of::<R::Part>().max(1)).max(1);
    let mut tmp = vec![R::part(); job.columns.min(most)];
    for c in (0..job.columns).step_by(most) {
        let width = most.min(job.columns - c);
        for r in (0..job.rows).step_by(R::ROWS) {
            let tmp = &mut tmp[..width];
            tmp.fill(R::part());
            let pos = job.pos + job.pos_step * r as isize;
            let rows = R::ROWS.min(job.rows - r);
            let row = |k: usize| row(r + k);
            let step = job.pos_step;
            dispatch(Columns::<R, _> { parts: tmp, row: &row, from: c..c + width, rows, pos, step, elements: std::marker::PhantomData });
            let at = job.at + job.stride * c as isize;
            if job.stride == 1 {
                for (a, &p) in acc[at as usize..][..width].iter_mut().zip(tmp.iter()) {
                    R::merge(a, p);
                }
            } else {
                for (i, &p) in tmp.iter().enumerate() {
                    R::merge(&mut acc[(at + job.stride * i as isize) as usize], p);
                }
            }
        }
    }
}

/// Reduces a contiguous run of memory.
fn flat<R: Reducer>(xs: &[R::In], dims: &[Dim], to: &Target, acc: &mut [R::Acc]) {
    let one = Dim { len: 1, x: 0, acc: 0, pos: 0 };
    let (inner, outer) = dims.split_last().map_or((one, dims), |(inner, outer)| (*inner, outer));
    let rows = outer.split_last().filter(|(rows, _)| inner.acc == 0 || rows.acc == 0);
    let (rows, outer) = rows.map_or((one, outer), |(rows, rest)| (*rows, rest));
    each(outer, 0, to.at, to.first, &mut |x, at, pos| {
        let xs = &xs[x..];
        if inner.acc == 0 {
            return dispatch(Each::<R> { xs, rows, len: inner.len, acc: &mut *acc, at, pos, step: inner.pos });
        }
        let job = Rows { rows: rows.len, columns: inner.len, at, stride: inner.acc, pos, pos_step: rows.pos };
        columns::<R>(&job, |r| &xs[r * rows.x..][..inner.len], acc);
    });
}

/// Reduces a view into the accumulators.
pub(crate) fn walk<R: Reducer>(mut view: ArrayViewD<'_, R::In>, mut to: Target, acc: &mut [R::Acc]) {
    if view.is_empty() {
        return;
    }
    for i in 0..view.ndim() {
        if view.strides()[i] < 0 && view.shape()[i] > 1 {
            let last = view.shape()[i] as isize - 1;
            view.invert_axis(Axis(i));
            to.at += last * to.acc[i];
            to.first += last * to.pos[i];
            (to.acc[i], to.pos[i]) = (-to.acc[i], -to.pos[i]);
        }
    }
    pieces::<R>(view, &to, acc);
}

fn pieces<R: Reducer>(view: ArrayViewD<'_, R::In>, to: &Target, acc: &mut [R::Acc]) {
    if let Some(xs) = view.as_slice_memory_order() {
        return flat::<R>(xs, &dims_of(&view, to), to, acc);
    }
    let long: Vec<usize> = (0..view.ndim()).filter(|&i| view.shape()[i] > 1).collect();
    let Some(&axis) = long.iter().max_by_key(|&&i| view.strides()[i]) else {
        // One element always is contiguous; kept so that nothing is lost if it were not.
        let xs: Vec<R::In> = view.iter().copied().collect();
        return flat::<R>(&xs, &[], to, acc);
    };
    if long.len() == 1 {
        // A lane with gaps.
        let (acc_step, pos_step) = (to.acc[axis], to.pos[axis]);
        let mut to = to.clone();
        let lane: Vec<R::In> = view.iter().copied().collect();
        for xs in lane.chunks(4096) {
            flat::<R>(xs, &[Dim { len: xs.len(), x: 1, acc: acc_step, pos: pos_step }], &to, acc);
            to.at += acc_step * xs.len() as isize;
            to.first += pos_step * xs.len() as isize;
        }
        return;
    }
    let piece = |i: usize| view.slice_axis(Axis(axis), Slice::from(i..i + 1));
    let first = piece(0);
    if to.acc[axis] == 0
        && first.to_slice_memory_order().is_some()
        && let [kept] = dims_of(&first, to)[..]
        && kept.acc != 0
    {
        let job = Rows { rows: view.shape()[axis], columns: kept.len, at: to.at, stride: kept.acc, pos: to.first, pos_step: to.pos[axis] };
        let rows: Vec<&[R::In]> = (0..job.rows).map(|r| piece(r).to_slice_memory_order().unwrap_or(&[])).collect();
        return columns::<R>(&job, |r| rows[r], acc);
    }
    let mut to = to.clone();
    for i in 0..view.shape()[axis] {
        pieces::<R>(piece(i), &to, acc);
        to.at += to.acc[axis];
        to.first += to.pos[axis];
    }
}
