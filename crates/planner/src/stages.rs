//! Roots and programs: the draft that later passes refine.

use crate::graph::Graph;
use crate::materialise::made_bytes;
use crate::watch::{Watch, reach, reached};
use crate::{PlannerError, Request};
use chunkwise_kernels::Node;
use chunkwise_plan::demand::demands;
use chunkwise_plan::schedule::TILE_ELEMENTS;
use chunkwise_plan::{ArrayRole, Cost, Encoding, Note, PlanArray, PlanSpec, Program, Stage, StageKind, StageOutput, Step, memory};
use chunkwise_types::{ArrayAccess, AxisChunks, ChunkGrid, Region, Scalar, volume};
use std::collections::{BTreeMap, HashMap, HashSet};

/// A value that is stored.
#[derive(Debug, Clone)]
pub(crate) struct Root {
    pub node: usize,
    pub array: String,
    pub tasks: ChunkGrid,
}

/// A plan in the making.
#[derive(Debug)]
pub(crate) struct Draft<'a> {
    pub watch: &'a Watch<'a>,
    pub spec: PlanSpec,
    pub arrays: BTreeMap<String, PlanArray>,
    pub roots: Vec<Root>,
    pub stages: Vec<Stage>,
    /// The array that holds a stored node.
    stored: HashMap<usize, String>,
    /// The array name of a source.
    sources: HashMap<usize, String>,
    /// Outputs whose chunks the user did not ask for: the planner may make them smaller.
    pub free: HashSet<String>,
    /// Those of them whose chunks may be joined.
    pub join: HashSet<String>,
    /// Inputs in object stores.
    remote_inputs: u64,
}

/// The largest chunk of an output that the planner makes by itself.
const MAX_CHUNK: u64 = 128 << 20;

/// Bounds of what a task has under way to one array in an object store. At an answer time of 50 ms 64 MiB fill a line of 10 Gbit/s, for
/// each of the tasks that run at once.
const MAX_IN_FLIGHT: u64 = 64 << 20;
const MIN_IN_FLIGHT: u64 = 1 << 20;

/// Regular chunk lengths near a natural grid, no larger than `limit` bytes.
pub(crate) fn natural(watch: &Watch<'_>, grid: &ChunkGrid, item: u64, limit: u64) -> Vec<u64> {
    let mut chunk: Vec<u64> = grid.max_shape().into_iter().map(|n| n.max(1)).collect();
    let mut falls = watch.falling("halving chunks");
    while volume(&chunk).saturating_mul(item) > limit.max(item) && falls.goes_on(volume(&chunk)) {
        let Some(axis) = (0..chunk.len()).max_by_key(|&i| (chunk[i], usize::MAX - i)).filter(|&i| chunk[i] > 1) else { break };
        chunk[axis] = chunk[axis].div_ceil(2);
    }
    chunk
}

