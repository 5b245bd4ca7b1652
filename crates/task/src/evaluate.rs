//! The evaluation of a pass: values forward through its units, at the regions that the demands ask for.

use chunkwise_kernels::{Block, KernelError, Operand, Part, Scratch};
use chunkwise_plan::units::{Group, Unit, Units, is_known};
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

/// A pass prepared for evaluation, by one thread.
pub(crate) struct Prepared<'a> {
    pub units: Units<'a>,
    /// The registers of each unit.
    scratch: Vec<Scratch>,
}

impl<'a> Prepared<'a> {
    pub fn new(units: Units<'a>) -> Prepared<'a> {
        let scratch = units.list.iter().map(|_| Scratch::default()).collect();
        Prepared { units, scratch }
    }

    /// Evaluates the wanted steps at these regions, freeing every value after its last use. Blocks of fused groups that are wanted are in C
    /// order if `dense`.
    pub fn evaluate(&mut self, known: &Known, wants: &[Region], dense: bool) -> Result<Vec<Block>, (usize, KernelError)> {
        // Where nothing but leaves is wanted there is nothing to evaluate.
        let values = if self.units.list.is_empty() { Known::new() } else { self.values(known, wants, dense)? };
        let Units { program, wants: steps, .. } = &self.units;
        steps
            .iter()
            .zip(wants)
            .map(|(&k, region)| {
                if region.is_empty() {
                    return Ok(Block::zeros(program.steps[k].ty.dtype, &region.shape));
                }
                let computed = self.units.slot(k).and_then(|slot| values.get(slot)).map_or(&[][..], Vec::as_slice);
                at(if is_known(program, k) { &known[k] } else { computed }, region).map_err(|e| (k, e))
            })
            .collect()
    }

    /// The values of the units that are wanted, by the slots of their steps.
    fn values(&mut self, known: &Known, wants: &[Region], dense: bool) -> Result<Known, (usize, KernelError)> {
        let needs = self.units.needs(wants);
        let mut values = Values { units: &self.units, known, computed: vec![Vec::new(); self.units.steps.len()] };
        for (u, (unit, scratch)) in self.units.list.iter().zip(&mut self.scratch).enumerate() {
            match unit {
                Unit::Step(k) => values.step(*k, self.units.at(&needs, *k))?,
                Unit::Fused(g) => {
                    let first = g.outputs.first().copied().unwrap_or_default();
                    values.fused(g, self.units.at(&needs, first), dense, scratch).map_err(|e| (first, e))?;
                }
            }
            for slot in unit.sources(self.units.program).filter(|&k| self.units.last_use[k] == u).filter_map(|k| self.units.slot(k)) {
                values.computed[slot].clear();
            }
        }
        Ok(values.computed)
    }

    /// True if the wanted regions need nothing but what lies in one part of a known value each.
    pub fn in_one_part(&self, known: &Known, wants: &[Region]) -> bool {
        let needs = self.units.needs(wants);
        let mut leaves = self.units.steps.iter().zip(&needs).filter(|(k, _)| is_known(self.units.program, **k));
        leaves.all(|(&k, regions)| regions.iter().all(|r| known[k].iter().any(|p| p.region.contains(r))))
    }
}

/// The values of steps while a pass is evaluated.
struct Values<'a> {
    units: &'a Units<'a>,
    known: &'a Known,
    computed: Known,
}

impl Values<'_> {
    /// The value of a step that is known or was evaluated, at a region.
    fn at(&self, from: usize, region: &Region) -> Result<Block, KernelError> {
        let program = self.units.program;
        if region.is_empty() {
            return Ok(Block::zeros(program.steps[from].ty.dtype, &region.shape));
        }
        let computed = || self.units.slot(from).map_or(&[][..], |slot| &self.computed[slot]);
        at(if is_known(program, from) { &self.known[from] } else { computed() }, region)
    }

    fn step(&mut self, k: usize, regions: &[Region]) -> Result<(), (usize, KernelError)> {
        let Some(node) = self.units.node(k) else { return Ok(()) };
        for region in regions {
            let parts = node
                .demand(region, None)
                .into_iter()
                .map(|d| {
                    let block = self.at(self.units.program.steps[k].inputs[d.input], &d.region).map_err(|e| (k, e))?;
                    Ok(Part { region: d.region, block })
                })
                .collect::<Result<Vec<Part>, _>>()?;
            let block = node.compute(region, &parts).map_err(|e| (k, e))?;
            debug_assert_eq!(block.shape()[..], region.shape[..], "step {k}: {:?}", node.kernel);
            debug_assert_eq!(block.dtype(), node.output.dtype, "step {k}: {:?}", node.kernel);
            self.keep(k, region, block);
        }
        Ok(())
    }

    /// Keeps a value, if the pass needs it.
    fn keep(&mut self, k: usize, region: &Region, block: Block) {
        if let Some(slot) = self.units.slot(k) {
            self.computed[slot].push(Part { region: region.clone(), block });
        }
    }

    fn fused(&mut self, g: &Group, regions: &[Region], dense: bool, scratch: &mut Scratch) -> Result<(), KernelError> {
        for region in regions {
            let operands = g
                .inputs
                .iter()
                .map(|input| {
                    if let Some(one) = &input.constant {
                        return Operand::splat(one.clone(), &region.shape);
                    }
                    let (below, way) = self.units.through(input, region);
                    let mut operand = Operand::new(self.at(input.from, &below)?);
                    for (&v, above) in input.views.iter().zip(&way).rev() {
                        if let Some(view) = &self.units.program.steps[v].kernel {
                            operand = view.show(operand, &above.shape)?;
                        }
                    }
                    Ok(operand)
                })
                .collect::<Result<Vec<Operand>, _>>()?;
            let blocks = g.program.run(&operands, &region.shape, !(dense && g.wanted), scratch)?;
            for (&k, block) in g.outputs.iter().zip(blocks) {
                self.keep(k, region, block);
            }
        }
        Ok(())
    }
}
