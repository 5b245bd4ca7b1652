//! The outputs of a pipeline: from what the file says to what the planner is asked for.

use crate::Error;
use crate::encoding::{self, Encoded};
use crate::inputs::Inputs;
use crate::pipeline::LoadError;
use chunkwise_ops::{Array, Value, cf};
use chunkwise_pipeline::{ChunkSpec, Dim, Document, Format, Output, PipelineError, Spanned, parse_document};
use chunkwise_planner::Request;
use chunkwise_storage::{Location, Near, Place, Stores};
use chunkwise_types::DTypeKind;
use std::path::Path;

/// A request, and where in the file it is from.
pub(crate) type Placed = (Request, std::ops::Range<usize>);

/// An output of an array that is no part of a file, in the words of one.
pub(crate) fn request_as(url: &str, array: &Array, how: &serde_json::Map<String, serde_json::Value>) -> Result<Request, Error> {
    if let Some(key) = ["array", "dims", "attributes"].into_iter().find(|key| how.contains_key(*key)) {
        return Err(Error::Other(format!("`{key}` is a property of the array, and not of its encoding")));
    }
    let said = |e: PipelineError| Error::Other(e.advice().map_or_else(|| e.to_string(), |help| format!("{e}; {help}")));
    // The array is given beside the text, in which any expression may stand for it.
    let mut output = how.clone();
    output.insert("array".into(), "0".into());
    let text = serde_json::json!({ "outputs": { url: output } }).to_string();
    let doc = parse_document(&text, Format::Json).map_err(said)?;
    let output = doc.outputs.first().ok_or_else(|| Error::Other("an output needs a URL".into()))?;
    let made = requests(&doc, output, Value::Array(array.clone()), Path::new("."), &Inputs::default());
    let placed = made.map_err(|e| match e {
        LoadError::Pipeline(e) => said(e),
        LoadError::Other(e) => e,
    })?;
    placed.into_iter().next().map(|(request, _)| request).ok_or_else(|| Error::Other("an output holds an array".into()))
}

/// What an output asks for: one array, or each variable of a dataset.
pub(crate) fn requests(doc: &Document, output: &Output, value: Value, base: &Path, inputs: &Inputs) -> Result<Vec<Placed>, LoadError> {
    let span = output.array.span.clone();
    let url =
        Location::parse(&output.url.value, Some(base)).map_err(|e| doc.error(output.url.span.clone(), e.to_string(), "this output"))?;
    url.check_not_root().map_err(|e| doc.error(output.url.span.clone(), e.to_string(), "choose another place"))?;
    if url.as_str().starts_with("http") {
        let e = doc.error(output.url.span.clone(), "http and https URLs can only be read", "this output");
        return Err(e.with_help("write to a folder, s3://, gs:// or az://").into());
    }
    // What other programs take for another format: they would look for a file.
    let other = [".nc", ".nc4", ".h5", ".hdf5", ".tif", ".tiff", ".grib", ".grb", ".zip"]
        .iter()
        .find(|end| url.name().to_ascii_lowercase().ends_with(*end));
    if let Some(end) = other {
        let e = doc.error(output.url.span.clone(), format!("'{end}' is another format: outputs are Zarr arrays and groups"), "this output");
        let name = &url.name()[..url.name().len() - end.len()];
        return Err(e.with_help(format!("name it '{name}.zarr'; xarray.open_zarr(...).to_netcdf(...) converts it")).into());
    }
    let one = |array: &Array, url: &Location, several: bool| -> Result<Placed, LoadError> {
        Ok((request(doc, output, array, url, several, inputs)?, output.url.span.clone()))
    };
    match value {
        Value::Array(a) => Ok(vec![one(&a, &url, false)?]),
        Value::Scalar(s) => Ok(vec![one(&chunkwise_ops::create::full(&[], s, s.default_dtype(), None)?, &url, false)?]),
        Value::Dataset(d) => {
            let each = d.variables.iter().map(|(name, a)| {
                let (request, span) = one(a, &url.join(name), true)?;
                Ok((Request { group_attributes: d.attributes.clone(), ..request }, span))
            });
            each.collect()
        }
        other => {
            let (what, help) = match other {
                Value::List(_) => ("a list", Some("commas make lists; decimals have a point: 273.15")),
                Value::Str(_) => ("text", Some("names of arrays are without quotes of the expression's own")),
                _ => ("nothing", None),
            };
            let e = doc.error(span, format!("an output must be an array or a dataset, not {what}"), "this output");
            Err(e.with_help_opt(help.map(Into::into)).into())
        }
    }
}

