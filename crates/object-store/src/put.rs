//! Objects that are made: whole from a payload, or as a copy.

use crate::error::{generic, of};
use crate::{get, location, meta};
use client::{Client, Create, ErrorKind, Existing, FileVersion, Staged};
use object_store::path::Path;
use object_store::{Error, GetOptions, PutMode, PutOptions, PutPayload, PutResult, Result, UpdateVersion};

/// From here on it is worth a question whether the name is taken before the bytes are sent. A guess.
const ASK_FIRST_LEN: u64 = 1 << 20;

pub(crate) fn refuse_attributes(client: &Client, operation: &str, attributes: &object_store::Attributes) -> Result<()> {
    if attributes.is_empty() {
        return Ok(());
    }
    let operation = format!("`{operation}` with attributes");
    Err(Error::NotImplemented { operation, implementer: client.url().to_string() })
}

pub(crate) async fn put(
    client: &Client,
    create: &Create,
    location: &Path,
    payload: PutPayload,
    options: PutOptions,
) -> Result<PutResult> {
    refuse_attributes(client, "put_opts", &options.attributes)?;
    let existing = match options.mode {
        PutMode::Overwrite => Existing::Replaced,
        PutMode::Create => Existing::Stays,
        PutMode::Update(version) => Existing::ReplacedIf(replaced(location, version)?),
    };
    let path = location::new(location)?;
    let len = payload.content_length() as u64;
    if let Existing::ReplacedIf(_) = existing
        && !client.can_replace().await.map_err(|error| of(location, error))?
    {
        // Before its bytes are sent.
        return Err(of_update(location, client::Error::Unsupported("replacing one version of a file, on this server")));
    }
    if len >= ASK_FIRST_LEN {
        match &existing {
            Existing::Replaced => {}
            Existing::Stays => refuse_if_there(client, location, &path).await?,
            Existing::ReplacedIf(replaced) => refuse_if_other(client, location, &path, *replaced).await?,
        }
    }
    let create = Create { len: Some(len), ..create.clone() };
    let mut staged = client.stage(&path, &create).await.map_err(|error| of(location, error))?;
    for bytes in &payload {
        if let Err(error) = staged.write(bytes).await {
            staged.discard().await;
            return Err(of(location, error));
        }
    }
    commit(client, staged, location, existing).await
}

/// Which version is to be replaced. One that no put of ours can have answered is another than what is there.
fn replaced(location: &Path, version: UpdateVersion) -> Result<FileVersion> {
    let e_tag = version.e_tag.ok_or_else(|| generic("an update needs the ETag of what it replaces"))?;
    let other = || other(location, client::Error::Invalid(format!("{e_tag}: no ETag of this store")));
    meta::version(&e_tag).ok_or_else(other)
}

fn other(location: &Path, error: client::Error) -> Error {
    Error::Precondition { path: location.to_string(), source: error.into() }
}

/// An object that is another one by now, or gone.
fn of_update(location: &Path, error: client::Error) -> Error {
    match error.kind() {
        ErrorKind::Conflict | ErrorKind::NotFound | ErrorKind::NotADirectory => other(location, error),
        _ => of(location, error),
    }
}

async fn refuse_if_other(client: &Client, location: &Path, path: &str, replaced: FileVersion) -> Result<()> {
    match client.existing(path).await {
        Ok(status) if status.version() == replaced => Ok(()),
        Ok(_) => Err(other(location, client::Error::Exists)),
        Err(error) => Err(of_update(location, error)),
    }
}

async fn refuse_if_there(client: &Client, location: &Path, path: &str) -> Result<()> {
    match client.status(path).await {
        Ok(Some(_)) => Err(of(location, client::Error::Exists)),
        Ok(None) => Ok(()),
        Err(error) => Err(of(location, error)),
    }
}

/// Gives a file its name, and answers what it is from then on.
pub(crate) async fn commit(client: &Client, staged: Staged, location: &Path, existing: Existing) -> Result<PutResult> {
    let told = match existing {
        Existing::Stays | Existing::Replaced => of,
        Existing::ReplacedIf(_) => of_update,
    };
    let file = staged.commit(existing).await.map_err(|error| told(location, error))?;
    // Another may have taken the name since, or may have removed it: what is told must be of our own file.
    let status = get::status(client, location).await.ok().filter(|status| status.id == file);
    let e_tag = status.as_ref().and_then(meta::e_tag);
    Ok(PutResult {
        e_tag,
        version: None,
        #[cfg(not(feature = "object_store_0_13"))]
        extensions: object_store::Extensions::default(),
    })
}

/// Reads an object and writes it under another name; there is no way to have the store do it.
pub(crate) async fn copy(client: &Client, create: &Create, from: &Path, to: &Path, overwrite: bool) -> Result<()> {
    let path = location::new(to)?;
    let (status, mut reader) = get::open(client, from, &GetOptions::default()).await?;
    if !overwrite {
        refuse_if_there(client, to, &path).await?;
    }
    let create = Create { len: Some(status.len), ..create.clone() };
    let mut staged = client.stage(&path, &create).await.map_err(|error| of(to, error))?;
    while staged.position() < status.len {
        let left = status.len - staged.position();
        let space = staged.space();
        let len = (space.len() as u64).min(left) as usize;
        let done = match reader.read(&mut space[..len]).await {
            Ok(read) if read == len => staged.filled(len).await.map_err(|error| of(to, error)),
            Ok(read) => Err(generic(format!("/{from}: {read} bytes where {len} were asked for"))),
            Err(error) => Err(of(from, error)),
        };
        if let Err(error) = done {
            staged.discard().await;
            return Err(error);
        }
    }
    let existing = if overwrite { Existing::Replaced } else { Existing::Stays };
    commit(client, staged, to, existing).await.map(|_| ())
}

/// Another name for the same file, in one step.
pub(crate) async fn rename(client: &Client, from: &Path, to: &Path, overwrite: bool) -> Result<()> {
    // A directory is no object, and would be moved with all that is in it.
    get::status(client, from).await?;
    let (source, target) = (location::existing(from)?, location::new(to)?);
    if source == target {
        return if overwrite { Ok(()) } else { Err(of(to, client::Error::Exists)) };
    }
    let mut renamed = client.rename(&source, &target, overwrite).await;
    if renamed.as_ref().is_err_and(client::Error::is_not_found) {
        // The directory, most likely; if it is the source, that is found out now.
        client.mkdirs(location::parent(&target), DIRECTORY_MODE, true).await.map_err(|error| of(to, error))?;
        renamed = client.rename(&source, &target, overwrite).await;
    }
    renamed.map_err(|error| match error {
        client::Error::NotFound => of(from, error),
        error => of(to, error),
    })
}

/// As of directories that a new file brings along.
const DIRECTORY_MODE: u16 = 0o755;

/// A file; what else there may be under its name is no object.
pub(crate) async fn delete(client: &Client, location: &Path) -> Result<()> {
    get::status(client, location).await?;
    let path = location::existing(location)?;
    match client.delete(&path, false).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(crate::error::not_found(location)),
        Err(error) => Err(crate::error::of_look(location, error)),
    }
}
