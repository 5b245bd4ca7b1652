//! The pipeline file: inputs, arrays, outputs, parameters and the spec.
//!
//! [`parse_document`] reads a file and checks everything that can be checked without opening data: keys, names, expressions and the
//! order of arrays. It stops at the first mistake, and says where in the file it is.

mod outputs;
mod spec;

pub use outputs::ENCODING;
pub use spec::Spec;

use crate::node::{Data, Node, read};
use crate::{Expr, PipelineError, Spanned, SyntaxError, mistakes::no_pair, mistakes::quoted, named_constant, parse_expr, parser::RESERVED};
use chunkwise_ops::suggest;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// The format of a pipeline file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Format {
    Yaml,
    Json,
    Toml,
}

impl Format {
    /// The format a file's name ends in (`.yaml`, `.yml`, `.json`, `.toml`).
    pub fn from_path(path: &std::path::Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "yaml" | "yml" => Some(Format::Yaml),
            "json" => Some(Format::Json),
            "toml" => Some(Format::Toml),
            _ => None,
        }
    }
}

/// An array that is read.
#[derive(Debug, Clone)]
pub struct Input {
    /// Its name in expressions.
    pub name: Spanned<String>,
    /// Where it is stored.
    pub url: Spanned<String>,
    /// Whether to apply the CF conventions (`scale_factor`, `add_offset`, `_FillValue`), if it is said here.
    pub decode_cf: Option<bool>,
}

/// Maps places in an expression's text to places in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextMap {
    whole: Range<usize>,
    /// (start in the text, start in the file), a line each; empty when the text is not verbatim in the file.
    lines: Vec<(usize, usize)>,
}

impl TextMap {
    fn new(file: &str, node: &Node) -> Self {
        let mut lines = Vec::new();
        let (mut at, mut cursor) = (0, node.span.start);
        for line in node.raw.split_inclusive('\n') {
            let content = line.trim();
            if !content.is_empty() {
                let found = file.get(cursor..node.span.end).and_then(|rest| rest.find(content));
                let Some(found) = found else { return Self { whole: node.span.clone(), lines: Vec::new() } };
                lines.push((at + (line.len() - line.trim_start().len()), cursor + found));
                cursor += found + content.len();
            }
            at += line.len();
        }
        Self { whole: node.span.clone(), lines }
    }

    /// The range of the file that a range of the expression's text came from; the whole value if that is not known.
    pub fn locate(&self, span: Range<usize>) -> Range<usize> {
        let place = |at: usize| self.lines.iter().rev().find(|l| l.0 <= at).map(|l| l.1 + (at - l.0));
        match (place(span.start), place(span.end)) {
            (Some(start), Some(end)) => start..end.clamp(start, self.whole.end.max(start)),
            _ => self.whole.clone(),
        }
    }
}

/// An array defined by an expression.
#[derive(Debug, Clone)]
pub struct ArrayDef {
    /// Its name.
    pub name: Spanned<String>,
    /// The expression as written.
    pub text: Spanned<String>,
    /// The expression.
    pub expr: Expr,
    /// From spans in `expr` to spans in the file.
    pub map: TextMap,
}

/// A dimension, by name or by number.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Dim {
    /// By name.
    Name(String),
    /// By position.
    Number(i64),
    /// By its place in a list of so many.
    Place {
        /// The place.
        place: usize,
        /// The length of the list.
        of: usize,
    },
}

/// Chunk lengths along some dimensions; -1 means the whole dimension.
pub type ChunkSpec = Vec<(Spanned<Dim>, i64)>;

/// An array that is written.
#[derive(Debug, Clone)]
pub struct Output {
    /// Where it is stored.
    pub url: Spanned<String>,
    /// The name or expression as written.
    pub array: Spanned<String>,
    /// The expression.
    pub expr: Expr,
    /// From spans in `expr` to spans in the file.
    pub map: TextMap,
    /// Chunk lengths, if given.
    pub chunks: Option<ChunkSpec>,
    /// Shard lengths, if given.
    pub shards: Option<ChunkSpec>,
    /// The codec by its short name, if given.
    pub codec: Option<Spanned<String>>,
    /// How it is encoded, in the words of the metadata of Zarr: what is given of [`ENCODING`].
    pub encoding: BTreeMap<&'static str, Spanned<serde_json::Value>>,
    /// New names of its dimensions.
    pub dims: Option<Spanned<Vec<String>>>,
    /// Attributes to store with the array.
    pub attributes: serde_json::Map<String, serde_json::Value>,
}

