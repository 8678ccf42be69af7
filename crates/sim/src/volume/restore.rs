//! Puts in order what a crash left, as `container::restore` does.

use super::{Opened, Phase, Volume};
use crate::platter::Stage;
use std::rc::Rc;
use types::BlockId;

impl Volume {
    pub(super) fn restore(&self) {
        let mut platter = self.0.platter.borrow_mut();
        let shelved: Vec<BlockId> = platter.shelf.keys().copied().collect();
        for block in shelved {
            let image = platter.shelf[&block].image();
            let whole = matches!(image.stage, Stage::Finalized { len } if len == image.data.len());
            if !whole {
                // Lost power without a sync: it waits for recovery, unless an open one is there, or nothing vouches for
                // it.
                let mut stored = platter.shelf.remove(&block).expect("listed");
                if stored.image().stage == Stage::Copying || platter.open.contains_key(&block) {
                    continue;
                }
                stored.set_header(stored.image().identity, Stage::Open);
                platter.open.insert(block, stored);
            }
        }
        let open: Vec<BlockId> = platter.open.keys().copied().collect();
        for block in open {
            let image = platter.open[&block].image();
            let (generation, len) = (image.identity.generation, image.data.len());
            let better = platter.shelf.get(&block).is_some_and(|shelved| {
                let shelved = shelved.image();
                (shelved.identity.generation, shelved.data.len()) >= (generation, len)
            });
            if image.stage == Stage::Copying || better {
                platter.open.remove(&block);
                continue;
            }
            match image.stage {
                Stage::Finalized { len } if image.sound_len() == len => {
                    let mut stored = platter.open.remove(&block).expect("listed");
                    stored.cut(len);
                    stored.write_again();
                    if self.0.synced || len > 0 {
                        let written = stored.written();
                        stored.synced(written, true);
                    }
                    platter.shelf.insert(block, stored);
                }
                _ => {
                    let identity = image.identity;
                    platter.open.get_mut(&block).expect("listed").set_header(identity, Stage::Open);
                    let waiting = Rc::new(Opened::new(Phase::Waiting { settled: false }, 0));
                    self.0.open.borrow_mut().insert(block, waiting);
                }
            }
        }
    }
}
