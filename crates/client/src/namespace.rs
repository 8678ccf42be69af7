//! Calls about names: everything a client asks that moves no bytes of files.

use crate::calls::{LEN_ALL, permission};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::listing::Listing;
use crate::located::Located;
use crate::status::{BlockLocation, FileVersion, FsStats, Status, Summary};
use hdfs::proto;
use std::collections::BTreeSet;
use types::Millis;
use wire::Abilities;

/// How Java's −1 travels: no quota, leave alone.
const NONE: u64 = u64::MAX;

impl Client {
    /// The status of a path; `None` if there is nothing.
    pub async fn status(&self, path: &str) -> Result<Option<Status>> {
        let request = proto::GetFileInfoRequestProto { src: path.into() };
        let answer: proto::GetFileInfoResponseProto = self.call("getFileInfo", &request).await?;
        Ok(answer.fs.map(Status::from_proto))
    }

    /// The status of a path that must be there.
    pub async fn existing(&self, path: &str) -> Result<Status> {
        self.status(path).await?.ok_or(Error::NotFound)
    }

    /// What a directory holds, page by page. A file lists itself, with an empty name.
    pub async fn list(&self, path: &str) -> Result<Listing> {
        Listing::open(self.clone(), path.into()).await
    }

    /// Makes a directory. With `parents`, missing ones are made too, and one that is there already is no error.
    pub async fn mkdirs(&self, path: &str, mode: u16, parents: bool) -> Result<()> {
        let request = proto::MkdirsRequestProto {
            src: path.into(),
            masked: permission(mode),
            create_parent: parents,
            unmasked: None,
        };
        let answer: proto::MkdirsResponseProto = self.call("mkdirs", &request).await?;
        refuse_unless(answer.result, "the directory was not made")
    }

    /// False if there was nothing to delete.
    pub async fn delete(&self, path: &str, recursive: bool) -> Result<bool> {
        let request = proto::DeleteRequestProto { src: path.into(), recursive };
        let answer: proto::DeleteResponseProto = self.call("delete", &request).await?;
        Ok(answer.result)
    }

    /// `to` is the new path itself, never a directory to move into. With `overwrite` a file there is replaced, for
    /// readers at once.
    pub async fn rename(&self, from: &str, to: &str, overwrite: bool) -> Result<()> {
        let request = proto::Rename2RequestProto {
            src: from.into(),
            dst: to.into(),
            overwrite_dest: overwrite,
            ..proto::Rename2RequestProto::default()
        };
        let _: proto::Rename2ResponseProto = self.call("rename2", &request).await?;
        Ok(())
    }

    /// As [`Self::rename`], for what is removed: the caller must be allowed to delete it with all that it holds.
    pub async fn rename_to_trash(&self, from: &str, to: &str) -> Result<()> {
        let request = proto::Rename2RequestProto {
            src: from.into(),
            dst: to.into(),
            move_to_trash: Some(true),
            ..proto::Rename2RequestProto::default()
        };
        let _: proto::Rename2ResponseProto = self.call("rename2", &request).await?;
        Ok(())
    }

    /// Whether the server can replace one version of a file, and no other.
    pub async fn can_replace(&self) -> Result<bool> {
        Ok(self.defaults().await?.abilities.has(Abilities::REPLACE))
    }

    /// Renames a file over one that is still the `replaced` one: else an error of the kind
    /// [`Conflict`](crate::ErrorKind::Conflict), and nothing changes. A server of HDFS cannot: [`Error::Unsupported`].
    pub async fn replace(&self, from: &str, to: &str, replaced: FileVersion) -> Result<()> {
        if !self.can_replace().await? {
            return Err(Error::Unsupported("replacing one version of a file, on this server"));
        }
        let FileVersion { id, modified, len } = replaced;
        let replaces = proto::FileVersionProto { file_id: id, modification_time: modified.0, length: len };
        let request = proto::Rename2RequestProto {
            src: from.into(),
            dst: to.into(),
            overwrite_dest: true,
            replaces: Some(replaces),
            ..proto::Rename2RequestProto::default()
        };
        let _: proto::Rename2ResponseProto = self.call("rename2", &request).await?;
        Ok(())
    }

    pub async fn set_permission(&self, path: &str, mode: u16) -> Result<()> {
        let request = proto::SetPermissionRequestProto { src: path.into(), permission: permission(mode) };
        let _: proto::SetPermissionResponseProto = self.call("setPermission", &request).await?;
        Ok(())
    }

