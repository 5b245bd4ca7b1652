//! What an operation takes.

use crate::Value;
use chunkwise_types::Scalar;

/// What an argument must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An array; a number counts as one without axes.
    Array,
    /// An array or a number that takes part in promotion; in comparisons of times also a date as text.
    Operand,
    /// An array or a number that does not: a condition, or a bound.
    Other,
    /// A list of arrays.
    Arrays,
    /// Any number of arrays, an argument each. It is the last parameter.
    Rest,
    /// A number.
    Number,
    /// An integer.
    Int,
    /// An integer that is not negative.
    Count,
    /// A real number that is not NaN.
    Real,
    /// True or False.
    Flag,
    /// Whether NaN is left out: True, False, or None, which is as usual for the array.
    SkipNa,
    /// The name of a dtype.
    DType,
    /// A text.
    Text,
    /// One of these texts.
    Choice(&'static [&'static str]),
    /// An integer, or a list of them.
    Ints,
    /// As [`Kind::Ints`], none of them negative: a shape, or numbers of times.
    Lengths,
    /// The lengths of chunks, one for each axis.
    Chunks,
    /// Any dimensions, by name or position; without, all of them. `dim` and `axis` name it alike.
    Dims,
    /// One dimension, by name or position. `dim` and `axis` name it alike.
    Axis,
    /// All dimensions, in a new order.
    Order,
    /// The position of a new dimension; a text is its name.
    NewAxis,
    /// The name of a new dimension; a number is its position.
    NewDim,
    /// How many dimensions are summed over, or two lists of them.
    AxisPairs,
    /// A pair of lengths for each axis.
    Widths,
    /// Numbers in nested lists, a level for each dimension.
    Weights,
    /// A part of a time of the input, such as "time.month", or an integer for each index.
    Groups,
    /// As [`Kind::Groups`], where the input has the groups as a dimension.
    Lookup,
    /// Arguments that are named after dimensions of the input.
    ByDimension(Each),
}

/// What is said of a dimension that an argument is named after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Each {
    /// An index, a list of indices or a slice.
    Index,
    /// A label, a list of labels or a range of them.
    Label,
    /// The length of a window.
    Window,
    /// The length of chunks, -1 for the whole dimension.
    Chunk,
    /// A period, such as "1M". Just one dimension may be named.
    Period,
}

/// What is taken if an argument is left out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Default {
    /// Nothing.
    None,
    /// True or False.
    Flag(bool),
    /// An integer.
    Int(i64),
    /// A number.
    Float(f64),
    /// A text.
    Text(&'static str),
}

impl Default {
    /// As an argument.
    pub fn value(self) -> Value {
        match self {
            Default::None => Value::None,
            Default::Flag(b) => Value::Scalar(Scalar::Bool(b)),
            Default::Int(i) => i.into(),
            Default::Float(x) => Value::Scalar(Scalar::Float(x)),
            Default::Text(t) => t.into(),
        }
    }
}

impl std::fmt::Display for Default {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Default::None => f.write_str("None"),
            Default::Flag(true) => f.write_str("True"),
            Default::Flag(false) => f.write_str("False"),
            Default::Int(i) => write!(f, "{i}"),
            Default::Float(x) => write!(f, "{x:e}"),
            Default::Text(t) => write!(f, "\"{t}\""),
        }
    }
}

/// An argument of an operation.
#[derive(Debug, Clone)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// What it must be.
    pub kind: Kind,
    /// What is taken if it is left out; without, it must be given.
    pub default: Option<Default>,
    /// Other libraries' name for it.
    pub alias: Option<&'static str>,
    /// Whether it may be given by position.
    pub positional: bool,
    /// 0 in every form of a call; else only in the first or the second of two.
    pub form: u8,
    /// Arguments as the signature has them, where the name says too little.
    pub(super) shown: Option<&'static str>,
    /// Other texts for those of a choice.
    pub synonyms: &'static [(&'static str, &'static str)],
    /// What is said if it is missing, where that is not what is usual.
    pub(super) missing: Option<String>,
}

