//! Errors of deployments and runs on AWS.

use chunkwise_executor::RunError;
use chunkwise_executor::aws::sentence;

/// Why a deployment or a run of it cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AwsError {
    /// Region, credentials or threads are missing.
    #[error(transparent)]
    Connect(#[from] RunError),
    /// A service refuses.
    #[error("{action}: {detail}")]
    Service {
        /// The request.
        action: String,
        /// The answer.
        detail: String,
    },
    /// A stack exists, but cannot be used.
    #[error("the stack '{stack}' {problem}")]
    Stack {
        /// Its name.
        stack: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The input cannot be submitted.
    #[error("{0}")]
    Input(String),
}

impl AwsError {
    /// From an error of the SDK.
    pub(crate) fn service(action: impl Into<String>, e: &(dyn std::error::Error + 'static)) -> AwsError {
        AwsError::Service { action: action.into(), detail: sentence(e) }
    }
}
