//! Options of executors: `key=value`, each documented where its executor is.

use chunkwise_types::ByteSize;
use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

/// An option that an executor does not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OptionError(pub String);

/// The options of one executor while they are read.
pub(crate) struct Options<'a> {
    executor: &'a str,
    given: BTreeMap<String, String>,
    known: Vec<&'static str>,
}

impl<'a> Options<'a> {
    pub fn new(executor: &'a str, given: &BTreeMap<String, String>) -> Options<'a> {
        Options { executor, given: given.clone(), known: Vec::new() }
    }

    pub fn text(&mut self, key: &'static str) -> Option<String> {
        self.known.push(key);
        self.given.remove(key)
    }

    fn bad(&self, key: &str, value: &str, wanted: &str) -> OptionError {
        OptionError(format!("executor '{}': {key}={value} is not {wanted}", self.executor))
    }

    pub fn parsed<T: FromStr>(&mut self, key: &'static str, wanted: &str) -> Result<Option<T>, OptionError> {
        let Some(value) = self.text(key) else { return Ok(None) };
        value.parse().map(Some).map_err(|_| self.bad(key, &value, wanted))
    }

    /// A number of at least one.
    pub fn count(&mut self, key: &'static str) -> Result<Option<usize>, OptionError> {
        match self.parsed::<usize>(key, "a number")? {
            Some(0) => Err(self.bad(key, "0", "a number of at least 1")),
            n => Ok(n),
        }
    }

    pub fn seconds(&mut self, key: &'static str) -> Result<Option<Duration>, OptionError> {
        let Some(value) = self.text(key) else { return Ok(None) };
        let wanted = "a number of seconds";
        let n: f64 = value.trim_end_matches('s').parse().map_err(|_| self.bad(key, &value, wanted))?;
        Duration::try_from_secs_f64(n).map(Some).map_err(|_| self.bad(key, &value, wanted))
    }

    pub fn size(&mut self, key: &'static str) -> Result<Option<u64>, OptionError> {
        Ok(self.parsed::<ByteSize>(key, "a size such as 2GB")?.map(|b| b.0))
    }

    /// Words between commas.
    #[cfg(any(feature = "kubernetes", feature = "aws-batch"))]
    pub fn list(&mut self, key: &'static str) -> Vec<String> {
        let text = self.text(key).unwrap_or_default();
        text.split(',').map(str::trim).filter(|w| !w.is_empty()).map(String::from).collect()
    }

    /// `name=value` between commas.
    #[cfg(any(feature = "kubernetes", feature = "aws-batch"))]
    pub fn pairs(&mut self, key: &'static str) -> Result<Vec<(String, String)>, OptionError> {
        let pair = |word: &String| -> Option<(String, String)> {
            let (name, value) = word.split_once('=')?;
            (!name.is_empty()).then(|| (name.into(), value.into()))
        };
        let words = self.list(key);
        words.iter().map(|w| pair(w).ok_or_else(|| self.bad(key, w, "a list of name=value, with commas between"))).collect()
    }

    pub fn one_of<T: Copy>(&mut self, key: &'static str, values: &[(&str, T)]) -> Result<Option<T>, OptionError> {
        let Some(value) = self.text(key) else { return Ok(None) };
        let names: Vec<&str> = values.iter().map(|v| v.0).collect();
        let found = values.iter().find(|v| v.0 == value).map(|v| v.1);
        found.map(Some).ok_or_else(|| self.bad(key, &value, &format!("one of {}", names.join(", "))))
    }

    /// Refuses what nobody asked for.
    pub fn end(self) -> Result<(), OptionError> {
        let Some(key) = self.given.keys().next() else { return Ok(()) };
        let known = if self.known.is_empty() { "it has none".into() } else { format!("it has {}", self.known.join(", ")) };
        Err(OptionError(format!("executor '{}' has no option '{key}'; {known}", self.executor)))
    }
}
