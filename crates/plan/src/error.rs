//! What is wrong with a plan.

/// A plan that cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Not JSON, or not of this format.
    #[error("the plan cannot be read: {0}")]
    Parse(#[from] serde_json::Error),
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
