//! AWS Batch: array jobs through its API.
//!
//! The parents of all arrays are described a hundred at a time. They have a count of their children by state. The children are asked about
//! only if more of them have ended than storage has reports of. The SDK waits and repeats throttled requests.

mod states;

use super::silence::Silence;
use super::{Engine, Job, Open, State};
use crate::RunError;
use crate::executors::aws::{Aws, AwsOptions, sentence};
use crate::executors::{Executor, Factory, Opening, OptionError, Options};
use aws_sdk_batch::Client;
use aws_sdk_batch::config::retry::RetryConfig;
use aws_sdk_batch::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_batch::types::{
    ArrayProperties, ContainerOverrides, JobDetail, JobStatus, JobSummary, JobTimeout, KeyValuePair, KeyValuesPair, ResourceRequirement,
    ResourceType, RetryStrategy,
};
use states::{Said, hopeless, is_over, state};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The largest number of children of an array.
const WIDEST: usize = 10_000;
/// The largest number of jobs in one request.
const PAGE: usize = 100;
/// The largest number of characters of a job's tasks. Everything that a job overrides has to fit into 8192.
const LONGEST: usize = 4096;

/// Options of the executor `aws-batch`.
#[derive(Debug, Clone)]
pub struct AwsBatchOptions {
    queue: String,
    definition: String,
    memory: Option<u64>,
    vcpus: Option<String>,
    env: Vec<(String, String)>,
    share: Option<String>,
    timeout: Option<Duration>,
    threads: usize,
    tasks: usize,
    queued: usize,
    array: usize,
    poll: Duration,
    aws: AwsOptions,
}

impl AwsBatchOptions {
    pub(crate) fn read(options: &mut Options<'_>) -> Result<AwsBatchOptions, OptionError> {
        options.pipelines_may_set(&["tasks", "array", "queued", "poll"])?;
        let mut needed = |key: &'static str, what: &str| {
            options.text(key).ok_or_else(|| OptionError(format!("executor 'aws-batch' needs the option {key}=..., {what}")))
        };
        let queue = needed("queue", "the name or ARN of a job queue")?;
        let definition = needed("definition", "the name, name:revision or ARN of a job definition")?;
        let timeout = options.seconds("timeout")?;
        if timeout.is_some_and(|t| t < Duration::from_secs(60)) {
            return Err(OptionError("executor 'aws-batch': timeout is less than the 60 s that AWS Batch takes at least".into()));
        }
        Ok(AwsBatchOptions {
            queue,
            definition,
            memory: options.size("mem")?,
            vcpus: options.text("vcpus"),
            env: options.pairs("env")?,
            share: options.text("share"),
            timeout,
            threads: options.at_once("threads")?.unwrap_or(1),
            tasks: options.count("tasks")?.unwrap_or(10),
            queued: options.count("queued")?.unwrap_or(10_000),
            array: options.count("array")?.unwrap_or(WIDEST).min(WIDEST),
            poll: options.seconds("poll")?.unwrap_or(Duration::from_secs(10)),
            aws: AwsOptions { region: options.text("region"), profile: options.text("profile"), endpoint: options.text("endpoint") },
        })
    }
}

/// A job that was submitted.
struct Submitted {
    id: String,
    /// The number of its parts. A job with one part has no children.
    parts: usize,
}

impl Factory for AwsBatchOptions {
    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Executor>, RunError> {
        opening.through(AwsBatch::new(self.clone())?)
    }
}

/// The engine of the executor `aws-batch`.
pub struct AwsBatch {
    options: AwsBatchOptions,
    aws: Aws,
    client: Client,
    own: String,
    next: u64,
    jobs: BTreeMap<String, Submitted>,
    silence: Silence,
    /// The last message about waiting jobs.
    waiting: Option<String>,
    warnings: Vec<String>,
}

fn explain<E>(action: &str, e: SdkError<E>) -> String
where
    E: std::error::Error + ProvideErrorMetadata + 'static,
{
    match &e {
        SdkError::ServiceError(s) => {
            let (code, message) = (s.err().code().unwrap_or("an error"), s.err().message().unwrap_or("without a message"));
            let hint = match code {
                "AccessDeniedException" | "UnrecognizedClientException" => " (docs/aws-batch.md has the rights that a driver needs)",
                _ => "",
            };
            format!("AWS Batch refused to {action}: {code}: {message}{hint}")
        }
        _ => format!("AWS Batch could not be asked to {action}: {}", sentence(&e)),
    }
}

