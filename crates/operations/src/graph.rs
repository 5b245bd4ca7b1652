//! The expression graph.

use crate::OpError;
use crate::coords::{Coord, Coords, fitting, follow};
use chunkwise_kernels::{ArrayType, AxisMap, Kernel, Node, ViewAxis};
use chunkwise_types::{ArrayAccess, ChunkGrid, DType};
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A lazy array: an expression with a dtype, a shape, a chunk grid and dimension names. Cheap to clone.
#[derive(Clone)]
pub struct Array(Arc<Inner>);

struct Inner {
    id: u64,
    definition: Definition,
    inputs: Vec<Array>,
    ty: ArrayType,
    chunks: ChunkGrid,
    dims: Vec<Option<String>>,
    operation: String,
    attributes: Arc<Map<String, Value>>,
    coords: Arc<Coords>,
    missing: bool,
    numbers: bool,
    follows: bool,
}

/// What defines an array.
#[derive(Debug, Clone, PartialEq)]
pub enum Definition {
    /// A stored array.
    Stored(Source),
    /// A kernel applied to the inputs.
    Apply(Kernel),
    /// The input, of which an output that asks for no chunks is stored in this array's own chunk grid.
    Rechunk,
}

/// A stored array that is read.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// Where it is, absolute.
    pub url: String,
    /// How its chunks can be read.
    pub access: ArrayAccess,
    /// The shape of the chunks inside a shard, if there are shards.
    pub inner_chunk: Option<Vec<u64>>,
    /// The metadata document of the storage layer.
    pub metadata: serde_json::Value,
}

impl Drop for Inner {
    /// Frees the arrays of which this was the last use, one after another: a chain of them may be deeper than a stack.
    fn drop(&mut self) {
        let mut last = std::mem::take(&mut self.inputs);
        while let Some(Array(inner)) = last.pop() {
            if let Some(mut inner) = Arc::into_inner(inner) {
                last.append(&mut inner.inputs);
            }
        }
    }
}

static NEXT: AtomicU64 = AtomicU64::new(0);

impl Array {
    fn make(
        definition: Definition,
        inputs: Vec<Array>,
        ty: ArrayType,
        chunks: ChunkGrid,
        dims: Vec<Option<String>>,
        operation: &str,
    ) -> Array {
        debug_assert_eq!(chunks.shape(), ty.shape, "{operation}");
        debug_assert_eq!(dims.len(), ty.shape.len(), "{operation}");
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let attributes = Arc::default();
        let missing = inputs.iter().any(|a| a.0.missing);
        let numbers = inputs.iter().any(|a| a.0.numbers);
        let coords = Arc::default();
        let follows = match &definition {
            Definition::Stored(_) | Definition::Rechunk => true,
            Definition::Apply(Kernel::Gather { axes, .. }) if axes.iter().any(|m| matches!(m, AxisMap::Take(_))) => false,
            Definition::Apply(_) => inputs.iter().any(|a| a.0.follows),
        };
        let operation = operation.into();
        Array(Arc::new(Inner { id, definition, inputs, ty, chunks, dims, operation, attributes, coords, missing, numbers, follows }))
    }

    /// A copy of the node under a new identity, changed.
    fn changed(&self, change: impl FnOnce(&mut Inner)) -> Array {
        let i = &*self.0;
        let mut inner = Inner {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            definition: i.definition.clone(),
            inputs: i.inputs.clone(),
            ty: i.ty.clone(),
            chunks: i.chunks.clone(),
            dims: i.dims.clone(),
            operation: i.operation.clone(),
            attributes: i.attributes.clone(),
            coords: i.coords.clone(),
            missing: i.missing,
            numbers: i.numbers,
            follows: i.follows,
        };
        change(&mut inner);
        Array(Arc::new(inner))
    }

    /// A stored array.
    pub fn stored(source: Source, dtype: DType, chunks: ChunkGrid, dims: Vec<Option<String>>) -> Array {
        let ty = ArrayType::new(dtype, chunks.shape());
        let name = source.url.rsplit('/').next().unwrap_or("input").to_string();
        Self::make(Definition::Stored(source), Vec::new(), ty, chunks, dims, &name)
    }

    /// A kernel applied to arrays. The caller has inferred the type; `operation` is the user's word for it.
    pub fn apply(
        kernel: Kernel,
        inputs: &[&Array],
        ty: ArrayType,
        chunks: ChunkGrid,
        dims: Vec<Option<String>>,
        operation: &str,
    ) -> Result<Array, OpError> {
        if ty.shape.len() > chunkwise_types::MAX_RANK {
            return Err(OpError::new(operation, format!("the result would have more than {} axes", chunkwise_types::MAX_RANK)));
        }
        if ty.shape.iter().try_fold(ty.dtype.size(), |a, &n| a.checked_mul(n)).is_none_or(|n| n > 1 << 62) {
            return Err(OpError::new(operation, format!("a result of shape {:?} is too large", ty.shape)));
        }
        let coords = follow(&kernel, inputs, &dims, &ty.shape);
        let out = Self::make(Definition::Apply(kernel), inputs.iter().map(|&a| a.clone()).collect(), ty, chunks, dims, operation);
        Ok(if coords.is_empty() { out } else { out.with_coords(coords) })
    }

