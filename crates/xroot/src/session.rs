//! One connection of a client, as a machine: bytes in, events out.
//!
//! ```text
//!  Greeting ── 20 bytes ──▶ Strange ── login ──▶ Known
//!                           protocol             all else
//! ```

use crate::answer;
use crate::codes::{ErrorCode, RequestCode};
use crate::config::Config;
use crate::frame::{GREETING, RequestHeader, StreamId, bytes_at};
use crate::handles::{Handle, Handles};
use crate::limits::{BODY_LEN_MAX, SKIPPED_LEN_MAX, USER_LEN_MAX};
use crate::refusal::Refusal;
use crate::request::{self, Own, Parsed, Request};
use crate::vector;

/// The version of the protocol: 5.2.
const VERSION: u32 = 0x520;
/// What a server of data is, in the answers to the greeting and to the request for the protocol. Without the bits of
/// TLS: clients go on in plain.
const DATA_SERVER: u32 = 1;
const WITH_PAGES: u32 = 0x0020_0000;
/// Bytes that wait to be looked at: the longest request, and a read of the socket.
const BUFFER_LEN_MAX: usize = RequestHeader::LEN + vector::BODY_LEN_MAX + (64 << 10);

/// Of it, what stays when all is done.
const BUFFER_KEPT_LEN: usize = 64 << 10;

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// This is to be sent. `None`: to the greeting, or to a request that there is none of.
    Answer { code: Option<RequestCode>, bytes: Vec<u8> },
    /// This is to be carried out, and answered with this stream's id. Several may be under way.
    Request { stream: StreamId, code: RequestCode, request: Request },
}

/// Why a connection can not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    #[error("it does not begin as XRootD's do")]
    Greeting,
    #[error("a request of negative length")]
    NegativeLength,
    #[error("a request of {len} bytes; {SKIPPED_LEN_MAX} are the most that is passed over")]
    TooLong { len: u32 },
    /// The data of a vector of writes follow its request without a length of their own.
    #[error("a vector of writes, to a server that is only read from")]
    WriteVector,
}

#[derive(Debug)]
enum Stage {
    Greeting,
    Strange,
    Known { user: String },
}

/// Files are the caller's: a session knows them by handle.
#[derive(Debug)]
pub struct Session<F> {
    config: Config,
    id: [u8; 16],
    stage: Stage,
    files: Handles<F>,
    /// What came, of which the first `begin` bytes are done with.
    buffer: Vec<u8>,
    begin: usize,
    /// Bytes still to come that nobody looks at.
    skipped: usize,
}

impl<F> Session<F> {
    /// `id`: drawn by chance; clients know the session by it.
    pub fn new(config: Config, id: [u8; 16]) -> Self {
        let (files, buffer) = (Handles::new(), Vec::new());
        Self { config, id, stage: Stage::Greeting, files, buffer, begin: 0, skipped: 0 }
    }

    /// Who a client says he is, once he has logged in. Empty: he does not say, or nothing that could be a name.
    pub fn user(&self) -> Option<&str> {
        match &self.stage {
            Stage::Known { user } => Some(user),
            _ => None,
        }
    }

    /// Bytes that may be fed. There is room once all events were taken.
    pub fn room(&self) -> usize {
        BUFFER_LEN_MAX - (self.buffer.len() - self.begin)
    }