    /// `None` leaves a name as it is.
    pub async fn set_owner(&self, path: &str, owner: Option<&str>, group: Option<&str>) -> Result<()> {
        let request = proto::SetOwnerRequestProto {
            src: path.into(),
            username: owner.map(Into::into),
            groupname: group.map(Into::into),
        };
        let _: proto::SetOwnerResponseProto = self.call("setOwner", &request).await?;
        Ok(())
    }

    /// `None` leaves a time as it is.
    pub async fn set_times(&self, path: &str, modified: Option<Millis>, accessed: Option<Millis>) -> Result<()> {
        let request = proto::SetTimesRequestProto {
            src: path.into(),
            mtime: modified.map_or(NONE, |time| time.0),
            atime: accessed.map_or(NONE, |time| time.0),
        };
        let _: proto::SetTimesResponseProto = self.call("setTimes", &request).await?;
        Ok(())
    }

    /// False if the path is not a file.
    pub async fn set_replication(&self, path: &str, replication: u16) -> Result<bool> {
        let request = proto::SetReplicationRequestProto { src: path.into(), replication: replication.into() };
        let answer: proto::SetReplicationResponseProto = self.call("setReplication", &request).await?;
        Ok(answer.result)
    }

    /// Sums over all that lies below a path.
    pub async fn summary(&self, path: &str) -> Result<Summary> {
        let request = proto::GetContentSummaryRequestProto { path: path.into() };
        let answer: proto::GetContentSummaryResponseProto = self.call("getContentSummary", &request).await?;
        let summary = answer.summary;
        let quota = |value| (value != NONE).then_some(value);
        Ok(Summary {
            len: summary.length,
            file_count: summary.file_count,
            directory_count: summary.directory_count,
            space_consumed: summary.space_consumed,
            quota: quota(summary.quota),
            space_quota: quota(summary.space_quota),
        })
    }

    pub async fn stats(&self) -> Result<FsStats> {
        let request = proto::GetFsStatusRequestProto::default();
        let answer: proto::GetFsStatsResponseProto = self.call("getFsStats", &request).await?;
        Ok(FsStats {
            capacity: answer.capacity,
            used: answer.used,
            remaining: answer.remaining,
            under_replicated_count: answer.under_replicated,
            corrupt_count: answer.corrupt_blocks,
            missing_count: answer.missing_blocks,
        })
    }

    /// True if the user may do all of `bits` (read 4, write 2, execute 1) with a path that is there.
    pub async fn may(&self, path: &str, bits: i32) -> Result<bool> {
        let request = proto::CheckAccessRequestProto { path: path.into(), mode: bits };
        let answer: Result<proto::CheckAccessResponseProto> = self.call("checkAccess", &request).await;
        match answer {
            Ok(_) => Ok(true),
            Err(Error::Denied(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Takes a file away from whoever writes it. True if it is closed; otherwise its recovery has begun.
    pub async fn recover_lease(&self, path: &str) -> Result<bool> {
        let request = proto::RecoverLeaseRequestProto { src: path.into(), client_name: self.session.holder.clone() };
        let answer: proto::RecoverLeaseResponseProto = self.call("recoverLease", &request).await?;
        Ok(answer.result)
    }

    /// Datanodes that are up.
    pub async fn live_datanode_count(&self) -> Result<usize> {
        Ok(self.live_datanodes().await?.len())
    }

    /// Where the datanodes that are up are reached, for data and for calls: `ip:port` of each.
    pub async fn server_addrs(&self) -> Result<BTreeSet<String>> {
        let nodes = self.live_datanodes().await?.into_iter();
        Ok(nodes.flat_map(|node| [node.addr.to_string(), node.ipc_addr()]).collect())
    }

    /// Where the blocks of a file are.
    pub async fn locations(&self, path: &str) -> Result<Vec<BlockLocation>> {
        let located = self.located(path, 0, LEN_ALL).await?;
        let place = |block: Located| BlockLocation {
            offset: block.offset,
            len: block.identity.len,
            hosts: block.nodes.iter().map(|node| node.host.clone()).collect(),
            addrs: block.nodes.iter().map(|node| node.addr.to_string()).collect(),
        };
        Ok(located.blocks.into_iter().map(place).collect())
    }
}

fn refuse_unless(done: bool, message: &'static str) -> Result<()> {
    if done { Ok(()) } else { Err(Error::NotDone(message)) }
}
