//! The one table of operations.
//!
//! An [`Operation`] is what there is to know of a function: its name, its parameters with their kinds and defaults, what becomes of the
//! attributes, what it does to times, its description with examples, and how the lazy array is built. The expression language, the methods
//! of `Expr`, `chunkwise functions`, `docs/functions.md` and other front doors are made from it, so they cannot differ:
//!
//! ```
//! use chunkwise_ops::table::{Arguments, Context, find, table};
//! let mean = find("mean").unwrap();
//! assert_eq!(mean.signature(), "mean(x, dim=None, keepdims=False, skipna=None)");
//!
//! let eye = find("eye").unwrap().call(&Arguments::of([3.into()]), &Context::default())?;
//! let rows = Arguments::of([eye]).named("dim", 1);
//! let means = mean.call(&rows, &Context::default())?.array()?;
//! assert_eq!(means.shape(), [3]);
//! assert!(table().len() > 100);
//! # Ok::<(), chunkwise_ops::CallError>(())
//! ```
//!
//! A new operation is an entry in the file of its family, and nothing else.

mod arguments;
mod attributes;
mod call;
mod creation;
mod cumulative;
mod elementwise;
mod elsewhere;
mod groups;
mod joining;
mod logic;
mod maths;
pub mod page;
mod parameter;
mod periods;
mod products;
mod reductions;
mod selection;
mod shape;
pub(crate) mod times;
mod windows;

pub use attributes::Attributes;
pub use call::{Arguments, Call, Context};
pub use elementwise::of as element;
pub use elsewhere::instead;
pub use parameter::{Default as ParameterDefault, Each, Kind, Parameter};
pub use selection::{along, no_dim, wanted};
pub use times::Times;

use crate::{Array, CallError, Value};
use chunkwise_kernels::ElementOp;
use std::sync::LazyLock;

/// A subject of the reference.
#[derive(Debug)]
pub struct Category {
    /// Its heading.
    pub title: &'static str,
    /// What is said of all its operations, in Markdown; may be empty.
    pub about: &'static str,
}

/// An expression and what it is worth.
#[derive(Debug, Clone)]
pub struct Example {
    /// The expression, of the inputs that the reference begins with.
    pub expression: &'static str,
    /// Its result as it is printed: dtype, shape and values, then the labels that are new, a line each.
    pub result: Vec<&'static str>,
    /// The same in NumPy or xarray: the name of the library and the code.
    pub counterpart: Option<(&'static str, &'static str)>,
}

/// The error of a call that means another function.
type Mistake = fn(&[Value]) -> Option<CallError>;

type Build = Box<dyn Fn(&Call<'_>) -> Result<Array, CallError> + Send + Sync>;

/// A function of lazy arrays.
pub struct Operation {
    /// Its name.
    pub name: &'static str,
    /// NumPy's names for it.
    pub aliases: &'static [&'static str],
    /// The subject that it belongs to.
    pub category: &'static Category,
    /// What it takes, in order.
    pub parameters: Vec<Parameter>,
    /// A call, where the signature says too little.
    pub such_as: Option<String>,
    /// What it computes, in Markdown.
    pub about: &'static str,
    /// Calls with their results.
    pub examples: Vec<Example>,
    /// What becomes of the attributes of its input.
    pub attributes: Attributes,
    /// What it does to times.
    pub times: Times,
    /// The element-wise function that it is.
    pub element: Option<ElementOp>,
    /// What may help if the labels of its result are not those of what it meets.
    pub labels_advice: Option<&'static str>,
    /// Recognises calls that mean another function.
    mistake: Option<Mistake>,
    build: Build,
}

impl std::fmt::Debug for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.signature())
    }
}

impl Operation {
    /// An entry. `text` describes it as the reference does: prose, then examples, each of which begins with `>>> `.
    fn new(
        name: &'static str,
        category: &'static Category,
        text: &'static str,
        parameters: impl IntoIterator<Item = Parameter>,
        build: impl Fn(&Call<'_>) -> Result<Array, CallError> + Send + Sync + 'static,
    ) -> Operation {
        let (about, examples) = described(text);
        Operation {
            name,
            aliases: &[],
            category,
            parameters: parameters.into_iter().collect(),
            such_as: None,
            about,
            examples,
            attributes: Attributes::None,
            times: Times::Ignored,
            element: None,
            labels_advice: None,
            mistake: None,
            build: Box::new(build),
        }
    }

    fn aliases(self, aliases: &'static [&'static str]) -> Operation {
        Operation { aliases, ..self }
    }

    fn such_as(self, call: impl Into<String>) -> Operation {
        Operation { such_as: Some(call.into()), ..self }
    }

