//! Answers on their way out of a server: batched, written with one system call, never copied together.

use crate::budget::Charge;
use crate::pace::{Pace, Patience};
use crate::seal::Seal;
use bytes::Bytes;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::Poll;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

/// Answers of one write. Two slices each, and the kernel takes 1024 slices at most.
const BATCH_COUNT_MAX: usize = 64;
/// Sealed bytes that wait to be written, but for one piece more.
const SEALED_LEN_MAX: usize = 64 << 10;

/// What an answer holds from before its call starts until it is sent: its place among the calls of its connection, and
/// memory, counted for the connection and for all.
#[derive(Debug)]
pub(crate) struct Room {
    pub(crate) _place: OwnedSemaphorePermit,
    pub(crate) own: Charge,
    pub(crate) all: Charge,
}

impl Room {
    /// Counts the answer's length instead of what was expected.
    pub(crate) fn made(&mut self, len: usize) {
        self.own.made(len);
        self.all.made(len);
    }
}

/// One frame to send, and what it holds until it is sent.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) head: Bytes,
    pub(crate) body: Bytes,
    /// The connection ends with this one.
    pub(crate) last: bool,
    /// Of what comes after this one.
    seal: Option<Seal>,
    /// Given back when it is sent.
    _held: Option<Room>,
}

impl Outgoing {
    /// An answer that belongs to no call.
    pub(crate) fn of_connection(head: Bytes, body: Bytes) -> Self {
        Self { head, body, last: false, seal: None, _held: None }
    }

    /// What comes after this one is sealed, if there is a seal.
    pub(crate) fn before(self, seal: Option<Seal>) -> Self {
        Self { seal, ..self }
    }

    pub(crate) fn of_call(head: Bytes, body: Bytes, last: bool, held: Room) -> Self {
        Self { head, body, last, seal: None, _held: Some(held) }
    }

    pub(crate) fn last(head: Bytes) -> Self {
        Self { last: true, ..Self::of_connection(head, Bytes::new()) }
    }
}

/// Sends what comes until all senders are gone or the last frame is out, and then ends the connection's outward half.
pub(crate) async fn write_all(
    socket: &mut (impl AsyncWrite + Unpin),
    answers: &mut mpsc::Receiver<Outgoing>,
    patience: &Patience,
) -> io::Result<()> {
    let mut batch: Vec<Outgoing> = Vec::new();
    let mut last = false;
    let mut seal: Option<Seal> = None;
    while !last && answers.recv_many(&mut batch, BATCH_COUNT_MAX).await > 0 {
        if let Some(end) = batch.iter().position(|answer| answer.last) {
            batch.truncate(end + 1);
            last = true;
        }
        let mut rest = &mut batch[..];
        while !rest.is_empty() {
            let begins = rest.iter().position(|answer| answer.seal.is_some());
            // A client may call before it heard that its exchange is over: what it is answered is sealed.
            let end = begins.filter(|_| seal.is_none()).map_or(rest.len(), |at| at + 1);
            let (now, later) = rest.split_at_mut(end);
            let len: usize = now.iter().map(|answer| answer.head.len() + answer.body.len()).sum();
            let pace = &mut patience.begin(len);
            match &seal {
                Some(seal) => write_sealed(socket, now, seal, pace).await?,
                None => {
                    write_batch(socket, now.iter().map(|answer| [&answer.head, &answer.body]), pace).await?;
                    seal = now.last().and_then(|answer| answer.seal.clone());
                }
            }
            rest = later;
        }
        batch.clear();
    }
    socket.shutdown().await
}

/// As [`write_batch`], in sealed pieces, so many at a time that what they take beside the answers is bounded.
async fn write_sealed(
    socket: &mut (impl AsyncWrite + Unpin),
    batch: &mut [Outgoing],
    seal: &Seal,
    pace: &mut Pace<'_>,
) -> io::Result<()> {
    let (mut pieces, mut len) = (Vec::new(), 0);
    for answer in batch.iter_mut() {
        let mut rest = [std::mem::take(&mut answer.head), std::mem::take(&mut answer.body)];
        while rest.iter().any(|part| !part.is_empty()) {
            let (head, token) = seal.seal_next(&mut rest)?;
            len += head.len() + token.len();
            pieces.push([head, token]);
            if len >= SEALED_LEN_MAX || pieces.len() == BATCH_COUNT_MAX {
                write_batch(socket, pieces.iter().map(|[head, token]| [head, token]), pace).await?;
                pieces.clear();
                len = 0;
            }
        }
    }
    write_batch(socket, pieces.iter().map(|[head, token]| [head, token]), pace).await
}

