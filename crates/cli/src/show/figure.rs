//! Draws pictures: a map of colours with its bar, and a line with a band from minimum to maximum.

use super::canvas::{Canvas, FAINT, INK, LETTER, Place};
use super::colours::{MISSING, Rgb, Scale};
use super::labels::{Axis, Written, round_numbers};
use super::sample::Cells;

/// The largest size of the data in pixels.
const AREA: (u64, u64) = (960, 640);
const LINE: (i32, i32) = (920, 400);
const MARGIN: i32 = 18;
const TOP: i32 = 80;
const BOTTOM: i32 = 58;
const BAR: i32 = 18;
const BLUE: Rgb = [31, 95, 158];

/// What is drawn.
pub(super) struct Subject<'a> {
    pub title: String,
    pub caption: String,
    /// The units of the values.
    pub units: Option<&'a str>,
    pub cells: &'a Cells,
    /// The dimensions that are drawn; the vertical one first.
    pub axes: &'a [Axis],
    pub scale: &'a Scale,
    /// How values are printed.
    pub written: &'a Written,
}

/// The largest number of rows and columns that a picture of a slice of this shape can show.
pub(super) fn most(shape: &[u64]) -> [u64; 2] {
    match shape {
        [_] => [1, LINE.0 as u64],
        [rows, columns] if comparable(*rows, *columns) => {
            let stride = rows.div_ceil(AREA.1).max(columns.div_ceil(AREA.0)).max(1);
            [rows.div_ceil(stride), columns.div_ceil(stride)]
        }
        _ => [AREA.1, AREA.0],
    }
}

/// True if both axes can have the same scale without one of them becoming too thin.
fn comparable(rows: u64, columns: u64) -> bool {
    let ratio = columns as f64 / rows as f64;
    (0.2..6.0).contains(&ratio)
}

fn widest(labels: &[(f64, String)]) -> i32 {
    labels.iter().map(|(_, t)| t.chars().count() as i32).max().unwrap_or(0) * LETTER.0
}

/// Cuts a text to at most `most` letters.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most { text.to_string() } else { text.chars().take(most.saturating_sub(3)).chain("...".chars()).collect() }
}

fn heading(canvas: &mut Canvas, subject: &Subject<'_>) {
    let fits = ((canvas.width - 2 * MARGIN) / LETTER.0).max(8) as usize;
    canvas.heading(&cut(&subject.title, fits), MARGIN, 20);
    canvas.text(&cut(&subject.caption, fits), MARGIN, 40, Place::Left);
}

/// Ticks and text below a box.
fn horizontal(canvas: &mut Canvas, axis: &Axis, left: i32, bottom: i32, width: i32) {
    let ticks = axis.ticks((width / 110).clamp(2, 9) as usize);
    let mut free = i32::MIN;
    for (at, text) in ticks {
        let x = left + (at * f64::from(width)) as i32;
        let half = text.chars().count() as i32 * LETTER.0 / 2;
        let centre = x.clamp(half + 2, (canvas.width - half - 2).max(half + 2));
        canvas.fill(x, bottom + 1, 1, 5, INK);
        if centre - half > free {
            canvas.text(&text, centre, bottom + 16, Place::Centre);
            free = centre + half + LETTER.0;
        }
    }
    canvas.text(&axis.title, left + width / 2, bottom + 38, Place::Centre);
}

/// Draws a slice of two dimensions.
pub(super) fn map(subject: &Subject<'_>) -> Option<Canvas> {
    let [vertical, across] = subject.axes else { return None };
    let (rows, columns) = (subject.cells.rows as u64, subject.cells.columns as u64);
    let (mut tall, mut wide) = ((AREA.1 / rows).max(1), (AREA.0 / columns).max(1));
    if comparable(rows, columns) {
        tall = tall.min(wide);
        wide = tall;
    }
    let (tall, wide) = (tall.min(48) as i32, wide.min(48) as i32);
    let (width, height) = (wide * columns as i32, tall * rows as i32);
    let ticks = vertical.ticks((height / 60).clamp(2, 8) as usize);
    let left = (widest(&ticks) + 12 + MARGIN).max(MARGIN + 30);
    let scale = subject.scale;
    let marks = bar_marks(scale, height, subject.written);
    let units = subject.units.map(|u| cut(u, 24)).unwrap_or_default();
    let right = 24 + (BAR + 10 + widest(&marks)).max(units.chars().count() as i32 * LETTER.0) + MARGIN;
    let room = (subject.title.chars().count().min(60) as i32 * LETTER.0 + 2 * MARGIN).max(left + width + right);
    let mut canvas = Canvas::new(room, TOP + height.max(60) + BOTTOM);
    heading(&mut canvas, subject);
    for row in 0..rows as i32 {
        let y = TOP + tall * if vertical.upwards { rows as i32 - 1 - row } else { row };
        for column in 0..columns as i32 {
            let value = subject.cells.mean.get(row as usize * columns as usize + column as usize).copied().unwrap_or(f64::NAN);
            canvas.fill(left + column * wide, y, wide, tall, scale.of(value).unwrap_or(MISSING));
        }
    }
    canvas.frame(left, TOP, width, height, INK);
    for (at, text) in ticks {
        let at = if vertical.upwards { 1.0 - at } else { at };
        let y = TOP + (at * f64::from(height)) as i32;
        canvas.fill(left - 6, y, 5, 1, INK);
        canvas.text(&text, left - 10, y, Place::Right);
    }
    canvas.text(&vertical.title, left, TOP - 14, Place::Left);
    horizontal(&mut canvas, across, left, TOP + height, width);
    bar(&mut canvas, scale, &marks, left + width + 24, height);
    canvas.text(&units, left + width + 24, TOP - 14, Place::Left);
    Some(canvas)
}

