//! One tree of values with byte spans, read from YAML, JSON or TOML.
//!
//! YAML is read from saphyr's parser *events*, not its loader, because the loader forgets duplicate keys and the spans of keys.

use crate::{Format, PipelineError, mistakes, parser::MAX_BYTES, parser::MAX_DEPTH};
use saphyr_parser::{Event, Parser, ScalarStyle};
use std::ops::Range;

/// A value in the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The value.
    pub data: Data,
    /// The scalar as written, without quotes; empty for lists and mappings.
    pub raw: String,
    /// Byte range in the file.
    pub span: Range<usize>,
}

/// What a value is.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum Data {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Str,
    Seq(Vec<Node>),
    Map(Vec<(Node, Node)>),
}

impl Node {
    /// What the value is, in words.
    pub fn kind(&self) -> &'static str {
        match self.data {
            Data::Null => "nothing",
            Data::Bool(_) => "a truth value",
            Data::Int(_) => "an integer",
            Data::Float(_) => "a number",
            Data::Str => "text",
            Data::Seq(_) => "a list",
            Data::Map(_) => "a mapping",
        }
    }

    /// The value as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value;
        match &self.data {
            Data::Null => Value::Null,
            Data::Bool(b) => Value::Bool(*b),
            Data::Int(i) => {
                let large = || u64::try_from(*i).map_or_else(|_| Value::from(*i as f64), Value::from);
                i64::try_from(*i).map_or_else(|_| large(), Value::from)
            }
            Data::Float(f) if f.is_finite() => Value::from(*f),
            Data::Float(_) | Data::Str => Value::String(self.raw.clone()),
            Data::Seq(items) => Value::Array(items.iter().map(Node::to_json).collect()),
            Data::Map(entries) => Value::Object(entries.iter().map(|(k, v)| (k.raw.clone(), v.to_json())).collect()),
        }
    }
}

/// Reads the text into a tree.
pub fn read(text: &str, format: Format) -> Result<Node, PipelineError> {
    if text.len() > MAX_BYTES {
        return Err(PipelineError::new("", 0..0, format!("the pipeline file is larger than {MAX_BYTES} bytes"), "here"));
    }
    match format {
        Format::Yaml => yaml(text, text, &[]),
        Format::Json => {
            serde_json::from_str::<serde_json::Value>(text).map_err(|e| {
                let line: usize = text.split_inclusive('\n').take(e.line().saturating_sub(1)).map(str::len).sum();
                let at = floor(text, line + e.column().saturating_sub(1));
                PipelineError::new(text, at..at, format!("not valid JSON: {e}"), "here")
            })?;
            let (source, shifts) = join_surrogates(text);
            yaml(text, &source, &shifts)
        }
        Format::Toml => {
            let table = toml::de::DeTable::parse(text)
                .map_err(|e| PipelineError::new(text, e.span().unwrap_or(0..0), format!("not valid TOML: {}", e.message()), "here"))?;
            let span = table.span();
            toml_node(text, toml::de::DeValue::Table(table.into_inner()), span, 0)
        }
    }
}

fn floor(text: &str, mut at: usize) -> usize {
    at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn too_deep(text: &str, span: Range<usize>) -> PipelineError {
    PipelineError::new(text, span, format!("the file nests more than {MAX_DEPTH} deep"), "here")
}

fn toml_node(text: &str, value: toml::de::DeValue<'_>, span: Range<usize>, depth: usize) -> Result<Node, PipelineError> {
    use toml::de::DeValue as V;
    if depth > MAX_DEPTH {
        return Err(too_deep(text, span));
    }
    let mut raw = text.get(span.clone()).unwrap_or("").to_string();
    let data = match value {
        V::String(s) => {
            raw = s.into_owned();
            Data::Str
        }
        V::Integer(i) => match i128::from_str_radix(i.as_str(), i.radix()) {
            Ok(v) => Data::Int(v),
            Err(_) => return Err(PipelineError::new(text, span, "the integer is too large", "this value")),
        },
        V::Float(f) => f.as_str().parse().map_or(Data::Str, Data::Float),
        V::Boolean(b) => Data::Bool(b),
        V::Datetime(_) => Data::Str,
        V::Array(items) => {
            raw.clear();
            let items = items.into_iter().map(|v| {
                let span = v.span();
                toml_node(text, v.into_inner(), span, depth + 1)
            });
            Data::Seq(items.collect::<Result<_, _>>()?)
        }
        V::Table(table) => {
            raw.clear();
            let entries = table.into_iter().map(|(k, v)| {
                let (key_span, value_span) = (k.span(), v.span());
                let key = Node { data: Data::Str, raw: k.into_inner().into_owned(), span: key_span };
                Ok((key, toml_node(text, v.into_inner(), value_span, depth + 1)?))
            });
            let mut entries = entries.collect::<Result<Vec<(Node, Node)>, PipelineError>>()?;
            // The table is sorted by key; people expect the order they wrote.
            entries.sort_by_key(|(k, _)| k.span.start);
            Data::Map(entries)
        }
    };
    Ok(Node { data, raw, span })
}

/// A list or mapping being read; in a mapping keys and values alternate.
struct Open {
    mapping: bool,
    span: Range<usize>,
    items: Vec<Node>,
}

/// JSON writes a character beyond U+FFFF as two escapes, `\ud83d\ude00`, which YAML refuses: each pair becomes one `\U0001f600`.
///
/// Also gives where the new text is shorter than the old: (a place in the new text, bytes to add from there on).
fn join_surrogates(text: &str) -> (String, Vec<(usize, usize)>) {
    let (mut out, mut shifts, mut from, mut at) = (String::new(), Vec::new(), 0, 0);
    let unit = |at: usize| -> Option<u32> {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u32::from_str_radix(digits, 16).ok()
    };
    while let Some(next) = text.get(at..).and_then(|rest| rest.find('\\')) {
        at += next;
        match (unit(at), unit(at + 6)) {
            (Some(high @ 0xd800..0xdc00), Some(low @ 0xdc00..0xe000)) => {
                out.push_str(&text[from..at]);
                out.push_str(&format!("\\U{:08x}", 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)));
                at += 12;
                from = at;
                shifts.push((out.len(), at - out.len()));
            }
            // An escaped backslash does not begin an escape.
            _ => at += 2,
        }
    }
    out.push_str(&text[from..]);
    (out, shifts)
}

