//! The log lines of a run's invocations.

use crate::{Aws, AwsError, Deployment, status, trace};
use serde_json::Value;

/// A line of the log.
#[derive(Debug, Clone, PartialEq)]
pub struct LogLine {
    /// When, in milliseconds since 1970.
    pub time: i64,
    /// The text that the function wrote, usually a JSON document.
    pub text: String,
}

impl LogLine {
    /// For people: time, level and message, then the other fields.
    ///
    /// ```
    /// let text = r#"{"timestamp": "x", "level": "INFO", "target": "t", "request_id": "r", "trace_id": "1f", "message": "tasks", "done": 3}"#;
    /// let line = chunkwise_aws::LogLine { time: 0, text: text.into() };
    /// assert_eq!(line.legible(), "1970-01-01T00:00:00Z INFO  tasks done=3");
    /// ```
    pub fn legible(&self) -> String {
        let time = jiff::Timestamp::from_millisecond(self.time).map(|t| t.to_string()).unwrap_or_default();
        let Ok(Value::Object(fields)) = serde_json::from_str(&self.text) else { return format!("{time} {}", self.text.trim_end()) };
        let text = |k: &str| fields.get(k).and_then(Value::as_str).unwrap_or_default();
        let mut out = format!("{time} {:5} {}", text("level"), text("message"));
        let known = ["timestamp", "level", "message", "target", "request_id", "trace_id", "xray_trace_id"];
        for (k, v) in fields.iter().filter(|(k, _)| !known.contains(&k.as_str())) {
            let value = v.as_str().map_or_else(|| v.to_string(), String::from);
            out += &format!(" {k}={value}");
        }
        out
    }
}

/// Every log line of a run's invocations, in the order of time. `each` gets them as they arrive.
///
/// Lines appear in CloudWatch some seconds after they were written.
///
/// # Errors
/// When there is no such run, or the log group cannot be read.
pub fn logs(aws: &Aws, deployment: &Deployment, run: &str, each: &mut dyn FnMut(&LogLine)) -> Result<(), AwsError> {
    let found = status(aws, deployment, run, false)?;
    let group = deployment.output("LogGroup")?;
    let client = aws_sdk_cloudwatchlogs::Client::new(aws.config());
    let mut token = None;
    loop {
        let request = client
            .filter_log_events()
            .log_group_name(group)
            .filter_pattern(format!("\"{}\"", trace(&found.run)))
            .start_time(found.started - 1000)
            .set_next_token(token.take());
        let page = aws.wait(request.send()).map_err(|e| AwsError::service(format!("the log group '{group}' cannot be read"), &e))?;
        for e in page.events() {
            each(&LogLine { time: e.timestamp().unwrap_or(0), text: e.message().unwrap_or_default().into() });
        }
        token = page.next_token().map(String::from);
        if token.is_none() {
            return Ok(());
        }
    }
}
