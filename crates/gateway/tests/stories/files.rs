//! Files over HTTP, as any program asks for them: the bytes on the socket.

use crate::support::{Cluster, bytes};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// An answer.
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

pub(crate) async fn ask(addr: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut socket = TcpStream::connect(addr).await.unwrap();
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let request = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut got = Vec::new();
    socket.read_to_end(&mut got).await.unwrap();
    let end = got.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(got[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let body = if is_chunked { unchunked(&got[end + 4..]) } else { got[end + 4..].to_vec() };
    Answer { status, head, body }
}

fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = bytes.windows(2).position(|two| two == b"\r\n").unwrap();
        let len = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).unwrap(), 16).unwrap();
        if len == 0 {
            return body;
        }
        body.extend_from_slice(&bytes[end + 2..end + 2 + len]);
        bytes = &bytes[end + 4 + len..];
    }
}

#[tokio::test]
async fn a_file_is_read_whole_or_in_parts() {
    let cluster = Cluster::new(100).await;
    let (addr, data) = (cluster.gateway.files_addr().unwrap(), bytes(3_000_000));
    cluster.put("/a b", &data).await;
    let whole = ask(addr, "GET", "/files/a%20b", &[]).await;
    assert_eq!((whole.status, whole.header("content-length")), (200, Some("3000000")));
    assert!(whole.body == data && whole.header("accept-ranges") == Some("bytes"));
    let head = ask(addr, "HEAD", "/files/a%20b", &[]).await;
    assert_eq!((head.status, head.header("content-length"), head.body.len()), (200, Some("3000000"), 0));
    let head = ask(addr, "HEAD", "/files/a%20b", &[("Range", "bytes=-5")]).await;
    assert_eq!((head.status, head.header("x-content-type-options")), (200, Some("nosniff")));
    let part = ask(addr, "GET", "/files/a%20b", &[("Range", "bytes=-5")]).await;
    assert_eq!((part.status, part.header("content-range")), (206, Some("bytes 2999995-2999999/3000000")));
    assert_eq!(part.body, data[2_999_995..]);
    let beyond = ask(addr, "GET", "/files/a%20b", &[("Range", "bytes=3000000-")]).await;
    assert_eq!((beyond.status, beyond.header("content-range")), (416, Some("bytes */3000000")));
    cluster.stop().await;
}

/// As a reader of columns asks: thousands of short ranges, and a long one.
#[tokio::test]
async fn many_ranges_come_in_one_answer() {
    let cluster = Cluster::new(100).await;
    let (addr, data) = (cluster.gateway.files_addr().unwrap(), bytes(3_000_000));
    cluster.put("/f", &data).await;
    let mut ranges: Vec<_> = (0..2000).map(|i| (i * 700, i * 700 + 299)).collect();
    ranges.push((1_500_000, 2_999_999));
    let header = ranges.iter().map(|(first, last)| format!("{first}-{last}")).collect::<Vec<_>>().join(",");
    let answer = ask(addr, "GET", "/files/f", &[("Range", &format!("bytes={header}"))]).await;
    assert_eq!(answer.status, 206);
    assert_eq!(answer.header("content-length"), Some(&*answer.body.len().to_string()));
    let boundary = answer.header("content-type").unwrap().strip_prefix("multipart/byteranges; boundary=").unwrap();
    let mut rest = &answer.body[..];
    for (first, last) in ranges {
        let head = format!(
            "\r\n--{boundary}\r\nContent-Type: application/octet-stream\r\n\
             Content-Range: bytes {first}-{last}/3000000\r\n\r\n"
        );
        rest = rest.strip_prefix(head.as_bytes()).unwrap();
        assert!(rest[..last - first + 1] == data[first..=last], "{first}-{last}");
        rest = &rest[last - first + 1..];
    }
    assert_eq!(rest, format!("\r\n--{boundary}--\r\n").as_bytes());
    cluster.stop().await;
}

