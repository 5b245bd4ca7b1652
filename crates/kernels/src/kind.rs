//! What a kind of kernel answers about itself. Each kind is one file, which ends with its answers.
//!
//! Outside of this crate nobody asks which kernel it is. The planner, the schedule, the memory projection and the tasks ask these
//! questions, so a new kind is planned and run without a change to any of them. There are no default answers: a kind that forgets the
//! memory that it takes does not compile.

use crate::{Block, ElementOp, Kernel, KernelError, ViewAxis};
use chunkwise_types::{AxisChunks, DType, Region, Scalar};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

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

    /// Bytes of all elements.
    fn bytes(&self) -> f64 {
        chunkwise_types::volume(&self.shape) as f64 * self.dtype.size() as f64
    }
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

/// The types of the inputs and of the output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Types<'a> {
    pub inputs: &'a [ArrayType],
    pub output: &'a ArrayType,
}

impl Types<'_> {
    /// Bytes of these numbers of elements of the inputs.
    pub fn bytes(&self, volumes: &[u64]) -> u64 {
        volumes.iter().zip(self.inputs).fold(0, |a, (v, t)| a.saturating_add(v.saturating_mul(t.dtype.size())))
    }

    /// Bytes of a region of the output.
    pub fn output_bytes(&self, region: &Region) -> u64 {
        region.volume().saturating_mul(self.output.dtype.size())
    }
}

/// What is worth knowing of a kernel whatever its inputs are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Traits {
    /// It is element-wise, so that it is evaluated in fused programs, and does this.
    pub map: Option<Map>,
    /// Every element has this value.
    pub constant: Option<Scalar>,
    /// Each axis of the output is one of the input, moved, or a new one, and all elements are the input's. What is stored of the elements, such as
    /// packed values, may be moved instead.
    pub moves: bool,
    /// The output may lie in another order than C, even where the inputs do not.
    pub turns: bool,
    /// While the output goes on along an axis, what is needed of the input may go back.
    pub jumps: bool,
    /// Lists say what is needed, so that no position can stand for others.
    pub irregular: bool,
    /// Its inputs lie at places of their own along an axis: what is needed changes where one ends.
    pub pieces: bool,
    /// It is at its best on large blocks, for which it borrows cores itself, and is not cut into tiles.
    pub whole: bool,
    /// Several of its blocks may be made at once: they take no more than what they are made of.
    pub joint: bool,
}

impl Traits {
    /// What most kernels are. Each kind starts from this or from a list of its own, and nothing here is about memory.
    pub(crate) const PLAIN: Traits = Traits {
        map: None,
        constant: None,
        moves: false,
        turns: false,
        jumps: false,
        irregular: false,
        pieces: false,
        whole: false,
        joint: false,
    };
}

/// An element-wise kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Map {
    /// A function of the elements.
    Function(ElementOp),
    /// A conversion to the dtype of the output.
    Cast,
}

impl Map {
    /// The function; none if the dtype is all that changes.
    pub fn function(self) -> Option<ElementOp> {
        match self {
            Map::Function(function) => Some(function),
            Map::Cast => None,
        }
    }
}

/// What a kernel does for all of its output.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// Bytes that pass through it.
    pub bytes: f64,
    /// Floating-point operations, if they rather than the bytes take the time.
    pub operations: f64,
}

impl Work {
    /// Nothing: no element is touched.
    pub(crate) const NONE: Work = Work { bytes: 0.0, operations: 0.0 };

    /// That of a kernel which is as fast as memory.
    pub(crate) fn passing(at: Types<'_>) -> Work {
        Work { bytes: at.inputs.iter().map(ArrayType::bytes).fold(at.output.bytes(), f64::max), operations: 0.0 }
    }
}

/// The axes `(input, axis)` that a contracted index runs along.
pub type Along = SmallVec<[(usize, usize); 2]>;

/// How a fold is cut into two rounds: the first folds segments of a contracted index, the second folds what the first made of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Rounds {
    /// The kernel of the first round.
    pub first: Kernel,
    /// The type of the partial results.
    pub partial: ArrayType,
    /// The axis of the partial results that has an element for each segment.
    pub along: usize,
    /// The kernel of the second round, whose only input they are. It folds all axes that the fold reduces.
    pub second: Kernel,
}

/// A kind of kernel.
pub(crate) trait KernelKind {
    /// A name for people.
    fn name(&self) -> &'static str;

    /// As [`crate::Node::check`].
    fn check(&self, at: Types<'_>) -> Result<(), KernelError>;

    /// The regions of the inputs that a region of the output, which is not empty, needs; of a fold, those of one window.
    fn demand(&self, at: Types<'_>, region: &Region, window: Option<&Window>) -> DemandList;

    /// What is to be known of it.
    fn traits(&self) -> Traits;

    /// What it does for all of its output.
    fn work(&self, at: Types<'_>) -> Work;

    /// Where the axes of the output come from, if it is a view: it shows the elements of its input in other places, without a copy.
    fn view(&self) -> Option<&[ViewAxis]>;

    /// How many of its blocks a region of the output touches, if it makes blocks, each of them as a whole and at some cost.
    fn blocks(&self, region: &Region) -> Option<u64>;

    /// How it comes to its output.
    fn evaluation(&self) -> Evaluation<'_>;
}

/// How a kernel comes to a region of its output.
pub(crate) enum Evaluation<'k> {
    /// From all that it needs.
    AtOnce(&'k dyn Compute),
    /// Step by step.
    Folded(&'k dyn Foldable),
}

/// A kernel that takes its inputs at once.
pub(crate) trait Compute {
    /// The output block from the blocks of all demands, in their order.
    fn compute(&self, at: Types<'_>, region: &Region, parts: &[Part]) -> Result<Block, KernelError>;

    /// An upper bound of the bytes that it allocates, for inputs of these volumes, besides the output block if that is one of its own.
    fn scratch(&self, at: Types<'_>, region: &Region, demanded: &[u64]) -> u64;
}

/// A kernel that takes its inputs in windows of contracted indices.
pub(crate) trait Foldable {
    /// The contracted indices.
    fn indices(&self) -> Vec<Along>;

    /// The ranges of the contracted indices that a region of the output needs.
    fn window(&self, at: Types<'_>, region: &Region) -> Window;

    /// An accumulator for a region of the output.
    fn start(&self, at: Types<'_>, region: &Region) -> Result<Box<dyn Fold>, KernelError>;

    /// Bytes of the accumulator for a region of the output, the finished output block included.
    fn accumulator(&self, at: Types<'_>, region: &Region) -> u64;

    /// An upper bound of the bytes that one step allocates, for inputs of these volumes.
    fn fold_scratch(&self, at: Types<'_>, demanded: &[u64]) -> u64;

    /// The axes of its only input that it reduces, each of them as a whole: folds over the same axes go through them in the same windows.
    fn reduces(&self) -> Option<Vec<usize>>;

    /// The axes of its only input along which a long run changes few accumulators in this window.
    fn runs(&self, window: &Window) -> Vec<usize>;

    /// The rounds of a tree that folds these segments of the contracted indices, where only the index `cut` has more than one; none if
    /// partial results of it cannot be put together.
    fn rounds(&self, at: Types<'_>, segments: &[AxisChunks], cut: usize) -> Option<Rounds>;
}
