//! A scripted first node of a writer of ours: whom the writer blames, and what comes over the wire when calls are given
//! up at any moment.

use super::line::{Line, Missing, SOON, answer};
use super::{FILE, GENERATION, HOME, SCRIPTED, Stage, Told, must, token};
use crate::client::{Chain, Client, PACKET_LEN, Shape, manner, member};
use crate::platter::SPEC;
use crate::world::{World, content};
use hdfs::proto::{self, BlockConstructionStage, TokenProto};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use types::{BlockId, Generation};
use wire::{Abilities, PipelineAck, Status, delimited};
use xfer::writer::{Block, Break, Identity, Packer, Plan, Step};

const CHUNK: usize = SPEC.chunk_len as usize;
/// The chain: a script, and two nodes that only it knows.
const CHAIN_LEN: usize = 3;
/// Longer than a chain of three may be silent.
const LOST_WITHIN: Duration = Duration::from_secs(90);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Acknowledges all, in its time.
    Well,
    /// The same, and takes nothing for a while, so that the writer waits inside of a packet.
    Reads,
    Refuses,
    /// Refuses for the node behind it.
    RefusesForNext,
    /// Answers no set-up.
    Mute,
    /// Says that the second node, or the third, did not take a packet.
    BlamesSecond,
    BlamesThird,
    /// Says of itself that it restarts.
    Restarts,
    /// Takes packets and says nothing, with or without keepalives before.
    Silent,
    /// As a node of ours: then the writer waits for seconds only.
    Stalls,
    Closes,
    WrongSeqno,
    /// Acknowledges a packet before it is sent, and once more when it is.
    Early,
    TooMany,
    TooFew,
    Garbage,
}

const WAYS: &[Way] = &[
    Way::Well,
    Way::Reads,
    Way::Reads,
    Way::Reads,
    Way::Refuses,
    Way::RefusesForNext,
    Way::Mute,
    Way::BlamesSecond,
    Way::BlamesThird,
    Way::Restarts,
    Way::Silent,
    Way::Stalls,
    Way::Closes,
    Way::WrongSeqno,
    Way::Early,
    Way::TooMany,
    Way::TooFew,
    Way::Garbage,
];

impl Way {
    /// Which node of the chain the writer must drop.
    fn blamed(self) -> Option<usize> {
        match self {
            Self::Well | Self::Reads => None,
            Self::RefusesForNext | Self::BlamesSecond => Some(1),
            Self::BlamesThird => Some(2),
            _ => Some(0),
        }
    }

    /// Within which time.
    fn within(self) -> Duration {
        if matches!(self, Self::Silent | Self::Mute) { LOST_WITHIN } else { SOON }
    }
}

/// What the node got, and since when it does what it should not.
#[derive(Debug, Default)]
struct Heard {
    end: usize,
    is_over: bool,
    /// By a recovery of a block of which nothing but the end was missing.
    is_put: bool,
    wrong_since: Option<Duration>,
}

