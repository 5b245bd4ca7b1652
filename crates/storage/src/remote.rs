//! How one object store is reached: options from the environment and the plan, connections, requests with retries.

use crate::Location;
use crate::aws_profile;
use crate::client::Connector;
use crate::input::Stamp;
use crate::shared::Owners;
use crate::trust::{self, Trust, is_true};
use bytes::Bytes;
use chunkwise_types::{PROGRAM_SCHEME, StoreOptions};
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::{BackoffConfig, ClientConfigKey, ObjectStore, RetryConfig};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Requests at once, unless the options say otherwise.
const CONNECTIONS: u32 = 64;
/// Requests at once of a store of the program, and bytes for which they count as one more.
const OF_PROGRAM: usize = 32;
const PER_PERMIT: u64 = 1 << 20;
/// Seconds for a request and for connecting, unless the options say otherwise.
const TIMEOUT: f64 = 60.0;
const CONNECT_TIMEOUT: f64 = 5.0;
/// Repetitions of a request. With pauses that double from 0.1 s up to 10 s, these wait 45 s at most.
const RETRIES: u32 = 9;
/// How often an object is requested again after its body broke off, in addition to what `object_store` does by itself.
const BODY_RETRIES: u32 = 3;
/// Objects that are larger than this are written in parts, some of them at once.
const MULTIPART_ABOVE: usize = 64 << 20;
const PART: usize = 16 << 20;
const PARTS_AT_ONCE: usize = 4;

/// One store: a bucket, a container, a host, or a store in memory or in files.
pub(crate) struct Remote {
    pub store: Arc<dyn ObjectStore>,
    /// The same store, if it is S3.
    pub s3: Option<Arc<AmazonS3>>,
    permits: Semaphore,
    /// Bytes for which a request takes one more permit, if its answer may be large.
    per_permit: Option<u64>,
    /// It supports ranges that count from the end.
    pub suffix: bool,
    multipart: bool,
    /// Its address, for messages, if it is not the cloud's own.
    pub endpoint: Option<String>,
    pub bucket: String,
    pub scheme: String,
    pub owners: Owners,
}

/// The result of a request for an object.
pub(crate) struct Fetched {
    pub data: Bytes,
    /// Bytes of the whole object.
    pub size: u64,
    /// Its state.
    pub stamp: Stamp,
}

/// The result of writing an object.
pub(crate) struct Sent {
    /// The number of requests.
    pub requests: u64,
    /// The entity tag that it has now.
    pub etag: Option<String>,
}

/// The scheme, the bucket (or host) and the key of a location.
pub(crate) fn parts(location: &Location) -> (&str, &str, &str) {
    let url = location.as_str();
    let (scheme, rest) = url.split_once("://").unwrap_or(("file", url));
    if chunkwise_types::is_remote(url) {
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        (scheme, bucket, key)
    } else {
        (scheme, "", rest)
    }
}

/// An entity tag in a form that all answers of a store share: some answers have it in quotes and some do not.
pub(crate) fn plain_etag(tag: &str) -> Option<String> {
    let tag = tag.trim();
    let plain = tag.strip_prefix("W/").unwrap_or(tag).trim_matches('"');
    (!plain.is_empty()).then(|| plain.to_string())
}

fn retry(o: &StoreOptions) -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig { init_backoff: Duration::from_millis(100), max_backoff: Duration::from_secs(10), base: 2.0 },
        max_retries: o.retries.unwrap_or(RETRIES) as usize,
        retry_timeout: Duration::from_secs(240),
    }
}

/// Settings of connections: from the options, else from the environment, else our defaults.
fn connection(o: &StoreOptions, known: impl Fn(ClientConfigKey) -> bool) -> Vec<(ClientConfigKey, String)> {
    let mut out = Vec::new();
    let mut seconds = |key: ClientConfigKey, given: Option<f64>, default: f64| {
        if given.is_some() || !known(key) {
            out.push((key, format!("{}ms", (given.unwrap_or(default) * 1000.0).round())));
        }
    };
    seconds(ClientConfigKey::Timeout, o.timeout, TIMEOUT);
    seconds(ClientConfigKey::ConnectTimeout, o.connect_timeout, CONNECT_TIMEOUT);
    out
}

