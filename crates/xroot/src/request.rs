//! What clients ask of the store, as values.

use crate::codes::{ErrorCode, RequestCode};
use crate::frame::{RequestHeader, bytes_at, i32_at, i64_at, u16_at};
use crate::handles::Handle;
use crate::limits::{PATH_BODY_LEN_MAX, STATX_COUNT_MAX};
use crate::open::Open;
use crate::path;
use crate::refusal::Refusal;
use crate::vector::{self, Element};
use types::FsPath;

/// By what a client names a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Path(FsPath),
    Open(Handle),
}

/// What the store has to say. All else a session answers by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    Stat(Target),
    /// How much space there is, as a status.
    StatSpace,
    /// The types of many: one byte each.
    StatTypes(Vec<FsPath>),
    List {
        path: FsPath,
        with_status: bool,
    },
    /// `None`: of anything.
    Locate(Option<FsPath>),
    /// [`Session::add_file`](crate::Session::add_file) has the handle for the answer.
    Open(Open),
    Read {
        handle: Handle,
        offset: u64,
        len: u32,
    },
    ReadPages {
        handle: Handle,
        offset: u64,
        len: u32,
    },
    ReadVector(Vec<Element>),
    QuerySpace,
    QueryStatistics,
}

/// What of the session's a request is about.
pub(crate) enum Own {
    Close(Handle),
    Config,
}

pub(crate) enum Parsed {
    OfStore(Request),
    OfSession(Own),
}

/// Kinds of information that a query asks for.
mod query {
    pub(super) const STATISTICS: u16 = 1;
    pub(super) const CHECKSUM: u16 = 3;
    pub(super) const SPACE: u16 = 5;
    pub(super) const CONFIG: u16 = 7;
}

const STAT_OF_SPACE: u8 = 1;
const LIST_WITH_STATUS: u8 = 2;
/// It implies statuses. There are no checksums, and clients do without.
const LIST_WITH_CHECKSUM: u8 = 4;

/// Of a client that has logged in. Its body has come, and is no longer than it may be.
pub(crate) fn parse(code: RequestCode, header: &RequestHeader, body: &[u8]) -> Result<Parsed, Refusal> {
    let parameters = &header.parameters;
    let request = match code {
        RequestCode::Open => Request::Open(Open::parse(parameters, short(body)?)?),
        RequestCode::Close => return Ok(Parsed::OfSession(Own::Close(handle(parameters, 0)))),
        RequestCode::Stat if parameters[0] & STAT_OF_SPACE != 0 => {
            path::parse(short(body)?)?;
            Request::StatSpace
        }
        RequestCode::Stat if body.is_empty() => Request::Stat(Target::Open(handle(parameters, 12))),
        RequestCode::Stat => Request::Stat(Target::Path(path::parse(short(body)?)?)),
        RequestCode::Statx => Request::StatTypes(paths(body)?),
        RequestCode::Dirlist => {
            let with_status = parameters[15] & (LIST_WITH_STATUS | LIST_WITH_CHECKSUM) != 0;
            Request::List { path: path::parse(short(body)?)?, with_status }
        }
        RequestCode::Locate => Request::Locate(match body.strip_prefix(b"*") {
            Some(b"" | b"\0") => None,
            Some(path) => Some(path::parse(short(path)?)?),
            None => Some(path::parse(short(body)?)?),
        }),
        RequestCode::Read | RequestCode::Pgread => {
            let (handle, offset, len) = (handle(parameters, 0), i64_at(parameters, 4), i32_at(parameters, 12));
            let (Ok(offset), Ok(len)) = (u64::try_from(offset), u32::try_from(len)) else {
                return Err(Refusal::new(ErrorCode::ArgInvalid, "a negative offset or length"));
            };
            match code {
                RequestCode::Read => Request::Read { handle, offset, len },
                _ => Request::ReadPages { handle, offset, len },
            }
        }
        RequestCode::Readv => Request::ReadVector(vector::parse(body)?),
        RequestCode::Query => match u16_at(parameters, 0) {
            query::CONFIG => return Ok(Parsed::OfSession(Own::Config)),
            query::SPACE => Request::QuerySpace,
            query::STATISTICS => Request::QueryStatistics,
            // It would cost a reading of the file.
            query::CHECKSUM => return Err(unsupported("checksums of whole files are not kept")),
            _ => return Err(unsupported("nothing is known of that")),
        },
        RequestCode::Chmod
        | RequestCode::Mkdir
        | RequestCode::Mv
        | RequestCode::Rm
        | RequestCode::Rmdir
        | RequestCode::Truncate
        | RequestCode::Sync
        | RequestCode::Write
        | RequestCode::Pgwrite
        | RequestCode::Chkpoint => return Err(Refusal::new(ErrorCode::FsReadOnly, "files are only read here")),
        RequestCode::Bind => return Err(unsupported("a session has one connection here")),
        _ => return Err(unsupported("this server has no such request")),
    };
    Ok(Parsed::OfStore(request))
}

fn unsupported(text: &'static str) -> Refusal {
    Refusal::new(ErrorCode::Unsupported, text)
}

fn handle(parameters: &[u8; 16], at: usize) -> Handle {
    Handle::decode(bytes_at(parameters, at))
}

/// A body with one path in it.
fn short(body: &[u8]) -> Result<&[u8], Refusal> {
    if body.len() > PATH_BODY_LEN_MAX {
        let text = format!("a path with what follows it may have {PATH_BODY_LEN_MAX} bytes");
        return Err(Refusal::new(ErrorCode::ArgTooLong, text));
    }
    Ok(body)
}

/// Paths, a line each.
fn paths(body: &[u8]) -> Result<Vec<FsPath>, Refusal> {
    let lines = || body.split(|byte| *byte == b'\n').filter(|line| !matches!(*line, b"" | b"\0"));
    match lines().count() {
        0 => Err(Refusal::new(ErrorCode::ArgMissing, "no path was given")),
        count if count > STATX_COUNT_MAX => {
            Err(Refusal::new(ErrorCode::ArgTooLong, format!("{count} paths; {STATX_COUNT_MAX} at a time")))
        }
        _ => lines().map(path::parse).collect(),
    }
}
