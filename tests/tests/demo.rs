//! `ropeline demo`: a whole sale with a crowd, in one process, as a person would start it.

#![allow(clippy::expect_used, reason = "a test: what fails is printed")]

use std::time::Duration;

use ropeline_tests::http;
use ropeline_tests::ports::Port;
use ropeline_tests::process::{Process, binary};
use ropeline_tests::visitor::BROWSER_ACCEPT;
use ropeline_tests::wait::until;

/// More than the demo allows itself.
const LIMIT: Duration = Duration::from_secs(240);

fn start(arguments: &[&str], folder: &tempfile::TempDir) -> Process {
    let temporary = folder.path().to_str().expect("a path of plain text");
    let arguments = ["demo"].iter().chain(arguments);
    Process::start("demo", &binary("ropeline"), arguments, folder.path(), &[("TMPDIR", temporary)])
}

/// What it wrote outside its log.
fn left_behind(folder: &tempfile::TempDir) -> usize {
    std::fs::read_dir(folder.path()).expect("the folder").count() - 1
}

#[tokio::test]
async fn a_scripted_shopper_and_a_crowd_live_through_a_whole_sale() {
    let (port, folder) = (Port::free(), tempfile::tempdir().expect("a folder"));
    let arguments = ["--once", "--shoppers", "150", "--seed", "1", "--port", &port.number().to_string()];
    let mut demo = start(&arguments, &folder);
    let status = demo.ended(LIMIT).await;
    let log = demo.log();
    assert!(status.success(), "it ended with {status}");
    for step in ["join again: the same ticket", "claim again: the same bytes", "It is yours", "\nok\n"] {
        assert!(log.contains(step), "nothing of {step:?} in the log");
    }
    assert_eq!(left_behind(&folder), 0, "it left something in its temporary folder");
}

#[tokio::test]
async fn the_shop_stays_open_until_it_is_told_to_end_and_leaves_nothing_behind() {
    let (port, folder) = (Port::free(), tempfile::tempdir().expect("a folder"));
    let mut demo = start(&["--shoppers", "20", "--port", &port.number().to_string()], &folder);
    demo.listening(port.address()).await;
    let page = format!("http://{}/products/sneaker", port.address());
    let client = http::client();
    until("the room stands in for the product page", async || {
        let answer = client.get(&page).header("accept", BROWSER_ACCEPT).send().await.ok()?;
        answer.text().await.ok()?.contains("id=\"room\"").then_some(())
    })
    .await;
    let status = demo.stop(LIMIT).await;
    assert!(status.success(), "it ended with {status}");
    assert_eq!(left_behind(&folder), 0, "it left something in its temporary folder");
}
