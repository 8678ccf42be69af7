//! Calls of HDFS about files and their blocks, in our own words: what readers and writers ask of the metadata server.
//! Those about names are in `namespace`.

use crate::client::Client;
use crate::create::Create;
use crate::encryption_key::EncryptionKey;
use crate::error::{Error, Result};
use crate::located::{FilePart, Located, Node, Token};
use crate::messages;
use crate::status::{Heard, ServerDefaults, unusable};
use hdfs::proto;
use std::sync::Arc;
use std::time::Duration;
use types::Generation;
use types::limits::{BLOCK_LEN_MAX, MODE_MASK};
use xfer::writer::{Identity, Member, Update};

/// "All of it", where a length is asked. Java's largest number: one above would be negative to a Java server.
pub(crate) const LEN_ALL: u64 = i64::MAX as u64;
/// HDFS's flags of create and append.
const FLAG_CREATE: u32 = 1;
const FLAG_OVERWRITE: u32 = 2;
const FLAG_APPEND: u32 = 4;
const FLAG_NEW_BLOCK: u32 = 32;
/// A guess: a round trip in so long costs nothing, and who turns protection on waits no longer for those who ran
/// before. Java asks again after an hour.
const DEFAULTS_VALID_FOR: Duration = Duration::from_secs(300);
/// Longest answer of a datanode about one block: a number, or an exception with its stack trace. A guess, far above
/// both.
const VISIBLE_ANSWER_LEN_MAX: u32 = 64 << 10;

/// A file that was opened to write on at its end.
#[derive(Clone, Debug)]
pub(crate) struct Appended {
    pub(crate) file: u64,
    pub(crate) len: u64,
    /// `None`: the server does not say.
    pub(crate) block_len: Option<u64>,
    pub(crate) replication: u16,
    /// Its last block, which is whole.
    pub(crate) last: Option<Identity>,
}

pub(crate) fn permission(mode: u16) -> proto::FsPermissionProto {
    proto::FsPermissionProto { perm: u32::from(mode & MODE_MASK) }
}

impl Client {
    /// What the server that leads proposes to writers and can do; asked of each server, and now and then again: its
    /// settings change while this process runs on.
    pub async fn defaults(&self) -> Result<ServerDefaults> {
        Ok(self.heard().await?.defaults)
    }

    /// Whether the server that leads wants to have proven who calls, and believes no names. As old as
    /// [`Self::defaults`], and kept with them: whichever client of the store asked.
    pub async fn asks_for_proof(&self) -> Result<bool> {
        Ok(self.heard().await?.asks_for_proof)
    }

    async fn heard(&self) -> Result<Heard> {
        let rpc = &self.session.rpc;
        let at = self.session.store.now();
        let mut known = self.session.store.defaults().lock().await;
        if let Some(heard) = known.get(rpc.addr())
            && at.saturating_sub(heard.at) < DEFAULTS_VALID_FOR
        {
            return Ok(*heard);
        }
        let request = proto::GetServerDefaultsRequestProto::default();
        let answer: proto::GetServerDefaultsResponseProto = self.call("getServerDefaults", &request).await?;
        let defaults = server_defaults(&answer.server_defaults);
        // The call may have found another server than the one that led last. There are as many as the URL names.
        let (addr, is_proven) = rpc.proven();
        // Another call has gone on to a server that was never called: who does not know believes nobody, and asks
        // again.
        let Some(asks_for_proof) = is_proven else { return Ok(Heard { at, defaults, asks_for_proof: true }) };
        self.session.store.protection().learn(addr, &answer.server_defaults, asks_for_proof);
        let heard = Heard { at, defaults, asks_for_proof };
        known.insert(addr.to_owned(), heard);
        Ok(heard)
    }

    /// What datanodes of an HDFS that encrypts want to have proven. `None`: the server gives out none.
    pub(crate) async fn encryption_key(&self) -> Result<Option<Arc<EncryptionKey>>> {
        let protection = self.session.store.protection();
        if let Some(key) = protection.key(self.options().clock.now()) {
            return Ok(Some(key));
        }
        let request = proto::GetDataEncryptionKeyRequestProto {};
        let answer: proto::GetDataEncryptionKeyResponseProto = self.call("getDataEncryptionKey", &request).await?;
        Ok(answer.data_encryption_key.map(|key| protection.keep(EncryptionKey::of(key))))
    }

