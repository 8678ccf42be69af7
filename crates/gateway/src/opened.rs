//! A file that is read, and which version of it.

use client::{Client, Error, Reader, Status};

/// Times a file is looked up anew that is replaced while it is opened.
const OPEN_COUNT_MAX: usize = 3;

#[derive(Debug)]
pub(crate) struct Opened {
    client: Client,
    path: String,
    pub(crate) reader: Reader,
    /// Of before it was opened.
    pub(crate) status: Status,
}

/// Why a file was not opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error(transparent)]
    Store(#[from] Error),
    #[error("the file changes all the time; ask again later")]
    Changing,
}

impl Opened {
    /// The file that `path` names, which had this status a moment ago.
    pub(crate) async fn of(client: Client, path: &str, mut status: Status) -> Result<Self, OpenError> {
        for _ in 0..OPEN_COUNT_MAX {
            let reader = client.open_listed(path, &status).await?;
            // Of one that is being written, as long as it was when that began, there may be more.
            let is_same = reader.len() >= status.len && reader.file_id().await.is_none_or(|id| id == status.id);
            if is_same {
                return Ok(Self { client, path: path.to_owned(), reader, status });
            }
            status = client.existing(path).await?;
        }
        Err(OpenError::Changing)
    }

    /// Whether the path still names the file whose status was told, and that was neither cut nor written on since. If
    /// not, what was read may be of two versions.
    pub(crate) async fn is_the_same(&self) -> Result<bool, Error> {
        let now = match self.client.existing(&self.path).await {
            Err(Error::NotFound) => return Ok(false),
            now => now?,
        };
        let is_same = now.version() == self.status.version();
        if !is_same {
            tracing::info!(path = self.path, "a file was changed while it was read");
        }
        Ok(is_same)
    }

    /// Fails if it is another version by now.
    pub(crate) async fn must_be_the_same(&self) -> Result<(), Error> {
        match self.is_the_same().await? {
            true => Ok(()),
            false => Err(Error::Invalid("the file was changed while it was read".into())),
        }
    }
}
