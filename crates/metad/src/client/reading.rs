//! Methods that read: status, listings, locations, totals, rights.

use super::quotas;
use super::totals::totals;
use crate::answer::Encoded;
use crate::block_tokens::{self, ReadTokens};
use crate::core::{Core, find_path, must_find};
use crate::refusal;
use crate::session::Session;
use crate::to_hdfs::{self, Locator};
use hdfs::Exception;
use hdfs::exception::{FILE_NOT_FOUND, Kind};
use hdfs::located::Located;
use hdfs::proto::*;
use namespace::read::{self};
use namespace::{Access, FileBlocks, TouchAccessTime};
use prost::Message;
use std::sync::Arc;
use std::time::Duration;
use types::FsPath;

/// A missing path is an empty answer, never an error.
pub(super) async fn get_file_info(
    core: &Core,
    session: &Session,
    request: GetFileInfoRequestProto,
) -> Result<GetFileInfoResponseProto, Exception> {
    Ok(GetFileInfoResponseProto { fs: plain_status(core, session, "getFileInfo", &request.src).await? })
}

/// There are no symbolic links.
pub(super) async fn get_file_link_info(
    core: &Core,
    session: &Session,
    request: GetFileLinkInfoRequestProto,
) -> Result<GetFileLinkInfoResponseProto, Exception> {
    Ok(GetFileLinkInfoResponseProto { fs: plain_status(core, session, "getFileLinkInfo", &request.src).await? })
}

async fn plain_status(
    core: &Core,
    session: &Session,
    call: &str,
    src: &str,
) -> Result<Option<HdfsFileStatusProto>, Exception> {
    let Some(path) = find_path(call, src)? else { return Ok(None) };
    let status = status_of(core, session, &path).await?;
    Ok(status.map(|status| to_hdfs::status(&status, None)))
}

pub(super) async fn get_located_file_info(
    core: &Arc<Core>,
    session: &Session,
    request: GetLocatedFileInfoRequestProto,
) -> Result<Encoded, Exception> {
    let src = request.src.unwrap_or_default();
    let nothing = GetLocatedFileInfoResponseProto { fs: None };
    let Some(path) = find_path("getLocatedFileInfo", &src)? else { return encode(nothing) };
    let Some(status) = status_of(core, session, &path).await? else { return encode(nothing) };
    if status.kind == namespace::Kind::Directory {
        return encode(GetLocatedFileInfoResponseProto { fs: Some(to_hdfs::status(&status, None)) });
    }
    let file = located(core, session, &path, 0, u64::MAX).await?;
    draw(core, session, file, move |located| {
        let fs = Some(to_hdfs::status(&status, Some(&located)));
        Encoded(GetLocatedFileInfoResponseProto { fs }.encode_to_vec().into())
    })
    .await
}

pub(super) async fn get_block_locations(
    core: &Arc<Core>,
    session: &Session,
    request: GetBlockLocationsRequestProto,
) -> Result<Encoded, Exception> {
    if request.offset > i64::MAX as u64 || request.length > i64::MAX as u64 {
        return Err(refusal::illegal("Negative offset or length is not supported."));
    }
    let path = must_find("getBlockLocations", &request.src)?;
    let file = located(core, session, &path, request.offset, request.length).await?;
    touch(core, &path, &file);
    draw(core, session, file, |located| Encoded(located.into_answer())).await
}

async fn status_of(core: &Core, session: &Session, path: &FsPath) -> Result<Option<namespace::Status>, Exception> {
    let (caller, path) = (session.caller.clone(), path.clone());
    core.read(move |rows| read::status(rows, &caller, &path)).await
}

async fn located(
    core: &Core,
    session: &Session,
    path: &FsPath,
    offset: u64,
    len: u64,
) -> Result<FileBlocks, Exception> {
    let (caller, path) = (session.caller.clone(), path.clone());
    core.read(move |rows| read::located(rows, &caller, &path, offset, len)).await
}

/// The answer with a file's blocks and their nodes. Of a long file that is tens of megabytes, so few are made at a
/// time, and none on the runtime's threads.
async fn draw(
    core: &Arc<Core>,
    session: &Session,
    file: FileBlocks,
    answer: impl FnOnce(Located) -> Encoded + Send + 'static,
) -> Result<Encoded, Exception> {
    block_tokens::ready(core).await;
    let (its_core, its_session, count) = (Arc::clone(core), session.clone(), file.blocks.len());
    let draw = move || {
        let (host, tokens) = (its_session.host(), ReadTokens::of(&its_core, &its_session));
        Ok(answer(Locator::new(&its_core, &host).located_blocks(&its_core, &file, tokens)?))
    };
    if count <= to_hdfs::DRAWN_COUNT { draw() } else { core.walk(session, draw).await }
}

