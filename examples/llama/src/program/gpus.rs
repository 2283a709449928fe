//! The program's ranks: threads with a GPU each, or this process as one of several.

use super::{Options, answer};
use moye::{Device, DeviceChoice};
use moye_llama::ranks::Ranks;
use moye_llama::{Error, Result};
use moye_parallel::{Group, Rendezvous};
use std::time::Duration;

/// The timeout for other ranks: the first may have to load a large file.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A rank's device and its rank.
pub(super) struct Place {
    pub device: Device,
    /// The rank and its group, if there are several ranks.
    pub ranks: Option<(usize, Ranks)>,
}

impl Place {
    /// Whether this rank prints.
    pub fn prints(&self) -> bool {
        self.ranks.as_ref().is_none_or(|(rank, _)| *rank == 0)
    }
}

/// Answers on all ranks of this process.
pub(super) fn run(options: &Options) -> Result<()> {
    let world = options.gpus as usize;
    if world == 1 {
        return answer(options, Place { device: Device::choose(options.device)?, ranks: None });
    }
    if options.chat {
        let detail = "--chat answers on one GPU: it reads the terminal; give a prompt or --batch FILE";
        return Err(Error::Request(detail.to_owned()));
    }
    // `torchrun`, MPI and Slurm start one process for each GPU.
    if Rendezvous::is_launched() {
        let rendezvous = Rendezvous::from_env()?;
        if rendezvous.world() != world {
            let detail = format!("{} processes were started, and --gpus is {world}", rendezvous.world());
            return Err(Error::Request(detail));
        }
        let local = Rendezvous::local_rank()?;
        let device = match first(options.device)? {
            None => Device::sim(),
            Some(first) => Device::gpu(first.saturating_add(local.unwrap_or(rendezvous.rank() as u32)))?,
        };
        return rank(options, device, rendezvous);
    }
    let devices = match first(options.device)? {
        None => Device::sim_peers(world),
        Some(first) => {
            let devices = (0..options.gpus).map(|rank| Device::gpu(first.saturating_add(rank)));
            devices.collect::<moye::Result<_>>()?
        }
    };
    std::thread::scope(|scope| {
        let ranks: Vec<_> = devices
            .into_iter()
            .zip(Rendezvous::threads(world))
            .map(|(device, rendezvous)| scope.spawn(move || rank(options, device, rendezvous)))
            .collect();
        let ended = ranks.into_iter().map(|rank| rank.join().expect("ranks do not panic"));
        let mut errors: Vec<_> = ended.filter_map(Result::err).collect();
        // Report the cause before the errors of ranks that waited for the failed one.
        errors.sort_by_key(|error| {
            let said = error.to_string();
            ["did not arrive", "has left the group", "ends its group"]
                .iter()
                .any(|waits| said.contains(waits))
        });
        errors.into_iter().next().map_or(Ok(()), Err)
    })
}

/// The index of the first rank's GPU; `None` for simulators.
fn first(device: DeviceChoice) -> moye::Result<Option<u32>> {
    match device {
        DeviceChoice::Gpu(index) => Ok(Some(index)),
        DeviceChoice::Auto | DeviceChoice::Sim => Ok(Device::choose(device)?.index()),
    }
}

fn rank(options: &Options, device: Device, rendezvous: Rendezvous) -> Result<()> {
    let number = rendezvous.rank();
    let ranks = Ranks::new(Group::join(&device, rendezvous, TIMEOUT)?);
    answer(options, Place { device, ranks: Some((number, ranks)) })
}
