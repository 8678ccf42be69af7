//! Standard output: lines and bytes, and the quiet end when nobody reads them any more.

use super::{Failure, Stop};
use serde::Serialize;
use std::io::{self, BufWriter, ErrorKind, Stdout, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub(crate) struct Output {
    stdout: Mutex<BufWriter<Stdout>>,
    json: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Self { stdout: Mutex::new(BufWriter::with_capacity(64 << 10, io::stdout())), json }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    fn lock(&self) -> MutexGuard<'_, BufWriter<Stdout>> {
        self.stdout.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn line(&self, text: &str) -> Result<(), Stop> {
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
