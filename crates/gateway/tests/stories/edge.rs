//! An edge: what is read once is kept, is never old, and is there while the store is not.

use crate::files::ask;
use crate::root_peer::{Peer, vector};
use crate::support::{Cluster, Metrics, bytes};
use futures_util::future::join_all;
use gateway::Gateway;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;
use xroot::ErrorCode;

/// As an edge takes it: others may not look into it.
fn private_dir() -> tempfile::TempDir {
    tempfile::Builder::new().permissions(Permissions::from_mode(0o700)).tempdir().unwrap()
}

/// Bytes that readers got from there.
async fn from(edge: &Gateway, place: &str) -> f64 {
    Metrics::of(edge).await.value(&format!("levada_edge_read_bytes_total{{from=\"{place}\"}}"))
}

async fn value(edge: &Gateway, name: &str) -> f64 {
    Metrics::of(edge).await.value(name)
}

async fn get(edge: &Gateway, path: &str) -> (u16, Vec<u8>) {
    let answer = ask(edge.files_addr().unwrap(), "GET", &format!("/files{path}"), &[]).await;
    (answer.status, answer.body)
}

async fn until_link_is(edge: &Gateway, up: f64) {
    while value(edge, "levada_edge_link_up").await != up {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn what_is_read_once_comes_from_the_store_once() {
    let (cluster, dir) = (Cluster::new(100).await, private_dir());
    let (edge, data) = (cluster.edge(Some(dir.path())).await, bytes(3_000_000));
    cluster.put("/f", &data).await;
    assert!(get(&edge, "/f").await == (200, data.clone()));
    assert_eq!(from(&edge, "store").await, 3_000_000.0);
    // Another front, another way of asking.
    let mut peer = Peer::connect(edge.root_addr().unwrap(), &host::user::current()).await;
    let file = peer.open("/f").await.unwrap();
    assert!(peer.read(file, 0, 3_000_000).await.unwrap() == data);
    let asked: Vec<_> = (0..2000u64).map(|i| (file, 2_900_000 - i * 1300, (i % 400) as u32)).collect();
    let answer = peer.ask(xroot::RequestCode::Readv, &[], &vector(&asked)).await.unwrap();
    for ((_, offset, len), (_, at, read)) in asked.iter().zip(crate::root_peer::pieces(&answer)) {
        assert!(*offset == at && data[at as usize..at as usize + *len as usize] == read);
    }
    assert_eq!(from(&edge, "store").await, 3_000_000.0);
    assert!(value(&edge, "levada_edge_fetched_bytes_total").await <= 1.1 * 3_000_000.0);
    edge.stop().await;
    cluster.stop().await;
}

/// Only what is asked for travels, however short it is.
#[tokio::test]
async fn short_pieces_are_fetched_as_they_are() {
    let (cluster, data) = (Cluster::new(100).await, bytes(8_000_000));
    let edge = cluster.edge(None).await;
    cluster.put("/f", &data).await;
    let mut peer = Peer::connect(edge.root_addr().unwrap(), &host::user::current()).await;
    let file = peer.open("/f").await.unwrap();
    for _ in 0..2 {
        let asked: Vec<_> = (0..500u64).map(|i| (file, i * 16_000, 2000)).collect();
        let answer = peer.ask(xroot::RequestCode::Readv, &[], &vector(&asked)).await.unwrap();
        let pieces = crate::root_peer::pieces(&answer);
        assert!(pieces.iter().all(|(_, at, read)| data[*at as usize..*at as usize + 2000] == *read));
    }
    assert_eq!((from(&edge, "store").await, from(&edge, "memory").await), (1_000_000.0, 1_000_000.0));
    let fetched = value(&edge, "levada_edge_fetched_bytes_total").await;
    assert!(fetched <= 1_100_000.0, "{fetched}");
    edge.stop().await;
    cluster.stop().await;
}

#[tokio::test]
async fn many_readers_of_the_same_file_fetch_it_once() {
    let (cluster, dir) = (Cluster::new(100).await, private_dir());
    let (edge, data) = (cluster.edge(Some(dir.path())).await, bytes(5_000_000));
    cluster.put("/f", &data).await;
    let all = join_all((0..8).map(|_| get(&edge, "/f"))).await;
    assert!(all.iter().all(|(status, body)| *status == 200 && *body == data));
    let fetched = value(&edge, "levada_edge_fetched_bytes_total").await;
    assert!(fetched <= 1.1 * 5_000_000.0, "{fetched}");
    edge.stop().await;
    cluster.stop().await;
}

#[tokio::test]
async fn a_file_that_was_replaced_is_read_anew() {
    let (cluster, dir) = (Cluster::new(100).await, private_dir());
    let edge = cluster.edge(Some(dir.path())).await;
    for version in [&b"first"[..], b"other", b"longer than before"] {
        cluster.put("/f", version).await;
        assert_eq!(get(&edge, "/f").await, (200, version.to_vec()));
    }
    // Written on, with the time of before.
    let client = cluster.client();
    let before = client.existing("/f").await.unwrap();
    let mut writer = client.append("/f").await.unwrap();
    writer.write(b", again").await.unwrap();
    writer.close().await.unwrap();
    client.set_times("/f", Some(before.modified), None).await.unwrap();
    assert_eq!(get(&edge, "/f").await, (200, b"longer than before, again".to_vec()));
    client.delete("/f", false).await.unwrap();
    assert_eq!(get(&edge, "/f").await.0, 404);
    client.store().close().await;
    edge.stop().await;
    cluster.stop().await;
}

#[tokio::test]
async fn while_the_link_is_down_what_is_kept_is_served_and_said_to_be() {
    let (mut cluster, dir) = (Cluster::new(100).await, private_dir());
    let edge = cluster.edge(Some(dir.path())).await;
    let (files, me) = (edge.files_addr().unwrap(), host::user::current());
    cluster.put("/f", b"first").await;
    cluster.put("/g", b"never read").await;
    cluster.put("/secret", b"5").await;
    cluster.client().set_permission("/secret", 0o600).await.unwrap();
    let mut peer = Peer::connect(edge.root_addr().unwrap(), &me).await;
    let file = peer.open("/f").await.unwrap();
    assert_eq!(peer.read(file, 0, 2).await, Ok(b"fi".to_vec()));
    let up = ask(files, "GET", "/files/f", &[]).await;
    assert_eq!((up.text(), up.header("levada-edge")), ("first", None));
    assert_eq!(get(&edge, &format!("/secret?user.name={me}")).await, (200, b"5".to_vec()));
    assert_eq!(get(&edge, "/secret?user.name=stranger").await.0, 403);

    let addr = cluster.cut().await;
    let down = ask(files, "GET", "/files/f", &[]).await;
    let said = down.header("levada-edge").unwrap();
    assert!(said.starts_with("link-down; validated=\"") && said.contains(" GMT"), "{said}");
    assert_eq!((down.text(), down.header("etag")), ("first", up.header("etag")));
    assert_eq!(value(&edge, "levada_edge_link_up").await, 0.0);
    // Who had opened it, and who opens it now.
    let again = peer.open("/f").await.unwrap();
    assert_eq!((peer.read(file, 1, 2).await, peer.read(again, 3, 9).await), (Ok(b"ir".to_vec()), Ok(b"st".to_vec())));
    let refused = ask(files, "GET", "/files/g", &[]).await;
    assert_eq!(refused.status, 503);
    assert!(refused.text().contains("the link to the store is down, and this is not kept here"), "{}", refused.text());
    assert_eq!(peer.open("/g").await, Err(ErrorCode::IoError));
    assert_eq!(get(&edge, "/").await.0, 503);
    assert_eq!(get(&edge, "/secret?user.name=stranger").await.0, 503, "nobody reads what he was not let read");
    assert_eq!(get(&edge, &format!("/secret?user.name={me}")).await, (200, b"5".to_vec()));

    // It is replaced meanwhile; what was said before counts no more once the link is up.
    cluster.put("/f", b"other").await;
    assert_eq!(get(&edge, "/f").await, (200, b"first".to_vec()));
    cluster.mend(addr).await;
    until_link_is(&edge, 1.0).await;
    let mended = ask(files, "GET", "/files/f", &[]).await;
    assert_eq!((mended.text(), mended.header("levada-edge")), ("other", None));
    assert_eq!(get(&edge, "/g").await, (200, b"never read".to_vec()));
    assert_eq!(value(&edge, "levada_edge_link_losses_total").await, 1.0);
    edge.stop().await;
    cluster.stop().await;
}

#[tokio::test]
async fn what_is_on_the_disk_is_found_again_and_what_is_damaged_is_not_served() {
    let (cluster, dir) = (Cluster::new(100).await, private_dir());
    let data = bytes(3_000_000);
    cluster.put("/f", &data).await;
    let edge = cluster.edge(Some(dir.path())).await;
    assert!(get(&edge, "/f").await.1 == data);
    edge.stop().await;
    let edge = cluster.edge(Some(dir.path())).await;
    assert!(get(&edge, "/f").await.1 == data);
    assert_eq!((from(&edge, "store").await, from(&edge, "disk").await), (0.0, 3_000_000.0));
    edge.stop().await;
    let bytes_of_segment = the_segment(dir.path());
    let mut segment = fs::read(&bytes_of_segment).unwrap();
    segment[700_000] ^= 1;
    fs::write(&bytes_of_segment, &segment).unwrap();
    let edge = cluster.edge(Some(dir.path())).await;
    assert!(get(&edge, "/f").await.1 == data);
    assert_eq!(value(&edge, "levada_edge_damaged_extents_total").await, 1.0);
    let fetched = from(&edge, "store").await;
    assert!(fetched > 0.0 && fetched < 3_000_000.0, "{fetched}");
    edge.stop().await;
    // Cut in the middle of a piece.
    segment.truncate(600_000);
    fs::write(&bytes_of_segment, &segment).unwrap();
    let edge = cluster.edge(Some(dir.path())).await;
    assert!(get(&edge, "/f").await.1 == data);
    assert!(from(&edge, "store").await > 0.0);
    edge.stop().await;
    cluster.stop().await;
}

/// The oldest, by its name.
fn the_segment(dir: &Path) -> std::path::PathBuf {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|ending| ending == "bytes")).min().unwrap()
}

