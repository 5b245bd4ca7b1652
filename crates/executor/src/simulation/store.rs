//! An object store whose answers take time or get lost. A request that was repeated may arrive twice.

use super::world::{Here, SECOND, State, here};
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

/// The stored objects, and when they were written by the clock of the store, in nanoseconds since 1970.
#[derive(Debug, Default)]
struct Inner {
    objects: InMemory,
    written: Mutex<BTreeMap<String, u64>>,
    /// The resolution of times.
    tick: AtomicU64,
}

/// A store in a simulated world.
#[derive(Debug, Clone, Default)]
pub struct SimStore(Arc<Inner>);

/// How long a client waits for an answer.
const PATIENCE: u64 = 5 * SECOND;
/// How often it repeats a request.
const ATTEMPTS: usize = 4;
/// The longest time that a delayed request takes to arrive.
const STUCK: u64 = 10 * SECOND;

fn broken(text: &str) -> Error {
    Error::Generic { store: "simulated", source: text.to_string().into() }
}

/// The result of a future that does not wait.
fn now<R>(what: impl Future<Output = Result<R>>) -> Result<R> {
    what.now_or_never().unwrap_or_else(|| Err(broken("it waits")))
}

impl Inner {
    fn dated(&self, mut meta: ObjectMeta) -> ObjectMeta {
        let written = self.written.lock().unwrap().get(meta.location.as_ref()).copied().unwrap_or(0);
        let tick = self.tick.load(Ordering::Relaxed).max(1);
        meta.last_modified = (UNIX_EPOCH + Duration::from_nanos(written / tick * tick)).into();
        meta
    }

    fn put(&self, path: &Path, data: PutPayload, options: PutOptions, time: u64) -> Result<PutResult> {
        let put = now(self.objects.put_opts(path, data, options))?;
        self.written.lock().unwrap().insert(path.as_ref().into(), time);
        Ok(put)
    }
}

impl SimStore {
    /// Sends a request, and waits for its answer.
    fn ask<R: Send + 'static>(
        &self,
        what: impl Fn() -> String,
        apply: impl Fn(&Inner, u64) -> Result<R> + Send + Sync + 'static,
    ) -> Result<R> {
        let Some(here) = here() else { return apply(&self.0, 0) };
        let apply = Arc::new(apply);
        for _ in 0..ATTEMPTS {
            match self.attempt(&here, &what, &apply) {
                Some(answer) => return answer,
                None if !here.alive() => return Err(broken("this process is dead")),
                None => {}
            }
        }
        Err(broken("no answer"))
    }

    /// One attempt at a request; `None` if there is no answer.
    fn attempt<R: Send + 'static>(
        &self,
        here: &Here,
        what: &dyn Fn() -> String,
        apply: &Arc<impl Fn(&Inner, u64) -> Result<R> + Send + Sync + 'static>,
    ) -> Option<Result<R>> {
        let (inner, apply, slot) = (self.0.clone(), apply.clone(), Arc::new(Mutex::new(None)));
        let answer = slot.clone();
        let (until, answered, pauses) = {
            let mut s = here.world.state();
            if !s.processes[here.process].alive {
                return None;
            }
            let most = if s.chance(0.95) { SECOND / 20 } else { 4 * SECOND };
            let (there, back) = (s.some_time(most), s.some_time(most));
            let part = s.faults;
            let (lost, late) = if s.chance(part) { (s.chance(0.3), s.some_time(STUCK)) } else { (false, 0) };
            // The request arrives after its caller has given up, or the answer is lost.
            let fault = lost || late > 0;
            let arrives = s.time + there + late;
            s.request(here.process, arrives);
            if !lost {
                s.happen(arrives, here.process, move |s| *slot.lock().unwrap() = Some(apply(&inner, s.time)));
            }
            let answered = !fault;
            let until = if answered { arrives + back } else { s.time + PATIENCE };
            (until, answered, s.processes[here.process].pauses)
        };
        here.tell(|| what() + if answered { "" } else { " (no answer will come)" });
        here.wait_until(until);
        let state = here.world.state();
        if !state.processes[here.process].alive {
            return None;
        }
        // Connections do not survive a long sleep, and a client that slept does not ask again.
        let slept = state.processes[here.process].pauses > pauses;
        drop(state);
        match answer.lock().unwrap().take() {
            Some(found) if answered => Some(found),
            _ if slept => Some(Err(broken("the connection was closed"))),
            _ => None,
        }
    }

    /// Sets the resolution of the store's times, in nanoseconds.
    pub fn set_tick(&self, tick: u64) {
        self.0.tick.store(tick, Ordering::Relaxed);
    }

    /// A stored object, without a request. Only tests use this.
    pub fn look(&self, key: &str) -> Option<Vec<u8>> {
        let found = now(async { self.0.objects.get(&Path::from(key)).await?.bytes().await });
        found.ok().map(|b| b.to_vec())
    }

    /// Writes an object without a request, as another program would.
    pub fn write(&self, key: &str, data: Vec<u8>, state: &State) {
        self.0.put(&Path::from(key), data.into(), PutOptions::default(), state.time).expect("memory");
    }
}

