//! Where targets may read and write: objects in memory, and nothing else.

use chunkwise::Runtime;
use chunkwise::storage::{Location, Store, Stores};
use std::cell::RefCell;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// What inputs may name. Of everything else, opening it is refused, as in a function on AWS Lambda.
const ALLOWED: &str = "memory:///fuzz";

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let runtime = Runtime::new();
    runtime.stores().restrict(&[ALLOWED.into()]).unwrap();
    runtime
});

/// The runtime of the targets, which is restricted to objects in memory.
pub fn runtime() -> &'static Runtime {
    &RUNTIME
}

/// Its stores.
pub(crate) fn stores() -> &'static Stores {
    RUNTIME.stores()
}

/// A place below the one that is allowed.
pub(crate) fn at(name: &str) -> Location {
    Location::parse(&format!("{ALLOWED}/{name}"), None).unwrap()
}

/// A folder of this thread, which is emptied when it is dropped.
pub(crate) struct Scratch {
    pub at: Location,
    pub store: Store,
}

impl Scratch {
    pub fn new() -> Scratch {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        thread_local! {
            static OWN: RefCell<Option<Location>> = const { RefCell::new(None) };
        }
        let own =
            OWN.with_borrow_mut(|own| own.get_or_insert_with(|| at(&format!("thread{}", NEXT.fetch_add(1, Ordering::Relaxed)))).clone());
        let store = stores().open(&own).unwrap();
        Scratch { at: own, store }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = self.store.delete_prefix("");
    }
}
