//! How a file is opened, and what the answer to that has in it.

use crate::answer;
use crate::codes::ErrorCode;
use crate::frame::{StreamId, u16_at};
use crate::handles::Handle;
use crate::path;
use crate::refusal::Refusal;
use crate::stat::Info;
use types::FsPath;

/// Bits of the options.
mod option {
    pub(super) const COMPRESSION: u16 = 0x0001;
    pub(super) const DELETE: u16 = 0x0002;
    pub(super) const NEW: u16 = 0x0008;
    pub(super) const UPDATE: u16 = 0x0020;
    pub(super) const APPEND: u16 = 0x0200;
    pub(super) const STATUS: u16 = 0x0400;
    pub(super) const WRITE_ONLY: u16 = 0x8000;
    /// Each of these changes a file.
    pub(super) const CHANGING: u16 = DELETE | NEW | UPDATE | APPEND | WRITE_ONLY;
}

/// A file to be opened for reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    pub path: FsPath,
    /// The answer tells how the file is compressed: not at all.
    with_compression: bool,
    /// The answer tells the file's status, too.
    with_status: bool,
}

impl Open {
    /// Many clients set neither the bit for reading nor one for writing: they read.
    pub(crate) fn parse(parameters: &[u8; 16], body: &[u8]) -> Result<Self, Refusal> {
        let options = u16_at(parameters, 2);
        if options & option::CHANGING != 0 {
            return Err(Refusal::new(ErrorCode::FsReadOnly, "files are only read here"));
        }
        let with_status = options & option::STATUS != 0;
        let with_compression = with_status || options & option::COMPRESSION != 0;
        Ok(Self { path: path::parse(body)?, with_compression, with_status })
    }

    /// ```text
    /// 0           4                  8           12
    /// ┌───────────┬──────────────────┬───────────┬───────────────────┐
    /// │ handle 4 B│ page length i32 0│ kind 4 B 0│ status line, NUL  │     the last three as they were asked for
    /// └───────────┴──────────────────┴───────────┴───────────────────┘
    /// ```
    pub fn answer(&self, stream: StreamId, handle: Handle, info: &Info) -> Vec<u8> {
        let mut body = handle.encode().to_vec();
        if self.with_compression {
            body.extend_from_slice(&[0; 8]);
        }
        if self.with_status {
            body.extend_from_slice(info.line().as_bytes());
            body.push(0);
        }
        answer::ok(stream, &body)
    }
}
