//! What this crate reads of strangers, as a function of bytes, for fuzz targets. Whatever the bytes are, none panics.

use crate::config::Config;
use crate::frame::{ResponseHeader, StreamId};
use crate::limits::{ELEMENT_LEN_MAX, HANDLE_COUNT_MAX, PART_LEN_MAX};
use crate::pages::PagesFrame;
use crate::request::Request;
use crate::session::{Event, Session};
use crate::stat::Info;
use crate::vector::VectorPart;

/// Responses of a vector that are made; the others are as these.
const PART_COUNT_MAX: usize = 4;

/// A connection: the first byte says in pieces of which length the others come.
pub fn session(bytes: &[u8]) {
    let Some((piece, bytes)) = bytes.split_first() else { return };
    let mut session = Session::new(Config { version: "levada", with_pages: piece % 2 == 0 }, [7; 16]);
    for some in bytes.chunks(1 + usize::from(*piece) * 16) {
        session.feed(some);
        loop {
            match session.next_event() {
                Ok(Some(Event::Answer { bytes, .. })) => must_be_whole(&bytes),
                Ok(Some(Event::Request { stream, request, .. })) => {
                    assert!(session.user().is_some(), "{request:?} before a login");
                    carry_out(&mut session, stream, request);
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
        assert!(session.file_count() <= HANDLE_COUNT_MAX);
    }
}

fn carry_out(session: &mut Session<()>, stream: StreamId, request: Request) {
    match request {
        Request::Open(open) => {
            if let Ok(handle) = session.add_file(()) {
                must_be_whole(&open.answer(stream, handle, &Info::default()));
                assert!(session.file(handle).is_ok());
            }
        }
        Request::ReadVector(elements) => {
            for part in VectorPart::all(&elements).take(PART_COUNT_MAX) {
                assert!(part.frame_len() <= PART_LEN_MAX.max(ELEMENT_LEN_MAX as usize + 24));
                let mut frame = vec![0; part.frame_len()];
                part.prepare(stream, &mut frame);
                must_be_whole(&frame);
            }
        }
        Request::ReadPages { offset, len, .. } => {
            let part = PagesFrame::next(offset, u64::from(len).min(10_000));
            let mut frame = vec![0; part.frame_len()];
            part.seal(stream, &mut frame);
        }
        _ => {}
    }
}

fn must_be_whole(bytes: &[u8]) {
    let header = bytes.first_chunk().and_then(ResponseHeader::decode).expect("a response of ours");
    assert_eq!(bytes.len(), ResponseHeader::LEN + header.body_len as usize);
}
