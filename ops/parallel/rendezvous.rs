//! The meeting of ranks: threads by shared memory, processes by a socket of rank 0.

use crate::exchange::{Exchange, Hub, Peer, absent, error};
use moye_runtime::{Error, Result};
use std::env::VarError;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The meeting of ranks: this rank, their number, and how to reach the others.
pub struct Rendezvous {
    pub(crate) rank: usize,
    pub(crate) world: usize,
    way: Way,
}

enum Way {
    /// Threads of one process.
    Threads(Arc<Hub>),
    /// Rank 0 listens on this address.
    Tcp(String),
    /// Rank 0 writes the address on which it listens to this file.
    File(PathBuf),
}

/// The variables of rank, number of ranks, and rank on the host, by launcher.
const VARIABLES: [[&str; 3]; 4] = [
    ["RANK", "WORLD_SIZE", "LOCAL_RANK"],
    ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"],
    ["PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"],
    ["SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"],
];

/// The variables of the launcher that started this process, if one did.
fn launcher() -> Option<[&'static str; 3]> {
    let is_set = |names: &&[&str; 3]| std::env::var_os(names[0]).is_some();
    VARIABLES.iter().find(is_set).copied()
}

/// The value of a variable, if it is set.
fn text(name: &str) -> Result<Option<String>> {
    match std::env::var(name) {
        Ok(text) => Ok(Some(text)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(value)) => Err(error(format!("{name} is {value:?}, which is not UTF-8"))),
    }
}

fn missing(name: &str, advice: &str) -> Error {
    error(format!("the variable {name} is not set; {advice}"))
}

fn parsed(name: &str, text: &str, most: u32) -> Result<u32> {
    let number = text.trim().parse().ok().filter(|&number: &u32| number <= most);
    number.ok_or_else(|| error(format!("{name} is {text:?}, and must be a number from 0 to {most}")))
}

/// The value of a variable that must be a number.
fn number(name: &str, most: u32, advice: &str) -> Result<u32> {
    parsed(name, &text(name)?.ok_or_else(|| missing(name, advice))?, most)
}

impl Rendezvous {
    /// One rendezvous for each of `world` threads of this process, by rank.
    pub fn threads(world: usize) -> Vec<Self> {
        let hub = Arc::new(Hub::new(world));
        (0..world).map(|rank| Self { rank, world, way: Way::Threads(hub.clone()) }).collect()
    }

    /// By TCP: rank 0 listens on `address`, and the others connect to it: the host's name or number
    /// and a port, such as `"node0:29600"`, `"10.0.0.1:29600"` or `"[fd00::1]:29600"`. Ranks on
    /// other hosts need an address of rank 0's host that they reach, not `localhost`. Only rank 0
    /// may give `0.0.0.0` or `[::]`, to listen on all its addresses. It drops connections of other
    /// programs.
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
    /// A variable is missing, is not a number, or is out of range; the message has its name and
    /// value.
    pub fn from_env() -> Result<Self> {
        const START: &str = "start the program by `torchrun` or `mpirun`, or use `Rendezvous::tcp`";
        const MASTER: &str = "set it to rank 0's host or a free port there, or use `Rendezvous::tcp`";
        let [rank_name, world_name, _] = launcher().unwrap_or(VARIABLES[0]);
        let (rank, world) = (number(rank_name, u32::MAX, START)?, number(world_name, u32::MAX, START)?);
        if rank >= world {
            return Err(error(format!(
                "{rank_name} is {rank}, and {world_name} is {world}: ranks count from 0 to one below the number of them"
            )));
        }
        // The port after it is needed.
        let port = 1 + number("MASTER_PORT", u32::from(u16::MAX) - 1, MASTER)?;
        let host = text("MASTER_ADDR")?.ok_or_else(|| missing("MASTER_ADDR", MASTER))?;
        let address = match host.contains(':') && !host.starts_with('[') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        };
        Ok(Self::tcp(&address, rank as usize, world as usize))
    }

    /// Whether a launcher started this process as one of several, by the variables that
    /// [`from_env`](Self::from_env) reads. It did not if their number of ranks is 1.
    pub fn is_launched() -> bool {
        launcher().is_some_and(|[_, world, _]| std::env::var(world).as_deref() != Ok("1"))
    }

    /// The number of this process on its host, as the launcher sets it: usually its GPU. `None` if
    /// the variable is not set.
    ///
    /// # Errors
    /// The variable is not a number; the message has its name and value.
    pub fn local_rank() -> Result<Option<u32>> {
        let name = launcher().unwrap_or(VARIABLES[0])[2];
        text(name)?.map(|text| parsed(name, &text, u32::MAX)).transpose()
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
        let place = match way {
            Way::Threads(hub) => {
                hub.set_timeout(timeout);
                return Ok(Exchange::Hub { hub, rank, peers: Vec::new() });
            }
            Way::Tcp(address) => Place::at(address, rank)?,
            Way::File(path) => Place::File(path),
        };
        if rank > 0 {
            return Ok(Exchange::remote(place.connect(rank, world, timeout)?, timeout));
        }
        let connections = place.accept(world, timeout)?;
        let hub = Arc::new(Hub::new(world));
        hub.set_timeout(timeout);
        let serve = |(at, stream)| Peer::serve(&hub, at + 1, stream, timeout);
        let peers = connections.into_iter().enumerate().map(serve).collect::<Result<_>>()?;
        Ok(Exchange::Hub { hub, rank, peers })
    }
}

