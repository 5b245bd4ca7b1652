//! Products of complex numbers along an axis that is not the last: rows are multiplied element by element.

use super::lanes::rows_of;
use super::sink::Lines;
use num_complex::{Complex32, Complex64};

/// Columns whose products are taken together: their parts, 16 KB, stay in the first-level cache, and of each row enough is read for the
/// processor to fetch more of it by itself.
const COLUMNS: usize = 1024;
/// Columns whose products are in registers.
const AT_ONCE: usize = 16;
/// Rows that are multiplied while they are.
const ROWS: usize = 4;
/// Where the elements of a vector come from: of two registers with four elements each, one instruction takes the parts in this order.
const ORDER: [usize; 8] = [0, 1, 4, 5, 2, 3, 6, 7];

/// Real and imaginary parts of products. In vectors of their own, as elements would be taken apart and put together again for every row.
type Parts = [[f64; AT_ONCE]; 2];
type Row<'a> = &'a [[Complex32; AT_ONCE]];

#[inline(always)]
fn place(i: usize) -> usize {
    i / 8 * 8 + ORDER[i % 8]
}

/// Multiplies products by rows, one a column, in double precision.
#[inline(always)]
pub(super) fn multiply_rows<'a>(products: &mut [Complex64], lines: Lines<'a, Complex32>, rows: usize) {
    for (k, block) in products.chunks_mut(COLUMNS).enumerate() {
        let (whole, rest) = block.as_chunks_mut::<AT_ONCE>();
        let row = |r| &lines.get(r)[k * COLUMNS..];
        let vectors = |r| -> Row<'a> { &row(r).as_chunks().0[..whole.len()] };
        let mut parts = [[[0.0; AT_ONCE]; 2]; COLUMNS / AT_ONCE];
        for ([re, im], xs) in parts.iter_mut().zip(&*whole) {
            *re = std::array::from_fn(|i| xs[place(i)].re);
            *im = std::array::from_fn(|i| xs[place(i)].im);
        }
        let several = rows / ROWS * ROWS;
        for r in (0..several).step_by(ROWS) {
            multiply::<ROWS>(&mut parts[..whole.len()], std::array::from_fn(|i| vectors(r + i)));
        }
        for r in several..rows {
            multiply(&mut parts[..whole.len()], [vectors(r)]);
        }
        for ([re, im], xs) in parts.iter().zip(whole.iter_mut()) {
            for (i, (re, im)) in re.iter().zip(im).enumerate() {
                xs[place(i)] = Complex64::new(*re, *im);
            }
        }
        let from = whole.len() * AT_ONCE;
        rows_of(rest, &|r| &row(r)[from..], rows, |product, x: Complex32, _| *product *= Complex64::new(x.re.into(), x.im.into()));
    }
}

#[inline(always)]
fn multiply<const N: usize>(parts: &mut [Parts], rows: [Row<'_>; N]) {
    for (k, part) in parts.iter_mut().enumerate() {
        let [mut re, mut im] = *part;
        for row in rows {
            let xs = &row[k];
            for from in (0..AT_ONCE).step_by(8) {
                let a: [f32; 8] = std::array::from_fn(|i| xs[from + ORDER[i]].re);
                let b: [f32; 8] = std::array::from_fn(|i| xs[from + ORDER[i]].im);
                let (a, b) = (a.map(f64::from), b.map(f64::from));
                for i in 0..8 {
                    let (p, q) = (re[from + i], im[from + i]);
                    (re[from + i], im[from + i]) = (p * a[i] - q * b[i], p * b[i] + q * a[i]);
                }
            }
        }
        *part = [re, im];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same bits as one row after another, for every number of rows and columns that is left over.
    #[test]
    fn all_widths() {
        let mut rng = fastrand::Rng::with_seed(31);
        for width in [0, 1, 15, 16, 17, 40, COLUMNS - 1, COLUMNS, COLUMNS + 1, 2 * COLUMNS + 21] {
            for rows in 0..2 * ROWS + 2 {
                let mut number = || 0.5 + rng.f32();
                let xs: Vec<Complex32> = (0..rows * width).map(|_| Complex32::new(number(), -number())).collect();
                let first: Vec<Complex64> = (0..width).map(|_| Complex64::new(number().into(), number().into())).collect();
                let (mut found, mut expected) = (first.clone(), first);
                multiply_rows(&mut found, Lines::of_run(&xs, width, width), rows);
                for r in 0..rows {
                    for (product, x) in expected.iter_mut().zip(&xs[r * width..]) {
                        *product *= Complex64::new(x.re.into(), x.im.into());
                    }
                }
                assert_eq!(found, expected, "{rows} rows of {width}");
            }
        }
    }
}
