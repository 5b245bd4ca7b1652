//! Functions of users on the blocks of expressions.

use super::Expr;
use chunkwise_ops::call::{self, Named, Reduction};
use chunkwise_ops::stencil::Boundary;
use chunkwise_types::DType;

impl Expr {
    /// A function of the user on each block of this array, and on the blocks of others at the same place, which are broadcast.
    ///
    /// The runtime has the function ([`crate::RuntimeBuilder::function`]); the plan only names it.
    ///
    /// ```
    /// use chunkwise::kernels::{Block, BlockElement, FunctionError, Invocation};
    /// use chunkwise::{DType, Expr, Runtime, ops::call::Named};
    /// # use chunkwise::{ops, types::Scalar};
    /// // (b - a) / (b + a), for one block of each.
    /// fn ndvi(_: &Invocation<'_>, inputs: &[Block]) -> Result<Vec<Block>, FunctionError> {
    ///     let (Some(a), Some(b)) = (f32::unwrap(&inputs[0]), f32::unwrap(&inputs[1])) else {
    ///         return Err("two arrays of float32 are needed".into());
    ///     };
    ///     Ok(vec![f32::wrap(((b - a) / (b + a)).into_shared())])
    /// }
    ///
    /// let runtime = Runtime::builder().function("ndvi", "1", ndvi).build()?;
    /// let session = runtime.session(200_000_000, 2, "memory:ndvi")?;
    /// # let red = Expr::from(ops::create::full(&[4, 6], Scalar::Int(1), DType::Float32, Some(&[2, 6]))?);
    /// # let infrared = &red * 3;
    /// // The three temporary arrays of the formula are as large as a block, at most 1 MB here.
    /// let index = red.map_blocks(&Named::new("ndvi", "1", 3_000_000), &[&infrared], DType::Float32);
    /// assert!(index.compute::<f32>(&session)?.iter().all(|v| *v == 0.5));
    /// # Ok::<(), chunkwise::Error>(())
    /// ```
    pub fn map_blocks(&self, function: &Named, more: &[&Expr], dtype: DType) -> Expr {
        self.then(|a| {
            let more = more.iter().map(|e| e.0.clone()).collect::<Result<Vec<_>, _>>()?;
            let inputs: Vec<_> = std::iter::once(a).chain(&more).collect();
            call::map_blocks(function, &inputs, dtype)
        })
    }

    /// A function of the user on each block and the elements around it: [`chunkwise_ops::call::map_overlap`].
    pub fn map_overlap(&self, function: &Named, depth: &[u64], boundary: Boundary, dtype: DType) -> Expr {
        self.then(|a| call::map_overlap(function, a, depth, boundary, dtype))
    }

    /// A reduction with functions of the user: [`chunkwise_ops::call::reduce`].
    pub fn reduce_with(&self, functions: &Reduction, dims: &[&str], keep: bool) -> Expr {
        self.then(|a| {
            let axes = dims.iter().map(|dim| super::axis(a, dim)).collect::<Result<Vec<_>, _>>()?;
            call::reduce(functions, a, &axes, keep)
        })
    }
}
