//! The order in which one task evaluates its program.
//!
//! ```text
//! task   = phase*, then the outputs
//! phase  = streamed steps that run in lockstep: start accumulators, then step*, then finish
//! step   = one window of the contracted indices: load the leaves once, then tile*
//! tile   = a small region evaluated through the whole chain of kernels while it is in cache
//! ```
//!
//! Steps are cut where the stored chunks are, so a chunk is decoded once; tiles are cut to fit the L2 cache, so a chain of
//! kernels passes over memory once and its temporaries are small.

use crate::demand::{Demands, bytes_of, demands};
use crate::units::Units;
use crate::windows::Windows;
use crate::{Program, Stage};
use chunkwise_kernels::{ArrayType, Kernel, KernelError, Node, Window};
use chunkwise_types::{ChunkGrid, PerAxis, Region, volume};

/// Elements that the widest step of a tile should have. A fused program makes its own strips, so it is indifferent to the tile: twelve
/// functions of float64 took 1.7 ns an element in tiles of 1 Ki, 1.3 in tiles of 4 Ki, 16 Ki and 64 Ki (AMD Zen 5, 1 MB of L2).
pub const TILE_ELEMENTS: u64 = 1 << 16;

/// How often a value may be computed again before it is worth another cut, or to be stored.
pub const RECOMPUTE: f64 = 1.5;

/// About the most tiles, or chunks, that a region is cut into.
const MAX_PIECES: u64 = 1 << 20;

/// Streamed steps that are folded together.
#[derive(Debug, Clone)]
pub struct Phase {
    /// The streamed steps, each with the region of its value that is needed.
    pub folds: Vec<(usize, Region)>,
    /// The windows, the same for all of them.
    pub windows: Windows,
}

/// The evaluation of one task.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// Phases in order.
    pub phases: Vec<Phase>,
    /// What is written: step and region.
    pub outputs: Vec<(usize, Region)>,
    /// The input types of every step.
    pub types: Vec<Vec<ArrayType>>,
}

/// One evaluation of the program up to some steps: what it needs loaded, and how it is tiled.
#[derive(Debug, Clone)]
pub struct Pass {
    /// What is evaluated.
    pub wants: Vec<(usize, Region)>,
    /// What each step is needed at.
    pub demands: Demands,
    /// The tiles of the first want; a single one means no tiling.
    pub tiles: Tiling,
    /// Elements of a tile.
    pub(crate) target: u64,
    pub(crate) order: CutOrder,
}

/// The axes that tiles are cut along.
#[derive(Debug, Clone, Default)]
pub(crate) struct CutOrder {
    /// The axes, the first ones first.
    axes: Vec<usize>,
    /// So many of them are kept by the folds that take the tiles. They are cut first, but only down to [`RUN`] elements in all, so that
    /// a tile goes far along the reduced axes: then it is reduced by itself before it touches the accumulators.
    kept: usize,
}

impl CutOrder {
    /// So that tiles follow each other in C order, each of them one run where that is possible.
    pub(crate) fn in_memory(rank: usize) -> CutOrder {
        CutOrder { axes: (0..rank).collect(), kept: 0 }
    }

    /// As [`CutOrder::in_memory`], of what is stored with its axes reversed.
    pub(crate) fn transposed(rank: usize) -> CutOrder {
        CutOrder { axes: (0..rank).rev().collect(), kept: 0 }
    }
}

/// Elements of the kept axes of a tile that are worth going through together.
const RUN: u64 = 4096;

/// A region cut into tiles, of which none is kept: there may be very many.
///
/// ```
/// use chunkwise_plan::schedule::Tiling;
/// use chunkwise_types::Region;
/// let tiles = Tiling::uncut(Region::full(&[5, 7]));
/// assert_eq!((tiles.len(), tiles.get(0), tiles.get(1)), (1, Some(Region::full(&[5, 7])), None));
/// ```
#[derive(Debug, Clone)]
pub struct Tiling {
    whole: Region,
    tile: PerAxis,
}

impl Tiling {
    /// One tile.
    pub fn uncut(whole: Region) -> Tiling {
        Tiling { tile: whole.shape.clone(), whole }
    }

