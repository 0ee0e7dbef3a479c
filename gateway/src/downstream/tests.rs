use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::*;

const LIMIT: Duration = Duration::from_secs(30);

fn connection() -> (DuplexStream, Connection) {
    let (client, server) = tokio::io::duplex(1_024);
    (client, Connection::new(Box::new(server), LIMIT, 4 << 10))
}

async fn drip(client: &mut DuplexStream, connection: &mut Connection) -> io::Result<u8> {
    client.write_all(b"a").await.unwrap();
    connection.read_u8().await
}

#[tokio::test(start_paused = true)]
async fn bytes_that_come_too_late_end_the_connection() {
    let (mut client, mut connection) = connection();
    for _ in 0..=30 {
        drip(&mut client, &mut connection).await.unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    let error = drip(&mut client, &mut connection).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn an_answer_begins_a_new_request() {
    let (mut client, mut connection) = connection();
    for _ in 0..10 {
        drip(&mut client, &mut connection).await.unwrap();
        tokio::time::advance(LIMIT).await;
        drip(&mut client, &mut connection).await.unwrap();
        connection.write_all(b"answer").await.unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_for_the_first_byte_costs_no_time() {
    let (mut client, mut connection) = connection();
    tokio::time::advance(LIMIT * 10).await;
    drip(&mut client, &mut connection).await.unwrap();
    drip(&mut client, &mut connection).await.unwrap();
}

const HEAD: &[u8] = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";

async fn ends(connection: &mut Connection, after: Duration) {
    let began = Instant::now();
    let error = connection.read_u8().await.unwrap_err();
    assert_eq!((error.kind(), began.elapsed()), (io::ErrorKind::TimedOut, after));
}

#[tokio::test(start_paused = true)]
async fn silence_in_place_of_a_head_ends_the_connection() {
    let (_client, mut silent) = connection();
    ends(&mut silent, LIMIT).await;

    let (mut client, mut connection) = connection();
    client.write_all(b"GE").await.unwrap();
    connection.read_exact(&mut [0; 2]).await.unwrap();
    tokio::time::advance(LIMIT / 3).await;
    client.write_all(b"T").await.unwrap();
    connection.read_exact(&mut [0; 1]).await.unwrap();
    ends(&mut connection, LIMIT - LIMIT / 3).await;
}

#[tokio::test(start_paused = true)]
async fn silence_elsewhere_does_not() {
    let (mut client, mut connection) = connection();
    let mut buffer = [0; 256];
    let mut pieces = vec![HEAD, b"5\r\nhe", b"llo\r\n0\r\n\r\n"];
    pieces.extend([HEAD, b"0\r\n\r\n"]);
    for piece in pieces {
        client.write_all(piece).await.unwrap();
        assert_eq!(connection.read(&mut buffer).await.unwrap(), piece.len());
        assert!(tokio::time::timeout(LIMIT * 10, connection.read_u8()).await.is_err(), "ended in a body");
        connection.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_fault_is_answered_while_there_is_time_and_ends_the_connection_when_there_is_none() {
    let (mut client, mut early) = connection();
    let whole = [HEAD, b"\r\n"].concat();
    client.write_all(&whole).await.unwrap();
    early.read_exact(&mut vec![0; whole.len()]).await.unwrap();
    assert_eq!(early.framing.fault(), Some(Malformed::Chunk));

    let (mut client, mut late) = connection();
    client.write_all(HEAD).await.unwrap();
    late.read_exact(&mut vec![0; HEAD.len()]).await.unwrap();
    assert_eq!(late.framing.fault(), None);
    for _ in 0..2 {
        client.write_all(b"\r\n").await.unwrap();
        let error = late.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