/// True if the same request may succeed later.
fn passing<E: ProvideErrorMetadata>(e: &SdkError<E>) -> bool {
    match e {
        SdkError::ServiceError(s) => {
            s.raw().status().as_u16() >= 500
                || matches!(s.err().code(), Some("TooManyRequestsException" | "ThrottlingException" | "ServerException"))
        }
        SdkError::ConstructionFailure(_) => false,
        // The SDK reports missing credentials as the failure of a request that was never sent.
        SdkError::DispatchFailure(d) => d.is_io() || d.is_timeout(),
        _ => true,
    }
}

fn of_detail(j: &JobDetail) -> Said<'_> {
    let c = j.container();
    Said { status: j.status(), why: j.status_reason(), reason: c.and_then(|c| c.reason()), exit: c.and_then(|c| c.exit_code()) }
}

fn of_summary(j: &JobSummary) -> Said<'_> {
    let c = j.container();
    Said { status: j.status(), why: j.status_reason(), reason: c.and_then(|c| c.reason()), exit: c.and_then(|c| c.exit_code()) }
}

/// The error if nothing can be asked any more.
fn given_up(why: &str) -> RunError {
    RunError::Executor(format!("{why}; --resume takes over what the jobs have done"))
}

/// The error if the jobs of a run will never run.
fn stuck(why: &str) -> RunError {
    RunError::Executor(format!("jobs cannot start: {why}; docs/aws-batch.md says what to look at"))
}

impl AwsBatch {
    /// Determines region, credentials and endpoint.
    pub(crate) fn new(options: AwsBatchOptions) -> Result<AwsBatch, RunError> {
        let aws = Aws::connect(&options.aws)?;
        let config = aws_sdk_batch::config::Builder::from(aws.config()).retry_config(RetryConfig::adaptive().with_max_attempts(8)).build();
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
        Ok(AwsBatch {
            options,
            client: Client::from_conf(config),
            aws,
            own: format!("a{time:x}"),
            next: 0,
            jobs: BTreeMap::new(),
            silence: Silence::default(),
            waiting: None,
            warnings: Vec::new(),
        })
    }

    /// The descriptions of some jobs or children, by id, a page at a time.
    fn describe(&mut self, ids: &[String]) -> Result<Vec<JobDetail>, RunError> {
        let mut out = Vec::new();
        for page in ids.chunks(PAGE) {
            match self.aws.wait(self.client.describe_jobs().set_jobs(Some(page.to_vec())).send()) {
                Ok(answer) => {
                    self.silence.answer();
                    out.extend(answer.jobs.unwrap_or_default());
                }
                Err(e) => self.unanswered("describe jobs", e)?,
            }
        }
        Ok(out)
    }

    /// The children of an array in a state.
    fn children(&mut self, id: &str, status: JobStatus) -> Result<Vec<JobSummary>, RunError> {
        let request = self.client.list_jobs().array_job_id(id).job_status(status).into_paginator().items().send();
        match self.aws.wait(request.collect::<Result<Vec<_>, _>>()) {
            Ok(found) => {
                self.silence.answer();
                Ok(found)
            }
            Err(e) => self.unanswered("list jobs", e).map(|()| Vec::new()),
        }
    }

    fn unanswered<E>(&mut self, action: &str, e: SdkError<E>) -> Result<(), RunError>
    where
        E: std::error::Error + ProvideErrorMetadata + 'static,
    {
        let passing = passing(&e);
        let why = explain(action, e);
        if passing {
            self.silence.no_answer(why);
            return Ok(());
        }
        Err(given_up(&why))
    }

    fn terminate(&self, id: &str) {
        let request = self.client.terminate_job().job_id(id).reason("the run of chunkwise that it belongs to has stopped it").send();
        if let Err(e) = self.aws.wait(request) {
            tracing::warn!("{}", explain(&format!("terminate the job {id}"), e));
        }
    }

    /// The id of a part at AWS Batch.
    fn part_id(job: &Submitted, part: usize) -> String {
        if job.parts == 1 { job.id.clone() } else { format!("{}:{part}", job.id) }
    }

