//! The functions by name, with how they are called: what is printed here is what is accepted.

use chunkwise_kernels::ElementOp;

/// Functions besides the element-wise ones, with their arguments.
pub const FUNCTIONS: &[(&str, &str)] = &[
    ("all", "all(x, dim=None, keepdims=False)"),
    ("any", "any(x, dim=None, keepdims=False)"),
    ("arange", "arange(start, stop, step=1, dtype=None, chunks=None)"),
    ("argmax", "argmax(x, dim=None, keepdims=False, skipna=None)"),
    ("argmin", "argmin(x, dim=None, keepdims=False, skipna=None)"),
    ("astype", "astype(x, dtype), such as astype(x, \"float32\")"),
    ("broadcast_to", "broadcast_to(x, shape)"),
    ("clip", "clip(x, low=None, high=None)"),
    ("concat", "concat(arrays, axis=0), such as concat([x, y], dim=\"time\")"),
    ("convolve", "convolve(x, weights, dim=None, mode=\"none\", value=0)"),
    ("count_nonzero", "count_nonzero(x, dim=None, keepdims=False)"),
    ("diff", "diff(x, n=1, axis=-1)"),
    ("einsum", "einsum(subscripts, x, y, ...), such as einsum(\"ij,jk->ik\", x, y)"),
    ("expand_dims", "expand_dims(x, axis=0, dim=None)"),
    ("eye", "eye(n, m=None, k=0, dtype=\"float64\", chunks=None)"),
    ("flip", "flip(x, dim=None)"),
    ("full", "full(shape, value, dtype=None, chunks=None)"),
    ("groupby_all", "groupby_all(x, by, axis=0), such as groupby_all(x, \"time.month\")"),
    ("groupby_any", "groupby_any(x, by, axis=0), such as groupby_any(x, \"time.month\")"),
    ("groupby_count", "groupby_count(x, by, axis=0), such as groupby_count(x, \"time.month\")"),
    ("groupby_max", "groupby_max(x, by, axis=0, skipna=True), such as groupby_max(x, \"time.month\")"),
    ("groupby_mean", "groupby_mean(x, by, axis=0, skipna=True), such as groupby_mean(x, \"time.month\")"),
    ("groupby_min", "groupby_min(x, by, axis=0, skipna=True), such as groupby_min(x, \"time.month\")"),
    ("groupby_prod", "groupby_prod(x, by, axis=0, skipna=True), such as groupby_prod(x, \"time.month\")"),
    ("groupby_std", "groupby_std(x, by, axis=0, correction=0, skipna=True), such as groupby_std(x, \"time.month\")"),
    ("groupby_sum", "groupby_sum(x, by, axis=0, skipna=True), such as groupby_sum(x, \"time.month\")"),
    ("groupby_var", "groupby_var(x, by, axis=0, correction=0, skipna=True), such as groupby_var(x, \"time.month\")"),
    ("isel", "isel(x, time=0, lat=2:8)"),
    ("linspace", "linspace(start, stop, num=50, endpoint=True, chunks=None)"),
    ("lookup", "lookup(x, by, axis=0, like=None), such as lookup(climatology, \"time.month\", like=x)"),
    ("matmul", "matmul(x, y)"),
    ("max", "max(x, dim=None, keepdims=False, skipna=None)"),
    ("mean", "mean(x, dim=None, keepdims=False, skipna=None)"),
    ("min", "min(x, dim=None, keepdims=False, skipna=None)"),
    ("moving_max", "moving_max(x, time=5, mode=\"none\", value=0) or moving_max(x, window, axis=None, mode=\"none\", value=0)"),
    ("moving_mean", "moving_mean(x, time=5, mode=\"none\", value=0) or moving_mean(x, window, axis=None, mode=\"none\", value=0)"),
    ("moving_min", "moving_min(x, time=5, mode=\"none\", value=0) or moving_min(x, window, axis=None, mode=\"none\", value=0)"),
    ("moving_sum", "moving_sum(x, time=5, mode=\"none\", value=0) or moving_sum(x, window, axis=None, mode=\"none\", value=0)"),
    ("nanargmax", "nanargmax(x, dim=None, keepdims=False)"),
    ("nanargmin", "nanargmin(x, dim=None, keepdims=False)"),
    ("nanmax", "nanmax(x, dim=None, keepdims=False)"),
    ("nanmean", "nanmean(x, dim=None, keepdims=False)"),
    ("nanmin", "nanmin(x, dim=None, keepdims=False)"),
    ("nanprod", "nanprod(x, dim=None, keepdims=False)"),
    ("nanstd", "nanstd(x, dim=None, correction=0, keepdims=False)"),
    ("nansum", "nansum(x, dim=None, keepdims=False)"),
    ("nanvar", "nanvar(x, dim=None, correction=0, keepdims=False)"),
    ("ones", "ones(shape, dtype=\"float64\", chunks=None)"),
    ("outer", "outer(x, y)"),
    ("pad", "pad(x, widths, mode=\"constant\", value=0), such as pad(x, [[1, 1], [0, 2]])"),
    ("permute_dims", "permute_dims(x, axes=None), such as permute_dims(x, [\"lat\", \"time\"])"),
    ("prod", "prod(x, dim=None, keepdims=False, skipna=None)"),
    ("qr_q", "qr_q(x)"),
    ("qr_r", "qr_r(x)"),
    ("random", "random(shape, seed=0, distribution=\"uniform\", dtype=\"float64\", chunks=None)"),
    ("rechunk", "rechunk(x, time=-1, lat=10)"),
    ("repeat", "repeat(x, repeats, axis=None)"),
    ("resample_all", "resample_all(x, time=\"1M\")"),
    ("resample_any", "resample_any(x, time=\"1M\")"),
    ("resample_count", "resample_count(x, time=\"1M\")"),
    ("resample_max", "resample_max(x, time=\"1M\", skipna=True)"),
    ("resample_mean", "resample_mean(x, time=\"1M\", skipna=True)"),
    ("resample_min", "resample_min(x, time=\"1M\", skipna=True)"),
    ("resample_prod", "resample_prod(x, time=\"1M\", skipna=True)"),
    ("resample_std", "resample_std(x, time=\"1M\", correction=0, skipna=True)"),
    ("resample_sum", "resample_sum(x, time=\"1M\", skipna=True)"),
    ("resample_var", "resample_var(x, time=\"1M\", correction=0, skipna=True)"),
    ("reshape", "reshape(x, shape)"),
    ("roll", "roll(x, shift, axis=0)"),
    ("sel", "sel(x, time=\"2019-06\", lat=10.0:20.0, method=None, tolerance=None)"),
    ("squeeze", "squeeze(x, dim=None)"),
    ("stack", "stack(arrays, axis=0, dim=None), such as stack([x, y], dim=\"member\")"),
    ("std", "std(x, dim=None, correction=0, keepdims=False, skipna=None)"),
    ("stencil", "stencil(x, weights, dim=None, mode=\"none\", value=0), such as stencil(x, [[0, 1, 0], [1, -4, 1], [0, 1, 0]])"),
    ("sum", "sum(x, dim=None, keepdims=False, skipna=None)"),
    ("take", "take(x, indices, axis=0)"),
    ("tensordot", "tensordot(x, y, axes=2)"),
    ("tile", "tile(x, repetitions), such as tile(x, [2, 3])"),
    ("var", "var(x, dim=None, correction=0, keepdims=False, skipna=None)"),
    ("vecdot", "vecdot(x, y, axis=-1)"),
    ("zeros", "zeros(shape, dtype=\"float64\", chunks=None)"),
];

