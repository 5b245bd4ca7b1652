//! `chunkwise info`: shows what a store contains, as text or as JSON.

use crate::failure::say;
use crate::out::out;
use chunkwise::ByteSize;
use chunkwise::executor::groups::{MAX_COORDINATE, read_coord};
use chunkwise::ops::Coord;
use chunkwise::storage::{ArrayIo, ArrayMeta, Location, NodeKind, SmallArray, Stores, TreeNode, Values, list_tree, read_small};
use chunkwise::types::volume;
use miette::{Report, miette};
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// The largest number of letters of an attribute in the text output.
const MAX_LETTERS: usize = 100;

/// The size of an array, or of all arrays below a group.
#[derive(Default, Clone, Copy)]
struct Size {
    bytes: u64,
    stored: u64,
    objects: u64,
    /// The store cannot be listed.
    unknown: bool,
}

impl Size {
    fn add(&mut self, other: Size) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.stored += other.stored;
        self.objects += other.objects;
        self.unknown |= other.unknown;
    }

    /// Decoded bytes divided by stored bytes; `None` if nothing is stored.
    fn ratio(self) -> Option<f64> {
        (self.stored > 0).then(|| self.bytes as f64 / self.stored as f64)
    }

    fn text(self, chunks: Option<u64>) -> String {
        if self.unknown {
            return format!("{}, how much of it is stored is not known", ByteSize(self.bytes));
        }
        let objects = match chunks {
            Some(n) if n != self.objects => format!("{} of {n} objects", self.objects),
            _ if self.objects == 1 => "1 object".into(),
            _ => format!("{} objects", self.objects),
        };
        let ratio = self.ratio().map(|r| format!(" (ratio {r:.1})")).unwrap_or_default();
        format!("{} stored as {} in {objects}{ratio}", ByteSize(self.bytes), ByteSize(self.stored))
    }
}

fn size(stores: &Stores, at: &Location, meta: &ArrayMeta) -> Result<Size, Report> {
    let bytes = volume(&meta.shape).saturating_mul(meta.stored_dtype().1);
    let io = ArrayIo::new(stores, at, meta).map_err(say)?;
    if !io.store().can_list() {
        return Ok(Size { bytes, unknown: true, ..Size::default() });
    }
    let chunks = io.stored_chunks().map_err(say)?;
    Ok(Size { bytes, stored: chunks.values().sum(), objects: chunks.len() as u64, unknown: false })
}

/// The codecs in the metadata, in their order, without those that follow from the dtype.
fn codecs(meta: &ArrayMeta) -> Vec<Value> {
    match meta.metadata.get("codecs").and_then(Value::as_array) {
        Some(list) => list.clone(),
        None => {
            let filters = meta.metadata.get("filters").and_then(Value::as_array).cloned().unwrap_or_default();
            filters.into_iter().chain(meta.metadata.get("compressor").filter(|c| !c.is_null()).cloned()).collect()
        }
    }
}

/// A codec as in `blosc (cname lz4, clevel 5)`, and its inner codecs.
fn codec_text(codec: &Value) -> String {
    let name = codec.as_str().or_else(|| codec.get("name").or(codec.get("id")).and_then(Value::as_str)).unwrap_or("unknown");
    let settings = codec.get("configuration").unwrap_or(codec).as_object();
    let mut parts = Vec::new();
    for (key, value) in settings.into_iter().flatten() {
        match (key.as_str(), value) {
            ("codecs", Value::Array(inner)) => parts.push(inner.iter().map(codec_text).collect::<Vec<_>>().join(", ")),
            // These are shown elsewhere, or are of no interest.
            ("name" | "id" | "configuration" | "chunk_shape" | "index_codecs" | "typesize" | "blocksize", _) => {}
            ("endian", Value::String(s)) => parts.push(format!("{s} endian")),
            (_, Value::String(s)) => parts.push(format!("{key} {s}")),
            _ => parts.push(format!("{key} {value}")),
        }
    }
    if parts.is_empty() { name.into() } else { format!("{name} ({})", parts.join(", ")) }
}

fn lengths(shape: &[u64]) -> String {
    let all: Vec<String> = shape.iter().map(u64::to_string).collect();
    if all.is_empty() { "one element".into() } else { all.join(" x ") }
}

