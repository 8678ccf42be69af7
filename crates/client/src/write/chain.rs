//! The driver of one stream: a socket, a task that takes acks, and the wakers of those who wait for them. What may be
//! sent, what an ack means and when the nodes count as lost is decided in [`xfer::writer`].
//!
//! Every future here may be dropped: the stream knows how many bytes the socket has taken, and whoever writes next
//! goes on behind them.

use crate::client::Client;
use crate::located::Node;
use crate::protection::not_connected;
use crate::scope::Task;
use crate::socket::Socket;
use ::io::Clock;
use hdfs::proto::TokenProto;
use sasl::Secret;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use xfer::fault::Fault;
use xfer::writer::{Break, Opening, Outgoing, Packet, Patience, Rest, SetUp, Stream};

/// Room for the acks of one read, or for an answer.
const READ_LEN: usize = 2048;
/// Rounds between two pauses. A guess.
const ROUND_COUNT_MAX: u32 = 64;

#[derive(Debug)]
pub(super) struct Chain {
    shared: Arc<Shared>,
    _acks: Task<()>,
}

struct Shared {
    socket: Socket,
    clock: Arc<dyn Clock>,
    /// Held by whoever sends.
    turn: tokio::sync::Mutex<()>,
    stream: Mutex<Stream>,
    /// The window shrank, or the stream broke.
    changed: Notify,
    /// The stream is to be woken earlier than it said before.
    hurry: Notify,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

impl Chain {
    /// Sets up a stream to `first` and the nodes behind it.
    pub(super) async fn open(
        client: &Client,
        first: &Node,
        opening: &Opening,
        patience: Patience,
    ) -> Result<Self, Break> {
        let clock = Arc::clone(&client.options().clock);
        let mut set_up = SetUp::new(clock.monotonic(), opening, patience);
        let socket = connect(client, first, opening, &mut set_up, &*clock).await;
        if let Some(socket) = &socket {
            ask(socket, &mut set_up, &*clock).await;
        }
        let stream = set_up.into_stream(clock.monotonic())?;
        let shared = Arc::new(Shared {
            socket: socket.expect("a stream over a connection"),
            clock,
            turn: tokio::sync::Mutex::default(),
            stream: Mutex::new(stream),
            changed: Notify::new(),
            hurry: Notify::new(),
        });
        let acks = client.spawn("acks of a write chain", take_acks(Taking(Arc::clone(&shared))));
        Ok(Self { shared, _acks: acks })
    }

    /// Returns when another packet may be pushed.
    pub(super) async fn room(&self) -> Result<(), ()> {
        self.send_rest().await?; // of a send that was dropped
        self.until(Stream::has_room).await
    }

    /// Takes a packet into the window. [`Chain::write`] sends it.
    pub(super) fn push(&self, packet: Arc<Packet>) {
        self.shared.stream().push(packet);
    }

    /// Sends what was pushed. Gives back packets whose acks have come.
    pub(super) async fn write(&self) -> Result<Vec<Arc<Packet>>, ()> {
        self.send_rest().await?;
        Ok(self.shared.stream().take_spent())
    }

    /// Returns when every packet is sent and acknowledged.
    pub(super) async fn drain(&self) -> Result<(), ()> {
        self.send_rest().await?;
        self.until(Stream::is_drained).await
    }

    pub(super) fn is_broken(&self) -> bool {
        self.shared.stream().is_broken()
    }

    /// What became of a broken chain.
    pub(super) fn into_rest(self) -> Rest {
        self.shared.stream().take_rest()
    }

    async fn send_rest(&self) -> Result<(), ()> {
        let sending = async {
            self.shared.send_all().await;
            // A connection that takes no bytes breaks before long; the acks may tell which node it was.
            if self.shared.stream().is_torn() { self.until(|_| false).await } else { Ok(()) }
        };
        tokio::select! {
            biased;
            sent = sending => sent,
            _ = self.until(|_| false) => Err(()),
        }
    }

    /// `Err` once the chain is broken.
    async fn until(&self, done: impl Fn(&Stream) -> bool) -> Result<(), ()> {
        loop {
            {
                let stream = self.shared.stream();
                if stream.is_broken() {
                    // Whoever looks next must find out, too.
                    self.shared.changed.notify_one();
                    return Err(());
                }
                if done(&stream) {
                    return Ok(());
                }
            }
            self.shared.changed.notified().await;
        }
    }
}

impl Shared {
    fn stream(&self) -> MutexGuard<'_, Stream> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes all that is in the window and not written yet. Dropped, it leaves the rest to whoever writes next.
    async fn send_all(&self) {
        let turn = Turn { shared: self, _lock: self.turn.lock().await };
        while !turn.send() {
            if let Err(error) = self.socket.writable().await {
                return self.on_send_failed(&error);
            }
        }
    }

    fn next(&self) -> Option<Outgoing> {
        let now = self.clock.monotonic();
        let mut stream = self.stream();
        let until = stream.poll_timeout();
        let next = stream.next(now);
        if stream.poll_timeout() < until {
            self.hurry.notify_one();
        }
        next
    }

    fn on_send_failed(&self, error: &std::io::Error) {
        self.stream().on_send_failed(self.clock.monotonic(), error);
        self.hurry.notify_one();
    }

    /// Takes what came with one read of the socket.
    fn receive(&self) {
        let received = read(&self.socket, |bytes| {
            let (now, mut stream) = (self.clock.monotonic(), self.stream());
            stream.handle_bytes(now, bytes);
            // Nodes that have something to say all the time are late nevertheless.
            stream.handle_timeout(now);
        });
        if let Err(error) = received {
            self.stream().on_receive_failed(error);
        }
        self.changed.notify_one();
    }
}

/// Somebody sends until this is dropped.
struct Turn<'a> {
    shared: &'a Shared,
    _lock: tokio::sync::MutexGuard<'a, ()>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.shared.stream().pause(self.shared.clock.monotonic());
    }
}

