//! What containers hold is counted anew, full ones are sealed, emptied ones removed: `lead::Sealing` and
//! `Cluster::removable` decide; as `metad`'s sealer.

use super::{Answer, Metad};
use lead::Sealing;
use namespace::Caller;
use namespace::read::{self, OpenView, Place};
use std::rc::Rc;
use std::time::Duration;
use types::{ContainerId, FsPath, InodeId};

const SEAL_EACH: Duration = Duration::from_secs(10);
const PAGE_COUNT: usize = 1000;

impl Metad {
    pub(super) async fn seal_always(self: Rc<Self>, reign: u64) {
        while self.reigns(reign) {
            self.sim.sleep(SEAL_EACH).await;
            let _again = self.measure();
            let _again = self.seal().await;
            let _again = self.remove_emptied().await;
        }
    }

    fn measure(&self) -> Answer<()> {
        let homes = self.with_cluster(|cluster, _| cluster.containers().map(|(home, _)| home).collect::<Vec<_>>())?;
        for home in homes {
            let len = self.len_of(home);
            self.with_cluster(|cluster, _| cluster.on_measured(home, len))?;
        }
        Ok(())
    }

    fn len_of(&self, home: ContainerId) -> u64 {
        let (mut len, mut place) = (0, Some(Place::start(home)));
        while let Some(from) = place {
            let page = read::container_page(&*self.group.rows(), home, from, PAGE_COUNT).expect("memory can be read");
            len += page.blocks.iter().map(|view| view.len).sum::<u64>();
            place = page.next;
        }
        len
    }

    async fn seal(&self) -> Answer<()> {
        let Some(leased) = self.leased.borrow().homes(self.now()) else { return Ok(()) };
        let mut sealing = self.with_cluster(|cluster, _| Sealing::begin(cluster, &leased))?;
        let mut after = Some(InodeId(0));
        while let Some(from) = after.filter(|_| sealing.goes_on()) {
            let (files, next) = read::open_files(&*self.group.rows(), from, PAGE_COUNT).expect("memory can be read");
            files.iter().filter_map(|file| self.home_of_last(file)).for_each(|home| sealing.on_open(home));
            after = next;
        }
        for command in sealing.end() {
            self.sim.say(|| format!("metad {}: {command:?}", self.number));
            let _refused = self.change_blocks(command).await?;
        }
        Ok(())
    }

    async fn remove_emptied(&self) -> Answer<()> {
        if self.is_frozen() {
            return Ok(());
        }
        let Some(leased) = self.leased.borrow().homes(self.now()) else { return Ok(()) };
        let sealed =
            self.with_cluster(|cluster, _| cluster.removable(None, usize::MAX, &leased, &self.doomed.borrow()))?;
        for container in sealed {
            if read::is_empty(&*self.group.rows(), container).expect("memory can be read") {
                self.sim.say(|| format!("metad {}: {container:?} is empty and goes", self.number));
                let _refused = self.change_blocks(blocks::Command::RemoveContainer { container }).await?;
            }
        }
        Ok(())
    }

    fn home_of_last(&self, file: &OpenView) -> Option<ContainerId> {
        let path = FsPath::parse(&file.path).ok()?;
        let located = read::located(&*self.group.rows(), &Caller::system(), &path, u64::MAX, 0);
        located.expect("memory can be read").ok()?.last.map(|last| last.home)
    }
}
