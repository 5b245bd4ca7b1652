//! The rows of a region.

use chunkwise_types::Region;

/// `shape` in the index type of memory.
pub(crate) fn usize_shape(shape: &[u64]) -> Vec<usize> {
    shape.iter().map(|&n| n as usize).collect()
}

/// Calls `f` with the C-order position in the whole array and the length of every row of a region, in C order.
pub(crate) fn for_each_row(shape: &[u64], region: &Region, mut f: impl FnMut(u64, u64)) {
    let Some((&len, outer)) = region.shape.split_last() else {
        f(0, 1);
        return;
    };
    if len == 0 {
        return;
    }
    let mut index = region.start.clone();
    for row in 0..chunkwise_types::volume(outer) {
        for (i, k) in chunkwise_types::unravel(row, outer).into_iter().enumerate() {
            index[i] = region.start[i] + k;
        }
        f(chunkwise_types::ravel(&index, shape), len);
    }
}