pub(super) async fn any(stage: Rc<Stage>) -> Told {
    let way = stage.chance(WAYS);
    stage.sim.say(|| format!("the first node: {way:?}"));
    let heard = Rc::new(RefCell::new(Heard::default()));
    let (block, tag) = stage.next_block();
    let shared = Rc::clone(&heard);
    stage.stand_in(SCRIPTED, move |line| node(line, way, tag, Rc::clone(&shared)));
    let client = Client::new(Rc::clone(&stage.world), 0, 1);
    let members = (SCRIPTED..SCRIPTED + CHAIN_LEN).map(|node| member(&stage.world, World::node_id(node)));
    let identity = Identity { pool: String::new(), block, generation: GENERATION, len: 0 };
    let token = TokenProto { identifier: token(), ..TokenProto::default() };
    let mut machine = Block::new(manner(&client, Shape::Chain), identity, token, members.collect());
    must(machine.next_step() == Step::Open, || "a new block is not opened first".to_owned())?;
    let opening = machine.opening(stage.sim.one_in(2));
    let began = stage.sim.now();
    let chain = match Chain::open(&client, World::node_id(SCRIPTED), &opening).await {
        Ok(chain) => chain,
        Err(broken) => {
            must(matches!(way, Way::Refuses | Way::RefusesForNext | Way::Mute), || format!("not opened: {broken:?}"))?;
            return blames(&stage, way, began, &broken);
        }
    };
    machine.on_opened();
    let packer = Packer::new(Plan::new(SPEC, PACKET_LEN, u64::MAX));
    let mut writing = Writing { stage: &stage, way, machine, tag, packer, is_ended: false };
    let sent = writing.write(&chain).await;
    let Some(blamed) = way.blamed() else {
        sent.map_err(|()| "an honest node was given up".to_owned())?;
        return writing.check(&heard.borrow());
    };
    must(sent.is_err(), || format!("the block ended, though node {blamed} did not take it"))?;
    let rest = chain.into_rest();
    {
        let heard = heard.borrow();
        let is_heard = rest.acked_len as usize <= heard.end || way == Way::Early;
        must(is_heard, || format!("{} bytes count as acknowledged, but the node has {heard:?}", rest.acked_len))?;
        blames(&stage, way, heard.wrong_since.unwrap_or(began), &rest.broken)?;
    }
    writing.machine.on_broken(rest);
    writing.go_on(&client).await
}

fn blames(stage: &Stage, way: Way, since: Duration, broken: &Break) -> Told {
    let places: Vec<usize> = broken.nodes.iter().map(|(place, _)| *place).collect();
    let wanted: Vec<usize> = way.blamed().into_iter().collect();
    must(places == wanted, || format!("{way:?}: blamed are {broken:?}"))?;
    let took = stage.sim.now() - since;
    must(took <= way.within(), || format!("{way:?}: noticed after {took:?}"))
}

/// A block, and how far its writer is.
struct Writing<'a> {
    stage: &'a Stage,
    way: Way,
    machine: Block,
    tag: u64,
    packer: Packer,
    /// The last packet was pushed.
    is_ended: bool,
}

