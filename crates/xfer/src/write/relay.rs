//! One node of a write, over bytes: what comes from above goes on to those below, and to the disk.
//!
//! ```text
//!             ┌──────── buffer ────────┐─────▶ below        a run, all that came: forward to all, verify, store
//! above ─────▶│ packet │ packet │ pack…│─────▶ below
//!       ◀──── Above: acks, keepalives  └◀───── acks of each
//!                        │ Step::Store
//!                        ▼ the driver's disk
//! ```
//!
//! A run stays in hand until all nodes below have taken it and it is stored. Nothing is taken from above meanwhile, so
//! nothing piles up here; acks and keepalives go on in both directions.
//!
//! What happens is decided by [`Link`]; here stand the bytes and the time around it. A driver, which has the sockets
//! and the disk, goes round: [`Relay::step`] until there is none; send what [`Above::out`] has; look at
//! [`Relay::ending`]; wait for what [`Relay::wants_packets`], [`Relay::below_out`] and [`Relay::poll_timeout`] say.

use super::above::Above;
use super::below::Below;
use super::buffer::{BufferError, PacketBuffer};
use super::join::Joined;
use super::limits::Limits;
use super::link::{Action, Ending, Event, Failure, Link};
use super::lost::Lost;
use super::mode::Mode;
use super::packet::Packet;
use super::run::{Run, Store};
use crate::memory::Held;
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;
use types::ChecksumSpec;
use types::mutation::{self, Mutation};
use wire::PipelineAck;

/// What the driver must do now.
#[derive(Debug)]
pub enum Step<'a> {
    /// Send to each node below what [`Relay::below_out`] has, as far as its socket takes it. The rest follows when the
    /// socket can take more.
    Forward,
    /// Bring packets to the disk, and say with [`Relay::on_stored`] what became of it.
    Store(Store<'a>),
    /// Readers may see this many bytes from now on.
    Show(u64),
    /// A node below counts as lost: close its connection.
    BelowLost { place: usize, why: Lost },
    /// To be noted only: at this offset came bytes that do not match their checksum.
    Unsound { offset: u64 },
    /// To be noted only: what came from above is no packet, or takes more memory than there is.
    Refused(BufferError),
}

/// What a relay begins with.
#[derive(Debug)]
pub struct Begin<'a, M> {
    pub mode: Mode,
    /// What covers the packets.
    pub spec: ChecksumSpec,
    pub limits: Limits,
    /// Bytes that the replica has already.
    pub received: u64,
    pub below: Vec<Joined>,
    /// What came behind the operation already.
    pub came: &'a [u8],
    pub memory: M,
}

#[derive(Debug)]
pub struct Relay<M> {
    mode: Mode,
    limits: Limits,
    link: Link,
    buffer: PacketBuffer<M>,
    run: Run,
    /// As the link counts them; gone once lost.
    below: Vec<Option<Below>>,
    /// What the link wants that is not done yet. At most an ack for each packet in flight.
    actions: VecDeque<Action>,
    /// Lost, and the driver has not heard of it.
    lost: VecDeque<(usize, Lost)>,
    /// How long nothing may come from above.
    above_silent: Duration,
    /// When something last came from above.
    above_heard: Duration,
    /// Since when a packet is here that is not whole. The memory that it takes is others' memory.
    packet_began: Option<Duration>,
    ending: Option<Ending>,
}

/// What a step is made of, before it borrows anything.
enum Next {
    Forward,
    Store(Range<usize>),
    Show(u64),
    BelowLost(usize, Lost),
    Unsound(u64),
    Refused(BufferError),
}

impl<M: Held> Relay<M> {
    pub fn new(begin: Begin<'_, M>, now: Duration) -> Self {
        let Begin { mode, spec, limits, received, below, came, memory } = begin;
        let node_counts: Vec<usize> = below.iter().map(|joined| joined.behind_count + 1).collect();
        let mut relay = Self {
            mode,
            limits,
            link: Link::new(spec, &node_counts, received),
            buffer: PacketBuffer::new(came, memory),
            run: Run::new(spec),
            below: below.iter().map(|it| Some(Below::new(it.sends_keepalives, it.behind_count, &limits))).collect(),
            actions: VecDeque::new(),
            lost: VecDeque::new(),
            above_silent: limits.writer_silent_with(node_counts.iter().sum()),
            above_heard: now,
            packet_began: None,
            ending: None,
        };
        for (place, joined) in below.iter().enumerate() {
            relay.on_below_received(place, now, &joined.came);
        }
        relay
    }

