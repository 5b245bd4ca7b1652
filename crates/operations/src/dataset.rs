//! Datasets: the arrays of a group under one name.

use crate::{Array, CallError, Coord, Labels, OpError, create, suggest};
use chunkwise_types::{DType, Scalar};
use serde_json::{Map, Value as Json};
use std::sync::Arc;

/// The arrays of a group, in the order of their names, and its coordinates.
#[derive(Debug, Clone, Default)]
pub struct Dataset {
    /// Arrays that are no coordinates, by name.
    pub variables: Vec<(String, Array)>,
    /// Coordinates that arrays of it have, each once.
    pub coords: Vec<Arc<Coord>>,
    /// Variables that cannot be computed with, by name, and why.
    pub refused: Vec<(String, String)>,
    /// Attributes of the group, such as a title.
    pub attributes: Map<String, Json>,
}

impl Dataset {
    /// A variable or a coordinate by its name.
    ///
    /// # Errors
    /// If it has none of this name, or one that cannot be computed with.
    pub fn variable(&self, name: &str) -> Result<Array, CallError> {
        if let Some((_, a)) = self.variables.iter().find(|(n, _)| n == name) {
            return Ok(a.clone());
        }
        if let Some((_, why)) = self.refused.iter().find(|(n, _)| n == name) {
            return Err(CallError::new(format!("'{name}' cannot be used: {why}")));
        }
        if let Some(c) = self.coords.iter().find(|c| c.name == name) {
            return Ok(of_coord(c, &self.coords)?);
        }
        let names: Vec<&str> = self.variables.iter().map(|(n, _)| n.as_str()).chain(self.coords.iter().map(|c| c.name.as_str())).collect();
        let help = suggest(name, names.iter().copied()).map(|s| format!("did you mean '{s}'?"));
        let message = format!("the dataset has no variable '{name}'; it has {}", names.join(", "));
        Err(CallError { help, ..CallError::new(message) })
    }
}

/// A coordinate of an array as an array of its own; `None` if it has none of this name.
///
/// # Errors
/// If the coordinate holds no numbers, or too many.
pub fn coordinate(a: &Array, name: &str) -> Result<Option<Array>, OpError> {
    a.coord(name).map(|c| of_coord(c, a.coords())).transpose()
}

/// The array that a coordinate is, with those of the coordinates that fit it.
fn of_coord(c: &Arc<Coord>, coords: &[Arc<Coord>]) -> Result<Array, OpError> {
    let Labels::Numbers { dtype, bytes } = &c.labels else {
        return Err(OpError::new(&c.name, "this coordinate holds no numbers, so it cannot be computed with"));
    };
    let integers = dtype.is_integer() && dtype.size() == 8;
    let scalars: Vec<Scalar> = if integers {
        let signed = *dtype == DType::Int64;
        let word = |b: &[u8]| b.try_into().map_or(0, u64::from_ne_bytes);
        bytes.chunks_exact(8).map(word).map(|v| Scalar::Int(if signed { i128::from(v as i64) } else { i128::from(v) })).collect()
    } else {
        c.floats()
            .unwrap_or_default()
            .into_iter()
            .map(|v| if dtype.is_inexact() { Scalar::Float(v) } else { Scalar::Int(v as i128) })
            .collect()
    };
    if scalars.len() > 1 << 20 {
        return Err(OpError::new(&c.name, "this coordinate has too many elements to be computed with; name it as an input of its own"));
    }
    let dims = c.dims.iter().map(|d| Some(d.clone())).collect();
    Ok(create::constant(scalars, &c.shape, *dtype)?.with_dims(dims).with_coords(coords.to_vec()).with_attributes(c.attributes.clone()))
}
