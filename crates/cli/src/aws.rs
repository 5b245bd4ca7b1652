//! `submit`, `status`, `logs` and `cancel`: runs that need no machine of the user's.

use crate::failure::Said;
use crate::out::{errln, out, outln};
use chunkwise::ByteSize;
use chunkwise::executor::function::Mode;
use chunkwise_aws::{Aws, AwsError, AwsOptions, Deployment, RunStatus, State, Submission};
use miette::{Report, miette};
use serde_json::json;

type Outcome = Result<(), Report>;

/// Which deployment.
#[derive(clap::Args, Clone)]
pub(crate) struct StackArgs {
    /// The CloudFormation stack (infra/aws/chunkwise.yaml).
    #[arg(long, env = "CHUNKWISE_STACK")]
    stack: String,
    /// The region of the stack [default: AWS_REGION, or that of the profile].
    #[arg(long)]
    region: Option<String>,
}

#[derive(clap::Args, Clone)]
pub(crate) struct SubmitArgs {
    /// The pipeline: a URL that the function may read, or a file, whose text is handed over.
    pipeline: String,
    #[command(flatten)]
    stack: StackArgs,
    /// Replace outputs that exist.
    #[arg(long, conflicts_with = "resume")]
    overwrite: bool,
    /// Go on with an unfinished run of the same pipeline.
    #[arg(long)]
    resume: bool,
    /// What one function may use [default: all of its memory].
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, value_parser = crate::size)]
    allowed_mem: Option<ByteSize>,
    /// Where intermediates are kept [default: what the pipeline says, or work/ in the bucket of the stack].
    #[arg(long)]
    work_dir: Option<String>,
    /// Sets a parameter of the pipeline.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = crate::name_value)]
    set: Vec<(String, String)>,
    /// Wait until the run is over.
    #[arg(long)]
    wait: bool,
}

#[derive(clap::Args, Clone)]
pub(crate) struct RunArgs {
    /// What `submit` has printed.
    run: String,
    #[command(flatten)]
    stack: StackArgs,
}

#[derive(clap::Args, Clone)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    run: RunArgs,
    /// Wait until the run is over.
    #[arg(long)]
    wait: bool,
}

fn say(e: AwsError) -> Report {
    Report::new(Said::Aws(e))
}

fn connect(args: &StackArgs) -> Result<(Aws, Deployment), Report> {
    let options = AwsOptions { region: args.region.clone(), ..AwsOptions::default() };
    let aws = Aws::connect(&options).map_err(|e| say(e.into()))?;
    let deployment = Deployment::of_stack(&aws, &args.stack).map_err(say)?;
    Ok((aws, deployment))
}

/// Takes the function and the work directory from the stack, if they are not given.
pub(crate) fn resolve(limits: &mut crate::Limits) -> Outcome {
    let Some(stack) = limits.stack.clone() else { return Ok(()) };
    let (_, deployment) = connect(&StackArgs { stack, region: None })?;
    if limits.function.is_none() {
        limits.function = Some(deployment.function().map_err(say)?.into());
    }
    limits.default_work_dir = Some(deployment.work_dir().map_err(say)?.into());
    Ok(())
}

fn legible(s: &RunStatus) -> String {
    let mut out = format!("{} {} ({} s)\n", s.run, s.state.name(), s.seconds.round());
    if let Some(plan) = &s.plan {
        out += &format!("plan {plan}\n");
    }
    for stage in s.progress.iter().flat_map(|p| &p.stages) {
        out += &format!("stage {} '{}': {} of {} chunks are stored\n", stage.stage, stage.name, stage.stored, stage.chunks);
    }
    for url in &s.outputs {
        out += &format!("wrote {url}\n");
    }
    for failure in s.progress.iter().flat_map(|p| &p.failures) {
        out += &format!("a task failed: {failure}\n");
    }
    if let Some(error) = &s.progress_error {
        out += &format!("what is stored is not known: {error}\n");
    }
    out
}

