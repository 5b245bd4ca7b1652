//! The stages and arrays as a picture.
//!
//! Layers from left to right: a node stands one layer right of the rightmost node that it needs, so every arrow points to the right.
//! Within a layer nodes are ordered by the middle of their neighbours in the layer before, which keeps arrows short.

use chunkwise_plan::{ArrayRole, Note, Plan, StageKind};
use chunkwise_types::ByteSize;
use std::collections::BTreeMap;
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;

/// Width of a letter at 12 pixels. Monospaced fonts have 6.6 (Consolas) to 7.3 (DejaVu Sans Mono, Menlo, Courier); with more, text stays in its
/// box also where none of them is there and a proportional font is taken.
const LETTER: f64 = 7.8;
const LINE: f64 = 17.0;
const PAD: f64 = 12.0;
const ACROSS: f64 = 64.0;
const DOWN: f64 = 26.0;
const EDGE: f64 = 24.0;
/// The class of waypoints.
const WAY: &str = "way";
/// Letters of a line before it is broken or cut.
const MAX_LINE_WIDTH: usize = 38;

struct Node {
    lines: Vec<String>,
    class: &'static str,
    layer: usize,
    from: Vec<usize>,
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

fn node(lines: Vec<String>, class: &'static str) -> Node {
    let letters = lines.iter().map(|l| l.width()).max().unwrap_or(0);
    let (width, height) = (letters as f64 * LETTER + 2.0 * PAD, lines.len() as f64 * LINE + 2.0 * PAD - 4.0);
    Node { lines, class, layer: 0, from: Vec::new(), x: 0.0, y: 0.0, width, height }
}

fn escape(text: &str) -> String {
    // Control characters are not allowed in XML at all.
    text.chars()
        .map(|c| match c {
            '&' => "&amp;".to_string(),
            '<' => "&lt;".to_string(),
            '>' => "&gt;".to_string(),
            '"' => "&quot;".to_string(),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => "\u{fffd}".to_string(),
            c => c.to_string(),
        })
        .collect()
}

/// Text in lines of at most [`MAX_LINE_WIDTH`] letters, broken at spaces; three lines at most.
fn wrap(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(l) if l.width() + 1 + word.width() <= MAX_LINE_WIDTH => {
                l.push(' ');
                l.push_str(word);
            }
            _ => lines.push(word.to_string()),
        }
    }
    let long = lines.len() > 3;
    lines.truncate(3);
    for (i, line) in lines.iter_mut().enumerate() {
        if line.width() > MAX_LINE_WIDTH || (long && i == 2) {
            while line.width() >= MAX_LINE_WIDTH {
                line.pop();
            }
            line.push('…');
        }
    }
    lines
}

fn shape(lengths: &[u64]) -> String {
    let parts: Vec<String> = lengths.iter().map(u64::to_string).collect();
    if parts.is_empty() { "one element".into() } else { parts.join(" × ") }
}

fn plural(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// The arrays and stages of a plan, each with what it needs.
fn nodes(plan: &Plan) -> Vec<Node> {
    let mut out = Vec::new();
    let mut place: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, a) in &plan.arrays {
        let (class, role) = match a.role {
            ArrayRole::Input => ("input", "input"),
            ArrayRole::Intermediate => ("intermediate", "intermediate"),
            ArrayRole::Output => ("output", "output"),
        };
        let bytes = chunkwise_types::volume(&a.shape).saturating_mul(a.dtype.size());
        let mut lines = wrap(name);
        lines.push(format!("{role}, {} {}", a.dtype, shape(&a.shape)));
        lines.push(format!("chunks {}, {}", shape(&a.read_grid().max_shape()), ByteSize(bytes)));
        place.insert(name, out.len());
        out.push(node(lines, class));
    }
    for (i, s) in plan.stages.iter().enumerate() {
        let (class, kind) = match s.kind {
            StageKind::Blockwise => ("blockwise", "blockwise"),
            StageKind::Rechunk => ("rechunk", "rechunk"),
        };
        let mut lines = wrap(&format!("{i}: {}", s.name));
        let mut about = vec![format!("{kind}, {}", plural(s.tasks(), "task"))];
        about.extend(s.notes.iter().filter_map(Note::computes).flat_map(|operations| wrap(&operations)));
        about.push(format!("{} a task", ByteSize(s.projected_mem)));
        about.push(format!("reads {} in {}", ByteSize(s.cost.bytes_read), plural(s.cost.gets, "request")));
        about.push(format!("writes {} in {}", ByteSize(s.cost.bytes_written), plural(s.cost.puts, "request")));
        lines.extend(about);
        let mut n = node(lines, class);
        n.from = s.reads().filter_map(|a| place.get(a).copied()).collect();
        n.from.sort_unstable();
        n.from.dedup();
        // A stage reads only what stages before it write, so their layers are known.
        n.layer = n.from.iter().map(|&k| out[k].layer + 1).max().unwrap_or(1);
        let (at, layer) = (out.len(), n.layer);
        out.push(n);
        for array in s.outputs.iter().filter_map(|o| place.get(o.array.as_str()).copied()) {
            out[array].from.push(at);
            out[array].layer = layer + 1;
        }
    }
    // Inputs stand beside the first stage that needs them.
    for k in 0..plan.arrays.len() {
        if out[k].from.is_empty() {
            let first = out.iter().filter(|n| n.from.contains(&k)).map(|n| n.layer).min();
            out[k].layer = first.map_or(0, |l| l.saturating_sub(1));
        }
    }
    out
}

