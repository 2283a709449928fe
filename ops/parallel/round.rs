//! A round: one call of all ranks, in the same order on all of them.

use crate::exchange::error;
use crate::group::{Group, State};
use moye_runtime::{Result, Stream};

/// The kind of a call, equal on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Kind {
    pub name: &'static str,
    /// The type of the elements.
    pub element: &'static str,
    /// What distinguishes calls of a name.
    pub numbers: [usize; 2],
}

/// A call that has started.
pub(crate) struct Round<'g> {
    group: &'g Group,
    pub state: &'g State,
    /// The number of the call, which its flags reach.
    pub epoch: u32,
    /// Bytes of half a workspace.
    pub half: usize,
}

impl Round<'_> {
    /// A simulator runs work when it is issued, so all ranks must issue theirs before any waits.
    pub fn meet(&self) -> Result<()> {
        if self.group.members.iter().any(|member| !member.device.is_gpu()) {
            self.group.exchange.all(vec![Vec::new(); self.group.members.len()])?;
        }
        Ok(())
    }
}

impl Group {
    /// Starts a call on a stream of each member, ordered after the group's earlier calls, with at
    /// least `bytes` of half a workspace, or without flags. At the first call of a kind all ranks
    /// must make it. After an error the group is unusable: ranks that continue would disagree about
    /// which call is which.
    pub(crate) fn round(
        &self,
        streams: &[&Stream],
        kind: Kind,
        bytes: Option<usize>,
        issue: impl FnOnce(&Round<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut state = self.state()?;
        let done = self.round_of(&mut state, streams, kind, bytes, issue);
        if let Err(reason) = &done {
            self.fail(&mut state, reason, streams);
        }
        done
    }

    fn round_of(
        &self,
        state: &mut State,
        streams: &[&Stream],
        kind: Kind,
        bytes: Option<usize>,
        issue: impl FnOnce(&Round<'_>) -> Result<()>,
    ) -> Result<()> {
        if !state.known.contains(&kind) {
            let Kind { name, element, numbers: [one, other] } = kind;
            let own = format!("{name} {one} {other} {element} as call {}", state.epoch);
            let all = self.exchange.all(vec![own.clone().into_bytes(); self.members.len()])?;
            if let Some(other) = all.iter().position(|said| said != own.as_bytes()) {
                let said = String::from_utf8_lossy(&all[other]);
                return Err(error(format!(
                    "rank {} runs {own}, and rank {other} {said}; all ranks make the same calls",
                    self.members[0].rank
                )));
            }
            state.known.insert(kind);
        }
        let half = self.reserve(state, bytes.unwrap_or(0))?;
        if bytes.is_some() {
            state.epoch = state.epoch.wrapping_add(1);
        }
        for (stream, last) in streams.iter().zip(&state.last) {
            // A stream orders its own work.
            match last {
                Some((handle, last)) if *handle == 0 || *handle != stream.raw_handle()?.addr() => {
                    stream.wait(last)?;
                }
                _ => {}
            }
        }
        issue(&Round { group: self, state, epoch: state.epoch, half })?;
        for (stream, last) in streams.iter().zip(&mut state.last) {
            let handle = stream.raw_handle()?.addr();
            match last {
                Some((of, event)) => {
                    event.record_again(stream)?;
                    *of = handle;
                }
                none => *none = Some((handle, stream.record()?)),
            }
        }
        Ok(())
    }
}