/// What a user was let read is not read by him any more once he was told otherwise, by whichever front.
#[tokio::test]
async fn what_was_taken_back_is_not_served_while_the_link_is_down() {
    let mut cluster = Cluster::new(100).await;
    let edge = cluster.edge(None).await;
    let (names, _) = edge.hdfs_addrs().unwrap();
    let url = client::Url::parse(&format!("hdfs://{names}")).unwrap();
    let store = client::Store::new(&url, client::Options::default());
    let (owner, stranger) = (cluster.client(), store.client("stranger"));
    for path in ["/kept", "/private", "/deleted", "/replaced"] {
        cluster.put(path, b"5").await;
        assert_eq!(get(&edge, &format!("/{path}?user.name=stranger")).await.0, 200);
    }
    owner.set_permission("/private", 0o600).await.unwrap();
    owner.delete("/deleted", false).await.unwrap();
    cluster.put("/replaced", b"6").await;
    owner.store().close().await;
    for path in ["/kept", "/private", "/deleted", "/replaced"] {
        assert_eq!(stranger.status(path).await.unwrap().is_some(), path != "/deleted");
    }
    cluster.cut().await;
    for path in ["/kept", "/private", "/deleted", "/replaced"] {
        let (status, _) = get(&edge, &format!("{path}?user.name=stranger")).await;
        assert_eq!(status, if path == "/kept" { 200 } else { 503 }, "{path}");
    }
    store.close().await;
    edge.stop().await;
    cluster.stop().await;
}

