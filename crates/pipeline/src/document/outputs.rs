//! The outputs of a pipeline file.

use super::{ChunkSpec, Dim, Output, Reader, Result1};
use crate::Spanned;
use crate::node::{Data, Node};
use std::collections::BTreeMap;

const KNOWN: [&str; 6] = ["array", "chunks", "shards", "codec", "dims", "attributes"];

/// What an output may say in the words of the metadata of Zarr.
pub const ENCODING: [&str; 12] = [
    "codecs",
    "dtype",
    "fill_value",
    "chunk_key_encoding",
    "zarr_format",
    "compressor",
    "filters",
    "order",
    "dimension_separator",
    "scale_factor",
    "add_offset",
    "_FillValue",
];

impl Reader<'_> {
    pub(super) fn output(&self, key: &Node, node: &Node) -> Result1<Output> {
        let url = Spanned::new(key.raw.clone(), key.span.clone());
        if url.value.trim().is_empty() {
            return Err(self.error(&url.span, "the location of an output is empty", "this key"));
        }
        let (mut array, mut chunks, mut shards, mut codec, mut dims) = (None, None, None, None, None);
        let mut attributes = serde_json::Map::new();
        let mut encoding = BTreeMap::new();
        let known = [&KNOWN[..], &ENCODING[..]].concat();
        if matches!(node.data, Data::Map(_)) {
            for (key, v) in self.fields(node, &known, "an output")? {
                match key {
                    "array" => array = Some(self.expression(v)?),
                    "chunks" => chunks = Some(self.chunks(v, key)?),
                    "shards" => shards = Some(self.chunks(v, key)?),
                    "codec" => codec = Some(self.string(v, "'codec'")?),
                    "dims" => dims = Some(self.dims(v)?),
                    "attributes" => {
                        let entries = match v.data {
                            Data::Map(_) | Data::Null => self.map(v, "'attributes'")?,
                            _ => return Err(self.wrong(v, "'attributes'", "a mapping").with_help("write `attributes: {units: K}`")),
                        };
                        for (k, v) in entries {
                            if attributes.insert(k.raw.clone(), v.to_json()).is_some() {
                                return Err(self.error(&k.span, format!("the attribute '{}' is given twice", k.raw), "given again here"));
                            }
                        }
                    }
                    _ => {
                        encoding.insert(key, Spanned::new(v.to_json(), v.span.clone()));
                    }
                }
            }
        } else {
            array = Some(self.expression(node)?);
        }
        let missing = || self.error(&url.span, format!("the output '{}' has no 'array'", url.value), "this output");
        let (array, expr, map) = array.ok_or_else(missing)?;
        Ok(Output { url, array, expr, map, chunks, shards, codec, encoding, dims, attributes })
    }

    fn dims(&self, node: &Node) -> Result1<Spanned<Vec<String>>> {
        let Data::Seq(items) = &node.data else { return Err(self.wrong(node, "'dims'", "a list of names")) };
        let mut out: Vec<String> = Vec::new();
        for item in items {
            let name = self.string(item, "the name of a dimension")?.value;
            if name.contains('/') || out.contains(&name) {
                return Err(self.error(&item.span, format!("'{name}' is given twice, or holds a slash"), "this name"));
            }
            out.push(name);
        }
        Ok(Spanned::new(out, node.span.clone()))
    }

    fn chunks(&self, node: &Node, what: &str) -> Result1<ChunkSpec> {
        let length = |v: &Node| match v.data {
            Data::Int(n) if n == -1 || (1..=i64::MAX as i128).contains(&n) => Ok(n as i64),
            _ => Err(self.error(
                &v.span,
                format!("a length in '{what}' must be a positive integer, or -1 for the whole dimension"),
                "this length",
            )),
        };
        if let Data::Seq(items) = &node.data {
            let of = items.len();
            let dim = |(place, v): (usize, &Node)| Ok((Spanned::new(Dim::Place { place, of }, v.span.clone()), length(v)?));
            return items.iter().enumerate().map(dim).collect();
        }
        let mut out: ChunkSpec = Vec::new();
        if !matches!(node.data, Data::Map(_) | Data::Null) {
            let e = self.wrong(node, &format!("'{what}'"), "lengths by dimension");
            return Err(e.with_help(format!(
                "write `{what}: {{time: 100}}`, or a list with a length for each dimension; leave it out for lengths that are chosen"
            )));
        }
        for (k, v) in self.map(node, &format!("'{what}'"))? {
            let dim = k.raw.parse().map_or_else(|_| Dim::Name(k.raw.clone()), Dim::Number);
            if out.iter().any(|(d, _)| d.value == dim) {
                return Err(self.error(&k.span, format!("the dimension '{}' is given twice", k.raw), "given again here"));
            }
            if out.len() >= 64 {
                return Err(self.error(&k.span, "an array has at most 64 dimensions", "one too many"));
            }
            out.push((Spanned::new(dim, k.span.clone()), length(v)?));
        }
        Ok(out)
    }
}
