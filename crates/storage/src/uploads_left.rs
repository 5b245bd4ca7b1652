//! Multipart uploads of a process that was killed. They are not visible, and have to be paid for until they are aborted.
//!
//! S3 can list them. For other stores, or without the right to list them, a rule of the bucket has to remove them (`docs/storage.md`).

use crate::Store;
use crate::error::tagged;
use object_store::client::{HttpConnector, HttpRequest, HttpRequestBody, ReqwestConnector};
use object_store::multipart::MultipartStore;
use object_store::path::Path as Key;
use object_store::signer::{Method, SignedUrlOptions, Signer};
use std::time::Duration;

/// How long a listing may take.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The largest number of pages of a listing that are read.
const PAGES: usize = 1000;

/// Text of XML without its escapes.
fn unescaped(text: &str) -> String {
    [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#34;", "\""), ("&apos;", "'"), ("&#39;", "'"), ("&amp;", "&")]
        .iter()
        .fold(text.to_string(), |t, (from, to)| t.replace(from, to))
}

/// The uploads on a page, by key and id.
fn on_page(text: &str) -> Vec<(String, String)> {
    let upload = |part: &str| Some((unescaped(tagged(part, "Key")?), unescaped(tagged(part, "UploadId")?)));
    text.split("<Upload>").skip(1).filter_map(upload).collect()
}

impl Store {
    /// The unfinished uploads below this folder, if the store can list them.
    fn uploads(&self) -> Option<Vec<(String, String)>> {
        let s3 = self.remote.s3.as_ref()?;
        let client =
            ReqwestConnector::default().connect(&object_store::ClientOptions::new().with_allow_http(true).with_timeout(TIMEOUT)).ok()?;
        let prefix = self.key("").ok()?.as_ref().to_string();
        let prefix = if prefix.is_empty() { prefix } else { format!("{prefix}/") };
        let (mut out, mut after) = (Vec::new(), Vec::<(String, String)>::new());
        for _ in 0..PAGES {
            let query = [("uploads".to_string(), String::new()), ("prefix".to_string(), prefix.clone())].into_iter().chain(after.drain(..));
            let options = SignedUrlOptions::new().with_query(query);
            let asked = self.wait("list", "", async {
                let url = s3.signed_url_opts(Method::GET, &Key::default(), TIMEOUT, &options).await?;
                let mut request = HttpRequest::new(HttpRequestBody::empty());
                let generic = |source: Box<dyn std::error::Error + Send + Sync>| object_store::Error::Generic { store: "S3", source };
                *request.uri_mut() = url.as_str().parse().map_err(|_| generic("the URL is not valid".into()))?;
                let answer = client.execute(request).await.map_err(|e| generic(Box::new(e)))?;
                let ok = answer.status().is_success();
                let body = answer.into_body().bytes().await.map_err(|e| generic(Box::new(e)))?;
                Ok(ok.then(|| String::from_utf8_lossy(&body).into_owned()))
            });
            let text = asked.ok()??;
            out.extend(on_page(&text));
            let next = |name: &str| tagged(&text, name).map(unescaped);
            match (tagged(&text, "IsTruncated"), next("NextKeyMarker"), next("NextUploadIdMarker")) {
                (Some("true"), Some(key), Some(id)) => after = vec![("key-marker".into(), key), ("upload-id-marker".into(), id)],
                _ => break,
            }
        }
        // Some servers ignore prefixes.
        out.retain(|(key, _)| key.starts_with(&prefix));
        Some(out)
    }

    /// Aborts the multipart uploads that were begun below this folder, and returns how many those were. If the store cannot list them, none
    /// are known. A caller without the right to abort them leaves them: a run must not fail because of another run's remains.
    pub fn abort_uploads(&self) -> u64 {
        let (Some(s3), Some(found)) = (self.remote.s3.as_ref(), self.uploads()) else { return 0 };
        let abort = |(key, id): &(String, String)| {
            let path = Key::parse(key).ok()?;
            self.wait("abort an upload of", "", s3.abort_multipart(&path, id)).ok()
        };
        found.iter().filter_map(abort).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_uploads() {
        let page = "<ListMultipartUploadsResult><Bucket>b</Bucket><IsTruncated>false</IsTruncated><Upload><Key>out/a&amp;b/c/0</Key>\
                    <UploadId>id-1</UploadId></Upload><Upload><UploadId>id-2</UploadId><Key>out/c</Key></Upload></ListMultipartUploadsResult>";
        assert_eq!(on_page(page), [("out/a&b/c/0".into(), "id-1".into()), ("out/c".into(), "id-2".into())]);
        assert!(on_page("<ListMultipartUploadsResult/>").is_empty());
    }
}
