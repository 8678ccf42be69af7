//! One file from here to there. Each is written under a temporary name first, so a name never shows a part of a file.

use super::browse::Found;
use super::temps::{SUFFIX, Temp, Ticket};
use super::{Failure, Session, Target};
use client::{Create, Status, Writer};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};
use types::Millis;

/// How files are copied, whichever way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct How {
    /// Replace a file that is there.
    pub(crate) force: bool,
    /// Times, owner and mode as the source has them.
    pub(crate) preserve: bool,
    pub(crate) replication: Option<u16>,
    pub(crate) block_len: Option<u64>,
}

/// Bytes moved by one call between files and the store. Fits a processor's second-level cache: the bytes are touched again.
const STEP_LEN: usize = 256 << 10;
/// Pieces of standard input read ahead.
const AHEAD_COUNT: usize = 4;

impl Session {
    /// A local file into the store.
    pub(crate) async fn put_file(&self, from: &Path, to: &Target, how: How) -> Result<u64, Failure> {
        let local = |error: std::io::Error| Failure::local(from, &error);
        let mut file = File::open(from).map_err(local)?;
        let metadata = file.metadata().map_err(local)?;
        if metadata.is_dir() {
            return Err(Failure::new(from.display(), "is a directory"));
        }
        self.progress.name(&from.display().to_string());
        let (mut writer, ticket, temp) = self.begin(to, how).await?;
        let sent = async {
            // The file's bytes go straight into the packet.
            loop {
                match file.read(writer.space()) {
                    Ok(0) => break,
                    Ok(len) => {
                        writer.filled(len).await.map_err(|error| to.failure(&error))?;
                        self.progress.advance(len as u64);
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(local(error)),
                }
            }
            let len = writer.position();
            writer.close().await.map_err(|error| to.failure(&error))?;
            if how.preserve {
                preserve_remote(&temp, &attributes_of(&metadata)).await?;
            }
            Ok(len)
        };
        let sent = sent.await;
        self.end(sent, ticket, &temp, to, how).await
    }

    /// Standard input into the store.
    pub(crate) async fn put_stdin(&self, to: &Target, how: How) -> Result<u64, Failure> {
        let (mut writer, ticket, temp) = self.begin(to, how).await?;
        let sent = async {
            let mut pieces = read_stdin()?;
            while let Some(piece) = pieces.recv().await {
                let piece = piece.map_err(|error| Failure::new("standard input", error))?;
                writer.write(&piece).await.map_err(|error| to.failure(&error))?;
                self.progress.expect(piece.len() as u64);
                self.progress.advance(piece.len() as u64);
            }
            let len = writer.position();
            writer.close().await.map_err(|error| to.failure(&error))?;
            Ok(len)
        };
        let sent = sent.await;
        self.end(sent, ticket, &temp, to, how).await
    }

    /// From store to store, through this machine.
    pub(crate) async fn copy_file(&self, from: &Found, to: &Target, how: How) -> Result<u64, Failure> {
        refuse_unusable(from)?;
        self.progress.name(&from.target.path);
        let mut reader =
            from.target.client.open(&from.target.path).await.map_err(|error| from.target.failure(&error))?;
        let (mut writer, ticket, temp) = self.begin(to, how).await?;
        let sent = async {
            loop {
                let space = writer.space();
                let len = reader.read(space).await.map_err(|error| from.target.failure(&error))?;
                if len == 0 {
                    break;
                }
                writer.filled(len).await.map_err(|error| to.failure(&error))?;
                self.progress.advance(len as u64);
            }
            let len = writer.position();
            writer.close().await.map_err(|error| to.failure(&error))?;
            if how.preserve {
                preserve_remote(&temp, &Attributes::of(&from.status)).await?;
            }
            Ok(len)
        };
        let sent = sent.await;
        self.end(sent, ticket, &temp, to, how).await
    }

    /// A file of the store onto the local disk.
    pub(crate) async fn get_file(&self, from: &Found, to: &Path, how: How) -> Result<u64, Failure> {
        refuse_unusable(from)?;
        if !how.force && to.symlink_metadata().is_ok() {
            return Err(Failure::new(to.display(), "already exists").advise("use -f to replace it"));
        }
        self.progress.name(&from.target.path);
        let temp = suffixed(to);
        let ticket = self.temps.open(Temp::Local(temp.clone()));
        let got = async {
            let local = |error: std::io::Error| Failure::local(&temp, &error);
            let remote = |error| from.target.failure(&error);
            let mut reader = from.target.client.open(&from.target.path).await.map_err(remote)?;
            let mut file = File::create(&temp).map_err(local)?;
            let mut buffer = vec![0; STEP_LEN];
            loop {
                let len = reader.read(&mut buffer).await.map_err(remote)?;
                if len == 0 {
                    break;
                }
                file.write_all(&buffer[..len]).map_err(local)?;
                self.progress.advance(len as u64);
            }
            if how.preserve {
                preserve_local(&file, &temp, &from.status)?;
            }
            std::fs::rename(&temp, to).map_err(|error| Failure::local(to, &error))?;
            Ok(reader.len())
        };
        match got.await {
            Ok(len) => {
                self.temps.keep(ticket);
                Ok(len)
            }
            Err(failure) => {
                self.temps.discard(ticket).await;
                Err(failure)
            }
        }
    }

    /// A file of the store onto standard output.
    pub(crate) async fn print_file(&self, from: &Found) -> Result<u64, super::Stop> {
        refuse_unusable(from)?;
        let remote = |error| from.target.failure(&error);
        let mut reader = from.target.client.open(&from.target.path).await.map_err(remote)?;
        let mut buffer = vec![0; STEP_LEN.min(reader.len() as usize).max(1)];
        loop {
            let len = reader.read(&mut buffer).await.map_err(remote)?;
            if len == 0 {
                return Ok(reader.len());
            }
            self.output.bytes(&buffer[..len])?;
        }
    }

    /// The temporary file, open for writing.
    async fn begin(&self, to: &Target, how: How) -> Result<(Writer, Ticket, Target), Failure> {
        if !how.force && to.client.status(&to.path).await.map_err(|error| to.failure(&error))?.is_some() {
            return Err(Failure::new(to, "already exists").advise("use -f to replace it"));
        }
        let temp = to.with_path(format!("{}{SUFFIX}", to.path));
        let create = Create {
            overwrite: true,
            parents: false,
            replication: how.replication,
            block_len: how.block_len,
            ..Create::default()
        };
        let ticket = self.temps.open(Temp::Remote(temp.clone()));
        match temp.client.create(&temp.path, &create).await {
            Ok(writer) => Ok((writer, ticket, temp)),
            Err(error) => {
                self.temps.keep(ticket);
                // What is missing is the directory, not the new file.
                let missing = to.parent().filter(|_| error.is_not_found());
                Err(missing.map_or_else(
                    || to.failure(&error),
                    |parent| parent.failure(&error).advise("make the directory with `levada mkdir -p`"),
                ))
            }
        }
    }

    /// Gives the file its name, or takes away what there is of it.
    async fn end(
        &self,
        sent: Result<u64, Failure>,
        ticket: Ticket,
        temp: &Target,
        to: &Target,
        how: How,
    ) -> Result<u64, Failure> {
        let named = match sent {
            Ok(len) => {
                let renamed = temp.client.rename(&temp.path, &to.path, how.force).await;
                renamed.map(|()| len).map_err(|error| to.failure(&error))
            }
            Err(failure) => Err(failure),
        };
        match named {
            Ok(len) => {
                self.temps.keep(ticket);
                Ok(len)
            }
            Err(failure) => {
                self.temps.discard(ticket).await;
                Err(failure)
            }
        }
    }
}

fn refuse_unusable(from: &Found) -> Result<(), Failure> {
    let unusable =
        from.status.unusable.map(|what| Failure::new(&from.target, format!("{what}, which Levada cannot read")));
    unusable.map_or(Ok(()), Err)
}

/// `dir/name` becomes `dir/name._COPYING_`.
fn suffixed(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(SUFFIX);
    name.into()
}

/// What `-p` keeps.
pub(crate) struct Attributes {
    mode: u16,
    modified: Millis,
    accessed: Millis,
    owner: Option<String>,
    group: Option<String>,
}

impl Attributes {
    pub(crate) fn of(status: &Status) -> Self {
        Self {
            mode: status.mode,
            modified: status.modified,
            accessed: status.accessed,
            owner: Some(status.owner.clone()),
            group: Some(status.group.clone()),
        }
    }
}

pub(crate) fn attributes_of(metadata: &std::fs::Metadata) -> Attributes {
    let millis = |time: std::io::Result<std::time::SystemTime>| {
        let since = time.ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Millis(since.map_or(0, |since| since.as_millis() as u64))
    };
    Attributes {
        mode: (metadata.mode() & 0o1777) as u16,
        modified: millis(metadata.modified()),
        accessed: millis(metadata.accessed()),
        owner: None,
        group: None,
    }
}

pub(crate) async fn preserve_remote(target: &Target, attributes: &Attributes) -> Result<(), Failure> {
    let failure = |error| target.failure(&error);
    let client = &target.client;
    client.set_permission(&target.path, attributes.mode).await.map_err(failure)?;
    if attributes.owner.is_some() || attributes.group.is_some() {
        let (owner, group) = (attributes.owner.as_deref(), attributes.group.as_deref());
        client.set_owner(&target.path, owner, group).await.map_err(failure)?;
    }
    let (modified, accessed) = (Some(attributes.modified), Some(attributes.accessed));
    client.set_times(&target.path, modified, accessed).await.map_err(failure)
}

/// Mode and times. The names of the store's users need not mean anything here.
pub(crate) fn preserve_local(file: &File, path: &Path, status: &Status) -> Result<(), Failure> {
    use std::os::unix::fs::PermissionsExt;
    let local = |error: std::io::Error| Failure::local(path, &error);
    let time = |time: Millis| UNIX_EPOCH + Duration::from_millis(time.0);
    file.set_permissions(std::fs::Permissions::from_mode(u32::from(status.mode))).map_err(local)?;
    let accessed = if status.accessed.0 == 0 { status.modified } else { status.accessed };
    let times = std::fs::FileTimes::new().set_modified(time(status.modified)).set_accessed(time(accessed));
    file.set_times(times).map_err(local)
}

type Pieces = tokio::sync::mpsc::Receiver<std::io::Result<Vec<u8>>>;

/// A thread reads, since a terminal or a pipe may keep it waiting for long.
pub(crate) fn read_stdin() -> Result<Pieces, Failure> {
    let (sender, receiver) = tokio::sync::mpsc::channel(AHEAD_COUNT);
    let reading = io::task::thread("stdin", move || {
        let mut stdin = std::io::stdin().lock();
        loop {
            let mut piece = vec![0; STEP_LEN];
            let read = match stdin.read(&mut piece) {
                Ok(0) => return,
                Ok(len) => {
                    piece.truncate(len);
                    Ok(piece)
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            let failed = read.is_err();
            if sender.blocking_send(read).is_err() || failed {
                return;
            }
        }
    });
    reading.map(|_| receiver).map_err(|error| Failure::new("standard input", error))
}
