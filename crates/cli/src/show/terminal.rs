//! Draws in a terminal: with half blocks in 24-bit colour and braille lines, or with plain characters if there is no terminal.

use super::figure::Subject;
use super::labels::Axis;
use super::sample::Cells;
use std::fmt::Write;
use std::io::IsTerminal;

/// Characters from empty to full.
const RAMP: &[char] = &['.', ':', '-', '=', '+', '*', '#', '%', '@'];

/// The abilities of the terminal.
#[derive(Debug, Clone, Copy)]
pub(super) struct Screen {
    pub width: u64,
    pub height: u64,
    pub colour: bool,
}

fn set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|v| !v.is_empty() && v != "0")
}

impl Screen {
    /// For standard output.
    pub fn new() -> Screen {
        let (width, height) = terminal_size::terminal_size().map_or((80, 24), |(w, h)| (u64::from(w.0), u64::from(h.0)));
        let colour = !set("NO_COLOR") && (std::io::stdout().is_terminal() || set("CLICOLOR_FORCE"));
        Screen { width: width.clamp(24, 240), height: height.clamp(12, 100), colour }
    }

    /// For a text file.
    pub fn page() -> Screen {
        Screen { width: 100, height: 40, colour: false }
    }

    /// The largest number of rows and columns that it can show of a slice of this shape.
    pub fn most(&self, shape: &[u64]) -> [u64; 2] {
        let (lines, letters) = (self.height.saturating_sub(6), self.width.saturating_sub(14));
        match shape {
            [_] => [1, 4 * letters],
            [rows, columns] => {
                // A half block is about square; a letter is twice as tall as it is wide.
                let (down, tall) = if self.colour { (2 * lines, 1) } else { (lines, 2) };
                let stride = rows.div_ceil(down * tall).max(columns.div_ceil(letters)).max(1);
                let longer = |n: u64, most: u64| n.div_ceil(n.div_ceil(most).max(1));
                let [r, c] = [rows.div_ceil(stride * tall), columns.div_ceil(stride)];
                // A picture that would be too thin is stretched.
                if r < 8 || c < 16 { [longer(*rows, down), longer(*columns, letters)] } else { [r, c] }
            }
            _ => [1, 1],
        }
    }
}

fn paint(out: &mut String, upper: Option<[u8; 3]>, lower: Option<[u8; 3]>) {
    let (mark, front, back) = match (upper, lower) {
        (None, None) => (' ', None, None),
        (Some(u), None) => ('▀', Some(u), None),
        (None, Some(l)) => ('▄', Some(l), None),
        (Some(u), Some(l)) => ('▀', Some(u), Some(l)),
    };
    for (kind, colour) in [(38, front), (48, back)] {
        if let Some([r, g, b]) = colour {
            let _ = write!(out, "\x1b[{kind};2;{r};{g};{b}m");
        }
    }
    let _ = write!(out, "{mark}\x1b[0m");
}

/// Pads to a width on the left.
fn right(text: &str, width: usize) -> String {
    format!("{}{text}", " ".repeat(width.saturating_sub(text.chars().count())))
}

/// The two ends of the horizontal axis and its name between them.
fn below(axis: &Axis, margin: usize, width: usize, len: u64) -> String {
    let (first, last) = (axis.label(0), axis.label(len.saturating_sub(1)));
    let used = first.chars().count() + last.chars().count();
    let title = if used + axis.title.chars().count() + 2 <= width { axis.title.as_str() } else { "" };
    let gap = width.saturating_sub(used + title.chars().count());
    format!("{}{first}{}{title}{}{last}", " ".repeat(margin), " ".repeat(gap / 2), " ".repeat(gap - gap / 2))
}

/// Draws a slice of two dimensions.
fn map(subject: &Subject<'_>, lengths: &[u64], colour: bool) -> Option<String> {
    let ([vertical, across], [tall, wide]) = (subject.axes, lengths) else { return None };
    let (cells, scale) = (subject.cells, subject.scale);
    let at = |row: usize, column: usize| {
        let row = if vertical.upwards { cells.rows - 1 - row } else { row };
        cells.mean.get(row * cells.columns + column).copied().unwrap_or(f64::NAN)
    };
    let mut ends = [vertical.label(0), vertical.label(tall.saturating_sub(1))];
    if vertical.upwards {
        ends.reverse();
    }
    // Small arrays are made larger, so that something can be seen.
    let times = (40 / cells.columns.max(1)).min(if colour { 24 } else { 12 } / cells.rows.max(1)).clamp(1, 6);
    let wider = if colour { times } else { times * if cells.columns * times <= 30 { 2 } else { 1 } };
    let (rows, columns) = (cells.rows * times, cells.columns * wider);
    let margin = ends.iter().map(|e| e.chars().count()).max().unwrap_or(0) + 1;
    let mut out = String::new();
    let lines = if colour { rows.div_ceil(2) } else { rows };
    let _ = writeln!(out, "{}{}", " ".repeat(margin), vertical.title);
    for line in 0..lines {
        let end = if line == 0 {
            ends[0].as_str()
        } else if line + 1 == lines {
            ends[1].as_str()
        } else {
            ""
        };
        let _ = write!(out, "{} ", right(end, margin - 1));
        for column in 0..columns {
            if colour {
                let of = |row: usize| (row < rows).then(|| scale.of(at(row / times, column / wider))).flatten();
                paint(&mut out, of(2 * line), of(2 * line + 1));
            } else {
                let mark = scale.position(at(line / times, column / wider));
                out.push(mark.map_or(' ', |p| RAMP[((p * RAMP.len() as f64) as usize).min(RAMP.len() - 1)]));
            }
        }
        let kept = out.trim_end_matches(' ').len();
        out.truncate(kept);
        out.push('\n');
    }
    let _ = writeln!(out, "{}", below(across, margin, columns, *wide));
    let _ = writeln!(out, "{}{}", " ".repeat(margin), legend(subject, columns.clamp(9, 40), colour));
    Some(out)
}

