//! Selection by label: from labels, as a person writes them, to indices of an axis.
//!
//! The rules are xarray's. A date may be given in part: `2019-06` is all of that month where the coordinate is finer, and one element
//! where it is not. Both ends of a range belong to it.

use crate::coords::{Coord, Labels};

/// A label that is looked for.
#[derive(Debug, Clone, PartialEq)]
pub enum Label {
    /// A number.
    Number(f64),
    /// A text, or a date.
    Text(String),
}

impl std::fmt::Display for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Label::Number(v) => write!(f, "{v}"),
            Label::Text(t) => write!(f, "\"{t}\""),
        }
    }
}

/// What is selected of an axis.
#[derive(Debug, Clone, PartialEq)]
pub enum Wanted {
    /// The element with a label, or all of a part of a date.
    One(Label),
    /// The elements with these labels, in this order.
    Several(Vec<Label>),
    /// Those between two labels, which belong to it, each `step`-th.
    Between(Option<Label>, Option<Label>, i64),
}

/// How a label is found that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Method {
    /// It is not.
    #[default]
    Exact,
    /// The nearest one, no further away than this; of two equally near ones the greater.
    Nearest(Option<f64>),
}

/// Indices of an axis.
#[derive(Debug, Clone, PartialEq)]
pub enum Place {
    /// One element: the axis goes away.
    At(u64),
    /// `len` elements from `start` on, in steps.
    Range {
        /// The first.
        start: u64,
        /// How many.
        len: u64,
        /// From one to the next; negative goes back.
        step: i64,
    },
    /// These.
    List(Vec<u64>),
}

/// A date of which only the first fields are given: year, month, day, hour, minute, second.
fn partial_date(text: &str) -> Option<Vec<f64>> {
    let text = text.trim();
    let (sign, rest) = text.strip_prefix('-').map_or((1.0, text), |t| (-1.0, t));
    let rest = rest.strip_suffix(['Z', 'z']).unwrap_or(rest);
    let (date, clock) = rest.split_once(['T', 't', ' ']).map_or((rest, None), |(d, c)| (d, Some(c)));
    let number = |t: &str, digits: std::ops::RangeInclusive<usize>| {
        (digits.contains(&t.len()) && t.bytes().all(|b| b.is_ascii_digit())).then(|| t.parse::<f64>().ok()).flatten()
    };
    let mut out = Vec::new();
    for (k, part) in date.split('-').enumerate() {
        out.push(if k == 0 { sign * number(part, 4..=6)? } else { number(part, 1..=2)? });
    }
    if out.len() > 3 || clock.is_some() && out.len() != 3 {
        return None;
    }
    for (k, part) in clock.into_iter().flat_map(|c| c.split(':')).enumerate() {
        let seconds = || part.parse::<f64>().ok().filter(|s| (0.0..61.0).contains(s) && part.starts_with(|c: char| c.is_ascii_digit()));
        out.push(if k == 2 { seconds()? } else { number(part, 1..=2)? });
    }
    let fits = out.get(1).is_none_or(|m| (1.0..=12.0).contains(m)) && out.get(2).is_none_or(|d| (1.0..=31.0).contains(d));
    (out.len() <= 6 && fits).then_some(out)
}

/// The fields of a date that is given in full or in part, the rest at their beginning.
///
/// ```
/// assert_eq!(chunkwise_ops::select::date_fields("2019-06"), Some([2019.0, 6.0, 1.0, 0.0, 0.0, 0.0]));
/// assert_eq!(chunkwise_ops::select::date_fields("June"), None);
/// ```
pub fn date_fields(text: &str) -> Option<[f64; 6]> {
    let given = partial_date(text)?;
    let mut out = [0.0, 1.0, 1.0, 0.0, 0.0, 0.0];
    out[..given.len()].copy_from_slice(&given);
    Some(out)
}

/// Labels that can be looked through.
struct Keys<'a> {
    coord: &'a Coord,
    /// Of numbers.
    numbers: Vec<f64>,
    /// Of times.
    dates: Vec<[f64; 6]>,
    texts: &'a [String],
    /// 1: each is at least the one before. -1: at most. 0: neither.
    order: i8,
}

/// A label as keys compare with it.
enum Key {
    Number(f64),
    Date(Vec<f64>),
    Text(String),
}

