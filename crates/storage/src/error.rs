//! Errors of storage, classed by what a caller can do about them.

use crate::client::ELSEWHERE;
use crate::remote::Remote;

/// An error of storage. The messages name the place and say what to do.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The URL is not one that can be opened.
    #[error("'{url}' cannot be opened: {problem}")]
    Url {
        /// The URL.
        url: String,
        /// Why.
        problem: String,
    },
    /// There is nothing at this URL.
    #[error("there is no Zarr array at '{url}'; check the path (`chunkwise info` lists what a store holds)")]
    NotFound {
        /// The URL.
        url: String,
    },
    /// Not allowed.
    #[error("no permission to {action} '{url}': {detail}")]
    PermissionDenied {
        /// read, write, delete or list.
        action: &'static str,
        /// The URL.
        url: String,
        /// What the store says.
        detail: String,
    },
    /// The bucket, or container, does not exist.
    #[error("there is no bucket '{bucket}', which '{url}' is in; check its name, its region and the endpoint, or create it")]
    NoBucket {
        /// The URL.
        url: String,
        /// The bucket.
        bucket: String,
    },
    /// The store does not know the caller.
    #[error("the credentials for '{url}' were refused: {detail}; {help}")]
    Credentials {
        /// The URL.
        url: String,
        /// What the store says.
        detail: String,
        /// What to set.
        help: &'static str,
    },
    /// The disk is full.
    #[error("the disk is full: writing '{url}' failed; free some space and resume the run")]
    DiskFull {
        /// The URL.
        url: String,
    },
    /// A chunk is damaged.
    #[error("array '{array}', chunk '{key}' is damaged: {detail}")]
    Corrupt {
        /// URL of the array.
        array: String,
        /// Key of the chunk.
        key: String,
        /// What is wrong with it.
        detail: String,
    },
    /// A chunk that was written no longer exists.
    #[error(
        "array '{array}', chunk '{key}' is not there, though this run has written it: it was deleted, perhaps by another run of the same \
         plan; run again with --resume"
    )]
    Gone {
        /// URL of the array.
        array: String,
        /// Key of the chunk.
        key: String,
    },
    /// An input no longer exists.
    #[error(
        "the input '{url}' is not there (any more) on {machine}, so chunks that are missing cannot be taken for empty ones; put it back, or make \
         it visible wherever tasks run, and run again (with --resume, if the run had begun)"
    )]
    InputGone {
        /// URL of the array.
        url: String,
        /// The machine that does not see it.
        machine: String,
    },
    /// An input is not the one that the plan was made for, or has changed since a part of the run has read it.
    #[error(
        "the input '{url}' has changed: {detail}; the results would be of two states of it, so start again without --resume (with --overwrite, \
         if outputs are there), when nobody writes to it"
    )]
    InputChanged {
        /// URL of the array.
        url: String,
        /// What has changed.
        detail: String,
    },
    /// What exists there is not what may be replaced.
    #[error("'{url}' is not replaced: {detail}")]
    Kept {
        /// The URL.
        url: String,
        /// What exists there, and what can be done.
        detail: String,
    },
    /// There is a group instead of an array.
    #[error("'{url}' is a group, not an array; name an array in it (`chunkwise info` lists them)")]
    Group {
        /// The URL.
        url: String,
    },
    /// The metadata is wrong.
    #[error("the metadata of '{url}' is not valid: {detail}")]
    Metadata {
        /// URL of the array or group.
        url: String,
        /// What is wrong with it.
        detail: String,
    },
    /// Valid, but not supported.
    #[error("array '{url}' cannot be read: {detail}")]
    Unsupported {
        /// URL of the array.
        url: String,
        /// What is not supported.
        detail: String,
    },
    /// The store failed.
    #[error("cannot {action} '{url}': {detail}")]
    Store {
        /// read, write, delete or list.
        action: &'static str,
        /// The URL.
        url: String,
        /// What the store says.
        detail: String,
        /// True if trying again may help.
        transient: bool,
    },
}

