//! The wire format of kernels: a closed set, which here, and only here, is told apart.

use crate::concat::Concat;
use crate::convert::Cast;
use crate::gather::Gather;
use crate::group::Group;
use crate::kind::{Along, Evaluation, Foldable, KernelKind, Rounds, Traits, Types, Work};
use crate::lookup::Lookup;
use crate::reduce::Reduce;
use crate::reshape::Reshape;
use crate::view::View;
use crate::{ArrayType, AxisMap, Block, Call, Contract, Create, DemandList, ElementOp, Fold, KernelError, Operand, Part, Qr, ReduceOp};
use crate::{Points, Scan, Stencil, ViewAxis, Window};
use chunkwise_types::{AxisChunks, Region, Scalar};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// The elements of the first input at the positions along an axis that the second input holds. Foldable along that axis.
    Lookup {
        /// The axis.
        axis: usize,
    },
    /// The elements at points. Foldable along the axes that have positions.
    Points(Points),
    /// A cumulative function along an axis.
    Scan(Scan),
    /// A function of a user, called for each block of the output.
    Call(Call),
}

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

impl Kernel {
    /// Puts a question to the kind of this kernel. This is the only place that knows them all.
    fn ask<R>(&self, question: impl FnOnce(&dyn KernelKind) -> R) -> R {
        match self {
            Kernel::Create { what } => question(what),
            Kernel::Element { function } => question(function),
            Kernel::Cast => question(&Cast),
            Kernel::View { axes } => question(&View { axes }),
            Kernel::Gather { axes, fill } => question(&Gather { axes, fill: *fill }),
            Kernel::Concat { axis } => question(&Concat { axis: *axis }),
            Kernel::Reshape => question(&Reshape),
            Kernel::Reduce { function, axes, segments } => question(&Reduce { function: *function, axes, segments: segments.as_deref() }),
            Kernel::Group { function, axis, labels, groups } => {
                question(&Group { function: *function, axis: *axis, labels, groups: *groups })
            }
            Kernel::Contract(contract) => question(contract),
            Kernel::Qr(qr) => question(qr),
            Kernel::Stencil(stencil) => question(stencil),
            Kernel::Lookup { axis } => question(&Lookup { axis: *axis }),
            Kernel::Points(points) => question(points),
            Kernel::Scan(scan) => question(scan),
            Kernel::Call(call) => question(call),
        }
    }

    /// A name for people; of a reduction or an element-wise function, that of the function.
    pub fn name(&self) -> &'static str {
        self.ask(|kind| kind.name())
    }

    /// What is to be known of it.
    pub fn traits(&self) -> Traits {
        self.ask(|kind| kind.traits())
    }

    /// The function of a user that it calls.
    pub fn call(&self) -> Option<&Call> {
        match self {
            Kernel::Call(call) => Some(call),
            _ => None,
        }
    }

    /// The function of a user that it calls, to bind it.
    pub fn call_mut(&mut self) -> Option<&mut Call> {
        match self {
            Kernel::Call(call) => Some(call),
            _ => None,
        }
    }

    /// True if it shows the elements of its input in other places, without a copy.
    pub fn is_view(&self) -> bool {
        self.ask(|kind| kind.view().is_some())
    }

    /// What this view shows of an operand, for a region of such a shape.
    ///
    /// # Errors
    /// If it is no view, or one of something else.
    pub fn show(&self, operand: Operand, shape: &[u64]) -> Result<Operand, KernelError> {
        self.ask(|kind| match kind.view() {
            Some(axes) => operand.viewed(axes, shape),
            None => Err(KernelError::Invalid(format!("{} is no view", kind.name()))),
        })
    }
}