    /// The array that this is a permutation of, and the order of its axes, if it is nothing else.
    pub(crate) fn permutation(&self) -> Option<(&Array, Vec<usize>)> {
        let (Definition::Apply(Kernel::View { axes }), [base]) = (&self.0.definition, &self.0.inputs[..]) else { return None };
        let axis = |a: &ViewAxis| if let ViewAxis::In(i) = a { Some(*i) } else { None };
        let order = axes.iter().map(axis).collect::<Option<Vec<usize>>>()?;
        let mut sorted = order.clone();
        sorted.sort_unstable();
        let all = sorted.into_iter().eq(0..base.rank());
        (all && order.iter().zip(self.shape()).all(|(&i, n)| base.shape()[i] == *n)).then_some((base, order))
    }

    /// This array, computed as another one is that has the same elements. Names, labels and attributes stay.
    pub(crate) fn computed_as(&self, other: &Array) -> Array {
        debug_assert_eq!(self.ty(), other.ty());
        self.changed(|i| {
            (i.definition, i.inputs, i.operation) = (other.0.definition.clone(), other.0.inputs.clone(), other.0.operation.clone());
        })
    }

    /// The same elements; an output that asks for no chunks is stored in this chunk grid.
    pub fn rechunked(&self, chunks: ChunkGrid) -> Array {
        let out = Self::make(Definition::Rechunk, vec![self.clone()], self.ty().clone(), chunks, self.dims().to_vec(), "rechunk");
        out.changed(|i| (i.attributes, i.coords) = (self.0.attributes.clone(), self.0.coords.clone()))
    }

    /// True if the chunks come from a stored array, or were asked for. Those of what is created, or taken from a table, are as good as any.
    pub(crate) fn follows(&self) -> bool {
        self.0.follows
    }

    /// The same array under other dimension names. Coordinates along dimensions that it no longer has are left out.
    pub fn with_dims(&self, dims: Vec<Option<String>>) -> Array {
        debug_assert_eq!(dims.len(), self.rank());
        let coords = fitting(self.coords().to_vec(), &dims, self.shape());
        self.changed(|i| (i.dims, i.coords) = (dims, Arc::new(coords)))
    }

    /// The same array with its dimensions, and their indices, renamed.
    pub fn renamed(&self, dims: Vec<Option<String>>) -> Array {
        let new = |old: &str| self.axis_named(old).and_then(|i| dims.get(i).cloned().flatten());
        let coords = self.coords().iter().map(|c| Arc::new(c.renamed(&new))).collect();
        self.with_dims(dims).with_coords(coords)
    }

    /// The same array with these coordinates, of which those are left out that do not fit its dimensions.
    pub fn with_coords(&self, coords: Coords) -> Array {
        let coords = Arc::new(fitting(coords, self.dims(), self.shape()));
        self.changed(|i| i.coords = coords)
    }

    /// The same array with a coordinate more, or instead of the one of that name.
    pub fn with_coord(&self, coord: Coord) -> Array {
        let mut coords: Coords = self.coords().iter().filter(|c| c.name != coord.name).cloned().collect();
        coords.push(Arc::new(coord));
        self.with_coords(coords)
    }

    /// The same array, of which it is known that NaN stands for a missing value: reductions leave it out.
    pub fn with_missing(&self) -> Array {
        self.changed(|i| i.missing = true)
    }

    /// The same array, in which NaN is a number as any other.
    pub fn without_missing(&self) -> Array {
        self.changed(|i| i.missing = false)
    }

    /// The same array, of which the numbers are meant as they are stored, whatever its attributes say.
    pub fn as_numbers(&self) -> Array {
        self.changed(|i| i.numbers = true)
    }

    /// True if its numbers are times, by its units.
    pub fn is_time(&self) -> bool {
        !self.0.numbers && self.attributes().get("units").and_then(Value::as_str).is_some_and(|u| u.contains(" since "))
    }

    /// True if NaN stands for a missing value, because the array comes from stored values that have such.
    pub fn has_missing(&self) -> bool {
        self.0.missing
    }

    /// True if both are known to have the same elements, since they are computed in the same way from the same stored arrays. Names, labels and
    /// attributes do not count.
    ///
    /// ```
    /// use chunkwise_ops::create::full;
    /// use chunkwise_types::{DType, Scalar};
    /// let x = || full(&[3, 4], Scalar::Float(1.0), DType::Float64, None);
    /// assert!(x()?.same_elements(&x()?));
    /// # Ok::<(), chunkwise_ops::OpError>(())
    /// ```
    pub fn same_elements(&self, other: &Array) -> bool {
        let mut seen = HashSet::new();
        let mut pairs = vec![(self, other)];
        while let Some((a, b)) = pairs.pop() {
            let (a, b) = (&*a.stored_as().0, &*b.stored_as().0);
            if a.id == b.id || !seen.insert((a.id, b.id)) {
                continue;
            }
            if a.ty != b.ty || a.definition != b.definition || a.inputs.len() != b.inputs.len() {
                return false;
            }
            pairs.extend(a.inputs.iter().zip(&b.inputs));
        }
        true
    }