impl Parameter {
    /// One that must be given.
    pub(super) fn new(name: &'static str, kind: Kind) -> Parameter {
        let positional = !matches!(kind, Kind::ByDimension(_) | Kind::Rest);
        Parameter { name, kind, default: None, alias: None, positional, form: 0, shown: None, synonyms: &[], missing: None }
    }

    /// One that may be left out.
    pub(super) fn or(name: &'static str, kind: Kind, default: Default) -> Parameter {
        Parameter { default: Some(default), ..Parameter::new(name, kind) }
    }

    /// Arguments that are named after dimensions, as the signature shows them.
    pub(super) fn by_dimension(each: Each, shown: &'static str) -> Parameter {
        Parameter { shown: Some(shown), ..Parameter::new("dimensions", Kind::ByDimension(each)) }
    }

    pub(super) fn alias(self, alias: &'static str) -> Parameter {
        Parameter { alias: Some(alias), ..self }
    }

    pub(super) fn by_name(self) -> Parameter {
        Parameter { positional: false, ..self }
    }

    pub(super) fn form(self, form: u8) -> Parameter {
        Parameter { form, ..self }
    }

    pub(super) fn shown(self, shown: &'static str) -> Parameter {
        Parameter { shown: Some(shown), ..self }
    }

    pub(super) fn synonyms(self, synonyms: &'static [(&'static str, &'static str)]) -> Parameter {
        Parameter { synonyms, ..self }
    }

    pub(super) fn missing(self, message: impl Into<String>) -> Parameter {
        Parameter { missing: Some(message.into()), ..self }
    }

    /// As a signature has it.
    pub fn printed(&self) -> String {
        match (self.shown, self.default) {
            (Some(shown), _) => shown.into(),
            (None, Some(default)) => format!("{}={default}", self.name),
            (None, None) => self.name.into(),
        }
    }

    /// True if it says which dimensions of the input are meant.
    pub fn is_dims(&self) -> bool {
        matches!(self.kind, Kind::Dims | Kind::Axis)
    }

    /// True if an argument of this name is meant for it.
    pub fn answers_to(&self, name: &str) -> bool {
        let named = !matches!(self.kind, Kind::ByDimension(_) | Kind::Rest);
        named && (self.name == name || self.alias == Some(name) || self.is_dims() && matches!(name, "dim" | "axis"))
    }
}

/// The array that an operation is applied to.
pub(super) fn x() -> Parameter {
    Parameter::new("x", Kind::Array)
}

/// A second array.
pub(super) fn y() -> Parameter {
    Parameter::new("y", Kind::Array)
}

/// The dimensions, by default all of them.
pub(super) fn dim() -> Parameter {
    Parameter::or("dim", Kind::Dims, Default::None)
}

/// One dimension, by default that at a position.
pub(super) fn axis(default: i64) -> Parameter {
    Parameter::or("axis", Kind::Axis, Default::Int(default))
}

/// What is taken off the number of elements.
pub(super) fn correction() -> Parameter {
    Parameter::or("correction", Kind::Real, Default::Int(0)).alias("ddof")
}

/// Whether NaN is left out; it is.
pub(super) fn skipna() -> Parameter {
    Parameter::or("skipna", Kind::Flag, Default::Flag(true))
}

/// A dtype, by default float64.
pub(super) fn dtype(default: Default) -> Parameter {
    Parameter::or("dtype", Kind::DType, default)
}

pub(super) fn chunks() -> Parameter {
    Parameter::or("chunks", Kind::Chunks, Default::None)
}

pub(super) fn shape() -> Parameter {
    Parameter::new("shape", Kind::Lengths)
}

/// The modes of windows and padding by name.
pub(super) fn mode(names: &'static [&'static str], default: &'static str) -> Parameter {
    Parameter::or("mode", Kind::Choice(names), Default::Text(default))
}

/// What [`mode`] "constant" puts beyond the ends.
pub(super) fn fill() -> Parameter {
    Parameter::or("value", Kind::Number, Default::Int(0))
}
