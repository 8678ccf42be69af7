//! A directory as a page for people, or as JSON for programs: sent as its entries come.

use axum::body::{Body, Bytes};
use client::{Error, Kind, Listing, Status};
use futures_util::stream;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;
use std::fmt::Write;
use std::time::{Duration, SystemTime};

/// Entries of one piece of the body.
const PIECE_COUNT: usize = 256;
/// What stands for itself in a link.
const IN_LINKS: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Html,
    /// One array; each entry has name, type, length (bytes), modified (RFC 9110's date), owner, group, mode (octal),
    /// replication and block_length (bytes).
    Json,
}

impl Shape {
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Html => "text/html; charset=utf-8",
            Self::Json => "application/json",
        }
    }

    fn begin(self, path: &str, query: &str) -> String {
        match self {
            Self::Html => {
                let path = escaped(path);
                let up = match path.as_str() {
                    "/" => String::new(),
                    _ => format!("<tr><td><a href=\"../{query}\">../</a></td></tr>\n"),
                };
                format!(
                    "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>{path}</title></head><body>\n\
                     <h1>{path}</h1>\n<table>\n\
                     <tr><th>name</th><th>bytes</th><th>modified</th><th>owner</th></tr>\n{up}"
                )
            }
            Self::Json => "[".to_owned(),
        }
    }

    fn entry(self, status: &Status, query: &str, is_first: bool, out: &mut String) {
        let Status { name, len, modified, owner, group, mode, replication, block_len, kind, .. } = status;
        let modified = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(modified.0 / 1000));
        let modified = httpdate::fmt_http_date(modified.unwrap_or(SystemTime::UNIX_EPOCH));
        let slash = if status.is_dir() { "/" } else { "" };
        match self {
            Self::Html => {
                let (link, name, owner) = (utf8_percent_encode(name, IN_LINKS), escaped(name), escaped(owner));
                let len = if status.is_dir() { String::new() } else { len.to_string() };
                let _ = writeln!(
                    out,
                    "<tr><td><a href=\"{link}{slash}{query}\">{name}{slash}</a></td><td>{len}</td><td>{modified}</td>\
                     <td>{owner}</td></tr>"
                );
            }
            Self::Json => {
                let kind = match kind {
                    Kind::File => "file",
                    Kind::Directory => "directory",
                    Kind::Symlink => "link",
                };
                let entry = json!({
                    "name": name, "type": kind, "length": len, "modified": modified, "owner": owner, "group": group,
                    "mode": format!("{mode:04o}"), "replication": replication, "block_length": block_len,
                });
                let _ = write!(out, "{}{entry}", if is_first { "\n" } else { ",\n" });
            }
        }
    }

    fn end(self) -> &'static str {
        match self {
            Self::Html => "</table>\n</body></html>\n",
            Self::Json => "\n]\n",
        }
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

struct Sending {
    listing: Listing,
    shape: Shape,
    /// Behind each link.
    query: String,
    count: u64,
    /// What is sent next beside entries.
    begun: Option<String>,
    is_ended: bool,
}

/// `named`: in whose name links are followed.
pub(super) fn body(listing: Listing, path: &str, named: Option<&str>, shape: Shape) -> Body {
    let query = named.map(|named| format!("?user.name={}", utf8_percent_encode(named, IN_LINKS))).unwrap_or_default();
    let begun = Some(shape.begin(path, &query));
    let sending = Sending { listing, shape, query, count: 0, begun, is_ended: false };
    Body::from_stream(stream::try_unfold(sending, async |mut sending| {
        let next = sending.next().await?;
        Ok::<_, Error>(next.map(|bytes| (bytes, sending)))
    }))
}

impl Sending {
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        if self.is_ended {
            return Ok(None);
        }
        let mut out = self.begun.take().unwrap_or_default();
        for _ in 0..PIECE_COUNT {
            match self.listing.next().await? {
                Some(status) => self.shape.entry(&status, &self.query, self.count == 0, &mut out),
                None => {
                    out.push_str(self.shape.end());
                    self.is_ended = true;
                    break;
                }
            }
            self.count += 1;
        }
        Ok(Some(out.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names are anybody's: what is in one is no part of the page.
    #[test]
    fn a_name_is_a_name_on_a_page() {
        assert_eq!(escaped("<a href='x'>&\"</a>"), "&lt;a href=&#39;x&#39;&gt;&amp;&quot;&lt;/a&gt;");
        assert_eq!(utf8_percent_encode("a b/%ü?#", IN_LINKS).to_string(), "a%20b%2F%25%C3%BC%3F%23");
    }
}