/// The first bytes of a rank's connection, by which rank 0 knows it from those of other programs.
const GREETING: [u8; 8] = *b"moye-par";
/// Bytes of the greeting, the rank, and the number of ranks.
const HELLO: usize = 16;
/// The timeout of an attempt to connect.
const ATTEMPT: Duration = Duration::from_secs(2);

/// The address on which rank 0 listens, or the file to which it writes the address.
enum Place {
    Address(String),
    File(PathBuf),
}

/// A connection whose rank is not known yet.
struct Caller {
    stream: TcpStream,
    said: [u8; HELLO],
    len: usize,
}

impl Caller {
    /// Reads the bytes that have arrived: `None` if the connection is not a rank's, otherwise
    /// whether all [`HELLO`] bytes have arrived.
    fn hear(&mut self) -> Option<bool> {
        while self.len < HELLO {
            match self.stream.read(&mut self.said[self.len..]) {
                Ok(0) => return None,
                Ok(len) => self.len += len,
                Err(reason) if reason.kind() == ErrorKind::WouldBlock => break,
                Err(reason) if reason.kind() == ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
        let known = self.len.min(GREETING.len());
        (self.said[..known] == GREETING[..known]).then_some(self.len == HELLO)
    }

    /// The rank, and the number of ranks that it expects.
    fn rank(&self) -> (usize, usize) {
        let word = |at: usize| self.said[at..at + 4].try_into().map_or(0, u32::from_le_bytes) as usize;
        (word(8), word(12))
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(address) => f.write_str(address),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

impl Place {
    /// An address that a rank can use.
    fn at(address: String, rank: usize) -> Result<Self> {
        let (host, port) = address.rsplit_once(':').unwrap_or((&address, ""));
        if host.is_empty() || !port.parse::<u16>().is_ok_and(|port| port > 0) {
            return Err(error(format!(
                "rank 0's address is {address:?}, and must be HOST:PORT with a port from 1 to 65535"
            )));
        }
        if rank > 0 && ["0.0.0.0", "[::]", "::"].contains(&host) {
            return Err(error(format!(
                "rank {rank} cannot connect to {address}: give it an address of rank 0's host"
            )));
        }
        Ok(Self::Address(address))
    }

    /// Connects to the first of the addresses that accepts.
    fn try_connect(&self, timeout: Duration) -> std::io::Result<TcpStream> {
        let text = match self {
            Self::Address(address) => address.clone(),
            Self::File(path) => std::fs::read_to_string(path)?,
        };
        let mut failed = std::io::Error::other("the name has no address");
        for address in text.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, timeout) {
                Ok(stream) => return Ok(stream),
                Err(reason) => failed = reason,
            }
        }
        Err(failed)
    }

    /// The connections of rank 0 with the others, in order.
    fn accept(&self, world: usize, timeout: Duration) -> Result<Vec<TcpStream>> {
        let accepted = self.listen(world, timeout);
        if let Self::File(path) = self {
            let _ = std::fs::remove_file(path);
        }
        accepted
    }

    fn listen(&self, world: usize, timeout: Duration) -> Result<Vec<TcpStream>> {
        let start = Instant::now();
        let failed = |what: &str, reason: std::io::Error| error(format!("{what}: {reason}"));
        let address = match self {
            Self::Address(address) => address.as_str(),
            Self::File(_) => "127.0.0.1:0",
        };
        let listener = TcpListener::bind(address)
            .map_err(|reason| failed(&format!("rank 0 cannot listen at {address}"), reason))?;
        listener.set_nonblocking(true).map_err(|reason| failed("the listener", reason))?;
        if let Self::File(path) = self {
            let address = listener.local_addr().map_err(|reason| failed("the address", reason))?.to_string();
            let written = path.with_extension("part");
            std::fs::write(&written, address)
                .and_then(|()| std::fs::rename(&written, path))
                .map_err(|reason| failed(&format!("cannot write {}", path.display()), reason))?;
        }
        let (mut callers, mut come) = (Vec::new(), (1..world).map(|_| None).collect::<Vec<_>>());
        while come.iter().any(Option::is_none) {
            let mut is_quiet = true;
            if let Ok((stream, _)) = listener.accept() {
                is_quiet = false;
                if stream.set_nonblocking(true).is_ok() {
                    callers.push(Caller { stream, said: [0; HELLO], len: 0 });
                }
            }
            for mut caller in std::mem::take(&mut callers) {
                match caller.hear() {
                    None => {}
                    Some(false) => callers.push(caller),
                    Some(true) => {
                        let (rank, other) = caller.rank();
                        if other != world {
                            return Err(error(format!(
                                "rank {rank} expects {other} ranks, and rank 0 expects {world}"
                            )));
                        }
                        match rank.checked_sub(1).and_then(|at| come.get_mut(at)) {
                            Some(slot @ None) => *slot = Some(caller.stream),
                            _ => {
                                return Err(error(format!(
                                    "a second rank {rank} of {world} arrived; each rank has a separate number"
                                )));
                            }
                        }
                    }
                }
            }
            if start.elapsed() > timeout {
                let missing: Vec<_> = (1..world).filter(|&rank| come[rank - 1].is_none()).collect();
                if !missing.is_empty() {
                    return Err(error(absent(&missing, timeout)));
                }
            }
            if is_quiet {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(come.into_iter().flatten().collect())
    }

    /// The connection of another rank with rank 0.
    fn connect(&self, rank: usize, world: usize, timeout: Duration) -> Result<TcpStream> {
        let start = Instant::now();
        let mut stream = loop {
            let rest = timeout.saturating_sub(start.elapsed()).clamp(Duration::from_millis(1), ATTEMPT);
            match self.try_connect(rest) {
                Ok(stream) => break stream,
                Err(_) if start.elapsed() < timeout => std::thread::sleep(Duration::from_millis(5)),
                Err(reason) => {
                    let time = timeout.as_secs_f64();
                    return Err(error(format!("rank 0 did not arrive within {time} s at {self}: {reason}")));
                }
            }
        };
        let hello = [&GREETING[..], &(rank as u32).to_le_bytes(), &(world as u32).to_le_bytes()].concat();
        stream.write_all(&hello).map_err(|reason| error(format!("the connection with rank 0: {reason}")))?;
        Ok(stream)
    }
}