fn attributes_text(out: &mut String, attributes: &Map<String, Value>, indent: &str) {
    for (key, value) in attributes.iter().filter(|(k, _)| *k != "_ARRAY_DIMENSIONS") {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_string);
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let cut = if flat.chars().count() > MAX_LETTERS { flat.chars().take(MAX_LETTERS).chain("...".chars()).collect() } else { flat };
        let _ = writeln!(out, "{indent}{key}: {cut}");
    }
}

/// The lengths of the axes, with their names.
fn shape_text(shape: &[u64], names: Option<&Vec<Option<String>>>) -> String {
    let dim = |(i, n): (usize, &u64)| match names.and_then(|d| d.get(i)?.as_ref()) {
        Some(name) => format!("{name} {n}"),
        None => n.to_string(),
    };
    if shape.is_empty() { "one element".into() } else { shape.iter().enumerate().map(dim).collect::<Vec<_>>().join(" x ") }
}

/// The largest coordinate, in elements, whose labels are shown.
const MOST_LABELS: u64 = 1 << 20;
/// The largest number of labels of which all are shown.
const MAX_LABELS: usize = 8;

/// The labels of a coordinate as a person would write them. Times are dates.
struct Shown {
    labels: Vec<String>,
    calendar: Option<String>,
}

impl Shown {
    /// For an array that is the coordinate of its own dimension, or that contains a few times.
    fn of(stores: &Stores, at: &Location, name: &str, m: &ArrayMeta) -> Option<Shown> {
        let own = m.dimension_names.as_ref().is_some_and(|d| matches!(&d[..], [Some(d)] if d == name));
        let time = m.attributes.get("units").and_then(Value::as_str).is_some_and(|u| u.contains(" since "));
        (own || time && m.shape.len() < 2).then_some(())?;
        (volume(&m.shape) <= MOST_LABELS).then_some(())?;
        Shown::of_coord(&read_coord(stores, at).ok().flatten()?)
    }

    fn of_coord(coord: &Coord) -> Option<Shown> {
        let named = Some(coord.text_attribute("calendar")).filter(|c| !c.is_empty()).unwrap_or("standard");
        let calendar = coord.dates().map(|_| named.to_string());
        Some(Shown { labels: coord.shown(), calendar }).filter(|s| !s.labels.is_empty())
    }

    fn text(&self) -> String {
        let labels = match &self.labels[..] {
            [first, .., last] if self.labels.len() > MAX_LABELS => format!("from {first} to {last}"),
            few => few.join(", "),
        };
        match &self.calendar {
            Some(c) => format!("{labels} (calendar {c})"),
            None => labels,
        }
    }

    fn json(&self) -> Value {
        json!({ "first": self.labels.first(), "last": self.labels.last(), "calendar": self.calendar })
    }
}

/// An array of texts, such as the names of seasons.
fn texts(stores: &Stores, at: &Location) -> Option<SmallArray> {
    read_small(stores, at, MAX_COORDINATE).ok().flatten().filter(|a| matches!(a.values, Values::Text(_)))
}

fn array_text(name: &str, m: &ArrayMeta, size: Size, shown: Option<&Shown>) -> String {
    let shape = shape_text(&m.shape, m.dimension_names.as_ref());
    let mut out = format!("{name}  {} {shape}\n", m.stored_dtype().0);
    let counts: u64 = m.grid.count();
    let cut = match &m.inner_chunk {
        Some(inner) => format!("chunks {} in shards {}", lengths(inner), lengths(&m.grid.max_shape())),
        None => format!("chunks {}", lengths(&m.grid.max_shape())),
    };
    let codecs: Vec<String> = codecs(m).iter().map(codec_text).collect();
    let fill = m.metadata.get("fill_value").map(|v| v.to_string().replace('"', "")).unwrap_or_else(|| "none".into());
    let _ = writeln!(out, "    {cut}, {}", size.text(Some(counts)));
    let codecs = if codecs.is_empty() { "none".into() } else { codecs.join(", ") };
    let _ = writeln!(out, "    Zarr v{}, codecs {codecs}, fill value {fill}", m.zarr_format);
    if let Some(s) = shown {
        let _ = writeln!(out, "    labels {}", s.text());
    }
    attributes_text(&mut out, &m.attributes, "    ");
    out
}

