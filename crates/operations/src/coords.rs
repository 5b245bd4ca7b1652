//! Coordinates: the labels of an array's axes, which move as its elements do.
//!
//! A coordinate is a small array in memory over some of the array's named dimensions. One that has the name of its only dimension is
//! that dimension's *index*; operands meet by it. Others are auxiliary: scalar, along one dimension, along several, or the bounds of
//! another coordinate. [`follow`] says what each kernel does to them, so an operation has nothing to do unless its rule is another.

use crate::{Array, calendar};
use chunkwise_kernels::{AxisMap, ElementOp, Kernel, ViewAxis};
use chunkwise_types::DType;
use serde_json::{Map, Value};
use std::sync::Arc;

/// The elements of a coordinate in C order.
#[derive(Debug, Clone, PartialEq)]
pub enum Labels {
    /// Numbers, in native byte order.
    Numbers {
        /// Element type.
        dtype: DType,
        /// The elements.
        bytes: Vec<u8>,
    },
    /// Texts.
    Text(Vec<String>),
    /// There were labels, but some elements have none of them: they come from padding, or from several places at once.
    Lost,
}

/// A coordinate of an array.
#[derive(Debug, Clone, PartialEq)]
pub struct Coord {
    /// Its name.
    pub name: String,
    /// The dimensions that it varies along.
    pub dims: Vec<String>,
    /// The length of each.
    pub shape: Vec<u64>,
    /// Its elements.
    pub labels: Labels,
    /// Units, calendar, long name and so on.
    pub attributes: Map<String, Value>,
    /// The last dimension belongs to the coordinate alone, as that of the bounds of cells does.
    pub bounds: bool,
}

/// Coordinates, shared between the arrays that have them.
pub type Coords = Vec<Arc<Coord>>;

/// Where two coordinates differ.
#[derive(Debug, Clone, PartialEq)]
pub enum Difference {
    /// In their number of labels.
    Length(u64, u64),
    /// At this index, where one has the first and the other the second label.
    Label(u64, String, String),
    /// In their calendars.
    Calendar(String, String),
    /// In what they are: the dimensions, numbers or texts.
    Kind,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Difference::Length(a, b) => write!(f, "one has {a} labels, the other {b}"),
            Difference::Label(i, a, b) => write!(f, "at index {i} one is {a}, the other {b}"),
            Difference::Calendar(a, b) => write!(f, "one has the calendar '{a}', the other '{b}'"),
            Difference::Kind => f.write_str("they are of different kinds or along different dimensions"),
        }
    }
}

impl Coord {
    /// A coordinate of numbers along one dimension.
    pub fn numbers(name: &str, dim: &str, dtype: DType, bytes: Vec<u8>, attributes: Map<String, Value>) -> Coord {
        let shape = vec![bytes.len() as u64 / dtype.size()];
        let labels = Labels::Numbers { dtype, bytes };
        Coord { name: name.into(), dims: vec![dim.into()], shape, labels, attributes, bounds: false }
    }

    /// A coordinate of int64 along the dimension of its own name.
    pub fn integers(name: &str, values: &[i64], attributes: Map<String, Value>) -> Coord {
        Coord::numbers(name, name, DType::Int64, values.iter().flat_map(|v| v.to_ne_bytes()).collect(), attributes)
    }

    /// A coordinate of texts along the dimension of its own name.
    pub fn texts(name: &str, values: Vec<String>) -> Coord {
        let (shape, labels) = (vec![values.len() as u64], Labels::Text(values));
        Coord { name: name.into(), dims: vec![name.into()], shape, labels, attributes: Map::new(), bounds: false }
    }

    /// True if it is the index of a dimension.
    pub fn is_index(&self) -> bool {
        self.dims.len() == 1 && self.dims[0] == self.name && !self.bounds
    }

    /// The dimensions that are those of an array.
    pub fn own_dims(&self) -> &[String] {
        &self.dims[..self.dims.len() - usize::from(self.bounds && !self.dims.is_empty())]
    }

    /// The number of labels.
    pub fn len(&self) -> u64 {
        chunkwise_types::volume(&self.shape)
    }

