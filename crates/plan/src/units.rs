//! The units of an evaluation: which steps are evaluated together, and in which order.
//!
//! Element-wise steps that are needed at the same regions, whatever the tile, make one fused program. Which those are follows from the
//! program alone: an element-wise step is needed where its element-wise consumers are, and where the inputs of other kernels and the
//! wanted values ask for it. Steps with the same set of such *places* are one group; views and constants that go into a group become
//! its operands and are not evaluated. No path leaves a group and comes back: the kernel outside of it would be a place of some members
//! only. So the units of a pass are found once and its tiles only ask for regions.

use crate::Program;
use crate::demand::{Demands, Regions, add, merge};
use chunkwise_kernels::{ArrayType, Block, Fused, FusedOp, Kernel, KernelError, Map, Node};
use chunkwise_types::Region;
use std::collections::BTreeMap;

/// Steps in more places than this are a group by themselves: sets stay small.
const MAX_PLACES: usize = 64;

/// An operand of a group.
pub struct Input {
    /// The step whose value it is.
    pub from: usize,
    /// The views on it, the last one first.
    pub views: Vec<usize>,
    /// Its one element, if it is the same everywhere.
    pub constant: Option<Block>,
}

/// Element-wise steps that are evaluated together.
pub struct Group {
    /// The values that it takes.
    pub inputs: Vec<Input>,
    /// The steps whose values are needed outside.
    pub outputs: Vec<usize>,
    /// The steps, compiled.
    pub program: Fused,
    /// A wanted value is among them.
    pub wanted: bool,
    /// How many of the inputs may lie in another order than that in which the group goes through them.
    pub turned: usize,
}

/// What is evaluated at once.
pub enum Unit {
    /// One kernel.
    Step(usize),
    /// A fused group.
    Fused(Box<Group>),
}

impl Unit {
    /// The steps whose values it takes.
    pub fn sources<'u>(&'u self, program: &'u Program) -> Box<dyn Iterator<Item = usize> + 'u> {
        match self {
            Unit::Step(k) => Box::new(program.steps[*k].inputs.iter().copied()),
            Unit::Fused(g) => Box::new(g.inputs.iter().filter(|i| i.constant.is_none()).map(|i| i.from)),
        }
    }
}

/// The regions at which steps are needed, by their slots.
pub type Needs = Vec<Regions>;

/// Steps that no unit of a pass has to do with have no slot.
const NO_SLOT: u32 = u32::MAX;

/// What the wanted steps of a pass are evaluated in.
pub struct Units<'a> {
    /// The program of the pass.
    pub program: &'a Program,
    types: &'a [Vec<ArrayType>],
    /// In the order of evaluation.
    pub list: Vec<Unit>,
    /// The unit after which a step's value is not needed any more.
    pub last_use: Vec<usize>,
    /// The steps that are wanted.
    pub wants: Vec<usize>,
    /// The steps that the pass needs, ascending. A program of thousands of files has many more.
    pub steps: Vec<usize>,
    /// For each step its position among those.
    slots: Vec<u32>,
}

/// Leaves are loaded and folds are finished before a pass.
pub fn is_known(program: &Program, step: usize) -> bool {
    program.steps[step].read.is_some() || program.steps[step].stream.is_some()
}

fn map(kernel: &Kernel) -> Option<Map> {
    kernel.traits().map
}

/// For each step, whether its value may lie in another order than C. What is loaded does not, and kernels keep the order of their inputs.
fn turned(program: &Program) -> Vec<bool> {
    let mut found: Vec<bool> = Vec::with_capacity(program.steps.len());
    for step in &program.steps {
        let own = step.kernel.as_ref().is_some_and(|kernel| kernel.traits().turns);
        found.push(own || step.inputs.iter().any(|&i| found[i]));
    }
    found
}

/// Where the value of a step comes to be needed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// Wanted, at the region of this want.
    Want(usize),
    /// The input of a kernel that is not element-wise.
    Input(usize, usize),
    /// Everywhere where this step is.
    Step(usize),
}

