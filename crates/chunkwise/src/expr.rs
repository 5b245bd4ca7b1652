//! Expressions with operators and methods.

mod functions;
mod methods;

use crate::results::{read_whole, stored_bytes};
use crate::{Error, Session, decode_cf, open};
use chunkwise_executor::{RunOptions, RunReport};
use chunkwise_kernels::{Block, BlockElement, ElementOp};
use chunkwise_ops::table::{self, Arguments, Context};
use chunkwise_ops::{Array, CallError, OpError, Value, index, qr};
use chunkwise_storage::{ArrayIo, Location, open_array};
use chunkwise_types::{ByteSize, DType, Scalar};
use std::ops;
use std::sync::atomic::{AtomicU64, Ordering};

/// A lazy array that is written as a formula.
///
/// Operators and methods build the expression and read nothing. One that cannot be built (shapes that do not fit, a dimension that is not
/// there) gives an expression that is an error; it is reported by [`Expr::array`] and by everything that runs, so formulas need no `?`.
///
/// Every function of the expression language is a method, of which [`Expr::call`] is the general form. Rules for dtypes, missing values,
/// attributes and coordinates are the same as there.
///
/// Numbers take the dtype of the array that they meet, and dimensions are named as in the store; `"0"`, `"1"` and so on name them by
/// their place.
///
/// ```
/// use chunkwise::{Expr, Session};
/// let winds = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/data/winds.zarr");
/// let u = Expr::open(&format!("{winds}/uwnd"))?;
/// let v = Expr::open(&format!("{winds}/vwnd"))?;
///
/// let speed = (&u * &u + &v * &v).sqrt();
/// let anomaly = &speed - speed.mean(&["time"]);
/// assert_eq!(anomaly.array()?.shape(), [132, 73, 144]);
///
/// let work = std::env::temp_dir().join("chunkwise-doc-expr");
/// let session = Session::new(500_000_000, 2, &work.display().to_string())?;
/// let strongest = speed.max(&["time", "lon"]).compute::<f32>(&session)?;
/// assert_eq!(strongest.shape(), [73]);
/// assert!(strongest.iter().all(|s| *s > 0.0));
/// # Ok::<(), chunkwise::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Expr(Result<Array, OpError>);

/// What a function takes: an expression, a number, a text, a list or a range.
#[derive(Debug, Clone)]
pub struct Term(Result<Value, OpError>);

impl From<Array> for Expr {
    fn from(a: Array) -> Self {
        Expr(Ok(a))
    }
}

impl From<&Array> for Expr {
    fn from(a: &Array) -> Self {
        Expr(Ok(a.clone()))
    }
}

impl From<&Expr> for Term {
    fn from(e: &Expr) -> Self {
        Term(e.0.clone().map(Value::Array))
    }
}

impl From<Expr> for Term {
    fn from(e: Expr) -> Self {
        Term(e.0.map(Value::Array))
    }
}

macro_rules! terms {
    ($($t:ty)*) => {$(
        impl From<$t> for Term {
            fn from(v: $t) -> Self {
                Term(Ok(v.into()))
            }
        }
    )*};
}
terms! { bool i32 i64 u64 f32 f64 Scalar &str String ops::Range<i64> }

impl<T: Into<Value>> From<Vec<T>> for Term {
    fn from(list: Vec<T>) -> Self {
        Term(Ok(list.into()))
    }
}

impl<T: Into<Value>, const N: usize> From<[T; N]> for Term {
    fn from(list: [T; N]) -> Self {
        Term(Ok(list.into()))
    }
}

impl<T: Into<Value> + Clone> From<&[T]> for Term {
    fn from(list: &[T]) -> Self {
        Term(Ok(list.into()))
    }
}

impl From<&[Expr]> for Term {
    fn from(list: &[Expr]) -> Self {
        let arrays = list.iter().map(|e| e.0.clone().map(Value::Array)).collect::<Result<_, _>>();
        Term(arrays.map(Value::List))
    }
}

impl From<DType> for Term {
    fn from(dtype: DType) -> Self {
        dtype.name().into()
    }
}

fn apply(op: ElementOp, terms: impl IntoIterator<Item = Term>) -> Expr {
    Expr::made(table::element(op), terms, [])
}

