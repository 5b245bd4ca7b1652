//! What is wrong with a plan.

/// A plan that cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Not JSON, or not of this format.
    #[error("the plan cannot be read: {0}")]
    Parse(#[from] serde_json::Error),
    /// It holds a secret.
    #[error("the plan is refused: {0}")]
    Secret(String),
    /// The version is not one that this program runs.
    #[error("the plan has format '{found}', but this program runs '{wanted}'; make the plan again with this version")]
    Version {
        /// What the plan says.
        found: String,
        /// What is supported.
        wanted: &'static str,
    },
    /// A part of the plan contradicts another.
    #[error("the plan is not valid: {place}: {problem}")]
    Invalid {
        /// Where.
        place: String,
        /// What.
        problem: String,
    },
}

impl PlanError {
    /// Of a document that does not parse: a field that is unknown because it must not be there is named as such.
    pub(crate) fn parse(e: serde_json::Error) -> PlanError {
        let text = e.to_string();
        let field = text.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next());
        match field.and_then(chunkwise_types::secret_field) {
            Some(problem) => PlanError::Secret(problem),
            None => PlanError::Parse(e),
        }
    }
}
