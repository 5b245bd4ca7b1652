//! Formulas: operators and methods give what they say, and errors wait until the result is asked for.

#![allow(clippy::unwrap_used)]

use chunkwise::types::Scalar;
use chunkwise::{DType, Expr, Session, ops};

fn count(n: i128) -> Expr {
    ops::create::arange(Scalar::Int(0), Scalar::Int(n), Scalar::Int(1), None, Some(&[3])).unwrap().into()
}

fn session(folder: &tempfile::TempDir) -> Session {
    Session::new(200_000_000, 2, &folder.path().display().to_string()).unwrap()
}

fn values(e: &Expr) -> Vec<f64> {
    let folder = tempfile::tempdir().unwrap();
    let found = e.astype(DType::Float64).compute::<f64>(&session(&folder)).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the run is cleaned up");
    found.into_raw_vec_and_offset().0
}

#[test]
fn operators_take_expressions_and_numbers_on_either_side() {
    let (a, b) = (count(4), count(4) + 1);
    assert_eq!(values(&(&a + &b)), [1.0, 3.0, 5.0, 7.0]);
    assert_eq!(values(&(10 - &a)), [10.0, 9.0, 8.0, 7.0]);
    assert_eq!(values(&(1.0 / &b)), [1.0, 0.5, 1.0 / 3.0, 0.25]);
    assert_eq!(values(&(&a * 2.5)), [0.0, 2.5, 5.0, 7.5]);
    assert_eq!(values(&(a.pow(2) % 3)), [0.0, 1.0, 1.0, 0.0]);
    assert_eq!(values(&-a.maximum(2)), [-2.0, -2.0, -2.0, -3.0]);
    assert_eq!(values(&(a.less(3) & a.greater(0))), [0.0, 1.0, 1.0, 0.0]);
    assert_eq!(values(&a.equal(2).choose(7, &b)), [1.0, 2.0, 7.0, 4.0]);
    assert_eq!((&a * 2).array().unwrap().dtype(), DType::Int64);
    assert_eq!((&a * 2.0).array().unwrap().dtype(), DType::Float64);
}

#[test]
fn reductions_and_slices() {
    let a = count(10);
    assert_eq!(values(&a.sum(&[])), [45.0]);
    assert_eq!(values(&a.mean(&["0"])), [4.5]);
    assert_eq!(values(&a.at("0", -1)), [9.0]);
    assert_eq!(values(&a.slice("0", 2, 5)), [2.0, 3.0, 4.0]);
    assert_eq!(values(&(a.max(&[]) - a.min(&[]))), [9.0]);
    assert_eq!(values(&a.rechunk(&[("0", 4)]).std(&[])), [8.25f64.sqrt()]);
}

#[test]
fn every_function_is_a_method_or_a_call() {
    let a = count(6);
    assert_eq!(values(&a.cosh().hypot(0).floor()), [1.0, 1.0, 3.0, 10.0, 27.0, 74.0]);
    assert_eq!(values(&a.reshape(&[2, 3]).sum(&["1"])), [3.0, 12.0]);
    assert_eq!(values(&a.reshape(&[2, -1]).permute_dims(&["1", "0"]).reshape(&[-1])), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    assert_eq!(values(&a.take(&[5, 0], "0")), [5.0, 0.0]);
    assert_eq!(values(&a.roll(&[2], &[])), [4.0, 5.0, 0.0, 1.0, 2.0, 3.0]);
    assert_eq!(values(&a.moving_sum(&[("0", 3)])), [3.0, 6.0, 9.0, 12.0]);
    assert_eq!(values(&a.isel(&[("0", (1..3).into())])), [1.0, 2.0]);
    assert_eq!(values(&a.groupby_sum([0, 0, 1, 1, 2, -1])), [1.0, 5.0, 4.0]);
    assert_eq!(values(&a.pad(&[(1, 2)])), [0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 0.0, 0.0]);
    assert_eq!(values(&a.stencil([1, -2, 1], &[])), [0.0; 4]);
    assert_eq!(values(&a.equal(2).where_(7, &a)), [0.0, 1.0, 7.0, 3.0, 4.0, 5.0]);
    assert_eq!(values(&Expr::concat(&[a.clone(), count(2)])), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 0.0, 1.0]);
    assert_eq!(values(&Expr::einsum("i,i->", &[a.clone(), a.clone()])), [55.0]);
    assert_eq!(values(&Expr::linspace(0, 1).at("0", -1)), [1.0]);
    assert_eq!(values(&Expr::call("arange", [5.into()], [("dtype", DType::Float32.into())])), [0.0, 1.0, 2.0, 3.0, 4.0]);
    assert_eq!(values(&Expr::call("var", [(&a).into()], [("ddof", 1.into())])), [3.5]);
}

