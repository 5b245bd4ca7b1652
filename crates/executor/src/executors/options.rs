//! Options of executors: `key=value`. Each is documented with its executor.

use chunkwise_types::ByteSize;
use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

/// An option that is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OptionError(pub String);

/// The largest number in any option. Engines accept no larger ones.
const MAX_NUMBER: usize = i32::MAX as usize;
/// The largest number of threads or processes on one machine.
const MOST_AT_ONCE: usize = 4096;

/// The options of one executor, while they are being read.
///
/// Options in a pipeline count only if [`Options::pipelines_may_set`] names them. An executor calls it before it reads any option, because
/// a pipeline may come from another person. A pipeline may say how work is divided and paced. It may not say what is executed, where, on
/// whose account, with which rights and with how much of a machine or a cluster. The person who runs it sets every other option, including
/// options that are added later.
#[derive(Debug)]
pub struct Options<'a> {
    executor: &'a str,
    given: BTreeMap<String, String>,
    /// Options of the pipeline that are not allowed yet.
    offered: BTreeMap<String, String>,
    known: Vec<&'static str>,
}

impl<'a> Options<'a> {
    /// `given` comes from the person who runs the pipeline, and takes precedence over the pipeline's options.
    pub(crate) fn new(executor: &'a str, given: &BTreeMap<String, String>, pipeline: &BTreeMap<String, String>) -> Options<'a> {
        let offered = pipeline.iter().filter(|(k, _)| !given.contains_key(*k)).map(|(k, v)| (k.clone(), v.clone())).collect();
        Options { executor, given: given.clone(), offered, known: Vec::new() }
    }

    /// Names the options that a pipeline may also set.
    ///
    /// # Errors
    /// When the pipeline sets another option. The error names the command-line option to use instead.
    pub fn pipelines_may_set(&mut self, keys: &[&str]) -> Result<(), OptionError> {
        if let Some(key) = self.offered.keys().find(|k| !keys.contains(&k.as_str())) {
            let may = if keys.is_empty() { "nothing".into() } else { keys.join(", ") };
            return Err(OptionError(format!(
                "executor '{}': '{key}' cannot be set in a pipeline, which may set {may}; what is executed, where, and with whose rights, is \
                 said by whoever runs it: --executor-option {key}=...",
                self.executor
            )));
        }
        self.given.append(&mut self.offered);
        Ok(())
    }

    /// A text.
    pub fn text(&mut self, key: &'static str) -> Option<String> {
        self.known.push(key);
        self.given.remove(key)
    }

    fn bad(&self, key: &str, value: &str, wanted: &str) -> OptionError {
        OptionError(format!("executor '{}': {key}={value} is not {wanted}", self.executor))
    }

    /// A value of a type that is parsed from a text. `wanted` describes it for the error: "a size such as 2GB".
    ///
    /// # Errors
    /// When it cannot be parsed.
    pub fn parsed<T: FromStr>(&mut self, key: &'static str, wanted: &str) -> Result<Option<T>, OptionError> {
        let Some(value) = self.text(key) else { return Ok(None) };
        value.parse().map(Some).map_err(|_| self.bad(key, &value, wanted))
    }

    /// A number of tasks, jobs or the like: at least one, and within the limit of engines.
    ///
    /// # Errors
    /// When it is no such number.
    pub fn count(&mut self, key: &'static str) -> Result<Option<usize>, OptionError> {
        self.number(key, MAX_NUMBER)
    }

    /// A number of threads or processes that are started at once on one machine.
    ///
    /// # Errors
    /// When it is no such number.
    pub fn at_once(&mut self, key: &'static str) -> Result<Option<usize>, OptionError> {
        self.number(key, MOST_AT_ONCE)
    }

    fn number(&mut self, key: &'static str, most: usize) -> Result<Option<usize>, OptionError> {
        let wanted = format!("a whole number from 1 to {most}");
        let Some(value) = self.text(key) else { return Ok(None) };
        let number = value.parse::<usize>().ok().filter(|n| (1..=most).contains(n));
        number.map(Some).ok_or_else(|| self.bad(key, &value, &wanted))
    }

    /// A number of seconds.
    ///
    /// # Errors
    /// When it is none.
    pub fn seconds(&mut self, key: &'static str) -> Result<Option<Duration>, OptionError> {
        let Some(value) = self.text(key) else { return Ok(None) };
        let wanted = "a number of seconds";
        let n: f64 = value.trim_end_matches('s').parse().map_err(|_| self.bad(key, &value, wanted))?;
        Duration::try_from_secs_f64(n).map(Some).map_err(|_| self.bad(key, &value, wanted))
    }

    /// A number of bytes, such as `2GB`.
    ///
    /// # Errors
    /// When it is none.
    pub fn size(&mut self, key: &'static str) -> Result<Option<u64>, OptionError> {
        Ok(self.parsed::<ByteSize>(key, "a size such as 2GB")?.map(|b| b.0))
    }

    /// Words between commas.
    pub(crate) fn list(&mut self, key: &'static str) -> Vec<String> {
        let text = self.text(key).unwrap_or_default();
        text.split(',').map(str::trim).filter(|w| !w.is_empty()).map(String::from).collect()
    }

    /// `name=value` between commas.
    pub(crate) fn pairs(&mut self, key: &'static str) -> Result<Vec<(String, String)>, OptionError> {
        let pair = |word: &String| -> Option<(String, String)> {
            let (name, value) = word.split_once('=')?;
            (!name.is_empty()).then(|| (name.into(), value.into()))
        };
        let words = self.list(key);
        words.iter().map(|w| pair(w).ok_or_else(|| self.bad(key, w, "a list of name=value, with commas between"))).collect()
    }

    /// One of several words, as the value that it stands for.
    ///
    /// # Errors
    /// When it is another word.
    pub fn one_of<T: Copy>(&mut self, key: &'static str, values: &[(&str, T)]) -> Result<Option<T>, OptionError> {
        let Some(value) = self.text(key) else { return Ok(None) };
        let names: Vec<&str> = values.iter().map(|v| v.0).collect();
        let found = values.iter().find(|v| v.0 == value).map(|v| v.1);
        found.map(Some).ok_or_else(|| self.bad(key, &value, &format!("one of {}", names.join(", "))))
    }

    /// Refuses the options that the executor has not read.
    pub(crate) fn end(mut self) -> Result<(), OptionError> {
        // For an executor that has not called it.
        self.pipelines_may_set(&[])?;
        let Some(key) = self.given.keys().next() else { return Ok(()) };
        let known = if self.known.is_empty() { "it has none".into() } else { format!("it has {}", self.known.join(", ")) };
        Err(OptionError(format!("executor '{}' has no option '{key}'; {known}", self.executor)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn pipelines_set_what_is_allowed() {
        let of = |key: &str, value: &str| BTreeMap::from([(key.to_string(), value.to_string())]);
        let mut options = Options::new("slurm", &of("tasks", "1"), &of("tasks", "2"));
        options.pipelines_may_set(&["tasks"]).unwrap();
        assert_eq!(options.count("tasks"), Ok(Some(1)));
        let mut options = Options::new("slurm", &BTreeMap::new(), &of("threads", "2"));
        assert!(options.pipelines_may_set(&["tasks"]).unwrap_err().0.contains("--executor-option threads="));
        // By default, a pipeline may set none.
        let options = Options::new("slurm", &BTreeMap::new(), &of("threads", "2"));
        assert!(options.end().unwrap_err().0.contains("cannot be set in a pipeline"));
    }

    #[test]
    fn numbers_have_bounds() {
        let read = |value: &str| {
            let given = [("tasks", value), ("threads", value)].map(|(k, v)| (k.to_string(), v.to_string())).into();
            let mut options = Options::new("slurm", &given, &BTreeMap::new());
            (options.count("tasks").map_err(|e| e.0), options.at_once("threads").map_err(|e| e.0))
        };
        assert_eq!(read("4096"), (Ok(Some(4096)), Ok(Some(4096))));
        let most = read(&MAX_NUMBER.to_string());
        assert_eq!(most.0, Ok(Some(MAX_NUMBER)));
        assert_eq!(most.1.unwrap_err(), format!("executor 'slurm': threads={MAX_NUMBER} is not a whole number from 1 to 4096"));
        for bad in ["0", "-1", "2.5", "many", "", "2147483648", "18446744073709551615", "99999999999999999999"] {
            let (tasks, threads) = read(bad);
            assert!(tasks.unwrap_err().contains("from 1 to 2147483647") && threads.unwrap_err().contains("from 1 to 4096"), "{bad}");
        }
    }
}