impl<'a> Units<'a> {
    /// The units for some steps: at these regions or, if tiled, all of them at the same region each time. Steps without `demands` are not needed.
    ///
    /// # Errors
    /// The step and what is wrong, if a function is not defined for the dtypes of its inputs.
    pub fn new(
        program: &'a Program,
        types: &'a [Vec<ArrayType>],
        (wants, demands): (&[(usize, Region)], &Demands),
        tiled: bool,
    ) -> Result<Units<'a>, (usize, KernelError)> {
        let n = program.steps.len();
        let kernel = |k: usize| program.steps[k].kernel.as_ref().filter(|_| !is_known(program, k));
        let is_view = |k: usize| kernel(k).is_some_and(Kernel::is_view);
        let constant = |k: usize| Some(Block::splat(kernel(k)?.traits().constant?, program.steps[k].ty.dtype, &[1]));

        // From the wants back: what is needed at all, where, and what must be there as a block of its own.
        let mut places: Vec<Vec<Place>> = vec![Vec::new(); n];
        let mut valued = vec![false; n];
        let mut active = vec![false; n];
        for (i, (k, region)) in wants.iter().enumerate() {
            let first = if tiled { 0 } else { wants.iter().position(|(_, r)| r == region).unwrap_or(i) };
            places[*k].push(Place::Want(first));
            (valued[*k], active[*k]) = (true, true);
        }
        for k in (0..n).rev().filter(|&k| kernel(k).is_some()).collect::<Vec<_>>() {
            if !active[k] {
                continue;
            }
            places[k].sort_unstable();
            places[k].dedup();
            if places[k].len() > MAX_PLACES {
                places[k] = vec![Place::Step(k)];
            }
            let elementwise = kernel(k).and_then(map).is_some();
            for (i, &from) in program.steps[k].inputs.iter().enumerate() {
                if demands[from].is_empty() {
                    continue;
                }
                active[from] = true;
                if elementwise {
                    let own = places[k].clone();
                    places[from].extend(own);
                } else {
                    places[from].push(Place::Input(k, i));
                }
                // Groups take views and constants as operands, and views of those too.
                let operand = elementwise || (is_view(k) && !valued[k]);
                valued[from] |= !operand;
            }
        }

