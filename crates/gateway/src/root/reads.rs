//! Bytes of open files: a part of an answer at a time, read into the buffer that is sent.
//!
//! While the client takes one part, the next is read. Before the last one, the file is looked at once more; at an edge
//! now and then before.

use super::file::{OpenFile, Opening, opened};
use super::not_done::NotDone;
use super::refusals::of_read;
use super::shared::Common;
use client::RangeRead;
use futures_util::future::try_join_all;
use std::collections::HashMap;
use std::sync::Arc;
use xroot::limits::PART_LEN_MAX;
use xroot::{
    Element, ElementRead, ErrorCode, Handle, PagesFrame, Refusal, ResponseHeader, StreamId, VectorPart, answer,
};

/// Bytes that the file has of what was asked for. Beyond its end there is nothing, which is no error.
fn clipped(file: &OpenFile, offset: u64, len: u32) -> u64 {
    u64::from(len).min(file.len().saturating_sub(offset))
}

async fn fill(file: &OpenFile, offset: u64, dest: &mut [u8]) -> Result<(), Refusal> {
    let wanted = dest.len();
    let read = file.opened.read_at(offset, dest).await.map_err(|error| of_read(&error))?;
    if read < wanted {
        return Err(Refusal::new(ErrorCode::IoError, "the file ends before it should"));
    }
    Ok(())
}

pub(super) async fn read(
    common: &Common,
    stream: StreamId,
    file: &OpenFile,
    offset: u64,
    len: u32,
) -> Result<(), NotDone> {
    let (mut at, mut left) = (offset, clipped(file, offset, len));
    loop {
        let len = left.min(PART_LEN_MAX as u64) as usize;
        let mut frame = common.outbox.frame(ResponseHeader::LEN + len).await?;
        fill(file, at, &mut frame[ResponseHeader::LEN..]).await?;
        (at, left) = (at + len as u64, left - len as u64);
        match left == 0 {
            true => file.must_be_the_same().await?,
            false => file.may_go_on().await?,
        }
        answer::seal(stream, left == 0, &mut frame);
        common.outbox.put(frame).await?;
        if left == 0 {
            return Ok(());
        }
    }
}

pub(super) async fn read_pages(
    common: &Common,
    stream: StreamId,
    file: &OpenFile,
    offset: u64,
    len: u32,
) -> Result<(), NotDone> {
    let (mut at, mut left) = (offset, clipped(file, offset, len));
    loop {
        let part = PagesFrame::next(at, left);
        let mut frame = common.outbox.frame(part.frame_len()).await?;
        fill(file, at, part.data(&mut frame)).await?;
        match part.is_last() {
            true => file.must_be_the_same().await?,
            false => file.may_go_on().await?,
        }
        part.seal(stream, &mut frame);
        common.outbox.put(frame).await?;
        if part.is_last() {
            return Ok(());
        }
        (at, left) = (at + part.data_len() as u64, left - part.data_len() as u64);
    }
}

pub(super) async fn read_vector(
    common: &Common,
    stream: StreamId,
    files: HashMap<Handle, Opening>,
    elements: &[Element],
) -> Result<(), NotDone> {
    let mut open = HashMap::with_capacity(files.len());
    for (handle, opening) in files {
        open.insert(handle, opened(opening).await?);
    }
    let reaches_beyond = |element: &Element| {
        let end = element.offset.saturating_add(element.len.into());
        open.get(&element.handle).is_none_or(|file| end > file.len())
    };
    // As XRootD's server has it: a read vector is exact.
    if elements.iter().any(reaches_beyond) {
        return Err(Refusal::new(ErrorCode::IoError, "a read vector reaches beyond the end of a file").into());
    }
    for part in VectorPart::all(elements) {
        let mut frame = common.outbox.frame(part.frame_len()).await?;
        read_part(&open, part.prepare(stream, &mut frame)).await?;
        match part.is_last() {
            true => try_join_all(open.values().map(|file| file.must_be_the_same())).await?,
            false => try_join_all(open.values().map(|file| file.may_go_on())).await?,
        };
        common.outbox.put(frame).await?;
    }
    Ok(())
}

/// What each file has of it, by one call.
async fn read_part(open: &HashMap<Handle, Arc<OpenFile>>, reads: Vec<ElementRead<'_>>) -> Result<(), Refusal> {
    let mut of_files: HashMap<Handle, Vec<RangeRead<'_>>> = HashMap::new();
    for ElementRead { handle, offset, dest } in reads {
        of_files.entry(handle).or_default().push(RangeRead { offset, dest });
    }
    let reading = of_files.into_iter().map(async |(handle, mut ranges)| match open.get(&handle) {
        Some(file) => file.opened.read_ranges(&mut ranges).await.map_err(|error| of_read(&error)),
        None => Err(Refusal::new(ErrorCode::FileNotOpen, "no open file has this handle")),
    });
    try_join_all(reading).await.map(drop)
}