/// Refuses a plain http endpoint that was not allowed. One on this machine needs no permission.
fn check_http(endpoint: &str, allowed: bool) -> Result<bool, String> {
    let Some(rest) = endpoint.strip_prefix("http://") else { return Ok(allowed) };
    let host = rest.split(['/', ':']).next().unwrap_or("");
    if allowed || matches!(host, "localhost" | "127.0.0.1" | "[") {
        return Ok(true);
    }
    Err(format!("the endpoint {endpoint} is not encrypted; set allow_http: true in the storage options if that is meant"))
}

pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|v| !v.is_empty())
}

type Opened = Result<(Arc<dyn ObjectStore>, Option<String>), String>;

fn s3(bucket: &str, o: &StoreOptions, trust: &Arc<Trust>) -> Result<(Arc<AmazonS3>, Option<String>), String> {
    // Only prefixed variables: an unprefixed TIMEOUT of another program must not change how we open a bucket.
    let mut b = AmazonS3Builder::from_env()
        .with_http_connector(Connector { signed: true, far: false, trust: trust.clone() })
        .with_bucket_name(bucket)
        .with_retry(retry(o));
    let anonymous = o.anonymous.unwrap_or_else(|| is_true(b.get_config_value(&AmazonS3ConfigKey::SkipSignature)));
    let in_environment = variable("AWS_ACCESS_KEY_ID").is_some() && variable("AWS_SECRET_ACCESS_KEY").is_some();
    let name = o.profile.clone().or_else(|| variable("AWS_PROFILE"));
    // Keys in the environment win over everything but a profile that the options name.
    let wants_file = !anonymous && (o.profile.is_some() || !in_environment);
    let profile = if wants_file { aws_profile::find(name.as_deref())? } else { None };
    if anonymous {
        b = b.with_skip_signature(true);
    } else if let Some(p) = &profile {
        b = b.with_access_key_id(&p.access_key_id).with_secret_access_key(&p.secret_access_key);
        b = b.with_token(p.session_token.clone().unwrap_or_default());
    } else if !in_environment {
        let elsewhere = ["AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"];
        let machine = || {
            variable("AWS_METADATA_ENDPOINT").is_some()
                || machine_answers("PUT /latest/api/token HTTP/1.1\r\nHost: 169.254.169.254\r\nX-aws-ec2-metadata-token-ttl-seconds: 60")
        };
        if !elsewhere.iter().any(|v| variable(v).is_some()) && !machine() {
            return Err("there are no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE with keys in \
                 ~/.aws/credentials, or, for public data, AWS_SKIP_SIGNATURE=true (or anonymous: true in the storage options, and --allow anonymous)"
                .into());
        }
    }
    let set = |b: &AmazonS3Builder, key: &AmazonS3ConfigKey| b.get_config_value(key).is_some();
    let region = o.region.clone().or_else(|| {
        let known = set(&b, &AmazonS3ConfigKey::Region) || set(&b, &AmazonS3ConfigKey::DefaultRegion);
        profile.as_ref().and_then(|p| p.region.clone()).filter(|_| !known)
    });
    if let Some(region) = region {
        b = b.with_region(region);
    }
    // It may also come from the environment.
    [AmazonS3ConfigKey::Region, AmazonS3ConfigKey::DefaultRegion]
        .iter()
        .filter_map(|k| b.get_config_value(k))
        .try_for_each(|r| trust::check_region(&r))?;
    let endpoint = o
        .endpoint
        .clone()
        .or_else(|| b.get_config_value(&AmazonS3ConfigKey::S3Endpoint))
        .or_else(|| b.get_config_value(&AmazonS3ConfigKey::Endpoint))
        .or_else(|| profile.and_then(|p| p.endpoint));
    if let Some(endpoint) = &endpoint {
        let allowed = o.allow_http.unwrap_or_else(|| is_true(b.get_config_value(&AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp))));
        let allowed = check_http(endpoint, allowed)?;
        // The variable for S3 alone would override the options.
        b = b.with_config(AmazonS3ConfigKey::S3Endpoint, endpoint).with_endpoint(endpoint).with_allow_http(allowed);
    }
    if let Some(path_style) = o.path_style {
        b = b.with_virtual_hosted_style_request(!path_style);
    }
    for (key, value) in connection(o, |k| set(&b, &AmazonS3ConfigKey::Client(k))) {
        b = b.with_config(AmazonS3ConfigKey::Client(key), value);
    }
    Ok((Arc::new(b.build().map_err(|e| e.to_string())?), endpoint))
}

