//! What is wrong with text that is no YAML: the indentation, a colon, or quotes, and how to write it.
//!
//! A YAML parser says what it expected. People want to know what they wrote, so the lines around the place are looked at again.

use crate::PipelineError;
use std::ops::Range;

/// Letters that may not begin a value without quotes.
const SPECIAL: &str = "*&!%@`";

/// A line that is not empty and not a comment.
struct Line<'t> {
    number: usize,
    start: usize,
    /// Without the line's end and a comment.
    text: &'t str,
}

impl<'t> Line<'t> {
    fn body(&self) -> &'t str {
        self.text.trim()
    }
    fn indent(&self) -> usize {
        self.text.len() - self.text.trim_start().len()
    }
    fn span(&self) -> Range<usize> {
        let from = self.start + self.indent();
        from..from + self.body().len()
    }
    /// The name before the first colon, and where in the file the value begins.
    fn pair(&self) -> Option<(&'t str, usize)> {
        let body = self.body();
        let colon = colon(body)?;
        let name = body[..colon].trim_start_matches("- ").trim();
        let rest = &body[colon + 1..];
        Some((name, self.start + self.indent() + colon + 1 + (rest.len() - rest.trim_start().len())))
    }
    fn value(&self) -> Option<&'t str> {
        let (_, at) = self.pair()?;
        self.text.get(at - self.start..).map(str::trim).filter(|v| !v.is_empty())
    }
    fn spaces(&self) -> String {
        match self.indent() {
            0 => "not at all".into(),
            1 => "by 1 space".into(),
            n => format!("by {n} spaces"),
        }
    }
}

/// The colon that ends a key: before a space or at the end, outside of quotes.
fn colon(body: &str) -> Option<usize> {
    let mut quote = None;
    for (i, c) in body.char_indices() {
        match (quote, c) {
            (Some(q), _) if q == c => quote = None,
            (None, '"' | '\'') if body[..i].trim_start_matches("- ").is_empty() => quote = Some(c),
            (None, ':') if body[i + 1..].chars().next().is_none_or(char::is_whitespace) => return Some(i),
            _ => {}
        }
    }
    None
}

fn lines(text: &str) -> Vec<Line<'_>> {
    let mut start = 0;
    let mut out = Vec::new();
    for (i, line) in text.split_inclusive('\n').enumerate() {
        let content = line.trim_end();
        let content = content.find(" #").map_or(content, |at| content[..at].trim_end());
        if !content.trim().is_empty() && !content.trim_start().starts_with('#') {
            out.push(Line { number: i + 1, start, text: content });
        }
        start += line.len();
    }
    out
}

/// A value in quotes.
pub(crate) fn quoted(value: &str) -> String {
    if value.contains('\'') && !value.contains(['"', '\\']) { format!("\"{value}\"") } else { format!("'{}'", value.replace('\'', "''")) }
}

/// Where what begins with a quote or a bracket ends, after its last letter.
fn closed(text: &str) -> Option<usize> {
    let mut depth = Vec::new();
    let mut quote = None;
    let mut chars = text.char_indices();
    while let Some((i, c)) = chars.next() {
        match (quote, c) {
            (Some('"'), '\\') => {
                chars.next();
            }
            (Some(q), _) if q == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => depth.push(c),
            (None, ']') if depth.last() == Some(&'[') => drop(depth.pop()),
            (None, '}') if depth.last() == Some(&'{') => drop(depth.pop()),
            (None, _) => {}
        }
        if quote.is_none() && depth.is_empty() {
            return Some(i + c.len_utf8());
        }
    }
    None
}

struct Text<'t> {
    text: &'t str,
    lines: Vec<Line<'t>>,
    /// Where the parser stopped.
    at: usize,
    /// The line of that place.
    here: usize,
}

impl<'t> Text<'t> {
    fn error(&self, span: Range<usize>, message: String, label: &str, help: String) -> PipelineError {
        PipelineError::new(self.text, span, message, label).with_help(help)
    }