    /// True if it has no labels.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An attribute that is a text.
    pub fn text_attribute(&self, name: &str) -> &str {
        self.attributes.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// True if it holds times by the CF conventions: numbers `since` a date.
    pub fn is_time(&self) -> bool {
        matches!(self.labels, Labels::Numbers { .. }) && self.text_attribute("units").to_ascii_lowercase().contains(" since ")
    }

    /// The numbers as float64; `None` of texts and lost labels.
    pub fn floats(&self) -> Option<Vec<f64>> {
        let Labels::Numbers { dtype, bytes } = &self.labels else { return None };
        let of = |e: &[u8]| -> Option<f64> {
            Some(match dtype {
                DType::Bool | DType::UInt8 => f64::from(*e.first()?),
                DType::Int8 => f64::from(*e.first()? as i8),
                DType::Int16 => f64::from(i16::from_ne_bytes(e.try_into().ok()?)),
                DType::UInt16 => f64::from(u16::from_ne_bytes(e.try_into().ok()?)),
                DType::Int32 => f64::from(i32::from_ne_bytes(e.try_into().ok()?)),
                DType::UInt32 => f64::from(u32::from_ne_bytes(e.try_into().ok()?)),
                DType::Int64 => i64::from_ne_bytes(e.try_into().ok()?) as f64,
                DType::UInt64 => u64::from_ne_bytes(e.try_into().ok()?) as f64,
                DType::Float32 => f64::from(f32::from_ne_bytes(e.try_into().ok()?)),
                DType::Float64 => f64::from_ne_bytes(e.try_into().ok()?),
                _ => return None,
            })
        };
        bytes.chunks_exact(dtype.size() as usize).map(of).collect()
    }

    /// The dates that it stands for; `None` if it is not of times, or they cannot be read.
    pub fn dates(&self) -> Option<Vec<calendar::DateTime>> {
        let values = self.floats().filter(|_| self.is_time())?;
        calendar::decode(&values, self.text_attribute("units"), self.text_attribute("calendar")).ok()
    }

    /// Each label as a person would write it.
    pub fn shown(&self) -> Vec<String> {
        match &self.labels {
            Labels::Text(list) => list.iter().map(|t| format!("\"{t}\"")).collect(),
            Labels::Lost => vec!["unknown".into(); self.len().min(1 << 20) as usize],
            Labels::Numbers { dtype, bytes } => match self.dates() {
                Some(dates) => dates.iter().map(|d| d.to_string()).collect(),
                None if *dtype == DType::Int64 => {
                    bytes.chunks_exact(8).map(|b| b.try_into().map_or(0, i64::from_ne_bytes).to_string()).collect()
                }
                None => self.floats().unwrap_or_default().iter().map(f64::to_string).collect(),
            },
        }
    }

    /// In a few words, for messages: `time: 132 labels from 1982-01-15 to 1992-12-15`.
    pub fn summary(&self) -> String {
        let list = if self.dims.len() < 2 { self.shown() } else { Vec::new() };
        match (&self.labels, &list[..]) {
            (Labels::Lost, _) => format!("'{}' without labels", self.name),
            (_, []) => format!("'{}' with {} labels", self.name, self.len()),
            (_, [one]) => format!("'{}' = {one}", self.name),
            (_, [first, .., last]) => format!("'{}' with {} labels from {first} to {last}", self.name, list.len()),
        }
    }

    /// Where it differs from another of the same name. Times are compared as dates if their units differ.
    pub fn difference(&self, other: &Coord) -> Option<Difference> {
        if self.dims != other.dims {
            return Some(Difference::Kind);
        }
        if self.is_time() && other.is_time() && !calendar::alike(self.text_attribute("calendar"), other.text_attribute("calendar")) {
            let of = |c: &Coord| Some(c.text_attribute("calendar")).filter(|c| !c.is_empty()).unwrap_or("standard").to_string();
            return Some(Difference::Calendar(of(self), of(other)));
        }
        if self.shape != other.shape {
            return Some(Difference::Length(self.len(), other.len()));
        }
        let same_units = ["units", "calendar"].iter().all(|k| self.text_attribute(k) == other.text_attribute(k));
        let first = match (&self.labels, &other.labels) {
            (Labels::Numbers { dtype: a, bytes: x }, Labels::Numbers { dtype: b, bytes: y }) => {
                if a == b && x == y && (same_units || !self.is_time() && !other.is_time()) {
                    return None;
                }
                let same = |p: f64, q: f64| p == q || (p.is_nan() && q.is_nan());
                match (self.dates(), other.dates()) {
                    (Some(p), Some(q)) if !same_units => p.iter().zip(&q).position(|(p, q)| p != q),
                    _ if a == b && a.is_integer() => {
                        let size = a.size() as usize;
                        x.chunks_exact(size).zip(y.chunks_exact(size)).position(|(p, q)| p != q)
                    }
                    _ => match (self.floats(), other.floats()) {
                        (Some(p), Some(q)) => p.iter().zip(&q).position(|(p, q)| !same(*p, *q)),
                        _ => (x != y).then_some(0),
                    },
                }
            }
            (Labels::Text(x), Labels::Text(y)) => x.iter().zip(y).position(|(p, q)| p != q),
            (Labels::Lost, Labels::Lost) => return None,
            _ => return Some(Difference::Kind),
        };
        first.map(|i| {
            let of = |c: &Coord| c.shown().get(i).cloned().unwrap_or_default();
            Difference::Label(i as u64, of(self), of(other))
        })
    }

    /// The labels of these indices along a dimension; an index that is `None` has none.
    pub fn take(&self, dim: &str, list: &[Option<u64>]) -> Coord {
        let Some(axis) = self.dims.iter().position(|d| d == dim) else { return self.clone() };
        let n = self.shape[axis] as usize;
        let mut out = Coord { labels: Labels::Lost, ..self.clone() };
        out.shape[axis] = list.len() as u64;
        let Some(list) = list.iter().map(|i| i.filter(|i| (*i as usize) < n).map(|i| i as usize)).collect::<Option<Vec<usize>>>() else {
            return out;
        };
        let inner = self.shape[axis + 1..].iter().product::<u64>() as usize;
        let outer = self.shape[..axis].iter().product::<u64>() as usize;
        out.labels = match &self.labels {
            Labels::Numbers { dtype, bytes } => {
                let row = inner * dtype.size() as usize;
                let mut picked = Vec::with_capacity(outer * list.len() * row);
                for o in 0..outer {
                    for &i in &list {
                        picked.extend_from_slice(bytes.get((o * n + i) * row..(o * n + i + 1) * row).unwrap_or_default());
                    }
                }
                Labels::Numbers { dtype: *dtype, bytes: picked }
            }
            Labels::Text(texts) => {
                let at = |o: usize, i: usize| texts.get((o * n + i) * inner..(o * n + i + 1) * inner).unwrap_or_default();
                Labels::Text((0..outer).flat_map(|o| list.iter().flat_map(move |&i| at(o, i))).cloned().collect())
            }
            Labels::Lost => Labels::Lost,
        };
        out
    }

    /// A dimension of length 1 left out: an index becomes a scalar coordinate.
    fn squeezed(&self, dim: &str) -> Coord {
        let mut out = self.clone();
        if let Some(axis) = out.dims.iter().position(|d| d == dim).filter(|&i| out.shape[i] == 1) {
            out.dims.remove(axis);
            out.shape.remove(axis);
        }
        out
    }

    /// Under other names of dimensions; an index follows the name of its dimension.
    pub fn renamed(&self, new: &dyn Fn(&str) -> Option<String>) -> Coord {
        let mut out = self.clone();
        if let Some(name) = new(&self.name).filter(|_| self.is_index()) {
            out.name = name;
        }
        for d in &mut out.dims {
            if let Some(name) = new(d) {
                *d = name;
            }
        }
        out
    }

    /// Several one after another along a dimension. Times in other units are told in those of the first. `None` if they do not fit.
    pub fn concat(parts: &[&Coord], dim: &str) -> Option<Coord> {
        let first = parts.first()?;
        let axis = first.dims.iter().position(|d| d == dim)?;
        let mut out = (*first).clone();
        if parts.iter().any(|p| p.labels == Labels::Lost) {
            out.labels = Labels::Lost;
            out.shape[axis] = parts.iter().map(|p| p.shape.get(axis).copied().unwrap_or(0)).sum();
            return Some(out);
        }
        let fits =
            |p: &&&Coord| p.dims == first.dims && p.shape.iter().zip(&first.shape).enumerate().all(|(i, (a, b))| i == axis || a == b);
        if !parts.iter().all(|p| fits(&p)) {
            return None;
        }
        out.shape[axis] = parts.iter().map(|p| p.shape[axis]).sum();
        // Rows of the parts follow each other for each index of the axes before.
        let outer = first.shape[..axis].iter().product::<u64>() as usize;
        fn woven<T: Clone>(parts: &[Vec<T>], outer: usize) -> Vec<T> {
            let rows = |o: usize| {
                parts.iter().flat_map(move |p| {
                    let row = p.len() / outer.max(1);
                    p[o * row..(o + 1) * row].iter().cloned()
                })
            };
            (0..outer).flat_map(rows).collect()
        }
        let units = |c: &Coord| (c.text_attribute("units").to_string(), c.text_attribute("calendar").to_string());
        let alike = parts.iter().all(|p| units(p) == units(first) || !(p.is_time() || first.is_time()));
        out.labels = match &first.labels {
            Labels::Text(_) => {
                let texts = |p: &&Coord| if let Labels::Text(t) = &p.labels { Some(t.clone()) } else { None };
                Labels::Text(woven(&parts.iter().map(texts).collect::<Option<Vec<_>>>()?, outer))
            }
            Labels::Numbers { dtype, .. } => {
                let raw = |p: &&Coord| match &p.labels {
                    Labels::Numbers { dtype: d, bytes } if d == dtype => Some(bytes.clone()),
                    _ => None,
                };
                match parts.iter().map(raw).collect::<Option<Vec<_>>>().filter(|_| alike) {
                    Some(list) => Labels::Numbers { dtype: *dtype, bytes: woven(&list, outer) },
                    None => {
                        let (to, calendar) = units(first);
                        let told = |p: &&Coord| {
                            let values = p.floats()?;
                            let (from, other) = units(p);
                            if from == to { Some(values) } else { calendar::convert(&values, &from, &other, &to, &calendar).ok() }
                        };
                        let all = woven(&parts.iter().map(told).collect::<Option<Vec<_>>>()?, outer);
                        Labels::Numbers { dtype: DType::Float64, bytes: all.iter().flat_map(|v| v.to_ne_bytes()).collect() }
                    }
                }
            }
            Labels::Lost => Labels::Lost,
        };
        Some(out)
    }
}

/// The coordinates of several arrays together: those that agree. Of an index that differs the labels are lost; an auxiliary coordinate that
/// differs is left out, as in xarray. Lost labels give way to those that are known.
pub fn merge<'a>(lists: impl IntoIterator<Item = &'a Coords>) -> Coords {
    let mut out: Vec<Option<Arc<Coord>>> = Vec::new();
    for c in lists.into_iter().flatten() {
        let Some(slot) = out.iter_mut().find(|o| o.as_ref().is_some_and(|o| o.name == c.name)) else {
            out.push(Some(c.clone()));
            continue;
        };
        let Some(have) = slot.clone() else { continue };
        if Arc::ptr_eq(&have, c) {
            continue;
        }
        match (&have.labels, &c.labels) {
            (Labels::Lost, _) => *slot = Some(c.clone()),
            (_, Labels::Lost) => {}
            // Against a length of 1 the other is broadcast.
            // What `u[0]` has of the labels of `u`: the index stays.
            _ if have.is_index() && c.dims.is_empty() => {}
            _ if c.is_index() && have.dims.is_empty() => *slot = Some(c.clone()),
            _ if have.is_index() && c.is_index() && have.len() != c.len() => {
                if have.len() == 1 {
                    *slot = Some(c.clone());
                }
            }
            _ if have.difference(c).is_none() => {}
            _ if have.is_index() => *slot = Some(Arc::new(Coord { labels: Labels::Lost, ..(*have).clone() })),
            _ => *slot = None,
        }
    }
    out.into_iter().flatten().collect()
}

