//! Options of the executor `lambda`.

use crate::executors::aws::AwsOptions;
use crate::executors::{OptionError, Options};
use std::time::Duration;

/// Options of the executor `lambda`.
#[derive(Debug, Clone)]
pub struct LambdaOptions {
    /// Name or ARN of the function, perhaps with a version or an alias (`NAME:ALIAS`).
    pub(super) function: String,
    pub(super) aws: AwsOptions,
    /// The largest number of invocations at once.
    pub(super) concurrency: usize,
    /// The intended duration, in seconds, of an invocation of many small tasks.
    pub(super) seconds: f64,
    /// The largest number of tasks of one invocation.
    pub(super) tasks: usize,
    /// Invocations are only submitted. Their results are read from storage.
    pub(super) asynchronous: bool,
    /// How often storage is read in this case.
    pub(super) poll: Duration,
    /// How long Lambda may only throttle.
    pub(super) patience: Duration,
    /// The function's memory in bytes and time limit in seconds, if the driver may not ask for them.
    pub(super) memory: Option<u64>,
    pub(super) timeout: Option<Duration>,
}

impl LambdaOptions {
    pub(crate) fn read(options: &mut Options<'_>) -> Result<LambdaOptions, OptionError> {
        options.pipelines_may_set(&["concurrency", "batch_seconds", "tasks", "invoke", "poll", "patience"])?;
        let function = options.text("function");
        let aws = AwsOptions { region: options.text("region"), profile: options.text("profile"), endpoint: options.text("endpoint") };
        let read = LambdaOptions {
            function: function.unwrap_or_default(),
            aws,
            concurrency: options.count("concurrency")?.unwrap_or(1000),
            seconds: options.seconds("batch_seconds")?.map_or(3.0, |d| d.as_secs_f64()),
            tasks: options.count("tasks")?.unwrap_or(1000),
            asynchronous: options.one_of("invoke", &[("sync", false), ("async", true)])?.unwrap_or(false),
            poll: options.seconds("poll")?.unwrap_or(Duration::from_secs(2)),
            patience: options.seconds("patience")?.unwrap_or(Duration::from_secs(600)),
            memory: options.size("memory")?,
            timeout: options.seconds("timeout")?,
        };
        if read.function.is_empty() {
            return Err(OptionError(
                "executor 'lambda': name the function, with --function NAME or --executor-option function=NAME".into(),
            ));
        }
        Ok(read)
    }
}