    /// How it ended. Nothing is in hand then; what [`Above::out`] has is still to be sent.
    pub fn ending(&self) -> Option<Ending> {
        self.ending.filter(|_| self.run.is_over() && self.actions.is_empty())
    }

    // ── above ──

    /// Whether bytes from above are taken now. If not, they are to be left in the socket.
    pub fn wants_packets(&self, above: &Above) -> bool {
        self.ending.is_none()
            && self.run.is_over()
            && self.link.wants_packets()
            && above.out().len() < Above::ACKS_LEN_MAX
    }

    /// Whether it matters now that the connection to those above is gone. While a run is in hand that waits.
    pub fn heeds_above(&self) -> bool {
        self.run.is_over()
    }

    /// Where bytes from above go, which came with one call. Not empty once [`Relay::step`] gave none.
    pub fn room(&mut self) -> &mut [u8] {
        self.buffer.room()
    }

    /// So many bytes came into [`Relay::room`].
    pub fn on_received(&mut self, now: Duration, len: usize) {
        self.above_heard = now;
        self.buffer.on_received(len);
    }

    /// Nobody is there any more.
    pub fn on_above_closed(&mut self) {
        self.tell(Event::AboveLost);
    }

    // ── below ──

    /// What a node below is still to get of the run in hand.
    pub fn below_out(&self, place: usize) -> &[u8] {
        match &self.below[place] {
            Some(below) => &self.buffer.bytes()[self.run.forward.clone()][below.taken..],
            None => &[],
        }
    }

    /// It took so many bytes of that.
    pub fn on_below_sent(&mut self, place: usize, now: Duration, len: usize) {
        assert!(len <= self.below_out(place).len(), "{len} bytes were sent that are not there");
        if let Some(below) = &mut self.below[place] {
            below.on_sent(now, len);
        }
    }

    /// It said something.
    pub fn on_below_received(&mut self, place: usize, now: Duration, bytes: &[u8]) {
        let Some(below) = &mut self.below[place] else { return };
        let (link, actions, mut given) = (&mut self.link, &mut self.actions, Vec::new());
        let received = below.receive(now, bytes, |ack| {
            link.on_event(Event::Ack { below: place, seqno: ack.seqno, replies: ack.replies }, &mut given);
            actions.extend(given.drain(..));
        });
        if let Err(why) = received {
            self.lose(place, why);
        }
    }

    /// Its connection is gone.
    pub fn on_below_closed(&mut self, place: usize) {
        self.lose(place, Lost::Disconnected);
    }

    fn lose(&mut self, place: usize, why: Lost) {
        if self.below[place].take().is_some() {
            self.lost.push_back((place, why));
            self.tell(Event::BelowLost { below: place });
        }
    }

    fn present(&self) -> impl Iterator<Item = &Below> {
        self.below.iter().flatten()
    }

    // ── time ──

    /// When [`Relay::handle_timeout`] is to be called, if nothing happens before.
    pub fn poll_timeout(&self, above: &Above) -> Option<Duration> {
        let below = (0..self.below.len()).filter_map(|place| self.below_until(place));
        below.chain(self.above_until()).chain(self.keepalive_due(above)).min()
    }

    /// Gives up whom nothing was heard of, and puts a keepalive if one is due.
    pub fn handle_timeout(&mut self, now: Duration, above: &mut Above) {
        for place in 0..self.below.len() {
            match &mut self.below[place] {
                Some(below) if !self.link.awaits(place) && self.run.forward.len() == below.taken => below.settle(),
                Some(below) if below.until().is_some_and(|until| now >= until) => self.lose(place, Lost::TimedOut),
                _ => {}
            }
        }
        if self.above_until().is_some_and(|until| now >= until) {
            self.tell(Event::AboveLost);
        }
        if self.keepalive_due(above).is_some_and(|due| now >= due) {
            above.put_keepalive(now, &self.limits);
        }
    }

    fn below_until(&self, place: usize) -> Option<Duration> {
        let below = self.below[place].as_ref()?;
        let owes = self.link.awaits(place) || self.run.forward.len() > below.taken;
        below.until().filter(|_| owes)
    }

    /// A run in hand is brought to its end first. A packet is to be whole as soon as another byte is to come: a writer
    /// that sends byte by byte would hold its memory for ever.
    fn above_until(&self) -> Option<Duration> {
        let heard = self.above_heard + self.above_silent;
        let whole = self.packet_began.map_or(heard, |began| began + self.limits.writer_silent);
        self.run.is_over().then(|| heard.min(whole))
    }

