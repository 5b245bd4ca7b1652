//! Who watches runs, and who may stop them.

use chunkwise_executor::Event;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What is told events.
type Watcher = dyn Fn(&Event) + Send + Sync;

/// A flag that stops runs, and a function that is told their events.
#[derive(Clone, Default)]
pub(crate) struct Observer {
    pub cancel: Arc<AtomicBool>,
    pub events: Option<Arc<Watcher>>,
}

impl Observer {
    /// Passes an event on.
    pub fn tell(&self, event: &Event) {
        if let Some(events) = &self.events {
            events(event);
        }
    }
}

impl std::fmt::Debug for Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observer").field("cancel", &self.cancel).field("events", &self.events.is_some()).finish()
    }
}
