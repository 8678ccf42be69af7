//! One write stream of a client: the driver of `xfer::writer::{SetUp, Stream}` that has the simulation's socket, as the
//! crate `client` has a real one.
//!
//! A task takes acks and sends heartbeats; whoever writes sends packets, and may give up wherever it waits.

use super::{CONNECT, Client, TIMEOUT};
use crate::executor::{Either, Notify, Sim, race};
use crate::socket::{Came, Socket};
use crate::world::World;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use types::NodeId;
use xfer::fault::Fault;
use xfer::writer::{Break, Opening, Outgoing, Packet, Patience, Rest, SetUp, Stream};

const PATIENCE: Patience =
    Patience { connect: CONNECT, silence: TIMEOUT, stalled: Duration::from_secs(2), in_flight_max: 6 };
const READ_LEN: usize = 4096;

pub(crate) struct Chain {
    shared: Rc<Shared>,
}

struct Shared {
    sim: Sim,
    world: Rc<World>,
    /// Gone once the stream is given up.
    socket: RefCell<Option<Rc<Socket>>>,
    stream: RefCell<Stream>,
    /// The packet that is being sent, as the wire has it.
    in_hand: RefCell<Vec<u8>>,
    /// Somebody sends.
    is_sending: Cell<bool>,
    /// The socket took nothing more.
    is_full: Cell<bool>,
    /// The window shrank, the socket takes bytes again, or the stream broke.
    changed: Notify,
    /// What the task waits for is not what it waited for before.
    hurry: Notify,
}

impl Chain {
    /// Sets up a stream to `first` and the nodes behind it.
    pub(crate) async fn open(client: &Client, first: NodeId, opening: &Opening) -> Result<Self, Break> {
        let sim = &client.sim;
        let mut set_up = SetUp::new(sim.now(), opening, PATIENCE);
        let socket = connect(client, first, &mut set_up).await;
        if let Some(socket) = &socket {
            ask(sim, socket, &mut set_up).await;
        }
        let stream = set_up.into_stream(sim.now())?;
        let shared = Rc::new(Shared {
            sim: sim.clone(),
            world: Rc::clone(&client.world),
            socket: RefCell::new(socket.map(Rc::new)),
            stream: RefCell::new(stream),
            in_hand: RefCell::default(),
            is_sending: Cell::default(),
            is_full: Cell::default(),
            changed: Notify::default(),
            hurry: Notify::default(),
        });
        sim.spawn(client.host, take_acks(Rc::clone(&shared)));
        Ok(Self { shared })
    }

    /// Returns when another packet may be pushed.
    pub(crate) async fn room(&self) -> Result<(), ()> {
        self.write().await?; // the rest of a send that was given up
        self.until(Stream::has_room).await
    }

    /// Takes a packet into the window. [`Chain::write`] sends it.
    pub(crate) fn push(&self, packet: Arc<Packet>) {
        self.shared.stream.borrow_mut().push(packet);
    }

    /// Sends what was pushed. `Err` once the chain is broken.
    pub(crate) async fn write(&self) -> Result<(), ()> {
        let turn = loop {
            if self.shared.stream.borrow().is_broken() {
                return Err(());
            }
            match Turn::take(&self.shared) {
                Some(turn) => break turn,
                None => self.shared.changed.notified().await,
            }
        };
        while !turn.send() {
            self.shared.changed.notified().await;
            if self.shared.stream.borrow().is_broken() {
                return Err(());
            }
        }
        drop(turn);
        // A connection that takes no bytes breaks before long; the acks may tell which node it was.
        let is_torn = self.shared.stream.borrow().is_torn();
        if is_torn { self.until(|_| false).await } else { Ok(()) }
    }

    pub(crate) fn take_spent(&self) -> Vec<Arc<Packet>> {
        self.shared.stream.borrow_mut().take_spent()
    }

    /// Returns when every packet is sent and acknowledged.
    pub(crate) async fn drain(&self) -> Result<(), ()> {
        self.write().await?;
        self.until(Stream::is_drained).await
    }

    /// What became of a broken chain.
    pub(crate) fn into_rest(self) -> Rest {
        self.shared.stream.borrow_mut().take_rest()
    }

    async fn until(&self, done: impl Fn(&Stream) -> bool) -> Result<(), ()> {
        loop {
            let (is_broken, is_done) = {
                let stream = self.shared.stream.borrow();
                (stream.is_broken(), done(&stream))
            };
            if is_broken || is_done {
                return if is_broken { Err(()) } else { Ok(()) };
            }
            self.shared.changed.notified().await;
        }
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        self.shared.socket.take();
        self.shared.hurry.notify();
    }
}

impl Shared {
    fn next(&self) -> Option<Outgoing> {
        let mut stream = self.stream.borrow_mut();
        let until = stream.poll_timeout();
        let next = stream.next(self.sim.now());
        if stream.poll_timeout() < until {
            self.hurry.notify();
        }
        next
    }

