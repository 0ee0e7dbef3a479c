use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};

use super::*;

#[test]
fn a_port_is_given_out_once() {
    let ports: Vec<_> = (0..500).map(|_| Port::free()).collect();
    let mut numbers: Vec<_> = ports.iter().map(Port::number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), ports.len());
}

#[test]
fn a_port_is_given_out_again_when_it_is_given_back_and_not_while_somebody_listens_on_it() {
    let port = Port::free();
    let number = port.number();
    assert!(Port::claim(number).is_none());
    let listener = TcpListener::bind(port.address()).unwrap();
    drop(port);
    assert!(Port::claim(number).is_none(), "somebody listens there");
    drop(listener);
    assert!(Port::claim(number).is_some());
}

/// Another process has a port until it ends, and no longer, however it ends.
#[test]
fn another_process_is_given_no_port_that_is_had() {
    let mut other = holder();
    let mut line = String::new();
    let mut said = BufReader::new(other.stdout.take().unwrap());
    let number = loop {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "the other process has ended");
        if let Some((_, number)) = line.split_once("it has ") {
            break number.trim().parse::<u16>().unwrap();
        }
    };
    assert!(TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok(), "nobody listens there yet");
    assert!(Port::claim(number).is_none());
    other.kill().unwrap();
    other.wait().unwrap();
    assert!(Port::claim(number).is_some());
}

/// This test again, as a process of its own with other folders, that has a port until its input ends.
fn holder() -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tests::has_a_port", "--ignored", "--nocapture"])
        .env("TMPDIR", "/nowhere")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
#[ignore = "the other process of the test before"]
fn has_a_port() {
    let port = Port::free();
    println!("it has {}", port.number());
    let _ = std::io::stdin().read(&mut [0]);
}
