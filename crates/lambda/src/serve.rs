//! Serves invocations: reads the event, and calls its action.

use crate::config::Config;
use crate::failure::Failure;
use crate::log::Ids;
use crate::{plan, runs, tasks};
use chunkwise::executor::function::{Answer, Event, PERMANENT};
use lambda_runtime::LambdaEvent;
use serde_json::value::RawValue;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What an action needs to know of its invocation.
pub struct Invocation {
    /// The id that Lambda gave it.
    pub request_id: String,
    /// When Lambda kills it.
    pub deadline: Instant,
    /// Seconds that the process took to start, if this is its first event.
    pub init_seconds: Option<f64>,
}

/// The function: its configuration, and the data that it keeps between invocations.
pub struct Function {
    config: Arc<Config>,
    kept: Arc<Mutex<tasks::Kept>>,
    started: Mutex<Option<Instant>>,
}

/// The time at which Lambda ends an invocation, in milliseconds since 1970, as a point in time.
fn instant_of(deadline: u64) -> Instant {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64);
    Instant::now() + Duration::from_millis(deadline.saturating_sub(now))
}

impl Function {
    pub fn new(config: Config) -> Function {
        Function { config: Arc::new(config), kept: Arc::default(), started: Mutex::new(Some(Instant::now())) }
    }

    /// Serves one invocation.
    pub async fn invoke(&self, event: LambdaEvent<Box<RawValue>>) -> Result<Answer, Failure> {
        let (payload, context) = event.into_parts();
        let init = self.started.lock().ok().and_then(|mut s| s.take());
        let invocation = Invocation {
            request_id: context.request_id.clone(),
            deadline: instant_of(context.deadline),
            init_seconds: init.map(|t| t.elapsed().as_secs_f64()),
        };
        Ids::new(&context.request_id, context.xray_trace_id.as_deref(), None).enter();
        let event = Event::from_json(payload.get().as_bytes()).map_err(|e| {
            tracing::warn!(error = %e, "refused");
            Failure::from(e)
        })?;
        Ids::new(&context.request_id, context.xray_trace_id.as_deref(), event.trace()).enter();
        let (action, began) = (event.action(), Instant::now());
        let (config, kept) = (self.config.clone(), self.kept.clone());
        // Calls of storage block, and the runtime needs its own thread.
        let work = tokio::task::spawn_blocking(move || act(&config, &kept, event, &invocation));
        let result = work.await.unwrap_or_else(|e| {
            let message = format!("the invocation failed by a bug in chunkwise, please report it: {e}");
            Err(Failure { kind: PERMANENT, message })
        });
        let seconds = began.elapsed().as_secs_f64();
        match &result {
            Ok(_) => tracing::info!(action, seconds, "done"),
            Err(f) => tracing::error!(action, seconds, error_type = f.kind, error = f.message, "failed"),
        }
        result
    }
}

/// Performs the action of an event.
pub fn act(config: &Config, kept: &Mutex<tasks::Kept>, event: Event, invocation: &Invocation) -> Result<Answer, Failure> {
    Ok(match event {
        Event::RunTasks(e) => Answer::RunTasks(tasks::run(config, kept, &e, invocation)?),
        Event::Plan(e) => Answer::Plan(plan::plan(config, &e)?),
        Event::Status(e) => Answer::Status(runs::status(config, &e)?),
        Event::Finish(e) => Answer::Finish(runs::finish(config, &e)?),
        Event::Cancel(e) => Answer::Cancel(runs::cancel(config, &e)?),
        Event::Clean(e) => Answer::Clean(runs::clean(config, &e)?),
    })
}
