//! How ranks find each other, and their messages from host to host.

use moye_runtime::{Error, Result};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// An error of this crate.
pub(crate) fn error(detail: impl Into<String>) -> Error {
    Error::Unsupported { operation: "parallel", detail: detail.into() }
}

/// The meeting of ranks: this rank, their number, and how to reach the others.
pub struct Rendezvous {
    pub(crate) rank: usize,
    pub(crate) world: usize,
    way: Way,
}

enum Way {
    /// Threads of one process.
    Threads(Arc<Threads>),
    /// Rank 0 listens on this address.
    Tcp(String),
    /// Rank 0 writes the address on which it listens to this file.
    File(std::path::PathBuf),
}

/// The variables of rank, number of ranks, and rank on the host, by launcher.
const VARIABLES: [[&str; 3]; 4] = [
    ["RANK", "WORLD_SIZE", "LOCAL_RANK"],
    ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"],
    ["PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"],
    ["SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"],
];

/// The variables of the launcher that started this process, or of `torchrun` if no launcher did.
fn variables() -> [&'static str; 3] {
    let is_set = |names: &&[&str; 3]| std::env::var_os(names[0]).is_some();
    *VARIABLES.iter().find(is_set).unwrap_or(&VARIABLES[0])
}

impl Rendezvous {
    /// One rendezvous for each of `world` threads of this process, by rank.
    pub fn threads(world: usize) -> Vec<Self> {
        let shared = Arc::new(Threads::default());
        (0..world).map(|rank| Self { rank, world, way: Way::Threads(shared.clone()) }).collect()
    }

    /// By TCP: rank 0 listens on `address`, such as `"10.0.0.1:29600"`, and the others connect.
    pub fn tcp(address: &str, rank: usize, world: usize) -> Self {
        Self { rank, world, way: Way::Tcp(address.to_owned()) }
    }

    /// By a file on this host that does not exist yet: rank 0 writes its address to it, and removes
    /// it when all ranks have arrived.
    pub fn file(path: impl AsRef<Path>, rank: usize, world: usize) -> Self {
        Self { rank, world, way: Way::File(path.as_ref().to_owned()) }
    }

    /// By the variables that a launcher sets: rank and number of ranks by `torchrun` (`RANK`,
    /// `WORLD_SIZE`), Open MPI, MPICH and Intel MPI, or Slurm; and `MASTER_ADDR` and the port after
    /// `MASTER_PORT`, on which `torchrun` itself listens.
    ///
    /// # Errors
    /// A variable is missing or invalid; the message names it.
    pub fn from_env() -> Result<Self> {
        let text = |name: &str| {
            let advice = "start the program by `torchrun` or `mpirun`, or use `Rendezvous::tcp`";
            std::env::var(name).map_err(|_| error(format!("the variable {name} is not set; {advice}")))
        };
        let number = |name: &str| {
            let value = text(name)?;
            value.parse::<usize>().map_err(|_| error(format!("{name} is {value:?}, and must be a number")))
        };
        let [rank, world, _] = variables();
        let (rank, world, port) = (number(rank)?, number(world)?, number("MASTER_PORT")?);
        Ok(Self::tcp(&format!("{}:{}", text("MASTER_ADDR")?, port + 1), rank, world))
    }

    /// The number of this process on its host, as the launcher sets it: usually its GPU.
    pub fn local_rank() -> Option<u32> {
        std::env::var(variables()[2]).ok()?.parse().ok()
    }

    /// This rank.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The number of ranks.
    pub fn world(&self) -> usize {
        self.world
    }

    /// Waits for the other ranks.
    pub(crate) fn meet(self, timeout: Duration) -> Result<Exchange> {
        let Self { rank, world, way } = self;
        if world == 0 || rank >= world {
            return Err(error(format!(
                "rank {rank} of {world}: ranks count from 0 to one below the number of them"
            )));
        }
        let address = match way {
            Way::Threads(threads) => return Ok(Exchange::Threads { threads, rank, world, timeout }),
            Way::Tcp(address) => Where::Address(address),
            Way::File(path) => Where::File(path),
        };
        Sockets::meet(&address, rank, world, timeout).map(|sockets| Exchange::Sockets(Mutex::new(sockets)))
    }
}