fn gs(bucket: &str, o: &StoreOptions, trust: &Arc<Trust>) -> Opened {
    let mut b = GoogleCloudStorageBuilder::from_env()
        .with_http_connector(Connector { signed: true, far: false, trust: trust.clone() })
        .with_bucket_name(bucket)
        .with_retry(retry(o));
    let anonymous = o.anonymous.unwrap_or_else(|| is_true(b.get_config_value(&GoogleConfigKey::SkipSignature)));
    let known = ["GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_PATH", "GOOGLE_SERVICE_ACCOUNT_KEY", "GOOGLE_APPLICATION_CREDENTIALS"];
    let own = std::env::var_os("HOME").map(|h| std::path::Path::new(&h).join(".config/gcloud/application_default_credentials.json"));
    if anonymous {
        b = b.with_skip_signature(true);
    } else if !known.iter().chain(&["SERVICE_ACCOUNT", "GOOGLE_BEARER_TOKEN"]).any(|v| variable(v).is_some())
        && !own.is_some_and(|p| p.exists())
        && !machine_answers("GET /computeMetadata/v1/ HTTP/1.1\r\nHost: metadata.google.internal\r\nMetadata-Flavor: Google")
    {
        return Err("there are no Google credentials: set GOOGLE_APPLICATION_CREDENTIALS to a key file, run `gcloud auth \
             application-default login`, or, for public data, set GOOGLE_SKIP_SIGNATURE=true (or anonymous: true in the storage options, and --allow anonymous)"
            .into());
    }
    let endpoint = o.endpoint.clone().or_else(|| b.get_config_value(&GoogleConfigKey::BaseUrl));
    if let Some(endpoint) = &endpoint {
        let allowed = check_http(endpoint, o.allow_http.unwrap_or_else(|| is_true(variable("GOOGLE_ALLOW_HTTP"))))?;
        b = b.with_base_url(endpoint).with_config(GoogleConfigKey::Client(ClientConfigKey::AllowHttp), allowed.to_string());
    }
    let known: Vec<_> = [ClientConfigKey::Timeout, ClientConfigKey::ConnectTimeout]
        .into_iter()
        .filter(|k| b.get_config_value(&GoogleConfigKey::Client(*k)).is_some())
        .collect();
    for (key, value) in connection(o, |k| known.contains(&k)) {
        b = b.with_config(GoogleConfigKey::Client(key), value);
    }
    Ok((Arc::new(b.build().map_err(|e| e.to_string())?), endpoint))
}

