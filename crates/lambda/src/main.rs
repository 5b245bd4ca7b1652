//! Chunkwise as a function of AWS Lambda: one `bootstrap` for every action.
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

use config::Config;
use lambda_runtime::service_fn;
use serve::Function;
use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    log::start();
    chunkwise::limit_allocator();
    chunkwise::storage::one_codec_thread();
    let config = match Config::from_env() {
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
