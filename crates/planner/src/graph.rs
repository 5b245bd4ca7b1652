//! The graph with every common sub-expression once.

use crate::PlannerError;
use chunkwise_kernels::{ArrayType, Kernel};
use chunkwise_ops::{Array, Definition, Source};
use chunkwise_types::ChunkGrid;
use std::collections::{BTreeMap, HashMap, HashSet};

/// One value.
#[derive(Debug, Clone)]
pub(crate) struct GraphNode {
    pub source: Option<Source>,
    pub kernel: Option<Kernel>,
    pub inputs: Vec<usize>,
    pub ty: ArrayType,
    pub chunks: ChunkGrid,
    pub operation: String,
}

/// The kernel, with what its calls allocate if that is known.
fn with_memory(kernel: &Kernel, calls: &BTreeMap<String, u64>) -> Kernel {
    let mut kernel = kernel.clone();
    if let Some(call) = kernel.call_mut()
        && let Some(memory) = calls.get(&call.version)
    {
        call.memory = *memory;
    }
    kernel
}

/// All values in topological order.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    pub nodes: Vec<GraphNode>,
    by_array: HashMap<u64, usize>,
    by_key: HashMap<String, usize>,
}

impl Graph {
    /// True if the stored array at this URL is read.
    pub fn reads(&self, url: &str) -> bool {
        self.nodes.iter().any(|n| n.source.as_ref().is_some_and(|s| s.url == url))
    }

    /// How many calls of users' functions there are.
    pub fn calls(&self) -> usize {
        self.nodes.iter().filter(|n| n.kernel.as_ref().is_some_and(|k| k.call().is_some())).count()
    }

    /// The graph of arrays. `calls` has what calls of functions allocate, by their versions, instead of what the arrays say.
    pub fn new<'a>(roots: impl Iterator<Item = &'a Array>, calls: &BTreeMap<String, u64>) -> Graph {
        let mut graph = Graph::default();
        for root in roots {
            graph.add(root, calls);
        }
        graph
    }

    /// The node of an array that is part of the graph.
    pub fn node_of(&self, array: &Array) -> Result<usize, PlannerError> {
        let found = self.by_array.get(&array.id()).copied();
        found.ok_or_else(|| PlannerError::Internal(format!("an array of '{}' is not in the graph", array.operation())))
    }

    /// Adds an array and what it depends on. A loop with its own stack, since graphs may be deep.
    fn add(&mut self, root: &Array, calls: &BTreeMap<String, u64>) {
        let mut stack = vec![(root.clone(), false)];
        // An array is opened once and then given a node, so this ends.
        let mut opened = HashSet::new();
        while let Some((array, ready)) = stack.pop() {
            if self.by_array.contains_key(&array.id()) {
                continue;
            }
            if !ready {
                if !opened.insert(array.id()) {
                    continue;
                }
                let inputs: Vec<Array> = array.inputs().to_vec();
                stack.push((array, true));
                stack.extend(inputs.into_iter().map(|a| (a, false)));
                continue;
            }
            let inputs: Vec<usize> = array.inputs().iter().map(|a| self.by_array[&a.id()]).collect();
            let node = match array.definition() {
                Definition::Rechunk => {
                    self.by_array.insert(array.id(), inputs[0]);
                    continue;
                }
                Definition::Stored(s) => (Some(s.clone()), None),
                Definition::Apply(k) => (None, Some(with_memory(k, calls))),
            };
            let key = format!("{:?} {:?} {inputs:?} {:?}", node.0, node.1, array.ty());
            let index = *self.by_key.entry(key).or_insert_with(|| {
                self.nodes.push(GraphNode {
                    source: node.0,
                    kernel: node.1,
                    inputs,
                    ty: array.ty().clone(),
                    chunks: array.chunks().clone(),
                    operation: array.operation().into(),
                });
                self.nodes.len() - 1
            });
            self.by_array.insert(array.id(), index);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use chunkwise_kernels::Create;
    use chunkwise_types::{DType, Scalar};

    #[test]
    fn an_array_of_another_graph_has_no_node() {
        let one = |value| {
            let kernel = Kernel::Create { what: Create::Full { value: Scalar::Int(value) } };
            let ty = ArrayType::new(DType::Int64, vec![3]);
            Array::apply(kernel, &[], ty, ChunkGrid::regular(&[3], &[3]), vec![None], "full").unwrap()
        };
        let (known, other) = (one(1), one(2));
        let graph = Graph::new([&known].into_iter(), &BTreeMap::new());
        assert_eq!(graph.node_of(&known).unwrap(), 0);
        assert!(matches!(graph.node_of(&other), Err(PlannerError::Internal(what)) if what.contains("'full'")));
    }
}