fn az(container: &str, o: &StoreOptions, trust: &Arc<Trust>) -> Opened {
    let mut b = MicrosoftAzureBuilder::from_env()
        .with_http_connector(Connector { signed: true, far: false, trust: trust.clone() })
        .with_container_name(container)
        .with_retry(retry(o));
    if let Some(account) = &o.account {
        b = b.with_account(account);
    }
    let get = |b: &MicrosoftAzureBuilder, key: AzureConfigKey| b.get_config_value(&key);
    let emulator = is_true(get(&b, AzureConfigKey::UseEmulator));
    if get(&b, AzureConfigKey::AccountName).is_none() && !emulator {
        return Err("the storage account is not known: set AZURE_STORAGE_ACCOUNT_NAME, or account in the storage options".into());
    }
    let anonymous = o.anonymous.unwrap_or_else(|| is_true(get(&b, AzureConfigKey::SkipSignature)));
    use AzureConfigKey as K;
    let known = [K::AccessKey, K::SasKey, K::Token, K::ClientSecret, K::FederatedTokenFile, K::MsiEndpoint, K::UseAzureCli];
    if anonymous {
        b = b.with_skip_signature(true);
    } else if !emulator
        && !known.into_iter().any(|k| get(&b, k).is_some())
        && !machine_answers("GET /metadata/instance?api-version=2021-02-01 HTTP/1.1\r\nHost: 169.254.169.254\r\nMetadata: true")
    {
        return Err("there are no Azure credentials: set AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_KEY or AZURE_STORAGE_TOKEN, the \
             variables of a service principal (AZURE_STORAGE_CLIENT_ID, ..._CLIENT_SECRET, ..._TENANT_ID), AZURE_USE_AZURE_CLI=true, or, \
             for public data, anonymous: true in the storage options, and --allow anonymous"
            .into());
    }
    let endpoint = o.endpoint.clone().or_else(|| get(&b, K::Endpoint));
    if let Some(endpoint) = &endpoint {
        let allowed = check_http(endpoint, o.allow_http.unwrap_or_else(|| is_true(get(&b, K::Client(ClientConfigKey::AllowHttp)))))?;
        b = b.with_endpoint(endpoint.clone()).with_allow_http(allowed);
    }
    for (key, value) in connection(o, |k| get(&b, K::Client(k)).is_some()) {
        b = b.with_config(K::Client(key), value);
    }
    let endpoint = endpoint.or_else(|| variable("AZURITE_BLOB_STORAGE_URL").filter(|_| emulator));
    Ok((Arc::new(b.build().map_err(|e| e.to_string())?), endpoint))
}

fn http(scheme: &str, host: &str, o: &StoreOptions, trust: &Arc<Trust>) -> Opened {
    let url = format!("{scheme}://{host}");
    let parsed = url::Url::parse(&url).map_err(|_| format!("'{host}' is no host"))?;
    trust.check_host(&parsed)?;
    let far = !trust.may_read(&parsed) && !proxied();
    let mut b =
        HttpBuilder::new().with_url(&url).with_retry(retry(o)).with_http_connector(Connector { signed: false, far, trust: trust.clone() });
    b = b.with_config(ClientConfigKey::AllowHttp, "true");
    for (key, value) in connection(o, |_| false) {
        b = b.with_config(key, value);
    }
    Ok((Arc::new(b.build().map_err(|e| e.to_string())?), Some(url)))
}

/// The service that gives a cloud machine its credentials. It answers at once, at an address that leads nowhere outside a cloud.
const MACHINE: &str = "169.254.169.254:80";

/// True if that service exists and grants this request.
fn machine_answers(request: &str) -> bool {
    use std::io::{Read, Write};
    let ask = || -> Option<bool> {
        let wait = Duration::from_millis(500);
        let mut stream = TcpStream::connect_timeout(&MACHINE.parse().ok()?, wait).ok()?;
        stream.set_read_timeout(Some(2 * wait)).ok()?;
        stream.write_all(format!("{request}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").as_bytes()).ok()?;
        let mut status = [0u8; 12];
        stream.read_exact(&mut status).ok()?;
        Some(status.ends_with(b" 200"))
    };
    ask().unwrap_or(false)
}

/// True if requests go through a proxy, which looks up names by itself.
fn proxied() -> bool {
    let variables = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
    variables.iter().any(|v| variable(v).is_some())
}

