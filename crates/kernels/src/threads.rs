//! Cores of a run that its kernels share.
//!
//! A thread that runs a task has one core of its own. While fewer tasks run than there are cores, a thread that can use more borrows the idle ones.
//! A matrix product or a read borrows them for one call, the bands of a task until a task that has started wants its core. A thread that belongs to
//! no run has nothing to borrow.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};

/// The cores of a run.
#[derive(Debug)]
pub struct Cores {
    /// Cores that no thread uses. Below zero for as long as a task has started on a core that is lent.
    idle: AtomicIsize,
}

thread_local! {
    static SHARED: RefCell<Option<Arc<Cores>>> = const { RefCell::new(None) };
}

/// A task under way: it keeps its core busy until this is dropped.
#[derive(Debug)]
#[must_use]
pub struct Busy {
    cores: Arc<Cores>,
    before: Option<Arc<Cores>>,
}

/// Borrowed cores; dropping this gives them back.
#[derive(Debug)]
#[must_use]
pub struct Lent {
    cores: Option<Arc<Cores>>,
    /// How many.
    pub count: usize,
}

impl Cores {
    /// This many cores, all idle.
    ///
    /// ```
    /// let cores = chunkwise_kernels::Cores::new(2);
    /// let task = cores.enter(); // kernels on this thread may now use the other core as well
    /// drop(task);
    /// ```
    pub fn new(count: usize) -> Arc<Cores> {
        Arc::new(Cores { idle: AtomicIsize::new(isize::try_from(count).unwrap_or(isize::MAX)) })
    }

    /// Takes one core for a task on this thread, whose kernels may borrow those that stay idle.
    pub fn enter(self: &Arc<Cores>) -> Busy {
        self.idle.fetch_sub(1, Ordering::Relaxed);
        Busy { cores: self.clone(), before: SHARED.with(|s| s.borrow_mut().replace(self.clone())) }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.cores.idle.fetch_add(1, Ordering::Relaxed);
        SHARED.with(|s| *s.borrow_mut() = self.before.take());
    }
}

impl Lent {
    /// True if tasks have started on cores that are lent: a thread that has borrowed one should give it back soon.
    pub fn wanted(&self) -> bool {
        self.cores.as_ref().is_some_and(|cores| cores.idle.load(Ordering::Relaxed) < 0)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(cores) = &self.cores {
            cores.idle.fetch_add(self.count as isize, Ordering::Relaxed);
        }
    }
}

/// Borrows at most this many idle cores of the run that this thread works for.
pub fn borrow(most: usize) -> Lent {
    let nothing = Lent { cores: None, count: 0 };
    let Some(cores) = SHARED.with(|s| s.borrow().clone()).filter(|_| most > 0) else { return nothing };
    let most = isize::try_from(most).unwrap_or(isize::MAX);
    let take = |idle: isize| (idle > 0).then(|| idle - idle.min(most));
    match cores.idle.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
        Ok(idle) => Lent { cores: Some(cores), count: idle.min(most) as usize },
        Err(_) => nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_cores_are_lent_once() {
        assert_eq!(borrow(4).count, 0);
        let cores = Cores::new(4);
        let task = cores.enter();
        let (one, rest) = (borrow(1), borrow(9));
        assert_eq!((one.count, rest.count, borrow(1).count), (1, 2, 0));
        assert!(!one.wanted());
        {
            let _more = cores.enter();
            assert!(one.wanted());
        }
        drop(rest);
        let other = std::thread::spawn({
            let cores = cores.clone();
            move || {
                let _task = cores.enter();
                borrow(9).count
            }
        });
        assert_eq!(other.join().ok(), Some(1));
        drop((one, task));
        assert_eq!(borrow(4).count, 0);
        assert_eq!(cores.idle.load(Ordering::Relaxed), 4);
    }
}
