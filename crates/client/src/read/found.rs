//! Blocks that no file owns, as an administrator is told of them: each is read as if it were a file.

use super::file::File;
use super::{Reader, Result};
use crate::client::Client;
use crate::located::{FilePart, Located, Node, Token};
use std::net::SocketAddr;
use std::sync::Arc;
use types::{BlockId, Generation};
use wire::admin::backup::{BlockToken, FoundBlock, FoundReplica};
use xfer::writer::Identity;

impl Client {
    /// Opens a found block ([`crate::admin::Admin::found_blocks`] says of which `pool`): its best replica. Others like
    /// that are read where it fails.
    pub async fn open_found(&self, pool: &str, found: &FoundBlock) -> Result<Reader> {
        let best = found.best().map(FoundReplica::rank).unwrap_or_default();
        let (generation, _, len) = best;
        let nodes = found.replicas.iter().filter(|replica| replica.rank() == best).filter_map(node);
        let BlockToken { identifier, password } = found.token.clone().unwrap_or_default();
        let block = Located {
            offset: 0,
            len,
            identity: Identity {
                pool: pool.to_owned(),
                block: BlockId(found.block),
                generation: Generation(generation),
                len,
            },
            token: Token { identifier, password, kind: wire::token::KIND.to_owned(), ..Token::default() },
            nodes: nodes.collect::<Arc<[Node]>>(),
            is_striped: false,
        };
        // Of an empty one there is nothing to ask for.
        let blocks = if len == 0 { Vec::new() } else { vec![block] };
        let part = FilePart { file_len: len, file: None, blocks, last: None, is_open: false };
        let path = format!("block {}", found.block);
        self.run(async { Ok(Reader::new(File::of_part(self, &path, part).await?)) }).await
    }
}

/// What is told of a datanode that has it; `None`: it was forgotten meanwhile, and only its id is known.
fn node(replica: &FoundReplica) -> Option<Node> {
    let addr: SocketAddr = replica.datanode.parse().ok()?;
    Some(Node {
        id: replica.datanode.clone(),
        ip: addr.ip().to_string(),
        xfer_port: addr.port(),
        addr: replica.datanode.as_str().into(),
        ..Node::default()
    })
}
