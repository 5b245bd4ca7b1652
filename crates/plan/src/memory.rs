//! An upper bound of the memory of one task, by walking its schedule.
//!
//! Counted: the decoded leaves of a pass; while reading, encoded chunks under way and one decoded chunk; accumulators; the values
//! of a tile outside of fused groups, all alive at once, with the scratch of every kernel; output blocks; one contiguous copy, one
//! padded copy and one encoded copy of the chunk being written.

pub use crate::access::{BLOCKS, READ_BUFFER, SHARD_BUFFER, blocks, divisible, is_large_stream, keeps, reading};
use crate::access::{chunk_bytes, cursor, encoded, holes, is_raw, reading_of, streaming, under_way};
use crate::bands::Bands;
use crate::demand::{Demands, Regions, merge};
pub use crate::demand::{bytes_of, read_bytes};
use crate::schedule::{Pass, Phase, Schedule};
use crate::units::{Unit, is_known};
use crate::{PlanArray, PlanSpec, Program, Stage, StageOutput};
use chunkwise_kernels::{Node, Window};
use chunkwise_types::Region;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a task needs at its worst moment, itemised.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Need {
    /// Decoded input regions held at once.
    pub leaves: u64,
    /// Encoded and decoded chunks while reading.
    pub reading: u64,
    /// Accumulators and finished results of folds.
    pub accumulators: u64,
    /// Values and scratch of a tile.
    pub tile: u64,
    /// Output blocks.
    pub outputs: u64,
    /// Copies of a chunk while writing.
    pub writing: u64,
    /// The whole, at the worst moment.
    pub total: u64,
}

impl Need {
    /// What is added for blocks that the allocator rounds up, and for what is not counted elsewhere.
    pub fn allowance(&self) -> u64 {
        let counted = [self.leaves, self.reading.max(self.tile), self.accumulators, self.outputs, self.writing];
        self.total.saturating_sub(counted.into_iter().fold(0, u64::saturating_add))
    }
}

/// A fixed allowance for everything that is not counted elsewhere: metadata, small buffers, allocator slack.
const SLACK: u64 = 2 << 20;

/// Bytes of small chunks that lie side by side and are taken from a block together before they are written, and of the pieces of a copy on their
/// way to their chunks: small buffers.
pub const GATHERED: u64 = SLACK / 4;

/// Bytes beside the block of a task while one of its chunks is written; what is on its way to an object store is an encoded copy.
fn writing(array: &PlanArray, tasks: &chunkwise_types::ChunkGrid, contiguous: bool) -> u64 {
    let chunk = chunk_bytes(array, &array.grid);
    let Some(encoding) = &array.encoding else { return chunk.saturating_add(encoded(chunk)) };
    let inner = if array.inner_chunk.is_some() { chunk_bytes(array, &array.read_grid()) } else { 0 };
    let mut encoder = encoding.codec.encoder(if inner > 0 { inner } else { chunk });
    if encoding.stored_dtype.is_some() {
        // Another copy, which is smaller.
        (encoder.one_step, encoder.plain) = (false, false);
    }
    // With several steps two of the copies on the way are there at once, each no larger than an encoded one.
    let copies = if encoder.one_step { 0 } else { encoded(chunk).saturating_sub(chunk) };
    let beside = encoder.scratch.saturating_add(copies);
    if array.in_flight > 0 {
        return chunk.saturating_add(encoded(chunk)).saturating_add(inner.saturating_mul(2)).saturating_add(beside);
    }
    if encoding.shards.is_some() {
        let copy = if contiguous { 0 } else { chunk };
        let count = chunk / inner.max(1);
        let shard = copy.saturating_add(encoded(chunk)).saturating_add(count.saturating_mul(48));
        return shard.saturating_add(inner.saturating_mul(2)).saturating_add(beside);
    }
    // A chunk that is the whole block, unpadded, is encoded from where it is.
    let exact = contiguous && *tasks == array.grid && array.shape.iter().zip(array.grid.stored_shape()).all(|(n, c)| n % c.max(1) == 0);
    let copy = if exact && encoder.one_step { 0 } else { chunk };
    copy.saturating_add(if encoder.plain { 0 } else { encoded(chunk) }).saturating_add(beside)
}

