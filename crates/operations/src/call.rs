//! Functions of users on the blocks of arrays.
//!
//! A plan names the function ([`Call`]); the program that runs it has it. Labels say which axes belong together, as in Einstein notation: the
//! blocks of the output are those of its labels. An axis whose label the output does not have is taken as a whole.

use crate::manipulate::{pad, squeeze};
use crate::stencil::Boundary;
use crate::{Array, OpError};
use chunkwise_kernels::{ArrayType, Bound, Call, InputAxis, Kernel, Node};
use chunkwise_types::{AxisChunks, ChunkGrid, DType};
use std::collections::BTreeMap;

/// A function as a plan names it.
#[derive(Debug, Clone, PartialEq)]
pub struct Named {
    /// Its name in the registry of the program that runs it.
    pub name: String,
    /// Its version there.
    pub version: String,
    /// What it is told besides its blocks, in any form of JSON.
    pub parameters: serde_json::Value,
    /// Bytes that one call allocates, at most, besides the blocks that it takes and one that it returns.
    pub memory: u64,
}

impl Named {
    /// A function without parameters that allocates `memory` bytes.
    pub fn new(name: impl Into<String>, version: impl Into<String>, memory: u64) -> Named {
        Named { name: name.into(), version: version.into(), parameters: serde_json::Value::Null, memory }
    }

    /// The same function with parameters.
    pub fn with_parameters(self, parameters: serde_json::Value) -> Named {
        Named { parameters, ..self }
    }

    /// A call of it, which gives one array.
    fn call(&self, blocks: ChunkGrid, inputs: Vec<Vec<InputAxis>>, trim: Option<Vec<u64>>) -> Call {
        Call {
            function: self.name.clone(),
            version: self.version.clone(),
            parameters: self.parameters.clone(),
            blocks,
            inputs,
            output: 0,
            outputs: 1,
            trim,
            memory: self.memory,
            bound: Bound::default(),
        }
    }

    fn refuse(&self, problem: impl Into<String>) -> OpError {
        OpError::new(&self.name, problem)
    }
}

/// One array that a function makes.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// The label of each axis.
    pub labels: Vec<u32>,
    /// The dtype.
    pub dtype: DType,
    /// The chunks of the axes that no input has, or whose blocks have another length than those of the inputs: as many as there are blocks.
    pub chunks: BTreeMap<u32, AxisChunks>,
}

impl Output {
    /// An output with the chunks of the inputs.
    pub fn new(labels: &[u32], dtype: DType) -> Output {
        Output { labels: labels.to_vec(), dtype, chunks: BTreeMap::new() }
    }
}

/// An array with the label of each axis.
pub type Labelled<'a> = (&'a Array, Vec<u32>);

/// What a label stands for.
struct Axis {
    chunks: AxisChunks,
    dim: Option<String>,
}

