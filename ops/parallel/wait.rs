//! The wait for all ranks, at most until the timeout, and the failure of a group.

use crate::exchange::{Exchange, detail, error, listed};
use crate::group::{Group, State, failed_before};
use moye_runtime::{Device, Error, Result, Stream};
use std::time::{Duration, Instant};

/// The beginning of a message that a rank waits for the others.
const WAITS: &str = "waits for";

impl Group {
    /// Waits until the work of the members on their `streams`, given by rank, is complete.
    ///
    /// # Errors
    /// A rank whose part of a call did not arrive within the group's timeout: the message names it,
    /// the work that waits for it is released, its results are wrong, and the group is unusable.
    /// Another rank has done so while it waited for this one or a third: what this rank received
    /// may be wrong. The group failed in an earlier call. The fault of a kernel, or an error of the
    /// driver.
    ///
    /// The timeout counts from this call. Calls by NCCL raise no flags: this rank then asks which
    /// others wait too, once more at most for the timeout. After an error the call returns when the
    /// released work is complete, or after the timeout once more.
    pub fn wait(&self, streams: &[&Stream]) -> Result<()> {
        if !self.ends(streams)? {
            let mut state = self.any_state();
            let reason = match &state.failed {
                Some(failed) => failed_before(failed),
                None => self.give_up(&mut state)?,
            };
            self.drain(&state, streams)?;
            return Err(reason);
        }
        self.intact(&mut *self.state()?)
    }