/// The messages of a rank to the others, from host to host.
pub(crate) enum Exchange {
    /// All ranks belong to this caller.
    Own,
    Threads {
        threads: Arc<Threads>,
        rank: usize,
        world: usize,
        timeout: Duration,
    },
    Sockets(Mutex<Sockets>),
}

impl Exchange {
    /// Sets the timeout for other ranks.
    pub fn set_timeout(&mut self, time: Duration) {
        match self {
            Self::Own => {}
            Self::Threads { timeout, .. } => *timeout = time,
            Self::Sockets(sockets) => {
                let sockets = sockets.get_mut().unwrap_or_else(PoisonError::into_inner);
                sockets.timeout = time;
                // A socket refuses a timeout of zero.
                let time = time.max(Duration::from_millis(1));
                let _ = sockets.peers.iter().try_for_each(|peer| prepare(peer, time));
            }
        }
    }

    /// Exchanges messages: returns those of all ranks, given those of the caller's.
    pub fn all(&self, own: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        match self {
            Self::Own => Ok(own),
            Self::Threads { threads, rank, world, timeout } => {
                threads.all(own.concat(), *rank, *world, *timeout)
            }
            Self::Sockets(sockets) => {
                sockets.lock().unwrap_or_else(PoisonError::into_inner).all(&own.concat())
            }
        }
    }
}

/// The messages of threads.
#[derive(Default)]
pub(crate) struct Threads {
    state: Mutex<Round>,
    changed: Condvar,
}

#[derive(Default)]
struct Round {
    number: u64,
    come: Vec<Option<Vec<u8>>>,
    /// The messages of the previous round.
    last: Vec<Vec<u8>>,
}

impl Threads {
    fn all(&self, own: Vec<u8>, rank: usize, world: usize, timeout: Duration) -> Result<Vec<Vec<u8>>> {
        let mut round = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        round.come.resize(world, None);
        round.come[rank] = Some(own);
        let number = round.number;
        if round.come.iter().all(Option::is_some) {
            round.last = round.come.iter_mut().filter_map(Option::take).collect();
            round.number += 1;
            self.changed.notify_all();
        }
        let waits = |round: &mut Round| round.number == number;
        let (mut round, _) =
            self.changed.wait_timeout_while(round, timeout, waits).unwrap_or_else(PoisonError::into_inner);
        if round.number != number {
            return Ok(round.last.clone());
        }
        let missing: Vec<_> = (0..world).filter(|&rank| round.come[rank].is_none()).collect();
        round.come[rank] = None;
        Err(absent(&missing, timeout))
    }
}

fn absent(ranks: &[usize], timeout: Duration) -> Error {
    error(format!(
        "rank {} did not come within {} s: it has ended, or makes other calls than the rest",
        ranks.iter().map(usize::to_string).collect::<Vec<_>>().join(", "),
        timeout.as_secs_f64()
    ))
}

enum Where {
    Address(String),
    File(std::path::PathBuf),
}

/// The connections of rank 0 with all others, in order; of another rank with rank 0.
pub(crate) struct Sockets {
    rank: usize,
    peers: Vec<TcpStream>,
    timeout: Duration,
}

