//! A function and an executor of one's own, outside of Chunkwise.
//!
//! [`add`] adds both to a runtime. The command (`own`), the function of Lambda (`own-bootstrap`) and the program that plans (`forces`) call it,
//! so each of them can run what the others plan. A plan names the function and its version, and contains no code.

mod beaufort;
mod nice;

pub use beaufort::forces;

use chunkwise::RuntimeBuilder;

/// Adds the function `beaufort` and the executor `nice`.
pub fn add(runtime: RuntimeBuilder) -> RuntimeBuilder {
    runtime.function(beaufort::NAME, beaufort::VERSION, beaufort::beaufort).executor("nice", nice::Nice::read)
}
