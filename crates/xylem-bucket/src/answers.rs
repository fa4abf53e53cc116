//! [`Connector`]: an HTTP connector that bounds the size of answers. A store, or an attacker in the path of `http://`,
//! may send lists and errors without end, and `object_store` reads each of them whole.
//!
//! `object_store` also refuses a whole list in which one key is not a path. The connector takes that key out of the
//! list and reports it.

use std::pin::Pin;

use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService, ReqwestConnector,
};
use xylem_object::listing::check_component;

use crate::place::MAX_KEY;

/// Largest page of a list, bytes. A page has 1,000 keys of at most 1,024 bytes, and escaping takes at most six bytes
/// for each.
const MAX_PAGE: usize = 16 << 20;
/// Largest answer that is neither a list nor an object, bytes.
const MAX_OTHER: usize = 1 << 20;

/// A key that cannot be a path here, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OddKey {
    pub(crate) key: String,
    pub(crate) why: String,
}

/// Parts of a list's page that `object_store` does not see. They travel in the answer's extensions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PageExtras {
    pub(crate) odd: Vec<OddKey>,
    /// The page has an empty object with a key that ends with a slash: other programs mark a folder so.
    pub(crate) has_mark: bool,
    /// Size of the page as received, bytes.
    pub(crate) bytes: usize,
}

#[derive(Debug, thiserror::Error)]
#[error("the store {store} sent an answer of more than {limit} bytes, the limit for this request")]
struct AnswerTooLong {
    store: String,
    limit: usize,
}

/// Connector that makes clients with bounded answers; see the module's text.
#[derive(Debug, Default)]
pub(crate) struct Connector(ReqwestConnector);

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Bounded(self.0.connect(options)?)))
    }
}

#[derive(Debug)]
struct Bounded(HttpClient);

/// Future of an answer.
type Answered<'a> = Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'a>>;

impl HttpService for Bounded {
    fn call<'life0, 'async_trait>(&'life0 self, request: HttpRequest) -> Answered<'async_trait>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(answer(self.0.clone(), request))
    }
}

async fn answer(client: HttpClient, request: HttpRequest) -> Result<HttpResponse, HttpError> {
    let uri = request.uri();
    let is_list = uri.query().is_some_and(|query| query.split('&').any(|of| of == "list-type=2"));
    let is_get = request.method().as_str() == "GET";
    let store = uri.authority().map_or_else(String::new, |at| at.as_str().to_owned());
    let (mut parts, body) = client.execute(request).await?.into_parts();
    let told = parts.headers.contains_key("content-length");
    if is_get && !is_list && parts.status.is_success() && told {
        // An object is not collected here: the caller counts its bytes.
        return Ok(HttpResponse::from_parts(parts, body));
    }
    let limit = if is_list { MAX_PAGE } else { MAX_OTHER };
    let mut whole = collected(body, limit, store).await?;
    if is_list && parts.status.is_success() {
        let (page, besides) = split_page(&whole);
        whole = page;
        parts.headers.remove("content-length");
        parts.extensions.insert(besides);
    }
    Ok(HttpResponse::from_parts(parts, HttpResponseBody::from(whole)))
}