/// The order in which the leaves of a program are loaded: those that may be there already, then those that take most memory to read,
/// while little else is held.
pub fn load_order(arrays: &BTreeMap<String, PlanArray>, program: &Program) -> Vec<usize> {
    let key = |k: &usize| {
        let array = program.steps[*k].read.as_ref().and_then(|name| arrays.get(name));
        array.map(|a| (!keeps(a), std::cmp::Reverse(reading(a))))
    };
    let mut order: Vec<usize> = (0..program.steps.len()).filter(|&k| program.steps[k].read.is_some()).collect();
    order.sort_by_cached_key(key);
    order
}

/// Bytes of one evaluation of what a pass wants, in these pieces, of which some `parts` stand for all: (leaves, reading, tile).
fn pass_need(
    arrays: &BTreeMap<String, PlanArray>,
    program: &Program,
    schedule: &Schedule,
    pass: &Pass,
    pieces: &[Region],
    parts: &[Region],
) -> (u64, u64, u64) {
    let bands = Bands::of(arrays, program, schedule, pass, pieces);
    // The first band of a part is a largest one, but for a halo on its other side.
    let some: Vec<Demands> = parts
        .iter()
        .filter(|_| bands.banded.contains(&true))
        .flat_map(|part| bands.cut(pass, part).samples().map(|b| schedule.needs(program, pass, &b)).collect::<Vec<_>>())
        .collect();
    let held = |k: usize| match bands.banded[k] {
        true => some.iter().map(|d| bytes_of(program, k, &d[k])).max().unwrap_or(0),
        false => bytes_of(program, k, &pass.demands[k]),
    };
    // Leaves are loaded in turn; what buffers a read takes beyond the leaves that come after it is what counts, but for small buffers, whose
    // places stay taken. A banded leaf is loaded beside all others, and its reader keeps the chunk that it reads from.
    let (mut leaves, mut peak) = (0u64, 0u64);
    let (mut opening, mut left) = (0u64, 0u64);
    for k in load_order(arrays, program) {
        let array = program.steps[k].read.as_ref().and_then(|name| arrays.get(name));
        let Some(array) = array.filter(|_| !pass.demands[k].is_empty()) else { continue };
        leaves = leaves.saturating_add(held(k));
        let reading = if bands.banded[k] { reading(array) } else { reading_of(array, &pass.demands[k]) };
        if bands.banded[k] && (!is_raw(array) || bands.whole_pieces) {
            let stream = streaming(array).filter(|_| bands.streamed[k]);
            let open = if bands.whole_pieces { 0 } else { stream.unwrap_or_else(|| cursor(array)) };
            leaves = leaves.saturating_add(open);
            opening = opening.max(if stream.is_some() { 0 } else { reading.saturating_sub(open) });
        } else {
            peak = peak.max(leaves.saturating_add(reading));
            left = left.max(holes(array, reading));
        }
    }
    peak = peak.max(leaves.saturating_add(opening.max(left)));
    // What is under way stays so while a tile is computed.
    let read = (0..program.steps.len()).filter(|&k| !pass.demands[k].is_empty());
    let asked = read.filter_map(|k| program.steps[k].read.as_ref().and_then(|name| arrays.get(name))).map(under_way);
    let asked = asked.fold(0, u64::saturating_add);
    let buffers = peak.saturating_sub(leaves);
    let leaves = leaves.saturating_add(asked);
    (leaves, buffers, tile(program, schedule, pass))
}

