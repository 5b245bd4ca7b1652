//! The expression language and the pipeline file, from outside.
#![allow(clippy::unwrap_used, clippy::panic)]
use chunkwise_pipeline::*;

fn show(e: &Expr) -> String {
    let list = |v: &[Expr]| v.iter().map(show).collect::<Vec<_>>().join(" ");
    match &e.kind {
        ExprKind::Name(n) => n.clone(),
        ExprKind::Int(i) => i.to_string(),
        ExprKind::Float(f) => format!("{f:?}"),
        ExprKind::Imag(f) => format!("{f:?}j"),
        ExprKind::Str(s) => format!("{s:?}"),
        ExprKind::Bool(b) => b.to_string(),
        ExprKind::None => "None".into(),
        ExprKind::List(v) => format!("[{}]", list(v)),
        ExprKind::Tuple(v) => format!("<{}>", list(v)),
        ExprKind::Call { function, args, kwargs, .. } => {
            let kw: String = kwargs.iter().map(|(k, v)| format!(" {k}={}", show(v))).collect();
            format!("{function}({}{kw})", list(args))
        }
        ExprKind::Member { base, name } => format!("{}.{name}", show(base)),
        ExprKind::Slice(parts) => parts.iter().map(|p| p.as_ref().map(show).unwrap_or_default()).collect::<Vec<_>>().join(":"),
        ExprKind::Unary { op, operand } => format!("({op:?} {})", show(operand)),
        ExprKind::Binary { op, left, right } => format!("({} {} {})", show(left), op.symbol(), show(right)),
        ExprKind::Index { base, items } => format!("{}[{}]", show(base), items.iter().map(item).collect::<Vec<_>>().join(",")),
    }
}
fn item(i: &IndexItem) -> String {
    let o = |e: &Option<Expr>| e.as_ref().map(show).unwrap_or_default();
    match i {
        IndexItem::At(e) => show(e),
        IndexItem::Slice { start, stop, step, .. } => format!("{}:{}:{}", o(start), o(stop), o(step)),
        IndexItem::Ellipsis(_) => "...".into(),
        IndexItem::NewAxis(_) => "new".into(),
        IndexItem::Keyword { dim, item: i, .. } => format!("{dim}={}", item(i)),
    }
}

#[test]
fn expressions() {
    for (text, want) in [
        ("a + b * c", "(a + (b * c))"),
        ("-x ** 2", "(Neg (x ** 2))"),
        ("2 ** -x ** 2", "(2 ** (Neg (x ** 2)))"),
        ("a - b - c", "((a - b) - c)"),
        ("a | b & c ^ d << 1", "(a | ((b & c) ^ (d << 1)))"),
        ("(a > 0) & ~b", "((a > 0) & (Invert b))"),
        ("a & b == c", "((a & b) == c)"),
        ("x.mean(dim=\"time\").abs()", "abs(mean(x dim=\"time\"))"),
        ("f(1_000, 1e3, 2j, .5, 5., 0xff)", "f(1000 1000.0 2.0j 0.5 5.0 255)"),
        ("x[1:-2:3, ..., None, [1, 2], ::2, -1]", "x[1:(Neg 2):3,...,new,[1 2],::2,(Neg 1)]"),
        ("x[time=0:10, lat=3]", "x[time=0:10:,lat=3]"),
        ("isel(x, time=0:12, lat=::2)", "isel(x time=0:12: lat=::2)"),
        ("ds.u + ds['air temp']", "(ds.u + ds[\"air temp\"])"),
        ("(1,)", "<1>"),
        ("()", "<>"),
        ("(1)", "1"),
        ("a // b % c @ d", "(((a // b) % c) @ d)"),
        ("f(\n  a, # first\n  'b',\n)", "f(a \"b\")"),
        ("True", "true"),
    ] {
        assert_eq!(show(&parse_expr(text).unwrap_or_else(|e| panic!("{text}: {e}"))), want, "{text}");
    }
    let e = parse_expr("mean(u * v)").unwrap();
    assert_eq!(e.span, 0..11);
    assert_eq!(e.names(), vec![("u", 5..6), ("v", 9..10)]);
}

