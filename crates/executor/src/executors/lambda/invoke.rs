//! One invocation: the request, and what its outcome means.

use crate::executors::answers;
use crate::executors::aws::sentence;
use crate::function::{Answer as FunctionAnswer, PERMANENT, REFUSED, RESOURCE, RunTasksAnswer, TRANSIENT};
use crate::worker::Answer;
use aws_sdk_lambda::Client;
use aws_sdk_lambda::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_lambda::operation::invoke::InvokeError;
use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::InvocationType;
use chunkwise_plan::TaskReport;
use chunkwise_storage::Store;
use serde::Deserialize;

/// The outcome of an invocation.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The function answered.
    Answer(Box<RunTasksAnswer>),
    /// It was accepted, and will run later.
    Accepted,
    /// Lambda refused it because too many run at once. It did not run.
    Throttled(String),
    /// The service failed. It is not known whether the invocation ran.
    Unavailable(String),
    /// It ended without an answer, or the answer was lost. Its reports are in storage.
    Broken {
        /// How it ended.
        end: End,
        /// Details for a message.
        detail: String,
        /// The reports of tasks that it finished before.
        done: Vec<TaskReport>,
    },
    /// No invocation can succeed.
    Hopeless(String),
}

/// How an invocation ended without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The connection was lost; it may have run, or may still run.
    Unanswered,
    /// Killed at the time limit of the function.
    TimedOut,
    /// Killed for memory.
    OutOfMemory,
    /// The process ended in another way.
    Crashed,
    /// It said that it failed in a way that may pass.
    Transient,
    /// It said that it failed for good.
    Permanent,
}

/// The form of a function error.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct FunctionError {
    error_type: String,
    error_message: String,
}

/// Interprets a function error; `None` if no invocation can ever succeed.
fn end_of(kind: &str, message: &str) -> Option<End> {
    Some(match kind {
        REFUSED | RESOURCE => return None,
        TRANSIENT => End::Transient,
        PERMANENT => End::Permanent,
        _ if message.contains("Task timed out") || kind.eq_ignore_ascii_case("Sandbox.Timedout") => End::TimedOut,
        _ if kind.contains("OutOfMemory") => End::OutOfMemory,
        // The kernel kills a process that exceeds its memory. Nothing else kills a function with this signal.
        _ if message.contains("signal: killed") || message.contains("exit status 137") => End::OutOfMemory,
        _ => End::Crashed,
    })
}

/// The reports of an invocation, which has a folder of its own.
fn left(store: &Store, folder: &str) -> Vec<Answer> {
    let Ok(found) = store.list(folder) else { return Vec::new() };
    let mut keys: Vec<String> = found.into_iter().map(|(k, _)| k).collect();
    keys.sort();
    read(store, &keys)
}

/// The reports in some objects; none if they cannot be read.
fn read(store: &Store, keys: &[String]) -> Vec<Answer> {
    let Ok(objects) = store.get_all(keys) else { return Vec::new() };
    objects.into_iter().flatten().flat_map(|data| answers(&data)).collect()
}

fn done(answers: Vec<Answer>) -> Vec<TaskReport> {
    answers.into_iter().filter_map(|a| if let Answer::Done { report, .. } = a { Some(report) } else { None }).collect()
}

/// Invokes one function, always in the same way.
#[derive(Clone)]
pub(super) struct Caller {
    pub client: Client,
    pub function: String,
    pub asynchronous: bool,
    pub store: Store,
}