impl Writing<'_> {
    fn len(&self) -> usize {
        self.packer.position() as usize
    }

    /// Some packets and the end. Each call may be given up wherever it waits.
    async fn write(&mut self, chain: &Chain) -> Result<(), ()> {
        let (stage, sim) = (self.stage, &self.stage.sim);
        // The window of a writer is then more than the socket takes.
        let are_long = self.way == Way::Reads || sim.one_in(2);
        for _ in 0..3 + sim.below(10) {
            let (start, most) = (self.len(), if are_long { 4 * CHUNK } else { 1 + sim.below(4 * CHUNK) });
            patiently(stage, || chain.room()).await?;
            let space = self.packer.space();
            let len = most.min(space.len());
            space.iter_mut().zip(start..).for_each(|(byte, at)| *byte = content(self.tag, at));
            self.packer.filled(len);
            let packet = self.packer.pack(self.machine.next_seqno(), false);
            self.machine.on_pushed(&packet);
            chain.push(packet);
            patiently(stage, || chain.write()).await?;
            self.packer.recycle(&mut chain.take_spent());
            // Whoever pauses does not hear of a packet that was acknowledged twice meanwhile.
            if sim.one_in(8) && self.way != Way::Early {
                patiently(stage, || chain.drain()).await?;
                sim.sleep(sim.between(Duration::ZERO, Duration::from_secs(60))).await;
            }
        }
        self.end(chain).await
    }

    async fn end(&mut self, chain: &Chain) -> Result<(), ()> {
        patiently(self.stage, || chain.drain()).await?;
        if !self.is_ended {
            let packet = self.packer.end(self.machine.next_seqno(), false);
            patiently(self.stage, || chain.room()).await?;
            chain.push(packet);
            self.is_ended = true;
            patiently(self.stage, || chain.drain()).await?;
        }
        Ok(())
    }

    /// The block goes on without the node that was to blame. A recovery may be given up: another one begins then.
    async fn go_on(mut self, client: &Client) -> Told {
        let heard = Rc::new(RefCell::new(Heard::default()));
        for node in SCRIPTED..SCRIPTED + CHAIN_LEN {
            let (heard, tag) = (Rc::clone(&heard), self.tag);
            self.stage.stand_in(node, move |line| self::node(line, Way::Well, tag, Rc::clone(&heard)));
        }
        let (mut generation, mut opened, mut is_given_up) = (GENERATION, None, false);
        loop {
            let step = self.machine.next_step();
            let is_restart = step == Step::AskGeneration;
            must(is_restart || !is_given_up, || format!("a recovery that was given up goes on with {step:?}"))?;
            is_given_up = self.stage.sim.one_in(4);
            if is_given_up && !matches!(step, Step::Stream | Step::Finished) {
                continue;
            }
            is_given_up = false;
            match step {
                Step::AskGeneration => {
                    generation = Generation(generation.0 + 1);
                    let token = TokenProto { identifier: token(), ..TokenProto::default() };
                    self.machine.on_generation(generation, token);
                }
                Step::Open => {
                    *heard.borrow_mut() = Heard::default();
                    let opening = self.machine.opening(true);
                    let first = World::node_of_addr(&self.machine.members()[0].addr());
                    let chain = Chain::open(client, first, &opening).await;
                    opened = Some(chain.map_err(|broken| format!("honest nodes are not joined: {broken:?}"))?);
                    self.machine.on_opened();
                }
                Step::UpdatePipeline(_) => {
                    let resend = self.machine.on_updated();
                    let chain = opened.as_ref().ok_or("a stream that was not opened")?;
                    resend.into_iter().for_each(|packet| chain.push(packet));
                }
                Step::Stream => {
                    let chain = opened.take().ok_or("a stream that was not opened")?;
                    let sent = self.end(&chain).await;
                    sent.map_err(|()| "honest nodes were given up".to_owned())?;
                    return self.check(&heard.borrow());
                }
                Step::Finished => {
                    let heard = heard.borrow();
                    let is_whole = heard.is_put && heard.end == self.len();
                    return must(is_whole, || format!("{} bytes are ended, but nodes have {heard:?}", self.len()));
                }
                Step::Failed => return Err(format!("nodes are left, but {:?}", self.machine.faults())),
            }
        }
    }

    fn check(&self, heard: &Heard) -> Told {
        let len = self.len();
        must(heard.is_over && heard.end == len, || format!("{len} bytes were sent, but the node has {heard:?}"))
    }
}

/// Calls until one comes to its end; those before are given up.
async fn patiently<F: Future<Output = Result<(), ()>>>(stage: &Stage, call: impl Fn() -> F) -> Result<(), ()> {
    while stage.sim.one_in(2) {
        let limit = stage.sim.between(Duration::ZERO, Duration::from_millis(40));
        if let Some(ended) = stage.sim.timeout(limit, call()).await {
            return ended;
        }
    }
    call().await
}

