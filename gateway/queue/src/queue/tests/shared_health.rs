//! Of gateways that share a sale, the one that sees the shop suffer holds all of them back.

use super::*;

const HEALTHY: TickInput = TickInput { health_limit: Some(100) };

fn tick(rig: &mut Rig, gateway: u64, input: TickInput) -> Changes {
    rig.queue.take_changes();
    rig.queue.share_health(gateway, input, rig.now);
    rig.queue.tick(input, rig.now);
    rig.queue.take_changes()
}

#[test]
fn what_one_gateway_finds_amiss_holds_the_others_until_it_is_well_or_gone() {
    let mut rig = Rig::new(open_sale(100));
    tick(&mut rig, 1, HEALTHY);
    tick(&mut rig, 2, TickInput { health_limit: Some(3) });
    tick(&mut rig, 1, HEALTHY);
    rig.crowd(10);
    assert_eq!(rig.busy(), 3, "the healthy gateway calls more than the other one's shop can take");
    tick(&mut rig, 2, TickInput { health_limit: Some(5) });
    tick(&mut rig, 1, HEALTHY);
    assert_eq!(rig.busy(), 5);

    // The gateway that said so has died, and its word with it.
    rig.now = rig.now.plus(5_000);
    tick(&mut rig, 1, HEALTHY);
    assert_eq!(rig.busy(), 5);
    rig.now = rig.now.plus(1_000);
    tick(&mut rig, 1, HEALTHY);
    assert_eq!(rig.busy(), 10);
}

#[test]
fn a_note_is_written_once_in_two_seconds_and_none_by_the_healthy() {
    let mut rig = Rig::new(open_sale(100));
    tick(&mut rig, 1, HEALTHY);
    let mut written = 0;
    for _ in 0..50 {
        rig.now = rig.now.plus(200);
        assert!(tick(&mut rig, 1, HEALTHY).is_empty());
        written += u32::from(!tick(&mut rig, 2, TickInput { health_limit: Some(3) }).is_empty());
    }
    assert_eq!(written, 5, "in ten seconds");
    assert!(!tick(&mut rig, 2, HEALTHY).is_empty());
    assert!(tick(&mut rig, 2, HEALTHY).is_empty());
}
