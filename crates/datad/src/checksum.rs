//! The digest of a block (op 85), made from its stored checksums; only a partial last chunk is read.

use crate::admission::Named;
use crate::data_service::DataService;
use crate::operations::Operation;
use container::Reader;
use hdfs::proto::{
    BlockChecksumTypeProto as Kind, BlockOpResponseProto, OpBlockChecksumProto, OpBlockChecksumResponseProto,
};
use md5::{Digest, Md5};
use security::block_token::Mode;
use std::sync::Arc;
use types::checksum::Appender;
use types::{ChecksumKind, ChecksumSpec};
use xfer::answer::{Refusal, success};

/// Checksums read at a time.
const WINDOW_LEN: u64 = 256 << 10;

pub(crate) async fn serve(
    service: &Arc<DataService>,
    op: OpBlockChecksumProto,
) -> Result<BlockOpResponseProto, Refusal> {
    let counted = service.operations.begin(Operation::Checksum, || service.now());
    counted.answered(of_block(service, op).await)
}

async fn of_block(service: &Arc<DataService>, op: OpBlockChecksumProto) -> Result<BlockOpResponseProto, Refusal> {
    let (named, at) = (service.admission.block(&op.header, Mode::Read, false)?, Arc::clone(service));
    service.replicas.disks.for_block(named.block(), move |_| answer(&at, named, &op)).await?
}

/// Blocks: the checksums come from the disk.
fn answer(service: &DataService, named: Named, op: &OpBlockChecksumProto) -> Result<BlockOpResponseProto, Refusal> {
    let reader = service.replicas.disks.read(named.block(), named.generation())?;
    service.admission.must_cover(&named, reader.identity().file)?;
    let len = match op.header.block.num_bytes {
        None => reader.visible_len(), // who does not say means all
        Some(len) if len <= reader.len() => len,
        Some(len) => return Err(Refusal::error(format!("{} has {} bytes, not {len}", named.block(), reader.len()))),
    };
    let options = op.block_checksum_options;
    let kind = options.map_or(Kind::Md5crc, |options| options.block_checksum_type());
    let spec = reader.checksum();
    let digest = match kind {
        Kind::Md5crc => md5_of_sums(&reader, len)?,
        Kind::CompositeCrc if spec.kind == ChecksumKind::Null => {
            return Err(Refusal::error(format!("{} has no checksums to compose", named.block())));
        }
        Kind::CompositeCrc => composite_of_sums(&reader, len)?,
    };
    let response = OpBlockChecksumResponseProto {
        bytes_per_crc: spec.chunk_len,
        crc_per_block: spec.sums_len(reader.len()) / ChecksumSpec::SUM_LEN as u64,
        block_checksum: digest.into(),
        crc_type: Some(spec.kind as i32),
        block_checksum_options: options,
    };
    Ok(BlockOpResponseProto { checksum_response: Some(response), ..success() })
}

fn md5_of_sums(reader: &Reader, len: u64) -> Result<Vec<u8>, Refusal> {
    let mut md5 = Md5::new();
    visit_sums(reader, len, |sum, _| md5.update(sum.to_be_bytes()))?;
    Ok(md5.finalize().to_vec())
}

fn composite_of_sums(reader: &Reader, len: u64) -> Result<Vec<u8>, Refusal> {
    let spec = reader.checksum();
    let appender = Appender::new(spec.kind, spec.chunk_len.into());
    let mut total = 0;
    visit_sums(reader, len, |sum, chunk_len| {
        total = if chunk_len == u64::from(spec.chunk_len) {
            appender.append(total, sum)
        } else {
            Appender::new(spec.kind, chunk_len).append(total, sum)
        };
    })?;
    Ok(total.to_be_bytes().to_vec())
}

/// Shows the checksums of the first `len` bytes, each with how many bytes it covers.
fn visit_sums(reader: &Reader, len: u64, mut visit: impl FnMut(u32, u64)) -> Result<(), Refusal> {
    let spec = reader.checksum();
    if spec.kind == ChecksumKind::Null {
        return Ok(());
    }
    let chunk_len = u64::from(spec.chunk_len);
    // A last chunk that was asked for only in part has no stored checksum, unless the replica ends there as well.
    let cut = !len.is_multiple_of(chunk_len) && len != reader.len();
    let stored_len = if cut { len - len % chunk_len } else { len };
    let window = (WINDOW_LEN / ChecksumSpec::SUM_LEN as u64).saturating_mul(chunk_len);
    let mut sums = Vec::new();
    let mut at = 0;
    while at < stored_len {
        let piece_len = window.min(stored_len - at);
        sums.clear();
        reader.sums(at, piece_len, &mut sums)?;
        for (place, sum) in (0..).zip(sums.as_chunks::<4>().0) {
            visit(u32::from_be_bytes(*sum), chunk_len.min(piece_len - place * chunk_len));
        }
        at += piece_len;
    }
    if cut {
        visit(reader.partial_sum(stored_len, len - stored_len)?, len - stored_len);
    }
    Ok(())
}