#[test]
fn mistakes() {
    for (text, at, message) in [
        ("f(a, b", 1, "parenthesis is not closed"),
        ("x[1", 1, "bracket is not closed"),
        ("a = b", 2, "unexpected '='"),
        ("f(a + b = 2)", 8, "unexpected '='"),
        ("a < b < c", 6, "chained"),
        ("a and b", 2, "'and'"),
        ("not a", 0, "'not'"),
        ("a $ b", 2, "unexpected character"),
        ("'abc", 0, "not closed"),
        ("a b", 2, "name 'b'"),
        ("a)", 1, "unmatched"),
        ("", 0, "empty"),
        ("a +", 3, "expected a value"),
        ("f(a=1, a=2)", 7, "twice"),
        ("f(a=1, 2)", 7, "positional"),
        ("x.T", 2, "'.T'"),
        ("2x", 0, "not a number"),
        ("x[..., ...]", 7, "only one"),
    ] {
        let e = parse_expr(text).unwrap_err();
        assert!(e.message.contains(message) && e.span.start == at, "{text}: {e:?}");
    }
    for hostile in [
        "(".repeat(100_000),
        "-".repeat(100_000),
        "a+".repeat(100_000) + "a",
        "a".to_string() + &"**a".repeat(100_000),
        "x".to_string() + &"[0]".repeat(9999),
    ] {
        assert!(parse_expr(&hostile).is_err());
    }
    assert!(parse_expr(&("a+".repeat(300) + "a")).is_ok());
}

const GOOD: &str = "inputs:
  u: data/ocean.zarr/u
  v: {url: data/ocean.zarr/v, decode_cf: true}
