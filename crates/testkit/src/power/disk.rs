//! What was done to the files below a directory, and what a loss of power may leave of it.

use super::trace::{self, Call, Line, TOLD};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::BufReader;
use std::path::{Component, Path, PathBuf};
use types::random::{Random, Seeded};

const SECTOR_LEN: usize = 512;

/// What became of the changes that no sync had kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// None of them came to disk.
    None,
    /// All of them.
    All,
    /// Each by itself did, or did not.
    Some,
    /// As `Some`, and writes came to disk sector by sector.
    Torn,
}

impl Mood {
    pub const ALL: [Self; 4] = [Self::None, Self::All, Self::Some, Self::Torn];
}

/// The history of everything below one directory. A moment is the number of calls that had returned.
#[derive(Debug)]
pub struct Disk {
    root: PathBuf,
    calls: usize,
    files: Vec<File>,
    names: Vec<Renaming>,
    /// Directories that were synced: began, ended.
    syncs: Vec<(usize, usize, PathBuf)>,
    told: Vec<(usize, String)>,
}

/// A change of names.
#[derive(Debug)]
struct Renaming {
    moment: usize,
    /// The directories that must be synced for it, any of them.
    dirs: Vec<PathBuf>,
    what: What,
}

#[derive(Debug)]
enum What {
    /// A file, by its number, or a directory.
    Put(PathBuf, Option<usize>),
    Move(PathBuf, PathBuf),
    Drop(PathBuf),
}

/// The changes of one file's contents.
#[derive(Debug, Default)]
struct File {
    changes: Vec<(usize, Change)>,
    /// Began, ended.
    syncs: Vec<(usize, usize)>,
    /// Syncs that failed, by the moment that was told.
    failures: Vec<usize>,
    /// As the process sees it.
    len: u64,
}

#[derive(Debug)]
enum Change {
    Write {
        offset: u64,
        bytes: Vec<u8>,
        kept: bool,
    },
    Length(u64),
    /// At least so long.
    Reserve(u64),
    Hole {
        offset: u64,
        len: u64,
    },
}

/// Contents, without the zeros at the end.
#[derive(Default)]
struct Contents {
    bytes: Vec<u8>,
    len: u64,
}

impl Contents {
    fn put(&mut self, offset: u64, piece: &[u8]) {
        let (start, end) = (offset as usize, offset as usize + piece.len());
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[start..end].copy_from_slice(piece);
        self.len = self.len.max(end as u64);
    }

    fn set_len(&mut self, len: u64) {
        self.bytes.truncate(len as usize);
        self.len = len;
    }

    fn clear(&mut self, offset: u64, len: u64) {
        let end = (offset + len).min(self.bytes.len() as u64) as usize;
        if let Some(hole) = self.bytes.get_mut(offset as usize..end) {
            hole.fill(0);
        }
    }
}

impl File {
    /// Whether a change is kept by a sync that has returned before `cut`. A sync that fails drops what was dirty until
    /// then: those after it know nothing of that, and succeed.
    fn is_synced(&self, moment: usize, cut: usize) -> bool {
        let dropped = self.failures.iter().copied().find(|failed| moment <= *failed).unwrap_or(usize::MAX);
        self.syncs.iter().any(|(began, ended)| moment <= *began && *ended < cut.min(dropped))
    }

    /// At `cut`, whose call has not returned.
    fn left(&self, cut: usize, chance: &mut Seeded, mood: Mood) -> Contents {
        let mut contents = Contents::default();
        for (moment, change) in self.changes.iter().take_while(|(moment, _)| *moment <= cut) {
            let at_once = matches!(change, Change::Write { kept: true, .. }) && *moment < cut;
            let is_kept = at_once || self.is_synced(*moment, cut);
            let there = is_kept || survives(chance, mood);
            match change {
                Change::Write { offset, bytes, .. } if mood == Mood::Torn && !is_kept => {
                    for (start, piece) in sectors(*offset, bytes) {
                        if chance.below(2) == 0 {
                            contents.put(start, piece);
                        }
                    }
                }
                _ if !there => {}
                Change::Write { offset, bytes, .. } => contents.put(*offset, bytes),
                Change::Length(len) => contents.set_len(*len),
                Change::Reserve(len) => contents.len = contents.len.max(*len),
                Change::Hole { offset, len } => contents.clear(*offset, *len),
            }
        }
        contents
    }
}