/// Who reads a file that is being written reads on when it is closed.
#[tokio::test]
async fn a_file_that_is_closed_is_the_one_that_was_written() {
    let cluster = Cluster::new(100).await;
    let (edge, owner) = (cluster.edge(None).await, cluster.client());
    let mut writer = owner.create("/f", &client::Create::default()).await.unwrap();
    writer.write(&[1; 100]).await.unwrap();
    writer.flush().await.unwrap();
    let (names, _) = edge.hdfs_addrs().unwrap();
    let url = client::Url::parse(&format!("hdfs://{names}")).unwrap();
    let store = client::Store::new(&url, client::Options::default());
    let reader = store.client(&host::user::current()).open("/f").await.unwrap();
    let mut read = [0; 10];
    assert_eq!((reader.len(), reader.read_at(0, &mut read).await.unwrap(), read), (100, 10, [1; 10]));
    writer.write(&[2; 100]).await.unwrap();
    writer.close().await.unwrap();
    // The edge asks what an open file is each five seconds.
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!((reader.read_at(90, &mut read).await.unwrap(), read), (10, [1; 10]));
    store.close().await;
    owner.store().close().await;
    edge.stop().await;
    cluster.stop().await;
}

/// As HDFS's clients do: names and blocks of the edge's own, and no change.
#[tokio::test]
async fn clients_of_hdfs_read_and_write_nothing() {
    let (mut cluster, dir) = (Cluster::new(100).await, private_dir());
    let (edge, data) = (cluster.edge(Some(dir.path())).await, bytes(5_000_000));
    cluster.put("/d/f", &data).await;
    cluster.put("/d/g", b"never read").await;
    let (names, _) = edge.hdfs_addrs().unwrap();
    let store =
        client::Store::new(&client::Url::parse(&format!("hdfs://{names}")).unwrap(), client::Options::default());
    let client = store.client(&host::user::current());
    for _ in 0..2 {
        let mut reader = client.open("/d/f").await.unwrap();
        let mut read = vec![0; 5_000_001];
        assert_eq!(reader.read(&mut read).await.unwrap(), 5_000_000);
        assert!(read[..5_000_000] == data);
        assert_eq!(reader.read_at(1_234_567, &mut read[..1000]).await.unwrap(), 1000);
        assert!(read[..1000] == data[1_234_567..1_235_567]);
    }
    assert!(value(&edge, "levada_edge_fetched_bytes_total").await <= 1.1 * 5_000_000.0);
    assert_eq!(client.existing("/d/f").await.unwrap().len, 5_000_000);
    let mut listing = client.list("/d").await.unwrap();
    assert_eq!(listing.next().await.unwrap().unwrap().name, "f");
    assert!(matches!(client.open("/none").await, Err(client::Error::NotFound)));
    assert!(client.open("/d").await.is_err());
    let refused = client.mkdirs("/new", 0o755, true).await.unwrap_err().to_string();
    assert!(refused.contains("this edge is read-only; write to hdfs://"), "{refused}");
    // Nobody reads what he may not; nor by an id that he was not told.
    let owner = cluster.client();
    owner.set_permission("/d/g", 0o600).await.unwrap();
    owner.store().close().await;
    let stranger = store.client("stranger");
    assert_eq!(stranger.open("/d/g").await.unwrap_err().kind(), client::ErrorKind::Denied);
    // A file that is replaced is another one for who opens it, and none for who had it open.
    let before = client.open("/d/f").await.unwrap();
    let defaults = server_defaults(&client).await.unwrap();
    cluster.cut().await;
    let mut read = vec![0; 10];
    assert_eq!(before.read_at(0, &mut read).await.unwrap(), 10);
    let down = client.open("/d/f").await.unwrap();
    assert_eq!((down.len(), down.read_at(4_000_000, &mut read).await.unwrap()), (5_000_000, 10));
    assert!(read == data[4_000_000..4_000_010]);
    assert_eq!(client.existing("/d/f").await.unwrap().len, 5_000_000);
    assert!(client.open("/d/g").await.is_err());
    // One that begins now asks for defaults before its first block.
    assert!(server_defaults(&client).await.unwrap() == defaults);
    store.close().await;
    edge.stop().await;
    cluster.stop().await;
}