fn order_of<T: PartialOrd>(list: &[T]) -> i8 {
    if list.windows(2).all(|w| w[0] <= w[1]) {
        1
    } else if list.windows(2).all(|w| w[0] >= w[1]) {
        -1
    } else {
        0
    }
}

impl Keys<'_> {
    fn new(coord: &Coord) -> Result<Keys<'_>, String> {
        let texts: &[String] = if let Labels::Text(t) = &coord.labels { t } else { &[] };
        let dates: Vec<[f64; 6]> = if coord.is_time() {
            let values = coord.floats().unwrap_or_default();
            let dates = crate::calendar::decode(&values, coord.text_attribute("units"), coord.text_attribute("calendar"))?;
            dates.iter().map(crate::calendar::DateTime::fields).collect()
        } else {
            Vec::new()
        };
        let numbers = coord.floats().unwrap_or_default();
        let order = match (&texts, dates.is_empty()) {
            ([_, ..], _) => order_of(texts),
            (_, false) => order_of(&dates),
            _ => order_of(&numbers),
        };
        Ok(Keys { coord, numbers, dates, texts, order })
    }

    fn is_time(&self) -> bool {
        self.coord.is_time()
    }

    fn len(&self) -> usize {
        self.coord.len() as usize
    }

    /// A label as this coordinate has them, or why it cannot be one.
    fn key(&self, label: &Label) -> Result<Key, String> {
        let name = &self.coord.name;
        match label {
            Label::Text(t) if self.is_time() => partial_date(t)
                .map(Key::Date)
                .ok_or_else(|| format!("\"{t}\" is not a date such as \"2019-06\" or \"2019-06-15 12:00\", and '{name}' holds times")),
            Label::Text(t) if matches!(self.coord.labels, Labels::Text(_)) => Ok(Key::Text(t.clone())),
            Label::Text(t) => Err(format!("\"{t}\" is a text, but '{name}' holds numbers")),
            Label::Number(v) if self.is_time() => Err(format!(
                "'{name}' holds times, so the number {v} is no label of it; write a date in quotes, such as \"{}\" (for an index there is isel)",
                self.coord.shown().first().map_or("2019-06-15", String::as_str)
            )),
            Label::Number(v) if matches!(self.coord.labels, Labels::Text(_)) => {
                Err(format!("{v} is a number, but '{name}' holds texts; write isel(x, {name}={v}) for an index"))
            }
            Label::Number(v) => Ok(Key::Number(*v)),
        }
    }

    /// How the label at an index compares with a key. A date in part is equal to all dates that begin with it.
    fn compare(&self, i: usize, key: &Key) -> Option<std::cmp::Ordering> {
        match key {
            Key::Number(v) => self.numbers.get(i)?.partial_cmp(v),
            Key::Text(t) => Some(self.texts.get(i)?.cmp(t)),
            Key::Date(d) => self.dates.get(i)?[..d.len()].partial_cmp(&d[..]),
        }
    }

    fn equal(&self, key: &Key) -> Vec<u64> {
        (0..self.len()).filter(|&i| self.compare(i, key) == Some(std::cmp::Ordering::Equal)).map(|i| i as u64).collect()
    }

    /// The number of fields that tell the dates apart: 3 if all are at midnight.
    fn resolution(&self) -> usize {
        (3..6).rev().find(|&k| self.dates.iter().any(|d| d[k] != 0.0)).map_or(3, |k| k + 1)
    }

    /// A key as a number, for distances.
    fn value(&self, key: &Key) -> Result<f64, String> {
        match key {
            Key::Number(v) => Ok(*v),
            Key::Text(_) => Err(format!("'{}' holds texts, which have no nearest", self.coord.name)),
            Key::Date(d) => {
                let mut fields = [0.0, 1.0, 1.0, 0.0, 0.0, 0.0];
                fields[..d.len()].copy_from_slice(d);
                crate::calendar::encode(fields, self.coord.text_attribute("units"), self.coord.text_attribute("calendar"))
            }
        }
    }

    fn nearest(&self, key: &Key, tolerance: Option<f64>, label: &Label) -> Result<u64, String> {
        let wanted = self.value(key)?;
        let far = |i: &usize| (self.numbers[*i] - wanted).abs();
        let found = (0..self.numbers.len()).filter(|i| far(i).is_finite()).reduce(|a, b| match far(&a).total_cmp(&far(&b)) {
            std::cmp::Ordering::Less => a,
            std::cmp::Ordering::Greater => b,
            std::cmp::Ordering::Equal if self.numbers[a] >= self.numbers[b] => a,
            std::cmp::Ordering::Equal => b,
        });
        match (found, tolerance) {
            (Some(i), Some(t)) if far(&i) > t => {
                Err(format!("the nearest to {label} in '{}' is {}, further away than the tolerance", self.coord.name, self.shown(i)))
            }
            (Some(i), _) => Ok(i as u64),
            (None, _) => Err(format!("'{}' has no labels", self.coord.name)),
        }
    }

    fn shown(&self, i: usize) -> String {
        self.coord.shown().get(i).cloned().unwrap_or_default()
    }

    /// That a label is not there, and what is.
    fn missing(&self, label: &Label) -> String {
        let near = self.key(label).and_then(|k| self.nearest(&k, None, label)).ok();
        let near =
            near.map(|i| format!("; the nearest is {}: write nearest({label}) to take it", self.shown(i as usize))).unwrap_or_default();
        format!("{label} is not among the labels: {}{near}", self.coord.summary())
    }

    fn one(&self, label: &Label, method: Method) -> Result<Place, String> {
        let key = self.key(label)?;
        if let Method::Nearest(tolerance) = method {
            return self.nearest(&key, tolerance, label).map(Place::At);
        }
        let found = self.equal(&key);
        // Calendars of their own have no resolution in xarray: a text is always a range there.
        let plain = matches!(self.coord.text_attribute("calendar"), "" | "standard" | "gregorian" | "proleptic_gregorian");
        let whole = match &key {
            Key::Date(d) => d.len() < self.resolution() || !plain,
            _ => false,
        };
        match &found[..] {
            [] => Err(self.missing(label)),
            [one] if !whole => Ok(Place::At(*one)),
            _ => Ok(run(found)),
        }
    }

    fn between(&self, from: Option<&Label>, to: Option<&Label>, step: i64) -> Result<Place, String> {
        let name = &self.coord.name;
        if step < 1 {
            return Err("the step of a range of labels must be at least 1; use flip() to turn an axis round".into());
        }
        if self.order == 0 {
            return Err(format!("'{name}' is neither ascending nor descending, so no range of it is defined; name the labels in a list"));
        }
        let (a, b) = (from.map(|l| self.key(l)).transpose()?, to.map(|l| self.key(l)).transpose()?);
        if let (Some(x), Some(y)) = (&a, &b) {
            // On a descending axis both orders are understood; on an ascending one the other is a mistake.
            let reversed = match (x, y) {
                (Key::Number(p), Key::Number(q)) => p > q,
                (Key::Text(p), Key::Text(q)) => p > q,
                (Key::Date(p), Key::Date(q)) => p[..p.len().min(q.len())] > q[..p.len().min(q.len())],
                _ => false,
            };
            if reversed && self.order > 0 && self.len() > 1 {
                let shown = |l: Option<&Label>| l.map(Label::to_string).unwrap_or_default();
                return Err(format!("'{name}' is ascending, so the range is {}:{}", shown(to), shown(from)));
            }
            return Ok(if reversed { self.inside(b.as_ref(), a.as_ref(), step) } else { self.inside(a.as_ref(), b.as_ref(), step) });
        }
        // An open end is that of the axis: on a descending one, `20:` is what comes after 20.
        Ok(if self.order < 0 { self.inside(b.as_ref(), a.as_ref(), step) } else { self.inside(a.as_ref(), b.as_ref(), step) })
    }

    /// Every `step`-th of the labels from `low` to `high`, which are next to each other.
    fn inside(&self, low: Option<&Key>, high: Option<&Key>, step: i64) -> Place {
        let inside = |i: &usize| {
            low.is_none_or(|k| self.compare(*i, k).is_some_and(std::cmp::Ordering::is_ge))
                && high.is_none_or(|k| self.compare(*i, k).is_some_and(std::cmp::Ordering::is_le))
        };
        let found: Vec<usize> = (0..self.len()).filter(inside).collect();
        let len = (found.len() as u64).div_ceil(step as u64);
        Place::Range { start: found.first().map_or(0, |i| *i as u64), len, step }
    }
}

