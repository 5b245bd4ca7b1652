//! The steps of a fold: windows of its contracted indices, of which none is kept. There is one for each chunk of what may be a large array.

use chunkwise_kernels::{Node, Window};
use chunkwise_types::{AxisChunks, Region};

/// How a part of one contracted index is cut.
#[derive(Debug, Clone)]
enum Cut {
    /// At the multiples of a size.
    Regular { size: u64, start: u64, len: u64 },
    /// Starts and lengths.
    List(Vec<(u64, u64)>),
}

impl Cut {
    fn new(chunks: &AxisChunks, start: u64, len: u64) -> Cut {
        match chunks {
            AxisChunks::Regular { size, .. } => Cut::Regular { size: (*size).max(1), start, len },
            AxisChunks::Irregular(list) => {
                let ends = list.iter().scan(0u64, |end, n| {
                    *end += n;
                    Some((*end - n, *end))
                });
                let inside = ends.map(|(a, b)| (a.max(start), b.min(start + len))).filter(|(a, b)| a < b);
                Cut::List(inside.map(|(a, b)| (a, b - a)).collect())
            }
        }
    }

    fn count(&self) -> u64 {
        match self {
            Cut::Regular { len: 0, .. } => 0,
            Cut::Regular { size, start, len } => (start + len - 1) / size - start / size + 1,
            Cut::List(list) => list.len() as u64,
        }
    }

    fn get(&self, i: u64) -> Option<(u64, u64)> {
        match self {
            Cut::Regular { size, start, len } => {
                let chunk = (start / size + i) * size;
                let (a, b) = (chunk.max(*start), chunk.saturating_add(*size).min(start + len));
                (a < b).then(|| (a, b - a))
            }
            Cut::List(list) => list.get(usize::try_from(i).ok()?).copied(),
        }
    }
}

impl PartialEq for Cut {
    /// True if the pieces are the same: one piece may come from chunks of any size.
    fn eq(&self, other: &Cut) -> bool {
        match (self, other) {
            // Mostly, and there may be very many pieces.
            (Cut::Regular { size: a, start: b, len: c }, Cut::Regular { size: d, start: e, len: f }) if (a, b, c) == (d, e, f) => true,
            _ => self.count() == other.count() && (0..self.count()).all(|i| self.get(i) == other.get(i)),
        }
    }
}

/// The windows that a fold takes its input in, for a region of its value.
///
/// ```
/// # use chunkwise_kernels::{ArrayType, Kernel, Node, ReduceOp};
/// use chunkwise_plan::windows::Windows;
/// use chunkwise_types::{AxisChunks, DType, Region};
/// # let kernel = Kernel::Reduce { function: ReduceOp::Sum, axes: vec![0], segments: None };
/// # let (inputs, output) = ([ArrayType::new(DType::Int64, vec![7, 5])], ArrayType::new(DType::Int64, vec![5]));
/// # let sum = Node { kernel: &kernel, inputs: &inputs, output: &output };
/// // A sum along the first axis of a matrix with 7 rows, three of them in a chunk.
/// let windows = Windows::new(&sum, &[AxisChunks::regular(7, 3)], &Region::full(&[5]));
/// assert_eq!(windows.iter().collect::<Vec<_>>(), [vec![(0, 3)], vec![(3, 3)], vec![(6, 1)]]);
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Windows(Vec<Cut>);

impl Windows {
    /// The windows of a fold whose contracted indices are cut at `stream`, for a region of its value.
    pub fn new(node: &Node<'_>, stream: &[AxisChunks], region: &Region) -> Windows {
        Windows(node.window(region).iter().zip(stream).map(|(&(start, len), chunks)| Cut::new(chunks, start, len)).collect())
    }

    /// How many there are: none if a contracted index has no elements, one if there is no such index.
    #[allow(clippy::len_without_is_empty)] // Who asks for them goes through all or takes samples.
    pub fn len(&self) -> usize {
        let count = self.0.iter().map(Cut::count).fold(1, u64::saturating_mul);
        usize::try_from(count).unwrap_or(usize::MAX)
    }

    /// A window by its number; the last index is the fastest.
    pub fn get(&self, number: usize) -> Option<Window> {
        if number >= self.len() {
            return None;
        }
        let mut rest = number as u64;
        let mut window = vec![(0, 0); self.0.len()];
        for (at, cut) in window.iter_mut().zip(&self.0).rev() {
            *at = cut.get(rest % cut.count())?;
            rest /= cut.count();
        }
        Some(window)
    }

    /// Every window.
    pub fn iter(&self) -> impl Iterator<Item = Window> {
        (0..self.len()).map_while(|i| self.get(i))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chunkwise_types::unravel;

    #[test]
    fn windows_are_equal_whatever_cut_them() {
        let cut = |size: u64, start: u64, len: u64| Windows(vec![Cut::new(&AxisChunks::regular(20, size), start, len)]);
        assert_eq!(cut(5, 0, 5), cut(20, 0, 5));
        assert_eq!(cut(4, 2, 4), cut(2, 2, 4));
        assert_eq!(cut(5, 3, 7), Windows(vec![Cut::new(&AxisChunks::from_list(vec![5, 5, 1, 9]), 3, 7)]));
        assert_ne!(cut(5, 0, 10), cut(10, 0, 10));
        assert_ne!(cut(5, 0, 5), cut(5, 5, 5));
    }

    #[test]
    fn windows_are_the_products_of_cuts() {
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..300 {
            let axes: Vec<(AxisChunks, u64, u64)> = (0..rng.usize(..4))
                .map(|_| {
                    let list: Vec<u64> = (0..rng.usize(1..6)).map(|_| rng.u64(1..5)).collect();
                    let all: u64 = list.iter().sum();
                    let chunks = if rng.bool() { AxisChunks::regular(all, rng.u64(1..7)) } else { AxisChunks::from_list(list) };
                    let start = rng.u64(..all);
                    (chunks, start, rng.u64(..=all - start))
                })
                .collect();
            let windows = Windows(axes.iter().map(|(chunks, start, len)| Cut::new(chunks, *start, *len)).collect());
            // The chunks that are touched, cut to what is asked for.
            let cuts: Vec<Vec<(u64, u64)>> = axes
                .iter()
                .map(|(chunks, start, len)| {
                    let part = |c: u64| {
                        let (s, n) = chunks.bounds(c);
                        let (a, b) = (s.max(*start), (s + n).min(start + len));
                        (a, b - a)
                    };
                    chunks.touched(*start, *len).map(part).collect()
                })
                .collect();
            let counts: Vec<u64> = cuts.iter().map(|c| c.len() as u64).collect();
            let of = |k: u64| -> Window { unravel(k, &counts).iter().zip(&cuts).map(|(&i, c)| c[i as usize]).collect() };
            let want: Vec<Window> = (0..counts.iter().product()).map(of).collect();
            assert_eq!(windows.iter().collect::<Vec<_>>(), want, "{axes:?}");
            assert_eq!((windows.len(), windows.get(want.len())), (want.len(), None));
        }
    }
}