/// The value of a parameter.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum ParameterValue {
    Bool(bool),
    Int(i128),
    Float(f64),
    Str(String),
}

/// A named constant.
#[derive(Debug, Clone)]
pub struct Parameter {
    /// Its name.
    pub name: Spanned<String>,
    /// Its value.
    pub value: Spanned<ParameterValue>,
}

/// A checked pipeline file.
#[derive(Debug, Clone)]
pub struct Document {
    /// Arrays read, in file order.
    pub inputs: Vec<Input>,
    /// Arrays defined, in file order.
    pub arrays: Vec<ArrayDef>,
    /// Arrays written, in file order.
    pub outputs: Vec<Output>,
    /// Named constants.
    pub parameters: Vec<Parameter>,
    /// How to run.
    pub spec: Spec,
    order: Vec<usize>,
    text: String,
}

impl Document {
    /// The arrays, each after those it depends on, otherwise in file order.
    pub fn order(&self) -> Vec<&ArrayDef> {
        self.order.iter().filter_map(|i| self.arrays.get(*i)).collect()
    }

    /// The text of the file.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// An error about a place in the file.
    pub fn error(&self, span: Range<usize>, message: impl Into<String>, label: impl Into<String>) -> PipelineError {
        PipelineError::new(&self.text, span, message, label)
    }

    /// Overrides a parameter, as `--set NAME=VALUE` does. The value is read as in YAML; a text parameter stays text.
    pub fn set_parameter(&mut self, name: &str, value: &str) -> Result<(), PipelineError> {
        if let Some(p) = self.parameters.iter_mut().find(|p| p.name.value == name) {
            let text = || ParameterValue::Str(value.to_string());
            p.value.value = match (&p.value.value, value.parse::<i128>(), value.parse::<f64>(), value.parse::<bool>()) {
                (ParameterValue::Str(_), ..) => text(),
                (ParameterValue::Float(_), _, Ok(f), _) => ParameterValue::Float(f),
                (_, Ok(i), ..) => ParameterValue::Int(i),
                (_, _, Ok(f), _) => ParameterValue::Float(f),
                (_, _, _, Ok(b)) => ParameterValue::Bool(b),
                _ => return Err(self.bad_parameter(name, value)),
            };
            return Ok(());
        }
        let known = suggest(name, self.parameters.iter().map(|p| p.name.value.as_str()));
        let all: Vec<&str> = self.parameters.iter().map(|p| p.name.value.as_str()).collect();
        let help = did_you_mean(known).unwrap_or_else(|| match all.is_empty() {
            true => "the file has no parameters; what is set must be there, under `parameters`".into(),
            false => format!("the parameters are {}", all.join(", ")),
        });
        Err(self.error(0..0, format!("there is no parameter named '{name}'"), "in this file").with_help(help))
    }

    fn bad_parameter(&self, name: &str, value: &str) -> PipelineError {
        let span = self.parameters.iter().find(|p| p.name.value == name).map_or(0..0, |p| p.value.span.clone());
        self.error(span, format!("'{value}' is not a number"), format!("'{name}' is a number"))
    }
}

/// The key that is meant by what other programs call it.
fn other_word(word: &str, known: &[&str]) -> Option<String> {
    let meant = match word {
        "path" | "file" | "location" | "store" | "href" => "url",
        "attrs" | "metadata" => "attributes",
        "expr" | "expression" | "value" | "data" => "array",
        "compression" => "codec",
        "dimensions" | "dim_names" => "dims",
        "memory" | "mem" | "max_mem" | "memory_limit" => "allowed_mem",
        "tmp" | "temp" | "temporary" | "tmp_dir" | "scratch" => "work_dir",
        "threads" | "cores" | "n_workers" | "cpus" => "workers",
        "variables" | "vars" | "params" | "constants" => "parameters",
        "sources" | "data_in" => "inputs",
        "targets" | "results" | "write" => "outputs",
        "expressions" | "steps" | "compute" => "arrays",
        _ => return None,
    };
    known.contains(&meant).then(|| meant.to_string())
}

