//! Where the indices of an array's axes come from, so that coordinates move as the elements do.
//!
//! An axis is followed from the output back to stored arrays: a slice picks coordinates, a flip turns them round, a window keeps those
//! of its middle. Where inputs disagree about an index, as the neighbours of a difference do, the axis has no coordinates.

use chunkwise_kernels::{AxisMap, Kernel, ViewAxis};
use chunkwise_ops::{Array, Definition};
use chunkwise_pipeline::SELECTED;
use std::collections::{HashMap, HashSet};

/// Longer axes are not followed through anything that changes indices.
const MAX_LENGTH: u64 = 1 << 24;
/// Longer chains of operations are not followed.
const MAX_DEPTH: usize = 2000;
/// An index that comes from nowhere, such as padding.
const NOWHERE: u64 = u64::MAX;

/// What is known of an axis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Origin {
    /// Nothing: it is made here, or its indices were computed.
    Unknown,
    /// Its indices are of no stored axis.
    Changed,
    /// It was selected for every index of an axis of this name of the inputs.
    Selected {
        /// The name.
        dim: String,
    },
    /// An axis of a stored array.
    Stored {
        /// The array's URL.
        url: String,
        /// The name of its axis.
        dim: String,
        /// The length of its axis.
        len: u64,
        /// The index in it of each index; `None` is all of them in order.
        indices: Option<Vec<u64>>,
    },
}

impl Origin {
    /// Indices picked from it.
    fn pick(self, count: u64, at: impl Fn(u64) -> Option<u64>) -> Origin {
        match self {
            Origin::Stored { .. } if count > MAX_LENGTH => Origin::Changed,
            Origin::Stored { url, dim, len, indices } => {
                let old = |i: u64| indices.as_ref().map_or(i, |list| list.get(i as usize).copied().unwrap_or(NOWHERE));
                let picked: Vec<u64> = (0..count).map(|i| at(i).map_or(NOWHERE, old)).collect();
                let all = count == len && (0..).zip(&picked).all(|(i, k)| i == *k);
                Origin::Stored { url, dim, len, indices: if all { None } else { Some(picked) } }
            }
            other => other,
        }
    }

    /// True if every index is one of the stored axis.
    pub fn whole(&self) -> bool {
        matches!(self, Origin::Stored { indices, .. } if indices.as_ref().is_none_or(|list| !list.contains(&NOWHERE)))
    }
}

/// What several inputs together say of an axis.
fn joined(origins: Vec<Origin>) -> Origin {
    let mut out = Origin::Unknown;
    for origin in origins {
        match (&out, &origin) {
            (Origin::Unknown, _) | (Origin::Selected { .. }, Origin::Stored { .. } | Origin::Changed) => out = origin,
            (_, Origin::Selected { .. }) | (Origin::Selected { .. }, Origin::Unknown) => {}
            (Origin::Stored { dim: d, indices: i, .. }, Origin::Stored { dim: e, indices: j, .. }) if d != e || i != j => {
                // Padding next to the real thing does not matter.
                match (out.whole(), origin.whole()) {
                    (true, false) => {}
                    (false, true) => out = origin,
                    _ => return Origin::Changed,
                }
            }
            (Origin::Stored { .. }, _) | (Origin::Changed, Origin::Unknown | Origin::Changed) => {}
            _ => out = origin,
        }
    }
    out
}

/// An axis along which `sel` took the labels of the stored indices, but meets elements of other ones: their values would be of
/// different times.
pub(crate) fn misplaced(provenance: &mut Provenance, arrays: impl Iterator<Item = Array>) -> Option<String> {
    let (mut seen, mut stack) = (HashSet::new(), arrays.collect::<Vec<_>>());
    while let Some(array) = stack.pop() {
        if !seen.insert(array.id()) {
            continue;
        }
        if matches!(array.definition(), Definition::Apply(Kernel::Element { .. })) {
            for axis in 0..array.rank() {
                let origins: Vec<Origin> = array.inputs().iter().map(|a| provenance.follow(a, axis, 0)).collect();
                for selected in &origins {
                    let Origin::Selected { dim: name } = selected else { continue };
                    let moved = |o: &Origin| match o {
                        Origin::Stored { dim, indices, .. } => dim == name && indices.is_some(),
                        Origin::Changed => true,
                        _ => false,
                    };
                    if origins.iter().any(moved) {
                        return Some(name.clone());
                    }
                }
            }
        }
        stack.extend(array.inputs().iter().cloned());
    }
    None
}

