//! How object stores are reached: the options that a pipeline or a plan may set.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the objects under a URL prefix are reached. What is left out comes from the environment, or is a default.
///
/// There is no place for secrets: they come from the environment or from the files of the cloud's own tools.
///
/// ```
/// use chunkwise_types::StoreOptions;
/// let minio = StoreOptions { endpoint: Some("http://127.0.0.1:9000".into()), ..StoreOptions::default() };
/// assert!(minio.check("s3://data").is_ok());
/// assert!(minio.check("ftp://data").is_err());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StoreOptions {
    /// URL of the service, where it is not the cloud's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// S3: the region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// S3: the bucket is part of the path (default) or of the host name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_style: Option<bool>,
    /// Requests are not signed: for public data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anonymous: Option<bool>,
    /// The endpoint may be plain http.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_http: Option<bool>,
    /// S3: the profile in `~/.aws` that names the credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Azure: the storage account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Seconds that one request may take, its body included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// Seconds that connecting may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect_timeout: Option<f64>,
    /// How often a request is repeated that failed in a way that may pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// Requests that one process has under way at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
}

/// The URL schemes of object stores.
pub const STORE_SCHEMES: [&str; 5] = ["s3", "gs", "az", "http", "https"];

/// The URL scheme of stores that a program has itself: `program://NAME/KEY`. No other program can reach them.
pub const PROGRAM_SCHEME: &str = "program";

/// True if the URL is of an object store. Requests take long there, so many should be in flight.
pub fn is_remote(url: &str) -> bool {
    url.split_once("://").is_some_and(|(scheme, _)| STORE_SCHEMES.contains(&scheme) || scheme == PROGRAM_SCHEME)
}

/// An error text for a field that looks like a secret; `None` if it does not.
pub fn secret_field(name: &str) -> Option<String> {
    let lower = name.to_lowercase();
    let looks = ["secret", "token", "password", "passwd", "credential", "access_key", "account_key", "accesskey", "sas", "api_key"];
    looks.iter().any(|s| lower.contains(s)).then(|| {
        format!(
            "'{name}' looks like a secret, and files that are stored and passed on must hold none; \
             set it in the environment (AWS_..., GOOGLE_..., AZURE_...) or in the files of the cloud's own tools"
        )
    })
}

/// A URL in a form that may be shown: without its user, password, query and fragment.
pub fn without_secrets(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(s, r)| (s, r));
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let shown = match host.rfind('@') {
        Some(at) => format!("***{}", &rest[at..]),
        None => rest.to_string(),
    };
    let shown = match shown.find(['?', '#']) {
        Some(at) => format!("{}***", &shown[..=at]),
        None => shown,
    };
    if scheme.is_empty() { shown } else { format!("{scheme}://{shown}") }
}

