//! Files over XRootD, as its clients ask for them: the bytes on the socket.

use crate::root_peer::{Peer, frame, greeting, pieces, read_parameters, vector};
use crate::support::{Cluster, bytes};
use gateway::RootLimits;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use types::ChecksumKind;
use xroot::{ErrorCode, Handle, RequestCode, ResponseStatus, StreamId};

const RETSTAT: u16 = 0x0400;

async fn start() -> (Cluster, SocketAddr) {
    let cluster = Cluster::new(100).await;
    let addr = cluster.gateway.root_addr().unwrap();
    (cluster, addr)
}

#[tokio::test]
async fn a_file_is_read_in_every_way() {
    let (cluster, addr) = start().await;
    let data = bytes(3_000_000);
    cluster.put("/a b", &data).await;
    let mut peer = Peer::connect(addr, &host::user::current()).await;
    let file = peer.open("/a b?authz=x").await.unwrap();
    assert_eq!(file, Handle(0));
    assert!(peer.read(file, 0, 3_000_000).await.unwrap() == data, "in parts");
    assert!(peer.read(file, 2_999_990, 100).await.unwrap() == data[2_999_990..], "up to the end");
    assert_eq!(peer.read(file, 3_000_000, 100).await, Ok(Vec::new()));
    assert_eq!(peer.read(file, u64::MAX >> 1, 0).await, Ok(Vec::new()));
    for behind in [3_000_000, 3_000_001] {
        let none = peer.ask(RequestCode::Pgread, &read_parameters(file, behind, 100), b"").await;
        assert_eq!(none, Ok(Vec::new()), "not even a sum");
    }
    let pages = peer.ask(RequestCode::Pgread, &read_parameters(file, 5, 2_500_000), b"").await.unwrap();
    let (mut rest, mut read, mut room) = (&pages[..], Vec::new(), 4096 - 5);
    while !rest.is_empty() {
        let len = room.min(rest.len() - 4);
        assert_eq!(rest[..4], ChecksumKind::Crc32c.of(&rest[4..4 + len]).to_be_bytes());
        read.extend_from_slice(&rest[4..4 + len]);
        (rest, room) = (&rest[4 + len..], 4096);
    }
    assert!(read == data[5..2_500_005], "by pages");
    assert_eq!(peer.ask(RequestCode::Close, &file.encode(), b"").await, Ok(Vec::new()));
    assert_eq!(peer.read(file, 0, 1).await, Err(ErrorCode::FileNotOpen));
    cluster.stop().await;
}

/// As ROOT and uproot ask for the columns of a file.
#[tokio::test]
async fn a_vector_has_pieces_of_several_files_in_the_order_asked() {
    let (cluster, addr) = start().await;
    let data = bytes(3_000_000);
    cluster.put("/f", &data).await;
    cluster.put("/g", b"0123456789").await;
    let mut peer = Peer::connect(addr, &host::user::current()).await;
    let (f, g) = (peer.open("/f").await.unwrap(), peer.open("/g").await.unwrap());
    let asked: Vec<_> = (0..16_384u64)
        .map(|i| if i % 1000 == 7 { (g, i % 9, 1) } else { (f, 2_900_000 - i * 170, (i % 400) as u32) })
        .collect();
    let answer = peer.ask(RequestCode::Readv, &[], &vector(&asked)).await.unwrap();
    let got = pieces(&answer);
    assert_eq!(got.len(), asked.len());
    for ((handle, offset, len), (of, at, read)) in asked.iter().zip(&got) {
        let from = if *handle == g { &b"0123456789"[..] } else { &data };
        assert_eq!((handle, offset), (of, at));
        assert!(from[*offset as usize..*offset as usize + *len as usize] == *read, "{offset} {len}");
    }
    assert_eq!(peer.ask(RequestCode::Readv, &[], b"").await, Err(ErrorCode::ArgInvalid));
    let beyond = vector(&[(f, 0, 5), (g, 5, 6)]);
    assert_eq!(peer.ask(RequestCode::Readv, &[], &beyond).await, Err(ErrorCode::IoError));
    let closed = vector(&[(Handle(9), 0, 5)]);
    assert_eq!(peer.ask(RequestCode::Readv, &[], &closed).await, Err(ErrorCode::FileNotOpen));
    let long = vector(&vec![(f, 0, 1); 16_385]);
    assert_eq!(peer.ask(RequestCode::Readv, &[], &long).await, Err(ErrorCode::ArgTooLong));
    assert_eq!(peer.read(f, 0, 3).await, Ok(vec![0, 1, 2]), "and the connection goes on");
    cluster.stop().await;
}

