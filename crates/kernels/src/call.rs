//! Functions of users: named by a plan, brought by the program that runs it.
//!
//! A plan never has code. It names a function with its version and parameters, and says in which blocks it is called and what each call
//! takes. The program that runs a task has a registry of functions ([`Functions`]), to which a plan is bound before anything of it runs.

mod registry;

pub use registry::{Bound, Function, FunctionError, Functions};

use crate::kind::{Compute, Evaluation, KernelKind, Traits, Types, Work};
use crate::{Block, Demand, DemandList, KernelError, Part, ViewAxis, Window, check};
use chunkwise_types::{AxisChunks, ChunkGrid, Region, volume};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A function of a user, which is called once for each block of the output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// Its name in the registry.
    pub function: String,
    /// Its version in the registry.
    pub version: String,
    /// What the function is told besides its blocks.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub parameters: serde_json::Value,
    /// The blocks of the output.
    pub blocks: ChunkGrid,
    /// For each axis of each input, what of it a block takes.
    pub inputs: Vec<Vec<InputAxis>>,
    /// Which of the blocks that the function returns this is.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub output: usize,
    /// How many blocks the function returns.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub outputs: usize,
    /// Cuts what the function returns, which has the shape of its first block, to the block of the output: by axis, the place of the output's
    /// first element in the first input. For functions of a block and what is around it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trim: Option<Vec<u64>>,
    /// Bytes that one call allocates, at most, besides the blocks that it takes and returns.
    pub memory: u64,
    /// The function itself, once the plan is bound to a registry.
    #[serde(skip)]
    pub bound: Bound,
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}

fn one() -> usize {
    1
}

fn is_one(n: &usize) -> bool {
    *n == 1
}

/// What a block takes of one axis of an input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum InputAxis {
    /// All of it.
    Whole,
    /// The chunk with the number that the block has on an axis of the output, and some elements around it, as far as there are any.
    Chunk {
        /// The axis of the output.
        axis: usize,
        /// The chunks, as many as there are blocks on that axis.
        chunks: AxisChunks,
        /// Elements before it.
        #[serde(default, skip_serializing_if = "none_before")]
        before: u64,
        /// Elements after it.
        #[serde(default, skip_serializing_if = "none_before")]
        after: u64,
    },
}

fn none_before(n: &u64) -> bool {
    *n == 0
}

/// One call of a function: where it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Invocation<'a> {
    /// The number of the block on each axis.
    pub block: Vec<u64>,
    /// The number of blocks on each axis.
    pub blocks: Vec<u64>,
    /// The region of the output, in its own coordinates.
    pub region: &'a Region,
    /// The region of each input that its block holds.
    pub inputs: &'a [Region],
    /// The parameters in the plan.
    pub parameters: &'a serde_json::Value,
}

impl Call {
    /// The name and the version, for people.
    pub fn title(&self) -> String {
        format!("'{}' (version {})", self.function, self.version)
    }

    /// The blocks that a region of the output touches, by axis.
    fn touched(&self, region: &Region) -> Vec<std::ops::Range<u64>> {
        self.blocks.0.iter().enumerate().map(|(i, axis)| axis.touched(region.start[i], region.shape[i])).collect()
    }

    /// What the blocks in these ranges take of each input.
    fn taken(&self, at: Types<'_>, blocks: &[std::ops::Range<u64>]) -> Vec<Region> {
        let of = |(axes, ty): (&Vec<InputAxis>, &crate::ArrayType)| {
            let mut out = Region::full(&ty.shape);
            for (i, axis) in axes.iter().enumerate() {
                let InputAxis::Chunk { axis, chunks, before, after } = axis else { continue };
                let (first, end) = (blocks[*axis].start, blocks[*axis].end);
                let start = chunks.bounds(first).0.saturating_sub(*before);
                let (last, len) = chunks.bounds(end.saturating_sub(1).max(first));
                let stop = last.saturating_add(len).saturating_add(*after).min(ty.shape[i]);
                (out.start[i], out.shape[i]) = (start, stop - start);
            }
            out
        };
        self.inputs.iter().zip(at.inputs).map(of).collect()
    }

    /// Calls the function for one block and gives the output that is wanted.
    fn one(&self, at: Types<'_>, block: &[u64], region: &Region, parts: &[Part]) -> Result<Block, KernelError> {
        let fault = |detail: String| KernelError::Function { function: self.title(), block: block.to_vec(), detail };
        let Some(function) = self.bound.function() else { return Err(fault("this program does not have it".into())) };
        let ranges: Vec<_> = block.iter().map(|&b| b..b + 1).collect();
        let inputs = self.taken(at, &ranges);
        let mut blocks = Vec::new();
        for (wanted, part) in inputs.iter().zip(parts) {
            blocks.push(part.block.slice(&wanted.relative_to(&part.region)));
        }
        let place =
            Invocation { block: block.to_vec(), blocks: self.blocks.counts(), region, inputs: &inputs, parameters: &self.parameters };
        let mut made = function.call(&place, &blocks).map_err(|e| fault(e.to_string()))?;
        if made.len() != self.outputs {
            return Err(fault(format!("it returned {} blocks, and {} are expected", made.len(), self.outputs)));
        }
        let mut made = made.swap_remove(self.output);
        if let (Some(trim), Some(first)) = (&self.trim, inputs.first())
            && made.shape()[..] == first.shape[..]
        {
            let mut own = region.clone();
            own.start.iter_mut().zip(trim).for_each(|(start, by)| *start += by);
            made = made.slice(&own.relative_to(first));
        }
        if made.dtype() != at.output.dtype || made.shape()[..] != region.shape[..] {
            return Err(fault(format!(
                "it returned {} {:?}, and {} {:?} is expected",
                made.dtype(),
                made.shape(),
                at.output.dtype,
                &region.shape[..]
            )));
        }
        Ok(made)
    }
}