macro_rules! operators {
    ($($trait:ident $method:ident $op:ident;)*) => {$(
        impl<R: Into<Term>> ops::$trait<R> for &Expr {
            type Output = Expr;
            fn $method(self, right: R) -> Expr {
                apply(ElementOp::$op, [self.into(), right.into()])
            }
        }
        impl<R: Into<Term>> ops::$trait<R> for Expr {
            type Output = Expr;
            fn $method(self, right: R) -> Expr {
                apply(ElementOp::$op, [self.into(), right.into()])
            }
        }
        operators! { @left $trait $method $op f64 }
        operators! { @left $trait $method $op i32 }
        operators! { @left $trait $method $op i64 }
    )*};
    (@left $trait:ident $method:ident $op:ident $t:ty) => {
        impl ops::$trait<Expr> for $t {
            type Output = Expr;
            fn $method(self, right: Expr) -> Expr {
                apply(ElementOp::$op, [self.into(), right.into()])
            }
        }
        impl ops::$trait<&Expr> for $t {
            type Output = Expr;
            fn $method(self, right: &Expr) -> Expr {
                apply(ElementOp::$op, [self.into(), right.into()])
            }
        }
    };
}
operators! {
    Add add Add;
    Sub sub Subtract;
    Mul mul Multiply;
    Div div Divide;
    Rem rem Remainder;
    BitAnd bitand BitwiseAnd;
    BitOr bitor BitwiseOr;
    BitXor bitxor BitwiseXor;
}

impl ops::Neg for &Expr {
    type Output = Expr;
    fn neg(self) -> Expr {
        self.map(ElementOp::Negative)
    }
}

impl ops::Neg for Expr {
    type Output = Expr;
    fn neg(self) -> Expr {
        self.map(ElementOp::Negative)
    }
}

/// A list of pairs as a list of lists.
fn pairs(list: &[(u64, u64)]) -> Term {
    list.iter().map(|(a, b)| Value::from([*a, *b])).collect::<Vec<_>>().into()
}

/// The axis that a name or a number means.
fn axis(a: &Array, dim: &str) -> Result<usize, OpError> {
    let number = dim.parse().ok().filter(|i| *i < a.rank());
    a.axis_named(dim).or(number).ok_or_else(|| {
        let names: Vec<&str> = a.dims().iter().flatten().map(String::as_str).collect();
        OpError::new("dimension", format!("there is no dimension '{dim}'; the array has {} axes, named {names:?}", a.rank()))
    })
}

impl Expr {
    /// A stored array, by path or URL, unpacked by the CF conventions: scaled, shifted, NaN where missing. A relative path is relative to the
    /// current folder. It is opened with stores and connections of its own; [`Session::open`] uses those of a session, with their options
    /// and `memory:` arrays.
    pub fn open(url: &str) -> Result<Expr, Error> {
        Ok(decode_cf(&open(url, None)?)?.into())
    }

    /// A stored array with its values as they are stored.
    pub fn open_stored(url: &str) -> Result<Expr, Error> {
        Ok(open(url, None)?.into())
    }

    /// The array, or the first error of the formula.
    pub fn array(&self) -> Result<Array, Error> {
        Ok(self.0.clone()?)
    }

    /// The values that stored values stand for, by the CF conventions: scaled, shifted, NaN where missing.
    pub fn decode_cf(&self) -> Result<Expr, Error> {
        Ok(decode_cf(&self.array()?)?.into())
    }

    fn then(&self, f: impl FnOnce(&Array) -> Result<Array, OpError>) -> Expr {
        Expr(self.0.as_ref().map_err(OpError::clone).and_then(f))
    }

    /// Any element-wise function of one argument.
    pub fn map(&self, function: ElementOp) -> Expr {
        apply(function, [self.into()])
    }

    /// `yes` where this is true, `no` elsewhere.
    ///
    /// ```
    /// use chunkwise::{DType, Expr, Session, ops, types::Scalar};
    /// let n = Expr::from(ops::create::arange(Scalar::Int(0), Scalar::Int(6), Scalar::Int(1), None, None)?);
    /// let even = (&n % 2).equal(0);
    /// let work = std::env::temp_dir().join("chunkwise-doc-choose");
    /// let session = Session::new(200_000_000, 1, &work.display().to_string())?;
    /// let found = even.choose(&n * 10, -&n).compute::<i64>(&session)?;
    /// assert_eq!(found.into_raw_vec_and_offset().0, [0, -1, 20, -3, 40, -5]);
    /// # Ok::<(), chunkwise::Error>(())
    /// ```
    pub fn choose(&self, yes: impl Into<Term>, no: impl Into<Term>) -> Expr {
        apply(ElementOp::Where, [self.into(), yes.into(), no.into()])
    }

