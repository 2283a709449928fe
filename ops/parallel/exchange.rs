//! Messages of ranks from host to host. All ranks exchange together, at a hub: threads share it,
//! and a thread of rank 0's process speaks for each process without it.

use moye_runtime::{Error, Result};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The time that a remote rank waits for rank 0's answer beyond the timeout, at which rank 0's
/// process answers.
const GRACE: Duration = Duration::from_secs(1);

/// An error of this crate.
pub(crate) fn error(detail: impl Into<String>) -> Error {
    Error::Unsupported { operation: "parallel", detail: detail.into() }
}

/// The message of an error of this crate, for another one.
pub(crate) fn detail(reason: &Error) -> String {
    reason.to_string().replacen("parallel: ", "", 1)
}

/// The message that ranks did not arrive.
pub(crate) fn absent(ranks: &[usize], timeout: Duration) -> String {
    format!(
        "rank {} did not arrive within {} s: it has ended, or makes other calls than the rest",
        listed(ranks),
        timeout.as_secs_f64()
    )
}

/// The message that ranks no longer take part.
fn left_by(ranks: &[usize]) -> String {
    let who = listed(ranks);
    format!("rank {who} has left the group: it has ended, or an error has made its group unusable")
}

/// Ranks for a message.
pub(crate) fn listed(ranks: &[usize]) -> String {
    ranks.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

/// The messages of a caller's ranks to the others.
pub(crate) enum Exchange {
    /// All ranks belong to this caller.
    Own,
    /// A thread of the process that has the hub; rank 0 of several processes speaks for the others.
    Hub { hub: Arc<Hub>, rank: usize, peers: Vec<Peer> },
    /// A rank whose hub is in the process of rank 0.
    Remote(Mutex<Remote>),
}

impl Exchange {
    pub fn remote(stream: TcpStream, timeout: Duration) -> Self {
        Self::Remote(Mutex::new(Remote { stream, timeout, failed: None }))
    }

    /// Sets the timeout for other ranks.
    pub fn set_timeout(&mut self, timeout: Duration) {
        match self {
            Self::Own => {}
            Self::Hub { hub, .. } => hub.set_timeout(timeout),
            Self::Remote(remote) => {
                remote.get_mut().unwrap_or_else(PoisonError::into_inner).timeout = timeout;
            }
        }
    }

    /// Exchanges messages: returns the messages of all ranks, given those of the caller's ranks.
    /// All later exchanges return the same error.
    pub fn all(&self, own: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        match self {
            Self::Own => Ok(own),
            Self::Hub { hub, rank, .. } => hub.all(own.concat(), *rank).map_err(error),
            Self::Remote(remote) => remote.lock().unwrap_or_else(PoisonError::into_inner).all(&own.concat()),
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if let Self::Hub { hub, rank, peers } = self {
            hub.leave(*rank);
            // They answer what is outstanding first.
            peers.clear();
        }
    }
}

/// The meeting point of all ranks' messages.
pub(crate) struct Hub {
    state: Mutex<Meeting>,
    changed: Condvar,
}

/// The state of an exchange.
struct Meeting {
    timeout: Duration,
    number: u64,
    /// By rank.
    come: Vec<Option<Vec<u8>>>,
    /// The time at which the first rank arrived.
    since: Option<Instant>,
    /// The messages of the previous exchange.
    last: Vec<Vec<u8>>,
    /// Ranks that have dropped their group or whose process has ended.
    left: Vec<usize>,
    /// The reason for no further exchanges, the same for all ranks.
    failed: Option<String>,
}

impl Hub {
    pub fn new(world: usize) -> Self {
        let come = (0..world).map(|_| None).collect();
        let (last, left) = (Vec::new(), Vec::new());
        let state =
            Meeting { timeout: Duration::MAX, number: 0, come, since: None, last, left, failed: None };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, Meeting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set_timeout(&self, timeout: Duration) {
        self.state().timeout = timeout;
    }

    /// A rank ends.
    fn leave(&self, rank: usize) {
        self.state().left.push(rank);
        self.changed.notify_all();
    }

    /// The reason for no further exchanges after rank 0 has left.
    fn reason(&self) -> String {
        self.state().failed.clone().unwrap_or_else(|| left_by(&[0]))
    }

    /// The messages of all ranks, given that of `rank`. The timeout counts from the first rank that
    /// arrives, so all ranks that have arrived name the same others, at the same time.
    fn all(&self, own: Vec<u8>, rank: usize) -> std::result::Result<Vec<Vec<u8>>, String> {
        let mut meeting = self.state();
        if let Some(failed) = &meeting.failed {
            return Err(failed.clone());
        }
        let number = meeting.number;
        let since = *meeting.since.get_or_insert_with(Instant::now);
        meeting.come[rank] = Some(own);
        if meeting.come.iter().all(Option::is_some) {
            meeting.last = meeting.come.iter_mut().filter_map(Option::take).collect();
            meeting.number += 1;
            meeting.since = None;
            self.changed.notify_all();
        }
        loop {
            if meeting.number != number {
                return Ok(meeting.last.clone());
            }
            if let Some(failed) = &meeting.failed {
                return Err(failed.clone());
            }
            let missing = (0..meeting.come.len()).filter(|&rank| meeting.come[rank].is_none());
            let (left, late): (Vec<_>, Vec<_>) = missing.partition(|rank| meeting.left.contains(rank));
            let rest = meeting.timeout.saturating_sub(since.elapsed());
            if !left.is_empty() || rest.is_zero() {
                meeting.failed = Some(match left.is_empty() {
                    true => absent(&late, meeting.timeout),
                    false => left_by(&left),
                });
                self.changed.notify_all();
                continue;
            }
            meeting = self.changed.wait_timeout(meeting, rest).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// A thread that speaks at the hub for a rank of another process.
pub(crate) struct Peer {
    stream: TcpStream,
    thread: Option<JoinHandle<()>>,
}

impl Peer {
    pub fn serve(hub: &Arc<Hub>, rank: usize, stream: TcpStream, timeout: Duration) -> Result<Self> {
        let failed = |reason: std::io::Error| error(format!("the connection with rank {rank}: {reason}"));
        stream.set_nonblocking(false).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        stream.set_write_timeout(Some(timeout.max(GRACE))).map_err(failed)?;
        let (hub, mut own) = (hub.clone(), stream.try_clone().map_err(failed)?);
        let speak = move || {
            while let Ok(message) = receive(&mut own) {
                if send(&mut own, &answer(hub.all(message, rank))).is_err() {
                    break;
                }
            }
            hub.leave(rank);
            // For a rank that arrives when rank 0 has left.
            let _ = send(&mut own, &answer(Err(hub.reason())));
        };
        let thread = std::thread::Builder::new().name(format!("rank {rank}")).spawn(speak);
        Ok(Self { stream, thread: Some(thread.map_err(failed)?) })
    }
}

impl Drop for Peer {
    /// Sends the answer that is outstanding, and closes the connection.
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Read);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The messages of all ranks as one, and a last one: the reason if the exchange failed.
fn answer(all: std::result::Result<Vec<Vec<u8>>, String>) -> Vec<u8> {
    let (mut messages, failed) =
        all.map_or_else(|failed| (Vec::new(), failed), |messages| (messages, String::new()));
    messages.push(failed.into_bytes());
    let with_length = |message: &Vec<u8>| [&(message.len() as u32).to_le_bytes(), &message[..]].concat();
    messages.iter().flat_map(with_length).collect()
}

/// The connection of a rank with the process of rank 0.
pub(crate) struct Remote {
    stream: TcpStream,
    timeout: Duration,
    failed: Option<String>,
}

impl Remote {
    fn all(&mut self, own: &[u8]) -> Result<Vec<Vec<u8>>> {
        if self.failed.is_none() {
            let answered = self.ask(own).map_err(|reason| match reason.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => absent(&[0], self.timeout),
                _ => left_by(&[0]),
            });
            match answered {
                // The last message is the reason if the exchange failed.
                Ok(mut messages) => match messages.pop() {
                    Some(failed) if !failed.is_empty() => {
                        self.failed = Some(String::from_utf8_lossy(&failed).into_owned());
                    }
                    _ => return Ok(messages),
                },
                Err(failed) => self.failed = Some(failed),
            }
        }
        Err(error(self.failed.as_deref().unwrap_or_default()))
    }

    /// The messages of an answer.
    fn ask(&mut self, own: &[u8]) -> std::io::Result<Vec<Vec<u8>>> {
        self.stream.set_nodelay(true)?;
        self.stream.set_write_timeout(Some(self.timeout.max(GRACE)))?;
        self.stream.set_read_timeout(Some(self.timeout.saturating_add(GRACE)))?;
        let sent = send(&mut self.stream, own);
        // If rank 0 has left, the reason was sent before.
        let all = receive(&mut self.stream).map_err(|reason| sent.err().unwrap_or(reason))?;
        let (mut rest, mut messages) = (&all[..], Vec::new());
        while !rest.is_empty() {
            messages.push(receive(&mut rest)?);
        }
        Ok(messages)
    }
}

/// The greatest length of a message in bytes: errors, handles, and the answer with those of all
/// ranks.
const MOST: usize = 1 << 24;

/// Sends a message after its length.
fn send(to: &mut impl Write, message: &[u8]) -> std::io::Result<()> {
    if message.len() > MOST {
        return Err(std::io::Error::other(format!("a message of {} bytes", message.len())));
    }
    to.write_all(&(message.len() as u32).to_le_bytes())?;
    to.write_all(message)
}

fn receive(from: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MOST {
        return Err(std::io::Error::other(format!("a message of {length} bytes")));
    }
    let mut message = vec![0; length];
    from.read_exact(&mut message)?;
    Ok(message)
}
