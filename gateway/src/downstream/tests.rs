use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::*;

const LIMIT: Duration = Duration::from_secs(30);

fn connection() -> (DuplexStream, Connection) {
    let (client, server) = tokio::io::duplex(1_024);
    (client, Connection { stream: Box::new(server), limit: LIMIT, began: None })
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
