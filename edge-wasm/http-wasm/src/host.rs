//! The http-wasm ABI (<https://http-wasm.io/http-handler-abi/>), as far as an edge needs it.
//!
//! The library `http-wasm-guest` needs std, which is not to be had without bulk memory operations.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

mod abi {
    #[link(wasm_import_module = "http_handler")]
    unsafe extern "C" {
        pub(super) fn get_config(buffer: *mut u8, limit: usize) -> usize;
        pub(super) fn get_method(buffer: *mut u8, limit: usize) -> usize;
        pub(super) fn get_uri(buffer: *mut u8, limit: usize) -> usize;
        pub(super) fn set_uri(uri: *const u8, length: usize);
        pub(super) fn get_header_names(kind: u32, buffer: *mut u8, limit: usize) -> u64;
        pub(super) fn get_header_values(
            kind: u32,
            name: *const u8,
            name_length: usize,
            buffer: *mut u8,
            limit: usize,
        ) -> u64;
        pub(super) fn set_header_value(
            kind: u32,
            name: *const u8,
            name_length: usize,
            value: *const u8,
            value_length: usize,
        );
        pub(super) fn remove_header(kind: u32, name: *const u8, name_length: usize);
        pub(super) fn write_body(kind: u32, body: *const u8, length: usize);
        pub(super) fn get_status_code() -> u32;
        pub(super) fn set_status_code(status: u32);
        pub(super) fn enable_features(features: u32) -> u32;
        pub(super) fn log(level: i32, message: *const u8, length: usize);
    }

    #[link(wasm_import_module = "wasi_snapshot_preview1")]
    unsafe extern "C" {
        pub(super) fn clock_time_get(clock: u32, precision: u64, time: *mut u64) -> u32;
    }
}

/// Longer values are asked for twice.
const USUAL: usize = 2_048;

/// Whose fields.
#[derive(Clone, Copy)]
pub(crate) enum Message {
    Request = 0,
    Response = 1,
}

pub(crate) fn configuration() -> Vec<u8> {
    // SAFETY: the host writes at most `limit` bytes at `buffer`.
    read(|buffer, limit| unsafe { abi::get_config(buffer, limit) })
}

pub(crate) fn method() -> String {
    // SAFETY: as above.
    text(read(|buffer, limit| unsafe { abi::get_method(buffer, limit) }))
}

/// Path and query.
pub(crate) fn target() -> String {
    // SAFETY: as above.
    text(read(|buffer, limit| unsafe { abi::get_uri(buffer, limit) }))
}

pub(crate) fn set_target(target: &str) {
    // SAFETY: the host reads `length` bytes of a string that outlives the call.
    unsafe { abi::set_uri(target.as_ptr(), target.len()) }
}

/// All fields, each line of one name for itself.
pub(crate) fn fields(message: Message) -> Vec<(String, Vec<u8>)> {
    let mut fields = Vec::new();
    for name in names(message) {
        // SAFETY: as for what is read, and for what the host reads.
        let values = read_list(|buffer, limit| unsafe {
            abi::get_header_values(message as u32, name.as_ptr(), name.len(), buffer, limit)
        });
        fields.extend(values.into_iter().map(|value| (name.clone(), value)));
    }
    fields
}

pub(crate) fn names(message: Message) -> Vec<String> {
    // SAFETY: as for what is read.
    let names = read_list(|buffer, limit| unsafe { abi::get_header_names(message as u32, buffer, limit) });
    names.into_iter().map(text).collect()
}

/// In place of every other line of that name.
pub(crate) fn set(message: Message, name: &str, value: &str) {
    // SAFETY: as for what the host reads.
    unsafe {
        abi::set_header_value(message as u32, name.as_ptr(), name.len(), value.as_ptr(), value.len());
    }
}

pub(crate) fn remove(message: Message, name: &str) {
    // SAFETY: as for what the host reads.
    unsafe { abi::remove_header(message as u32, name.as_ptr(), name.len()) }
}

/// The body of the answer.
pub(crate) fn write_body(body: &str) {
    // SAFETY: as for what the host reads.
    unsafe { abi::write_body(Message::Response as u32, body.as_ptr(), body.len()) }
}

pub(crate) fn status() -> u32 {
    // SAFETY: takes no memory.
    unsafe { abi::get_status_code() }
}

pub(crate) fn set_status(status: u16) {
    // SAFETY: takes no memory.
    unsafe { abi::set_status_code(status.into()) }
}

/// Has the host hold the answer to this request back until it is mended.
pub(crate) fn buffer_response() {
    const BUFFER_RESPONSE: u32 = 2;
    // SAFETY: takes no memory.
    unsafe { abi::enable_features(BUFFER_RESPONSE) };
}

/// An error in the host's log.
pub(crate) fn complain(message: &str) {
    const ERROR: i32 = 2;
    // SAFETY: as for what the host reads.
    unsafe { abi::log(ERROR, message.as_ptr(), message.len()) }
}

/// Unix seconds.
pub(crate) fn now() -> u64 {
    const REALTIME: u32 = 0;
    const SECOND: u64 = 1_000_000_000;
    let mut nanoseconds = 0;
    // SAFETY: the host writes one number.
    unsafe { abi::clock_time_get(REALTIME, SECOND, &raw mut nanoseconds) };
    nanoseconds / SECOND
}

/// What is no UTF-8 is no method, target or name either, and is refused as such.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// The host answers how long the whole is, and writes it if it is within the limit.
fn read(from: impl Fn(*mut u8, usize) -> usize) -> Vec<u8> {
    let mut buffer = vec![0; USUAL];
    let length = from(buffer.as_mut_ptr(), buffer.len());
    let fits = length <= buffer.len();
    buffer.resize(length, 0);
    if !fits {
        from(buffer.as_mut_ptr(), buffer.len());
    }
    buffer
}

/// The same for a list: the answer is the count in the upper half and the length in the lower, and each part ends with a
/// NUL.
fn read_list(from: impl Fn(*mut u8, usize) -> u64) -> Vec<Vec<u8>> {
    const LENGTH: u64 = u32::MAX as u64;
    let bytes = read(|buffer, limit| usize::try_from(from(buffer, limit) & LENGTH).unwrap_or(0));
    let Some(parts) = bytes.strip_suffix(b"\0") else { return Vec::new() };
    parts.split(|byte| *byte == 0).map(ToOwned::to_owned).collect()
}
