//! Files of a log: one that grows, and numbered older ones. The oldest has the highest number.
//!
//! Promise: together they are no longer than `count` times `len_max`, but for one line each. A line that cannot be
//! written is lost, and standard error is told once; the server goes on.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Result, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// Names of files and users are in it: for the administrator, and for the group that reads logs.
const FILE_MODE: u32 = 0o640;

#[derive(Debug)]
pub(super) struct Files {
    path: PathBuf,
    len_max: u64,
    /// With the one that grows.
    count: u32,
    /// `None` after a fault: it is opened again with the next line.
    file: Option<File>,
    len: u64,
    is_failing: bool,
}

impl Files {
    /// The directory is made, if it is not there.
    pub(super) fn open(path: PathBuf, len_max: u64, count: u32) -> Result<Self> {
        assert!(len_max > 0 && count > 0, "the settings are checked: {count} files of {len_max} bytes");
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        let mut files = Self { path, len_max, count, file: None, len: 0, is_failing: false };
        files.reopen()?;
        Ok(files)
    }

    /// One line, whole.
    pub(super) fn append(&mut self, line: &[u8]) {
        match self.try_append(line) {
            Ok(()) => self.is_failing = false,
            Err(error) => {
                self.file = None;
                if !std::mem::replace(&mut self.is_failing, true) {
                    let path = self.path.display();
                    let _ = writeln!(std::io::stderr(), "levada: {path}: {error}; lines of the log are lost");
                }
            }
        }
    }

    fn try_append(&mut self, line: &[u8]) -> Result<()> {
        self.reopen()?;
        if self.len > 0 && self.len + line.len() as u64 > self.len_max {
            self.rotate()?;
        }
        if let Some(file) = &mut self.file {
            file.write_all(line)?;
            self.len += line.len() as u64;
        }
        Ok(())
    }

    fn numbered(&self, number: u32) -> PathBuf {
        if number == 0 {
            return self.path.clone();
        }
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }

    fn rotate(&mut self) -> Result<()> {
        self.file = None;
        for number in (0..self.count - 1).rev() {
            match std::fs::rename(self.numbered(number), self.numbered(number + 1)) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        if self.count == 1 {
            std::fs::remove_file(&self.path)?;
        }
        self.reopen()
    }

    fn reopen(&mut self) -> Result<()> {
        if self.file.is_none() {
            let file = OpenOptions::new().create(true).append(true).mode(FILE_MODE).open(&self.path)?;
            self.len = file.metadata()?.len();
            self.file = Some(file);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_lines_go_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("logs/server.log");
        let mut files = Files::open(path.clone(), 20, 3).unwrap();
        for number in 10..20 {
            files.append(format!("line {number}\n").as_bytes());
        }
        let read = |number: u32| std::fs::read_to_string(files.numbered(number)).unwrap();
        assert_eq!([read(0), read(1), read(2)], ["line 18\nline 19\n", "line 16\nline 17\n", "line 14\nline 15\n"]);
        assert!(!files.numbered(3).exists());
        // Another start goes on where the last one ended.
        let mut files = Files::open(path, 20, 3).unwrap();
        files.append(b"line 20\n");
        assert_eq!(std::fs::read_to_string(files.numbered(0)).unwrap(), "line 20\n");
    }
}