impl<'a> Draft<'a> {
    pub fn new(graph: &Graph, requests: &[Request], spec: PlanSpec, watch: &'a Watch<'a>) -> Result<Draft<'a>, PlannerError> {
        let inputs = graph.nodes.iter().filter_map(|n| n.source.as_ref());
        let mut draft = Draft {
            watch,
            spec,
            arrays: BTreeMap::new(),
            roots: Vec::new(),
            stages: Vec::new(),
            stored: HashMap::new(),
            sources: HashMap::new(),
            free: HashSet::new(),
            join: HashSet::new(),
            remote_inputs: inputs.filter(|s| chunkwise_types::is_remote(&s.url)).count() as u64,
        };
        for (k, node) in graph.nodes.iter().enumerate() {
            if let Some(source) = &node.source {
                let name = format!("in{}-{}", draft.sources.len(), node.operation);
                draft.arrays.insert(
                    name.clone(),
                    PlanArray {
                        role: ArrayRole::Input,
                        url: source.url.clone(),
                        dtype: node.ty.dtype,
                        shape: node.ty.shape.clone(),
                        grid: node.chunks.clone(),
                        inner_chunk: source.inner_chunk.clone(),
                        access: source.access,
                        in_flight: draft.in_flight(&source.url),
                        metadata: Some(source.metadata.clone()),
                        encoding: None,
                    },
                );
                draft.sources.insert(k, name);
            }
        }
        for (i, request) in requests.iter().enumerate() {
            draft.request(graph, i, request)?;
        }
        Ok(draft)
    }

    /// True if this holds of every array that a stage reads.
    pub fn reads_only(&self, stage: &Stage, of: impl Fn(&PlanArray) -> bool) -> bool {
        stage.reads().all(|name| self.arrays.get(name).is_some_and(&of))
    }

    fn request(&mut self, graph: &Graph, i: usize, request: &Request) -> Result<(), PlannerError> {
        let bad = |problem: String| PlannerError::Request { url: request.url.clone(), problem };
        let array = &request.array;
        let shape = array.shape().to_vec();
        let name = format!("out{i}-{}", request.url.trim_end_matches('/').rsplit('/').next().unwrap_or("array"));
        let chunks = match &request.chunks {
            Some(c) if c.len() != shape.len() => return Err(bad(format!("{} chunk lengths for {} axes", c.len(), shape.len()))),
            Some(c) => c.iter().zip(&shape).map(|(c, n)| (*c).min(*n).max(1)).collect(),
            None => natural(self.watch, array.chunks(), array.dtype().size(), MAX_CHUNK.min(self.target())),
        };
        if let Some(s) = &request.shards
            && (s.len() != chunks.len() || s.iter().zip(&chunks).any(|(s, c)| *s == 0 || s % c != 0))
        {
            return Err(bad(format!("the shard {s:?} is not a multiple of the chunk {chunks:?}")));
        }
        request.codec.check(array.dtype().size(), shape.len()).map_err(bad)?;
        if request.chunks.is_none() && request.shards.is_none() {
            self.free.insert(name.clone());
            if request.join {
                self.join.insert(name.clone());
            }
        }
        let stored = request.shards.clone().unwrap_or_else(|| chunks.clone());
        let grid = ChunkGrid::regular(&shape, &stored);
        let encoding = Encoding {
            chunks: chunks.clone(),
            shards: request.shards.clone(),
            codec: request.codec.clone(),
            stored_dtype: request.stored_dtype,
            index: request.index.clone(),
            chunk_keys: request.chunk_keys,
            // In version 2 readers take the fill value for missing.
            fill_value: request.fill_value.or_else(|| (request.codec.zarr_format() == 3).then(|| zero(array.dtype()))),
            dimension_names: Some(array.dims().to_vec()).filter(|d| d.iter().any(Option::is_some)),
            attributes: request.attributes.clone(),
        };
        let in_flight = self.in_flight(&request.url);
        self.arrays.insert(
            name.clone(),
            PlanArray {
                role: ArrayRole::Output,
                url: request.url.clone(),
                dtype: array.dtype(),
                shape,
                grid: grid.clone(),
                inner_chunk: request.shards.as_ref().map(|_| chunks),
                access: ArrayAccess::default(),
                in_flight,
                metadata: None,
                encoding: Some(encoding),
            },
        );
        self.roots.push(Root { node: graph.node_of(array)?, array: name, tasks: grid });
        Ok(())
    }

    /// Bytes that a task may have under way to an array in an object store at once: enough to fill a fast line whose answers come late,
    /// but for all that it may read, and for what it writes, a modest part of what the task may use. None for files.
    fn in_flight(&self, url: &str) -> u64 {
        if !chunkwise_types::is_remote(url) {
            return 0;
        }
        (self.target() / 4 / (self.remote_inputs + 1)).clamp(MIN_IN_FLIGHT, MAX_IN_FLIGHT)
    }

    /// Bytes that one of the tasks that run at once should use.
    pub fn target(&self) -> u64 {
        self.spec.task_budget() / self.spec.workers.max(1)
    }

    /// Bytes that one step of a fold should read at least: a part of a share.
    pub fn step_bytes(&self) -> u64 {
        STEP_BYTES.min(self.target() / 4)
    }

    /// Makes a node an intermediate array, unless it is an output anyway: then that is read.
    pub fn store(&mut self, graph: &Graph, node: usize) {
        if let Some(root) = self.roots.iter().find(|r| r.node == node) {
            self.stored.insert(node, root.array.clone());
            return;
        }
        let n = &graph.nodes[node];
        let name = format!("tmp{}-{}", self.stored.len(), n.operation);
        // As the operation gives it: the planner cuts it when it fits the tasks.
        let chunk = n.chunks.max_shape().into_iter().map(|n| n.max(1)).collect();
        let tasks = self.intermediate(&name, n.ty.dtype, &n.ty.shape, chunk, None);
        self.free.insert(name.clone());
        self.stored.insert(node, name.clone());
        self.roots.push(Root { node, array: name, tasks });
    }

    /// How many nodes are not stored.
    pub fn unstored(&self, graph: &Graph) -> u64 {
        graph.nodes.len().saturating_sub(self.stored.len()) as u64
    }

    /// Adds an intermediate array and gives its grid.
    pub fn intermediate(
        &mut self,
        name: &str,
        dtype: chunkwise_types::DType,
        shape: &[u64],
        chunks: Vec<u64>,
        shards: Option<Vec<u64>>,
    ) -> ChunkGrid {
        let grid = ChunkGrid::regular(shape, shards.as_ref().unwrap_or(&chunks));
        let array = PlanArray {
            role: ArrayRole::Intermediate,
            url: name.to_string(),
            dtype,
            shape: shape.to_vec(),
            grid: grid.clone(),
            inner_chunk: shards.as_ref().map(|_| chunks.clone()),
            access: ArrayAccess::default(),
            in_flight: self.in_flight(&self.spec.work_dir),
            metadata: None,
            encoding: Some(Encoding {
                chunks,
                shards,
                codec: chunkwise_plan::Codec::Default,
                stored_dtype: None,
                index: None,
                chunk_keys: None,
                fill_value: Some(zero(dtype)),
                dimension_names: None,
                attributes: serde_json::Map::new(),
            }),
        };
        self.arrays.insert(name.to_string(), array);
        grid
    }

    /// The program that computes some nodes from stored arrays, and the graph node of each of its steps, which rise.
    pub fn program(&self, graph: &Graph, roots: &[usize]) -> (Program, Vec<usize>) {
        let computed: HashSet<usize> = roots.iter().copied().collect();
        let stop = |k: usize| self.stored.contains_key(&k) && !computed.contains(&k);
        // The graph may have many more nodes than that: nothing here goes through all of them.
        let order = reached(roots, |k| if stop(k) { &[] } else { &graph.nodes[k].inputs });
        let place: HashMap<usize, usize> = order.iter().enumerate().map(|(i, &k)| (k, i)).collect();
        let steps = order
            .iter()
            .map(|&k| {
                let n = &graph.nodes[k];
                let read = if computed.contains(&k) { self.sources.get(&k) } else { self.stored.get(&k).or_else(|| self.sources.get(&k)) };
                match read {
                    Some(name) => Step { read: Some(name.clone()), kernel: None, inputs: Vec::new(), ty: n.ty.clone(), stream: None },
                    None => Step {
                        read: None,
                        kernel: n.kernel.clone(),
                        inputs: n.inputs.iter().map(|i| place[i]).collect(),
                        ty: n.ty.clone(),
                        stream: None,
                    },
                }
            })
            .collect();
        (Program { steps }, order)
    }

    /// How many stages must run before the one of this root.
    pub(crate) fn level(&self, graph: &Graph, root: &Root, levels: &HashMap<&str, usize>) -> usize {
        let (program, _) = self.program(graph, &[root.node]);
        program.steps.iter().filter_map(|s| levels.get(s.read.as_deref()?)).max().map_or(0, |l| l + 1)
    }
}

