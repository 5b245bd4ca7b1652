//! Static credentials from the files of the AWS command line.
//!
//! Format: the AWS SDKs and Tools Reference Guide, "Shared config and credentials files". This reads only what static keys need: sections,
//! `key = value` lines, comments. Profiles that get their keys elsewhere (SSO, an assumed role, a process) are refused with a sentence that
//! says what to do instead.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The settings of a profile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Profile {
    pub access_key_id: String,
    pub secret_access_key: String,
    pub session_token: Option<String>,
    pub region: Option<String>,
    pub endpoint: Option<String>,
}

type Sections = HashMap<String, HashMap<String, String>>;

fn parse(text: &str) -> Sections {
    let mut out = Sections::new();
    let mut section: Option<String> = None;
    for line in text.lines() {
        // Indented lines are nested settings of the key above. None of them is needed.
        if line.starts_with([' ', '\t']) || line.trim().is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.trim().strip_prefix('[').and_then(|l| l.split(']').next()) {
            let name = name.trim();
            let name = name.strip_prefix("profile ").unwrap_or(name).trim();
            section = Some(name.to_string());
            out.entry(name.to_string()).or_default();
        } else if let (Some(name), Some((key, value))) = (&section, line.split_once('=')) {
            let value = value.split(" #").next().unwrap_or(value).split(" ;").next().unwrap_or(value).trim();
            out.entry(name.clone()).or_default().insert(key.trim().to_lowercase(), value.to_string());
        }
    }
    out
}

/// The two files: those that the variables name, or those in the home folder.
fn files() -> [Option<PathBuf>; 2] {
    let home = std::env::var_os("HOME").or_else(|| std::env::var_os("USERPROFILE")).map(PathBuf::from);
    let at = |variable: &str, name: &str| {
        std::env::var_os(variable).map(PathBuf::from).or_else(|| home.as_ref().map(|h| h.join(".aws").join(name)))
    };
    [at("AWS_CONFIG_FILE", "config"), at("AWS_SHARED_CREDENTIALS_FILE", "credentials")]
}

fn read(path: Option<&Path>) -> Sections {
    path.and_then(|p| std::fs::read_to_string(p).ok()).map(|text| parse(&text)).unwrap_or_default()
}

/// The profile of this name, or `default` if no name is given. `None` if no name is given and there is no default.
///
/// # Errors
/// When there is no such profile, or it holds no keys.
pub(crate) fn find(name: Option<&str>) -> Result<Option<Profile>, String> {
    let [config, credentials] = files();
    choose(&read(config.as_deref()), &read(credentials.as_deref()), name)
}

fn choose(config: &Sections, credentials: &Sections, name: Option<&str>) -> Result<Option<Profile>, String> {
    let wanted = name.unwrap_or("default");
    let (config, credentials) = (config.get(wanted), credentials.get(wanted));
    if config.is_none() && credentials.is_none() {
        return match name {
            Some(name) => Err(format!("there is no AWS profile '{name}' in ~/.aws/config or ~/.aws/credentials")),
            None => Ok(None),
        };
    }
    // As in the AWS tools, credentials win over config.
    let get = |key: &str| credentials.and_then(|s| s.get(key)).or_else(|| config.and_then(|s| s.get(key))).cloned();
    let (Some(id), Some(secret)) = (get("aws_access_key_id"), get("aws_secret_access_key")) else {
        let elsewhere = ["sso_session", "sso_start_url", "role_arn", "credential_process"].into_iter().find(|k| get(k).is_some());
        return match (elsewhere, name) {
            (Some(key), _) => Err(format!(
                "the AWS profile '{wanted}' gets its keys through '{key}', which is not supported; \
                 put temporary keys into the environment: eval \"$(aws configure export-credentials --profile {wanted} --format env)\""
            )),
            (None, Some(name)) => Err(format!("the AWS profile '{name}' has no aws_access_key_id and aws_secret_access_key")),
            (None, None) => Ok(None),
        };
    };
    Ok(Some(Profile {
        access_key_id: id,
        secret_access_key: secret,
        session_token: get("aws_session_token"),
        region: get("region"),
        endpoint: get("endpoint_url"),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "# comment\n[default]\nregion = eu-west-1\n[profile lab]\nregion=us-west-2 # here\nendpoint_url = http://lab:9000\n\
        s3 =\n  max_concurrent_requests = 20\n[profile sso]\nsso_session = corp\n[sso-session corp]\nsso_start_url = x\n";
    const CREDENTIALS: &str = "[default]\naws_access_key_id = A\naws_secret_access_key = B=/+\n[lab]\naws_access_key_id=C\n\
        aws_secret_access_key=D\naws_session_token=T\n";

    #[test]
    fn keys_and_settings_of_a_profile() {
        let (config, credentials) = (parse(CONFIG), parse(CREDENTIALS));
        let p = choose(&config, &credentials, None).unwrap().unwrap();
        assert_eq!((p.access_key_id.as_str(), p.secret_access_key.as_str(), p.region.as_deref()), ("A", "B=/+", Some("eu-west-1")));
        let p = choose(&config, &credentials, Some("lab")).unwrap().unwrap();
        assert_eq!((p.session_token.as_deref(), p.region.as_deref()), (Some("T"), Some("us-west-2")));
        assert_eq!(p.endpoint.as_deref(), Some("http://lab:9000"));
    }

    #[test]
    fn what_cannot_be_used_is_explained() {
        let (config, credentials) = (parse(CONFIG), parse(CREDENTIALS));
        assert!(choose(&config, &credentials, Some("sso")).unwrap_err().contains("export-credentials --profile sso"));
        assert!(choose(&config, &credentials, Some("none")).unwrap_err().contains("no AWS profile 'none'"));
        assert_eq!(choose(&Sections::new(), &Sections::new(), None), Ok(None));
    }
}
