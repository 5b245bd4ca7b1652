//! Small changes of inputs, for runs without a fuzzer that is guided by coverage.
//!
//! Bytes are flipped, set, inserted, left out, repeated and taken from other inputs of the corpus; numbers, in digits or in binary, become those at
//! the limits of their types; words come from a list and from the corpus; and of JSON, values are exchanged, so that the document stays one.

use fastrand::Rng;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Bytes of an input, at most.
const MAX_INPUT_BYTES: usize = 64 << 10;
/// Words that are taken from the corpus, at most.
const WORDS: usize = 2000;

/// Numbers at which something ends.
const NUMBERS: [i128; 22] = [
    0,
    1,
    2,
    3,
    7,
    16,
    255,
    256,
    4096,
    65_535,
    1 << 20,
    1 << 31,
    u32::MAX as i128,
    1 << 40,
    1 << 53,
    1 << 62,
    i64::MAX as i128,
    u64::MAX as i128 - 1,
    u64::MAX as i128,
    1 << 64,
    -1,
    i64::MIN as i128,
];

/// Words with a meaning somewhere.
const TOKENS: [&str; 44] = [
    "[",
    "]",
    "{",
    "}",
    "\"",
    ":",
    ",",
    "-",
    "\n",
    "\n  ",
    "#",
    "..",
    "../",
    "/",
    "//",
    ".",
    "://",
    "s3://",
    "file:",
    "file://",
    "memory:",
    "http://",
    "@",
    "?",
    "%2e",
    "%",
    "\\",
    " ",
    "\t",
    "\u{a0}",
    "\u{0}",
    "\u{1b}[2J",
    "é",
    "null",
    "true",
    "NaN",
    "Infinity",
    "1e400",
    "-0.0",
    "0.1",
    "()",
    "*",
    "&a",
    "<<: *a",
];

/// Makes new inputs from those of a corpus, always the same ones for a seed.
pub struct Mutator<'c> {
    corpus: &'c [Vec<u8>],
    words: Vec<Vec<u8>>,
    rng: Rng,
}

impl<'c> Mutator<'c> {
    /// Of a corpus, which must not be empty.
    pub fn new(corpus: &'c [Vec<u8>], seed: u64) -> Mutator<'c> {
        let texts = corpus.iter().filter_map(|c| std::str::from_utf8(c).ok());
        let in_words = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-');
        let found: BTreeSet<&str> =
            texts.flat_map(|t| t.split(|c| !in_words(c))).filter(|w| (1..40).contains(&w.len())).take(100 * WORDS).collect();
        let words = TOKENS.into_iter().chain(found.into_iter().take(WORDS)).map(|w| w.as_bytes().to_vec()).collect();
        Mutator { corpus, words, rng: Rng::with_seed(seed) }
    }

    /// A new input.
    pub fn input(&mut self) -> Vec<u8> {
        let mut data = self.other().to_vec();
        if self.rng.bool()
            && let Ok(mut document) = serde_json::from_slice::<Value>(&data)
        {
            for _ in 0..self.rng.usize(1..4) {
                self.exchange(&mut document);
            }
            data = document.to_string().into_bytes();
            if self.rng.usize(..4) > 0 {
                return data;
            }
        }
        for _ in 0..self.rng.usize(1..6) {
            self.change(&mut data);
        }
        data.truncate(MAX_INPUT_BYTES);
        data
    }

    fn other(&mut self) -> &'c [u8] {
        &self.corpus[self.rng.usize(..self.corpus.len())]
    }

    /// A short range of so many bytes.
    fn range(&mut self, len: usize) -> std::ops::Range<usize> {
        let from = self.rng.usize(..=len);
        let n = if self.rng.usize(..4) == 0 { self.rng.usize(..=len - from) } else { self.rng.usize(..17).min(len - from) };
        from..from + n
    }

