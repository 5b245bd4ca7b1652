//! The spec of a pipeline file: memory, work directory, executor, and how object stores are reached.

use super::{Reader, Result1};
use crate::Spanned;
use crate::node::{Data, Node};
use chunkwise_types::{ByteSize, StoreOptions, secret_field};
use std::collections::BTreeMap;

/// Workers, at most: as many as a plan may have.
const MAX_WORKERS: i128 = 4096;

/// How to run.
#[derive(Debug, Clone, Default)]
pub struct Spec {
    /// Memory a task may use.
    pub allowed_mem: Option<Spanned<ByteSize>>,
    /// Where intermediate arrays go.
    pub work_dir: Option<Spanned<String>>,
    /// False: every operation is a stage of its own (for debugging).
    pub fuse: Option<bool>,
    /// The executor's name.
    pub executor: Option<Spanned<String>>,
    /// Options of the executor.
    pub executor_options: BTreeMap<String, String>,
    /// How many workers.
    pub workers: Option<Spanned<usize>>,
    /// How object stores are reached, by URL prefix.
    pub storage: BTreeMap<String, StoreOptions>,
    /// Whether inputs that say nothing of it are unpacked by the CF conventions; they are if this says nothing either.
    pub decode_cf: Option<bool>,
    /// What becomes of elements whose labels are not in every operand: exact, inner, outer, left or override.
    pub join: Option<Spanned<String>>,
    /// Whether small chunks of outputs are joined, where none are asked for; they are if this says nothing.
    pub join_chunks: Option<bool>,
}

impl Reader<'_> {
    pub(super) fn spec(&self, node: &Node) -> Result1<Spec> {
        let mut spec = Spec::default();
        const KNOWN: [&str; 10] =
            ["allowed_mem", "work_dir", "executor", "executor_options", "workers", "fuse", "storage", "decode_cf", "join", "join_chunks"];
        for (key, v) in self.fields(node, &KNOWN, "'spec'")? {
            match key {
                "allowed_mem" => {
                    if matches!(v.data, Data::Null | Data::Seq(_) | Data::Map(_) | Data::Bool(_)) {
                        return Err(self.wrong(v, "'allowed_mem'", "a size such as 500MB or 2GiB"));
                    }
                    if v.raw.trim().starts_with('-') {
                        let e = self.error(&v.span, format!("'allowed_mem' cannot be negative: {}", v.raw.trim()), "this size");
                        return Err(e.with_help("write a number with a unit, such as 500MB or 2GiB"));
                    }
                    let size =
                        v.raw.parse().map_err(|e: chunkwise_types::ByteSizeError| self.error(&v.span, e.to_string(), "this size"))?;
                    spec.allowed_mem = Some(Spanned::new(size, v.span.clone()));
                }
                "fuse" => spec.fuse = Some(self.flag(v, "'fuse'")?),
                "decode_cf" => spec.decode_cf = Some(self.flag(v, "'decode_cf'")?),
                "join_chunks" => spec.join_chunks = Some(self.flag(v, "'join_chunks'")?),
                "join" => spec.join = Some(self.string(v, "'join'")?),
                "storage" => {
                    for (prefix, options) in self.map(v, "'storage'")? {
                        spec.storage.insert(prefix.raw.clone(), self.store_options(prefix, options)?);
                    }
                }
                "work_dir" => spec.work_dir = Some(self.string(v, "'work_dir'")?),
                "executor" => spec.executor = Some(self.string(v, "'executor'")?),
                "executor_options" => spec.executor_options = self.executor_options(v)?,
                _ => match v.data {
                    Data::Int(n @ 1..=MAX_WORKERS) => spec.workers = Some(Spanned::new(n as usize, v.span.clone())),
                    _ => return Err(self.error(&v.span, format!("'workers' must be an integer from 1 to {MAX_WORKERS}"), "this value")),
                },
            }
        }
        Ok(spec)
    }

    /// Which of them a pipeline may set is said by the executor.
    fn executor_options(&self, node: &Node) -> Result1<BTreeMap<String, String>> {
        let mut out = BTreeMap::new();
        for (key, v) in self.map(node, "'executor_options'")? {
            if matches!(v.data, Data::Map(_) | Data::Seq(_) | Data::Null) {
                return Err(self.wrong(v, &format!("'{}'", key.raw), "text or a number"));
            }
            if out.insert(key.raw.clone(), v.raw.clone()).is_some() {
                return Err(self.error(&key.span, format!("the key '{}' is given twice", key.raw), "given again here"));
            }
        }
        Ok(out)
    }

    fn store_options(&self, prefix: &Node, node: &Node) -> Result1<StoreOptions> {
        const KNOWN: [&str; 11] = [
            "endpoint",
            "region",
            "path_style",
            "anonymous",
            "allow_http",
            "profile",
            "account",
            "timeout",
            "connect_timeout",
            "retries",
            "connections",
        ];
        for (key, _) in self.map(node, "the options of a store")? {
            if let Some(problem) = secret_field(&key.raw).filter(|_| !KNOWN.contains(&key.raw.as_str())) {
                return Err(self.error(&key.span, problem, "this key"));
            }
        }
        let mut o = StoreOptions::default();
        for (key, v) in self.fields(node, &KNOWN, "the options of a store")? {
            let what = format!("'{key}'");
            let text = || self.string(v, &what).map(|s| Some(s.value));
            let flag = || match v.data {
                Data::Bool(b) => Ok(Some(b)),
                _ => Err(self.wrong(v, &what, "true or false")),
            };
            let seconds = || match v.data {
                Data::Int(n) => Ok(Some(n as f64)),
                Data::Float(f) => Ok(Some(f)),
                _ => Err(self.wrong(v, &what, "a number of seconds")),
            };
            let count = || match v.data {
                Data::Int(n) if u32::try_from(n).is_ok() => Ok(u32::try_from(n).ok()),
                _ => Err(self.wrong(v, &what, "an integer of at least 0")),
            };
            match key {
                "endpoint" => o.endpoint = text()?,
                "region" => o.region = text()?,
                "path_style" => o.path_style = flag()?,
                "anonymous" => o.anonymous = flag()?,
                "allow_http" => o.allow_http = flag()?,
                "profile" => o.profile = text()?,
                "account" => o.account = text()?,
                "timeout" => o.timeout = seconds()?,
                "connect_timeout" => o.connect_timeout = seconds()?,
                "retries" => o.retries = count()?,
                _ => o.connections = count()?,
            }
        }
        o.check(&prefix.raw).map_err(|e| self.error(&prefix.span, e, "these options"))?;
        Ok(o)
    }
}