    /// True where NaN: another name of [`Expr::isnan`].
    pub fn is_nan(&self) -> Expr {
        self.isnan()
    }

    /// Any function of the expression language by its name: its arguments by position, then those by name. [`chunkwise_ops::table`] lists them
    /// with what they take.
    ///
    /// ```
    /// use chunkwise::{Expr, Session};
    /// let u = Expr::open(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/data/winds.zarr/uwnd"))?;
    /// let spread = Expr::call("std", [(&u).into()], [("dim", "time".into()), ("correction", 1.into())]);
    /// assert_eq!(spread.array()?.shape(), [73, 144]);
    /// assert_eq!(spread.array()?.attributes()["units"], "m s-1");
    ///
    /// let season = Expr::call("isel", [(&u).into()], [("time", (0..3).into()), ("lat", [0, 72].into())]);
    /// assert_eq!(season.mean(&["time"]).array()?.shape(), [2, 144]);
    /// let wrong = Expr::call("mean", [(&u).into()], [("dims", "time".into())]).array().unwrap_err().to_string();
    /// assert!(wrong.contains("mean() has no argument 'dims'") && wrong.contains("did you mean 'dim'?"));
    /// # Ok::<(), chunkwise::Error>(())
    /// ```
    pub fn call<'n>(function: &str, arguments: impl IntoIterator<Item = Term>, options: impl IntoIterator<Item = (&'n str, Term)>) -> Expr {
        Expr::made(table::named(function), arguments, options)
    }

    fn made<'n>(
        operation: Result<&table::Operation, CallError>,
        arguments: impl IntoIterator<Item = Term>,
        options: impl IntoIterator<Item = (&'n str, Term)>,
    ) -> Expr {
        let values = || {
            let positional = arguments.into_iter().map(|t| t.0).collect::<Result<_, _>>()?;
            let named = options.into_iter().map(|(n, t)| Ok((n.to_string(), t.0?))).collect::<Result<Vec<_>, OpError>>()?;
            // None stands for the default, whatever it is.
            Ok(Arguments { positional, named: named.into_iter().filter(|(_, v)| !v.is_none()).collect() })
        };
        let call = |values: Arguments| operation?.call(&values, &Context::default())?.array();
        Expr(values().and_then(|v| call(v).map_err(CallError::into_op_error)))
    }

    /// A dimension by its name, or by its place.
    fn dim(&self, dim: &str) -> Term {
        Term(self.0.clone().map(|a| match dim.parse::<i64>() {
            Ok(place) if a.axis_named(dim).is_none() => place.into(),
            _ => dim.into(),
        }))
    }

    /// Dimensions by name or place; none stands for the default.
    fn dims(&self, dims: &[&str]) -> Term {
        let list = dims.iter().map(|d| self.dim(d).0).collect::<Result<Vec<_>, _>>();
        Term(list.map(|l| if l.is_empty() { Value::None } else { Value::List(l) }))
    }

    /// One index of a dimension, which goes away. Negative counts from the end.
    ///
    /// ```
    /// use chunkwise::Expr;
    /// let u = Expr::open(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/data/winds.zarr/uwnd"))?;
    /// assert_eq!(u.at("time", -1).slice("lat", 10, 20).array()?.shape(), [10, 144]);
    /// let wrong = u.at("tme", 0).sqrt().array().unwrap_err().to_string();
    /// assert!(wrong.contains("'tme'") && wrong.contains("time"));
    /// # Ok::<(), chunkwise::Error>(())
    /// ```
    pub fn at(&self, dim: &str, i: i64) -> Expr {
        self.then(|a| index::item(a, axis(a, dim)?, i))
    }

    /// The indices from `start` to `stop`, without `stop`.
    pub fn slice(&self, dim: &str, start: i64, stop: i64) -> Expr {
        self.then(|a| index::slice(a, axis(a, dim)?, Some(start), Some(stop), None))
    }

    /// The dimensions in another order: another name of [`Expr::permute_dims`].
    pub fn transpose(&self, dims: &[&str]) -> Expr {
        self.permute_dims(dims)
    }

    /// The factors Q and R of a matrix with at least as many rows as columns, R with a non-negative diagonal. See
    /// [`chunkwise_ops::qr::qr`].
    pub fn qr(&self) -> (Expr, Expr) {
        match self.0.as_ref().map_err(OpError::clone).and_then(qr::qr) {
            Ok((q, r)) => (Expr(Ok(q)), Expr(Ok(r))),
            Err(e) => (Expr(Err(e.clone())), Expr(Err(e))),
        }
    }

    /// Computes the values. For results that fit into the memory of the session; write larger ones with [`Expr::write`].
    ///
    /// # Errors
    /// As of any run, and if `T` is not the dtype of the result. In a runtime that is restricted, `memory:///chunkwise` must be among the
    /// prefixes, because the result is held there.
    pub fn compute<T: BlockElement>(&self, session: &Session) -> Result<ndarray::ArrayD<T>, Error> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let array = self.array()?;
        if array.dtype() != T::DTYPE {
            return Err(Error::Other(format!(
                "the result is {}, not {}; ask for that, or convert it with astype",
                array.dtype(),
                T::DTYPE
            )));
        }
        // In memory there are its chunks as they are stored beside what tasks use, and in the end beside the values themselves.
        let bytes = chunkwise_types::volume(array.shape()).saturating_mul(array.dtype().size());
        let allowed = session.task_budget();
        if bytes.saturating_add(stored_bytes(bytes)) > allowed {
            return Err(Error::Other(format!(
                "a result of {} is too large to compute in the session's memory of {}; write it to a store instead",
                ByteSize(bytes),
                ByteSize(allowed)
            )));
        }
        // A store of its own, not one of a group: results of one process have nothing to do with each other.
        let url = format!("memory:///chunkwise/result-{}-{}.zarr", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let location = Location::parse(&url, None)?;
        let stores = session.runtime().stores();
        let mut run_dir = None;
        let mut run = || -> Result<Block, Error> {
            let plan = session.plan_in_memory(&[session.request(&url, &array)?])?;
            run_dir = Some(Location::parse(&plan.spec.work_dir, None)?.join(&plan.id()));
            session.run(plan, None, &RunOptions::default())?;
            let meta = open_array(stores, &location)?;
            let io = ArrayIo::new(stores, &location, &meta)?;
            Ok(Block::from_bytes_with(meta.dtype, &meta.shape, |out| read_whole(&io, &meta, session.workers(), out))?)
        };
        let result = run();
        // The run and the stored form are not needed again.
        stores.open(&location)?.delete_prefix("")?;
        if let Some(dir) = run_dir {
            stores.open(&dir)?.delete_prefix("")?;
        }
        let block = result?;
        let values = T::unwrap(&block).ok_or_else(|| Error::Other(format!("the result was stored as {}", block.dtype())))?;
        Ok(values.to_owned())
    }

    /// Computes the values into a new Zarr array, with the coordinates of its dimensions beside it.
    ///
    /// ```
    /// use chunkwise::{Expr, Session};
    /// let folder = std::env::temp_dir().join(format!("chunkwise-doc-write-{}", std::process::id()));
    /// let session = Session::new(500_000_000, 2, &folder.join("work").display().to_string())?;
    /// let u = Expr::open(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/data/winds.zarr/uwnd"))?;
    ///
    /// let target = folder.join("mean.zarr/u").display().to_string();
    /// let report = u.mean(&["time"]).write(&session, &target)?;
    /// assert_eq!(report.outputs.len(), 1);
    /// assert_eq!(session.open(&target)?.array()?.dims(), [Some("lat".into()), Some("lon".into())]);
    /// assert!(chunkwise::verify_store(session.runtime().stores(), &chunkwise::storage::Location::parse(&target, None)?)?.problems.is_empty());
    /// # std::fs::remove_dir_all(folder).ok();
    /// # Ok::<(), chunkwise::Error>(())
    /// ```
    pub fn write(&self, session: &Session, url: &str) -> Result<RunReport, Error> {
        let plan = session.plan(&[session.request(url, &self.array()?)?])?;
        session.run(plan, None, &RunOptions::default())
    }
}
