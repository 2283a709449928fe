//! Issues collectives of a group: to NCCL on GPUs, and by copies of the host on simulators.

use crate::collectives::{Collective, Issue, Summand};
use crate::exchange::error;
use crate::group::Group;
use crate::nccl::Communicators;
use moye_runtime::{Buffer, Result, Stream};

impl Group {
    /// Uses NCCL communicators (`ncclComm_t`) that the program created, by rank of this caller. All
    /// ranks call this before their first collective.
    ///
    /// # Errors
    /// A group of simulators, communicators of other ranks, or a group that already has
    /// communicators.
    ///
    /// # Safety
    /// The communicators are alive, are not destroyed before the group, and no other code issues
    /// calls on them while the group does. After the error that a rank did not arrive, the program
    /// aborts them before it frees what the group's calls use.
    pub unsafe fn adopt(&self, communicators: &[*mut std::ffi::c_void]) -> Result<()> {
        if self.members.iter().any(|member| !member.device.is_gpu()) {
            return Err(error("simulators have no communicators of NCCL"));
        }
        // SAFETY: the communicators are alive until the group ends, and no other code uses them.
        let adopted = unsafe { Communicators::adopt(self, communicators)? };
        self.communicators.set(adopted).map_err(|_| error("the group has its communicators already"))
    }

    /// Prepares for [`issue`](Self::issue); all ranks call it together.
    pub(crate) fn connect(&self) -> Result<()> {
        if self.world == 1 || self.members.iter().all(|member| !member.device.is_gpu()) {
            return Ok(());
        }
        if self.communicators.get().is_none() {
            let made = Communicators::new(self)?;
            let _ = self.communicators.set(made);
        }
        Ok(())
    }

    /// Issues several collectives of elements `T` as one.
    ///
    /// # Safety
    /// The parts are in memory of their streams' devices, and no other work uses them meanwhile.
    pub(crate) unsafe fn issue<T: moye_runtime::Element>(
        &self,
        calls: &[Issue<'_>],
        sum: Option<fn(&mut [u8], &[u8])>,
        data: i32,
    ) -> Result<()> {
        self.connect()?;
        if self.world == 1 {
            for Issue { count, parts, .. } in calls {
                for part in parts.iter().filter(|part| part.from != part.to) {
                    // SAFETY: the caller guarantees the parts.
                    unsafe { part.stream.copy(part.to, part.from, count * size_of::<T>())? };
                }
            }
            return Ok(());
        }
        if let (Some(communicators), Some(first)) = (self.communicators.get(), calls.first()) {
            // SAFETY: the caller guarantees the parts.
            if !unsafe { communicators.issue(calls, data, self.timeout)? } {
                communicators.abort(self.timeout);
                return Err(self.late(&format!("NCCL's {:?} of {}", first.collective, first.count)));
            }
            return Ok(());
        }
        // SAFETY: the caller guarantees the parts.
        calls.iter().try_for_each(|call| unsafe { self.by_host(call, size_of::<T>(), sum) })
    }

    /// A collective of simulators.
    ///
    /// # Safety
    /// Same contract as [`issue`](Self::issue).
    unsafe fn by_host(
        &self,
        &Issue { collective, count, ref parts }: &Issue<'_>,
        size: usize,
        sum: Option<fn(&mut [u8], &[u8])>,
    ) -> Result<()> {
        let bytes = |address: u64, len: usize, stream: &Stream| {
            // SAFETY: the caller guarantees that the parts have the bytes.
            unsafe { Buffer::<u8>::from_raw_parts(address, len, stream.device()) }
        };
        let given = match collective {
            Collective::ReduceScatter => self.world * count * size,
            _ => count * size,
        };
        let own = parts.iter().map(|part| bytes(part.from, given, part.stream)?.download());
        let all = self.exchange.all(own.collect::<Result<_>>()?)?;
        if let Some(other) = all.iter().position(|part| part.len() != given) {
            return Err(error(format!(
                "rank {} gives {given} bytes, and rank {other} {}; all ranks make the same calls in the same order",
                self.members[0].rank,
                all[other].len()
            )));
        }
        let summed = || {
            let mut total = all[0].clone();
            if let Some(sum) = sum {
                all[1..].iter().for_each(|part| sum(&mut total, part));
            }
            total
        };
        for (part, member) in parts.iter().zip(&self.members) {
            let result = match collective {
                Collective::AllReduce => summed(),
                Collective::Reduce(root) if root != member.rank => continue,
                Collective::Reduce(_) => summed(),
                Collective::ReduceScatter => summed()[member.rank * count * size..][..count * size].to_vec(),
                Collective::AllGather => all.concat(),
                Collective::Broadcast(root) => all[root].clone(),
            };
            bytes(part.to, result.len(), part.stream)?.upload_from(&result)?;
        }
        Ok(())
    }
}

/// Adds the elements of `part` to those of `total`, both as bytes.
pub(crate) fn add<T: Summand>(total: &mut [u8], part: &[u8]) {
    let value = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        T::from_low_bits(u64::from_le_bytes(word)).to_f64()
    };
    for (total, part) in total.chunks_exact_mut(size_of::<T>()).zip(part.chunks_exact(size_of::<T>())) {
        let sum = T::nearest(value(total) + value(part)).low_bits().to_le_bytes();
        total.copy_from_slice(&sum[..size_of::<T>()]);
    }
}