impl StorageError {
    /// True if the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self, StorageError::Store { transient: true, .. })
    }

    pub(crate) fn of_io(action: &'static str, url: String, e: &std::io::Error) -> StorageError {
        use std::io::ErrorKind;
        match e.kind() {
            // A writer did not look for anything, so the folder cannot be made.
            ErrorKind::NotFound | ErrorKind::NotADirectory if action == "write" => {
                StorageError::Store { action, url, detail: format!("its folder cannot be made ({e})"), transient: false }
            }
            ErrorKind::NotFound | ErrorKind::NotADirectory => StorageError::NotFound { url },
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                StorageError::PermissionDenied { action, url, detail: e.to_string() }
            }
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => StorageError::DiskFull { url },
            _ => StorageError::Store { action, url, detail: e.to_string(), transient: false },
        }
    }

    /// The error of a request to a store.
    pub(crate) fn of(action: &'static str, url: String, e: &object_store::Error, store: &Remote) -> StorageError {
        let local = store.scheme == "file";
        let text = chain(e);
        if text.contains("os error 28") {
            return StorageError::DiskFull { url };
        }
        let (code, message) = (tagged(&text, "Code"), tagged(&text, "Message"));
        let code = code.unwrap_or("");
        let detail = match message {
            Some(m) if !code.is_empty() => format!("{m} ({code})"),
            _ => text.clone(),
        };
        if no_bucket(&text) {
            return StorageError::NoBucket { url, bucket: store.bucket.clone() };
        }
        const WRONG: [&str; 12] = [
            "InvalidAccessKeyId",
            "SignatureDoesNotMatch",
            "InvalidToken",
            "ExpiredToken",
            "TokenRefreshRequired",
            "AuthenticationFailed",
            "InvalidAuthenticationInfo",
            "AuthorizationHeaderMalformed",
            "RequestTimeTooSkewed",
            "NoAuthenticationInformation",
            "InvalidClientTokenId",
            "AuthFailure",
        ];
        let status = status_of(&text);
        if WRONG.contains(&code) || status == Some(401) || matches!(e, object_store::Error::Unauthenticated { .. }) {
            return StorageError::Credentials { url, detail, help: credentials_help(&store.scheme) };
        }
        // A server hands out the credentials, and may refuse to.
        if text.contains("token request") || text.contains("169.254.169.254") {
            return StorageError::Credentials { url, detail, help: credentials_help(&store.scheme) };
        }
        match e {
            object_store::Error::NotFound { .. } => return StorageError::NotFound { url },
            _ if status == Some(403) || matches!(e, object_store::Error::PermissionDenied { .. }) => {
                // S3 also gives this answer for objects that do not exist, if the caller may not list the bucket.
                let hint = if store.scheme == "s3" && action == "read" {
                    "; without the right to list the bucket (s3:ListBucket) S3 also says this of objects that do not exist"
                } else {
                    ""
                };
                return StorageError::PermissionDenied { action, url, detail: format!("{detail}{hint}") };
            }
            _ if text.contains("os error 13") || text.contains("os error 30") => {
                return StorageError::PermissionDenied { action, url, detail };
            }
            _ => {}
        }
        let no_ranges = text.contains("non-partial response") || text.contains("Range request not supported");
        let detail = match status {
            Some(429 | 503) => format!(
                "the store asked to slow down, and did so to the last of the repeated requests ({detail}); \
                 lower 'connections' or raise 'retries' in the storage options"
            ),
            _ if text.contains("Received redirect") => {
                format!("the store is elsewhere ({detail}); set the bucket's region (AWS_REGION, or region in the storage options)")
            }
            _ if text.contains(ELSEWHERE) => text.get(text.find(ELSEWHERE).unwrap_or(0)..).unwrap_or(&text).to_string(),
            _ if no_ranges => {
                format!("the server does not serve ranges of a file ({detail}); a server for Zarr data must")
            }
            _ if status.is_none() && store.endpoint.is_some() && !text.contains("://") => {
                format!("{detail} (endpoint {})", store.endpoint.as_deref().unwrap_or_default())
            }
            _ => detail,
        };
        let passing = !matches!(status, Some(300..=499)) || matches!(status, Some(408 | 409 | 429));
        let never = no_ranges || text.contains("at most") || text.contains("Received redirect") || text.contains(ELSEWHERE);
        StorageError::Store { action, url, detail, transient: !local && passing && !never }
    }
}

/// True if a store says that the bucket, and not only the object, does not exist.
pub(crate) fn no_bucket(text: &str) -> bool {
    ["NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist"].iter().any(|t| text.contains(t))
}

fn credentials_help(scheme: &str) -> &'static str {
    match scheme {
        "s3" => "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or the profile (AWS_PROFILE), and the region",
        "gs" => "check GOOGLE_APPLICATION_CREDENTIALS or GOOGLE_SERVICE_ACCOUNT",
        "az" => "check AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_KEY or AZURE_STORAGE_TOKEN",
        _ => "the server wants a login, which is not supported",
    }
}

/// The messages of an error and of its causes, each once.
fn chain(e: &object_store::Error) -> String {
    let mut detail = e.to_string();
    let mut source = std::error::Error::source(e);
    while let Some(s) = source {
        if !detail.contains(&s.to_string()) {
            detail = format!("{detail}: {s}");
        }
        source = s.source();
    }
    detail
}

/// The text of an element of an XML answer.
pub(crate) fn tagged<'t>(text: &'t str, tag: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(&format!("<{tag}>"))?;
    rest.split_once(&format!("</{tag}>")).map(|(inside, _)| inside.trim())
}

/// The HTTP status of an answer that `object_store` describes.
fn status_of(text: &str) -> Option<u16> {
    let (_, rest) = text.split_once("status code: ")?;
    rest.get(..3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_store_says() {
        let text = "Error performing GET http://h/b/k in 2ms - Server returned non-2xx status code: 503 Service Unavailable: \
                    <Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>";
        assert_eq!((tagged(text, "Code"), status_of(text)), (Some("SlowDown"), Some(503)));
        assert_eq!((tagged("plain", "Code"), status_of("plain")), (None, None));
    }
}
