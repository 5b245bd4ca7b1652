//! The closed set of kernels and the questions that each answers.

use crate::{AxisMap, Block, Contract, Create, ElementOp, KernelError, Qr, ReduceOp, Stencil, ViewAxis};
use crate::{concat, create, elementwise, gather, group, reduce, reshape, stencil, view};
use chunkwise_types::{AxisChunks, DType, Region, Scalar};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smallvec::{SmallVec, smallvec};

/// The dtype and shape of a value in a program.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArrayType {
    /// Element type.
    pub dtype: DType,
    /// Length of each axis.
    pub shape: Vec<u64>,
}

impl ArrayType {
    /// A type from its parts.
    pub fn new(dtype: DType, shape: Vec<u64>) -> Self {
        ArrayType { dtype, shape }
    }
}

/// One physical kernel with its parameters. The number and the order of the inputs are the kernel's own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Kernel {
    /// Elements made from their index alone; no inputs.
    Create {
        /// What is made.
        what: Create,
    },
    /// An element-wise function; every input has the shape of the output.
    Element {
        /// The function.
        function: ElementOp,
    },
    /// Conversion to the dtype of the output.
    Cast,
    /// Axes permuted, inserted, dropped (length 1) or broadcast; never copies.
    View {
        /// For each output axis, where it comes from. Input axes not named must have length 1.
        axes: Vec<ViewAxis>,
    },
    /// Each output axis reads its input axis through an index map: slicing, flipping, rolling, padding, taking.
    Gather {
        /// One map an axis.
        axes: Vec<AxisMap>,
        /// The value of elements that come from outside (constant padding).
        fill: Scalar,
    },
    /// The inputs one after another along an axis.
    Concat {
        /// The axis.
        axis: usize,
    },
    /// The same elements in C order under another shape.
    Reshape,
    /// Reduction over axes. Foldable: contracted indices are the reduced axes in the given order.
    Reduce {
        /// The reduction.
        function: ReduceOp,
        /// The reduced axes of the input, ascending.
        axes: Vec<usize>,
        /// Partial reduction: each reduced axis is kept, with one element for each of these segments.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        segments: Option<Vec<AxisChunks>>,
    },
    /// Reduction of the elements with equal labels along one axis. Foldable along that axis.
    Group {
        /// The reduction: one of sum, prod, min, max, any, all, count_nonzero, mean, moments.
        function: ReduceOp,
        /// The axis.
        axis: usize,
        /// The group of every index of the axis; -1 belongs to none.
        labels: Vec<i64>,
        /// The number of groups: the length of the output axis.
        groups: u64,
    },
    /// Products summed over shared indices (einsum of two inputs). Foldable along the contracted indices.
    Contract(Contract),
    /// A factor of the QR decomposition of each block of rows.
    Qr(Qr),
    /// A weighted sum or a reduction over a window around each element, without padding.
    Stencil(Stencil),
}

/// A region of one input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demand {
    /// Which input.
    pub input: usize,
    /// Which region of it.
    pub region: Region,
}

/// The regions that a kernel needs, mostly one of each input.
pub type DemandList = SmallVec<[Demand; 2]>;

/// A kernel in its place: the types of its inputs and output.
#[derive(Debug, Clone, Copy)]
pub struct Node<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// The types of the inputs.
    pub inputs: &'a [ArrayType],
    /// The type of the output.
    pub output: &'a ArrayType,
}

/// The range `(start, len)` of every contracted index that one step of a fold covers.
pub type Window = Vec<(u64, u64)>;

/// A block with the region of the input that it holds.
#[derive(Debug, Clone)]
pub struct Part {
    /// The region, in the input's own coordinates.
    pub region: Region,
    /// Its elements; the block's shape is the region's.
    pub block: Block,
}

/// An accumulator of a foldable kernel for one output region.
pub trait Fold: Send {
    /// Takes one step: the blocks in the order of the step's demands. The steps (and the pieces of a step that tile it over
    /// the output) may come in any order that covers every element once.
    fn fold(&mut self, parts: &[Part]) -> Result<(), KernelError>;
    /// The output block.
    fn finish(self: Box<Self>) -> Result<Block, KernelError>;
}

/// Bytes of the rows of partial results of a reduction.
const ROWS: u64 = 256 << 10;

/// Bytes of these numbers of elements of the inputs.
fn bytes(volumes: &[u64], inputs: &[ArrayType]) -> u64 {
    volumes.iter().zip(inputs).fold(0, |a, (v, t)| a.saturating_add(v.saturating_mul(t.dtype.size())))
}

