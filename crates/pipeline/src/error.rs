//! Diagnostics: what went wrong, where in the text, and what to do about it.

use miette::{Diagnostic, LabeledSpan, NamedSource, SourceCode};
use std::{fmt, ops::Range};

/// A value and the byte range of the file it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Byte range in the file.
    pub span: Range<usize>,
}

impl<T> Spanned<T> {
    /// A value at a place.
    pub fn new(value: T, span: Range<usize>) -> Self {
        Self { value, span }
    }
}

/// A mistake in the text of an expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    /// What is wrong.
    pub message: String,
    /// Byte range in the expression text.
    pub span: Range<usize>,
    /// What to write instead, when that is known.
    pub help: Option<String>,
}

/// A mistake in a pipeline file, with the file's text and the places concerned.
#[derive(Debug)]
pub struct PipelineError(Box<Inner>);

#[derive(Debug)]
struct Inner {
    message: String,
    labels: Vec<LabeledSpan>,
    help: Option<String>,
    source: NamedSource<String>,
    cause: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl PipelineError {
    /// An error about `span` of `text`.
    pub fn new(text: &str, span: Range<usize>, message: impl Into<String>, label: impl Into<String>) -> Self {
        let source = NamedSource::new("pipeline", text.to_string());
        let inner = Inner { message: message.into(), labels: Vec::new(), help: None, source, cause: None };
        Self(Box::new(inner)).with_label(span, label)
    }

    /// Adds advice.
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.0.help = Some(help.into());
        self
    }

    /// Adds advice if there is any.
    pub fn with_help_opt(mut self, help: Option<String>) -> Self {
        self.0.help = help.or(self.0.help);
        self
    }

    /// Adds another place; the first one is the main one.
    pub fn with_label(mut self, span: Range<usize>, label: impl Into<String>) -> Self {
        let len = self.0.source.inner().len();
        let start = span.start.min(len);
        let end = span.end.clamp(start, len);
        self.0.labels.push(LabeledSpan::new(Some(label.into()), start, end - start));
        self
    }

    /// Says which file the text came from.
    pub fn named(mut self, file: &str) -> Self {
        self.0.source = NamedSource::new(file, self.0.source.inner().clone());
        self
    }

    /// Adds the error of what the file names, whose message this is.
    pub fn with_cause(mut self, cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.0.cause = Some(Box::new(cause));
        self
    }

    /// The error of what the file names, if it is not the file that is wrong.
    pub fn cause(&self) -> Option<&(dyn std::error::Error + Send + Sync + 'static)> {
        self.0.cause.as_deref()
    }

    /// The name of the file.
    pub fn file(&self) -> &str {
        self.0.source.name()
    }

    /// The advice, if any.
    pub fn advice(&self) -> Option<&str> {
        self.0.help.as_deref()
    }

    /// The main place, as a byte range in the file.
    pub fn span(&self) -> Range<usize> {
        self.0.labels.first().map_or(0..0, |l| l.offset()..l.offset() + l.len())
    }

    /// Line and column of the main place, both from 1, the column in characters.
    pub fn line_column(&self) -> (usize, usize) {
        let text = self.0.source.inner();
        let before = text.get(..self.span().start).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        (line, before.rsplit('\n').next().unwrap_or("").chars().count() + 1)
    }
}

impl fmt::Display for PipelineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for PipelineError {}

impl Diagnostic for PipelineError {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.0.help.as_ref().map(|h| Box::new(h) as Box<dyn fmt::Display>)
    }
    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&self.0.source)
    }
    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        Some(Box::new(self.0.labels.iter().cloned()))
    }
}
