//! What a plan would cost on AWS Lambda, and what a run has cost.

use chunkwise::ByteSize;
use chunkwise::executor::RunReport;
use chunkwise::plan::Plan;
use chunkwise::report::cost::{Actual, Architecture, Billed, Comparison, Prices, Projection, Setup, compare, project};
use miette::{Report, miette};
use std::path::PathBuf;

/// The function that is taken to run a plan, and what it is paid with.
#[derive(clap::Args, Clone)]
#[command(next_help_heading = "Cost on AWS Lambda")]
pub(crate) struct CostArgs {
    /// The region [default: AWS_REGION, that of the work directory, or us-east-1].
    #[arg(long)]
    region: Option<String>,
    /// Memory of the function [default: what is allowed to a worker].
    #[arg(long, value_name = "SIZE")]
    function_memory: Option<ByteSize>,
    /// Processor of the function.
    #[arg(long, default_value = "x86_64", value_parser = ["x86_64", "arm64"])]
    architecture: String,
    /// Prices and rates that override those that are built in [default: CHUNKWISE_PRICES; see docs/aws.md].
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
}

impl Default for CostArgs {
    fn default() -> Self {
        CostArgs { region: None, function_memory: None, architecture: "x86_64".into(), prices: None }
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|v| !v.is_empty())
}

fn region(args: &CostArgs, plan: &Plan) -> String {
    let of_store = || plan.spec.storage.iter().find(|(p, _)| plan.spec.work_dir.starts_with(*p)).and_then(|(_, o)| o.region.clone());
    let of_environment = || variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION"));
    args.region.clone().or_else(of_environment).or_else(of_store).unwrap_or_else(|| "us-east-1".into())
}

fn prices(args: &CostArgs) -> Result<Prices, Report> {
    let file = args.prices.clone().or_else(|| variable("CHUNKWISE_PRICES").map(PathBuf::from));
    let Some(file) = file else { return Prices::built_in().map_err(|e| miette!("{e}")) };
    let name = file.display().to_string();
    let text = std::fs::read_to_string(&file).map_err(|e| miette!("cannot read the prices in '{name}': {e}"))?;
    Prices::overridden(&text, &name).map_err(|e| miette!("{e}"))
}

/// The projected cost of the plan, and the prices it is based on.
pub(crate) fn projected(plan: &Plan, args: &CostArgs) -> Result<(Projection, Prices), Report> {
    let prices = prices(args)?;
    let mut setup = Setup::of(plan, &region(args, plan));
    if let Some(memory) = args.function_memory {
        setup.memory_mib = memory.0.div_ceil(1 << 20).max(1);
    }
    if args.architecture == "arm64" {
        setup.architecture = Architecture::Arm64;
    }
    let projection = project(plan, &setup, &prices).map_err(|e| miette!("{e}"))?;
    Ok((projection, prices))
}

/// The measured use of a run, beside the projection.
pub(crate) fn compared(plan: &Plan, report: &RunReport) -> Result<Comparison, Report> {
    let used = report.usage.as_ref();
    let args = CostArgs { region: used.map(|u| u.region.clone()).filter(|r| !r.is_empty()), ..CostArgs::default() };
    let (projection, prices) = projected(plan, &args)?;
    let billed = used.map(|u| Billed { invocations: u.invocations, gb_seconds: u.gb_seconds });
    let actual = Actual { task_seconds: &report.task_seconds, requests: &report.requests, elapsed: report.seconds, billed };
    compare(&projection, &actual, &prices).map_err(|e| miette!("{e}"))
}
