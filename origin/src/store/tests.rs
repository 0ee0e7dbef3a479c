//! What the books promise, tried on each back end.

mod bench;
mod events;
mod keys;
mod numbered;
mod outbox;
mod sale;
mod stops;

use bench::Bench;

/// Each of these, on one back end. A test gets a [`Bench`] of its own, where there are no books yet.
macro_rules! on {
    ($backend:ident; $($module:ident: $($test:ident),+;)+; $($of:ident: $property:ident;)+) => {
        mod $backend {
            use super::Bench;
            $($(
                #[tokio::test]
                async fn $test() {
                    super::$module::$test(&Bench::$backend()).await;
                }
            )+)+
            $(
                #[test]
                fn $property() {
                    super::$of::$property(&Bench::$backend());
                }
            )+
        }
    };
}

/// Each of these, on each back end.
macro_rules! suite {
    (tests { $($module:ident: $($test:ident),+;)+ } properties { $($of:ident: $property:ident;)+ }) => {
        on!(sqlite; $($module: $($test),+;)+; $($of: $property;)+);
        on!(postgres; $($module: $($test),+;)+; $($of: $property;)+);
    };
}

suite! {
    tests {
    events:
        every_outcome_is_told_once_to_each_sink_in_order,
        nobody_is_told_where_nobody_listens;
    keys:
        a_clock_that_is_set_back_leaves_no_payment_waiting,
        a_key_in_flight_is_left_to_its_node_until_the_lease_is_over,
        a_settled_purchase_is_answered_whatever_the_lease,
        answers_are_forgotten_after_three_days_but_no_call_that_is_under_way,
        events_are_forgotten_after_thirty_days,
        what_the_payment_service_calls_a_purchase_is_kept;
    numbered:
        chosen_units_go_all_or_nothing_and_come_back_together,
        money_that_moved_as_the_hold_ended_buys_other_units_unless_they_were_chosen,
        money_that_moved_as_the_hold_ended_comes_back_where_too_few_units_are_left,
        money_that_moved_as_the_hold_ended_buys_no_unit_that_was_taken_off_sale;
    outbox:
        a_clock_that_is_set_back_leaves_no_event_waiting,
        events_of_one_aggregate_are_taken_one_after_the_other,
        a_limit_takes_what_is_due_for_longest,
        a_lease_that_is_over_is_taken_over_and_who_had_it_has_no_say,
        the_dead_let_others_pass_and_are_sent_again_when_somebody_says_so,
        what_waits_is_counted_for_each_sink,
        takers_that_fail_and_die_keep_the_order_and_lose_nothing;
    sale:
        the_end_of_a_hold_agrees_with_the_state_machine,
        a_total_can_grow_but_not_below_what_is_taken,
        money_that_moved_as_the_hold_ended_buys_another_unit_if_there_is_one,
        what_is_shut_because_its_hold_is_over_was_refused_by_nobody,
        a_writer_that_commits_no_more_is_unhealthy;
    stops:
        a_product_whose_books_differ_is_stopped_until_they_add_up,
        a_unit_that_is_not_set_aside_is_not_sold_until_the_books_are_mended;
    }
    properties {
        sale: any_sale_s_books_add_up_after_every_step;
        numbered: any_sale_of_numbered_units_gives_each_to_one;
    }
}