#[tokio::test]
async fn who_knows_a_file_hears_whether_it_is_the_same() {
    let cluster = Cluster::new(100).await;
    let addr = cluster.gateway.files_addr().unwrap();
    cluster.put("/f", b"first").await;
    let first = ask(addr, "GET", "/files/f", &[]).await;
    let etag = first.header("etag").unwrap();
    let same = ask(addr, "GET", "/files/f", &[("If-None-Match", etag)]).await;
    assert_eq!((same.status, same.body.len()), (304, 0));
    let resumed = ask(addr, "GET", "/files/f", &[("Range", "bytes=2-"), ("If-Range", etag)]).await;
    assert_eq!((resumed.status, resumed.text()), (206, "rst"));
    cluster.put("/f", b"other").await;
    let other = ask(addr, "GET", "/files/f", &[("If-None-Match", etag)]).await;
    assert_eq!((other.status, other.text()), (200, "other"));
    let anew = ask(addr, "GET", "/files/f", &[("Range", "bytes=2-"), ("If-Range", etag)]).await;
    assert_eq!((anew.status, anew.text()), (200, "other"), "no part of another file is put behind the first one's");
    assert_eq!(ask(addr, "GET", "/files/f", &[("If-Match", etag)]).await.status, 412);
    cluster.stop().await;
}

/// What came before may be of one version, and the rest of the next: nobody takes that for a file.
#[tokio::test]
async fn an_answer_whose_file_changes_does_not_come_to_its_end() {
    let cluster = Cluster::new(100).await;
    // More than all sockets on the way hold.
    let (addr, data) = (cluster.gateway.files_addr().unwrap(), bytes(40_000_000));
    cluster.put("/f", &data).await;
    let mut socket = TcpStream::connect(addr).await.unwrap();
    socket.write_all(b"GET /files/f HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut got = vec![0; 1000];
    socket.read_exact(&mut got).await.unwrap();
    assert!(got.starts_with(b"HTTP/1.1 200"));
    let client = cluster.client();
    let mut writer = client.append("/f").await.unwrap();
    writer.write(b"more").await.unwrap();
    writer.close().await.unwrap();
    client.store().close().await;
    let _cut_short = socket.read_to_end(&mut got).await;
    assert!(got.len() > 1000 && got.len() < data.len(), "{} bytes came", got.len());
    cluster.stop().await;
}

#[tokio::test]
async fn a_directory_is_listed_for_people_and_for_programs() {
    let cluster = Cluster::new(100).await;
    let addr = cluster.gateway.files_addr().unwrap();
    cluster.put("/d/<b>&.txt", b"12345").await;
    cluster.put("/d/sub/x", b"").await;
    let moved = ask(addr, "GET", "/files/d", &[]).await;
    assert_eq!((moved.status, moved.header("location")), (301, Some("/files/d/")));
    let page = ask(addr, "GET", "/files/d/", &[]).await;
    assert!(page.header("content-type").unwrap().starts_with("text/html"));
    assert!(
        page.text().contains("<a href=\"%3Cb%3E%26.txt\">&lt;b&gt;&amp;.txt</a></td><td>5</td>"),
        "{}",
        page.text()
    );
    assert!(page.text().contains("<a href=\"sub/\">sub/</a>"));
    assert_eq!(ask(addr, "GET", "/files/d/%3Cb%3E%26.txt", &[]).await.text(), "12345");
    for (path, headers) in [("/files/d/", vec![("Accept", "application/json")]), ("/files/d/?format=json", vec![])] {
        let listed = ask(addr, "GET", path, &headers).await;
        let entries: serde_json::Value = serde_json::from_slice(&listed.body).unwrap();
        let names: Vec<_> = entries.as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["<b>&.txt", "sub"]);
        assert_eq!((&entries[0]["length"], &entries[1]["type"]), (&5.into(), &"directory".into()));
    }
    assert_eq!(ask(addr, "GET", "/files/", &[]).await.status, 200);
    assert_eq!(ask(addr, "GET", "/files/none", &[]).await.status, 404);
    assert_eq!(ask(addr, "GET", "/files/d/sub/x/", &[]).await.status, 404);
    assert_eq!(ask(addr, "PUT", "/files/f", &[]).await.status, 405);
    cluster.stop().await;
}

