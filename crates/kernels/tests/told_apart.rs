//! Kernels are told apart in one place, `kernel.rs`. Everything else asks them questions, so that a new kind is planned, projected and run
//! without a change elsewhere.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

/// What still tells them apart: the coordinates of a result.
const KNOWN: [&str; 2] = ["operations/src/coords.rs", "operations/src/graph.rs"];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()) {
        let name = entry.file_name().unwrap().to_str().unwrap();
        if entry.is_dir() && !["tests", "examples", "benches", "target"].contains(&name) {
            sources(&entry, found);
        } else if name.ends_with(".rs") && name != "tests.rs" && !name.ends_with("_tests.rs") {
            found.push(entry);
        }
    }
}

/// The lines of code before the tests of a file that name a variant, each with what follows the name.
fn variants(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let code = text.split("\n#[cfg(test)]\n").next().unwrap_or_default();
    let named = |line: &'_ str| {
        let at = line.match_indices("Kernel::").find(|(at, name)| {
            let before = line[..*at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_');
            !before && line[at + name.len()..].starts_with(|c: char| c.is_ascii_uppercase() || "{*".contains(c))
        });
        at.map(|(at, _)| at)
    };
    let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.filter_map(move |line| named(line).map(|at| (line, &line[at..])))
}

/// True if the name is in a pattern and does not make a kernel.
fn is_pattern(line: &str, rest: &str) -> bool {
    rest.contains("=>")
        || rest.trim_end().ends_with('|')
        || ["matches!(", "let Kernel::", "let Some(Kernel::"].iter().any(|p| line.contains(p))
}

#[test]
fn kernels_are_told_apart_in_one_place() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    sources(crates, &mut files);
    assert!(files.len() > 200);
    let mut bad = Vec::new();
    let mut told = 0;
    for file in files {
        let place = file.strip_prefix(crates).unwrap().to_str().unwrap().replace('\\', "/");
        let makes = ["kernels/", "operations/"].iter().any(|folder| place.starts_with(folder));
        for (line, rest) in variants(&fs::read_to_string(&file).unwrap()) {
            if place == "kernels/src/kernel.rs" {
                told += 1;
            } else if (!makes || is_pattern(line, rest)) && !KNOWN.contains(&place.as_str()) {
                bad.push(format!("{place}: {}", line.trim()));
            }
        }
    }
    assert!(told >= 12, "the variants are found");
    assert!(bad.is_empty(), "put a question to the kernel instead (crates/kernels/src/kind.rs):\n{}", bad.join("\n"));
}

#[test]
fn patterns_are_found() {
    let found = |text: &'static str| variants(text).map(|(line, rest)| is_pattern(line, rest)).collect::<Vec<_>>();
    assert_eq!(found("Array::apply(Kernel::Cast, &[a])\nlet kernel = Kernel::Qr(qr);"), [false, false]);
    assert_eq!(
        found("Some(Kernel::View { axes }) => 1,\nif let Kernel::Qr(_) = k {\nmatches!(k, Kernel::Cast)\nKernel::Cast |"),
        [true; 4]
    );
    assert_eq!(found("// Kernel::Cast\nSomeKernel::Cast\nkernel.map(Kernel::is_view)\n#[cfg(test)]\nKernel::Cast"), [false; 0]);
}
