//! QR decompositions of the row blocks of a tall matrix.
//!
//! They are the steps of the direct TSQR of Demmel, Grigori, Hoemmen and Langou (2012) and Benson, Gleich and Demmel (2013): the R of
//! every block of rows, the QR of all these stacked, and the Q of every block times its rows of the Q of the stack. A block is
//! factored by Householder reflections, whose panels are split in halves (Elmroth and Gustavson 2000), so that nearly all work is in
//! matrix products, and the result is orthogonal to rounding whatever the condition of the matrix. The diagonal of R is made
//! non-negative, which makes the result unique for a matrix of full rank: it does not depend on the blocks.

use crate::kind::{Compute, Evaluation, KernelKind, Traits, Types, Work};
use crate::matmul::{Product, matmul, panels, threads};
use crate::{ArrayType, Block, BlockElement, Demand, DemandList, KernelError, Part, ViewAxis, Window, check};
use chunkwise_types::{AxisChunks, DType, Region};
use ndarray::{Array2, ArrayView2, ArrayViewMut2, Axis, Ix2, NdFloat, ShapeBuilder, s};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smallvec::smallvec;

/// Columns that are factored before the rest of the matrix is brought up to date.
const PANEL: usize = 64;

/// The decomposition of each block of rows of a matrix of n columns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Qr {
    /// Which factor is made.
    pub factor: Factor,
    /// The blocks.
    pub rows: AxisChunks,
}

/// A factor of a QR decomposition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Factor {
    /// The triangles: an output of shape (blocks, n, n), filled up with zeros where a block has fewer rows than columns.
    R,
    /// The orthogonal factors one below the other. A second input of shape (blocks n, n) is multiplied to them from the right, n of
    /// its rows for each block.
    Q,
}

impl Qr {
    /// Refuses what is no matrix of float32 or float64, and blocks that do not make it up.
    pub(crate) fn check(&self, inputs: &[ArrayType], output: &ArrayType) -> Result<(), KernelError> {
        let (a, more) = match (self.factor, inputs) {
            (Factor::R, [a]) | (Factor::Q, [a]) => (a, None),
            (Factor::Q, [a, b]) => (a, Some(b)),
            _ => return check::invalid(format!("qr: it cannot take {} inputs", inputs.len())),
        };
        let &[m, n] = a.shape.as_slice() else { return check::invalid("qr: it needs a matrix") };
        if !matches!(a.dtype, DType::Float32 | DType::Float64) {
            return check::invalid(format!("qr: it cannot take {}", a.dtype));
        }
        if !self.rows.cuts(m) {
            return check::invalid("qr: its blocks do not make up the rows");
        }
        let blocks = self.rows.count();
        if let Some(b) = more
            && (b.dtype != a.dtype || b.shape[..] != [blocks.saturating_mul(n), n])
        {
            return check::invalid("qr: the second input does not fit the first");
        }
        check::dtype(output, a.dtype)?;
        match self.factor {
            Factor::R => check::shape(output, &[blocks, n, n]),
            Factor::Q => check::shape(output, &[m, n]),
        }
    }

    /// The blocks that a region of the output is about.
    fn blocks(&self, region: &Region) -> (u64, u64) {
        match self.factor {
            Factor::R => (region.start[0], region.end(0)),
            Factor::Q => {
                let touched = self.rows.touched(region.start[0], region.shape[0]);
                (touched.start, touched.end)
            }
        }
    }

    pub(crate) fn demand(&self, inputs: &[ArrayType], region: &Region) -> DemandList {
        let n = inputs[0].shape[1];
        let (first, end) = self.blocks(region);
        let start = self.rows.bounds(first).0;
        let (last, len) = self.rows.bounds(end - 1);
        let whole = |start, rows| Region::new([start, 0], [rows, n]);
        let mut out: DemandList = smallvec![Demand { input: 0, region: whole(start, last + len - start) }];
        if inputs.len() > 1 {
            out.push(Demand { input: 1, region: whole(first * n, (end - first) * n) });
        }
        out
    }

    pub(crate) fn compute(&self, dtype: DType, region: &Region, parts: &[Part]) -> Result<Block, KernelError> {
        match dtype {
            DType::Float32 => self.factors::<f32>(region, parts),
            DType::Float64 => self.factors::<f64>(region, parts),
            other => Err(KernelError::DType { op: "qr".into(), dtype: other }),
        }
    }

