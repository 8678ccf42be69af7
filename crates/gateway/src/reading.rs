//! The store as one user reads it: itself, or by way of what an edge keeps.

use crate::edge::{Edge, EdgeFile, Looked};
use crate::opened::Opened;
use bytes::Bytes;
use client::{Client, FsStats, Listing, Refused, Result, Status};
use std::sync::Arc;

/// Clones are the same user.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    client: Client,
    edge: Option<Arc<Edge>>,
}

/// What a path names.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) status: Status,
    reading: Reading,
    /// At an edge a file is found and opened at once.
    file: Option<EdgeFile>,
}

impl Reading {
    pub(crate) fn new(client: Client, edge: Option<Arc<Edge>>) -> Self {
        Self { client, edge }
    }

    /// What must be there, most likely to be opened.
    pub(crate) async fn find(&self, path: &str) -> Result<Found> {
        let reading = self.clone();
        match &self.edge {
            None => Ok(Found { status: self.client.existing(path).await?, reading, file: None }),
            Some(edge) => {
                let Looked { status, file } = edge.look(&self.client, path).await?;
                Ok(Found { status, reading, file })
            }
        }
    }

    /// What must be there.
    pub(crate) async fn existing(&self, path: &str) -> Result<Status> {
        match &self.edge {
            None => self.client.existing(path).await,
            Some(edge) => edge.status(&self.client, path).await,
        }
    }

    /// `None`: there is nothing.
    pub(crate) async fn status(&self, path: &str) -> Result<Option<Status>> {
        match self.existing(path).await {
            Err(error) if error.is_not_found() => Ok(None),
            status => status.map(Some),
        }
    }

    /// A call of HDFS's clients as it came, in this user's name. `path`: what it is about.
    pub(crate) async fn forward(
        &self,
        method: &str,
        path: Option<&str>,
        request: Bytes,
    ) -> Result<Result<Bytes, Refused>> {
        match &self.edge {
            None => self.client.forward(method, request).await,
            Some(edge) => edge.forward(&self.client, method, path, request).await,
        }
    }

    /// As [`Self::forward`], of `getFileInfo` of `path`: an edge remembers what the store says of it.
    pub(crate) async fn forward_status(&self, path: &str, request: Bytes) -> Result<Result<Bytes, Refused>> {
        match &self.edge {
            None => self.client.forward("getFileInfo", request).await,
            Some(edge) => edge.forward_status(&self.client, path, request).await,
        }
    }

    pub(crate) async fn list(&self, path: &str) -> Result<Listing> {
        match &self.edge {
            None => self.client.list(path).await,
            Some(edge) => edge.list(&self.client, path).await,
        }
    }

    pub(crate) async fn stats(&self) -> Result<FsStats> {
        self.ask(self.client.stats()).await
    }

    async fn ask<T>(&self, asking: impl Future<Output = Result<T>>) -> Result<T> {
        match &self.edge {
            None => asking.await,
            Some(edge) => edge.ask(asking).await,
        }
    }
}

impl Found {
    pub(crate) async fn open(self, path: &str) -> Result<Opened> {
        let Self { status, reading, file } = self;
        match file {
            Some(file) => Ok(Opened::at_edge(file, status)),
            None => Opened::of(reading.client, path, status).await,
        }
    }
}
