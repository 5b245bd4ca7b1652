//! Arrays that are made of nothing.

use super::parameter::{Default, Parameter, chunks, dtype, shape};
use super::{Call, Category, Kind, Operation};
use crate::value::fail;
use crate::{Array, CallError, create};
use chunkwise_kernels::Distribution;
use chunkwise_types::{DType, Scalar};

static CREATION: Category = Category {
    title: "Creation",
    about: "The arrays have neither names nor labels. `chunks` gives the lengths of chunks, one for each dimension; by default they are chosen.",
};

fn constant(c: &Call<'_>, value: Scalar) -> Result<Array, CallError> {
    let dtype = c.dtype()?.unwrap_or_else(|| value.default_dtype());
    Ok(create::full(&c.lengths("shape")?, value, dtype, c.chunks()?.as_deref())?)
}

/// Where to start and where to stop, of which the first may be left out if there is a default.
fn ends(c: &Call<'_>, default: Option<Scalar>) -> Result<(Scalar, Scalar), CallError> {
    match (c.number("start")?, c.number("stop")?, default) {
        (Some(start), Some(stop), _) => Ok((start, stop)),
        (Some(stop), None, Some(start)) | (None, Some(stop), Some(start)) => Ok((start, stop)),
        _ => fail(format!("{}() needs where to start and where to stop; it is called as {}", c.operation.name, c.operation.signature())),
    }
}

fn random(c: &Call<'_>) -> Result<Array, CallError> {
    let kind = match c.choice("distribution")? {
        Some("normal") => Distribution::Normal,
        _ => Distribution::Uniform,
    };
    let dtype = c.dtype()?.unwrap_or(DType::Float64);
    Ok(create::random(&c.lengths("shape")?, c.count("seed")?.unwrap_or(0), kind, dtype, c.chunks()?.as_deref())?)
}

pub(super) fn operations() -> Vec<Operation> {
    let float = || dtype(Default::Text("float64"));
    let start = || Parameter::or("start", Kind::Number, Default::None).shown("start");
    let stop = || Parameter::or("stop", Kind::Number, Default::None).shown("stop");
    let count = |name, default| Parameter::or(name, Kind::Count, default);
    let distribution = Parameter::or("distribution", Kind::Choice(&["uniform", "normal"]), Default::Text("uniform"));
    vec![
        Operation::new(
            "zeros",
            &CREATION,
            r#"
Zeros in this shape.

>>> zeros([2, 3])
float64 (2, 3) [[0, 0, 0], [0, 0, 0]]
# numpy: np.zeros([2, 3])
"#,
            [shape(), float(), chunks()],
            |c| constant(c, Scalar::Int(0)),
        ),
        Operation::new(
            "ones",
            &CREATION,
            r#"
Ones in this shape.

>>> ones([3], dtype="int32")
int32 (3) [1, 1, 1]
# numpy: np.ones([3], dtype="int32")
"#,
            [shape(), float(), chunks()],
            |c| constant(c, Scalar::Int(1)),
        ),
        Operation::new(
            "full",
            &CREATION,
            r#"
One number in this shape. Its dtype is that of the number, int64, float64, bool or complex128, unless `dtype` is given.

>>> full([2, 2], 7)
int64 (2, 2) [[7, 7], [7, 7]]
# numpy: np.full([2, 2], 7)
"#,
            [shape(), Parameter::new("value", Kind::Number), dtype(Default::None), chunks()],
            |c| constant(c, c.number("value")?.unwrap_or(Scalar::Int(0))),
        ),
        Operation::new(
            "arange",
            &CREATION,
            r#"
Numbers from `start` to `stop` in steps; `stop` does not belong to them. With one argument they begin at 0.

>>> arange(5)
int64 (5) [0, 1, 2, 3, 4]
# numpy: np.arange(5)
>>> arange(1, 2, 0.25)
float64 (4) [1, 1.25, 1.5, 1.75]
# numpy: np.arange(1, 2, 0.25)
"#,
            [start(), stop(), Parameter::or("step", Kind::Number, Default::Int(1)), dtype(Default::None), chunks()],
            |c| {
                let (start, stop) = ends(c, Some(Scalar::Int(0)))?;
                Ok(create::arange(start, stop, c.number("step")?.unwrap_or(Scalar::Int(1)), c.dtype()?, c.chunks()?.as_deref())?)
            },
        ),
        Operation::new(
            "linspace",
            &CREATION,
            r#"
`num` numbers from `start` to `stop` with equal steps, without `stop` for `endpoint=False`.

>>> linspace(0, 1, 5)
float64 (5) [0, 0.25, 0.5, 0.75, 1]
# numpy: np.linspace(0, 1, 5)
"#,
            [start(), stop(), count("num", Default::Int(50)), Parameter::or("endpoint", Kind::Flag, Default::Flag(true)), chunks()],
            |c| {
                let (start, stop) = ends(c, None)?;
                Ok(create::linspace(start, stop, c.count("num")?.unwrap_or(50), c.flag("endpoint")?, c.chunks()?.as_deref())?)
            },
        ),
        Operation::new(
            "eye",
            &CREATION,
            r#"
The matrix with ones on a diagonal: the main one, or the `k`-th above it. It has `n` rows and `m` columns, by default `n`.

>>> eye(2, 3, k=1)
float64 (2, 3) [[0, 1, 0], [0, 0, 1]]
# numpy: np.eye(2, 3, k=1)
"#,
            [
                Parameter::new("n", Kind::Count),
                count("m", Default::None),
                Parameter::or("k", Kind::Int, Default::Int(0)),
                float(),
                chunks(),
            ],
            |c| {
                let n = c.count("n")?.unwrap_or(0);
                let dtype = c.dtype()?.unwrap_or(DType::Float64);
                Ok(create::eye(n, c.count("m")?.unwrap_or(n), c.int("k")?, dtype, c.chunks()?.as_deref())?)
            },
        ),
        Operation::new(
            "random",
            &CREATION,
            r#"
Random numbers that depend on the seed and nothing else: not on chunks, budget or workers. `"uniform"` ones are from 0 to 1 (without 1), `"normal"`
ones have mean 0 and variance 1.

>>> random([2, 2], seed=1)
float64 (2, 2) [[0.894685, 0.874112], [0.5565, 0.0365438]]
"#,
            [shape(), count("seed", Default::Int(0)), distribution, float(), chunks()],
            random,
        ),
    ]
}
