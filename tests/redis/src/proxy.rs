//! What lies between a gateway and its server, and fails.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What becomes of what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It arrives.
    Open,
    /// Nothing arrives, neither way, and nobody is told.
    Closed,
    /// Questions arrive, answers do not.
    OneWay,
    /// What is sent waits on the way, until it is open again.
    Slow,
}

/// A TCP proxy on loopback. Connections are kept whatever becomes of what they carry, as where a cable is cut.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    way: Way,
    /// The answer to the next question that has this in it is lost, and its connection with it.
    lose: Option<Vec<u8>>,
    lost: u32,
    /// Questions that wait on the way.
    held: u32,
    /// Seconds by which what a script says of the server's clock is changed on the way.
    clock: i64,
    over: bool,
}

// === impl Proxy ===

impl Proxy {
    /// Stands before what listens on that port.
    pub fn before(server: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let state = Arc::new(Mutex::new(State {
            way: Way::Open,
            lose: None,
            lost: 0,
            held: 0,
            clock: 0,
            over: false,
        }));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), false) = (client, look(&shared).over) else { return };
                carry(client, server, &shared);
            }
        });
        Self { port, state }
    }

    /// What a client connects to.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// From now on.
    pub fn set(&self, way: Way) {
        look(&self.state).way = way;
    }

    /// The answer to the next question that has this in it is lost, and its connection with it.
    pub fn lose_answer_to(&self, question: &[u8]) {
        look(&self.state).lose = Some(question.to_vec());
    }

    /// Seconds by which the server's clock is off from now on, for whoever asks through here. (libfaketime and the allocator
    /// of Redis do not get along.)
    pub fn step_clock(&self, seconds: i64) {
        look(&self.state).clock = seconds;
    }

    /// Questions that wait on the way.
    pub fn held(&self) -> u32 {
        look(&self.state).held
    }

    /// Answers lost by [`Proxy::lose_answer_to`].
    pub fn lost(&self) -> u32 {
        look(&self.state).lost
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        look(&self.state).over = true;
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

fn look(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Carries both ways until either side hangs up.
fn carry(client: TcpStream, server: u16, state: &Arc<Mutex<State>>) {
    let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, server)) else { return };
    let (Ok(from_client), Ok(from_server)) = (client.try_clone(), server.try_clone()) else { return };
    let doomed = Arc::new(Mutex::new(false));
    let (there, back) = (Arc::clone(state), Arc::clone(state));
    let dooms = Arc::clone(&doomed);
    std::thread::spawn(move || {
        pump(from_client, server, &there, |state, tail, bytes| {
            tail.extend_from_slice(bytes);
            if state
                .lose
                .as_ref()
                .is_some_and(|question| tail.windows(question.len()).any(|some| some == question))
            {
                state.lose = None;
                *dooms.lock().unwrap_or_else(PoisonError::into_inner) = true;
            }
            let kept = tail.len().saturating_sub(256);
            tail.drain(..kept);
            match state.way {
                Way::Open | Way::OneWay => Verdict::Pass,
                Way::Closed => Verdict::Swallow,
                Way::Slow => {
                    state.held += 1;
                    Verdict::Hold
                }
            }
        });
    });
    std::thread::spawn(move || {
        pump(from_server, client, &back, |state, _, bytes| {
            step(bytes, state.clock);
            if *doomed.lock().unwrap_or_else(PoisonError::into_inner) {
                state.lost += 1;
                Verdict::HangUp
            } else {
                match state.way {
                    Way::Open => Verdict::Pass,
                    Way::Closed | Way::OneWay => Verdict::Swallow,
                    Way::Slow => Verdict::Hold,
                }
            }
        });
    });
}

enum Verdict {
    Pass,
    Swallow,
    Hold,
    HangUp,
}

fn pump(
    mut from: TcpStream,
    mut to: TcpStream,
    state: &Mutex<State>,
    mut judge: impl FnMut(&mut State, &mut Vec<u8>, &mut [u8]) -> Verdict,
) {
    let (mut buffer, mut tail) = (vec![0; 1 << 16], Vec::new());
    // Ends with the test.
    let _ = from.set_read_timeout(Some(Duration::from_millis(200)));
    loop {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => {
                let verdict = judge(&mut look(state), &mut tail, &mut buffer[..length]);
                match verdict {
                    Verdict::Swallow => continue,
                    Verdict::HangUp => break,
                    Verdict::Pass => {}
                    Verdict::Hold => {
                        while look(state).way == Way::Slow && !look(state).over {
                            std::thread::sleep(Duration::from_millis(1));
                        }
                    }
                }
                if to.write_all(&buffer[..length]).is_err() {
                    break;
                }
            }
            Err(error)
                if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) =>
            {
                if look(state).over {
                    break;
                }
            }
            Err(_) => break,
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// Changes the time in an answer that begins with a word and the time, as those of the store's scripts do.
fn step(answer: &mut [u8], seconds: i64) {
    const MARK: &[u8] = b"$10\r\n";
    let Some(at) = answer.windows(MARK.len()).take(24).position(|some| some == MARK) else { return };
    let Some(digits) = answer.get_mut(at + MARK.len()..at + MARK.len() + 10) else { return };
    let said = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<i64>().ok());
    if let Some(said) = said {
        digits.copy_from_slice(format!("{:010}", said + seconds).as_bytes());
    }
}