/// Those along dimensions that an array has, in their length.
pub(crate) fn fitting(coords: Coords, dims: &[Option<String>], shape: &[u64]) -> Coords {
    let has = |d: &String, n: u64| dims.iter().zip(shape).any(|(x, len)| x.as_ref() == Some(d) && *len == n);
    coords.into_iter().filter(|c| c.own_dims().iter().zip(&c.shape).all(|(d, n)| has(d, *n))).collect()
}

/// The coordinates picked along one axis.
pub(crate) fn picked(coords: Coords, dim: &str, len: u64, at: &dyn Fn(u64) -> Option<u64>) -> Coords {
    if !coords.iter().any(|c| c.dims.iter().any(|d| d == dim)) {
        return coords;
    }
    let list: Vec<Option<u64>> = (0..len).map(at).collect();
    let one = |c: Arc<Coord>| if c.dims.iter().any(|d| d == dim) { Arc::new(c.take(dim, &list)) } else { c };
    coords.into_iter().map(one).collect()
}

/// The coordinates of what a kernel makes, whose axes have these names and lengths.
pub(crate) fn follow(kernel: &Kernel, inputs: &[&Array], dims: &[Option<String>], shape: &[u64]) -> Coords {
    if inputs.iter().all(|a| a.coords().is_empty()) {
        return Coords::new();
    }
    let Some(first) = inputs.first() else { return Coords::new() };
    // A choice is of the values, not of what they are chosen by.
    let first_choice = usize::from(matches!(kernel, Kernel::Element { function: ElementOp::Where }));
    let all = || merge(inputs.iter().cycle().skip(first_choice).take(inputs.len()).map(|a| a.coords()));
    let coords = match kernel {
        Kernel::Create { .. } => Coords::new(),
        Kernel::Element { .. } => all(),
        // Those along axes that are summed over say nothing any more.
        Kernel::Contract(c) => {
            let left = |a: &Array, labels: &[u32]| -> Coords {
                let named = |l: &u32, d: &String| c.out.iter().zip(dims).any(|(o, n)| o == l && n.as_ref() == Some(d));
                let stays = |d: &String| a.axis_named(d).and_then(|i| labels.get(i)).is_some_and(|l| named(l, d));
                a.coords().iter().filter(|c| c.own_dims().iter().all(stays)).cloned().collect()
            };
            let lists: Vec<Coords> = inputs.iter().zip([&c.a, &c.b]).map(|(a, labels)| left(a, labels)).collect();
            merge(&lists)
        }
        // Which element a window is around, the operation knows: it says what the labels are.
        Kernel::Cast | Kernel::Reduce { .. } | Kernel::Reshape | Kernel::Qr(_) | Kernel::Stencil(_) | Kernel::Scan(_) => {
            first.coords().clone()
        }
        Kernel::Call(_) => merge(inputs.iter().map(|a| a.coords())),
        Kernel::View { axes } => {
            let mut out = first.coords().clone();
            for (i, dim) in first.dims().iter().enumerate() {
                let Some(dim) = dim.as_ref().filter(|_| !axes.contains(&ViewAxis::In(i)) && first.shape()[i] == 1) else { continue };
                for c in out.iter_mut().filter(|c| c.dims.contains(dim)) {
                    *c = Arc::new(c.squeezed(dim));
                }
            }
            out
        }
        Kernel::Gather { axes, .. } => {
            let mut out = first.coords().clone();
            for (i, map) in axes.iter().enumerate() {
                let (n, len) = (first.shape()[i], shape.get(i).copied().unwrap_or(0));
                if let Some(dim) = first.dims()[i].as_ref().filter(|_| *map != AxisMap::ALL || n != len) {
                    out = picked(out, dim, len, &|k| map.at(k, n));
                }
            }
            out
        }
        // An operation names the points, and says what their labels are.
        Kernel::Points(_) => Coords::new(),
        // Those of the positions say where each element is now.
        Kernel::Lookup { .. } => inputs.last().map(|positions| positions.coords().clone()).unwrap_or_default(),
        Kernel::Group { axis, .. } => {
            let gone = first.dims().get(*axis).cloned().flatten();
            first.coords().iter().filter(|c| !gone.as_ref().is_some_and(|d| c.dims.contains(d))).cloned().collect()
        }
        Kernel::Concat { axis } => match dims.get(*axis).cloned().flatten() {
            None => all(),
            Some(dim) => {
                let along = |c: &Arc<Coord>| c.dims.contains(&dim);
                let rest: Vec<Coords> = inputs.iter().map(|a| a.coords().iter().filter(|c| !along(c)).cloned().collect()).collect();
                let mut out = merge(&rest);
                for c in first.coords().iter().filter(|c| along(c)) {
                    let parts: Option<Vec<&Coord>> = inputs.iter().map(|a| a.coord(&c.name).map(|c| &**c)).collect();
                    match parts.and_then(|p| Coord::concat(&p, &dim)) {
                        Some(joined) => out.push(Arc::new(joined)),
                        None if c.is_index() => {
                            let shape = vec![shape.get(*axis).copied().unwrap_or(0)];
                            out.push(Arc::new(Coord { labels: Labels::Lost, shape, ..(**c).clone() }));
                        }
                        None => {}
                    }
                }
                out
            }
        },
    };
    fitting(coords, dims, shape)
}
