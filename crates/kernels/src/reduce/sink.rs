//! The loops over runs of memory, compiled for each reduction and each instruction set.

use super::reducers::Reducer;
use super::walk::Dim;
use crate::simd::{Loop, dispatch};
use ndarray::ArrayView1;

/// Bytes of the temporaries of columns: they stay in the first-level cache beside some rows.
const COLUMN_BYTES: usize = 16 << 10;

/// The accumulators of a reduction of elements of one type, whatever the reduction.
pub(crate) trait Sink<T> {
    /// Reduces rows of a run, each into one accumulator.
    fn rows(&mut self, xs: &[T], job: &Rows);
    /// Reduces rows column by column.
    fn columns(&mut self, job: &Columns, lines: Lines<'_, T>);
    /// Adds the elements of a lane one by one: each to the accumulator of its group, of which the first is at `at`. Without a group it is
    /// left out.
    fn scatter(&mut self, lane: ArrayView1<'_, T>, groups: &[Option<u32>], at: isize, stride: isize);
}

/// Rows of the same length and distance, each of which one accumulator takes.
pub(crate) struct Rows {
    pub rows: Dim,
    /// The length of a row.
    pub len: usize,
    /// The accumulator of the first row.
    pub at: isize,
    /// The position of the first element, and the step to the next one.
    pub pos: isize,
    pub step: isize,
}

/// The rows of one column-wise pass.
pub(crate) struct Columns {
    pub rows: usize,
    pub columns: usize,
    /// The accumulator of the first column, and the step to the next one's.
    pub at: isize,
    pub stride: isize,
    /// The position of the first row, and the step to the next one's.
    pub pos: isize,
    pub pos_step: isize,
}

/// The elements of the rows of a column-wise pass, or of a part of them.
#[derive(Clone, Copy)]
pub(crate) struct Lines<'a, T> {
    memory: Memory<'a, T>,
    /// The first row, and in each row the first column and the number of columns.
    first: usize,
    column: usize,
    columns: usize,
}

/// Where rows are.
#[derive(Clone, Copy)]
enum Memory<'a, T> {
    /// At equal distances.
    Run(&'a [T], usize),
    /// Anywhere.
    List(&'a [&'a [T]]),
}

impl<'a, T: Copy> Lines<'a, T> {
    /// Rows of this many elements, of which each begins `step` elements after the one before.
    pub fn of_run(xs: &'a [T], step: usize, columns: usize) -> Self {
        Lines { memory: Memory::Run(xs, step), first: 0, column: 0, columns }
    }

    /// Rows of this many elements.
    pub fn of_list(rows: &'a [&'a [T]], columns: usize) -> Self {
        Lines { memory: Memory::List(rows), first: 0, column: 0, columns }
    }

    /// Some columns of these rows from one row on.
    fn part(self, first: usize, column: usize, columns: usize) -> Self {
        Lines { memory: self.memory, first: self.first + first, column: self.column + column, columns }
    }

    /// The elements of a row.
    #[inline(always)]
    pub fn get(&self, row: usize) -> &'a [T] {
        let row = self.first + row;
        match self.memory {
            Memory::Run(xs, step) => &xs[row * step + self.column..][..self.columns],
            Memory::List(rows) => &rows[row][self.column..][..self.columns],
        }
    }
}

/// The accumulators of a reducer as a sink.
pub(crate) struct Accumulators<'a, R: Reducer>(pub &'a mut [R::Acc]);

impl<R: Reducer> Sink<R::In> for Accumulators<'_, R> {
    fn rows(&mut self, xs: &[R::In], job: &Rows) {
        dispatch(Each::<R> { xs, job, acc: self.0 });
    }

    fn columns(&mut self, job: &Columns, lines: Lines<'_, R::In>) {
        let acc = &mut *self.0;
        if (job.rows, job.stride) == (1, 1) {
            return dispatch(Single::<R> { acc: &mut acc[job.at as usize..][..job.columns], xs: lines.get(0), pos: job.pos });
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
                dispatch(Added::<R> { parts: tmp, lines: lines.part(r, c, width), rows, pos, step: job.pos_step });
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

    fn scatter(&mut self, lane: ArrayView1<'_, R::In>, groups: &[Option<u32>], at: isize, stride: isize) {
        for (&x, g) in lane.iter().zip(groups) {
            if let Some(g) = g {
                let mut one = R::part();
                R::add(&mut one, x, 0);
                R::merge(&mut self.0[(at + *g as isize * stride) as usize], one);
            }
        }
    }
}

/// See [`Sink::rows`].
struct Each<'a, R: Reducer> {
    xs: &'a [R::In],
    job: &'a Rows,
    acc: &'a mut [R::Acc],
}

impl<R: Reducer> Loop for Each<'_, R> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Rows { rows, len, at, pos, step } = *self.job;
        for i in 0..rows.len {
            let (x, i) = (i * rows.x, i as isize);
            let (xs, pos) = (&self.xs[x..x + len], pos + i * rows.pos);
            let acc = &mut self.acc[(at + i * rows.acc) as usize];
            match R::glance(xs, pos, step) {
                Some(part) => R::merge(acc, part),
                None => row::<R>(xs, pos, step, acc),
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
struct Added<'a, R: Reducer> {
    parts: &'a mut [R::Part],
    lines: Lines<'a, R::In>,
    rows: usize,
    pos: isize,
    step: isize,
}

impl<R: Reducer> Loop for Added<'_, R> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        R::columns(self.parts, self.lines, self.rows, self.pos, self.step);
    }
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