    fn factors<T: Product + NdFloat>(&self, region: &Region, parts: &[Part]) -> Result<Block, KernelError> {
        let (a, c) = (parts.first().map(matrix::<T>).transpose()?, parts.get(1).map(matrix::<T>).transpose()?);
        let Some(a) = a else { return check::invalid("qr: a part is missing") };
        let (first, end) = self.blocks(region);
        let (n, origin) = (a.ncols(), parts[0].region.start[0]);
        let mut out = Block::zeros(T::DTYPE, &region.shape);
        for block in first..end {
            let (start, len) = self.rows.bounds(block);
            let from = (start - origin) as usize;
            let factored = Factored::new(a.slice(s![from..from + len as usize, ..]));
            match self.factor {
                Factor::R => {
                    let r = T::wrap(factored.r().into_dyn().into_shared());
                    let whole = Region::new([block, region.start[1], region.start[2]], [1, region.shape[1], region.shape[2]]);
                    let cut = Region::new(&whole.start[1..], &whole.shape[1..]);
                    if let Some(piece) = r.slice(&cut).contiguous().reshaped(&whole.shape) {
                        out.assign(&whole.relative_to(region), &piece);
                    }
                }
                Factor::Q => {
                    let k = (block - first) as usize * n;
                    let q = T::wrap(factored.times(c.as_ref().map(|c| c.slice(s![k..k + n, ..]))).into_dyn().into_shared());
                    let own = Region::new([start, 0], [len, n as u64]);
                    if let Some(kept) = own.intersect(region) {
                        out.assign(&kept.relative_to(region), &q.slice(&kept.relative_to(&own)));
                    }
                }
            }
        }
        Ok(out)
    }

    /// An upper bound of the bytes beside the output.
    pub(crate) fn scratch(&self, inputs: &[ArrayType], demanded: &[u64]) -> u64 {
        let (a, c) = (demanded.first().copied().unwrap_or(0), demanded.get(1).copied().unwrap_or(0));
        let (n, item) = (inputs[0].shape.get(1).copied().unwrap_or(0), inputs[0].dtype.size());
        // The matrix in columns, its reflectors, the factor; panels of products; the triangle.
        let elements =
            a.saturating_mul(3).saturating_add(c).saturating_add(n.saturating_mul(n.saturating_mul(2).saturating_add(4 * PANEL as u64)));
        elements.saturating_mul(item).saturating_add(panels(a.saturating_mul(2 * item)))
    }
}

fn matrix<T: BlockElement>(part: &Part) -> Result<ArrayView2<'_, T>, KernelError> {
    let a = T::unwrap(&part.block).ok_or_else(|| KernelError::DType { op: "qr".into(), dtype: part.block.dtype() })?;
    a.view().into_dimensionality::<Ix2>().map_err(|e| KernelError::Invalid(format!("qr: {e}")))
}

/// `c += a b`.
fn add<T: Product>(c: ArrayViewMut2<'_, T>, a: ArrayView2<'_, T>, b: ArrayView2<'_, T>) {
    let bytes = ((a.len() + b.len()) * size_of::<T>()) as u64;
    matmul(c, a, b, false, threads(bytes));
}

/// `-a b`.
fn minus<T: Product + NdFloat>(a: ArrayView2<'_, T>, b: ArrayView2<'_, T>) -> Array2<T> {
    let mut out = Array2::from_elem((a.nrows(), b.ncols()).f(), T::zero());
    add(out.view_mut(), a, b);
    out.mapv_into(|x| -x)
}

/// Reduces a panel to triangular form in place, `(I - y t yᵀ)ᵀ a`, and gives its reflectors `y` (zeros on entry) and `t`. It must not
/// have more columns than rows.
fn panel<T: Product + NdFloat>(mut a: ArrayViewMut2<'_, T>, mut y: ArrayViewMut2<'_, T>, mut t: ArrayViewMut2<'_, T>) {
    let n = a.ncols();
    if n == 1 {
        let (first, tau) = reflector(a.column(0), y.column_mut(0));
        a.column_mut(0).fill(T::zero());
        a[[0, 0]] = first;
        t[[0, 0]] = tau;
        return;
    }
    let h = n / 2;
    let (mut left, mut right) = a.split_at(Axis(1), h);
    let (mut y1, mut y2) = y.split_at(Axis(1), h);
    panel(left.view_mut(), y1.view_mut(), t.slice_mut(s![..h, ..h]));
    apply(right.view_mut(), y1.view(), t.slice(s![..h, ..h]).reversed_axes());
    panel(right.slice_mut(s![h.., ..]), y2.slice_mut(s![h.., ..]), t.slice_mut(s![h.., h..]));
    let across = minus(y1.t(), y2.view());
    let mut inner = Array2::from_elem((h, n - h).f(), T::zero());
    add(inner.view_mut(), t.slice(s![..h, ..h]), across.view());
    let (top, bottom) = t.split_at(Axis(0), h);
    add(top.slice_move(s![.., h..]), inner.view(), bottom.slice(s![.., h..]));
}

/// `a -= y t yᵀ a`.
fn apply<T: Product + NdFloat>(a: ArrayViewMut2<'_, T>, y: ArrayView2<'_, T>, t: ArrayView2<'_, T>) {
    let mut inner = Array2::from_elem((y.ncols(), a.ncols()).f(), T::zero());
    add(inner.view_mut(), y.t(), a.view());
    let inner = minus(t, inner.view());
    add(a, y, inner.view());
}