arrays:
  top: uv[0:3] * scale
  uv: mean(u * v, dim=\"time\")
outputs:
  results.zarr/uv: uv
  results.zarr/top: {array: top + 1, chunks: {lat: 180, 1: -1}, codec: zstd, attributes: {a: [1, x]}}
spec: {allowed_mem: 2GB, work_dir: /tmp/work, executor: threads, workers: 4}
parameters: {scale: 2.5}
";

#[test]
fn documents() {
    let mut d = parse_document(GOOD, Format::Yaml).unwrap();
    assert_eq!(d.order().iter().map(|a| a.name.value.as_str()).collect::<Vec<_>>(), ["uv", "top"]);
    assert_eq!([d.inputs[1].decode_cf, d.inputs[0].decode_cf], [Some(true), None]);
    assert_eq!(d.spec.workers.as_ref().unwrap().value, 4);
    assert_eq!(d.spec.allowed_mem.as_ref().unwrap().value.0, 2_000_000_000);
    assert_eq!(&GOOD[d.inputs[0].url.span.clone()], "data/ocean.zarr/u");
    let a = &d.arrays[0];
    assert_eq!(&GOOD[a.map.locate(a.expr.names()[1].1.clone())], "scale");
    assert_eq!(d.outputs[1].chunks.as_ref().unwrap()[1].0.value, Dim::Number(1));
    d.set_parameter("scale", "3").unwrap();
    assert_eq!(d.parameters[0].value.value, ParameterValue::Float(3.0));
    assert!(d.set_parameter("scal", "3").unwrap_err().advice().unwrap().contains("scale"));
    let json = r#"{"inputs": {"u": "a/u"}, "arrays": {"m": "mean(u, dim=\"t\")"}, "outputs": {"o": "m"}}"#;
    assert_eq!(parse_document(json, Format::Json).unwrap().arrays[0].text.value, "mean(u, dim=\"t\")");
    // Characters beyond U+FFFF are two escapes in JSON, and what comes after them stays where it was.
    let json = r#"{"inputs": {"u": "\ud83d\ude00/\\ud83d\uD83D\uDE01/\u00e4"}, "outputs": {"o": "u", "p": "w"}}"#;
    let e = parse_document(json, Format::Json).unwrap_err();
    assert_eq!(&json[e.span()], "w", "{e}");
    let document = parse_document(&json.replace("\"w\"", "\"u\""), Format::Json).unwrap();
    assert_eq!(document.inputs[0].url.value, "\u{1f600}/\\ud83d\u{1f601}/\u{e4}");
    assert_eq!(document.inputs[0].url.span, json.find("\"\\ud83d").unwrap()..json.find("}, \"out").unwrap());
    assert!(parse_document(&json.replace("\\ude00", ""), Format::Json).is_err());
    let toml = "[inputs]\nu = 'a/u'\n[arrays]\nz = 'u + 1'\nb = 'z * q'\n";
    let e = parse_document(toml, Format::Toml).unwrap_err();
    assert_eq!(e.line_column(), (5, 10), "{e}");
    let d = parse_document("[arrays]\nz = '1'\nb = '2'\n[outputs.\"x.zarr\"]\narray = 'z'\n", Format::Toml).unwrap();
    assert_eq!(d.arrays[0].name.value, "z");
}

#[test]
fn document_mistakes() {
    for (text, place, message, help) in [
        ("inputs: {u: a}\narrays:\n  é: mean(u\n", (3, 10), "not closed", ")"),
        ("inputs: {u: a}\narrays:\n  b: 'u * * u'\n", (3, 11), "expected a value", ""),
        ("arrays:\n  b: |\n    1 +\n    2 $ 3\n", (4, 7), "unexpected character", ""),
        ("arrays:\n  b: \"f('\\u0061' $\"\n", (2, 6), "unexpected character", ""),
        ("input: {u: a}\n", (1, 1), "unknown key 'input'", "did you mean 'inputs'?"),
        ("inputs: {u: {url: a, decode: true}}\n", (1, 22), "unknown key", ""),
        ("inputs:\n  u: a\n  u: b\n", (3, 3), "defined twice", ""),
        ("inputs: {u: a}\narrays: {u: '1'}\n", (2, 10), "defined twice", ""),
        ("inputs: {2u: a}\n", (1, 10), "cannot be used as a name", ""),
        ("inputs: {inf: a}\n", (1, 10), "cannot be used as a name", "meaning"),
        ("arrays:\n  a: b\n  b: a\n", (2, 3), "a → b → a", ""),
        ("arrays: {a: a}\n", (1, 10), "a → a", ""),
        ("inputs: {temp: a}\narrays: {b: tmep + 1}\n", (2, 13), "'tmep' is not defined", "temp"),
        ("arrays: {b: '1'}\noutputs:\n  x.zarr: b\n  x.zarr/: b\n", (4, 3), "given twice", ""),
        ("arrays: {b: '1'}\noutputs:\n  x: {array: b, chunks: {t: 0}}\n", (3, 29), "positive", ""),
        ("spec: {allowed_mem: lots}\n", (1, 21), "not a size", ""),
        ("inputs: [\n", (1, 9), "the bracket [ is not closed", "add a ]"),
        ("inputs:\n  u: a\n   v: b\n", (3, 1), "line 3 is indented by 3 spaces", "indent 'v'"),
        ("inputs:\n\tu: a\n", (2, 1), "a tab", "spaces"),
        ("arrays: {b: '1'}\ninputs:\n  u: *a + 1\n", (3, 6), "begins with *", "`u: '*a + 1'`"),
        ("inputs: &a {u: a}\n", (1, 9), "anchors", ""),
    ] {
        let e = parse_document(text, Format::Yaml).unwrap_err();
        assert!(e.to_string().contains(message) && e.advice().unwrap_or("").contains(help), "{text}: {e:?}");
        assert_eq!(e.line_column(), place, "{text}: {e:?}");
    }
    let e = parse_document("{\"inputs\": {,}}", Format::Json).unwrap_err();
    assert_eq!(e.line_column().0, 1);
}

#[test]
fn random_text_never_panics() {
    let mut state = 0x9e3779b97f4a7c15u64;
    let mut next = move |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % n as u64) as usize
    };
    let words = [
        "inputs", "arrays", ": ", "\n", "\n  ", "a", "b", "(", ")", "[", "]", "{", "}", ",", "=", "**", "'", "\"", "\\", "é", "...", "1e",
        "2j", "|\n", "- ", "#", "[x]\n", "🙂", ":", "\t", "\r\n", "\u{feff}",
    ];
    for round in 0..6000 {
        let text: String = if round % 2 == 0 {
            (0..next(24)).map(|_| words[next(words.len())]).collect()
        } else if round % 4 == 1 {
            String::from_utf8_lossy(&(0..next(40)).map(|_| next(256) as u8).collect::<Vec<_>>()).into_owned()
        } else {
            // A good document with one piece replaced.
            let mut chars: Vec<char> = GOOD.chars().collect();
            let at = next(chars.len());
            chars.splice(at..(at + next(4)).min(GOOD.chars().count()), words[next(words.len())].chars());
            chars.into_iter().collect()
        };
        let _ = parse_expr(&text);
        for format in [Format::Yaml, Format::Json, Format::Toml] {
            if let Err(e) = parse_document(&text, format) {
                e.line_column();
            }
        }
    }
}

#[test]
fn large_text_is_quick() {
    let start = std::time::Instant::now();
    let chain: String = (1..20_000).map(|i| format!("  a{i}: a{} + 1\n", i - 1)).collect();
    let text = format!("inputs: {{a0: x}}\narrays:\n{chain}");
    assert_eq!(parse_document(&text, Format::Yaml).unwrap().order().len(), 19_999);
    for hostile in ["[".repeat(200_000), "- ".repeat(200_000), "{a: ".repeat(200_000), "a = ".to_string() + &"[".repeat(200_000)] {
        for format in [Format::Yaml, Format::Json, Format::Toml] {
            assert!(parse_document(&hostile, format).is_err());
        }
    }
    assert!(parse_document(&"a".repeat(2 << 20), Format::Yaml).is_err());
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}
