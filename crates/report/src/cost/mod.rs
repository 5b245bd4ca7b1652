//! What a plan would cost on AWS Lambda and S3, and what a run has cost.
//!
//! The model is small, so that it can be checked by hand. Of each stage it knows the bytes and requests that the plan projects, and how many
//! bytes or operations pass through the steps of its program. A function moves bytes over its network, waits for answers and computes, all at
//! once, so the slowest of the three counts:
//!
//! ```text
//! network  = bytes read and written / network_bytes
//! waiting  = requests * request_seconds / (requests_at_once * tasks at once)
//! cpu      = (read / decode_bytes + written / encode_bytes + passed / work_bytes + operations / flops) / processors in use
//! seconds  = max(network, waiting, cpu)
//! ```
//!
//! summed over all functions. They are cut into invocations of `batch_seconds`, each of which costs `invocation_seconds` more; seconds times
//! the memory of the function are GB-seconds. Bytes are those before compression, so where data shrinks the network takes less than
//! projected. A function has one processor for every 1769 MB of its memory.

mod compare;
mod prices;

pub use compare::{Actual, Billed, Comparison, compare};
pub use prices::{PriceError, Prices, Rates, Region};

use chunkwise_kernels::{ArrayType, Node};
use chunkwise_plan::{ArrayRole, Plan, Requests, Stage};
use chunkwise_types::{ByteSize, volume};
use serde::Serialize;

/// Memory that comes with one processor, in MiB.
const MIB_PER_PROCESSOR: f64 = 1769.0;
/// The smallest and the largest function, in MiB.
const FUNCTION_MIB: (u64, u64) = (128, 10_240);
const GB: f64 = (1u64 << 30) as f64;
const MONTH_SECONDS: f64 = 30.0 * 86_400.0;
/// States that the state machine enters for each range of tasks, each stage, and the run as a whole (`infra/aws/state-machine.asl.json`).
const TRANSITIONS: (u64, u64, u64) = (3, 4, 8);

/// The processor of a function.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Architecture {
    /// Intel and AMD.
    #[default]
    #[serde(rename = "x86_64")]
    X86_64,
    /// Graviton.
    Arm64,
}

impl Architecture {
    /// As AWS writes it.
    pub fn name(self) -> &'static str {
        match self {
            Architecture::X86_64 => "x86_64",
            Architecture::Arm64 => "arm64",
        }
    }
}

/// The function that is taken to run the plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Setup {
    /// The region.
    pub region: String,
    /// The processor.
    pub architecture: Architecture,
    /// Memory of the function in MiB.
    pub memory_mib: u64,
    /// Invocations that run at once, at most.
    pub concurrency: u64,
}

impl Setup {
    /// A function with the memory that a plan allows to a worker, as far as there are such functions.
    pub fn of(plan: &Plan, region: &str) -> Setup {
        let memory_mib = plan.spec.allowed_mem.div_ceil(1 << 20).clamp(FUNCTION_MIB.0, FUNCTION_MIB.1);
        Setup { region: region.into(), architecture: Architecture::default(), memory_mib, concurrency: 1000 }
    }

    fn processors(&self) -> f64 {
        self.memory_mib as f64 / MIB_PER_PROCESSOR
    }

    /// Tasks of a stage that a function of this size runs at once; 0 if it cannot run one.
    fn at_once(&self, plan: &Plan, stage: &Stage) -> u64 {
        let room = (self.memory_mib << 20).saturating_sub(plan.spec.reserved_mem);
        (room / stage.projected_mem.max(1)).min((self.processors() as u64).max(1))
    }

    fn gb(&self) -> f64 {
        self.memory_mib as f64 / 1024.0
    }
}

/// What is paid for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Usage {
    /// Seconds of tasks.
    pub task_seconds: f64,
    /// Invocations of the function.
    pub invocations: u64,
    /// Seconds of the function times its memory in units of 1024 MiB.
    pub gb_seconds: f64,
    /// GET and HEAD requests.
    pub gets: u64,
    /// PUT and LIST requests.
    pub puts: u64,
}

impl Usage {
    fn plus(self, o: Usage) -> Usage {
        Usage {
            task_seconds: self.task_seconds + o.task_seconds,
            invocations: self.invocations.saturating_add(o.invocations),
            gb_seconds: self.gb_seconds + o.gb_seconds,
            gets: self.gets.saturating_add(o.gets),
            puts: self.puts.saturating_add(o.puts),
        }
    }

