//! Reading objects.
//!
//! Promise: what is told of an object and its bytes are of one file, also while another takes its name: the file that
//! was opened is compared with the one that was asked about, and if they differ both are asked for again.

use crate::error::{generic, not_found, of_look};
use crate::{location, meta};
use bytes::{Bytes, BytesMut};
use client::{Client, Kind, RangeRead, Reader, Status};
use futures_util::stream::{self, BoxStream, StreamExt};
use object_store::path::Path;
use object_store::{Attributes, Error, GetOptions, GetRange, GetResult, GetResultPayload, Result};
use std::ops::Range;

/// Bytes of one item of a payload: with those in the socket's buffer, all that is read ahead of the consumer. A guess.
const CHUNK_LEN: u64 = 1 << 20;
/// Up to this a payload is read by one request for exactly these bytes; a longer one is streamed, and the stream that
/// is left before the end of a block may have brought some more. A guess: what is on its way on a wide link anyway.
const EXACT_LEN_MAX: u64 = 4 << 20;
/// Times an object is replaced between the question for its status and its opening, before that is an error.
const OPEN_COUNT_MAX: usize = 16;

/// The status of an object.
pub(crate) async fn status(client: &Client, location: &Path) -> Result<Status> {
    let path = location::existing(location)?;
    let status = client.status(&path).await.map_err(|error| of_look(location, error))?;
    status.filter(|status| status.kind == Kind::File).ok_or_else(|| not_found(location))
}

pub(crate) async fn get(client: &Client, location: &Path, options: GetOptions) -> Result<GetResult> {
    if options.version.is_some() {
        let operation = "`get_opts` with a version".to_owned();
        return Err(Error::NotImplemented { operation, implementer: client.url().to_string() });
    }
    let (status, reader) = match options.head {
        true => (self::status(client, location).await?, None),
        false => open(client, location, &options).await.map(|(status, reader)| (status, Some(reader)))?,
    };
    let meta = meta::of(location.clone(), &status);
    options.check_preconditions(&meta)?;
    let range = match &options.range {
        Some(range) => range.as_range(status.len).map_err(generic)?,
        None => 0..status.len,
    };
    let payload = match reader {
        Some(reader) => payload(location.clone(), reader, range.clone()),
        None => stream::empty().boxed(),
    };
    Ok(GetResult {
        payload: GetResultPayload::Stream(payload),
        meta,
        range,
        attributes: Attributes::default(),
        #[cfg(not(feature = "object_store_0_13"))]
        extensions: object_store::Extensions::default(),
    })
}

/// The status of an object, and a reader of the file that it is about.
pub(crate) async fn open(client: &Client, location: &Path, options: &GetOptions) -> Result<(Status, Reader)> {
    let path = location::existing(location)?;
    for _ in 0..OPEN_COUNT_MAX {
        let (status, reader) = if is_conditional(options) {
            // Often the answer is that there is nothing new.
            let status = self::status(client, location).await?;
            options.check_preconditions(&meta::of(location.clone(), &status))?;
            let reader = client.open_listed(&path, &status).await.map_err(|error| of_look(location, error))?;
            (status, reader)
        } else {
            // One round trip for both.
            let reader = async { client.open(&path).await.map_err(|error| of_look(location, error)) };
            futures_util::future::try_join(self::status(client, location), reader).await?
        };
        let is_same = match reader.file_id().await {
            Some(file) => Some(file == status.id),
            None => (status.len == 0).then_some(true),
        };
        let reader = match is_same {
            Some(true) => reader,
            Some(false) => continue,
            // The server does not say: it is the same if the path named it before and behind the opening.
            None => {
                let reader = client.open(&path).await.map_err(|error| of_look(location, error))?;
                if self::status(client, location).await?.id != status.id {
                    continue;
                }
                reader
            }
        };
        // It may have been appended to since; if it was cut, the status is not right any more.
        if reader.len() >= status.len {
            return Ok((status, reader));
        }
    }
    Err(generic(format!("/{location}: was replaced {OPEN_COUNT_MAX} times while it was opened")))
}

fn is_conditional(options: &GetOptions) -> bool {
    let GetOptions { if_match, if_none_match, if_modified_since, if_unmodified_since, .. } = options;
    if_match.is_some() || if_none_match.is_some() || if_modified_since.is_some() || if_unmodified_since.is_some()
}

fn payload(location: Path, mut reader: Reader, range: Range<u64>) -> BoxStream<'static, Result<Bytes>> {
    if range.is_empty() {
        return stream::empty().boxed();
    }
    if range.end - range.start <= EXACT_LEN_MAX {
        return stream::once(async move {
            let mut buffer = BytesMut::zeroed((range.end - range.start) as usize);
            let read = reader.read_at(range.start, &mut buffer).await;
            whole(&location, read, buffer)
        })
        .boxed();
    }
    reader.seek(range.start);
    let state = Some((location, reader));
    stream::unfold(state, move |state| async move {
        let (location, mut reader) = state?;
        let left = range.end.checked_sub(reader.position()).filter(|left| *left > 0)?;
        let mut buffer = BytesMut::zeroed(left.min(CHUNK_LEN) as usize);
        let read = reader.read(&mut buffer).await;
        let item = whole(&location, read, buffer);
        // Nothing follows an error.
        let state = item.is_ok().then_some((location, reader));
        Some((item, state))
    })
    .boxed()
}

/// All that was asked for lies before the end that the file had when it was opened.
fn whole(location: &Path, read: client::Result<usize>, buffer: BytesMut) -> Result<Bytes> {
    match read {
        Ok(len) if len == buffer.len() => Ok(buffer.freeze()),
        Ok(len) => Err(generic(format!("/{location}: {len} bytes where {} were asked for", buffer.len()))),
        Err(error) => Err(of_look(location, error)),
    }
}

/// Many ranges by one request a datanode.
pub(crate) async fn ranges(client: &Client, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
    if ranges.is_empty() {
        return Ok(Vec::new());
    }
    let path = location::existing(location)?;
    let reader = client.open(&path).await.map_err(|error| of_look(location, error))?;
    let wanted = |range: &Range<u64>| GetRange::Bounded(range.clone()).as_range(reader.len()).map_err(generic);
    let wanted = ranges.iter().map(wanted).collect::<Result<Vec<_>>>()?;
    let mut buffers: Vec<_> = wanted.iter().map(|range| BytesMut::zeroed((range.end - range.start) as usize)).collect();
    let reads = wanted.iter().zip(&mut buffers).map(|(range, dest)| RangeRead { offset: range.start, dest });
    let mut reads: Vec<_> = reads.collect();
    reader.read_ranges(&mut reads).await.map_err(|error| of_look(location, error))?;
    Ok(buffers.into_iter().map(BytesMut::freeze).collect())
}