/// Indices as a range if they are one.
fn run(list: Vec<u64>) -> Place {
    if list.windows(2).all(|w| w[1] == w[0] + 1) && !list.is_empty() {
        Place::Range { start: list[0], len: list.len() as u64, step: 1 }
    } else {
        Place::List(list)
    }
}

/// The indices that labels select along a coordinate.
///
/// ```
/// use chunkwise_ops::{Coord, select::{Label, Method, Place, Wanted, find}};
/// let years = Coord::integers("year", &[2003, 2002, 2001], Default::default());
/// let between = Wanted::Between(Some(Label::Number(2001.5)), None, 1);
/// assert_eq!(find(&years, &Wanted::One(Label::Number(2002.0)), Method::Exact), Ok(Place::At(1)));
/// assert_eq!(find(&years, &between, Method::Exact), Ok(Place::Range { start: 2, len: 1, step: 1 }));
/// ```
///
/// # Errors
/// When a label is not there, is of another kind than the coordinate's, or there is no order for a range.
pub fn find(coord: &Coord, wanted: &Wanted, method: Method) -> Result<Place, String> {
    if coord.labels == Labels::Lost {
        return Err(format!("the labels of '{}' are not known any more: the array was padded, or joined from unlike parts", coord.name));
    }
    let keys = Keys::new(coord)?;
    match wanted {
        Wanted::One(label) => keys.one(label, method),
        Wanted::Between(from, to, step) => match method {
            Method::Exact => keys.between(from.as_ref(), to.as_ref(), *step),
            Method::Nearest(_) => Err("a range takes what lies between its ends; 'nearest' is for single labels".into()),
        },
        Wanted::Several(list) => {
            let one = |label: &Label| match keys.one(label, method)? {
                Place::At(i) => Ok(vec![i]),
                Place::Range { start, len: 1, .. } => Ok(vec![start]),
                _ => Err(format!("{label} is the label of several elements of '{}'; in a list each must be one", coord.name)),
            };
            Ok(Place::List(list.iter().map(one).collect::<Result<Vec<_>, String>>()?.concat()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chunkwise_types::DType;

    fn days(n: u64, calendar: &str) -> Coord {
        let attributes = serde_json::json!({"units": "days since 2001-01-30", "calendar": calendar});
        let bytes = (0..n).flat_map(|d| (d as f64).to_ne_bytes()).collect();
        Coord::numbers("time", "time", DType::Float64, bytes, attributes.as_object().cloned().unwrap_or_default())
    }

    #[test]
    fn dates_in_part() {
        let one = |c: &Coord, t: &str| find(c, &Wanted::One(Label::Text(t.into())), Method::Exact);
        let c = days(60, "standard");
        assert_eq!(one(&c, "2001-02"), Ok(Place::Range { start: 2, len: 28, step: 1 }));
        assert_eq!(one(&c, "2001-02-01"), Ok(Place::At(2)));
        assert!(one(&c, "2001-13").is_err_and(|e| e.contains("not a date")));
        assert!(one(&c, "2003-02-01").is_err_and(|e| e.contains("nearest is 2001-03-30")));
        assert_eq!(one(&days(60, "360_day"), "2001-02"), Ok(Place::Range { start: 1, len: 30, step: 1 }));
        assert_eq!(one(&days(60, "360_day"), "2001-02-30"), Ok(Place::Range { start: 30, len: 1, step: 1 }));
    }

    #[test]
    fn ranges_hold_their_ends() {
        let c = days(60, "noleap");
        let text = |t: &str| Some(Label::Text(t.into()));
        let found = find(&c, &Wanted::Between(text("2001-02"), text("2001-02-10"), 1), Method::Exact);
        assert_eq!(found, Ok(Place::Range { start: 2, len: 10, step: 1 }));
        assert!(find(&c, &Wanted::Between(text("2001-03"), text("2001-02"), 1), Method::Exact).is_err_and(|e| e.contains("ascending")));
    }

    #[test]
    fn nearest_of_two_is_the_greater() {
        for list in [[10, 20, 30], [30, 20, 10]] {
            let c = Coord::integers("lat", &list, Default::default());
            let at = list.iter().position(|v| *v == 20).map(|i| Place::At(i as u64));
            assert_eq!(find(&c, &Wanted::One(Label::Number(15.0)), Method::Nearest(None)).ok(), at);
            assert!(find(&c, &Wanted::One(Label::Number(15.0)), Method::Nearest(Some(1.0))).is_err());
        }
    }
}
