//! The fields of a configuration.

use serde_json::{Map, Value};

/// The configuration of a codec, read with care.
pub(crate) struct Fields<'a> {
    pub of: &'a str,
    pub map: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    pub fn known(&self, names: &[&str]) -> Result<(), String> {
        let Some(key) = self.map.keys().find(|k| !names.contains(&k.as_str())) else { return Ok(()) };
        let has = if names.is_empty() { "no configuration".into() } else { format!("only {}", names.join(", ")) };
        Err(format!("the codec {} has {has}, not `{key}`", self.of))
    }

    pub fn text(&self, name: &str, known: &[&str]) -> Result<Option<&'a str>, String> {
        let Some(value) = self.map.get(name) else { return Ok(None) };
        let found = value.as_str().filter(|v| known.contains(v));
        found.map(Some).ok_or_else(|| format!("`{name}` of the codec {} is {}, not {value}", self.of, one_of(known)))
    }

    pub fn number(&self, name: &str, range: std::ops::RangeInclusive<i64>) -> Result<Option<i64>, String> {
        let Some(value) = self.map.get(name) else { return Ok(None) };
        let found = value.as_i64().filter(|v| range.contains(v));
        let wanted = || format!("`{name}` of the codec {} is an integer from {} to {}, not {value}", self.of, range.start(), range.end());
        found.map(Some).ok_or_else(wanted)
    }

    pub fn flag(&self, name: &str) -> Result<Option<bool>, String> {
        let Some(value) = self.map.get(name) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| format!("`{name}` of the codec {} is true or false, not {value}", self.of))
    }
}

fn one_of(names: &[&str]) -> String {
    match names {
        [all @ .., last] if !all.is_empty() => format!("{} or {last}", all.join(", ")),
        _ => names.join(""),
    }
}
