//! Chunkwise as a function of AWS Lambda: one `bootstrap` for every action. A program of your own may add functions to it:
//!
//! ```no_run
//! fn main() -> std::process::ExitCode {
//!     chunkwise_lambda::main_with(|runtime| runtime.function("double", "1", double))
//! }
//! # use chunkwise::kernels::{Block, FunctionError, Invocation};
//! # fn double(_: &Invocation<'_>, _: &[Block]) -> Result<Vec<Block>, FunctionError> { Err("an example".into()) }
//! ```
//!
//! The function has no state of its own. It keeps the open plan, connections and decoded chunks between invocations, but only to save time.

mod config;
mod failure;
mod log;
mod plan;
mod runs;
mod serve;
mod tasks;

#[cfg(test)]
mod fuzz;

use chunkwise::RuntimeBuilder;
use config::Config;
use lambda_runtime::service_fn;
use serve::Function;
use std::process::ExitCode;
use std::sync::Arc;

/// Serves invocations, with what `add` adds to the runtime: functions. Returns the exit code of the process.
///
/// It is called once, from `main`: it sets the log and the allocator of the process.
pub fn main_with(add: impl FnOnce(RuntimeBuilder) -> RuntimeBuilder) -> ExitCode {
    log::start();
    chunkwise::limit_allocator();
    chunkwise::storage::one_codec_thread();
    let config = match Config::from_env(add) {
        Ok(config) => config,
        Err(problem) => {
            tracing::error!("{problem}");
            return ExitCode::FAILURE;
        }
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => {
            tracing::error!("the runtime cannot be started: {e}");
            return ExitCode::FAILURE;
        }
    };
    let function = Arc::new(Function::new(config));
    let ended = runtime.block_on(lambda_runtime::run(service_fn(move |event| {
        let function = function.clone();
        async move { function.invoke(event).await }
    })));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            tracing::error!("{e}");
            ExitCode::FAILURE
        }
    }
}