    /// Seconds of functions and requests in USD.
    fn money(&self, prices: &Region, architecture: Architecture) -> Money {
        let gb_second = match architecture {
            Architecture::X86_64 => prices.lambda_gb_second_x86_64,
            Architecture::Arm64 => prices.lambda_gb_second_arm64,
        };
        let function = self.gb_seconds * gb_second + self.invocations as f64 / 1e6 * prices.lambda_million_requests;
        let requests = (self.gets as f64 * prices.s3_thousand_gets + self.puts as f64 * prices.s3_thousand_puts) / 1e3;
        Money { function, requests, storage: 0.0 }
    }
}

/// Money in USD.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Money {
    /// GB-seconds and invocations.
    pub function: f64,
    /// Requests to storage.
    pub requests: f64,
    /// Intermediates, as long as the run takes.
    pub storage: f64,
}

impl Money {
    /// All of it.
    pub fn total(&self) -> f64 {
        self.function + self.requests + self.storage
    }
}

/// What a stage would use.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageCost {
    /// Its name.
    pub name: String,
    /// Tasks that one function runs at once; 0 if one task needs more memory than the function has.
    pub at_once: u64,
    /// How long it takes from its first task to its last, in seconds.
    pub elapsed: f64,
    /// What it uses.
    pub usage: Usage,
}

/// What a plan would cost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Projection {
    /// The function.
    pub setup: Setup,
    /// The stages.
    pub stages: Vec<StageCost>,
    /// All of them.
    pub usage: Usage,
    /// How long it takes in seconds, with all the concurrency that is allowed, one stage after another.
    pub elapsed: f64,
    /// Bytes of intermediates before compression.
    pub intermediate_bytes: u64,
    /// Bytes of outputs before compression.
    pub output_bytes: u64,
    /// In USD.
    pub money: Money,
    /// Keeping the outputs for a month, in USD.
    pub outputs_month: f64,
    /// Transitions of the state machine, if that runs it.
    pub transitions: u64,
    /// Those in USD; not part of `money`.
    pub transitions_money: f64,
}

/// Bytes that pass through the steps of a program, and operations of matrix products, over the whole of their values.
fn work(stage: &Stage) -> (f64, f64) {
    let (mut passed, mut operations) = (0.0, 0.0);
    for step in &stage.program.steps {
        let Some(kernel) = &step.kernel else { continue };
        let inputs: Vec<ArrayType> = step.inputs.iter().filter_map(|&i| stage.program.steps.get(i)).map(|s| s.ty.clone()).collect();
        if inputs.len() != step.inputs.len() {
            continue;
        }
        let work = Node { kernel, inputs: &inputs, output: &step.ty }.work();
        passed += work.bytes;
        operations += work.operations;
    }
    (passed, operations)
}

fn stage_cost(plan: &Plan, stage: &Stage, setup: &Setup, rates: &Rates) -> StageCost {
    let tasks = stage.tasks();
    let at_once = setup.at_once(plan, stage);
    let (c, at) = (&stage.cost, at_once.max(1) as f64);
    let (read, written) = (c.bytes_read as f64, c.bytes_written as f64);
    let (passed, operations) = work(stage);
    let network = (read + written) / rates.network_bytes;
    let waiting = c.gets.saturating_add(c.puts) as f64 * rates.request_seconds / (rates.requests_at_once * at);
    let processors = setup.processors();
    let cpu = read / rates.decode_bytes + written / rates.encode_bytes + passed / rates.work_bytes + operations / rates.flops;
    let seconds = network.max(waiting).max(cpu / processors.min(at));
    // Nothing is split beyond tasks, and an invocation has a few of them at once.
    let most = tasks.div_ceil(at as u64);
    let invocations = ((seconds / rates.batch_seconds).ceil().min(most as f64) as u64).max(tasks.min(1));
    let in_functions = seconds + invocations as f64 * rates.invocation_seconds;
    // With more concurrency than invocations of that length, they are made shorter.
    let spread = setup.concurrency.min(most).max(1);
    let elapsed = if tasks == 0 { 0.0 } else { seconds / spread as f64 + rates.invocation_seconds };
    StageCost {
        name: stage.name.clone(),
        at_once,
        elapsed,
        usage: Usage {
            task_seconds: seconds * at,
            invocations,
            gb_seconds: in_functions * setup.gb(),
            // An invocation reads the plan and writes its reports.
            gets: c.gets.saturating_add(invocations),
            puts: c.puts.saturating_add(invocations),
        },
    }
}

