//! Kubernetes: Indexed Jobs through its API.
//!
//! Few requests are made. One lists the jobs of the run, whose status names the parts that have ended. Another lists pods, but only those
//! that have failed or are waiting. The progress of running pods is read from storage.

mod job;
mod options;
mod states;

pub use options::KubernetesOptions;

use super::silence::Silence;
use super::{Engine, Job, Open, State};
use crate::RunError;
use crate::executors::{Executor, Factory, Opening};
use job::{RUN, manifest};
use k8s_openapi::api::batch::v1::Job as ApiJob;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, Error};
use serde::de::DeserializeOwned;
use states::Trouble;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::runtime::Runtime;

/// Pauses between attempts to submit or to delete.
const PAUSES: [Duration; 4] = [Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];
/// The number of objects on a page of a list.
const PAGE: u32 = 500;
/// How long an image may be missing before the run stops.
const IMAGE: Duration = Duration::from_secs(60);
/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(30);

impl Factory for KubernetesOptions {
    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Executor>, RunError> {
        opening.through(Kubernetes::new(self.clone())?)
    }
}

/// The engine of the executor `kubernetes`.
pub struct Kubernetes {
    options: KubernetesOptions,
    runtime: Runtime,
    jobs: Api<ApiJob>,
    pods: Api<Pod>,
    namespace: String,
    /// The common prefix of this process' handles.
    own: String,
    submitted: u64,
    /// The names of jobs by handle, and the name of the run.
    names: BTreeMap<String, String>,
    run: String,
    /// The last time something started, progressed or ended, and the state at that time.
    moved: Instant,
    progress: (i64, i64, i64),
    /// Since when images are missing.
    image: Option<Instant>,
    said: Option<String>,
    warnings: Vec<String>,
    silence: Silence,
}

/// An error in words that help the user.
fn explain(action: &str, e: &Error) -> String {
    let hint = match e {
        Error::Api(s) if s.code == 401 => " (the credentials of the kubeconfig or service account are not accepted)",
        Error::Api(s) if s.code == 403 => " (docs/kubernetes.md has the rights that a driver needs)",
        _ => "",
    };
    match e {
        Error::Api(s) => format!("Kubernetes refused to {action}: {} {}: {}{hint}", s.code, s.reason, s.message),
        other => {
            // The outer error says little about a failed connection.
            let mut said = other.to_string();
            let mut source = std::error::Error::source(other);
            while let Some(inner) = source {
                said = inner.to_string();
                source = inner.source();
            }
            format!("Kubernetes could not be asked to {action}: {said}")
        }
    }
}

/// True if the same request may succeed later.
fn passing(e: &Error) -> bool {
    match e {
        Error::Api(s) => matches!(s.code, 408 | 429) || s.code >= 500,
        Error::HyperError(_) | Error::Service(_) | Error::ReadEvents(_) => true,
        _ => false,
    }
}

fn is_status(e: &Error, code: u16) -> bool {
    matches!(e, Error::Api(s) if s.code == code)
}

async fn config(o: &KubernetesOptions) -> Result<Config, String> {
    let mut config = if let Some(url) = &o.endpoint {
        Config::new(url.parse().map_err(|e| format!("endpoint={url} is no URL: {e}"))?)
    } else if o.kubeconfig.is_some() || o.context.is_some() {
        let file = match &o.kubeconfig {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        let options = KubeConfigOptions { context: o.context.clone(), ..KubeConfigOptions::default() };
        match file {
            Ok(file) => Config::from_custom_kubeconfig(file, &options).await.map_err(|e| e.to_string())?,
            Err(e) => return Err(e.to_string()),
        }
    } else {
        Config::infer().await.map_err(|e| e.to_string())?
    };
    config.connect_timeout = Some(Duration::from_secs(10));
    config.read_timeout = Some(ANSWER);
    config.reset_reader_on_write = true;
    Ok(config)
}

/// Every page of a list.
async fn all<K>(api: &Api<K>, params: &ListParams) -> Result<Vec<K>, Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut restarted = false;
    let (mut out, mut params) = (Vec::new(), params.clone().limit(PAGE));
    loop {
        match api.list(&params).await {
            Ok(page) => {
                out.extend(page.items);
                params.continue_token = page.metadata.continue_.filter(|t| !t.is_empty());
                if params.continue_token.is_none() {
                    return Ok(out);
                }
            }
            // The list has changed too much since its first page.
            Err(e) if is_status(&e, 410) && !restarted => {
                restarted = true;
                out.clear();
                params.continue_token = None;
            }
            Err(e) => return Err(e),
        }
    }
}