    fn attributes(self, attributes: Attributes) -> Operation {
        Operation { attributes, ..self }
    }

    /// Refuses times, because it makes of them what has no meaning, in words: "a sum of times".
    fn no_times(self, what: &'static str) -> Operation {
        Operation { times: Times::Nonsense(what), ..self }
    }

    /// How it is called, and nothing else: one or two forms.
    pub fn forms(&self) -> String {
        let form = |n: u8| {
            let list: Vec<String> = self.parameters.iter().filter(|p| p.form == 0 || p.form == n).map(Parameter::printed).collect();
            format!("{}({})", self.name, list.join(", "))
        };
        let two = self.parameters.iter().any(|p| p.form == 2);
        if two { format!("{} or {}", form(1), form(2)) } else { form(1) }
    }

    /// How it is called, as the reference and messages say it.
    pub fn signature(&self) -> String {
        let such_as = self.such_as.as_ref().map(|s| format!(", such as {s}")).unwrap_or_default();
        format!("{}{such_as}", self.forms())
    }

    /// The description, without links.
    pub fn plain_about(&self) -> String {
        let mut out = String::new();
        let mut rest = self.about;
        while let Some((before, text, after)) = link(rest) {
            out.push_str(before);
            out.push_str(text);
            rest = after;
        }
        out + rest
    }
}

/// What is before the first link of a Markdown text, the text of the link, and what is after it.
fn link(text: &str) -> Option<(&str, &str, &str)> {
    let middle = text.find("](")?;
    let start = text[..middle].rfind('[')?;
    let end = middle + text[middle..].find(')')?;
    Some((&text[..start], &text[start + 1..middle], &text[end + 1..]))
}

/// The prose and the examples of a description.
fn described(text: &'static str) -> (&'static str, Vec<Example>) {
    let start = text.find(">>> ").unwrap_or(text.len());
    let mut examples: Vec<Example> = Vec::new();
    for line in text[start..].lines().map(str::trim_end).filter(|l| !l.is_empty()) {
        let counterpart = line.strip_prefix("# ").and_then(|l| l.split_once(": "));
        match (line.strip_prefix(">>> "), examples.last_mut()) {
            (Some(expression), _) => examples.push(Example { expression, result: Vec::new(), counterpart: None }),
            (None, Some(last)) if counterpart.is_some() => last.counterpart = counterpart,
            (None, Some(last)) => last.result.push(line),
            (None, None) => {}
        }
    }
    (text[..start].trim(), examples)
}

static TABLE: LazyLock<Vec<Operation>> = LazyLock::new(|| {
    let families = [
        elementwise::operations(),
        reductions::operations(),
        groups::operations(),
        periods::operations(),
        selection::operations(),
        windows::operations(),
        cumulative::operations(),
        shape::operations(),
        joining::operations(),
        products::operations(),
        creation::operations(),
    ];
    families.into_iter().flatten().collect()
});

/// Every operation, in the order of the reference.
pub fn table() -> &'static [Operation] {
    &TABLE
}

/// The operation of a name, which may be an alias.
///
/// ```
/// use chunkwise_ops::table::find;
/// assert_eq!(find("transpose").map(|o| o.name), Some("permute_dims"));
/// assert!(find("mena").is_none());
/// ```
pub fn find(name: &str) -> Option<&'static Operation> {
    table().iter().find(|o| o.name == name || o.aliases.contains(&name))
}

/// The operation whose name is most like a word.
///
/// ```
/// assert_eq!(chunkwise_ops::table::like("mena"), Some("mean".into()));
/// ```
pub fn like(word: &str) -> Option<String> {
    crate::suggest(word, table().iter().map(|o| o.name))
}

/// How an operation is called; `None` if there is none of this name.
///
/// ```
/// use chunkwise_ops::table::called;
/// assert!(called("transpose").is_some_and(|s| s.starts_with("permute_dims(x, axes=None)")));
/// assert_eq!(called("hypot"), Some("hypot(x, y)".into()));
/// assert_eq!(called("mena"), None);
/// ```
pub fn called(name: &str) -> Option<String> {
    let operation = find(name)?;
    let other = if operation.name == name { String::new() } else { format!("   ({name} is another name of it)") };
    Some(format!("{}{other}", operation.signature()))
}

/// The operation of a name.
///
/// # Errors
/// If there is none, with what may be meant.
pub fn named(name: &str) -> Result<&'static Operation, CallError> {
    find(name).ok_or_else(|| {
        let near = || like(name).map_or("`chunkwise functions` lists them all".into(), |s| format!("did you mean '{s}'?"));
        CallError::new(format!("there is no function '{name}'")).with_help(instead(name).map_or_else(near, String::from))
    })
}
