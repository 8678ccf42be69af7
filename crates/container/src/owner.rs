//! Who owns a block: told with the first write, or later.

use crate::error::{DiskOp, ReplicaError, Result};
use crate::header::{Stage, SumsHeader, read_header};
use crate::index::{self, Place, Row};
use crate::inner::Inner;
use crate::open::Phase;
use crate::replica::Identity;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use types::{BlockId, ContainerId, FileId};

impl Inner {
    pub(crate) fn set_owner(&self, block: BlockId, file: FileId, home: ContainerId) -> Result<bool> {
        let _stripe = self.stripe(block);
        if let Some(open) = self.find_open(block) {
            let disk = open.lock_disk();
            if !open.is_gone() {
                let state = open.state();
                let stage = if state.phase == Phase::Copying { Stage::Copying } else { Stage::Open };
                self.note(open.set_identity(Identity { file, home, ..state.identity }, stage))?;
                return Ok(true);
            }
            drop(disk);
        }
        let Some(row) = self.index.replica(block)? else { return Ok(false) };
        if (row.file, row.home) == (file, home) {
            return Ok(true);
        }
        let identity = Identity { file, home, ..row.identity(block) };
        let outcome = match row.place {
            Place::Files { shelf } => {
                let path = self.layout.shelved_pair(shelf, block).sums;
                OpenOptions::new()
                    .read(true)
                    .write(true)
                    .open(path)
                    .and_then(|file| match read_header(&file)? {
                        Some(header) if header.identity.block == block => {
                            file.write_all_at(&SumsHeader { identity, ..header }.encode(), 0)
                        }
                        _ => Ok(()), // damaged: only whoever looks at it knows what it was
                    })
                    .map_err(|source| ReplicaError::Io { op: DiskOp::Write("the header"), container: shelf, source })
            }
            Place::Pack { shelf, offset } => match self.pack(shelf, false)? {
                Some(pack) => pack.rename(offset, identity).map_err(|source| ReplicaError::Io {
                    op: DiskOp::Write("a record's header"),
                    container: shelf,
                    source,
                }),
                None => Ok(()),
            },
        };
        self.note(outcome)?;
        self.index.change(|rows| index::set_replica(rows, block, Some(&Row { file, home, ..row })))?;
        Ok(true)
    }
}
