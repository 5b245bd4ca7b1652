//! Functions that move elements: other orders, shapes, dimensions and chunks.

use super::parameter::{Default, Parameter, dim, shape, x};
use super::{Attributes, Call, Category, Each, Kind, Operation};
use crate::value::fail;
use crate::{Array, CallError, elementwise, manipulate};
use chunkwise_types::{AxisChunks, ChunkGrid};

static SHAPE: Category =
    Category { title: "Shape", about: "These functions move elements and do not change them, so the dtype and the attributes stay." };

fn expand_dims(c: &Call<'_>) -> Result<Array, CallError> {
    let x = c.array("x")?;
    Ok(match c.new_axis(&x)? {
        (axis, Some(dim)) => manipulate::expand_dims_named(&x, axis, &dim),
        (axis, None) => manipulate::expand_dims(&x, axis),
    }?)
}

fn squeeze(c: &Call<'_>) -> Result<Array, CallError> {
    let x = c.array("x")?;
    let short = || (0..x.rank()).filter(|&i| x.shape()[i] == 1).collect();
    let mut axes: Vec<usize> = c.axes("dim", &x)?.unwrap_or_else(short);
    axes.sort_unstable();
    axes.dedup();
    Ok(axes.into_iter().rev().try_fold(x, |x, axis| manipulate::squeeze(&x, axis))?)
}

fn roll(c: &Call<'_>) -> Result<Array, CallError> {
    let x = c.array("x")?;
    let shifts = c.ints("shift")?;
    let axes = match c.axes("axis", &x) {
        Ok(Some(axes)) => axes,
        // NumPy's axis=None rolls the flattened array, which is another thing.
        Ok(None) => return fail("roll() needs an axis; reshape(x, [-1]) makes one of all"),
        Err(_) if x.rank() == 0 && !c.given("axis") => Vec::new(),
        Err(e) => return Err(e),
    };
    if shifts.len() != axes.len() && shifts.len() != 1 {
        return fail("there must be one shift, or one for each axis");
    }
    Ok(axes.iter().enumerate().try_fold(x, |x, (i, &axis)| manipulate::roll(&x, shifts[i % shifts.len()], axis))?)
}

fn rechunk(c: &Call<'_>) -> Result<Array, CallError> {
    let x = c.array("x")?;
    let mut grid = x.chunks().clone();
    for (axis, size) in c.by_axis(&x, |axis, _, v| Ok((axis, v.int()?)))? {
        let n = x.shape()[axis];
        if size == 0 || size < -1 {
            return fail("a chunk length must be at least 1, or -1 for the whole dimension");
        }
        grid.0[axis] = AxisChunks::regular(n, if size < 0 { n } else { (size as u64).min(n) });
    }
    Ok(x.rechunked(ChunkGrid(grid.0)))
}