impl Sockets {
    fn meet(at: &Where, rank: usize, world: usize, timeout: Duration) -> Result<Self> {
        let start = Instant::now();
        let failed = |what: &str, reason: std::io::Error| error(format!("{what}: {reason}"));
        let mut peers = Vec::new();
        if rank == 0 {
            let address = match at {
                Where::Address(address) => address.as_str(),
                Where::File(_) => "127.0.0.1:0",
            };
            let listener = TcpListener::bind(address)
                .map_err(|e| failed(&format!("rank 0 cannot listen at {address}"), e))?;
            if let Where::File(path) = at {
                let address = listener.local_addr().map_err(|e| failed("the address", e))?.to_string();
                let written = path.with_extension("part");
                std::fs::write(&written, address)
                    .and_then(|()| std::fs::rename(&written, path))
                    .map_err(|e| failed(&format!("cannot write {}", path.display()), e))?;
            }
            listener.set_nonblocking(true).map_err(|e| failed("the listener", e))?;
            let mut come: Vec<Option<TcpStream>> = (1..world).map(|_| None).collect();
            while come.iter().any(Option::is_none) {
                match listener.accept() {
                    Ok((mut stream, _)) => {
                        prepare(&stream, timeout).map_err(|e| failed("a connection", e))?;
                        let mut other = [0; 4];
                        stream.read_exact(&mut other).map_err(|e| failed("a connection", e))?;
                        let other = u32::from_le_bytes(other) as usize;
                        match other.checked_sub(1).and_then(|at| come.get_mut(at)) {
                            Some(slot @ None) => *slot = Some(stream),
                            _ => {
                                return Err(error(format!(
                                    "a second rank {other} of {world} has come; each has its own number"
                                )));
                            }
                        }
                    }
                    Err(_) if start.elapsed() < timeout => std::thread::sleep(Duration::from_millis(1)),
                    Err(_) => {
                        let missing: Vec<_> = (1..world).filter(|&rank| come[rank - 1].is_none()).collect();
                        return Err(absent(&missing, timeout));
                    }
                }
            }
            peers.extend(come.into_iter().flatten());
            if let Where::File(path) = at {
                let _ = std::fs::remove_file(path);
            }
        } else {
            let mut stream = loop {
                let connected = at.address().and_then(TcpStream::connect);
                match connected {
                    Ok(stream) => break stream,
                    Err(_) if start.elapsed() < timeout => std::thread::sleep(Duration::from_millis(5)),
                    Err(reason) => return Err(failed("rank 0 is not reached", reason)),
                }
            };
            prepare(&stream, timeout)
                .and_then(|()| stream.write_all(&(rank as u32).to_le_bytes()))
                .map_err(|e| failed("the connection with rank 0", e))?;
            peers.push(stream);
        }
        Ok(Self { rank, peers, timeout })
    }

    /// Exchanges messages through rank 0.
    fn all(&mut self, own: &[u8]) -> Result<Vec<Vec<u8>>> {
        let timeout = self.timeout;
        let lost = |rank: usize| absent(&[rank], timeout);
        if self.rank > 0 {
            let peer = &mut self.peers[0];
            send(peer, own).map_err(|_| lost(0))?;
            let all = receive(peer).map_err(|_| lost(0))?;
            let mut rest = &all[..];
            let mut messages = Vec::new();
            while !rest.is_empty() {
                messages.push(receive(&mut rest).map_err(|_| lost(0))?);
            }
            // Rank 0 reports which ranks did not arrive.
            return match messages.pop() {
                Some(said) if said.is_empty() => Ok(messages),
                Some(said) => Err(error(String::from_utf8_lossy(&said).into_owned())),
                None => Err(lost(0)),
            };
        }
        let mut messages = vec![own.to_vec()];
        let mut missing = Vec::new();
        for (at, peer) in self.peers.iter_mut().enumerate() {
            match receive(peer) {
                Ok(message) => messages.push(message),
                Err(_) => missing.push(at + 1),
            }
        }
        let failed = (!missing.is_empty()).then(|| absent(&missing, timeout));
        let said =
            failed.as_ref().map(|error| error.to_string().replacen("parallel: ", "", 1)).unwrap_or_default();
        let mut all = Vec::new();
        for message in messages.iter().map(Vec::as_slice).chain([said.as_bytes()]) {
            send(&mut all, message).map_err(|_| lost(0))?;
        }
        for (at, peer) in self.peers.iter_mut().enumerate() {
            if send(peer, &all).is_err() && failed.is_none() {
                return Err(lost(at + 1));
            }
        }
        failed.map_or(Ok(messages), Err)
    }
}

impl Where {
    fn address(&self) -> std::io::Result<std::net::SocketAddr> {
        let text = match self {
            Self::Address(address) => address.clone(),
            Self::File(path) => std::fs::read_to_string(path)?,
        };
        text.to_socket_addrs()?.next().ok_or_else(|| std::io::Error::other("no address"))
    }
}

fn prepare(stream: &TcpStream, timeout: Duration) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(timeout))?;
    // Rank 0 may itself wait this long for another rank.
    stream.set_read_timeout(Some(timeout + timeout / 4))
}

/// Sends a message after its length.
fn send(to: &mut impl Write, message: &[u8]) -> std::io::Result<()> {
    to.write_all(&(message.len() as u32).to_le_bytes())?;
    to.write_all(message)
}

fn receive(from: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let mut message = vec![0; u32::from_le_bytes(length) as usize];
    from.read_exact(&mut message)?;
    Ok(message)
}
