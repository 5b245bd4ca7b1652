//! Executors by name: those of this build, and those that a program adds.

#[cfg(feature = "aws-batch")]
use super::batch::AwsBatchOptions;
#[cfg(feature = "kubernetes")]
use super::batch::KubernetesOptions;
use super::batch::{BridgeOptions, CommandOptions, SlurmOptions};
#[cfg(feature = "lambda")]
use super::lambda::LambdaOptions;
use super::processes::ProcessOptions;
use super::{Choice, Factory, OptionError, Options};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Reads the options of an executor.
type Read = fn(&mut Options<'_>) -> Result<Arc<dyn Factory>, OptionError>;

/// The executors of this build, besides threads.
const OWN: &[(&str, Read)] = &[
    ("processes", |o| Ok(Arc::new(ProcessOptions::read(o)?))),
    ("slurm", |o| Ok(Arc::new(SlurmOptions::read(o)?))),
    #[cfg(feature = "kubernetes")]
    ("kubernetes", |o| Ok(Arc::new(KubernetesOptions::read(o)?))),
    #[cfg(feature = "aws-batch")]
    ("aws-batch", |o| Ok(Arc::new(AwsBatchOptions::read(o)?))),
    ("dask", |o| Ok(Arc::new(BridgeOptions::dask(o)?))),
    ("ray", |o| Ok(Arc::new(BridgeOptions::ray(o)?))),
    ("command", |o| Ok(Arc::new(CommandOptions::read(o)?))),
    #[cfg(feature = "lambda")]
    ("lambda", |o| Ok(Arc::new(LambdaOptions::read(o)?))),
];

/// The executors that this build was compiled without, and the features of the crate that have them.
pub const LEFT_OUT: &[(&str, &str)] = &[
    #[cfg(not(feature = "kubernetes"))]
    ("kubernetes", "kubernetes"),
    #[cfg(not(feature = "aws-batch"))]
    ("aws-batch", "aws-batch"),
    #[cfg(not(feature = "lambda"))]
    ("lambda", "aws"),
];

/// Reads the options of an executor that a program has added.
type ReadAdded = Arc<dyn Fn(&mut Options<'_>) -> Result<Arc<dyn Factory>, OptionError> + Send + Sync>;

/// The executors that a user may name.
#[derive(Clone, Default)]
pub struct Executors(BTreeMap<String, ReadAdded>);

impl fmt::Debug for Executors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

impl Executors {
    /// Adds an executor. `read` takes its options, and gives an executor that is opened for each plan.
    ///
    /// # Errors
    /// When there is an executor of this name.
    pub fn add<F: Factory + 'static>(
        &mut self,
        name: impl Into<String>,
        read: impl Fn(&mut Options<'_>) -> Result<F, OptionError> + Send + Sync + 'static,
    ) -> Result<(), OptionError> {
        let name = name.into();
        if self.has(&name) || LEFT_OUT.iter().any(|(n, _)| *n == name) {
            return Err(OptionError(format!("there is an executor '{name}' already; give yours another name")));
        }
        self.0.insert(name, Arc::new(move |options| Ok(Arc::new(read(options)?))));
        Ok(())
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once("threads").chain(OWN.iter().map(|(name, _)| *name)).chain(self.0.keys().map(String::as_str))
    }

    /// True if there is one of this name.
    pub fn has(&self, name: &str) -> bool {
        self.names().any(|n| n == name)
    }

    /// What is said of an executor that there is not.
    ///
    /// ```
    /// let executors = chunkwise_executor::Executors::default();
    /// assert!(executors.none("thread").starts_with("there is no executor 'thread'; there are threads, "));
    /// ```
    pub fn none(&self, name: &str) -> String {
        match LEFT_OUT.iter().find(|(n, _)| *n == name) {
            Some((_, feature)) => format!(
                "this build has no executor '{name}': it was compiled without the feature '{feature}'. \
                 `cargo install --locked --path crates/cli --features full` makes one that has all"
            ),
            None => format!("there is no executor '{name}'; there are {}", self.names().collect::<Vec<_>>().join(", ")),
        }
    }

    /// An executor by its name, with options from the command line and from a pipeline.
    ///
    /// # Errors
    /// When there is no such executor, it has no such option, or a pipeline may not set the option.
    pub fn choose(&self, name: &str, given: &BTreeMap<String, String>, pipeline: &BTreeMap<String, String>) -> Result<Choice, OptionError> {
        let mut options = Options::new(name, given, pipeline);
        let choice = if name == "threads" {
            Choice::Threads
        } else if let Some((_, read)) = OWN.iter().find(|(n, _)| *n == name) {
            Choice::Workers(read(&mut options)?)
        } else if let Some(read) = self.0.get(name) {
            Choice::Workers(read(&mut options)?)
        } else {
            return Err(OptionError(self.none(name)));
        };
        options.end()?;
        Ok(choice)
    }
}