impl Turn<'_> {
    /// Writes until there is nothing more, which it says, or the socket takes nothing more.
    fn send(&self) -> bool {
        let Shared { socket, clock, .. } = self.shared;
        while let Some(outgoing) = self.shared.next() {
            // Between a write and the note of it nothing is waited for.
            let (len, is_full) = match socket.try_write(outgoing.bytes()) {
                Ok(0) => {
                    self.shared.on_send_failed(&ErrorKind::WriteZero.into());
                    return true;
                }
                Ok(len) => (len, false),
                Err(error) if error.kind() == ErrorKind::WouldBlock => (0, true),
                Err(error) if error.kind() == ErrorKind::Interrupted => (0, false),
                Err(error) => {
                    self.shared.on_send_failed(&error);
                    return true;
                }
            };
            self.shared.stream().on_sent(clock.monotonic(), &outgoing, len);
            if is_full {
                return false;
            }
        }
        true
    }
}

/// The task that takes the acks has this. It may end at any time, with the runtime that it runs on: no ack comes any
/// more then, and who waits for one must find that out.
struct Taking(Arc<Shared>);

impl Drop for Taking {
    fn drop(&mut self) {
        self.0.stream().on_receive_failed("nobody takes its acks any more");
        self.0.changed.notify_one();
    }
}

/// Takes acks until the stream is over, and sends heartbeats when nobody else sends.
async fn take_acks(taking: Taking) {
    let shared = &*taking.0;
    let (mut turn, mut round) = (None, 0);
    loop {
        let_others(&mut round).await;
        if turn.is_none() && shared.stream().needs_sender() {
            turn = shared.turn.try_lock().ok().map(|lock| Turn { shared, _lock: lock });
        }
        if turn.as_ref().is_some_and(Turn::send) {
            turn = None;
        }
        let Some(until) = shared.stream().poll_timeout() else { break };
        tokio::select! {
            biased;
            ready = shared.socket.readable() => match ready {
                Ok(()) => shared.receive(),
                Err(error) => shared.stream().on_receive_failed(error),
            },
            ready = shared.socket.writable(), if turn.is_some() => if let Err(error) = ready {
                shared.on_send_failed(&error);
            },
            () = sleep_until(&*shared.clock, until) => shared.stream().handle_timeout(shared.clock.monotonic()),
            () = shared.hurry.notified() => {}
        }
    }
}

/// The connection, unless the set-up is over before there is one.
async fn connect(
    client: &Client,
    first: &Node,
    opening: &Opening,
    set_up: &mut SetUp,
    clock: &dyn Clock,
) -> Option<Socket> {
    let secret = match &opening.request.header.base_header.token {
        Some(TokenProto { identifier, password, .. }) => Secret { identifier, password },
        None => Secret::default(),
    };
    let connecting = client.dial(first, secret);
    tokio::pin!(connecting);
    while let Some(until) = set_up.poll_timeout() {
        let connected = tokio::select! {
            biased;
            connected = &mut connecting => connected,
            () = sleep_until(clock, until) => {
                set_up.handle_timeout(clock.monotonic());
                continue;
            }
        };
        match connected {
            Ok(socket) => {
                set_up.on_connected(clock.monotonic());
                return Some(socket);
            }
            Err(error) => set_up.on_lost(not_connected(&error)),
        }
    }
    None
}

/// Sends the request, and takes the answer.
async fn ask(socket: &Socket, set_up: &mut SetUp, clock: &dyn Clock) {
    let mut round = 0;
    while let Some(until) = set_up.poll_timeout() {
        let_others(&mut round).await;
        let has_unsent = !set_up.unsent().is_empty();
        let done = tokio::select! {
            biased;
            ready = socket.writable(), if has_unsent => ready.and_then(|()| match socket.try_write(set_up.unsent()) {
                Ok(len) => {
                    set_up.on_sent(clock.monotonic(), len);
                    Ok(())
                }
                Err(error) if is_nothing(&error) => Ok(()),
                Err(error) => Err(error),
            }),
            ready = socket.readable() => {
                ready.and_then(|()| read(socket, |bytes| {
                    let now = clock.monotonic();
                    set_up.handle_bytes(now, bytes);
                    set_up.handle_timeout(now);
                }))
            }
            () = sleep_until(clock, until) => {
                set_up.handle_timeout(clock.monotonic());
                Ok(())
            }
        };
        if let Err(error) = done {
            set_up.on_lost(Fault::Broken(error.to_string()));
        }
    }
}

/// Now and then a task that always finds something to read leaves the thread to others, and can be ended.
async fn let_others(round: &mut u32) {
    *round = (*round + 1) % ROUND_COUNT_MAX;
    if *round == 0 {
        tokio::task::yield_now().await;
    }
}

/// One read of the socket. Nothing may have come; the end is an error.
fn read(socket: &Socket, take: impl FnOnce(&[u8])) -> std::io::Result<()> {
    let mut bytes = [0; READ_LEN];
    match socket.try_read(&mut bytes) {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        Ok(len) => {
            take(&bytes[..len]);
            Ok(())
        }
        Err(error) if is_nothing(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

fn is_nothing(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

async fn sleep_until(clock: &dyn Clock, until: Duration) {
    tokio::time::sleep(until.saturating_sub(clock.monotonic())).await;
}
