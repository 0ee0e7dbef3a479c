//! `[limits.join]`: what a first number in a sale costs.

use std::num::NonZeroU32;
use std::time::Duration;

use ipnet::IpNet;

use super::read::Section;
use crate::join_guard::EASIEST_BITS;

/// The hardest proof that may be asked for: 64 times what the default's hardest costs.
const HARDEST_BITS: u8 = 26;

/// How many first numbers a network gets for nothing, and how hard the proofs for more may get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinLimits {
    /// Whether anything is counted and asked for.
    pub enabled: bool,
    /// In which so many are free as follows.
    pub window: Duration,
    /// For an IPv4 address.
    pub ipv4: NonZeroU32,
    /// For all of its /24 together.
    pub ipv4_24: NonZeroU32,
    /// For an IPv6 /64.
    pub ipv6_64: NonZeroU32,
    /// For all of its /56 together.
    pub ipv6_56: NonZeroU32,
    /// Zero bits of the hardest proof.
    pub hardest_bits: u8,
    /// Networks that are not counted.
    pub exempt: Vec<IpNet>,
}

pub(super) fn read(section: &Section<'_>) -> JoinLimits {
    let seconds = Duration::from_secs;
    let count = |key: &'static str, default: u32| {
        let read = section.or(key, default, |item| item.number(1_u32, 1_000_000));
        NonZeroU32::new(read).unwrap_or(NonZeroU32::MIN)
    };
    JoinLimits {
        enabled: section.or("enabled", true, |item| item.bool()),
        window: section.or("window", seconds(600), |item| item.duration_in(seconds(10), seconds(86_400))),
        ipv4: count("ipv4", 100),
        ipv4_24: count("ipv4_24", 1_000),
        ipv6_64: count("ipv6_64", 20),
        ipv6_56: count("ipv6_56", 100),
        hardest_bits: section.or("hardest_bits", 20, |item| item.number(EASIEST_BITS, HARDEST_BITS)),
        exempt: section.list("exempt", |item| item.network()).unwrap_or_default(),
    }
}
