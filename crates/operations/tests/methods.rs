//! The methods of `Expr` in the crate `chunkwise`, which are made from the table.

#![allow(clippy::unwrap_used)]

use chunkwise_ops::table::{Each, Kind, Operation, Parameter, ParameterDefault, table};
use std::fmt::Write;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../chunkwise/src/expr/methods.rs");

const HEAD: &str = "//! The functions of the expression language as methods.
//!
//! This file is made from the table of operations by `CHUNKWISE_WRITE=1 cargo test -p chunkwise-ops --test methods`.

use super::{Expr, Term, pairs};
use chunkwise_types::DType;
";

/// How a method takes a parameter: the arguments in its signature, and what they become. `None` if it leaves the parameter out.
fn taken(o: &Operation, p: &Parameter) -> Option<(String, String)> {
    let groups = o.parameters.iter().any(|p| matches!(p.kind, Kind::Groups | Kind::Lookup));
    let n = p.name;
    let one = |t: &str, made: String| Some((format!("{n}: {t}"), made));
    let by_dimension = |t: &str, made: &str| Some((format!("{n}: &[(&str, {t})]"), format!("{n}.iter().{made}")));
    match p.kind {
        _ if p.form == 2 => None,
        Kind::Dims => one("&[&str]", format!("self.dims({n})")),
        Kind::Order => one("&[&str]", format!("self.dims({n})")),
        Kind::Axis if groups || matches!(o.parameters[0].kind, Kind::Arrays) => None,
        Kind::Axis => one("&str", format!("self.dim({n})")),
        Kind::NewDim => one("&str", format!("{n}.into()")),
        Kind::ByDimension(Each::Index | Each::Label) => by_dimension("Term", "cloned()"),
        Kind::ByDimension(Each::Window | Each::Chunk) => by_dimension("u64", "map(|(dim, n)| (*dim, Term::from(*n)))"),
        Kind::ByDimension(Each::Period) => Some(("dim: &str, period: &str".into(), "[(dim, period.into())]".into())),
        Kind::Rest => one("&[Expr]", format!("{n}.iter().map(Term::from)")),
        _ if p.default.is_some() && p.printed().contains('=') => None,
        Kind::Arrays => one("&[Expr]", format!("{n}.into()")),
        Kind::Lengths => one("&[u64]", format!("{n}.into()")),
        Kind::Ints => one("&[i64]", format!("{n}.into()")),
        Kind::Count => one("u64", format!("{n}.into()")),
        Kind::DType => one("DType", format!("{n}.into()")),
        Kind::Text => one("&str", format!("{n}.into()")),
        Kind::Widths => one("&[(u64, u64)]", format!("pairs({n})")),
        _ => one("impl Into<Term>", format!("{n}.into()")),
    }
}

fn method(out: &mut String, o: &Operation) {
    for line in o.plain_about().lines() {
        let _ = writeln!(out, "{}", format!("    /// {line}").trim_end());
    }
    let on_self = matches!(o.parameters[0].kind, Kind::Array | Kind::Operand | Kind::Other);
    let (mut signature, mut positional, mut named, mut more) = (Vec::new(), Vec::new(), Vec::new(), None);
    let mut options = Vec::new();
    for (i, p) in o.parameters.iter().enumerate() {
        if i == 0 && on_self {
            signature.push("&self".to_string());
            positional.push("self.into()".to_string());
            continue;
        }
        match (taken(o, p), p.kind) {
            (None, _) => options.push(format!("`{}`", p.printed())),
            (Some((s, made)), Kind::Rest | Kind::ByDimension(_)) => {
                signature.push(s);
                more = Some((p.kind, made));
            }
            // One that may be left out has its name, so that those before it may be left out too.
            (Some((s, made)), _) if matches!(p.default, Some(d) if d != ParameterDefault::None || p.printed().contains('=')) => {
                signature.push(s);
                named.push(format!("(\"{}\", {made})", p.name));
            }
            (Some((s, made)), _) => {
                signature.push(s);
                positional.push(made);
            }
        }
    }
    let _ = writeln!(
        out,
        "    ///\n    /// As `{}` of the expression language.{}",
        o.forms(),
        match &options[..] {
            [] => String::new(),
            list => format!(" [`Expr::call`] takes {} too.", list.join(", ")),
        }
    );
    let name = if o.name == "where" { "where_" } else { o.name };
    let _ = writeln!(out, "    pub fn {name}({}) -> Expr {{", signature.join(", "));
    let (mut first, mut last) = (format!("[{}]", positional.join(", ")), format!("[{}]", named.join(", ")));
    match more {
        Some((Kind::Rest, made)) => first = format!("{first}.into_iter().chain({made})"),
        Some((_, made)) => last = made,
        None => {}
    }
    let _ = writeln!(out, "        Expr::call(\"{}\", {first}, {last})\n    }}\n", o.name);
}

#[test]
fn the_methods_of_expr_are_current() {
    let mut out = format!("{HEAD}\nimpl Expr {{\n");
    table().iter().for_each(|o| method(&mut out, o));
    let wanted = format!("{}\n}}\n", out.trim_end());
    if std::env::var_os("CHUNKWISE_WRITE").is_some() {
        std::fs::write(PATH, &wanted).unwrap();
    }
    // Without the layout, which is rustfmt's.
    let plain = |text: &str| text.split_whitespace().collect::<String>().replace(",)", ")");
    let there = std::fs::read_to_string(PATH).unwrap();
    assert!(
        plain(&there) == plain(&wanted),
        "{PATH} is not what the table says; write it with CHUNKWISE_WRITE=1 cargo test -p chunkwise-ops --test methods, then cargo fmt"
    );
}