    /// When those above must hear from this node, if they wait for it: it owes an answer, or bytes came since its last
    /// word.
    fn keepalive_due(&self, above: &Above) -> Option<Duration> {
        let waited_for = !self.link.is_idle() || self.above_heard > above.last_sent();
        above.keepalive_due(&self.limits).filter(|_| waited_for)
    }

    // ── what is to be done ──

    /// The next thing to be done; what needs no driver is done. `None`: something must happen first.
    pub fn step<'a>(&'a mut self, now: Duration, above: &mut Above) -> Option<Step<'a>> {
        Some(match self.next(now, above)? {
            Next::Forward => Step::Forward,
            Next::Show(len) => Step::Show(len),
            Next::BelowLost(place, why) => Step::BelowLost { place, why },
            Next::Unsound(offset) => Step::Unsound { offset },
            Next::Refused(why) => Step::Refused(why),
            Next::Store(places) => {
                let mut store = self.run.store(places, self.buffer.bytes());
                // An open copy stays open; and the chain may have broken since the packet came.
                let puts = self.mode != Mode::CopyOpen && self.ending.is_none() && !self.link.is_broken();
                store.put = store.put.filter(|_| puts);
                Step::Store(store)
            }
        })
    }

    fn next(&mut self, now: Duration, above: &mut Above) -> Option<Next> {
        loop {
            if let Some((place, why)) = self.lost.pop_front() {
                return Some(Next::BelowLost(place, why));
            }
            match self.actions.pop_front() {
                Some(Action::Show(len)) => return Some(Next::Show(len)),
                Some(Action::Ack { seqno, replies }) if self.mode == Mode::Chain => {
                    above.put_ack(&PipelineAck { seqno, replies });
                    continue;
                }
                Some(Action::Ack { .. }) => continue,
                Some(Action::Close(ending)) => {
                    self.ending = Some(ending);
                    continue;
                }
                Some(Action::Forward | Action::Store { .. }) => unreachable!("only a packet is forwarded and stored"),
                None => {}
            }
            if !self.run.is_over() {
                if self.present().any(|below| below.taken < self.run.forward.len()) {
                    return None;
                }
                match self.run.next(self.buffer.bytes()) {
                    Ok(Some(places)) => return Some(Next::Store(places)),
                    Ok(None) => {
                        self.buffer.consume(self.run.end);
                        self.run.clear();
                        for below in self.below.iter_mut().flatten() {
                            below.taken = 0;
                        }
                    }
                    Err(offset) => {
                        self.fail_rest(Failure::Checksum);
                        return Some(Next::Unsound(offset));
                    }
                }
                continue;
            }
            if !self.wants_packets(above) {
                return None;
            }
            if let Err(why) = self.take(now) {
                self.tell(Event::AboveLost);
                return Some(Next::Refused(why));
            }
            if self.run.is_over() {
                return None;
            }
            if !self.run.forward.is_empty() {
                return Some(Next::Forward);
            }
        }
    }

    /// Takes all packets that are here to their end, as many at once as came.
    fn take(&mut self, now: Duration) -> Result<(), BufferError> {
        let Self { buffer, run, link, actions, packet_began, .. } = self;
        let mut given = Vec::new();
        buffer.run(|at, frame| {
            link.on_event(Event::Packet(Packet::from(&frame)), &mut given);
            run.push(at, frame);
            for action in given.drain(..) {
                match action {
                    Action::Forward => run.forward_last(),
                    Action::Store { write, sync, put } => run.store_last(write, sync, put),
                    other => actions.push_back(other),
                }
            }
        })?;
        // Of a packet behind a run, the time begins when that is done with.
        *packet_began = if run.is_over() && !buffer.is_empty() { packet_began.or(Some(now)) } else { None };
        if !self.run.forward.is_empty() {
            self.below.iter_mut().flatten().for_each(|below| below.begin(now));
        }
        Ok(())
    }

    /// What became of the last [`Step::Store`].
    pub fn on_stored(&mut self, result: Result<(), Failure>) {
        let hides = mutation::is(Mutation::AckUnstored) && result == Err(Failure::Disk);
        match result {
            Err(failure) if !hides => self.fail_rest(failure),
            _ => {
                for _ in 0..self.run.on_stored() {
                    self.tell(Event::Stored);
                }
            }
        }
    }

    /// Once one packet has failed, all later ones of the run fail.
    fn fail_rest(&mut self, failure: Failure) {
        for _ in 0..self.run.on_failed() {
            self.tell(Event::NotStored(failure));
        }
    }

    /// Tells the link. What it wants is done by [`Relay::step`].
    fn tell(&mut self, event: Event) {
        let mut given = Vec::new();
        self.link.on_event(event, &mut given);
        self.actions.extend(given);
    }
}