pub(crate) fn zero(dtype: chunkwise_types::DType) -> Scalar {
    match dtype.kind() {
        chunkwise_types::DTypeKind::Bool => Scalar::Bool(false),
        chunkwise_types::DTypeKind::Float => Scalar::Float(0.0),
        chunkwise_types::DTypeKind::Complex => Scalar::Complex(0.0, 0.0),
        _ => Scalar::Int(0),
    }
}

/// Builds the stages: intermediates first, siblings together.
pub(crate) fn run(graph: &Graph, draft: &mut Draft) {
    let mut levels: HashMap<&str, usize> = HashMap::new();
    let roots = draft.roots.clone();
    // Intermediates were appended after their consumers, so from the last to the first every dependency comes before its user.
    let mut leveled: Vec<(usize, &Root)> = Vec::new();
    let mut pending: Vec<&Root> = roots.iter().collect();
    let mut falls = draft.watch.falling("ordering stages");
    while !pending.is_empty() && falls.goes_on(pending.len() as u64) {
        let before = pending.len();
        pending.retain(|root| {
            let (program, _) = draft.program(graph, &[root.node]);
            let ready = program
                .steps
                .iter()
                .filter_map(|s| s.read.as_deref())
                .all(|a| draft.arrays[a].role == ArrayRole::Input || levels.contains_key(a));
            if ready {
                let level = draft.level(graph, root, &levels);
                levels.insert(root.array.as_str(), level);
                leveled.push((level, root));
            }
            !ready
        });
        if pending.len() == before {
            return draft.watch.fail(PlannerError::Internal("the stages depend on each other".into()));
        }
    }
    leveled.sort_by_key(|(l, _)| *l);
    // Siblings run at the same level on the same task grid, or in lockstep, and, directly or through others, read the same arrays.
    let mut groups: Vec<(usize, HashSet<String>, Vec<&Root>)> = Vec::new();
    let keys: HashMap<usize, _> = leveled.iter().map(|(_, root)| (root.node, lockstep(graph, draft, root))).collect();
    for (level, root) in leveled {
        let mut reads: HashSet<String> = draft.program(graph, &[root.node]).0.steps.iter().filter_map(|s| s.read.clone()).collect();
        let mut members = vec![root];
        groups.retain_mut(|(l, r, g)| {
            let key = &keys[&root.node];
            let alike = |g: &[&Root]| g[0].tasks == root.tasks || (key.is_some() && g.iter().all(|other| keys[&other.node] == *key));
            let sibling = *l == level && !r.is_disjoint(&reads) && alike(g);
            if sibling {
                // The older group goes first, and less is moved than stays.
                if reads.len() < r.len() {
                    std::mem::swap(&mut reads, r);
                }
                reads.extend(r.drain());
                g.append(&mut members);
                members = std::mem::take(g);
            }
            !sibling
        });
        groups.push((level, reads, members));
    }
    for (_, _, group) in groups {
        if !draft.watch.goes_on() {
            return;
        }
        let stage = build(graph, draft, &group);
        let alone = memory::worst_need(&draft.arrays, &stage).total > draft.spec.task_budget();
        if alone && group.len() > 1 {
            // Together they would not fit.
            for root in group {
                let stage = build(graph, draft, &[root]);
                draft.stages.push(stage);
            }
        } else {
            draft.stages.push(stage);
        }
    }
}