    /// The array of which this one has the elements, in chunks of its own.
    fn stored_as(&self) -> &Array {
        let mut array = self;
        while let (Definition::Rechunk, Some(input)) = (&array.0.definition, array.0.inputs.first()) {
            array = input;
        }
        array
    }

    /// The coordinates.
    pub fn coords(&self) -> &Coords {
        &self.0.coords
    }

    /// A coordinate by its name.
    pub fn coord(&self, name: &str) -> Option<&Arc<Coord>> {
        self.coords().iter().find(|c| c.name == name)
    }

    /// The labels of a dimension.
    pub fn index_of(&self, dim: &str) -> Option<&Arc<Coord>> {
        self.coord(dim).filter(|c| c.is_index())
    }

    /// The same array under another word of the user's for what made it.
    pub fn with_operation(&self, operation: &str) -> Array {
        self.changed(|i| i.operation = operation.into())
    }

    /// The same array with other attributes.
    pub fn with_attributes(&self, attributes: Map<String, Value>) -> Array {
        self.changed(|i| i.attributes = Arc::new(attributes))
    }

    /// An identity for the time of this process; clones share it.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// What defines it.
    pub fn definition(&self) -> &Definition {
        &self.0.definition
    }

    /// The arrays that it is computed from.
    pub fn inputs(&self) -> &[Array] {
        &self.0.inputs
    }

    /// Dtype and shape.
    pub fn ty(&self) -> &ArrayType {
        &self.0.ty
    }

    /// The dtype.
    pub fn dtype(&self) -> DType {
        self.0.ty.dtype
    }

    /// The length of each axis.
    pub fn shape(&self) -> &[u64] {
        &self.0.ty.shape
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.0.ty.shape.len()
    }

    /// The natural chunk grid, inherited from the inputs.
    pub fn chunks(&self) -> &ChunkGrid {
        &self.0.chunks
    }

    /// The names of the axes.
    pub fn dims(&self) -> &[Option<String>] {
        &self.0.dims
    }

    /// What is said of the elements (`units` and so on), to be stored with them. An operation has none unless it is given some.
    pub fn attributes(&self) -> &Map<String, Value> {
        &self.0.attributes
    }

    /// The user's word for the operation that made it.
    pub fn operation(&self) -> &str {
        &self.0.operation
    }

    /// True if its kernel can be folded.
    pub fn foldable(&self) -> bool {
        match self.definition() {
            Definition::Apply(kernel) => {
                let inputs: Vec<ArrayType> = self.inputs().iter().map(|a| a.ty().clone()).collect();
                Node { kernel, inputs: &inputs, output: self.ty() }.foldable()
            }
            _ => false,
        }
    }

    /// The axis that a name means, or a number as Python counts (negative from the end).
    pub fn axis_named(&self, name: &str) -> Option<usize> {
        self.dims().iter().position(|d| d.as_deref() == Some(name))
    }
}

impl std::fmt::Debug for Array {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Array({}, {} {:?}, chunks {})", self.operation(), self.dtype(), self.shape(), self.chunks())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::create::full;
    use crate::elementwise::elementwise;
    use chunkwise_kernels::ElementOp;
    use chunkwise_types::Scalar;

    fn ones() -> Array {
        full(&[4], Scalar::Float(1.0), DType::Float64, Some(&[2])).unwrap()
    }

    fn sum(a: &Array, by: Scalar) -> Array {
        elementwise(ElementOp::Add, &[a.into(), by.into()]).unwrap()
    }

    #[test]
    fn equal_expressions_have_the_same_elements() {
        let made = |by: f64| sum(&sum(&ones(), Scalar::Float(1.0)), Scalar::Float(by));
        assert!(made(2.0).same_elements(&made(2.0)));
        assert!(!made(2.0).same_elements(&made(3.0)));
        assert!(!ones().same_elements(&full(&[5], Scalar::Float(1.0), DType::Float64, None).unwrap()));
    }

    #[test]
    fn expressions_of_exponential_size_are_compared_in_the_number_of_nodes() {
        let deep = || (0..60).fold(ones(), |x, _| elementwise(ElementOp::Add, &[(&x).into(), (&x).into()]).unwrap());
        assert!(deep().same_elements(&deep()));
    }

    #[test]
    fn a_deep_expression_is_freed() {
        let deep = (0..300_000).fold(ones(), |x, _| sum(&x, Scalar::Float(1.0)));
        drop(deep);
    }
}
