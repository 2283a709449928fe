//! The ranks of the program: threads with a GPU each, or this process as one of several.

use super::{Options, answer};
use moye::{Device, DeviceChoice};
use moye_llama::ranks::Ranks;
use moye_llama::{Error, Result};
use moye_parallel::{Group, Rendezvous};
use std::time::Duration;

/// How long ranks wait for each other: the first may load a large file first.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A rank's device, and its number.
pub(super) struct Place {
    pub device: Device,
    /// The rank and its group, if there are several.
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
        return Err(Error::Request("--chat answers on one GPU; give prompts, or --batch FILE".to_owned()));
    }
    // As `torchrun` and launchers like it start a process a GPU.
    if std::env::var_os("RANK").is_some() {
        let rendezvous = Rendezvous::from_env()?;
        if rendezvous.world() != world {
            let detail = format!("WORLD_SIZE is {}, and --gpus {world}", rendezvous.world());
            return Err(Error::Request(detail));
        }
        let local = std::env::var("LOCAL_RANK").ok().and_then(|text| text.parse().ok());
        let device = match options.device {
            DeviceChoice::Sim => Device::sim(),
            _ => Device::gpu(local.unwrap_or(rendezvous.rank() as u32))?,
        };
        return rank(options, device, rendezvous);
    }
    let devices = match options.device {
        DeviceChoice::Sim => Device::sim_peers(world),
        _ => (0..options.gpus).map(Device::gpu).collect::<moye::Result<_>>()?,
    };
    std::thread::scope(|scope| {
        let ranks: Vec<_> = devices
            .into_iter()
            .zip(Rendezvous::threads(world))
            .map(|(device, rendezvous)| scope.spawn(move || rank(options, device, rendezvous)))
            .collect();
        let ended = ranks.into_iter().map(|rank| rank.join().expect("ranks do not panic"));
        ended.collect::<Vec<_>>().into_iter().collect()
    })
}

fn rank(options: &Options, device: Device, rendezvous: Rendezvous) -> Result<()> {
    let number = rendezvous.rank();
    let ranks = Ranks::new(Group::join(&device, rendezvous, TIMEOUT)?);
    answer(options, Place { device, ranks: Some((number, ranks)) })
}