        // One group for each set of places.
        let mut groups: BTreeMap<&[Place], Vec<usize>> = BTreeMap::new();
        for k in (0..n).filter(|&k| active[k] && kernel(k).and_then(map).is_some()) {
            groups.entry(&places[k]).or_default().push(k);
        }
        let mut unit_of: Vec<Option<usize>> = vec![None; n];
        for (u, members) in groups.values().enumerate() {
            members.iter().for_each(|&k| unit_of[k] = Some(u));
        }
        let mut outside = valued.clone();
        // Needed outside of the group: wanted, or taken by a step that is no member. A view is none: what it shows must be there.
        for k in (0..n).filter(|&k| active[k] && kernel(k).is_some()) {
            for &from in program.steps[k].inputs.iter().filter(|&&i| unit_of[i] != unit_of[k]) {
                outside[from] = true;
            }
        }
        let turned = turned(program);
        let mut units: Vec<Unit> = Vec::new();
        for members in groups.values() {
            units.push(Unit::Fused(Box::new(group(program, members, wants, (&outside, &turned), &constant, &is_view)?)));
        }
        for k in 0..n {
            if !active[k] || unit_of[k].is_some() || kernel(k).is_none() {
                continue;
            }
            // A view or a constant that only groups take is not evaluated on its own; what goes through it is needed by the groups.
            if valued[k] || !(is_view(k) || constant(k).is_some()) {
                unit_of[k] = Some(units.len());
                units.push(Unit::Step(k));
            }
        }
        let order = sorted(program, &units, &unit_of);
        let mut slots: Vec<Option<Unit>> = units.into_iter().map(Some).collect();
        let units: Vec<Unit> = order.into_iter().filter_map(|u| slots[u].take()).collect();
        let mut last_use = vec![0; n];
        for (u, unit) in units.iter().enumerate() {
            unit.sources(program).for_each(|k| last_use[k] = u);
        }
        wants.iter().for_each(|(k, _)| last_use[*k] = usize::MAX);
        let steps: Vec<usize> = (0..n).filter(|&k| active[k]).collect();
        let mut slots = vec![NO_SLOT; n];
        steps.iter().enumerate().for_each(|(slot, &k)| slots[k] = slot as u32);
        Ok(Units { program, types, list: units, last_use, wants: wants.iter().map(|w| w.0).collect(), steps, slots })
    }

    /// The slot of a step, if the pass needs it.
    pub fn slot(&self, step: usize) -> Option<usize> {
        self.slots.get(step).filter(|&&slot| slot != NO_SLOT).map(|&slot| slot as usize)
    }

    /// The regions at which a step is needed.
    pub fn at<'n>(&self, needs: &'n Needs, step: usize) -> &'n [Region] {
        self.slot(step).map_or(&[], |slot| &needs[slot])
    }

    /// A step with its kernel; `None` for leaves.
    pub fn node(&self, k: usize) -> Option<Node<'a>> {
        let step = &self.program.steps[k];
        Some(Node { kernel: step.kernel.as_ref()?, inputs: &self.types[k], output: &step.ty })
    }

    /// The region of its source that an operand needs, and the regions of the views on the way, the last one first.
    pub fn through(&self, input: &Input, region: &Region) -> (Region, Vec<Region>) {
        let (mut here, mut way) = (region.clone(), Vec::with_capacity(input.views.len()));
        for &v in &input.views {
            let below = self.node(v).and_then(|node| node.demand(&here, None).pop()).map_or_else(|| here.clone(), |d| d.region);
            way.push(std::mem::replace(&mut here, below));
        }
        (here, way)
    }

    /// The regions at which each step is needed: those of every unit and of the leaves.
    pub fn needs(&self, wants: &[Region]) -> Needs {
        let mut needs: Needs = vec![Regions::new(); self.steps.len()];
        let add_to = |needs: &mut Needs, step: usize, region: Region| {
            if let Some(slot) = self.slot(step) {
                add(&mut needs[slot], region);
            }
        };
        let taken = |needs: &mut Needs, step: usize| self.slot(step).map(|slot| std::mem::take(&mut needs[slot])).unwrap_or_default();
        for (&k, region) in self.wants.iter().zip(wants) {
            if let Some(slot) = self.slot(k) {
                needs[slot].push(region.clone());
            }
        }
        for unit in self.list.iter().rev() {
            match unit {
                Unit::Step(k) => {
                    let mut regions = taken(&mut needs, *k);
                    merge(&mut regions);
                    let inputs = &self.program.steps[*k].inputs;
                    for d in regions.iter().filter_map(|r| Some(self.node(*k)?.demand(r, None))).flatten() {
                        add_to(&mut needs, inputs[d.input], d.region);
                    }
                    if let Some(slot) = self.slot(*k) {
                        needs[slot] = regions;
                    }
                }
                Unit::Fused(g) => {
                    let mut regions: Regions = g.outputs.iter().flat_map(|&k| taken(&mut needs, k)).collect();
                    merge(&mut regions);
                    for input in g.inputs.iter().filter(|i| i.constant.is_none()) {
                        for region in &regions {
                            let (below, _) = self.through(input, region);
                            add_to(&mut needs, input.from, below);
                        }
                    }
                    // Every output is made at all of them.
                    for slot in g.outputs.iter().filter_map(|&k| self.slot(k)) {
                        needs[slot].clone_from(&regions);
                    }
                }
            }
        }
        needs
    }

    /// True if everything is done by fused groups that take known values: they may be evaluated at any region at once.
    pub fn direct(&self) -> bool {
        let fused = |unit: &Unit| match unit {
            Unit::Fused(g) => g.inputs.iter().all(|i| i.constant.is_some() || is_known(self.program, i.from)),
            Unit::Step(_) => false,
        };
        self.list.iter().all(fused) && self.wants.iter().all(|&k| !is_known(self.program, k))
    }
}

/// The order of evaluation: every unit after those whose values it takes.
fn sorted(program: &Program, units: &[Unit], unit_of: &[Option<usize>]) -> Vec<usize> {
    let mut order = Vec::with_capacity(units.len());
    let mut seen = vec![false; units.len()];
    for first in 0..units.len() {
        // Depth first, with a stack of its own: programs may be long.
        let mut stack = vec![(first, false)];
        while let Some((u, done)) = stack.pop() {
            if done {
                order.push(u);
            } else if !std::mem::replace(&mut seen[u], true) {
                stack.push((u, true));
                stack.extend(units[u].sources(program).filter_map(|k| unit_of[k]).filter(|&s| !seen[s]).map(|s| (s, false)));
            }
        }
    }
    order
}