    /// Datanodes that are up.
    pub(crate) async fn live_datanodes(&self) -> Result<Vec<Node>> {
        let request = proto::GetDatanodeReportRequestProto { r#type: proto::DatanodeReportTypeProto::Live.into() };
        let report: proto::GetDatanodeReportResponseProto = self.call("getDatanodeReport", &request).await?;
        Ok(report.di.into_iter().map(Node::from).collect())
    }

    // ── reading ──

    /// Where the blocks are that lie in `len` bytes from `offset`.
    pub(crate) async fn located(&self, path: &str, offset: u64, len: u64) -> Result<FilePart> {
        let request = proto::GetBlockLocationsRequestProto { src: path.into(), offset, length: len };
        let answer: proto::GetBlockLocationsResponseProto = self.call("getBlockLocations", &request).await?;
        answer.locations.map(FilePart::from).ok_or(Error::NotFound)
    }

    /// How many bytes of a block that is being written may be read: whichever of its nodes answers first says so. That
    /// none does is said of the block, not of the store.
    pub(crate) async fn visible_len(&self, block: &Located) -> Result<u64> {
        let mut tried: Vec<String> = Vec::new();
        for node in block.nodes.iter() {
            match self.visible_len_at(block, node).await {
                Ok(len) => return Ok(len),
                Err(error) if error.is_class(hdfs::exception::REPLICA_NOT_FOUND) => {}
                Err(error @ (Error::Closed | Error::Forked)) => return Err(error),
                Err(error) => tried.push(error.to_string()),
            }
        }
        match tried.is_empty() {
            // No node has it, or none is named: the block was asked for, and nothing was written yet.
            true => Ok(0),
            false => Err(Error::NoReplica { block: block.identity.block.0, tried: tried.join("; ") }),
        }
    }

    async fn visible_len_at(&self, block: &Located, node: &Node) -> Result<u64> {
        let (user, protocol) = (self.user().to_owned(), hdfs::protocol::CLIENT_DATANODE);
        let options = rpc::ClientOptions { frame_len_max: VISIBLE_ANSWER_LEN_MAX, ..self.store().rpc_options() };
        let datanode = rpc::Client::with_options(node.ipc_addr(), user, protocol, options);
        let request = proto::GetReplicaVisibleLengthRequestProto { block: block.identity.message() };
        let call = async {
            let answer: Result<proto::GetReplicaVisibleLengthResponseProto, _> =
                datanode.call("getReplicaVisibleLength", &request).await;
            answer.map_err(|error| Error::of_call(datanode.addr(), error))
        };
        let len = self.run(call).await?.length;
        if len > BLOCK_LEN_MAX {
            let reason = format!("{} has {len} bytes, more than a block may have", block.identity.block);
            return Err(Error::Protocol { addr: datanode.addr().to_owned(), reason });
        }
        Ok(len)
    }

    /// The replica of this node is not what it was, and is to be replaced.
    pub(crate) async fn report_bad(&self, block: &Located, node: &Node) -> Result<()> {
        let request = proto::ReportBadBlocksRequestProto { blocks: vec![block.only_on(node)] };
        let proto::ReportBadBlocksResponseProto {} = self.call("reportBadBlocks", &request).await?;
        Ok(())
    }

    // ── writing ──

    /// Makes a file. Answers its id.
    pub(crate) async fn create_file(
        &self,
        path: &str,
        create: &Create,
        replication: u16,
        block_len: u64,
    ) -> Result<u64> {
        let request = proto::CreateRequestProto {
            src: path.into(),
            masked: permission(create.mode),
            unmasked: create.unmasked().map(permission),
            client_name: self.session.holder.clone(),
            create_flag: if create.overwrite { FLAG_CREATE | FLAG_OVERWRITE } else { FLAG_CREATE },
            create_parent: create.parents,
            replication: replication.into(),
            block_size: block_len,
            ..Default::default()
        };
        let answer: proto::CreateResponseProto = self.call("create", &request).await?;
        let status = answer.fs.ok_or_else(|| self.not_understood("create without a file status"))?;
        if unusable(&status).is_some() {
            let _ = self.delete(path, false).await;
            return Err(Error::Unsupported("writing into an erasure coded or encrypted directory"));
        }
        Ok(status.file_id.unwrap_or(0))
    }

    /// Opens a file to write on at its end, in a new block.
    pub(crate) async fn append_file(&self, path: &str) -> Result<Appended> {
        let request = proto::AppendRequestProto {
            src: path.into(),
            client_name: self.session.holder.clone(),
            flag: Some(FLAG_APPEND | FLAG_NEW_BLOCK),
        };
        let answer: proto::AppendResponseProto = self.call("append", &request).await?;
        let status = match answer.stat {
            Some(status) => status,
            None => {
                let request = proto::GetFileInfoRequestProto { src: path.into() };
                let answer: proto::GetFileInfoResponseProto = self.call("getFileInfo", &request).await?;
                answer.fs.ok_or(Error::NotFound)?
            }
        };
        if unusable(&status).is_some() {
            return Err(Error::Unsupported("appending to an erasure coded or encrypted file"));
        }
        let last = match answer.block {
            Some(last) => Some(last.b.into()),
            None => self.located(path, 0, 0).await?.last.map(|last| last.identity),
        };
        Ok(Appended {
            file: status.file_id.unwrap_or(0),
            len: status.length,
            block_len: status.blocksize.filter(|len| *len > 0),
            replication: status.block_replication.unwrap_or(0).try_into().unwrap_or(0),
            last,
        })
    }

    /// The next block of a file, behind `previous`, on none of these nodes.
    pub(crate) async fn add_block(
        &self,
        path: &str,
        file: u64,
        previous: Option<&Identity>,
        excluded: &[Node],
        excluded_ids: Vec<String>,
    ) -> Result<Located> {
        let excluded = messages::excluded(excluded.iter()).into_iter();
        let request = proto::AddBlockRequestProto {
            src: path.into(),
            client_name: self.session.holder.clone(),
            previous: previous.map(Identity::message),
            exclude_nodes: excluded.chain(messages::excluded_ids(excluded_ids)).collect(),
            file_id: Some(file),
            ..Default::default()
        };
        let answer: proto::AddBlockResponseProto = self.call("addBlock", &request).await?;
        let block = Located::from(answer.block);
        if block.nodes.is_empty() {
            return Err(self.not_understood("a new block without nodes"));
        }
        Ok(block)
    }

    /// Nobody has written this block, and nobody will.
    pub(crate) async fn abandon_block(&self, path: &str, file: u64, block: &Identity) -> Result<()> {
        let request = proto::AbandonBlockRequestProto {
            b: block.message(),
            src: path.into(),
            holder: self.session.holder.clone(),
            file_id: Some(file),
        };
        let proto::AbandonBlockResponseProto {} = self.call("abandonBlock", &request).await?;
        Ok(())
    }

    /// A generation for a block whose chain broke, and a token for it.
    pub(crate) async fn next_generation(&self, block: &Identity) -> Result<(Generation, Token)> {
        let request = proto::UpdateBlockForPipelineRequestProto {
            block: block.message(),
            client_name: self.session.holder.clone(),
        };
        let answer: proto::UpdateBlockForPipelineResponseProto = self.call("updateBlockForPipeline", &request).await?;
        Ok((Generation(answer.block.b.generation_stamp), answer.block.block_token.into()))
    }

    /// Nodes that could join `members` in the chain of the last block of a file, at most so many: those the server
    /// gives none of the excluded ones for, unless one is back.
    pub(crate) async fn additional_nodes(
        &self,
        path: &str,
        file: u64,
        block: &Identity,
        members: &[Member],
        count: usize,
    ) -> Result<Vec<Node>> {
        let request = proto::GetAdditionalDatanodeRequestProto {
            src: path.into(),
            blk: block.message(),
            existings: members.iter().map(|member| member.info.clone()).collect(),
            excludes: messages::excluded_ids(self.session.stock.excluded()).collect(),
            num_additional_nodes: count as u32,
            client_name: self.session.holder.clone(),
            existing_storage_uuids: members.iter().map(|member| member.storage.clone()).collect(),
            file_id: Some(file),
        };
        let answer: proto::GetAdditionalDatanodeResponseProto = self.call("getAdditionalDatanode", &request).await?;
        let is_member = |id: &str| members.iter().any(|member| member.info.id.datanode_uuid == id);
        let nodes = answer.block.locs.into_iter().map(Node::from);
        Ok(nodes.filter(|node| !is_member(&node.id)).collect())
    }

    /// The block goes on with these nodes.
    pub(crate) async fn update_pipeline(&self, update: &Update, members: &[Member]) -> Result<()> {
        let request = proto::UpdatePipelineRequestProto {
            client_name: self.session.holder.clone(),
            old_block: update.old.message(),
            new_block: update.new.message(),
            new_nodes: members.iter().map(|member| member.info.id.clone()).collect(),
            storage_i_ds: members.iter().map(|member| member.storage.clone()).collect(),
        };
        let proto::UpdatePipelineResponseProto {} = self.call("updatePipeline", &request).await?;
        Ok(())
    }

    /// Has the server write down that the last block exists, so that a crash of this process does not lose it.
    pub(crate) async fn announce(&self, path: &str, file: u64) -> Result<()> {
        let request = proto::FsyncRequestProto {
            src: path.into(),
            client: self.session.holder.clone(),
            last_block_length: None,
            file_id: Some(file),
        };
        let proto::FsyncResponseProto {} = self.call("fsync", &request).await?;
        Ok(())
    }

    /// Ends a file whose last block is `last`. False: no whole replica of that one is reported yet.
    pub(crate) async fn complete_file(&self, path: &str, file: u64, last: Option<&Identity>) -> Result<bool> {
        let request = proto::CompleteRequestProto {
            src: path.into(),
            client_name: self.session.holder.clone(),
            last: last.map(Identity::message),
            file_id: Some(file),
        };
        let answer: proto::CompleteResponseProto = self.call("complete", &request).await?;
        Ok(answer.result)
    }

    pub(crate) async fn renew_leases(&self) -> Result<()> {
        let request =
            proto::RenewLeaseRequestProto { client_name: self.session.holder.clone(), namespaces: Vec::new() };
        let proto::RenewLeaseResponseProto {} = self.call("renewLease", &request).await?;
        Ok(())
    }
}

fn server_defaults(defaults: &proto::FsServerDefaultsProto) -> ServerDefaults {
    let kind = types::ChecksumKind::from_number(defaults.checksum_type.unwrap_or(1));
    let checksum = kind.and_then(|kind| types::ChecksumSpec::new(kind, defaults.bytes_per_checksum));
    ServerDefaults {
        block_len: defaults.block_size,
        replication: defaults.replication.min(u32::from(types::limits::REPLICATION_MAX)) as u16,
        checksum: checksum.unwrap_or(types::ChecksumSpec::DEFAULT),
        trash: defaults.trash_interval.unwrap_or(0) > 0,
        abilities: wire::Abilities::of(defaults.abilities),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Url;
    use std::time::Duration;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    /// A datanode begins an answer of a hundred megabytes. Nobody waits for the rest of it, nor makes room for it.
    #[tokio::test]
    async fn a_datanode_answers_shortly() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let ipc_port = listener.local_addr().unwrap().port();
        let node = Node { ip: "127.0.0.1".into(), ipc_port, ..Node::default() };
        let block = Located { nodes: Arc::new([node]), ..Located::from(proto::LocatedBlockProto::default()) };
        let client = Client::connect(&Url::parse("hdfs://127.0.0.1:1/").unwrap(), "me");
        let answer = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            socket.write_all(&(100u32 << 20).to_be_bytes()).await.unwrap();
            std::future::pending::<()>().await;
        };
        let asked = timeout(Duration::from_secs(10), client.visible_len(&block));
        let asked = tokio::select! { asked = asked => asked, () = answer => unreachable!() };
        assert!(asked.expect("it is refused at once").is_err());
    }

    /// Who decides by the error whether the store is there must not take a datanode for it.
    #[tokio::test]
    async fn a_datanode_that_is_not_reached_is_not_the_store() {
        let node = Node { ip: "127.0.0.1".into(), ipc_port: 1, ..Node::default() };
        let block = Located { nodes: Arc::new([node]), ..Located::from(proto::LocatedBlockProto::default()) };
        let client = Client::connect(&Url::parse("hdfs://127.0.0.1:1/").unwrap(), "me");
        assert!(matches!(client.visible_len(&block).await, Err(Error::NoReplica { .. })));
    }
}