/// Reads `source`, which is `text` but for what [`join_surrogates`] did to it.
fn yaml(text: &str, source: &str, shifts: &[(usize, usize)]) -> Result<Node, PipelineError> {
    // saphyr counts characters; everything here counts bytes.
    let offsets: Vec<usize> = source.char_indices().map(|(i, _)| i).collect();
    let byte = |index: usize| {
        let at = offsets.get(index).copied().unwrap_or(source.len());
        at + shifts.iter().rev().find(|s| s.0 <= at).map_or(0, |s| s.1)
    };
    let mut open: Vec<Open> = Vec::new();
    let mut root: Option<Node> = None;
    for event in Parser::new_from_str(source) {
        let (event, mark) = event.map_err(|e| {
            let at = byte(e.marker().index());
            mistakes::explain(text, at, e.info())
        })?;
        let start = byte(mark.start.index());
        let span = start..byte(mark.end.index()).max(start);
        let place = span.clone();
        let refuse = |message: &str, help: &str| Err(PipelineError::new(text, place.clone(), message, "here").with_help(help));
        let done = match event {
            Event::Scalar(value, style, anchor, tag) => {
                if anchor != 0 || tag.is_some() {
                    return refuse(
                        "a value that begins with & or ! is an anchor or a tag, which are not supported",
                        "put it in quotes, or write it without & and !",
                    );
                }
                let data = if style == ScalarStyle::Plain { plain(&value) } else { Data::Str };
                Node { data, raw: value.into_owned(), span }
            }
            Event::SequenceStart(anchor, tag) | Event::MappingStart(anchor, tag) if anchor != 0 || tag.is_some() => {
                return refuse("anchors and tags are not supported", "write the value without & and !");
            }
            Event::SequenceStart(..) | Event::MappingStart(..) => {
                if open.len() >= MAX_DEPTH {
                    return Err(too_deep(text, span));
                }
                open.push(Open { mapping: matches!(event, Event::MappingStart(..)), span, items: Vec::new() });
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(o) = open.pop() else { continue };
                let whole = o.span.start..span.end.max(o.span.end);
                let data = if o.mapping {
                    let mut pairs = Vec::new();
                    let mut items = o.items.into_iter();
                    while let (Some(k), Some(v)) = (items.next(), items.next()) {
                        pairs.push((k, v));
                    }
                    Data::Map(pairs)
                } else {
                    Data::Seq(o.items)
                };
                Node { data, raw: String::new(), span: whole }
            }
            Event::Alias(_) => return refuse("aliases are not supported", "write the value out"),
            _ => continue,
        };
        match open.last_mut() {
            Some(o) => o.items.push(done),
            None if root.is_some() => return refuse("the file holds more than one YAML document", "keep one"),
            None => root = Some(done),
        }
    }
    Ok(root.unwrap_or(Node { data: Data::Null, raw: String::new(), span: 0..0 }))
}

/// YAML 1.2 core schema.
fn plain(v: &str) -> Data {
    match v {
        "" | "~" | "null" | "Null" | "NULL" => return Data::Null,
        "true" | "True" | "TRUE" => return Data::Bool(true),
        "false" | "False" | "FALSE" => return Data::Bool(false),
        ".inf" | "+.inf" => return Data::Float(f64::INFINITY),
        "-.inf" => return Data::Float(f64::NEG_INFINITY),
        ".nan" => return Data::Float(f64::NAN),
        _ => {}
    }
    if let Ok(i) = v.parse::<i128>() {
        return Data::Int(i);
    }
    match v.parse::<f64>() {
        Ok(f) if v.contains(|c: char| c.is_ascii_digit()) => Data::Float(f),
        _ => Data::Str,
    }
}