/// The axes of the labels. Axes of length 1 go with every other; of different chunks, the smallest are taken.
fn axes(function: &Named, inputs: &[Labelled<'_>]) -> Result<BTreeMap<u32, Axis>, OpError> {
    let mut found: BTreeMap<u32, Axis> = BTreeMap::new();
    for (k, (array, labels)) in inputs.iter().enumerate() {
        if labels.len() != array.rank() {
            return Err(function.refuse(format!("input {k} has {} axes and {} labels", array.rank(), labels.len())));
        }
        if (1..labels.len()).any(|i| labels[..i].contains(&labels[i])) {
            return Err(function.refuse(format!("input {k} has the same label on two axes")));
        }
        for ((label, chunks), dim) in labels.iter().zip(&array.chunks().0).zip(array.dims()) {
            match found.get_mut(label) {
                None => {
                    found.insert(*label, Axis { chunks: chunks.clone(), dim: dim.clone() });
                }
                Some(axis) => {
                    let (old, new) = (axis.chunks.len(), chunks.len());
                    if old != new && old != 1 && new != 1 {
                        return Err(function.refuse(format!("axes that belong together have the lengths {old} and {new}")));
                    }
                    if (old == 1 && new != 1) || (old == new && chunks.count() > axis.chunks.count()) {
                        axis.chunks = chunks.clone();
                    }
                    axis.dim = axis.dim.take().or_else(|| dim.clone());
                }
            }
        }
    }
    Ok(found)
}

/// Elements before and after each block that a function takes, by label.
pub type Depth = BTreeMap<u32, (u64, u64)>;

/// The arrays that a function makes of the blocks of others, which it is called for once each.
///
/// ```
/// use chunkwise_ops::{call::{Named, Output, blockwise}, create};
/// use chunkwise_types::{DType, Scalar};
/// let a = create::full(&[100, 40], Scalar::Int(1), DType::Float32, Some(&[25, 40]))?;
/// let b = create::full(&[40, 60], Scalar::Int(1), DType::Float32, Some(&[10, 20]))?;
/// // The contracted axis is taken as a whole.
/// let product = Named::new("product", "1", 1 << 20);
/// let c = blockwise(&product, &[Output::new(&[0, 2], DType::Float32)], &[(&a, vec![0, 1]), (&b, vec![1, 2])])?;
/// assert_eq!((c[0].shape(), c[0].chunks().counts()), (&[100, 60][..], vec![4, 3]));
/// # Ok::<(), chunkwise_ops::OpError>(())
/// ```
///
/// # Errors
/// When axes with the same label differ in their length, or the chunks of an output are not as many as its blocks.
pub fn blockwise(function: &Named, outputs: &[Output], inputs: &[Labelled<'_>]) -> Result<Vec<Array>, OpError> {
    calls(function, outputs, inputs, &Depth::new(), None)
}

fn calls(
    function: &Named,
    outputs: &[Output],
    inputs: &[Labelled<'_>],
    depth: &Depth,
    trim: Option<Vec<u64>>,
) -> Result<Vec<Array>, OpError> {
    let axes = axes(function, inputs)?;
    let one = |(k, output): (usize, &Output)| {
        let (mut blocks, mut dims) = (Vec::new(), Vec::new());
        for label in &output.labels {
            let (given, known) = (output.chunks.get(label), axes.get(label));
            let Some(chunks) = given.or(known.map(|axis| &axis.chunks)) else {
                return Err(function.refuse(format!("no input has the axis {label} of output {k}, so its chunks must be given")));
            };
            if let Some(axis) = known.filter(|axis| axis.chunks.count() != chunks.count()) {
                let (of, given) = (axis.chunks.count(), chunks.count());
                return Err(function.refuse(format!("{given} chunks are given for an axis of output {k} that has {of} blocks")));
            }
            blocks.push(chunks.clone());
            dims.push(known.and_then(|axis| axis.dim.clone()));
        }
        let place = |label: &u32, chunks: &AxisChunks| {
            let (axis, own) = (output.labels.iter().position(|l| l == label)?, axes.get(label)?);
            let (before, after) = depth.get(label).copied().unwrap_or_default();
            (own.chunks.len() == chunks.len()).then(|| InputAxis::Chunk { axis, chunks: own.chunks.clone(), before, after })
        };
        let taken = |(array, labels): &Labelled<'_>| {
            let axes = labels.iter().zip(&array.chunks().0);
            axes.map(|(label, chunks)| place(label, chunks).unwrap_or(InputAxis::Whole)).collect()
        };
        let call = function.call(ChunkGrid(blocks), inputs.iter().map(taken).collect(), trim.clone());
        let call = Call { output: k, outputs: outputs.len(), ..call };
        apply(function, call, &inputs.iter().map(|(a, _)| *a).collect::<Vec<_>>(), output.dtype, dims)
    };
    outputs.iter().enumerate().map(one).collect()
}

fn apply(function: &Named, call: Call, inputs: &[&Array], dtype: DType, dims: Vec<Option<String>>) -> Result<Array, OpError> {
    let (blocks, ty) = (call.blocks.clone(), ArrayType::new(dtype, call.blocks.shape()));
    let kernel = Kernel::Call(call);
    let types: Vec<ArrayType> = inputs.iter().map(|a| a.ty().clone()).collect();
    Node { kernel: &kernel, inputs: &types, output: &ty }.check().map_err(|e| function.refuse(e.to_string()))?;
    Array::apply(kernel, inputs, ty, blocks, dims, &function.name)
}

/// Labels that meet at the last axes, as in broadcasting.
fn trailing(rank: usize, most: usize) -> Vec<u32> {
    (most - rank..most).map(|i| i as u32).collect()
}

/// An array of the same shape, of which a function makes each block from those at the same place. Inputs of fewer axes, and axes of length 1,
/// are broadcast.
///
/// ```
/// use chunkwise_ops::{call::{Named, map_blocks}, create};
/// use chunkwise_types::{DType, Scalar};
/// let x = create::full(&[100, 40], Scalar::Int(1), DType::Float32, Some(&[25, 40]))?;
/// let mask = map_blocks(&Named::new("cloud_mask", "2", 0), &[&x], DType::Bool)?;
/// assert_eq!((mask.shape(), mask.dtype()), (x.shape(), DType::Bool));
/// # Ok::<(), chunkwise_ops::OpError>(())
/// ```
///
/// # Errors
/// When there is no input, or the shapes do not go together.
pub fn map_blocks(function: &Named, inputs: &[&Array], dtype: DType) -> Result<Array, OpError> {
    let most = inputs.iter().map(|a| a.rank()).max().ok_or_else(|| function.refuse("it needs an input"))?;
    let labelled: Vec<Labelled<'_>> = inputs.iter().map(|a| (*a, trailing(a.rank(), most))).collect();
    only(function, blockwise(function, &[Output::new(&trailing(most, most), dtype)], &labelled)?)
}

fn only(function: &Named, mut made: Vec<Array>) -> Result<Array, OpError> {
    made.pop().ok_or_else(|| function.refuse("it makes no array"))
}

/// An array of the same shape, of which a function makes each block from the block at the same place and `depth` elements around it on each
/// axis. It returns a block of the shape of what it takes, of which the middle is kept. Beyond the ends of the array is what the boundary
/// says; without one, blocks at the ends have less around them.
///
/// ```
/// use chunkwise_ops::{call::{Named, map_overlap}, create, stencil::Boundary};
/// use chunkwise_types::{DType, Scalar};
/// let x = create::full(&[100, 40], Scalar::Int(1), DType::Float32, Some(&[25, 40]))?;
/// let smooth = map_overlap(&Named::new("smooth", "1", 0), &x, &[2, 0], Boundary::None, DType::Float32)?;
/// assert_eq!(smooth.shape(), x.shape());
/// # Ok::<(), chunkwise_ops::OpError>(())
/// ```
///
/// # Errors
/// When there is not a depth for each axis, or the boundary does not fit the array.
pub fn map_overlap(function: &Named, a: &Array, depth: &[u64], boundary: Boundary, dtype: DType) -> Result<Array, OpError> {
    if depth.len() != a.rank() {
        return Err(function.refuse(format!("{} depths for {} axes", depth.len(), a.rank())));
    }
    let labels = trailing(a.rank(), a.rank());
    let around: Depth = labels.iter().copied().zip(depth.iter().map(|&d| (d, d))).collect();
    let Boundary::Pad(mode, value) = boundary else {
        let output = Output::new(&labels, dtype);
        return only(function, calls(function, &[output], &[(a, labels)], &around, Some(vec![0; a.rank()]))?);
    };
    let padded = pad(a, &depth.iter().map(|&d| (d, d)).collect::<Vec<_>>(), mode, value)?;
    // Of the padded array, a block takes its own elements and those around it; the first and the last one own the padding.
    let own = |(chunks, &depth): (&AxisChunks, &u64)| {
        let mut list = chunks.to_list();
        match &mut list[..] {
            [] => list.push(2 * depth),
            [one] => *one += 2 * depth,
            [first, .., last] => (*first, *last) = (*first + depth, *last + depth),
        }
        AxisChunks::from_list(list)
    };
    let axis = |(axis, (chunks, &depth)): (usize, (&AxisChunks, &u64))| match depth {
        0 => InputAxis::Chunk { axis, chunks: chunks.clone(), before: 0, after: 0 },
        _ => InputAxis::Chunk { axis, chunks: own((chunks, &depth)), before: depth, after: depth },
    };
    let taken = a.chunks().0.iter().zip(depth).enumerate().map(axis).collect();
    let call = function.call(a.chunks().clone(), vec![taken], Some(depth.to_vec()));
    Ok(apply(function, call, &[&padded], dtype, a.dims().to_vec())?.with_coords(a.coords().clone()))
}

/// The functions of a reduction.
#[derive(Debug, Clone, PartialEq)]
pub struct Reduction {
    /// From a block of the input, a partial result that has length 1 on the reduced axes.
    pub chunk: Named,
    /// From partial results side by side, another one. It may be called again on what it returns.
    pub combine: Named,
    /// From partial results side by side, the result, with length 1 on the reduced axes.
    pub aggregate: Named,
    /// The dtype of partial results.
    pub partial: DType,
    /// The dtype of the result.
    pub dtype: DType,
    /// How many blocks are combined at once on each reduced axis, at least 2.
    pub at_once: u64,
}

/// A reduction with functions of the user, as a tree: no call takes more than some blocks, however many there are.
///
/// ```
/// use chunkwise_ops::{call::{Named, Reduction, reduce}, create};
/// use chunkwise_types::{DType, Scalar};
/// let x = create::full(&[1000, 40], Scalar::Int(1), DType::Float32, Some(&[10, 40]))?;
/// let add = Named::new("sum_keeping_axes", "1", 0);
/// let sum = Reduction {
///     chunk: add.clone(),
///     combine: add.clone(),
///     aggregate: add,
///     partial: DType::Float64,
///     dtype: DType::Float32,
///     at_once: 8,
/// };
/// assert_eq!(reduce(&sum, &x, &[0], false)?.shape(), [40]);
/// # Ok::<(), chunkwise_ops::OpError>(())
/// ```
///
/// # Errors
/// When an axis is not there.
pub fn reduce(functions: &Reduction, a: &Array, axes: &[usize], keep: bool) -> Result<Array, OpError> {
    if let Some(axis) = axes.iter().find(|&&axis| axis >= a.rank()) {
        return Err(functions.chunk.refuse(format!("there is no axis {axis}")));
    }
    let at_once = functions.at_once.max(2);
    let mut now = shrunk(&functions.chunk, a, axes, functions.partial, 1)?;
    let many = |a: &Array| axes.iter().any(|&axis| a.shape()[axis] > at_once);
    while many(&now) {
        now = shrunk(&functions.combine, &now, axes, functions.partial, at_once)?;
    }
    let mut out = shrunk(&functions.aggregate, &now, axes, functions.dtype, u64::MAX)?;
    let mut gone: Vec<usize> = if keep { Vec::new() } else { axes.to_vec() };
    gone.sort_unstable();
    gone.dedup();
    for axis in gone.into_iter().rev() {
        out = squeeze(&out, axis)?;
    }
    Ok(out)
}

/// One round: of so many chunks of the reduced axes, one element is made.
fn shrunk(function: &Named, a: &Array, axes: &[usize], dtype: DType, chunks: u64) -> Result<Array, OpError> {
    let taken = |axis: usize| {
        let own = &a.chunks().0[axis];
        match chunks {
            1 => own.clone(),
            n => AxisChunks::regular(own.len(), n.min(own.len().max(1))),
        }
    };
    let reduced = |axis: usize| axes.contains(&axis);
    let blocks = (0..a.rank()).map(|axis| match reduced(axis) {
        true => AxisChunks::regular(taken(axis).count(), 1),
        false => a.chunks().0[axis].clone(),
    });
    let of = |axis: usize| InputAxis::Chunk {
        axis,
        chunks: if reduced(axis) { taken(axis) } else { a.chunks().0[axis].clone() },
        before: 0,
        after: 0,
    };
    let call = function.call(ChunkGrid(blocks.collect()), vec![(0..a.rank()).map(of).collect()], None);
    apply(function, call, &[a], dtype, a.dims().to_vec())
}
