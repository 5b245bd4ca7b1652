//! The configuration of the function, from its environment.

use chunkwise::{Runtime, RuntimeBuilder};

/// The configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// Bytes of memory.
    pub memory: u64,
    /// Processors. This is also the number of tasks at once.
    pub processors: usize,
    /// The work directory of pipelines that name none.
    pub work_dir: Option<String>,
    /// Its stores, restricted to its URL prefixes.
    pub runtime: Runtime,
}

/// A function has one processor for each of these megabytes of memory.
const PER_PROCESSOR: u64 = 1769;

impl Config {
    /// Reads the configuration, and restricts the stores to the URL prefixes in it.
    ///
    /// # Errors
    /// One sentence, if a variable is wrong.
    pub fn from_env(add: impl FnOnce(RuntimeBuilder) -> RuntimeBuilder) -> Result<Config, String> {
        let variable = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
        let megabytes = match variable("AWS_LAMBDA_FUNCTION_MEMORY_SIZE") {
            Some(text) => text.parse::<u64>().map_err(|_| format!("AWS_LAMBDA_FUNCTION_MEMORY_SIZE={text} is no number of megabytes"))?,
            None => return Err("AWS_LAMBDA_FUNCTION_MEMORY_SIZE is not set: this program is a function of AWS Lambda".into()),
        };
        let prefixes = variable("CHUNKWISE_ALLOWED_PREFIXES").unwrap_or_default();
        let prefixes: Vec<String> = prefixes.split(',').map(str::trim).filter(|p| !p.is_empty()).map(String::from).collect();
        if prefixes.is_empty() {
            tracing::warn!("CHUNKWISE_ALLOWED_PREFIXES names no URL prefix, so nothing can be read or written");
        }
        let runtime = add(Runtime::builder()).build().map_err(|e| e.to_string())?;
        runtime.stores().restrict(&prefixes).map_err(|e| format!("CHUNKWISE_ALLOWED_PREFIXES: {e}"))?;
        Ok(Config { memory: megabytes << 20, processors: processors(megabytes), work_dir: variable("CHUNKWISE_WORK_DIR"), runtime })
    }
}

/// The number of tasks for a function with this memory: one for each processor.
fn processors(megabytes: u64) -> usize {
    ((megabytes + PER_PROCESSOR / 2) / PER_PROCESSOR).clamp(1, 6) as usize
}

#[cfg(test)]
mod tests {
    #[test]
    fn processors_come_with_memory() {
        let of = super::processors;
        assert_eq!([of(128), of(1769), of(2048), of(3538), of(10240)], [1, 1, 1, 2, 6]);
    }
}
