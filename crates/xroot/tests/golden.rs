//! What stock clients send is understood, and what we answer is what XRootD's own server does: golden/README.md.

use std::path::Path;
use xroot::{
    Config, Element, Event, Handle, Info, ListingText, PagesFrame, Refusal, Request, RequestCode, ResponseHeader,
    ResponseStatus, Session, StreamId, Target, VectorPart, answer,
};

fn golden(direction: &str, name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(direction).join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The n-th byte of `small.bin`.
fn byte(at: usize) -> u8 {
    (at % 251) as u8
}

/// What a recorded client asks of the store; every other request is answered, and by no error but that of `refused`.
fn asked(name: &str, refused: &[RequestCode]) -> (Vec<(StreamId, Request)>, String) {
    let mut session = Session::new(Config { version: "levada", with_pages: true }, [7; 16]);
    session.feed(&golden("clients", name));
    let mut requests = Vec::new();
    while let Some(event) = session.next_event().unwrap() {
        match event {
            Event::Request { stream, request, .. } => {
                if let Request::Open(_) = request {
                    assert_eq!(session.add_file(()), Ok(Handle(0)));
                }
                requests.push((stream, request));
            }
            Event::Answer { code, bytes } => {
                let header = ResponseHeader::decode(bytes.first_chunk().unwrap()).unwrap();
                let may_be_refused = code.is_some_and(|code| refused.contains(&code));
                assert_eq!(header.status == ResponseStatus::Error, may_be_refused, "{code:?}");
            }
        }
    }
    (requests, session.user().unwrap_or_default().to_owned())
}

fn only(name: &str) -> Vec<Request> {
    let (requests, user) = asked(name, &[]);
    assert_eq!(user, "root");
    requests.into_iter().map(|(_, request)| request).collect()
}

/// The responses of a recorded server, whole; pages stand behind their header's length.
fn responses(name: &str) -> Vec<Vec<u8>> {
    let bytes = golden("servers", name);
    let (mut rest, mut all) = (&bytes[..], Vec::new());
    while let Some(head) = rest.first_chunk() {
        let header = ResponseHeader::decode(head).unwrap();
        let mut len = ResponseHeader::LEN + header.body_len as usize;
        if header.status == ResponseStatus::Status {
            len += u32::from_be_bytes(*rest[20..].first_chunk().unwrap()) as usize;
        }
        let (one, behind) = rest.split_at(len);
        all.push(one.to_vec());
        rest = behind;
    }
    all
}

fn stream_of(response: &[u8]) -> StreamId {
    StreamId([response[0], response[1]])
}

fn body_of(response: &[u8]) -> &[u8] {
    &response[ResponseHeader::LEN..]
}

/// A status line, taken apart.
fn info(line: &str) -> Info {
    let words: Vec<&str> = line.trim_end_matches('\0').split(' ').collect();
    let number = |at: usize| words[at].parse::<u64>().unwrap();
    Info {
        id: number(0),
        len: number(1),
        is_dir: number(2) & 2 != 0,
        is_other: false,
        modified_s: number(3),
        accessed_s: number(5),
        mode: u16::from_str_radix(words[6], 8).unwrap(),
        owner: words[7].to_owned(),
        group: words[8].to_owned(),
    }
}

#[test]
fn names_are_asked_for() {
    let path = |request: &Request| match request {
        Request::Stat(Target::Path(path)) => path.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(path(&only("xrdfs-stat")[0]), "/small.bin");
    assert_eq!(path(&only("xrdfs-missing")[0]), "/none");
    assert_eq!(only("xrdfs-statvfs"), [Request::StatSpace]);
    assert_eq!(only("xrdfs-space"), [Request::QuerySpace]);
    assert!(only("xrdfs-config").is_empty(), "the session knows it");
    let [stat, Request::Locate(Some(located)), Request::List { path: listed, with_status: true }] =
        &only("xrdfs-ls")[..]
    else {
        panic!("{:?}", only("xrdfs-ls"))
    };
    assert_eq!((path(stat), located.as_str(), listed.as_str()), ("/dir".into(), "/dir", "/dir"));
}

#[test]
fn files_are_read() {
    let handle = Handle(0);
    let [Request::Open(open), Request::Read { handle: read, offset: 0, len: 5000 }] = &only("xrdcp-read")[..] else {
        panic!("{:?}", only("xrdcp-read"))
    };
    assert_eq!((open.path.as_str(), *read), ("/small.bin", handle));
    let Request::ReadPages { offset: 0, len: 5000, .. } = only("xrdcp-pages")[1] else {
        panic!("{:?}", only("xrdcp-pages"))
    };
    let element = |(offset, len)| Element { handle, offset, len };
    let vectors = [vec![(100, 50), (0, 10), (4000, 1000)], vec![(4990, 50)]];
    let vectors = vectors.map(|vector| Request::ReadVector(vector.into_iter().map(element).collect()));
    let reads = [(4990, 100), (6000, 5)].map(|(offset, len)| Request::Read { handle, offset, len });
    assert_eq!(only("bindings")[1..], [vectors.to_vec(), reads.to_vec()].concat());
}

#[test]
fn what_cannot_be_is_refused() {
    let (requests, _) = asked("xrdcp-put", &[RequestCode::Open]);
    assert!(requests.iter().all(|(_, request)| matches!(request, Request::Stat(_))), "{requests:?}");
    assert!(asked("xrdcp-substream", &[RequestCode::Bind]).0.is_empty());
}

#[test]
fn answers_are_those_of_xrootds_server() {
    let all = responses("xrdcp-read");
    let [_greeting, _protocol, _login, open, read, close] = &all[..] else { panic!("{} responses", all.len()) };
    let Request::Open(request) = &only("xrdcp-read")[0] else { panic!("no open") };
    let line = std::str::from_utf8(&body_of(open)[12..]).unwrap();
    assert_eq!(request.answer(stream_of(open), Handle(0), &info(line)), *open);
    let mut frame = vec![0; 8 + 5000];
    (0..5000).for_each(|at| frame[8 + at] = byte(at));
    answer::seal(stream_of(read), true, &mut frame);
    assert_eq!(frame, *read);
    assert_eq!(answer::ok(stream_of(close), &[]), *close);

    let stat = &responses("xrdfs-stat")[3];
    let line = std::str::from_utf8(body_of(stat)).unwrap();
    assert_eq!(answer::text(stream_of(stat), &info(line).line()), *stat);

    let missing = &responses("xrdfs-missing")[3];
    let text = std::str::from_utf8(&body_of(missing)[4..]).unwrap().trim_end_matches('\0').to_owned();
    let refusal = Refusal::new(xroot::ErrorCode::NotFound, text);
    assert_eq!(answer::refusal(stream_of(missing), &refusal), *missing);
}

#[test]
fn pages_and_vectors_are_those_of_xrootds_server() {
    let pages = &responses("xrdcp-pages")[4];
    let part = PagesFrame::next(0, 5000);
    let mut frame = vec![0; part.frame_len()];
    (0..).zip(part.data(&mut frame)).for_each(|(at, place)| *place = byte(at));
    part.seal(stream_of(pages), &mut frame);
    assert_eq!(frame, *pages);

    let vector = &responses("bindings")[4];
    let Request::ReadVector(elements) = &only("bindings")[1] else { panic!("no vector") };
    let part = VectorPart::all(elements).next().unwrap();
    let mut frame = vec![0; part.frame_len()];
    for read in part.prepare(stream_of(vector), &mut frame) {
        (read.offset as usize..).zip(read.dest).for_each(|(at, place)| *place = byte(at));
    }
    assert_eq!(frame, *vector);
}

#[test]
fn a_listing_is_that_of_xrootds_server() {
    let all = responses("xrdfs-ls");
    let listing = all.last().unwrap();
    let text = std::str::from_utf8(body_of(listing)).unwrap();
    let lines: Vec<&str> = text.trim_end_matches('\0').split('\n').collect();
    let mut written = ListingText::new(stream_of(listing), true);
    for entry in lines[2..].chunks(2) {
        assert_eq!(written.push(entry[0], &info(entry[1])), None);
    }
    assert_eq!(written.finish(), *listing);
}
