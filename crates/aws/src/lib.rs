//! Deployments of Chunkwise on AWS: the parts of a stack of `infra/aws`, and the runs of its state machine.
//!
//! No machine stays up for such a run. [`submit`] gives a pipeline to the state machine. The state machine has the function plan it, runs
//! its stages one after another, each in many invocations, and publishes the outputs. A run is identified by the name of its execution.
//! Everything else is requested when it is needed: [`status`] asks the state machine and the function (which reads storage), and [`logs`]
//! asks CloudWatch, where every line of a run has its [`trace`].

mod error;
mod logs;
mod run;
mod stack;
mod submit;

pub use chunkwise_executor::aws::{Aws, AwsOptions};
pub use error::AwsError;
pub use logs::{LogLine, logs};
pub use run::{RunStatus, State, cancel, status, trace, wait};
pub use stack::Deployment;
pub use submit::{Submission, name_of, submit};