/// What a plan would cost on a function.
///
/// ```
/// use chunkwise_plan::Plan;
/// use chunkwise_report::cost::{Architecture, Prices, Setup, project};
/// let plan = Plan::from_json(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/plan.json")))?;
/// let setup = Setup { architecture: Architecture::Arm64, ..Setup::of(&plan, "eu-west-1") };
/// let projection = project(&plan, &setup, &Prices::built_in()?)?;
/// println!("{:.4} USD, {:.0} GB-seconds", projection.money.total(), projection.usage.gb_seconds);
/// assert!(projection.money.total() < 0.01);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// When there are no prices of the region.
pub fn project(plan: &Plan, setup: &Setup, prices: &Prices) -> Result<Projection, PriceError> {
    let region = prices.region(&setup.region)?;
    let stages: Vec<StageCost> = plan.stages.iter().map(|s| stage_cost(plan, s, setup, &prices.rates)).collect();
    let usage = stages.iter().fold(Usage::default(), |a, s| a.plus(s.usage));
    let elapsed: f64 = stages.iter().map(|s| s.elapsed).sum();
    let bytes = |role: ArrayRole| {
        let arrays = plan.arrays.values().filter(|a| a.role == role);
        arrays.map(|a| volume(&a.shape).saturating_mul(a.dtype.size())).fold(0, u64::saturating_add)
    };
    let (intermediate_bytes, output_bytes) = (bytes(ArrayRole::Intermediate), bytes(ArrayRole::Output));
    let mut money = usage.money(region, setup.architecture);
    money.storage = intermediate_bytes as f64 / GB * region.s3_gb_month * elapsed / MONTH_SECONDS;
    let (each, stage, run) = TRANSITIONS;
    let transitions = usage.invocations.saturating_mul(each).saturating_add(stage * stages.len() as u64 + run);
    Ok(Projection {
        setup: setup.clone(),
        stages,
        usage,
        elapsed,
        intermediate_bytes,
        output_bytes,
        money,
        outputs_month: output_bytes as f64 / GB * region.s3_gb_month,
        transitions,
        transitions_money: transitions as f64 / 1e3 * region.step_functions_thousand_transitions,
    })
}

/// Money with two figures that count, and cents of large sums.
pub(crate) fn usd(amount: f64) -> String {
    let digits = if amount >= 1.0 || amount <= 0.0 { 2 } else { (1 - amount.log10().floor() as i32).clamp(2, 8) as usize };
    format!("{amount:.digits$} USD")
}

/// Seconds for people.
pub(crate) fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 10.0 => format!("{s:.1} s"),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

impl Projection {
    /// Two lines for below the table of stages.
    pub fn summary(&self) -> String {
        let s = &self.setup;
        let mut out = format!(
            "on AWS Lambda in {} ({}, {} MB): about {} and {}; {:.0} GB-seconds in {} invocations, {} requests; outputs {} a month\n",
            s.region,
            s.architecture.name(),
            s.memory_mib,
            usd(self.money.total()),
            duration(self.elapsed),
            self.usage.gb_seconds,
            self.usage.invocations,
            self.usage.gets.saturating_add(self.usage.puts),
            usd(self.outputs_month),
        );
        for stage in self.stages.iter().filter(|s| s.at_once == 0) {
            out += &format!("a task of stage '{}' needs more memory than that function has\n", stage.name);
        }
        out
    }

    /// Every stage, what it is paid for, and of when the prices are.
    pub fn details(&self, prices: &Prices) -> String {
        let mut rows =
            vec![["#", "stage", "at once", "task time", "elapsed", "invocations", "GB-s", "GET", "PUT"].map(String::from).to_vec()];
        for (i, s) in self.stages.iter().enumerate() {
            rows.push(vec![
                i.to_string(),
                s.name.clone(),
                s.at_once.to_string(),
                duration(s.usage.task_seconds),
                duration(s.elapsed),
                s.usage.invocations.to_string(),
                format!("{:.1}", s.usage.gb_seconds),
                s.usage.gets.to_string(),
                s.usage.puts.to_string(),
            ]);
        }
        let mut out = crate::aligned(&rows, 2);
        for (what, amount) in [
            ("function", self.money.function),
            ("requests", self.money.requests),
            ("intermediates while it runs", self.money.storage),
            ("together", self.money.total()),
            ("the state machine, if it is used, besides", self.transitions_money),
            ("outputs, each month", self.outputs_month),
        ] {
            out += &format!("{what}: {}\n", usd(amount));
        }
        out +=
            &format!("intermediates {}, outputs {}, before compression\n", ByteSize(self.intermediate_bytes), ByteSize(self.output_bytes));
        for (service, source) in &prices.sources {
            out += &format!("prices of {service}: {source}\n");
        }
        out
    }
}

/// Requests of all stages as what is paid for.
fn classes(requests: &[Requests]) -> (u64, u64) {
    let all = requests.iter().fold(Requests::default(), |a, &r| a.plus(r));
    (all.gets + all.heads, all.puts + all.lists)
}

#[cfg(test)]
mod tests;