#[test]
fn rules_are_those_of_the_language() {
    let a = count(4).astype(DType::Float64);
    // What is taken out is missing, and means leave it out.
    assert_eq!(values(&a.greater(1).where_(&a, f64::NAN).mean(&[])), [2.5]);
    let attributes = serde_json::json!({"units": "m", "long_name": "height"});
    let h = Expr::from(a.array().unwrap().with_attributes(attributes.as_object().cloned().unwrap()));
    let said = |e: Expr| e.array().unwrap().attributes().clone();
    assert_eq!(said(h.max(&[])).len(), 2);
    assert_eq!(said(&h - &h), said(h.std(&[])));
    assert_eq!(said(h.std(&[]))["units"], "m");
    assert!(said(&h * &h).is_empty());
    let times = serde_json::json!({"units": "days since 2000-01-01"});
    let t = Expr::from(a.array().unwrap().with_attributes(times.as_object().cloned().unwrap()));
    assert_eq!(values(&t.less("2000-01-03")), [1.0, 1.0, 0.0, 0.0]);
    assert!(t.sum(&[]).array().unwrap_err().to_string().contains("a sum of times has no meaning"));
}

#[test]
fn errors_wait_and_say_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let wrong = ((count(4) + count(5)).sqrt() * 2).mean(&[]);
    let text = wrong.array().unwrap_err().to_string();
    assert!(text.contains("add") && text.contains('4') && text.contains('5'), "{text}");
    assert!(wrong.compute::<f64>(&session(&folder)).is_err());
    let call = |name: &str, options: &[(&'static str, chunkwise::Term)]| {
        Expr::call(name, [(&count(3)).into()], options.iter().cloned()).array().unwrap_err().to_string()
    };
    assert_eq!(call("mena", &[]), "there is no function 'mena'; did you mean 'mean'?");
    assert_eq!(call("sum", &[("axis", 3.into())]), "sum: axis 3 is out of bounds for an array with 1 axes");
    assert_eq!(
        call("sum", &[("keepdims", 1.into())]),
        "sum: 'keepdims' must be True or False, not 1; several dimensions are a list: dim=[\"lat\", \"lon\"]"
    );
    assert!(count(3).at("0", 3).array().unwrap_err().to_string().contains("out of bounds"));
    let dtype = count(3).compute::<f32>(&session(&folder)).unwrap_err().to_string();
    assert!(dtype.contains("int64") && dtype.contains("float32") && dtype.contains("astype"), "{dtype}");
    let large = ops::create::full(&[100_000, 1000], Scalar::Int(1), DType::Float64, Some(&[100, 1000])).unwrap();
    let text = Expr::from(large).compute::<f64>(&session(&folder)).unwrap_err().to_string();
    assert!(text.contains("800.0 MB") && text.contains("store"), "{text}");
    assert!(Expr::open("/nowhere/at.all").unwrap_err().to_string().contains("/nowhere/at.all"));
}

#[test]
fn results_of_one_process_have_nothing_to_do_with_each_other() {
    let winds = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/data/winds.zarr/uwnd");
    let u = Expr::open(winds).unwrap().astype(DType::Float64);
    let folder = tempfile::tempdir().unwrap();
    for start in [0, 5] {
        let part = u.slice("time", start, start + 3).mean(&["lon"]);
        assert_eq!(part.compute::<f64>(&session(&folder)).unwrap().shape(), [3, 73]);
    }
    // In a group of a store they would be two truths.
    let at = |name: &str| folder.path().join("out.zarr").join(name).display().to_string();
    u.slice("time", 0, 3).write(&session(&folder), &at("a")).unwrap();
    let text = u.slice("time", 5, 8).write(&session(&folder), &at("b")).unwrap_err().to_string();
    assert!(text.contains("'time'") && text.contains("1982-01"), "{text}");
    let text = (u.slice("time", 0, 3) + u.slice("time", 5, 8)).array().unwrap_err().to_string();
    assert!(text.contains("'time'") && text.contains("at index 0"), "{text}");
}
