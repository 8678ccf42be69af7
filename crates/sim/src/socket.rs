//! Connections that carry bytes, as TCP does.
//!
//! ```text
//!  send ─▶ │ under way: pieces, each with its time │ inbox │ ─▶ read, which may cut anywhere
//!          └──────── no more than SOCKET_LEN ─────────────┘
//! ```
//!
//! Promise: bytes arrive in their order or not at all. A way that is cut holds them up. The process of a host that was
//! killed ends its connections; one that lost power says nothing until it is up again.

use crate::executor::{Boxed, HostId};
use crate::net::{CallError, Net, RETRANSMIT_FIRST, RETRANSMIT_LAST};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;

/// What the buffers of both ends hold together: some packets of a simulated writer, so that they fill up at times.
const SOCKET_LEN: usize = 600;

/// One end of a connection.
pub(crate) struct Socket {
    out: Rc<Way>,
    into: Rc<Way>,
}

/// What a read found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    Bytes(usize),
    Nothing,
    End,
}

/// The other end is gone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gone;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ready {
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// Nobody takes bytes any more.
    pub(crate) closed: bool,
}

impl Ready {
    pub(crate) fn is_any(self) -> bool {
        self.readable || self.writable || self.closed
    }
}

struct Way {
    net: Net,
    from: HostId,
    to: HostId,
    to_life: u64,
    /// With the time when each is due; `None` is the end.
    under_way: RefCell<VecDeque<(Duration, Option<Vec<u8>>)>>,
    under_way_len: Cell<usize>,
    last: Cell<Duration>,
    pumping: Cell<bool>,
    inbox: RefCell<VecDeque<u8>>,
    reader: RefCell<Option<Waker>>,
    writer: RefCell<Option<Waker>>,
    /// The sender has ended it; and the receiver knows.
    end_sent: Cell<bool>,
    ended: Cell<bool>,
    /// The sender knows that nobody takes its bytes.
    broken: Cell<bool>,
}

impl Net {
    /// A connection from one host to another, both of which are up.
    fn socket_pair(&self, from: HostId, to: HostId) -> (Socket, Socket) {
        let (there, back) = (Way::new(self, from, to), Way::new(self, to, from));
        (Socket { out: Rc::clone(&there), into: Rc::clone(&back) }, Socket { out: back, into: there })
    }

    /// Connects to host `to`, where `accept` gets the other end; false if nobody listens.
    pub(crate) async fn dial(
        &self,
        from: HostId,
        to: HostId,
        limit: Duration,
        accept: impl FnOnce(Socket) -> bool + 'static,
    ) -> Result<Socket, CallError> {
        let net = self.clone();
        let serve = move || {
            let (near, far) = net.socket_pair(from, to);
            let accepted: Option<Boxed<Socket>> =
                accept(far).then(|| -> Boxed<Socket> { Box::pin(std::future::ready(near)) });
            accepted
        };
        self.call(from, to, limit, serve).await
    }
}

fn wake(waker: &RefCell<Option<Waker>>) {
    if let Some(waker) = waker.borrow_mut().take() {
        waker.wake();
    }
}

impl Way {
    fn new(net: &Net, from: HostId, to: HostId) -> Rc<Self> {
        Rc::new(Self {
            net: net.clone(),
            from,
            to,
            to_life: net.life(to),
            under_way: RefCell::default(),
            under_way_len: Cell::default(),
            last: Cell::default(),
            pumping: Cell::default(),
            inbox: RefCell::default(),
            reader: RefCell::default(),
            writer: RefCell::default(),
            end_sent: Cell::default(),
            ended: Cell::default(),
            broken: Cell::default(),
        })
    }

    fn room(&self) -> usize {
        SOCKET_LEN.saturating_sub(self.under_way_len.get() + self.inbox.borrow().len())
    }

    fn push(self: &Rc<Self>, item: Option<Vec<u8>>) {
        let due = (self.net.sim().now() + self.net.latency()).max(self.last.get());
        self.last.set(due);
        self.under_way_len.set(self.under_way_len.get() + item.as_ref().map_or(0, Vec::len));
        self.under_way.borrow_mut().push_back((due, item));
        if !self.pumping.replace(true) {
            let way = Rc::clone(self);
            self.net.sim().spawn(HostId::NOBODY, async move { way.pump().await });
        }
    }