/// A run that has not succeeded is an error of the command.
fn judged(s: &RunStatus) -> Outcome {
    let (kind, message) = match s.state {
        State::Succeeded | State::Running => return Ok(()),
        State::Cancelled => {
            ("run_cancelled", format!("the run '{}' was cancelled; 'chunkwise submit --resume' goes on from what is stored", s.run))
        }
        State::Failed => (
            "run_failed",
            format!(
                "the run '{}' has failed ({}): {}\n'chunkwise logs {}' has more; 'chunkwise submit --resume' goes on from what is stored",
                s.run,
                s.error.as_deref().unwrap_or("no error is named"),
                s.cause.as_deref().unwrap_or("no cause is given"),
                s.run
            ),
        ),
    };
    let status = serde_json::to_value(s).map_err(|e| miette!("{e}"))?;
    Err(Report::new(Said::Told { message, kind, document: json!({ "status": status }) }))
}

/// Ends a command that shows a run.
fn told(s: &RunStatus, as_json: bool) -> Outcome {
    judged(s)?;
    if as_json {
        outln!("{}", serde_json::to_string_pretty(s).map_err(|e| miette!("{e}"))?);
    }
    Ok(())
}

fn wait(aws: &Aws, deployment: &Deployment, run: &str) -> Result<RunStatus, Report> {
    let mut planned = false;
    let seen = &mut |s: &RunStatus| {
        if let Some(plan) = s.plan.as_ref().filter(|_| !planned) {
            errln!("planned: {plan}");
            planned = true;
        }
    };
    chunkwise_aws::wait(aws, deployment, run, seen).map_err(say)
}

pub(crate) fn submit(args: &SubmitArgs, as_json: bool) -> Outcome {
    let (aws, deployment) = connect(&args.stack)?;
    let mode = match (args.overwrite, args.resume) {
        (true, _) => Mode::Overwrite,
        (_, true) => Mode::Resume,
        _ => Mode::New,
    };
    let submission = Submission {
        path: args.pipeline.clone(),
        mode,
        set: args.set.iter().cloned().collect(),
        work_dir: args.work_dir.clone(),
        allowed_mem: args.allowed_mem.map(|m| m.0),
    };
    let run = chunkwise_aws::submit(&aws, &deployment, &submission).map_err(say)?;
    match (as_json, args.wait) {
        (false, _) => outln!("{run}"),
        (true, false) => outln!("{}", json!({ "run": run })),
        (true, true) => {}
    }
    if args.wait {
        let status = wait(&aws, &deployment, &run)?;
        errln!("{}", legible(&status).trim_end());
        told(&status, as_json)?;
    }
    Ok(())
}

pub(crate) fn status(args: &StatusArgs, as_json: bool) -> Outcome {
    let (aws, deployment) = connect(&args.run.stack)?;
    if args.wait {
        wait(&aws, &deployment, &args.run.run)?;
    }
    let status = chunkwise_aws::status(&aws, &deployment, &args.run.run, true).map_err(say)?;
    if !as_json {
        out!("{}", legible(&status));
    }
    told(&status, as_json)
}

pub(crate) fn logs(args: &RunArgs, as_json: bool) -> Outcome {
    let (aws, deployment) = connect(&args.stack)?;
    let mut lines = 0u64;
    chunkwise_aws::logs(&aws, &deployment, &args.run, &mut |line| {
        lines += 1;
        match as_json {
            true => outln!("{}", json!({ "time": line.time, "text": line.text })),
            false => outln!("{}", line.legible()),
        }
        // If the reader has gone, the command ends.
        if crate::out::gone() {
            std::process::exit(0);
        }
    })
    .map_err(say)?;
    if lines == 0 {
        errln!("there are no lines yet; CloudWatch has them some seconds after they were written");
    }
    Ok(())
}

pub(crate) fn cancel(args: &RunArgs, as_json: bool) -> Outcome {
    let (aws, deployment) = connect(&args.stack)?;
    let status = chunkwise_aws::cancel(&aws, &deployment, &args.run).map_err(say)?;
    if as_json {
        outln!("{}", json!({ "run": status.run, "state": status.state.name() }));
        return Ok(());
    }
    outln!("{} is cancelled; invocations that are under way end in a few seconds", status.run);
    Ok(())
}
