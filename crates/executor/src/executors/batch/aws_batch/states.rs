//! Interprets the states of jobs at AWS Batch.

use crate::executors::batch::State;
use aws_sdk_batch::types::JobStatus;

/// The description of one job or one child of an array.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Said<'a> {
    pub status: Option<&'a JobStatus>,
    /// Of the job.
    pub why: Option<&'a str>,
    /// Of its container.
    pub reason: Option<&'a str>,
    pub exit: Option<i32>,
}

/// True if no other status can follow.
pub(super) fn is_over(status: Option<&JobStatus>) -> bool {
    matches!(status, Some(JobStatus::Succeeded | JobStatus::Failed))
}

/// Why no job of this kind will ever run, if the description says so.
pub(super) fn hopeless(said: &Said<'_>) -> Option<String> {
    let (why, reason) = (said.why.unwrap_or_default(), said.reason.unwrap_or_default());
    // AWS Batch says this of jobs that stay in the queue for ever.
    if why.starts_with("MISCONFIGURATION:") {
        return Some(why.into());
    }
    let fetched = ["CannotPullContainer", "ResourceInitializationError", "CannotCreateContainerError"];
    let found = [reason, why].into_iter().find(|text| fetched.iter().any(|f| text.starts_with(f)))?;
    // The registry may only be slow today.
    let passes = ["toomanyrequests", "timeout", "TLS handshake"].iter().any(|p| found.contains(p));
    (said.status == Some(&JobStatus::Failed) && !passes).then(|| found.into())
}

/// The state of a job.
pub(super) fn state(said: &Said<'_>) -> State {
    let (why, reason) = (said.why.unwrap_or_default(), said.reason.unwrap_or_default());
    match said.status {
        Some(JobStatus::Succeeded) => State::Exited(0),
        Some(JobStatus::Failed) => {
            if reason.starts_with("OutOfMemory") || why.starts_with("OutOfMemory") {
                return State::OutOfMemory;
            }
            if why.starts_with("Job attempt duration exceeded timeout") {
                return State::TimedOut;
            }
            if why.starts_with("Host EC2") || why.contains("Spot Task was interrupted") {
                return State::Lost(why.into());
            }
            match said.exit {
                Some(code) if code > 128 => State::Lost(format!("signal {} ended it ({why})", code - 128)),
                Some(code) => State::Exited(code),
                None => State::Lost(format!("AWS Batch says: {}", if reason.is_empty() { why } else { reason })),
            }
        }
        _ => State::Alive,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(why: &'static str, reason: Option<&'static str>, exit: Option<i32>) -> Said<'static> {
        Said { status: Some(&JobStatus::Failed), why: Some(why), reason, exit }
    }

    #[test]
    fn ends() {
        let exited = "Essential container in task exited";
        assert_eq!(state(&Said { status: Some(&JobStatus::Succeeded), ..Said::default() }), State::Exited(0));
        assert_eq!(state(&Said { status: Some(&JobStatus::Runnable), ..Said::default() }), State::Alive);
        assert_eq!(state(&Said::default()), State::Alive);
        let oom = Some("OutOfMemoryError: Container killed due to memory usage");
        assert_eq!(state(&failed(exited, oom, Some(137))), State::OutOfMemory);
        assert_eq!(state(&failed(exited, None, Some(10))), State::Exited(10));
        assert!(matches!(state(&failed(exited, None, Some(137))), State::Lost(w) if w.contains("signal 9")));
        assert_eq!(state(&failed("Job attempt duration exceeded timeout", None, Some(137))), State::TimedOut);
        assert!(matches!(state(&failed("Host EC2 (instance i-0) terminated.", None, None)), State::Lost(w) if w.contains("i-0")));
    }

    #[test]
    fn what_never_runs() {
        let stuck = "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - The job requires more memory than any machine has";
        assert!(hopeless(&Said { status: Some(&JobStatus::Runnable), why: Some(stuck), ..Said::default() }).is_some());
        assert!(hopeless(&failed("Task failed to start", Some("CannotPullContainerError: not found"), None)).is_some());
        assert!(hopeless(&failed("Task failed to start", Some("CannotPullContainerError: toomanyrequests"), None)).is_none());
        assert!(hopeless(&failed("Essential container in task exited", None, Some(1))).is_none());
    }
}