/// Names of NumPy for functions of the standard.
pub(super) const ALIASES: &[(&str, &str)] = &[
    ("absolute", "abs"),
    ("arccos", "acos"),
    ("arcsin", "asin"),
    ("arctan", "atan"),
    ("arctan2", "atan2"),
    ("arccosh", "acosh"),
    ("arcsinh", "asinh"),
    ("arctanh", "atanh"),
    ("mod", "remainder"),
    ("power", "pow"),
    ("concatenate", "concat"),
    ("transpose", "permute_dims"),
    ("conjugate", "conj"),
    ("invert", "bitwise_invert"),
    ("true_divide", "divide"),
    ("left_shift", "bitwise_left_shift"),
    ("right_shift", "bitwise_right_shift"),
];

/// How a function is called; `None` if there is none of this name.
///
/// ```
/// assert!(chunkwise_pipeline::called("transpose").is_some_and(|s| s.starts_with("permute_dims(x, axes=None)")));
/// assert_eq!(chunkwise_pipeline::called("hypot"), Some("hypot(x, y)".into()));
/// assert_eq!(chunkwise_pipeline::called("mena"), None);
/// ```
pub fn called(name: &str) -> Option<String> {
    let alias = ALIASES.iter().find(|(a, _)| *a == name).map(|(_, n)| *n);
    let own = alias.unwrap_or(name);
    let element = || ElementOp::ALL.iter().find(|op| op.name() == own);
    let text = match FUNCTIONS.iter().find(|(n, _)| *n == own) {
        Some((_, s)) => (*s).to_string(),
        None => format!("{own}({})", operands(*element()?).join(", ")),
    };
    Some(alias.map_or_else(|| text.clone(), |_| format!("{text}   ({name} is another name of it)")))
}

/// The function whose name is most like a word.
pub fn like(word: &str) -> Option<String> {
    let all = FUNCTIONS.iter().map(|(n, _)| *n).chain(ElementOp::ALL.iter().map(|op| op.name()));
    crate::suggest(word, all)
}

/// The names of the operands of an element-wise function.
pub(super) fn operands(op: ElementOp) -> &'static [&'static str] {
    const NAMES: [&str; 3] = ["x", "y", "z"];
    if op == ElementOp::Where { &["condition", "x", "y"] } else { &NAMES[..op.arity().min(3)] }
}

/// How a function is called, for messages.
pub(super) fn signature(name: &str) -> String {
    called(name).unwrap_or_else(|| format!("{name}(x, ...)"))
}

/// The names of the arguments of a function in their order, as they are printed.
pub(super) fn parameters(name: &str) -> Vec<String> {
    let text = signature(name);
    let inside = text.split_once('(').and_then(|(_, rest)| rest.split_once(')')).map_or("", |(inside, _)| inside);
    inside.split(", ").map(|p| p.split_once('=').map_or(p, |(n, _)| n).to_string()).filter(|p| !p.is_empty() && p != "...").collect()
}