/// The node: it takes nothing but packets in their order, each as a whole.
async fn node(mut line: Line, way: Way, tag: u64, heard: Rc<RefCell<Heard>>) -> Told {
    let op: proto::OpWriteBlockProto = line.hear_op().await?;
    let block = BlockId(op.header.base_header.block.block_id);
    must(super::tag_of(block) == tag, || format!("not what was asked: {op:?}"))?;
    heard.borrow_mut().end = op.min_bytes_rcvd as usize;
    let well = vec![Status::SUCCESS; op.targets.len() + 1];
    let is_new = op.stage == i32::from(BlockConstructionStage::PipelineSetupCreate);
    let scope = wire::BlockScope { file: FILE, home: HOME };
    let identifier = op.header.base_header.token.map(|token| token.identifier).unwrap_or_default();
    must(wire::BlockScope::decode(&identifier) == Ok(Some(scope)), || "the token is not passed on".to_owned())?;
    let knows_keepalives = op.stream.is_some_and(|stream| stream.abilities.is_some());
    let mut said = answer(Status::SUCCESS);
    match way {
        Way::Refuses => said = answer(Status::ERROR),
        Way::RefusesForNext => {
            said = proto::BlockOpResponseProto {
                first_bad_link: Some(format!("10.0.0.{}:9866", SCRIPTED + 1)),
                ..answer(Status::ERROR)
            };
        }
        Way::Mute => {
            line.drop_all(Duration::from_secs(200)).await;
            return Ok(());
        }
        Way::Stalls => said.abilities = Some(Abilities::OF_STREAM.bits()),
        _ => {}
    }
    if knows_keepalives && line.sim.one_in(2) {
        let keepalive = proto::BlockOpResponseProto { message: None, ..answer(Status::IN_PROGRESS) };
        line.say_message(&keepalive).await;
        line.sim.sleep(Duration::from_secs(1)).await;
    }
    let mut bytes = Vec::new();
    delimited::put(&said, &mut bytes);
    if way == Way::Early {
        heard.borrow_mut().wrong_since = Some(line.sim.now());
        PipelineAck { seqno: 0, replies: well.clone() }.put(&mut bytes);
    }
    line.say(&bytes).await;
    if matches!(way, Way::Refuses | Way::RefusesForNext) {
        return Ok(());
    }
    if op.stage == i32::from(BlockConstructionStage::PipelineCloseRecovery) {
        heard.borrow_mut().is_put = true;
        return Ok(());
    }
    if way == Way::Reads {
        line.sim.sleep(line.sim.between(Duration::from_millis(50), Duration::from_millis(400))).await;
    }
    let (mut next, wrong_at) = (is_new.then_some(0), line.sim.below(3) as i64);
    loop {
        let packet = match line.hear_packet(Duration::from_secs(120)).await {
            Ok(packet) => packet,
            Err(Missing::End) => return Ok(()),
            Err(missing) => return Err(missing.into()),
        };
        packet.verify(tag)?;
        let header = packet.header;
        if header.is_heartbeat() {
            line.say_ack(PipelineAck::HEARTBEAT, &well).await;
            continue;
        }
        let end = heard.borrow().end;
        let is_next = next.is_none_or(|next| header.seqno == next) && header.offset == end as i64;
        must(is_next, || format!("packet {} at {}, awaited {next:?} at {end}", header.seqno, header.offset))?;
        next = Some(header.seqno + 1);
        {
            let mut heard = heard.borrow_mut();
            (heard.end, heard.is_over) = (end + packet.data.len(), header.last);
        }
        if header.seqno < wrong_at {
            line.say_ack(header.seqno, &well).await;
            continue;
        }
        heard.borrow_mut().wrong_since.get_or_insert(line.sim.now());
        let seqno = header.seqno;
        match way {
            Way::Well | Way::Reads | Way::Early => {
                if line.sim.one_in(4) {
                    line.sim.sleep(line.sim.between(Duration::ZERO, Duration::from_millis(900))).await;
                }
                line.say_ack(seqno, &well).await;
            }
            Way::BlamesSecond => _ = line.say_ack(seqno, &[Status::SUCCESS, Status::ERROR]).await,
            Way::BlamesThird => _ = line.say_ack(seqno, &[Status::SUCCESS, Status::SUCCESS, Status::ERROR]).await,
            Way::Restarts => _ = line.say_ack(PipelineAck::OUT_OF_BAND, &[Status::OOB_RESTART]).await,
            Way::Silent | Way::Stalls => {
                line.drop_all(Duration::from_secs(200)).await;
                return Ok(());
            }
            Way::Closes => return Ok(()),
            Way::WrongSeqno => _ = line.say_ack(seqno + 100, &well).await,
            Way::TooMany => _ = line.say_ack(seqno, &[Status::SUCCESS; CHAIN_LEN + 1]).await,
            Way::TooFew => _ = line.say_ack(seqno, &well[1..]).await,
            Way::Garbage => _ = line.say(&[5, 0xff, 0xff, 0xff, 0xff, 0xff]).await,
            Way::Refuses | Way::RefusesForNext | Way::Mute => unreachable!("it was answered above"),
        }
    }
}