fn did_you_mean(suggestion: Option<String>) -> Option<String> {
    suggestion.map(|s| format!("did you mean '{s}'?"))
}

/// Reads and checks a pipeline file.
pub fn parse_document(text: &str, format: Format) -> Result<Document, PipelineError> {
    let root = read(text, format)?;
    let r = Reader { text };
    let mut d = Document {
        inputs: Vec::new(),
        arrays: Vec::new(),
        outputs: Vec::new(),
        parameters: Vec::new(),
        spec: Spec::default(),
        order: Vec::new(),
        text: text.to_string(),
    };
    let sections = ["inputs", "arrays", "outputs", "spec", "parameters"];
    let mut names: HashMap<String, Range<usize>> = HashMap::new();
    for (key, node) in r.fields(&root, &sections, "the pipeline file")? {
        if key == "spec" {
            d.spec = r.spec(node)?;
            continue;
        }
        for (k, v) in r.map(node, &format!("'{key}'"))? {
            if key == "outputs" {
                d.outputs.push(r.output(k, v)?);
                continue;
            }
            let name = r.identifier(k)?;
            if let Some(first) = names.insert(name.value.clone(), name.span.clone()) {
                let e = r.error(&name.span, format!("the name '{}' is defined twice", name.value), "defined again here");
                return Err(e.with_label(first, "first defined here"));
            }
            match key {
                "inputs" => d.inputs.push(r.input(name, v)?),
                "arrays" => {
                    let (text, expr, map) = r.expression(v)?;
                    d.arrays.push(ArrayDef { name, text, expr, map });
                }
                _ => d.parameters.push(Parameter { name, value: r.parameter(v)? }),
            }
        }
    }
    let mut urls: HashMap<String, Range<usize>> = HashMap::new();
    for o in &d.outputs {
        if let Some(first) = urls.insert(o.url.value.trim_end_matches('/').to_string(), o.url.span.clone()) {
            let e = r.error(&o.url.span, format!("the output '{}' is given twice", o.url.value), "given again here");
            return Err(e.with_label(first, "first given here"));
        }
    }
    let expressions = d.arrays.iter().map(|a| (&a.expr, &a.map)).chain(d.outputs.iter().map(|o| (&o.expr, &o.map)));
    for (expr, map) in expressions {
        if let Some((name, span)) = expr.names().into_iter().find(|(n, _)| !names.contains_key(*n) && named_constant(n).is_none()) {
            let place = map.locate(span);
            let before = text.get(..place.start).unwrap_or_default().trim_end();
            let argument =
                ["dim", "axis", "dims"].into_iter().find(|a| before.strip_suffix('=').is_some_and(|b| b.trim_end().ends_with(a)));
            let help = match name {
                _ if argument.is_some() => argument.map(|a| format!("names of dimensions are in quotes: {a}=\"{name}\"")),
                "time" | "lat" | "lon" | "latitude" | "longitude" | "level" => Some(format!(
                    "a coordinate is reached through its array, such as x.{name}; the name of a dimension is in quotes: \"{name}\""
                )),
                _ if text.get(place.end..).is_some_and(|after| after.starts_with(".zarr")) => {
                    Some("expressions name inputs and arrays, not places; a store is read as an input, under `inputs`".into())
                }
                "np" | "numpy" | "xr" | "xp" | "da" => Some(format!("functions need no prefix: write mean(x), not {name}.mean(x)")),
                n if n.parse::<chunkwise_types::DType>().is_ok() => Some(format!("write a dtype as text: \"{n}\"")),
                _ => did_you_mean(suggest(name, names.keys().map(String::as_str))).or_else(|| {
                    let input = &d.inputs.first()?.name.value;
                    Some(format!("if it is a variable of a group, write the name of the group before it: {input}.{name}"))
                }),
            };
            return Err(r.error(&place, format!("'{name}' is not defined"), "not an input, array or parameter").with_help_opt(help));
        }
    }
    d.order = order(&d)?;
    Ok(d)
}

