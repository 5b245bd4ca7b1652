//! The evaluation of a pass: values forward through its units, at the regions that the demands ask for.

use crate::prepare::{Group, Input, Prepared, Unit, is_known};
use chunkwise_kernels::{Block, Kernel, KernelError, Operand, Part};
use chunkwise_plan::demand::merge;
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

impl Prepared<'_> {
    /// The region of its source that an operand needs, and the regions of the views on the way, the last one first.
    fn through(&self, input: &Input, region: &Region) -> (Region, Vec<Region>) {
        let (mut here, mut way) = (region.clone(), Vec::with_capacity(input.views.len()));
        for &v in &input.views {
            let below = self.node(v).and_then(|node| node.demand(&here, None).pop()).map_or_else(|| here.clone(), |d| d.region);
            way.push(std::mem::replace(&mut here, below));
        }
        (here, way)
    }

    /// The regions at which each step is needed: those of every unit and of the leaves.
    fn needs(&self, wants: &[Region]) -> Vec<Vec<Region>> {
        let mut needs: Vec<Vec<Region>> = vec![Vec::new(); self.program.steps.len()];
        for (&k, region) in self.wants.iter().zip(wants) {
            needs[k].push(region.clone());
        }
        for unit in self.units.iter().rev() {
            match unit {
                Unit::Step(k) => {
                    let mut regions = std::mem::take(&mut needs[*k]);
                    merge(&mut regions);
                    let inputs = &self.program.steps[*k].inputs;
                    for d in regions.iter().filter_map(|r| Some(self.node(*k)?.demand(r, None))).flatten() {
                        if !d.region.is_empty() {
                            needs[inputs[d.input]].push(d.region);
                        }
                    }
                    needs[*k] = regions;
                }
                Unit::Fused(g) => {
                    let mut regions: Vec<Region> = g.outputs.iter().flat_map(|&k| std::mem::take(&mut needs[k])).collect();
                    merge(&mut regions);
                    for input in g.inputs.iter().filter(|i| i.constant.is_none()) {
                        for region in &regions {
                            let (below, _) = self.through(input, region);
                            needs[input.from].push(below);
                        }
                    }
                    // Every output is made at all of them.
                    if let Some(&first) = g.outputs.first() {
                        needs[first] = regions;
                    }
                }
            }
        }
        needs
    }

    /// Evaluates the wanted steps at these regions, freeing every value after its last use. Blocks of fused groups that are wanted are in C
    /// order if `dense`.
    pub fn evaluate(&mut self, known: &Known, wants: &[Region], dense: bool) -> Result<Vec<Block>, (usize, KernelError)> {
        // Where nothing but leaves is wanted there is nothing to evaluate.
        let values = if self.units.is_empty() { Known::new() } else { self.evaluate_units(known, wants, dense)? };
        self.wants
            .iter()
            .zip(wants)
            .map(|(&k, region)| {
                if region.is_empty() {
                    return Ok(Block::zeros(self.program.steps[k].ty.dtype, &region.shape));
                }
                let computed = values.get(k).map_or(&[][..], Vec::as_slice);
                at(if is_known(self.program, k) { &known[k] } else { computed }, region).map_err(|e| (k, e))
            })
            .collect()
    }

    /// The values of the units that are wanted; by step, none where there is no unit.
    fn evaluate_units(&mut self, known: &Known, wants: &[Region], dense: bool) -> Result<Known, (usize, KernelError)> {
        let needs = self.needs(wants);
        let mut values: Known = vec![Vec::new(); self.program.steps.len()];
        let mut units = std::mem::take(&mut self.units);
        let done = units.iter_mut().enumerate().try_for_each(|(u, unit)| {
            match unit {
                Unit::Step(k) => self.step(*k, &needs[*k], known, &mut values)?,
                Unit::Fused(g) => {
                    let first = g.outputs.first().copied().unwrap_or_default();
                    self.fused(g, &needs[first], dense, known, &mut values).map_err(|e| (first, e))?;
                }
            }
            let frees = |k: usize| self.last_use[k] == u;
            match unit {
                Unit::Step(k) => self.program.steps[*k].inputs.iter().filter(|&&i| frees(i)).for_each(|&i| values[i].clear()),
                Unit::Fused(g) => g.inputs.iter().filter(|i| frees(i.from)).for_each(|i| values[i.from].clear()),
            }
            Ok(())
        });
        self.units = units;
        done.map(|()| values)
    }

    /// The value of a step that is known or was evaluated, at a region.
    fn value(&self, from: usize, region: &Region, known: &Known, values: &Known) -> Result<Block, KernelError> {
        if region.is_empty() {
            return Ok(Block::zeros(self.program.steps[from].ty.dtype, &region.shape));
        }
        at(if is_known(self.program, from) { &known[from] } else { &values[from] }, region)
    }

    fn step(&self, k: usize, regions: &[Region], known: &Known, values: &mut Known) -> Result<(), (usize, KernelError)> {
        let Some(node) = self.node(k) else { return Ok(()) };
        for region in regions {
            let parts = node
                .demand(region, None)
                .into_iter()
                .map(|d| {
                    let block = self.value(self.program.steps[k].inputs[d.input], &d.region, known, values).map_err(|e| (k, e))?;
                    Ok(Part { region: d.region, block })
                })
                .collect::<Result<Vec<Part>, _>>()?;
            let block = node.compute(region, &parts).map_err(|e| (k, e))?;
            debug_assert_eq!(block.shape(), region.shape, "step {k}: {:?}", node.kernel);
            debug_assert_eq!(block.dtype(), node.output.dtype, "step {k}: {:?}", node.kernel);
            values[k].push(Part { region: region.clone(), block });
        }
        Ok(())
    }

    fn fused(&self, g: &mut Group, regions: &[Region], dense: bool, known: &Known, values: &mut Known) -> Result<(), KernelError> {
        for region in regions {
            let operands = g
                .inputs
                .iter()
                .map(|input| {
                    if let Some(one) = &input.constant {
                        return Operand::splat(one.clone(), &region.shape);
                    }
                    let (below, way) = self.through(input, region);
                    let mut operand = Operand::new(self.value(input.from, &below, known, values)?);
                    for (&v, above) in input.views.iter().zip(&way).rev() {
                        if let Some(Kernel::View { axes }) = &self.program.steps[v].kernel {
                            operand = operand.viewed(axes, &above.shape)?;
                        }
                    }
                    Ok(operand)
                })
                .collect::<Result<Vec<Operand>, _>>()?;
            let blocks = g.program.run(&operands, &region.shape, !(dense && g.wanted), &mut g.scratch)?;
            for (&k, block) in g.outputs.iter().zip(blocks) {
                values[k].push(Part { region: region.clone(), block });
            }
        }
        Ok(())
    }

    /// True if the wanted regions need nothing but what lies in one part of a known value each.
    pub fn in_one_part(&self, known: &Known, wants: &[Region]) -> bool {
        self.needs(wants)
            .iter()
            .enumerate()
            .filter(|(k, _)| is_known(self.program, *k))
            .all(|(k, regions)| regions.iter().all(|r| known[k].iter().any(|p| p.region.contains(r))))
    }
}