fn request(
    doc: &Document,
    output: &Output,
    array: &Array,
    url: &Location,
    several: bool,
    inputs: &Inputs,
) -> Result<Request, PipelineError> {
    // What is packed anew is not what an input has packed.
    let as_it_is = || inputs.as_stored(array).unwrap_or_else(|| array.clone());
    let mut array = if encoding::is_packed(output) { encoding::packed(doc, output, array.clone())? } else { as_it_is() };
    if let Some(dims) = &output.dims {
        if dims.value.len() != array.rank() {
            let message = format!("{} names for {} dimensions", dims.value.len(), array.rank());
            return Err(doc.error(dims.span.clone(), message, "these names"));
        }
        array = array.renamed(dims.value.iter().cloned().map(Some).collect());
    }
    let lengths = |spec: &Option<ChunkSpec>, default: Vec<u64>| -> Result<Option<Vec<u64>>, PipelineError> {
        let Some(spec) = spec else { return Ok(None) };
        if let Some((Spanned { value: Dim::Place { of, .. }, span }, _)) = spec.first()
            && *of != array.rank()
            && !several
        {
            let message =
                format!("{of} lengths for an array with {} dimensions; name those that matter, such as {{time: 100}}", array.rank());
            return Err(doc.error(span.clone(), message, "this list"));
        }
        let mut out = default;
        for (dim, n) in spec {
            let axis = match &dim.value {
                Dim::Name(name) => array.axis_named(name),
                Dim::Place { place, .. } => Some(*place).filter(|&i| i < array.rank()),
                Dim::Number(i) => usize::try_from(*i).ok().filter(|&i| i < array.rank()),
            };
            match axis {
                Some(axis) => out[axis] = if *n < 0 { array.shape()[axis].max(1) } else { (*n).max(1) as u64 },
                // Variables of a dataset need not have all dimensions.
                None if several => {}
                None => {
                    let has: Vec<&str> = array.dims().iter().flatten().map(String::as_str).collect();
                    let (wrong, near) = match &dim.value {
                        Dim::Name(name) => (format!("'{name}'"), chunkwise_ops::suggest(name, has.iter().copied())),
                        Dim::Number(i) => (i.to_string(), None),
                        Dim::Place { place, .. } => (place.to_string(), None),
                    };
                    let message = format!("the array has no dimension {wrong}; it has {}", has.join(", "));
                    let e = doc.error(dim.span.clone(), message, "this dimension");
                    return Err(e.with_help_opt(near.map(|n| format!("did you mean '{n}'?"))));
                }
            }
        }
        Ok(Some(out))
    };
    let natural: Vec<u64> = array.chunks().max_shape().iter().map(|&n| n.max(1)).collect();
    let encoded = encoding::of(doc, output, &array)?;
    let codecs = output.encoding.get("codecs");
    let inner = encoded.sharding.as_ref().and_then(|(shape, _)| shape.clone());
    let said = lengths(&output.chunks, natural.clone())?;
    let chunks = match (inner, said) {
        (Some(inner), Some(said)) if inner != said => {
            let span = codecs.map_or(0..0, |c| c.span.clone());
            let message = format!("the `chunk_shape` of sharding_indexed is {inner:?}, but `chunks` says {said:?}");
            return Err(doc.error(span, message, "these codecs"));
        }
        (inner, said) => inner.or(said),
    };
    let whole = chunks.clone().unwrap_or(natural);
    let shards = lengths(&output.shards, whole.clone())?;
    if let (Some(long), Some(said)) = (&shards, &output.shards)
        && chunks.is_some()
        && let Some(i) = (0..whole.len()).find(|&i| long[i].checked_rem(whole[i]).is_some_and(|r| r != 0))
    {
        let message = format!("a shard holds whole chunks, and {} is no multiple of the chunk length {}", long[i], whole[i]);
        let span = said.first().map_or(output.url.span.clone(), |(dim, _)| dim.span.clone());
        let near = whole[i].saturating_mul((long[i] / whole[i]).max(1));
        return Err(doc.error(span, message, "these shards").with_help(format!("write {near} there, or other chunks")));
    }
    if let (Some(codecs), Some(_), None) = (codecs, &encoded.sharding, &shards) {
        let e = doc.error(codecs.span.clone(), "sharding_indexed needs `shards`: the shape of a shard", "these codecs");
        return Err(e.with_help(
            "`chunk_shape` is the shape of a chunk in a shard; that of a shard is the `chunk_shape` of the chunk grid in a zarr.json",
        ));
    }
    if let Some(key) = cf::PACKING.iter().find(|k| output.attributes.contains_key(**k)) {
        let message =
            format!("'{key}' says how stored numbers are unpacked, and these would be unpacked into others; leave it out of 'attributes'");
        return Err(doc.error(output.url.span.clone(), message, "the attributes of this output"));
    }
    let mut attributes = array.attributes().clone();
    // Without it a reader of the output could not tell a missing value from a NaN that was computed.
    if array.has_missing() && array.dtype().kind() == DTypeKind::Float && !attributes.contains_key("_FillValue") {
        attributes.insert("_FillValue".into(), cf::float_attribute(f64::NAN).into());
    }
    attributes.extend(output.attributes.clone());
    let join = doc.spec.join_chunks != Some(false);
    let Encoded { codec, sharding, chunk_keys, mut fill_value, stored_dtype } = encoded;
    if codec.zarr_format() == 2 {
        if let Some(shards) = &output.shards {
            let span = shards.first().map_or(0..0, |(dim, _)| dim.span.clone());
            return Err(doc.error(span, "Zarr v2 has no shards", "these shards"));
        }
        // It has one place for both.
        let missing = chunkwise_ops::cf::take_fill(&mut attributes, array.dtype());
        if let (Some(said), Some(missing), Some(at)) = (fill_value, missing, output.encoding.get("fill_value"))
            && !(said == missing || said.as_f64().is_nan() && missing.as_f64().is_nan())
        {
            let message = format!("the attribute `_FillValue` is {missing}, which in Zarr v2 is `fill_value`");
            return Err(doc.error(at.span.clone(), message, "another value").with_help("leave `fill_value` out"));
        }
        fill_value = fill_value.or(missing);
    }
    Ok(Request {
        url: url.as_str().into(),
        array,
        chunks,
        join,
        shards,
        codec,
        stored_dtype,
        index: sharding.map(|(_, index)| index),
        chunk_keys,
        fill_value,
        attributes,
        group_attributes: serde_json::Map::new(),
    })
}

