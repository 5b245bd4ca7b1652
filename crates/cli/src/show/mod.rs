//! `chunkwise show`: a quick look at a slice of one or two dimensions, in the terminal or as a file (PNG or plain text).
//!
//! [`select`] determines the slice, [`sample`] reads it into as many cells as can be shown, and [`figure`] or [`terminal`] draws them.

mod canvas;
mod colours;
mod figure;
mod labels;
mod sample;
mod select;
mod terminal;

pub(crate) use colours::SCALES;

use crate::failure::{refuse, say};
use crate::out::outln;
use crate::text::safe;
use chunkwise::storage::{ArrayMeta, Location, Stores, open_array};
use colours::Scale;
use figure::Subject;
use labels::{Axis, Written, other_calendar};
use miette::{Report, miette};
use sample::Cells;
use select::Slice;
use serde_json::json;
use std::path::{Path, PathBuf};
use terminal::Screen;

/// What is shown, and how.
#[derive(clap::Args, Clone)]
pub(crate) struct ShowArgs {
    /// A path or URL of an array.
    pub url: String,
    /// An index or a range of a dimension, such as time=0 or lat=10:20; negative numbers count from the end. May be repeated.
    #[arg(long, value_name = "DIM=INDEX", value_delimiter = ',', allow_hyphen_values = true)]
    select: Vec<String>,
    /// Write a file instead of drawing in the terminal: a picture (.png) or text (.txt), as its name says.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Colours for the middle 96 % of the values, so that a few extremes do not hide the rest.
    #[arg(long, conflicts_with = "range")]
    robust: bool,
    /// The least and the greatest value of the colours.
    #[arg(long, value_name = "LOW:HIGH", allow_hyphen_values = true)]
    range: Option<String>,
    /// The colours; auto is blue to red where the values lie on both sides of zero, else viridis.
    #[arg(long, default_value = "auto", value_parser = clap::builder::PossibleValuesParser::new(SCALES))]
    colors: String,
}

fn limits(text: &str) -> Result<(f64, f64), Report> {
    let parts = text.split_once(':').and_then(|(a, b)| Some((a.trim().parse::<f64>().ok()?, b.trim().parse::<f64>().ok()?)));
    parts
        .filter(|(a, b)| a.is_finite() && b.is_finite() && a < b)
        .ok_or_else(|| refuse!("'{text}' is not a range; write LOW:HIGH with two numbers, the lower one first"))
}

/// The format of a file.
#[derive(Clone, Copy, PartialEq)]
enum Format {
    Png,
    Text,
}

impl Format {
    /// The endings of file names.
    const ENDINGS: [(&str, Format); 2] = [("png", Format::Png), ("txt", Format::Text)];

