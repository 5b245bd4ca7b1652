//! Matrix products of integers, which no GEMM library has.
//!
//! The blocking is that of Goto and van de Geijn (2008): a panel of each operand is packed, and a small tile of the output stays in
//! registers while the panels pass. The tile's loops have fixed lengths, so the compiler makes vectors of them; they are compiled for
//! each instruction set that widens the vectors.

use ndarray::{ArrayView2, ArrayViewMut2};

/// Summed elements, rows and columns of the panels.
const DEPTH: usize = 256;
const ROWS: usize = 128;
const COLUMNS: usize = 256;

/// An element in the panels.
pub(crate) trait Word: Copy + Default + 'static {
    /// `sum + x y`.
    fn add_product(sum: Self, x: Self, y: Self) -> Self;
    /// `sum[i][j] += sum over k of a[k][i] b[k][j]`, the whole of a panel, with the widest vectors that there are. `tile` receives
    /// the sums, `shape` is the tile's.
    fn panels() -> (usize, usize, Tile<Self>);
}

/// Computes a tile from two packed panels; the tile has as many rows as the first panel is wide.
pub(crate) type Tile<W> = fn(a: &[W], b: &[W], tile: &mut [W]);

#[inline(always)]
fn tile<W: Word, const M: usize, const N: usize>(a: &[W], b: &[W], out: &mut [W]) {
    let mut sums = [[W::default(); N]; M];
    for (a, b) in a.as_chunks::<M>().0.iter().zip(b.as_chunks::<N>().0) {
        for i in 0..M {
            for j in 0..N {
                sums[i][j] = W::add_product(sums[i][j], a[i], b[j]);
            }
        }
    }
    out.as_chunks_mut::<N>().0.iter_mut().zip(sums).for_each(|(o, s)| *o = s);
}

macro_rules! words {
    ($($t:ty, $wide:literal, $narrow:literal, $product:expr;)*) => {$(
        impl Word for $t {
            #[inline(always)]
            fn add_product(sum: Self, x: Self, y: Self) -> Self {
                $product(sum, x, y)
            }

            fn panels() -> (usize, usize, Tile<Self>) {
                #[cfg(target_arch = "x86_64")]
                {
                    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
                    fn wide(a: &[$t], b: &[$t], out: &mut [$t]) {
                        tile::<$t, 8, $wide>(a, b, out);
                    }
                    #[target_feature(enable = "avx2")]
                    fn narrow(a: &[$t], b: &[$t], out: &mut [$t]) {
                        tile::<$t, 6, $narrow>(a, b, out);
                    }
                    let has = |avx512: bool| {
                        if !avx512 {
                            return is_x86_feature_detected!("avx2");
                        }
                        is_x86_feature_detected!("avx512f")
                            && is_x86_feature_detected!("avx512bw")
                            && is_x86_feature_detected!("avx512dq")
                            && is_x86_feature_detected!("avx512vl")
                    };
                    if has(true) {
                        // SAFETY: the features that the function is compiled for were just detected.
                        return (8, $wide, |a, b, out| unsafe { wide(a, b, out) });
                    }
                    if has(false) {
                        // SAFETY: as above.
                        return (6, $narrow, |a, b, out| unsafe { narrow(a, b, out) });
                    }
                }
                (6, $narrow, tile::<$t, 6, $narrow>)
            }
        }
    )*};
}

/// A bool in a panel.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Bit(u8);

impl From<bool> for Bit {
    fn from(value: bool) -> Bit {
        Bit(u8::from(value))
    }
}

impl Bit {
    pub(crate) fn is_set(self) -> bool {
        self.0 != 0
    }
}

words! {
    Bit, 128, 64, |s: Bit, x: Bit, y: Bit| Bit(s.0 | (x.0 & y.0));
    u16, 64, 32, |s: u16, x: u16, y: u16| s.wrapping_add(x.wrapping_mul(y));
    u32, 32, 16, |s: u32, x: u32, y: u32| s.wrapping_add(x.wrapping_mul(y));
    u64, 16, 8, |s: u64, x: u64, y: u64| s.wrapping_add(x.wrapping_mul(y));
}

/// Packs a matrix in panels of `width` of its rows, one column after another, padded with zeros.
fn pack<T: Copy, W: Word>(out: &mut Vec<W>, view: ArrayView2<'_, T>, width: usize, word: impl Fn(T) -> W) {
    let depth = view.ncols();
    out.clear();
    out.resize(view.nrows().next_multiple_of(width) * depth, W::default());
    for (rows, panel) in view.axis_chunks_iter(ndarray::Axis(0), width).zip(out.chunks_mut(width * depth)) {
        for (column, place) in rows.columns().into_iter().zip(panel.chunks_mut(width)) {
            match column.as_slice() {
                Some(column) => place.iter_mut().zip(column).for_each(|(w, &x)| *w = word(x)),
                None => place.iter_mut().zip(column).for_each(|(w, &x)| *w = word(x)),
            }
        }
    }
}

/// `c += a b`: `word` puts an element into a panel, `add` adds a sum to an element. The shapes fit.
pub(crate) fn product<T: Copy, W: Word>(
    mut c: ArrayViewMut2<'_, T>,
    a: ArrayView2<'_, T>,
    b: ArrayView2<'_, T>,
    word: impl Fn(T) -> W + Copy,
    add: impl Fn(T, W) -> T,
) {
    let (rows, columns, depth) = (a.nrows(), b.ncols(), a.ncols());
    let (m, n, tile) = W::panels();
    let (mut left, mut right, mut sums) = (Vec::new(), Vec::new(), vec![W::default(); m * n]);
    for k in (0..depth).step_by(DEPTH) {
        let k1 = depth.min(k + DEPTH);
        for j in (0..columns).step_by(COLUMNS) {
            let j1 = columns.min(j + COLUMNS);
            pack(&mut right, b.slice(ndarray::s![k..k1, j..j1]).reversed_axes(), n, word);
            for i in (0..rows).step_by(ROWS) {
                let i1 = rows.min(i + ROWS);
                pack(&mut left, a.slice(ndarray::s![i..i1, k..k1]), m, word);
                for (jt, right) in (j..j1).step_by(n).zip(right.chunks(n * (k1 - k))) {
                    for (it, left) in (i..i1).step_by(m).zip(left.chunks(m * (k1 - k))) {
                        tile(left, right, &mut sums);
                        let mut part = c.slice_mut(ndarray::s![it..i1.min(it + m), jt..j1.min(jt + n)]);
                        for (mut row, sums) in part.rows_mut().into_iter().zip(sums.chunks(n)) {
                            match row.as_slice_mut() {
                                Some(row) => row.iter_mut().zip(sums).for_each(|(c, &s)| *c = add(*c, s)),
                                None => row.iter_mut().zip(sums).for_each(|(c, &s)| *c = add(*c, s)),
                            }
                        }
                    }
                }
            }
        }
    }
}