/// Bytes of the values of a tile of a pass, all alive at once, with the scratch of every kernel. Values inside of a fused group are in
/// registers.
pub fn tile(program: &Program, schedule: &Schedule, pass: &Pass) -> u64 {
    let tiled = pass.tiles.len() > 1;
    // Steps that do not fit together are refused before anything is evaluated.
    let Ok(units) = schedule.units(program, pass) else { return 0 };
    let mut needs = if tiled {
        let at = |tile: Region| units.needs(&vec![tile; pass.wants.len()]);
        let larger = |(x, y): (Regions, Regions)| if volume_of(&x) >= volume_of(&y) { x } else { y };
        // The first tile is a largest one; tiles at other places demand no more than the halo of one more element an axis.
        pass.tiles.samples().map(at).reduce(|a, b| a.into_iter().zip(b).map(larger).collect()).unwrap_or_default()
    } else {
        units.needs(&pass.wants.iter().map(|(_, region)| region.clone()).collect::<Vec<_>>())
    };
    // As they are loaded.
    units.steps.iter().zip(&mut needs).filter(|(k, _)| is_known(program, **k)).for_each(|(_, regions)| merge(regions));
    let mut bytes = 0u64;
    for unit in &units.list {
        let scratch = match unit {
            Unit::Step(k) => {
                let regions = units.at(&needs, *k).iter().filter_map(|region| {
                    let node = units.node(*k)?;
                    let demanded: Vec<u64> = node.demand(region, None).iter().map(|d| d.region.volume()).collect();
                    Some(node.scratch(region, &demanded))
                });
                regions.fold(bytes_of(program, *k, units.at(&needs, *k)), u64::saturating_add)
            }
            Unit::Fused(group) => {
                let regions = group.outputs.first().map_or(&[][..], |&first| units.at(&needs, first));
                let largest = regions.iter().map(Region::volume).max().unwrap_or(0);
                let made = group.outputs.iter().map(|&k| bytes_of(program, k, regions));
                made.fold(group.program.scratch(largest, group.turned), u64::saturating_add)
            }
        };
        bytes = bytes.saturating_add(scratch);
    }
    // What was loaded, or is wanted, at regions that lie apart is assembled. Else it is a view of a leaf or of the value of a step.
    let apart = units.steps.iter().zip(&needs).filter(|(k, regions)| is_known(program, **k) && regions.len() > 1);
    let apart = apart.map(|(&k, regions)| bytes_of(program, k, regions));
    let first = pass.tiles.get(0).unwrap_or_else(|| Region::full(&[]));
    let wanted = pass.wants.iter().filter(|(k, _)| units.at(&needs, *k).len() > 1);
    let wanted = wanted.map(|(k, region)| bytes_of(program, *k, std::slice::from_ref(if tiled { &first } else { region })));
    apart.chain(wanted).fold(bytes, u64::saturating_add)
}

/// What a pass wants, as a single part.
fn whole(pass: &Pass) -> Vec<Region> {
    pass.wants.first().map(|(_, r)| r.clone()).into_iter().collect()
}

fn volume_of(regions: &[Region]) -> u64 {
    regions.iter().map(Region::volume).fold(0, u64::saturating_add)
}

/// A block of at least twice this size is rounded up to a whole number of huge pages, each of this size; others are rounded by less.
const ROUNDING: u64 = 2 << 20;
/// Tasks of less than this have no such blocks to speak of.
const ROUNDED: u64 = 16 << 20;
/// Blocks for reading a chunk, or for writing one.
const BUFFERS: u64 = 3;

/// The need of the task that writes these regions.
pub fn need(arrays: &BTreeMap<String, PlanArray>, stage: &Stage, regions: &[Region]) -> Need {
    need_of(arrays, stage, regions, unlike(&stage.program))
}

/// Tasks of an axis, and windows of a task, that are compared where a kernel follows lists of indices or labels, which say nothing about
/// what is next to them.
const IRREGULAR: usize = 4096;
/// The same where there are pieces of several arrays, and a task or a window may need two of them.
const PIECES: usize = 256;

/// How many tasks of an axis, or windows of a task, may be unlike each other; 0 if a few stand for all.
fn unlike(program: &Program) -> usize {
    let traits = || program.steps.iter().filter_map(|s| s.kernel.as_ref()).map(|kernel| kernel.traits());
    if traits().any(|t| t.irregular) {
        IRREGULAR
    } else if traits().any(|t| t.pieces) {
        PIECES
    } else {
        0
    }
}