/// How the folds of a small root that one task computes take their input, if all of them do so alike: the axes that they reduce, the shape
/// of what they reduce, and how that is cut. Roots of which this is equal fit into one stage whatever their shapes, such as the mean and
/// the variance of everything.
fn lockstep(graph: &Graph, draft: &Draft, root: &Root) -> Option<(Vec<usize>, Vec<u64>, Vec<AxisChunks>)> {
    let ty = &graph.nodes[root.node].ty;
    if root.tasks.count() != 1 || volume(&ty.shape).saturating_mul(ty.dtype.size()) > SMALL_ROOT {
        return None;
    }
    let program = build(graph, draft, &[root]).program;
    let mut keys = program.steps.iter().filter(|s| s.is_fold()).map(|s| {
        let inputs = program.input_types(s);
        let axes = Node { kernel: s.kernel.as_ref()?, inputs: &inputs, output: &s.ty }.reduces()?;
        Some((axes, inputs.into_iter().next()?.shape, s.stream.clone()?))
    });
    let first = keys.next()??;
    keys.all(|key| key.as_ref() == Some(&first)).then_some(first)
}

/// Bytes of results that may share a stage with others of other shapes.
const SMALL_ROOT: u64 = 64 << 10;

/// The stage that stores some roots.
pub(crate) fn build(graph: &Graph, draft: &Draft, group: &[&Root]) -> Stage {
    let nodes: Vec<usize> = group.iter().map(|r| r.node).collect();
    let (mut program, order) = draft.program(graph, &nodes);
    stream(graph, &mut program, &order, &nodes, draft);
    let step_of = |root: &Root| {
        order.binary_search(&root.node).unwrap_or_else(|step| {
            draft.watch.fail(PlannerError::Internal(format!("the stage of '{}' does not compute it", root.array)));
            step
        })
    };
    let outputs: Vec<StageOutput> =
        group.iter().map(|r| StageOutput { step: step_of(r), array: r.array.clone(), tasks: r.tasks.clone() }).collect();
    let mut operations: Vec<String> =
        order.iter().filter(|&&k| graph.nodes[k].kernel.is_some()).map(|&k| graph.nodes[k].operation.clone()).collect();
    operations.dedup();
    let copies = program.steps.iter().all(|s| s.read.is_some());
    let names: Vec<&str> = group.iter().map(|r| r.array.split_once('-').map_or(r.array.as_str(), |(_, n)| n)).collect();
    let mut notes = vec![Note::operations(operations)];
    if group.len() > 1 {
        notes.push(Note::Text(format!("{} results share this stage: they have the same tasks and read the same arrays", group.len())));
    }
    if group.iter().any(|r| draft.arrays[&r.array].role == ArrayRole::Intermediate) {
        notes.push(Note::Text(
            "stored: it would be computed again for every task, step or tile that uses it, or one task would read all of it first".into(),
        ));
    }
    Stage {
        name: names.join("+"),
        kind: if copies { StageKind::Rechunk } else { StageKind::Blockwise },
        program,
        outputs,
        projected_mem: 0,
        cost: Cost::default(),
        notes,
    }
}