fn survives(chance: &mut Seeded, mood: Mood) -> bool {
    match mood {
        Mood::None => false,
        Mood::All => true,
        Mood::Some | Mood::Torn => chance.below(2) == 0,
    }
}

fn sectors(offset: u64, bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let first = SECTOR_LEN - (offset % SECTOR_LEN as u64) as usize;
    let (head, tail) = bytes.split_at(first.min(bytes.len()));
    let pieces = std::iter::once(head).chain(tail.chunks(SECTOR_LEN));
    pieces.scan(offset, |at, piece| {
        let start = *at;
        *at += piece.len() as u64;
        Some((start, piece))
    })
}

impl Disk {
    pub(super) fn from_trace(path: &Path, root: &Path) -> Self {
        let trace = BufReader::new(fs::File::open(path).expect("strace wrote its trace"));
        let disk = Self { root: root.to_owned(), calls: 0, files: vec![], names: vec![], syncs: vec![], told: vec![] };
        let mut reading = Reading { disk, tree: BTreeMap::new(), handles: HashMap::new(), moments: vec![] };
        trace::read(trace, |line| match line {
            Line::Closing(handle) => drop(reading.handles.remove(&handle)),
            Line::Returned(call) => reading.take(&call),
        });
        reading.disk
    }

    /// Calls at which the power can be cut: from 1 to here, and one more when all have returned.
    pub fn calls(&self) -> usize {
        self.calls
    }

    /// What the victim had told before `cut`.
    pub fn told(&self, cut: usize) -> impl Iterator<Item = &str> {
        self.told.iter().take_while(move |(moment, _)| *moment < cut).map(|(_, text)| text.as_str())
    }

    /// Whether the call at `cut` is but the victim's word, which leaves the files as they are.
    pub fn tells_at(&self, cut: usize) -> bool {
        self.told.iter().any(|(moment, _)| *moment == cut)
    }

    /// Makes in `to`, which must be empty, what a loss of power at `cut` may leave of the directory.
    pub fn leave(&self, cut: usize, mood: Mood, seed: u64, to: &Path) {
        let mut chance = Seeded(seed);
        let done = self.names.iter().take_while(|renaming| renaming.moment <= cut).count();
        let kept = |renaming: &Renaming| {
            let mut syncs = self.syncs.iter().filter(|(_, ended, _)| *ended < cut);
            syncs.any(|(began, _, dir)| renaming.moment <= *began && renaming.dirs.contains(dir))
        };
        let least = self.names[..done].iter().rposition(kept).map_or(0, |last| last + 1);
        let count = match mood {
            Mood::None => least,
            Mood::All => done,
            Mood::Some | Mood::Torn => least + chance.below(done - least + 1),
        };
        let mut tree: BTreeMap<PathBuf, Option<usize>> = BTreeMap::new();
        for renaming in &self.names[..count] {
            apply(&renaming.what, &mut tree);
        }
        for (path, file) in &tree {
            let place = to.join(path.strip_prefix(&self.root).expect("all is below the root"));
            let made = match file {
                None => fs::create_dir_all(&place),
                Some(file) => {
                    let contents = self.files[*file].left(cut, &mut chance, mood);
                    place.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| write(&place, &contents))
                }
            };
            made.unwrap_or_else(|error| panic!("{}: {error}", place.display()));
        }
    }
}

fn write(place: &Path, contents: &Contents) -> std::io::Result<()> {
    fs::write(place, &contents.bytes)?;
    fs::File::options().write(true).open(place)?.set_len(contents.len)
}

fn apply(what: &What, tree: &mut BTreeMap<PathBuf, Option<usize>>) {
    match what {
        What::Put(path, file) => {
            tree.insert(path.clone(), *file);
        }
        What::Drop(path) => {
            tree.remove(path);
        }
        What::Move(from, to) => {
            let moved: Vec<_> = tree.range(from.clone()..).take_while(|(path, _)| path.starts_with(from)).collect();
            let moved: Vec<_> = moved.into_iter().map(|(path, file)| (path.clone(), *file)).collect();
            for (path, file) in moved {
                tree.remove(&path);
                let rest = path.strip_prefix(from).expect("just looked");
                let new = if rest.as_os_str().is_empty() { to.clone() } else { to.join(rest) };
                tree.insert(new, file);
            }
        }
    }
}

