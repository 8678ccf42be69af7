//! Where the bytes of one open file are: asked of the metadata server as far as somebody reads, and asked anew when
//! every replica of a block has failed.

use crate::client::Client;
use crate::content::Content;
use crate::error::{Error, Result};
use crate::located::{FilePart, Located};
use crate::locations::{FileBlocks, Version};
use crate::status::Status;
use crate::store::SharedBlocks;
use futures_util::future::join;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(super) struct File {
    pub(super) client: Client,
    pub(super) path: Arc<str>,
    /// Of its opening.
    pub(super) len: u64,
    blocks: Arc<SharedBlocks>,
    /// What all its bytes are to be of; whatever is asked of it later is held against that.
    pub(super) content: Option<Arc<Content>>,
    /// What they were of when it was opened. `None`: it was being written, or is empty, or the opening did not say.
    version: Option<Arc<Content>>,
}

/// Locations are asked for this many bytes at a time: ten blocks of the usual length, as HDFS's client does.
const PREFETCH_LEN: u64 = 10 * types::limits::BLOCK_LEN_DEFAULT;

impl File {
    pub(super) async fn open(client: &Client, path: &str) -> Result<Self> {
        // Both in one flight: what the store can do is asked before ranges are, for which a far reader would wait
        // again.
        let (part, defaults) = join(client.located(path, 0, PREFETCH_LEN), client.defaults()).await;
        if let Err(error) = defaults {
            tracing::debug!(path, %error, "what the store can do is asked again when it matters");
        }
        Self::of_part(client, path, part?).await
    }

    /// As `open`, of these bytes alone: once the path names others, what is not known of the blocks is refused.
    pub(super) async fn open_pinned(client: &Client, path: &str) -> Result<Self> {
        let (part, defaults) = join(client.located(path, 0, PREFETCH_LEN), client.defaults()).await;
        if let Err(error) = defaults {
            tracing::debug!(path, %error, "what the store can do is asked again when it matters");
        }
        let file = Self::of_part(client, path, part?).await?;
        Ok(Self { content: file.version.clone(), ..file })
    }

    /// As `open`, of a file whose status is known: if its blocks are known, too, nobody is asked.
    pub(super) async fn open_listed(client: &Client, path: &str, status: &Status) -> Result<Self> {
        let (store, user, id) = (client.store(), &client.session.user, status.id);
        let version = Version { len: status.len, modified: status.modified };
        let known = store.locations().get(store.now(), user, id, version);
        if let Some(blocks) = known {
            let (client, path) = (client.clone(), path.into());
            return Ok(Self { client, path, len: version.len, blocks, content: None, version: None });
        }
        let part = client.located(path, 0, PREFETCH_LEN).await?;
        // The path may name another file than that of the listing by now.
        let is_listed = part.file == Some(id) && !part.is_open && part.file_len == version.len;
        let file = Self::of_part(client, path, part).await?;
        if is_listed {
            store.locations().put(store.now(), user, id, version, Arc::clone(&file.blocks));
        }
        Ok(file)
    }

    pub(super) async fn of_part(client: &Client, path: &str, part: FilePart) -> Result<Self> {
        if part.blocks.iter().any(|block| block.is_striped) {
            return Err(Error::Unsupported("reading an erasure coded file"));
        }
        let version = part.content().map(Arc::new);
        let mut blocks = FileBlocks::new(part.file_len);
        // The last one comes with any answer; who wants the end of a long file need not ask again.
        let last = part.last.iter().filter(|_| !part.is_open).cloned().collect();
        if !blocks.add(part.file, part.blocks) || !blocks.add(part.file, last) {
            return Err(client.not_understood(format!("it names blocks of {path} that overlap")));
        }
        if let Some(last) = part.last.filter(|_| part.is_open) {
            // The file is being written: the metadata server does not know how far, the datanodes do.
            let len = client.visible_len(&last).await?;
            blocks.add_open(last, len);
        }
        let len = blocks.len();
        let blocks = Arc::new(SharedBlocks::new(blocks));
        Ok(Self { client: client.clone(), path: path.into(), len, blocks, content: None, version })
    }