/// Marks the folds that take their input step by step.
///
/// A fold is streamed unless what it reads is needed as well beside it, by the outputs or by a later fold: then the task holds it
/// anyway, and streaming would read it twice. A step takes so many chunks that it reads [`Draft::step_bytes`] at least.
pub(crate) fn stream(graph: &Graph, program: &mut Program, order: &[usize], outputs: &[usize], draft: &Draft<'_>) {
    let step_bytes = draft.step_bytes();
    let (given, n) = (program.clone(), program.steps.len());
    let fold: Vec<bool> = given.steps.iter().map(Step::is_fold).collect();
    let leaves = |starts: &[usize], through: &dyn Fn(usize) -> bool| -> HashSet<usize> {
        let seen = reach(starts, n, |k| if through(k) { &given.steps[k].inputs } else { &[] });
        (0..n).filter(|&k| seen[k] && given.steps[k].read.is_some()).collect()
    };
    let roots: Vec<usize> = outputs.iter().filter_map(|o| order.binary_search(o).ok()).collect();
    let above_outputs = leaves(&roots, &|k| !fold[k]);
    let types: Vec<_> = given.steps.iter().map(|s| given.input_types(s)).collect();
    let mut streamed: Vec<Streamed> = Vec::new();
    for w in (0..n).filter(|&w| fold[w]) {
        let own = leaves(&given.steps[w].inputs, &|_| true);
        let below = given.dependents(&[w]);
        let beside = (w + 1..n).filter(|&k| fold[k] && below[k]).any(|k| !leaves(&given.steps[k].inputs, &|i| !fold[i]).is_disjoint(&own));
        if !above_outputs.is_disjoint(&own) || beside {
            continue;
        }
        let step = &given.steps[w];
        let Some(kernel) = &step.kernel else { continue };
        let node = Node { kernel, inputs: &types[w], output: &step.ty };
        // What is read, or made by functions, for some regions of the inputs: of the row sums of a matrix a chunk is small, but all of the rows are read for it.
        let read = |regions: &mut dyn Iterator<Item = Region>| {
            let wants: Vec<_> = step.inputs.iter().copied().zip(regions).collect();
            let needs = demands(program, &types, &wants);
            memory::read_bytes(program, &needs).saturating_add(made_bytes(program, &types, &needs))
        };
        let nodes: Vec<usize> = step.inputs.iter().map(|&i| order[i]).collect();
        let chunk = read(&mut nodes.iter().map(|&i| Region::full(&graph.nodes[i].chunks.max_shape())));
        let chunks = contracted_chunks(graph, &node, &nodes);
        let cuts = cuts(graph, &chunks, &nodes, chunk, step_bytes);
        // Also where all is in one chunk, if tiles of the result are no help: if a single element needs more than a tile; where there are no
        // tiles, if all of it reads more than a step.
        let all = read(&mut types[w].iter().map(|ty| Region::full(&ty.shape)));
        let element = node.contracted().iter().fold(1u64, |a, &n| a.saturating_mul(n));
        // Of a large chunk that can only be decoded from its beginning on all is held but for a fold, which takes it as it is decoded.
        let in_order = own
            .iter()
            .filter_map(|&k| given.steps[k].read.as_ref())
            .any(|name| draft.arrays.get(name).is_some_and(memory::is_large_stream));
        let large = in_order
            || element > TILE_ELEMENTS
            || all > STEP_BYTES.saturating_mul(volume(&step.ty.shape))
            || (kernel.traits().whole && all > step_bytes);
        if large || cuts.iter().any(|c| c.count() > 1) {
            program.steps[w].stream = Some(cuts);
            streamed.push(Streamed { step: w, leaves: own, chunks });
        }
    }
    in_lockstep(program, &streamed);
}

