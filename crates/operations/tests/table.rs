//! The table of operations: every entry is whole, and what is made from it is current.

#![allow(clippy::unwrap_used)]

use chunkwise_kernels::ElementOp;
use chunkwise_ops::table::{Kind, find, instead, page, table};
use std::collections::HashSet;

#[test]
fn every_name_is_unique() {
    let mut seen = HashSet::new();
    for name in table().iter().flat_map(|o| o.aliases.iter().copied().chain([o.name])) {
        assert!(seen.insert(name), "{name} is there twice");
        assert!(instead(name).is_none(), "{name} is said to be missing");
    }
}

#[test]
fn every_entry_is_described_and_has_an_example() {
    for o in table() {
        assert!(!o.about.is_empty(), "{} has no description", o.name);
        assert!(o.examples.iter().any(|e| e.expression.contains(&format!("{}(", o.name))), "{} has no example of it", o.name);
        assert!(o.examples.iter().all(|e| !e.result.is_empty()), "an example of {} has no result", o.name);
        for other in o.aliases {
            assert!(o.about.replace('\n', " ").contains(&format!("Another name is `{other}`")), "{} does not mention {other}", o.name);
        }
    }
}

#[test]
fn every_element_wise_function_has_an_entry() {
    for op in ElementOp::ALL {
        let entry = find(op.name()).unwrap_or_else(|| panic!("{} is not in the table", op.name()));
        assert_eq!((entry.element, entry.parameters.len()), (Some(*op), op.arity()), "{}", op.name());
    }
}

#[test]
fn parameters_are_what_signatures_say() {
    for o in table() {
        let mut names = HashSet::new();
        assert!(o.parameters.iter().all(|p| names.insert(p.name)), "{} has two parameters of one name", o.name);
        let optional = o.parameters.iter().position(|p| p.default.is_some()).unwrap_or(o.parameters.len());
        let rest = |k| matches!(k, Kind::ByDimension(_) | Kind::Rest);
        assert!(o.parameters[optional..].iter().all(|p| p.default.is_some() || rest(p.kind)), "{}: one without default is behind", o.name);
    }
}

#[test]
fn the_reference_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/functions.md");
    let wanted = page::functions();
    if std::env::var_os("CHUNKWISE_WRITE").is_some() {
        std::fs::write(path, &wanted).unwrap();
    }
    let there = std::fs::read_to_string(path).unwrap();
    let differs = there.lines().zip(wanted.lines()).find(|(a, b)| a != b);
    assert!(
        there == wanted,
        "docs/functions.md is not what the table says: {differs:?}; write it with CHUNKWISE_WRITE=1 cargo test -p chunkwise-ops --test table"
    );
}
