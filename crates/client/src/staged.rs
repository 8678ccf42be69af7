//! A file that others see once it is whole.
//!
//! ```text
//! stage ──▶ .levada-3f29c1d07ab84e65._COPYING_ ──▶ complete ──▶ renamed to its name, in one step
//!    └────▶ small, to a store of ours: put under its name at once, and never called otherwise
//! ```
//!
//! Promise: whoever opens the name finds what was there before or all of the new file, never a part. What does not come
//! to its name is deleted: by [`Staged::discard`], by a [`Staged::commit`] that fails, or by a task once this is
//! dropped. Only a process that dies leaves the file under its temporary name.

use crate::client::Client;
use crate::create::Create;
use crate::error::{Error, Result};
use crate::status::FileVersion;
use crate::write::{Ended, Name, Writer};
use types::Random;

/// What HDFS's shell calls a file that it is still writing. Ours have a dot in front, so that Hadoop's readers of whole
/// directories pass over them.
const SUFFIX: &str = "._COPYING_";

/// Whether a file of this name is one that somebody is still writing, or never finished.
pub fn is_unfinished(name: &str) -> bool {
    name.ends_with(SUFFIX)
}

/// Another name each time: two who write one file must not write into each other's.
fn temporary() -> String {
    format!(".levada-{:016x}{SUFFIX}", io::OsRandom::new().next_u64())
}

/// A file open for writing that takes its name when it is whole. Of dropped futures of [`Staged::write`] the same holds
/// as of [`Writer::write`]'s; with that of [`Staged::commit`] the file is gone, or it has its name.
#[derive(Debug)]
pub struct Staged {
    client: Client,
    path: String,
    /// `None`: nothing is left to delete.
    writer: Option<Writer>,
}

/// What becomes of a file that has the name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// The new one is refused, by [`Error::Exists`].
    Stays,
    /// For readers at once.
    Replaced,
    /// If it is still this version of it: else an error of the kind [`Conflict`](crate::ErrorKind::Conflict). See
    /// [`Client::can_replace`].
    ReplacedIf(FileVersion),
}

impl Client {
    /// A file that will be called `path`. Of `create`, `overwrite` does not count: that is said when it is committed.
    pub async fn stage(&self, path: &str, create: &Create) -> Result<Staged> {
        let (directory, name) =
            path.rsplit_once('/').ok_or_else(|| Error::Invalid("a path that is relative".into()))?;
        if name.is_empty() {
            return Err(Error::IsADirectory);
        }
        let create = Create { overwrite: false, ..create.clone() };
        let writer = self.create(&format!("{directory}/{}", temporary()), &create).await?;
        Ok(Staged { client: self.clone(), path: path.into(), writer: Some(writer) })
    }
}

impl Staged {
    /// Bytes so far.
    pub fn position(&self) -> u64 {
        self.writer.as_ref().map_or(0, Writer::position)
    }

    /// As [`Writer::space`].
    pub fn space(&mut self) -> &mut [u8] {
        self.writer.as_mut().map_or(&mut [], Writer::space)
    }

    /// As [`Writer::filled`].
    pub async fn filled(&mut self, len: usize) -> Result<()> {
        self.writer()?.filled(len).await
    }

    /// As [`Writer::write`].
    pub async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.writer()?.write(bytes).await
    }

    fn writer(&mut self) -> Result<&mut Writer> {
        self.writer.as_mut().ok_or_else(|| Error::LeaseLost("the file was given up".into()))
    }

    /// Ends the file and gives it its name. Answers its id. Of several who try, one gets the name; after an error
    /// nothing has changed.
    pub async fn commit(mut self, existing: Existing) -> Result<u64> {
        let client = self.client.clone();
        let committing = async {
            match self.try_commit(existing).await {
                Ok(file) => {
                    self.writer = None;
                    Ok(file)
                }
                Err(error) => {
                    self.remove().await;
                    Err(error)
                }
            }
        };
        client.run(committing).await
    }

    async fn try_commit(&mut self, existing: Existing) -> Result<u64> {
        let path = self.path.clone();
        let writer = self.writer()?;
        // A small file gets its name with its bytes, but not in place of one version of another.
        let name = match existing {
            Existing::Stays => Some(Name { path: &path, overwrite: false }),
            Existing::Replaced => Some(Name { path: &path, overwrite: true }),
            Existing::ReplacedIf(_) => None,
        };
        let Ended { file, has_name } = writer.end(name).await?;
        if !has_name {
            let temporary = writer.path().to_owned();
            match existing {
                Existing::ReplacedIf(replaced) => self.client.replace(&temporary, &path, replaced).await?,
                _ => self.client.rename(&temporary, &path, matches!(existing, Existing::Replaced)).await?,
            }
        }
        Ok(file)
    }

    /// Gives the file up. What there is of it is deleted, as far as the server can be reached.
    pub async fn discard(mut self) {
        self.remove().await;
    }

    async fn remove(&mut self) {
        let Some(writer) = &mut self.writer else { return };
        let path = writer.path().to_owned();
        if let Err(error) = writer.remove().await {
            tracing::warn!(path, %error, "an unfinished file was not deleted");
        }
        self.writer = None;
    }
}

impl Drop for Staged {
    /// The future of a put was dropped, or the caller forgot: a task does what is left.
    fn drop(&mut self) {
        let Some(writer) = self.writer.take().filter(|writer| !writer.is_unknown_to_server()) else { return };
        let scope = self.client.session.store.scope();
        if scope.check().is_err() || !scope.has_runtime() {
            return;
        }
        let (client, path) = (self.client.clone(), String::new());
        let mut left = Self { client, path, writer: Some(writer) };
        scope.spawn_detached("removal of an unfinished file", async move { left.remove().await });
    }
}