/// An open file.
#[derive(Clone, Debug)]
struct Handle {
    path: PathBuf,
    /// `None`: a directory.
    file: Option<usize>,
    /// Synced at each write.
    kept: bool,
    appends: bool,
    /// Where the next plain write goes.
    place: u64,
}

/// A history in the making.
struct Reading {
    disk: Disk,
    tree: BTreeMap<PathBuf, Option<usize>>,
    handles: HashMap<u64, Handle>,
    /// For each call of the trace, how many calls of ours there were then.
    moments: Vec<usize>,
}

const STDERR: u64 = 2;

impl Reading {
    fn take(&mut self, call: &Call) {
        self.moments.push(self.disk.calls);
        let began = self.moments.get(call.began).copied().unwrap_or(self.disk.calls);
        let before = (self.disk.names.len(), self.disk.syncs.len(), self.disk.told.len());
        let moment = self.disk.calls + 1;
        let changed = self.call(call, began, moment);
        let after = (self.disk.names.len(), self.disk.syncs.len(), self.disk.told.len());
        if changed || before != after {
            self.disk.calls = moment;
        }
    }

    /// True if a file changed, or was synced.
    fn call(&mut self, call: &Call, began: usize, moment: usize) -> bool {
        match call.name.as_str() {
            "open" | "creat" | "openat" => self.open(call, moment),
            "mkdir" | "mkdirat" => {
                if let Some(path) = self.named(call, usize::from(call.name.ends_with("at"))) {
                    self.renamed(moment, vec![parent(&path)], What::Put(path, None));
                }
                false
            }
            "rename" | "renameat" | "renameat2" => {
                let (from, to) = if call.name == "rename" { (0, 1) } else { (1, 3) };
                if let (Some(from), Some(to)) = (self.named(call, from), self.named(call, to)) {
                    assert!(!call.arguments.iter().any(|word| word.contains("EXCHANGE")), "{call:?}");
                    self.renamed(moment, vec![parent(&from), parent(&to)], What::Move(from, to));
                }
                false
            }
            "unlink" | "rmdir" | "unlinkat" => {
                if let Some(path) = self.named(call, usize::from(call.name.ends_with("at"))) {
                    self.renamed(moment, vec![parent(&path)], What::Drop(path));
                }
                false
            }
            "link" | "linkat" => {
                let (from, to) = if call.name == "link" { (0, 1) } else { (1, 3) };
                if let (Some(from), Some(to)) = (self.named(call, from), self.named(call, to)) {
                    let file = self.tree.get(&from).copied().flatten();
                    self.renamed(moment, vec![parent(&to)], What::Put(to, file));
                }
                false
            }
            "close" => {
                self.handles.remove(&call.number(0));
                false
            }
            "write" if call.number(0) == STDERR => {
                let said = String::from_utf8_lossy(&call.bytes(1)).into_owned();
                self.disk.told.extend(said.strip_prefix(TOLD).map(|text| (moment, text.to_owned())));
                false
            }
            "symlink" | "symlinkat" => panic!("not followed: {call:?}"),
            "copy_file_range" | "splice" | "sendfile" => {
                let to = call.number(if call.name == "sendfile" { 0 } else { 2 });
                assert!(self.handles.get(&to).is_none_or(|handle| handle.file.is_none()), "not followed: {call:?}");
                false
            }
            _ => self.by_handle(call, began, moment),
        }
    }

    fn open(&mut self, call: &Call, moment: usize) -> bool {
        let place = usize::from(call.name == "openat");
        let Some(path) = self.named(call, place) else {
            self.handles.remove(&call.result);
            return false;
        };
        let flags = call.text(place + 1);
        let has = |flag: &str| flags.split('|').any(|word| word == flag);
        assert!(!has("O_TMPFILE"), "not followed: {call:?}");
        if !self.tree.contains_key(&path) && (has("O_CREAT") || call.name == "creat") {
            self.disk.files.push(File::default());
            let file = self.disk.files.len() - 1;
            self.renamed(moment, vec![parent(&path)], What::Put(path.clone(), Some(file)));
        }
        let file = self.tree.get(&path).copied().flatten();
        let mut changed = false;
        if let Some(file) = file
            && (has("O_TRUNC") || call.name == "creat")
        {
            let file = &mut self.disk.files[file];
            changed = file.len > 0;
            file.len = 0;
            file.changes.push((moment, Change::Length(0)));
        }
        let kept = has("O_DSYNC") || has("O_SYNC");
        self.handles.insert(call.result, Handle { path, file, kept, appends: has("O_APPEND"), place: 0 });
        changed
    }

