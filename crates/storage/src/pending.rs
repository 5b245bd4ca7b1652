//! Requests to object stores that run while their caller does something else.

use crate::counters::Count;
use crate::error::no_bucket;
use crate::remote::{Fetched, Sent};
use crate::store::RUNTIME;
use crate::world::is_simulated;
use crate::{StorageError, Store};
use bytes::Bytes;
use object_store::GetRange;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A request that runs while its caller does something else. It is stopped if the caller drops it.
pub(crate) enum Pending<T> {
    Running(tokio::task::JoinHandle<Result<T, StorageError>>),
    /// For a simulated world, which decides when a request is answered.
    Answered(Option<Result<T, StorageError>>),
}

impl<T> Pending<T> {
    /// True if its result is there.
    pub fn is_done(&self) -> bool {
        match self {
            Pending::Running(request) => request.is_finished(),
            Pending::Answered(_) => true,
        }
    }

    /// Its result.
    pub fn wait(mut self) -> Result<T, StorageError> {
        let failed = |detail: String| StorageError::Store { action: "wait for", url: "a request".into(), detail, transient: true };
        match &mut self {
            Pending::Running(request) => {
                let runtime = RUNTIME.as_ref().map_err(|e| failed(e.clone()))?;
                runtime.block_on(request).map_err(|e| failed(e.to_string()))?
            }
            Pending::Answered(answer) => answer.take().unwrap_or_else(|| Err(failed("it was waited for already".into()))),
        }
    }
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        if let Pending::Running(request) = self {
            request.abort();
        }
    }
}

impl Store {
    fn start<T: Send + 'static>(
        &self,
        action: &'static str,
        key: &str,
        request: impl Future<Output = Result<T, object_store::Error>> + Send + 'static,
    ) -> Result<Pending<T>, StorageError> {
        if is_simulated() {
            return Ok(Pending::Answered(Some(self.wait(action, key, request))));
        }
        let url = self.url(key);
        let runtime = RUNTIME.as_ref().map_err(|e| StorageError::Store {
            action,
            url: url.clone(),
            detail: format!("the runtime cannot start: {e}"),
            transient: false,
        })?;
        let remote = self.remote.clone();
        Ok(Pending::Running(runtime.spawn(async move { request.await.map_err(|e| StorageError::of(action, url, &e, &remote)) })))
    }

    /// Starts to read an object or a range of it, of at most `most` bytes; `None` if there is no such object. `length` is set to the true
    /// length as soon as it is known.
    pub(crate) fn start_get(
        &self,
        key: &str,
        range: Option<GetRange>,
        most: u64,
        length: Arc<AtomicU64>,
    ) -> Result<Pending<Option<Fetched>>, StorageError> {
        let (path, remote, stores) = (self.key(key)?, self.remote.clone(), self.stores().clone());
        self.count(Count::Gets, 1);
        self.start("read", key, async move {
            match remote.get(&path, range, most, |n| length.store(n, Ordering::Relaxed)).await {
                Ok(found) => {
                    stores.count(Count::BytesRead, found.data.len() as u64);
                    Ok(Some(found))
                }
                // If the bucket does not exist, the error says more than "no such chunk".
                Err(object_store::Error::NotFound { source, .. }) if !no_bucket(&source.to_string()) => Ok(None),
                Err(e) => Err(e),
            }
        })
    }

    /// Starts to write an object. If that takes no time, the object is written at once.
    pub(crate) fn start_put(&self, key: &str, data: Cow<'_, [u8]>) -> Result<Option<Pending<Sent>>, StorageError> {
        self.check_full("write", key)?;
        let mut data = data;
        if !self.is_remote() {
            return self.put(key, data).map(|()| None);
        }
        let path = self.key(key)?;
        if let Some(tier) = &self.memory {
            match tier.put(&self.without_memory(), key, data) {
                Ok(()) => return Ok(None),
                Err(back) => data = back,
            }
        }
        let (remote, stores, data) = (self.remote.clone(), self.stores().clone(), Bytes::from(data.into_owned()));
        self.count(Count::BytesWritten, data.len() as u64);
        let sent = self.start("write", key, async move {
            let sent = remote.put(&path, data).await?;
            stores.count(Count::Puts, sent.requests);
            Ok(sent)
        })?;
        Ok(Some(sent))
    }
}