/// As [`need`]; up to `compared` windows of a fold are compared to find those that demand most.
fn need_of(arrays: &BTreeMap<String, PlanArray>, stage: &Stage, regions: &[Region], compared: usize) -> Need {
    let mut need = exact(arrays, stage, regions, compared);
    if need.total >= ROUNDED {
        let folds = stage.program.steps.iter().filter(|s| s.stream.is_some()).count() as u64;
        let (reads, written) = (stage.reads().count() as u64, stage.outputs.len() as u64);
        let evaluating = if need.tile > need.reading { (need.tile, stage.program.steps.len() as u64) } else { (need.reading, BUFFERS) };
        // One block for each leaf and output, and two for each fold.
        let parts = [
            (need.leaves, reads),
            evaluating,
            (need.accumulators, 2 * folds),
            (need.outputs.saturating_add(need.writing), written + BUFFERS),
        ];
        let large = parts.iter().map(|&(bytes, blocks)| blocks.min(bytes / (2 * ROUNDING))).fold(0, u64::saturating_add);
        need.total = need.total.saturating_add(ROUNDING.saturating_mul(large));
    }
    need
}

/// The windows of a phase that may demand most.
fn largest_windows(program: &Program, schedule: &Schedule, phase: &Phase, compared: usize) -> Vec<Window> {
    let n = phase.windows.len();
    // Largest windows of a regular cut sit at either end or inside: first, second, middle and last are all shapes.
    let mut numbers = vec![0, 1, n / 2, n.saturating_sub(1)];
    if compared > 0 && n > numbers.len() {
        let size = |i: usize| Some((schedule.window_bytes(program, phase, &phase.windows.get(i)?), i));
        let mut sizes: Vec<(u64, usize)> = (0..n).step_by(n.div_ceil(compared)).filter_map(size).collect();
        sizes.sort_unstable_by_key(|&(bytes, i)| (std::cmp::Reverse(bytes), i));
        numbers.extend(sizes.iter().take(2).map(|&(_, i)| i));
    }
    numbers.sort_unstable();
    numbers.dedup();
    numbers.into_iter().filter_map(|i| phase.windows.get(i)).collect()
}

fn exact(arrays: &BTreeMap<String, PlanArray>, stage: &Stage, regions: &[Region], compared: usize) -> Need {
    let program = &stage.program;
    let schedule = Schedule::new(stage, regions);
    let mut worst = Need::default();
    let keep = |candidate: Need, worst: &mut Need| {
        if candidate.total > worst.total {
            *worst = candidate;
        }
    };
    let mut held = 0u64;
    for phase in &schedule.phases {
        let acc: u64 = phase
            .folds
            .iter()
            .filter_map(|(k, region)| {
                let step = &program.steps[*k];
                let node = Node { kernel: step.kernel.as_ref()?, inputs: &schedule.types[*k], output: &step.ty };
                let window = phase.windows.get(0);
                let demanded: Vec<u64> = node.demand(region, window.as_ref()).iter().map(|d| d.region.volume()).collect();
                Some(node.accumulator(region).saturating_add(node.fold_scratch(&demanded)))
            })
            .fold(0, u64::saturating_add);
        for window in largest_windows(program, &schedule, phase, compared) {
            let pass = schedule.step_pass(program, phase, &window);
            let (leaves, reading, tile) = pass_need(arrays, program, &schedule, &pass, &whole(&pass), &whole(&pass));
            let total = [leaves, reading.max(tile), held, acc, SLACK].iter().fold(0u64, |a, b| a.saturating_add(*b));
            keep(Need { leaves, reading, accumulators: held.saturating_add(acc), tile, outputs: 0, writing: 0, total }, &mut worst);
        }
        held = held.saturating_add(
            phase.folds.iter().map(|(k, r)| r.volume().saturating_mul(program.steps[*k].ty.dtype.size())).fold(0, u64::saturating_add),
        );
    }
    let pass = schedule.output_pass(program);
    let direct = pass.tiles.len() <= 1;
    let grids: Vec<_> = stage.outputs.iter().filter_map(|o| Some(&arrays.get(&o.array)?.grid)).collect();
    let pieces = schedule.pieces(&pass, &grids);
    let piece = pieces.iter().max_by_key(|r| r.volume());
    let piecewise = pieces.len() > 1;
    let parts: Vec<Region> =
        if piecewise { piece.into_iter().chain(pieces.get(pieces.len() / 2)).cloned().collect() } else { whole(&pass) };
    let (leaves, reading, tile) = pass_need(arrays, program, &schedule, &pass, &pieces, &parts);
    let outputs: u64 = match piece {
        _ if direct => 0,
        Some(piece) if piecewise => {
            pass.wants.iter().map(|(k, _)| bytes_of(program, *k, std::slice::from_ref(piece))).fold(0, u64::saturating_add)
        }
        _ => pass.wants.iter().map(|(k, r)| bytes_of(program, *k, std::slice::from_ref(r))).fold(0, u64::saturating_add),
    };
    let writing = stage
        .outputs
        .iter()
        .filter_map(|o| Some((o, arrays.get(&o.array)?)))
        .map(|(o, a)| writing(a, if piecewise { &a.grid } else { &o.tasks }, !direct || program.steps[o.step].read.is_some()))
        .max()
        .unwrap_or(0);
    // Encoded chunks that are on their way to an object store while the next ones are made.
    let sent = |(o, region): (&StageOutput, &Region)| {
        let array = arrays.get(&o.array)?;
        let chunks = stage.outputs.len() as u64 * array.grid.touched(region).volume();
        Some(array.in_flight.min(encoded(chunk_bytes(array, &array.grid)).saturating_mul(chunks)))
    };
    let sent = stage.outputs.iter().zip(regions).filter_map(sent).max().unwrap_or(0);
    for (r, t, w) in [(reading, tile, sent), (0, if direct { tile } else { 0 }, writing.saturating_add(sent))] {
        let total = [leaves, r.max(t), held, outputs, w, SLACK].iter().fold(0u64, |a, b| a.saturating_add(*b));
        keep(Need { leaves, reading: r, accumulators: held, tile: t, outputs, writing: w, total }, &mut worst);
    }
    worst
}