/// Refuses outputs that are, hold or lie in an input or another output, by whatever names.
pub(crate) fn apart(stores: &Stores, doc: &Document, requests: &[Placed], inputs: &Inputs) -> Result<(), LoadError> {
    // A store in which nothing is read is opened when the run starts, and compared there.
    let open = inputs.places.iter().any(Location::is_remote);
    let place = |at: &Location| {
        let found = if at.is_remote() && !open { None } else { Place::of(stores, at).ok() };
        found.unwrap_or_else(|| Place::by_name(at))
    };
    let of = |at: &Location| Place::of_array(stores, at).unwrap_or_else(|_| vec![Place::by_name(at)]);
    // An input may have two places.
    let (names, read): (Vec<&Location>, Vec<Place>) = inputs.places.iter().flat_map(|at| of(at).into_iter().map(move |p| (at, p))).unzip();
    let urls = requests.iter().map(|(r, _)| Location::parse(&r.url, None)).collect::<Result<Vec<_>, _>>()?;
    let written: Vec<Place> = urls.iter().map(place).collect();
    match Place::first_overlap(&read, &written) {
        Some((i, near)) => {
            let other = match near {
                Near::Read(k) => names.get(k).map(|at| format!("the input '{at}'")),
                Near::Written(k) => urls.get(k).map(|at| format!("the output '{at}'")),
            };
            let other = other.map(|o| format!(": here {o}")).unwrap_or_default();
            let message = format!("an output must not be, hold or lie in an input or another output{other}");
            Err(doc.error(requests[i].1.clone(), message, "choose another place").into())
        }
        None => Ok(()),
    }
}
