//! The outputs of a stack of `infra/aws`.

use crate::{Aws, AwsError};
use std::collections::BTreeMap;

/// The outputs of a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployment {
    /// The stack.
    pub stack: String,
    outputs: BTreeMap<String, String>,
}

impl Deployment {
    /// Reads the outputs from CloudFormation.
    ///
    /// # Errors
    /// When there is no such stack, it is not finished, or it may not be read.
    pub fn of_stack(aws: &Aws, stack: &str) -> Result<Deployment, AwsError> {
        let client = aws_sdk_cloudformation::Client::new(aws.config());
        let action = || format!("the stack '{stack}' cannot be asked for in {}", aws.region());
        let answer = aws.wait(client.describe_stacks().stack_name(stack).send()).map_err(|e| AwsError::service(action(), &e))?;
        let bad = |problem: String| AwsError::Stack { stack: stack.into(), problem };
        let found = answer.stacks().first().ok_or_else(|| bad(format!("is not there, in {}", aws.region())))?;
        let state = found.stack_status().map_or("", |s| s.as_str());
        if !["CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", "UPDATE_ROLLBACK_COMPLETE"].contains(&state) {
            let reason = found.stack_status_reason().unwrap_or("no reason is given");
            return Err(bad(format!("is in state {state} ({reason}), so nothing can be run with it")));
        }
        let outputs = found.outputs().iter().filter_map(|o| Some((o.output_key()?.to_string(), o.output_value()?.to_string()))).collect();
        Ok(Deployment { stack: stack.into(), outputs })
    }

    /// An output by its name.
    ///
    /// # Errors
    /// When the stack has no output of that name, because it is another kind of stack.
    pub fn output(&self, name: &str) -> Result<&str, AwsError> {
        self.outputs.get(name).map(String::as_str).ok_or_else(|| AwsError::Stack {
            stack: self.stack.clone(),
            problem: format!("has no output {name}; was it made from infra/aws/chunkwise.yaml?"),
        })
    }

    /// The name of the function.
    ///
    /// # Errors
    /// As [`Deployment::output`].
    pub fn function(&self) -> Result<&str, AwsError> {
        self.output("Function")
    }

    /// The URL below which intermediates may be stored.
    ///
    /// # Errors
    /// As [`Deployment::output`].
    pub fn work_dir(&self) -> Result<&str, AwsError> {
        self.output("WorkDir")
    }

    /// The ARN of an execution of the state machine: `run` is its name, or the ARN itself.
    ///
    /// # Errors
    /// As [`Deployment::output`], and when `run` is neither of them.
    pub fn execution(&self, run: &str) -> Result<String, AwsError> {
        if run.starts_with("arn:") {
            return Ok(run.into());
        }
        if run.is_empty() || !run.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)) {
            return Err(AwsError::Input(format!("'{run}' is no name of a run; it is what 'chunkwise submit' prints")));
        }
        Ok(format!("{}:{run}", self.output("StateMachine")?.replacen(":stateMachine:", ":execution:", 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executions_are_named_after_the_state_machine() {
        let arn = "arn:aws:states:eu-west-1:000000000000:stateMachine:cw";
        let d = Deployment { stack: "cw".into(), outputs: [("StateMachine".to_string(), arn.to_string())].into() };
        assert_eq!(d.execution("winds-1").unwrap(), "arn:aws:states:eu-west-1:000000000000:execution:cw:winds-1");
        assert_eq!(d.execution("arn:aws:states:x").unwrap(), "arn:aws:states:x");
        assert!(d.execution("a:b").is_err() && d.execution("").is_err());
        assert!(d.function().unwrap_err().to_string().contains("no output Function"));
    }
}
