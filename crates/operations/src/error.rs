//! Why an operation refuses its arguments.

/// An operation cannot be applied.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}{problem}", self.before())]
pub struct OpError {
    /// The operation as the user called it.
    pub operation: String,
    /// What is wrong, and what would be right.
    pub problem: String,
}

impl OpError {
    /// An error of an operation.
    pub fn new(operation: impl Into<String>, problem: impl Into<String>) -> Self {
        OpError { operation: operation.into(), problem: problem.into() }
    }

    /// The operation before the problem, unless that says it itself.
    fn before(&self) -> String {
        if self.problem.starts_with(&self.operation) { String::new() } else { format!("{}: ", self.operation) }
    }
}
