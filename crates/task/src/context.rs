//! A plan with its arrays opened.

use crate::TaskError;
use chunkwise_kernels::{Block, Bound, Functions};
use chunkwise_plan::{ArrayRole, Codec, CodecMetadata, Encoding, Order, Plan, PlanArray, ShardEnd};
use chunkwise_storage::{
    ArrayIo, ArrayMeta, CodecChoice, Form, InputWatch, Location, MemoryTier, NewArray, ReadStats, StorageError, Stores, V2Form, at_once,
    new_meta_as, open_array, publish_array,
};
use chunkwise_types::{Region, Scalar};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the tasks of a run share in one process. Opened once; holds no state of the run.
pub struct TaskContext {
    /// The plan.
    pub plan: Plan,
    /// The folder of the run: the work directory and the plan's id.
    pub run_dir: Location,
    stores: Stores,
    pub(crate) arrays: BTreeMap<String, Opened>,
    memory: Option<Arc<MemoryTier>>,
}

pub(crate) struct Opened {
    pub location: Location,
    pub meta: ArrayMeta,
    pub io: ArrayIo,
    pub watch: Arc<InputWatch>,
}

/// The stored form of an array that a plan describes.
fn meta_of(array: &PlanArray, e: &Encoding) -> Result<ArrayMeta, StorageError> {
    let json = |list: &[CodecMetadata]| list.iter().map(CodecMetadata::to_json).collect::<Vec<_>>();
    let location = |end| if end == ShardEnd::Start { "start" } else { "end" }.to_string();
    let mut form = Form {
        index: e.index.as_ref().map(|i| (location(i.index_location), json(&i.index_codecs))),
        half: e.stored_dtype.is_some(),
        ..Form::default()
    };
    let codec = match &e.codec {
        Codec::Default => CodecChoice::Default,
        Codec::None => CodecChoice::None,
        Codec::Zstd(level) => CodecChoice::Zstd { level: *level },
        Codec::Gzip(level) => CodecChoice::Gzip { level: *level },
        Codec::Codecs(list) => {
            form.codecs = Some(json(list));
            CodecChoice::None
        }
        Codec::V2(v2) => {
            form.v2 = Some(V2Form {
                compressor: serde_json::json!(v2.compressor),
                filters: if v2.filters.is_empty() { serde_json::Value::Null } else { serde_json::json!(v2.filters) },
                order: if v2.order == Order::C { "C" } else { "F" },
                big_endian: v2.big_endian,
                no_fill: e.fill_value.is_none(),
            });
            CodecChoice::None
        }
    };
    form.chunk_keys = e.chunk_keys.map(|k| (k.name(), k.separator.as_str()));
    let new = NewArray {
        dtype: array.dtype,
        shape: array.shape.clone(),
        chunks: e.chunks.clone(),
        shards: e.shards.clone(),
        codec,
        fill_value: e.fill_value.unwrap_or(Scalar::Int(0)),
        dimension_names: e.dimension_names.clone(),
        attributes: e.attributes.clone(),
    };
    new_meta_as(&new, &form)
}

impl TaskContext {
    /// Opens every array of a plan with these stores. Nothing is written.
    pub fn open(stores: &Stores, plan: Plan) -> Result<TaskContext, TaskError> {
        plan.validate()?;
        stores.configure(&plan.spec.storage).map_err(|source| TaskError::Open { array: "spec.storage".into(), source })?;
        let at = |array: &str| {
            let array = array.to_string();
            move |source| TaskError::Open { array, source }
        };
        let run_dir = Location::parse(&plan.spec.work_dir, None).map_err(at("work_dir"))?.join(&plan.id());
        let mut arrays = BTreeMap::new();
        for (name, array) in &plan.arrays {
            let location = match array.role {
                ArrayRole::Intermediate => run_dir.join(&array.url),
                _ => Location::parse(&array.url, None).map_err(at(name))?,
            };
            let meta = match (&array.encoding, &array.metadata) {
                (Some(e), _) if array.role != ArrayRole::Input => meta_of(array, e).map_err(at(name))?,
                (_, Some(json)) => serde_json::from_value(json.clone()).map_err(chunkwise_plan::PlanError::Parse)?,
                _ => open_array(stores, &location).map_err(at(name))?,
            };
            if meta.shape != array.shape || meta.dtype != array.dtype {
                return Err(TaskError::Plan(chunkwise_plan::PlanError::Invalid {
                    place: format!("array '{name}' at {}", location.as_str()),
                    problem: format!(
                        "the plan says {} {:?}, but it is {} {:?}; plan again",
                        array.dtype, array.shape, meta.dtype, meta.shape
                    ),
                }));
            }
            // The projection counts on the grid: a store that was rewritten in other chunks may need more memory.
            if meta.grid != array.grid || meta.inner_chunk != array.inner_chunk {
                return Err(TaskError::Plan(chunkwise_plan::PlanError::Invalid {
                    place: format!("array '{name}' at {}", location.as_str()),
                    problem: format!(
                        "the plan says that its chunks are {:?}, but they are {:?}; plan again",
                        array.read_grid().max_shape(),
                        meta.inner_chunk.clone().unwrap_or_else(|| meta.grid.max_shape())
                    ),
                }));
            }
            // Of what the plan writes, its encoding says what decoding takes.
            let access = meta.access();
            let as_encoded = array.role != ArrayRole::Input && array.access.is_default();
            if !as_encoded && !array.access.covers(access) {
                return Err(TaskError::Plan(chunkwise_plan::PlanError::Invalid {
                    place: format!("array '{name}' at {}", location.as_str()),
                    problem: format!("the plan says that its chunks are read {}, but they are read {access}; plan again", array.access),
                }));
            }
            let io = ArrayIo::new(stores, &location, &meta).map_err(at(name))?;
            let watch = Arc::new(InputWatch::default());
            let io = Self::settled(io, array, &watch);
            arrays.insert(name.clone(), Opened { location, meta, io, watch });
        }
        Ok(TaskContext { plan, run_dir, stores: stores.clone(), arrays, memory: None })
    }