    /// The region that is cut.
    pub fn whole(&self) -> &Region {
        &self.whole
    }

    /// The number of tiles along an axis. A region without elements is one tile.
    fn count(&self, axis: usize) -> u64 {
        self.whole.shape[axis].div_ceil(self.tile[axis].max(1)).max(1)
    }

    /// How many tiles there are.
    #[allow(clippy::len_without_is_empty)] // There always is one.
    pub fn len(&self) -> usize {
        let count = (0..self.tile.len()).map(|axis| self.count(axis)).fold(1, u64::saturating_mul);
        usize::try_from(count).unwrap_or(usize::MAX)
    }

    /// A tile by its number; the last axis is the fastest.
    pub fn get(&self, number: usize) -> Option<Region> {
        (number < self.len()).then(|| {
            let mut tile = self.whole.clone();
            let mut rest = number as u64;
            for axis in (0..self.tile.len()).rev() {
                let start = rest % self.count(axis) * self.tile[axis];
                rest /= self.count(axis);
                tile.start[axis] += start;
                tile.shape[axis] = self.tile[axis].min(self.whole.shape[axis] - start);
            }
            tile
        })
    }

    /// The first tile, which is a largest one, and one in the middle.
    pub fn samples(&self) -> impl Iterator<Item = Region> {
        [self.get(0), self.get(self.len() / 2)].into_iter().flatten()
    }

    /// Tiles that stand for all, with how many they stand for: one in the middle of each axis, and the last one, which may be smaller.
    pub fn kinds(&self) -> Vec<(Region, f64)> {
        let mut out = vec![(self.whole.clone(), 1.0)];
        // More kinds than that are not worth the time.
        let mut splits = 4;
        for axis in 0..self.tile.len() {
            let n = self.count(axis);
            let split = n > 1 && splits > 0;
            splits -= i32::from(split);
            let own = if split { vec![((n - 1) / 2, (n - 1) as f64), (n - 1, 1.0)] } else { vec![((n - 1) / 2, n as f64)] };
            let with = |(region, times): &(Region, f64)| -> Vec<(Region, f64)> {
                let cut = |&(k, n): &(u64, f64)| {
                    let (mut tile, start) = (region.clone(), k * self.tile[axis]);
                    tile.start[axis] += start;
                    tile.shape[axis] = self.tile[axis].min(self.whole.shape[axis] - start);
                    (tile, times * n)
                };
                own.iter().map(cut).collect()
            };
            out = out.iter().flat_map(with).collect();
        }
        out
    }

    /// For each axis some tiles after which it goes on, and the axes after it start again.
    pub(crate) fn turns(&self) -> impl Iterator<Item = usize> {
        (0..self.tile.len()).filter(|&axis| self.count(axis) > 1).flat_map(|axis| {
            let inner = (axis + 1..self.tile.len()).map(|axis| self.count(axis)).fold(1, u64::saturating_mul);
            [1, self.count(axis) / 2, self.count(axis) - 1].map(|n| usize::try_from(inner.saturating_mul(n)).unwrap_or(usize::MAX) - 1)
        })
    }

    /// Every tile.
    pub fn iter(&self) -> impl Iterator<Item = Region> {
        (0..self.len()).filter_map(|i| self.get(i))
    }
}

impl Pass {
    /// The tiles of a part of what is wanted.
    pub fn tiles_of(&self, part: &Region) -> Tiling {
        cut(part, self.target, &self.order)
    }
}

impl Schedule {
    /// The schedule of a task that writes these regions of the stage's outputs.
    pub fn new(stage: &Stage, regions: &[Region]) -> Schedule {
        let wants = stage.outputs.iter().zip(regions).map(|(o, r)| (o.step, r.clone())).collect();
        Self::of_program(&stage.program, wants)
    }

