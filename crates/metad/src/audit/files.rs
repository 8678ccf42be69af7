//! Files of the audit log: one that grows, and numbered older ones. The oldest has the highest number.

use std::fs::{File, OpenOptions};
use std::io::{Result, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const NAME: &str = "audit.log";
/// Paths are for the administrator only.
const FILE_MODE: u32 = 0o600;

#[derive(Debug)]
pub(super) struct Files {
    dir: PathBuf,
    len_max: u64,
    /// With the one that grows.
    count: u32,
    /// `None` after a fault: it is opened again with the next lines.
    file: Option<File>,
    len: u64,
}

impl Files {
    pub(super) fn open(dir: PathBuf, len_max: u64, count: u32) -> Result<Self> {
        assert!(len_max > 0 && count > 0, "the configuration is checked: {count} files of {len_max} bytes");
        std::fs::create_dir_all(&dir)?;
        let mut files = Self { dir, len_max, count, file: None, len: 0 };
        files.reopen()?;
        Ok(files)
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// `lines` are whole. A file ends with a whole line, and is no longer than it may be, unless one line is.
    pub(super) fn append(&mut self, mut lines: &[u8]) -> Result<()> {
        let done = self.try_append(&mut lines);
        if done.is_err() {
            self.file = None;
        }
        done
    }

    fn try_append(&mut self, lines: &mut &[u8]) -> Result<()> {
        assert!(lines.is_empty() || lines.ends_with(b"\n"), "a file ends with a whole line");
        self.reopen()?;
        while !lines.is_empty() {
            let room = self.len_max.saturating_sub(self.len).min(lines.len() as u64) as usize;
            let first_line = lines.iter().position(|byte| *byte == b'\n').map_or(lines.len(), |at| at + 1);
            let fits = lines[..room].iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
            let len = match fits {
                Some(fits) => fits,
                None if self.len == 0 => first_line,
                None => {
                    self.rotate()?;
                    continue;
                }
            };
            let Some(file) = &mut self.file else { return self.reopen() };
            assert!(len > 0, "each write takes a line at least");
            file.write_all(&lines[..len])?;
            self.len += len as u64;
            *lines = &lines[len..];
        }
        Ok(())
    }

    fn path(&self, number: u32) -> PathBuf {
        match number {
            0 => self.dir.join(NAME),
            number => self.dir.join(format!("{NAME}.{number}")),
        }
    }

    fn rotate(&mut self) -> Result<()> {
        self.file = None;
        for number in (0..self.count - 1).rev() {
            match std::fs::rename(self.path(number), self.path(number + 1)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        if self.count == 1 {
            std::fs::remove_file(self.path(0))?;
        }
        self.reopen()
    }

    fn reopen(&mut self) -> Result<()> {
        if self.file.is_none() {
            let mut file =
                OpenOptions::new().create(true).read(true).append(true).mode(FILE_MODE).open(self.path(0))?;
            self.len = file.metadata()?.len();
            let mut last = [b'\n'];
            if self.len > 0 {
                file.read_exact_at(&mut last, self.len - 1)?;
            }
            // A crash, or a full disk, has cut the last line.
            if last != *b"\n" {
                file.write_all(b"\n")?;
                self.len += 1;
            }
            self.file = Some(file);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(dir: &Path) -> Vec<String> {
        let names = ["audit.log", "audit.log.1", "audit.log.2", "audit.log.3"];
        names.iter().filter_map(|name| std::fs::read_to_string(dir.join(name)).ok()).collect()
    }

    #[test]
    fn files_are_bounded_in_length_and_number() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = Files::open(dir.path().join("audit"), 8, 3).unwrap();
        files.append(b"1\n2\n3\n").unwrap();
        files.append(b"4\n5\n").unwrap();
        assert_eq!(read(files.dir()), ["5\n", "1\n2\n3\n4\n"]);
        files.append(b"a line that is longer\n6\n").unwrap();
        assert_eq!(read(files.dir()), ["6\n", "a line that is longer\n", "5\n"]);
        drop(files);
        let mut files = Files::open(dir.path().join("audit"), 8, 3).unwrap();
        files.append(b"7\n").unwrap();
        assert_eq!(read(files.dir()), ["6\n7\n", "a line that is longer\n", "5\n"], "it goes on after a restart");
        let mut one = Files::open(dir.path().join("one"), 4, 1).unwrap();
        one.append(b"1\n2\n3\n").unwrap();
        assert_eq!(read(one.dir()), ["3\n"]);
    }

    /// Somebody takes the directory away, and brings it back.
    #[test]
    fn it_goes_on_after_a_fault() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = Files::open(dir.path().join("audit"), 4, 2).unwrap();
        files.append(b"1\n2\n").unwrap();
        std::fs::remove_dir_all(files.dir()).unwrap();
        assert!(files.append(b"3\n").is_err());
        std::fs::create_dir_all(files.dir()).unwrap();
        files.append(b"4\n").unwrap();
        assert_eq!(read(files.dir()), ["4\n"]);
        // The machine crashed in the middle of a line.
        std::fs::write(files.dir().join(NAME), "5").unwrap();
        let mut files = Files::open(dir.path().join("audit"), 4, 2).unwrap();
        files.append(b"6\n").unwrap();
        assert_eq!(read(files.dir()), ["5\n6\n"]);
    }
}