/// Follows axes; what was found is kept, since expressions share their parts.
#[derive(Default)]
pub(crate) struct Provenance {
    known: HashMap<(u64, usize), Origin>,
}

impl Provenance {
    /// The origin of an axis; what was selected has none of its own.
    pub fn of(&mut self, array: &Array, axis: usize) -> Origin {
        match self.follow(array, axis, 0) {
            Origin::Selected { .. } => Origin::Unknown,
            origin => origin,
        }
    }

    fn follow(&mut self, array: &Array, axis: usize, depth: usize) -> Origin {
        if let Some(known) = self.known.get(&(array.id(), axis)) {
            return known.clone();
        }
        if depth > MAX_DEPTH || axis >= array.rank() {
            return Origin::Unknown;
        }
        let found = self.look(array, axis, depth + 1);
        self.known.insert((array.id(), axis), found.clone());
        found
    }

    fn look(&mut self, array: &Array, axis: usize, depth: usize) -> Origin {
        let n = array.shape()[axis];
        let inputs = array.inputs();
        let kernel = match array.definition() {
            Definition::Stored(source) => {
                return match array.dims()[axis].clone() {
                    Some(dim) => Origin::Stored { url: source.url.clone(), dim, len: n, indices: None },
                    None => Origin::Unknown,
                };
            }
            Definition::Rechunk => return inputs.first().map_or(Origin::Unknown, |a| self.follow(a, axis, depth)),
            Definition::Apply(kernel) => kernel,
        };
        let Some(first) = inputs.first() else { return Origin::Unknown };
        match kernel {
            Kernel::Element { .. } => joined(inputs.iter().map(|a| self.follow(a, axis, depth)).collect()),
            Kernel::Cast => self.follow(first, axis, depth),
            Kernel::View { axes } => match axes.get(axis) {
                Some(ViewAxis::In(i)) if first.shape().get(*i) == Some(&n) => self.follow(first, *i, depth),
                _ => Origin::Unknown,
            },
            Kernel::Gather { axes, .. } => {
                let map = &axes[axis];
                let len = first.shape()[axis];
                match self.follow(first, axis, depth) {
                    Origin::Unknown if array.operation() == SELECTED && matches!(map, AxisMap::Take(_)) => {
                        array.dims()[axis].clone().map_or(Origin::Unknown, |dim| Origin::Selected { dim })
                    }
                    // `sel` takes groups for the labels of another axis.
                    Origin::Unknown if matches!(map, AxisMap::Take(_)) || *map == AxisMap::ALL => Origin::Unknown,
                    Origin::Unknown => Origin::Changed,
                    origin => origin.pick(n, |i| map.at(i, len)),
                }
            }
            Kernel::Concat { axis: along } if *along == axis => Origin::Changed,
            Kernel::Concat { .. } => joined(inputs.iter().map(|a| self.follow(a, axis, depth)).collect()),
            Kernel::Reduce { axes, .. } => match (0..first.rank()).filter(|i| !axes.contains(i)).nth(axis) {
                Some(i) => self.follow(first, i, depth),
                None => Origin::Unknown,
            },
            Kernel::Group { axis: by, .. } if *by == axis => Origin::Unknown,
            Kernel::Group { .. } => self.follow(first, axis, depth),
            Kernel::Contract(c) => {
                let label = c.out.get(axis);
                let sides = [&c.a, &c.b];
                let places = sides.iter().zip(inputs).filter_map(|(l, a)| l.iter().position(|x| Some(x) == label).map(|i| (a, i)));
                joined(places.map(|(a, i)| self.follow(a, i, depth)).collect())
            }
            Kernel::Stencil(s) => {
                let w = s.window.get(axis).copied().unwrap_or(1).max(1);
                let middle = if array.operation() == "convolve" { (w - 1) / 2 } else { w / 2 };
                self.follow(first, axis, depth).pick(n, |i| Some(i + middle))
            }
            Kernel::Create { .. } | Kernel::Reshape | Kernel::Qr(_) => Origin::Unknown,
        }
    }
}