    fn by_handle(&mut self, call: &Call, began: usize, moment: usize) -> bool {
        let Some(handle) = self.handles.get_mut(&call.number(0)) else { return false };
        match call.name.as_str() {
            "lseek" => {
                handle.place = call.result;
                return false;
            }
            "dup" | "dup2" | "dup3" | "fcntl" => {
                // The place is shared by both in truth; nobody of ours writes by place through two.
                if call.name != "fcntl" || call.text(1).starts_with("F_DUPFD") {
                    let handle = handle.clone();
                    self.handles.insert(call.result, handle);
                }
                return false;
            }
            "fsync" | "fdatasync" => {
                match handle.file {
                    Some(file) if call.failed => self.disk.files[file].failures.push(moment),
                    None if call.failed => {} // names: some beginning of all changes is there anyhow
                    Some(file) => self.disk.files[file].syncs.push((began, moment)),
                    None => self.disk.syncs.push((began, moment, handle.path.clone())),
                }
                return true;
            }
            _ => {}
        }
        let Some(file) = handle.file else { return false };
        let file = &mut self.disk.files[file];
        let change = match call.name.as_str() {
            "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" => {
                let offset = match call.name.as_str() {
                    "pwrite64" | "pwritev" | "pwritev2" => call.number(3),
                    _ if handle.appends => file.len,
                    _ => handle.place,
                };
                let mut bytes = call.bytes(1);
                assert!(bytes.len() as u64 >= call.result, "strace cut the bytes of {}", call.name);
                bytes.truncate(call.result as usize);
                let end = offset + call.result;
                if call.name.starts_with('w') {
                    handle.place = end;
                }
                file.len = file.len.max(end);
                Change::Write { offset, bytes, kept: handle.kept }
            }
            "ftruncate" => {
                file.len = call.number(1);
                Change::Length(file.len)
            }
            "fallocate" if call.text(1).contains("PUNCH_HOLE") => {
                Change::Hole { offset: call.number(2), len: call.number(3) }
            }
            "fallocate" if call.text(1) == "0" => {
                file.len = file.len.max(call.number(2) + call.number(3));
                Change::Reserve(file.len)
            }
            "fallocate" if call.text(1) == "FALLOC_FL_KEEP_SIZE" => return false,
            _ => panic!("not followed: {call:?}"),
        };
        file.changes.push((moment, change));
        true
    }

    fn renamed(&mut self, moment: usize, dirs: Vec<PathBuf>, what: What) {
        apply(&what, &mut self.tree);
        self.disk.names.push(Renaming { moment, dirs, what });
    }

    /// The path in an argument, if it is one of ours. A relative one follows the descriptor of its directory.
    fn named(&self, call: &Call, place: usize) -> Option<PathBuf> {
        let path = PathBuf::from(call.path(place));
        let path = if path.is_absolute() {
            path
        } else {
            let dir = call.text(place.checked_sub(1)?).parse().ok()?;
            self.handles.get(&dir)?.path.join(path)
        };
        let plain: PathBuf = path.components().filter(|part| *part != Component::CurDir).collect();
        plain.starts_with(&self.disk.root).then_some(plain)
    }
}

