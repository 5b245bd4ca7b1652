//! Numbers, coordinates and ticks.

use super::select::Kept;
use crate::text::safe;
use chunkwise::kernels::{Block, cast};
use chunkwise::ops::calendar::{DateTime, decode};
use chunkwise::storage::{ArrayIo, ArrayMeta, Location, Stores, Values as Stored, open_array, read_small};
use chunkwise::{DType, types::Region};

/// The largest coordinate that is read, in elements.
const MAX_ELEMENTS: u64 = 1 << 20;

/// A number with as many digits as people want to read.
pub(super) fn number(v: f64) -> String {
    let size = v.abs();
    if v == 0.0 {
        return "0".into();
    }
    if !v.is_finite() {
        return v.to_string();
    }
    if !(1e-4..1e7).contains(&size) {
        let text = format!("{v:.3e}");
        return match text.split_once('e') {
            Some((m, e)) if m.contains('.') => format!("{}e{e}", m.trim_end_matches('0').trim_end_matches('.')),
            _ => text,
        };
    }
    let digits = (4 - size.log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{v:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// How the values of an array are printed: as numbers, or as dates if they are times.
pub(super) struct Written {
    /// Units, calendar, and whether the time of day matters.
    time: Option<(String, String, bool)>,
}

impl Written {
    /// For the values of an array, which lie between these bounds.
    pub fn new(meta: &ArrayMeta, low: f64, high: f64) -> Written {
        let text = |key: &str| meta.attributes.get(key).and_then(|v| v.as_str()).unwrap_or_default().to_string();
        let (units, calendar) = (text("units"), text("calendar"));
        let ends = units.contains(" since ").then(|| decode(&[low, high], &units, &calendar).ok()).flatten();
        let clock = ends.as_deref().is_some_and(|d| {
            d.first().zip(d.last()).is_some_and(|(a, b)| a.year == b.year && b.dayofyear.saturating_sub(a.dayofyear) < 10)
        });
        Written { time: ends.map(|_| (units, calendar, clock)) }
    }

    /// True if the values are times.
    pub fn dates(&self) -> bool {
        self.time.is_some()
    }

    /// A value as text.
    pub fn text(&self, v: f64) -> String {
        let Some((units, calendar, clock)) = &self.time else { return number(v) };
        decode(&[v], units, calendar)
            .ok()
            .and_then(|d| d.first().map(|t| date(t, *clock && (t.hour, t.minute) != (0, 0))))
            .unwrap_or_else(|| number(v))
    }
}

/// The name of an unusual calendar.
pub(super) fn other_calendar(meta: &ArrayMeta) -> Option<&str> {
    let name = meta.attributes.get("calendar").and_then(|v| v.as_str())?;
    (!matches!(name.to_ascii_lowercase().as_str(), "" | "standard" | "gregorian" | "proleptic_gregorian")).then_some(name)
}

/// Round numbers between two numbers, about `count` of them.
pub(super) fn round_numbers(low: f64, high: f64, count: usize) -> Vec<f64> {
    let width = high - low;
    if !(width > 0.0 && width.is_finite()) {
        return if low.is_finite() { vec![low] } else { Vec::new() };
    }
    let rough = width / count.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].iter().map(|m| m * power).find(|s| *s >= rough * 0.999).unwrap_or(10.0 * power);
    let first = (low / step - 1e-9).ceil();
    // A tick of 1e-17 is zero.
    (0..64).map(|i| (first + f64::from(i)) * step).take_while(|v| *v <= high + step * 1e-9).map(|v| v + 0.0).collect()
}

/// The values along a dimension.
enum Values {
    /// The index itself.
    Index,
    /// A coordinate with its units.
    Numbers(Vec<f64>, String),
    /// Times.
    Times(Vec<DateTime>),
    /// Texts, such as the names of seasons.
    Texts(Vec<String>),
}

/// A dimension that is drawn.
pub(super) struct Axis {
    /// Its name with units.
    pub title: String,
    /// True if the first index belongs at the bottom: a latitude that ascends.
    pub upwards: bool,
    values: Values,
    start: u64,
    len: u64,
}

fn read(stores: &Stores, group: &Location, name: &str, len: u64) -> Option<(ArrayMeta, Vec<f64>)> {
    let at = group.join(name);
    let meta = open_array(stores, &at).ok().filter(|m| m.shape == [len] && len <= MAX_ELEMENTS)?;
    let region = Region::full(&meta.shape);
    let io = ArrayIo::new(stores, &at, &meta).ok()?;
    let block = Block::from_bytes_with(meta.dtype, &meta.shape, |b| io.read_region(&region, b).map(|_| ())).ok()?;
    match cast(&block, DType::Float64) {
        Block::Float64(a) => Some((meta, a.iter().copied().collect())),
        _ => None,
    }
}

/// The texts along a dimension, if its coordinate has texts.
fn texts(stores: &Stores, group: &Location, kept: &Kept, len: u64) -> Option<Vec<String>> {
    let small = read_small(stores, &group.join(&kept.name), MAX_ELEMENTS).ok().flatten().filter(|a| a.shape == [len])?;
    let Stored::Text(all) = small.values else { return None };
    Some(all.iter().skip(kept.start as usize).take(kept.len as usize).map(|t| safe(t).into_owned()).collect())
}

fn date(t: &DateTime, clock: bool) -> String {
    let day = format!("{:04}-{:02}-{:02}", t.year, t.month, t.day);
    if clock { format!("{day} {:02}:{:02}", t.hour, t.minute) } else { day }
}

impl Axis {
    /// A dimension of the array at `at`, with the coordinate beside the array, if there is one.
    pub fn new(stores: &Stores, at: &Location, meta: &ArrayMeta, kept: &Kept) -> Axis {
        let (group, len) = (at.parent(), meta.shape.get(kept.axis).copied().unwrap_or(0));
        let found = group.as_ref().and_then(|g| read(stores, g, &kept.name, len));
        let Some((coordinate, all)) = found else {
            let values = group.and_then(|g| texts(stores, &g, kept, len)).map_or(Values::Index, Values::Texts);
            return Axis { title: safe(&kept.name).into_owned(), upwards: false, values, start: kept.start, len: kept.len };
        };
        let text = |key: &str| coordinate.attributes.get(key).and_then(|v| v.as_str()).unwrap_or_default().to_string();
        let (units, name) = (text("units"), kept.name.to_lowercase());
        let part: Vec<f64> = all.iter().skip(kept.start as usize).take(kept.len as usize).copied().collect();
        let latitude = name.starts_with("lat") || text("standard_name").contains("latitude") || units.starts_with("degrees_n");
        let upwards = latitude && part.windows(2).all(|w| w[0] < w[1]);
        let times = units.contains(" since ").then(|| decode(&part, &units, &text("calendar")).ok()).flatten();
        let title = match &times {
            None if !units.is_empty() && !units.starts_with("degree") => format!("{} [{units}]", kept.name),
            Some(_) => match other_calendar(&coordinate) {
                Some(calendar) => format!("{} ({calendar})", kept.name),
                None => kept.name.clone(),
            },
            None => kept.name.clone(),
        };
        let values = times.map_or(Values::Numbers(part, units), Values::Times);
        Axis { title: safe(&title).into_owned(), upwards, values, start: kept.start, len: kept.len }
    }

    fn degrees(v: f64, units: &str) -> String {
        let east = units == "degrees_east" || units == "degree_east";
        let v = if east && v > 180.0 { v - 360.0 * ((v + 180.0) / 360.0).floor() } else { v };
        let round = (v * 1e6).round() / 1e6;
        let side = match units {
            "degrees_north" | "degree_north" => Some(if v < 0.0 { "S" } else { "N" }),
            _ if east => Some(if v < 0.0 { "W" } else { "E" }),
            _ => None,
        };
        side.map_or_else(|| number(round), |s| if round == 0.0 { "0°".into() } else { format!("{}°{s}", number(round.abs())) })
    }

    /// The label of the element at an index of the slice.
    pub fn label(&self, index: u64) -> String {
        match &self.values {
            Values::Index => (self.start + index).to_string(),
            Values::Numbers(v, units) => v.get(index as usize).map_or_else(String::new, |v| Self::degrees(*v, units)),
            Values::Times(t) => t.get(index as usize).map_or_else(String::new, |t| date(t, t.hour != 0 || t.minute != 0)),
            Values::Texts(t) => t.get(index as usize).cloned().unwrap_or_default(),
        }
    }

    /// Ticks: their positions along the axis, from 0 to 1, and their texts.
    pub fn ticks(&self, count: usize) -> Vec<(f64, String)> {
        let n = self.len as f64;
        let middle = |i: f64| (i + 0.5) / n;
        match &self.values {
            Values::Index => round_numbers(self.start as f64, (self.start + self.len - 1) as f64, count)
                .into_iter()
                .filter(|v| v.fract() == 0.0)
                .map(|v| (middle(v - self.start as f64), number(v)))
                .collect(),
            Values::Numbers(v, units) => {
                let rising = v.windows(2).all(|w| w[0] < w[1]);
                if v.len() < 2 || !(rising || v.windows(2).all(|w| w[0] > w[1])) {
                    return self.spread(count);
                }
                let (a, b) = (v[0].min(v[v.len() - 1]), v[0].max(v[v.len() - 1]));
                let at = |t: f64| {
                    let i = v.partition_point(|x| if rising { *x <= t } else { *x >= t }).clamp(1, v.len() - 1);
                    i as f64 - 1.0 + (t - v[i - 1]) / (v[i] - v[i - 1])
                };
                let around = units.starts_with("degree") && b - a > 100.0;
                let values = if around { steps_of(a, b, 30.0, count) } else { round_numbers(a, b, count) };
                values.into_iter().map(|t| (middle(at(t)), Self::degrees(t, units))).collect()
            }
            Values::Texts(_) => self.spread(count),
            Values::Times(t) => times(t, count)
                .map_or_else(|| self.spread(count), |found| found.into_iter().map(|(i, text)| (middle(i as f64), text)).collect()),
        }
    }

    /// Ticks at elements with equal distances.
    fn spread(&self, count: usize) -> Vec<(f64, String)> {
        let step = self.len.div_ceil(count.max(1) as u64).max(1);
        (0..self.len).step_by(step as usize).map(|i| ((i as f64 + 0.5) / self.len as f64, self.label(i))).collect()
    }
}

/// Multiples of a step that suits degrees.
fn steps_of(low: f64, high: f64, step: f64, count: usize) -> Vec<f64> {
    let step = step * ((high - low) / step / count.max(1) as f64).ceil().max(1.0);
    let first = (low / step).ceil() as i64;
    (0..64).map(|i| (first + i) as f64 * step).take_while(|v| *v <= high).collect()
}

/// Ticks where a year, a month, a day or some hours begin: the finest ones that are not too many.
fn times(t: &[DateTime], count: usize) -> Option<Vec<(usize, String)>> {
    type Key = fn(&DateTime) -> i64;
    let year: Key = |t| t.year;
    let month: Key = |t| t.year * 12 + i64::from(t.month) - 1;
    let day: Key = |t| t.year * 366 + i64::from(t.dayofyear);
    let hour: Key = |t| (t.year * 366 + i64::from(t.dayofyear)) * 24 + i64::from(t.hour);
    let levels: [(Key, &[i64], usize); 4] =
        [(hour, &[1, 3, 6, 12], 16), (day, &[1, 2, 5, 10], 10), (month, &[1, 3, 6], 7), (year, &[1, 2, 5, 10, 20, 50, 100, 500, 1000], 4)];
    for (key, steps, letters) in levels {
        for step in steps {
            let starts = |w: &[DateTime]| key(&w[0]).div_euclid(*step) != key(&w[1]).div_euclid(*step);
            let found: Vec<usize> = t.windows(2).enumerate().filter(|(_, w)| starts(w)).map(|(i, _)| i + 1).take(count + 2).collect();
            if (2..=count).contains(&found.len()) {
                return Some(found.into_iter().map(|i| (i, date(&t[i], letters == 16).chars().take(letters).collect())).collect());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let cases = [(0.0, "0"), (1.0, "1"), (-0.25, "-0.25"), (123456.7, "123457"), (1.5e9, "1.5e9"), (2e-5, "2e-5"), (0.1 + 0.2, "0.3")];
        for (v, text) in cases {
            assert_eq!(number(v), text);
        }
    }

    #[test]
    fn degrees() {
        let cases = [
            (-30.0, "degrees_north", "30°S"),
            (0.0, "degrees_north", "0°"),
            (270.0, "degrees_east", "90°W"),
            (377.5, "degrees_east", "17.5°E"),
            (270.0, "K", "270"),
        ];
        for (v, units, text) in cases {
            assert_eq!(Axis::degrees(v, units), text);
        }
    }

    #[test]
    fn round() {
        assert_eq!(round_numbers(0.0, 10.0, 5), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(round_numbers(-1.3, 1.2, 5), [-1.0, -0.5, 0.0, 0.5, 1.0]);
        assert_eq!(round_numbers(3.0, 3.0, 5), [3.0]);
        assert!(round_numbers(f64::NAN, 1.0, 5).is_empty());
    }
}
