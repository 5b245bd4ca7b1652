//! Who decides where requests go, and with which credentials.
//!
//! A pipeline, a plan or an event may come from another person. It says what is computed, and so which buckets are read and written. The
//! person who runs it decides which server gets the requests, which keys sign them and whether they are signed at all: by the command line,
//! the environment and the files of the cloud's own tools. So a file's endpoint, profile, account and `anonymous` count only if that person
//! allows them, with `--allow` or in the environment, or has set the same values. Web servers at addresses of this machine and of its link
//! cannot be reached from elsewhere, and only that person may name them. No other storage option can lead requests elsewhere: regions,
//! accounts and buckets are checked by their grammar.

use crate::StorageError;
use chunkwise_types::{PROGRAM_SCHEME, StoreOptions, without_secrets};
use parking_lot::RwLock;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use url::{Host, Url};

/// The permissions of the person, in the words of [`crate::Stores::allow`].
const VARIABLE: &str = "CHUNKWISE_ALLOW";
/// Permissions for endpoints alone.
const ENDPOINTS: &str = "CHUNKWISE_ENDPOINTS";

#[derive(Debug, Default)]
struct Allowed {
    /// Services that may get signed requests.
    endpoints: BTreeSet<String>,
    /// Web servers that may be read from, although they are near or another server redirects to them.
    hosts: BTreeSet<String>,
    profiles: BTreeSet<String>,
    accounts: BTreeSet<String>,
    anonymous: bool,
    /// What is wrong with the variables.
    problem: Option<String>,
}

/// An endpoint in a form that can be compared: its origin and its path.
fn plain(endpoint: &str) -> Result<String, String> {
    let bad = || format!("'{}' is no endpoint; write http://HOST[:PORT] or https://HOST[:PORT]", without_secrets(endpoint));
    let url = Url::parse(endpoint).map_err(|_| bad())?;
    let good = matches!(url.scheme(), "http" | "https")
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none()
        && !endpoint.contains(|c: char| c.is_control() || c.is_whitespace() || c == '\\');
    if !good {
        return Err(bad());
    }
    Ok(format!("{}{}", url.origin().ascii_serialization(), url.path().trim_end_matches('/')))
}