impl Kubernetes {
    /// Finds the cluster: by `endpoint`, else by the kubeconfig, else the cluster in which this process runs.
    pub(crate) fn new(options: KubernetesOptions) -> Result<Kubernetes, RunError> {
        let bad = |e: String| RunError::Executor(format!("executor 'kubernetes': no cluster can be reached: {e}"));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|e| bad(e.to_string()))?;
        let config = runtime.block_on(config(&options)).map_err(bad)?;
        let namespace = options.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = {
            let _inside = runtime.enter();
            Client::try_from(config).map_err(|e| bad(explain("talk", &e)))?
        };
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
        Ok(Kubernetes {
            jobs: Api::namespaced(client.clone(), &namespace),
            pods: Api::namespaced(client, &namespace),
            options,
            runtime,
            namespace,
            own: format!("k{time:x}"),
            submitted: 0,
            names: BTreeMap::new(),
            run: String::new(),
            moved: Instant::now(),
            progress: (0, 0, 0),
            image: None,
            said: None,
            warnings: Vec::new(),
            silence: Silence::default(),
        })
    }

    fn of_run(run: &str) -> ListParams {
        ListParams::default().labels(&format!("{RUN}={run}"))
    }

    /// Repeats a request until it succeeds, or cannot succeed.
    fn insist<T>(&self, action: &str, mut what: impl AsyncFnMut() -> Result<T, Error>) -> Result<T, String> {
        self.runtime.block_on(async {
            for pause in PAUSES {
                match what().await {
                    Err(e) if passing(&e) => tracing::debug!("{}", explain(action, &e)),
                    other => return other.map_err(|e| explain(action, &e)),
                }
                tokio::time::sleep(pause).await;
            }
            what().await.map_err(|e| explain(action, &e))
        })
    }

    /// Deletes a job. It vanishes after its pods.
    fn delete(&self, name: &str) {
        let action = format!("delete the job '{name}'");
        let done = self.insist(&action, async || match self.jobs.delete(name, &DeleteParams::foreground()).await {
            Err(e) if !is_status(&e, 404) => Err(e),
            _ => Ok(()),
        });
        if let Err(e) = done {
            tracing::warn!("{e}");
        }
    }

    /// Stops the run if its pods do not start.
    fn watch(&mut self, jobs: &[ApiJob], waiting: &[&Pod]) -> Result<(), RunError> {
        let sum = |f: fn(&k8s_openapi::api::batch::v1::JobStatus) -> Option<i32>| -> i64 {
            jobs.iter().filter_map(|j| f(j.status.as_ref()?)).map(i64::from).sum()
        };
        let progress = (sum(|s| s.ready), sum(|s| s.succeeded), sum(|s| s.failed));
        let suspended = jobs.iter().any(|j| j.spec.as_ref().is_some_and(|s| s.suspend == Some(true)));
        if progress.0 > 0 || progress != self.progress || suspended {
            self.moved = Instant::now();
            self.progress = progress;
        }
        let troubles: Vec<Trouble> = waiting.iter().filter_map(|p| states::trouble(p)).collect();
        let hint = format!("see: kubectl -n {} describe pods -l {RUN}={}", self.namespace, self.run);
        if let Some(t) = troubles.iter().find(|t| matches!(t, Trouble::Never(_))) {
            return Err(RunError::Executor(format!("pods cannot start: {}; {hint}", t.message())));
        }
        let image = troubles.iter().find(|t| matches!(t, Trouble::Image(_)));
        self.image = image.and(self.image.or_else(|| Some(Instant::now())));
        if let (Some(t), Some(since)) = (image, self.image)
            && since.elapsed() > IMAGE.min(self.options.start_timeout)
        {
            return Err(RunError::Executor(format!("the image '{}' does not come: {}; {hint}", self.options.image, t.message())));
        }
        let said = troubles.first().map(|t| t.message().to_string());
        if self.moved.elapsed() > self.options.start_timeout {
            let why = said.unwrap_or_else(|| "its jobs make no pods, perhaps for a quota or a policy of the namespace".into());
            let seconds = self.options.start_timeout.as_secs_f64();
            return Err(RunError::Executor(format!("no pod of the run has started for {seconds} s (start_timeout): {why}; {hint}")));
        }
        // A message is not repeated at every check, even if the numbers in it change.
        if said.is_some() && self.said.is_none() {
            self.warnings.extend(said.iter().map(|m| format!("{} pods wait: {m}", waiting.len())));
        }
        self.said = said;
        Ok(())
    }
}