fn encode(answer: impl Message) -> Result<Encoded, Exception> {
    Ok(Encoded(answer.encode_to_vec().into()))
}

/// Sets the access time if it is too old, beside the answer: a read does not wait for a write.
fn touch(core: &Arc<Core>, path: &FsPath, file: &FileBlocks) {
    let now = core.now();
    let precision = Duration::from_millis(core.config.access_time_ms);
    if precision.is_zero() || now.since(file.status.accessed) <= precision {
        return;
    }
    if !core.safe_mode().is_ok_and(|mode| mode.is_none()) {
        return; // as HDFS
    }
    let (core, path) = (Arc::clone(core), path.clone());
    io::task::spawn("access time", async move {
        if let Err(error) = core.change_unasked(TouchAccessTime { path, at: now }).await {
            tracing::debug!(%error, "access time not recorded");
        }
    });
}

pub(super) async fn get_content_summary(
    core: &Arc<Core>,
    session: &Session,
    request: GetContentSummaryRequestProto,
) -> Result<GetContentSummaryResponseProto, Exception> {
    let path = must_find("getContentSummary", &request.path)?;
    let totals = totals(core, session, &path).await?;
    let (caller, its_path) = (session.caller.clone(), path.clone());
    let quota = core.read(move |rows| read::quota(rows, &caller, &its_path)).await?;
    let is_file = totals.directory_count == 0;
    let summary = ContentSummaryProto {
        length: totals.len,
        file_count: totals.file_count,
        directory_count: totals.directory_count,
        quota: quotas::names_limit(&path, quota.as_ref()),
        space_consumed: totals.space,
        space_quota: quotas::space_limit(quota.as_ref()),
        type_quota_infos: quotas::type_quotas(quota.as_ref(), totals.space),
        snapshot_length: Some(0),
        snapshot_file_count: Some(0),
        snapshot_directory_count: Some(0),
        snapshot_space_consumed: Some(0),
        // Files are kept in whole replicas; of a directory this is the policy set on it, which is none.
        erasure_coding_policy: Some(if is_file { "Replicated".into() } else { String::new() }),
    };
    Ok(GetContentSummaryResponseProto { summary })
}

pub(super) async fn get_preferred_block_size(
    core: &Core,
    session: &Session,
    request: GetPreferredBlockSizeRequestProto,
) -> Result<GetPreferredBlockSizeResponseProto, Exception> {
    let path = must_find("getPreferredBlockSize", &request.filename)?;
    match status_of(core, session, &path).await? {
        Some(status) if status.kind == namespace::Kind::File => {
            Ok(GetPreferredBlockSizeResponseProto { bsize: status.block_len })
        }
        Some(_) => {
            let refusal = Exception::new(FILE_NOT_FOUND, format!("Path is not a file: {path}"));
            Err(refusal.with_kind(Kind::IsADirectory))
        }
        None => Err(Exception::new(FILE_NOT_FOUND, format!("File does not exist: {path}"))),
    }
}

pub(super) async fn is_file_closed(
    core: &Core,
    session: &Session,
    request: IsFileClosedRequestProto,
) -> Result<IsFileClosedResponseProto, Exception> {
    let path = must_find("isFileClosed", &request.src)?;
    let caller = session.caller.clone();
    let result = core.read(move |rows| read::is_closed(rows, &caller, &path)).await?;
    Ok(IsFileClosedResponseProto { result })
}

pub(super) async fn check_access(
    core: &Core,
    session: &Session,
    request: CheckAccessRequestProto,
) -> Result<CheckAccessResponseProto, Exception> {
    let absent = || Exception::new(FILE_NOT_FOUND, format!("Path not found: {}", request.path));
    let path = find_path("checkAccess", &request.path)?.ok_or_else(absent)?;
    let bits = u8::try_from(request.mode).ok().filter(|bits| *bits <= 7);
    let bits = bits.ok_or_else(|| refusal::illegal(format!("invalid access mode {}", request.mode)))?;
    let caller = session.caller.clone();
    core.read(move |rows| read::check_access(rows, &caller, &path, Access::from_bits(bits))).await?;
    Ok(CheckAccessResponseProto {})
}