    /// Keeps released work released until it is complete, at most until the timeout: a late rank
    /// writes the number of its call into its flag, which may be lower than the released value.
    fn drain(&self, state: &State, streams: &[&Stream]) -> Result<()> {
        let start = Instant::now();
        while !self.are_idle(streams)? && start.elapsed() < self.timeout {
            for (device, flag, _, _) in self.missing(state)? {
                // SAFETY: the flag is a word of the workspace.
                unsafe { device.raise_now(flag, state.epoch)? };
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// The flags that members lack for the last call: the member's device, the flag's address, the
    /// rank that raises it, and for how many calls.
    fn missing(&self, state: &State) -> Result<Vec<(&Device, u64, usize, i32)>> {
        let mut missing = Vec::new();
        for (member, window) in self.members.iter().zip(&state.windows) {
            for from in (0..self.world).filter(|&from| from != member.rank) {
                let flag = window.flag(member.rank, from);
                // SAFETY: the flag is a word of the workspace.
                let found = unsafe { member.device.read_flag(flag)? };
                let calls = state.epoch.wrapping_sub(found).cast_signed();
                if calls > 0 {
                    missing.push((&member.device, flag, from, calls));
                }
            }
        }
        Ok(missing)
    }

    /// An error if another rank has released work that waited: its later work ran in an order that
    /// flags no longer decide, so what this rank has received may be wrong. Read after this rank's
    /// work, because the word is written before the release.
    pub(crate) fn intact(&self, state: &mut State) -> Result<()> {
        if self.members.len() == self.world {
            return Ok(());
        }
        for (member, window) in self.members.iter().zip(&state.windows) {
            // SAFETY: the word is in the workspace.
            let by = unsafe { member.device.read_flag(window.failed(member.rank))? };
            if let Some(by) = by.checked_sub(1) {
                let failed = format!(
                    "rank {by} gave up waiting for another rank, so results here may be wrong: see the output \
                     of rank {by}, or raise the timeout"
                );
                state.failed = Some(failed.clone());
                return Err(error(failed));
            }
        }
        Ok(())
    }

    /// Waits until the calls of the members are complete, at most until the timeout.
    pub(crate) fn settle(&self, state: &mut State) -> Result<()> {
        for (member, last) in self.members.iter().zip(&state.last) {
            if let Some((_, last)) = last {
                member.side.wait(last)?;
            }
            if !member.device.is_gpu() {
                member.device.synchronize()?;
            }
        }
        let sides: Vec<_> = self.members.iter().map(|member| &member.side).collect();
        if self.ends(&sides)? {
            return self.intact(state);
        }
        let reason = self.give_up(state)?;
        self.drain(state, &sides)?;
        Err(reason)
    }

    /// Makes all later calls errors, because this rank did not make the call that the others make.
    /// Waits for the work that it has issued on `streams` and before, and releases that work after
    /// the timeout: a caller that gets the error may free the memory that the work uses.
    pub(crate) fn fail(&self, state: &mut State, reason: &Error, streams: &[&Stream]) {
        let said = state.failed.get_or_insert(detail(reason)).clone();
        // A captured stream cannot be waited for.
        let streams: Vec<_> =
            streams.iter().copied().filter(|stream| stream.is_idle().is_ok_and(|is| !is)).collect();
        if !self.ends(&streams).unwrap_or(true) {
            let _ = self.give_up(state);
        }
        let _ = self.settle(state);
        state.failed = Some(said);
    }

    /// The result of a check before a call. If other ranks may make the call, a refused one would
    /// let this rank's next call meet it, so the group fails.
    pub(crate) fn checked<R>(&self, result: Result<R>) -> Result<R> {
        if let (Err(reason), true) = (&result, self.members.len() < self.world) {
            self.fail(&mut *self.state()?, reason, &[]);
        }
        result
    }

    /// Whether the work on all streams is complete.
    fn are_idle(&self, streams: &[&Stream]) -> Result<bool> {
        streams.iter().try_fold(true, |all, stream| Ok(stream.is_idle()? && all))
    }

    /// Whether the work on the streams completes within the timeout.
    pub(crate) fn ends(&self, streams: &[&Stream]) -> Result<bool> {
        let start = Instant::now();
        let mut naps = 0u32;
        while !self.are_idle(streams)? {
            if start.elapsed() > self.timeout {
                return Ok(false);
            }
            naps += 1;
            if naps > 1000 {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
        Ok(true)
    }

    /// Releases the waiting work, and reports the missing ranks.
    fn give_up(&self, state: &mut State) -> Result<Error> {
        // By rank, for how many calls members have no flag from it.
        let (mut behind, waiting) = (vec![0; self.world], self.missing(state)?);
        for &(_, _, from, calls) in &waiting {
            behind[from] = calls.max(behind[from]);
        }
        // The released work stores to the other ranks and raises their flags, though this rank has
        // not received what it needs: they learn it first.
        for (member, window) in self.members.iter().zip(&state.windows) {
            for to in (0..self.world).filter(|&to| window.reaches(to) && self.ranks().all(|own| own != to)) {
                // A word that cannot be written is in memory that the work does not reach either.
                // SAFETY: the word is in the workspace of rank `to`.
                let _ = unsafe { member.device.raise_now(window.failed(to), 1 + member.rank as u32) };
            }
        }
        for (device, flag, _, _) in waiting {
            // SAFETY: the flag is a word of the workspace.
            unsafe { device.raise_now(flag, state.epoch)? };
        }
        if let Some(communicators) = self.communicators.get() {
            communicators.abort(self.timeout);
        }
        // A rank that waits for the missing one has raised its flag of this call, but none of later
        // ones: the missing rank is the furthest behind. NCCL's calls raise no flags, so if several
        // ranks are as far behind, some of them may wait too.
        let most = behind.iter().copied().max().unwrap_or(0);
        let late: Vec<_> = (0..self.world).filter(|&rank| most > 0 && behind[rank] == most).collect();
        let call = state.epoch.wrapping_sub((most - 1).max(0).cast_unsigned());
        let time = self.timeout.as_secs_f64();
        let failed = match (&late[..], &state.failed) {
            ([], Some(_)) => format!("work did not end within {time} s"),
            // Another rank that waits in NCCL asks, and its released work has raised its flags.
            (_, None) if self.communicators.get().is_some() => detail(&self.late(&format!("call {call}"))),
            ([_], _) | (_, Some(_)) => format!(
                "rank {} did not arrive at call {call} within {time} s: it has ended, or makes other calls",
                listed(&late)
            ),
            _ => detail(&self.late(&format!("call {call}"))),
        };
        state.failed = Some(failed.clone());
        Ok(error(failed))
    }

    /// The error that `what`, for which ranks raise no flags, did not end: asks which other ranks
    /// wait for it too.
    pub(crate) fn late(&self, what: &str) -> Error {
        let time = self.timeout.as_secs_f64();
        let own = format!("{WAITS} {what}");
        let all = match self.exchange.all(vec![own.into_bytes(); self.members.len()]) {
            Ok(all) => all,
            Err(reason) => return reason,
        };
        let waits = |said: &[u8]| said.starts_with(WAITS.as_bytes());
        let others = match self.exchange {
            Exchange::Own => Vec::new(),
            _ => (0..all.len()).filter(|&rank| !waits(&all[rank])).collect::<Vec<_>>(),
        };
        error(match others.first() {
            None => format!("{what} did not end within {time} s, though all ranks arrived"),
            Some(&other) => {
                let said = String::from_utf8_lossy(&all[other]);
                format!(
                    "rank {} did not arrive at {what} within {time} s: rank {other} {said}",
                    listed(&others)
                )
            }
        })
    }
}
