//! The HTTP client of the stores. It takes the same settings as that of `object_store`.
//!
//! It differs in two points. A redirect must stay on its server: an answer must not lead signed requests, with tokens in them, or requests
//! out of this network to another server. The person who runs the program may allow the other server ([`crate::Stores::allow`]). And if a file
//! named the server, a name that stands for an address of this machine or of its link is refused.

use crate::trust::{self, Trust};
use object_store::client::{HttpClient, HttpConnector};
use object_store::{ClientConfigKey as Key, ClientOptions};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::{Attempt, Policy};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The beginning of an error that no repetition can help.
pub(crate) const ELSEWHERE: &str = "the server leads to another one";
/// The largest number of redirects of one request.
const REDIRECTS: usize = 10;

/// Makes the client of one store.
#[derive(Debug)]
pub(crate) struct Connector {
    /// Requests contain credentials.
    pub signed: bool,
    /// A name may not stand for this machine.
    pub far: bool,
    /// What the person allows.
    pub trust: Arc<Trust>,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let failed = |source| object_store::Error::Generic { store: "HTTP client", source };
        build(options, self).map(HttpClient::new).map_err(failed)
    }
}

type Failed = Box<dyn std::error::Error + Send + Sync>;

fn build(options: &ClientOptions, of: &Connector) -> Result<reqwest::Client, Failed> {
    let get = |key: Key| options.get_config_value(&key);
    let on = |key: Key| trust::is_true(get(key));
    let time = |key: Key| -> Result<Option<Duration>, Failed> { Ok(get(key).map(|t| humantime::parse_duration(&t)).transpose()?) };
    let (signed, far, trust) = (of.signed, of.far, of.trust.clone());
    let mut b = reqwest::ClientBuilder::new().dns_resolver(Arc::new(Resolver { far }));
    b = b.redirect(Policy::custom(move |attempt| follow(attempt, signed, &trust)));
    b = b.user_agent(get(Key::UserAgent).unwrap_or_else(|| concat!("chunkwise/", env!("CARGO_PKG_VERSION")).into()));
    if let Some(url) = get(Key::ProxyUrl) {
        let mut proxy = reqwest::Proxy::all(url)?;
        if let Some(certificate) = get(Key::ProxyCaCertificate) {
            b = b.tls_certs_merge([reqwest::tls::Certificate::from_pem(certificate.as_bytes())?]);
        }
        if let Some(hosts) = get(Key::ProxyExcludes) {
            proxy = proxy.no_proxy(reqwest::NoProxy::from_string(&hosts));
        }
        b = b.proxy(proxy);
    }
    if on(Key::NoSystemCertificates) {
        b = b.tls_certs_only([]);
    }
    if let Some(t) = time(Key::Timeout)? {
        b = b.timeout(t);
    }
    if let Some(t) = time(Key::ConnectTimeout)? {
        b = b.connect_timeout(t);
    }
    if let Some(t) = time(Key::ReadTimeout)? {
        b = b.read_timeout(t);
    }
    if let Some(t) = time(Key::PoolIdleTimeout)? {
        b = b.pool_idle_timeout(t);
    }
    if let Some(n) = get(Key::PoolMaxIdlePerHost) {
        b = b.pool_max_idle_per_host(n.parse()?);
    }
    if on(Key::Http1Only) {
        b = b.http1_only();
    }
    if on(Key::AllowInvalidCertificates) {
        b = b.tls_danger_accept_invalid_certs(true);
    }
    Ok(b.https_only(!on(Key::AllowHttp)).build()?)
}

fn follow(attempt: Attempt<'_>, signed: bool, trust: &Trust) -> reqwest::redirect::Action {
    let (to, from) = (attempt.url(), attempt.previous().first());
    if attempt.previous().len() > REDIRECTS {
        return attempt.error("it leads from one place to the next without an end");
    }
    let place = |u: &reqwest::Url| (u.host_str().map(String::from), u.port_or_known_default());
    let same = from.is_some_and(|from| {
        let upgrade = (from.scheme(), to.scheme(), from.port(), to.port()) == ("http", "https", None, None);
        from.scheme() == to.scheme() && place(from) == place(to) || upgrade && from.host_str() == to.host_str()
    });
    if same || if signed { trust.may_sign(to) } else { trust.may_read(to) } {
        return attempt.follow();
    }
    let (kind, origin) = (if signed { "endpoint" } else { "host" }, to.origin().ascii_serialization());
    attempt.error(format!("{ELSEWHERE}, {origin}, which may be followed with `--allow {kind}={origin}`"))
}

/// Looks up names, and uses the addresses of a name in turn.
struct Resolver {
    far: bool,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        static TURN: AtomicUsize = AtomicUsize::new(0);
        let (host, far) = (name.as_str().to_string(), self.far);
        Box::pin(async move {
            let mut found = tokio::task::spawn_blocking(move || trust::addresses(&host, 0, far)).await??;
            let turn = TURN.fetch_add(1, Ordering::Relaxed) % found.len().max(1);
            found.rotate_left(turn);
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}