/// Refuses an endpoint at which nothing listens, before requests are repeated for a minute. With `far`, also an endpoint whose name stands
/// for this machine.
fn reachable(endpoint: &str, timeout: f64, far: bool) -> Result<(), String> {
    let Ok(url) = url::Url::parse(endpoint) else { return Err(format!("the endpoint '{endpoint}' is not a URL")) };
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
        return Err(format!("the endpoint '{endpoint}' names no host"));
    };
    if proxied() {
        return Ok(());
    }
    let addresses = match trust::addresses(host, port, far) {
        Ok(found) => found,
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => return Err(e.to_string()),
        Err(e) => return Err(format!("the host of {endpoint} is not known ({e}); check the endpoint")),
    };
    let mut last = None;
    for address in &addresses {
        match TcpStream::connect_timeout(address, Duration::from_secs_f64(timeout)) {
            Ok(_) => return Ok(()),
            Err(e) => last = Some(e),
        }
    }
    let why = last.map_or_else(|| "no address".into(), |e| e.to_string());
    Err(format!("nothing answers at {endpoint} ({why}); check that the service runs and that the endpoint is right"))
}

impl Remote {
    /// Opens a store.
    ///
    /// # Errors
    /// One sentence, when it cannot be reached with these options and permissions.
    pub fn open(scheme: &str, bucket: &str, o: &StoreOptions, trust: &Arc<Trust>) -> Result<Remote, String> {
        let mut as_s3 = None;
        let (store, endpoint): (Arc<dyn ObjectStore>, Option<String>) = match scheme {
            "memory" => (Arc::new(object_store::memory::InMemory::new()), None),
            "s3" => {
                let (store, endpoint) = s3(bucket, o, trust)?;
                as_s3 = Some(store.clone());
                (store, endpoint)
            }
            "gs" => gs(bucket, o, trust)?,
            "az" => az(bucket, o, trust)?,
            "http" | "https" => http(scheme, bucket, o, trust)?,
            PROGRAM_SCHEME => return Err("this is a store of the program that opened it, which no other program can reach".into()),
            _ => (Arc::new(object_store::local::LocalFileSystem::new()), None),
        };
        if let Some(endpoint) = &endpoint {
            // The person has chosen any other endpoint.
            let far = scheme.starts_with("http") && url::Url::parse(endpoint).is_ok_and(|u| !trust.may_read(&u));
            reachable(endpoint, o.connect_timeout.unwrap_or(CONNECT_TIMEOUT), far)?;
        }
        Ok(Remote {
            store,
            s3: as_s3,
            permits: Semaphore::new(o.connections.unwrap_or(CONNECTIONS) as usize),
            per_permit: None,
            suffix: scheme != "az",
            multipart: matches!(scheme, "s3" | "gs" | "az"),
            endpoint,
            bucket: bucket.into(),
            scheme: scheme.into(),
            owners: Owners::default(),
        })
    }

    /// Another store in place of a bucket.
    pub fn mounted(store: Arc<dyn ObjectStore>, scheme: &str, bucket: &str) -> Remote {
        Remote {
            store,
            s3: None,
            permits: Semaphore::new(CONNECTIONS as usize),
            per_permit: None,
            suffix: true,
            multipart: false,
            endpoint: None,
            bucket: bucket.into(),
            scheme: scheme.into(),
            owners: Owners::default(),
        }
    }

    /// A store of the program. Large chunks that are asked for together share what it can do, and all come late: the first of them should come soon, and be
    /// decoded while the next ones come.
    pub fn of_program(store: Arc<dyn ObjectStore>, name: &str) -> Remote {
        Remote { permits: Semaphore::new(OF_PROGRAM), per_permit: Some(PER_PERMIT), ..Remote::mounted(store, PROGRAM_SCHEME, name) }
    }

    /// The permits that a request takes whose answer has at most so many bytes. Nothing is known of metadata, which is small.
    fn share(&self, most: u64) -> u32 {
        let large = self.per_permit.filter(|_| most != u64::MAX).map_or(1, |bytes| most / bytes);
        large.clamp(1, OF_PROGRAM as u64) as u32
    }

