//! Submits pipelines to the state machine.

use crate::{Aws, AwsError, Deployment};
use chunkwise_executor::function::Mode;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The largest size of a pipeline that is sent as text. The state machine accepts 256 KiB, in which the text is quoted, with everything
/// else.
const MOST_TEXT: usize = 128 << 10;
/// The largest number of characters in the name of an execution.
const LONGEST_NAME: usize = 80;

/// A pipeline and its options.
#[derive(Debug, Clone, Default)]
pub struct Submission {
    /// Its path or URL. If the file is not in a store, its text is sent.
    pub path: String,
    /// What to do with existing outputs.
    pub mode: Mode,
    /// Parameters of the pipeline.
    pub set: BTreeMap<String, String>,
    /// The place of intermediates, if it differs from that of the pipeline or the stack.
    pub work_dir: Option<String>,
    /// Bytes that one function may use, if not all of its memory.
    pub allowed_mem: Option<u64>,
}

impl Submission {
    /// The input of the execution: a plan event without its format and action, which the state machine adds.
    ///
    /// # Errors
    /// When the file cannot be read, is too large, or cannot be sent as text.
    pub fn input(&self) -> Result<Value, AwsError> {
        let mut input = Map::new();
        if self.path.contains("://") {
            input.insert("pipeline".into(), self.path.as_str().into());
        } else {
            let text = std::fs::read_to_string(&self.path).map_err(|e| AwsError::Input(format!("cannot read '{}': {e}", self.path)))?;
            if self.path.ends_with(".toml") {
                return Err(AwsError::Input(format!(
                    "'{}' is TOML, which can only be run from a store: copy it there, and give its URL",
                    self.path
                )));
            }
            if text.len() > MOST_TEXT {
                return Err(AwsError::Input(format!(
                    "'{}' has {} bytes, and {MOST_TEXT} can be handed over: copy it to the pipelines of the stack, and give its URL",
                    self.path,
                    text.len()
                )));
            }
            input.insert("document".into(), text.into());
        }
        if self.mode != Mode::New {
            input.insert("mode".into(), json!(self.mode));
        }
        if !self.set.is_empty() {
            input.insert("set".into(), json!(self.set));
        }
        if let Some(dir) = &self.work_dir {
            input.insert("work_dir".into(), dir.as_str().into());
        }
        if let Some(bytes) = self.allowed_mem {
            input.insert("allowed_mem".into(), bytes.into());
        }
        Ok(Value::Object(input))
    }
}

/// A unique name for a run of a pipeline: the name of the file, the time, and the microsecond.
///
/// ```
/// let name = chunkwise_aws::name_of("s3://b/pipelines/wind (1).yaml");
/// assert!(name.starts_with("wind--1--20") && name.len() <= 80);
/// ```
pub fn name_of(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or_default();
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    let now = jiff::Zoned::now().with_time_zone(jiff::tz::TimeZone::UTC);
    let when = format!("-{}-{:05x}", now.strftime("%Y%m%d-%H%M%S"), now.subsec_nanosecond() / 1000);
    let clean: String = stem.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' }).collect();
    // Commands would take a name that begins with a dash for an option.
    let clean = if clean.is_empty() || clean.starts_with('-') { format!("run{clean}") } else { clean };
    format!("{}{when}", &clean[..clean.len().min(LONGEST_NAME - when.len())])
}

/// Starts a run, and returns its name.
///
/// # Errors
/// When the pipeline cannot be submitted, or the state machine refuses it.
pub fn submit(aws: &Aws, deployment: &Deployment, submission: &Submission) -> Result<String, AwsError> {
    let (input, name) = (submission.input()?, name_of(&submission.path));
    let client = aws_sdk_sfn::Client::new(aws.config());
    let machine = deployment.output("StateMachine")?;
    let request = client.start_execution().state_machine_arn(machine).name(&name).input(input.to_string());
    aws.wait(request.send()).map_err(|e| AwsError::service(format!("the run cannot be started by {machine}"), &e))?;
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_handed_over_as_text_and_urls_as_they_are() {
        let folder = std::env::temp_dir().join(format!("chunkwise-submit-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = |name: &str, text: &str| {
            std::fs::write(folder.join(name), text).unwrap();
            Submission { path: folder.join(name).display().to_string(), ..Submission::default() }
        };
        let mut small = file("a.yaml", "outputs: {}");
        assert_eq!(small.input().unwrap(), json!({"document": "outputs: {}"}));
        small.mode = Mode::Overwrite;
        small.set.insert("n".into(), "3".into());
        small.allowed_mem = Some(5);
        assert_eq!(small.input().unwrap(), json!({"document": "outputs: {}", "mode": "overwrite", "set": {"n": "3"}, "allowed_mem": 5}));
        let url = Submission { path: "s3://b/x.toml".into(), work_dir: Some("s3://b/w".into()), ..Submission::default() };
        assert_eq!(url.input().unwrap(), json!({"pipeline": "s3://b/x.toml", "work_dir": "s3://b/w"}));
        for (bad, why) in [(file("b.toml", "x = 1"), "TOML"), (file("c.yaml", &"x".repeat(MOST_TEXT + 1)), "bytes")] {
            assert!(bad.input().unwrap_err().to_string().contains(why));
        }
        assert!(Submission { path: "/nowhere.yaml".into(), ..Submission::default() }.input().is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn names_fit() {
        let name = name_of(&format!("{}.yaml", "ä".repeat(200)));
        assert!(name.len() <= LONGEST_NAME && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'));
        assert!(name.starts_with("run-"));
        assert!(name_of("").starts_with("run-20"));
        assert!(name_of("s3://b/(wind).yaml").starts_with("run-wind--20"));
    }
}