/// The reflection `I - tau y yᵀ` that takes a column to `(first, 0, 0, ...)`, with `y[0] = 1`: gives `first` and `tau`.
fn reflector<T: NdFloat>(x: ndarray::ArrayView1<'_, T>, mut y: ndarray::ArrayViewMut1<'_, T>) -> (T, T) {
    let alpha = x[0];
    // Scaled, so that squares neither overflow nor vanish.
    let scale = x.fold(T::zero(), |m, v| if v.abs() > m { v.abs() } else { m });
    y.fill(T::zero());
    y[0] = T::one();
    // In double precision and in several sums: a long column of float32 would lose half of its digits.
    let mut sums = [0f64; 8];
    for (k, &v) in x.iter().enumerate().skip(1) {
        let v = (v / scale).to_f64().unwrap_or(f64::NAN);
        sums[k % 8] += v * v;
    }
    let sum: f64 = sums.iter().sum();
    // Nothing to do below the diagonal, or nothing but zeros in the column.
    if sum == 0.0 || scale == T::zero() && !x.iter().any(|v| v.is_nan()) {
        return (alpha, T::zero());
    }
    let pivot = (alpha / scale).to_f64().unwrap_or(f64::NAN);
    let norm = scale * T::from((sum + pivot * pivot).sqrt()).unwrap_or_else(T::nan);
    let first = if alpha > T::zero() { -norm } else { norm };
    let pivot = alpha - first;
    y.iter_mut().zip(x).skip(1).for_each(|(y, &x)| *y = x / pivot);
    (first, (first - alpha) / first)
}

/// A matrix in Householder form.
struct Factored<T> {
    /// R on and above the diagonal.
    a: Array2<T>,
    /// The reflectors of each panel, from the row on where it starts, and their triangle.
    panels: Vec<(Array2<T>, Array2<T>)>,
}

impl<T: Product + NdFloat> Factored<T> {
    fn new(source: ArrayView2<'_, T>) -> Factored<T> {
        let (m, n) = source.dim();
        let mut a = Array2::from_elem((m, n).f(), T::zero());
        a.assign(&source);
        let mut panels = Vec::new();
        for j in (0..m.min(n)).step_by(PANEL) {
            let w = PANEL.min(m.min(n) - j);
            let mut y = Array2::from_elem((m - j, w).f(), T::zero());
            let mut t = Array2::from_elem((w, w).f(), T::zero());
            panel(a.slice_mut(s![j.., j..j + w]), y.view_mut(), t.view_mut());
            if j + w < n {
                apply(a.slice_mut(s![j.., j + w..]), y.view(), t.t());
            }
            panels.push((y, t));
        }
        Factored { a, panels }
    }

    /// -1 for the rows of R that change their sign.
    fn sign(&self, k: usize) -> T {
        if self.a[[k, k]] < T::zero() { -T::one() } else { T::one() }
    }

    /// R with a non-negative diagonal, n by n.
    fn r(&self) -> Array2<T> {
        let (m, n) = self.a.dim();
        let mut r = Array2::from_elem((n, n), T::zero());
        for i in 0..m.min(n) {
            let sign = self.sign(i);
            r.slice_mut(s![i, i..]).zip_mut_with(&self.a.slice(s![i, i..]), |r, &a| *r = sign * a);
        }
        r
    }

    /// Q times a square matrix, or Q itself.
    fn times(&self, c: Option<ArrayView2<'_, T>>) -> Array2<T> {
        let (m, n) = self.a.dim();
        let mut x = Array2::from_elem((m, n).f(), T::zero());
        for k in 0..m.min(n) {
            let sign = self.sign(k);
            match &c {
                Some(c) => x.row_mut(k).zip_mut_with(&c.row(k), |x, &c| *x = sign * c),
                None => x[[k, k]] = sign,
            }
        }
        for (p, (y, t)) in self.panels.iter().enumerate().rev() {
            // Of the identity, the columns to the left of a panel are not touched by it.
            let left = if c.is_none() { p * PANEL } else { 0 };
            apply(x.slice_mut(s![p * PANEL.., left..]), y.view(), t.view());
        }
        x
    }
}

impl KernelKind for Qr {
    fn name(&self) -> &'static str {
        "qr"
    }

    fn check(&self, at: Types<'_>) -> Result<(), KernelError> {
        self.check(at.inputs, at.output)
    }

    fn demand(&self, at: Types<'_>, region: &Region, _: Option<&Window>) -> DemandList {
        self.demand(at.inputs, region)
    }

    fn traits(&self) -> Traits {
        Traits { turns: true, whole: true, ..Traits::PLAIN }
    }

    fn work(&self, at: Types<'_>) -> Work {
        Work::passing(at)
    }

    fn view(&self) -> Option<&[ViewAxis]> {
        None
    }

    fn blocks(&self, region: &Region) -> Option<u64> {
        let (first, end) = self.blocks(region);
        Some(end - first)
    }

    fn evaluation(&self) -> Evaluation<'_> {
        Evaluation::AtOnce(self)
    }
}

impl Compute for Qr {
    fn compute(&self, at: Types<'_>, region: &Region, parts: &[Part]) -> Result<Block, KernelError> {
        self.compute(at.output.dtype, region, parts)
    }

    fn scratch(&self, at: Types<'_>, _: &Region, demanded: &[u64]) -> u64 {
        self.scratch(at.inputs, demanded)
    }
}

#[cfg(test)]
#[path = "qr_tests.rs"]
mod tests;