    /// The schedule of evaluating some regions of some steps.
    pub fn of_program(program: &Program, outputs: Vec<(usize, Region)>) -> Schedule {
        let types: Vec<Vec<ArrayType>> = program.steps.iter().map(|s| program.input_types(s)).collect();
        let n = program.steps.len();
        let mut needed: Vec<Option<Region>> = vec![None; n];
        let mut level = vec![0usize; n];
        for (k, step) in program.steps.iter().enumerate() {
            level[k] = step.inputs.iter().map(|&i| level[i] + usize::from(program.steps[i].stream.is_some())).max().unwrap_or(0);
        }
        // From the outputs back: each round finds what the streamed steps of one level are needed at.
        let mut wants = outputs.clone();
        loop {
            let d = demands(program, &types, &wants);
            let mut more = Vec::new();
            for k in (0..n).rev().filter(|&k| program.steps[k].stream.is_some() && !d[k].is_empty()) {
                let hull = d[k].iter().skip(1).fold(d[k][0].clone(), |a, b| a.hull(b));
                let grown = needed[k].as_ref().map_or(hull.clone(), |r| r.hull(&hull));
                if needed[k].as_ref() == Some(&grown) {
                    continue;
                }
                let step = &program.steps[k];
                if let Some(kernel) = &step.kernel {
                    let node = Node { kernel, inputs: &types[k], output: &step.ty };
                    more.extend(
                        node.demand(&grown, None).into_iter().filter(|d| !d.region.is_empty()).map(|d| (step.inputs[d.input], d.region)),
                    );
                }
                needed[k] = Some(grown);
            }
            if more.is_empty() {
                break;
            }
            wants = more;
        }
        let mut phases: Vec<(usize, Phase)> = Vec::new();
        for k in 0..n {
            let (Some(region), Some(stream), Some(kernel)) = (&needed[k], &program.steps[k].stream, &program.steps[k].kernel) else {
                continue;
            };
            let node = Node { kernel, inputs: &types[k], output: &program.steps[k].ty };
            let w = Windows::new(&node, stream, region);
            match phases.iter_mut().find(|(l, p)| *l == level[k] && p.windows == w) {
                Some((_, p)) => p.folds.push((k, region.clone())),
                None => phases.push((level[k], Phase { folds: vec![(k, region.clone())], windows: w })),
            }
        }
        phases.sort_by_key(|(l, _)| *l);
        Schedule { phases: phases.into_iter().map(|(_, p)| p).collect(), outputs, types }
    }

    /// What the folds of a phase take in one window.
    fn wanted(&self, program: &Program, phase: &Phase, window: &Window) -> Vec<(usize, Region)> {
        let mut wants: Vec<(usize, Region)> = Vec::new();
        for (k, region) in &phase.folds {
            let step = &program.steps[*k];
            if let Some(kernel) = &step.kernel {
                let node = Node { kernel, inputs: &self.types[*k], output: &step.ty };
                wants.extend(node.demand(region, Some(window)).into_iter().map(|d| (step.inputs[d.input], d.region)));
            }
        }
        wants
    }

    /// Bytes of everything that one window of a phase demands, with the scratch of every kernel, to compare windows by.
    pub fn window_bytes(&self, program: &Program, phase: &Phase, window: &Window) -> u64 {
        let needs = demands(program, &self.types, &self.wanted(program, phase, window));
        let scratch = |k: usize| {
            let step = &program.steps[k];
            let kernel = step.kernel.as_ref().filter(|_| step.stream.is_none())?;
            let node = Node { kernel, inputs: &self.types[k], output: &step.ty };
            let of = |region: &Region| {
                let demanded: Vec<u64> = node.demand(region, None).iter().map(|d| d.region.volume()).collect();
                node.scratch(region, &demanded)
            };
            Some(needs[k].iter().map(of).fold(0, u64::saturating_add))
        };
        let bytes = |k: usize| bytes_of(program, k, &needs[k]).saturating_add(scratch(k).unwrap_or(0));
        (0..needs.len()).map(bytes).fold(0, u64::saturating_add)
    }

    /// The evaluation of one step of a phase.
    pub fn step_pass(&self, program: &Program, phase: &Phase, window: &Window) -> Pass {
        let wants = self.wanted(program, phase, window);
        let same = wants.windows(2).all(|w| w[0].1 == w[1].1);
        let contraction = phase.folds.iter().any(|(k, _)| program.steps[*k].inputs.len() > 1);
        let mut reduced = phase.folds.iter().filter_map(|(k, _)| {
            let step = &program.steps[*k];
            Some(Node { kernel: step.kernel.as_ref()?, inputs: &self.types[*k], output: &step.ty }.runs(window))
        });
        let first = reduced.next().unwrap_or_default();
        let reduced = if reduced.all(|axes| axes == first) { first } else { Vec::new() };
        self.pass(program, wants, same && !contraction, &reduced)
    }

