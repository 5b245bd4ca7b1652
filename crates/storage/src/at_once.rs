//! Makes several calls at once that mostly wait for a server.

/// The largest number of threads. More threads would not wait any faster.
const MAX_THREADS: usize = 16;

/// Calls a function for every item, up to 16 at a time, and returns the results in the order of the items. Use it for a few requests to
/// object stores, each of which waits for its answer.
///
/// ```
/// assert_eq!(chunkwise_storage::at_once(&[3, 1, 2], |n| n * 10), [30, 10, 20]);
/// ```
pub fn at_once<T: Sync, R: Send>(items: &[T], call: impl Fn(&T) -> R + Sync) -> Vec<R> {
    // In a simulated world the calls run one after another, because the world decides what happens next.
    if crate::world::is_simulated() {
        return items.iter().map(call).collect();
    }
    let call = &call;
    let mut results = Vec::with_capacity(items.len());
    for some in items.chunks(MAX_THREADS) {
        if let [one] = some {
            results.push(call(one));
            continue;
        }
        std::thread::scope(|scope| {
            let threads: Vec<_> = some.iter().map(|item| scope.spawn(move || call(item))).collect();
            results.extend(threads.into_iter().map(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))));
        });
    }
    results
}