    /// Takes what came.
    fn receive(&self, socket: &Socket) {
        let mut bytes = [0; READ_LEN];
        let mut stream = self.stream.borrow_mut();
        match socket.read(&mut bytes) {
            Came::Bytes(len) => stream.handle_bytes(self.sim.now(), &bytes[..len]),
            Came::End => stream.on_receive_failed("the end of the connection"),
            Came::Nothing => {}
        }
        stream.check();
    }
}

/// Somebody sends until this is dropped.
struct Turn<'a>(&'a Shared);

impl<'a> Turn<'a> {
    fn take(shared: &'a Shared) -> Option<Self> {
        (!shared.is_sending.replace(true)).then_some(Self(shared))
    }

    /// Sends until there is nothing more, which it says, or the socket takes nothing more.
    fn send(&self) -> bool {
        let Self(shared) = self;
        let Some(socket) = shared.socket.borrow().clone() else { return true };
        while let Some(outgoing) = shared.next() {
            let mut in_hand = shared.in_hand.borrow_mut();
            if outgoing.is_begun() {
                assert!(in_hand.len() >= outgoing.bytes().len(), "a packet of which more is left than there was");
            } else {
                *in_hand = outgoing.bytes().to_vec();
                for (at, bit) in shared.world.flips(outgoing.bytes()) {
                    in_hand[at] ^= bit;
                }
            }
            let from = in_hand.len() - outgoing.bytes().len();
            // Between a write and the note of it nothing is waited for.
            match socket.send(&in_hand[from..]) {
                Ok(len) => {
                    shared.stream.borrow_mut().on_sent(shared.sim.now(), &outgoing, len);
                    if len == 0 {
                        shared.is_full.set(true);
                        shared.hurry.notify();
                        return false;
                    }
                }
                Err(gone) => {
                    shared.stream.borrow_mut().on_send_failed(shared.sim.now(), format!("{gone:?}"));
                    shared.hurry.notify();
                    return true;
                }
            }
        }
        true
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.is_sending.set(false);
        self.0.stream.borrow_mut().pause(self.0.sim.now());
        self.0.changed.notify();
    }
}

/// Takes acks until the stream is over, and sends heartbeats when nobody else sends.
async fn take_acks(shared: Rc<Shared>) {
    let sim = &shared.sim;
    let mut turn = None;
    loop {
        if turn.is_none() && shared.stream.borrow().needs_sender() {
            turn = Turn::take(&shared);
        }
        if turn.as_ref().is_some_and(Turn::send) {
            turn = None;
        }
        let (until, socket) = (shared.stream.borrow().poll_timeout(), shared.socket.borrow().clone());
        let (Some(until), Some(socket)) = (until, socket) else { break };
        let woken = race(sim.sleep_until(until), shared.hurry.notified());
        match race(socket.ready(true, shared.is_full.get()), woken).await {
            Either::First(ready) => {
                if ready.writable {
                    shared.is_full.set(false);
                }
                if ready.readable || ready.closed {
                    shared.receive(&socket);
                }
            }
            Either::Second(Either::First(())) => shared.stream.borrow_mut().handle_timeout(sim.now()),
            Either::Second(Either::Second(())) => continue,
        }
        shared.changed.notify();
    }
    drop(turn);
    shared.changed.notify();
}

/// The connection, unless the set-up is over before there is one.
async fn connect(client: &Client, first: NodeId, set_up: &mut SetUp) -> Option<Socket> {
    let (sim, number) = (&client.sim, World::node_number(first));
    let limit = set_up.poll_timeout()?.saturating_sub(sim.now());
    match client.world.dial_write(client.host, number, limit).await {
        Ok(socket) => {
            set_up.on_connected(sim.now());
            Some(socket)
        }
        Err(error) => {
            set_up.handle_timeout(sim.now());
            set_up.on_lost(Fault::NoConnection(format!("{error:?}")));
            None
        }
    }
}

/// Sends the request, and takes the answer.
async fn ask(sim: &Sim, socket: &Socket, set_up: &mut SetUp) {
    let mut bytes = [0; READ_LEN];
    while let Some(until) = set_up.poll_timeout() {
        let ready = socket.ready(true, !set_up.unsent().is_empty());
        let Either::First(ready) = race(ready, sim.sleep_until(until)).await else {
            set_up.handle_timeout(sim.now());
            continue;
        };
        if ready.writable {
            match socket.send(set_up.unsent()) {
                Ok(len) => set_up.on_sent(sim.now(), len),
                Err(gone) => set_up.on_lost(Fault::Broken(format!("{gone:?}"))),
            }
        }
        if ready.readable || ready.closed {
            match socket.read(&mut bytes) {
                Came::Bytes(len) => set_up.handle_bytes(sim.now(), &bytes[..len]),
                Came::End => set_up.on_lost(Fault::Broken("the end of the connection".into())),
                Came::Nothing => {}
            }
        }
    }
}