impl Node<'_> {
    fn ask<R>(&self, question: impl FnOnce(&dyn KernelKind, Types<'_>) -> R) -> R {
        let at = Types { inputs: self.inputs, output: self.output };
        self.kernel.ask(|kind| question(kind, at))
    }

    /// Puts a question to a fold; others have the other answer.
    fn ask_fold<R>(&self, otherwise: R, question: impl FnOnce(&dyn Foldable, Types<'_>) -> R) -> R {
        self.ask(|kind, at| match kind.evaluation() {
            Evaluation::Folded(fold) => question(fold, at),
            Evaluation::AtOnce(_) => otherwise,
        })
    }

    /// Refuses inputs and parameters that the kernel cannot take, and an output of another dtype or shape than it makes.
    ///
    /// What passes can be asked for demands and computed without a panic, at any region of the output. Lengths of axes are taken to be
    /// such that no array has more than 2^62 bytes.
    pub fn check(&self) -> Result<(), KernelError> {
        self.ask(|kind, at| kind.check(at))
    }

    /// What it does for all of its output.
    pub fn work(&self) -> Work {
        self.ask(|kind, at| kind.work(at))
    }

    /// How many of its blocks a region of the output touches, if it makes blocks, each of them as a whole and at some cost: a task should
    /// make one, and no task the same one again.
    pub fn blocks(&self, region: &Region) -> Option<u64> {
        self.ask(|kind, _| kind.blocks(region))
    }

    /// The contracted indices; none if the kernel is not foldable.
    pub fn indices(&self) -> Vec<Along> {
        self.ask_fold(Vec::new(), |fold, _| fold.indices())
    }

    /// The lengths of the contracted indices.
    pub fn contracted(&self) -> Vec<u64> {
        self.indices().iter().map(|along| along.first().map_or(1, |&(input, axis)| self.inputs[input].shape[axis])).collect()
    }

    /// True if the kernel can take its input in steps.
    pub fn foldable(&self) -> bool {
        self.ask_fold(false, |_, _| true)
    }

    /// The axes of its only input that a fold reduces, each of them as a whole: folds over the same axes go through them in the same windows.
    pub fn reduces(&self) -> Option<Vec<usize>> {
        self.ask_fold(None, |fold, _| fold.reduces())
    }

    /// The axes of its only input along which a long run changes few accumulators of a fold in this window.
    pub fn runs(&self, window: &Window) -> Vec<usize> {
        self.ask_fold(Vec::new(), |fold, _| fold.runs(window))
    }

    /// The rounds of a tree that folds these segments of the contracted indices, where only the index `cut` has more than one. None if
    /// partial results cannot be put together.
    pub fn rounds(&self, segments: &[AxisChunks], cut: usize) -> Option<Rounds> {
        self.ask_fold(None, |fold, at| fold.rounds(at, segments, cut))
    }

    /// The ranges of the contracted indices that a region of the output needs.
    pub fn window(&self, region: &Region) -> Window {
        self.ask_fold(Vec::new(), |fold, at| fold.window(at, region))
    }

    /// The regions of the inputs that a (non-empty) region of the output needs; for a foldable kernel, those of one window.
    ///
    /// Monotone: the demand of a part of the region (or window) lies, region by region, inside the demand of the whole.
    pub fn demand(&self, region: &Region, window: Option<&Window>) -> DemandList {
        self.ask(|kind, at| kind.demand(at, region, window))
    }

    /// The output block from the blocks of all demands, in their order.
    pub fn compute(&self, region: &Region, parts: &[Part]) -> Result<Block, KernelError> {
        self.ask(|kind, at| match kind.evaluation() {
            Evaluation::AtOnce(kernel) => kernel.compute(at, region, parts),
            Evaluation::Folded(fold) => {
                let mut fold = fold.start(at, region)?;
                fold.fold(parts)?;
                fold.finish()
            }
        })
    }

    /// An accumulator for a region of the output.
    pub fn start_fold(&self, region: &Region) -> Result<Box<dyn Fold>, KernelError> {
        let none = || Err(KernelError::Invalid("this kernel cannot be folded".into()));
        self.ask_fold(None, |fold, at| Some(fold.start(at, region))).unwrap_or_else(none)
    }

    /// An upper bound of the bytes that the kernel allocates besides its output block, for inputs of these volumes (elements). What is
    /// element-wise is evaluated in fused programs, which have a bound of their own: [`Fused::scratch`](crate::Fused::scratch).
    pub fn scratch(&self, region: &Region, demanded: &[u64]) -> u64 {
        self.ask(|kind, at| match kind.evaluation() {
            Evaluation::AtOnce(kernel) => kernel.scratch(at, region, demanded),
            Evaluation::Folded(fold) => fold.accumulator(at, region).saturating_add(fold.fold_scratch(at, demanded)),
        })
    }

    /// An upper bound of the bytes that one step of a fold allocates, for inputs of these volumes (elements).
    pub fn fold_scratch(&self, demanded: &[u64]) -> u64 {
        self.ask_fold(0, |fold, at| fold.fold_scratch(at, demanded))
    }

    /// Bytes of the accumulator for a region of the output (0 if not foldable), the finished output block included.
    pub fn accumulator(&self, region: &Region) -> u64 {
        self.ask_fold(0, |fold, at| fold.accumulator(at, region))
    }
}
