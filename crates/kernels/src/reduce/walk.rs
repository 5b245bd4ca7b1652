//! The loops: every element of a strided view goes to its accumulator, in the order of memory, without copies.
//!
//! Each axis of the view carries a stride of the input, one of the accumulator (0 on a reduced axis) and one of the position
//! (for arg reductions). Sorted by the input's stride and merged where all three allow, the axes become a short list whose
//! innermost one decides the kernel: a *row* reduces a contiguous run into one accumulator, *columns* add rows to a run of
//! temporaries. A view that is not contiguous is cut along its slowest axis until its pieces are.
//!
//! Only the loops of a [`Sink`] are compiled for each reduction; how to get there is compiled once for each type of elements.

use super::sink::{Columns, Lines, Rows, Sink};
use ndarray::{ArrayViewD, Axis, Slice};

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

/// One merged axis: its length, and the distances of the input, the accumulator and the position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dim {
    pub len: usize,
    pub x: usize,
    pub acc: isize,
    pub pos: isize,
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
fn each(dims: &[Dim], x: usize, acc: isize, pos: isize, f: &mut dyn FnMut(usize, isize, isize)) {
    match dims.split_first() {
        None => f(x, acc, pos),
        Some((d, rest)) => {
            for i in 0..d.len {
                each(rest, x + i * d.x, acc + i as isize * d.acc, pos + i as isize * d.pos, f);
            }
        }
    }
}

/// Reduces a contiguous run of memory.
fn flat<T: Copy>(xs: &[T], dims: &[Dim], to: &Target, sink: &mut dyn Sink<T>) {
    let one = Dim { len: 1, x: 0, acc: 0, pos: 0 };
    let (inner, outer) = dims.split_last().map_or((one, dims), |(inner, outer)| (*inner, outer));
    let rows = outer.split_last().filter(|(rows, _)| inner.acc == 0 || rows.acc == 0);
    let (rows, outer) = rows.map_or((one, outer), |(rows, rest)| (*rows, rest));
    each(outer, 0, to.at, to.first, &mut |x, at, pos| {
        let xs = &xs[x..];
        if inner.acc == 0 {
            return sink.rows(xs, &Rows { rows, len: inner.len, at, pos, step: inner.pos });
        }
        let job = Columns { rows: rows.len, columns: inner.len, at, stride: inner.acc, pos, pos_step: rows.pos };
        sink.columns(&job, Lines::of_run(xs, rows.x, inner.len));
    });
}

/// Reduces a view into the accumulators of a sink.
pub(crate) fn walk<T: Copy>(mut view: ArrayViewD<'_, T>, mut to: Target, sink: &mut dyn Sink<T>) {
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
    pieces(view, &to, sink);
}

fn pieces<T: Copy>(view: ArrayViewD<'_, T>, to: &Target, sink: &mut dyn Sink<T>) {
    if let Some(xs) = view.as_slice_memory_order() {
        return flat(xs, &dims_of(&view, to), to, sink);
    }
    let long: Vec<usize> = (0..view.ndim()).filter(|&i| view.shape()[i] > 1).collect();
    let Some(&axis) = long.iter().max_by_key(|&&i| view.strides()[i]) else {
        // One element always is contiguous; kept so that nothing is lost if it were not.
        let xs: Vec<T> = view.iter().copied().collect();
        return flat(&xs, &[], to, sink);
    };
    if long.len() == 1 {
        // A lane with gaps.
        let (acc_step, pos_step) = (to.acc[axis], to.pos[axis]);
        let mut to = to.clone();
        let lane: Vec<T> = view.iter().copied().collect();
        for xs in lane.chunks(4096) {
            flat(xs, &[Dim { len: xs.len(), x: 1, acc: acc_step, pos: pos_step }], &to, sink);
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
        let job =
            Columns { rows: view.shape()[axis], columns: kept.len, at: to.at, stride: kept.acc, pos: to.first, pos_step: to.pos[axis] };
        let rows: Vec<&[T]> = (0..job.rows).map(|r| piece(r).to_slice_memory_order().unwrap_or(&[])).collect();
        return sink.columns(&job, Lines::of_list(&rows, kept.len));
    }
    let mut to = to.clone();
    for i in 0..view.shape()[axis] {
        pieces(piece(i), &to, sink);
        to.at += to.acc[axis];
        to.first += to.pos[axis];
    }
}
