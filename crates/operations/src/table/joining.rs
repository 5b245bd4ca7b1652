//! Arrays put together, and repeated.

use super::parameter::{Default, Parameter, axis, x};
use super::{Attributes, Call, Category, Kind, Operation};
use crate::align::by_label;
use crate::value::fail;
use crate::{Array, CallError, Value, manipulate};

static JOINING: Category = Category { title: "Joining and repeating", about: "" };

fn concat(c: &Call<'_>) -> Result<Array, CallError> {
    let arrays = c.arrays("arrays")?;
    let first = &arrays[0];
    let by_name = matches!(c.optional("axis")?, Some(Value::Str(name)) if first.coord(&name).is_none());
    let axis = c.axis("axis", first).map_err(|e| match by_name {
        true => e.with_help("stack([x, y], dim=\"a name\") puts arrays along a new dimension"),
        false => e,
    })?;
    let dim = first.dims()[axis].clone();
    let arrays = by_label(c.operation.name, arrays, dim.as_deref(), c.context.join)?;
    Ok(manipulate::concat(&arrays, axis)?)
}

fn stack(c: &Call<'_>) -> Result<Array, CallError> {
    let arrays = c.arrays("arrays")?;
    let (axis, dim) = c.new_axis(&arrays[0])?;
    let arrays = by_label(c.operation.name, arrays, None, c.context.join)?;
    Ok(match dim {
        Some(dim) => manipulate::stack_named(&arrays, axis, &dim),
        None => manipulate::stack(&arrays, axis),
    }?)
}

fn repeat(c: &Call<'_>) -> Result<Array, CallError> {
    let mut x = c.array("x")?;
    let axis = match c.axes("axis", &x)?.as_deref() {
        Some(&[axis]) => axis,
        Some(_) => return fail("repeat() takes one axis"),
        None => {
            if x.rank() != 1 {
                x = manipulate::reshape(&x, &[-1])?;
            }
            0
        }
    };
    Ok(match c.lengths("repeats")?.as_slice() {
        [times] => manipulate::repeat(&x, *times, axis),
        list => manipulate::repeat_each(&x, list, axis),
    }?)
}

pub(super) fn operations() -> Vec<Operation> {
    let arrays = || Parameter::new("arrays", Kind::Arrays);
    vec![
        Operation::new("concat", &JOINING, r#"
The arrays one after another along one dimension. Their coordinates are joined as well, and along the other dimensions the labels must agree. Another
name is `concatenate`.

>>> concat([t[time="2020-01"], t[time="2020-03"]], dim="time")
float64 (time: 4, lat: 2) [[20, 10], [22, 11], [24, 17], [26, 19]]
time: [2020-01-01, 2020-01-16, 2020-03-01, 2020-03-16]
# xarray: xr.concat([t.sel(time="2020-01"), t.sel(time="2020-03")], "time")
>>> concat([a, b[:2]], axis=1)
int64 (2, 5) [[1, 2, 3, 1, 0], [4, 5, 6, 2, 1]]
# numpy: np.concatenate([a, b[:2]], axis=1)
"#, [arrays(), axis(0)], concat)
            .aliases(&["concatenate"])
            .such_as("concat([x, y], dim=\"time\")")
            .attributes(Attributes::Alike),
        Operation::new(
            "stack",
            &JOINING,
            r#"
Arrays of one shape along a new dimension at position `axis`. `dim` is its name; without, it has none. Scalar coordinates of this name, one of each array,
become its labels.

>>> stack([v, p])
float64 (2, 4) [[-1.5, -0.5, 0.5, 2.5], [0.5, 1, 2, 4]]
# numpy: np.stack([v, p])
>>> stack([mean(t, dim="lat"), m], dim="kind")
float64 (kind: 2, time: 6) [[15, 16.5, 17, 19.5, 20.5, 22.5], [1, nan, 3, 4, nan, nan]]
# xarray: xr.concat([t.mean("lat"), m], "kind")
"#,
            [arrays(), Parameter::or("axis", Kind::NewAxis, Default::Int(0)), Parameter::or("dim", Kind::NewDim, Default::None)],
            stack,
        )
        .such_as("stack([x, y], dim=\"member\")")
        .attributes(Attributes::Alike),
        Operation::new(
            "repeat",
            &JOINING,
            r#"
Each element several times in a row: as often as a number, or each as often as a list says. Without `axis` the array is flattened first.

>>> repeat(v, 2)
float64 (8) [-1.5, -1.5, -0.5, -0.5, 0.5, 0.5, 2.5, 2.5]
# numpy: np.repeat(v, 2)
>>> repeat(a, [1, 2], axis=0)
int64 (3, 3) [[1, 2, 3], [4, 5, 6], [4, 5, 6]]
# numpy: np.repeat(a, [1, 2], axis=0)
"#,
            [x(), Parameter::new("repeats", Kind::Lengths), Parameter::or("axis", Kind::Dims, Default::None)],
            repeat,
        )
        .attributes(Attributes::All),
        Operation::new("tile", &JOINING, r#"
The whole array several times in a row, a number for each dimension.

>>> tile(a, [1, 2])
int64 (2, 6) [[1, 2, 3, 1, 2, 3], [4, 5, 6, 4, 5, 6]]
# numpy: np.tile(a, [1, 2])
"#, [x(), Parameter::new("repetitions", Kind::Lengths)], |c| {
            Ok(manipulate::tile(&c.array("x")?, &c.lengths("repetitions")?)?)
        })
        .such_as("tile(x, [2, 3])")
        .attributes(Attributes::All),
    ]
}