    async fn pump(self: Rc<Self>) {
        let sim = self.net.sim().clone();
        let mut retransmit = RETRANSMIT_FIRST;
        loop {
            let due = self.under_way.borrow().front().map(|(due, _)| *due);
            let Some(due) = due else { break };
            sim.sleep_until(due).await;
            if self.net.is_cut(self.from, self.to) || self.net.is_silent(self.to) {
                sim.sleep(retransmit).await;
                retransmit = (retransmit * 2).min(RETRANSMIT_LAST);
                continue;
            }
            retransmit = RETRANSMIT_FIRST;
            if !self.net.is_up(self.to) || self.net.life(self.to) != self.to_life {
                self.under_way.borrow_mut().clear();
                self.breaks();
                break;
            }
            match self.under_way.borrow_mut().pop_front() {
                Some((_, Some(bytes))) => {
                    self.under_way_len.set(self.under_way_len.get() - bytes.len());
                    self.inbox.borrow_mut().extend(bytes);
                }
                _ => self.ended.set(true),
            }
            wake(&self.reader);
        }
        self.pumping.set(false);
    }

    fn breaks(&self) {
        self.broken.set(true);
        wake(&self.writer);
    }

    fn end(self: &Rc<Self>) {
        if !self.end_sent.replace(true) {
            self.push(None);
        }
    }
}

impl Socket {
    /// Sends what there is room for.
    pub(crate) fn send(&self, bytes: &[u8]) -> Result<usize, Gone> {
        if self.out.broken.get() || self.out.end_sent.get() {
            return Err(Gone);
        }
        let mut len = bytes.len().min(self.out.room());
        if len > 1 && self.out.net.sim().one_in(8) {
            len = 1 + self.out.net.sim().below(len);
        }
        if len > 0 {
            self.out.push(Some(bytes[..len].to_vec()));
        }
        Ok(len)
    }

    /// Takes what is there, or a part of it.
    pub(crate) fn read(&self, room: &mut [u8]) -> Came {
        let mut inbox = self.into.inbox.borrow_mut();
        if inbox.is_empty() {
            return if self.into.ended.get() { Came::End } else { Came::Nothing };
        }
        let mut len = inbox.len().min(room.len());
        if len > 1 && self.into.net.sim().one_in(4) {
            len = 1 + self.into.net.sim().below(len);
        }
        for (place, byte) in room.iter_mut().zip(inbox.drain(..len)) {
            *place = byte;
        }
        drop(inbox);
        wake(&self.into.writer);
        Came::Bytes(len)
    }

    /// What the socket is ready for of what is wanted; if for nothing, who waits is woken when that changes.
    pub(crate) fn poll_ready(&self, context: &mut Context<'_>, read: bool, write: bool) -> Ready {
        let ready = Ready {
            readable: read && (self.into.ended.get() || !self.into.inbox.borrow().is_empty()),
            writable: write && (self.out.broken.get() || self.out.room() > 0),
            closed: self.out.broken.get() && self.into.ended.get(),
        };
        if !ready.is_any() {
            *self.into.reader.borrow_mut() = Some(context.waker().clone());
            *self.out.writer.borrow_mut() = Some(context.waker().clone());
        }
        ready
    }

    /// Sends nothing more.
    pub(crate) fn shutdown(&self) {
        self.out.end();
    }

    /// Returns when there is something to read, or something can be sent.
    pub(crate) async fn ready(&self, read: bool, write: bool) -> Ready {
        std::future::poll_fn(|context| {
            let ready = self.poll_ready(context, read, write);
            if ready.is_any() { std::task::Poll::Ready(ready) } else { std::task::Poll::Pending }
        })
        .await
    }

    /// Takes what comes next; `None` at the end.
    pub(crate) async fn receive(&self, came: &mut Vec<u8>) -> Option<()> {
        let mut piece = [0; SOCKET_LEN];
        loop {
            match self.read(&mut piece) {
                Came::Bytes(len) => {
                    came.extend_from_slice(&piece[..len]);
                    return Some(());
                }
                Came::End => return None,
                Came::Nothing => _ = self.ready(true, false).await,
            }
        }
    }

    /// As readv(2): `first` is filled before `second`.
    pub(crate) fn read_both(&self, first: &mut [u8], second: &mut [u8]) -> Came {
        if first.is_empty() {
            return self.read(second);
        }
        match self.read(first) {
            Came::Bytes(len) if len == first.len() && !second.is_empty() => match self.read(second) {
                Came::Bytes(more) => Came::Bytes(len + more),
                Came::Nothing | Came::End => Came::Bytes(len),
            },
            came => came,
        }
    }

    /// Sends all of `bytes`.
    pub(crate) async fn send_all(&self, mut bytes: &[u8]) -> Result<(), Gone> {
        while !bytes.is_empty() {
            let len = self.send(bytes)?;
            bytes = &bytes[len..];
            if !bytes.is_empty() && len == 0 {
                self.ready(false, true).await;
            }
        }
        Ok(())
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if !self.out.net.is_silent(self.out.from) {
            self.out.end();
            let into = Rc::clone(&self.into);
            let net = into.net.clone();
            net.sim().clone().spawn(HostId::NOBODY, async move {
                net.travel(into.to, into.from).await;
                into.breaks();
            });
        }
    }
}
