//! One file from here to there. Each is written under a temporary name first, so a name never shows a part of a file.

use super::browse::Found;
use super::failure::{Failure, Stop, shown};
use super::session::Session;
use super::target::Target;
use super::temps::{Temp, Ticket, beside, beside_local};
use client::{Create, Reader, Status, Writer};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};
use types::Millis;
use types::limits::MODE_MASK;

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

/// `--force`, `--preserve`, `--recursive`: what every command that copies files takes.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct CopyArgs {
    /// Replace files that are there
    #[arg(short, long)]
    pub(crate) force: bool,
    /// Keep times and modes; from store to store owners, too
    #[arg(short, long)]
    pub(crate) preserve: bool,
    /// Accepted for those used to it: directories are always copied whole
    #[arg(short, long, short_alias = 'R')]
    recursive: bool,
}

impl CopyArgs {
    pub(crate) fn how(self) -> How {
        How { force: self.force, preserve: self.preserve, ..How::default() }
    }
}

/// Bytes moved by one call between files and the store. Fits a processor's second-level cache: the bytes are touched
/// again.
const STEP_LEN: usize = 256 << 10;
/// Pieces of a stream read ahead.
const AHEAD_COUNT: usize = 4;

impl Session {
    /// A local file into the store.
    pub(crate) async fn put_file(&self, from: &Path, to: &Target, how: How) -> Result<u64, Failure> {
        let local = |error: io::Error| Failure::local(from, &error);
        let mut file = File::open(from).map_err(local)?;
        let metadata = file.metadata().map_err(local)?;
        if metadata.is_dir() {
            return Err(Failure::new(shown(from), "is a directory"));
        }
        self.progress.name(&shown(from));
        let (mut writer, ticket, temp) = self.begin(to, how, Some(metadata.len())).await?;
        let sent = async {
            // The file's bytes go straight into the packet.
            loop {
                match file.read(writer.space()) {
                    Ok(0) => break,
                    Ok(len) => {
                        written(to, writer.filled(len).await).await?;
                        self.progress.advance(len as u64);
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(local(error)),
                }
            }
            let len = writer.position();
            written(to, writer.close().await).await?;
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
        self.put_stream("standard input".into(), || Ok(io::stdin()), to, how).await
    }

    /// A pipe or a device into the store.
    pub(crate) async fn put_special(&self, from: &Path, to: &Target, how: How) -> Result<u64, Failure> {
        let path = from.to_owned();
        self.put_stream(shown(from), || File::open(path), to, how).await
    }

    async fn put_stream<R: Read + Send + 'static>(
        &self,
        name: String,
        open: impl FnOnce() -> io::Result<R> + Send + 'static,
        to: &Target,
        how: How,
    ) -> Result<u64, Failure> {
        self.progress.name(&name);
        let (mut writer, ticket, temp) = self.begin(to, how, None).await?;
        let sent = async {
            let failure = |error: io::Error| Failure::new(&name, client::reason_of(&error));
            let mut pieces = read_aside(open).map_err(failure)?;
            while let Some(piece) = pieces.recv().await {
                let piece = piece.map_err(failure)?;
                written(to, writer.write(&piece).await).await?;
                self.progress.expect(piece.len() as u64);
                self.progress.advance(piece.len() as u64);
            }
            let len = writer.position();
            written(to, writer.close().await).await?;
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
        let (mut writer, ticket, temp) = self.begin(to, how, Some(reader.len())).await?;
        let sent = async {
            loop {
                let space = writer.space();
                let len = reader.read(space).await.map_err(|error| from.target.failure(&error))?;
                if len == 0 {
                    break;
                }
                written(to, writer.filled(len).await).await?;
                self.progress.advance(len as u64);
            }
            let len = writer.position();
            written(to, writer.close().await).await?;
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
        self.progress.name(&from.target.path);
        let local = |error: io::Error| Failure::local(to, &error);
        let there = to.metadata().ok();
        match &there {
            Some(there) if there.is_dir() => return Err(Failure::new(shown(to), "is a directory")),
            // A device or a pipe takes the bytes itself: a file renamed to /dev/null would harm the whole machine.
            Some(there) if !there.is_file() => {
                let mut device = OpenOptions::new().write(true).open(to).map_err(local)?;
                return self.fill(from, &mut device, to).await;
            }
            _ if !how.force && to.symlink_metadata().is_ok() => {
                return Err(Failure::new(shown(to), "already exists").advise("use -f to replace it"));
            }
            _ => {}
        }
        // A link goes on leading where it leads: what it leads to is replaced.
        let name = if there.is_some() { to.canonicalize().map_err(local)? } else { to.to_owned() };
        let temp = beside_local(&name);
        let ticket = self.temps.open(Temp::Local(temp.clone()));
        let got = async {
            let mut file = File::create_new(&temp).map_err(|error| Failure::not_made(to, &error))?;
            let len = self.fill(from, &mut file, to).await?;
            if how.preserve {
                preserve_local(&file, to, &from.status)?;
            }
            std::fs::rename(&temp, &name).map_err(local)?;
            Ok(len)
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

    /// All bytes of a file of the store into `file`, which the user knows as `to`.
    async fn fill(&self, from: &Found, file: &mut File, to: &Path) -> Result<u64, Failure> {
        let remote = |error| from.target.failure(&error);
        let mut reader = from.target.client.open(&from.target.path).await.map_err(remote)?;
        let mut buffer = vec![0; STEP_LEN];
        loop {
            let len = self.read_patiently(from, &mut reader, &mut buffer).await?;
            if len == 0 {
                return Ok(reader.len());
            }
            file.write_all(&buffer[..len]).map_err(|error| Failure::local(to, &error))?;
            self.progress.advance(len as u64);
        }
    }

    /// The next bytes of a file, also where its datanodes start anew: it is opened again, and read on from where it
    /// was, as long as it is the same.
    async fn read_patiently(&self, from: &Found, reader: &mut Reader, buffer: &mut [u8]) -> Result<usize, Failure> {
        let mut wait = None;
        loop {
            let error = match reader.read(buffer).await {
                Ok(len) => {
                    if wait.is_some() {
                        self.waited_well();
                    }
                    return Ok(len);
                }
                Err(error) => error,
            };
            if error.kind() != client::ErrorKind::NoReplica || !self.waits_for_replica(&mut wait, &error).await {
                return Err(from.target.failure(&error));
            }
            match reader.reopened().await {
                Ok(again) => *reader = again,
                // No node shows how far it is written.
                Err(error) if error.kind() == client::ErrorKind::NoReplica => {}
                Err(error) => return Err(from.target.failure(&error)),
            }
        }
    }

    /// A file of the store onto standard output.
    pub(crate) async fn print_file(&self, from: &Found) -> Result<u64, Stop> {
        refuse_unusable(from)?;
        let remote = |error| from.target.failure(&error);
        let mut reader = from.target.client.open(&from.target.path).await.map_err(remote)?;
        let mut buffer = vec![0; STEP_LEN.min(reader.len() as usize).max(1)];
        loop {
            let len = self.read_patiently(from, &mut reader, &mut buffer).await?;
            if len == 0 {
                return Ok(reader.len());
            }
            self.output.bytes(&buffer[..len])?;
        }
    }

    /// The temporary file, open for writing, and how long it will be if that is known.
    async fn begin(&self, to: &Target, how: How, len: Option<u64>) -> Result<(Writer, Ticket, Target), Failure> {
        if !how.force && to.client.status(&to.path).await.map_err(|error| to.failure(&error))?.is_some() {
            return Err(Failure::new(to, "already exists").advise("use -f to replace it"));
        }
        let temp = beside(to);
        let create =
            Create { parents: false, replication: how.replication, block_len: how.block_len, len, ..Create::default() };
        let ticket = self.temps.open(Temp::Remote(temp.clone()));
        match written(to, temp.client.create(&temp.path, &create).await).await {
            Ok(writer) => Ok((writer, ticket, temp)),
            Err(failure) => {
                self.temps.keep(ticket);
                Err(failure.naming(temp.name(), to.name()))
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
                Err(failure.naming(temp.name(), to.name()))
            }
        }
    }
}

/// Says why `to` cannot be written. Where its directory is missing, that is what is told: not that the new file is not
/// there, and not that the directory above the missing one may not be written to.
async fn written<T>(to: &Target, result: client::Result<T>) -> Result<T, Failure> {
    let error = match result {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    let parent = to.parent().filter(|_| matches!(error, client::Error::NotFound | client::Error::Denied(_)));
    match parent {
        Some(parent) if matches!(parent.client.status(&parent.path).await, Ok(None)) => {
            Err(parent.failure(&client::Error::NotFound).advise("make the directory with `levada mkdir -p`"))
        }
        _ => Err(to.failure(&error)),
    }
}

/// A directory of a copy; one that is there already will do.
pub(crate) async fn make_directory(to: &Target) -> Result<(), Failure> {
    let made = to.client.mkdirs(&to.path, 0o755, false).await;
    made.map_err(|error| match error {
        client::Error::Exists => Failure::new(to, "is a file, and a directory is to be copied there"),
        error => to.failure(&error),
    })
}

fn refuse_unusable(from: &Found) -> Result<(), Failure> {
    let unusable =
        from.status.unusable.map(|what| Failure::new(&from.target, format!("{what}, which Levada cannot read")));
    unusable.map_or(Ok(()), Err)
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
    let millis = |time: io::Result<std::time::SystemTime>| {
        let since = time.ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Millis(since.map_or(0, |since| since.as_millis() as u64))
    };
    Attributes {
        mode: metadata.mode() as u16 & MODE_MASK,
        modified: millis(metadata.modified()),
        accessed: millis(metadata.accessed()),
        owner: None,
        group: None,
    }
}

pub(crate) async fn preserve_remote(target: &Target, attributes: &Attributes) -> Result<(), Failure> {
    let failure = |error| target.failure(&error);
    let client = &target.client;
    let (modified, accessed) = (Some(attributes.modified), Some(attributes.accessed));
    client.set_times(&target.path, modified, accessed).await.map_err(failure)?;
    if attributes.owner.is_some() || attributes.group.is_some() {
        let (owner, group) = (attributes.owner.as_deref(), attributes.group.as_deref());
        client.set_owner(&target.path, owner, group).await.map_err(failure)?;
    }
    // Last: it may take away the right to set the times.
    client.set_permission(&target.path, attributes.mode).await.map_err(failure)
}

/// Mode and times. The names of the store's users need not mean anything here.
pub(crate) fn preserve_local(file: &File, path: &Path, status: &Status) -> Result<(), Failure> {
    use std::os::unix::fs::PermissionsExt;
    let local = |error: io::Error| Failure::local(path, &error);
    let time = |time: Millis| UNIX_EPOCH + Duration::from_millis(time.0);
    file.set_permissions(std::fs::Permissions::from_mode(u32::from(status.mode))).map_err(local)?;
    let accessed = if status.accessed.0 == 0 { status.modified } else { status.accessed };
    let times = std::fs::FileTimes::new().set_modified(time(status.modified)).set_accessed(time(accessed));
    file.set_times(times).map_err(local)
}

type Pieces = tokio::sync::mpsc::Receiver<io::Result<Vec<u8>>>;

/// A thread opens and reads, since a terminal or a pipe may keep it waiting for long.
fn read_aside<R: Read>(open: impl FnOnce() -> io::Result<R> + Send + 'static) -> io::Result<Pieces> {
    let (sender, receiver) = tokio::sync::mpsc::channel(AHEAD_COUNT);
    ::io::task::thread("stream", move || {
        let mut stream = match open() {
            Ok(stream) => stream,
            Err(error) => return drop(sender.blocking_send(Err(error))),
        };
        loop {
            let mut piece = vec![0; STEP_LEN];
            let read = match stream.read(&mut piece) {
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
    })?;
    Ok(receiver)
}