    fn of(file: &Path) -> Result<Format, Report> {
        let ending = file.extension().map(|e| e.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
        Format::ENDINGS.into_iter().find(|(e, _)| *e == ending).map(|(_, f)| f).ok_or_else(|| {
            let what = if ending.is_empty() {
                "has no ending that names a format".into()
            } else {
                format!("would be a .{ending} file, which is not supported")
            };
            refuse!("'{}' {what}; write .png for a picture or .txt for text", file.display())
        })
    }
}

/// The units of an array.
fn units(meta: &ArrayMeta) -> Option<&str> {
    meta.attributes.get("units").and_then(|v| v.as_str()).filter(|t| !t.is_empty())
}

/// The array's name, its description, and the position of the slice.
fn title(stores: &Stores, at: &Location, meta: &ArrayMeta, slice: &Slice) -> String {
    let text = |key: &str| meta.attributes.get(key).and_then(|v| v.as_str()).filter(|t| !t.is_empty());
    let mut out = at.name().to_string();
    if let Some(long) = text("long_name").or(text("standard_name")) {
        out = format!("{out}: {long}");
    }
    let times = units(meta).is_some_and(|u| u.contains(" since "));
    let unit = if times { other_calendar(meta) } else { units(meta) };
    if let Some(text) = unit {
        out = format!("{out} [{text}]");
    }
    for (k, i) in &slice.fixed {
        let mut one = k.clone();
        (one.start, one.len) = (*i, 1);
        let (label, index) = (Axis::new(stores, at, meta, &one).label(0), i.to_string());
        out = if label == index { format!("{out}, {}={i}", k.name) } else { format!("{out}, {}={i} ({label})", k.name) };
    }
    out
}

fn caption(cells: &Cells, slice: &Slice, written: &Written) -> String {
    let shape: Vec<String> = slice.kept.iter().map(|k| k.len.to_string()).collect();
    let low = cells.low.iter().copied().fold(f64::NAN, f64::min);
    let high = cells.high.iter().copied().fold(f64::NAN, f64::max);
    let all = slice.kept.iter().map(|k| k.len).product::<u64>();
    let shown = (cells.rows * cells.columns) as u64;
    let how = match (cells.sampled, shown < all) {
        (true, _) => format!(", {shown} samples"),
        (false, true) => {
            format!(", shown as {} means", if cells.rows > 1 { format!("{} x {}", cells.rows, cells.columns) } else { shown.to_string() })
        }
        _ => String::new(),
    };
    if low.is_nan() {
        return format!("{}{how}, no values", shape.join(" x "));
    }
    format!("{}{how}, least {}, greatest {}", shape.join(" x "), written.text(low), written.text(high))
}

/// The facts about the picture, for programs.
fn document(subject: &Subject<'_>, url: &Location, units: Option<&str>, slice: &Slice, file: Option<&Path>) -> serde_json::Value {
    let cells = subject.cells;
    let end = |v: &[f64], of: fn(f64, f64) -> f64| Some(v.iter().copied().fold(f64::NAN, of)).filter(|v| !v.is_nan());
    json!({
        "url": url.to_string(), "title": subject.title, "units": units,
        "shape": slice.kept.iter().map(|k| k.len).collect::<Vec<_>>(), "dims": slice.kept.iter().map(|k| &k.name).collect::<Vec<_>>(),
        "least": end(&cells.low, f64::min), "greatest": end(&cells.high, f64::max), "sampled": cells.sampled,
        "output": file.map(|f| f.display().to_string()),
    })
}

pub(crate) fn show(stores: &Stores, args: &ShowArgs, as_json: bool) -> Result<(), Report> {
    let chosen = args.range.as_deref().map(limits).transpose()?;
    // This check comes before anything is read.
    let format = args.output.as_deref().map(Format::of).transpose()?;
    let at = Location::parse(&args.url, None).map_err(say)?;
    let meta = open_array(stores, &at).map_err(say)?;
    let slice = select::parse(&args.select, &meta)?;
    let lengths: Vec<u64> = slice.kept.iter().map(|k| k.len).collect();
    if lengths.is_empty() {
        let cells = sample::sample(stores, &at, &meta, &slice, [1, 1]).map_err(say)?;
        if args.output.is_some() {
            return Err(refuse!("a single element is no picture; leave a dimension, or leave out -o"));
        }
        let (title, value) = (title(stores, &at, &meta, &slice), cells.mean.first().copied().unwrap_or(f64::NAN));
        let written = Written::new(&meta, value, value);
        match (as_json, written.dates()) {
            (true, dates) => {
                let date = dates.then(|| written.text(value));
                outln!("{}", json!({ "url": at.to_string(), "title": title, "units": units(&meta), "value": value, "date": date }));
            }
            (false, true) => outln!("{title} = {}", written.text(value)),
            (false, false) => outln!("{title} = {value}"),
        }
        return Ok(());
    }
    let screen = if args.output.is_some() { Screen::page() } else { Screen::new() };
    let most = if format == Some(Format::Png) { figure::most(&lengths) } else { screen.most(&lengths) };
    let cells = sample::sample(stores, &at, &meta, &slice, most).map_err(say)?;
    // A line shows the minimum and the maximum of a cell, a map its mean.
    let range = if lengths.len() == 1 && !args.robust {
        let ends: Vec<f64> = cells.low.iter().chain(&cells.high).copied().collect();
        colours::range(&ends, false)
    } else {
        colours::range(&cells.mean, args.robust)
    };
    let scale = match chosen {
        Some(r) => Scale::new(&args.colors, r, true),
        None => Scale::new(if lengths.len() == 1 { "viridis" } else { &args.colors }, range.unwrap_or((0.0, 0.0)), false),
    };
    let axes: Vec<Axis> = slice.kept.iter().map(|k| Axis::new(stores, &at, &meta, k)).collect();
    let written = Written::new(&meta, scale.low, scale.high);
    let shown = units(&meta).filter(|_| !written.dates()).map(safe);
    let subject = Subject {
        title: safe(&title(stores, &at, &meta, &slice)).into_owned(),
        caption: safe(&caption(&cells, &slice, &written)).into_owned(),
        units: shown.as_deref(),
        cells: &cells,
        axes: &axes,
        scale: &scale,
        written: &written,
    };
    let text = || terminal::draw(&subject, &lengths, &screen).unwrap_or_default();
    let data = match format {
        Some(Format::Png) => {
            let canvas = if lengths.len() == 1 { figure::line(&subject) } else { figure::map(&subject) };
            canvas.map(|c| c.png()).transpose().map_err(|e| miette!("the picture cannot be encoded: {e}"))?.unwrap_or_default()
        }
        Some(Format::Text) => text().into_bytes(),
        None if as_json => Vec::new(),
        None => {
            crate::out::write_picture(&text());
            return Ok(());
        }
    };
    if let Some(file) = &args.output {
        std::fs::write(file, data).map_err(|e| miette!("cannot write '{}': {e}", file.display()))?;
    }
    if as_json {
        outln!("{}", document(&subject, &at, units(&meta), &slice, args.output.as_deref()));
    }
    Ok(())
}
