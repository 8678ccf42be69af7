//! Starting a replica: in a slot, or in two files of its own.

use crate::error::{DiskOp, ReplicaError, Result};
use crate::header::{Kept, Stage, SumsHeader};
use crate::inner::{Inner, lock};
use crate::open::{End, Files, OpenReplica, Phase};
use crate::replica::Identity;
use crate::reserve::Reserve;
use crate::room::Room;
use crate::writer::Writer;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

impl Inner {
    pub(crate) fn create(self: &Arc<Self>, identity: Identity, phase: Phase, room: Room) -> Result<Writer> {
        self.health.check()?;
        let block = identity.block;
        let _stripe = self.stripe(block);
        self.check_fence(identity, phase == Phase::Copying)?;
        if phase == Phase::Copying {
            // What cannot be put costs nothing.
            self.check_room(identity.shelf(), Reserve::Whole)?;
        }
        // First, as an open replica that goes there may be what the disk is full of.
        self.make_room(identity, room)?;
        self.check_room(identity.shelf(), Reserve::Whole)?;
        let replica = match phase {
            Phase::Copying => self.create_files(identity, Stage::Copying, phase),
            _ => self.create_short(identity, phase),
        };
        let replica = self.note(replica)?;
        lock(&self.open).insert(block, Arc::clone(&replica));
        Ok(Writer::new(self, replica))
    }

    /// A replica that begins in a slot, if there is one.
    fn create_short(&self, identity: Identity, phase: Phase) -> Result<Arc<OpenReplica>> {
        let io = |op| move |source| ReplicaError::Io { op, container: identity.shelf(), source };
        let Some(slot) = self.slots.take(identity).map_err(io(DiskOp::Create("a slot")))? else {
            return self.create_files(identity, Stage::Open, phase);
        };
        let replica = OpenReplica::new(identity, phase, Files::in_slot(slot), End::default());
        replica.set_identity(identity, Stage::Open)?;
        Ok(Arc::new(replica))
    }

    pub(crate) fn create_files(&self, identity: Identity, stage: Stage, phase: Phase) -> Result<Arc<OpenReplica>> {
        let files = self.create_pair(identity, stage)?;
        Ok(Arc::new(OpenReplica::new(identity, phase, files, End::default())))
    }

    /// The two files of a replica that is not finalized. The checksum file comes first: data without it is garbage.
    pub(crate) fn create_pair(&self, identity: Identity, stage: Stage) -> Result<Files> {
        let io = |op| move |source| ReplicaError::Io { op, container: identity.shelf(), source };
        let pair = self.layout.open_pair(identity.block);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        let sums = options.open(&pair.sums).map_err(io(DiskOp::Create("checksums")))?;
        sums.write_all_at(&SumsHeader { stage, identity, kept: Kept::default() }.encode(), 0)
            .map_err(io(DiskOp::Write("the header")))?;
        let data = options.open(&pair.data).map_err(io(DiskOp::Create("data")))?;
        Ok(Files::pair(data, sums))
    }
}
