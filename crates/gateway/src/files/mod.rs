//! Files over HTTP, for programs that know no other way: `GET` and `HEAD` of `/files/PATH`.
//!
//! ```text
//! GET /files/a/b ──▶ status ─┬─ directory ──▶ [`listing`]  HTML, or JSON where that is asked for
//!                            └─ file ──▶ [`conditions`] ──▶ [`ranges`] ──▶ [`content`]  bytes, or several parts
//! ```
//!
//! Promise: all bytes of an answer that came to its end are of the file whose ETag it has: it is looked at once more
//! before the last of them, and at an edge also now and then before. What does not fit what was promised in the head
//! ends the connection, so nobody takes a part for the whole. An answer holds a piece of the file in memory at a time.

mod conditions;
mod content;
mod failure;
mod listing;
pub(crate) mod ranges;

use crate::counts::{Counts, count_response};
use crate::reading::{Found, Reading};
use crate::users::Users;
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::header::{
    ACCEPT_RANGES, AsHeaderName, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_RANGE,
    LAST_MODIFIED, LOCATION, RANGE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use conditions::{Validators, Verdict, http_date};
use failure::Failure;
use ranges::Wanted;

const BYTES: &str = "application/octet-stream";

/// In whose name a request is answered: whom the query names (`user.name`, as WebHDFS has it), if it does.
async fn reading_for(users: &Users, named: Option<String>) -> Result<Reading, Failure> {
    let Some(named) = named else { return Ok(users.own()) };
    let refused = || Failure::new(StatusCode::FORBIDDEN, "this store believes no names: ask without user.name");
    users.named(&named).await?.ok_or_else(refused)
}

/// The routes. Who asks proves nothing: whom the query names is who asks where the store believes names.
pub(crate) fn routes(users: Users, counts: Counts) -> Router {
    let routes = Router::new().route("/files/", get(root)).route("/files/{*path}", get(path)).with_state(users);
    let routes = routes.route("/", get(to_root)).route("/files", get(to_root));
    let routes = routes.fallback(nothing_there).method_not_allowed_fallback(read_only);
    routes.layer(from_fn_with_state(counts, count_response))
}

/// Whoever looks what is here is led to the files.
async fn to_root(RawQuery(query): RawQuery) -> Response {
    moved(&format!("/files/{}", query.map(|query| format!("?{query}")).unwrap_or_default()))
}

async fn nothing_there() -> Response {
    Failure::new(StatusCode::NOT_FOUND, "nothing is here: files are below /files/").into_response()
}

async fn read_only() -> Response {
    let text = "files are read here, by GET and HEAD, and not written: write to the store";
    Failure::new(StatusCode::METHOD_NOT_ALLOWED, text).into_response()
}

fn moved(location: &str) -> Response {
    let location = HeaderValue::from_str(location).expect("it was a part of the head");
    (StatusCode::MOVED_PERMANENTLY, [(LOCATION, location)]).into_response()
}

async fn root(users: State<Users>, method: Method, uri: Uri, query: RawQuery, headers: HeaderMap) -> Response {
    path(users, method, uri, Path(String::new()), query, headers).await
}

async fn path(
    State(users): State<Users>,
    method: Method,
    uri: Uri,
    Path(path): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let query = query.unwrap_or_default();
    let of_query = |name: &str| {
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        pairs.find(|(key, value)| key == name && !value.is_empty()).map(|(_, value)| value.into_owned())
    };
    let answering = async {
        let named = of_query("user.name");
        let reading = reading_for(&users, named.clone()).await?;
        let asked = Asked { reading, named, path: format!("/{path}"), uri, is_head: method == Method::HEAD, headers };
        answer(asked, of_query("format").as_deref()).await
    };
    let mut response = answering.await.unwrap_or_else(IntoResponse::into_response);
    // Files are anybody's: a browser shall take none for a page of this site.
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox allow-downloads; default-src 'none'"));
    response
}

/// A request.
struct Asked {
    reading: Reading,
    /// By the query: who follows a link goes on in this name.
    named: Option<String>,
    /// Absolute; a directory's may end with a slash.
    path: String,
    uri: Uri,
    is_head: bool,
    headers: HeaderMap,
}

impl Asked {
    fn header(&self, name: impl AsHeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    fn tidy_path(&self) -> &str {
        match self.path.trim_end_matches('/') {
            "" => "/",
            path => path,
        }
    }
}

async fn answer(asked: Asked, format: Option<&str>) -> Result<Response, Failure> {
    let found = asked.reading.find(asked.tidy_path()).await?;
    if found.status.is_dir() {
        return directory(asked, format).await;
    }
    if asked.path.ends_with('/') {
        return Err(Failure::new(StatusCode::NOT_FOUND, "a file, and no directory"));
    }
    file(asked, found).await
}

async fn directory(asked: Asked, format: Option<&str>) -> Result<Response, Failure> {
    // So that the names in it lead to what is in it.
    if !asked.uri.path().ends_with('/') {
        let query = asked.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        let location = format!("{}/{query}", asked.uri.path());
        return Ok(moved(&location));
    }
    let as_json = match format {
        Some(format) => format == "json",
        None => asked.header("accept").is_some_and(|accept| accept.contains("application/json")),
    };
    let shape = if as_json { listing::Shape::Json } else { listing::Shape::Html };
    let listing = asked.reading.list(asked.tidy_path()).await?;
    let body =
        if asked.is_head { Body::empty() } else { listing::body(listing, &asked.path, asked.named.as_deref(), shape) };
    Ok(([(CONTENT_TYPE, shape.content_type())], body).into_response())
}

async fn file(asked: Asked, found: Found) -> Result<Response, Failure> {
    let opened = found.open(&asked.path).await?;
    let validators = Validators::of(&opened.status);
    let mut response = Response::builder()
        .header(ETAG, validators.etag.as_str())
        .header(LAST_MODIFIED, validators.last_modified())
        .header(ACCEPT_RANGES, "bytes");
    if let Some(since) = opened.kept_since() {
        response = response.header(EDGE, format!("link-down; validated=\"{}\"", http_date(since)));
    }
    match validators.judge(&asked.headers) {
        Verdict::GoOn => {}
        Verdict::NotModified => return Ok(response.status(StatusCode::NOT_MODIFIED).body(Body::empty()).expect(HEAD)),
        Verdict::Failed => return Err(Failure::new(StatusCode::PRECONDITION_FAILED, "the file is another one by now")),
    }
    // Ranges are GET's alone.
    let has_range = !asked.is_head && validators.range_counts(asked.header(IF_RANGE));
    let range = asked.header(RANGE).filter(|_| has_range);
    let len = opened.status.len;
    let (parts, content_type) = match ranges::wanted(range, len) {
        Wanted::All => {
            response = response.header(CONTENT_LENGTH, len);
            (content::Parts::one(0..len), BYTES.to_owned())
        }
        Wanted::Nothing => {
            let failure = Failure::new(StatusCode::RANGE_NOT_SATISFIABLE, "no such bytes in this file");
            return Err(failure.with(CONTENT_RANGE, format!("bytes */{len}")));
        }
        Wanted::Ranges(wanted) => {
            response = response.status(StatusCode::PARTIAL_CONTENT);
            if let [range] = &wanted[..] {
                let (first, last) = (range.start, range.end - 1);
                response = response
                    .header(CONTENT_RANGE, format!("bytes {first}-{last}/{len}"))
                    .header(CONTENT_LENGTH, range.end - range.start);
                (content::Parts::one(range.clone()), BYTES.to_owned())
            } else {
                let parts = content::Parts::several(wanted, len);
                response = response.header(CONTENT_LENGTH, parts.len());
                let content_type = parts.content_type();
                (parts, content_type)
            }
        }
    };
    let body = if asked.is_head { Body::empty() } else { content::body(opened, parts) };
    Ok(response.header(CONTENT_TYPE, content_type).body(body).expect(HEAD))
}

/// Says that the store could not be asked whether the file is still this one.
const EDGE: &str = "levada-edge";

const HEAD: &str = "the head is made of numbers and of what was parsed";