    /// Reads an object, or a range of it. If the body breaks off, it is requested again.
    ///
    /// # Errors
    /// Also when the answer has more than `most` bytes. This is noticed before they are read, so that a wrong object cannot fill the
    /// memory.
    pub async fn get(
        &self,
        path: &object_store::path::Path,
        range: Option<object_store::GetRange>,
        most: u64,
        length: impl Fn(u64),
    ) -> Result<Fetched, object_store::Error> {
        let generic = |text: String| object_store::Error::Generic { store: "store", source: text.into() };
        for attempt in 0.. {
            let _permit = self.permits.acquire_many(self.share(most)).await.map_err(|e| generic(e.to_string()))?;
            let options = object_store::GetOptions { range: range.clone(), ..Default::default() };
            let answer = self.store.get_opts(path, options).await?;
            let (size, n) = (answer.meta.size, answer.range.end - answer.range.start);
            let stamp = Stamp::of_object(&answer.meta);
            if n > most {
                return Err(generic(format!("the object has {n} bytes, where at most {most} can be right")));
            }
            length(n);
            match answer.bytes().await {
                Ok(data) if data.len() as u64 == n => return Ok(Fetched { data, size, stamp }),
                Ok(data) if attempt >= BODY_RETRIES => {
                    return Err(generic(format!("the answer broke off after {} of {n} bytes, {} times", data.len(), attempt + 1)));
                }
                Err(e) if attempt >= BODY_RETRIES => return Err(e),
                Ok(_) | Err(_) => {}
            }
            drop(_permit);
            tokio::time::sleep(Duration::from_millis(100 << attempt)).await;
        }
        Err(generic("not reached".into()))
    }

    /// Writes an object, whole or not at all. The last writer wins.
    pub async fn put(&self, path: &object_store::path::Path, data: Bytes) -> Result<Sent, object_store::Error> {
        use futures::{StreamExt, TryStreamExt};
        use object_store::ObjectStoreExt;
        let generic = |text: String| object_store::Error::Generic { store: "store", source: text.into() };
        if !self.multipart || data.len() <= MULTIPART_ABOVE {
            let _permit = self.permits.acquire().await.map_err(|e| generic(e.to_string()))?;
            let put = self.store.put(path, data.into()).await?;
            return Ok(Sent { requests: 1, etag: put.e_tag.as_deref().and_then(plain_etag) });
        }
        let mut upload = self.store.put_multipart(path).await?;
        let parts: Vec<_> = (0..data.len())
            .step_by(PART)
            .map(|at| {
                let part = upload.put_part(data.slice(at..(at + PART).min(data.len())).into());
                async {
                    let _permit = self.permits.acquire().await.map_err(|e| generic(e.to_string()))?;
                    part.await
                }
            })
            .collect();
        let count = parts.len() as u64;
        let sent = futures::stream::iter(parts).buffer_unordered(PARTS_AT_ONCE).try_collect::<Vec<()>>().await;
        let done = match sent {
            Ok(_) => upload.complete().await,
            Err(e) => Err(e),
        };
        match done {
            Ok(put) => Ok(Sent { requests: count + 2, etag: put.e_tag.as_deref().and_then(plain_etag) }),
            Err(e) => {
                // Otherwise the unfinished parts would have to be paid for.
                let _ = upload.abort().await;
                Err(e)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_listens_there() {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let e = reachable(&format!("http://127.0.0.1:{port}"), 1.0, false).unwrap_err();
        assert!(e.contains(&format!("127.0.0.1:{port}")) && e.contains("refused"), "{e}");
    }

    #[test]
    fn plain_http_only_where_it_is_meant() {
        assert_eq!(check_http("http://127.0.0.1:9000", false), Ok(true));
        assert!(check_http("http://minio.lab:9000", false).unwrap_err().contains("allow_http"));
        assert_eq!(check_http("http://minio.lab:9000", true), Ok(true));
        assert_eq!(check_http("https://minio.lab", false), Ok(false));
    }
}