/// Whoever knows how handles are numbered saves a round trip.
#[tokio::test]
async fn an_open_and_its_reads_may_come_together() {
    let (cluster, addr) = start().await;
    cluster.put("/f", b"0123456789").await;
    let mut peer = Peer::connect(addr, &host::user::current()).await;
    let none = peer.send(RequestCode::Open, &[0, 0, 0, 0x10], b"/none").await;
    let of_none = peer.send(RequestCode::Read, &read_parameters(Handle(0), 0, 5), b"").await;
    let [opened, read] = peer.answers([none, of_none]).await;
    assert_eq!((opened, read), (Err(ErrorCode::NotFound), Err(ErrorCode::FileNotOpen)));
    let open = peer.send(RequestCode::Open, &[0, 0, 0, 0x10], b"/f").await;
    let first = peer.send(RequestCode::Read, &read_parameters(Handle(0), 0, 5), b"").await;
    let second = peer.send(RequestCode::Readv, &[], &vector(&[(Handle(0), 5, 5)])).await;
    let [open, first, second] = peer.answers([open, first, second]).await;
    assert_eq!((open.unwrap(), first.unwrap()), (vec![0; 4], b"01234".to_vec()));
    assert_eq!(pieces(&second.unwrap()), [(Handle(0), 5, b"56789".to_vec())]);
    cluster.stop().await;
}

#[tokio::test]
async fn names_are_looked_up_and_listed() {
    let (cluster, addr) = start().await;
    cluster.put("/d/a", b"12345").await;
    cluster.put("/d/b c", b"").await;
    cluster.put("/d/sub/x", b"").await;
    cluster.client().mkdirs("/empty", 0o755, false).await.unwrap();
    let user = host::user::current();
    let mut peer = Peer::connect(addr, &user).await;
    let line = peer.text(RequestCode::Stat, &[], b"/d/a").await.unwrap();
    let words: Vec<_> = line.split(' ').collect();
    assert_eq!((words[1], words[2], words[6], words[7]), ("5", "16", "0644", &*user), "{line}");
    let dir = peer.text(RequestCode::Stat, &[], b"/d").await.unwrap();
    assert_eq!(dir.split(' ').nth(2), Some("19"));
    let opened = peer.ask(RequestCode::Open, &[&[0, 0][..], &(RETSTAT | 0x10).to_be_bytes()].concat(), b"/d/a").await;
    assert_eq!(opened.unwrap()[12..], *line.as_bytes());
    assert_eq!(peer.text(RequestCode::Stat, &[], b"").await, Ok(line), "by handle");
    assert_eq!(peer.ask(RequestCode::Statx, &[], b"/d/a\n/d\n/none").await, Ok(vec![16, 19, 4]));
    assert_eq!(peer.text(RequestCode::Dirlist, &[], b"/d").await, Ok("a\nb c\nsub\0".into()));
    assert_eq!(peer.text(RequestCode::Dirlist, &[], b"/empty").await, Ok(String::new()));
    let with_status = peer.text(RequestCode::Dirlist, &[&[0; 15][..], &[2]].concat(), b"/d/").await.unwrap();
    let lines: Vec<_> = with_status.split('\n').collect();
    assert_eq!((lines.len(), lines[0], lines[1], lines[2]), (8, ".", "0 0 0 0", "a"));
    assert!(lines[3].contains(" 5 16 ") && with_status.ends_with('\0'));
    assert_eq!(peer.text(RequestCode::Locate, &[], b"/d/a").await, Ok(format!("Sr{addr}\0")));
    assert_eq!(peer.text(RequestCode::Locate, &[], b"*").await, Ok(format!("Sr{addr}\0")));
    let much = peer.ask(RequestCode::Query, &[0, 7], &[0xff; 64 << 10]).await;
    assert_eq!(much, Err(ErrorCode::ArgTooLong));
    let config = peer.text(RequestCode::Query, &[0, 7], b"readv_iov_max readv_ior_max").await;
    assert_eq!(config, Ok("509\n2097136\n".into()));
    assert!(peer.text(RequestCode::Query, &[0, 5], b"/").await.unwrap().contains("&oss.free="));
    assert!(peer.text(RequestCode::Query, &[0, 1], b"a").await.unwrap().starts_with("<statistics "));
    for (code, path, wanted) in [
        (RequestCode::Stat, "/none", ErrorCode::NotFound),
        (RequestCode::Locate, "/none", ErrorCode::NotFound),
        (RequestCode::Dirlist, "/none", ErrorCode::NotFound),
        (RequestCode::Dirlist, "/d/a", ErrorCode::FsError),
        (RequestCode::Open, "/d", ErrorCode::IsDirectory),
        (RequestCode::Open, "d/a", ErrorCode::NotAuthorized),
        (RequestCode::Rm, "/d/a", ErrorCode::FsReadOnly),
        (RequestCode::Prepare, "/d/a", ErrorCode::Unsupported),
    ] {
        assert_eq!(peer.ask(code, &[], path.as_bytes()).await, Err(wanted), "{code:?} {path}");
    }
    cluster.stop().await;
}