/// Depth-first, with its own stack because a chain of arrays can be long.
fn order(d: &Document) -> Result<Vec<usize>, PipelineError> {
    let index: HashMap<&str, usize> = d.arrays.iter().enumerate().map(|(i, a)| (a.name.value.as_str(), i)).collect();
    let needs: Vec<Vec<usize>> =
        d.arrays.iter().map(|a| a.expr.names().into_iter().filter_map(|(n, _)| index.get(n).copied()).collect()).collect();
    let mut done = vec![false; needs.len()];
    let mut entered = vec![false; needs.len()];
    let mut out = Vec::new();
    for root in 0..needs.len() {
        let mut stack = vec![(root, 0)];
        while let Some((i, next)) = stack.pop() {
            if done[i] {
                continue;
            }
            entered[i] = true;
            let Some(&j) = needs[i].get(next) else {
                done[i] = true;
                out.push(i);
                continue;
            };
            stack.push((i, next + 1));
            if entered[j] && !done[j] {
                let from = stack.iter().position(|(k, _)| *k == j).unwrap_or(0);
                let mut cycle: Vec<&str> = stack[from..].iter().map(|(k, _)| d.arrays[*k].name.value.as_str()).collect();
                cycle.push(&d.arrays[j].name.value);
                let message = format!("arrays depend on each other: {}", cycle.join(" → "));
                let help = match cycle.len() {
                    2 => "an array cannot be computed from itself: give the result another name",
                    _ => "one of them must be computed without the others",
                };
                return Err(d.error(d.arrays[j].name.span.clone(), message, "part of a cycle").with_help(help));
            }
            stack.push((j, 0));
        }
    }
    Ok(out)
}

struct Reader<'a> {
    text: &'a str,
}

type Result1<T> = Result<T, PipelineError>;