/// Windows of all tasks of a stage that are compared, where they may be unlike each other.
const PROBES: usize = 1 << 14;

/// The positions on one axis at which a task may be unlike the others.
fn candidates(n: u64, unlike: usize) -> Vec<u64> {
    let limit = unlike.max(12) as u64;
    if n <= limit {
        return (0..n).collect();
    }
    let step = n as f64 / (limit - 6) as f64;
    let mut out: Vec<u64> = [0, 1, 2, n - 3, n - 2, n - 1].into_iter().chain((0..limit - 6).map(|i| (i as f64 * step) as u64)).collect();
    out.sort_unstable();
    out.dedup();
    out
}

/// The largest need of any task of a stage.
///
/// Kernels act axis by axis and, but for index lists, the same way everywhere away from the ends of an axis. So the worst task is
/// found axis by axis among the ends and some of the inside; stages with index lists, and with pieces of several arrays, try many more.
pub fn worst_need(arrays: &BTreeMap<String, PlanArray>, stage: &Stage) -> Need {
    let counts = stage.task_counts();
    if chunkwise_types::volume(&counts) == 0 {
        return Need { total: SLACK, ..Need::default() };
    }
    let unlike = unlike(&stage.program);
    let tried: Vec<Vec<u64>> = counts.iter().map(|&n| candidates(n, unlike)).collect();
    // Many tasks make up for few windows of each.
    let compared = (PROBES / tried.iter().map(Vec::len).sum::<usize>().max(1)).max(8).min(unlike);
    let at = |index: &[u64]| need_of(arrays, stage, &stage.task_regions(chunkwise_types::ravel(index, &counts)), compared);
    let mut best = vec![0u64; counts.len()];
    let mut worst = at(&best);
    for axis in 0..counts.len() {
        let mut index = best.clone();
        for &i in &tried[axis] {
            index[axis] = i;
            let found = at(&index);
            if found.total > worst.total {
                worst = found;
                best[axis] = i;
            }
        }
    }
    worst
}