fn array_json(name: &str, m: &ArrayMeta, size: Size, shown: Option<&Shown>) -> Value {
    json!({
        "path": name, "kind": "array", "dtype": m.stored_dtype().0, "shape": m.shape, "dimension_names": m.dimension_names,
        "chunks": m.inner_chunk.clone().unwrap_or_else(|| m.grid.max_shape()),
        "shards": m.inner_chunk.as_ref().map(|_| m.grid.max_shape()),
        "grid": m.grid.to_string(), "zarr_format": m.zarr_format, "codecs": codecs(m), "fill_value": m.metadata.get("fill_value"),
        "bytes": size.bytes, "stored_bytes": size.stored, "ratio": size.ratio(),
        "objects": m.grid.count(), "stored_objects": size.objects, "attributes": m.attributes,
        "labels": shown.map(Shown::json),
    })
}

/// True if a node lies below a group (both as paths from the root).
fn below(path: &str, group: &str) -> bool {
    group.is_empty() || path.strip_prefix(group).is_some_and(|rest| rest.starts_with('/'))
}

pub(crate) fn info(stores: &Stores, url: &str, as_json: bool) -> Result<(), Report> {
    let root = Location::parse(url, None).map_err(say)?;
    let nodes = list_tree(stores, &root).map_err(|e| crate::commands::not_there(stores, &root, e.into()))?;
    let sizes: Vec<Size> = nodes
        .iter()
        .map(|n| match &n.kind {
            NodeKind::Array(Ok(m)) => size(stores, &root.join(&n.path), m),
            _ => Ok(Size::default()),
        })
        .collect::<Result<_, _>>()?;
    let arrays_below = |group: &TreeNode| {
        let (mut count, mut total) = (0u64, Size::default());
        for (n, s) in nodes.iter().zip(&sizes) {
            if matches!(n.kind, NodeKind::Array(_)) && below(&n.path, &group.path) {
                count += 1;
                total.add(*s);
            }
        }
        (count, total)
    };
    let mut rows = Vec::new();
    let mut text = String::new();
    for (node, size) in nodes.iter().zip(&sizes) {
        let name = if node.path.is_empty() { "/" } else { node.path.as_str() };
        match &node.kind {
            NodeKind::Group(attributes) => {
                let (count, total) = arrays_below(node);
                rows.push(json!({
                    "path": name, "kind": "group", "attributes": attributes, "arrays": count,
                    "bytes": total.bytes, "stored_bytes": total.stored, "ratio": total.ratio(), "stored_objects": total.objects,
                }));
                let arrays = if count == 1 { "1 array".to_string() } else { format!("{count} arrays") };
                let _ = writeln!(text, "{name}  group of {arrays}, {}", total.text(None));
                attributes_text(&mut text, attributes, "    ");
            }
            NodeKind::Array(Err(e)) => {
                let Some(small) = texts(stores, &root.join(&node.path)) else {
                    rows.push(json!({"path": name, "kind": "array", "error": e}));
                    let _ = writeln!(text, "{name}  cannot be read: {e}");
                    continue;
                };
                let shown = read_coord(stores, &root.join(&node.path)).ok().flatten().and_then(|c| Shown::of_coord(&c));
                rows.push(json!({
                    "path": name, "kind": "array", "dtype": "string", "shape": small.shape, "dimension_names": small.dims,
                    "attributes": small.attributes, "labels": shown.as_ref().map(Shown::json),
                }));
                let _ = writeln!(text, "{name}  text {}", shape_text(&small.shape, Some(&small.dims)));
                if let Some(s) = shown {
                    let _ = writeln!(text, "    labels {}", s.text());
                }
                attributes_text(&mut text, &small.attributes, "    ");
            }
            NodeKind::Array(Ok(m)) => {
                let last = node.path.rsplit('/').next().unwrap_or_default();
                let shown = Shown::of(stores, &root.join(&node.path), last, m);
                rows.push(array_json(name, m, *size, shown.as_ref()));
                text.push_str(&array_text(name, m, *size, shown.as_ref()));
            }
        }
    }
    if as_json {
        text = serde_json::to_string_pretty(&rows).map_err(|e| miette!("{e}"))? + "\n";
    }
    out!("{text}");
    Ok(())
}