    /// Takes what came. No more than there is room for.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        assert!(bytes.len() <= self.room());
        if self.begin == self.buffer.len() {
            // A session that waits for its client for hours needs no room for the longest request.
            self.buffer.clear();
            self.buffer.shrink_to(BUFFER_KEPT_LEN);
            self.begin = 0;
            let passed = self.skipped.min(bytes.len());
            self.skipped -= passed;
            bytes = &bytes[passed..];
        } else if self.begin > BUFFER_LEN_MAX / 2 {
            self.buffer.drain(..self.begin);
            self.begin = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// What the bytes that came ask for. `Ok(None)`: more bytes are needed.
    pub fn next_event(&mut self) -> Result<Option<Event>, SessionError> {
        let passed = self.skipped.min(self.buffer.len() - self.begin);
        (self.skipped, self.begin) = (self.skipped - passed, self.begin + passed);
        if let Stage::Greeting = self.stage {
            return self.greet();
        }
        let rest = &self.buffer[self.begin..];
        let Some(head) = rest.first_chunk::<{ RequestHeader::LEN }>() else { return Ok(None) };
        let header = RequestHeader::decode(head).ok_or(SessionError::NegativeLength)?;
        let code = RequestCode::from_number(header.code);
        let body_len_max = if code == Some(RequestCode::Readv) { vector::BODY_LEN_MAX } else { BODY_LEN_MAX };
        if header.body_len as usize > body_len_max {
            return self.pass_over(&header, code, body_len_max).map(Some);
        }
        let end = RequestHeader::LEN + header.body_len as usize;
        let Some(body) = rest.get(RequestHeader::LEN..end) else { return Ok(None) };
        let Some(code) = code else {
            self.begin += end;
            let refusal = Refusal::new(ErrorCode::InvalidRequest, "there is no such request");
            let bytes = answer::refusal(header.stream, &refusal);
            return Ok(Some(Event::Answer { code: None, bytes }));
        };
        if code == RequestCode::Writev {
            return Err(SessionError::WriteVector);
        }
        let answered = match &self.stage {
            Stage::Known { .. } => Self::known(&self.config, &mut self.files, code, &header, body),
            _ => Self::strange(&self.config, code, &header),
        };
        self.begin += end;
        Ok(Some(match answered {
            Ok(Outcome::Body(body)) => Event::Answer { code: Some(code), bytes: answer::ok(header.stream, &body) },
            Ok(Outcome::LoggedIn { user }) => {
                self.stage = Stage::Known { user };
                Event::Answer { code: Some(code), bytes: answer::ok(header.stream, &self.id) }
            }
            Ok(Outcome::Request(request)) => Event::Request { stream: header.stream, code, request },
            Err(refusal) => Event::Answer { code: Some(code), bytes: answer::refusal(header.stream, &refusal) },
        }))
    }

    fn greet(&mut self) -> Result<Option<Event>, SessionError> {
        let rest = &self.buffer[self.begin..];
        let len = rest.len().min(GREETING.len());
        if rest[..len] != GREETING[..len] {
            return Err(SessionError::Greeting);
        }
        if len < GREETING.len() {
            return Ok(None);
        }
        self.begin += GREETING.len();
        self.stage = Stage::Strange;
        let body = [VERSION.to_be_bytes(), DATA_SERVER.to_be_bytes()].concat();
        Ok(Some(Event::Answer { code: None, bytes: answer::ok(StreamId::default(), &body) }))
    }

    /// Answers what is longer than it may be, and takes no memory for it.
    fn pass_over(
        &mut self,
        header: &RequestHeader,
        code: Option<RequestCode>,
        body_len_max: usize,
    ) -> Result<Event, SessionError> {
        let len = header.body_len;
        if len > SKIPPED_LEN_MAX {
            return Err(SessionError::TooLong { len });
        }
        if code == Some(RequestCode::Writev) {
            return Err(SessionError::WriteVector);
        }
        self.begin += RequestHeader::LEN;
        self.skipped = len as usize;
        let refusal = match code {
            Some(RequestCode::Write | RequestCode::Pgwrite) => {
                Refusal::new(ErrorCode::FsReadOnly, "files are only read here")
            }
            _ => Refusal::new(ErrorCode::ArgTooLong, format!("{len} bytes; this request may have {body_len_max}")),
        };
        Ok(Event::Answer { code, bytes: answer::refusal(header.stream, &refusal) })
    }

    /// Of a client that has not logged in.
    fn strange(config: &Config, code: RequestCode, header: &RequestHeader) -> Result<Outcome, Refusal> {
        match code {
            RequestCode::Protocol => Ok(Outcome::Body(protocol(config))),
            RequestCode::Login => {
                let name: [u8; USER_LEN_MAX] = bytes_at(&header.parameters, 4);
                Ok(Outcome::LoggedIn { user: user_of(&name) })
            }
            RequestCode::Bind => Err(Refusal::new(ErrorCode::Unsupported, "a session has one connection here")),
            _ => Err(Refusal::new(ErrorCode::InvalidRequest, "log in first")),
        }
    }

    fn known(
        config: &Config,
        files: &mut Handles<F>,
        code: RequestCode,
        header: &RequestHeader,
        body: &[u8],
    ) -> Result<Outcome, Refusal> {
        match code {
            RequestCode::Protocol => Ok(Outcome::Body(protocol(config))),
            // A session that a client ends is an earlier one of his, which ends with its connection.
            RequestCode::Ping | RequestCode::Set | RequestCode::Endsess => Ok(Outcome::Body(Vec::new())),
            RequestCode::Login => Err(Refusal::new(ErrorCode::InvalidRequest, "already logged in")),
            RequestCode::Auth => Err(Refusal::new(ErrorCode::InvalidRequest, "no proof was asked for")),
            _ => match request::parse(code, header, body)? {
                Parsed::OfStore(request) => Ok(Outcome::Request(request)),
                Parsed::OfSession(Own::Config) => config.answer(body).map(|lines| Outcome::Body(lines.into())),
                Parsed::OfSession(Own::Close(handle)) => match files.remove(handle) {
                    Some(_) => Ok(Outcome::Body(Vec::new())),
                    None => Err(not_open()),
                },
            },
        }
    }

    /// A file that is open from now on, or will be: requests that name it may come before it is.
    pub fn add_file(&mut self, file: F) -> Result<Handle, Refusal> {
        let too_many = || Refusal::new(ErrorCode::Overloaded, "as many files are open as a session may have");
        self.files.add(file).ok_or_else(too_many)
    }

    pub fn file(&self, handle: Handle) -> Result<&F, Refusal> {
        self.files.get(handle).ok_or_else(not_open)
    }

    /// It could not be opened.
    pub fn remove_file(&mut self, handle: Handle) -> Option<F> {
        self.files.remove(handle)
    }

    pub fn file_count(&self) -> usize {
        self.files.len()
    }
}

/// What becomes of a request.
enum Outcome {
    Body(Vec<u8>),
    LoggedIn { user: String },
    Request(Request),
}

fn not_open() -> Refusal {
    Refusal::new(ErrorCode::FileNotOpen, "no open file has this handle")
}

fn protocol(config: &Config) -> Vec<u8> {
    let flags = DATA_SERVER | if config.with_pages { WITH_PAGES } else { 0 };
    [VERSION.to_be_bytes(), flags.to_be_bytes()].concat()
}

/// A name of letters, digits and some signs, as users have; the first eight letters, as a login has no room for more.
fn user_of(name: &[u8; USER_LEN_MAX]) -> String {
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    let is_of_names = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if !name[..end].iter().all(is_of_names) {
        return String::new();
    }
    String::from_utf8_lossy(&name[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(code: RequestCode, parameters: &[u8], body: &[u8]) -> Vec<u8> {
        let mut bytes = [&[0, 1][..], &code.number().to_be_bytes(), parameters].concat();
        bytes.resize(20, 0);
        bytes.extend_from_slice(&(body.len() as u32).to_be_bytes());
        [&bytes, body].concat()
    }

    fn session() -> Session<u8> {
        Session::new(Config { version: "levada", with_pages: true }, [7; 16])
    }

    /// Of a user, behind greeting and login.
    fn logged_in() -> Session<u8> {
        let mut session = session();
        session.feed(&GREETING);
        session.feed(&request(RequestCode::Login, b"\0\0\0\x01alice\0\0\0", b"xrd.cc=us"));
        assert_eq!(answers(&mut session), [0, 0]);
        session
    }

    /// The statuses of what is answered.
    fn answers(session: &mut Session<u8>) -> Vec<u16> {
        let status = |bytes: &[u8]| u16::from_be_bytes([bytes[2], bytes[3]]);
        std::iter::from_fn(|| session.next_event().unwrap())
            .map(|event| match event {
                Event::Answer { bytes, .. } if status(&bytes) == 4003 => u16::from_be_bytes([bytes[10], bytes[11]]),
                Event::Answer { bytes, .. } => status(&bytes),
                Event::Request { request, .. } => panic!("{request:?} is for the store"),
            })
            .collect()
    }

    fn asked(session: &mut Session<u8>, bytes: &[u8]) -> Vec<u16> {
        session.feed(bytes);
        answers(session)
    }

    #[test]
    fn nothing_passes_before_a_login() {
        let mut session = session();
        session.feed(&GREETING);
        session.feed(&request(RequestCode::Protocol, b"\0\0\x05\x20", b""));
        session.feed(&request(RequestCode::Open, &[], b"/f"));
        session.feed(&request(RequestCode::Ping, &[], b""));
        assert_eq!(answers(&mut session), [0, 0, 3006, 3006]);
        assert_eq!(session.user(), None);
        session.feed(&request(RequestCode::Login, b"\0\0\0\x01somebody", b""));
        let login = session.next_event().unwrap();
        let bytes = [&[0, 1, 0, 0, 0, 0, 0, 16][..], &[7; 16]].concat();
        assert_eq!(login, Some(Event::Answer { code: Some(RequestCode::Login), bytes }));
        assert_eq!(session.user(), Some("somebody"));
        assert_eq!(asked(&mut session, &request(RequestCode::Ping, &[], b"")), [0]);
        assert_eq!(asked(&mut session, &request(RequestCode::Login, b"\0\0\0\x01root", b"")), [3006]);
        assert_eq!(session.user(), Some("somebody"));
    }

    #[test]
    fn what_is_no_name_is_none() {
        for (said, known) in [(*b"a.b-c_d1", "a.b-c_d1"), (*b"????\0\0\0\0", ""), ([0; 8], ""), (*b"a b\0\0\0\0\0", "")]
        {
            assert_eq!(user_of(&said), known);
        }
    }

    #[test]
    fn a_request_may_come_byte_by_byte() {
        let mut session = session();
        let all = [&GREETING[..], &request(RequestCode::Login, b"\0\0\0\x01alice\0\0\0", b"x=y")].concat();
        let got: Vec<_> = all.iter().flat_map(|byte| asked(&mut session, &[*byte])).collect();
        assert_eq!((got, session.user()), (vec![0, 0], Some("alice")));
        session.feed(&request(RequestCode::Read, &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 4], &[0; 8]));
        let request = Request::Read { handle: Handle(1), offset: 9, len: 4 };
        let wanted = Event::Request { stream: StreamId([0, 1]), code: RequestCode::Read, request };
        assert_eq!(session.next_event(), Ok(Some(wanted)));
    }

    #[test]
    fn what_is_not_of_the_protocol_ends_the_connection() {
        let mut http = session();
        http.feed(b"GET / HTTP/1.1\r\n");
        assert_eq!(http.next_event(), Err(SessionError::Greeting));
        let mut negative = logged_in();
        negative.feed(&[[0, 1, 0x0b, 0xc5].as_slice(), &[0; 16], &[0xff; 4]].concat());
        assert_eq!(negative.next_event(), Err(SessionError::NegativeLength));
        let mut long = logged_in();
        long.feed(&[[0, 1, 0x0b, 0xc5].as_slice(), &[0; 16], &[0x7f; 4]].concat());
        assert_eq!(long.next_event(), Err(SessionError::TooLong { len: 0x7f7f_7f7f }));
        let mut written = logged_in();
        written.feed(&request(RequestCode::Writev, &[], &[0; 16]));
        assert_eq!(written.next_event(), Err(SessionError::WriteVector));
    }

    /// As a client does that writes without having opened anything.
    #[test]
    fn a_long_body_is_passed_over_and_the_connection_goes_on() {
        let mut session = logged_in();
        let long = request(RequestCode::Write, &[], &[0; 1 << 20]);
        let ping = request(RequestCode::Ping, &[], b"");
        let mut got = Vec::new();
        for some in [long, ping, request(RequestCode::Query, &[0, 7], &[b' '; 100_000])].concat().chunks(50_000) {
            assert!(session.room() >= some.len());
            got.extend(asked(&mut session, some));
        }
        assert_eq!(got, [3025, 0, 3002]);
        assert!(session.buffer.capacity() < 2 * BUFFER_LEN_MAX);
        session.feed(&[]);
        assert!(session.buffer.capacity() <= BUFFER_KEPT_LEN);
    }

    #[test]
    fn what_changes_files_is_refused_as_such() {
        let mut session = logged_in();
        for code in [RequestCode::Mkdir, RequestCode::Rm, RequestCode::Mv, RequestCode::Truncate, RequestCode::Chmod] {
            assert_eq!(asked(&mut session, &request(code, &[], b"/a")), [3025], "{code:?}");
        }
        for options in [0x0002u16, 0x0008, 0x0020, 0x0200, 0x8000, 0x0012] {
            let parameters = [&[0, 0][..], &options.to_be_bytes()].concat();
            assert_eq!(asked(&mut session, &request(RequestCode::Open, &parameters, b"/a")), [3025]);
        }
        for code in [RequestCode::Fattr, RequestCode::Prepare, RequestCode::Bind, RequestCode::Gpfile] {
            assert_eq!(asked(&mut session, &request(code, &[], b"/a")), [3013], "{code:?}");
        }
        assert_eq!(asked(&mut session, &request(RequestCode::Query, &[0, 3], b"/a")), [3013]);
    }

    #[test]
    fn a_handle_is_good_until_it_is_closed() {
        let mut session = logged_in();
        assert_eq!((session.add_file(5), session.add_file(6)), (Ok(Handle(0)), Ok(Handle(1))));
        assert_eq!(session.file(Handle(1)), Ok(&6));
        assert_eq!(asked(&mut session, &request(RequestCode::Close, &[1, 0, 0, 0], b"")), [0]);
        assert_eq!(session.file(Handle(1)).map_err(|refusal| refusal.code), Err(ErrorCode::FileNotOpen));
        assert_eq!(asked(&mut session, &request(RequestCode::Close, &[1, 0, 0, 0], b"")), [3004]);
        assert_eq!((session.remove_file(Handle(0)), session.file_count()), (Some(5), 0));
    }
}