impl StoreOptions {
    /// Refuses options that contradict the prefix that they are for.
    ///
    /// # Errors
    /// One sentence that says what is wrong.
    pub fn check(&self, prefix: &str) -> Result<(), String> {
        let given = prefix;
        let prefix = &*without_secrets(given);
        let Some((scheme, rest)) = given.split_once("://").filter(|(s, _)| STORE_SCHEMES.contains(s)) else {
            return Err(format!("'{prefix}' must begin with one of {}", STORE_SCHEMES.map(|s| format!("{s}://")).join(", ")));
        };
        if rest.contains(['@', '?', '#']) {
            return Err(format!("'{prefix}' must be a plain URL prefix, without user, query or fragment"));
        }
        let only = |name: &str, given: bool, of: &str| {
            if given && scheme != of { Err(format!("'{name}' is an option of {of}://, not of '{prefix}'")) } else { Ok(()) }
        };
        only("region", self.region.is_some(), "s3")?;
        only("path_style", self.path_style.is_some(), "s3")?;
        only("profile", self.profile.is_some(), "s3")?;
        only("account", self.account.is_some(), "az")?;
        if let Some(e) = &self.endpoint {
            let host = e.strip_prefix("http://").or_else(|| e.strip_prefix("https://"));
            if scheme.starts_with("http") {
                return Err(format!("'endpoint' cannot be set for '{prefix}', which names its host itself"));
            }
            if host.is_none_or(|h| h.is_empty() || h.contains(['@', '?', '#'])) {
                let e = without_secrets(e);
                return Err(format!("the endpoint '{e}' must be http://HOST[:PORT] or https://HOST[:PORT], without user or query"));
            }
        }
        let seconds = |name: &str, v: Option<f64>| match v {
            Some(v) if !(0.01..=86400.0).contains(&v) => Err(format!("'{name}' must be from 0.01 to 86400 seconds, not {v}")),
            _ => Ok(()),
        };
        seconds("timeout", self.timeout)?;
        seconds("connect_timeout", self.connect_timeout)?;
        if self.retries.is_some_and(|n| n > 100) {
            return Err("'retries' must be at most 100".into());
        }
        if self.connections.is_some_and(|n| !(1..=10_000).contains(&n)) {
            return Err("'connections' must be from 1 to 10000".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        assert_eq!(without_secrets("https://me:pw@host/x"), "https://***@host/x");
        assert_eq!(without_secrets("https://me:p@w@host:80/a@b"), "https://***@host:80/a@b");
        assert_eq!(without_secrets("https://host/x?sig=1#y"), "https://host/x?***");
        assert_eq!(without_secrets("s3://b/x@y"), "s3://b/x@y");
        assert_eq!(without_secrets("plain/path"), "plain/path");
    }

    #[test]
    fn refusals_show_no_secrets() {
        let with = |endpoint: &str| StoreOptions { endpoint: Some(endpoint.into()), ..StoreOptions::default() };
        for (prefix, options) in [
            ("s3://", with("http://me:hunter2@host")),
            ("s3://", with("https://host/?sig=hunter2")),
            ("s3://me:hunter2@host", StoreOptions::default()),
            ("ftp://me:hunter2@host", StoreOptions::default()),
            ("gs://me:hunter2@host/x#hunter2", StoreOptions { region: Some("eu".into()), ..StoreOptions::default() }),
        ] {
            let message = options.check(prefix).unwrap_err();
            assert!(!message.contains("hunter2"), "{message}");
        }
    }

    #[test]
    fn contradictions_are_refused() {
        let with = |f: fn(&mut StoreOptions)| {
            let mut o = StoreOptions::default();
            f(&mut o);
            o
        };
        for (prefix, options, word) in [
            ("gs://b", with(|o| o.region = Some("eu".into())), "region"),
            ("s3://b", with(|o| o.account = Some("a".into())), "account"),
            ("s3://b", with(|o| o.endpoint = Some("http://user:pw@host".into())), "without user"),
            ("s3://b", with(|o| o.endpoint = Some("host:9000".into())), "endpoint"),
            ("https://h", with(|o| o.endpoint = Some("http://h".into())), "endpoint"),
            ("s3://b", with(|o| o.timeout = Some(f64::NAN)), "timeout"),
            ("s3://b", with(|o| o.connections = Some(0)), "connections"),
            ("file:///x", StoreOptions::default(), "begin"),
        ] {
            let e = options.check(prefix).unwrap_err();
            assert!(e.contains(word), "{e}");
        }
    }

    #[test]
    fn secrets_are_recognised() {
        for name in ["secret_access_key", "aws_access_key_id", "token", "account_key", "SAS", "password"] {
            assert!(secret_field(name).is_some(), "{name}");
        }
        for name in ["endpoint", "region", "anonymous", "retry"] {
            assert!(secret_field(name).is_none(), "{name}");
        }
    }

    #[test]
    fn what_is_remote() {
        assert!(is_remote("s3://b/x") && is_remote("https://h/x"));
        assert!(!is_remote("file:///x") && !is_remote("x") && !is_remote("memory:///x"));
    }
}