    fn before(&self) -> Option<&Line<'t>> {
        self.here.checked_sub(1).and_then(|i| self.lines.get(i))
    }

    fn tab(&self, line: &Line<'t>) -> Option<PipelineError> {
        let tab = line.text[..line.indent()].find('\t')?;
        let at = line.start + tab;
        let help = "write spaces instead, two for each level; most editors can do so when the tab key is pressed".into();
        Some(self.error(
            at..at + 1,
            format!("line {} is indented with a tab; in YAML only spaces indent", line.number),
            "this is a tab",
            help,
        ))
    }

    /// A value that begins with what YAML has another use for.
    fn quotes(&self, line: &Line<'t>) -> Option<PipelineError> {
        let ((name, start), value) = (line.pair()?, line.value()?);
        let first = value.chars().next()?;
        let block = |v: &str| v[1..].chars().all(|c| c.is_ascii_digit() || c == '+' || c == '-');
        let why = match first {
            c if SPECIAL.contains(c) => format!("a value that begins with {c} must be in quotes"),
            '-' if value.starts_with("- ") => "YAML takes what begins with a minus and a space for a list".into(),
            '>' | '|' if !block(value) => format!("a value that begins with {first} must be in quotes"),
            '[' | '{' | '"' | '\'' => {
                let end = closed(value)?;
                if value[end..].trim().is_empty() {
                    return None;
                }
                let what = match first {
                    '[' => "a list",
                    '{' => "a mapping",
                    _ => "text in quotes",
                };
                format!("YAML takes what begins with {first} for {what} and cannot read what follows it")
            }
            _ => return None,
        };
        let help = format!("put the whole value in quotes: `{name}: {}`", quoted(value));
        Some(self.error(start..start + value.len(), why, "this value", help))
    }

    /// What was opened and goes on to where the parser stopped.
    fn open(&self) -> Option<PipelineError> {
        let end = self.at.max(self.lines[self.here].span().end);
        let (start, first) = self.lines[..=self.here].iter().rev().find_map(|l| {
            let start = l.pair().map_or(l.span().start, |(_, start)| start);
            let inside = self.text.get(start..end)?;
            let first = inside.chars().next().filter(|c| "[{\"'".contains(*c))?;
            closed(inside).is_none().then_some((start, first))
        })?;
        let (what, with) = match first {
            '[' => ("bracket", ']'),
            '{' => ("bracket", '}'),
            c => ("quote", c),
        };
        Some(self.error(start..start + 1, format!("the {what} {first} is not closed"), "opened here", format!("add a {with} at its end")))
    }

    fn second_colon(&self) -> Option<PipelineError> {
        let line = &self.lines[self.here];
        let ((name, start), value) = (line.pair()?, line.value()?);
        if self.at <= start || !self.text[self.at..].starts_with(':') {
            return None;
        }
        let message = format!("line {} has a second colon with a space after it, so YAML takes the value for another key", line.number);
        let inner = self.text[start..self.at].trim();
        let help = if inner.chars().all(|c| c.is_alphanumeric() || c == '_') {
            format!("write `{inner}:` on a line of its own below `{name}:`, indented by two spaces more")
        } else {
            format!("put the value in quotes: `{name}: {}`", quoted(value))
        };
        Some(self.error(self.at..self.at + 1, message, "the second colon", help))
    }

    /// A line without a colon, or without a space after it.
    fn no_colon(&self, line: &Line<'t>) -> Option<PipelineError> {
        let body = line.body();
        if colon(body).is_some() || body.starts_with("- ") || body.starts_with(['[', '{', ']', '}']) {
            return None;
        }
        let (message, label, help) = no_pair(body)?;
        Some(self.error(line.span(), format!("line {}: {message}", line.number), label, help))
    }

    fn too_deep(&self) -> Option<PipelineError> {
        let (line, before) = (&self.lines[self.here], self.before()?);
        if line.indent() <= before.indent() {
            return None;
        }
        let ((name, _), (other, _)) = (line.pair()?, before.pair()?);
        before.value()?;
        let message = format!("line {} is indented {}, line {} {}", line.number, line.spaces(), before.number, before.spaces());
        let help = format!(
            "'{other}' has a value already, so nothing can be below it: indent '{name}' {} as '{other}' is, if they belong together",
            before.spaces()
        );
        Some(self.error(line.start..line.span().end, message, "indented too far", help))
    }

    /// A line whose indentation is none of those above.
    fn between(&self) -> Option<PipelineError> {
        let line = &self.lines[self.here];
        let mut levels: Vec<usize> = Vec::new();
        for l in &self.lines[..self.here] {
            levels.retain(|n| *n < l.indent());
            levels.push(l.indent());
        }
        if levels.contains(&line.indent()) || levels.iter().all(|n| *n < line.indent()) {
            return None;
        }
        let all: Vec<String> = levels.iter().map(usize::to_string).collect();
        let message =
            format!("line {} is indented {}, which is none of the indentations above it ({})", line.number, line.spaces(), all.join(", "));
        let help = "lines of one level begin in the same column".into();
        Some(self.error(line.start..line.span().end, message, "this line", help))
    }
}

/// What is wrong with text that should be NAME: VALUE; message, label and help.
pub(crate) fn no_pair(body: &str) -> Option<(&'static str, &'static str, String)> {
    // A place has dots and slashes.
    let name_end = body.find(|c: char| !(c.is_alphanumeric() || "_./-".contains(c))).unwrap_or(body.len());
    let (name, rest) = body.split_at(name_end);
    if name.is_empty() {
        return None;
    }
    if let Some(value) = rest.strip_prefix(':') {
        return Some(("there is no space after the colon", "needs a space", format!("write `{name}: {value}`")));
    }
    let value = rest.trim_start().trim_start_matches('=').trim();
    let help = if value.is_empty() { format!("write `{name}:` and what it is") } else { format!("write `{name}: {value}`") };
    Some(("there is no colon after the name", "this line", help))
}

/// An error for YAML that cannot be parsed: `at` is where the parser stopped, `info` what it says.
pub(crate) fn explain(text: &str, at: usize, info: &str) -> PipelineError {
    let at = at.min(text.len());
    let plain = || PipelineError::new(text, at..at, format!("not valid YAML: {info}"), "here");
    let lines = lines(text);
    let Some(here) = lines.iter().rposition(|l| l.start <= at) else { return plain() };
    let t = Text { text, lines, at, here };
    let (line, before) = (&t.lines[here], t.before());
    // A value may go on in the next line, until a tab is found there.
    let next = t.lines.get(here + 1).filter(|_| info.contains("tab"));
    t.tab(line)
        .or_else(|| next.and_then(|l| t.tab(l)))
        .or_else(|| t.quotes(line))
        .or_else(|| t.open())
        .or_else(|| t.second_colon())
        .or_else(|| before.and_then(|l| t.no_colon(l)))
        .or_else(|| t.no_colon(line))
        .or_else(|| t.between())
        .or_else(|| t.too_deep())
        .or_else(|| before.and_then(|l| t.quotes(l)))
        .unwrap_or_else(plain)
}