/// Round numbers along the bar, and its two ends. Each has its distance from the lower end, from 0 to 1.
fn bar_marks(scale: &Scale, height: i32, written: &Written) -> Vec<(f64, String)> {
    let gap = f64::from(LETTER.1 + 2) / f64::from(height.max(1));
    let mut out = vec![(0.0, written.text(scale.low)), (1.0, written.text(scale.high))];
    for v in round_numbers(scale.low, scale.high, (height / 70).clamp(1, 7) as usize) {
        let at = (v - scale.low) / (scale.high - scale.low);
        if at > gap && at < 1.0 - gap {
            out.push((at, written.text(v)));
        }
    }
    out
}

fn bar(canvas: &mut Canvas, scale: &Scale, marks: &[(f64, String)], left: i32, height: i32) {
    for y in 0..height {
        let position = 1.0 - (f64::from(y) + 0.5) / f64::from(height);
        canvas.fill(left, TOP + y, BAR, 1, scale.at(position));
    }
    canvas.frame(left, TOP, BAR, height, INK);
    for (at, text) in marks {
        let y = TOP + ((1.0 - at) * f64::from(height - 1)) as i32;
        canvas.fill(left + BAR + 1, y, 4, 1, INK);
        canvas.text(text, left + BAR + 10, y.clamp(TOP + 5, TOP + height - 6), Place::Left);
    }
}

/// Draws a slice of one dimension.
pub(super) fn line(subject: &Subject<'_>) -> Option<Canvas> {
    let [axis] = subject.axes else { return None };
    let (cells, (width, height)) = (subject.cells, LINE);
    let (mut low, mut high) = (subject.scale.low, subject.scale.high);
    let room = if high > low { (high - low) * 0.04 } else { low.abs().max(1.0) * 0.5 };
    (low, high) = (low - room, high + room);
    let ticks: Vec<(f64, String)> =
        round_numbers(low, high, 6).into_iter().map(|v| ((v - low) / (high - low), subject.written.text(v))).collect();
    let left = widest(&ticks) + 12 + MARGIN;
    let mut canvas = Canvas::new(left + width + MARGIN + 12, TOP + height + BOTTOM);
    heading(&mut canvas, subject);
    for (at, text) in &ticks {
        let y = TOP + ((1.0 - at) * f64::from(height)) as i32;
        canvas.fill(left, y, width, 1, FAINT);
        canvas.fill(left - 6, y, 5, 1, INK);
        canvas.text(text, left - 10, y, Place::Right);
    }
    let n = cells.columns as f64;
    let x_of = |c: usize| f64::from(left) + (c as f64 + 0.5) / n * f64::from(width);
    let y_of = |v: f64| f64::from(TOP) + (high - v) / (high - low) * f64::from(height);
    let clip = (left, TOP, width, height);
    for x in 0..width {
        let c = ((f64::from(x) + 0.5) / f64::from(width) * n) as usize;
        if let (Some(&a), Some(&b)) = (cells.high.get(c), cells.low.get(c))
            && a > b
        {
            let (from, to) = (y_of(a).max(f64::from(TOP)), y_of(b).min(f64::from(TOP + height)));
            for y in from as i32..to as i32 {
                canvas.blend(left + x, y, BLUE, 0.3);
            }
        }
    }
    for c in 0..cells.columns {
        let here = (x_of(c), y_of(cells.mean[c]));
        if here.1.is_nan() {
            continue;
        }
        let next = cells.mean.get(c + 1).map(|v| (x_of(c + 1), y_of(*v))).filter(|p| !p.1.is_nan());
        let alone = next.is_none() && (c == 0 || cells.mean[c - 1].is_nan());
        if let Some(next) = next {
            canvas.line(here, next, BLUE, clip);
        } else if alone {
            canvas.line((here.0 - 1.0, here.1), (here.0 + 1.0, here.1), BLUE, clip);
        }
    }
    canvas.frame(left, TOP, width, height, INK);
    canvas.text(&cut(subject.units.unwrap_or_default(), 60), left, TOP - 14, Place::Left);
    horizontal(&mut canvas, axis, left, TOP + height, width);
    Some(canvas)
}