impl Caller {
    /// Invokes the function. `folder` is where its reports are.
    pub async fn call(&self, event: Vec<u8>, folder: String) -> Outcome {
        let kind = if self.asynchronous { InvocationType::Event } else { InvocationType::RequestResponse };
        let sent = self.client.invoke().function_name(&self.function).invocation_type(kind).payload(Blob::new(event)).send().await;
        let store = self.store.clone();
        // Calls of storage block.
        let look = move || async move { tokio::task::spawn_blocking(move || done(left(&store, &folder))).await.unwrap_or_default() };
        let answer = match sent {
            Ok(answer) => answer,
            Err(e) => {
                return match refusal(&e) {
                    Refusal::Throttled => Outcome::Throttled(sentence(&e)),
                    Refusal::Unavailable => Outcome::Unavailable(format!("Lambda did not take it: {}", sentence(&e))),
                    Refusal::Hopeless => Outcome::Hopeless(format!("the function '{}' cannot be invoked: {}", self.function, sentence(&e))),
                    Refusal::Unanswered => {
                        let detail = format!("the answer of the function was lost ({})", sentence(&e));
                        Outcome::Broken { end: End::Unanswered, detail, done: look().await }
                    }
                };
            }
        };
        if self.asynchronous {
            return Outcome::Accepted;
        }
        let payload = answer.payload().map(|b| b.as_ref()).unwrap_or_default();
        if answer.function_error().is_some() {
            let error: FunctionError = serde_json::from_slice(payload).unwrap_or_default();
            let FunctionError { error_type, error_message } = error;
            return match end_of(&error_type, &error_message) {
                None => Outcome::Hopeless(error_message),
                Some(end) => Outcome::Broken { end, detail: format!("{error_message} ({error_type})"), done: look().await },
            };
        }
        match serde_json::from_slice(payload) {
            Ok(FunctionAnswer::RunTasks(mut a)) => {
                if (a.reports.len() as u64) < a.done {
                    let (store, keys) = (self.store.clone(), a.stored.clone());
                    a.reports = tokio::task::spawn_blocking(move || done(read(&store, &keys))).await.unwrap_or_default();
                }
                Outcome::Answer(Box::new(a))
            }
            _ => {
                let text: String = String::from_utf8_lossy(payload).chars().take(200).collect();
                Outcome::Hopeless(format!("'{}' does not answer as chunkwise-lambda does: {text}", self.function))
            }
        }
    }
}

/// Why Lambda did not run a function.
#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    Throttled,
    Unavailable,
    Unanswered,
    Hopeless,
}

/// Errors with a status below 500 after which the request may succeed.
const PASSING: [&str; 2] = ["ResourceConflictException", "RequestTimeout"];

fn refusal_of(status: u16, code: &str) -> Refusal {
    match status {
        429 => Refusal::Throttled,
        _ if code.contains("Throttl") && !code.starts_with("EC2") => Refusal::Throttled,
        _ if PASSING.contains(&code) => Refusal::Unavailable,
        500.. => Refusal::Unavailable,
        _ => Refusal::Hopeless,
    }
}

fn refusal(e: &SdkError<InvokeError>) -> Refusal {
    match e {
        SdkError::ServiceError(s) => refusal_of(s.raw().status().as_u16(), s.err().code().unwrap_or_default()),
        // If a dispatch fails, it is not known whether the request has arrived.
        SdkError::DispatchFailure(_) | SdkError::TimeoutError(_) | SdkError::ResponseError(_) => Refusal::Unanswered,
        _ => Refusal::Hopeless,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn function_errors() {
        for (kind, message, end) in [
            ("Runtime.ExitError", "RequestId: 1 Error: Runtime exited with error: signal: killed", Some(End::OutOfMemory)),
            ("Runtime.OutOfMemory", "", Some(End::OutOfMemory)),
            ("Runtime.ExitError", "RequestId: 1 Error: Runtime exited with error: exit status 1", Some(End::Crashed)),
            ("Runtime.ExitError", "RequestId: 1 Error: Runtime exited with error: signal: segmentation fault", Some(End::Crashed)),
            ("Sandbox.Timedout", "RequestId: 1 Error: Task timed out after 3.00 seconds", Some(End::TimedOut)),
            ("", "2026-01-01T00:00:00Z 1 Task timed out after 3.00 seconds", Some(End::TimedOut)),
            ("TransientError", "s3 is slow", Some(End::Transient)),
            ("PermanentError", "damaged", Some(End::Permanent)),
            ("Refused", "no", None),
            ("ResourceError", "too little memory", None),
        ] {
            assert_eq!(end_of(kind, message), end, "{kind} {message}");
        }
    }

    #[test]
    fn errors_of_the_service() {
        for (status, code, wanted) in [
            (429, "TooManyRequestsException", Refusal::Throttled),
            (400, "ThrottlingException", Refusal::Throttled),
            (502, "EC2ThrottledException", Refusal::Unavailable),
            (502, "ENILimitReachedException", Refusal::Unavailable),
            (502, "ResourceNotReadyException", Refusal::Unavailable),
            (400, "RequestTimeout", Refusal::Unavailable),
            (409, "ResourceConflictException", Refusal::Unavailable),
            (500, "ServiceException", Refusal::Unavailable),
            (503, "", Refusal::Unavailable),
            (404, "ResourceNotFoundException", Refusal::Hopeless),
            (403, "AccessDeniedException", Refusal::Hopeless),
            (413, "RequestTooLargeException", Refusal::Hopeless),
        ] {
            assert_eq!(refusal_of(status, code), wanted, "{status} {code}");
        }
    }
}