    /// Which of the open parts of an array have ended.
    fn ended(&mut self, handle: &str, parent: &JobDetail, open: &[usize]) -> Result<Vec<(usize, State)>, RunError> {
        let Some(job) = self.jobs.get(handle) else { return Ok(Vec::new()) };
        if job.parts == 1 {
            return Ok(vec![(0, state(&of_detail(parent)))]);
        }
        let id = job.id.clone();
        let none = std::collections::HashMap::new();
        let counts = parent.array_properties().and_then(|a| a.status_summary()).unwrap_or(&none);
        let count = |s: JobStatus| usize::try_from(counts.get(s.as_str()).copied().unwrap_or(0)).unwrap_or(0);
        let (failed, succeeded) = (count(JobStatus::Failed), count(JobStatus::Succeeded));
        let unreported = open.len() + failed + succeeded > job.parts;
        if !unreported && !is_over(parent.status()) {
            return Ok(Vec::new());
        }
        let mut out = Vec::new();
        if failed > 0 {
            for child in self.children(&id, JobStatus::Failed)? {
                let said = of_summary(&child);
                if let Some(why) = hopeless(&said) {
                    return Err(stuck(&why));
                }
                let index = child.array_properties().and_then(|a| a.index()).and_then(|i| usize::try_from(i).ok());
                out.extend(index.map(|i| (i, state(&said))));
            }
        }
        // Parts that ended well have left a report, which may just arrive. If few parts are open, each is asked about.
        if succeeded > 0 && (open.len() <= PAGE || is_over(parent.status())) {
            let ids: Vec<String> = open.iter().map(|k| format!("{id}:{k}")).collect();
            for child in self.describe(&ids)? {
                let index = child.array_properties().and_then(|a| a.index()).and_then(|i| usize::try_from(i).ok());
                out.extend(index.map(|i| (i, state(&of_detail(&child)))));
            }
        }
        Ok(out)
    }
}

impl Engine for AwsBatch {
    fn name(&self) -> &str {
        "aws-batch"
    }

    fn capacity(&self) -> usize {
        self.options.queued
    }

    fn widest(&self) -> usize {
        self.options.array
    }

    fn tasks_per_part(&self) -> usize {
        self.options.tasks
    }

    fn longest(&self) -> usize {
        LONGEST
    }

    fn memory(&self, job: &Job<'_>) -> u64 {
        job.sizes(self.options.threads, self.options.memory).1
    }

    fn every(&self) -> Duration {
        self.options.poll
    }

    /// Jobs have the name of their run.
    fn clear(&mut self, name: &str) {
        let filter = KeyValuesPair::builder().name("JOB_NAME").values(name).build();
        let request = self.client.list_jobs().job_queue(&self.options.queue).filters(filter).into_paginator().items().send();
        match self.aws.wait(request.collect::<Result<Vec<_>, _>>()) {
            Ok(jobs) => {
                let left = jobs.iter().filter(|j| !is_over(j.status()) && j.job_name() == Some(name));
                left.filter_map(|j| j.job_id()).for_each(|id| self.terminate(id));
            }
            Err(e) => tracing::warn!("{}", explain("list jobs", e)),
        }
    }