impl PlanSpec {
    /// Bytes that tasks may use together.
    pub fn task_budget(&self) -> u64 {
        self.allowed_mem.saturating_sub(self.reserved_mem)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A chunk of 32 MB.
    fn array(more: serde_json::Value) -> PlanArray {
        let mut array = json!({"role": "output", "url": "file:///x", "dtype": "float64", "shape": [4_000_000],
                               "grid": [{"regular": {"len": 4_000_000, "size": 4_000_000}}]});
        array.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        serde_json::from_value(array).unwrap()
    }

    #[test]
    fn large_blocks_of_blosc_are_counted_where_they_are_decoded() {
        let chunk = 32_000_000;
        let blosc = |blocksize: u64| {
            let configuration = json!({"cname": "zstd", "clevel": 1, "shuffle": "noshuffle", "typesize": 8, "blocksize": blocksize});
            let codecs =
                json!([{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "blosc", "configuration": configuration}]);
            array(json!({"encoding": {"chunks": [4_000_000], "codec": {"codecs": codecs}}}))
        };
        let (usual, large) = (reading(&blosc(0)), reading(&blosc(8 << 20)));
        assert!(usual >= 2 * chunk);
        assert_eq!(large - usual, 2 * (8 << 20));
        let input = |scratch: u64| array(json!({"role": "input", "access": {"whole": {"in_place": true, "scratch": scratch}}}));
        assert_eq!(reading(&input(24 << 20)) - reading(&input(0)), 24 << 20);
    }

    #[test]
    fn only_files_are_read_in_parts() {
        for access in [json!({"blocks": {"block": 1 << 17}}), json!({"stream": {"kept": STREAM}})] {
            let of = |url: &str| reading(&array(json!({"role": "input", "url": url, "access": access})));
            assert!(of("file:///x") <= BLOCKS || access.get("stream").is_some());
            assert!(of("s3://bucket/x") > 2 * 32_000_000);
        }
        let stream = array(json!({"role": "input", "access": {"stream": {"kept": STREAM}}}));
        assert_eq!(streaming(&stream), Some(STREAM));
    }

    #[test]
    fn inner_chunks_in_files_are_read_through_a_smaller_buffer() {
        let of = |url: &str| reading(&array(json!({"role": "input", "url": url, "inner_chunk": [1000]})));
        assert_eq!(of("s3://bucket/x") - of("file:///x"), READ_BUFFER - SHARD_BUFFER);
    }

    const STREAM: u64 = 9 << 20;

    /// Small chunks are read before a larger array. Their freed buffers leave holes, into which that array does not fit.
    #[test]
    fn small_buffers_of_a_read_are_counted_beside_the_arrays_that_are_loaded_later() {
        let stored = |len: u64, chunk: u64, more: serde_json::Value| {
            let grid = json!([{"regular": {"len": len, "size": chunk}}]);
            let mut array = array(json!({"role": "input", "shape": [len], "grid": grid}));
            array.access = serde_json::from_value(more).unwrap();
            array
        };
        let whole = json!({"whole": {"in_place": false, "scratch": 0}});
        let of = |small: u64, large: PlanArray| {
            let small = stored(8 * small, small, whole.clone());
            let ty = |shape: &[u64]| json!({"dtype": "float64", "shape": shape});
            let sum = |input: u64| json!({"kernel": {"reduce": {"function": "sum", "axes": [0]}}, "inputs": [input], "type": ty(&[])});
            let steps = [
                json!({"read": "small", "type": ty(&small.shape)}),
                json!({"read": "large", "type": ty(&large.shape)}),
                sum(0),
                sum(1),
                json!({"kernel": {"element": {"function": "add"}}, "inputs": [2, 3], "type": ty(&[])}),
            ];
            let stage = json!({"name": "out", "kind": "blockwise", "program": {"steps": steps},
                               "outputs": [{"step": 4, "array": "out", "tasks": []}], "projected_mem": 0,
                               "cost": {"bytes_read": 0, "bytes_written": 0, "gets": 0, "puts": 0}});
            let out = serde_json::from_value(json!({"role": "output", "url": "file:///out", "dtype": "float64", "shape": [], "grid": []}));
            let read = reading(&small);
            let arrays = [("small", small), ("large", large), ("out", out.unwrap())].map(|(name, array)| (name.to_owned(), array));
            (read, exact(&BTreeMap::from(arrays), &serde_json::from_value(stage).unwrap(), &[Region::full(&[])], 0).reading)
        };
        let (read, counted) = of(100_000, stored(2_000_000, 2_000_000, json!("raw")));
        assert!(read > 0 && counted >= read, "{counted} B for {read} B");
        // Large buffers are given back to the system.
        let given_back = stored(8_000_000, 1_000_000, whole.clone());
        assert_eq!(holes(&given_back, reading(&given_back)), 0);
    }

    /// The members of a group are scattered over the axis, but for one window that is full of them.
    #[test]
    fn the_window_with_most_members_of_a_group_is_found() {
        let (rows, columns, window) = (1000, 500, 50);
        let mut labels = vec![-1i64; rows];
        for (group, first) in [(0, 700), (1, 300)] {
            labels[first..first + window].fill(group);
            labels[group as usize] = group;
            labels[rows - 1 - group as usize] = group;
        }
        let axis = |len: usize, size: usize| json!({"regular": {"len": len, "size": size}});
        let grid = |lens: [usize; 2], sizes: [usize; 2]| json!([axis(lens[0], sizes[0]), axis(lens[1], sizes[1])]);
        let ty = |shape: [usize; 2]| json!({"dtype": "float64", "shape": shape});
        let input = array(json!({"role": "input", "shape": [rows, columns], "grid": grid([rows, columns], [window, columns]),
                                 "access": {"whole": {"in_place": false, "scratch": 0}}}));
        let output = array(json!({"shape": [2, columns], "grid": grid([2, columns], [1, columns])}));
        let steps = json!([
            {"read": "x", "type": ty([rows, columns])},
            {"kernel": {"group": {"function": "sum", "axis": 0, "labels": labels, "groups": 2}}, "inputs": [0], "type": ty([2, columns]),
             "stream": [{"regular": {"len": rows, "size": window}}]},
        ]);
        let stage: Stage =
            serde_json::from_value(json!({"name": "y", "kind": "blockwise", "program": {"steps": steps}, "projected_mem": 0,
            "outputs": [{"step": 1, "array": "y", "tasks": grid([2, columns], [1, columns])}],
            "cost": {"bytes_read": 0, "bytes_written": 0, "gets": 0, "puts": 0}}))
            .unwrap();
        let arrays = BTreeMap::from([("x".to_owned(), input), ("y".to_owned(), output)]);
        let full = (window * columns * 8) as u64;
        for task in 0..2 {
            assert_eq!(need(&arrays, &stage, &stage.task_regions(task)).leaves, full);
        }
        assert_eq!(worst_need(&arrays, &stage).leaves, full);
    }

    /// A short array between two long ones is stored in a way that takes much memory to read.
    #[test]
    fn the_task_that_reads_another_of_the_arrays_that_are_joined_is_found() {
        let scratch = 80 << 20;
        let grid = |len: u64| json!([{"regular": {"len": len, "size": 10}}]);
        let ty = |len: u64| json!({"dtype": "float64", "shape": [len]});
        let stored = |len: u64, scratch: u64| {
            let access = json!({"whole": {"in_place": false, "scratch": scratch}});
            array(json!({"role": "input", "shape": [len], "grid": grid(len), "access": access}))
        };
        let steps = json!([
            {"read": "a", "type": ty(50)}, {"read": "b", "type": ty(10)}, {"read": "c", "type": ty(160)},
            {"kernel": {"concat": {"axis": 0}}, "inputs": [0, 1, 2], "type": ty(220)},
        ]);
        let stage: Stage =
            serde_json::from_value(json!({"name": "y", "kind": "blockwise", "program": {"steps": steps}, "projected_mem": 0,
            "outputs": [{"step": 3, "array": "y", "tasks": grid(220)}],
            "cost": {"bytes_read": 0, "bytes_written": 0, "gets": 0, "puts": 0}}))
            .unwrap();
        let y = array(json!({"shape": [220], "grid": grid(220)}));
        let arrays = [("a", stored(50, 0)), ("b", stored(10, scratch)), ("c", stored(160, 0)), ("y", y)];
        let arrays = BTreeMap::from(arrays.map(|(name, array)| (name.to_owned(), array)));
        let most = (0..stage.tasks()).map(|task| need(&arrays, &stage, &stage.task_regions(task)).total).max();
        assert_eq!(Some(worst_need(&arrays, &stage).total), most);
        assert!(most >= Some(scratch));
    }
}
