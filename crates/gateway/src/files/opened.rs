//! A file that is read, and which version of it.

use super::failure::Failure;
use axum::http::StatusCode;
use client::{Client, Error, Reader, Status};

/// Times a file is looked up anew that is replaced while it is opened.
const OPEN_COUNT_MAX: usize = 3;

pub(super) struct Opened {
    client: Client,
    path: String,
    pub(super) reader: Reader,
    /// Of before it was opened.
    pub(super) status: Status,
}

impl Opened {
    /// The file that `path` names, which had this status a moment ago.
    pub(super) async fn of(client: Client, path: &str, mut status: Status) -> Result<Self, Failure> {
        for _ in 0..OPEN_COUNT_MAX {
            let reader = client.open_listed(path, &status).await?;
            // Of one that is being written, as long as it was when that began, there may be more.
            let is_same = reader.len() >= status.len && reader.file_id().await.is_none_or(|id| id == status.id);
            if is_same {
                return Ok(Self { client, path: path.to_owned(), reader, status });
            }
            status = client.existing(path).await?;
        }
        Err(Failure::new(StatusCode::SERVICE_UNAVAILABLE, "the file changes all the time; ask again later"))
    }

    /// Fails if the file is another one than that whose status was told, or was cut or written on since: what was read
    /// may be of both.
    pub(super) async fn must_be_the_same(&self) -> Result<(), Error> {
        let now = self.client.existing(&self.path).await?;
        let version = |status: &Status| (status.id, status.modified, status.len);
        if version(&now) == version(&self.status) {
            return Ok(());
        }
        tracing::info!(path = self.path, "a file was changed while it was read over HTTP: its answer is cut short");
        Err(Error::Invalid("the file was changed while it was read".into()))
    }
}