    fn submit(&mut self, job: &Job<'_>) -> Result<String, RunError> {
        self.next += 1;
        let handle = format!("{}x{}", self.own, self.next);
        let (o, parts) = (&self.options, job.parts.len());
        let (worker, size) = job.sizes(o.threads, o.memory);
        let mut command = job.arguments(o.threads);
        let mut more = vec![("--tasks", job.all_tasks()), ("--array-size", parts.to_string())];
        more.extend([("--job", handle.clone()), ("--allowed-mem", worker.to_string())]);
        if parts == 1 {
            // An array has at least two children. AWS Batch gives no number to a single job.
            more.push(("--array-index", "0".into()));
        }
        command.extend(more.into_iter().flat_map(|(k, v)| [k.to_string(), v]));
        let resource = |kind: ResourceType, value: String| ResourceRequirement::builder().r#type(kind).value(value).build();
        // In MiB, rounded up: AWS Batch has no smaller unit.
        let memory = resource(ResourceType::Memory, size.div_ceil(1 << 20).to_string());
        let vcpus = o.vcpus.as_ref().map(|n| resource(ResourceType::Vcpu, n.clone()));
        let env = o.env.iter().map(|(k, v)| KeyValuePair::builder().name(k).value(v).build()).collect();
        let overrides = ContainerOverrides::builder()
            .set_command(Some(command))
            .set_resource_requirements(Some(std::iter::once(memory).chain(vcpus).collect()))
            .set_environment(Some(env))
            .build();
        let seconds = |t: Duration| JobTimeout::builder().attempt_duration_seconds(t.as_secs().try_into().unwrap_or(i32::MAX)).build();
        let array = (parts > 1).then(|| ArrayProperties::builder().size(parts.try_into().unwrap_or(i32::MAX)).build());
        let request = self
            .client
            .submit_job()
            .job_name(&job.name)
            .job_queue(&o.queue)
            .job_definition(&o.definition)
            .set_array_properties(array)
            .set_share_identifier(o.share.clone())
            .set_timeout(o.timeout.map(seconds))
            // The scheduler decides what is tried again, and how often.
            .retry_strategy(RetryStrategy::builder().attempts(1).build())
            .container_overrides(overrides)
            .send();
        let action = format!("submit a job to the queue '{}'", o.queue);
        let answer = self.aws.wait(request).map_err(|e| RunError::Executor(explain(&action, e)))?;
        let id = answer.job_id().ok_or_else(|| RunError::Executor("AWS Batch gave no id for a job".into()))?.to_string();
        self.jobs.insert(handle.clone(), Submitted { id, parts });
        Ok(handle)
    }

    fn states(&mut self, open: &Open) -> Result<Vec<(String, State)>, RunError> {
        self.jobs.retain(|handle, _| open.contains_key(handle));
        let ids: BTreeMap<String, String> = self.jobs.iter().map(|(handle, j)| (j.id.clone(), handle.clone())).collect();
        let parents = self.describe(&ids.keys().cloned().collect::<Vec<_>>())?;
        let (mut out, mut waiting) = (Vec::new(), None);
        for parent in &parents {
            let said = of_detail(parent);
            if let Some(why) = hopeless(&said) {
                return Err(stuck(&why));
            }
            if said.status == Some(&JobStatus::Runnable) {
                waiting = waiting.or(said.why.filter(|w| !w.is_empty()));
            }
            let Some((handle, parts)) = parent.job_id().and_then(|id| ids.get(id)).and_then(|h| Some((h, open.get(h)?))) else { continue };
            out.extend(self.ended(handle, parent, parts)?.into_iter().map(|(k, s)| (format!("{handle}_{k}"), s)));
        }
        self.silence.end().map_err(|why| given_up(&why))?;
        // A message is not repeated at every check.
        if let Some(why) = waiting.filter(|w| self.waiting.as_deref() != Some(w)) {
            self.warnings.push(format!("jobs wait: {why}"));
        }
        self.waiting = waiting.map(Into::into);
        Ok(out)
    }

    fn warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    fn cancel(&mut self, part: &str) {
        let found = part.rsplit_once('_').and_then(|(handle, k)| Some(Self::part_id(self.jobs.get(handle)?, k.parse().ok()?)));
        if let Some(id) = found {
            self.terminate(&id);
        }
    }

    /// An array ends with its parent.
    fn cancel_all(&mut self, jobs: &Open) {
        let ids: Vec<String> = jobs.keys().filter_map(|handle| Some(self.jobs.get(handle)?.id.clone())).collect();
        ids.iter().for_each(|id| self.terminate(id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options() {
        let read = |given: &[(&str, &str)]| {
            let given = given.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
            AwsBatchOptions::read(&mut Options::new("aws-batch", &given, &BTreeMap::new())).map_err(|e| e.0)
        };
        assert!(read(&[]).unwrap_err().contains("queue=..."));
        assert!(read(&[("queue", "q")]).unwrap_err().contains("definition=..."));
        let both = [("queue", "q"), ("definition", "d:3"), ("array", "20000"), ("env", "A=b,C=d=e")];
        let o = read(&both).unwrap();
        assert_eq!((o.array, o.env.len()), (WIDEST, 2));
        assert!(read(&[both[0], both[1], ("timeout", "10")]).unwrap_err().contains("60 s"));
    }
}