/// A fold that takes its input step by step.
struct Streamed {
    step: usize,
    leaves: HashSet<usize>,
    /// The chunks of its inputs along the contracted indices: steps are some of them together.
    chunks: Vec<AxisChunks>,
}

/// Lets folds of the same leaves go through them together, in the shorter of their steps. Their steps differ where the elements of one are
/// smaller: a mean without NaNs counts truth values and adds numbers.
fn in_lockstep(program: &mut Program, streamed: &[Streamed]) {
    for (i, a) in streamed.iter().enumerate() {
        for b in &streamed[..i] {
            let (Some(x), Some(y)) = (&program.steps[a.step].stream, &program.steps[b.step].stream) else { continue };
            if x == y || a.chunks != b.chunks || a.leaves.is_disjoint(&b.leaves) {
                continue;
            }
            let both: Vec<AxisChunks> = x.iter().zip(y).map(|(x, y)| if x.max() <= y.max() { x.clone() } else { y.clone() }).collect();
            program.steps[a.step].stream = Some(both.clone());
            program.steps[b.step].stream = Some(both);
        }
    }
}

/// Bytes that one step of a fold should read at least, where there is room for them.
const STEP_BYTES: u64 = 8 << 20;

/// The chunks of the inputs of a fold along its contracted indices: the longer ones, or else those of the first input.
fn contracted_chunks(graph: &Graph, node: &Node<'_>, inputs: &[usize]) -> Vec<AxisChunks> {
    let mut found: Vec<AxisChunks> = Vec::new();
    for (along, n) in node.indices().iter().zip(node.contracted()) {
        let chunks = along.iter().map(|&(input, axis)| &graph.nodes[inputs[input]].chunks.0[axis]);
        let longest = chunks.reduce(|a, b| if a.max() >= b.max() { a } else { b });
        found.push(longest.cloned().unwrap_or_else(|| AxisChunks::regular(n, n)));
    }
    found
}

/// Where the contracted indices of a fold are cut: at their chunks, tiny ones grouped. For a chunk of each input `read` bytes are read.
fn cuts(graph: &Graph, chunks: &[AxisChunks], inputs: &[usize], read: u64, step_bytes: u64) -> Vec<AxisChunks> {
    let mut cuts = chunks.to_vec();
    let chunk = |i: usize| volume(&graph.nodes[i].chunks.max_shape()).saturating_mul(graph.nodes[i].ty.dtype.size());
    let mut bytes = inputs.iter().map(|&i| chunk(i)).fold(0, u64::saturating_add).max(read).max(1);
    for cut in cuts.iter_mut().rev() {
        if let AxisChunks::Regular { len, size } = cut
            && bytes < step_bytes
            && *size > 0
        {
            let times = (step_bytes / bytes).clamp(1, len.div_ceil(*size).max(1));
            bytes = bytes.saturating_mul(times);
            *size = size.saturating_mul(times);
        }
    }
    cuts
}
