//! What can go wrong, by what a caller can do about it.

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
    /// Nothing is there.
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
            ErrorKind::NotFound | ErrorKind::NotADirectory => StorageError::NotFound { url },
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                StorageError::PermissionDenied { action, url, detail: e.to_string() }
            }
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => StorageError::DiskFull { url },
            _ => StorageError::Store { action, url, detail: e.to_string(), transient: false },
        }
    }

    pub(crate) fn of(action: &'static str, url: String, e: &object_store::Error, local: bool) -> StorageError {
        let mut detail = e.to_string();
        let mut source = std::error::Error::source(e);
        while let Some(s) = source {
            if !detail.contains(&s.to_string()) {
                detail = format!("{detail}: {s}");
            }
            source = s.source();
        }
        if detail.contains("os error 28") {
            return StorageError::DiskFull { url };
        }
        match e {
            object_store::Error::NotFound { .. } => StorageError::NotFound { url },
            object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
                StorageError::PermissionDenied { action, url, detail }
            }
            _ if detail.contains("os error 13") || detail.contains("os error 30") => StorageError::PermissionDenied { action, url, detail },
            _ => StorageError::Store { action, url, detail, transient: !local },
        }
    }
}