pub(super) fn operations() -> Vec<Operation> {
    let operations = vec![
        Operation::new(
            "permute_dims",
            &SHAPE,
            r#"
The array with its dimensions in another order; without a list they are reversed. Another name is `transpose`.

>>> permute_dims(t, ["lat", "time"])
float64 (lat: 2, time: 6) [[20, 22, 21, 25, 24, 26], [10, 11, 13, 14, 17, 19]]
# xarray: t.transpose("lat", "time")
"#,
            [x(), Parameter::or("axes", Kind::Order, Default::None)],
            |c| {
                let x = c.array("x")?;
                let axes = c.order("axes", &x)?.unwrap_or_else(|| (0..x.rank()).rev().collect());
                Ok(manipulate::permute_dims(&x, &axes)?)
            },
        )
        .aliases(&["transpose"])
        .such_as("permute_dims(x, [\"lat\", \"time\"])"),
        Operation::new(
            "reshape",
            &SHAPE,
            r#"
The elements in the same order in another shape; one length may be -1, which is computed. A dimension that stays what it is, of the same length and with as many
elements before it, keeps its name and its labels. The others have none; an output may name them with `dims`.

>>> reshape(a, [3, -1])
int64 (3, 2) [[1, 2], [3, 4], [5, 6]]
# numpy: a.reshape(3, -1)
>>> reshape(t[:, :1], [2, 3, 1])
float64 (dim_0: 2, dim_1: 3, lat: 1) [[[20], [22], [21]], [[25], [24], [26]]]
lat: [10]
# numpy: t.values[:, :1].reshape(2, 3, 1)
"#,
            [x(), Parameter::new("shape", Kind::Ints)],
            |c| Ok(manipulate::reshape(&c.array("x")?, &c.ints("shape")?)?),
        ),
        Operation::new(
            "expand_dims",
            &SHAPE,
            r#"
The array with one more dimension, of length 1, at this position. `dim` is its name; without, it has none, and an output may give it one with `dims`. A scalar
coordinate of this name becomes the labels of the dimension.

>>> expand_dims(t[time="2020-01-16"], dim="time")
float64 (time: 1, lat: 2) [[22, 11]]
time: [2020-01-16]
# xarray: t.sel(time="2020-01-16").expand_dims("time")
>>> expand_dims(v, 0)
float64 (1, 4) [[-1.5, -0.5, 0.5, 2.5]]
# numpy: np.expand_dims(v, 0)
"#,
            [x(), Parameter::or("axis", Kind::NewAxis, Default::Int(0)), Parameter::or("dim", Kind::NewDim, Default::None)],
            expand_dims,
        ),
        Operation::new(
            "squeeze",
            &SHAPE,
            r#"
The array without dimensions of length 1: without `dim` all of them, else those that it names. Their labels stay as scalar coordinates.

>>> squeeze(t[lat=[10.0]], "lat")
float64 (time: 6) [20, 22, 21, 25, 24, 26]
lat: 10
# xarray: t.sel(lat=[10.0]).squeeze("lat")
"#,
            [x(), dim()],
            squeeze,
        ),
        Operation::new(
            "broadcast_to",
            &SHAPE,
            r#"
The array repeated along new dimensions before its own and along those of length 1, to this shape. New dimensions have no names.

>>> broadcast_to(p, [2, 4])
float64 (2, 4) [[0.5, 1, 2, 4], [0.5, 1, 2, 4]]
# numpy: np.broadcast_to(p, [2, 4])
"#,
            [x(), shape()],
            |c| Ok(elementwise::broadcast_to(&c.array("x")?, &c.lengths("shape")?)?),
        ),
        Operation::new(
            "flip",
            &SHAPE,
            r#"
The array in reverse order along some dimensions, by default all of them. Labels are reversed with it.

>>> flip(t, dim="time")
float64 (time: 6, lat: 2) [[26, 19], [24, 17], [25, 14], [21, 13], [22, 11], [20, 10]]
time: [2020-03-16, 2020-03-01, 2020-02-16, 2020-02-01, 2020-01-16, 2020-01-01]
# xarray: t.isel(time=slice(None, None, -1))
"#,
            [x(), dim()],
            |c| {
                let x = c.array("x")?;
                let axes = c.axes("dim", &x)?.unwrap_or_else(|| (0..x.rank()).collect());
                Ok(manipulate::flip(&x, &axes)?)
            },
        ),
        Operation::new(
            "roll",
            &SHAPE,
            r#"
The elements moved by `shift` positions; those beyond the end come in at the beginning. Labels move with them. Without `axis` it is the first
dimension.

>>> roll(v, 1)
float64 (4) [2.5, -1.5, -0.5, 0.5]
# numpy: np.roll(v, 1)
"#,
            [x(), Parameter::new("shift", Kind::Ints), Parameter::or("axis", Kind::Dims, Default::Int(0))],
            roll,
        ),
        Operation::new(
            "rechunk",
            &SHAPE,
            r#"
The array in other chunks: a length for each dimension by name, -1 for the whole one. The values stay. An output that asks for no chunks gets these, also
through element-wise operations. Outputs have a key `chunks`, which is mostly what is wanted. Nothing is stored on the way: where a copy saves work, the planner
makes one by itself.

>>> rechunk(t, time=-1, lat=1)
float64 (time: 6, lat: 2) [[20, 10], [22, 11], [21, 13], [25, 14], [24, 17], [26, 19]]
# xarray: t
"#,
            [x(), Parameter::by_dimension(Each::Chunk, "time=-1, lat=10")],
            rechunk,
        ),
    ];
    operations.into_iter().map(|o| o.attributes(Attributes::All)).collect()
}
