//! A real Chromium, driven over WebDriver.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fantoccini::{Client, ClientBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::http;
use crate::ports::Port;
use crate::process::Process;

/// Whether pages may run scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JavaScript {
    /// They may.
    On,
    /// They may not, as for shoppers who block scripts.
    Off,
}

/// What the browser shows on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Screen {
    /// 1,280 × 900.
    Desktop,
    /// 390 × 844, with a phone's touch and pixel density.
    Phone,
}

/// Whether sites may keep cookies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cookies {
    /// They may.
    Kept,
    /// They may not, as for shoppers who block all of them.
    Blocked,
}

/// What kind of shopper sits before the browser: scripts, cookies, a large screen and English unless told otherwise.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    /// What it shows on.
    pub screen: Screen,
    /// Whether scripts run.
    pub javascript: JavaScript,
    /// Whether cookies are kept.
    pub cookies: Cookies,
    /// The language the shopper reads, as a tag ("de").
    pub language: &'static str,
}

/// A browser with a profile of its own: nothing in it outlives this value, and nothing came before it.
#[derive(Debug)]
pub struct Browser {
    /// The WebDriver client: pages, elements, clicks.
    pub client: Client,
    driver: Process,
    address: SocketAddr,
    setup: Setup,
    _port: Port,
    folder: TempDir,
}

// === impl Setup ===

impl Default for Setup {
    fn default() -> Self {
        Self { screen: Screen::Desktop, javascript: JavaScript::On, cookies: Cookies::Kept, language: "en" }
    }
}

// === impl Browser ===

impl Browser {
    /// Starts a driver and a browser.
    ///
    /// # Panics
    /// When Chromium or its driver is not installed, or does not start.
    pub async fn open(setup: Setup) -> Self {
        let driver = find("the Chromium driver", &["chromedriver"]);
        let folder = tempfile::tempdir().expect("a folder for the profile");
        let port = Port::free();
        let address = port.address();
        let argument = format!("--port={}", port.number());
        let mut driver = Process::start("chromedriver", &driver, [argument], folder.path(), &[]);
        driver.listening(address).await;
        let client = session(&driver, address, setup, folder.path()).await;
        Self { client, driver, address, setup, _port: port, folder }
    }

    /// Closes the browser with all its windows and opens it again on the same profile.
    pub async fn reopen(&mut self) {
        self.client.clone().close().await.expect("the end of the session");
        self.client = session(&self.driver, self.address, self.setup, self.folder.path()).await;
    }

    /// What pages and the browser have written to the console since this was asked last.
    pub async fn console(&self) -> Vec<Value> {
        let session = self.client.session_id().await.expect("a session").expect("its id");
        let url = format!("http://{}/session/{session}/se/log", self.address);
        let answer =
            http::client().post(url).json(&json!({ "type": "browser" })).send().await.expect("an answer");
        let document: Value = answer.json().await.expect("a document");
        document["value"].as_array().unwrap_or_else(|| panic!("no console: {document}")).clone()
    }

    /// Keeps what the page looks like now as `target/screenshots/NAME.png`.
    pub async fn screenshot(&self, name: &str) -> PathBuf {
        let picture = self.client.screenshot().await.expect("a screenshot");
        let test = std::env::current_exe().expect("the path of this test");
        let folder = test.ancestors().nth(3).expect("target/PROFILE/deps/TEST").join("screenshots");
        fs::create_dir_all(&folder).expect("a folder for screenshots");
        let path = folder.join(format!("{name}.png"));
        fs::write(&path, picture).expect("a screenshot file");
        path
    }

    /// What the driver has logged.
    pub fn log(&self) -> String {
        self.driver.log()
    }
}

impl Drop for Browser {
    /// Has the driver end its browser and itself: killing the driver alone would leave the browser behind.
    fn drop(&mut self) {
        let Ok(mut stream) = TcpStream::connect(self.address) else { return };
        let request =
            format!("GET /shutdown HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address);
        let limit = Some(Duration::from_secs(10));
        if stream.set_read_timeout(limit).is_ok() && stream.write_all(request.as_bytes()).is_ok() {
            // The answer, or the end of the connection, says that the sessions are closed.
            let _ = stream.read_to_end(&mut Vec::new());
        }
    }
}

async fn session(driver: &Process, address: SocketAddr, setup: Setup, folder: &Path) -> Client {
    let capabilities = json!({
        "browserName": "chrome",
        "acceptInsecureCerts": true,
        "goog:chromeOptions": options(setup, folder),
        "goog:loggingPrefs": { "browser": "ALL" },
    });
    let capabilities = capabilities.as_object().expect("an object").clone();
    ClientBuilder::new(HttpConnector::new())
        .capabilities(capabilities)
        .connect(&format!("http://{address}"))
        .await
        .unwrap_or_else(|error| panic!("no browser session: {error}\n{}", driver.log()))
}

fn options(setup: Setup, folder: &Path) -> Value {
    /// What Chromium calls a permission that is never given.
    const BLOCK: u8 = 2;
    let chromium = find("Chromium", &["chromium", "chromium-browser", "google-chrome"]);
    let profile = format!("--user-data-dir={}", folder.join("profile").display());
    let size = match setup.screen {
        Screen::Desktop => "--window-size=1280,900",
        Screen::Phone => "--window-size=390,844",
    };
    let mut options = json!({
        "binary": chromium,
        "args": [
            "--headless=new",
            // Its sandbox needs privileges that a container or a root user does not have; it visits only our pages.
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--no-proxy-server",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            profile,
            size,
        ],
        "prefs": { "intl.accept_languages": setup.language },
    });
    if setup.javascript == JavaScript::Off {
        options["prefs"]["profile.managed_default_content_settings.javascript"] = json!(BLOCK);
    }
    if setup.cookies == Cookies::Blocked {
        options["prefs"]["profile.managed_default_content_settings.cookies"] = json!(BLOCK);
    }
    if setup.screen == Screen::Phone {
        options["mobileEmulation"] = json!({
            "deviceMetrics": { "width": 390, "height": 844, "pixelRatio": 3.0, "touch": true },
        });
    }
    options
}

/// The first of `names` on the `PATH`.
fn find(what: &str, names: &[&str]) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .flat_map(|folder| names.iter().map(move |name| folder.join(name)))
        .find(|candidate| candidate.is_file())
        .unwrap_or_else(|| panic!("{what} is not installed; `scripts/setup.sh test` installs it"))
}