    /// The units that a tile of a pass is evaluated in.
    ///
    /// # Errors
    /// As [`Units::new`].
    pub fn units<'a>(&'a self, program: &'a Program, pass: &Pass) -> Result<Units<'a>, (usize, KernelError)> {
        Units::new(program, &self.types, (&pass.wants, &pass.demands), pass.tiles.len() > 1)
    }

    /// What the steps are needed at for a part of what a pass wants.
    pub fn needs(&self, program: &Program, pass: &Pass, part: &Region) -> Demands {
        let wants: Vec<_> = pass.wants.iter().map(|(k, _)| (*k, part.clone())).collect();
        demands(program, &self.types, &wants)
    }

    /// The evaluation of the outputs, after all phases.
    pub fn output_pass(&self, program: &Program) -> Pass {
        let same = self.outputs.windows(2).all(|w| w[0].1 == w[1].1);
        self.pass(program, self.outputs.clone(), same, &[])
    }

    /// The regions that are computed and written one after another: the chunks, where all outputs are on one grid and can be computed
    /// tile by tile; otherwise the whole.
    pub fn pieces(&self, pass: &Pass, grids: &[&ChunkGrid]) -> Vec<Region> {
        let (Some((_, whole)), Some(grid)) = (self.outputs.first(), grids.first()) else { return Vec::new() };
        if pass.tiles.len() <= 1 || grids.iter().any(|g| g != grid) {
            return vec![whole.clone()];
        }
        let touched = grid.touched(whole);
        if touched.volume() > MAX_PIECES {
            return vec![whole.clone()];
        }
        touched.indices().filter_map(|index| grid.region(&index).intersect(whole)).collect()
    }

    /// By step, how often the tiles of a pass compute the average element of a fold that is not streamed; 0 for all other steps.
    pub fn recomputed(&self, program: &Program, pass: &Pass) -> Vec<f64> {
        let volume = |regions: &[Region]| regions.iter().map(Region::volume).fold(0, u64::saturating_add);
        let local = |k: &usize| !pass.demands[*k].is_empty() && program.steps[*k].stream.is_none() && program.steps[*k].is_fold();
        let folds: Vec<usize> = (0..program.steps.len()).filter(local).collect();
        let mut often = vec![0.0; program.steps.len()];
        // Tiles at the ends need less.
        let tile = pass.tiles.get(pass.tiles.len() / 2).filter(|_| !folds.is_empty());
        let needs = tile.map(|tile| if pass.tiles.len() > 1 { self.needs(program, pass, &tile) } else { pass.demands.clone() });
        for k in folds {
            let one = needs.as_ref().map_or(0, |needs| volume(&needs[k]));
            often[k] = one as f64 * pass.tiles.len() as f64 / volume(&pass.demands[k]).max(1) as f64;
        }
        often
    }

    /// The axes in the order in which tiles are cut: leading axes first, those that are reduced last.
    fn cut_order(&self, whole: &Region, reduced: &[usize]) -> CutOrder {
        let mut axes: Vec<usize> = (0..whole.rank()).collect();
        axes.sort_by_key(|axis| reduced.contains(axis));
        let kept = whole.rank() - reduced.iter().filter(|&&a| a < whole.rank()).count();
        CutOrder { axes, kept }
    }

    /// As [`Schedule::cut_order`], but last are the axes where half a region needs nearly as much as the whole. The members of one group
    /// lie all over an axis, so tiles of one group each would compute its input once for every group; and tiles of `x - mean(x, axis=0)`
    /// that are cut along the first axis would compute the mean once for every tile.
    fn shared_last(&self, program: &Program, d: &Demands, wants: &[(usize, Region)], whole: &Region) -> CutOrder {
        let mut order: Vec<usize> = (0..whole.rank()).collect();
        let needed = |d: &Demands| d.iter().flatten().map(Region::volume).max().unwrap_or(0);
        let all = needed(d);
        order.sort_by_cached_key(|&axis| {
            let mut half = whole.clone();
            half.shape[axis] = half.shape[axis].div_ceil(2);
            let wants: Vec<_> = wants.iter().map(|(k, _)| (*k, half.clone())).collect();
            needed(&demands(program, &self.types, &wants)) > all / 4 * 3
        });
        CutOrder { axes: order, kept: 0 }
    }