/// The group of some steps, ascending.
fn group(
    program: &Program,
    members: &[usize],
    wants: &[(usize, Region)],
    (outside, turned): (&[bool], &[bool]),
    constant: &impl Fn(usize) -> Option<Block>,
    is_view: &impl Fn(usize) -> bool,
) -> Result<Group, (usize, KernelError)> {
    let mut inputs: Vec<Input> = Vec::new();
    let mut found: BTreeMap<usize, usize> = BTreeMap::new();
    // The place of each input among the operands; a step outside is one operand, however often it is taken.
    for &k in members {
        for &from in program.steps[k].inputs.iter().filter(|i| members.binary_search(i).is_err()) {
            found.entry(from).or_insert_with(|| {
                let (mut source, mut views) = (from, Vec::new());
                while is_view(source) {
                    views.push(source);
                    source = program.steps[source].inputs[0];
                }
                inputs.push(Input { from: source, views, constant: constant(source) });
                inputs.len() - 1
            });
        }
    }
    let value = |i: &usize| members.binary_search(i).map_or_else(|_| found[i], |m| inputs.len() + m);
    let ops: Vec<FusedOp> = members
        .iter()
        .map(|&k| {
            let step = &program.steps[k];
            FusedOp {
                function: step.kernel.as_ref().and_then(map).and_then(Map::function),
                inputs: step.inputs.iter().map(value).collect(),
                dtype: step.ty.dtype,
            }
        })
        .collect();
    let outputs: Vec<usize> = members.iter().copied().filter(|&k| outside[k]).collect();
    let dtypes: Vec<_> = inputs.iter().map(|i| program.steps[i.from].ty.dtype).collect();
    let kept: Vec<usize> = outputs.iter().map(value).collect();
    let fused = Fused::new(&dtypes, &ops, &kept).map_err(|e| (members[0], e))?;
    let wanted = outputs.iter().any(|o| wants.iter().any(|(k, _)| k == o));
    // It follows the order of its inputs, so any of them may be the one that lies otherwise.
    let blocks = inputs.iter().filter(|i| i.constant.is_none()).count();
    let turned = if found.keys().any(|&k| turned[k]) { blocks } else { 0 };
    Ok(Group { inputs, outputs, program: fused, wanted, turned })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Step;
    use crate::schedule::Schedule;
    use chunkwise_kernels::ElementOp;
    use chunkwise_types::DType;

    #[test]
    fn a_pass_over_one_of_many_arrays_has_few_steps() {
        let step = |kernel: Option<Kernel>, inputs: Vec<usize>, rows: u64| Step {
            read: kernel.is_none().then(|| "x".into()),
            kernel,
            inputs,
            ty: ArrayType::new(DType::Float64, vec![rows, 4]),
            stream: None,
        };
        // For each array what is read and its square root, then all of them one after another.
        let root = || Some(Kernel::Element { function: ElementOp::Sqrt });
        let mut steps: Vec<Step> = (0..50).flat_map(|k| [step(None, vec![], 2), step(root(), vec![2 * k], 2)]).collect();
        steps.push(step(Some(Kernel::Concat { axis: 0 }), (0..50).map(|k| 2 * k + 1).collect(), 100));
        let program = Program { steps };
        let wants = |start: u64, rows: u64| vec![(100, Region::new([start, 0], [rows, 4]))];
        for (start, rows, expected) in [(14, 2, vec![14, 15, 100]), (15, 2, vec![14, 15, 16, 17, 100])] {
            let schedule = Schedule::of_program(&program, wants(start, rows));
            let pass = schedule.output_pass(&program);
            let units = schedule.units(&program, &pass).unwrap();
            assert_eq!(units.steps, expected);
            let needs = units.needs(&[pass.wants[0].1.clone()]);
            assert_eq!(needs.len(), expected.len());
            assert_eq!(units.at(&needs, 14)[..], pass.demands[14][..]);
            assert!(units.at(&needs, 40).is_empty() && units.slot(40).is_none());
        }
    }
}