    fn change(&mut self, data: &mut Vec<u8>) {
        let at = self.rng.usize(..=data.len());
        match self.rng.u8(..9) {
            0 if at < data.len() => data[at] ^= 1 << self.rng.u8(..8),
            1 if at < data.len() => data[at] = self.rng.u8(..),
            2 => drop(data.drain(self.range(data.len()))),
            3 => {
                let copy = data[self.range(data.len())].to_vec();
                data.splice(at..at, copy);
            }
            4 => {
                let other = self.other();
                let copy = &other[self.range(other.len())];
                let to = if self.rng.bool() { at..at } else { at..(at + copy.len()).min(data.len()) };
                data.splice(to, copy.iter().copied());
            }
            5 | 6 => self.number(data, at),
            7 if self.rng.usize(..20) == 0 => {
                let word = self.words[self.rng.usize(..self.words.len())].repeat(self.rng.usize(1..2000));
                data.splice(at..at, word);
            }
            _ => {
                let word = self.words[self.rng.usize(..self.words.len())].iter().copied();
                // In place of a word, so that the text around it keeps its form.
                let wordy = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.');
                let end = if self.rng.bool() { at + data[at..].iter().take_while(|b| wordy(b)).count() } else { at };
                data.splice(at..end, word);
            }
        }
    }

    /// Puts a number in place of the next one.
    fn number(&mut self, data: &mut Vec<u8>, at: usize) {
        let number = NUMBERS[self.rng.usize(..NUMBERS.len())];
        if let Some(digit) = data[at..].iter().take(64).position(u8::is_ascii_digit) {
            let from = at + digit;
            let end = from + data[from..].iter().take_while(|b| b.is_ascii_digit()).count();
            data.splice(from..end, number.to_string().into_bytes());
            return;
        }
        let width = 1 << self.rng.usize(..4);
        let bytes = if self.rng.bool() { number.to_le_bytes()[..width].to_vec() } else { number.to_be_bytes()[16 - width..].to_vec() };
        let end = (at + width).min(data.len());
        data.splice(at..end, bytes);
    }

    /// Exchanges a value of a document.
    fn exchange(&mut self, document: &mut Value) {
        let mut all = Vec::new();
        places(document, String::new(), &mut all);
        let from = all[self.rng.usize(..all.len())].clone();
        let other = document.pointer(&from).cloned().unwrap_or_default();
        let Some(value) = document.pointer_mut(&all[self.rng.usize(..all.len())]) else { return };
        let number = NUMBERS[self.rng.usize(..NUMBERS.len())];
        let number = i64::try_from(number).map_or_else(|_| json!(u64::try_from(number).unwrap_or(u64::MAX)), |n| json!(n));
        let word = String::from_utf8_lossy(&self.words[self.rng.usize(..self.words.len())]).into_owned();
        let pick = self.rng.usize(..);
        match value {
            Value::Number(n) if pick.is_multiple_of(3) => {
                *value = n.as_i64().map_or(number, |n| json!(n.wrapping_add(if pick.is_multiple_of(2) { 1 } else { -1 })))
            }
            Value::Number(_) if !pick.is_multiple_of(7) => *value = number,
            Value::String(text) if pick.is_multiple_of(3) => {
                let at = text.char_indices().map(|(i, _)| i).nth(pick % (text.len() + 1)).unwrap_or(text.len());
                text.insert_str(at, &word);
            }
            Value::String(_) if !pick.is_multiple_of(7) => *value = json!(word),
            Value::Array(list) if !list.is_empty() && !pick.is_multiple_of(4) => {
                let i = pick / 4 % list.len();
                match pick % 4 {
                    1 => drop(list.remove(i)),
                    2 => list.push(list[i].clone()),
                    _ => list.swap(0, i),
                }
            }
            Value::Array(list) => list.push(number),
            Value::Object(map) if !map.is_empty() && !pick.is_multiple_of(3) => {
                let key = map.keys().nth(pick / 3 % map.len()).cloned().unwrap_or_default();
                let removed = map.remove(&key);
                if pick % 3 == 1 {
                    map.insert(word, removed.unwrap_or_default());
                }
            }
            _ => *value = other,
        }
    }
}

/// The place of every value of a document.
fn places(value: &Value, at: String, out: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(k, v)| places(v, format!("{at}/{}", k.replace('~', "~0").replace('/', "~1")), out)),
        Value::Array(list) => list.iter().enumerate().for_each(|(i, v)| places(v, format!("{at}/{i}"), out)),
        _ => {}
    }
    out.push(at);
}
