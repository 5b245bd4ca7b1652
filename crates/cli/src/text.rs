//! Makes text of other people safe for a terminal.
//!
//! Names, attributes and messages come from stores, pipelines and servers. A terminal obeys control characters in them: they move the
//! cursor, rename the window, or write to the clipboard. Such characters are printed in the form of JSON (`\u001b`), which also keeps JSON
//! documents valid. The same is done with characters that change the direction of text. In error messages, passwords and queries of URLs
//! are left out, too.

use miette::{Diagnostic, LabeledSpan, NamedSource, Severity, SourceCode, SourceSpan, SpanContents};
use std::borrow::Cow;
use std::fmt::{self, Write};

/// True for a character that a terminal does not simply show. Line breaks and tabs are harmless.
fn acts(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text in a safe form.
pub(crate) fn safe(text: &str) -> Cow<'_, str> {
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match acts(c) {
            true => drop(write!(out, "\\u{:04x}", u32::from(c))),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Writes text in a safe form, piece by piece.
pub(crate) struct Safely<W>(pub W);

impl<W: fmt::Write> fmt::Write for Safely<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write_str(&safe(text))
    }
}

/// The positions of secrets in a text: users of URLs with their passwords, and queries.
fn secrets(text: &str) -> Vec<std::ops::Range<usize>> {
    let ends = |c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '`' | '<' | '>' | ')' | ']' | '}' | ',');
    let mut out = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find("://") {
        let start = from + at + 3;
        let url = &text[start..];
        let url = &url[..url.find(ends).unwrap_or(url.len())];
        let host = &url[..url.find(['/', '?', '#']).unwrap_or(url.len())];
        if let Some(user) = host.rfind('@') {
            out.push(start..start + user);
        }
        if let Some(query) = url.find('?') {
            out.push(start + query + 1..start + url.len());
        }
        from = start + url.len();
    }
    out.retain(|r| !r.is_empty());
    out
}

/// A message in a safe form.
pub(crate) fn message(text: &str) -> String {
    let mut out = text.to_string();
    for range in secrets(text).into_iter().rev() {
        out.replace_range(range, "***");
    }
    safe(&out).into_owned()
}

/// A file in a safe form. Every byte keeps its position, because labels point to positions.
fn excerpt(text: &str) -> String {
    let mut out: String = text.chars().map(|c| if acts(c) && c != '\r' { "?".repeat(c.len_utf8()) } else { c.to_string() }).collect();
    for range in secrets(text) {
        let stars = "*".repeat(range.len());
        out.replace_range(range, &stars);
    }
    out
}

/// A diagnostic in a safe form.
#[derive(Debug)]
pub(crate) struct Shown {
    message: String,
    help: Option<String>,
    severity: Option<Severity>,
    labels: Vec<LabeledSpan>,
    source: Option<NamedSource<String>>,
    cause: Option<Box<Shown>>,
}

impl Shown {
    pub fn of(d: &dyn Diagnostic) -> Shown {
        let labels: Vec<LabeledSpan> = d.labels().into_iter().flatten().collect();
        let name = |l: &LabeledSpan| LabeledSpan::new(l.label().map(message), l.offset(), l.len());
        // The whole file around the first position, which knows its name.
        let whole = labels.first().and_then(|l| read(d.source_code()?, l));
        Shown {
            message: message(&d.to_string()),
            help: d.help().map(|h| message(&h.to_string())),
            severity: d.severity(),
            labels: labels.iter().map(name).collect(),
            source: whole.map(|(file, text)| NamedSource::new(message(&file), excerpt(&text))),
            cause: std::error::Error::source(d).map(Shown::of_error),
        }
    }

    fn of_error(e: &(dyn std::error::Error + 'static)) -> Box<Shown> {
        let cause = e.source().map(Shown::of_error);
        Box::new(Shown { message: message(&e.to_string()), help: None, severity: None, labels: Vec::new(), source: None, cause })
    }
}

/// The name and the text of a file.
fn read(source: &dyn SourceCode, at: &LabeledSpan) -> Option<(String, String)> {
    let span = SourceSpan::new(at.offset().into(), at.len());
    let contents: Box<dyn SpanContents<'_> + '_> = source.read_span(&span, usize::MAX / 2, usize::MAX / 2).ok()?;
    Some((contents.name().unwrap_or_default().into(), String::from_utf8_lossy(contents.data()).into_owned()))
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Shown {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref().map(|c| &**c as &(dyn std::error::Error + 'static))
    }
}

impl Diagnostic for Shown {
    fn severity(&self) -> Option<Severity> {
        self.severity
    }
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|h| Box::new(h) as Box<dyn fmt::Display>)
    }
    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.source.as_ref().map(|s| s as &dyn SourceCode)
    }
    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        (!self.labels.is_empty()).then(|| Box::new(self.labels.iter().cloned()) as Box<dyn Iterator<Item = LabeledSpan>>)
    }
}

/// Prints every report in a safe form.
pub(crate) struct Handler(pub miette::MietteHandler);

impl miette::ReportHandler for Handler {
    fn debug(&self, error: &dyn Diagnostic, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.debug(&Shown::of(error), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_only_show() {
        assert_eq!(safe("a\tb\nü 漢"), "a\tb\nü 漢");
        assert_eq!(safe("\x1b]0;x\x07\r\u{9b}31m\u{202e}\x7f"), "\\u001b]0;x\\u0007\\u000d\\u009b31m\\u202e\\u007f");
        let document = serde_json::json!({"a": "\x1b\u{9b}\u{7f}\u{2066}"});
        assert_eq!(serde_json::from_str::<serde_json::Value>(&safe(&document.to_string())).ok(), Some(document));
    }

    #[test]
    fn secrets_are_left_out() {
        assert_eq!(message("'https://me:pw@host/x' and s3://b/c@d"), "'https://***@host/x' and s3://b/c@d");
        assert_eq!(message("GET https://h/x?sig=abc&e=1, then"), "GET https://h/x?***, then");
        let text = "in: \"https://me:p@host/x?s=1\" # \u{9b}";
        assert_eq!(excerpt(text), "in: \"https://****@host/x?***\" # ??");
        assert_eq!(excerpt(text).len(), text.len());
    }
}