impl Engine for Kubernetes {
    fn name(&self) -> &str {
        "kubernetes"
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

    fn memory(&self, job: &Job<'_>) -> u64 {
        job.sizes(self.options.threads, self.options.memory).1
    }

    fn every(&self) -> Duration {
        self.options.poll
    }

    fn clear(&mut self, name: &str) {
        self.run = name.into();
        match self.insist("list jobs", async || all(&self.jobs, &Self::of_run(name)).await) {
            Ok(left) => left.iter().filter_map(|j| j.metadata.name.as_ref()).for_each(|n| self.delete(n)),
            Err(e) => tracing::warn!("{e}"),
        }
    }

    fn submit(&mut self, job: &Job<'_>) -> Result<String, RunError> {
        self.submitted += 1;
        let handle = format!("{}x{}", self.own, self.submitted);
        let name = format!("chunkwise-{handle}");
        let object = manifest(&self.options, job, &job.name, &handle, &name);
        let action = format!("create the job '{name}' in the namespace '{}'", self.namespace);
        let created = self.insist(&action, async || match self.jobs.create(&PostParams::default(), &object).await {
            // No other job has this name. An earlier attempt succeeded, and its answer was lost.
            Err(e) if is_status(&e, 409) => Ok(()),
            other => other.map(|_| ()),
        });
        created.map_err(RunError::Executor)?;
        if self.names.is_empty() {
            self.moved = Instant::now();
        }
        self.run.clone_from(&job.name);
        self.names.insert(handle.clone(), name);
        Ok(handle)
    }

    fn states(&mut self, open: &Open) -> Result<Vec<(String, State)>, RunError> {
        self.names.retain(|handle, _| open.contains_key(handle));
        let asked = self.runtime.block_on(async {
            let jobs = all(&self.jobs, &Self::of_run(&self.run)).await?;
            let quiet = Self::of_run(&self.run).fields("status.phase!=Running,status.phase!=Succeeded");
            Ok::<_, Error>((jobs, all(&self.pods, &quiet).await?))
        });
        let (jobs, pods) = match asked {
            Ok(found) => found,
            Err(e) => {
                let said = explain("list jobs and pods", &e);
                let gone = |said| RunError::Executor(format!("{said}; --resume takes over what the jobs have done"));
                if !passing(&e) {
                    return Err(gone(said));
                }
                self.silence.no_answer(said);
                return self.silence.end().map(|()| Vec::new()).map_err(gone);
            }
        };
        self.silence = Silence::default();
        let mut failed: HashMap<&str, HashMap<usize, &Pod>> = HashMap::new();
        let mut waiting = Vec::new();
        for pod in &pods {
            let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default();
            match states::part_of(pod) {
                Some((job, part)) if phase == "Failed" => _ = failed.entry(job).or_default().insert(part, pod),
                _ if pod.metadata.deletion_timestamp.is_none() => waiting.push(pod),
                _ => {}
            }
        }
        let named: HashMap<&str, &ApiJob> = jobs.iter().filter_map(|j| Some((j.metadata.name.as_deref()?, j))).collect();
        let mut out = Vec::new();
        let none = HashMap::new();
        for (handle, name) in &self.names {
            let parts = &open[handle];
            match named.get(name.as_str()) {
                // It vanishes after its pods. Parts that have ended until then have nothing more to report.
                Some(job) if job.metadata.deletion_timestamp.is_some() => {}
                Some(job) => {
                    let failed = failed.get(name.as_str()).unwrap_or(&none);
                    out.extend(states::of_job(job, parts, failed).into_iter().map(|(k, s)| (format!("{handle}_{k}"), s)));
                }
                None => {
                    let gone = || State::Lost("its job was deleted".into());
                    out.extend(parts.iter().map(|k| (format!("{handle}_{k}"), gone())));
                }
            }
        }
        self.watch(&jobs, &waiting)?;
        Ok(out)
    }

    fn warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// Deletes the pod. This makes its part fail.
    fn cancel(&mut self, part: &str) {
        let Some((handle, index)) = part.rsplit_once('_') else { return };
        let Some(name) = self.names.get(handle) else { return };
        let labels = format!("batch.kubernetes.io/job-name={name},batch.kubernetes.io/job-completion-index={index}");
        let params = ListParams::default().labels(&labels);
        let done = self.insist(&format!("delete the pod of part {index} of the job '{name}'"), async || {
            for pod in all(&self.pods, &params).await? {
                let name = pod.metadata.name.unwrap_or_default();
                match self.pods.delete(&name, &DeleteParams::default()).await {
                    Err(e) if !is_status(&e, 404) => return Err(e),
                    _ => {}
                }
            }
            Ok(())
        });
        if let Err(e) = done {
            tracing::warn!("{e}");
        }
    }

    fn cancel_all(&mut self, jobs: &Open) {
        let names: Vec<String> = jobs.keys().filter_map(|handle| self.names.get(handle).cloned()).collect();
        names.iter().for_each(|name| self.delete(name));
    }
}
