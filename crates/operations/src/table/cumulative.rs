//! Functions of each element and all elements before it. What they compute is in [`crate::scan`].

use super::parameter::{Default, Parameter, x};
use super::reductions::{PRODUCT, SUM};
use super::{Attributes, Call, Category, Kind, Operation};
use crate::scan::{cumulative, fill};
use crate::value::fail;
use crate::{Array, CallError};
use chunkwise_kernels::ScanOp;

static CUMULATIVE: Category = Category {
    title: "Cumulative functions",
    about: r#"
A cumulative function of an element is one of it and all elements before it along a dimension, which has to be named unless there is only one. Shapes
and labels stay. An axis may be longer than memory.
"#,
};

/// The dimension that a call names.
fn along(c: &Call<'_>, x: &Array) -> Result<usize, CallError> {
    match (c.optional("axis")?, x.rank()) {
        (Some(_), _) => c.axis("axis", x),
        (None, 1) => Ok(0),
        (None, n) => {
            fail(format!("{}() of an array of {n} dimensions needs one of them, such as axis=0 or dim=\"time\"", c.operation.name))
        }
    }
}

fn operation(name: &'static str, function: ScanOp, text: &'static str) -> Operation {
    let mut parameters = vec![x(), Parameter::or("axis", Kind::Axis, Default::None)];
    let sums = matches!(function, ScanOp::Sum | ScanOp::Prod);
    if sums {
        parameters.push(Parameter::or("skipna", Kind::SkipNa, Default::None));
    }
    Operation::new(name, &CUMULATIVE, text, parameters, move |c| {
        let x = c.array("x")?;
        let skip = sums && c.skips_nan(&x)?;
        Ok(cumulative(&x, function, along(c, &x)?, skip)?)
    })
}

fn filling(name: &'static str, backwards: bool, text: &'static str) -> Operation {
    let parameters = [x(), Parameter::or("axis", Kind::Axis, Default::None)];
    Operation::new(name, &CUMULATIVE, text, parameters, move |c| {
        let x = c.array("x")?;
        // They are whole numbers, of which none is known to stand for nothing.
        if x.is_time() {
            return fail(format!(
                "{}() does not know which times are missing: a time is a whole number, and no number marks a missing one",
                c.operation.name
            ));
        }
        Ok(fill(&x, along(c, &x)?, backwards)?)
    })
    .attributes(Attributes::Quantity)
}

pub(super) fn operations() -> Vec<Operation> {
    vec![
        operation(
            "cumulative_sum",
            ScanOp::Sum,
            r#"
The sums of the elements so far, in the dtype that [`sum`](#sum) has. `skipna` is as for `sum`. Another name is `cumsum`.

>>> cumulative_sum(i)
int64 (4) [6, 9, 14, 26]
# numpy: np.cumsum(i)
>>> cumsum(w, axis=0, skipna=True)
float64 (4) [1, 1, 5, inf]
# numpy: np.nancumsum(w)
"#,
        )
        .aliases(&["cumsum"])
        .attributes(Attributes::Units)
        .no_times(SUM),
        operation(
            "cumulative_prod",
            ScanOp::Prod,
            r#"
The products of the elements so far. Another name is `cumprod`.

>>> cumulative_prod(i)
int64 (4) [6, 18, 90, 1080]
# numpy: np.cumprod(i)
"#,
        )
        .aliases(&["cumprod"])
        .no_times(PRODUCT),
        operation(
            "cumulative_min",
            ScanOp::Min,
            r#"
The least of the elements so far. NaN stays NaN.

>>> cumulative_min(i)
int64 (4) [6, 3, 3, 3]
# numpy: np.minimum.accumulate(i)
"#,
        )
        .attributes(Attributes::Quantity),
        operation(
            "cumulative_max",
            ScanOp::Max,
            r#"
The greatest of the elements so far. NaN stays NaN.

>>> cumulative_max(t, dim="time")
float64 (time: 6, lat: 2) [[20, 10], [22, 11], [22, 13], [25, 14], [25, 17], [26, 19]]
# xarray: t.copy(data=np.maximum.accumulate(t.values, axis=0))
"#,
        )
        .attributes(Attributes::Quantity),
        filling(
            "ffill",
            false,
            r#"
NaN replaced by the last element before it that is not NaN. Integers stay as they are, and times are refused.

>>> ffill(w)
float64 (4) [1, 1, 4, inf]
"#,
        ),
        filling(
            "bfill",
            true,
            r#"
NaN replaced by the next element after it that is not NaN.

>>> bfill(w)
float64 (4) [1, 4, 4, inf]
"#,
        ),
    ]
}