async fn write_batch<'a>(
    socket: &mut (impl AsyncWrite + Unpin),
    batch: impl Iterator<Item = [&'a Bytes; 2]>,
    pace: &mut Pace<'_>,
) -> io::Result<()> {
    let mut slices = [IoSlice::new(&[]); 2 * BATCH_COUNT_MAX];
    let mut count = 0;
    for parts in batch {
        for bytes in parts {
            if !bytes.is_empty() {
                slices[count] = IoSlice::new(bytes);
                count += 1;
            }
        }
    }
    let mut rest = &mut slices[..count];
    while !rest.is_empty() {
        match pace.step(socket.write_vectored(rest)).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => IoSlice::advance_slices(&mut rest, written),
        }
    }
    // A socket has nothing left, and is not waited for.
    let flushed = poll_fn(|context| Poll::Ready(Pin::new(&mut *socket).poll_flush(context))).await;
    match flushed {
        Poll::Ready(flushed) => flushed,
        Poll::Pending => pace.step(async { socket.flush().await.map(|()| 0) }).await.map(|_: usize| ()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ServerOptions;
    use crate::budget::Budget;
    use std::time::Duration;
    use tokio::io::AsyncReadExt;

    fn answer(text: &'static str) -> Outgoing {
        let (head, body) = text.split_at(text.len() / 2);
        Outgoing::of_connection(Bytes::from_static(head.as_bytes()), Bytes::from_static(body.as_bytes()))
    }

    fn patience(ms: u64) -> Patience {
        Patience::new(Duration::from_millis(ms), &ServerOptions::default(), &Budget::new(1 << 20))
    }

    /// The pipe takes three bytes at a time; what comes after the last answer stays behind.
    #[tokio::test]
    async fn answers_go_out_whole_and_in_order() {
        let (mut near, mut far) = tokio::io::duplex(3);
        let (sender, mut receiver) = mpsc::channel(9);
        for outgoing in [answer("abcde"), answer("x"), Outgoing { last: true, ..answer("fgh") }, answer("never")] {
            sender.try_send(outgoing).unwrap();
        }
        let mut text = String::new();
        let patience = patience(1000);
        let (written, read) =
            tokio::join!(write_all(&mut near, &mut receiver, &patience), far.read_to_string(&mut text));
        written.unwrap();
        read.unwrap();
        assert_eq!(text, "abcdexfgh");
    }

    /// Turns each byte around.
    struct Inverted;

    impl security::sasl::rpc::Protector for Inverted {
        fn wrap(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
            out.extend(piece.iter().map(|byte| !byte));
            Ok(())
        }

        fn unwrap(&mut self, sealed: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
            self.wrap(sealed, out)
        }
    }

    /// A client that calls before it heard that its exchange is over has its answer in the same batch.
    #[tokio::test]
    async fn nothing_leaves_unsealed_behind_the_exchange() {
        let (mut near, mut far) = tokio::io::duplex(1 << 10);
        let (sender, mut receiver) = mpsc::channel(9);
        let seal = Seal::new(crate::seal::End::Server, Box::new(Inverted));
        for outgoing in [answer("challenge"), answer("success").before(Some(seal)), answer("secret"), answer("more")] {
            sender.try_send(outgoing).unwrap();
        }
        drop(sender);
        let mut sent = Vec::new();
        let patience = patience(1000);
        let (written, read) = tokio::join!(write_all(&mut near, &mut receiver, &patience), far.read_to_end(&mut sent));
        written.unwrap();
        read.unwrap();
        let inverted = |text: &str| text.bytes().map(|byte| !byte).collect::<Vec<u8>>();
        let has = |text: &[u8]| sent.windows(text.len()).any(|window| window == text);
        assert!(sent.starts_with(b"challengesuccess"));
        assert!(has(&inverted("secret")) && has(&inverted("more")) && !has(b"secret") && !has(b"more"));
    }

    #[tokio::test]
    async fn who_takes_nothing_is_cut_off() {
        let (mut near, _far) = tokio::io::duplex(3);
        let (sender, mut receiver) = mpsc::channel(9);
        sender.try_send(answer("abcde")).unwrap();
        let written = write_all(&mut near, &mut receiver, &patience(10)).await;
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