    /// `reduced` are the axes that the folds of what is wanted reduce.
    fn pass(&self, program: &Program, wants: Vec<(usize, Region)>, tileable: bool, reduced: &[usize]) -> Pass {
        let d = demands(program, &self.types, &wants);
        let whole = wants.first().map_or_else(|| Region::full(&[]), |w| w.1.clone());
        let traits = |k: usize| program.steps[k].kernel.as_ref().map(Kernel::traits);
        // What is at its best on large blocks would, cut into tiles, load its operands again and again.
        let whole_kernel =
            (0..program.steps.len()).any(|k| !d[k].is_empty() && program.steps[k].stream.is_none() && traits(k).is_some_and(|t| t.whole));
        let computes =
            (0..program.steps.len()).any(|k| !d[k].is_empty() && program.steps[k].kernel.is_some() && program.steps[k].stream.is_none());
        let folds = wants.first().is_some_and(|w| self.outputs.first() != Some(w));
        if !tileable || whole_kernel || !(computes || folds) || whole.is_empty() {
            return Pass { wants, demands: d, tiles: Tiling::uncut(whole), target: u64::MAX, order: CutOrder::default() };
        }
        let widest = d.iter().map(|r| r.iter().map(Region::volume).fold(0, u64::saturating_add)).max().unwrap_or(1).max(1);
        let target = (TILE_ELEMENTS as f64 * whole.volume() as f64 / widest as f64).max(1.0) as u64;
        // A plan that cannot be run must still be weighed.
        let target = target.max(whole.volume() / MAX_PIECES);
        let order = self.cut_order(&whole, reduced);
        let tiles = cut(&whole, target, &order);
        let mut pass = Pass { wants, demands: d, tiles, target, order };
        let irregular = |k: usize| traits(k).is_some_and(|t| t.irregular);
        let often = self.recomputed(program, &pass);
        if (0..often.len()).any(|k| often[k] > RECOMPUTE || often[k] > 0.0 && irregular(k)) {
            pass.order = self.shared_last(program, &pass.demands, &pass.wants, &whole);
            pass.tiles = cut(&whole, target, &pass.order);
        }
        pass
    }
}