/// Nobody reads what he may not, whatever he calls himself.
#[tokio::test]
async fn files_are_read_in_the_name_of_the_login() {
    let (cluster, addr) = start().await;
    cluster.put("/secret", b"5").await;
    cluster.client().set_permission("/secret", 0o600).await.unwrap();
    let mut stranger = Peer::connect(addr, "stranger").await;
    assert_eq!(stranger.open("/secret").await, Err(ErrorCode::NotAuthorized));
    let mut nameless = Peer::connect(addr, "????").await;
    assert!(nameless.open("/secret").await.is_ok(), "as the user that the gateway was given");
    cluster.stop().await;
}

/// What came before may be of one version, and the rest of the next: nobody takes that for a file.
#[tokio::test]
async fn a_file_that_was_changed_is_read_no_more() {
    let (cluster, addr) = start().await;
    cluster.put("/f", &bytes(100_000)).await;
    cluster.put("/g", &bytes(100_000)).await;
    let mut peer = Peer::connect(addr, &host::user::current()).await;
    let (f, g) = (peer.open("/f").await.unwrap(), peer.open("/g").await.unwrap());
    assert!(peer.read(f, 0, 100_000).await.is_ok());
    cluster.put("/f", &bytes(100_000)).await;
    let client = cluster.client();
    let mut writer = client.append("/g").await.unwrap();
    writer.write(b"more").await.unwrap();
    writer.close().await.unwrap();
    client.store().close().await;
    for file in [f, g] {
        assert_eq!(peer.read(file, 5, 100).await, Err(ErrorCode::IoError));
        assert_eq!(peer.ask(RequestCode::Readv, &[], &vector(&[(file, 0, 5)])).await, Err(ErrorCode::IoError));
        assert_eq!(peer.ask(RequestCode::Pgread, &read_parameters(file, 0, 5), b"").await, Err(ErrorCode::IoError));
    }
    let again = peer.open("/g").await.unwrap();
    assert_eq!(peer.read(again, 100_000, 100).await, Ok(b"more".to_vec()));
    cluster.stop().await;
}

/// A client that asks for much and takes nothing is waited for; others are served meanwhile.
#[tokio::test]
async fn a_client_that_takes_nothing_holds_up_nobody_else() {
    let (cluster, addr) = start().await;
    let data = bytes(20_000_000);
    cluster.put("/f", &data).await;
    let mut slow = Peer::connect(addr, &host::user::current()).await;
    let file = slow.open("/f").await.unwrap();
    // As many as are under way, some more, and one whose answer comes in any case.
    for _ in 0..50 {
        slow.send(RequestCode::Read, &read_parameters(file, 0, 20_000_000), b"").await;
    }
    let mut other = Peer::connect(addr, &host::user::current()).await;
    let file = other.open("/f").await.unwrap();
    for _ in 0..3 {
        assert!(other.read(file, 0, 20_000_000).await.unwrap() == data);
    }
    let metrics = cluster.metrics().await;
    let sent: f64 = metrics.value("levada_gateway_root_bytes_total");
    assert!(sent < 100_000_000.0, "of 1000 MB that were asked for, {sent} bytes went");
    // The slow one gets its answers when it takes them, each as its parts come.
    let (header, _) = slow.response().await;
    assert_eq!(header.status, ResponseStatus::OkSoFar);
    cluster.stop().await;
}

/// Those who open all the files that may be open, and then do nothing, keep nobody else from his.
#[tokio::test]
async fn an_idle_session_gives_up_its_files_for_another() {
    let limits = RootLimits { file_count: 4, ..RootLimits::default() };
    let cluster = Cluster::with(100, limits).await;
    let addr = cluster.gateway.root_addr().unwrap();
    cluster.put("/f", b"0123456789").await;
    let mut idle = Peer::connect(addr, &host::user::current()).await;
    for _ in 0..4 {
        idle.open("/f").await.unwrap();
    }
    let mut other = Peer::connect(addr, &host::user::current()).await;
    let file = other.open("/f").await.expect("the idle session makes room");
    assert_eq!(other.read(file, 5, 5).await, Ok(b"56789".to_vec()));
    assert_eq!(idle.socket.read_to_end(&mut Vec::new()).await.unwrap_or(0), 0, "it is closed");
    cluster.stop().await;
}

