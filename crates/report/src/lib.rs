//! Plans for people: a table, a graph, an explanation, and what they cost.

pub mod cost;
mod svg;

use chunkwise_plan::{ArrayRole, Plan};
use chunkwise_types::ByteSize;
use std::fmt::Write;

pub use svg::svg;

/// Rows below each other, of the same number of columns; those from `right` on are set to the right.
pub(crate) fn aligned(rows: &[Vec<String>], right: usize) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns).map(|c| rows.iter().map(|r| r[c].chars().count()).max().unwrap_or(0)).collect();
    let mut out = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate();
        let line: Vec<String> = cells.map(|(c, (v, w))| if c >= right { format!("{v:>w$}") } else { format!("{v:<w$}") }).collect();
        let _ = writeln!(out, "{}", line.join("  ").trim_end());
    }
    out
}

/// The stages as an aligned table.
pub fn table(plan: &Plan) -> String {
    let head = ["#", "stage", "kind", "tasks", "memory/task", "read", "written", "requests"];
    let mut rows: Vec<Vec<String>> = vec![head.iter().map(|h| h.to_string()).collect()];
    for (i, s) in plan.stages.iter().enumerate() {
        rows.push(vec![
            i.to_string(),
            s.name.clone(),
            format!("{:?}", s.kind).to_lowercase(),
            s.tasks().to_string(),
            ByteSize(s.projected_mem).to_string(),
            ByteSize(s.cost.bytes_read).to_string(),
            ByteSize(s.cost.bytes_written).to_string(),
            s.cost.gets.saturating_add(s.cost.puts).to_string(),
        ]);
    }
    let mut out = aligned(&rows, 3);
    let temporary: u64 = plan
        .arrays
        .values()
        .filter(|a| a.role == ArrayRole::Intermediate)
        .map(|a| chunkwise_types::volume(&a.shape).saturating_mul(a.dtype.size()))
        .fold(0, u64::saturating_add);
    let _ = writeln!(
        out,
        "\nallowed memory {} ({} kept for the program), {} tasks at once, intermediates {}, plan {}",
        ByteSize(plan.spec.allowed_mem),
        ByteSize(plan.spec.reserved_mem),
        plan.spec.workers,
        ByteSize(temporary),
        plan.id()
    );
    out
}

/// Why the stages are what they are.
pub fn explain(plan: &Plan) -> String {
    let mut out = String::new();
    for (i, s) in plan.stages.iter().enumerate() {
        let _ = writeln!(out, "stage {i}: {}", s.name);
        for o in &s.outputs {
            let _ = writeln!(out, "  writes {} in task regions {}", o.array, o.tasks);
        }
        for note in &s.notes {
            let _ = writeln!(out, "  {note}");
        }
    }
    out
}

/// The stages and arrays as a Graphviz graph.
pub fn dot(plan: &Plan) -> String {
    let mut out = String::from("digraph plan {\n  rankdir=LR;\n  node [fontname=\"sans-serif\"];\n");
    for (name, a) in &plan.arrays {
        let _ = writeln!(out, "  {name:?} [shape=cylinder, label={:?}];", format!("{name}\n{} {:?}", a.dtype, a.shape));
    }
    for (i, s) in plan.stages.iter().enumerate() {
        let _ = writeln!(
            out,
            "  s{i} [shape=box, label={:?}];",
            format!("{}\n{} tasks, {} each", s.name, s.tasks(), ByteSize(s.projected_mem))
        );
        for name in s.reads() {
            let _ = writeln!(out, "  {name:?} -> s{i};");
        }
        for o in &s.outputs {
            let _ = writeln!(out, "  s{i} -> {:?};", o.array);
        }
    }
    out.push_str("}\n");
    out
}
