//! Matrix products of integers, which no GEMM library has.
//!
//! The blocking is that of Goto and van de Geijn (2008): a panel of each operand is packed, and a small tile of the output stays in
//! registers while the panels pass. The compiler makes vectors of the tile's loops for elements of one and two bytes. For longer ones
//! it does not (4 billion operations a second instead of 115 to 228 on a Zen 5 core), so their tiles are written in intrinsics.

use ndarray::{ArrayView2, ArrayViewMut2};

/// Summed elements, rows and columns of the panels.
const DEPTH: usize = 256;
const ROWS: usize = 128;
const COLUMNS: usize = 256;

/// An element in the panels.
pub(crate) trait Word: Copy + Default + 'static {
    /// `sum + x y`.
    fn add_product(sum: Self, x: Self, y: Self) -> Self;
    /// The widths of the panels, and what computes a tile from them, with the widest vectors that there are.
    fn panels() -> (usize, usize, Tile<Self>);
}

/// Writes `tile[i][j] = sum over k of a[k][i] b[k][j]`.
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

#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512dq")
}

/// Words whose tiles the compiler vectorises: widths for AVX-512, and for everything else.
macro_rules! short_words {
    ($($t:ty, $wide:literal, $narrow:literal, $product:expr;)*) => {$(
        impl Word for $t {
            #[inline(always)]
            fn add_product(sum: Self, x: Self, y: Self) -> Self {
                $product(sum, x, y)
            }

            fn panels() -> (usize, usize, Tile<Self>) {
                #[cfg(target_arch = "x86_64")]
                {
                    #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
                    fn wide(a: &[$t], b: &[$t], out: &mut [$t]) {
                        tile::<$t, 8, $wide>(a, b, out);
                    }
                    #[target_feature(enable = "avx2")]
                    fn narrow(a: &[$t], b: &[$t], out: &mut [$t]) {
                        tile::<$t, 6, $narrow>(a, b, out);
                    }
                    if has_avx512() {
                        // SAFETY: the features that the function is compiled for were just detected.
                        return (8, $wide, |a, b, out| unsafe { wide(a, b, out) });
                    }
                    if is_x86_feature_detected!("avx2") {
                        // SAFETY: as above.
                        return (6, $narrow, |a, b, out| unsafe { narrow(a, b, out) });
                    }
                }
                (6, $narrow, tile::<$t, 6, $narrow>)
            }
        }
    )*};
}

/// A tile of `$rows` rows of two vectors of `$lanes` words each.
#[cfg(target_arch = "x86_64")]
macro_rules! tile_of_vectors {
    ($name:ident, $t:ty, $features:literal, $rows:literal, $lanes:literal, $vector:ty, $load:ident, $store:ident, $set:ident, $mul:ident,
     $add:ident) => {
        #[target_feature(enable = $features)]
        fn $name(a: &[$t], b: &[$t], out: &mut [$t]) {
            use std::arch::x86_64::*;
            let mut sums: [[$vector; 2]; $rows] = [[$set(0); 2]; $rows];
            for (a, b) in a.as_chunks::<$rows>().0.iter().zip(b.as_chunks::<{ 2 * $lanes }>().0) {
                // SAFETY: `b` has two vectors, and the loads need no alignment.
                let y = unsafe { [$load(b.as_ptr().cast()), $load(b.as_ptr().add($lanes).cast())] };
                for i in 0..$rows {
                    let x = $set(a[i].cast_signed());
                    for w in 0..2 {
                        sums[i][w] = $add(sums[i][w], $mul(x, y[w]));
                    }
                }
            }
            for (out, sums) in out.as_chunks_mut::<{ 2 * $lanes }>().0.iter_mut().zip(sums) {
                // SAFETY: `out` has room for two vectors, and the stores need no alignment.
                unsafe {
                    $store(out.as_mut_ptr().cast(), sums[0]);
                    $store(out.as_mut_ptr().add($lanes).cast(), sums[1]);
                }
            }
        }
    };
}

impl Word for u32 {
    #[inline(always)]
    fn add_product(sum: u32, x: u32, y: u32) -> u32 {
        sum.wrapping_add(x.wrapping_mul(y))
    }

    fn panels() -> (usize, usize, Tile<u32>) {
        #[cfg(target_arch = "x86_64")]
        {
            tile_of_vectors!(
                wide,
                u32,
                "avx512f",
                8,
                16,
                __m512i,
                _mm512_loadu_si512,
                _mm512_storeu_si512,
                _mm512_set1_epi32,
                _mm512_mullo_epi32,
                _mm512_add_epi32
            );
            tile_of_vectors!(
                narrow,
                u32,
                "avx2",
                4,
                8,
                __m256i,
                _mm256_loadu_si256,
                _mm256_storeu_si256,
                _mm256_set1_epi32,
                _mm256_mullo_epi32,
                _mm256_add_epi32
            );
            if has_avx512() {
                // SAFETY: the features that the function is compiled for were just detected.
                return (8, 32, |a, b, out| unsafe { wide(a, b, out) });
            }
            if is_x86_feature_detected!("avx2") {
                // SAFETY: as above.
                return (4, 16, |a, b, out| unsafe { narrow(a, b, out) });
            }
        }
        (4, 8, tile::<u32, 4, 8>)
    }
}

impl Word for u64 {
    #[inline(always)]
    fn add_product(sum: u64, x: u64, y: u64) -> u64 {
        sum.wrapping_add(x.wrapping_mul(y))
    }

    fn panels() -> (usize, usize, Tile<u64>) {
        #[cfg(target_arch = "x86_64")]
        {
            tile_of_vectors!(
                wide,
                u64,
                "avx512f,avx512dq",
                8,
                8,
                __m512i,
                _mm512_loadu_si512,
                _mm512_storeu_si512,
                _mm512_set1_epi64,
                _mm512_mullo_epi64,
                _mm512_add_epi64
            );
            if has_avx512() {
                // SAFETY: the features that the function is compiled for were just detected.
                return (8, 16, |a, b, out| unsafe { wide(a, b, out) });
            }
        }
        // Nothing below AVX-512 multiplies vectors of 64-bit integers.
        (4, 4, tile::<u64, 4, 4>)
    }
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

short_words! {
    Bit, 128, 64, |s: Bit, x: Bit, y: Bit| Bit(s.0 | (x.0 & y.0));
    u16, 64, 32, |s: u16, x: u16, y: u16| s.wrapping_add(x.wrapping_mul(y));
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