/// Cuts a region into tiles of about `target` elements, along the first axes of the order as far as that suffices.
pub(crate) fn cut(whole: &Region, target: u64, order: &CutOrder) -> Tiling {
    let mut tile = whole.shape.clone();
    let kept = &order.axes[..order.kept];
    let again = kept.iter().map(|&axis| (axis, false));
    for (axis, run) in order.axes.iter().enumerate().map(|(i, &axis)| (axis, i < order.kept)).chain(again) {
        let v = volume(&tile);
        if v <= target {
            break;
        }
        let mut n = target / (v / tile[axis]).max(1);
        if run {
            let beside: u64 = kept.iter().filter(|&&a| a != axis).map(|&a| tile[a]).fold(1, u64::saturating_mul);
            n = n.max(RUN.div_ceil(beside.max(1)));
        }
        tile[axis] = n.clamp(1, tile[axis]);
    }
    Tiling { whole: whole.clone(), tile }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Step;
    use chunkwise_kernels::{ElementOp, ReduceOp, ViewAxis};
    use chunkwise_types::{DType, unravel};

    /// `x - mean(x)`, but for the division, over some axes of a large array.
    fn deviation(axes: &[usize], ty: &ArrayType) -> Program {
        let kept: Vec<usize> = (0..ty.shape.len()).filter(|i| !axes.contains(i)).collect();
        let sums = ArrayType::new(ty.dtype, kept.iter().map(|&i| ty.shape[i]).collect::<Vec<_>>());
        let back = (0..ty.shape.len()).map(|i| kept.iter().position(|&k| k == i).map_or(ViewAxis::New, ViewAxis::In));
        let step = |kernel: Option<Kernel>, inputs: Vec<usize>, ty: &ArrayType| Step {
            read: kernel.is_none().then(|| "x".to_string()),
            kernel,
            inputs,
            ty: ty.clone(),
            stream: None,
        };
        let steps = vec![
            step(None, vec![], ty),
            step(Some(Kernel::Reduce { function: ReduceOp::Sum, axes: axes.to_vec(), segments: None }), vec![0], &sums),
            step(Some(Kernel::View { axes: back.collect() }), vec![1], ty),
            step(Some(Kernel::Element { function: ElementOp::Subtract }), vec![0, 2], ty),
        ];
        Program { steps }
    }

    #[test]
    fn tiles_are_cut_where_no_fold_is_computed_again() {
        let ty = ArrayType::new(DType::Float32, vec![40, 200, 300]);
        for (axes, again) in [(vec![0], false), (vec![2], false), (vec![0, 1], false), (vec![1, 2], false), (vec![0, 1, 2], true)] {
            let program = deviation(&axes, &ty);
            let schedule = Schedule::of_program(&program, vec![(3, Region::full(&ty.shape))]);
            let pass = schedule.output_pass(&program);
            assert!(pass.tiles.len() > 16);
            let found = schedule.recomputed(&program, &pass);
            // Every tile needs all of the mean of everything: that is what the planner has to know.
            let expected = if again { pass.tiles.len() as f64 } else { 1.0 };
            assert!((found[1] / expected - 1.0).abs() < 0.2 && found[0] + found[2] + found[3] == 0.0, "{axes:?}: {found:?}");
        }
    }

    #[test]
    fn turns_are_where_an_axis_goes_on() {
        let tiling = Tiling { whole: Region::full(&[4, 1, 6]), tile: [2, 1, 2][..].into() };
        let mut found: Vec<usize> = tiling.turns().collect();
        found.sort_unstable();
        found.dedup();
        assert_eq!(found, [0, 1, 2]);
        assert_eq!(Tiling::uncut(Region::full(&[4])).turns().count(), 0);
    }

    #[test]
    fn kinds_of_tiles_stand_for_all_elements() {
        let whole = Region { start: [3, 0, 5][..].into(), shape: [7, 1, 33][..].into() };
        let tiling = Tiling { whole: whole.clone(), tile: [2, 1, 16][..].into() };
        let kinds = tiling.kinds();
        assert_eq!(kinds.iter().map(|(tile, times)| tile.volume() as f64 * times).sum::<f64>(), whole.volume() as f64);
        assert_eq!(kinds.iter().map(|(_, times)| times).sum::<f64>(), tiling.len() as f64);
        assert!(kinds.iter().all(|(tile, _)| whole.contains(tile)) && kinds.len() == 4);
    }

    #[test]
    fn tiles_cover_every_element_once() {
        for (shape, target) in [(vec![], 1), (vec![7], 3), (vec![5, 0], 4), (vec![4, 6], 24), (vec![5, 7, 3], 1), (vec![3, 11, 13], 40)] {
            let whole = Region { start: (10..10 + shape.len() as u64).collect(), shape: shape.into() };
            let axes: Vec<usize> = (0..whole.rank()).collect();
            let tiles = cut(&whole, target, &CutOrder { axes: axes.iter().rev().copied().collect(), kept: 0 });
            let mut seen = vec![0; whole.volume() as usize];
            for tile in tiles.iter() {
                assert!(tile.volume() <= target && whole.contains(&tile), "{tile} of {whole}");
                let inside = tile.relative_to(&whole);
                for k in 0..tile.volume() {
                    let at = unravel(k, &inside.shape).iter().zip(&inside.start).map(|(i, s)| i + s).collect::<Vec<_>>();
                    seen[chunkwise_types::ravel(&at, &whole.shape) as usize] += 1;
                }
            }
            assert!(seen.iter().all(|&n| n == 1), "{whole}: {seen:?}");
            assert!(tiles.get(tiles.len()).is_none() && tiles.samples().count() == 2);
        }
    }
}
