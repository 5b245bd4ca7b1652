//! Options of the executor `kubernetes`.

use crate::executors::{OptionError, Options};
use k8s_openapi::api::core::v1::Toleration;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Options of the executor `kubernetes`.
#[derive(Debug, Clone)]
pub struct KubernetesOptions {
    pub(super) image: String,
    pub(super) namespace: Option<String>,
    pub(super) service_account: Option<String>,
    pub(super) node_selector: BTreeMap<String, String>,
    pub(super) tolerations: Vec<Toleration>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) env_secrets: Vec<String>,
    pub(super) env_configs: Vec<String>,
    /// Volume claims and where they are mounted.
    pub(super) claims: Vec<(String, String)>,
    pub(super) pull_secrets: Vec<String>,
    pub(super) priority_class: Option<String>,
    pub(super) user: i64,
    pub(super) cpu: Option<String>,
    pub(super) memory: Option<u64>,
    pub(super) ttl: i32,
    pub(super) threads: usize,
    pub(super) tasks: usize,
    pub(super) queued: usize,
    pub(super) array: usize,
    pub(super) parallel: Option<usize>,
    pub(super) poll: Duration,
    pub(super) start_timeout: Duration,
    pub(super) kubeconfig: Option<PathBuf>,
    pub(super) context: Option<String>,
    pub(super) endpoint: Option<String>,
}

impl KubernetesOptions {
    pub(crate) fn read(options: &mut Options<'_>) -> Result<KubernetesOptions, OptionError> {
        options.pipelines_may_set(&["tasks", "array", "parallel", "queued", "poll", "start_timeout"])?;
        let image = options.text("image").ok_or_else(|| {
            OptionError("executor 'kubernetes' needs the option image=..., such as image=registry.example.org/chunkwise:0.1.0".into())
        })?;
        let tolerations = options.list("tolerations").iter().map(|t| toleration(t)).collect::<Result<_, _>>()?;
        Ok(KubernetesOptions {
            image,
            namespace: options.text("namespace"),
            service_account: options.text("service_account"),
            node_selector: options.pairs("node_selector")?.into_iter().collect(),
            tolerations,
            labels: options.pairs("labels")?.into_iter().collect(),
            env: options.pairs("env")?.into_iter().collect(),
            env_secrets: options.list("env_secrets"),
            env_configs: options.list("env_configs"),
            claims: options.pairs("claims")?,
            pull_secrets: options.list("pull_secrets"),
            priority_class: options.text("priority_class"),
            user: options.parsed("user", "the number of a user")?.unwrap_or(65532),
            cpu: options.text("cpu"),
            memory: options.size("mem")?,
            ttl: options.parsed("ttl", "a whole number of seconds")?.unwrap_or(3600),
            threads: options.at_once("threads")?.unwrap_or(1),
            tasks: options.count("tasks")?.unwrap_or(10),
            queued: options.count("queued")?.unwrap_or(10_000),
            array: options.count("array")?.unwrap_or(1000),
            parallel: options.count("parallel")?,
            poll: options.seconds("poll")?.unwrap_or(Duration::from_secs(5)),
            start_timeout: options.seconds("start_timeout")?.unwrap_or(Duration::from_secs(600)),
            kubeconfig: options.text("kubeconfig").map(PathBuf::from),
            context: options.text("context"),
            endpoint: options.text("endpoint"),
        })
    }
}

/// A toleration in the form in which `kubectl taint` writes taints: `key=value:Effect`, `key:Effect`, `key=value` or `key`.
fn toleration(text: &str) -> Result<Toleration, OptionError> {
    const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    let (taint, effect) = text.split_once(':').map_or((text, None), |(t, e)| (t, Some(e)));
    if taint.is_empty() || effect.is_some_and(|e| !EFFECTS.contains(&e)) {
        let effects = EFFECTS.join(", ");
        return Err(OptionError(format!(
            "executor 'kubernetes': '{text}' is no toleration; write key=value:Effect or key:Effect, where the effect is one of {effects}"
        )));
    }
    let (key, value) = taint.split_once('=').map_or((taint, None), |(k, v)| (k, Some(v)));
    Ok(Toleration {
        key: Some(key.into()),
        operator: Some(if value.is_some() { "Equal" } else { "Exists" }.into()),
        value: value.map(Into::into),
        effect: effect.map(Into::into),
        ..Toleration::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(given: &[(&str, &str)]) -> Result<KubernetesOptions, String> {
        let given = given.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        KubernetesOptions::read(&mut Options::new("kubernetes", &given, &BTreeMap::new())).map_err(|e| e.0)
    }

    #[test]
    fn lists_and_pairs() {
        let o = read(&[
            ("image", "i:1"),
            ("node_selector", "a/b=c,d=e"),
            ("tolerations", "spot=true:NoSchedule,gpu:NoExecute,any"),
            ("env", "AWS_REGION=eu-west-1,URL=http://x:1/?a=b"),
            ("claims", "data=/data"),
            ("env_secrets", "keys"),
        ])
        .unwrap();
        assert_eq!(o.node_selector["a/b"], "c");
        assert_eq!(o.env["URL"], "http://x:1/?a=b");
        assert_eq!(o.claims, [("data".to_string(), "/data".to_string())]);
        let t: Vec<_> = o.tolerations.iter().map(|t| (t.operator.as_deref().unwrap(), t.effect.as_deref())).collect();
        assert_eq!(t, [("Equal", Some("NoSchedule")), ("Exists", Some("NoExecute")), ("Exists", None)]);
        assert_eq!(o.env_secrets, ["keys"]);
    }

    #[test]
    fn what_is_none() {
        assert!(read(&[]).unwrap_err().contains("image=..."));
        assert!(read(&[("image", "i"), ("env", "A")]).unwrap_err().contains("A"));
        assert!(read(&[("image", "i"), ("tolerations", "a:Never")]).unwrap_err().contains("NoSchedule"));
        assert!(read(&[("image", "i"), ("ttl", "soon")]).unwrap_err().contains("seconds"));
    }
}
