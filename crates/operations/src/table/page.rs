//! The reference of all functions, `docs/functions.md`, from the table.

use super::{Operation, table};
use std::fmt::Write;

/// What the page begins with: how it is read, and the inputs of its examples.
const HEAD: &str = include_str!("page.md");

/// The page.
///
/// ```
/// let page = chunkwise_ops::table::page::functions();
/// assert!(page.contains("\n### mean\n\n`mean(x, dim=None, keepdims=False, skipna=None)`\n"));
/// ```
pub fn functions() -> String {
    let mut out = String::from(HEAD);
    let mut subject = "";
    for operation in table() {
        let category = operation.category;
        if subject != category.title {
            subject = category.title;
            let _ = writeln!(out, "\n## {subject}");
            if !category.about.is_empty() {
                let _ = writeln!(out, "\n{}", category.about.trim());
            }
        }
        entry(&mut out, operation);
    }
    out.push_str("\n## Other names\n\nThese are NumPy's names of functions above.\n\n| name | function |\n|---|---|\n");
    let mut others: Vec<(&str, &str)> = table().iter().flat_map(|o| o.aliases.iter().map(|a| (*a, o.name))).collect();
    others.sort_unstable();
    for (other, name) in others {
        let _ = writeln!(out, "| `{other}` | [{name}](#{name}) |");
    }
    out
}

fn entry(out: &mut String, operation: &Operation) {
    let _ = writeln!(out, "\n### {}\n\n`{}`\n\n{}\n\n```text", operation.name, operation.signature(), operation.about);
    for example in &operation.examples {
        let _ = writeln!(out, ">>> {}", example.expression);
        for line in &example.result {
            let _ = writeln!(out, "{line}");
        }
        if let Some((library, code)) = example.counterpart {
            let _ = writeln!(out, "# {library}: {code}");
        }
    }
    out.push_str("```\n");
}