impl Reader<'_> {
    fn error(&self, span: &Range<usize>, message: impl Into<String>, label: impl Into<String>) -> PipelineError {
        PipelineError::new(self.text, span.clone(), message, label)
    }
    fn wrong(&self, node: &Node, what: &str, wanted: &str) -> PipelineError {
        self.error(&node.span, format!("{what} must be {wanted}, not {}", node.kind()), "this value")
    }

    fn map<'n>(&self, node: &'n Node, what: &str) -> Result1<&'n [(Node, Node)]> {
        match &node.data {
            Data::Map(entries) => {
                for (k, _) in entries {
                    if matches!(k.data, Data::Map(_) | Data::Seq(_)) {
                        return Err(self.wrong(k, "a key", "text"));
                    }
                }
                Ok(entries)
            }
            Data::Null => Ok(&[]),
            Data::Seq(_) => {
                Err(self.wrong(node, what, "a mapping").with_help("leave out the '-' and the brackets: each line is `NAME: VALUE`"))
            }
            Data::Str => {
                let line = self.text.get(node.span.clone()).unwrap_or(&node.raw).lines().next().unwrap_or_default();
                let help = no_pair(line).map(|(message, _, help)| format!("{message}: {help}"));
                Err(self.wrong(node, what, "a mapping").with_help_opt(help))
            }
            _ => Err(self.wrong(node, what, "a mapping").with_help("each line below it is `NAME: VALUE`")),
        }
    }

    /// The entries of a mapping whose keys are known.
    fn fields<'n>(&self, node: &'n Node, known: &[&'static str], what: &str) -> Result1<Vec<(&'static str, &'n Node)>> {
        let mut out: Vec<(&'static str, &Node)> = Vec::new();
        for (k, v) in self.map(node, what)? {
            let Some(key) = known.iter().find(|n| **n == k.raw) else {
                let empty = out.last().filter(|(_, v)| v.data == Data::Null).map(|(above, _)| *above);
                let near = suggest(&k.raw, known.iter().copied()).or_else(|| other_word(&k.raw, known));
                let help = match (near, empty) {
                    (Some(s), _) => format!("did you mean '{s}'?"),
                    (None, Some(above)) => {
                        format!("indent it by two spaces more if it belongs to '{above}'; known keys: {}", known.join(", "))
                    }
                    (None, None) => format!("known keys: {}", known.join(", ")),
                };
                return Err(self.error(&k.span, format!("unknown key '{}' in {what}", k.raw), "not a known key").with_help(help));
            };
            if out.iter().any(|(n, _)| n == key) {
                return Err(self.error(&k.span, format!("the key '{key}' is given twice"), "given again here"));
            }
            out.push((key, v));
        }
        Ok(out)
    }

    fn string(&self, node: &Node, what: &str) -> Result1<Spanned<String>> {
        match node.data {
            Data::Str if !node.raw.trim().is_empty() => Ok(Spanned::new(node.raw.clone(), node.span.clone())),
            Data::Str => Err(self.error(&node.span, format!("{what} is empty"), "this value")),
            _ => Err(self.wrong(node, what, "text")),
        }
    }

    fn identifier(&self, key: &Node) -> Result1<Spanned<String>> {
        let name = key.raw.as_str();
        let mut chars = name.chars();
        let fits = chars.next().is_some_and(|c| c.is_alphabetic() || c == '_') && chars.all(|c| c.is_alphanumeric() || c == '_');
        if !fits {
            let e = self.error(&key.span, format!("'{name}' cannot be used as a name"), "this name");
            return Err(e.with_help("a name is made of letters, digits and underscores and does not begin with a digit"));
        }
        if RESERVED.contains(&name) {
            let e = self.error(&key.span, format!("'{name}' cannot be used as a name"), "this name");
            return Err(e.with_help(format!("'{name}' has a meaning in expressions; choose another name")));
        }
        Ok(Spanned::new(name.to_string(), key.span.clone()))
    }

    fn expression(&self, node: &Node) -> Result1<(Spanned<String>, Expr, TextMap)> {
        if matches!(node.data, Data::Map(_) | Data::Seq(_) | Data::Null) {
            let e = self.wrong(node, "an expression", "text");
            let written = self.text.get(node.span.clone()).unwrap_or_default().trim();
            return Err(e.with_help(match &node.data {
                Data::Null => "write an expression after the colon, such as mean(x)".to_string(),
                Data::Map(m) if m.iter().any(|(_, v)| v.data != Data::Null) => {
                    "an array is its expression alone, `name: mean(x)`; keys such as chunks belong to outputs".into()
                }
                _ if written.starts_with(['[', '{']) && !written.contains('\n') => {
                    format!("put an expression that begins with [ or {{ in quotes: {}", quoted(written))
                }
                _ => "an expression is written in one value, such as `name: mean(x)`".to_string(),
            }));
        }
        let map = TextMap::new(self.text, node);
        let expr = parse_expr(&node.raw).map_err(|SyntaxError { message, span, help }| {
            self.error(&map.locate(span), message, "in this expression").with_help_opt(help)
        })?;
        Ok((Spanned::new(node.raw.clone(), node.span.clone()), expr, map))
    }

    fn input(&self, name: Spanned<String>, node: &Node) -> Result1<Input> {
        if !matches!(node.data, Data::Map(_)) {
            let url = self
                .string(node, "the location of an input")
                .map_err(|e| e.with_help("write a path or a URL, such as `ds: data/winds.zarr`"))?;
            return Ok(Input { name, url, decode_cf: None });
        }
        let (mut url, mut decode_cf) = (None, None);
        for (key, v) in self.fields(node, &["url", "decode_cf"], "an input")? {
            match (key, &v.data) {
                ("url", _) => url = Some(self.string(v, "'url'")?),
                _ => decode_cf = Some(self.flag(v, "'decode_cf'")?),
            }
        }
        let missing = || self.error(&name.span, format!("the input '{}' has no 'url'", name.value), "this input");
        Ok(Input { url: url.ok_or_else(missing)?, name, decode_cf })
    }

    fn parameter(&self, node: &Node) -> Result1<Spanned<ParameterValue>> {
        let value = match node.data {
            Data::Bool(b) => ParameterValue::Bool(b),
            Data::Int(i) => ParameterValue::Int(i),
            Data::Float(f) => ParameterValue::Float(f),
            Data::Str => ParameterValue::Str(node.raw.clone()),
            _ => return Err(self.wrong(node, "a parameter", "a number or text")),
        };
        Ok(Spanned::new(value, node.span.clone()))
    }

    fn flag(&self, node: &Node, what: &str) -> Result1<bool> {
        match node.data {
            Data::Bool(b) => Ok(b),
            _ => Err(self.wrong(node, what, "true or false")),
        }
    }
}