fn parent(path: &Path) -> PathBuf {
    path.parent().unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(trace: &str) -> Disk {
        let hex = |text: &str| text.bytes().map(|byte| format!("\\x{byte:02x}")).collect::<String>();
        let pieces = trace.split('"').enumerate();
        let trace: String =
            pieces.map(|(at, piece)| if at % 2 == 1 { format!("\"{}\"", hex(piece)) } else { piece.into() }).collect();
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), trace).unwrap();
        Disk::from_trace(file.path(), Path::new("/r"))
    }

    /// All that may be left, as "name=contents" words, of many seeds.
    fn left(disk: &Disk, cut: usize) -> Vec<String> {
        let mut found = std::collections::BTreeSet::new();
        for mood in Mood::ALL {
            for seed in 0..100 {
                let dir = tempfile::tempdir().unwrap();
                disk.leave(cut, mood, seed, dir.path());
                let mut words: Vec<String> = fs::read_dir(dir.path())
                    .unwrap()
                    .map(|entry| {
                        let entry = entry.unwrap();
                        let text = fs::read(entry.path()).unwrap();
                        let text = String::from_utf8_lossy(&text).replace('\0', ".");
                        format!("{}={text}", entry.file_name().to_string_lossy())
                    })
                    .collect();
                words.sort();
                found.insert(words.join(" "));
            }
        }
        found.into_iter().collect()
    }

    const STORY: &str = r#"1 openat(AT_FDCWD, "/r/a", O_WRONLY|O_CREAT|O_TRUNC, 0666) = 3
1 write(3, "one", 3) = 3
1 fdatasync(3) = 0
1 openat(AT_FDCWD, "/r", O_RDONLY) = 4
1 fsync(4) = 0
1 write(2, "told: written", 13) = 13
1 pwrite64(3, "TWO", 3, 0) = 3
1 rename("/r/a", "/r/b") = 0
1 fsync(4) = 0
"#;

    #[test]
    fn what_a_sync_kept_is_there_and_the_rest_may_be() {
        let disk = disk(STORY);
        assert_eq!(disk.calls(), 8);
        assert_eq!(left(&disk, 1), ["", "a="]);
        assert_eq!(left(&disk, 2), ["", "a=", "a=one"]);
        assert_eq!(left(&disk, 4), ["", "a=one"], "the directory's sync has not returned");
        assert_eq!(left(&disk, 5), ["a=one"]);
        assert_eq!(left(&disk, 7), ["a=TWO", "a=one", "b=TWO", "b=one"]);
        assert_eq!(left(&disk, 9), ["b=TWO", "b=one"]);
        assert_eq!((disk.told(5).count(), disk.told(6).next()), (0, Some("written")));
    }

    #[test]
    fn writes_are_torn_between_sectors_only() {
        let zeros = "0".repeat(600);
        let disk = disk(&format!(
            "1 openat(AT_FDCWD, \"/r/a\", O_WRONLY|O_CREAT, 0666) = 3\n\
             1 pwrite64(3, \"{zeros}\", 600, 500) = 600\n1 close(3) = 0\n"
        ));
        let found = left(&disk, 3);
        let ends: std::collections::BTreeSet<usize> = found.iter().map(|word| word.len()).collect();
        assert_eq!(ends.into_iter().collect::<Vec<_>>(), [0, 2, 2 + 512, 2 + 1024, 2 + 1100]);
    }

    /// What was written before the failure was told is not kept by the next sync, what is written again is.
    #[test]
    fn a_sync_that_fails_drops_what_was_written() {
        let failed = r#"1 openat(AT_FDCWD, "/r/a", O_WRONLY|O_CREAT, 0666) = 3
1 openat(AT_FDCWD, "/r", O_RDONLY) = 4
1 fsync(4) = 0
1 pwrite64(3, "one", 3, 0) = 3
1 fdatasync(3) = 0
1 pwrite64(3, "two", 3, 0) = 3
1 fdatasync(3) = -1 ENOSPC (No space left on device) (INJECTED)
1 fdatasync(3) = 0
"#;
        assert_eq!(left(&disk(failed), 8), ["a=one", "a=two"]);
        let again = format!("{failed}1 pwrite64(3, \"two\", 3, 0) = 3\n1 fdatasync(3) = 0\n");
        assert_eq!(left(&disk(&again), 10), ["a=two"]);
    }

    #[test]
    fn a_descriptor_that_syncs_keeps_what_it_wrote() {
        let disk = disk(
            r#"1 openat(AT_FDCWD, "/r/a", O_WRONLY|O_CREAT|O_DSYNC, 0666) = 3
1 write(3, "one", 3) = 3
1 write(3, "two", 3) = 3
"#,
        );
        assert_eq!(left(&disk, 3), ["", "a=one", "a=onetwo"]);
        assert_eq!(left(&disk, 4), ["", "a=onetwo"]);
    }
}
