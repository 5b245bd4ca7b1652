//! The evaluation of one pass: values forward through the program, at the regions that the demands ask for.

use chunkwise_kernels::{ArrayType, Block, KernelError, Node, Part};
use chunkwise_plan::Program;
use chunkwise_plan::demand::demands;
use chunkwise_types::Region;

/// Values of steps that exist before a pass starts: loaded leaves and finished folds.
pub(crate) type Known = Vec<Vec<Part>>;

/// A part of `parts` at a region, as a view; assembled where no single part holds it.
pub(crate) fn at(parts: &[Part], region: &Region) -> Result<Block, KernelError> {
    if let Some(p) = parts.iter().find(|p| p.region.contains(region)) {
        return Ok(p.block.slice(&region.relative_to(&p.region)));
    }
    let first = parts.first().ok_or_else(|| KernelError::Invalid("a value that was not loaded is needed".into()))?;
    // The hull of two demands may hold elements that neither needs: those stay zero.
    let mut out = Block::zeros(first.block.dtype(), &region.shape);
    for p in parts {
        if let Some(common) = p.region.intersect(region) {
            out.assign(&common.relative_to(region), &p.block.slice(&common.relative_to(&p.region)));
        }
    }
    Ok(out)
}

/// Evaluates `wants`, freeing every value after its last use.
pub(crate) fn evaluate(
    program: &Program,
    types: &[Vec<ArrayType>],
    known: &Known,
    wants: &[(usize, Region)],
) -> Result<Vec<Block>, (usize, KernelError)> {
    let needs = demands(program, types, wants);
    let mut last_use = vec![0usize; program.steps.len()];
    for (k, step) in program.steps.iter().enumerate() {
        if !needs[k].is_empty() {
            for &i in &step.inputs {
                last_use[i] = k;
            }
        }
    }
    for (k, _) in wants {
        last_use[*k] = usize::MAX;
    }
    let mut values: Vec<Vec<Part>> = vec![Vec::new(); program.steps.len()];
    for (k, step) in program.steps.iter().enumerate() {
        let Some(kernel) = step.kernel.as_ref().filter(|_| step.stream.is_none()) else { continue };
        for region in &needs[k] {
            let node = Node { kernel, inputs: &types[k], output: &step.ty };
            let parts = node
                .demand(region, None)
                .into_iter()
                .map(|d| {
                    let from = step.inputs[d.input];
                    let source = if is_known(program, from) { &known[from] } else { &values[from] };
                    let block = if d.region.is_empty() {
                        Block::zeros(program.steps[from].ty.dtype, &d.region.shape)
                    } else {
                        at(source, &d.region).map_err(|e| (k, e))?
                    };
                    Ok(Part { region: d.region, block })
                })
                .collect::<Result<Vec<Part>, _>>()?;
            let block = node.compute(region, &parts).map_err(|e| (k, e))?;
            debug_assert_eq!(block.shape(), region.shape, "step {k}: {kernel:?}");
            debug_assert_eq!(block.dtype(), step.ty.dtype, "step {k}: {kernel:?}");
            values[k].push(Part { region: region.clone(), block });
        }
        for &i in &step.inputs {
            if last_use[i] == k {
                values[i] = Vec::new();
            }
        }
    }
    wants
        .iter()
        .map(|(k, region)| {
            if region.is_empty() {
                return Ok(Block::zeros(program.steps[*k].ty.dtype, &region.shape));
            }
            at(if is_known(program, *k) { &known[*k] } else { &values[*k] }, region).map_err(|e| (*k, e))
        })
        .collect()
}

/// Leaves are loaded and folds are finished before a pass.
pub(crate) fn is_known(program: &Program, step: usize) -> bool {
    program.steps[step].read.is_some() || program.steps[step].stream.is_some()
}
