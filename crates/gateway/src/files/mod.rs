//! Files over HTTP, for programs that know no other way: `GET` and `HEAD` of `/files/PATH`.
//!
//! ```text
//! GET /files/a/b ──▶ status ─┬─ directory ──▶ [`listing`]  HTML, or JSON where that is asked for
//!                            └─ file ──▶ [`conditions`] ──▶ [`ranges`] ──▶ [`content`]  bytes, or several parts
//! ```
//!
//! Promise: all bytes of one answer are of the file whose ETag it has. What does not fit what was promised in the head
//! ends the connection, so nobody takes a part for the whole. An answer holds a piece of the file in memory at a time.

mod conditions;
mod content;
mod failure;
mod listing;
mod ranges;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_RANGE, LAST_MODIFIED, LOCATION, RANGE,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use client::{Client, Reader, Status, Store};
use conditions::{Validators, Verdict};
use failure::Failure;
use ranges::Wanted;

/// Times a file is looked up anew that is replaced while it is opened.
const OPEN_COUNT_MAX: usize = 3;
const BYTES: &str = "application/octet-stream";

#[derive(Clone, Debug)]
struct Files {
    store: Store,
    /// In whose name files are read, where the query names nobody (`user.name`, as WebHDFS has it).
    user: String,
}

/// The routes. Who asks proves nothing: whom the query names is who asks where the store believes names.
pub(crate) fn routes(store: Store, user: String) -> Router {
    Router::new().route("/files/", get(root)).route("/files/{*path}", get(path)).with_state(Files { store, user })
}

async fn root(files: State<Files>, method: Method, uri: Uri, query: RawQuery, headers: HeaderMap) -> Response {
    path(files, method, uri, Path(String::new()), query, headers).await
}

async fn path(
    State(files): State<Files>,
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
    let named = of_query("user.name").filter(|name| *name != files.user);
    let client = files.store.client(named.as_deref().unwrap_or(&files.user));
    let (path, is_head, is_named) = (format!("/{path}"), method == Method::HEAD, named.is_some());
    let asked = Asked { client, path, uri, is_head, is_named, headers };
    let format = of_query("format");
    answer(asked, format.as_deref()).await.unwrap_or_else(IntoResponse::into_response)
}

/// A request.
struct Asked {
    client: Client,
    /// Absolute; a directory's may end with a slash.
    path: String,
    uri: Uri,
    is_head: bool,
    /// By whoever asks, who proves nothing.
    is_named: bool,
    headers: HeaderMap,
}

impl Asked {
    fn header(&self, name: impl axum::http::header::AsHeaderName) -> Option<&str> {
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
    let found = asked.client.existing(asked.tidy_path()).await;
    if asked.is_named && asked.client.is_proven() {
        // The gateway may act for others; whoever comes here may not.
        return Err(Failure::new(StatusCode::FORBIDDEN, "this store believes no names: ask without user.name"));
    }
    let status = found?;
    if status.is_dir() {
        return directory(asked, format).await;
    }
    if asked.path.ends_with('/') {
        return Err(Failure::new(StatusCode::NOT_FOUND, "a file, and no directory"));
    }
    file(asked, status).await
}

async fn directory(asked: Asked, format: Option<&str>) -> Result<Response, Failure> {
    // So that the names in it lead to what is in it.
    if !asked.uri.path().ends_with('/') {
        let query = asked.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        let location = format!("{}/{query}", asked.uri.path());
        let location = HeaderValue::from_str(&location).expect("it was a part of the head");
        return Ok((StatusCode::MOVED_PERMANENTLY, [(LOCATION, location)]).into_response());
    }
    let as_json = match format {
        Some(format) => format == "json",
        None => asked.header("accept").is_some_and(|accept| accept.contains("application/json")),
    };
    let shape = if as_json { listing::Shape::Json } else { listing::Shape::Html };
    let listing = asked.client.list(asked.tidy_path()).await?;
    let body = if asked.is_head { Body::empty() } else { listing::body(listing, &asked.path, shape) };
    Ok(([(CONTENT_TYPE, shape.content_type())], body).into_response())
}

/// The file that `path` names, and what it is.
async fn opened(client: &Client, path: &str, mut status: Status) -> Result<(Reader, Status), Failure> {
    for _ in 0..OPEN_COUNT_MAX {
        let reader = client.open_listed(path, &status).await?;
        let is_same = reader.len() == status.len && reader.file_id().await.is_none_or(|id| id == status.id);
        if is_same {
            return Ok((reader, status));
        }
        status = client.existing(path).await?;
    }
    Err(Failure::new(StatusCode::SERVICE_UNAVAILABLE, "the file changes all the time; ask again later"))
}

async fn file(asked: Asked, status: Status) -> Result<Response, Failure> {
    let (reader, status) = opened(&asked.client, &asked.path, status).await?;
    let validators = Validators::of(&status);
    let mut response = Response::builder()
        .header(ETAG, validators.etag.as_str())
        .header(LAST_MODIFIED, validators.last_modified())
        .header(ACCEPT_RANGES, "bytes");
    match validators.judge(&asked.headers) {
        Verdict::GoOn => {}
        Verdict::NotModified => return Ok(response.status(StatusCode::NOT_MODIFIED).body(Body::empty()).expect(HEAD)),
        Verdict::Failed => return Err(Failure::new(StatusCode::PRECONDITION_FAILED, "the file is another one by now")),
    }
    let range = asked.header(RANGE).filter(|_| validators.range_counts(asked.header(IF_RANGE)));
    let len = status.len;
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
    let body = if asked.is_head { Body::empty() } else { content::body(reader, parts) };
    Ok(response.header(CONTENT_TYPE, content_type).body(body).expect(HEAD))
}

const HEAD: &str = "the head is made of numbers and of what was parsed";
