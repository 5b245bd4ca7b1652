//! What pipelines may read: the inputs of `docs/functions.md`, in memory.

use crate::place::{at, stores};
use chunkwise::storage::{ArrayIo, CodecChoice, Elements, NewArray, make_group, new_meta, publish_array};
use chunkwise::types::{DType, Scalar};
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

static MADE: LazyLock<()> = LazyLock::new(|| {
    let group = at("in/ds.zarr");
    make_group(stores(), &group, 3, &Map::new()).unwrap();
    let days = json!({"units": "days since 2020-01-01", "calendar": "standard"});
    let nan = f64::NAN;
    array("ds.zarr/time", DType::Int64, &[6], &["time"], &ints(&[0, 15, 31, 46, 60, 75]), days);
    array("ds.zarr/lat", DType::Float64, &[2], &["lat"], &floats(&[10.0, 20.0]), json!({"units": "degrees_north"}));
    let t = [20.0, 10.0, 22.0, 11.0, 21.0, 13.0, 25.0, 14.0, 24.0, 17.0, 26.0, 19.0];
    array("ds.zarr/t", DType::Float64, &[6, 2], &["time", "lat"], &floats(&t), json!({"units": "K"}));
    array("ds.zarr/m", DType::Float64, &[6], &["time"], &floats(&[1.0, nan, 3.0, 4.0, nan, nan]), json!({}));
    array("ds.zarr/wet", DType::Bool, &[6], &["time"], &[1, 0, 1, 1, 0, 0], json!({}));
    array("a.zarr", DType::Int64, &[2, 3], &[], &ints(&[1, 2, 3, 4, 5, 6]), json!({}));
    array("b.zarr", DType::Int64, &[3, 2], &[], &ints(&[1, 0, 2, 1, 0, 3]), json!({}));
    array("v.zarr", DType::Float64, &[4], &[], &floats(&[-1.5, -0.5, 0.5, 2.5]), json!({}));
    array("p.zarr", DType::Float64, &[4], &[], &floats(&[0.5, 1.0, 2.0, 4.0]), json!({}));
    array("w.zarr", DType::Float64, &[4], &[], &floats(&[1.0, nan, 4.0, f64::INFINITY]), json!({}));
    array("i.zarr", DType::Int64, &[4], &[], &ints(&[6, 3, 5, 12]), json!({}));
    array("j.zarr", DType::Int64, &[4], &[], &ints(&[4, 5, 1, 10]), json!({}));
    array("yes.zarr", DType::Bool, &[4], &[], &[1, 1, 0, 0], json!({}));
    array("no.zarr", DType::Bool, &[4], &[], &[1, 0, 1, 0], json!({}));
    array("z.zarr", DType::Complex128, &[2], &[], &floats(&[3.0, 4.0, 1.0, -1.0]), json!({}));
    let packed = json!({"scale_factor": 0.5, "add_offset": 1.0, "_FillValue": -1});
    array("packed.zarr", DType::Int16, &[6], &["x"], &[1, 0, 2, 0, 3, 0, 255, 255, 5, 0, 6, 0], packed);
});

/// Makes them, the first time.
pub(crate) fn make() {
    LazyLock::force(&MADE);
}

fn floats(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_ne_bytes()).collect()
}

fn ints(values: &[i64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_ne_bytes()).collect()
}

fn array(name: &str, dtype: DType, shape: &[u64], dims: &[&str], values: &[u8], attributes: Value) {
    let new = NewArray {
        dtype,
        shape: shape.to_vec(),
        chunks: shape.to_vec(),
        shards: None,
        codec: CodecChoice::None,
        fill_value: Scalar::Int(0),
        dimension_names: Some(dims.iter().map(|d| Some(d.to_string())).collect()).filter(|_| !dims.is_empty()),
        attributes: attributes.as_object().cloned().unwrap_or_default(),
    };
    let place = at("in").join(name);
    let meta = new_meta(&new).unwrap();
    ArrayIo::new(stores(), &place, &meta).unwrap().write_chunk(&vec![0; shape.len()], Elements::whole(values, shape)).unwrap();
    publish_array(stores(), &place, &meta).unwrap();
}