impl Node<'_> {
    /// Refuses inputs and parameters that the kernel cannot take, and an output of another dtype or shape than it makes.
    ///
    /// What passes can be asked for demands and computed without a panic, at any region of the output. Lengths of axes are taken to be
    /// such that no array has more than 2^62 bytes.
    pub fn check(&self) -> Result<(), KernelError> {
        let (inputs, output) = (self.inputs, self.output);
        match self.kernel {
            Kernel::Create { what } => create::check(what, inputs, output),
            Kernel::Element { function } => elementwise::check(*function, inputs, output),
            Kernel::Cast => crate::check::shape(output, &crate::check::one(inputs)?.shape),
            Kernel::View { axes } => view::check(axes, inputs, output),
            Kernel::Gather { axes, .. } => gather::check(axes, inputs, output),
            Kernel::Concat { axis } => concat::check(*axis, inputs, output),
            Kernel::Reshape => reshape::check(inputs, output),
            Kernel::Reduce { function, axes, segments } => reduce::check(*function, axes, segments.as_deref(), inputs, output),
            Kernel::Group { function, axis, labels, groups } => reduce::check_group(*function, *axis, labels, *groups, inputs, output),
            Kernel::Contract(c) => c.check_output(inputs, output),
            Kernel::Stencil(s) => s.check(inputs, output),
            Kernel::Qr(q) => q.check(inputs, output),
        }
    }

    /// The lengths of the contracted indices; empty if the kernel is not foldable.
    pub fn contracted(&self) -> Vec<u64> {
        match self.kernel {
            Kernel::Reduce { axes, .. } => axes.iter().map(|&a| self.inputs[0].shape[a]).collect(),
            Kernel::Group { axis, .. } => vec![self.inputs[0].shape[*axis]],
            Kernel::Contract(c) => c.contracted_lengths(self.inputs),
            _ => Vec::new(),
        }
    }

    /// True if the kernel can take its input in steps.
    pub fn foldable(&self) -> bool {
        matches!(self.kernel, Kernel::Reduce { .. } | Kernel::Group { .. } | Kernel::Contract(_))
    }

    /// The ranges of the contracted indices that a region of the output needs.
    pub fn window(&self, region: &Region) -> Window {
        match self.kernel {
            Kernel::Reduce { axes, segments, .. } => reduce::window(self.inputs, axes, segments.as_deref(), region),
            Kernel::Group { axis, labels, .. } => vec![group::window(labels, region.start[*axis], region.shape[*axis])],
            Kernel::Contract(c) => c.window(self.inputs, region),
            _ => Vec::new(),
        }
    }

    /// True if a window holds nothing for a region of the output: a fold may leave it out.
    pub fn skips(&self, region: &Region, window: &Window) -> bool {
        match self.kernel {
            Kernel::Group { axis, labels, .. } => group::window_inside(labels, region.start[*axis], region.shape[*axis], window[0]).1 == 0,
            _ => false,
        }
    }

    /// The regions of the inputs that a (non-empty) region of the output needs; for a foldable kernel, those of one window.
    ///
    /// Monotone: the demand of a part of the region (or window) lies, region by region, inside the demand of the whole.
    pub fn demand(&self, region: &Region, window: Option<&Window>) -> DemandList {
        match self.kernel {
            Kernel::Create { .. } => DemandList::new(),
            Kernel::Element { .. } | Kernel::Cast => (0..self.inputs.len()).map(|input| Demand { input, region: region.clone() }).collect(),
            Kernel::View { axes } => smallvec![Demand { input: 0, region: view::demand(axes, &self.inputs[0].shape, region) }],
            Kernel::Gather { axes, .. } => gather::demand(axes, &self.inputs[0].shape, region),
            Kernel::Concat { axis } => concat::demand(self.inputs, *axis, region),
            Kernel::Reshape => smallvec![Demand { input: 0, region: reshape::demand(&self.inputs[0].shape, &self.output.shape, region) }],
            Kernel::Stencil(s) => smallvec![Demand { input: 0, region: s.demand(region) }],
            Kernel::Qr(q) => q.demand(self.inputs, region),
            Kernel::Reduce { function, axes, segments } => {
                let own = self.window(region);
                smallvec![Demand { input: 0, region: reduce::demand(function, axes, segments.is_some(), region, window.unwrap_or(&own)) }]
            }
            Kernel::Group { function, axis, labels, .. } => {
                let all = (0, labels.len() as u64);
                let range = window.map_or(all, |w| w[0]);
                let (start, len) = group::window_inside(labels, region.start[*axis], region.shape[*axis], range);
                let mut r = region.clone();
                if function.parts().is_some() {
                    r.start.pop();
                    r.shape.pop();
                }
                (r.start[*axis], r.shape[*axis]) = (start, len);
                smallvec![Demand { input: 0, region: r }]
            }
            Kernel::Contract(c) => {
                let own = self.window(region);
                c.demand(region, window.unwrap_or(&own))
            }
        }
    }

    /// The output block from the blocks of all demands, in their order.
    pub fn compute(&self, region: &Region, parts: &[Part]) -> Result<Block, KernelError> {
        match self.kernel {
            Kernel::Create { what } => create::compute(what, self.output, region),
            Kernel::Element { function } => {
                let blocks: Vec<&Block> = parts.iter().map(|p| &p.block).collect();
                elementwise::compute(function, &blocks, self.output.dtype)
            }
            Kernel::Cast => Ok(crate::cast(&parts[0].block, self.output.dtype)),
            Kernel::View { axes } => view::compute(axes, &region.shape, &parts[0].block),
            Kernel::Gather { axes, fill } => gather::compute(axes, *fill, &self.inputs[0].shape, self.output.dtype, region, parts),
            Kernel::Concat { axis } => concat::compute(self.inputs, *axis, self.output.dtype, region, parts),
            Kernel::Reshape => reshape::compute(&self.inputs[0].shape, &self.output.shape, region, &parts[0]),
            Kernel::Stencil(s) => stencil::compute(s, self.output.dtype, &parts[0].block),
            Kernel::Qr(q) => q.compute(self.output.dtype, region, parts),
            Kernel::Reduce { .. } | Kernel::Group { .. } | Kernel::Contract(_) => {
                let mut fold = self.start_fold(region)?;
                fold.fold(parts)?;
                fold.finish()
            }
        }
    }

    /// An accumulator for a region of the output.
    pub fn start_fold(&self, region: &Region) -> Result<Box<dyn Fold>, KernelError> {
        match self.kernel {
            Kernel::Reduce { function, axes, segments } => {
                reduce::start(function, axes, segments.as_deref(), self.inputs, self.output, region)
            }
            Kernel::Group { function, axis, labels, .. } => group::start(function, *axis, labels, self.inputs, self.output, region),
            Kernel::Contract(c) => c.start(self.inputs, self.output, region),
            _ => Err(KernelError::Invalid("this kernel cannot be folded".into())),
        }
    }

    /// An upper bound of the bytes that the kernel allocates besides its output block, for inputs of these volumes (elements). What is
    /// element-wise is evaluated in fused programs, which have a bound of their own: [`Fused::scratch`](crate::Fused::scratch).
    pub fn scratch(&self, region: &Region, demanded: &[u64]) -> u64 {
        let out = region.volume().saturating_mul(self.output.dtype.size());
        match self.kernel {
            Kernel::View { .. } => 0,
            Kernel::Reduce { .. } | Kernel::Group { .. } | Kernel::Contract(_) => {
                self.accumulator(region).saturating_add(self.fold_scratch(demanded))
            }
            Kernel::Reshape => bytes(demanded, self.inputs),
            Kernel::Qr(q) => q.scratch(self.inputs, demanded),
            _ => out,
        }
    }

    /// An upper bound of the bytes that one step of a fold allocates, for inputs of these volumes (elements).
    pub fn fold_scratch(&self, demanded: &[u64]) -> u64 {
        match self.kernel {
            Kernel::Contract(c) => {
                // An operand that is summed or does not lie evenly is copied; GEMM packs panels of both.
                let copies = demanded.iter().zip(self.inputs).zip(c.copied()).filter(|(_, copied)| *copied);
                let copies = copies.fold(0, |a: u64, ((v, t), _)| a.saturating_add(v.saturating_mul(t.dtype.size())));
                copies.saturating_add(crate::matmul::panels(bytes(demanded, self.inputs)))
            }
            // A row of partial results, and the table of labels.
            Kernel::Group { labels, .. } => (labels.len() as u64).saturating_mul(8).saturating_add(ROWS),
            Kernel::Reduce { .. } => ROWS,
            _ => 0,
        }
    }

    /// Bytes of the accumulator for a region of the output (0 if not foldable), the finished output block included.
    pub fn accumulator(&self, region: &Region) -> u64 {
        let item = self.output.dtype.size();
        match self.kernel {
            Kernel::Reduce { function, .. } => region.volume().saturating_mul(function.state_bytes(self.inputs[0].dtype) + item),
            Kernel::Group { function, labels, .. } => {
                region.volume().saturating_mul(crate::group::group_state(*function, self.inputs[0].dtype, labels) + item)
            }
            // A fold of segments joins its results.
            Kernel::Contract(c) => region.volume().saturating_mul(item).saturating_mul(if c.segments.is_some() { 2 } else { 1 }),
            _ => 0,
        }
    }
}
