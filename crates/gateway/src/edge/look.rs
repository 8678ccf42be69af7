//! What a path names, as the store says now, or as it said before the link went down.

use super::asking::Edge;
use super::file::EdgeFile;
use super::remembered::{Opening, Said};
use crate::try_again::always_changing;
use client::{Client, Result, Status};
use futures_util::future::join;
use std::sync::Arc;

/// Times a file is looked up anew that is replaced while it is opened.
const OPEN_COUNT_MAX: usize = 3;

/// What a path names.
#[derive(Debug)]
pub(crate) struct Looked {
    pub(crate) status: Status,
    /// `None`: no file.
    pub(crate) file: Option<EdgeFile>,
}

impl Edge {
    /// What a path names, and the file to be read: status, permission, contents and places in one flight. While the
    /// link is down, as this user was told before.
    pub(crate) async fn look(self: &Arc<Self>, client: &Client, path: &str) -> Result<Looked> {
        for _ in 0..OPEN_COUNT_MAX {
            let asking = async {
                let (status, reader) = join(client.existing(path), client.open_pinned(path)).await;
                let status = status?;
                match status.is_dir() {
                    true => Ok((status, None)),
                    false => Ok((status, Some(reader?))),
                }
            };
            let asked = self.remembered.ask();
            let (status, reader) = match self.link.ask(asking).await {
                None => return self.remembered(client, path),
                Some(Err(error)) => {
                    self.learn(asked, client, path, Err(&error)).await;
                    return Err(error);
                }
                Some(Ok(answer)) => answer,
            };
            let Some(reader) = reader else {
                self.learn(asked, client, path, Ok(Said::Content(None))).await;
                return Ok(Looked { status, file: None });
            };
            // Both answers are about the same file, or one is of before a change.
            let id = reader.file_id().await;
            if reader.content().is_some() && reader.len() != status.len || id.is_some_and(|id| id != status.id) {
                continue;
            }
            self.tally.validated_count.add(1);
            let file = EdgeFile::of_reader(Arc::clone(self), client.clone(), path, reader);
            let said = match file.content() {
                Some(content) => {
                    Said::Opening(Box::new(Opening { status: status.clone(), content, at: self.link.wall() }))
                }
                None => Said::Content(None),
            };
            self.learn(asked, client, path, Ok(said)).await;
            return Ok(Looked { status, file: Some(file) });
        }
        Err(always_changing())
    }

    /// As [`Self::look`], of who does not want to read it.
    pub(crate) async fn status(self: &Arc<Self>, client: &Client, path: &str) -> Result<Status> {
        let asked = self.remembered.ask();
        match self.link.ask(client.existing(path)).await {
            Some(answer) => {
                self.learn(asked, client, path, answer.as_ref().map(|status| Said::Status(status.into()))).await;
                answer
            }
            None => Ok(self.remembered(client, path)?.status),
        }
    }

    fn remembered(self: &Arc<Self>, client: &Client, path: &str) -> Result<Looked> {
        let opening = self.remembered.opening(client.user(), path).filter(|_| self.is_believed(client));
        let Some(Opening { status, content, at }) = opening else {
            self.tally.refused_count.add(1);
            return Err(self.link.refusal());
        };
        self.tally.unvalidated_count.add(1);
        let file = EdgeFile::of_memory(Arc::clone(self), client.clone(), path, content, at);
        Ok(Looked { status, file: Some(file) })
    }
}