    /// As it was opened, of what the path names now: the same bytes, or, of a file that was being written, these and
    /// maybe more.
    pub(super) async fn reopened(&self) -> Result<Self> {
        let again = match self.content {
            Some(_) => Self::open_pinned(&self.client, &self.path).await?,
            None => Self::open(&self.client, &self.path).await?,
        };
        match self.is_begun_by(&again).await? {
            true => Ok(again),
            false => Err(Error::Invalid("the file was changed while it was read; read it again".into())),
        }
    }

    /// Whether what was read of this one, up to its end, are bytes of `again`, too.
    async fn is_begun_by(&self, again: &Self) -> Result<bool> {
        if self.version.is_some() {
            return Ok(self.version == again.version);
        }
        let ids = (self.id().await, again.id().await);
        if again.len < self.len || matches!(ids, (Some(before), Some(now)) if before != now) {
            return Ok(false);
        }
        // A server of HDFS names no file; and one that was cut and written on has other blocks.
        for (offset, block) in self.ends(2).await {
            let now = again.block_at(offset).await?;
            if (now.offset, now.identity.block) != (offset, block.identity.block) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// As the server names it, if it does.
    pub(super) async fn id(&self) -> Option<u64> {
        self.blocks.read().await.file()
    }

    /// Blocks that are known, of both ends of the file, by their offsets.
    pub(super) async fn ends(&self, count_max: usize) -> BTreeMap<u64, Arc<Located>> {
        self.blocks.read().await.ends(count_max)
    }

    pub(super) async fn block_at(&self, offset: u64) -> Result<Arc<Located>> {
        if let Some(block) = self.blocks.read().await.at(offset) {
            return Ok(block);
        }
        let mut blocks = self.blocks.write().await;
        // Another reader may have asked meanwhile.
        if let Some(block) = blocks.at(offset) {
            return Ok(block);
        }
        let part = self.client.located(&self.path, offset, PREFETCH_LEN).await?;
        self.must_be_pinned(&part)?;
        if !self.is_same_file(&blocks, &part).await? || !blocks.add(part.file, part.blocks) {
            return Err(self.gone());
        }
        let nothing = || self.client.not_understood(format!("it names no block of {} at offset {offset}", self.path));
        blocks.at(offset).ok_or_else(nothing)
    }

    /// Whether an answer is about the file that was opened: another one may have its name by now, and bytes of two
    /// files must not be mixed.
    async fn is_same_file(&self, blocks: &FileBlocks, part: &FilePart) -> Result<bool> {
        if let Some(is_same) = blocks.is_same_file(part) {
            return Ok(is_same);
        }
        // A server of HDFS does not say. It had that file when `part` was drawn if it still has a block of it.
        let Some(first) = blocks.first() else { return Ok(true) };
        let again = self.client.located(&self.path, first.offset, 1).await?;
        Ok(again.blocks.iter().chain(&again.last).any(|block| block.identity.block == first.identity.block))
    }

    /// An answer is about the bytes that were opened, if some were named.
    fn must_be_pinned(&self, part: &FilePart) -> Result<()> {
        match &self.content {
            Some(content) if part.content().as_ref() != Some(content) => Err(self.gone()),
            _ => Ok(()),
        }
    }

    /// Another file has its name now, or its bytes lie elsewhere.
    fn gone(&self) -> Error {
        self.client.store().locations().forget(&self.blocks);
        Error::NotFound
    }

    /// Every replica of this block has failed: asks anew where they are.
    pub(super) async fn refetch(&self, block: &Located) -> Result<()> {
        let mut blocks = self.blocks.write().await;
        let part = self.client.located(&self.path, block.offset, 1).await?;
        self.must_be_pinned(&part)?;
        let fresh = part.blocks.into_iter().chain(part.last).find(|fresh| fresh.offset == block.offset);
        if fresh.is_some_and(|fresh| blocks.replace(fresh)) {
            return Ok(());
        }
        Err(self.gone())
    }
}
