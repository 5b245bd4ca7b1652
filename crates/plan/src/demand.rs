//! Which regions of which steps an evaluation needs.
//!
//! One pass from the wanted regions back to the leaves. Regions of one step that overlap are merged when their hull is
//! no larger than both together, so that a step used by several consumers (a difference of neighbours, a stencil) is read and
//! evaluated once.

use crate::{Program, Step};
use chunkwise_kernels::{ArrayType, Kernel, Node};
use chunkwise_types::Region;
use smallvec::{SmallVec, smallvec};

/// For each step, the disjoint-enough regions at which it is needed.
pub type Demands = Vec<Regions>;

/// Regions of one step, mostly one.
pub type Regions = SmallVec<[Region; 1]>;

impl Program {
    /// The types of a step's inputs.
    pub fn input_types(&self, step: &Step) -> Vec<ArrayType> {
        step.inputs.iter().map(|&i| self.steps[i].ty.clone()).collect()
    }

    /// For each step, whether it depends on one of some steps.
    pub fn dependents(&self, on: &[usize]) -> Vec<bool> {
        let mut given = vec![false; self.steps.len()];
        on.iter().for_each(|&k| given[k] = true);
        let mut found = vec![false; self.steps.len()];
        for (i, step) in self.steps.iter().enumerate() {
            found[i] = step.inputs.iter().any(|&input| given[input] || found[input]);
        }
        found
    }
}

impl Step {
    /// True if its kernel can be folded over windows of its input.
    pub fn is_fold(&self) -> bool {
        self.kernel.as_ref().is_some_and(|kernel| is_fold(kernel, &self.ty))
    }
}

/// True if a kernel with an output of this type can be folded over windows of its input.
pub fn is_fold(kernel: &Kernel, output: &ArrayType) -> bool {
    // That does not depend on the inputs.
    Node { kernel, inputs: &[], output }.foldable()
}

/// Bytes of the values of a step at some regions.
pub fn bytes_of(program: &Program, step: usize, regions: &[Region]) -> u64 {
    regions.iter().fold(0, |a: u64, r| a.saturating_add(r.volume().saturating_mul(program.steps[step].ty.dtype.size())))
}

/// Bytes of the arrays that a program reads for some demands.
pub fn read_bytes(program: &Program, demands: &Demands) -> u64 {
    let leaves = (0..program.steps.len()).filter(|&k| program.steps[k].read.is_some());
    leaves.map(|k| bytes_of(program, k, &demands[k])).fold(0, u64::saturating_add)
}

/// More regions of one step than this are taken as the smallest one that holds them all: merging looks at every pair.
const MAX_REGIONS: usize = 2048;

/// Adds a region that is needed; mostly the steps of a chain all need the same one.
pub(crate) fn add(regions: &mut Regions, region: Region) {
    if !region.is_empty() && regions.last() != Some(&region) {
        regions.push(region);
    }
}

/// Merges regions that are worth evaluating as one.
pub fn merge(regions: &mut Regions) {
    regions.retain(|r| !r.is_empty());
    if regions.len() > MAX_REGIONS {
        let hull = regions.iter().skip(1).fold(regions[0].clone(), |a, b| a.hull(b));
        *regions = smallvec![hull];
    }
    let mut changed = true;
    while changed && regions.len() > 1 {
        changed = false;
        'pairs: for i in 0..regions.len() {
            for j in i + 1..regions.len() {
                let hull = regions[i].hull(&regions[j]);
                if hull.volume() <= regions[i].volume().saturating_add(regions[j].volume()) {
                    regions[i] = hull;
                    regions.swap_remove(j);
                    changed = true;
                    break 'pairs;
                }
            }
        }
    }
}

/// The demands of evaluating `wants`. Streamed steps count as leaves: their values come from earlier phases.
pub fn demands(program: &Program, types: &[Vec<ArrayType>], wants: &[(usize, Region)]) -> Demands {
    let mut out: Demands = vec![Regions::new(); program.steps.len()];
    for (step, region) in wants {
        out[*step].push(region.clone());
    }
    for k in (0..program.steps.len()).rev() {
        if out[k].is_empty() {
            continue;
        }
        let mut regions = std::mem::take(&mut out[k]);
        merge(&mut regions);
        let step = &program.steps[k];
        if let (Some(kernel), None) = (&step.kernel, &step.stream) {
            let node = Node { kernel, inputs: &types[k], output: &step.ty };
            for region in &regions {
                for d in node.demand(region, None) {
                    add(&mut out[step.inputs[d.input]], d.region);
                }
            }
        }
        out[k] = regions;
    }
    out
}