async fn collected(
    body: HttpResponseBody,
    limit: usize,
    store: String,
) -> Result<Vec<u8>, HttpError> {
    use futures_util::TryStreamExt;
    let mut pieces = body.bytes_stream();
    let mut whole = Vec::new();
    while let Some(piece) = pieces.try_next().await? {
        if piece.len() > limit - whole.len() {
            return Err(HttpError::new(HttpErrorKind::Decode, AnswerTooLong { store, limit }));
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole)
}

/// How [`split_page`] treats an entry of a list.
enum ListItem {
    Stays,
    Mark,
    Odd(OddKey),
}

/// Splits a page into the page without the keys that cannot be paths, and those keys. The XML is searched as text: text
/// content cannot contain a tag. Parts that this does not understand stay in the page for `object_store` to refuse.
fn split_page(page: &[u8]) -> (Vec<u8>, PageExtras) {
    const KINDS: [(&[u8], &[u8], &str); 2] = [
        (b"<Contents>", b"</Contents>", "Key"),
        (b"<CommonPrefixes>", b"</CommonPrefixes>", "Prefix"),
    ];
    let mut besides = PageExtras { bytes: page.len(), ..PageExtras::default() };
    let mut kept = Vec::with_capacity(page.len());
    let mut rest = page;
    while let Some(at) = rest.iter().position(|byte| *byte == b'<') {
        kept.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        let Some((_, close, tag)) = KINDS.iter().find(|(open, ..)| rest.starts_with(open)) else {
            kept.push(b'<');
            rest = &rest[1..];
            continue;
        };
        // An element that is not closed is the last.
        let end = find(rest, close).map(|at| at.saturating_add(close.len()));
        let Some((block, behind)) = end.and_then(|end| rest.split_at_checked(end)) else { break };
        match classify(block, tag) {
            ListItem::Stays => kept.extend_from_slice(block),
            ListItem::Mark => besides.has_mark = true,
            ListItem::Odd(odd) => besides.odd.push(odd),
        }
        rest = behind;
    }
    kept.extend_from_slice(rest);
    (kept, besides)
}

fn classify(block: &[u8], tag: &str) -> ListItem {
    let Some(raw) = between(block, tag) else { return ListItem::Stays };
    let odd = |key: String, why: &str| ListItem::Odd(OddKey { key, why: why.to_owned() });
    let Some(key) = unescaped(raw) else {
        return odd(String::from_utf8_lossy(raw).into_owned(), "the key is not valid text");
    };
    let size = between(block, "Size").and_then(|size| str::from_utf8(size).ok()?.parse().ok());
    let folder = key.strip_suffix('/');
    if let (Some(size), Some(_)) = (size, folder) {
        let size: u64 = size;
        return match size {
            0 => ListItem::Mark,
            _ => odd(key, "its key ends with a slash, like a folder's, but it has content"),
        };
    }
    match why_no_path(folder.unwrap_or(&key)) {
        Some(why) => ListItem::Odd(OddKey { why, key }),
        None => ListItem::Stays,
    }
}

/// Returns why a key is not a path; `None` if it is one.
pub(crate) fn why_no_path(key: &str) -> Option<String> {
    if key.chars().any(char::is_control) {
        return Some("the key has control characters".to_owned());
    }
    if key.len() > MAX_KEY {
        return Some(format!("the key has more than {MAX_KEY} bytes"));
    }
    let bad = key.split('/').find_map(|part| check_component(part.as_bytes()).err());
    bad.map(|why| format!("the key is not a valid path: {why}"))
}

/// Returns the text of the first element of this name.
fn between<'a>(block: &'a [u8], tag: &str) -> Option<&'a [u8]> {
    let open = format!("<{tag}>");
    let from = find(block, open.as_bytes())?.checked_add(open.len())?;
    let text = block.get(from..)?;
    text.get(..find(text, format!("</{tag}>").as_bytes())?)
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

/// Replaces XML entities by their characters; `None` if the bytes are not valid text.
fn unescaped(raw: &[u8]) -> Option<String> {
    let raw = str::from_utf8(raw).ok()?;
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((before, behind)) = rest.split_once('&') {
        let (name, after) = behind.split_once(';')?;
        let c = match name {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "apos" => '\'',
            _ => {
                let number = name.strip_prefix('#')?;
                let number = match number.strip_prefix(['x', 'X']) {
                    Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                    None => number.parse().ok()?,
                };
                char::from_u32(number)?
            }
        };
        text.push_str(before);
        text.push(c);
        rest = after;
    }
    text.push_str(rest);
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(key: &str, size: u64) -> String {
        format!("<Contents><Key>{key}</Key><Size>{size}</Size><ETag>\"x\"</ETag></Contents>")
    }

    #[test]
    fn keys_that_are_not_paths_are_removed_and_reported() {
        let good = [contents("a", 1), contents("b/c&amp;d", 0), contents("ü &#233;", 1)].concat();
        let folder = |key: &str| format!("<CommonPrefixes><Prefix>{key}</Prefix></CommonPrefixes>");
        let odd = [
            contents("x/../y", 1),
            contents("/etc/x", 1),
            contents("x//y", 1),
            contents("n&#0;l", 1),
            contents("t\tb", 1),
            contents("n&#10;l", 1),
            contents("c&#x9b;1", 1),
            contents(&"x".repeat(256), 1),
            contents(&"x/".repeat(600), 1),
            contents("dir/", 5),
            contents("b&bogus;d", 5),
            contents(".a.xylem-part", 5),
            folder("lead//"),
            folder("/"),
            folder("../"),
        ];
        let page = format!("<A><Name>n</Name>{}{good}{}<E/></A>", odd.concat(), folder("d/"));
        let (kept, besides) = split_page(page.as_bytes());
        let left = format!("<A><Name>n</Name>{good}{}<E/></A>", folder("d/"));
        assert_eq!(String::from_utf8(kept).expect("text"), left);
        assert_eq!(besides.odd.len(), odd.len(), "{:?}", besides.odd);
        assert!(!besides.has_mark && besides.bytes == page.len());
        let (kept, besides) = split_page(contents("dir/", 0).as_bytes());
        assert!(kept.is_empty() && besides.has_mark && besides.odd.is_empty());
        assert!(besides.odd.is_empty());
        // A key that is not UTF-8.
        let bytes = [b"<Contents><Key>\xff</Key></Contents>", &b"<Contents><Key>"[..]].concat();
        let (kept, besides) = split_page(&bytes);
        assert_eq!((&kept[..], besides.odd.len()), (&b"<Contents><Key>"[..], 1));
        for cut in 0..page.len() {
            drop(page.is_char_boundary(cut).then(|| split_page(&page.as_bytes()[..cut])));
        }
    }
}
