//! Standard output: lines and bytes, and the quiet end when nobody reads them any more.

use super::failure::{Failure, Stop};
use serde::Serialize;
use std::borrow::Cow;
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub(crate) struct Output {
    stdout: Mutex<BufWriter<Unbuffered>>,
    json: bool,
    terminal: bool,
}

/// Standard output itself. The one of the standard library looks for the last line's end in all that is written, and
/// holds back what is behind it: two calls for each piece of a file.
#[derive(Debug)]
struct Unbuffered;

impl Write for Unbuffered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(io::stdout(), bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A name may hold what a terminal takes for an order. As with `ls`, people see a `?` there; programs get the name as
/// it is.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    let order = |letter: char| letter.is_control() && letter != '\n' && letter != '\t';
    if text.contains(order) { text.replace(order, "?").into() } else { text.into() }
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        let terminal = io::stdout().is_terminal();
        Self { stdout: Mutex::new(BufWriter::with_capacity(64 << 10, Unbuffered)), json, terminal }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    fn lock(&self) -> MutexGuard<'_, BufWriter<Unbuffered>> {
        self.stdout.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn line(&self, text: &str) -> Result<(), Stop> {
        let text = if self.terminal { harmless(text) } else { text.into() };
        let mut stdout = self.lock();
        stdout.write_all(text.as_bytes()).and_then(|()| stdout.write_all(b"\n")).map_err(stop)
    }

    /// One object on a line of its own.
    pub(crate) fn json(&self, object: &impl Serialize) -> Result<(), Stop> {
        let line = serde_json::to_string(object).map_err(|error| Failure::new("standard output", error))?;
        self.line(&line)
    }

    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<(), Stop> {
        self.lock().write_all(bytes).map_err(stop)
    }

    pub(crate) fn flush(&self) -> Result<(), Stop> {
        self.lock().flush().map_err(stop)
    }
}

fn stop(error: io::Error) -> Stop {
    if error.kind() == ErrorKind::BrokenPipe { Stop::PipeClosed } else { Failure::new("standard output", error).into() }
}

#[cfg(test)]
mod tests {
    use super::harmless;

    #[test]
    fn a_terminal_gets_no_orders_from_names() {
        assert_eq!(harmless("a\x1b[2Jb\rc\u{9b}d"), "a?[2Jb?c?d");
        assert_eq!(harmless("\u{fc} b\n"), "\u{fc} b\n");
    }
}