/// True if a URL is one of these places, or below one.
fn below(places: &BTreeSet<String>, url: &str) -> bool {
    let Ok(url) = plain(url) else { return false };
    places.iter().any(|a| url.strip_prefix(a.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

impl Allowed {
    fn add(&mut self, word: &str) -> Result<(), String> {
        match word.split_once('=') {
            Some(("endpoint", url)) => self.endpoints.insert(plain(url)?),
            Some(("host", url)) => self.hosts.insert(plain(url)?),
            Some(("profile", name)) if !name.is_empty() => self.profiles.insert(name.into()),
            Some(("account", name)) if !name.is_empty() => self.accounts.insert(name.into()),
            None if word == "anonymous" => std::mem::replace(&mut self.anonymous, true),
            _ => {
                return Err(format!(
                    "'{}' is nothing that can be allowed; there are endpoint=URL, host=URL, profile=NAME, account=NAME and anonymous",
                    without_secrets(word)
                ));
            }
        };
        Ok(())
    }

    fn endpoint(&self, url: &str) -> bool {
        below(&self.endpoints, url)
    }

    fn host(&self, url: &str) -> bool {
        self.endpoint(url) || below(&self.hosts, url)
    }
}

/// What the person who runs a program allows files to choose.
#[derive(Debug, Default)]
pub(crate) struct Trust(RwLock<Allowed>);

impl Trust {
    /// The permissions in the environment.
    pub fn from_env() -> Trust {
        let mut allowed = Allowed::default();
        let list = |name: &str| std::env::var(name).unwrap_or_default();
        let split = |text: String| text.split(',').map(str::trim).filter(|w| !w.is_empty()).map(String::from).collect::<Vec<_>>();
        for word in split(list(VARIABLE)) {
            if let Err(e) = allowed.add(&word) {
                allowed.problem = Some(format!("{VARIABLE}: {e}"));
            }
        }
        for endpoint in split(list(ENDPOINTS)) {
            if let Err(e) = allowed.add(&format!("endpoint={endpoint}")) {
                allowed.problem = Some(format!("{ENDPOINTS}: {e}"));
            }
        }
        Trust(RwLock::new(allowed))
    }

    /// Adds permissions, by their words.
    ///
    /// # Errors
    /// One sentence, if a word or the environment is not valid.
    pub fn allow(&self, words: &[String]) -> Result<(), String> {
        let mut allowed = self.0.write();
        if let Some(problem) = &allowed.problem {
            return Err(problem.clone());
        }
        words.iter().try_for_each(|word| allowed.add(word))
    }

    /// Allows reading from the web server of a URL that the person has named.
    pub fn allow_named(&self, url: &str) {
        let web = Url::parse(url).ok().filter(|u| matches!(u.scheme(), "http" | "https"));
        if let Some(origin) = web.map(|u| u.origin().ascii_serialization()) {
            // An invalid URL is refused when it is opened.
            let _ = self.0.write().add(&format!("host={origin}"));
        }
    }

    /// Allows everything that these options set. They come from a program that uses this library, which counts as the person who runs it.
    pub fn allow_options(&self, storage: &BTreeMap<String, StoreOptions>) -> Result<(), String> {
        let mut allowed = self.0.write();
        for o in storage.values() {
            let words = [("endpoint", &o.endpoint), ("profile", &o.profile), ("account", &o.account)];
            words.iter().filter_map(|(kind, v)| Some(format!("{kind}={}", v.as_ref()?))).try_for_each(|w| allowed.add(&w))?;
            allowed.anonymous |= o.anonymous == Some(true);
        }
        Ok(())
    }

    /// The permissions in the words of a command line.
    pub fn allowed(&self) -> Vec<String> {
        let a = self.0.read();
        let words = |kind: &str, names: &BTreeSet<String>| names.iter().map(|n| format!("{kind}={n}")).collect::<Vec<_>>();
        let mut out =
            [words("account", &a.accounts), words("endpoint", &a.endpoints), words("host", &a.hosts), words("profile", &a.profiles)]
                .concat();
        out.extend(a.anonymous.then(|| "anonymous".into()));
        out
    }

    /// Refuses options of a file that are not valid, or that choose what the person has not allowed.
    ///
    /// # Errors
    /// One sentence that says what is refused, and how it is allowed.
    pub fn check(&self, prefix: &str, o: &StoreOptions) -> Result<(), String> {
        o.check(prefix)?;
        let (scheme, rest) = prefix.split_once("://").unwrap_or((prefix, ""));
        let bucket = rest.split('/').next().unwrap_or_default();
        if !bucket.is_empty() {
            check_bucket(scheme, bucket)?;
        }
        o.region.as_deref().map_or(Ok(()), check_region)?;
        o.account.as_deref().map_or(Ok(()), check_account)?;
        let mut allowed = self.0.write();
        if let Some(problem) = &allowed.problem {
            return Err(problem.clone());
        }
        let (endpoints, anonymous): (&[&str], &str) = match scheme {
            "s3" => (&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"], "AWS_SKIP_SIGNATURE"),
            "gs" => (&["GOOGLE_BASE_URL"], "GOOGLE_SKIP_SIGNATURE"),
            "az" => (&["AZURE_STORAGE_ENDPOINT", "AZURITE_BLOB_STORAGE_URL"], "AZURE_SKIP_SIGNATURE"),
            // These requests are not signed.
            _ => return Ok(()),
        };
        if let Some(endpoint) = &o.endpoint {
            let wanted = plain(endpoint)?;
            if !allowed.endpoint(endpoint) && !set(endpoints, &wanted, |v, w| plain(v).as_deref() == Ok(w)) {
                return Err(denied(&format!("the storage options name the endpoint '{endpoint}'"), &format!("endpoint={wanted}")));
            }
            allowed.endpoints.insert(wanted);
        }
        if let Some(profile) = &o.profile {
            if !allowed.profiles.contains(profile) && !set(&["AWS_PROFILE"], profile, |v, w| v == w) {
                return Err(denied(&format!("the storage options name the AWS profile '{profile}'"), &format!("profile={profile}")));
            }
            allowed.profiles.insert(profile.clone());
        }
        if let Some(account) = &o.account {
            if !allowed.accounts.contains(account) && !set(&["AZURE_STORAGE_ACCOUNT_NAME"], account, |v, w| v == w) {
                return Err(denied(&format!("the storage options name the storage account '{account}'"), &format!("account={account}")));
            }
            allowed.accounts.insert(account.clone());
        }
        if let Some(wanted) = o.anonymous.filter(|_| !allowed.anonymous) {
            if wanted != is_true(variable(anonymous)) {
                return Err(denied(&format!("the storage options say anonymous: {wanted}"), "anonymous"));
            }
            allowed.anonymous |= wanted;
        }
        Ok(())
    }

    /// Refuses a web server on this machine or its link, if its name says so and the person has not allowed it.
    ///
    /// # Errors
    /// When it does.
    pub fn check_host(&self, url: &Url) -> Result<(), String> {
        let place = match url.host() {
            Some(Host::Ipv4(ip)) => near(ip.into()),
            Some(Host::Ipv6(ip)) => near(ip.into()),
            Some(Host::Domain(name)) => {
                let name = name.trim_end_matches('.');
                (name == "localhost" || name.ends_with(".localhost")).then_some("this machine")
            }
            None => None,
        };
        match place {
            Some(place) if !self.may_read(url) => Err(not_near(&url.origin().ascii_serialization(), place)),
            _ => Ok(()),
        }
    }

    /// True if the person allows reading from the web server of a URL, wherever it is.
    pub fn may_read(&self, url: &Url) -> bool {
        self.0.read().host(&url.origin().ascii_serialization())
    }

    /// True if the person allows sending signed requests to the server of a URL.
    pub fn may_sign(&self, url: &Url) -> bool {
        self.0.read().endpoint(&url.origin().ascii_serialization())
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|v| !v.is_empty())
}

/// True if the person has set this value in one of these variables.
fn set(names: &[&str], value: &str, same: impl Fn(&str, &str) -> bool) -> bool {
    names.iter().filter_map(|n| variable(n)).any(|v| same(&v, value))
}

fn denied(what: &str, word: &str) -> String {
    let other = match word.strip_prefix("endpoint=") {
        Some(url) => format!("{ENDPOINTS}={url}"),
        None => format!("{VARIABLE}={word}"),
    };
    format!(
        "{what}. A pipeline or a plan may not choose where requests go and with whose rights; if this is meant, allow it with \
         `--allow {word}`, or in the environment with {other}"
    )
}

pub(crate) fn is_true(text: Option<String>) -> bool {
    text.is_some_and(|t| matches!(t.to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on"))
}

/// True if a text has letters and digits at both ends, and only these and `between` in the middle.
fn is_name(text: &str, most: usize, between: &[char]) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= most
        && ends(text.chars().next())
        && ends(text.chars().last())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || between.contains(&c))
        && !text.contains("..")
}

/// Checks a region, which becomes a part of a host name and of the signed text.
///
/// # Errors
/// When it is not a valid name.
pub(crate) fn check_region(region: &str) -> Result<(), String> {
    let good = is_name(region, 64, &['-', '_']);
    if good { Ok(()) } else { Err(format!("'{region}' is no region; it is a name such as eu-west-1")) }
}

fn check_account(account: &str) -> Result<(), String> {
    let good = is_name(account, 24, &[]);
    if good { Ok(()) } else { Err(format!("'{account}' is no storage account; it has letters and digits, 24 at most")) }
}

/// Checks a bucket or a container, which becomes a part of a path or of a host name, or the host of a web server, which may have a port.
///
/// # Errors
/// When it is not a valid name.
pub(crate) fn check_bucket(scheme: &str, bucket: &str) -> Result<(), String> {
    match scheme {
        "s3" | "gs" if is_name(bucket, 255, &['-', '_', '.']) => Ok(()),
        "s3" | "gs" => {
            Err(format!("'{bucket}' is no bucket; it has letters, digits, '-', '_' and '.', and letters or digits at both ends"))
        }
        "az" if matches!(bucket, "$root" | "$web" | "$logs") || is_name(bucket, 63, &['-']) => Ok(()),
        PROGRAM_SCHEME if is_name(bucket, 255, &['-', '_', '.']) => Ok(()),
        PROGRAM_SCHEME => Err(format!("'{bucket}' is no name of a store; it has letters, digits, '-', '_' and '.'")),
        "az" => Err(format!("'{bucket}' is no container; it has letters, digits and '-', and letters or digits at both ends")),
        _ => {
            let odd = |c: char| c.is_control() || c.is_whitespace() || matches!(c, '\\' | '@' | '%' | '<' | '>' | '"');
            let host = Url::parse(&format!("{scheme}://{bucket}")).ok().filter(|u| u.path() == "/" && u.host().is_some());
            if host.is_some() && !bucket.contains(odd) { Ok(()) } else { Err(format!("'{bucket}' is no host")) }
        }
    }
}

/// What kind of address this is, if others cannot reach it; `None` for all other addresses.
fn near(ip: IpAddr) -> Option<&'static str> {
    let v4 = |ip: Ipv4Addr| match ip {
        _ if ip.is_loopback() || ip.is_unspecified() || ip.octets()[0] == 0 => Some("this machine"),
        _ if ip.is_link_local() || ip == Ipv4Addr::new(100, 100, 100, 200) => Some("the link of this machine"),
        _ => None,
    };
    match ip {
        IpAddr::V4(ip) => v4(ip),
        IpAddr::V6(ip) if ip.is_loopback() || ip.is_unspecified() => Some("this machine"),
        IpAddr::V6(ip) => match ip.segments() {
            // Addresses of version 4 in the form of version 6.
            [0, 0, 0, 0, 0, 0 | 0xffff, a, b] | [0x64, 0xff9b, 0, 0, 0, 0, a, b] => v4(Ipv4Addr::from((u32::from(a) << 16) | u32::from(b))),
            [0x2002, a, b, ..] => v4(Ipv4Addr::from((u32::from(a) << 16) | u32::from(b))),
            [a, ..] if a & 0xffc0 == 0xfe80 => Some("the link of this machine"),
            // The service that hands out credentials in Amazon's clouds.
            [0xfd00, 0xec2, ..] => Some("the link of this machine"),
            _ => None,
        },
    }
}

fn not_near(origin: &str, place: &str) -> String {
    denied(&format!("it is an address of {place}"), &format!("host={origin}"))
}

/// The addresses of a host. With `far`, without those of this machine and its link, which a name may stand for.
///
/// # Errors
/// When it has none.
pub(crate) fn addresses(host: &str, port: u16, far: bool) -> std::io::Result<Vec<SocketAddr>> {
    let mut found: Vec<SocketAddr> = (host.trim_matches(['[', ']']), port).to_socket_addrs()?.collect();
    let place = found.iter().find_map(|a| near(a.ip()));
    found.retain(|a| !far || near(a.ip()).is_none());
    match (found.is_empty(), place) {
        (true, Some(place)) => {
            let text =
                format!("its name '{host}' stands for an address of {place}, which only whoever runs this may name (--allow host=URL)");
            Err(std::io::Error::new(std::io::ErrorKind::PermissionDenied, text))
        }
        _ => Ok(found),
    }
}

/// For errors: names a place in the storage options.
pub(crate) fn at_prefix(prefix: &str) -> impl Fn(String) -> StorageError + '_ {
    move |problem| StorageError::Url { url: without_secrets(prefix), problem }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_are_names() {
        for (scheme, bucket) in
            [("s3", "b"), ("s3", "my.bucket-1"), ("s3", "x--use1-az4--x-s3"), ("gs", "a_b"), ("az", "$web"), ("az", "data-1")]
        {
            assert_eq!(check_bucket(scheme, bucket), Ok(()), "{bucket}");
        }
        for host in ["host", "my_host:8000", "127.0.0.1:80", "[::1]:8000", "data.example.org"] {
            assert_eq!(check_bucket("https", host), Ok(()), "{host}");
        }
        for (scheme, bucket) in [
            ("s3", "a b"),
            ("s3", "a:b"),
            ("s3", "x@host"),
            ("s3", "a..b"),
            ("s3", "-a"),
            ("gs", "a%2e"),
            ("az", "a.b"),
            ("https", "good\\@evil"),
            ("https", "a b"),
            ("https", "user@host"),
            ("https", "host:99999"),
        ] {
            assert!(check_bucket(scheme, bucket).is_err(), "{bucket}");
        }
        assert!(check_region("eu-west-1").is_ok() && check_region("auto").is_ok());
        for region in ["", "a b", "x@host:80/", "x.evil", "a/", "ü"] {
            assert!(check_region(region).is_err() && check_account(region).is_err(), "{region}");
        }
    }

    #[test]
    fn addresses_that_are_near() {
        for ip in [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "169.254.169.254",
            "100.100.100.200",
            "::1",
            "::",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "fe80::1",
            "fd00:ec2::254",
        ] {
            assert!(near(ip.parse().unwrap()).is_some(), "{ip}");
        }
        for ip in ["10.0.0.1", "192.168.1.1", "8.8.8.8", "2001:db8::1", "fd12::1"] {
            assert!(near(ip.parse().unwrap()).is_none(), "{ip}");
        }
        for url in ["http://2130706433/x", "http://0x7f.1/", "http://LOCALHOST./", "http://a.localhost:81/"] {
            assert!(Trust::default().check_host(&Url::parse(url).unwrap()).is_err(), "{url}");
        }
    }

    #[test]
    fn endpoints_are_compared_by_what_they_are() {
        let mut a = Allowed::default();
        a.add("endpoint=HTTPS://Minio.lab:443/tenant/").unwrap();
        assert!(a.endpoint("https://minio.lab/tenant") && a.endpoint("https://minio.lab/tenant/x"));
        for other in ["https://minio.lab", "https://minio.lab/tenant2", "http://minio.lab/tenant", "https://minio.lab:444/tenant"] {
            assert!(!a.endpoint(other), "{other}");
        }
        for bad in ["endpoint=minio.lab", "endpoint=http://u:p@h", "profile=", "anonymous=x", "x"] {
            assert!(a.add(bad).is_err(), "{bad}");
        }
    }
}