/// Puts waypoints where an arrow passes a layer, so that it runs between the boxes there and not behind them.
fn add_waypoints(nodes: &mut Vec<Node>) {
    let mut ways: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for k in 0..nodes.len() {
        for i in 0..nodes[k].from.len() {
            let source = nodes[k].from[i];
            let mut last = source;
            for layer in nodes[source].layer + 1..nodes[k].layer {
                last = *ways.entry((source, layer)).or_insert_with(|| {
                    nodes.push(Node { layer, from: vec![last], height: 6.0, ..node(Vec::new(), WAY) });
                    nodes.len() - 1
                });
            }
            nodes[k].from[i] = last;
        }
    }
}

/// Gives every node its place; returns the size of the picture.
fn arrange(nodes: &mut [Node]) -> (f64, f64) {
    let layers = nodes.iter().map(|n| n.layer).max().map_or(0, |l| l + 1);
    let mut x = EDGE;
    let mut total = 0.0f64;
    let mut columns: Vec<Vec<usize>> = Vec::new();
    for layer in 0..layers {
        let mut column: Vec<usize> = (0..nodes.len()).filter(|&k| nodes[k].layer == layer).collect();
        let middle = |k: usize| {
            let from = &nodes[k].from;
            if from.is_empty() {
                f64::MAX
            } else {
                from.iter().map(|&f| nodes[f].y + nodes[f].height / 2.0).sum::<f64>() / from.len() as f64
            }
        };
        let keys: BTreeMap<usize, f64> = column.iter().map(|&k| (k, middle(k))).collect();
        column.sort_by(|a, b| keys[a].total_cmp(&keys[b]));
        let width = column.iter().map(|&k| nodes[k].width).fold(0.0, f64::max);
        let mut y = EDGE;
        for &k in &column {
            nodes[k].x = x;
            nodes[k].y = y;
            nodes[k].width = width;
            y += nodes[k].height + DOWN;
        }
        total = total.max(y - DOWN + EDGE);
        x += width + ACROSS;
        columns.push(column);
    }
    // Layers are centred on each other.
    for column in columns {
        let height = column.last().map_or(0.0, |&k| nodes[k].y + nodes[k].height + EDGE);
        for k in column {
            nodes[k].y += (total - height) / 2.0;
        }
    }
    (x - ACROSS + EDGE, total)
}

const STYLE: &str = "text{font:12px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;fill:#222}\
.name{font-weight:bold}rect{stroke-width:1.3}\
.input rect{fill:#eef3f8;stroke:#7592ad}.output rect{fill:#e9f5ea;stroke:#5d9a63}\
.intermediate rect{fill:#fff;stroke:#999;stroke-dasharray:5 3}\
.blockwise rect{fill:#fdf3dc;stroke:#c39a3a}.rechunk rect{fill:#f4e8f6;stroke:#9b6ba6}\
path{fill:none;stroke:#777;stroke-width:1.3}";

/// The plan as an SVG document.
pub fn svg(plan: &Plan) -> String {
    let mut nodes = nodes(plan);
    add_waypoints(&mut nodes);
    let (width, height) = arrange(&mut nodes);
    let (width, height) = (width.max(620.0), height.max(80.0) + 34.0);
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\">\n\
         <title>plan {}</title>\n<style>{STYLE}</style>\n\
         <defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">\
         <path d=\"M0,0 L8,4 L0,8 z\" style=\"fill:#777;stroke:none\"/></marker></defs>\n\
         <rect width=\"100%\" height=\"100%\" style=\"fill:#fff\"/>",
        plan.id()
    );
    for n in &nodes {
        let tip = if n.class == WAY { "" } else { " marker-end=\"url(#tip)\"" };
        for f in n.from.iter().map(|&f| &nodes[f]) {
            let (x0, y0, x1, y1) = (f.x + f.width, f.y + f.height / 2.0, n.x - 1.0, n.y + n.height / 2.0);
            let bend = ((x1 - x0) / 2.0).clamp(20.0, 90.0);
            let _ = writeln!(out, "<path d=\"M{x0:.1},{y0:.1} C{:.1},{y0:.1} {:.1},{y1:.1} {x1:.1},{y1:.1}\"{tip}/>", x0 + bend, x1 - bend);
        }
        if n.class == WAY {
            let _ = writeln!(out, "<path d=\"M{:.1},{y:.1} h{:.1}\"/>", n.x - 1.0, n.width + 2.0, y = n.y + n.height / 2.0);
        }
    }
    for n in nodes.iter().filter(|n| n.class != WAY) {
        let round = if matches!(n.class, "blockwise" | "rechunk") { 3 } else { 16 };
        let _ = writeln!(
            out,
            "<g class=\"{}\"><rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"{round}\"/>",
            n.class, n.x, n.y, n.width, n.height
        );
        for (i, line) in n.lines.iter().enumerate() {
            let class = if i == 0 { " class=\"name\"" } else { "" };
            let y = n.y + PAD + 9.0 + i as f64 * LINE;
            let _ = writeln!(out, "<text{class} x=\"{:.1}\" y=\"{y:.1}\">{}</text>", n.x + PAD, escape(line));
        }
        out.push_str("</g>\n");
    }
    let _ = writeln!(
        out,
        "<text x=\"{EDGE}\" y=\"{:.1}\">plan {}: allowed memory {}, {} at once</text>\n</svg>",
        height - 16.0,
        plan.id(),
        ByteSize(plan.spec.allowed_mem),
        plural(plan.spec.workers, "task")
    );
    out
}