impl KernelKind for Call {
    fn name(&self) -> &'static str {
        "call"
    }

    fn check(&self, at: Types<'_>) -> Result<(), KernelError> {
        if self.function.is_empty() || self.output >= self.outputs {
            return check::invalid("call: it names no function, or an output that there is not");
        }
        self.blocks.check(&at.output.shape).map_err(|e| KernelError::Invalid(format!("call: {e}")))?;
        if self.inputs.len() != at.inputs.len() {
            return check::invalid(format!("call: it says what it takes of {} inputs and has {}", self.inputs.len(), at.inputs.len()));
        }
        if let Some(trim) = &self.trim {
            let fits = |ty: &crate::ArrayType| {
                let ends = trim.iter().zip(&at.output.shape).map(|(by, n)| by.saturating_add(*n));
                trim.len() == at.output.shape.len() && ty.shape.len() == trim.len() && ends.zip(&ty.shape).all(|(end, n)| end <= *n)
            };
            if !at.inputs.first().is_some_and(fits) {
                return check::invalid("call: its output does not lie inside its first input");
            }
        }
        for (axes, ty) in self.inputs.iter().zip(at.inputs) {
            if axes.len() != ty.shape.len() {
                return check::invalid("call: it says what it takes of another number of axes than an input has");
            }
            for (axis, &len) in axes.iter().zip(&ty.shape) {
                let InputAxis::Chunk { axis, chunks, .. } = axis else { continue };
                let Some(blocks) = self.blocks.0.get(*axis) else { return check::invalid("call: its output has no such axis") };
                if !chunks.cuts(len) || chunks.count() != blocks.count() {
                    return check::invalid("call: the chunks of an input do not fit it, or the blocks");
                }
            }
        }
        Ok(())
    }

    fn demand(&self, at: Types<'_>, region: &Region, _: Option<&Window>) -> DemandList {
        let blocks = self.touched(region);
        self.taken(at, &blocks).into_iter().enumerate().map(|(input, region)| Demand { input, region }).collect()
    }

    fn traits(&self) -> Traits {
        let listed = |axis: &AxisChunks| matches!(axis, AxisChunks::Irregular(_));
        let input = |axis: &InputAxis| matches!(axis, InputAxis::Chunk { chunks, .. } if listed(chunks));
        let irregular = self.blocks.0.iter().any(listed) || self.inputs.iter().flatten().any(input);
        Traits { turns: true, jumps: true, whole: true, irregular, ..Traits::PLAIN }
    }

    fn work(&self, at: Types<'_>) -> Work {
        Work::passing(at)
    }

    fn view(&self) -> Option<&[ViewAxis]> {
        None
    }

    fn blocks(&self, region: &Region) -> Option<u64> {
        Some(self.touched(region).iter().map(|r| r.end - r.start).fold(1, u64::saturating_mul))
    }

    fn evaluation(&self) -> Evaluation<'_> {
        Evaluation::AtOnce(self)
    }
}

impl Compute for Call {
    fn compute(&self, at: Types<'_>, region: &Region, parts: &[Part]) -> Result<Block, KernelError> {
        let touched = self.touched(region);
        let counts: Vec<u64> = touched.iter().map(|r| r.end - r.start).collect();
        let mut out = None;
        for k in 0..volume(&counts) {
            let block: Vec<u64> = chunkwise_types::unravel(k, &counts).iter().zip(&touched).map(|(i, r)| r.start + i).collect();
            let own = self.blocks.region(&block);
            let made = self.one(at, &block, &own, parts)?;
            if own == *region {
                return Ok(made);
            }
            let out = out.get_or_insert_with(|| Block::zeros(at.output.dtype, &region.shape));
            if let Some(kept) = own.intersect(region) {
                out.assign(&kept.relative_to(region), &made.slice(&kept.relative_to(&own)));
            }
        }
        Ok(out.unwrap_or_else(|| Block::zeros(at.output.dtype, &region.shape)))
    }

    fn scratch(&self, at: Types<'_>, region: &Region, _: &[u64]) -> u64 {
        // Where the region is one block, the block that is returned is the output. The sizes of other outputs are in what was declared.
        let block = volume(&self.blocks.max_shape()).saturating_mul(at.output.dtype.size());
        let one = self.touched(region).iter().all(|r| r.end - r.start == 1) && region.volume() >= volume(&self.blocks.max_shape());
        self.memory.saturating_add(if one { 0 } else { block })
    }
}

#[cfg(test)]
#[path = "call_tests.rs"]
mod tests;