/// Whoever opens the address in a browser comes to the files; and is told why where there are none.
#[tokio::test]
async fn what_is_no_file_is_led_to_them_or_refused_in_a_line() {
    let cluster = Cluster::new(100).await;
    let addr = cluster.gateway.files_addr().unwrap();
    for (path, location) in [("/", "/files/"), ("/files", "/files/"), ("/?user.name=me", "/files/?user.name=me")] {
        let moved = ask(addr, "GET", path, &[]).await;
        assert_eq!((moved.status, moved.header("location")), (301, Some(location)), "{path}");
    }
    let nothing = ask(addr, "GET", "/foo", &[]).await;
    assert_eq!((nothing.status, nothing.text()), (404, "nothing is here: files are below /files/\n"));
    for path in ["/files/f", "/files/", "/"] {
        let refused = ask(addr, "PUT", path, &[]).await;
        assert_eq!((refused.status, refused.header("allow")), (405, Some("GET,HEAD")), "{path}");
        assert!(refused.text().ends_with("and not written: write to the store\n"), "{}", refused.text());
    }
    cluster.stop().await;
}

#[tokio::test]
async fn links_lead_on_in_the_name_that_the_page_was_asked_in() {
    let cluster = Cluster::new(100).await;
    let addr = cluster.gateway.files_addr().unwrap();
    cluster.put("/d/f", b"5").await;
    cluster.put("/d/sub/x", b"").await;
    let page = ask(addr, "GET", "/files/d/?user.name=a%26b", &[]).await;
    for link in ["../", "f", "sub/"] {
        assert!(page.text().contains(&format!("<a href=\"{link}?user.name=a%26b\">")), "{link}: {}", page.text());
    }
    cluster.stop().await;
}

/// Nobody reads what he may not, whatever he calls himself.
#[tokio::test]
async fn files_are_read_in_the_name_that_a_request_gives() {
    let cluster = Cluster::new(100).await;
    let addr = cluster.gateway.files_addr().unwrap();
    cluster.put("/secret", b"5").await;
    cluster.client().set_permission("/secret", 0o600).await.unwrap();
    let refused = ask(addr, "GET", "/files/secret?user.name=stranger", &[]).await;
    assert_eq!(refused.status, 403, "{}", refused.text());
    let owner = format!("/files/secret?user.name={}", host::user::current());
    assert_eq!(ask(addr, "GET", &owner, &[]).await.text(), "5");
    cluster.stop().await;
}

/// What goes through is counted, on a page of its own.
#[tokio::test]
async fn a_scraper_sees_what_went_through() {
    let cluster = Cluster::new(100).await;
    cluster.put("/a", &[1; 100_000]).await;
    let files = cluster.gateway.files_addr().unwrap();
    assert_eq!(ask(files, "GET", "/files/a", &[]).await.body.len(), 100_000);
    assert_eq!(ask(files, "GET", "/files/b", &[]).await.status, 404);
    let metrics = cluster.metrics().await;
    assert!(metrics.value("levada_gateway_bytes_total{direction=\"up\"}") > 100_000.0);
    assert!(metrics.value("levada_gateway_bytes_total{direction=\"down\"}") > 0.0);
    assert!(metrics.value("levada_gateway_connections_total") >= metrics.value("levada_gateway_connections"));
    assert_eq!(metrics.value("levada_gateway_http_responses_total{status=\"200\"}"), 1.0);
    assert_eq!(metrics.value("levada_gateway_http_responses_total{status=\"404\"}"), 1.0);
    assert_eq!(ask(files, "GET", "/metrics", &[]).await.status, 404, "readers of files see none of it");
    cluster.stop().await;
}