/// Two clients have as much as all answers together may, and take none of it. The third is served before they are
/// closed as clients that take nothing.
#[tokio::test]
async fn answers_that_nobody_takes_give_way_to_others() {
    let limits = RootLimits { answers_len: 8 << 20, ..RootLimits::default() };
    let cluster = Cluster::with(100, limits).await;
    let addr = cluster.gateway.root_addr().unwrap();
    let data = bytes(20_000_000);
    cluster.put("/f", &data).await;
    let mut other = Peer::connect(addr, &host::user::current()).await;
    let of_other = other.open("/f").await.unwrap();
    let mut stalled = Vec::new();
    for _ in 0..2 {
        let mut peer = Peer::connect(addr, &host::user::current()).await;
        let file = peer.open("/f").await.unwrap();
        for _ in 0..10 {
            peer.send(RequestCode::Read, &read_parameters(file, 0, 20_000_000), b"").await;
        }
        // Its answers have begun: what follows the first is waiting, or will be.
        assert_eq!(peer.response().await.0.status, ResponseStatus::OkSoFar);
        stalled.push(peer);
    }
    settled(&cluster).await;
    let before_they_end = tokio::time::timeout(Duration::from_secs(20), other.read(of_other, 0, 20_000_000));
    assert!(before_they_end.await.expect("one of the others makes room").unwrap() == data);
    cluster.stop().await;
}

/// Until no more bytes go to clients.
async fn settled(cluster: &Cluster) {
    let mut before = -1.0;
    loop {
        let sent = cluster.metrics().await.value("levada_gateway_root_bytes_total");
        if sent == before {
            return;
        }
        before = sent;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// While long answers take all the room that there is for answers, short ones are not waited for by those.
#[tokio::test]
async fn a_ping_among_long_reads_is_answered() {
    let (cluster, addr) = start().await;
    let data = bytes(3_000_000);
    cluster.put("/f", &data).await;
    let mut peer = Peer::connect(addr, &host::user::current()).await;
    let file = peer.open("/f").await.unwrap();
    for _ in 0..20 {
        let mut streams = [StreamId([0, 0]); 16];
        for (number, stream) in streams.iter_mut().enumerate() {
            *stream = match number % 2 {
                0 => peer.send(RequestCode::Read, &read_parameters(file, 0, 3_000_000), b"").await,
                _ => peer.send(RequestCode::Ping, &[], b"").await,
            };
        }
        let answering = tokio::time::timeout(Duration::from_secs(60), peer.answers(streams));
        for (number, answer) in answering.await.expect("all are answered").into_iter().enumerate() {
            assert!(answer.unwrap() == if number % 2 == 0 { &data[..] } else { &[] });
        }
    }
    cluster.stop().await;
}

#[tokio::test]
async fn strangers_are_shown_out() {
    let (cluster, addr) = start().await;
    let mut http = TcpStream::connect(addr).await.unwrap();
    http.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    assert_eq!(http.read_to_end(&mut Vec::new()).await.unwrap_or(0), 0);
    let mut hasty = TcpStream::connect(addr).await.unwrap();
    let all = greeting("me");
    let early = [&all[..20], &frame(3, RequestCode::Open, &[], b"/f"), &all[20..]].concat();
    hasty.write_all(&early).await.unwrap();
    let mut peer = Peer { socket: hasty, next: 1 };
    assert_eq!(peer.response().await.1.len(), 8);
    let (header, body) = peer.response().await;
    assert_eq!((header.status, header.stream.0), (ResponseStatus::Error, [0, 3]));
    assert_eq!(body[2..4], ErrorCode::InvalidRequest.number().to_be_bytes());
    assert_eq!(peer.response().await.1.len(), 16, "the login was accepted all the same");
    cluster.stop().await;
}

#[tokio::test]
async fn a_scraper_sees_what_was_asked() {
    let (cluster, addr) = start().await;
    cluster.put("/f", b"12345").await;
    let mut peer = Peer::connect(addr, &host::user::current()).await;
    let file = peer.open("/f").await.unwrap();
    assert_eq!(peer.open("/none").await, Err(ErrorCode::NotFound));
    assert_eq!(peer.read(file, 0, 9).await, Ok(b"12345".to_vec()));
    assert_eq!(peer.ask(RequestCode::Mkdir, &[], b"/d").await, Err(ErrorCode::FsReadOnly));
    let metrics = cluster.metrics().await;
    assert_eq!(metrics.value("levada_gateway_root_connections"), 1.0);
    assert_eq!(metrics.value("levada_gateway_root_requests_total{request=\"open\"}"), 2.0);
    assert_eq!(metrics.value("levada_gateway_root_requests_total{request=\"login\"}"), 1.0);
    assert_eq!(metrics.value("levada_gateway_root_refused_total{error=\"NotFound\"}"), 1.0);
    assert_eq!(metrics.value("levada_gateway_root_refused_total{error=\"fsReadOnly\"}"), 1.0);
    assert!(metrics.value("levada_gateway_root_bytes_total") > 50.0);
    cluster.stop().await;
}