impl std::fmt::Display for SimStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a simulated store")
    }
}

#[async_trait::async_trait]
impl ObjectStore for SimStore {
    async fn put_opts(&self, path: &Path, data: PutPayload, options: PutOptions) -> Result<PutResult> {
        let at = path.clone();
        let how = match options.mode {
            PutMode::Overwrite => "write",
            PutMode::Create => "create",
            PutMode::Update(_) => "swap",
        };
        self.ask(|| format!("{how} {path}"), move |s, time| s.put(&at, data.clone(), options.clone(), time))
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(broken("no parts"))
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let at = path.clone();
        self.ask(
            || format!("read {path}"),
            move |s, _| {
                let mut found = now(s.objects.get_opts(&at, options.clone()))?;
                found.meta = s.dated(found.meta);
                Ok(found)
            },
        )
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let this = self.clone();
        // This counts as one request.
        let deleted = async move {
            let paths: Vec<Path> = paths.try_collect().await?;
            let named = paths.clone();
            let delete = move |s: &Inner, _: u64| {
                for path in &paths {
                    now(s.objects.delete(path)).or_else(|e| if matches!(e, Error::NotFound { .. }) { Ok(()) } else { Err(e) })?;
                }
                Ok(paths.clone())
            };
            this.ask(|| format!("delete {named:?}"), delete)
        };
        deleted
            .map(|done| futures::stream::iter(done.map_or_else(|e| vec![Err(e)], |all| all.into_iter().map(Ok).collect())))
            .flatten_stream()
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (this, prefix) = (self.clone(), prefix.cloned());
        let listed = async move {
            let named = prefix.clone();
            let list = move |s: &Inner, _: u64| {
                let all = now(s.objects.list(prefix.as_ref()).try_collect::<Vec<_>>())?;
                Ok(all.into_iter().map(|m| s.dated(m)).collect::<Vec<_>>())
            };
            this.ask(|| format!("list {named:?}"), list)
        };
        listed
            .map(|done| futures::stream::iter(done.map_or_else(|e| vec![Err(e)], |all| all.into_iter().map(Ok).collect())))
            .flatten_stream()
            .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let at = prefix.cloned();
        self.ask(|| format!("list {prefix:?}"), move |s, _| now(s.objects.list_with_delimiter(at.as_ref())))
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let (source, target) = (from.clone(), to.clone());
        let copy = move |s: &Inner, time: u64| {
            now(s.objects.copy_opts(&source, &target, options.clone()))?;
            s.written.lock().unwrap().insert(target.as_ref().into(), time);
            Ok(())
        };
        self.ask(|| format!("copy {from} to {to}"), copy)
    }
}
