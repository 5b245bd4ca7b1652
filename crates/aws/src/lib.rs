//! Deployments of Chunkwise on AWS: what a stack of `infra/aws` consists of, and runs that its state machine makes.
//!
//! No machine stays up for such a run. [`submit`] gives a pipeline to the state machine, which has the function plan it, runs its stages one
//! after another, each in many invocations, and publishes the outputs. The run is known by the name of its execution; everything else is asked
//! of the services when it is wanted: [`status`] of the state machine and of the function (which looks at what storage holds), [`logs`] of
//! CloudWatch, where every line of a run has its [`trace`].

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
