//! Why a command did not do all it was asked, as it is printed.

use super::advice;
use client::ErrorKind;
use std::fmt::{self, Write};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Exit codes. That of wrong usage is clap's, too.
pub(crate) const FAILED: u8 = 1;
pub(crate) const USAGE: u8 = 2;

/// `SUBJECT: reason (advice)`; the subject is a path or what was typed.
#[derive(Debug)]
pub(crate) struct Failure {
    subject: String,
    reason: String,
    advice: Option<String>,
    /// The datanodes that a file was written to have failed: the same may do well in a moment.
    is_passing: bool,
    /// There was no connection to a server, or it broke, or something else answered.
    is_unreachable: bool,
    /// The command line makes no sense, whatever the store is like.
    is_usage: bool,
}

impl Failure {
    pub(crate) fn new(subject: impl fmt::Display, reason: impl fmt::Display) -> Self {
        Self {
            subject: subject.to_string(),
            reason: reason.to_string(),
            advice: None,
            is_passing: false,
            is_unreachable: false,
            is_usage: false,
        }
    }

    /// Wrong usage, whatever is in the store: exit code 2.
    pub(crate) fn usage(subject: impl fmt::Display, reason: impl fmt::Display) -> Self {
        Self { is_usage: true, ..Self::new(subject, reason) }
    }

    pub(crate) fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    pub(crate) fn of(subject: impl fmt::Display, error: &client::Error) -> Self {
        let advice = advice::on(error).map(Into::into);
        let is_passing = matches!(error.kind(), ErrorKind::NoNodeLeft | ErrorKind::NotComplete);
        let is_unreachable = matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::Broken | ErrorKind::Protocol);
        Self { advice, is_passing, is_unreachable, ..Self::new(subject, error) }
    }

    /// As it is printed where all goes through a gateway. One closes the connection to a store that it does not serve.
    pub(crate) fn through(&self, gateway: Option<&str>) -> String {
        let Some(gateway) = gateway.filter(|_| self.is_unreachable) else { return self.to_string() };
        format!(
            "{}: {} (through the gateway {gateway}: does it run, is that its port, 8030 if nobody chose another, and \
             does its --url name these servers as --url here does?)",
            self.subject, self.reason
        )
    }

    pub(crate) fn is_passing(&self) -> bool {
        self.is_passing
    }

    /// The exit code of a command that reports this and goes on.
    pub(crate) fn exit_code(&self) -> u8 {
        if self.is_usage { USAGE } else { FAILED }
    }

    pub(crate) fn local(path: &Path, error: &io::Error) -> Self {
        Self::new(shown(path), client::reason_of(error))
    }

    /// A local file or directory that was not made. Where the directory for it is missing, that is what is told.
    pub(crate) fn not_made(path: &Path, error: &io::Error) -> Self {
        let above = path.parent().filter(|above| !above.as_os_str().is_empty() && !above.exists());
        match above.filter(|_| error.kind() == io::ErrorKind::NotFound) {
            Some(above) => no_directory(shown(above), false, false),
            None => Self::local(path, error),
        }
    }

    /// Puts the name that the user gave (`to`) in place of the temporary file's (`temp`).
    pub(crate) fn naming(self, temp: &str, to: &str) -> Self {
        let named = |text: String| text.replace(temp, to);
        Self { subject: named(self.subject), reason: named(self.reason), ..self }
    }

    /// A local name that the store cannot take.
    pub(crate) fn not_utf8(path: &Path) -> Self {
        Self::new(shown(path), "its name is not UTF-8, as names in the store are")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.reason)?;
        self.advice.as_ref().map_or(Ok(()), |advice| write!(f, " ({advice})"))
    }
}

/// Why nothing is copied or moved to a destination that is no directory but would have to be one.
pub(crate) fn no_directory(destination: impl fmt::Display, exists: bool, several: bool) -> Failure {
    let failure = Failure::new(destination, if exists { "is not a directory" } else { "no such directory" });
    match (several, exists) {
        (true, _) => failure.advise("several sources need a directory to go to"),
        (false, false) => failure.advise("make it first, with mkdir -p"),
        (false, true) => failure,
    }
}

/// A local path as it is printed. Bytes that are no UTF-8 are written `\xE9`: who shall rename the file must find it.
pub(crate) fn shown(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02X}"); // a String takes all
        }
    }
    text
}

/// Why a command ends early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Whoever read our output has enough; no reason to say anything.
    PipeClosed,
    Failed(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_is_named_where_it_may_be_the_reason() {
        let closed = client::Error::Broken { addr: "h:1".into(), reason: "the server closed it".into() };
        let unreachable = Failure::of("hdfs://h:1/", &closed);
        assert!(unreachable.through(Some("g:8030")).contains("through the gateway g:8030"));
        assert_eq!(unreachable.through(None), unreachable.to_string());
        let other = Failure::new("hdfs://h:1/x", "no such file");
        assert_eq!(other.through(Some("g:8030")), other.to_string());
    }

    #[test]
    fn a_failure_says_where_what_and_what_to_do() {
        let failure = Failure::new("hdfs://h:1/x", "is a directory").advise("use -r");
        assert_eq!(failure.to_string(), "hdfs://h:1/x: is a directory (use -r)");
        let missing = io::Error::from_raw_os_error(2);
        assert_eq!(Failure::local("a".as_ref(), &missing).to_string(), "a: no such file or directory");
    }

    #[test]
    fn a_name_that_is_no_utf8_is_told_byte_by_byte() {
        let path = Path::new(std::ffi::OsStr::from_bytes(b"d\xc3\xbc/caf\xe9 \xff\xfe"));
        assert_eq!(shown(path), "d\u{fc}/caf\\xE9 \\xFF\\xFE");
    }
}
