//! The lines of strace, taken apart: `4711 pwrite64(3, "\x00\x01", 2, 4096) = 2`.

use std::collections::HashMap;
use std::io::BufRead;

/// Every call that changes a file or a name, and those that say which file a descriptor is.
pub(super) const CALLS: &str = "open,openat,creat,close,dup,dup2,dup3,fcntl,lseek,write,pwrite64,writev,pwritev,\
     pwritev2,ftruncate,fallocate,fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir,link,\
     linkat,symlink,symlinkat,copy_file_range,splice,sendfile";

/// What the victim tells begins so, among the rest that it writes to its standard error.
pub(super) const TOLD: &str = "told: ";

/// A call that returned without an error, or a sync that failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) arguments: Vec<String>,
    pub(super) result: u64,
    /// How many calls had returned when this one began.
    pub(super) began: usize,
    pub(super) failed: bool,
}

impl Call {
    pub(super) fn text(&self, place: usize) -> &str {
        self.arguments.get(place).map_or("", String::as_str)
    }

    pub(super) fn number(&self, place: usize) -> u64 {
        let text = self.text(place);
        text.parse().unwrap_or_else(|_| panic!("argument {place} of {self:?} is no number"))
    }

    /// The bytes of the strings in an argument, one behind the other: of one buffer, or of several.
    pub(super) fn bytes(&self, place: usize) -> Vec<u8> {
        // Between two quotes, every other piece.
        self.text(place).split('"').skip(1).step_by(2).flat_map(unescape).collect()
    }

    pub(super) fn path(&self, place: usize) -> String {
        String::from_utf8(self.bytes(place)).expect("tests use plain names")
    }
}

fn unescape(text: &str) -> impl Iterator<Item = u8> {
    let digits = text.split("\\x").skip(1);
    digits.map(|digits| u8::from_str_radix(digits, 16).expect("strace -xx writes hexadecimal digits"))
}

/// What must be known before a call returns.
pub(super) enum Line {
    /// The number is free, and another thread may have it, before the call returns.
    Closing(u64),
    Returned(Call),
}

/// Goes through a trace in order.
pub(super) fn read(trace: impl BufRead, mut visit: impl FnMut(Line)) {
    let mut begun: HashMap<String, (usize, String)> = HashMap::new();
    let mut returned = 0;
    for line in trace.lines() {
        let line = line.expect("a trace is text");
        let Some((thread, rest)) = line.split_once(' ') else { continue };
        let rest = rest.trim_start();
        let (began, whole) = if let Some(head) = rest.strip_suffix("<unfinished ...>") {
            let head = head.trim_end();
            match head.strip_prefix("close(") {
                Some(handle) => visit(Line::Closing(handle.parse().expect("close has a number"))),
                None => drop(begun.insert(thread.to_owned(), (returned, head.to_owned()))),
            }
            continue;
        } else if rest.starts_with("<... ") {
            let Some((began, head)) = begun.remove(thread) else { continue };
            let tail = rest.split_once(" resumed>").map_or("", |(_, tail)| tail);
            (began, format!("{head}{tail}"))
        } else {
            (returned, rest.to_owned())
        };
        if let Some(call) = parse(&whole, began) {
            returned += 1;
            visit(Line::Returned(call));
        }
    }
}

/// `None`: it failed, or never returned, or the line tells of something else.
fn parse(line: &str, began: usize) -> Option<Call> {
    let (name, rest) = line.split_once('(')?;
    let (arguments, result) = rest.rsplit_once(" = ")?;
    let result = result.split(' ').next()?;
    // A negative one is an error. Calls that failed have changed nothing, but for a sync.
    let failed = result.starts_with('-') && matches!(name, "fsync" | "fdatasync");
    let result = match result.strip_prefix("0x") {
        _ if failed => 0,
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => result.parse().ok()?,
    };
    let arguments = arguments.trim_end().strip_suffix(')')?;
    Some(Call { name: name.to_owned(), arguments: split(arguments), result, began, failed })
}

/// At the commas that are in no bracket. Strings have none: all in them is hexadecimal.
fn split(arguments: &str) -> Vec<String> {
    let mut depth = 0;
    let pieces = arguments.split(|character| {
        match character {
            '[' | '{' => depth += 1,
            ']' | '}' => depth -= 1,
            _ => {}
        }
        character == ',' && depth == 0
    });
    pieces.map(|piece| piece.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_apart() {
        let trace = r#"11 openat(AT_FDCWD, "\x2f\x61", O_RDWR|O_CREAT, 0644) = 3
12 pwritev(3, [{iov_base="\x01\x02", iov_len=2}, {iov_base="\x03", iov_len=1}], 2, 4096 <unfinished ...>
11 fdatasync(3)                      = 0
12 <... pwritev resumed>) = 3
11 write(3, "\x01", 1) = -1 ENOSPC (No space left on device)
11 fsync(3) = -1 ENOSPC (No space left on device) (INJECTED)
11 close(3 <unfinished ...>
13 lseek(4, 0x10, SEEK_SET) = 16
11 +++ exited with 0 +++
"#;
        let mut found = Vec::new();
        read(trace.as_bytes(), |line| match line {
            Line::Closing(handle) => found.push(format!("close {handle}")),
            Line::Returned(call) => {
                let failed = if call.failed { " failed" } else { "" };
                found.push(format!("{} {:?} {} began {}{failed}", call.name, call.bytes(1), call.result, call.began));
            }
        });
        let want = [
            "openat [47, 97] 3 began 0",
            "fdatasync [] 0 began 1",
            "pwritev [1, 2, 3] 3 began 1",
            "fsync [] 0 began 3 failed",
            "close 3",
            "lseek [] 16 began 4",
        ];
        assert_eq!(found, want);
    }
}