/// As clients of HDFS ask for them before their first block.
async fn server_defaults(client: &client::Client) -> client::Result<bytes::Bytes> {
    let answer = client.forward("getServerDefaults", bytes::Bytes::new()).await?;
    Ok(answer.unwrap_or_else(|refused| panic!("{}: {}", refused.class, refused.message)))
}

/// The first client of HDFS may come when the link is down.
#[tokio::test]
async fn who_comes_first_while_the_link_is_down_is_told_the_defaults() {
    let mut cluster = Cluster::new(100).await;
    let edge = cluster.edge(None).await;
    cluster.put("/f", b"bytes").await;
    let me = host::user::current();
    assert_eq!(get(&edge, &format!("/f?user.name={me}")).await, (200, b"bytes".to_vec()));
    let (names, _) = edge.hdfs_addrs().unwrap();
    let url = client::Url::parse(&format!("hdfs://{names}")).unwrap();
    // It has asked by itself, soon after the start.
    tokio::time::sleep(Duration::from_secs(3)).await;
    cluster.cut().await;
    let store = client::Store::new(&url, client::Options::default());
    let client = store.client(&me);
    assert!(!server_defaults(&client).await.unwrap().is_empty());
    assert_eq!(client.existing("/f").await.unwrap().len, 5);
    let mut read = [0; 5];
    assert_eq!((client.open("/f").await.unwrap().read_at(0, &mut read).await.unwrap(), &read), (5, b"bytes"));
    store.close().await;
    edge.stop().await;
    cluster.stop().await;
}
