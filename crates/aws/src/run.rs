//! A run that is running or over.

use crate::{Aws, AwsError, Deployment};
use aws_sdk_sfn::types::ExecutionStatus;
use chunkwise_executor::function::{Answer, EVENT_FORMAT, Event, RunRef, StatusAnswer};
use md5::{Digest, Md5};
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;

/// The pause between two checks of a run.
const LOOK: Duration = Duration::from_secs(3);

/// The state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is under way.
    Running,
    /// Its outputs are published.
    Succeeded,
    /// It has ended without a complete result.
    Failed,
    /// It was ended from outside.
    Cancelled,
}

impl State {
    fn of(status: &str) -> State {
        match status {
            "SUCCEEDED" => State::Succeeded,
            "RUNNING" | "PENDING_REDRIVE" => State::Running,
            "ABORTED" => State::Cancelled,
            _ => State::Failed,
        }
    }

    /// The name of the state.
    pub fn name(self) -> &'static str {
        match self {
            State::Running => "running",
            State::Succeeded => "succeeded",
            State::Failed => "failed",
            State::Cancelled => "cancelled",
        }
    }
}

/// The status of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunStatus {
    /// Its name.
    pub run: String,
    /// Its state.
    pub state: State,
    /// Seconds since it was started, or its duration.
    pub seconds: f64,
    /// When it was started, in milliseconds since 1970.
    pub started: i64,
    /// URL of the plan, once there is one.
    pub plan: Option<String>,
    /// The plan's id.
    pub hash: Option<String>,
    /// URLs of the outputs, once they are published.
    pub outputs: Vec<String>,
    /// The type of the failure.
    pub error: Option<String>,
    /// Why it failed.
    pub cause: Option<String>,
    /// The stored chunks of each stage, if they were requested and could be counted.
    pub progress: Option<StatusAnswer>,
    /// Why the stored chunks could not be counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress_error: Option<String>,
}

/// The id in all log lines of a run. The state machine passes it on as the trace.
///
/// ```
/// assert_eq!(chunkwise_aws::trace("winds").len(), 32);
/// ```
pub fn trace(run: &str) -> String {
    Md5::digest(run.as_bytes()).iter().map(|b| format!("{b:02x}")).collect()
}

/// The function describes an error in a document. This returns the message in it.
fn message(cause: &str) -> String {
    let document: Option<Value> = serde_json::from_str(cause).ok();
    let found = document.as_ref().and_then(|d| d.get("errorMessage")?.as_str());
    found.unwrap_or(cause).to_string()
}

/// The plan, from the output of the state that has made it.
fn planned(output: &str) -> Option<(String, String)> {
    let output: Value = serde_json::from_str(output).ok()?;
    let run = output.get("run").unwrap_or(&output);
    let text = |k: &str| Some(run.get(k)?.as_str()?.to_string());
    Some((text("plan")?, text("hash")?))
}

fn find_plan(aws: &Aws, client: &aws_sdk_sfn::Client, arn: &str) -> Result<Option<(String, String)>, AwsError> {
    // It is the second state, so the first events tell.
    let request = client.get_execution_history().execution_arn(arn).max_results(50).include_execution_data(true);
    let history = aws.wait(request.send()).map_err(|e| AwsError::service(format!("the history of {arn} cannot be had"), &e))?;
    let exits = history.events().iter().filter_map(|e| e.state_exited_event_details());
    Ok(exits.filter(|d| d.name() == "Plan").find_map(|d| planned(d.output()?)))
}

/// The error and the cause of the first invocation of a run that has failed for good. A map only reports that there was one.
fn failed_batch(aws: &Aws, client: &aws_sdk_sfn::Client, arn: &str) -> Option<(String, String)> {
    let maps = aws.wait(client.list_map_runs().execution_arn(arn).send()).ok()?;
    maps.map_runs().iter().find_map(|map| {
        let request = client.list_executions().map_run_arn(map.map_run_arn()).status_filter(ExecutionStatus::Failed).max_results(1);
        let child = aws.wait(request.send()).ok()?.executions().first()?.execution_arn().to_string();
        let found = aws.wait(client.describe_execution().execution_arn(child).send()).ok()?;
        Some((found.error()?.to_string(), message(found.cause().unwrap_or_default())))
    })
}

/// Asks the function for the progress of a run, or to cancel it.
fn ask(aws: &Aws, function: &str, event: &Event) -> Result<Answer, AwsError> {
    let action = || format!("the function '{function}' cannot be asked");
    let bad = |detail: String| AwsError::Service { action: action(), detail };
    let client = aws_sdk_lambda::Client::new(aws.config());
    let payload = serde_json::to_vec(event).map_err(|e| bad(e.to_string()))?;
    let request = client.invoke().function_name(function).payload(aws_sdk_lambda::primitives::Blob::new(payload));
    let answer = aws.wait(request.send()).map_err(|e| AwsError::service(action(), &e))?;
    let text = answer.payload().map(|p| String::from_utf8_lossy(p.as_ref()).into_owned()).unwrap_or_default();
    if answer.function_error().is_some() {
        return Err(bad(message(&text)));
    }
    serde_json::from_str(&text).map_err(|e| bad(e.to_string()))
}

fn reference(status: &RunStatus) -> Option<RunRef> {
    Some(RunRef {
        format: EVENT_FORMAT.into(),
        plan: status.plan.clone()?,
        hash: status.hash.clone()?,
        trace: Some(format!("00-{}-0000000000000001-01", trace(&status.run))),
    })
}

