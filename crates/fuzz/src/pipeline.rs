//! Pipelines in YAML: parsed, their inputs opened, expressions built, and planned. They may name the inputs of `docs/functions.md`, in `memory:fuzz/in`.

use crate::inputs;
use crate::metadata::planned;
use crate::place::runtime;
use chunkwise::pipeline::{LoadError, Overrides, load_text};
use std::path::Path;
use std::time::Duration;

/// Seconds of planning, at most.
const PLANNING: Duration = Duration::from_secs(5);

/// Loads and plans a pipeline.
///
/// # Panics
/// When a promise is broken.
pub fn pipeline(data: &[u8]) {
    load(&String::from_utf8_lossy(data));
}

pub(crate) fn load(text: &str) {
    inputs::make();
    let loaded = match load_text(runtime(), text, Path::new("fuzz.yaml"), &Overrides::default()) {
        Ok(loaded) => loaded,
        // Said as the command says it.
        Err(LoadError::Pipeline(e)) => return drop((e.to_string(), format!("{e:?}"))),
        Err(LoadError::Other(e)) => return drop(e.to_string()),
    };
    if let Err(e) = runtime().choose(&loaded.executor.name, &Default::default(), &loaded.executor.options) {
        drop(e.to_string());
    }
    planned(loaded.session.clone().with_planning_limit(PLANNING).plan(&loaded.requests));
}
