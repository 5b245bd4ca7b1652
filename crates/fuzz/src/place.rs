//! Where targets may read and write: objects in memory, and nothing else.

use chunkwise::storage::{Location, Store, restrict};
use std::cell::RefCell;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// What inputs may name. Of everything else, opening it is refused, as in a function on AWS Lambda.
const ALLOWED: &str = "memory:///fuzz";

static RESTRICTED: LazyLock<()> = LazyLock::new(|| restrict(&[ALLOWED.into()]).unwrap());

/// Restricts this process to objects in memory.
pub(crate) fn restricted() {
    LazyLock::force(&RESTRICTED);
}

/// A place below the one that is allowed.
pub(crate) fn at(name: &str) -> Location {
    restricted();
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
        let store = Store::open(&own).unwrap();
        Scratch { at: own, store }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = self.store.delete_prefix("");
    }
}
