//! Splits the text of an expression into tokens. White space, line ends and `#` comments separate tokens and mean nothing else.

use crate::SyntaxError;
use std::ops::Range;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Tok {
    Name(String),
    Int(i128),
    Float(f64),
    Imag(f64),
    Str(String),
    Op(&'static str),
    End,
}

#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub tok: Tok,
    pub span: Range<usize>,
}

/// Longest first.
const OPS: &[&str] = &[
    "...", "**", "//", "<<", ">>", "<=", ">=", "==", "!=", "(", ")", "[", "]", ",", ":", ".", "=", "<", ">", "|", "^", "&", "+", "-", "*",
    "/", "%", "@", "~",
];

pub(crate) fn error(span: Range<usize>, message: impl Into<String>, help: Option<&str>) -> SyntaxError {
    SyntaxError { message: message.into(), span, help: help.map(str::to_string) }
}

pub(crate) fn lex(text: &str) -> Result<Vec<Token>, SyntaxError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let next = rest[c.len_utf8()..].chars().next();
        if c.is_whitespace() {
            at += c.len_utf8();
            continue;
        }
        if c == '#' {
            at += rest.find('\n').unwrap_or(rest.len());
            continue;
        }
        let (tok, length) = if c.is_alphabetic() || c == '_' {
            let length = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
            if matches!(&rest[length..].chars().next(), Some('"' | '\'')) && length <= 2 {
                return Err(error(at..at + length, "string prefixes are not supported", Some("write a plain string")));
            }
            (Tok::Name(rest[..length].to_string()), length)
        } else if c.is_ascii_digit() || (c == '.' && next.is_some_and(|n| n.is_ascii_digit())) {
            number(rest, at)?
        } else if c == '"' || c == '\'' {
            string(rest, c, at)?
        } else if let Some(op) = OPS.iter().find(|op| rest.starts_with(**op)) {
            (Tok::Op(op), op.len())
        } else {
            let help = match c {
                '!' => Some("use ~ for 'not' and != for 'not equal'"),
                '{' | '}' => Some("there are no dictionaries; pass keyword arguments instead"),
                '?' => Some("use where(condition, a, b)"),
                ';' => Some("an expression is a single value; define several arrays instead"),
                '“' | '”' | '‘' | '’' => Some("use straight quotes"),
                '×' | '·' => Some("use * to multiply"),
                '−' | '–' => Some("use an ordinary minus sign -"),
                _ => None,
            };
            return Err(error(at..at + c.len_utf8(), format!("unexpected character '{}'", c.escape_debug()), help));
        };
        tokens.push(Token { tok, span: at..at + length });
        at += length;
    }
    tokens.push(Token { tok: Tok::End, span: text.len()..text.len() });
    Ok(tokens)
}

fn number(rest: &str, at: usize) -> Result<(Tok, usize), SyntaxError> {
    let bytes = rest.as_bytes();
    let word = |from: usize| rest[from..].find(|c: char| !(c.is_alphanumeric() || c == '_')).map_or(rest.len(), |n| n + from);
    let bad = |end: usize, help| error(at..at + end, format!("'{}' is not a number", &rest[..end]), help);
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if rest.get(..2).is_some_and(|p| p.eq_ignore_ascii_case(prefix)) {
            let end = word(0);
            let digits = rest[2..end].replace('_', "");
            return i128::from_str_radix(&digits, radix).map(|v| (Tok::Int(v), end)).map_err(|_| bad(end, None));
        }
    }
    let digits = |mut i: usize| {
        while bytes.get(i).is_some_and(|b| b.is_ascii_digit() || *b == b'_') {
            i += 1;
        }
        i
    };
    let mut end = digits(0);
    let mut float = false;
    if bytes.get(end) == Some(&b'.')
        && !bytes.get(end + 1).is_some_and(|b| b.is_ascii_alphabetic() && !matches!(b, b'e' | b'E' | b'j' | b'J'))
    {
        // `1..` and `1...` leave the dots to the next token.
        if bytes.get(end + 1) != Some(&b'.') {
            float = true;
            end = digits(end + 1);
        }
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        if bytes.get(end + 1 + sign).is_some_and(u8::is_ascii_digit) {
            float = true;
            end = digits(end + 1 + sign);
        }
    }
    let written = &rest[..end];
    let imaginary = matches!(bytes.get(end), Some(b'j' | b'J'));
    let total = end + usize::from(imaginary);
    let stop = word(total);
    if stop != total {
        return Err(bad(stop, Some("a name cannot begin with a digit; use * to multiply")));
    }
    if written.ends_with('_') || written.contains("__") || written.contains("_.") || written.contains("._") {
        return Err(bad(total, Some("put single underscores between digits only")));
    }
    let clean = written.replace('_', "");
    if float || imaginary {
        let value: f64 = clean.parse().map_err(|_| bad(total, None))?;
        Ok((if imaginary { Tok::Imag(value) } else { Tok::Float(value) }, total))
    } else {
        let value = clean.parse().map_err(|_| bad(total, Some("the integer is too large; write it as a float, such as 1e40")))?;
        Ok((Tok::Int(value), total))
    }
}

fn string(rest: &str, quote: char, at: usize) -> Result<(Tok, usize), SyntaxError> {
    let mut out = String::new();
    let mut chars = rest.char_indices().skip(1);
    while let Some((i, c)) = chars.next() {
        match c {
            c if c == quote => return Ok((Tok::Str(out), i + 1)),
            '\n' => break,
            '\\' => match chars.next() {
                Some((_, 'n')) => out.push('\n'),
                Some((_, 't')) => out.push('\t'),
                Some((_, 'r')) => out.push('\r'),
                Some((_, c @ ('\\' | '\'' | '"'))) => out.push(c),
                Some((_, c)) => {
                    let message = format!("unknown escape '\\{}' in a string", c.escape_debug());
                    return Err(error(at + i..at + i + 1 + c.len_utf8(), message, Some("write \\\\ for a backslash")));
                }
                None => break,
            },
            c => out.push(c),
        }
    }
    Err(error(at..at + 1, "the string is not closed", Some(if quote == '"' { "add a closing \"" } else { "add a closing '" })))
}