    /// Keeps intermediates, and decoded chunks of other arrays, in memory while there is room; for tasks that run in this process.
    pub fn with_memory(mut self, tier: &Arc<MemoryTier>) -> Result<TaskContext, TaskError> {
        for (name, opened) in &mut self.arrays {
            let open = match self.plan.arrays[name].role {
                ArrayRole::Intermediate => ArrayIo::in_memory,
                _ => ArrayIo::cached,
            };
            let io = open(&self.stores, &opened.location, &opened.meta, tier)
                .map_err(|source| TaskError::Open { array: name.clone(), source })?;
            opened.io = Self::settled(io, &self.plan.arrays[name], &opened.watch);
        }
        self.memory = Some(tier.clone());
        Ok(self)
    }

    /// Keeps decoded chunks in memory while there is room, but writes intermediates to storage; for one of several processes.
    pub fn with_cache(mut self, tier: &Arc<MemoryTier>) -> Result<TaskContext, TaskError> {
        for (name, opened) in &mut self.arrays {
            let io = ArrayIo::cached(&self.stores, &opened.location, &opened.meta, tier);
            let io = io.map_err(|source| TaskError::Open { array: name.clone(), source })?;
            opened.io = Self::settled(io, &self.plan.arrays[name], &opened.watch);
        }
        self.memory = Some(tier.clone());
        Ok(self)
    }

    /// Binds the functions of users that the plan calls. Without this, a task that calls one fails.
    ///
    /// # Errors
    /// When a function is not there, or not in this version.
    pub fn with_functions(mut self, functions: &Functions) -> Result<TaskContext, TaskError> {
        for (s, stage) in self.plan.stages.iter_mut().enumerate() {
            let name = &stage.name;
            for call in stage.program.steps.iter_mut().filter_map(|step| step.kernel.as_mut()?.call_mut()) {
                let Some(function) = functions.get(&call.function, &call.version) else {
                    let versions: Vec<String> = functions.versions(&call.function).map(|v| format!("'{v}'")).collect();
                    let known =
                        if versions.is_empty() { "does not have".into() } else { format!("has in version {}", versions.join(", ")) };
                    let (function, version) = (call.function.clone(), call.version.clone());
                    return Err(TaskError::NoFunction { stage: s, name: name.clone(), function, version, known });
                };
                call.bound = Bound::to(function.clone());
            }
        }
        Ok(self)
    }

    /// As the plan wants it read: tasks read of what the plan writes only what is written.
    fn settled(io: ArrayIo, array: &PlanArray, watch: &Arc<InputWatch>) -> ArrayIo {
        let io = io.with_in_flight(array.in_flight);
        if array.role == ArrayRole::Input { io.watched(watch) } else { io.complete() }
    }

    /// What tasks of this process share beside their own memory.
    pub fn memory(&self) -> Option<&MemoryTier> {
        self.memory.as_deref()
    }

    /// The handle with which everything of the run is opened.
    pub fn stores(&self) -> &Stores {
        &self.stores
    }

    fn opened(&self, name: &str) -> &Opened {
        // Validation made sure that every name of a stage is an array of the plan.
        &self.arrays[name]
    }

    /// The chunks of an array of the plan.
    pub fn array(&self, name: &str) -> &ArrayIo {
        &self.opened(name).io
    }

    /// A region of an array, if that is in memory and in one chunk: a view of what the chunk was stored from.
    pub(crate) fn in_place(&self, name: &str, region: &Region) -> Result<Option<(Block, ReadStats)>, StorageError> {
        let Some((chunk, owner)) = self.array(name).shared(region)? else { return Ok(None) };
        let Some(block) = owner.downcast_ref::<Block>() else { return Ok(None) };
        let part = block.slice(&region.relative_to(&chunk));
        let stats = ReadStats { bytes_read: part.bytes(), chunks: 1, gets: 1, heads: 0 };
        Ok(Some((part, stats)))
    }

    /// Where an array of the plan is.
    pub fn array_location(&self, name: &str) -> &Location {
        &self.opened(name).location
    }

    /// Writes the metadata of an array: from now on it can be opened.
    pub fn publish(&self, name: &str) -> Result<(), TaskError> {
        let a = self.opened(name);
        publish_array(&self.stores, &a.location, &a.meta).map_err(|source| TaskError::Open { array: name.into(), source })
    }

    /// Removes the metadata of an array: from now on it cannot be opened.
    pub fn unpublish(&self, name: &str) -> Result<(), TaskError> {
        let remove = || -> Result<(), StorageError> {
            let store = self.stores.open(&self.opened(name).location)?;
            at_once(&["zarr.json", ".zarray", ".zattrs"], |key| store.delete(key)).into_iter().collect()
        };
        remove().map_err(|source| TaskError::Open { array: name.into(), source })
    }

    /// Deletes the chunks of an array.
    pub fn clear(&self, name: &str) -> Result<(), TaskError> {
        self.array(name).clear().map_err(|source| TaskError::Open { array: name.into(), source })
    }
}
