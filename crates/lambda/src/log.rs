//! Logs: one JSON document a line, each with its invocation and trace, whatever thread writes it. A function has one invocation at a time,
//! so these belong to the process.

use serde_json::{Map, Value};
use std::fmt;
use std::sync::RwLock;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// The fields of every line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ids {
    /// The invocation.
    pub request_id: String,
    /// The trace of X-Ray, as Lambda gives it.
    pub xray_trace_id: Option<String>,
    /// The trace of the caller (W3C), or that of X-Ray in the same form.
    pub trace_id: Option<String>,
}

static IDS: RwLock<Option<Ids>> = RwLock::new(None);

impl Ids {
    /// The ids of an invocation. `parent` is the caller's `traceparent`.
    pub fn new(request_id: &str, xray: Option<&str>, parent: Option<&str>) -> Ids {
        let hex = |t: &str| t.len() == 32 && t.bytes().all(|b| b.is_ascii_hexdigit());
        let of_parent = parent.and_then(|p| p.split('-').nth(1)).filter(|t| hex(t)).map(String::from);
        let root = xray.and_then(|x| x.split(';').find_map(|p| p.trim().strip_prefix("Root=1-")));
        let of_xray = root.map(|r| r.replace('-', "")).filter(|t| hex(t));
        Ids { request_id: request_id.into(), xray_trace_id: xray.map(String::from), trace_id: of_parent.or(of_xray) }
    }

    /// Adds these to every line from now on.
    pub fn enter(self) {
        if let Ok(mut ids) = IDS.write() {
            *ids = Some(self);
        }
    }
}

/// Starts logging to standard error, at the level of `RUST_LOG` or `info`.
pub fn start() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).event_format(Lines).init();
}

struct Lines;

struct Fields<'a>(&'a mut Map<String, Value>);

impl Visit for Fields<'_> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.insert(field.name().into(), value.into());
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().into(), value.into());
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().into(), value.into());
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().into(), value.into());
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().into(), value.into());
    }
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().into(), format!("{value:?}").into());
    }
}

/// The document of a line, without its fields.
fn head(time: String, level: &str, target: &str) -> Map<String, Value> {
    let mut line = Map::new();
    line.insert("timestamp".into(), time.into());
    line.insert("level".into(), level.into());
    line.insert("target".into(), target.into());
    if let Ok(ids) = IDS.read()
        && let Some(ids) = ids.as_ref()
    {
        line.insert("request_id".into(), ids.request_id.clone().into());
        for (name, value) in [("trace_id", &ids.trace_id), ("xray_trace_id", &ids.xray_trace_id)] {
            if let Some(value) = value {
                line.insert(name.into(), value.clone().into());
            }
        }
    }
    line
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let mut line = head(time, event.metadata().level().as_str(), event.metadata().target());
        event.record(&mut Fields(&mut line));
        writeln!(writer, "{}", Value::Object(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces() {
        let xray = Some("Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1");
        let ids = Ids::new("r", xray, None);
        assert_eq!(ids.trace_id.as_deref(), Some("5759e988bd862e3fe1be46a994272793"));
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(Ids::new("r", xray, Some(parent)).trace_id.as_deref(), Some("0af7651916cd43dd8448eb211c80319c"));
        assert_eq!(Ids::new("r", None, Some("00-zz-1-01")).trace_id, None);
    }

    #[test]
    fn every_line_has_the_ids() {
        Ids::new("req-1", None, Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")).enter();
        let line = head("now".into(), "INFO", "x");
        assert_eq!(line["request_id"], "req-1");
        assert_eq!(line["trace_id"], "0af7651916cd43dd8448eb211c80319c");
    }
}