/// The status of a run. With `progress`, it includes the stored chunks of each stage.
///
/// # Errors
/// When there is no such run, or a service cannot be asked.
pub fn status(aws: &Aws, deployment: &Deployment, run: &str, progress: bool) -> Result<RunStatus, AwsError> {
    let client = aws_sdk_sfn::Client::new(aws.config());
    let arn = deployment.execution(run)?;
    let found = aws
        .wait(client.describe_execution().execution_arn(&arn).send())
        .map_err(|e| AwsError::service(format!("the run '{run}' cannot be asked for"), &e))?;
    let output: Option<Value> = found.output().and_then(|o| serde_json::from_str(o).ok());
    let outputs = output.as_ref().and_then(|o| o.get("outputs")?.as_array()).into_iter().flatten();
    let plan = match found.output().and_then(planned) {
        Some(plan) => Some(plan),
        None => find_plan(aws, &client, &arn)?,
    };
    let now = jiff::Timestamp::now().as_millisecond() as f64 / 1e3;
    let started = found.start_date().as_secs_f64();
    let mut status = RunStatus {
        run: found.name().unwrap_or(run).into(),
        state: State::of(found.status().as_str()),
        seconds: found.stop_date().map_or(now, |d| d.as_secs_f64()) - started,
        started: (started * 1e3) as i64,
        plan: plan.as_ref().map(|p| p.0.clone()),
        hash: plan.map(|p| p.1),
        outputs: outputs.filter_map(|u| Some(u.as_str()?.to_string())).collect(),
        error: found.error().map(String::from),
        cause: found.cause().map(message),
        progress: None,
        progress_error: None,
    };
    // A caller without further rights gets what is known already.
    if status.error.as_deref().is_some_and(|e| e.starts_with("States."))
        && let Some((error, cause)) = failed_batch(aws, &client, &arn)
    {
        (status.error, status.cause) = (Some(error), Some(cause));
    }
    if progress && let Some(r) = reference(&status) {
        // The status is returned even if the function cannot be asked: it may be deleted, or the work directory emptied.
        match deployment.function().and_then(|f| ask(aws, f, &Event::Status(r))) {
            Ok(Answer::Status(s)) => status.progress = Some(s),
            Ok(_) => status.progress_error = Some("the function answered something else than was asked".into()),
            Err(e) => status.progress_error = Some(e.to_string()),
        }
    }
    Ok(status)
}

/// Waits until a run is over. `look` gets each status.
///
/// # Errors
/// As [`status`].
pub fn wait(aws: &Aws, deployment: &Deployment, run: &str, look: &mut dyn FnMut(&RunStatus)) -> Result<RunStatus, AwsError> {
    // A small run takes seconds, so the first checks come sooner.
    let mut pause = Duration::from_millis(250);
    loop {
        let found = status(aws, deployment, run, false)?;
        look(&found);
        if found.state != State::Running {
            return Ok(found);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LOOK);
    }
}

/// Cancels a run. No more invocations are started, and running ones hand back their unfinished tasks. Stored chunks stay, so a later run
/// can resume. A cancelled run can be cancelled again, because the first request may not have reached the invocations.
///
/// # Errors
/// When there is no such run, it has ended in another way, or a service cannot be asked.
pub fn cancel(aws: &Aws, deployment: &Deployment, run: &str) -> Result<RunStatus, AwsError> {
    let before = status(aws, deployment, run, false)?;
    let after = match before.state {
        State::Running => {
            let client = aws_sdk_sfn::Client::new(aws.config());
            let execution = deployment.execution(run)?;
            let request = client.stop_execution().execution_arn(execution).error("Chunkwise.Cancelled").cause("chunkwise cancel");
            aws.wait(request.send()).map_err(|e| AwsError::service(format!("the run '{run}' cannot be cancelled"), &e))?;
            status(aws, deployment, run, false)?
        }
        State::Cancelled => before,
        _ => return Err(AwsError::Input(format!("the run '{run}' is over: it has {}", before.state.name()))),
    };
    if let Some(r) = reference(&after) {
        ask(aws, deployment.function()?, &Event::Cancel(r))?;
    }
    Ok(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_is_in_the_output_of_a_state() {
        let of_plan = r#"{"head": {}, "run": {"plan": "s3://b/w/1f/plan.json", "hash": "1f", "stages": []}}"#;
        let of_run = r#"{"plan": "s3://b/w/1f/plan.json", "hash": "1f", "outputs": []}"#;
        for text in [of_plan, of_run] {
            assert_eq!(planned(text), Some(("s3://b/w/1f/plan.json".into(), "1f".into())));
        }
        assert_eq!(planned("{}"), None);
        assert_eq!(planned("not JSON"), None);
    }

    #[test]
    fn messages_are_taken_out_of_what_functions_say() {
        assert_eq!(message(r#"{"errorType": "Refused", "errorMessage": "no"}"#), "no");
        assert_eq!(message("as it is"), "as it is");
    }

    #[test]
    fn every_status_of_the_service_has_a_state() {
        use aws_sdk_sfn::types::ExecutionStatus as E;
        let of = |s: E| State::of(s.as_str());
        assert_eq!([of(E::Running), of(E::Succeeded), of(E::Aborted)], [State::Running, State::Succeeded, State::Cancelled]);
        assert_eq!([of(E::Failed), of(E::TimedOut), of(E::PendingRedrive)], [State::Failed, State::Failed, State::Running]);
    }

    #[test]
    fn traces_are_what_the_state_machine_makes_of_names() {
        // The MD5 of "abc", from its specification (RFC 1321).
        assert_eq!(trace("abc"), "900150983cd24fb0d6963f7d28e17f72");
    }
}
