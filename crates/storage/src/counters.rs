//! Counts requests and bytes.

use std::sync::atomic::{AtomicU64, Ordering};

/// The number of requests and bytes so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Objects or ranges read.
    pub gets: u64,
    /// Objects written.
    pub puts: u64,
    /// Pages of listings.
    pub lists: u64,
    /// Sizes that were requested.
    pub heads: u64,
    /// Encoded bytes read.
    pub bytes_read: u64,
    /// Encoded bytes written.
    pub bytes_written: u64,
}

/// What is counted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Count {
    Gets,
    Puts,
    Lists,
    BytesRead,
    BytesWritten,
    Heads,
}

/// Counters that many threads add to.
#[derive(Debug, Default)]
pub(crate) struct Counts([AtomicU64; 6]);

impl Counts {
    pub fn add(&self, what: Count, n: u64) {
        self.0[what as usize].fetch_add(n, Ordering::Relaxed);
    }

    pub fn read(&self) -> Counters {
        let at = |what: Count| self.0[what as usize].load(Ordering::Relaxed);
        Counters {
            gets: at(Count::Gets),
            puts: at(Count::Puts),
            lists: at(Count::Lists),
            heads: at(Count::Heads),
            bytes_read: at(Count::BytesRead),
            bytes_written: at(Count::BytesWritten),
        }
    }
}
