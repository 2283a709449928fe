//! A round: one call of all ranks, in the same order on all of them.

use crate::group::{Group, State};
use moye_runtime::{Result, Stream};

/// The kind of a call, equal on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Kind {
    pub name: &'static str,
    /// The type of the elements.
    pub element: &'static str,
    /// Numbers that distinguish calls of a name.
    pub numbers: [usize; 2],
}

impl Kind {
    /// The description of a rank's call, for errors.
    fn said(&self, call: u32) -> String {
        let Self { name, element, numbers: [one, other] } = self;
        format!("runs {name} {one} {other} {element} as call {call}")
    }
}

/// A call that has started.
pub(crate) struct Round<'g> {
    group: &'g Group,
    kind: Kind,
    pub state: &'g State,
    /// The number of the call, which its flags reach.
    pub epoch: u32,
    /// Bytes of half a workspace.
    pub half: usize,
}

impl Round<'_> {
    /// A simulator runs work when it is issued, so all ranks must issue theirs before any waits.
    pub fn meet(&self) -> Result<()> {
        match self.group.members.iter().all(|member| member.device.is_gpu()) {
            true => Ok(()),
            false => self.group.agree(&self.kind.said(self.epoch)),
        }
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
            self.agree(&kind.said(state.epoch))?;
            state.known.insert(kind);
        }
        let half = self.reserve(state, bytes.unwrap_or(0))?;
        if bytes.is_some() {
            state.epoch = state.epoch.wrapping_add(1);
        }
        for (stream, last) in streams.iter().zip(&state.last) {
            // A stream orders its own work; on a simulator all have the handle 0.
            if let Some((of, last)) = last
                && (of.raw_handle()?.is_null() || of.raw_handle()? != stream.raw_handle()?)
            {
                stream.wait(last)?;
            }
        }
        issue(&Round { group: self, kind, state, epoch: state.epoch, half })?;
        for (stream, last) in streams.iter().zip(&mut state.last) {
            match last {
                Some((of, event)) => {
                    event.record_again(stream)?;
                    *of = (*stream).clone();
                }
                none => *none = Some(((*stream).clone(), stream.record()?)),
            }
        }
        Ok(())
    }
}
