//! Credentials, region, endpoint and connections of AWS. Everything that talks to AWS gets them here.
//!
//! Credentials come from the same sources as for every tool of AWS: the environment, `~/.aws`, a web identity, a process, the role of a
//! container or a machine. Profiles that log in by SSO are not supported; `aws configure export-credentials --format env` turns such a
//! login into variables. `AWS_ENDPOINT_URL`, `AWS_ENDPOINT_URL_<SERVICE>` or an option set another address of a service.

use crate::RunError;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// How AWS is reached. Missing values come from the environment.
#[derive(Debug, Clone, Default)]
pub struct AwsOptions {
    /// The region.
    pub region: Option<String>,
    /// The profile in `~/.aws`.
    pub profile: Option<String>,
    /// URL of the service, if it is not the cloud's own.
    pub endpoint: Option<String>,
}

/// The settings of all clients, and the threads that run their requests.
#[derive(Clone)]
pub struct Aws {
    config: SdkConfig,
    runtime: Arc<Runtime>,
}

impl Aws {
    /// Determines region, credentials and endpoints. No service is asked.
    ///
    /// # Errors
    /// When there is no region, or no thread can be started.
    pub fn connect(options: &AwsOptions) -> Result<Aws, RunError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("aws")
            .enable_all()
            .build()
            .map_err(|e| RunError::Executor(format!("the threads that talk to AWS cannot be started: {e}")))?;
        // The object stores use the same provider, so that there is only one.
        let http = aws_smithy_http_client::Builder::new().tls_provider(Provider::Rustls(CryptoMode::AwsLc)).build_https();
        let mut loader = aws_config::defaults(BehaviorVersion::latest())
            .http_client(http)
            .retry_config(RetryConfig::standard().with_max_attempts(4))
            .timeout_config(TimeoutConfig::builder().connect_timeout(Duration::from_secs(5)).build());
        if let Some(region) = &options.region {
            loader = loader.region(Region::new(region.clone()));
        }
        if let Some(profile) = &options.profile {
            loader = loader.profile_name(profile);
        }
        if let Some(endpoint) = &options.endpoint {
            loader = loader.endpoint_url(endpoint);
        }
        let config = runtime.block_on(loader.load());
        if config.region().is_none() {
            return Err(RunError::Executor(
                "the AWS region is not known: set AWS_REGION, or the region of the profile in ~/.aws/config, or the option region".into(),
            ));
        }
        Ok(Aws { config, runtime: Arc::new(runtime) })
    }

    /// The settings of a client: `aws_sdk_<service>::Client::new(aws.config())`.
    pub fn config(&self) -> &SdkConfig {
        &self.config
    }

    /// The region.
    pub fn region(&self) -> &str {
        self.config.region().map_or("", |r| r.as_ref())
    }

    /// Waits for one request.
    pub fn wait<T>(&self, request: impl Future<Output = T>) -> T {
        self.runtime.block_on(request)
    }

    /// Where many requests can be spawned at once.
    pub fn handle(&self) -> &tokio::runtime::Handle {
        self.runtime.handle()
    }
}

/// An error of the SDK with all of its causes, in one line.
pub fn sentence(e: &(dyn std::error::Error + 'static)) -> String {
    let mut parts = vec![e.to_string()];
    let mut inner = e.source();
    while let Some(cause) = inner {
        let text = cause.to_string();
        // Many layers repeat the text of their causes.
        if !parts.iter().any(|p| p.contains(&text)) {
            parts.push(text);
        }
        inner = cause.source();
    }
    parts.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_count_for_more_than_the_environment() {
        let options = AwsOptions { region: Some("eu-north-1".into()), endpoint: Some("http://127.0.0.1:1".into()), profile: None };
        let aws = Aws::connect(&options).unwrap();
        assert_eq!((aws.region(), aws.config().endpoint_url()), ("eu-north-1", Some("http://127.0.0.1:1")));
        assert_eq!(aws.wait(async { 7 }), 7);
    }

    #[test]
    fn causes_are_named_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("outer: {0}")]
        struct Repeats(#[source] std::io::Error);
        #[derive(Debug, thiserror::Error)]
        #[error("outer")]
        struct Hides(#[source] std::io::Error);
        let io = || std::io::Error::other("inner");
        assert_eq!(sentence(&Repeats(io())), "outer: inner");
        assert_eq!(sentence(&Hides(io())), "outer: inner");
    }
}