/// The scale in one line, from the minimum to the maximum.
fn legend(subject: &Subject<'_>, width: usize, colour: bool) -> String {
    let (scale, written) = (subject.scale, subject.written);
    let mut bar = String::new();
    if colour {
        for i in 0..width {
            let c = scale.at(i as f64 / (width - 1).max(1) as f64);
            paint(&mut bar, Some(c), Some(c));
        }
    } else {
        bar.extend(RAMP);
    }
    let units = subject.units.map(|u| format!(" {u}")).unwrap_or_default();
    format!("{} {bar} {}{units}", written.text(scale.low), written.text(scale.high))
}

/// Dots that are set, for braille or plain characters.
struct Dots {
    width: usize,
    height: usize,
    set: Vec<bool>,
}

impl Dots {
    fn new(width: usize, height: usize) -> Dots {
        Dots { width, height, set: vec![false; width * height] }
    }
    fn get(&self, x: usize, y: usize) -> bool {
        x < self.width && y < self.height && self.set[y * self.width + x]
    }
    fn column(&mut self, x: usize, from: usize, to: usize) {
        for y in from.min(to)..=from.max(to).min(self.height - 1) {
            if x < self.width {
                self.set[y * self.width + x] = true;
            }
        }
    }
    /// The braille letter of two by four dots.
    fn braille(&self, x: usize, y: usize) -> char {
        let bits = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3)];
        let n = bits.iter().enumerate().filter(|(_, (dx, dy))| self.get(2 * x + dx, 4 * y + dy)).map(|(i, _)| 1u32 << i).sum::<u32>();
        char::from_u32(0x2800 + n).filter(|_| n > 0).unwrap_or(' ')
    }
}

/// Draws a slice of one dimension.
fn line(subject: &Subject<'_>, lengths: &[u64], screen: &Screen) -> Option<String> {
    let ([axis], [len]) = (subject.axes, lengths) else { return None };
    let (cells, scale) = (subject.cells, subject.scale);
    let lines = (screen.height as usize - 8).clamp(6, 16);
    let (per_letter, per_line) = if screen.colour { (2, 4) } else { (1, 1) };
    // Short series are drawn wider.
    let room = screen.width as usize - 14;
    let letters = cells.columns.div_ceil(per_letter).clamp(room.min(60), room);
    let mut dots = Dots::new(letters * per_letter, lines * per_line);
    let height = dots.height - 1;
    let row = |v: f64| scale.position(v).map(|p| height - (p * height as f64).round() as usize);
    let mut last: Option<usize> = None;
    for x in 0..dots.width {
        let (low, high, mean) = column(cells, x, dots.width);
        last = match (row(low), row(high), row(mean)) {
            (Some(a), Some(b), Some(m)) => {
                dots.column(x, b, a);
                if let Some(before) = last.filter(|l| *l < b || *l > a) {
                    // It joins the column before, without the last dot of that.
                    let near = if before < b { before + 1 } else { before.saturating_sub(1) };
                    dots.column(x, near, m);
                }
                Some(m)
            }
            _ => None,
        };
    }
    let ends = [subject.written.text(scale.high), subject.written.text(scale.low)];
    let margin = ends.iter().map(|e| e.chars().count()).max().unwrap_or(0) + 2;
    let (bar, mark) = if screen.colour { ('┤', "\x1b[36m") } else { ('|', "") };
    let mut out = String::new();
    for l in 0..lines {
        let end = if l == 0 {
            ends[0].as_str()
        } else if l + 1 == lines {
            ends[1].as_str()
        } else {
            ""
        };
        let text: String = (0..letters)
            .map(|x| {
                if screen.colour {
                    dots.braille(x, l)
                } else if dots.get(x, l) {
                    '*'
                } else {
                    ' '
                }
            })
            .collect();
        let text = text.trim_end();
        let _ = writeln!(out, "{} {bar}{mark}{text}{}", right(end, margin - 2), if screen.colour { "\x1b[0m" } else { "" });
    }
    let _ = writeln!(out, "{}", below(axis, margin, letters, *len));
    Some(out)
}

/// The minimum, the maximum and the mean of the cells of a column of dots.
fn column(cells: &Cells, x: usize, width: usize) -> (f64, f64, f64) {
    let from = x * cells.columns / width;
    let to = ((x + 1) * cells.columns / width).max(from + 1).min(cells.columns);
    let part = |v: &[f64]| v.get(from..to).unwrap_or_default().iter().copied().filter(|v| !v.is_nan()).collect::<Vec<f64>>();
    let (low, high, mean) = (part(&cells.low), part(&cells.high), part(&cells.mean));
    let n = mean.len() as f64;
    (low.into_iter().fold(f64::NAN, f64::min), high.into_iter().fold(f64::NAN, f64::max), mean.into_iter().sum::<f64>() / n)
}

/// The whole output.
pub(super) fn draw(subject: &Subject<'_>, lengths: &[u64], screen: &Screen) -> Option<String> {
    let body = if lengths.len() == 1 { line(subject, lengths, screen) } else { map(subject, lengths, screen.colour) }?;
    Some(format!("{}\n{}\n{body}", subject.title, subject.caption))
}
